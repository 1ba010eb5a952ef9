"""How every figure looks, and how it is written: one style for one figure at a time; the user's own stays as it is."""

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayes_direag.data.atomic import atomic_path
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_STYLE_FILE = Path(__file__).with_name("direag.mplstyle")
FORMATS = (".png", ".svg", ".pdf")

#: Roles that keep their colour from figure to figure.
RIGHT, WRONG, REFERENCE = "#0072B2", "#D55E00", "#7F7F7F"


@contextmanager
def figure_style() -> Iterator[None]:
    """Use the project's style, starting from matplotlib's defaults, until the block ends."""
    import matplotlib as mpl
    from matplotlib import style

    with mpl.rc_context(), style.context(["default", str(_STYLE_FILE)]):
        yield


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure, completely or not at all; without a time stamp, so that equal figures are equal files."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise DirEAGError(f"{path}: no figure can be written as {suffix!r}; expected one of {', '.join(FORMATS)}.")
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})
    with figure_style(), atomic_path(path) as partial_path:
        figure.savefig(partial_path, format=suffix[1:], metadata=metadata)


_TITLE_POINTS, _CAPTION_POINTS = 11.0, 9.0
#: Height of a line over its font size, and mean width of a character of it, in the style's font.
_LINE, _CHARACTER = 1.3, 0.535


def headed_figure(title: str, caption: str, height: float, width: float = 6.4) -> "Figure":
    """Return a figure that belongs to no window, with a title and a caption, and that much height for the panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    head_figure(figure, title, caption)
    return figure


def head_figure(figure: "Figure", title: str, caption: str) -> None:
    """Give a figure a title and a caption, wrapped to its width, and make it higher by what these take."""
    width, height = figure.get_size_inches()
    above = _wrapped(title, width, _TITLE_POINTS * 1.15)
    below = _wrapped(caption, width, _CAPTION_POINTS)
    lines = above.count("\n") * _TITLE_POINTS + below.count("\n") * _CAPTION_POINTS + _TITLE_POINTS + _CAPTION_POINTS
    figure.set_size_inches(width, height + lines * _LINE / 72 + 0.15)
    figure.suptitle(above, x=0.01, ha="left", fontsize=_TITLE_POINTS, fontweight="bold")
    figure.supxlabel(below, x=0.01, ha="left", fontsize=_CAPTION_POINTS, color="0.25")


def forest(axes: "Axes", estimates: pd.DataFrame, *, colour: str, marker: str = "o") -> None:
    """Draw a value and both ends of its interval (three columns), a row from the top; no bar where an end is NaN."""
    value, low, high = estimates.to_numpy(float).T
    height = np.arange(len(value))[::-1]
    axes.hlines(height, low, high, color=colour, linewidth=2)
    axes.scatter(
        value, height, s=36, marker=marker, color=[colour] * len(value), edgecolor=colour, linewidth=1.5, zorder=3
    )
    axes.set_ylim(-0.6, len(value) - 0.4)


def row_labels(axes: "Axes", labels: list[str]) -> None:
    """Name the rows of a forest, the first on top."""
    axes.set_yticks(np.arange(len(labels))[::-1], [without_formulas(label) for label in labels])


def diagonal(axes: "Axes", upper: float = 1.0) -> None:
    """Draw the line on which the two axes are equal."""
    axes.plot([0, upper], [0, upper], color=REFERENCE, linewidth=1, linestyle=(0, (4, 3)), zorder=1)


def reliability_figure(results: Mapping[str, pd.DataFrame], about: str = "") -> "Figure":
    """Draw reliability diagrams side by side, each in the bins of the ECE over the numbers of answers in them.

    ``results``: bins from :func:`~analysis.scores.calibration.binned_reliability` by what gives the probabilities.
    ``about``: a sentence below the figure.
    """
    ticks = np.linspace(0, 1, 6)
    with figure_style():
        figure = headed_figure("How often answers are right, by the probability given", about, 4.4)
        rows = figure.subplots(2, len(results), sharex=True, sharey="row", squeeze=False, height_ratios=[3, 1])
        for (above, below), (name, bins) in zip(rows.T, results.items(), strict=True):
            diagonal(above)
            above.vlines(bins["probability"], bins["right_low"], bins["right_high"], color=RIGHT, linewidth=2)
            above.plot(bins["probability"], bins["right"], "o", color=RIGHT, clip_on=False)
            above.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
            look = {"align": "edge", "color": "0.55", "edgecolor": "white"}
            bars = below.bar(bins["low"], bins["n"], bins["high"] - bins["low"], **look)
            below.bar_label(bars, [str(n) if n else "" for n in bins["n"]], fontsize=9, padding=2)
            below.margins(y=0.35)
            below.set_xlabel(without_formulas(name))
        rows[0, 0].set_ylabel("share right")
        rows[1, 0].set_ylabel("answers")
    return figure


def without_formulas(text: str) -> str:
    """Return text from a file so that no dollar sign in it starts a formula."""
    return text.replace("$", r"\$")


def _wrapped(text: str, width: float, points: float) -> str:
    n_characters = max(8, int((width - 0.15) * 72 / (points * _CHARACTER)))
    return "\n".join(
        textwrap.fill(without_formulas(line), n_characters, break_on_hyphens=False) for line in text.splitlines()
    )
