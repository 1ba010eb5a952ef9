"""Best level and conditional logit: against what they maximise, and where the truth is known."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from analysis.methods.calibrations import CLIP
from analysis.methods.conditional_logit import conditional_logit
from analysis.methods.rules import best_level, majority
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
