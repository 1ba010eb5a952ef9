"""Where the labelled questions come from, what is refused, and what is said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.abstention import answer
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import cross_fit, fit_map
from bayes_direag.fits.threshold import choose_threshold
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations

EVERYTHING = simulate_observations(n=420, seed=6)
FITTED, LABELLED, NEW = (EVERYTHING.select(slice(start, start + 140)) for start in (0, 140, 280))


#: Recalibrated on the fitting questions, which takes a fit and not six.
PRESET = presets.preset("bayes", recalibration={"out_of_fold": 0})


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(FITTED, preset=PRESET)


def unlabelled(observations: Observations, which: slice) -> Observations:
    labelled = observations.labelled.copy()
    labelled[which] = False
    return replace(observations, labelled=labelled, correct=observations.correct & labelled[:, None])


def scored(fit: Fit, observations: Observations) -> tuple[np.ndarray, np.ndarray]:
    predictions = fit.predict(observations)
    return predictions["probability"].to_numpy(), observations.is_right(predictions["answer"])


def test_labelled_questions_given_decide(fit: Fit) -> None:
    predictions = fit.predict(NEW)
    found = answer(fit, NEW, LABELLED, target_accuracy=0.6)
    expected = choose_threshold(*scored(fit, LABELLED), predictions["probability"].to_numpy(), target=0.6)
    assert found.decision == expected
    assert found.source == "given"
    assert found.n_not_new == found.n_unusable == 0
    assert expected.n_answered > 0
    assert found.table["answered"].sum() == expected.n_answered
    assert found.table.drop(columns="answered").equals(predictions)
    assert found.record()["reason"] is None


def test_labels_of_the_new_questions_do_not_matter(fit: Fit) -> None:
    bare = unlabelled(NEW, slice(None))
    given = answer(fit, NEW, LABELLED, target_accuracy=0.7)
    assert answer(fit, bare, LABELLED, target_accuracy=0.7).decision == given.decision


def test_labelled_questions_of_the_file_itself_decide(fit: Fit) -> None:
    """Labelled, unlabelled and fitted questions in one file: three parts, of which one is decided about."""
    both = unlabelled(EVERYTHING, slice(280, None))
    found = answer(fit, both, target_accuracy=0.7)
    assert found.source == "of the file itself"
    assert found.n_not_new == 280
    expected = answer(fit, NEW, LABELLED, target_accuracy=0.7)
    assert found.decision == expected.decision
    assert found.table["answered"].to_numpy()[280:].tolist() == expected.table["answered"].tolist()


@pytest.mark.slow
def test_a_map_without_others_is_cross_fitted(fit: Fit) -> None:
    found = answer(fit, NEW, target_accuracy=0.5)  # whose labels are all known, and not looked at
    confidence, right = np.full(140, np.nan), np.zeros(140, bool)
    for held_out in cross_fit(FITTED, n_folds=5, preset=PRESET, seed=0):
        confidence[held_out.index] = held_out.predictions["probability"]
        right[held_out.index] = FITTED.select(held_out.index).is_right(held_out.predictions["answer"])
    expected = choose_threshold(confidence, right, fit.predict(NEW)["probability"].to_numpy(), target=0.5)
    assert found.decision == expected
    assert found.source == "of the fit"


def test_a_posterior_without_others_is_left_one_out(fit: Fit) -> None:
    rng = np.random.default_rng(2)
    confidence, correct = rng.random(140), rng.random(140) < 0.9
    tree = fit.tree.copy()
    left_out = {"probability": confidence, "correct": correct}
    tree["loo"] = xr.DataTree(xr.Dataset({name: ("problem", values) for name, values in left_out.items()}))
    sampled = Fit(tree)
    expected = choose_threshold(confidence, correct, sampled.predict(NEW)["probability"].to_numpy(), target=0.7)
    found = answer(sampled, NEW, target_accuracy=0.7).decision
    assert found.n_answered == expected.n_answered > 0
    assert found.threshold == pytest.approx(expected.threshold)
    assert found.n_labelled_wrong == expected.n_labelled_wrong


def test_questions_without_a_usable_report_are_never_answered(fit: Fit) -> None:
    first = np.arange(140) < 5
    silent = replace(
        NEW,
        status=np.where(first[:, None], Status.ABSENT, NEW.status),
        candidate=np.where(first[:, None], -1, NEW.candidate),
        candidates=((),) * 5 + NEW.candidates[5:],
    )
    found = answer(fit, silent, LABELLED, target_accuracy=0.5)
    assert found.decision.n_answered > 0
    assert found.n_unusable == 5
    assert found.decision.n_new == 135
    assert not found.table["answered"][:5].any()


def test_no_threshold_is_said_with_its_reason(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    few = answer(fit, NEW, LABELLED.select(slice(0, 3)), target_accuracy=0.6)
    assert not few.table["answered"].any()
    assert "there are 3" in few.text()
    assert few.record()["threshold"] is None
    predict = Fit.predict

    def modestly(fit: Fit, observations: Observations, **settings: float) -> pd.DataFrame:
        table = predict(fit, observations, **settings)
        return table.assign(probability=table["probability"].clip(upper=0.8))

    monkeypatch.setattr(Fit, "predict", modestly)
    many = answer(fit, NEW, LABELLED, target_accuracy=0.9)
    assert many.reason == "The probabilities themselves do not promise that accuracy at any threshold."


def test_questions_are_taken_in_any_form_and_intervals_at_any_level(fit: Fit) -> None:
    found = answer(fit, NEW.to_frame(), LABELLED.to_frame(), target_accuracy=0.6, interval_level=0.5)
    expected = answer(fit, NEW, LABELLED, target_accuracy=0.6)
    assert found.decision == expected.decision
    pd.testing.assert_frame_equal(found.table, expected.table)  # a MAP has no intervals
    with pytest.raises(DirEAGError, match="interval level 5"):
        answer(fit, NEW, LABELLED, target_accuracy=0.6, interval_level=5.0)


def test_one_question_of_each_cluster_counts(fit: Fit) -> None:
    """Each question four times over, in a cluster: the decision is that without the copies, and is given to them."""

    def copied(observations: Observations) -> Observations:
        names = observations.problem_id
        return replace(
            observations.select(np.tile(np.arange(len(names)), 4)),
            problem_id=tuple(f"{name}-{copy}" for copy in range(4) for name in names),
            cluster=names * 4,
        )

    new, labelled = copied(NEW), copied(LABELLED)
    found = answer(fit, new, labelled, target_accuracy=0.6)
    single = answer(fit, NEW, LABELLED, target_accuracy=0.6)
    assert found.decision.n_answered > 0
    assert found.decision == single.decision
    assert found.table["answered"].tolist() == single.table["answered"].tolist() * 4
    assert found.n_clustered == 3 * 140


def test_a_question_that_vouches_for_itself_is_refused(fit: Fit) -> None:
    with pytest.raises(DirEAGError, match=r"10 of 20 labelled questions cannot be used"):
        answer(fit, NEW, EVERYTHING.select(slice(130, 150)), target_accuracy=0.8)
    with pytest.raises(DirEAGError, match=r"10 of 20 labelled questions cannot be used"):
        answer(fit, NEW, EVERYTHING.select(slice(270, 290)), target_accuracy=0.8)
    unknown = unlabelled(EVERYTHING, slice(0, 140))
    assert answer(fit, NEW, unknown.select(slice(100, 280)), target_accuracy=0.8).decision.n_labelled == 140


@pytest.mark.parametrize(
    ("new", "labelled", "target", "said"),
    [
        (FITTED, LABELLED, 0.8, "140 labelled questions with a usable report, and 0 new ones"),
        (NEW, unlabelled(LABELLED, slice(None)), 0.8, "0 labelled questions with a usable report, and 140 new ones"),
        (NEW, LABELLED, 95.0, "target accuracy 95"),
    ],
)
def test_what_decides_nothing_is_refused(
    new: Observations, labelled: Observations, target: float, said: str, fit: Fit
) -> None:
    with pytest.raises(DirEAGError, match=said):
        answer(fit, new, labelled, target_accuracy=target)
