"""The first screen of a report in sentences: accuracy, calibration, what to do, and the gain over other methods."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.display.text import counted, interval, number, percent
from analysis.methods.registry import SIMPLE_METHODS
from analysis.report.source import DIREAG, ReportSource
from analysis.runs.evaluated_run import paired_methods
from analysis.scores.metrics import ece
from analysis.scores.reliability import share_right

_THRESHOLDS, _ACCEPTED = (0.5, 0.7, 0.8, 0.9, 0.95), (0.9, 0.95)
_COMPARED = ("benefit", "accuracy_of_all", "log_score")


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of an evaluation for one method.

    ``method``; ``reference``: the method that it is compared with first, which is the simple method of greatest benefit
    among those that learn from labels, or else among all others; empty if there is none. ``differences``: a row another
    method and metric (benefit, accuracy, log score): ``method``, ``n`` (labelled questions), and the columns of
    :func:`~analysis.scores.paired.paired_table` with the other method as ``first``. ``ece_if_calibrated``: the mean of
    :func:`eces_if_calibrated`; NaN without questions. ``by_threshold``: from :func:`by_threshold`. ``title``: the
    result in one sentence; ``sentences``: in several.
    """

    method: str
    reference: str
    differences: pd.DataFrame
    ece_if_calibrated: float
    by_threshold: pd.DataFrame
    title: str
    sentences: tuple[str, ...]


def answer(source: ReportSource) -> Answer:
    """Put the result of an evaluation into sentences; a difference is named only if its interval excludes 0."""
    others = source.run.metrics[source.run.metrics["method"] != source.method].set_index("method")["benefit"].dropna()
    rivals = others[others.index.isin([name for name, method in SIMPLE_METHODS.items() if method.learns])]
    reference = str((rivals if len(rivals) else others).idxmax()) if len(others) else ""
    differences = method_differences(source)
    by_chance = eces_if_calibrated(source.answered.confidence, rng=source.run.seed)
    thresholds = by_threshold(source)
    sentences = (
        *_absolute(source, by_chance),
        *_what_to_do(source, thresholds),
        *_relative(source, differences, reference),
        *_better_answers(source, differences),
    )
    return Answer(
        source.method, reference, differences, float(by_chance.mean()), thresholds, _title(source, by_chance), sentences
    )


def by_threshold(source: ReportSource) -> pd.DataFrame:
    """Return the result of accepting answers from a threshold on.

    Returns: A row a ``threshold``: ``n`` answers of at least that probability, their ``share`` of the labelled
    questions, the share of them that is ``right``, and its Wilson interval from ``low`` to ``high`` (NaN without
    answers).
    """
    confidence, correct, *_ = source.answered
    rows = []
    for threshold in _THRESHOLDS:
        accepted = correct[confidence >= threshold]
        share = len(accepted) / max(source.n_labelled, 1)
        rows.append((threshold, len(accepted), share, *share_right(accepted, source.run.interval_level)))
    return pd.DataFrame(rows, columns=["threshold", "n", "share", "right", "low", "high"])


def method_differences(source: ReportSource) -> pd.DataFrame:
    """Compare the report's method with every other, on the labelled questions.

    The intervals have the level, the seed and the number of resamples of the evaluation.
    """
    run, has = source.run, set(source.run.predictions.dropna(subset="correct")["method"])
    options: dict[str, Any] = {"seed": run.seed, "n_resamples": run.n_resamples, "level": run.interval_level}
    parts = [
        paired_methods(run, name, source.method, _COMPARED, **options).assign(method=name)
        for name in run.metrics["method"]
        if name != source.method and {name, source.method} <= has
    ]
    empty = pd.DataFrame(columns=["method", "n", "metric"])
    table = pd.concat(parts, ignore_index=True) if parts else empty
    return table[["method", "n", *table.columns.drop(["method", "n"])]]


def eces_if_calibrated(
    confidence: Float[np.ndarray, " problem"], *, rng: np.random.Generator | int, n_draws: int = 200
) -> Float[np.ndarray, " draw"]:
    """Simulate the calibration error of these probabilities if they were calibrated.

    On a finite sample it is not 0: of ten answers with 80%, there are rarely exactly eight right ones. Right and wrong
    answers are drawn with the probabilities themselves.

    Returns: The ECE (ten bins of equal width) of each draw; NaN without questions.
    """
    draws = np.random.default_rng(rng).random((n_draws, len(confidence))) < confidence
    return np.array([ece(confidence, correct) for correct in draws])


def spoken(method: str) -> str:
    """Return the name of a method in a sentence."""
    if method == DIREAG:
        return "DirEAG"
    return (method in SIMPLE_METHODS and SIMPLE_METHODS[method].spoken) or f"method {method}"


def _hold(source: ReportSource, by_chance: Float[np.ndarray, " draw"]) -> bool:
    """Return whether the ECE is at most the 95 % quantile of that of calibrated probabilities."""
    return bool(source.metrics["ece"] <= np.quantile(by_chance, 0.95))


def _title(source: ReportSource, by_chance: Float[np.ndarray, " draw"]) -> str:
    if not source.metrics["n"]:
        return "Nothing can be said of these answers"
    hold = "and their probabilities hold" if _hold(source, by_chance) else "but their probabilities do not hold"
    return f"{percent(source.metrics['accuracy'], 0)} of these answers are right, {hold}"


def _absolute(source: ReportSource, by_chance: Float[np.ndarray, " draw"]) -> Iterator[str]:
    name, row, level = spoken(source.method), source.metrics, percent(source.run.interval_level, 0)
    if not row["n"]:
        yield (
            f"Nothing can be said of how often {name} is right: of {counted(source.n_labelled, 'labelled question')} "
            "it has answered none."
        )
        return
    low, high = (percent(row[f"accuracy_{end}"]) for end in ("low", "high"))
    right = percent(row["accuracy"])
    yield f"The answers that {name} selects are right {right} of the time [{level}: {low} to {high}]."
    claimed = percent(float(source.answered.confidence.mean()))
    hold = "hold" if _hold(source, by_chance) else "do not hold"
    yield (
        f"Its probabilities {hold}: they are off by {number(100 * row['ece'], 1)} points on average (ECE), where "
        f"calibrated ones would be off by {number(100 * by_chance.mean(), 1)} by chance. On average it claims "
        f"{claimed}, and {right} are right."
    )


def _what_to_do(source: ReportSource, thresholds: pd.DataFrame) -> Iterator[str]:
    level = percent(source.run.interval_level, 0)
    said = [
        f"{percent(row['threshold'], 0)} or more: {percent(row['share'], 0)} of the questions, "
        f"{percent(row['right'])} of them right [{level}: {percent(row['low'])} to {percent(row['high'])}]"
        for row in thresholds.to_dict("records")
        if row["threshold"] in _ACCEPTED and row["n"]
    ]
    if said:
        yield f"What to do: accept answers with a probability of {'; of '.join(said)}."
    elif source.metrics["n"]:
        yield f"What to do: check every answer; none has a probability of {percent(_ACCEPTED[0], 0)} or more."


def _better_answers(source: ReportSource, differences: pd.DataFrame) -> Iterator[str]:
    """Say so if the interval shows that a plain vote selects better answers."""
    rows = differences[(differences["method"] == "majority") & (differences["metric"] == "accuracy_of_all")]
    for _, row in rows.iterrows():
        if row["high"] < 0:
            bounds = interval(row["low"], row["high"], signed=True)[1:-1]
            yield (
                f"A plain vote selects better answers: {percent(row['first'])} of them are right, of "
                f"{spoken(source.method)}'s {percent(row['second'])}; the difference is "
                f"{number(row['difference'], signed=True)} [{percent(source.run.interval_level, 0)}: {bounds}]."
            )


def _relative(source: ReportSource, differences: pd.DataFrame, reference: str) -> Iterator[str]:
    rows = differences[(differences["method"] == reference) & (differences["metric"] == "benefit")]
    if rows.empty or not rows["n"].iloc[0]:
        yield "No other method was evaluated on the same questions, so there is nothing to compare it with."
        return
    (row,) = rows.to_dict("records")
    name, other, level = spoken(source.method), spoken(reference), percent(source.run.interval_level, 0)
    learns = reference in SIMPLE_METHODS and SIMPLE_METHODS[reference].learns
    rival = f"{other}, the best calibrated simple method" if learns else f"{other}, the best other method"
    benefit = (
        f"Benefit judges answers and probabilities together (accuracy minus Brier score; 1 is perfect, 0 is never "
        f"answering): {name} has {number(row['second'])}, {rival}, {number(row['first'])}."
    )
    size, bounds = number(row["difference"], signed=True), interval(row["low"], row["high"], signed=True)[1:-1]
    if is_told(row):
        better = "better" if row["difference"] > 0 else "worse"
        yield f"{benefit} The difference is {size} [{level}: {bounds}]: {name} is {better}."
    else:
        yield (
            f"{benefit} {counted(int(row['n']), 'question')} show no clear difference: it is {size} "
            f"[{level}: {bounds}]. That does not mean that there is none."
        )


def is_told(row: Mapping[Hashable, Any]) -> bool:
    """Return whether the interval of a difference excludes 0."""
    return bool(row["low"] > 0 or row["high"] < 0)
