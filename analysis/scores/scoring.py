"""Every metric of every method, with its interval."""

from dataclasses import asdict

import numpy as np
import pandas as pd

from analysis.scores.bootstrap import bootstrap_metrics, resample_weights
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
    resamples: dict[int, np.ndarray] = {}
    for method, all_rows in predictions.groupby("method", sort=False):
        labelled = all_rows[all_rows["correct"].notna()]
        answered = labelled[labelled["confidence"].notna()]
        confidence = answered["confidence"].to_numpy(float)
        correct = answered["correct"].to_numpy(bool)
        n = len(answered)
        if n not in resamples:
            resamples[n] = resample_weights(n, n_resamples, seed)
        intervals = bootstrap_metrics(confidence, correct, resamples[n], level=interval_level)
        row: dict[str, object] = {
            "method": method,
            "n": n,
            "unanswered": len(labelled) - n,
            **asdict(evaluate_metrics(confidence, correct)),
        }
        for name, interval in vars(intervals).items():
            row[f"{name}_low"], row[f"{name}_high"], _ = interval
        rows.append(row)
    return pd.DataFrame(rows)
