"""The fold rule against one written from its statement."""

import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError
from bayes_direag.fits import fitting
from bayes_direag.fits.fitting import cross_fit, fit_map, train_test
from bayes_direag.fits.folds import assign_folds, hashed_folds
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations

#: Votes alone, calibrated in sample.
COUNT = presets.preset("paper", "count", recalibration={"split": 0})


def dealt(n: int, n_folds: int, seed: int) -> list[list[int]]:
    """Shuffle the indices and deal them like cards."""
    cards = list(range(n))
    random.Random(seed).shuffle(cards)
    return [cards[place::n_folds] for place in range(n_folds)]


counts = st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n)))


@given(counts, st.integers(0, 2**32))
def test_the_rule(count, seed):
    n, n_folds = count
    fold = assign_folds(n, n_folds, seed)
    hands = dealt(n, n_folds, seed)
    assert [sorted(hand) for hand in hands] == [np.flatnonzero(fold == number).tolist() for number in range(n_folds)]


@given(counts, st.integers(0, 2**32), st.data())
def test_clusters_are_dealt_whole_and_evenly(count, seed, data):
    n, n_folds = count
    cluster = np.array(data.draw(st.lists(st.integers(0, n), min_size=n, max_size=n)))
    names, sizes = np.unique(cluster, return_counts=True)
    if len(names) < n_folds:
        with pytest.raises(DirEAGError, match=f"{n} usable questions in {len(names)} clusters .* a cluster for each"):
            assign_folds(n, n_folds, seed, cluster)
        return
    fold = assign_folds(n, n_folds, seed, cluster)
    assert all(len(set(fold[cluster == name])) == 1 for name in names)
    filled = np.bincount(fold, minlength=n_folds)
    assert filled.min() > 0
    assert filled.max() - filled.min() <= sizes.max()


@given(counts, st.integers(0, 2**32))
def test_clusters_of_one_question_are_dealt_like_questions(count, seed):
    n, n_folds = count
    alone = np.random.default_rng(seed).permutation(n)
    np.testing.assert_array_equal(assign_folds(n, n_folds, seed, alone), assign_folds(n, n_folds, seed))


@pytest.mark.parametrize(
    ("n", "n_folds", "remedy"), [*((n, 5, "fewer") for n in (0, 1, 4)), *((10, n, "more") for n in (1, 0, -3))]
)
def test_too_few_questions_or_folds(n, n_folds, remedy):
    said = rf"cannot deal {n} usable questions into {n_folds} folds; expected at least two folds.*{remedy} folds"
    with pytest.raises(DirEAGError, match=said):
        assign_folds(n, n_folds, 0)


def with_golds(observations: Observations, golds: dict[int, str | None]) -> Observations:
    """Return the observations with some questions' gold answers replaced."""
    questions = [
        question.model_copy(update={"gold_answer": golds.get(i, question.gold_answer)})
        for i, question in enumerate(observations.questions)
    ]
    return Observations.from_questions(questions, answers="numeric")


def test_corrupting_the_golds_of_evaluated_questions_changes_nothing(simulated: Observations) -> None:
    honest = presets.preset("paper", recalibration={"split": 0, "out_of_fold": 2})
    before = cross_fit(simulated, n_folds=2, preset=presets.preset(honest, "count"), seed=2)
    for number, one in enumerate(before):
        wrong = {int(i): ["123456789", simulated.candidates[i][0], None][int(i) % 3] for i in one.index}
        corrupted = with_golds(simulated, wrong)
        assert (corrupted.correct[one.index] != simulated.correct[one.index]).any()
        after = cross_fit(corrupted, n_folds=2, preset=presets.preset(honest, "count"), seed=2)[number]
        assert after.index.tolist() == one.index.tolist()
        # a label of weight 0 may still change the order in which numbers are added up
        pd.testing.assert_frame_equal(after.predictions, one.predictions, rtol=1e-11, atol=0)


def test_every_answered_question_is_predicted_once_in_file_order(simulated: Observations) -> None:
    silent = Question(problem_id="silent", gold_answer="1", observations=())
    questions = [*simulated.questions[:50], silent, *simulated.questions[50:]]
    everything = Observations.from_questions(questions, answers="numeric")
    folds = cross_fit(everything, n_folds=3, seed=0)
    assert [one.fold for one in folds] == ["0", "1", "2"]
    assert sorted(np.concatenate([one.index for one in folds])) == [i for i in range(len(everything)) if i != 50]
    for one in folds:
        assert (np.diff(one.index) > 0).all()
        assert one.predictions["problem_id"].tolist() == [everything.problem_id[i] for i in one.index]
        seen = set(one.fit.tree["constant_data"]["problem"].to_numpy().tolist())
        assert seen.isdisjoint(one.predictions["problem_id"])
        assert len(seen) + len(one.index) == len(simulated)


def test_an_answered_question_without_gold_is_predicted_and_teaches_nothing(simulated: Observations) -> None:
    hidden = with_golds(simulated, dict.fromkeys(range(0, len(simulated), 5)))
    folds = cross_fit(hidden, n_folds=3, seed=0)
    assert sum(len(one.index) for one in folds) == len(simulated)
    for one in folds:
        seen = set(one.fit.tree["constant_data"]["problem"].to_numpy().tolist())
        assert seen.isdisjoint(hidden.problem_id[i] for i in range(0, len(simulated), 5))


def test_train_test_evaluates_the_test_set_alone(simulated: Observations) -> None:
    train, test = simulated.select(slice(0, 150)), simulated.select(slice(150, None))
    (one,) = train_test(train, test)
    assert one.fold == "test"
    assert one.predictions["problem_id"].tolist() == list(test.problem_id)
    without_golds = with_golds(test, dict.fromkeys(range(len(test))))
    (again,) = train_test(train, without_golds)
    pd.testing.assert_frame_equal(again.predictions, one.predictions, check_exact=True)


def test_a_question_in_both_sets_is_an_error(simulated: Observations) -> None:
    train, test = simulated.select(slice(0, 100)), simulated.select(slice(98, 150))
    with pytest.raises(DirEAGError, match="2 of 52 test questions are also in the training set, 'simulated-5-000098'"):
        train_test(train, test)


def clustered(observations: Observations, size: int) -> Observations:
    """Return the observations in clusters, the questions of each far apart in the file."""
    n = -(-len(observations) // size)
    return replace(observations, cluster=tuple(f"c{row % n}" for row in range(len(observations))))


def test_a_cluster_in_both_sets_is_an_error(simulated: Observations) -> None:
    whole = clustered(simulated, 2)
    with pytest.raises(DirEAGError, match=r"30 clusters have questions in the training set .* 'c0' is one"):
        train_test(whole.select(slice(0, 90)), whole.select(slice(90, 150)))
    apart = replace(whole, cluster=(*whole.cluster[:120], *[None] * 120))
    (one,) = train_test(apart.select(slice(0, 90)), apart.select(slice(120, None)))
    assert len(one.index) == apart.select(slice(120, None)).answered.sum()


def test_a_fold_learns_nothing_from_the_clusters_that_it_predicts(simulated: Observations) -> None:
    whole = clustered(simulated, 4)
    number = whole.cluster_number
    for held_out in cross_fit(whole, n_folds=3, seed=2):
        learned = np.flatnonzero([name in held_out.fit.learned_from for name in whole.problem_id])
        assert not set(number[held_out.index]) & set(number[learned])
        assert held_out.fit.fitted.cluster == whole.select(learned).cluster


def test_the_final_calibration_is_learned_without_the_cluster(simulated: Observations) -> None:
    some = simulated.select(slice(0, 60))
    preset = presets.preset("bayes", recalibration={"out_of_fold": 4})
    alone = fit_map(some, preset=preset)
    as_one = fit_map(replace(some, cluster=("all",) * 60), preset=preset)
    in_sample = fit_map(some, preset=presets.preset(preset, recalibration={"out_of_fold": 0}))
    each = fit_map(replace(some, cluster=some.problem_id), preset=preset)
    support = np.array([[0.3, 0.8]])
    finals = [fit.recalibration.of_selected(support) for fit in (alone, each, as_one, in_sample)]
    np.testing.assert_array_equal(finals[0], finals[1])
    np.testing.assert_allclose(finals[2], finals[3], rtol=1e-6)
    assert np.abs(finals[0] - finals[2]).max() > 1e-3


def test_the_order_of_questions_changes_nothing(simulated: Observations) -> None:
    some = simulated.select(slice(0, 90))
    in_clusters = replace(some, cluster=tuple(f"c{row % 20}" if row < 60 else None for row in range(90)))
    for observations in (some, in_clusters):
        order = np.random.default_rng(3).permutation(90)
        once, again = fit_map(observations), fit_map(observations.select(order))
        expected = once.predict(observations)["probability"]
        np.testing.assert_allclose(again.predict(observations)["probability"], expected, rtol=1e-9)
        other = fit_map(observations, seed=1).predict(observations)["probability"]
        assert np.abs(other - expected).max() > 1e-6


@given(st.integers(10, 40), st.integers(2, 5), st.integers(0, 9))
def test_the_folds_of_the_final_calibration_are_even(n, n_folds, seed):
    observations = simulate_observations(n, seed=1)
    chosen = np.arange(n) > 0
    fold = hashed_folds(observations, chosen, n_folds, seed)
    assert fold[0] == -1
    filled = np.bincount(fold[1:], minlength=n_folds)
    assert filled.max() - filled.min() <= 1


def test_nuts_is_handed_what_a_mode_is_handed(simulated: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of several folds nor of a training set the questions that are predicted."""
    some, seen = simulated.select(slice(0, 60)), []
    mode = fit_map(some, preset=COUNT)
    monkeypatch.setattr(
        fitting, "fit_nuts", lambda given, **settings: seen.append((given.problem_id, settings)) or mode
    )
    options = {"method": "nuts", "preset": COUNT, "seed": 2}
    folds = cross_fit(some, n_folds=3, **options) + train_test(some, simulated.select(slice(60, 90)), **options)
    for one, (names, settings) in zip(folds, seen, strict=True):
        assert list(names) == [name for name in some.problem_id if name not in set(one.predictions["problem_id"])]
        assert (settings["preset"], settings["seed"]) == (COUNT, 2)
        assert settings["sampling"] is None
