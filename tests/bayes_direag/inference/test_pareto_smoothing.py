"""Weights smoothed for many questions at once are those that ArviZ finds one by one."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import logsumexp

from bayes_direag.inference.pareto_smoothing import smoothed_weights, tail_length


def log_ratios(n_samples: int, seed: int = 0) -> np.ndarray:
    """Return rows from almost constant to hopeless, with and without ties."""
    rng = np.random.default_rng(seed)
    light = rng.normal(size=(6, n_samples)) * np.array([[1e-9], [0.01], [0.3], [1], [3], [20]])
    heavy = rng.pareto([[0.3], [0.8], [2.0]], size=(3, n_samples))
    bounded = np.log(rng.beta(2.0, 1.0, size=(2, n_samples)))
    tied = rng.choice([0.0, 0.5, 1.0, 4.0], p=[0.7, 0.25, 0.04, 0.01], size=(2, n_samples))
    return np.concatenate([light, np.log(heavy), bounded, tied]) + rng.normal(size=(13, 1)) * 100


@pytest.mark.parametrize("n_samples", [60, 250, 1000])
@pytest.mark.parametrize("relative_size", [0.1, 0.7, 1.3])
def test_they_are_arvizs(n_samples: int, relative_size: float) -> None:
    ratio = log_ratios(n_samples)
    found = smoothed_weights(ratio, tail_length(n_samples, relative_size))
    for row, mine, k in zip(ratio, *found, strict=True):
        # ArviZ negates; which of equal ratios is smoothed is anybody's choice
        theirs, shape = array_stats.psislw(-row, r_eff=relative_size)
        np.testing.assert_allclose(np.sort(mine), np.sort(theirs), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(k, shape, rtol=1e-7, atol=1e-7)
        if len(set(row)) == n_samples:
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_weights_sum_to_one_and_the_order_of_the_samples_is_kept() -> None:
    ratio = log_ratios(400, seed=1)
    found = smoothed_weights(ratio, 60).log_weight
    np.testing.assert_allclose(logsumexp(found, axis=1), 0, atol=1e-12)
    for row, mine in zip(ratio[:11], found, strict=False):
        assert (np.diff(mine[np.argsort(row)]) >= -1e-12).all()


def test_a_tail_of_one_value_is_told_and_left_alone() -> None:
    ratio = np.array([np.zeros(50), np.repeat([0.0, 2.0], 25)])
    found = smoothed_weights(ratio, 10)
    assert np.isinf(found.pareto_k).all()
    np.testing.assert_allclose(found.log_weight, ratio - logsumexp(ratio, axis=1, keepdims=True))


def test_the_shape_of_a_known_tail() -> None:
    """Ratios that are generalised Pareto themselves: the shape is found, about a standard error of 0.06 either way."""
    uniform = np.random.default_rng(3).random((200, 4000))
    for shape in (0.2, 0.5):
        ratio = np.log(((1 - uniform) ** -shape - 1) / shape)
        found = smoothed_weights(ratio, tail_length(4000, 1.0)).pareto_k
        assert abs(found.mean() - shape) < 0.05
