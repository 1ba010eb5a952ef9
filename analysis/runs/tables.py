"""Tables as a person reads them in a terminal of 80 columns.

Each is a rich renderable: a title, the table, and what its columns mean. Text from files (paths, level names) is shown
as it is, whatever markup it looks like.
"""

import math

import numpy as np
import pandas as pd
from rich.console import Group
from rich.text import Text

from bayes_direag.commands.options import plain_table, titled

#: Metrics of a method's own answers: name, column header, and whether more of it is better.
_COLUMNS = (
    ("ece", "ECE", False),
    ("smece", "smECE", False),
    ("brier", "Brier", False),
    ("nll", "NLL", False),
    ("auroc", "AUROC", True),
    ("pr_positive", "PR-P", True),
    ("pr_negative", "PR-N", True),
)
_UNDEFINED = "\N{EN DASH}"


def ranking_table(metrics: pd.DataFrame, title: str, interval_level: float) -> Group:
    """Return the methods by benefit, the best first, with what else sees the selected answers."""
    metrics = _by_benefit(metrics)
    level = f"{interval_level:.0%} interval"
    caption = (
        "Methods are ranked by benefit: accuracy less Brier score of the selected answers; 1 is perfect, 0 is never "
        f"answering. {level}: percentile bootstrap over questions; every figure has one in metrics.csv. log: log score "
        "of the state that occurred, by the whole distribution over candidates and null, of methods that state one."
    )
    table = plain_table("method")
    table.add_column("n", justify="right", no_wrap=True)
    if some_unanswered := bool(metrics["unanswered"].any()):
        table.add_column("none", justify="right", no_wrap=True)
        caption += " none: questions without an answer beside the n; they count as wrong, with no benefit."
    for header in ("benefit\n↑", level, "acc\n↑", "log\n↓"):
        table.add_column(header, justify="right", no_wrap=True)
    rounded = metrics[["benefit", "accuracy_of_all", "log_score"]].round(3)
    best = {name: rounded[name].agg("min" if name == "log_score" else "max") for name in rounded}
    for position, row in enumerate(metrics.to_dict("records")):
        shown = {
            name: Text(_short(row[name]), style="bold" if rounded[name].iloc[position] == best[name] else "")
            for name in rounded
        }
        cells = [Text(str(row["method"])), Text(str(row["n"]))]
        cells += [Text(str(row["unanswered"]))] if some_unanswered else []
        bounds = Text(f"[{_short(row['benefit_low'])}, {_short(row['benefit_high'])}]")
        table.add_row(*cells, shown["benefit"], bounds, shown["accuracy_of_all"], shown["log_score"])
    return titled(title, table, caption)


def metrics_table(metrics: pd.DataFrame) -> Group:
    """Return the metrics of each method's own answers, the best of each column (to the decimals shown) in bold."""
    metrics = _by_benefit(metrics)
    table = plain_table("method")
    for _, header, more_is_better in _COLUMNS:
        table.add_column(f"{header}\n{'↑' if more_is_better else '↓'}", justify="right", no_wrap=True)
    rounded = metrics[[name for name, _, _ in _COLUMNS]].round(3)
    for position, row in enumerate(metrics.to_dict("records")):
        cells = [Text(str(row["method"]))]
        for name, _, more_is_better in _COLUMNS:
            best = rounded[name].max() if more_is_better else rounded[name].min()
            cells.append(Text(_short(row[name]), style="bold" if rounded[name].iloc[position] == best else ""))
        table.add_row(*cells)
    return titled(
        "Of each method's own answers: do its probabilities hold?",
        table,
        "Over the n answered questions. ↑ more is better, ↓ less; best in bold. Not which method is better: one that "
        "selects a wrong answer, and knows it, scores well. ECE: 10 bins of equal width.",
    )


def reliability_table(predictions: pd.DataFrame, method: str) -> Group:
    """Return a reliability diagram in characters: stated against realised, over the 10 bins of the ECE.

    Bins are ``(i/10, (i+1)/10]``, the first also closed on the left; those without a question are left out, as
    are questions that are unanswered or not labelled.
    """
    rows = predictions[predictions["method"] == method].dropna(subset=["confidence", "correct"])
    confidence, correct = rows["confidence"].to_numpy(float), rows["correct"].to_numpy(bool)
    table = plain_table()
    for header in ("confidence", "n", "says", "right"):
        table.add_column(header, justify="right")
    table.add_column()
    bins = np.searchsorted(np.arange(1, 10) / 10, confidence, side="left")
    for number in np.unique(bins):
        here = bins == number
        says, right = float(confidence[here].mean()), float(correct[here].mean())
        span = f"{number / 10:.1f}-{(number + 1) / 10:.1f}"
        bars = f"{_bar(says, '▒')}\n{_bar(right, '█')}"
        table.add_row(span, str(here.sum()), f"{says:.3f}", f"{right:.3f}", bars)
    return titled(
        f"Reliability of {method}",
        table,
        "says ▒: mean confidence. right █: share of right answers. Calibrated: equally long.",
    )


def _bar(share: float, character: str, width: int = 40) -> str:
    return character * round(share * width)


def _by_benefit(metrics: pd.DataFrame) -> pd.DataFrame:
    return metrics.sort_values("benefit", ascending=False, kind="stable", ignore_index=True)


def _short(value: float) -> str:
    """Three decimals without the leading zero."""
    return _UNDEFINED if math.isnan(value) else f"{value:.3f}".replace("0.", ".", 1 if abs(value) < 1 else 0)
