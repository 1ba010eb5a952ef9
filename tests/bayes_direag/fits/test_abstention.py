"""The guarantee of abstention: by counting every split of small sets, and simulated; and which labels decide."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.abstention import answer, choose_threshold, wrong_bounds
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import cross_fit, fit_map
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations


def splits(n: int, m: int) -> np.ndarray:
    """Return every choice of n labelled questions among n + m."""
    return np.array([[k in chosen for k in range(n + m)] for chosen in map(set, combinations(range(n + m), n))])


def allowed(target: float, n_answered: int) -> int:
    """Return how many may be wrong, by counting up."""
    return max(k for k in range(n_answered + 1) if k == 0 or (n_answered - k) / n_answered >= target - 1e-12)


def missed(sure: np.ndarray, right: np.ndarray, labelled: np.ndarray, target: float, assurance: float) -> bool | None:
    """Say whether too many of the answers given are wrong; None if none is given."""
    new = ~labelled
    found = choose_threshold(sure[labelled], right[labelled], sure[new], target=target, assurance=assurance)
    n_wrong = int((new & ~right & (sure >= found.threshold)).sum())
    return n_wrong > allowed(target, found.n_answered) if found.n_answered else None


class TestTheThreshold:
    @pytest.mark.parametrize(("n", "m", "assurance"), [(5, 6, 0.9), (8, 4, 0.9), (3, 7, 0.7), (6, 6, 0.5), (9, 2, 0.8)])
    def test_each_bound_is_the_least_that_holds_in_as_many_splits_as_stated(self, n, m, assurance):
        numbers, bounds = wrong_bounds(n, m, 0.1, assurance)
        labelled_so_far = np.cumsum(splits(n, m), axis=1)
        assert numbers.tolist() == list(range(n))
        for k, bound in zip(numbers, bounds, strict=True):
            fails = [(labelled_so_far[:, wrong + k] <= k).mean() if wrong < m else 0.0 for wrong in range(m + 1)]
            assert fails[bound] <= 1 - assurance + 1e-9
            assert bound == 0 or fails[bound - 1] > 1 - assurance

    @pytest.mark.parametrize("ranks", [[4, 3, 2, 1, 0], [2, 2, 1, 1, 0]])
    def test_the_target_is_missed_in_as_few_splits_as_stated_whichever_answers_are_wrong(self, ranks):
        sure, chosen = 0.999 + np.array(ranks) / 10_000, splits(3, 2)
        worst = max(
            np.mean([bool(missed(sure, np.array(right), labelled, 0.5, 0.6)) for labelled in chosen])
            for right in product([False, True], repeat=5)
        )
        assert 0 < worst <= 0.4 + 1e-9

    def test_calibrated_probabilities_seldom_miss_where_something_is_answered(self):
        """With 100 labels and a target that is rarely supported, in which most runs that answered used to miss."""
        rng, labelled = np.random.default_rng(1), np.arange(400) < 100
        samples = (rng.beta(3, 1, 400) for _ in range(300))
        outcomes = [missed(sure, rng.random(400) < sure, labelled, 0.9, 0.9) for sure in samples]
        answered = [outcome for outcome in outcomes if outcome is not None]
        assert 50 < len(answered) < 150
        assert np.mean(answered) <= 0.1 + 3 * np.sqrt(0.09 / len(answered))

    def test_probabilities_that_do_not_promise_the_target_are_not_answered(self):
        sure, right = np.full(200, 0.7), np.ones(200, bool)
        found = choose_threshold(sure, right, sure, target=0.9)
        assert (found.n_answered, found.promised) == (0, False)
        assert choose_threshold(sure, right, sure, target=0.6).n_answered == 200
        # 60 wrong answers are expected; at most 66 are allowed, and 90 % of the time there are at most 70
        promised = [choose_threshold(sure, right, sure, target=0.67, assurance=a).promised for a in (0.9, 0.6)]
        assert promised == [False, True]

    @given(
        labelled=st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.8, 0.9, 0.95]), st.booleans()), max_size=40),
        new=st.lists(st.sampled_from([0.2, 0.5, 0.8, 0.9, 0.97]), max_size=40),
        target=st.sampled_from([0.3, 0.5, 0.8, 1.0]),
    )
    def test_the_decision_is_consistent_and_does_not_depend_on_order(self, labelled, new, target):
        sure, right = np.array([c for c, _ in labelled]), np.array([r for _, r in labelled], bool)
        fresh, nothing = np.array(new), [np.nan, np.nan]
        found = choose_threshold(sure, right, fresh, target=target, assurance=0.7)
        assert (found.n_labelled, found.n_new) == (len(sure), len(fresh))
        assert np.isnan(found.threshold) == (found.n_answered == 0)
        assert found.n_answered == (fresh >= found.threshold).sum()
        assert found.n_labelled_above == (sure >= found.threshold).sum()
        assert found.n_labelled_wrong == (~right[sure >= found.threshold]).sum()
        if found.n_answered:
            assert found.threshold in fresh
            assert found.most_wrong <= allowed(target, found.n_answered)
        turned = np.append(sure[::-1], nothing), np.append(right[::-1], [True, False]), np.append(fresh[::-1], nothing)
        np.testing.assert_equal(choose_threshold(*turned, target=target, assurance=0.7), found)  # NaN equals itself

    @pytest.mark.parametrize(
        ("m", "target", "needed"), [(30, 0.95, None), (300, 0.9, None), (7, 0.5, None), (9, 1.0, None), (1, 1.0, 9)]
    )
    def test_the_least_number_of_labels_is_the_least(self, m, target, needed):
        """Of ten exchangeable questions a single new one is the most doubtful error with probability 1/10."""

        def found(n: int) -> tuple[int, int]:
            decision = choose_threshold(np.full(n, 0.999), np.ones(n, bool), np.full(m, 0.999), target=target)
            return decision.n_answered, decision.n_needed

        needed = needed or found(1)[1]
        assert [found(needed - 1), found(needed)] == [(0, needed), (m, needed)]

    @pytest.mark.parametrize(("target", "assurance"), [(0.0, 0.9), (1.1, 0.9), (0.9, 0.4), (0.9, 1.0)])
    def test_what_cannot_be_asked_for_is_refused(self, target, assurance):
        with pytest.raises(DirEAGError, match=r"expected a (share|probability)"):
            choose_threshold(np.array([0.5]), np.array([True]), np.array([0.5]), target=target, assurance=assurance)


EVERYTHING = simulate_observations(n=420, seed=6)
FITTED, LABELLED, NEW = (EVERYTHING.select(slice(start, start + 140)) for start in (0, 140, 280))


def unlabelled(observations: Observations, which: slice) -> Observations:
    labelled = observations.labelled.copy()
    labelled[which] = False
    return replace(observations, labelled=labelled, correct=observations.correct & labelled[:, None])


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(FITTED, preset=presets.preset("bayes", recalibration={"out_of_fold": 0}))


class TestWhichLabelsDecide:
    def test_those_given_or_of_the_file_itself(self, fit):
        """Questions come in any form; new labels are not looked at; of one file one part of three is decided about."""
        predictions = fit.predict(NEW)
        known, fresh = fit.predict(LABELLED), predictions["probability"].to_numpy()
        right = LABELLED.is_right(known["answer"])
        expected = choose_threshold(known["probability"].to_numpy(), right, fresh, target=0.6)
        found = answer(fit, NEW, LABELLED, target_accuracy=0.6)
        assert (found.decision, found.source, found.n_not_new, found.n_unusable) == (expected, "given", 0, 0)
        assert found.table["answered"].sum() == expected.n_answered > 0
        pd.testing.assert_frame_equal(found.table.drop(columns="answered"), predictions)
        assert found.record()["reason"] is None
        for new, labelled in ((unlabelled(NEW, slice(None)), LABELLED), (NEW.to_frame(), LABELLED.to_frame())):
            assert answer(fit, new, labelled, target_accuracy=0.6).decision == expected
        whole = answer(fit, unlabelled(EVERYTHING, slice(280, None)), target_accuracy=0.6)
        assert (whole.decision, whole.source, whole.n_not_new) == (expected, "of the file itself", 280)
        assert whole.table["answered"].to_numpy()[280:].tolist() == found.table["answered"].tolist()

    @pytest.mark.slow
    def test_a_map_without_others_is_cross_fitted(self, fit):
        found = answer(fit, NEW, target_accuracy=0.5)  # whose labels are all known, and not looked at
        probability, right = np.full(140, np.nan), np.zeros(140, bool)
        for part in cross_fit(FITTED, n_folds=5, preset=fit.preset, seed=0):
            probability[part.index] = part.predictions["probability"]
            right[part.index] = FITTED.select(part.index).is_right(part.predictions["answer"])
        expected = choose_threshold(probability, right, fit.predict(NEW)["probability"].to_numpy(), target=0.5)
        assert (found.decision, found.source) == (expected, "of the fit")

    def test_a_posterior_without_others_is_left_one_out(self, fit):
        rng, tree = np.random.default_rng(2), fit.tree.copy()
        left_out = {"probability": rng.random(140), "correct": rng.random(140) < 0.9}
        tree["loo"] = xr.DataTree(xr.Dataset({name: ("problem", values) for name, values in left_out.items()}))
        fresh = fit.predict(NEW)["probability"].to_numpy()
        expected = choose_threshold(*left_out.values(), fresh, target=0.7)
        assert answer(Fit(tree), NEW, target_accuracy=0.7).decision == expected
        assert expected.n_answered > 0

    def test_one_question_of_each_cluster_counts_and_none_without_a_report(self, fit):
        """Each question four times over, in a cluster: the decision is that without the copies, for all of them."""

        def copied(observations: Observations) -> Observations:
            names = observations.problem_id
            copies = observations.select(np.tile(np.arange(len(names)), 4))
            copied = tuple(f"{name}-{copy}" for copy in range(4) for name in names)
            return replace(copies, problem_id=copied, cluster=names * 4)

        silent = NEW.without(np.arange(140)[:, None] < 5)
        single = answer(fit, silent, LABELLED, target_accuracy=0.6)
        found = answer(fit, copied(silent), copied(LABELLED), target_accuracy=0.6)
        assert found.decision == single.decision
        assert found.table["answered"].tolist() == single.table["answered"].tolist() * 4
        assert (found.n_clustered, found.n_unusable, found.decision.n_new) == (3 * 140, 5, 135)
        assert single.decision.n_answered > 0
        assert not single.table["answered"][:5].any()

    def test_no_threshold_is_said_with_its_reason(self, fit, monkeypatch):
        few = answer(fit, NEW, LABELLED.select(slice(0, 3)), target_accuracy=0.6)
        assert not few.table["answered"].any()
        assert "there are 3" in few.text()
        assert few.record()["threshold"] is None
        predict = Fit.predict
        modestly = lambda *given, **how: predict(*given, **how).assign(probability=0.8)  # noqa: E731
        monkeypatch.setattr(Fit, "predict", modestly)
        many = answer(fit, NEW, LABELLED, target_accuracy=0.9)
        assert many.decision.reason == "The probabilities themselves do not promise that accuracy at any threshold."

    @pytest.mark.parametrize(
        ("new", "labelled", "settings", "said"),
        [
            (NEW, EVERYTHING.select(slice(130, 150)), {}, "10 of 20 labelled questions cannot be used"),
            (NEW, EVERYTHING.select(slice(270, 290)), {}, "10 of 20 labelled questions cannot be used"),
            (FITTED, LABELLED, {}, "140 labelled questions with a usable report, and 0 new ones"),
            (NEW, unlabelled(LABELLED, slice(None)), {}, "0 labelled questions with a usable report, and 140 new ones"),
            (NEW, LABELLED, {"target_accuracy": 95.0}, "target accuracy 95"),
            (NEW, LABELLED, {"interval_level": 5.0}, "interval level 5"),
        ],
    )
    def test_what_decides_nothing_is_refused(self, new, labelled, settings, said, fit):
        with pytest.raises(DirEAGError, match=said):
            answer(fit, new, labelled, **{"target_accuracy": 0.8} | settings)
        some_known = unlabelled(EVERYTHING, slice(0, 140)).select(slice(100, 280))
        assert answer(fit, NEW, some_known, target_accuracy=0.8).decision.n_labelled == 140
