"""The guarantee of abstention: against SciPy's interval, simulated; and which labels decide."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.abstention import abstention, lowest_threshold
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import cross_fit, fit_map
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations


class TestTheThreshold:
    @pytest.mark.parametrize(("n", "target", "assurance"), [(40, 0.9, 0.9), (100, 0.8, 0.9), (60, 0.7, 0.6)])
    def test_it_takes_as_many_wrong_labels_as_the_interval_of_clopper_and_pearson_allows(self, n, target, assurance):
        """All labelled and new questions are surer than any target needs, so that all are answered or none."""
        sure, fewest_wrong = np.full(n, 0.999), None
        for n_wrong in range(n):
            threshold = lowest_threshold(sure, np.arange(n) >= n_wrong, sure, target=target, assurance=assurance)
            high = binomtest(n_wrong, n, alternative="less").proportion_ci(assurance).high
            fewest_wrong = n_wrong if fewest_wrong is None and np.isnan(threshold) else fewest_wrong
            assert np.isnan(threshold) or (threshold, high <= 1 - target) == (0.999, True)
        assert fewest_wrong  # some wrong answers are allowed

    @pytest.mark.parametrize(("target", "assurance"), [(0.9, 0.9), (0.8, 0.7)])
    def test_the_accuracy_to_expect_is_seldom_missed_even_by_wrong_probabilities(self, target, assurance):
        """Answers are right as often as the square of their probability says, of four kinds of questions."""
        rng, kinds = np.random.default_rng(1), np.array([0.999, 0.95, 0.93, 0.9])
        missed = 0
        for _ in range(600):
            labelled, new = rng.choice(kinds, 150), rng.choice(kinds, 400)
            correct = rng.random(150) < labelled**2
            threshold = lowest_threshold(labelled, correct, new, target=target, assurance=assurance)
            missed += bool((kinds[kinds >= threshold] ** 2).mean() < target) if threshold == threshold else 0
        assert missed <= 600 * (1 - assurance) + 3 * np.sqrt(600 * assurance * (1 - assurance))

    def test_calibrated_probabilities_seldom_miss_where_something_is_answered(self):
        """With 100 labels and a target that is rarely supported."""
        rng, outcomes = np.random.default_rng(1), []
        for _ in range(300):
            labelled, new = rng.beta(3, 1, 100), rng.beta(3, 1, 300)
            threshold = lowest_threshold(labelled, rng.random(100) < labelled, new, target=0.9)
            right = rng.random(300) < new
            outcomes += [right[new >= threshold].mean() < 0.9] if threshold == threshold else []
        assert 50 < len(outcomes) < 150
        assert np.mean(outcomes) <= 0.1 + 3 * np.sqrt(0.09 / len(outcomes))

    def test_probabilities_that_do_not_promise_the_target_are_not_answered(self):
        sure, right = np.full(200, 0.7), np.ones(200, bool)
        # 60 wrong answers are expected; at most 66 are allowed, and 90 % of the time there are at most 70
        for target, assurance, expected in ((0.9, 0.9, np.nan), (0.6, 0.9, 0.7), (0.67, 0.9, np.nan), (0.67, 0.6, 0.7)):
            np.testing.assert_equal(lowest_threshold(sure, right, sure, target=target, assurance=assurance), expected)

    @given(
        labelled=st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.8, 0.9, 0.95]), st.booleans()), max_size=40),
        new=st.lists(st.sampled_from([0.2, 0.5, 0.8, 0.9, 0.97]), max_size=40),
        target=st.sampled_from([0.3, 0.5, 0.8, 0.99]),
    )
    def test_it_is_one_of_the_new_and_does_not_depend_on_order_or_unanswered_questions(self, labelled, new, target):
        sure, right = np.array([c for c, _ in labelled]), np.array([r for _, r in labelled], bool)
        fresh, nothing = np.array(new), [np.nan, np.nan]
        threshold = lowest_threshold(sure, right, fresh, target=target, assurance=0.7)
        assert np.isnan(threshold) or threshold in fresh
        turned = np.append(sure[::-1], nothing), np.append(right[::-1], [True, False]), np.append(fresh[::-1], nothing)
        np.testing.assert_equal(lowest_threshold(*turned, target=target, assurance=0.7), threshold)  # NaN equals itself

    @pytest.mark.parametrize(("target", "assurance"), [(0.0, 0.9), (1.0, 0.9), (0.9, 0.4), (0.9, 1.0)])
    def test_what_cannot_be_asked_for_is_refused(self, target, assurance):
        with pytest.raises(DirEAGError, match=r"expected a (share|probability)"):
            lowest_threshold(np.array([0.5]), np.array([True]), np.array([0.5]), target=target, assurance=assurance)


EVERYTHING = simulate_observations(n=420, seed=6)
FITTED, LABELLED, NEW = (EVERYTHING.select(slice(start, start + 140)) for start in (0, 140, 280))


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(FITTED, preset=presets.preset("bayes", recalibration={"out_of_fold": 0}))


class TestWhichLabelsDecide:
    def test_those_given(self, fit):
        """Questions come in any form; new labels are not looked at, and those that the fit has seen do not count."""
        predictions = fit.predict(NEW)
        known, fresh = fit.predict(LABELLED), predictions["probability"].to_numpy()
        right = LABELLED.is_right(known["answer"])
        expected = lowest_threshold(known["probability"].to_numpy(), right, fresh, target=0.6)
        answered = abstention(fit, NEW, LABELLED, target_accuracy=0.6)
        assert (answered.threshold, answered.is_approximate, answered.n_new) == (expected, False, 140)
        assert answered.table["answered"].sum() == answered.n_answered == (fresh >= expected).sum() > 0
        above = (known["probability"] >= expected).to_numpy()
        assert (answered.n_labelled_above, answered.n_labelled_wrong) == (above.sum(), (~right[above]).sum())
        pd.testing.assert_frame_equal(answered.table.drop(columns="answered"), predictions)
        hidden = replace(NEW, labelled=np.zeros(140, bool), correct=np.zeros_like(NEW.correct))
        for new, labelled in ((hidden, LABELLED), (NEW.to_frame(), LABELLED.to_frame())):
            assert abstention(fit, new, labelled, target_accuracy=0.6).record() == answered.record()
        mixed = abstention(fit, EVERYTHING.select(np.r_[:140, 280:420]), LABELLED, target_accuracy=0.6)
        assert mixed.record() == answered.record()

    @pytest.mark.slow
    def test_a_map_without_others_is_cross_fitted(self, fit):
        answered = abstention(fit, NEW, target_accuracy=0.5)
        probability, right = np.full(140, np.nan), np.zeros(140, bool)
        for part in cross_fit(FITTED, n_folds=5, preset=fit.preset, seed=0):
            probability[part.index] = part.predictions["probability"]
            right[part.index] = FITTED.select(part.index).is_right(part.predictions["answer"])
        expected = lowest_threshold(probability, right, fit.predict(NEW)["probability"].to_numpy(), target=0.5)
        assert (answered.threshold, answered.is_approximate) == (expected, True)

    def test_a_posterior_without_others_is_left_one_out(self, fit):
        rng, tree = np.random.default_rng(2), fit.tree.copy()
        left_out = {"probability": rng.random(140), "correct": rng.random(140) < 0.9}
        variables = {name: ("problem", values) for name, values in left_out.items()}
        tree["loo"] = xr.DataTree(xr.Dataset(variables | {"candidate": ("problem", np.zeros(140, int))}))
        tree.attrs["method"] = "nuts"
        fresh = fit.predict(NEW)["probability"].to_numpy()
        expected = lowest_threshold(*left_out.values(), fresh, target=0.7)
        assert abstention(Fit(tree), NEW, target_accuracy=0.7).threshold == expected > 0

    def test_one_labelled_question_of_each_cluster_counts(self, fit):
        names = LABELLED.problem_id
        copies = LABELLED.select(np.tile(np.arange(len(names)), 4))
        copied = tuple(f"{name}-{copy}" for copy in range(4) for name in names)
        answered = abstention(fit, NEW, replace(copies, problem_id=copied, cluster=names * 4), target_accuracy=0.6)
        assert answered.record() == abstention(fit, NEW, LABELLED, target_accuracy=0.6).record()

    def test_no_threshold_is_said_with_its_reason(self, fit):
        silent = NEW.without(np.arange(140)[:, None] < 5)
        few = abstention(fit, silent, LABELLED.select(slice(0, 3)), target_accuracy=0.6)
        assert not few.table["answered"].any()
        assert "takes 5 labelled questions if every answer is right, usually several times as many; th" in few.text()
        assert few.text().endswith("there are 3.")
        assert few.record()["threshold"] is None
        assert abstention(fit, FITTED, LABELLED, target_accuracy=0.6).text().startswith("None of 0 new questions")

    @pytest.mark.parametrize(
        ("labelled", "settings", "said"),
        [
            (EVERYTHING.select(slice(130, 150)), {}, "10 of 20 labelled questions cannot be used"),
            (EVERYTHING.select(slice(270, 290)), {}, "10 of 20 labelled questions cannot be used"),
            (LABELLED, {"target_accuracy": 95.0}, "target accuracy 95"),
            (LABELLED, {"interval_level": 5.0}, "interval level 5"),
        ],
    )
    def test_what_decides_nothing_is_refused(self, labelled: Observations, settings, said, fit):
        with pytest.raises(DirEAGError, match=said):
            abstention(fit, NEW, labelled, **{"target_accuracy": 0.8} | settings)
