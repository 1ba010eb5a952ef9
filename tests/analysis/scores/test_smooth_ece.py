"""smECE against closed forms, direct integration and the authors' package."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.stats import norm

from analysis.scores.metrics import MIN_CONFIDENCE, smece
from analysis.scores.smooth_ece import N_CELLS, smooth_ece


@st.composite
def questions(draw: st.DrawFn, max_size: int = 30) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, max_size))
    stated = st.integers(0, 20).map(lambda step: step / 20)
    return draw(arrays(float, n, elements=st.one_of(stated, st.floats(0, 1)))), draw(arrays(bool, n))


def integrated_smece(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Find smECE from its definition, the reflections written out as mirror images."""
    confidence = np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    residual = (correct - confidence) / len(confidence)
    position = (np.arange(4000) + 0.5) / 4000
    images = np.concatenate([2 * turn + sign * confidence for turn in range(-4, 5) for sign in (1, -1)])

    def excess(sigma: float) -> float:
        near = (images > -8 * sigma) & (images < 1 + 8 * sigma)
        kernel = norm.pdf(position[:, None], images[near], sigma)
        return float(np.abs(kernel @ np.tile(residual, 18)[near]).mean() - sigma)

    return float(brentq(excess, 1e-3, 1, xtol=1e-7))


@given(confidence=st.floats(0, 1), n_correct=st.integers(0, 10))
def test_one_stated_confidence_has_its_mean_residual(confidence, n_correct):
    residual = n_correct / 10 - np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    assert smece(np.full(10, confidence), np.arange(10) < n_correct) == pytest.approx(abs(residual), abs=1e-12)


@settings(max_examples=8)
@given(questions())
def test_agrees_with_direct_integration(sample):
    confidence, correct = sample
    value = smece(confidence, correct)
    if value > 0.005:
        assert value == pytest.approx(integrated_smece(confidence, correct), abs=2e-5)


@given(questions())
def test_bounds_and_the_complement(sample):
    confidence, correct = sample
    value, residual = smece(confidence, correct), correct - np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    assert abs(residual.mean()) - 1e-9 <= value <= np.abs(residual).mean() + 1e-9
    assert smece(1 - confidence, ~correct) == pytest.approx(value, abs=1e-6)


def test_replicates_do_not_touch_each_other():
    confidence, correct = np.array([0.1, 0.5, 0.9]), np.array([1.0, 0.0, 1.0])
    weight = np.array([[1.0, 0, 2], [0, 0, 3], [4, 1, 1]])
    together = smooth_ece(confidence, correct, weight)
    apart = [smooth_ece(confidence, correct, row[None])[0] for row in weight]
    np.testing.assert_allclose(together, apart, atol=1e-6)


def test_opposite_residuals_closer_than_a_cell_keep_their_moment():
    # A quarter and minus a quarter: a dipole of moment m, for which smECE_sigma = m sqrt(2/pi) / sigma.
    gap = 0.02 / N_CELLS
    expected = math.sqrt(gap / 4 * math.sqrt(2 / math.pi))
    assert smece([0.5 - gap / 2, 0.5 + gap / 2], [True, False]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("n", [20, 1000])
@pytest.mark.parametrize("power", [1.0, 0.4, 2.5], ids=["calibrated", "under", "over"])
@pytest.mark.parametrize("stated", ["any", "tied", "high"])
def test_agrees_with_the_package_of_its_authors(n, power, stated):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        relplot = pytest.importorskip("relplot")
    rng = np.random.default_rng(n)
    draws = {
        "any": rng.random(n),
        "tied": rng.integers(1, 10, n) / 10,
        "high": 1 - np.minimum(rng.exponential(0.1, n), 0.9),
    }
    confidence = np.clip(draws[stated], MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    correct = rng.random(n) < confidence**power
    theirs = relplot.smECE(confidence, correct.astype(float))
    # They search in steps of 1/1024, integrate on 200 points or more and cut the kernel off at 1/2.
    assert smece(confidence, correct) == pytest.approx(theirs, abs=2e-3)
