"""Best level, CISC, conditional logit and Dawid-Skene: against what they maximise, and where the truth is known."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from analysis.methods.calibrations import CLIP
from analysis.methods.conditional_logit import conditional_logit
from analysis.methods.dawid_skene import LevelAccuracies, dawid_skene, dawid_skene_labelled
from analysis.methods.rules import TEMPERATURES, best_level, cisc, majority, shares
from bayes_direag.data.observations import Observations
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.handmade_reports import observe

SIMULATED = simulate_observations(200, seed=4)


def reports(answer: np.ndarray, confidence: np.ndarray, gold: str = "0") -> Observations:
    """Return questions from (problem, level) arrays."""
    pairs = zip(answer.tolist(), confidence.tolist(), strict=True)
    return observe(*[[(str(a), q) for a, q in zip(*row, strict=True)] for row in pairs], gold=gold)


class TestBestLevel:
    def test_it_is_the_one_that_is_right_most_often(self) -> None:
        labelled = observe([("1", 90), ("2", 30)], [("3", 90), ("2", 40)], [None, ("4", 60)], gold="2")
        found = best_level(labelled, 0)(observe([("5", 80), ("6", 10)], [("5", 80), None]))
        assert found.candidate.tolist() == [1, -1]
        np.testing.assert_allclose(found.confidence, [0.1, np.nan])
        equal = observe([("2", 90), ("2", 30)], gold="2")
        assert best_level(equal, 0)(equal).confidence == 0.9, "of equals the first"


class TestCisc:
    def test_endless_temperature_is_a_vote_and_none_the_surest_level(self) -> None:
        row = observe([("1", 50), ("1", 50), ("2", 90)])
        np.testing.assert_allclose(shares(row, 1e9), [[2 / 3, 1 / 3, 0]])
        np.testing.assert_allclose(shares(row, 0.01), [[0, 1, 0]], atol=1e-9)
        weight = np.exp(np.array([0.5, 0.9]) / 0.3) * [2, 1]
        np.testing.assert_allclose(shares(row, 0.3), [[*weight / weight.sum(), 0]])

    def test_the_temperature_is_the_likeliest(self) -> None:
        known = SIMULATED.select(SIMULATED.gold_generated)
        loss = [
            -np.log(np.clip((shares(known, one) * known.correct_candidate).sum(axis=1), CLIP, 1 - CLIP)).mean()
            for one in TEMPERATURES
        ]
        best = TEMPERATURES[int(np.argmin(loss))]
        found = cisc(SIMULATED, 0)(SIMULATED)
        share = shares(SIMULATED, best)
        answered = SIMULATED.answered
        chosen = np.take_along_axis(share, np.maximum(found.candidate, 0)[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(chosen[answered], share.max(axis=1)[answered])
        np.testing.assert_allclose(found.confidence[answered], chosen[answered])

    def test_without_a_right_candidate_it_is_the_vote_and_else_confidence_is_followed(self) -> None:
        wrong = observe([("1", 50), ("1", 50), ("2", 90)], gold="7")
        assert cisc(wrong, 0)(wrong).confidence == pytest.approx(2 / 3, abs=0.01)
        labelled = observe(*[[("1", 20), ("1", 20), ("2", 90)]] * 20, gold="2")
        assert cisc(labelled, 0)(labelled).is_right(labelled).all()


class TestConditionalLogit:
    def test_with_one_candidate_it_is_a_logistic_regression(self) -> None:
        rng = np.random.default_rng(0)
        confidence = rng.integers(10, 91, (150, 2))
        right = rng.random(150) < 0.2 + 0.6 * (confidence[:, 0] > 50)
        labelled = relabelled(reports(np.zeros((150, 2), int), confidence), np.where(right, 0, 1))
        score = logit(np.clip(confidence / 100, CLIP, 1 - CLIP))
        shared = np.stack([np.full(150, 2.0), score.sum(axis=1)], axis=1)
        feature = np.hstack([shared, np.ones((150, 2)), score, -np.ones((150, 1))])
        model = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
        expected = model.fit(feature, right).predict_proba(feature)[:, 1]
        found = conditional_logit(labelled, 0)(labelled)
        np.testing.assert_allclose(found.confidence, expected, atol=1e-6)
        np.testing.assert_allclose(
            found.distribution, np.stack([expected, 0 * expected, 1 - expected], axis=1), atol=1e-6
        )

    def test_it_learns_whom_to_believe_and_that_nobody_may_be_right(self) -> None:
        rng = np.random.default_rng(1)
        truth = rng.integers(0, 3, 600)
        known = rng.random((600, 3)) < [0.9, 0.2, 0.2]
        answer = np.where(known, truth[:, None], rng.integers(0, 3, (600, 3)))
        everything = relabelled(reports(answer, np.full((600, 3), 60)), truth)
        labelled, tested = everything.select(slice(0, 400)), everything.select(slice(400, 600))
        found = conditional_logit(labelled, 0)(tested)
        assert found.is_right(tested).mean() > majority(tested).is_right(tested).mean() + 0.05
        null = found.distribution[:, -1]
        assert null.mean() == pytest.approx((~tested.gold_generated).mean(), abs=0.05)


def relabelled(observations: Observations, truth: np.ndarray) -> Observations:
    rows = zip(observations.questions, truth.tolist(), strict=True)
    return Observations.from_questions([q.model_copy(update={"gold_answer": str(t)}) for q, t in rows], "numeric")


class TestDawidSkene:
    ACCURACY, N_WRONG = np.array([0.9, 0.75, 0.6, 0.45]), 5

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls) -> Observations:
        """Return questions with six possible answers each, from the very model."""
        rng = np.random.default_rng(2)
        n = 1500
        truth = rng.integers(0, 6, n)
        wrong = (truth[:, None] + rng.integers(1, 6, (n, 4))) % 6
        answer = np.where(rng.random((n, 4)) < cls.ACCURACY, truth[:, None], wrong)
        return relabelled(reports(answer, np.full((n, 4), 50)), truth)

    @pytest.mark.parametrize(("learner", "tolerance"), [(dawid_skene, 0.06), (dawid_skene_labelled, 0.04)])
    def test_it_recovers_the_accuracies_and_how_many_answers_are_wrong(
        self, world: Observations, learner: Callable[[Observations, int], LevelAccuracies], tolerance: float
    ) -> None:
        learned = learner(world, 0)
        np.testing.assert_allclose(learned.accuracy, self.ACCURACY, atol=tolerance)
        assert learned.n_wrong == pytest.approx(self.N_WRONG, rel=0.1)
        found = learned(world)
        assert found.confidence.mean() == pytest.approx(found.is_right(world).mean(), abs=0.03)
        assert found.distribution[:, -1].mean() == pytest.approx((~world.gold_generated).mean(), abs=0.02)

    def test_the_distribution_is_bayes_rule_over_all_possible_answers(self) -> None:
        row = observe([("0", 50), ("0", 50), ("3", 50), None])
        found = LevelAccuracies(self.ACCURACY, float(self.N_WRONG)).distribution(row)[0]
        likelihood = []
        for truth in range(6):  # of which 0 and 3 have been named
            own = np.where(np.array([0, 0, 3]) == truth, self.ACCURACY[:3], (1 - self.ACCURACY[:3]) / self.N_WRONG)
            likelihood.append(own.prod())
        expected = np.array([likelihood[0], likelihood[3], 0, 0, sum(likelihood) - likelihood[0] - likelihood[3]])
        np.testing.assert_allclose(found, expected / expected.sum())

    def test_it_maximises_the_likelihood_without_labels(self, world: Observations) -> None:
        few = world.select(slice(0, 150))

        def loss(raw: np.ndarray) -> float:
            accuracy, m = 1 / (1 + np.exp(-raw[:-1])), few.n_candidates.max() + np.exp(raw[-1])
            total = np.zeros(len(few))
            for k in range(few.n_levels):
                total += np.where(few.candidate == k, accuracy, (1 - accuracy) / m).prod(axis=1) * (
                    k < few.n_candidates
                )
            total += np.maximum(m + 1 - few.n_candidates, 1) * ((1 - accuracy) / m).prod()
            names = np.array([np.prod(m + 1 - np.arange(k)) for k in few.n_candidates])  # any would have done
            return float(-np.log(names * total / (m + 1)).sum() - np.log(accuracy * (1 - accuracy)).sum())

        best = minimize(loss, np.array([1.0, 1.0, 1.0, 1.0, 0.0]), tol=1e-10).x
        learned = dawid_skene(few, 0)
        np.testing.assert_allclose(learned.accuracy, 1 / (1 + np.exp(-best[:-1])), atol=2e-3)
        assert learned.n_wrong == pytest.approx(few.n_candidates.max() + np.exp(best[-1]), rel=0.01)

    def test_labels_are_not_looked_at_without_being_asked(self, world: Observations) -> None:
        few = world.select(slice(0, 50))
        blind = relabelled(few, np.full(50, 77))
        np.testing.assert_array_equal(dawid_skene(few, 0).accuracy, dawid_skene(blind, 0).accuracy)
