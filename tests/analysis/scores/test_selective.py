"""Selective prediction against every order of the tied questions, one by one."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.scores.scoring import percentile_interval, resample_weights
from analysis.scores.selective import aurc, by_threshold, oracle_aurc, risk_coverage, selective_table


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
def test_ties_are_averaged_over_every_order_and_the_oracle_is_the_best_of_all(sample):
    confidence, correct = sample
    risks = risks_of_every_order(confidence, correct)
    np.testing.assert_allclose(risk_coverage(confidence, correct)["risk"], risks.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(aurc(confidence, correct), risks.mean(axis=1).mean(), atol=1e-12)
    free = risks_of_every_order(np.zeros(len(correct)), correct)
    best = oracle_aurc(np.array([len(correct)]), np.array([(~correct).sum()]))
    np.testing.assert_allclose(best, free.mean(axis=1).min(), atol=1e-12)


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
    assert np.isnan([aurc(empty, none)[0], oracle_aurc(np.array([0]), np.array([0]))[0]]).all()


@pytest.fixture(scope="module")
def predictions() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = [
        pd.DataFrame({"method": name, "probability": rng.integers(0, 11, 60) / 10, "correct": rng.random(60) < 0.6})
        for name in ("zeta", "alpha")
    ]
    table = pd.concat(rows, ignore_index=True).astype({"correct": "boolean"})
    table.loc[3, "probability"] = np.nan
    table.loc[3, "correct"] = False
    table.loc[4, "correct"] = pd.NA
    return table


class TestTable:
    def test_one_row_a_method_in_their_order(self, predictions):
        table = selective_table(predictions, seed=0, n_resamples=10)
        assert table["method"].tolist() == ["zeta", "alpha"]
        assert table["n"].tolist() == [58, 60]
        assert table["unanswered"].tolist() == [1, 0]

    def test_intervals_are_those_of_a_loop(self, predictions):
        row = selective_table(predictions, seed=2, n_resamples=50, level=0.8).set_index("method").loc["alpha"]
        own = predictions[predictions["method"] == "alpha"]
        confidence, correct = own["probability"].to_numpy(), own["correct"].to_numpy(bool)
        areas, bests = [], []
        for weight in resample_weights(60, 50, 2):
            area, right = aurc(np.repeat(confidence, weight), np.repeat(correct, weight))[0], np.repeat(correct, weight)
            areas.append(area)
            bests.append(aurc(right.astype(float), right)[0])
        low, high, _ = percentile_interval(np.array(areas), 0.8)
        assert (row["aurc_low"], row["aurc_high"]) == pytest.approx((low, high), rel=1e-12)
        low, high, _ = percentile_interval(np.subtract(areas, bests), 0.8)
        assert (row["excess_aurc_low"], row["excess_aurc_high"]) == pytest.approx((low, high), rel=1e-12)
        assert row["excess_aurc"] == pytest.approx(row["aurc"] - row["oracle_aurc"])
        assert row["risk"] == pytest.approx(1 - correct.mean())

    def test_a_method_that_answered_nothing_is_undefined(self):
        nothing = pd.DataFrame({"method": ["m"], "probability": [np.nan], "correct": pd.array([False], "boolean")})
        row = selective_table(nothing, seed=0, n_resamples=3).iloc[0]
        assert (row["n"], row["unanswered"]) == (0, 1)
        assert row[["risk", "aurc", "aurc_low", "oracle_aurc", "excess_aurc_high"]].isna().all()
