r"""Two methods on the same questions: differences of metrics, their intervals, and whether chance explains them.

Both methods are scored on the very same resamples of the questions, so what makes a question hard for both drops out
of the difference. The permutation test asks how large a difference arises if the two methods' results are exchanged
at random, question by question; for a metric that is a mean over questions this is the test that flips the signs
of the paired differences. A swapped method is one row of weights over both methods' results, so that any metric, mean
or not, is tested in the same array computation.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from analysis.bootstrap import percentile_interval, resample_weights
from analysis.metrics import METRICS, Metric, Metrics

#: Differences nearer to each other than this are equal: it covers rounding, and nothing that could matter.
_TOLERANCE = 1e-10


class Scored(NamedTuple):
    """What one method says of some questions, and whether it is right; unanswered questions left out.

    Attributes
    ----------
    confidence : (problem,)
        Probability of being correct, in [0, 1].
    correct : (problem,)
        Whether the answer was correct.
    """

    confidence: ArrayLike
    correct: ArrayLike


class PairedDifference(NamedTuple):
    """One metric of two methods.

    Attributes
    ----------
    first, second, difference : float
        The metric of each, and second less first.
    low, high : float
        Percentile bootstrap interval of the difference.
    n_undefined : int
        Resamples in which the difference was undefined (one class, for AUROC and average precision), and which the
        interval leaves out.
    p_value : float
        Two-sided, of the paired permutation test; NaN where the difference is.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    n_undefined: int
    p_value: float


def paired_differences(
    first: Scored,
    second: Scored,
    *,
    rng: np.random.Generator | int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Metrics[PairedDifference]:
    """Compare two methods in every metric, on the same questions in the same order.

    Parameters
    ----------
    first, second : Scored
        Of equal length; entry i of both belongs to question i.
    rng : generator or seed
        The same seed gives the same resamples as :func:`~analysis.bootstrap.bootstrap_metrics` has.
    n_resamples : int
        Number of bootstrap resamples, and of permutations.
    level : float
        Probability that an interval holds, strictly between 0 and 1.

    Returns
    -------
    Metrics of PairedDifference
        Without questions everything is NaN.

    Raises
    ------
    ValueError
        If the two are not of equal length, as the metrics do, and for a level or number of resamples out of range.

    Notes
    -----
    The intervals are over questions, with both methods taken as they are: how far either would move had it been
    fitted to other questions is not in them.

    References
    ----------
    Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 13 and 15.

    Examples
    --------
    >>> cautious = Scored([0.6, 0.7, 0.6, 0.3], [True, True, False, False])
    >>> bold = Scored([0.9, 0.9, 0.8, 0.1], [True, True, False, False])
    >>> found = paired_differences(cautious, bold, rng=0).brier
    >>> round(found.difference, 3), found.low < 0 < found.high
    (-0.007, True)
    """
    return Metrics(**_differences(first, second, vars(METRICS), rng=rng, n_resamples=n_resamples, level=level))


def paired_table(
    first: Scored,
    second: Scored,
    *,
    metrics: Sequence[str] | None = None,
    rng: np.random.Generator | int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return :func:`paired_differences` as a table: a row a metric, ``metric`` and its :class:`PairedDifference`.

    Parameters
    ----------
    metrics
        Names of the metrics wanted, which alone are then computed; all when left out.
    """
    functions = {name: getattr(METRICS, name) for name in metrics or vars(METRICS)}
    found = _differences(first, second, functions, rng=rng, n_resamples=n_resamples, level=level)
    return pd.DataFrame([{"metric": name, **one._asdict()} for name, one in found.items()])


def permutation_p_value(
    metric: Metric[[]],
    first: Scored,
    second: Scored,
    *,
    rng: np.random.Generator | int,
    n_permutations: int = 1000,
) -> float:
    r"""Test whether two methods' results can be told, by a metric, from the same results swapped at random.

    .. math:: p = \frac{1 + \#\{r : |d_r| \ge |d|\}}{1 + R}

    where :math:`d` is the observed difference and :math:`d_r` the one after each question's two results have been
    swapped, or not, by the toss of a coin. The hypothesis is that nothing distinguishes the two but their names; only
    for a mean over questions (accuracy, Brier score, NLL) is that much the same as equal metrics.

    Returns
    -------
    float
        At least ``1 / (1 + n_permutations)``. NaN where the observed difference is; a permutation whose difference is
        undefined counts as one at least as large, which can only raise p.

    Raises
    ------
    ValueError
        As :func:`paired_differences` does.

    References
    ----------
    Phipson and Smyth (2010), doi:10.2202/1544-6115.1585, on the added 1.
    """
    _check_lengths(first, second)
    return _p_value(metric, first, second, _swaps(np.size(first.confidence), n_permutations, rng))


def control_false_discoveries(p_value: ArrayLike) -> Float[np.ndarray, "..."]:
    """Adjust p-values of many comparisons by the method of Benjamini and Hochberg.

    Calling those at most q discoveries makes the expected share of false ones among them at most q, for tests that
    are independent or positively dependent.

    Parameters
    ----------
    p_value : array of any shape
        NaN for a comparison without one: it stays NaN and does not count as a comparison.

    Raises
    ------
    ValueError
        If a p-value lies outside [0, 1].

    References
    ----------
    Benjamini and Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> control_false_discoveries([0.01, 0.04, float("nan"), 0.03])
    array([0.03, 0.04,  nan, 0.04])
    """
    from scipy.stats import false_discovery_control

    adjusted = np.array(p_value, float)
    defined = ~np.isnan(adjusted)
    if defined.any():
        adjusted[defined] = false_discovery_control(adjusted[defined])
    return adjusted


def _differences(
    first: Scored,
    second: Scored,
    metrics: Mapping[str, Metric[[]]],
    *,
    rng: np.random.Generator | int,
    n_resamples: int,
    level: float,
) -> dict[str, PairedDifference]:
    _check_lengths(first, second)
    generator = np.random.default_rng(rng)
    weight = resample_weights(np.size(first.confidence), n_resamples, generator)
    swapped = _swaps(np.size(first.confidence), n_resamples, generator)
    found = {}
    for name, metric in metrics.items():
        point, other = metric(*first), metric(*second)
        interval = percentile_interval(metric(*second, weight) - metric(*first, weight), level)
        p_value = _p_value(metric, first, second, swapped)
        found[name] = PairedDifference(point, other, other - point, *interval, p_value)
    return found


def _swaps(
    n_problems: int, n_permutations: int, rng: np.random.Generator | int
) -> Int[np.ndarray, "replicate problem"]:
    """Toss a coin for each question of each permutation; the first row swaps none."""
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; expected 1 or more")
    swapped = np.random.default_rng(rng).integers(2, size=(1 + n_permutations, n_problems), dtype=np.int8)
    swapped[0] = 0
    return swapped


def _p_value(metric: Metric[[]], first: Scored, second: Scored, swapped: Int[np.ndarray, "replicate problem"]) -> float:
    # Question by question, so that equal confidences keep the order of the questions whoever is swapped.
    confidence, correct = (
        np.stack([np.asarray(a), np.asarray(b)], axis=1).ravel() for a, b in zip(first, second, strict=True)
    )
    difference = metric(confidence, correct, _places(swapped)) - metric(confidence, correct, _places(1 - swapped))
    if np.isnan(difference[0]):
        return np.nan
    return float(np.mean(~(np.abs(difference) < abs(difference[0]) - _TOLERANCE)))


def _places(first: Int[np.ndarray, "replicate problem"]) -> Int[np.ndarray, "replicate result"]:
    """Say of each result, two a question and the first method's first, whether a row takes it."""
    return np.stack([first, 1 - first], axis=2).reshape(len(first), -1)


def _check_lengths(first: Scored, second: Scored) -> None:
    lengths = [np.size(first.confidence), np.size(second.confidence)]
    if lengths[0] != lengths[1]:
        raise ValueError(f"the methods answered {lengths[0]} and {lengths[1]} questions; expected the same questions")
