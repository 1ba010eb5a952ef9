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
    """A percentile interval, and how many undefined (NaN) replicates were left out of it."""

    low: float
    high: float
    n_undefined: int


def bootstrap_metrics(
    confidence: ArrayLike, correct: ArrayLike, weight: ArrayLike, *, level: float = 0.95
) -> Metrics[Interval]:
    """Return a percentile interval of every metric, all of them from the same resamples of the questions.

    Raises ValueError as the metrics do, and for a level out of range. Source: Efron and Tibshirani (1993), An
    Introduction to the Bootstrap, chapter 13.

    ``confidence``, ``correct`` (problem,): as every :class:`~analysis.scores.metrics.Metric` takes them. ``weight``
    (replicate, problem): how often each question counts in each resample, as `resample_weights` gives it. ``level``:
    probability that an interval holds, strictly between 0 and 1.

    AUROC and average precision are undefined in resamples of one class, which are left out and counted. No questions at
    all make every replicate undefined. Resampling adds noise of its own to each bin: intervals of a calibration error
    (ECE, adaptive ECE, smECE) are shifted upwards where it is small, and may lie above the value itself.

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
    """Draw the questions with replacement and return how often each was drawn: 40 MB for 1,000 times 10,000 questions.

    Raises ValueError if `n_resamples` is less than 1.

    ``cluster`` (problem,): which questions hang together: whole clusters are drawn, as many as there are. Without them
    every row sums to `n_problems`.
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
    """Return the equal-tailed interval of the replicates that are not NaN: NaN to NaN where there are none.

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
    """Return the mean over the draws and their equal-tailed interval, low and high: NaN for a single draw."""
    mean = draws.mean(axis=0)
    if len(draws) == 1:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return mean, low, high


_Problems = Float[np.ndarray, " problem"]


class Scored(NamedTuple):
    """What one method says of some labelled questions, and whether it is right.

    ``confidence`` (problem,): probability of being correct, in [0, 1]; NaN where the question is unanswered.
    ``correct`` (problem,): whether the answer was correct; of no account where there is none. ``state_probability``
    (problem,): what the method's distribution over candidates and null gave to the state that occurred. NaN, or left
    out, where it states none.
    """

    confidence: ArrayLike
    correct: ArrayLike
    state_probability: ArrayLike | None = None

    @property
    def answered(self) -> Bool[np.ndarray, " problem"]:
        """Whether there is an answer."""
        return ~np.isnan(np.asarray(self.confidence, float))

    def select(self, kept: Bool[np.ndarray, " problem"] | Int[np.ndarray, " kept"]) -> "Scored":
        """Return some of the questions."""
        state = None if self.state_probability is None else np.asarray(self.state_probability)[kept]
        return Scored(np.asarray(self.confidence)[kept], np.asarray(self.correct)[kept], state)


def benefit(scored: Scored) -> _Problems:
    r"""Return accuracy less Brier score, question by question.

    .. math:: y_i - (f_i - y_i)^2 \quad\text{of the selected answer;}\qquad 0 \text{ without an answer.}

    If an answer is used whenever its confidence exceeds a price t, gaining 1 - t when right and losing t when wrong,
    the mean gain over all prices in [0, 1] is half of it. 1 is perfect, 0 never answering, -1 always sure and wrong.

    Examples
    --------
    >>> benefit(Scored([0.9, 0.2, np.nan], [True, False, False])).round(2)
    array([ 0.99, -0.04,  0.  ])
    """
    confidence, correct = np.asarray(scored.confidence, float), np.asarray(scored.correct, float)
    return np.where(scored.answered, correct - (confidence - correct) ** 2, 0.0)


def accuracy_of_all(scored: Scored) -> _Problems:
    """Say which questions have a right answer: 1, or 0 where it is wrong or missing."""
    return np.where(scored.answered, np.asarray(scored.correct, float), 0.0)


def log_score(scored: Scored) -> _Problems:
    """Return -log of the probability of the state that occurred, taken as at least :data:`MIN_CONFIDENCE`."""
    if scored.state_probability is None:
        return np.full(len(scored.answered), np.nan)
    return np.asarray(-np.log(np.clip(np.asarray(scored.state_probability, float), MIN_CONFIDENCE, 1)))


SELECTION_SCORES: Mapping[str, Callable[[Scored], _Problems]] = MappingProxyType(
    {"benefit": benefit, "accuracy_of_all": accuracy_of_all, "log_score": log_score}
)
"""The scores of a question, by name: those that see which answer was selected.

Two methods that select different answers cannot be told apart by the Brier score or NLL of their own answers: one that
selects a wrong answer, and says that it is wrong, scores well. Each score is over all labelled questions.
"""


def mean_score(value: _Problems, weight: Weight | None = None) -> Float[np.ndarray, " replicate"]:
    """Return the mean of a score over the questions where it is defined, in every replicate; NaN where in none.

    ``value`` (problem,): one of :data:`SELECTION_SCORES`. ``weight`` (replicate, problem): how often each question
    counts; once when left out.
    """
    table = np.ones((1, len(value))) if weight is None else weight
    defined = ~np.isnan(value)
    with np.errstate(invalid="ignore"):  # 0/0 is how an undefined value becomes NaN
        return np.asarray(table[:, defined] @ value[defined] / table[:, defined].sum(axis=1))


METRIC_NAMES = (*SELECTION_SCORES, *Metrics.__dataclass_fields__)


def score(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, interval_level: float = 0.95
) -> pd.DataFrame:
    """Compute every metric of every method, with percentile bootstrap intervals over questions.

    Returns: See :class:`~analysis.evaluation.Evaluation`. A metric that is undefined (no questions, one class) is NaN.

    ``predictions``: as in :class:`~analysis.evaluation.Evaluation`; rows without ``correct`` are not scored. Methods
    that scored equally many questions, or the same clusters of them, share their resamples.
    """
    with Scorer(seed=seed, n_resamples=n_resamples, interval_level=interval_level) as scorer:
        for _, rows in predictions.groupby("method", sort=False):
            scorer.add(rows)
        return scorer.table()


class Scorer:
    """Scores one method after the other in a thread of its own: while the next is fitted, or compiled for.

    A context manager; what is not yet scored when it is left is given up.

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
        """Have the predictions of one method scored."""
        self._rows.append(self._thread.submit(self._row, predictions))

    def table(self) -> pd.DataFrame:
        """Return the scores of all methods, in the order in which they were added."""
        return pd.DataFrame([row.result() for row in self._rows])

    def _row(self, predictions: pd.DataFrame) -> dict[str, object]:
        labelled = predictions[predictions["correct"].notna()]
        scored = scored_of(labelled)
        answered, own = labelled[scored.answered], scored.select(scored.answered)
        found = _selection_scores(scored, self._resampled(labelled), self._interval_level)
        found |= asdict(evaluate_metrics(own.confidence, own.correct))
        intervals = bootstrap_metrics(
            own.confidence, own.correct, self._resampled(answered), level=self._interval_level
        )
        for name, interval in vars(intervals).items():
            found[f"{name}_low"], found[f"{name}_high"], _ = interval
        n = {"n": len(answered), "unanswered": len(labelled) - len(answered)}
        return {"method": predictions["method"].iloc[0], **n, **{name: found[name] for name in METRIC_NAMES}, **found}

    def _resampled(self, rows: pd.DataFrame) -> Weight:
        cluster = cluster_of(rows)
        key = len(rows) if cluster is None else cluster.tobytes()
        if key not in self._resamples:
            self._resamples[key] = resample_weights(len(rows), self._n_resamples, self._seed, cluster)
        return self._resamples[key]


def selection_table(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, level: float = 0.95
) -> pd.DataFrame:
    """Compute what sees the selected answers of every method, the one of greatest benefit first.

    Returns: A row a method: ``method``, ``n`` (labelled questions), the scores of
    :data:`~analysis.scores.scoring.SELECTION_SCORES`, and their intervals as ``NAME_low``, ``NAME_high``.

    ``predictions``, ``seed``, ``n_resamples``, ``level``: as for :func:`score`.
    """
    rows = []
    for method, own in predictions[predictions["correct"].notna()].groupby("method", sort=False):
        weight = resample_weights(len(own), n_resamples, seed, cluster_of(own))
        rows.append({"method": method, "n": len(own), **_selection_scores(scored_of(own), weight, level)})
    return pd.DataFrame(rows).sort_values("benefit", ascending=False, kind="stable", ignore_index=True)


def _selection_scores(scored: Scored, weight: Weight, level: float) -> dict[str, float]:
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


def cluster_of(rows: pd.DataFrame) -> Int[np.ndarray, " problem"] | None:
    """Return which questions hang together, by number in column ``cluster``; None where that is not, or empty."""
    known = "cluster" in rows and rows["cluster"].notna().all()
    return rows["cluster"].to_numpy(int) if known and len(rows) else None


class Scores(NamedTuple):
    """One method's answered, labelled questions.

    ``confidence`` (problem,): probability of being correct, in [0, 1]. ``correct`` (problem,): whether the answer was
    correct. ``n_unanswered``: further labelled questions, without an answer. ``cluster`` (problem,): which questions
    hang together; None where none do.
    """

    confidence: Confidence
    correct: Correct
    n_unanswered: int
    cluster: Int[np.ndarray, " problem"] | None


def scores_by_method(predictions: pd.DataFrame) -> dict[str, Scores]:
    """Split predictions by method, in the order in which the methods first appear.

    ``predictions``: with columns ``method``, ``confidence``, ``correct`` and, where questions hang together,
    ``cluster``, as in :class:`~analysis.evaluation.Evaluation`. Rows without ``correct`` are left out, those without
    ``confidence`` are counted.
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
