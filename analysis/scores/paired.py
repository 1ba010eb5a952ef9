"""Paired comparison of two methods on the same questions: differences of metrics, and their intervals.

Both methods are scored on the same resamples of the questions, so that what makes a question hard for both cancels in
the difference.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from analysis.scores.metrics import METRICS, Replicates, Weight
from analysis.scores.scoring import SELECTION_SCORES, Scored, mean_score, percentile_interval


class PairedDifference(NamedTuple):
    """One metric of two methods, their difference (second minus first), and its percentile bootstrap interval.

    Resamples in which the difference is undefined (a single class, for AUROC and average precision) are counted and
    left out.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    n_undefined: int


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
    are resampled as a whole. The intervals cover the choice of questions, not how the methods would change if they were
    fitted to others (Efron and Tibshirani, 1993, An Introduction to the Bootstrap, chapter 13).

    Parameters
    ----------
    first, second
        The answers of both methods, with NaN as the confidence of an unanswered question.
    metrics
        Names of metrics; by default all.
    seed, n_resamples, level
        Seed and number of resamples, and the probability of the intervals.

    Raises
    ------
    ValueError
        If the methods have different numbers of questions.

    Examples
    --------
    >>> import numpy as np
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
    of_all = first, second, first.resampled(n_resamples, seed)
    of_own = of_all
    if not both.all():
        answered = first.select(both)
        of_own = answered, second.select(both), answered.resampled(n_resamples, seed)
    rows = []
    for name in metrics or (*SELECTION_SCORES, *_OWN_METRICS):
        before, after, replicates = _selection(name, *of_all) if name in SELECTION_SCORES else _own(name, *of_own)
        interval = percentile_interval(replicates, level)
        rows.append({"metric": name, **PairedDifference(before, after, after - before, *interval)._asdict()})
    return pd.DataFrame(rows)


_OWN_METRICS = tuple(name for name in METRICS if name != "mean_confidence")

type _Compared = tuple[float, float, Replicates]


def _selection(name: str, first: Scored, second: Scored, weight: Weight) -> _Compared:
    before, after = (SELECTION_SCORES[name](scored) for scored in (first, second))
    difference = after - before  # NaN, and left out, where either states no distribution
    means = [float(mean_score(value + 0 * difference)[0]) for value in (before, after)]
    return means[0], means[1], mean_score(difference, weight)


def _own(name: str, first: Scored, second: Scored, weight: Weight) -> _Compared:
    metric = METRICS[name]
    before, after = (metric.replicates(*scored[:2], weight) for scored in (first, second))
    return metric(*first[:2]), metric(*second[:2]), after - before
