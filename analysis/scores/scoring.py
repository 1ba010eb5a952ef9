"""Every metric of every method, with its interval."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict

import pandas as pd
from jaxtyping import Int
from numpy import ndarray

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
    with Scorer(seed=seed, n_resamples=n_resamples, interval_level=interval_level) as scorer:
        for _, rows in predictions.groupby("method", sort=False):
            scorer.add(rows)
        return scorer.table()


class Scorer:
    """Scores one method after the other in a thread of its own: while the next is fitted, or compiled for.

    A context manager; what is not yet scored when it is left is given up.

    Parameters
    ----------
    seed, n_resamples, interval_level
        As for :func:`score`.
    """

    def __init__(self, *, seed: int, n_resamples: int, interval_level: float) -> None:
        self._seed, self._n_resamples, self._interval_level = seed, n_resamples, interval_level
        self._resamples: dict[int, Int[ndarray, "replicate problem"]] = {}
        self._thread = ThreadPoolExecutor(1)
        self._rows: list[Future[dict[str, object]]] = []

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def add(self, predictions: pd.DataFrame) -> None:
        """Have the predictions of one method scored."""
        self._rows.append(self._thread.submit(self._row, predictions))

    def table(self) -> pd.DataFrame:
        """Return the scores of all methods, in the order in which they were added."""
        return pd.DataFrame([row.result() for row in self._rows])

    def _row(self, predictions: pd.DataFrame) -> dict[str, object]:
        labelled = predictions[predictions["correct"].notna()]
        answered = labelled[labelled["confidence"].notna()]
        confidence = answered["confidence"].to_numpy(float)
        correct = answered["correct"].to_numpy(bool)
        n = len(answered)
        if n not in self._resamples:
            self._resamples[n] = resample_weights(n, self._n_resamples, self._seed)
        intervals = bootstrap_metrics(confidence, correct, self._resamples[n], level=self._interval_level)
        row: dict[str, object] = {
            "method": predictions["method"].iloc[0],
            "n": n,
            "unanswered": len(labelled) - n,
            **asdict(evaluate_metrics(confidence, correct)),
        }
        for name, interval in vars(intervals).items():
            row[f"{name}_low"], row[f"{name}_high"], _ = interval
        return row
