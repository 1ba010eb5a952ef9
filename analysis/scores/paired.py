r"""Paired comparison of two methods on the same questions: differences of metrics, intervals and permutation tests.

Both methods are scored on the same resamples of the questions, so that what makes a question hard for both cancels in
the difference. For metrics that are means over questions (benefit, log score, accuracy, Brier score, NLL) a permutation
test flips the signs of the questions' differences at random. Calibration errors and rankings have an interval, but no
test: exchanging two methods' results question by question mixes their errors, and such a test rejected far too often
for two methods with the same miscalibration.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from analysis.scores.metrics import METRICS, MIN_CONFIDENCE, Problems, Replicates, Weight
from analysis.scores.scoring import SELECTION_SCORES, Scored, mean_score, percentile_interval, resample_weights

#: Sums of differences that are closer than this count as equal; it covers rounding errors.
_TOLERANCE = 1e-9


class PairedDifference(NamedTuple):
    """One metric of two methods, their difference (second minus first), and its percentile bootstrap interval.

    Resamples in which the difference is undefined (a single class, for AUROC and average precision) are counted and
    left out. The p-value is that of the paired permutation test, NaN for metrics that are not means over questions.
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
    seed: int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compare two methods on the same labelled questions in the same order.

    The scores of :data:`~analysis.scores.scoring.SELECTION_SCORES` are over all questions, or all for which both
    methods state a distribution; the metrics of own answers are over the questions that both have answered. Clusters
    are resampled, and change signs, as a whole. The intervals cover the choice of questions, not how the methods would
    change if they were fitted to others (Efron and Tibshirani, 1993, An Introduction to the Bootstrap, chapters 13 and
    15).

    Parameters
    ----------
    first, second
        The answers of both methods, with NaN as the confidence of an unanswered question.
    metrics
        Names of metrics; by default all.
    seed, n_resamples, level
        Seed of resamples and permutations, their number, and the probability of the intervals.

    Raises
    ------
    ValueError
        If the methods have different numbers of questions.

    Examples
    --------
    >>> right = np.array([True, True, False, False])
    >>> cautious, bold = Scored(np.array([0.6, 0.7, 0.6, 0.3]), right), Scored(np.array([0.9, 0.9, 0.8, 0.1]), right)
    >>> table = paired_table(cautious, bold, metrics=["brier"], seed=0)
    >>> table[["metric", "first", "second", "difference"]].round(3).to_numpy().tolist()
    [['brier', 0.175, 0.168, -0.007]]
    """
    n, others = len(first.confidence), len(second.confidence)
    if n != others:
        raise ValueError(f"the methods answered {n} and {others} questions; expected the same questions")
    both = first.is_answered & second.is_answered
    of_all = _Pair.of(first, second, n_resamples, seed)
    of_own = of_all if both.all() else _Pair.of(first.select(both), second.select(both), n_resamples, seed)
    rows = []
    for name in metrics or (*SELECTION_SCORES, *_OWN_METRICS):
        (before, after), replicates, p_value = of_all.selection(name) if name in SELECTION_SCORES else of_own.own(name)
        interval = percentile_interval(replicates, level)
        rows.append({"metric": name, **PairedDifference(before, after, after - before, *interval, p_value)._asdict()})
    return pd.DataFrame(rows)


_OWN_METRICS = tuple(name for name in METRICS if name != "mean_confidence")

type _Compared = tuple[tuple[float, float], Replicates, float]


class _Pair(NamedTuple):
    """Two methods on the questions of a metric, with the resamples and the seed of the signs."""

    first: Scored
    second: Scored
    weight: Weight
    signs: int  # one seed, so that a metric's p-value does not depend on the others

    @classmethod
    def of(cls, first: Scored, second: Scored, n_resamples: int, seed: int) -> "_Pair":
        generator = np.random.default_rng(seed)
        weight = resample_weights(len(first.confidence), n_resamples, generator, first.cluster)
        return cls(first, second, weight, int(generator.integers(2**63)))

    def selection(self, name: str) -> _Compared:
        first, second = (SELECTION_SCORES[name](scored) for scored in (self.first, self.second))
        difference = second - first  # NaN, and left out, where either states no distribution
        before, after = (float(mean_score(value + 0 * difference)[0]) for value in (first, second))
        return (before, after), mean_score(difference, self.weight), self._p_value(difference)

    def own(self, name: str) -> _Compared:
        metric, pairs = METRICS[name], [scored[:2] for scored in (self.first, self.second)]
        point = metric(*pairs[0]), metric(*pairs[1])
        before, after = (metric.replicates(*pair, self.weight) for pair in pairs)
        if metric.of_each is None:
            return point, after - before, np.nan
        first, second = (
            metric.of_each(np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE), correct.astype(float))
            for confidence, correct in pairs
        )
        return point, after - before, self._p_value(second - first)

    def _p_value(self, difference: Problems) -> float:
        """Test the differences that are defined, summed by cluster."""
        cluster = np.arange(len(difference)) if self.first.cluster is None else self.first.cluster
        defined = ~np.isnan(difference)
        _, member = np.unique(cluster[defined], return_inverse=True)
        summed = np.bincount(member, difference[defined]).astype(float)
        return permutation_p_value(summed, seed=self.signs, n_permutations=len(self.weight))


def permutation_p_value(difference: Problems, *, seed: int, n_permutations: int = 1000) -> float:
    r"""Test whether paired differences have mean 0, by flipping their signs at random.

    .. math:: p = \frac{1 + \#\{r : |\sum_i \sigma_{ri} d_i| \ge |\sum_i d_i|\}}{1 + R}

    with random signs :math:`\sigma_{ri} = \pm 1`, each of which exchanges the methods on a question or not. The test is
    exact if the differences are symmetric about 0; for many questions it tests their mean.
    (``scipy.stats.permutation_test`` doubles the smaller tail, and took three to twenty-eight times as long.)

    It is 1 if all differences are 0, and NaN without questions. Source for the added 1: Phipson and Smyth (2010),
    doi:10.2202/1544-6115.1585.

    Examples
    --------
    >>> difference = np.array([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.1, 0.3, 0.2])
    >>> permutation_p_value(difference, seed=0, n_permutations=9999) < 0.005
    True
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; expected 1 or more")
    if not len(difference):
        return np.nan
    flipped = np.random.default_rng(seed).integers(2, size=(n_permutations, len(difference)), dtype=np.int8)
    sums = difference.sum() - 2 * (flipped @ difference)
    return float((1 + np.sum(np.abs(sums) >= abs(difference.sum()) - _TOLERANCE)) / (1 + n_permutations))


def control_false_discoveries(p_value: ArrayLike) -> Float[np.ndarray, "..."]:
    """Adjust the p-values of many comparisons by the method of Benjamini and Hochberg.

    If comparisons with an adjusted value of at most q are called discoveries, the expected share of false discoveries
    is at most q, for tests that are independent or positively dependent. NaN stays NaN and does not count.

    Source: Benjamini and Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

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
