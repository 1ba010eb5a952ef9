"""Vote features against a count by hand, question by question; the classifiers against what they minimise."""

import dataclasses
import statistics
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from analysis.methods.conditional_logit import CONDITIONAL_LOGIT
from analysis.methods.rules import majority
from analysis.methods.votes import (
    BOOSTED_STACK,
    VOTE_FEATURES,
    VOTE_LOGISTIC,
    level_features,
    vote_features,
)
from bayes_direag.data.observations import Observations
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.handmade_reports import observe


def counted(observations: Observations, number: int) -> dict[str, float]:
    """Count the votes of one question in plain Python."""
    reports = [
        (observations.candidates[number][candidate], float(stated))
        for candidate, stated in zip(observations.candidate[number], observations.confidence[number], strict=True)
        if candidate >= 0
    ]
    chosen = observations.candidates[number][majority(observations).candidate[number]]
    votes = Counter(answer for answer, _ in reports)
    others = max((count for answer, count in votes.items() if answer != chosen), default=0)
    found = {
        "share": votes[chosen] / len(reports),
        "margin": (votes[chosen] - others) / len(reports),
        "n_answers": float(len(votes)),
        "n_missing": float(observations.n_levels - len(reports)),
    }
    sides = {"for": [c for a, c in reports if a == chosen], "against": [c for a, c in reports if a != chosen]}
    for spread, of in {"mean": statistics.mean, "max": max, "min": min, "sd": statistics.pstdev}.items():
        found |= {f"{spread}_{side}": of(stated) if stated else np.nan for side, stated in sides.items()}
    return found


def test_every_feature_of_every_question() -> None:
    observations = simulate_observations(150, seed=2)
    features = vote_features(observations)
    assert features.shape == (150, len(VOTE_FEATURES))
    for number, row in enumerate(features):
        expected = counted(observations, number)
        np.testing.assert_allclose(row, [expected[name] for name in VOTE_FEATURES], atol=1e-12)


def test_questions_by_hand_with_nobody_against_and_nobody_at_all() -> None:
    row, _ = vote_features(observe([("7", 90), ("3", 20), ("7", 50), None, ("4", 80)], [("1", 50)] * 5))
    np.testing.assert_allclose(row, [0.5, 0.25, 3, 1, 0.7, 0.9, 0.5, 0.2, 0.5, 0.8, 0.2, 0.3])
    unanimous, silent = vote_features(observe([("7", 90), ("7", 50)], [None, None]))
    np.testing.assert_allclose(unanimous, [1, 1, 1, 0, 0.7, 0.9, 0.5, 0.2, *[np.nan] * 4])
    assert silent[2:4].tolist() == [0, 2]
    assert np.isnan(np.delete(silent, [2, 3])).all()


def test_who_agrees_with_the_majority_and_how_confidently() -> None:
    row = level_features(observe([("7", 90), ("3", 20), ("7", 50), None]))[0]
    np.testing.assert_allclose(row, [1, -1, 1, 0, np.log(9), np.log(4), 0, 0], atol=1e-12)


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two features, of which the first says how probably an answer is right, and correctness."""
    rng = np.random.default_rng(seed)
    features = np.stack([rng.random(n), 5 + 3 * rng.standard_normal(n)], axis=1)
    return features, rng.random(n) < features[:, 0]


METHODS = {"vote_logistic": VOTE_LOGISTIC, "boosted_stack": BOOSTED_STACK}
CLASSIFIERS = {name: method.learn for name, method in METHODS.items()}


class TestClassifiers:
    def test_the_logistic_one_minimises_its_penalised_loss(self) -> None:
        train, correct = noisy(80, seed=0)
        test, _ = noisy(20, seed=1)
        mean, sd = train.mean(axis=0), train.std(axis=0)
        score = (train - mean) / sd
        sign = np.where(correct, 1, -1)

        def loss(parameters: np.ndarray) -> float:
            reached = sign * (parameters[0] + score @ parameters[1:])
            return float(np.logaddexp(0, -reached).sum() + (parameters[1:] ** 2).sum() / 2)

        best = minimize(loss, np.zeros(3), tol=1e-10).x
        expected = expit(best[0] + (test - mean) / sd @ best[1:])
        found = VOTE_LOGISTIC.learn.make(0).fit(train, correct).predict_proba(test)[:, 1]
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_boosting_learns_a_step_that_no_line_has(self) -> None:
        train = np.random.default_rng(2).uniform(-1, 1, (400, 1))
        model = BOOSTED_STACK.learn.make(0).fit(train, np.abs(train[:, 0]) < 0.5)
        said = model.predict_proba(np.array([[-0.8], [0.0], [0.8]]))[:, 1]
        assert said[1] > 0.9
        assert (said[[0, 2]] < 0.1).all()

    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_the_answer_is_the_majority_s_and_its_probability_is_learned(self, name: str) -> None:
        everything = simulate_observations(400, seed=3)
        labelled, tested = everything.select(slice(0, 200)), everything.select(slice(200, 400))
        found = CLASSIFIERS[name](labelled, 0)(tested)
        np.testing.assert_array_equal(found.candidate, majority(tested).candidate)
        right = found.is_right(tested)
        assert roc_auc_score(right, found.confidence) > 0.7
        assert abs(found.confidence.mean() - right.mean()) < 0.1
        one_class = observe(*[[("1", 90), ("1", 80)]] * 8, gold="1")
        said = CLASSIFIERS[name](one_class, 0)(observe([("1", 90), ("2", 80)], [None, None]))
        np.testing.assert_allclose(said.confidence, [0.9, np.nan], err_msg="Laplace's rule")

    def test_who_is_right_is_seen_by_the_one_that_sees_the_levels(self) -> None:
        """Two of three levels always agree, as confidently; they are right if the first is among them."""
        trusted, other = [("1", 60), ("1", 60), ("2", 60)], [("2", 60), ("1", 60), ("1", 60)]
        astray = observe(*[other] * 30, gold="2")
        rows = [*observe(*[trusted] * 30, gold="1").questions, *astray.questions]
        questions = [row.model_copy(update={"problem_id": str(number)}) for number, row in enumerate(rows)]
        labelled = Observations.from_questions(questions, "numeric")
        tested = observe(trusted, other)
        said = {name: learner(labelled, 0)(tested).confidence for name, learner in CLASSIFIERS.items()}
        np.testing.assert_allclose(said["vote_logistic"], 0.5, atol=1e-6)
        assert said["boosted_stack"][0] > 0.9
        assert said["boosted_stack"][1] < 0.1


@pytest.mark.parametrize("learner", [*CLASSIFIERS.values(), CONDITIONAL_LOGIT.learn])
def test_every_signal_is_seen(learner) -> None:
    """Confidences that say nothing, beside a signal that knows who is right."""
    rng = np.random.default_rng(6)
    everything = simulate_observations(400, seed=6)
    right = (everything.candidate >= 0) & np.take_along_axis(everything.correct_candidate, everything.candidate, axis=1)
    noisy_truth = np.where(right, 0.7, 0.3) + rng.uniform(-0.25, 0.25, right.shape)
    signals = {"number": np.full(right.shape, 0.6), "words": np.where(everything.usable, noisy_truth, np.nan)}
    both = dataclasses.replace(everything, signals=signals)
    areas = []
    for known in (both.of_signals(["number"]), both):
        found = learner(known.select(slice(0, 200)), 0)(known.select(slice(200, 400)))
        areas.append(roc_auc_score(found.is_right(known.select(slice(200, 400))), found.confidence))
    assert areas[1] > areas[0] + 0.05
