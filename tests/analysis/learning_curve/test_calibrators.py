"""Platt scaling and isotonic regression against what they minimise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from analysis.learning_curve.calibrators import CALIBRATORS, CLIP, isotonic, platt

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


def test_platt_of_one_class_is_laplace_s_rule() -> None:
    confidence = np.array([0.2, 0.5, 0.9])
    np.testing.assert_allclose(platt(confidence, np.ones(3, bool), confidence), 0.8, atol=1e-4)
    np.testing.assert_allclose(platt(confidence, np.zeros(3, bool), confidence), 0.2, atol=1e-4)


def test_platt_stays_finite_where_confidence_separates() -> None:
    said = platt(np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, False, True, True]), np.array([0.1, 0.9]))
    assert 0.1 < said[0] < 0.3
    assert 0.7 < said[1] < 0.9


@settings(max_examples=30)
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


@pytest.mark.parametrize("name", CALIBRATORS)
@settings(max_examples=30)
@given(labelled)
def test_probabilities_in_any_case(name: str, pairs: list[tuple[int, bool]]) -> None:
    said = CALIBRATORS[name](*arrays(pairs), np.linspace(0, 1, 11))
    assert ((said >= 0) & (said <= 1)).all()
    if name == "isotonic":
        assert (np.diff(said) >= 0).all()
