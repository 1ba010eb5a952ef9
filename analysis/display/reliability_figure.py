"""Reliability diagrams: the share of right answers against their stated probability."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.style import RIGHT, diagonal, figure_style, headed_figure, without_formulas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
