"""Percentile bootstrap over questions: how far a metric would move with another draw of questions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from analysis.scores.metrics import Metrics, evaluate_metrics


class Interval(NamedTuple):
    """A percentile interval, and how many undefined (NaN) replicates were left out of it."""

    low: float
    high: float
    n_undefined: int


def bootstrap_metrics(
    confidence: ArrayLike, correct: ArrayLike, weight: ArrayLike, *, level: float = 0.95
) -> Metrics[Interval]:
    """Return a percentile interval of every metric, all of them from the same resamples of the questions.

    Raises ValueError as the metrics do, and for a level out of range. Source: Efron and Tibshirani (1993), An
    Introduction to the Bootstrap, chapter 13.

    Parameters
    ----------
    confidence : (problem,)
        Probability of being correct, in [0, 1]; unanswered questions left out.
    correct : (problem,)
        Whether the answer was correct.
    weight : (replicate, problem)
        How often each question counts in each resample, as `resample_weights` gives it; the same for any two methods
        that answered the same questions.
    level : float
        Probability that an interval holds, strictly between 0 and 1.

    Returns
    -------
    Metrics of Interval
        AUROC and average precision are undefined in resamples of one class, which are left out and counted.
        No questions at all make every replicate undefined.

    Notes
    -----
    Resampling adds noise of its own to each bin. Intervals of a calibration error (ECE, adaptive ECE, smECE)
    are therefore shifted upwards where it is small, and may lie above the value itself.

    To compare two methods on the same questions, evaluate both on one table and take the `percentile_interval` of the
    difference.

    Examples
    --------
    >>> resamples = resample_weights(4, 1000, rng=0)
    >>> intervals = bootstrap_metrics([0.9, 0.8, 0.6, 0.3], [True, True, False, False], resamples)
    >>> intervals.accuracy
    Interval(low=0.0, high=1.0, n_undefined=0)
    >>> intervals.auroc.n_undefined
    120
    """
    replicates = evaluate_metrics(confidence, correct, weight)
    return replicates.map(lambda value: percentile_interval(value, level))


def resample_weights(
    n_problems: int,
    n_resamples: int,
    rng: np.random.Generator | int,
    cluster: Int[np.ndarray, " problem"] | None = None,
) -> Int[np.ndarray, "replicate problem"]:
    """Draw the questions with replacement and return how often each was drawn.

    Raises ValueError if `n_resamples` is less than 1.

    Parameters
    ----------
    cluster : (problem,), optional
        Which questions hang together: whole clusters are drawn, as many as there are.

    Returns
    -------
    (replicate, problem)
        Without clusters every row sums to `n_problems`; 40 MB for 1,000 resamples of 10,000 questions.
    """
    if n_resamples < 1:
        raise ValueError(f"n_resamples is {n_resamples}; expected 1 or more")
    if cluster is not None:
        names, member = np.unique(cluster, return_inverse=True)
        return resample_weights(len(names), n_resamples, rng)[:, member]
    generator = np.random.default_rng(rng)
    weight = np.zeros((n_resamples, n_problems), np.int32)
    for row in weight:
        row += np.bincount(generator.integers(max(1, n_problems), size=n_problems), minlength=n_problems)
    return weight


def percentile_interval(replicates: Float[np.ndarray, " replicate"], level: float = 0.95) -> Interval:
    """Return the equal-tailed interval of the replicates that are not NaN: NaN to NaN where there are none.

    Raises ValueError if `level` is not strictly between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; expected a probability strictly between 0 and 1")
    defined = replicates[~np.isnan(replicates)]
    n_undefined = len(replicates) - len(defined)
    if not len(defined):
        return Interval(np.nan, np.nan, n_undefined)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), n_undefined)
