"""Every metric of every method, with its interval."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from analysis.scores.metrics import MIN_CONFIDENCE, Confidence, Correct, Metrics, Weight, evaluate_metrics
from bayes_direag.data.observations import Observations


class Interval(NamedTuple):
    """A percentile interval, and the number of undefined (NaN) replicates left out of it."""

    low: float
    high: float
    n_undefined: int


def bootstrap_metrics(
    confidence: ArrayLike, correct: ArrayLike, weight: ArrayLike, *, level: float = 0.95
) -> Metrics[Interval]:
    """Return a percentile interval of every metric, from the same resamples of the questions.

    Raises ValueError as the metrics do, and for a level out of range. Source: Efron and Tibshirani (1993), An
    Introduction to the Bootstrap, chapter 13.

    ``confidence``, ``correct`` (problem,): the arguments of every :class:`~analysis.scores.metrics.Metric`. ``weight``
    (replicate, problem): from `resample_weights`. ``level``: probability of the intervals, strictly between 0 and 1.

    AUROC and average precision are undefined in resamples with a single class, which are left out and counted. Without
    questions every replicate is undefined. Resampling adds noise to each bin, so intervals of small calibration errors
    (ECE, adaptive ECE, smECE) are shifted upwards and may lie above the value itself.

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
) -> Weight:
    """Draw the questions with replacement; return how often each was drawn (40 MB for 1,000 times 10,000 questions).

    Raises ValueError if `n_resamples` is less than 1.

    ``cluster`` (problem,): the cluster of each question. Whole clusters are drawn, as many as there are. Without
    clusters every row sums to `n_problems`.
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
    """Return the equal-tailed interval of the replicates that are not NaN; NaN if there are none.

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


def mean_and_interval(
    draws: Float[np.ndarray, "sample *shape"], level: float
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    """Return the mean over the draws and both ends of their equal-tailed interval, NaN for a single draw."""
    mean = draws.mean(axis=0)
    if len(draws) == 1:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return mean, low, high


_Problems = Float[np.ndarray, " problem"]


class Scored(NamedTuple):
    """One method's answers to labelled questions.

    ``confidence`` (problem,): probability of being correct, in [0, 1]; NaN for an unanswered question. ``correct``
    (problem,): whether the answer is correct; ignored for an unanswered question. ``state_probability`` (problem,): the
    probability of the observed state in the method's distribution over candidates and null; NaN or None without one.
    """

    confidence: ArrayLike
    correct: ArrayLike
    state_probability: ArrayLike | None = None

    @property
    def answered(self) -> Bool[np.ndarray, " problem"]:
        """Whether each question has an answer."""
        return ~np.isnan(np.asarray(self.confidence, float))

    def select(self, kept: Bool[np.ndarray, " problem"] | Int[np.ndarray, " kept"]) -> "Scored":
        """Return some of the questions."""
        state = None if self.state_probability is None else np.asarray(self.state_probability)[kept]
        return Scored(np.asarray(self.confidence)[kept], np.asarray(self.correct)[kept], state)


def benefit(scored: Scored) -> _Problems:
    r"""Return the benefit of each question: accuracy minus Brier score.

    .. math:: y_i - (f_i - y_i)^2 \quad\text{of the selected answer;}\qquad 0 \text{ without an answer.}

    Suppose an answer is used if its confidence exceeds a price t, with a gain of 1 - t if right and a loss of t if
    wrong. The mean gain over all prices in [0, 1] is half the benefit. 1 is perfect, 0 is never answering, and -1 is
    always certain and wrong.

    Examples
    --------
    >>> benefit(Scored([0.9, 0.2, np.nan], [True, False, False])).round(2)
    array([ 0.99, -0.04,  0.  ])
    """
    confidence, correct = np.asarray(scored.confidence, float), np.asarray(scored.correct, float)
    return np.where(scored.answered, correct - (confidence - correct) ** 2, 0.0)


def accuracy_of_all(scored: Scored) -> _Problems:
    """Return 1 for each right answer, 0 for a wrong or missing one."""
    return np.where(scored.answered, np.asarray(scored.correct, float), 0.0)


def log_score(scored: Scored) -> _Problems:
    """Return minus the log probability of the observed state, which is clipped at :data:`MIN_CONFIDENCE` from below."""
    if scored.state_probability is None:
        return np.full(len(scored.answered), np.nan)
    return np.asarray(-np.log(np.clip(np.asarray(scored.state_probability, float), MIN_CONFIDENCE, 1)))


SELECTION_SCORES: Mapping[str, Callable[[Scored], _Problems]] = MappingProxyType(
    {"benefit": benefit, "accuracy_of_all": accuracy_of_all, "log_score": log_score}
)
"""The scores that depend on which answer is selected, by name; each is defined for all labelled questions.

Methods that select different answers cannot be compared by the Brier score or NLL of their own answers: a method that
selects a wrong answer, and gives it a low probability, scores well.
"""


def mean_score(value: _Problems, weight: Weight | None = None) -> Float[np.ndarray, " replicate"]:
    """Return the mean of a score in every replicate, over the questions where it is defined; NaN without any.

    ``value`` (problem,): one of :data:`SELECTION_SCORES`. ``weight`` (replicate, problem): how often each question
    counts; by default, once.
    """
    table = np.ones((1, len(value))) if weight is None else weight
    defined = ~np.isnan(value)
    with np.errstate(invalid="ignore"):  # 0/0 makes an undefined value NaN
        return np.asarray(table[:, defined] @ value[defined] / table[:, defined].sum(axis=1))


METRIC_NAMES = (*SELECTION_SCORES, *Metrics.__dataclass_fields__)


def score(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, interval_level: float = 0.95
) -> pd.DataFrame:
    """Compute every metric of every method, with percentile bootstrap intervals over questions.

    Returns: the ``metrics`` of :class:`~analysis.evaluation.Evaluation`. A metric that is undefined (no questions, a
    single class) is NaN.

    ``predictions``: as in :class:`~analysis.evaluation.Evaluation`; rows without ``correct`` are not scored. Methods
    with the same number of scored questions, and the same clusters, share their resamples.
    """
    with Scorer(seed=seed, n_resamples=n_resamples, interval_level=interval_level) as scorer:
        for _, rows in predictions.groupby("method", sort=False):
            scorer.add(rows)
        return scorer.table()


class Scorer:
    """Score one method after the other in a separate thread, while the next one is fitted or compiled.

    A context manager; methods that are not yet scored when it is left are dropped.

    ``seed``, ``n_resamples``, ``interval_level``: as for :func:`score`.
    """

    def __init__(self, *, seed: int, n_resamples: int, interval_level: float) -> None:
        self._seed, self._n_resamples, self._interval_level = seed, n_resamples, interval_level
        self._resamples: dict[object, Int[np.ndarray, "replicate problem"]] = {}
        self._thread = ThreadPoolExecutor(1)
        self._rows: list[Future[dict[str, object]]] = []

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def add(self, predictions: pd.DataFrame) -> None:
        """Queue the predictions of one method."""
        self._rows.append(self._thread.submit(self._row, predictions))

    def table(self) -> pd.DataFrame:
        """Return the scores of all methods, in the order in which they were added."""
        return pd.DataFrame([row.result() for row in self._rows])

    def _row(self, predictions: pd.DataFrame) -> dict[str, object]:
        labelled = predictions[predictions["correct"].notna()]
        scored = scored_of(labelled)
        answered, (confidence, correct, _) = labelled[scored.answered], scored.select(scored.answered)
        row = _selection_scores(scored, self._resampled(labelled), self._interval_level)
        row |= asdict(evaluate_metrics(confidence, correct))
        intervals = bootstrap_metrics(confidence, correct, self._resampled(answered), level=self._interval_level)
        for name, interval in vars(intervals).items():
            row[f"{name}_low"], row[f"{name}_high"], _ = interval
        n = {"n": len(answered), "unanswered": len(labelled) - len(answered)}
        return {"method": predictions["method"].iloc[0], **n, **{name: row[name] for name in METRIC_NAMES}, **row}

    def _resampled(self, rows: pd.DataFrame) -> Weight:
        cluster = cluster_of(rows)
        key = len(rows) if cluster is None else cluster.tobytes()
        if key not in self._resamples:
            self._resamples[key] = resample_weights(len(rows), self._n_resamples, self._seed, cluster)
        return self._resamples[key]


def selection_table(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, level: float = 0.95
) -> pd.DataFrame:
    """Compute the scores that depend on the selected answer for every method, the greatest benefit first.

    Returns: One row per method: ``method``, ``n`` (labelled questions), the means of :data:`SELECTION_SCORES`, and
    their intervals as ``NAME_low``, ``NAME_high``.

    ``predictions``, ``seed``, ``n_resamples``, ``level``: as for :func:`score`.
    """
    rows = []
    for method, labelled in predictions[predictions["correct"].notna()].groupby("method", sort=False):
        weight = resample_weights(len(labelled), n_resamples, seed, cluster_of(labelled))
        rows.append({"method": method, "n": len(labelled), **_selection_scores(scored_of(labelled), weight, level)})
    return pd.DataFrame(rows).sort_values("benefit", ascending=False, kind="stable", ignore_index=True)


def _selection_scores(scored: Scored, weight: Weight, level: float) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, score_of in SELECTION_SCORES.items():
        value = score_of(scored)
        row[name] = float(mean_score(value)[0])
        row[f"{name}_low"], row[f"{name}_high"], _ = percentile_interval(mean_score(value, weight), level)
    return row


def scored_of(rows: pd.DataFrame) -> Scored:
    """Take one method's answers from its predictions of labelled questions."""
    return Scored(
        rows["confidence"].to_numpy(float), rows["correct"].to_numpy(bool), rows["state_probability"].to_numpy(float)
    )


def cluster_column(observations: Observations) -> pd.Series:
    """Return the column ``cluster``: the number of each question's cluster, or missing values without clusters."""
    number = observations.cluster_number
    return pd.Series([None] * len(observations) if number is None else number, dtype="Int64")


def cluster_of(rows: pd.DataFrame) -> Int[np.ndarray, " problem"] | None:
    """Return the column ``cluster`` as numbers; None if it is not there or has missing values."""
    known = "cluster" in rows and rows["cluster"].notna().all()
    return rows["cluster"].to_numpy(int) if known and len(rows) else None


class Scores(NamedTuple):
    """One method's answered, labelled questions.

    ``confidence`` (problem,): probability of being correct, in [0, 1]. ``correct`` (problem,): whether the answer is
    correct. ``n_unanswered``: number of labelled questions without an answer. ``cluster`` (problem,): the cluster of
    each question, or None.
    """

    confidence: Confidence
    correct: Correct
    n_unanswered: int
    cluster: Int[np.ndarray, " problem"] | None


def scores_by_method(predictions: pd.DataFrame) -> dict[str, Scores]:
    """Split predictions by method, in the order in which the methods first appear.

    ``predictions``: with columns ``method``, ``confidence``, ``correct`` and, if there are clusters, ``cluster``, as in
    :class:`~analysis.evaluation.Evaluation`. Rows without ``correct`` are left out, rows without ``confidence`` are
    counted.
    """
    scores = {}
    for method, rows in predictions.groupby("method", sort=False):
        labelled = rows[rows["correct"].notna()]
        answered = labelled[labelled["confidence"].notna()]
        scores[str(method)] = Scores(
            answered["confidence"].to_numpy(float),
            answered["correct"].to_numpy(bool),
            len(labelled) - len(answered),
            cluster_of(answered),
        )
    return scores
