"""Selective prediction against every order of the tied questions, one by one."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.scores.selective import aurc, by_threshold, risk_coverage


@st.composite
def scored(draw: st.DrawFn, max_size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, max_size))
    confidence = draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=n, max_size=n))
    return np.array(confidence), np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))


def risks_of_every_order(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """Return the risk at each number of accepted questions, a row for each order that confidence allows."""
    found = []
    for order in permutations(range(len(confidence))):
        ranked = confidence[list(order)]
        if (np.diff(ranked) <= 0).all():
            errors = np.cumsum(~correct[list(order)])
            found.append(errors / np.arange(1, len(errors) + 1))
    return np.array(found)


@settings(max_examples=40)
@given(scored())
def test_ties_are_averaged_over_every_order(sample):
    confidence, correct = sample
    risks = risks_of_every_order(confidence, correct)
    np.testing.assert_allclose(risk_coverage(confidence, correct)["risk"], risks.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(aurc(confidence, correct), risks.mean(axis=1).mean(), atol=1e-12)


def test_the_curve():
    curve = risk_coverage(np.array([0.5, 0.9, 0.5, 0.2]), np.array([False, True, True, False]))
    assert curve["accepted"].tolist() == [1, 2, 3, 4]
    assert curve["coverage"].tolist() == [0.25, 0.5, 0.75, 1]
    assert curve["threshold"].tolist() == [0.9, 0.5, 0.5, 0.2]
    assert curve["attainable"].tolist() == [True, False, True, True]
    np.testing.assert_allclose(curve["risk"], [0, 0.5 / 2, 1 / 3, 2 / 4])
    np.testing.assert_allclose(curve["accuracy"], 1 - curve["risk"])


def test_how_many_reach_a_threshold():
    """Of nine right answers, an interval of probability .9 has ends with a tail of .05 each."""
    table = by_threshold(np.array([0.4, *9 * [0.8]]), np.array([False, *9 * [True]]), 0.9).set_index("threshold")
    assert table["labelled"].tolist() == [10, 9, 9, 9, 9, 0, 0]
    assert table["right"][[0.0, 0.8]].tolist() == [0.9, 1.0]
    assert (table.loc[0.8, "low"], table.loc[0.8, "high"]) == (pytest.approx(0.05 ** (1 / 9)), 1.0)
    assert table.loc[0.95, ["right", "low", "high"]].isna().all()


def test_confidences_beyond_the_clip_are_tied_and_without_questions_nothing_is_defined():
    assert aurc(np.array([1.0, 1 - 1e-9]), np.array([True, False])) == pytest.approx((0.5 + 0.5) / 2)
    empty, none = np.zeros(0), np.zeros(0, bool)
    assert len(risk_coverage(empty, none)) == 0
    assert np.isnan(aurc(empty, none)[0])
