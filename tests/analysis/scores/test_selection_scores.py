"""Scores that see the selected answer, against the decision problem that they come from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from analysis.scores.selection_scores import Scored, accuracy_of_all, benefit, log_score, mean_score


@given(st.floats(0, 1), st.booleans())
def test_benefit_is_twice_the_mean_gain_over_all_prices(confidence: float, correct: bool) -> None:
    def gain(price: float) -> float:
        return (1 - price if correct else -price) if confidence > price else 0.0

    mean, _ = quad(gain, 0, 1, points=[confidence])
    assert benefit(Scored([confidence], [correct]))[0] == pytest.approx(2 * mean, abs=1e-6)


def test_benefit_is_greatest_in_expectation_for_the_likelier_answer_and_its_true_probability() -> None:
    said = np.linspace(0, 1, 101)
    for likely in (0.3, 0.8):
        expected = [
            p * benefit(Scored(said, np.ones(101, bool))) + (1 - p) * benefit(Scored(said, np.zeros(101, bool)))
            for p in (likely, likely - 0.2)
        ]
        assert said[expected[0].argmax()] == pytest.approx(likely)
        assert expected[0].max() > expected[1].max()


def test_no_answer_is_worth_nothing_and_is_not_right() -> None:
    scored = Scored([np.nan, 1.0, 0.0, 1.0], [True, True, False, False], [np.nan, 0.5, 0.0, 1.0])
    assert benefit(scored).tolist() == [0, 1, 0, -1]
    assert accuracy_of_all(scored).tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(log_score(scored), [np.nan, np.log(2), 6 * np.log(10), 0])
    assert np.isnan(log_score(Scored([0.4], [True]))).all()


def test_a_mean_is_over_what_is_defined() -> None:
    value, weight = np.array([1.0, np.nan, 4.0]), np.array([[2, 5, 1], [0, 3, 0]])
    np.testing.assert_allclose(mean_score(value), [2.5])
    np.testing.assert_allclose(mean_score(value, weight), [2, np.nan])
