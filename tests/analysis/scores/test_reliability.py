"""Reliability against closed forms, the definition of isotonic regression, and the metrics beside it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from analysis.scores.metrics import brier, ece
from analysis.scores.reliability import binned_reliability, decomposition, isotonic_reliability, reliability


@st.composite
def scored(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 25))
    stated = st.one_of(st.integers(0, 10).map(lambda tenth: tenth / 10), st.floats(0, 1))
    confidence = draw(st.lists(stated, min_size=n, max_size=n))
    return np.array(confidence), np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))


def isotonic(confidence: np.ndarray, correct: np.ndarray) -> list[float]:
    """Return the max-min formula of isotonic regression at each distinct confidence, ascending."""
    stated = np.unique(confidence)

    def mean(low: float, high: float) -> float:
        return float(correct[(confidence >= low) & (confidence <= high)].mean())

    return [max(min(mean(low, high) for high in stated[stated >= x]) for low in stated[stated <= x]) for x in stated]


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


class TestIsotonic:
    @given(scored())
    def test_is_the_max_min_formula(self, sample):
        confidence, correct = sample
        clipped = np.clip(confidence, 1e-6, 1 - 1e-6)
        curve = isotonic_reliability(confidence, correct, rng=0, n_resamples=2)
        np.testing.assert_array_equal(curve["confidence"], np.unique(clipped))
        np.testing.assert_allclose(curve["right"], isotonic(clipped, correct), atol=1e-9)
        assert curve["n"].sum() == len(correct)

    def test_the_band_of_one_confidence_is_binomial(self):
        curve = isotonic_reliability(np.full(80, 0.7), np.arange(80) < 80, rng=1, n_resamples=4000, level=0.9)
        expected = binom.ppf([0.05, 0.95], 80, 0.7) / 80
        # A quantile of a lattice may fall one step off.
        assert curve.loc[0, ["band_low", "band_high"]].tolist() == pytest.approx(expected, abs=1 / 80 + 1e-9)

    def test_the_band_holds_calibrated_curves_and_not_others(self):
        rng = np.random.default_rng(4)
        confidence = rng.random(1500)
        draw = rng.random(1500)
        calibrated, overconfident = draw < confidence, draw < confidence**3
        inside = []
        for correct in (calibrated, overconfident):
            curve = isotonic_reliability(confidence, correct, rng=0, n_resamples=200)
            inside.append(curve["right"].between(curve["band_low"], curve["band_high"]).mean())
        assert inside[0] > 0.8
        assert inside[1] < 0.3


class TestDecomposition:
    @given(scored())
    def test_adds_up_to_the_brier_score(self, sample):
        parts = decomposition(*sample)
        assert parts.brier == pytest.approx(brier(*sample), abs=1e-12)
        assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(parts.brier, abs=1e-9)
        assert min(parts.miscalibration, parts.discrimination) >= -1e-9

    def test_by_hand(self):
        # 0.2 is right once in four, 0.6 always: recalibrated to 1/4 and 1.
        confidence = np.array([0.2] * 4 + [0.6] * 2)
        parts = decomposition(confidence, np.array([True, False, False, False, True, True]))
        score = (0.8**2 + 3 * 0.2**2 + 2 * 0.4**2) / 6
        after = (0.75**2 + 3 * 0.25**2) / 6
        assert parts == pytest.approx((score, score - after, 0.25 - after, 0.25))


def test_all_of_it_together():
    rng = np.random.default_rng(8)
    confidence = rng.integers(0, 101, 200) / 100
    correct = rng.random(200) < confidence
    found = reliability(confidence, correct, rng=3, n_resamples=50, level=0.8)
    assert found.n == found.bins["n"].sum() == found.curve["n"].sum() == 200
    assert found.ece == ece(confidence, correct)
    assert found.interval_level == 0.8
    same, other = (isotonic_reliability(confidence, correct, rng=seed, n_resamples=50, level=0.8) for seed in (3, 4))
    assert found.curve.equals(same)
    assert not found.curve.equals(other)


def test_one_class_alone_and_without_questions():
    alone = reliability(np.array([0.2, 0.9]), np.array([True, True]), rng=0, n_resamples=10)
    assert alone.curve["right"].tolist() == [1, 1]
    assert alone.decomposition.uncertainty == alone.decomposition.discrimination == 0
    found = reliability(np.zeros(0), np.zeros(0, bool), rng=0)
    assert found.n == len(found.curve) == 0
    assert list(found.curve) == ["confidence", "n", "right", "band_low", "band_high"]
    assert math.isnan(found.ece)
    assert all(map(math.isnan, found.decomposition))
