r"""Pareto smoothed importance sampling (PSIS), for many questions at once.

The largest weights of a question are replaced by quantiles of a generalized Pareto distribution that is fitted to them
(Vehtari, Simpson, Gelman, Yao and Gabry 2024, jmlr.org/papers/v25/19-556; Zhang and Stephens 2009,
doi:10.1198/tech.2009.08017). ArviZ computes the same for one question after the other, which takes five times as long.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

#: The prior of the Pareto shape k counts as this many weights with k = 1/2.
_PRIOR_WEIGHTS, _PRIOR_K = 10, 0.5
#: Fewer weights are no tail.
_SHORTEST_TAIL = 5


def smoothed_weights(
    log_density: Float[np.ndarray, "problem sample"], relative_size: float
) -> tuple[Float[np.ndarray, "problem sample"], Float[np.ndarray, " problem"]]:
    """Return the log weights of draws that leave one question out, and Pareto k.

    Parameters
    ----------
    log_density
        The log density of each question's state in every draw; an unconstrained weight is its inverse.
    relative_size
        The effective sample size of the draws divided by their number, which determines the length of the tail.

    Returns
    -------
    log_weight : (problem, sample) array
        They sum to 1 after exponentiation, for every question.
    pareto_k : (problem,) array
        Infinite, and the weights not smoothed, where the lowest quarter of the tail is constant (as for chains that do
        not move) or the tail has fewer than five draws.
    """
    n = log_density.shape[1]
    n_tail = int(3 * math.sqrt(n / relative_size)) if n * relative_size > 225 else n // 5
    log_weight = log_density.min(axis=1, keepdims=True) - log_density
    pareto_k = np.full(len(log_weight), np.inf)
    if n_tail >= _SHORTEST_TAIL:
        largest = np.argpartition(log_weight, n - n_tail - 1, axis=1)[:, n - n_tail - 1 :]
        order = np.take_along_axis(log_weight, largest, axis=1).argsort(axis=1)
        order = np.take_along_axis(largest, order, axis=1)
        ordered = np.exp(np.take_along_axis(log_weight, order, axis=1))
        cutoff, excess = ordered[:, :1], ordered[:, 1:] - ordered[:, :1]
        varied = excess[:, _quartile(n_tail)] > excess[:, 0]
        pareto_k[varied], scale = _generalized_pareto(excess[varied])
        k, cutoff, order = pareto_k[varied, None], cutoff[varied], order[varied, 1:]
        log_survival = np.log1p(-np.arange(0.5, n_tail) / n_tail)
        quantile = cutoff + scale[:, None] * np.expm1(-k * log_survival) / k
        tail = np.minimum(np.log(quantile), 0.0)  # no weight is raised above the largest
        smoothed = log_weight[varied]
        np.put_along_axis(smoothed, order, tail, axis=1)
        log_weight[varied] = smoothed
    return log_weight - logsumexp(log_weight, axis=1, keepdims=True), pareto_k


def _generalized_pareto(
    excess: Float[np.ndarray, "problem tail"],
) -> tuple[Float[np.ndarray, " problem"], Float[np.ndarray, " problem"]]:
    """Fit shape and scale to the excesses of every question, in ascending order.

    The posterior mean of ``theta = -k / scale`` is taken over a grid, in which k is the estimate for each theta.
    """
    n = excess.shape[1]
    n_grid = 30 + math.isqrt(n)
    steps = 1 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    theta = steps / (3 * excess[:, _quartile(n), None]) + 1 / excess[:, -1:]
    k = np.stack([np.log1p(-column[:, None] * excess).mean(axis=1) for column in theta.T], axis=1)
    log_likelihood = n * (np.log(-theta / k) - k - 1)
    weight = np.exp(log_likelihood - logsumexp(log_likelihood, axis=1, keepdims=True))
    mean = (theta * weight).sum(axis=1) / weight.sum(axis=1)
    k_of_mean = np.log1p(-mean[:, None] * excess).mean(axis=1)
    return (n * k_of_mean + _PRIOR_WEIGHTS * _PRIOR_K) / (n + _PRIOR_WEIGHTS), -k_of_mean / mean


def _quartile(n: int) -> int:
    """Return the place of the first quartile in n sorted values."""
    return int(n / 4 + 0.5) - 1
