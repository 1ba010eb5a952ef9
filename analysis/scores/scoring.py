"""Every metric of every method, with its interval."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict

import pandas as pd
from jaxtyping import Int
from numpy import ndarray

from analysis.scores.bootstrap import bootstrap_metrics, percentile_interval, resample_weights
from analysis.scores.metrics import Metrics, evaluate_metrics
from analysis.scores.selection_scores import SELECTION_SCORES, Scored, mean_score
from bayes_direag.data.observations import Observations

METRIC_NAMES = (*SELECTION_SCORES, *Metrics.__dataclass_fields__)


def score(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, interval_level: float = 0.95
) -> pd.DataFrame:
    """Compute every metric of every method, with percentile bootstrap intervals over questions.

    Parameters
    ----------
    predictions
        As in :class:`~analysis.evaluation.Evaluation`; rows without ``correct`` are not scored. Methods that scored
        equally many questions, or the same clusters of them, share their resamples.

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
        self._resamples: dict[object, Int[ndarray, "replicate problem"]] = {}
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
        scored = scored_of(labelled)
        answered = labelled[scored.answered]
        own = scored.select(scored.answered)
        intervals = bootstrap_metrics(
            own.confidence, own.correct, self._resampled(answered), level=self._interval_level
        )
        row: dict[str, object] = {
            "method": predictions["method"].iloc[0],
            "n": len(answered),
            "unanswered": len(labelled) - len(answered),
        }
        seen = _selection_scores(scored, self._resampled(labelled), self._interval_level)
        row |= {name: value for name, value in seen.items() if name in SELECTION_SCORES}
        row |= asdict(evaluate_metrics(own.confidence, own.correct))
        for name, interval in vars(intervals).items():
            seen[f"{name}_low"], seen[f"{name}_high"], _ = interval
        return row | {name: value for name, value in seen.items() if name not in row}

    def _resampled(self, rows: pd.DataFrame) -> Int[ndarray, "replicate problem"]:
        cluster = cluster_of(rows)
        key = len(rows) if cluster is None else cluster.tobytes()
        if key not in self._resamples:
            self._resamples[key] = resample_weights(len(rows), self._n_resamples, self._seed, cluster)
        return self._resamples[key]


def selection_table(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, level: float = 0.95
) -> pd.DataFrame:
    """Compute what sees the selected answers of every method, the one of greatest benefit first.

    Parameters
    ----------
    predictions, seed, n_resamples, level
        As for :func:`score`.

    Returns
    -------
    DataFrame
        A row a method: ``method``, ``n`` (labelled questions), the scores of
        :data:`~analysis.scores.selection_scores.SELECTION_SCORES`, and their intervals as ``NAME_low``, ``NAME_high``.
    """
    rows = []
    for method, own in predictions[predictions["correct"].notna()].groupby("method", sort=False):
        weight = resample_weights(len(own), n_resamples, seed, cluster_of(own))
        rows.append({"method": method, "n": len(own), **_selection_scores(scored_of(own), weight, level)})
    return pd.DataFrame(rows).sort_values("benefit", ascending=False, kind="stable", ignore_index=True)


def _selection_scores(scored: Scored, weight: Int[ndarray, "replicate problem"], level: float) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, of_each in SELECTION_SCORES.items():
        value = of_each(scored)
        row[name] = float(mean_score(value)[0])
        row[f"{name}_low"], row[f"{name}_high"], _ = percentile_interval(mean_score(value, weight), level)
    return row


def scored_of(rows: pd.DataFrame) -> Scored:
    """Take what one method says of labelled questions from its predictions."""
    return Scored(
        rows["confidence"].to_numpy(float), rows["correct"].to_numpy(bool), rows["state_probability"].to_numpy(float)
    )


def cluster_column(observations: Observations) -> pd.Series:
    """Return which questions hang together as column ``cluster`` has it; missing throughout where none do."""
    number = observations.cluster_number
    return pd.Series([None] * len(observations) if number is None else number, dtype="Int64")


def cluster_of(rows: pd.DataFrame) -> Int[ndarray, " problem"] | None:
    """Return which questions hang together, by number in column ``cluster``; None where that is not, or empty."""
    known = "cluster" in rows and rows["cluster"].notna().all()
    return rows["cluster"].to_numpy(int) if known and len(rows) else None
