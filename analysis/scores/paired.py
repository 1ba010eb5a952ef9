"""Paired comparison of two methods on the same questions: differences of metrics, and their intervals.

Both methods are scored on the same resamples of the questions, so that what makes a question hard for both cancels in
the difference.
"""

from collections.abc import Sequence

import pandas as pd

from analysis.scores.metrics import METRICS, evaluate_metrics
from analysis.scores.scoring import METRIC_NAMES, SELECTION_SCORES, Scored, mean_score, percentile_interval


def paired_table(
    first: Scored,
    second: Scored,
    *,
    metrics: Sequence[str] | None = None,
    seed: int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compare two methods on the same labelled questions in the same order: a row for each metric.

    ``first`` and ``second``: the metric of both methods; ``difference``: second minus first; ``low`` and ``high``: its
    percentile bootstrap interval; ``n_undefined``: resamples in which it is undefined (a single class, for AUROC and
    average precision), which are left out.

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
    names = tuple(metrics or (name for name in METRIC_NAMES if name != "mean_confidence"))
    own = [name for name in names if name in METRICS]
    both, weight = first.is_answered & second.is_answered, first.resampled(n_resamples, seed)
    answered = [side.select(both)[:2] for side in (first, second)]
    own_weight = weight if both.all() else first.select(both).resampled(n_resamples, seed)
    whole = [evaluate_metrics(*stated, names=own) for stated in answered]
    resampled = [evaluate_metrics(*stated, own_weight, own) for stated in answered]
    rows = []
    for name in names:
        if name in METRICS:
            before, after = (of_side[name].item() for of_side in whole)
            replicates = resampled[1][name] - resampled[0][name]
        else:
            scores = [SELECTION_SCORES[name](side) for side in (first, second)]
            difference = scores[1] - scores[0]  # NaN, and left out, where either states no distribution
            before, after = (mean_score(score + 0 * difference).item() for score in scores)
            replicates = mean_score(difference, weight)
        figures = {"metric": name, "first": before, "second": after, "difference": after - before}
        rows.append(figures | percentile_interval(replicates, level)._asdict())
    return pd.DataFrame(rows)
