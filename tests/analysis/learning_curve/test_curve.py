"""What is measured, for which methods, labels and splits, and in which order."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from analysis.learning_curve import curve
from analysis.learning_curve.curve import CURVE_METRICS, RESULT_TYPES, asked_for, measured, no_results
from analysis.learning_curve.methods import Learned, learn
from analysis.learning_curve.splits import draw_splits
from analysis.scores.paired import Scored
from analysis.scores.smooth_ece import smooth_ece
from bayes_direag.data.observations import Observations
from bayes_direag.fits.convergence import SamplerSummary
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations

OBSERVATIONS = simulate_observations(150, seed=5)
SPLITS = draw_splits(OBSERVATIONS, [20, 50], n_splits=3, seed=2)
CHEAP = ("majority", "majority_platt", "vote_logistic")


def whole(**options: object) -> pd.DataFrame:
    return pd.concat(measured(OBSERVATIONS, SPLITS, CHEAP, **options), ignore_index=True)


def test_a_row_for_every_method_number_of_labels_and_split() -> None:
    steps: list[str] = []
    table = whole(on_step=steps.append)
    assert table.dtypes.astype(str).to_dict() == RESULT_TYPES
    keys = set(zip(table["method"], table["n_labels"], table["split"], strict=True))
    assert keys == {(method, n, split) for method in CHEAP for n in (20, 50) for split in range(3)}
    assert len(table) == 18
    assert (table["n_test"] == 100).all()
    # Both methods of one source come from one piece of work.
    assert len(steps) == 12
    assert steps[0] == "majority, 20 labels, split 1 of 3 (1 of 12)"
    assert steps[-1] == "vote_logistic, 50 labels, split 3 of 3 (12 of 12)"


def test_the_metrics_are_those_of_the_test_questions() -> None:
    table = whole().set_index(["method", "n_labels", "split"])
    labelled = OBSERVATIONS.select(SPLITS.learned(1, 50))
    tested = OBSERVATIONS.select(SPLITS.tested(1))
    for source in ("majority", "vote_logistic"):
        confidence, correct = learn(source, labelled, tested, sampling=None, seed=0).said[source]
        row = table.loc[(source, 50, 1)]
        clipped = np.clip(confidence, 0.01, 0.99)
        assert row["nll"] == pytest.approx(log_loss(correct, clipped, labels=[0, 1]))
        assert row["brier"] == pytest.approx(brier_score_loss(correct, confidence), abs=1e-5)
        assert row["auroc"] == pytest.approx(roc_auc_score(correct, confidence))
        assert row["accuracy"] == pytest.approx(correct.mean())
        assert row["smece"] == pytest.approx(
            smooth_ece(np.clip(confidence, 1e-6, 1 - 1e-6), correct.astype(float), np.ones((1, 100)))[0], abs=1e-5
        )
        halves = [log_loss(correct[half], clipped[half], labels=[0, 1]) for half in (slice(50), slice(50, None))]
        assert row["nll_gap"] == pytest.approx(halves[0] - halves[1])
        assert row["accuracy_gap"] == pytest.approx(correct[:50].mean() - correct[50:].mean())


def test_what_learns_nothing_is_the_same_with_any_number_of_labels() -> None:
    table = whole()
    metrics = [*CURVE_METRICS, *(f"{name}_gap" for name in CURVE_METRICS)]
    few, many = (
        table[(table["method"] == "majority") & (table["n_labels"] == n)][metrics].to_numpy() for n in (20, 50)
    )
    np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("n_done", [1, 7, 18])
def test_a_run_goes_on_where_it_was_broken_off(n_done: int) -> None:
    everything = whole()
    before = everything.iloc[:n_done]
    rest = list(measured(OBSERVATIONS, SPLITS, CHEAP, done=before))
    # Where one method of a source is there and its sister is not, only the sister is added.
    found = pd.concat([before, *rest], ignore_index=True)
    assert len(found) == 18
    pd.testing.assert_frame_equal(asked_for(found, SPLITS, CHEAP), asked_for(everything, SPLITS, CHEAP))


def test_one_class_has_no_auroc(monkeypatch: pytest.MonkeyPatch) -> None:
    def always_right(_: str, __: Observations, tested: Observations, **___: object) -> Learned:
        return Learned({"majority": Scored(np.full(len(tested), 0.9), np.ones(len(tested), bool))})

    monkeypatch.setattr(curve, "learn", always_right)
    first = next(measured(OBSERVATIONS, SPLITS, ["majority"]))
    assert np.isnan(first[["auroc", "auroc_gap"]].to_numpy()).all()
    assert first["nll"].item() == pytest.approx(-np.log(0.9))


def test_slow_methods_come_last_and_get_a_seed_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def stand_in(source: str, _: Observations, tested: Observations, *, sampling: object, seed: int) -> Learned:
        asked.append((source, sampling, seed))
        said = Scored(np.full(len(tested), 0.5), np.arange(len(tested)) % 3 > 0)
        return Learned({"nuts_bayes_calibrated": said, "majority": said}, SamplerSummary(1.01, 500.0, 0.9, 2))

    sampling = SamplingSettings(n_chains=2)
    monkeypatch.setattr(curve, "learn", stand_in)
    methods = ["nuts_bayes_calibrated", "majority"]
    tables = list(measured(OBSERVATIONS, SPLITS, methods, sampling=sampling, seed=10))
    assert [source for source, _, _ in asked] == ["majority"] * 6 + ["nuts_bayes"] * 6
    assert [seed for _, _, seed in asked[:3]] == [10, 11, 12]
    assert {one for _, one, _ in asked} == {sampling}
    assert tables[-1][list(SamplerSummary._fields)].to_numpy().tolist() == [[1.01, 500.0, 0.9, 2.0]]


def test_more_than_asked_for_is_left_out() -> None:
    found = asked_for(whole(), draw_splits(OBSERVATIONS, [20, 50], n_splits=2, seed=2), ["vote_logistic", "majority"])
    assert found["method"].unique().tolist() == ["vote_logistic", "majority"]
    assert found["split"].unique().tolist() == [0, 1]
    assert found["n_labels"].tolist() == [20, 20, 50, 50] * 2
    assert no_results().dtypes.astype(str).to_dict() == RESULT_TYPES
