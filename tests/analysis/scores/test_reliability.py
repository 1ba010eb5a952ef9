"""Reliability in bins against closed forms and the metric beside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from analysis.scores.metrics import ece
from analysis.scores.reliability import binned_reliability


@st.composite
def scored(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 25))
    stated = st.one_of(st.integers(0, 10).map(lambda tenth: tenth / 10), st.floats(0, 1))
    confidence = draw(st.lists(stated, min_size=n, max_size=n))
    return np.array(confidence), np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))


class TestBins:
    @given(scored())
    def test_their_gaps_add_up_to_the_ece(self, sample):
        bins = binned_reliability(*sample)
        gaps = bins["n"] * (bins["right"] - bins["probability"]).abs()
        assert gaps.sum() / len(sample[0]) == pytest.approx(ece(*sample), abs=1e-12)

    def test_they_are_right_closed_and_the_first_holds_zero(self):
        confidence = np.array([0.0, 0.1, 0.1000001, 0.3, 0.30001, 0.7, 1.0])
        bins = binned_reliability(confidence, np.ones(7, bool))
        assert bins["n"].tolist() == [2, 1, 1, 1, 0, 0, 1, 0, 0, 1]
        assert bins["low"].tolist() == pytest.approx(np.arange(10) / 10)
        assert (bins["high"] - bins["low"]).tolist() == pytest.approx([0.1] * 10)
        assert bins[["probability", "right", "right_low", "right_high"]].isna().all(axis=1).tolist() == (
            (bins["n"] == 0).tolist()
        )

    @pytest.mark.parametrize("k", [0, 3, 12])
    def test_intervals_are_the_roots_of_wilsons_equation(self, k):
        row = binned_reliability(np.full(12, 0.55), np.arange(12) < k, level=0.9).iloc[5]
        share, z = k / 12, norm.ppf(0.95)
        # |share - p| = z sqrt(p (1 - p) / n), squared, is a quadratic in p.
        roots = sorted(np.roots([1 + z**2 / 12, -2 * share - z**2 / 12, share**2]).real)
        assert (row["right"], row["right_low"], row["right_high"]) == pytest.approx((share, *roots), abs=1e-9)
