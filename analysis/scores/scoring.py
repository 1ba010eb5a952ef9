"""Every metric of every method, with its interval."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis.scores.metrics import METRICS, MIN_CONFIDENCE, Problems, Replicates, Weight, evaluate_metrics
from bayes_direag.data.observations import Observations
from bayes_direag.model.selection import tails


class Interval(NamedTuple):
    """A percentile interval, and the number of undefined (NaN) replicates left out of it."""

    low: float
    high: float
    n_undefined: int


def resample_weights(
    n_problems: int,
    n_resamples: int,
    rng: np.random.Generator | int,
    cluster: Int[np.ndarray, " problem"] | None = None,
) -> Weight:
    """Draw questions, or whole clusters of them, with replacement; return how often each question was drawn."""
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


def percentile_interval(replicates: Replicates, level: float = 0.95) -> Interval:
    """Return the equal-tailed interval of the replicates that are not NaN; NaN if there are none.

    Resampling adds noise to each bin, so the interval of a small calibration error may lie above the error itself.
    Raises DirEAGError unless the level is above 0 and below 1.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13.

    Examples
    --------
    >>> resamples = resample_weights(4, 1000, rng=0)
    >>> metrics = evaluate_metrics([0.9, 0.8, 0.6, 0.3], [True, True, False, False], resamples)
    >>> percentile_interval(metrics["accuracy"])
    Interval(low=0.0, high=1.0, n_undefined=0)
    >>> percentile_interval(metrics["auroc"]).n_undefined
    120
    """
    ends, defined = tails(level), replicates[~np.isnan(replicates)]
    n_undefined = len(replicates) - len(defined)
    if not len(defined):
        return Interval(np.nan, np.nan, n_undefined)
    low, high = np.quantile(defined, ends)
    return Interval(float(low), float(high), n_undefined)


def interval_columns(name: str, estimate: float, replicates: Replicates, level: float) -> dict[str, float]:
    """Return an estimate and both ends of its percentile interval as columns."""
    low, high, _ = percentile_interval(replicates, level)
    return {name: float(estimate), f"{name}_low": low, f"{name}_high": high}


def draw_columns(
    draws: Float[np.ndarray, "sample row"], level: float, name: str, low: str = "low", high: str = "high"
) -> dict[str, Float[np.ndarray, " row"]]:
    """Return the mean of every row over the draws, and both ends of its equal-tailed interval: NaN for one draw."""
    mean, ends = draws.mean(axis=0), np.quantile(draws, tails(level), axis=0)
    if len(draws) == 1:
        ends = np.full_like(ends, np.nan)
    return {name: mean, low: ends[0], high: ends[1]}


class Scored(NamedTuple):
    """One method's answers to labelled questions.

    The confidence of an unanswered question is NaN. The probability of the observed state is NaN or None if the method
    has no distribution over candidates and null; the clusters are None if there are none.
    """

    confidence: Float[np.ndarray, " problem"]
    correct: Bool[np.ndarray, " problem"]
    state_probability: Float[np.ndarray, " problem"] | None = None
    cluster: Int[np.ndarray, " problem"] | None = None

    @property
    def is_answered(self) -> Bool[np.ndarray, " problem"]:
        """Whether each question has an answer."""
        return ~np.isnan(self.confidence)

    @property
    def n_unanswered(self) -> int:
        """Number of questions without an answer."""
        return int(np.isnan(self.confidence).sum())

    @property
    def answered(self) -> "Scored":
        """The answered questions alone."""
        return self.select(self.is_answered)

    def select(self, kept: Bool[np.ndarray, " problem"] | Int[np.ndarray, " kept"]) -> "Scored":
        """Return some of the questions."""
        state, cluster = (None if part is None else part[kept] for part in self[2:])
        return Scored(self.confidence[kept], self.correct[kept], state, cluster)

    def resampled(self, n_resamples: int, seed: int) -> Weight:
        """Draw the questions, or their clusters, with replacement."""
        return resample_weights(len(self.confidence), n_resamples, seed, self.cluster)

    def whole_and_resampled(self, n_resamples: int, seed: int) -> Weight:
        """Return weights whose first row counts every question once, and whose other rows are resamples."""
        every = np.ones((1, len(self.confidence)), np.int32)
        return np.concatenate([every, self.resampled(n_resamples, seed)])


def benefit(scored: Scored) -> Problems:
    r"""Return the benefit of each question: accuracy minus Brier score.

    .. math:: y_i - (f_i - y_i)^2 \quad\text{of the selected answer;}\qquad 0 \text{ without an answer.}

    Suppose an answer is used if its confidence exceeds a price t, with a gain of 1 - t if right and a loss of t if
    wrong. The mean gain over all prices in [0, 1] is half the benefit. 1 is perfect, 0 is never answering, and -1 is
    always certain and wrong.

    Examples
    --------
    >>> benefit(Scored(np.array([0.9, 0.2, np.nan]), np.array([True, False, False]))).round(2)
    array([ 0.99, -0.04,  0.  ])
    """
    return np.where(scored.is_answered, scored.correct - (scored.confidence - scored.correct) ** 2, 0.0)


def accuracy_of_all(scored: Scored) -> Problems:
    """Return 1 for each right answer, 0 for a wrong or missing one."""
    return np.where(scored.is_answered, scored.correct.astype(float), 0.0)


def log_score(scored: Scored) -> Problems:
    """Return minus the log probability of the observed state, which is clipped at :data:`MIN_CONFIDENCE` from below."""
    if scored.state_probability is None:
        return np.full(len(scored.confidence), np.nan)
    return np.asarray(-np.log(np.clip(scored.state_probability, MIN_CONFIDENCE, 1)))


#: The scores that depend on which answer is selected, by name; each is defined for all labelled questions. The Brier
#: score and NLL of own answers are none: a method that selects a wrong answer, and knows it, scores well in them.
SELECTION_SCORES: Mapping[str, Callable[[Scored], Problems]] = MappingProxyType(
    {"benefit": benefit, "accuracy_of_all": accuracy_of_all, "log_score": log_score}
)

METRIC_NAMES = (*SELECTION_SCORES, *METRICS)
#: Methods that are scored at once, each with resamples of its own.
_AT_ONCE = 4


def mean_score(value: Problems, weight: Weight | None = None) -> Replicates:
    """Return the mean of a score in every replicate, over the questions where it is defined; NaN without any."""
    table = np.ones((1, len(value))) if weight is None else weight
    defined = ~np.isnan(value)
    with np.errstate(invalid="ignore"):  # 0/0 makes an undefined value NaN
        return np.asarray(table[:, defined] @ value[defined] / table[:, defined].sum(axis=1))


def scores_of(
    predictions: Iterable[pd.DataFrame], *, seed: int, n_resamples: int, interval_level: float
) -> pd.DataFrame:
    """Score methods, each from its rows of the predictions: a row for each, in order."""
    score = partial(_scores, seed=seed, n_resamples=n_resamples, level=interval_level)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return pd.DataFrame(list(threads.map(score, predictions)))


def _scores(predictions: pd.DataFrame, *, seed: int, n_resamples: int, level: float) -> dict[str, object]:
    scored = scored_rows(predictions)
    answered, weight, row = scored.answered, scored.resampled(n_resamples, seed), dict[str, float]()
    for name, score_of in SELECTION_SCORES.items():
        value = score_of(scored)
        row |= interval_columns(name, mean_score(value)[0], mean_score(value, weight), level)
    stated = answered.confidence, answered.correct
    replicates = evaluate_metrics(*stated, answered.resampled(n_resamples, seed))
    for name, (value,) in evaluate_metrics(*stated).items():
        row |= interval_columns(name, value, replicates[name], level)
    n = {"n": len(answered.confidence), "unanswered": scored.n_unanswered}
    return {"method": predictions["method"].iloc[0], **n, **{name: row[name] for name in METRIC_NAMES}, **row}


def scored_rows(predictions: pd.DataFrame) -> Scored:
    """Take one method's answers to labelled questions from its rows of the predictions."""
    rows = predictions[predictions["correct"].notna()]
    has_clusters = "cluster" in rows and len(rows) and rows["cluster"].notna().all()
    return Scored(
        rows["probability"].to_numpy(float),
        rows["correct"].to_numpy(bool),
        rows["state_probability"].to_numpy(float) if "state_probability" in rows else None,
        rows["cluster"].to_numpy(int) if has_clusters else None,
    )


def cluster_column(observations: Observations) -> pd.Series:
    """Return the column ``cluster``: the number of each question's cluster, or missing values without clusters."""
    number = observations.cluster_number
    return pd.Series([None] * len(observations) if number is None else number, dtype="Int64")
