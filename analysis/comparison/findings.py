"""What one part of a comparison found, and the table of paired metrics that several parts have."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from analysis.display.document import Block, Column, Picture, Table
from analysis.display.style import figure_style, headed_figure
from analysis.display.text import UNDEFINED, difference_in_words, interval, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDEST_HEAD = 8


class Drawing(NamedTuple):
    """A picture that is not drawn yet: its name, title, caption and height, and what draws it on axes."""

    name: str
    title: str
    caption: str
    height: float
    draw: Callable[["Axes"], None]

    def picture(self) -> Picture:
        """Draw it."""
        with figure_style():
            figure = headed_figure(self.title, self.caption, self.height)
            self.draw(figure.subplots())
        return Picture(self.name, figure)


class Findings(NamedTuple):
    """The verdict, what carries it, tables by the name of their file (the main one first), a picture, and a record."""

    verdict: tuple[str, ...]
    blocks: tuple[Block, ...]
    tables: Mapping[str, pd.DataFrame]
    drawing: Drawing
    record: Mapping[str, object]


def short_names(names: tuple[str, str]) -> tuple[str, str]:
    """Return names that fit over a column of numbers."""
    return names if max(map(len, names)) <= _WIDEST_HEAD else ("first", "second")


def benefit_sentence(metrics: pd.DataFrame, names: tuple[str, str], n: int, level: float) -> str:
    """Say whether the second is better than the first by benefit, as far as these questions show."""
    (row,) = metrics[metrics["metric"] == "benefit"].to_dict("records")
    told = difference_in_words(names[1], row["difference"], row["low"], row["high"], n=n, level=level)
    return f"{names[1]} has a benefit of {number(row['second'])}, {names[0]} of {number(row['first'])}. {told}"


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
            Column("p"): lambda row: number(row["p_adjusted"]),
        },
        f"Difference: {names[1]} minus {names[0]}, with its paired bootstrap interval over questions. p: permutation "
        "test, for metrics that are means, adjusted for their number (Benjamini and Hochberg). Benefit (accuracy minus "
        "Brier score of the selected answers) says which is better. From accuracy on, metrics are of own answers, on "
        "questions that both have answered.",
    )
