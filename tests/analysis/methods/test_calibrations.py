"""Calibrations against what they minimise; learned on what another method says of the labelled questions."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from analysis.methods.calibrations import CALIBRATIONS, CLIP, Calibrated, beta, isotonic, platt, venn_abers
from analysis.methods.method import FixedRule
from analysis.methods.rules import majority, vanilla
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.handmade_reports import observe

labelled = st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=30)


def arrays(pairs: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([tenths / 10 for tenths, _ in pairs]), np.array([right for _, right in pairs])


def test_platt_maximises_the_smoothed_likelihood() -> None:
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


def test_platt_of_one_class_is_laplace_s_rule_and_stays_finite_where_confidence_separates() -> None:
    confidence = np.array([0.2, 0.5, 0.9])
    np.testing.assert_allclose(platt(confidence, np.ones(3, bool), confidence), 0.8, atol=1e-4)
    np.testing.assert_allclose(platt(confidence, np.zeros(3, bool), confidence), 0.2, atol=1e-4)
    said = platt(np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, False, True, True]), np.array([0.1, 0.9]))
    assert 0.1 < said[0] < 0.3
    assert 0.7 < said[1] < 0.9


@settings(max_examples=15)
@given(labelled)
def test_isotonic_has_the_least_squared_error_of_all_rising_functions(pairs: list[tuple[int, bool]]) -> None:
    confidence, correct = arrays(pairs)
    # Max-min formula of the isotonic fit at each labelled confidence.
    steps = np.unique(confidence)
    expected = [
        max(
            min(correct[(confidence >= low) & (confidence <= high)].mean() for high in steps[steps >= here])
            for low in steps[steps <= here]
        )
        for here in steps
    ]
    np.testing.assert_allclose(isotonic(confidence, correct, steps), expected, atol=1e-9)


def test_beta_maximises_the_likelihood_of_its_family() -> None:
    rng = np.random.default_rng(1)
    confidence = np.clip(rng.random(200), CLIP, 1 - CLIP)
    correct = rng.random(200) < confidence**2

    def score(three: np.ndarray, of: np.ndarray) -> np.ndarray:
        return three[0] + three[1] * np.log(of) - three[2] * np.log1p(-of)

    def loss(three: np.ndarray) -> float:
        return float(np.logaddexp(0, np.where(correct, -1, 1) * score(three, confidence)).sum())

    best = minimize(loss, [0.0, 1.0, 1.0], bounds=[(None, None), (0, None), (0, None)]).x
    new = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(beta(confidence, correct, new), expit(score(best, new)), atol=2e-3)
    assert beta(confidence[:8], np.ones(8, bool), new).tolist() == [0.9] * 3


def test_venn_abers_is_isotonic_regression_with_the_new_answer_either_way() -> None:
    rng = np.random.default_rng(2)
    confidence, correct = rng.integers(1, 10, 40) / 10, rng.random(40) < 0.6
    for new in (0.05, 0.5, 0.95):
        low, high = (
            isotonic(np.append(confidence, new), np.append(correct, way), np.array([new]))[0] for way in (False, True)
        )
        said = venn_abers(confidence, correct, np.array([new]))
        assert said[0] == pytest.approx(high / (1 - low + high))


def test_a_calibrated_method_selects_the_same_answers() -> None:
    everything = simulate_observations(120, seed=1)
    labelled, tested = everything.select(slice(0, 60)), everything.select(slice(60, 120))
    found = Calibrated(FixedRule(majority), platt)(labelled, 0)(tested)
    before, now = majority(labelled), majority(tested)
    np.testing.assert_array_equal(found.candidate, now.candidate)
    expected = platt(before.confidence, before.is_right(labelled), now.confidence)
    np.testing.assert_allclose(found.confidence, expected)


def test_without_an_answered_label_it_is_one_half() -> None:
    labelled, tested = observe([None, ("1", 90)], gold="1"), observe([("1", 80), None], [None, ("1", 20)])
    found = Calibrated(lambda *_: partial(vanilla, level_name=labelled.level_names[0]), platt)(labelled, 0)(tested)
    assert found.candidate.tolist() == [0, -1]
    np.testing.assert_array_equal(found.confidence, [0.5, np.nan])


@pytest.mark.parametrize("name", CALIBRATIONS)
@settings(max_examples=15)
@given(labelled)
def test_probabilities_in_any_case(name: str, pairs: list[tuple[int, bool]]) -> None:
    said = CALIBRATIONS[name][1](*arrays(pairs), np.linspace(0, 1, 11))
    assert ((said >= 0) & (said <= 1)).all()
    if name == "isotonic":
        assert (np.diff(said) >= 0).all()
