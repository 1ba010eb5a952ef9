"""Pareto-smoothed importance weights of many questions at once.

The method is that of Vehtari et al. (2024, jmlr.org/papers/v25/19-556), as ArviZ has it: the largest ratios give way to
quantiles of a generalised Pareto distribution fitted to them (Zhang and Stephens 2009, doi:10.1198/tech.2009.08017, and
a weak prior on the shape), none larger than the largest of them. ArviZ goes question by question; here each step is one
operation on all of them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_PRIOR_SHAPE, _PRIOR_COUNT = 0.5, 10
_PRIOR_SCALE = 3
_NEGLIGIBLE = 10 * np.finfo(float).eps


class SmoothedWeights(NamedTuple):
    """What becomes of the importance ratios of each question.

    Attributes
    ----------
    log_weight : (problem, sample) array
        Logs of the smoothed weights, which sum to 1.
    pareto_k : (problem,) array
        Shape of the tail; infinite, and the weights unsmoothed, where all of the tail is one value.
    """

    log_weight: Float[np.ndarray, "problem sample"]
    pareto_k: Float[np.ndarray, " problem"]


def tail_length(n_samples: int, relative_size: float) -> int:
    """Return how many of the largest ratios are smoothed, given the effective sample size a sample."""
    if n_samples * relative_size > 225:
        return int(3 * (n_samples / relative_size) ** 0.5)
    return n_samples // 5


def smoothed_weights(log_ratio: Float[np.ndarray, "problem sample"], n_tail: int) -> SmoothedWeights:
    """Smooth the importance ratios of every question.

    Parameters
    ----------
    log_ratio
        Up to a constant of the question's own.
    n_tail
        How many of them are smoothed: at least 5, and not all.
    """
    log_weight = log_ratio - log_ratio.max(axis=1, keepdims=True)
    last = log_weight.shape[1] - n_tail
    place = np.argpartition(log_weight, last - 1, axis=1)
    cutoff = np.exp(np.take_along_axis(log_weight, place[:, last - 1 : last], axis=1))
    place = place[:, last:]
    tail = np.take_along_axis(log_weight, place, axis=1)
    order = tail.argsort(axis=1)
    place, tail = np.take_along_axis(place, order, axis=1), np.take_along_axis(tail, order, axis=1)

    one_value = tail[:, -1] - tail[:, 0] < np.finfo(float).tiny
    shape, scale = _pareto_fits(np.exp(tail) - cutoff)
    shape = np.where(one_value, np.inf, shape)
    rank = np.arange(0.5, n_tail) / n_tail
    with np.errstate(divide="ignore", invalid="ignore"):
        smoothed = np.log(cutoff + _pareto_quantiles(rank, shape, scale))
    smoothed = np.where(smoothed > tail[:, -1:], tail[:, -1:], smoothed)
    np.put_along_axis(log_weight, place, np.where(np.isfinite(shape)[:, None], smoothed, tail), axis=1)
    log_weight -= np.log(np.exp(log_weight).sum(axis=1, keepdims=True))
    return SmoothedWeights(log_weight, shape)


def _pareto_fits(
    excess: Float[np.ndarray, "problem tail"],
) -> tuple[Float[np.ndarray, " problem"], Float[np.ndarray, " problem"]]:
    """Return shape and scale of each row's generalised Pareto distribution, averaged over a grid of their ratio.

    The rows are sorted. The shape is NaN for a row whose first quartile is its least value, infinite where it has none.
    """
    n = excess.shape[1]
    least, quartile, largest = excess[:, 0], excess[:, int(n / 4 + 0.5) - 1], excess[:, -1]
    n_grid = 30 + int(n**0.5)
    grid = 1 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = grid / (_PRIOR_SCALE * quartile[:, None]) + 1 / largest[:, None]
        shape = np.log1p(-ratio[:, :, None] * excess[:, None, :]).mean(axis=2)
        fit = n * (np.log(-ratio / shape) - shape - 1)
        weight = np.exp(fit - fit.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        weight = np.where(weight < _NEGLIGIBLE, 0, weight)
        ratio = (ratio * weight).sum(axis=1) / weight.sum(axis=1)
        shape = np.log1p(-ratio[:, None] * excess).mean(axis=1)
        scale = -shape / ratio
    shape = (n * shape + _PRIOR_COUNT * _PRIOR_SHAPE) / (n + _PRIOR_COUNT)
    shape = np.where(np.isnan(shape), np.inf, shape)
    return np.where(quartile > least, shape, np.nan), scale


def _pareto_quantiles(
    probability: Float[np.ndarray, " tail"], shape: Float[np.ndarray, " problem"], scale: Float[np.ndarray, " problem"]
) -> Float[np.ndarray, "problem tail"]:
    """Return quantiles of generalised Pareto distributions; NaN where the scale is not positive."""
    shape, scale = shape[:, None], np.where(scale > 0, scale, np.nan)[:, None]
    exponential = -np.log1p(-probability)[None, :]
    bent = np.expm1(shape * exponential) / np.where(shape == 0, 1, shape)
    return np.asarray(scale * np.where(shape == 0, exponential, bent))
