"""What one part of a comparison found, and the table of paired metrics that several parts have."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd

from analysis.display.document import Block, Column, Picture, Table
from analysis.display.text import UNDEFINED, interval, number

_WIDEST_HEAD = 8


class Findings(NamedTuple):
    """Tables by the name of their file, blocks to show, pictures that are drawn when called, and a record."""

    tables: Mapping[str, pd.DataFrame]
    blocks: tuple[Block, ...]
    pictures: tuple[Callable[[], Picture], ...]
    record: Mapping[str, object]


def short_names(names: tuple[str, str]) -> tuple[str, str]:
    """Return names that fit over a column of numbers."""
    return names if max(map(len, names)) <= _WIDEST_HEAD else ("first", "second")


def paired_metrics_table(metrics: pd.DataFrame, title: str, names: tuple[str, str], level: float) -> Table:
    """Tabulate metrics side by side, with intervals and p-values of their differences."""
    first, second = short_names(names)
    return Table.of(
        title,
        metrics.to_dict("records"),
        {
            Column("metric", holds="name"): lambda row: row["metric"],
            Column(first): lambda row: number(row["first"]),
            Column(second): lambda row: number(row["second"]),
            Column("difference"): lambda row: number(row["difference"], signed=True),
            Column(f"{level:.0%} interval"): lambda row: interval(
                row["low"], row["high"], signed=True, undefined=UNDEFINED
            ),
            Column("p"): lambda row: number(row["p_value"]),
            Column("adjusted"): lambda row: number(row["p_adjusted"]),
        },
        f"Difference: {names[1]} minus {names[0]}, with its paired bootstrap interval over questions. p: "
        "permutation test, for metrics that are means; adjusted for their number (Benjamini and Hochberg). Benefit "
        "(accuracy minus Brier score of the selected answers) says which is better. From accuracy on, metrics are of "
        "own answers, on questions that both have answered.",
    )
