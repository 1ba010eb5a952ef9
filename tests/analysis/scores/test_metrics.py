"""Metrics against scikit-learn, brute force, closed forms, and the figures of the released implementation."""

import math
import warnings
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from analysis.scores import metrics
from analysis.scores.calibration import binned_reliability
from analysis.scores.metrics import MIN_CONFIDENCE, N_BINS, N_CELLS, evaluate_metrics
from analysis.scores.selective import by_threshold, risk_coverage

RANKING = ("auroc", "pr_positive", "pr_negative")
STATED = st.one_of(st.integers(0, 20).map(lambda step: step / 20), st.floats(0, 1))


def metric(name: str, confidence: object, correct: object) -> float:
    return evaluate_metrics(confidence, correct, names=[name])[name].item()


def clip(confidence: np.ndarray) -> np.ndarray:
    return np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)


@st.composite
def counted_questions(draw: st.DrawFn, max_size: int = 40, stated: st.SearchStrategy[float] = STATED):
    """Draw confidences with many ties, correctness, and two replicates of counts."""
    n = draw(st.integers(1, max_size))
    confidence = draw(arrays(float, n, elements=stated))
    return confidence, draw(arrays(bool, n)), draw(arrays(int, (2, n), elements=st.integers(0, 3)))


@given(counted_questions())
def test_metrics_agree_with_scikit_learn(questions):
    confidence, correct, weight = questions
    assume(all(0 < row @ correct < row.sum() for row in weight))
    ours, clipped = evaluate_metrics(confidence, correct, weight), clip(confidence)
    for replicate, row in enumerate(weight):
        expected = {
            "accuracy": np.average(correct, weights=row),
            "mean_confidence": np.average(clipped, weights=row),
            "brier": brier_score_loss(correct, clipped, sample_weight=row),
            "nll": log_loss(correct, clipped, sample_weight=row),
            "auroc": roc_auc_score(correct, clipped, sample_weight=row),
            "pr_positive": average_precision_score(correct, clipped, sample_weight=row),
            "pr_negative": average_precision_score(~correct, 1 - clipped, sample_weight=row),
        }
        for name, value in expected.items():
            assert ours[name][replicate] == pytest.approx(value, abs=1e-12), name


@given(counted_questions(), st.randoms(use_true_random=False))
def test_metrics_take_a_weight_for_repeats_and_rows_in_any_order(questions, random):
    confidence, correct, weight = questions
    weighted = evaluate_metrics(confidence, correct, weight)
    order = random.sample(range(len(correct)), len(correct))
    shuffled = evaluate_metrics(confidence[order], correct[order], weight[:, order])
    for name, value in weighted.items():
        tolerance = 1e-6 if name == "smece" else 1e-12
        np.testing.assert_allclose(shuffled[name], value, atol=tolerance, err_msg=name)
        for replicate, row in enumerate(weight):
            repeated = metric(name, np.repeat(confidence, row), np.repeat(correct, row))
            assert value[replicate] == pytest.approx(repeated, abs=tolerance, nan_ok=True), name


@given(counted_questions())
def test_metrics_by_bins_agree_with_a_loop_and_the_gaps_of_the_diagram(questions):
    confidence, correct, _ = questions
    clipped = clip(confidence)
    residual = correct - clipped
    # No clipped confidence is on the left edge of the first bin.
    in_bins = [(clipped > b / N_BINS) & (clipped <= (b + 1) / N_BINS) for b in range(N_BINS)]
    by_width = sum(abs(residual[in_bin].sum()) for in_bin in in_bins) / len(residual)
    assert metric("ece", confidence, correct) == pytest.approx(by_width, abs=1e-12)
    bins = binned_reliability(confidence, correct)
    gaps = bins["n"] * (bins["right"] - bins["probability"]).abs()
    assert gaps.sum() / len(residual) == pytest.approx(by_width, abs=1e-12)
    mean_of_equals = np.array([residual[clipped == value].mean() for value in clipped])
    in_order = mean_of_equals[sorted(range(len(residual)), key=clipped.__getitem__)]
    cuts = [round(b * len(residual) / N_BINS) for b in range(N_BINS + 1)]
    by_rank = sum(abs(in_order[a:b].sum()) for a, b in pairwise(cuts)) / len(residual)
    assert metric("adaptive_ece", confidence, correct) == pytest.approx(by_rank, abs=1e-12)


def test_metrics_by_bins_put_a_confidence_on_an_edge_into_the_bin_below():
    for percent in range(101):
        own_bin = max(0, math.ceil(percent / 10) - 1)
        confidence = clip(percent / 100)
        for other_bin in range(10):
            centre = (2 * other_bin + 1) / 20
            opposed = abs(1 - confidence - centre) if other_bin == own_bin else 1 - confidence + centre
            assert metric("ece", [percent / 100, centre], [True, False]) == pytest.approx(opposed / 2, abs=1e-12)
    bins = binned_reliability(np.array([0.0, 0.1, 0.1000001, 0.3, 0.30001, 0.7, 1.0]), np.ones(7, bool))
    assert bins["n"].tolist() == [2, 1, 1, 1, 0, 0, 1, 0, 0, 1]
    assert bins["low"].tolist() == pytest.approx(np.arange(10) / 10)
    assert bins["high"].tolist() == pytest.approx(np.arange(1, 11) / 10)
    assert (bins.iloc[:, 3:].isna().all(axis=1) == (bins["n"] == 0)).all()


@pytest.mark.parametrize("k", [0, 3, 12])
def test_metrics_by_bins_have_intervals_by_wilsons_equation(k):
    row = binned_reliability(np.full(12, 0.55), np.arange(12) < k, level=0.9).iloc[5]
    share, z = k / 12, norm.ppf(0.95)
    # |share - p| = z sqrt(p (1 - p) / n), squared, is a quadratic in p.
    roots = sorted(np.roots([1 + z**2 / 12, -2 * share - z**2 / 12, share**2]).real)
    assert (row["right"], row["right_low"], row["right_high"]) == pytest.approx((share, *roots), abs=1e-9)


@pytest.mark.parametrize("outcome", [False, True])
def test_metrics_of_one_class_lack_the_ranking_and_of_no_question_everything(outcome):
    values = evaluate_metrics([0.2, 0.9, 0.9], [outcome] * 3)
    assert {name for name, value in values.items() if np.isnan(value).all()} == set(RANKING)
    assert np.isnan([*evaluate_metrics([], []).values()]).all()
    uncounted = evaluate_metrics([0.2, 0.9], [outcome, True], [[0, 0], [1, 1]])
    for name, value in uncounted.items():
        np.testing.assert_array_equal(np.isnan(value), [True, name in RANKING and outcome], err_msg=name)
    assert metric("nll", [1, 0], [False, True]) == pytest.approx(-math.log(MIN_CONFIDENCE))
    assert metric("auroc", [1, 1 - MIN_CONFIDENCE / 2], [True, False]) == 0.5


def test_metrics_are_the_same_alone_among_all_and_in_chunks(monkeypatch):
    rng = np.random.default_rng(3)
    confidence, correct, weight = rng.random(7), rng.random(7) < 0.6, rng.integers(0, 3, (5, 7))
    whole = evaluate_metrics(confidence, correct, weight)
    for name, value in whole.items():
        np.testing.assert_array_equal(evaluate_metrics(confidence, correct, weight, [name])[name], value)
    monkeypatch.setattr(metrics, "_CHUNK_ENTRIES", 14)
    for name, value in evaluate_metrics(confidence, correct, weight).items():
        np.testing.assert_allclose(value, whole[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("confidence", "correct", "weight", "message"),
    [
        ([0.5, 0.5], [1], None, r"confidence has shape \(2,\), correct has shape \(1,\)"),
        ([[0.5]], [[1]], None, r"shape \(1, 1\)"),
        ([0.5, math.nan], [1, 0], None, "1 of 2 confidences are NaN; leave out unanswered"),
        ([0.5, 85], [1, 0], None, "confidence holds 85.0; expected 0 to 1"),
        ([0.5, 0.5], [1, 2], None, "correct holds 2.0"),
        ([0.5, 0.5], [1, math.nan], None, "correct holds nan"),
        ([0.5, 0.5], [1, 0], [1, 1], r"weight has shape \(2,\); expected \(replicate, 2\)"),
        ([0.5, 0.5], [1, 0], [[1, -1]], "weight holds -1"),
        ([0.5, 0.5], [1, 0], [[1, 0.5]], "weight holds 0.5"),
    ],
)
def test_metrics_name_unusable_input(confidence, correct, weight, message):
    with pytest.raises(ValueError, match=message):
        evaluate_metrics(confidence, correct, weight)


@pytest.mark.parametrize("name", ["strong", "mid", "weak", "train"])
def test_metrics_reproduce_the_released_figures(name: str, golden: Path) -> None:
    predictions = pd.read_parquet(golden / f"{name}.predictions.parquet")
    figures = pd.read_csv(golden / f"{name}.metrics.csv", index_col="method")
    for method, rows in predictions.groupby("method"):
        ours = {name: value.item() for name, value in evaluate_metrics(rows.confidence, rows.correct).items()}
        # the released code cuts equal confidences in their order in the file
        in_order = clip(rows.confidence) - 1e-12 * np.arange(len(rows))[::-1]
        ours["adaptive_ece"] = metric("adaptive_ece", in_order, rows.correct)
        expected = figures.drop(columns="n").loc[method].to_dict()
        assert {name: ours[name] for name in expected} == pytest.approx(expected, abs=1e-9), method


def integrated_smece(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Find smECE from its definition, the reflections written out as mirror images."""
    confidence = clip(confidence)
    residual = (correct - confidence) / len(confidence)
    position = (np.arange(4000) + 0.5) / 4000
    images = np.concatenate([2 * turn + sign * confidence for turn in range(-4, 5) for sign in (1, -1)])

    def excess(sigma: float) -> float:
        near = (images > -8 * sigma) & (images < 1 + 8 * sigma)
        kernel = norm.pdf(position[:, None], images[near], sigma)
        return float(np.abs(kernel @ np.tile(residual, 18)[near]).mean() - sigma)

    return float(brentq(excess, 1e-3, 1, xtol=1e-7))


class TestSmoothError:
    @given(confidence=st.floats(0, 1), n_correct=st.integers(0, 10))
    def test_one_stated_confidence_has_its_mean_residual(self, confidence, n_correct):
        residual = n_correct / 10 - clip(confidence)
        assert metric("smece", np.full(10, confidence), np.arange(10) < n_correct) == pytest.approx(
            abs(residual), abs=1e-12
        )

    @settings(max_examples=8)
    @given(counted_questions(30))
    def test_agrees_with_direct_integration(self, questions):
        confidence, correct, _ = questions
        value = metric("smece", confidence, correct)
        if value > 0.005:
            assert value == pytest.approx(integrated_smece(confidence, correct), abs=2e-5)

    @given(counted_questions(30))
    def test_bounds_and_the_complement(self, questions):
        confidence, correct, _ = questions
        value, residual = metric("smece", confidence, correct), correct - clip(confidence)
        assert abs(residual.mean()) - 1e-9 <= value <= np.abs(residual).mean() + 1e-9
        assert metric("smece", 1 - confidence, ~correct) == pytest.approx(value, abs=1e-6)

    def test_opposite_residuals_closer_than_a_cell_keep_their_moment(self):
        # A quarter and minus a quarter: a dipole of moment m, for which smECE_sigma = m sqrt(2/pi) / sigma.
        gap = 0.02 / N_CELLS
        expected = math.sqrt(gap / 4 * math.sqrt(2 / math.pi))
        assert metric("smece", [0.5 - gap / 2, 0.5 + gap / 2], [True, False]) == pytest.approx(expected, abs=1e-5)

    @pytest.mark.parametrize("n", [20, 1000])
    @pytest.mark.parametrize("power", [1.0, 0.4, 2.5], ids=["calibrated", "under", "over"])
    def test_agrees_with_the_package_of_its_authors(self, n, power):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            relplot = pytest.importorskip("relplot")
        rng = np.random.default_rng(n)
        high = 1 - np.minimum(rng.exponential(0.1, n), 0.9)
        for confidence in map(clip, (rng.random(n), rng.integers(1, 10, n) / 10, high)):
            correct = rng.random(n) < confidence**power
            theirs = relplot.smECE(confidence, correct.astype(float))
            # They search in steps of 1/1024, integrate on 200 points or more and cut the kernel off at 1/2.
            assert metric("smece", confidence, correct) == pytest.approx(theirs, abs=2e-3)


class TestSelective:
    @settings(max_examples=40)
    @given(counted_questions(6, st.sampled_from([0.0, 0.25, 0.5, 1.0])))
    def test_ties_are_averaged_over_every_order(self, questions):
        confidence, correct, _ = questions
        risks = []
        for order in permutations(range(len(confidence))):
            if (np.diff(confidence[list(order)]) <= 0).all():
                errors = np.cumsum(~correct[list(order)])
                risks.append(errors / np.arange(1, len(errors) + 1))
        np.testing.assert_allclose(risk_coverage(confidence, correct)["risk"], np.mean(risks, axis=0), atol=1e-12)

    def test_the_curve(self):
        curve = risk_coverage(np.array([0.5, 0.9, 0.5, 0.2]), np.array([False, True, True, False]))
        assert curve["accepted"].tolist() == [1, 2, 3, 4]
        assert curve["coverage"].tolist() == [0.25, 0.5, 0.75, 1]
        assert curve["threshold"].tolist() == [0.9, 0.5, 0.5, 0.2]
        assert curve["attainable"].tolist() == [True, False, True, True]
        np.testing.assert_allclose(curve["risk"], [0, 0.5 / 2, 1 / 3, 2 / 4])
        np.testing.assert_allclose(curve["accuracy"], 1 - curve["risk"])
        # confidences beyond the clip are tied, and without questions nothing is defined
        assert risk_coverage(np.array([1.0, 1 - 1e-9]), np.array([True, False]))["risk"].tolist() == [0.5, 0.5]
        assert len(risk_coverage(np.zeros(0), np.zeros(0, bool))) == 0

    def test_how_many_reach_a_threshold(self):
        """Of nine right answers, an interval of probability .9 has ends with a tail of .05 each."""
        confidence, correct = np.array([0.4, *9 * [0.8]]), np.array([False, *9 * [True]])
        table = by_threshold(confidence, correct, 0.9).set_index("threshold")
        assert table["labelled"].tolist() == [10, 9, 9, 9, 9, 0, 0]
        assert table["right"][[0.0, 0.8]].tolist() == [0.9, 1.0]
        assert (table.loc[0.8, "low"], table.loc[0.8, "high"]) == (pytest.approx(0.05 ** (1 / 9)), 1.0)
        assert table.loc[0.95, ["right", "low", "high"]].isna().all()
