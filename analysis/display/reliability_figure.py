"""Reliability diagrams: the share of right answers against their stated probability."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from analysis.display.style import REFERENCE, RIGHT, WRONG, diagonal, figure_style, headed_figure, without_formulas
from analysis.scores.metrics import N_BINS
from analysis.scores.reliability import Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Up to this number, distinct confidences are marked on a curve.
MOST_MARKED = 25


def reliability_figure(results: Mapping[str, Reliability], about: str) -> "Figure":
    """Draw the reliability diagrams of one or two confidences side by side: in bins, without bins, and the counts.

    ``results``: by the title of their column, such as "before recalibration". ``about``: a sentence that says what was
    evaluated and what was held out.
    """
    level = next(iter(results.values())).interval_level
    caption = (
        f"{about} Dashed: perfectly calibrated. Top: {N_BINS} bins, right-closed, with {level:.0%} Wilson intervals. "
        f"Middle: isotonic regression, no bins; shaded: where {level:.0%} of such curves would lie, point by point, "
        "were the confidence calibrated. Miscalibration (less is better) and discrimination (more is better) are parts "
        "of the Brier score. Bottom: questions in each bin. n: answered, labelled questions."
    )
    with figure_style():
        figure = headed_figure("Reliability: how often answers are right, by the confidence given", caption, 7.0)
        rows = figure.subplots(3, len(results), sharex=True, sharey="row", squeeze=False, height_ratios=[3, 3, 1.2])
        for column, (name, result) in zip(rows.T, results.items(), strict=True):
            column[0].set_title(without_formulas(f"{name}, n = {result.n}"), fontsize=10)
            _draw_bins(column[0], result)
            _draw_curve(column[1], result)
            _draw_counts(column[2], result)
        rows[0, 0].set_ylabel("share right, by bin")
        rows[1, 0].set_ylabel("share right, isotonic")
        rows[2, 0].set_ylabel("questions")
    return figure


def _draw_bins(axes: "Axes", result: Reliability) -> None:
    bins = result.bins[result.bins["n"] > 0]
    diagonal(axes)
    axes.vlines(bins["probability"], bins["right_low"], bins["right_high"], color=RIGHT, linewidth=2)
    axes.plot(bins["probability"], bins["right"], "o", color=RIGHT, markersize=6, clip_on=False)
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=np.linspace(0, 1, 6), yticks=np.linspace(0, 1, 6))
    _note(axes, f"ECE {result.ece:.3f}\nsmECE {result.smece:.3f}\nBrier {result.decomposition.brier:.3f}")


def _draw_curve(axes: "Axes", result: Reliability) -> None:
    curve = result.curve
    marker = "o" if len(curve) <= MOST_MARKED else ""
    axes.fill_between(
        curve["confidence"], curve["band_low"], curve["band_high"], color=REFERENCE, alpha=0.35, linewidth=0
    )
    diagonal(axes)
    axes.plot(curve["confidence"], curve["right"], color=WRONG, marker=marker, markersize=4, linewidth=2)
    axes.set(ylim=(0, 1), yticks=np.linspace(0, 1, 6))
    parts = result.decomposition
    _note(axes, f"miscalibration {parts.miscalibration:.3f}\ndiscrimination {parts.discrimination:.3f}")


def _draw_counts(axes: "Axes", result: Reliability) -> None:
    bins = result.bins
    bars = axes.bar(bins["low"], bins["n"], bins["high"] - bins["low"], align="edge", color="0.55", edgecolor="white")
    axes.bar_label(bars, [str(n) if n else "" for n in bins["n"]], rotation=90, fontsize=9, padding=2)
    axes.margins(y=0.55)
    axes.set_xlabel("confidence (probability of being right)", fontsize=9)


def _note(axes: "Axes", text: str) -> None:
    axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize=9)
