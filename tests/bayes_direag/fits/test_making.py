"""The fold rule against one written from its statement, and what cross-fitting learns from."""

import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits import making
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import assign_folds, hashed_folds
from bayes_direag.fits.making import cross_fit, fit_map, fit_nuts, train_test
from bayes_direag.model import presets
from bayes_direag.model.settings import FitSettings

#: Votes alone, calibrated in sample.
COUNT = presets.preset("paper", "count", recalibration={"split": 0})
COUNTS = st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n)))


class TestFolds:
    @given(COUNTS, st.integers(0, 2**32))
    def test_questions_are_dealt_like_cards(self, count, seed):
        n, n_folds = count
        cards = list(range(n))
        random.Random(seed).shuffle(cards)
        fold = assign_folds(n, n_folds, seed)
        assert [np.flatnonzero(fold == k).tolist() for k in range(n_folds)] == [
            sorted(cards[k::n_folds]) for k in range(n_folds)
        ]
        alone = np.random.default_rng(seed).permutation(n)
        np.testing.assert_array_equal(assign_folds(n, n_folds, seed, alone), fold)

    @given(COUNTS, st.integers(0, 2**32), st.data())
    def test_clusters_are_dealt_whole_and_evenly(self, count, seed, data):
        n, n_folds = count
        cluster = np.array(data.draw(st.lists(st.integers(0, n), min_size=n, max_size=n)))
        names, sizes = np.unique(cluster, return_counts=True)
        if len(names) < n_folds:
            said = f"{n} usable questions in {len(names)} clusters .* a cluster for each"
            with pytest.raises(DirEAGError, match=said):
                assign_folds(n, n_folds, seed, cluster)
            return
        fold = assign_folds(n, n_folds, seed, cluster)
        assert all(len(set(fold[cluster == name])) == 1 for name in names)
        filled = np.bincount(fold, minlength=n_folds)
        assert filled.min() > 0
        assert filled.max() - filled.min() <= sizes.max()

    @given(n=st.integers(10, 40), n_folds=st.integers(2, 5), seed=st.integers(0, 9))
    def test_those_of_the_final_calibration_are_even(self, simulated, n, n_folds, seed):
        fold = hashed_folds(simulated.select(slice(n)), np.arange(n) > 0, n_folds, seed)
        assert fold[0] == -1
        assert np.ptp(np.bincount(fold[1:], minlength=n_folds)) <= 1

    @pytest.mark.parametrize(
        ("n", "n_folds", "remedy"), [*((n, 5, "fewer") for n in (0, 1, 4)), *((10, n, "more") for n in (1, 0, -3))]
    )
    def test_too_few_questions_or_folds(self, n, n_folds, remedy):
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


def seen_by(fit: Fit, observations: Observations) -> np.ndarray:
    return np.flatnonzero(np.isin(observations.problem_id, fit.tree["constant_data"]["problem"].to_numpy()))


def clustered(observations: Observations, size: int) -> Observations:
    """Return the observations in clusters, the questions of each far apart in the file."""
    n = -(-len(observations) // size)
    return replace(observations, cluster=tuple(f"c{row % n}" for row in range(len(observations))))


class TestCrossFitting:
    def test_corrupting_the_golds_of_evaluated_questions_changes_nothing(self, simulated):
        honest = presets.preset("bayes", recalibration={"out_of_fold": 2})
        for number, one in enumerate(cross_fit(simulated, n_folds=2, preset=honest, seed=2)):
            wrong = {int(i): ["123456789", simulated.candidates[i][0], None][int(i) % 3] for i in one.index}
            corrupted = with_golds(simulated, wrong)
            assert (corrupted.correct[one.index] != simulated.correct[one.index]).any()
            after = cross_fit(corrupted, n_folds=2, preset=honest, seed=2)[number]
            assert after.index.tolist() == one.index.tolist()
            # a label of weight 0 may still change the order in which numbers are added up
            pd.testing.assert_frame_equal(after.predictions, one.predictions, rtol=1e-11, atol=0)

    def test_every_answered_question_is_predicted_once_by_a_fit_that_learned_from_others(self, simulated):
        """In the order of the file; nothing is learned from unlabelled and unanswered questions, nor of a cluster."""
        silent = np.arange(len(simulated)) == 50
        whole = clustered(with_golds(simulated, dict.fromkeys(range(0, 240, 5))), 4).without(silent[:, None])
        folds, cluster = cross_fit(whole, n_folds=3, preset=COUNT, seed=0), whole.cluster_number
        assert [one.fold for one in folds] == ["0", "1", "2"]
        assert sorted(np.concatenate([one.index for one in folds])) == np.flatnonzero(~silent).tolist()
        assert repr(folds[0]).startswith(f"HeldOut(0: {len(folds[0].index)} questions, predicted by Fit(MAP; ")
        for one in folds:
            assert (np.diff(one.index) > 0).all()
            assert one.predictions["problem_id"].tolist() == [whole.problem_id[i] for i in one.index]
            others = ~np.isin(cluster, cluster[one.index])
            np.testing.assert_array_equal(seen_by(one.fit, whole), np.flatnonzero(others & whole.informative))
            assert one.fit.fitted.cluster == whole.select(others & whole.informative).cluster

    def test_a_test_set_alone_is_predicted_without_its_golds(self, simulated):
        train, test = simulated.select(slice(0, 150)), simulated.select(slice(150, None))
        (one,), (again,) = (train_test(train, new) for new in (test, with_golds(test, dict.fromkeys(range(90)))))
        assert one.fold == "test"
        assert one.predictions["problem_id"].tolist() == list(test.problem_id)
        pd.testing.assert_frame_equal(again.predictions, one.predictions, check_exact=True)

    def test_a_question_or_a_cluster_in_both_sets_is_an_error(self, simulated):
        whole = clustered(simulated, 2)
        apart = replace(whole, cluster=(*whole.cluster[:120], *[None] * 120))
        for sets, rows, said in (
            (
                simulated,
                slice(88, 150),
                "2 questions of the test set are also in the training set, 'simulated-5-000088'",
            ),
            (whole, slice(90, 150), "30 clusters of the test set are also in the training set, 'c0' among them"),
        ):
            with pytest.raises(DirEAGError, match=said):
                train_test(sets.select(slice(0, 90)), sets.select(rows))
        (one,) = train_test(apart.select(slice(0, 90)), apart.select(slice(120, None)), preset=COUNT)
        assert len(one.index) == apart.select(slice(120, None)).answered.sum()

    def test_the_order_of_questions_changes_nothing(self, simulated):
        some = simulated.select(slice(0, 90))
        for whole in (some, replace(some, cluster=tuple(f"c{row % 20}" if row < 60 else None for row in range(90)))):
            order = np.random.default_rng(3).permutation(90)
            fits = fit_map(whole), fit_map(whole.select(order)), fit_map(whole, seed=1)
            once, again, other = (fit.predict(whole)["probability"] for fit in fits)
            np.testing.assert_allclose(again, once, rtol=1e-9)
            assert np.abs(other - once).max() > 1e-6

    def test_nuts_names_a_setting_out_of_range(self, simulated):
        with pytest.raises(DirEAGError, match="num_chains: Input should be greater than or equal to 2; saw 1"):
            fit_nuts(simulated, num_chains=1)

    def test_nuts_is_handed_what_a_mode_is_handed(self, simulated, point, monkeypatch):
        """Neither of several folds nor of a training set the questions that are predicted."""
        some, seen = simulated.select(slice(0, 60)), []
        monkeypatch.setattr(making, "_sampled", lambda given, how, _: seen.append((given.problem_id, how)) or point)
        options = {"method": "nuts", "preset": COUNT, "seed": 2}
        folds = cross_fit(some, n_folds=3, **options) + train_test(some, simulated.select(slice(60, 90)), **options)
        for one, (names, settings) in zip(folds, seen, strict=True):
            assert list(names) == [name for name in some.problem_id if name not in set(one.predictions["problem_id"])]
            assert settings == FitSettings(COUNT, "nuts", None, seed=2)
