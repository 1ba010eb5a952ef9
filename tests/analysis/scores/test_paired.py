"""Paired comparisons against brute force over every sign, SciPy's permutation test, and a loop over resamples."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import permutation_test

from analysis.scores.metrics import METRICS, evaluate_metrics
from analysis.scores.paired import (
    PairedDifference,
    control_false_discoveries,
    paired_table,
    permutation_p_value,
)
from analysis.scores.scoring import SELECTION_SCORES, Scored, mean_score, resample_weights

#: Steps of 0.1, so that confidences tie within and between methods.
N = 8
MEANS = (*SELECTION_SCORES, "accuracy", "brier", "nll")


@pytest.fixture(scope="module")
def two() -> tuple[Scored, Scored]:
    rng = np.random.default_rng(4)
    confidence = rng.integers(1, 10, (2, N)) / 10
    correct = np.array([[1, 1, 0, 1, 1, 0, 0, 1], [1, 0, 0, 1, 1, 1, 0, 1]], bool)
    state = rng.uniform(0.1, 1, (2, N))
    return Scored(confidence[0], correct[0], state[0]), Scored(confidence[1], correct[1], state[1])


def every_score(scored: Scored) -> dict[str, float]:
    selection = {name: float(mean_score(of_each(scored))[0]) for name, of_each in SELECTION_SCORES.items()}
    own = scored.answered
    return selection | {name: value.item() for name, value in evaluate_metrics(own.confidence, own.correct).items()}


def paired_differences(first: Scored, second: Scored, **settings: object) -> dict[str, PairedDifference]:
    rows = paired_table(first, second, **settings).set_index("metric").iterrows()
    return {name: PairedDifference(**row) for name, row in rows}


class TestDifferences:
    def test_equal_a_loop_over_shared_resamples(self, two):
        first, second = two
        found = paired_differences(first, second, seed=5, n_resamples=60, level=0.8)
        replicates = []
        for row in resample_weights(N, 60, 5):
            drawn = np.repeat(np.arange(N), row)
            own, other = (every_score(one.select(drawn)) for one in two)
            replicates.append({name: other[name] - own[name] for name in own})
        for name, one in found.items():
            values = np.array([replicate[name] for replicate in replicates])
            point = [every_score(each)[name] for each in two]
            assert one[:3] == pytest.approx((*point, point[1] - point[0]))
            assert one[3:5] == pytest.approx(np.nanquantile(values, [0.1, 0.9]), abs=1e-6), name
            assert one.n_undefined == np.isnan(values).sum(), name
        assert found["auroc"].n_undefined > 0

    def test_change_sign_with_the_order_and_are_none_of_a_method_with_itself(self, two):
        there, back, itself = (
            paired_differences(*pair, seed=2, n_resamples=60) for pair in (two, two[::-1], (two[0], two[0]))
        )
        for name, one in there.items():
            other = back[name]
            assert one.difference == -other.difference
            assert (one.low, one.high) == pytest.approx((-other.high, -other.low), nan_ok=True)
            assert one.p_value == pytest.approx(other.p_value, nan_ok=True)
            assert itself[name][2:5] == (0, 0, 0)
            assert itself[name].p_value == pytest.approx(1 if name in MEANS else math.nan, nan_ok=True)

    def test_are_undefined_without_questions_and_for_one_class(self):
        empty = Scored(np.zeros(0), np.zeros(0, bool))
        for one in paired_differences(empty, empty, seed=0, n_resamples=9).values():
            assert one == pytest.approx(PairedDifference(*[math.nan] * 5, 9, math.nan), nan_ok=True)
        pair = (Scored(np.array(stated), np.ones(2, bool)) for stated in ([0.4, 0.9], [0.7, 0.8]))
        right = paired_differences(*pair, seed=0, n_resamples=9)
        assert math.isnan(right["auroc"].difference)
        assert right["brier"].p_value > 0

    def test_unanswered_questions_count_for_what_sees_the_selected_answer(self, two):
        first, second = two
        gap = Scored(np.where(np.arange(N) < 3, np.nan, first.confidence), first.correct)
        found = paired_differences(gap, second, seed=5, n_resamples=20)
        assert math.isnan(found["log_score"].difference), "one states no distribution"
        filled = np.where(np.arange(N) < 3, 0, first.correct - (first.confidence - first.correct) ** 2)
        assert found["benefit"].first == pytest.approx(filled.mean())
        assert found["benefit"].second == pytest.approx(
            np.mean(second.correct - (second.confidence - second.correct) ** 2)
        )
        kept = np.arange(3, N)
        alone = paired_differences(first.select(kept), second.select(kept), seed=5, n_resamples=20)
        assert [found[name] for name in ("brier", "nll")] == [alone[name] for name in ("brier", "nll")]

    def test_a_cluster_is_one_draw_and_one_sign(self, two):
        copies = [one._replace(cluster=np.arange(N)).select(np.tile(np.arange(N), 4)) for one in two]
        alone = paired_table(*two, seed=6, n_resamples=60)
        clustered = paired_table(*copies, seed=6, n_resamples=60)
        kept = alone["metric"] != "adaptive_ece"  # whose cuts are rounded to whole questions
        pd.testing.assert_frame_equal(clustered[kept], alone[kept])

    def test_the_table_holds_the_metrics_asked_for_and_unusable_input_is_named(self, two):
        whole = paired_table(*two, seed=7, n_resamples=30)
        assert whole["metric"].tolist() == [name for name in (*SELECTION_SCORES, *METRICS) if name != "mean_confidence"]
        some = paired_table(*two, metrics=["nll", "auroc"], seed=7, n_resamples=30)
        expected = whole.set_index("metric").loc[["nll", "auroc"]].reset_index()
        pd.testing.assert_frame_equal(some, expected)
        for settings, message in (({"level": 95.0}, "level is 95"), ({"n_resamples": 0}, "n_resamples is 0")):
            with pytest.raises(ValueError, match=message):
                paired_differences(*two, seed=0, **settings)
        with pytest.raises(ValueError, match="8 and 7 questions; expected the same"):
            paired_differences(two[0], two[0].select(np.arange(1, N)), seed=0)


class TestPermutation:
    def test_approaches_the_share_over_all_signs_and_scipy(self):
        difference = np.random.default_rng(0).normal(0.3, 1, 9).round(1)
        sums = [np.dot(signs, difference) for signs in itertools.product([1, -1], repeat=9)]
        exact = np.mean(np.abs(sums) >= abs(difference.sum()) - 1e-12)
        theirs = permutation_test((difference,), np.mean, permutation_type="samples", n_resamples=np.inf)
        assert theirs.pvalue == pytest.approx(exact)
        n = 50_000
        found = permutation_p_value(difference, seed=1, n_permutations=n)
        assert found == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / n) + 2 / n)

    def test_means_alone_have_one(self, two):
        found = paired_differences(*two, seed=4, n_resamples=4000)
        assert {name for name, one in found.items() if not math.isnan(one.p_value)} == set(MEANS)
        loss = {
            "brier": [(one.confidence - one.correct) ** 2 for one in two],
            "nll": [-np.log(np.where(one.correct, one.confidence, 1 - one.confidence)) for one in two],
            "accuracy": [one.correct.astype(float) for one in two],
            "log_score": [-np.log(one.state_probability) for one in two],
        }
        for name, (own, other) in loss.items():
            exact = permutation_test((other - own,), np.mean, permutation_type="samples", n_resamples=np.inf)
            assert found[name].p_value == pytest.approx(exact.pvalue, abs=0.032)  # 4 standard errors

    def test_finds_a_real_difference_and_none_where_there_is_none(self):
        right = np.arange(60) < 40
        sharp, vague = Scored(np.where(right, 0.9, 0.2), right), Scored(np.full(60, 0.67), right)
        found = paired_table(vague, sharp, metrics=["brier", "auroc"], seed=0, n_resamples=199)
        assert found["p_value"].tolist() == pytest.approx([1 / 200, math.nan], nan_ok=True)
        assert (found["difference"] * [-1, 1] > 0).all()
        assert permutation_p_value(np.zeros(7), seed=0) == 1
        assert math.isnan(permutation_p_value(np.zeros(0), seed=0))
        # Equal but for rounding: 0.1 + 0.2 - 0.3 is not 0 in floating point.
        assert permutation_p_value(np.array([0.1, 0.2, -0.3]), seed=0) == 1
        with pytest.raises(ValueError, match="n_permutations is 0"):
            permutation_p_value(np.array([0.1]), seed=0, n_permutations=0)


class TestFalseDiscoveries:
    def test_is_the_step_up_procedure(self):
        p = np.random.default_rng(0).random(30) ** 3
        ranked = np.sort(p)
        for q in (0.01, 0.05, 0.2):
            below = np.flatnonzero(ranked <= q * np.arange(1, 31) / 30)
            limit = ranked[below[-1]] if len(below) else -1.0
            np.testing.assert_array_equal(control_false_discoveries(p) <= q, p <= limit)

    def test_undefined_ones_do_not_count(self):
        p = np.array([[0.01, math.nan], [0.5, 0.02]])
        found = control_false_discoveries(p)
        assert math.isnan(found[0, 1])
        np.testing.assert_allclose(found[~np.isnan(p)], control_false_discoveries([0.01, 0.5, 0.02]))
        assert control_false_discoveries([]).shape == (0,)
        assert np.isnan(control_false_discoveries([math.nan])).all()
        with pytest.raises(ValueError, match=r"0.*1"):
            control_false_discoveries([0.2, 1.2])
