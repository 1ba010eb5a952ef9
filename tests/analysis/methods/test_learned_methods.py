"""Methods that learn: against what they minimise, counts by hand, and where the truth is known."""

import dataclasses
import statistics
from collections import Counter
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from analysis.methods.calibrations import Calibrated, platt
from analysis.methods.conditional_logit import CONDITIONAL_LOGIT, conditional_logit
from analysis.methods.label_logistic import has_two_labels, label_logistic
from analysis.methods.method import CLIP, FixedRule
from analysis.methods.rules import majority, vanilla
from analysis.methods.votes import BOOSTED_STACK, VOTE_FEATURES, VOTE_LOGISTIC, level_features, vote_features
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.made import observe

CLASSIFIERS = {"vote_logistic": VOTE_LOGISTIC.learn, "boosted_stack": BOOSTED_STACK.learn}


def gold(observations: Observations, truth: np.ndarray) -> Observations:
    """Return the questions with these right answers, under names of their own."""
    rows = enumerate(zip(observations.questions, truth.tolist(), strict=True))
    changed = [q.model_copy(update={"problem_id": str(k), "gold_answer": str(t)}) for k, (q, t) in rows]
    return Observations.from_questions(changed, "numeric")


def reports(answer: np.ndarray, confidence: np.ndarray) -> Observations:
    """Return questions from (problem, level) arrays."""
    pairs = zip(answer.tolist(), confidence.tolist(), strict=True)
    return observe(*[[(str(a), q) for a, q in zip(*row, strict=True)] for row in pairs], gold="0")


class TestLabelLogistic:
    @staticmethod
    def questions(n: int, seed: int) -> Observations:
        """Return yes/no questions: two levels that mostly know, and one that says the contrary."""
        rng = np.random.default_rng(seed)
        truth = rng.random(n) < 0.4
        rows = []
        for is_yes in truth:
            first, second = (is_yes if rng.random() < 0.8 else not is_yes for _ in range(2))
            said = [(first, rng.integers(55, 99)), (second, None), (not is_yes, rng.integers(50, 90))]
            rows.append([("1" if one else "0", q) for one, q in said])
        asked = observe(*rows, gold="1")
        golds = ["1" if is_yes else "0" for is_yes in truth]
        named = zip(asked.questions, golds, strict=True)
        changed = [q.model_copy(update={"problem_id": str(k), "gold_answer": g}) for k, (q, g) in enumerate(named)]
        return Observations.from_questions(changed, "numeric")

    def test_it_is_the_mode_of_its_posterior_and_believes_who_says_the_contrary(self) -> None:
        labelled, tested = self.questions(40, 1), self.questions(200, 2)
        rows = []
        for question in labelled.questions:
            sides = [1.0 if report.answer == "1" else -1.0 for report in question.observations]
            stated = [report.confidence for report in question.observations]
            logits = [1.0 if q is None else float(logit(np.clip(q / 100, CLIP, 1 - CLIP))) for q in stated]
            rows.append([1.0, *(side * x for side, x in zip(sides, logits, strict=True))])
        right = np.array([question.gold_answer == "1" for question in labelled.questions])

        def loss(w: np.ndarray) -> float:
            reached = np.array(rows) @ w
            return float((np.logaddexp(0, reached) - right * reached).sum() + w[1:] @ w[1:] / 2)

        mode = minimize(loss, np.zeros(4), tol=1e-12).x
        answers = label_logistic(labelled, 0)(labelled)
        says_yes = np.array(
            [["1", "0"].index(t[k]) == 0 for t, k in zip(labelled.candidates, answers.candidate, strict=True)]
        )
        given = np.where(says_yes, expit(np.array(rows) @ mode), expit(-(np.array(rows) @ mode)))
        np.testing.assert_allclose(answers.confidence, given, atol=1e-4)
        assert (
            label_logistic(labelled, 0)(tested).is_right(tested).mean() > 0.9 > majority(tested).is_right(tested).mean()
        )

    def test_right_labels_that_nobody_says_are_the_other_one(self) -> None:
        labelled = self.questions(60, 3)
        silent = observe(*[[("1", 80), ("1", 80), ("1", 80)]] * 30, gold="0")
        more = [q.model_copy(update={"problem_id": f"s{k}"}) for k, q in enumerate(silent.questions)]
        both = Observations.from_questions([*labelled.questions, *more], "numeric")
        answers = label_logistic(both, 0)(both.select(slice(60, 90)))
        assert (answers.confidence < 0.3).all()
        np.testing.assert_allclose(answers.null_probability, 1 - answers.confidence)

    def test_a_third_label_is_refused(self) -> None:
        three = observe([("5", 80), ("6", 80)], [("7", 80), ("6", 70)], gold="5")
        assert not has_two_labels(three)
        with pytest.raises(DirEAGError, match="saw 3 different answers, such as 5, 6, 7; expected the same two labels"):
            label_logistic(three, 0)


class TestPlatt:
    def test_it_maximises_the_smoothed_likelihood(self) -> None:
        rng = np.random.default_rng(0)
        confidence = np.append(rng.random(60), [0.0, 1.0])
        correct = rng.random(62) < confidence
        n_right, n_wrong = correct.sum(), (~correct).sum()
        target = np.where(correct, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
        score = logit(np.clip(confidence, CLIP, 1 - CLIP))

        def loss(pair: np.ndarray) -> float:
            reached = pair[0] + pair[1] * score
            return float((target * np.logaddexp(0, -reached) + (1 - target) * np.logaddexp(0, reached)).sum())

        a, b = minimize(loss, [0.0, 1.0], tol=1e-12).x
        new = np.array([0.0, 0.3, 1.0])
        expected = expit(a + b * logit(np.clip(new, CLIP, 1 - CLIP)))
        np.testing.assert_allclose(platt(confidence, correct, new), expected, atol=1e-4)

    def test_one_class_is_laplace_s_rule_and_it_stays_finite_where_confidence_separates(self) -> None:
        confidence = np.array([0.2, 0.5, 0.9])
        np.testing.assert_allclose(platt(confidence, np.ones(3, bool), confidence), 0.8, atol=1e-4)
        np.testing.assert_allclose(platt(confidence, np.zeros(3, bool), confidence), 0.2, atol=1e-4)
        said = platt(np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, False, True, True]), np.array([0.1, 0.9]))
        assert 0.1 < said[0] < 0.3
        assert 0.7 < said[1] < 0.9

    def test_a_calibrated_method_selects_the_same_answers_and_says_one_half_without_a_label(self) -> None:
        everything = simulate_observations(120, seed=1)
        labelled, tested = everything.select(slice(0, 60)), everything.select(slice(60, 120))
        answers = Calibrated(FixedRule(majority))(labelled, 0)(tested)
        before, now = majority(labelled), majority(tested)
        np.testing.assert_array_equal(answers.candidate, now.candidate)
        expected = platt(before.confidence, before.is_right(labelled), now.confidence)
        np.testing.assert_allclose(answers.confidence, expected)
        labelled, tested = observe([None, ("1", 90)], gold="1"), observe([("1", 80), None], [None, ("1", 20)])
        answers = Calibrated(lambda *_: partial(vanilla, level_name=labelled.level_names[0]))(labelled, 0)(tested)
        assert answers.candidate.tolist() == [0, -1]
        np.testing.assert_array_equal(answers.confidence, [0.5, np.nan])


class TestConditionalLogit:
    def test_with_one_candidate_it_is_a_logistic_regression(self) -> None:
        rng = np.random.default_rng(0)
        confidence = rng.integers(10, 91, (150, 2))
        right = rng.random(150) < 0.2 + 0.6 * (confidence[:, 0] > 50)
        labelled = gold(reports(np.zeros((150, 2), int), confidence), np.where(right, 0, 1))
        score = logit(np.clip(confidence / 100, CLIP, 1 - CLIP))
        shared = np.stack([np.full(150, 2.0), score.sum(axis=1)], axis=1)
        feature = np.hstack([shared, np.ones((150, 2)), score, -np.ones((150, 1))])
        model = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
        expected = model.fit(feature, right).predict_proba(feature)[:, 1]
        answers = conditional_logit(labelled, 0)(labelled)
        np.testing.assert_allclose(answers.confidence, expected, atol=1e-6)
        states = np.stack([expected, 0 * expected, 1 - expected], axis=1)
        np.testing.assert_allclose(answers.distribution, states, atol=1e-6)

    def test_it_learns_whom_to_believe_and_that_nobody_may_be_right(self) -> None:
        rng = np.random.default_rng(1)
        truth = rng.integers(0, 3, 600)
        known = rng.random((600, 3)) < [0.9, 0.2, 0.2]
        answer = np.where(known, truth[:, None], rng.integers(0, 3, (600, 3)))
        everything = gold(reports(answer, np.full((600, 3), 60)), truth)
        labelled, tested = everything.select(slice(0, 400)), everything.select(slice(400, 600))
        answers = conditional_logit(labelled, 0)(tested)
        assert answers.is_right(tested).mean() > majority(tested).is_right(tested).mean() + 0.05
        null = answers.distribution[:, -1]
        assert null.mean() == pytest.approx((~tested.gold_generated).mean(), abs=0.05)


def counted(observations: Observations, number: int) -> dict[str, float]:
    """Count the votes of one question in plain Python."""
    told = [
        (observations.candidates[number][candidate], float(stated))
        for candidate, stated in zip(observations.candidate[number], observations.confidence[number], strict=True)
        if candidate >= 0
    ]
    chosen = observations.candidates[number][majority(observations).candidate[number]]
    votes = Counter(answer for answer, _ in told)
    others = max((count for answer, count in votes.items() if answer != chosen), default=0)
    counts = {
        "share": votes[chosen] / len(told),
        "margin": (votes[chosen] - others) / len(told),
        "n_answers": float(len(votes)),
        "n_missing": float(observations.n_levels - len(told)),
    }
    sides = {"for": [c for a, c in told if a == chosen], "against": [c for a, c in told if a != chosen]}
    for spread, of in {"mean": statistics.mean, "max": max, "min": min, "sd": statistics.pstdev}.items():
        counts |= {f"{spread}_{side}": of(stated) if stated else np.nan for side, stated in sides.items()}
    return counts


class TestFeatures:
    def test_every_feature_of_every_question(self) -> None:
        observations = simulate_observations(60, seed=2)
        features = vote_features(observations)
        assert features.shape == (60, len(VOTE_FEATURES))
        for number, row in enumerate(features):
            expected = counted(observations, number)
            np.testing.assert_allclose(row, [expected[name] for name in VOTE_FEATURES], atol=1e-12)

    def test_questions_by_hand_with_nobody_against_and_nobody_at_all(self) -> None:
        row, _ = vote_features(observe([("7", 90), ("3", 20), ("7", 50), None, ("4", 80)], [("1", 50)] * 5))
        np.testing.assert_allclose(row, [0.5, 0.25, 3, 1, 0.7, 0.9, 0.5, 0.2, 0.5, 0.8, 0.2, 0.3])
        unanimous, silent = vote_features(observe([("7", 90), ("7", 50)], [None, None]))
        np.testing.assert_allclose(unanimous, [1, 1, 1, 0, 0.7, 0.9, 0.5, 0.2, *[np.nan] * 4])
        assert silent[2:4].tolist() == [0, 2]
        assert np.isnan(np.delete(silent, [2, 3])).all()
        row = level_features(observe([("7", 90), ("3", 20), ("7", 50), None]))[0]
        np.testing.assert_allclose(row, [1, -1, 1, 0, np.log(9), np.log(4), 0, 0], atol=1e-12)


class TestClassifiers:
    def test_the_logistic_one_minimises_its_penalised_loss(self) -> None:
        rng = np.random.default_rng(0)
        train, test = (np.stack([rng.random(n), 5 + 3 * rng.standard_normal(n)], axis=1) for n in (80, 20))
        correct = rng.random(80) < train[:, 0]
        mean, sd = train.mean(axis=0), train.std(axis=0)
        score, sign = (train - mean) / sd, np.where(correct, 1, -1)

        def loss(parameters: np.ndarray) -> float:
            reached = sign * (parameters[0] + score @ parameters[1:])
            return float(np.logaddexp(0, -reached).sum() + (parameters[1:] ** 2).sum() / 2)

        best = minimize(loss, np.zeros(3), tol=1e-10).x
        expected = expit(best[0] + (test - mean) / sd @ best[1:])
        probability = VOTE_LOGISTIC.learn.make(0).fit(train, correct).predict_proba(test)[:, 1]
        np.testing.assert_allclose(probability, expected, atol=1e-6)

    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_the_answer_is_the_majority_s_and_its_probability_is_learned(self, name: str) -> None:
        everything = simulate_observations(400, seed=3)
        labelled, tested = everything.select(slice(0, 200)), everything.select(slice(200, 400))
        answers = CLASSIFIERS[name](labelled, 0)(tested)
        np.testing.assert_array_equal(answers.candidate, majority(tested).candidate)
        right = answers.is_right(tested)
        assert roc_auc_score(right, answers.confidence) > 0.7
        assert abs(answers.confidence.mean() - right.mean()) < 0.1
        one_class = observe(*[[("1", 90), ("1", 80)]] * 8, gold="1")
        said = CLASSIFIERS[name](one_class, 0)(observe([("1", 90), ("2", 80)], [None, None]))
        np.testing.assert_allclose(said.confidence, [0.9, np.nan], err_msg="Laplace's rule")

    def test_who_is_right_is_seen_by_the_one_that_sees_the_levels(self) -> None:
        """Two of three levels always agree, as confidently; they are right if the first is among them."""
        trusted, other = [("1", 60), ("1", 60), ("2", 60)], [("2", 60), ("1", 60), ("1", 60)]
        labelled = gold(observe(*[trusted] * 30, *[other] * 30, gold="1"), np.repeat([1, 2], 30))
        tested = observe(trusted, other)
        said = {name: learner(labelled, 0)(tested).confidence for name, learner in CLASSIFIERS.items()}
        np.testing.assert_allclose(said["vote_logistic"], 0.5, atol=1e-6)
        assert said["boosted_stack"][0] > 0.9
        assert said["boosted_stack"][1] < 0.1


@pytest.mark.parametrize("learner", [*CLASSIFIERS.values(), CONDITIONAL_LOGIT.learn])
def test_learned_methods_see_every_signal(learner) -> None:
    """Confidences that say nothing, beside a signal that knows who is right."""
    rng = np.random.default_rng(6)
    everything = simulate_observations(400, seed=6)
    right = (everything.candidate >= 0) & np.take_along_axis(everything.correct_candidate, everything.candidate, axis=1)
    noisy_truth = np.where(right, 0.7, 0.3) + rng.uniform(-0.25, 0.25, right.shape)
    signals = {"number": np.full(right.shape, 0.6), "words": np.where(everything.usable, noisy_truth, np.nan)}
    both = dataclasses.replace(everything, signals=signals)
    areas = []
    for known in (both.of_signals(["number"]), both):
        answers = learner(known.select(slice(0, 200)), 0)(known.select(slice(200, 400)))
        areas.append(roc_auc_score(answers.is_right(known.select(slice(200, 400))), answers.confidence))
    assert areas[1] > areas[0] + 0.05
