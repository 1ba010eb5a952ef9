"""Calibrations against what they minimise; learned on what another method says of the labelled questions."""

from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from analysis.methods.calibrations import CLIP, Calibrated, platt
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


def test_a_calibrated_method_selects_the_same_answers() -> None:
    everything = simulate_observations(120, seed=1)
    labelled, tested = everything.select(slice(0, 60)), everything.select(slice(60, 120))
    found = Calibrated(FixedRule(majority))(labelled, 0)(tested)
    before, now = majority(labelled), majority(tested)
    np.testing.assert_array_equal(found.candidate, now.candidate)
    expected = platt(before.confidence, before.is_right(labelled), now.confidence)
    np.testing.assert_allclose(found.confidence, expected)


def test_without_an_answered_label_it_is_one_half() -> None:
    labelled, tested = observe([None, ("1", 90)], gold="1"), observe([("1", 80), None], [None, ("1", 20)])
    found = Calibrated(lambda *_: partial(vanilla, level_name=labelled.level_names[0]))(labelled, 0)(tested)
    assert found.candidate.tolist() == [0, -1]
    np.testing.assert_array_equal(found.confidence, [0.5, np.nan])


@settings(max_examples=15)
@given(labelled)
def test_probabilities_in_any_case(pairs: list[tuple[int, bool]]) -> None:
    said = platt(*arrays(pairs), np.linspace(0, 1, 11))
    assert ((said >= 0) & (said <= 1)).all()
