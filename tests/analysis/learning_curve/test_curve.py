"""What is measured, for which methods, labels and splits, and in which order."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from analysis.learning_curve import curve
from analysis.learning_curve.curve import CURVE_METRICS, RESULT_TYPES, asked_for, draw_splits, measured, no_results
from analysis.methods import direag
from analysis.methods.method import Answerer, Answers, Learner, Method
from analysis.methods.registry import CURVE_METHODS
from analysis.methods.rules import majority
from analysis.scores.metrics import smooth_ece
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import SamplerSummary, sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, made_posterior

OBSERVATIONS = simulate_observations(150, seed=5)
SPLITS = draw_splits(OBSERVATIONS, [20, 50], n_splits=3, seed=2)
CHEAP = ("majority", "majority_platt", "vote_logistic")


STEPS: list[str] = []


@pytest.fixture(scope="module")
def everything() -> pd.DataFrame:
    return pd.concat(measured(OBSERVATIONS, SPLITS, CHEAP, on_step=STEPS.append), ignore_index=True)


def test_a_row_for_every_method_number_of_labels_and_split(everything: pd.DataFrame) -> None:
    table = everything
    assert table.dtypes.astype(str).to_dict() == RESULT_TYPES
    keys = set(zip(table["method"], table["n_labels"], table["split"], strict=True))
    assert keys == {(method, n, split) for method in CHEAP for n in (20, 50) for split in range(3)}
    assert len(table) == 18
    assert (table["n_test"] == 100).all()
    assert len(STEPS) == 18
    assert STEPS[0] == "majority, 20 labels, split 1 of 3 (1 of 18)"
    assert STEPS[-1] == "vote_logistic, 50 labels, split 3 of 3 (18 of 18)"


def test_the_metrics_are_those_of_the_test_questions(everything: pd.DataFrame) -> None:
    table = everything.set_index(["method", "n_labels", "split"])
    labelled = OBSERVATIONS.select(SPLITS.learned(1, 50))
    tested = OBSERVATIONS.select(SPLITS.tested(1))
    for source in ("majority", "vote_logistic"):
        method = CURVE_METHODS[source]
        confidence, correct, *_ = method.answer(method.learn(labelled, 0), tested).scored(tested)
        row = table.loc[(source, 50, 1)]
        clipped = np.clip(confidence, 0.01, 0.99)
        assert row["nll"] == pytest.approx(log_loss(correct, clipped, labels=[0, 1]))
        assert row["brier"] == pytest.approx(brier_score_loss(correct, confidence), abs=1e-5)
        assert row["auroc"] == pytest.approx(roc_auc_score(correct, confidence))
        assert row["accuracy_of_all"] == pytest.approx(correct.mean())
        assert row["benefit"] == pytest.approx(correct.mean() - brier_score_loss(correct, confidence), abs=1e-5)
        assert row["smece"] == pytest.approx(
            smooth_ece(np.clip(confidence, 1e-6, 1 - 1e-6), correct.astype(float), np.ones((1, 100)))[0], abs=1e-5
        )
        halves = [log_loss(correct[half], clipped[half], labels=[0, 1]) for half in (slice(50), slice(50, None))]
        assert row["nll_gap"] == pytest.approx(halves[0] - halves[1])
        assert row["accuracy_of_all_gap"] == pytest.approx(correct[:50].mean() - correct[50:].mean())


def test_what_learns_nothing_is_the_same_with_any_number_of_labels(everything: pd.DataFrame) -> None:
    table = everything
    metrics = [*CURVE_METRICS, *(f"{name}_gap" for name in CURVE_METRICS)]
    few, many = (
        table[(table["method"] == "majority") & (table["n_labels"] == n)][metrics].to_numpy() for n in (20, 50)
    )
    np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("n_done", [7, 18])
def test_a_run_goes_on_where_it_was_broken_off(n_done: int, everything: pd.DataFrame) -> None:
    before = everything.iloc[:n_done]
    rest = list(measured(OBSERVATIONS, SPLITS, CHEAP, done=before))
    # Where one method of a source is there and its sister is not, only the sister is added.
    found = pd.concat([before, *rest], ignore_index=True)
    assert len(found) == 18
    pd.testing.assert_frame_equal(asked_for(found, SPLITS, CHEAP), asked_for(everything, SPLITS, CHEAP))


def stand_in(monkeypatch: pytest.MonkeyPatch, **learners: Learner) -> None:
    """Let these, by name, be all the methods of a curve."""
    monkeypatch.setattr(curve, "SIMPLE_METHODS", {name: Method(learner) for name, learner in learners.items()})
    monkeypatch.setattr(curve, "preset_methods", lambda _: {})


def test_one_class_has_no_auroc_and_what_is_unanswered_no_benefit(monkeypatch: pytest.MonkeyPatch) -> None:
    def right_or_silent(tested: Observations) -> Answers:
        answered = np.where(tested.gold_generated, tested.correct_candidate.argmax(axis=1), -1)
        return Answers(answered, np.where(answered >= 0, 0.9, np.nan))

    stand_in(monkeypatch, oracle=lambda *_: right_or_silent)
    first = next(measured(OBSERVATIONS, SPLITS, ["oracle"])).iloc[0]
    assert np.isnan(first[["auroc", "auroc_gap", "log_score"]].astype(float)).all()
    assert first["nll"] == pytest.approx(-np.log(0.9))
    generated = OBSERVATIONS.select(SPLITS.tested(0)).gold_generated
    assert 0 < generated.mean() < 1
    assert first["accuracy_of_all"] == pytest.approx(generated.mean())
    assert first["benefit"] == pytest.approx(0.99 * generated.mean())
    assert first["benefit_gap"] == pytest.approx(0.99 * (generated[:50].mean() - generated[50:].mean()))


def test_slow_methods_come_last_and_get_a_seed_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def learner(name: str) -> Learner:
        def learn(_: Observations, seed: int) -> Answerer:
            asked.append((name, seed))
            return majority

        return learn

    stand_in(monkeypatch, nuts_bayes=learner("nuts_bayes"), majority=learner("majority"))
    list(measured(OBSERVATIONS, SPLITS, ["nuts_bayes", "majority"], seed=10))
    assert [name for name, _ in asked] == ["majority"] * 6 + ["nuts_bayes"] * 6
    assert [seed for _, seed in asked[:3]] == [10, 11, 12]


def test_how_sampling_went_stands_beside_every_method_that_rests_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit_nuts(subset: Observations, **_: object) -> Fit:
        return made_posterior(subset, gaussian_draws(1, n_chains=2, n_draws=40), calibrated=(0.3, 0.8))

    monkeypatch.setattr(direag, "fit_nuts", fit_nuts)
    table = next(measured(OBSERVATIONS, SPLITS, ["nuts_bayes", "nuts_bayes_calibrated"]))
    expected = sampler_summary(fit_nuts(OBSERVATIONS.select(SPLITS.learned(0, 20))))
    for row in table[list(SamplerSummary._fields)].itertuples(index=False):
        assert tuple(row) == pytest.approx(expected)


def test_more_than_asked_for_is_left_out(everything: pd.DataFrame) -> None:
    found = asked_for(
        everything, draw_splits(OBSERVATIONS, [20, 50], n_splits=2, seed=2), ["vote_logistic", "majority"]
    )
    assert found["method"].unique().tolist() == ["vote_logistic", "majority"]
    assert found["split"].unique().tolist() == [0, 1]
    assert found["n_labels"].tolist() == [20, 20, 50, 50] * 2
    assert no_results().dtypes.astype(str).to_dict() == RESULT_TYPES


@pytest.fixture(scope="module")
def observations() -> Observations:
    """Return 200 usable questions beside ten that are not labelled and one that is not answered."""
    simulated = [*simulate_observations(150, seed=4).questions, *simulate_observations(150, seed=5).questions[:60]]
    hidden = [question.model_copy(update={"gold_answer": None}) for question in simulated[:10]]
    silent = Question(problem_id="silent", gold_answer="3", observations=())
    return Observations.from_questions([*hidden, *simulated[10:], silent], answers="numeric")


def test_labels_are_nested_and_tests_are_common_and_never_learned_from(observations: Observations) -> None:
    splits = draw_splits(observations, [60, 20, 100, 20], n_splits=5, seed=1)
    assert splits.label_counts == (20, 60, 100)
    assert (splits.n_usable, splits.n_test, splits.tested_share) == (200, 100, 0.5)
    usable = set(np.flatnonzero(observations.labelled & observations.answered).tolist())
    for split in range(5):
        learned = [set(splits.learned(split, n).tolist()) for n in splits.label_counts]
        tested = set(splits.tested(split).tolist())
        assert [len(part) for part in (*learned, tested)] == [20, 60, 100, 100]
        assert learned[0] < learned[1] < learned[2]
        assert not learned[2] & tested
        assert learned[2] | tested == usable


def test_splits_differ_and_more_of_them_leave_the_first_as_they_are(observations: Observations) -> None:
    few, many = (draw_splits(observations, [50], n_splits=n, seed=7).order for n in (2, 4))
    np.testing.assert_array_equal(many[:2], few)
    assert len({tuple(row) for row in many.tolist()}) == 4
    assert not np.array_equal(draw_splits(observations, [50], n_splits=2, seed=8).order, few)


def test_what_the_file_cannot_hold_is_left_out_with_the_reason(observations: Observations) -> None:
    splits = draw_splits(observations, [30, 100, 101], n_splits=2, seed=0)
    assert splits.label_counts == (30, 100)
    assert splits.left_out == {101: "200 usable questions hold at most 100 beside the 100 kept for testing"}


def test_a_fifth_of_many_questions_is_kept(observations: Observations) -> None:
    usable = np.flatnonzero(observations.labelled & observations.answered)
    splits = draw_splits(observations.select(np.tile(usable, 3)), [30, 480, 481], n_splits=2, seed=0)
    assert splits.n_test == 120
    assert "at most 480 beside the 120" in splits.left_out[481]


@pytest.mark.parametrize(
    ("counts", "n_splits", "says"),
    [
        ([], 2, "numbers of labels: saw none"),
        ([0, 30], 2, "numbers of labels: saw 0, 30"),
        ([30], 1, "saw 1 splits; expected at least 2"),
        ([101, 300], 2, "101 labels: 200 usable questions hold at most 100"),
    ],
)
def test_refusals(observations: Observations, counts: list[int], n_splits: int, says: str) -> None:
    with pytest.raises(DirEAGError, match=says):
        draw_splits(observations, counts, n_splits=n_splits, seed=0)


def test_no_tested_question_is_of_a_cluster_that_was_learned_from() -> None:
    cluster = np.random.default_rng(0).integers(0, 40, 200)
    observations = replace(simulate_observations(200, seed=1), cluster=tuple(map(str, cluster)))
    splits = draw_splits(observations, [20, 61], n_splits=6, seed=0)
    for split in range(6):
        learned, tested = splits.learned(split, 61), splits.tested(split)
        assert not set(cluster[learned]) & set(cluster[tested])
        assert len(learned) == 61
        size = np.bincount(cluster).max()
        assert splits.n_test - size < len(tested) <= splits.n_test
        pieces = np.flatnonzero(np.diff(cluster[splits.order[split]])).size + 1
        assert pieces == len(set(cluster.tolist()))
        assert sorted(splits.order[split]) == list(range(200))


def test_clusters_of_one_change_nothing() -> None:
    observations = simulate_observations(150, seed=1)
    alone, clustered = (
        draw_splits(replace(observations, cluster=cluster), [30], n_splits=2, seed=0)
        for cluster in (None, ("alone", *[None] * 149))
    )
    np.testing.assert_array_equal(alone.order, clustered.order)
    np.testing.assert_array_equal(alone.tested(1), clustered.tested(1))
