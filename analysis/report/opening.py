"""The first screen of a report in sentences: accuracy, calibration, what to do, and the gain over other methods."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.display.document import Record
from analysis.display.text import counted, difference_in_words, interval, number, percent
from analysis.methods.registry import SIMPLE_METHODS
from analysis.report.source import DIREAG, ReportSource
from analysis.runs.evaluated_run import method_differences
from analysis.scores.calibration import Calibration, judge_calibration
from bayes_direag.fits.abstention import by_threshold

_ACCEPTED = (0.9, 0.95)
_COMPARED = ("benefit", "accuracy_of_all", "log_score")


@dataclass(frozen=True, eq=False)
class Opening:
    """The result of an evaluation for one method: figures, a title and sentences.

    ``reference``: the simple method of greatest benefit that learns from labels, else the best other one, else empty.
    ``differences``: to every other method in benefit, accuracy and log score. ``thresholds``: from
    :func:`~bayes_direag.fits.abstention.by_threshold`, and the ``share`` of the labelled questions that reach each.
    """

    method: str
    reference: str
    differences: pd.DataFrame
    calibration: Calibration
    thresholds: pd.DataFrame
    title: str
    sentences: tuple[str, ...]


def opening(source: ReportSource) -> Opening:
    """Put the result of an evaluation into sentences; a difference is named only if its interval excludes 0."""
    run, answered = source.run, source.answered
    others = run.metrics[run.metrics["method"] != source.method].set_index("method")["benefit"].dropna()
    rivals = others[others.index.isin([name for name, method in SIMPLE_METHODS.items() if method.learns])]
    reference = str((rivals if len(rivals) else others).idxmax()) if len(others) else ""
    options: dict[str, Any] = {"seed": run.seed, "n_resamples": run.n_resamples, "level": run.interval_level}
    differences = method_differences(run, source.method, run.metrics["method"], _COMPARED, **options)
    calibration = judge_calibration(answered.confidence, answered.correct, rng=run.seed, cluster=answered.cluster)
    thresholds = by_threshold(answered.confidence, answered.correct, run.interval_level)
    thresholds["share"] = thresholds["labelled"] / max(source.n_labelled, 1)
    sentences = (
        *_absolute(source, calibration),
        *_what_to_do(source, thresholds),
        *_relative(source, differences, reference),
        *_better_answers(source, differences),
    )
    title = _opening_title(source, calibration)
    return Opening(source.method, reference, differences, calibration, thresholds, title, sentences)


def spoken(method: str) -> str:
    """Return the name of a method in a sentence."""
    if method == DIREAG:
        return "DirEAG"
    return (method in SIMPLE_METHODS and SIMPLE_METHODS[method].spoken) or f"method {method}"


def _opening_title(source: ReportSource, calibration: Calibration) -> str:
    if not source.metrics["n"]:
        return "Nothing can be said of these answers"
    verdict = {
        "off": f"but their probabilities are {calibration.direction}",
        "none found": "and no miscalibration was found",
        "too few": "too few to tell whether their probabilities are calibrated",
    }[calibration.verdict]
    return f"{percent(source.metrics['accuracy'], 0)} of these answers are right, {verdict}"


def _absolute(source: ReportSource, calibration: Calibration) -> Iterator[str]:
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
    yield f"{calibration.sentence()} On average {name} claims {percent(calibration.stated)}, and {right} are right."


def _what_to_do(source: ReportSource, thresholds: pd.DataFrame) -> Iterator[str]:
    level = percent(source.run.interval_level, 0)
    said = [
        f"{percent(row['threshold'], 0)} or more: {percent(row['share'], 0)} of the questions, "
        f"{percent(row['right'])} of them right [{level}: {percent(row['low'])} to {percent(row['high'])}]"
        for row in thresholds.to_dict("records")
        if row["threshold"] in _ACCEPTED and row["labelled"]
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
    name, other = spoken(source.method), spoken(reference)
    learns = reference in SIMPLE_METHODS and SIMPLE_METHODS[reference].learns
    rival = f"{other}, the best calibrated simple method" if learns else f"{other}, the best other method"
    benefit = (
        f"Benefit judges answers and probabilities together (accuracy minus Brier score; 1 is perfect, 0 is never "
        f"answering): {name} has {number(row['second'])}, {rival}, {number(row['first'])}."
    )
    ends = row["difference"], row["low"], row["high"]
    yield f"{benefit} {difference_in_words(name, *ends, n=int(row['n']), level=source.run.interval_level)}"


def excludes_zero(row: Record) -> bool:
    """Return whether the interval of a difference excludes 0."""
    return bool(row["low"] > 0 or row["high"] < 0)
