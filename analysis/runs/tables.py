"""An evaluation as tables for a terminal."""

from collections.abc import Iterator

import pandas as pd
from rich.console import Group
from rich.text import Text

from analysis.display.glossary import FIRST_METRICS, METRIC_WORDS
from analysis.display.text import interval, number, shown_table
from analysis.scores.reliability import binned_reliability
from analysis.scores.scoring import scored_rows

#: Metrics of a method's own answers.
_OWN = ("ece", "smece", "brier", "nll", "auroc", "pr_positive", "pr_negative")


def ranking_table(metrics: pd.DataFrame, title: str, interval_level: float) -> Group:
    """Return the methods by benefit, the best first, with what else sees the selected answers."""
    metrics = _by_benefit(metrics)
    level = f"{interval_level:.0%} interval"
    caption = (
        "Methods are ranked by benefit: accuracy minus Brier score of the selected answers; 1 is perfect, 0 is never "
        f"answering. {level}: percentile bootstrap over questions; every figure has one in metrics.csv. log: log score "
        "of the state that occurred, by the whole distribution over candidates and null, of methods that state one."
    )
    some_unanswered = bool(metrics["unanswered"].any())
    if some_unanswered:
        caption += " none: questions without an answer beside the n; they count as wrong, with no benefit."
    marked = {name: _marked(metrics[name], METRIC_WORDS[name].more_is_better) for name in FIRST_METRICS}

    def rows() -> Iterator[list[str | Text]]:
        for place, row in enumerate(metrics.to_dict("records")):
            benefit, *others = (cells[place] for cells in marked.values())
            bounds = interval(row["benefit_low"], row["benefit_high"], bare=True)
            unanswered = [str(row["unanswered"])] if some_unanswered else []
            yield [str(row["method"]), str(row["n"]), *unanswered, benefit, bounds, *others]

    headers = ["n", *(["none"] if some_unanswered else []), "benefit\n↑", level, "acc\n↑", "log\n↓"]
    return shown_table(title, ["method"], headers, rows(), caption)


def metrics_table(metrics: pd.DataFrame) -> Group:
    """Return the metrics of each method's own answers, the best of each column (to the decimals shown) marked."""
    metrics = _by_benefit(metrics)
    columns = [_marked(metrics[name], METRIC_WORDS[name].more_is_better) for name in _OWN]
    return shown_table(
        "Of each method's own answers: do its probabilities hold?",
        ["method"],
        [f"{METRIC_WORDS[name].header.removesuffix(' score')}\n{METRIC_WORDS[name].arrow}" for name in _OWN],
        zip(metrics["method"].astype(str), *columns, strict=True),
        "Over the n answered questions. ↑ more is better, ↓ less; * best. Not which method is better: one that "
        "selects a wrong answer, and knows it, scores well. ECE: 10 bins of equal width.",
    )


def reliability_table(predictions: pd.DataFrame, method: str) -> Group:
    """Return a reliability diagram in characters: stated against realised, over the 10 bins of the ECE.

    Bins without a question are left out, as are questions that are unanswered or not labelled.
    """
    own = scored_rows(predictions[predictions["method"] == method]).answered
    bins = binned_reliability(own.confidence, own.correct)

    def rows() -> Iterator[list[str | Text]]:
        for row in bins[bins["n"] > 0].to_dict("records"):
            says, right = row["confidence"], row["right"]
            bars = Text(f"{'▒' * round(40 * says)}\n{'█' * round(40 * right)}", justify="left")
            yield [f"{row['low']:.1f}-{row['high']:.1f}", str(row["n"]), number(says), number(right), bars]

    caption = "says ▒: mean confidence. right █: share of right answers. Calibrated: equally long."
    headers = ["confidence", "n", "says", "right", ""]
    return shown_table(f"Reliability of {method}", [], headers, rows(), caption)


def _by_benefit(metrics: pd.DataFrame) -> pd.DataFrame:
    return metrics.sort_values("benefit", ascending=False, kind="stable", ignore_index=True)


def _marked(values: pd.Series, more_is_better: bool) -> list[Text]:
    """Return figures, the best of them (to the decimals shown) with a star and in bold, which pipes lose."""
    rounded = values.round(3)
    best = rounded.max() if more_is_better else rounded.min()
    return [
        Text(f"{number(value, bare=True)}{'*' if own == best else ' '}", style="bold" if own == best else "")
        for value, own in zip(values, rounded, strict=True)
    ]
