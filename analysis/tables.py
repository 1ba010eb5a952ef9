"""Tables as a person reads them in a terminal of 80 columns.

Each is a rich renderable: a title, the table, and what its columns mean. Text from files (paths, level names) is shown
as it is, whatever markup it looks like.
"""

import math

import numpy as np
import pandas as pd
from rich.console import Group
from rich.text import Text

from analysis.evaluation import Evaluation
from bayes_direag.commands.options import plain_table, titled

#: Metric, column header, and whether more of it is better.
_COLUMNS = (
    ("accuracy", "acc", True),
    ("ece", "ECE", False),
    ("adaptive_ece", "aECE", False),
    ("smece", "smECE", False),
    ("brier", "Brier", False),
    ("nll", "NLL", False),
    ("auroc", "AUROC", True),
    ("pr_positive", "PR-P", True),
    ("pr_negative", "PR-N", True),
)
_UNDEFINED = "\N{EN DASH}"
_WITH_INTERVAL = ("accuracy", "brier", "nll")


def metrics_table(evaluation: Evaluation, title: str) -> Group:
    """Return the metrics by method, the best of each column (to the three decimals shown) in bold."""
    metrics = evaluation.metrics
    caption = "↑ more is better, ↓ less; best in bold. ECE, aECE: 10 bins of equal width, of equal count."
    table = plain_table("method")
    counts = {"n": "n"}
    if metrics["unanswered"].any():
        counts["unanswered"] = "none"
        caption += "\nMetrics are over the n answered questions; none: how many more had no answer."
    for header in counts.values():
        table.add_column(header, justify="right", no_wrap=True)
    for _, header, more_is_better in _COLUMNS:
        table.add_column(f"{header}\n{'↑' if more_is_better else '↓'}", justify="right", no_wrap=True)
    rounded = metrics[[name for name, _, _ in _COLUMNS]].round(3)
    for position, row in enumerate(metrics.to_dict("records")):
        cells = [Text(str(row["method"])), *(Text(str(row[name])) for name in counts)]
        for name, _, more_is_better in _COLUMNS:
            best = rounded[name].max() if more_is_better else rounded[name].min()
            cells.append(Text(_short(row[name]), style="bold" if rounded[name].iloc[position] == best else ""))
        table.add_row(*cells)
    return titled(title, table, caption)


def interval_table(evaluation: Evaluation) -> Group:
    """Return the bootstrap intervals of a few metrics by method."""
    table = plain_table("method")
    headers = {name: header for name, header, _ in _COLUMNS}
    for name in _WITH_INTERVAL:
        table.add_column(headers[name], no_wrap=True)
    for row in evaluation.metrics.to_dict("records"):
        cells = [
            Text(f"{_short(row[name])} [{_short(row[f'{name}_low'])}, {_short(row[f'{name}_high'])}]")
            for name in _WITH_INTERVAL
        ]
        table.add_row(str(row["method"]), *cells)
    return titled(
        f"With {evaluation.settings.interval_level:.0%} intervals",
        table,
        "Percentile bootstrap over questions. Every metric has one in metrics.csv.",
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


def _short(value: float) -> str:
    """Three decimals without the leading zero."""
    return _UNDEFINED if math.isnan(value) else f"{value:.3f}".removeprefix("0")
