"""Every metric of every method, with its interval."""

from dataclasses import asdict

import pandas as pd

from analysis.scores.bootstrap import bootstrap_metrics
from analysis.scores.metrics import Metrics, evaluate_metrics

METRIC_NAMES = tuple(Metrics.__dataclass_fields__)


def score(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, interval_level: float = 0.95
) -> pd.DataFrame:
    """Compute every metric of every method, with percentile bootstrap intervals over questions.

    Parameters
    ----------
    predictions
        With columns ``method``, ``confidence`` and ``correct``; rows without either of the last two are not
        scored. Methods that scored the same number of questions share their resamples.

    Returns
    -------
    DataFrame
        See :class:`~analysis.evaluation.Evaluation`. A metric that is undefined (no questions, one class) is NaN.
    """
    rows = []
    for method, all_rows in predictions.groupby("method", sort=False):
        labelled = all_rows[all_rows["correct"].notna()]
        answered = labelled[labelled["confidence"].notna()]
        confidence = answered["confidence"].to_numpy(float)
        correct = answered["correct"].to_numpy(bool)
        point = asdict(evaluate_metrics(confidence, correct))
        intervals = bootstrap_metrics(confidence, correct, rng=seed, n_resamples=n_resamples, level=interval_level)
        row: dict[str, object] = {
            "method": method,
            "n": len(answered),
            "unanswered": len(labelled) - len(answered),
            **point,
        }
        for name in METRIC_NAMES:
            row[f"{name}_low"], row[f"{name}_high"], _ = getattr(intervals, name)
        rows.append(row)
    return pd.DataFrame(rows)
