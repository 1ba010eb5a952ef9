"""Smoothed importance weights against ArviZ, which computes them question by question."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayes_direag.inference.psis import smoothed_weights

SHAPES = (-1.0, -0.1, 0.2, 0.6, 0.9, 1.5)


@pytest.mark.parametrize(("n", "relative_size"), [(2000, 0.7), (2000, 0.05), (1000, 1.6), (300, 0.5), (25, 1.0)])
def test_psis_agrees_with_arviz(n: int, relative_size: float) -> None:
    rng = np.random.default_rng(n)
    log_weight = np.concatenate([-np.log(rng.random((20, n))) * shape for shape in SHAPES])
    log_weight[5] = np.sign(log_weight[5])  # most weights are equal, those of the tail not all
    log_weight[5, : n // 50 + 1] += 1.0
    expected, shape = array_stats.psislw(-log_weight, r_eff=relative_size)
    weights, pareto_k = smoothed_weights(-log_weight, relative_size)
    np.testing.assert_allclose(weights, expected, atol=1e-10)
    np.testing.assert_allclose(pareto_k, np.where(np.isnan(shape), np.inf, shape), atol=1e-10)
    np.testing.assert_allclose(np.exp(weights).sum(axis=1), 1)


def test_psis_does_not_smooth_weights_without_a_tail() -> None:
    constant = np.full((1, 100), -0.3)
    steps = np.repeat([[-0.2, -1.5]], 50, axis=1).reshape(1, -1)
    for log_density, size in ((constant, 1.0), (steps, 1.0), (np.array([[-1.0, -2.0, -3.0]]), 1.0)):
        weights, pareto_k = smoothed_weights(log_density, size)
        np.testing.assert_allclose(np.exp(weights), np.exp(-log_density) / np.exp(-log_density).sum())
        assert np.isinf(pareto_k).all()


def test_psis_of_no_question_is_nothing() -> None:
    weights, pareto_k = smoothed_weights(np.empty((0, 100)), 1.0)
    assert (weights.shape, pareto_k.shape) == ((0, 100), (0,))
