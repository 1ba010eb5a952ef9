r"""Two methods on the same questions: differences of metrics, their intervals, and whether chance explains them.

Both methods are scored on the very same resamples of the questions, so what makes a question hard for both drops out
of the difference. Where a metric is a mean over questions (accuracy, Brier score, negative log-likelihood), a
permutation test says how large a mean difference arises if the sign of every question's difference is a matter of
chance. Calibration errors and rankings have no such test here: swapping two methods' results question by question
mixes their errors, and found "differences" between two equally miscalibrated methods far too often; for those
the interval speaks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from analysis.scores.bootstrap import percentile_interval, resample_weights
from analysis.scores.metrics import METRICS, MIN_CONFIDENCE

_Problems = Float[np.ndarray, " problem"]

#: The metrics that are means over questions: the score of one question, given clipped confidence and correctness.
MEAN_SCORES: Mapping[str, Callable[[_Problems, _Problems], _Problems]] = {
    "accuracy": lambda _, correct: correct,
    "brier": lambda confidence, correct: (confidence - correct) ** 2,
    "nll": lambda confidence, correct: -np.log(np.where(correct == 1, confidence, 1 - confidence)),
}

#: Sums of differences nearer to each other than this are equal: it covers rounding, and nothing that could matter.
_TOLERANCE = 1e-9


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
        Two-sided, of the paired permutation test, for :data:`MEAN_SCORES`; NaN for the other metrics, and without
        questions.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    n_undefined: int
    p_value: float


def paired_table(
    first: Scored,
    second: Scored,
    *,
    metrics: Sequence[str] | None = None,
    rng: np.random.Generator | int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compare two methods on the same questions in the same order.

    Parameters
    ----------
    first, second : Scored
        Of equal length; entry i of both belongs to question i.
    metrics
        Names of the metrics wanted, which alone are then computed; all when left out.
    rng : generator or seed
        The same seed gives the same resamples as :func:`~analysis.scores.bootstrap.bootstrap_metrics` has.
    n_resamples : int
        Number of bootstrap resamples, and of permutations.
    level : float
        Probability that an interval holds, strictly between 0 and 1.

    Returns
    -------
    DataFrame
        A row a metric: ``metric`` and its :class:`PairedDifference`. Without questions everything is NaN.

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
    >>> found = paired_table(cautious, bold, metrics=["brier"], rng=0)
    >>> found[["metric", "first", "second", "difference"]].round(3).to_numpy().tolist()
    [['brier', 0.175, 0.168, -0.007]]
    """
    _check_lengths(first, second)
    generator = np.random.default_rng(rng)
    weight = resample_weights(np.size(first.confidence), n_resamples, generator)
    signs = int(generator.integers(2**63))  # one seed, so that a metric's p-value does not depend on the others
    rows = []
    for name in metrics or vars(METRICS):
        metric = getattr(METRICS, name)
        point, other = metric(*first), metric(*second)
        interval = percentile_interval(metric(*second, weight) - metric(*first, weight), level)
        p_value = np.nan
        if name in MEAN_SCORES:
            difference = _scores(name, second) - _scores(name, first)
            p_value = permutation_p_value(difference, rng=signs, n_permutations=n_resamples)
        rows.append({"metric": name, **PairedDifference(point, other, other - point, *interval, p_value)._asdict()})
    return pd.DataFrame(rows)


def permutation_p_value(difference: ArrayLike, *, rng: np.random.Generator | int, n_permutations: int = 1000) -> float:
    r"""Test whether paired differences have mean 0, by flipping their signs at random.

    .. math:: p = \frac{1 + \#\{r : |\sum_i \sigma_{ri} d_i| \ge |\sum_i d_i|\}}{1 + R}

    with signs :math:`\sigma_{ri} = \pm 1` by the toss of a coin, which is to swap two methods' scores of a question, or
    not. Exact where the differences are symmetric about 0; for many questions it tests their mean.
    (``scipy.stats.permutation_test`` doubles the smaller tail, and took three to twenty-eight times as long.)

    Parameters
    ----------
    difference : (problem,)
        Of a score of one question, between two methods.
    rng : generator or seed
        Of the signs.
    n_permutations : int
        R, at least 1.

    Returns
    -------
    float
        At least ``1 / (1 + n_permutations)``; 1 where all differences are 0; NaN without questions.

    Raises
    ------
    ValueError
        If `n_permutations` is less than 1.

    References
    ----------
    Phipson and Smyth (2010), doi:10.2202/1544-6115.1585, on the added 1.

    Examples
    --------
    >>> permutation_p_value([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.1, 0.3, 0.2], rng=0, n_permutations=9999) < 0.005
    True
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; expected 1 or more")
    values = np.asarray(difference, float)
    if not len(values):
        return np.nan
    flipped = np.random.default_rng(rng).integers(2, size=(n_permutations, len(values)), dtype=np.int8)
    sums = values.sum() - 2 * (flipped @ values)
    return float((1 + np.sum(np.abs(sums) >= abs(values.sum()) - _TOLERANCE)) / (1 + n_permutations))


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


def _scores(name: str, scored: Scored) -> _Problems:
    """Return the score of every question."""
    confidence = np.clip(np.asarray(scored.confidence, float), MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    return MEAN_SCORES[name](confidence, np.asarray(scored.correct, float))


def _check_lengths(first: Scored, second: Scored) -> None:
    lengths = [np.size(first.confidence), np.size(second.confidence)]
    if lengths[0] != lengths[1]:
        raise ValueError(f"the methods answered {lengths[0]} and {lengths[1]} questions; expected the same questions")
