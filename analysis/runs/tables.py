"""An evaluation as tables of 80 columns."""

from collections.abc import Iterable

import pandas as pd

from analysis.display.document import Cell, Column, Table
from analysis.display.glossary import BENEFIT, FIRST_METRICS, METRIC_WORDS
from analysis.display.text import interval, number
from analysis.scores.reliability import binned_reliability
from analysis.scores.scoring import scored_rows

#: Metrics of a method's own answers.
_SHOWN_METRICS = ("ece", "smece", "brier", "nll", "auroc", "pr_positive", "pr_negative")


def ranking_table(metrics: pd.DataFrame, title: str, interval_level: float) -> Table:
    """Tabulate the methods by benefit, the best first, with what else sees the selected answers."""
    level = f"{interval_level:.0%} interval"
    caption = (
        f"Methods are ranked by benefit: {BENEFIT}. {level}: percentile bootstrap over questions; every figure has one "
        "in metrics.csv. log: log score of the state that occurred, by the whole distribution over candidates and "
        "null, of methods that state one."
    )
    headers = ["n", "benefit\n↑", level, "acc\n↑", "log\n↓"]
    metrics = _by_benefit(metrics)
    records = metrics.to_dict("records")
    benefit, accuracy, log = (_marked_cells(metrics[name], METRIC_WORDS[name].more_is_better) for name in FIRST_METRICS)
    bounds = (Cell(interval(row["benefit_low"], row["benefit_high"], bare=True)) for row in records)
    cells = [[Cell(str(n)) for n in metrics["n"]], benefit, bounds, accuracy, log]
    if metrics["unanswered"].any():
        caption += " none: questions without an answer beside the n; they count as wrong, with no benefit."
        headers.insert(1, "none")
        cells.insert(1, [Cell(str(n)) for n in metrics["unanswered"]])
    return _by_method(title, metrics, headers, cells, caption)


def metrics_table(metrics: pd.DataFrame) -> Table:
    """Tabulate the metrics of each method's own answers, the best of each column (to the decimals shown) marked."""
    metrics = _by_benefit(metrics)
    return _by_method(
        "Of each method's own answers: do its probabilities hold?",
        metrics,
        [f"{METRIC_WORDS[name].header.removesuffix(' score')}\n{METRIC_WORDS[name].arrow}" for name in _SHOWN_METRICS],
        [_marked_cells(metrics[name], METRIC_WORDS[name].more_is_better) for name in _SHOWN_METRICS],
        "Over the n answered questions. ↑ more is better, ↓ less; * best. Not which method is better: one that "
        "selects a wrong answer, and knows it, scores well. ECE: 10 bins of equal width.",
    )


def reliability_table(predictions: pd.DataFrame, method: str) -> Table:
    """Return a reliability diagram in characters: stated against realised, over the bins that are not empty."""
    own = scored_rows(predictions[predictions["method"] == method]).answered
    bins = binned_reliability(own.confidence, own.correct)
    return Table.of(
        f"Reliability of {method}",
        bins[bins["n"] > 0].to_dict("records"),
        {
            Column("confidence"): lambda row: f"{row['low']:.1f}-{row['high']:.1f}",
            Column("n"): lambda row: str(row["n"]),
            Column("says"): lambda row: number(row["confidence"]),
            Column("right"): lambda row: number(row["right"]),
            Column("", holds="name"): lambda row: (
                f"{'▒' * round(40 * row['confidence'])}\n{'█' * round(40 * row['right'])}"
            ),
        },
        "says ▒: mean confidence. right █: share of right answers. Calibrated: equally long.",
    )


def _by_method(
    title: str, metrics: pd.DataFrame, headers: Iterable[str], cells: Iterable[Iterable[Cell]], caption: str
) -> Table:
    names = [Cell(str(method)) for method in metrics["method"]]
    columns = (Column("method", holds="name"), *map(Column, headers))
    return Table(title, columns, tuple(zip(names, *cells, strict=True)), caption)


def _by_benefit(metrics: pd.DataFrame) -> pd.DataFrame:
    return metrics.sort_values("benefit", ascending=False, kind="stable", ignore_index=True)


def _marked_cells(values: pd.Series, more_is_better: bool) -> list[Cell]:
    """Return figures, the best of them (to the decimals shown) with a star and in bold, which pipes lose."""
    rounded = values.round(3)
    best = rounded.max() if more_is_better else rounded.min()
    return [
        Cell(f"{number(value, bare=True)}{'*' if own == best else ' '}", marks=("best",) if own == best else ())
        for value, own in zip(values, rounded, strict=True)
    ]
