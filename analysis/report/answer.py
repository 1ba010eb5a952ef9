"""The answer in a few sentences: how often right, how far off, and what is gained over a simple rule."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.display.numbers import counted, interval, number, percent
from analysis.methods.registry import SIMPLE_METHODS
from analysis.report.source import DIREAG, ReportSource
from analysis.scores.metrics import ece
from analysis.scores.paired import paired_table
from analysis.scores.scoring import cluster_of, scored_of

_NAMES = {
    "mean_confidence": "the mean confidence",
    "majority": "the majority vote",
    "vanilla": "a single answer as stated",
}
_COMPARED = ("benefit", "accuracy_of_all", "log_score")


@dataclass(frozen=True, eq=False)
class Answer:
    """What an evaluation says of one method.

    Attributes
    ----------
    method, reference : str
        The method, and the one that it is first of all compared with: of the simple methods whose probabilities are
        calibrated on labels the one of greatest benefit; without any of them, of all others. Empty if there is none.
    differences : DataFrame
        A row another method and metric (benefit, accuracy, log score): ``method``, ``n`` (labelled questions), and the
        columns of :func:`~analysis.scores.paired.paired_table` with the other method as ``first``.
    ece_if_calibrated : float
        What the calibration error of these probabilities would be on average, were they right: see
        :func:`expected_ece`. NaN without a question.
    sentences : tuple of str
        The answer.
    """

    method: str
    reference: str
    differences: pd.DataFrame
    ece_if_calibrated: float
    sentences: tuple[str, ...]


def answer(source: ReportSource) -> Answer:
    """Say what an evaluation has found; only what its intervals carry is called a difference."""
    others = source.run.metrics[source.run.metrics["method"] != source.method].set_index("method")["benefit"].dropna()
    rivals = others[others.index.isin([name for name, method in SIMPLE_METHODS.items() if method.learns])]
    reference = str((rivals if len(rivals) else others).idxmax()) if len(others) else ""
    differences = method_differences(source)
    by_chance = expected_ece(source.scores[source.method].confidence, rng=source.run.seed)
    sentences = (*_absolute(source, by_chance), *_relative(source, differences, reference))
    return Answer(source.method, reference, differences, by_chance, sentences)


def method_differences(source: ReportSource) -> pd.DataFrame:
    """Compare the report's method with every other, on the labelled questions.

    The intervals have the level, the seed and the number of resamples of the evaluation.
    """
    labelled = source.run.predictions.dropna(subset="correct")
    rows = {str(name): table.set_index("problem_id") for name, table in labelled.groupby("method", sort=False)}
    parts = []
    for name in source.run.metrics["method"]:
        if name == source.method or name not in rows or source.method not in rows:
            continue
        both = rows[name].index.intersection(rows[source.method].index)
        table = paired_table(
            *(scored_of(rows[one].loc[both]) for one in (name, source.method)),
            metrics=_COMPARED,
            rng=source.run.seed,
            n_resamples=source.run.n_resamples,
            level=source.run.interval_level,
            cluster=cluster_of(rows[name].loc[both]),
        )
        parts.append(table.assign(method=name, n=len(both))[["method", "n", *table.columns]])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["method", "n", "metric"])


def expected_ece(
    confidence: Float[np.ndarray, " problem"], *, rng: np.random.Generator | int, n_draws: int = 200
) -> float:
    """Return the mean calibration error of probabilities that are right, on as many questions.

    No error on a finite sample is 0: of ten answers given 80%, rarely just eight are right. Right and wrong are drawn
    with the probabilities themselves, and the error is averaged over the draws.

    Returns: In units of the ECE (ten bins of equal width); NaN without a question.
    """
    draws = np.random.default_rng(rng).random((n_draws, len(confidence))) < confidence
    return float(np.mean([ece(confidence, correct) for correct in draws]))


def spoken(method: str) -> str:
    """Return what a method is called in a sentence."""
    return "DirEAG" if method == DIREAG else _NAMES.get(method, f"method {method}")


def _absolute(source: ReportSource, by_chance: float) -> Iterator[str]:
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
    claimed = percent(float(source.scores[source.method].confidence.mean()))
    seeming = f"{number(100 * by_chance, 1)} points by which perfect ones would seem off on so many questions"
    compared = f"more than the {seeming}" if row["ece"] > by_chance else f"not more than the {seeming}"
    yield (
        f"Its probabilities are off by {number(100 * row['ece'], 1)} points on average (ECE), {compared}. Overall it "
        f"claims {claimed}, and {right} are right."
    )


def _relative(source: ReportSource, differences: pd.DataFrame, reference: str) -> Iterator[str]:
    rows = differences[(differences["method"] == reference) & (differences["metric"] == "benefit")]
    if rows.empty or not rows["n"].iloc[0]:
        yield "No other method was evaluated on the same questions, so there is nothing to compare it with."
        return
    row = rows.iloc[0]
    name, other, level = spoken(source.method), spoken(reference), percent(source.run.interval_level, 0)
    learns = reference in SIMPLE_METHODS and SIMPLE_METHODS[reference].learns
    rival = f"{other}, the best calibrated simple method" if learns else f"{other}, the best other method"
    yield (
        f"What answers and probabilities are worth together is their benefit, accuracy less Brier score: {name} has "
        f"{number(row['second'])}, {rival} evaluated, {number(row['first'])}. 1 is perfect, 0 is never answering."
    )
    size, bounds = number(row["difference"], signed=True), interval(row["low"], row["high"], signed=True)[1:-1]
    if is_told(row):
        yield (
            f"The difference is {size} [{level}: {bounds}]: {name} is {'better' if row['difference'] > 0 else 'worse'}."
        )
    else:
        yield (
            f"{counted(int(row['n']), 'question')} do not tell the two apart: the difference is {size} [{level}: "
            f"{bounds}]. That does not make them equal."
        )


def is_told(row: pd.Series) -> bool:
    """Whether the interval of a difference leaves out 0."""
    return bool(row["low"] > 0 or row["high"] < 0)
