"""Pictures of simulation checks: where the truth ranked among the draws, and how often intervals held it."""

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.panels import diagonal, headed_figure, panel_grid, plain
from analysis.display.style import MARKERS, REFERENCE
from analysis.simulation.simulation_based_calibration import RankCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_DERIVED = {
    "log_joint": "log joint density",
    "log_likelihood": "log-likelihood",
    "null_held_out": "null, a new question",
    "support_held_out": "support, a new question",
}


def rank_figure(check: RankCheck, about: str) -> "Figure":
    """Draw the distribution function of every quantity's ranks, less the uniform one, in the band that it should keep.

    Parameters
    ----------
    about
        What was simulated, for the caption.
    """
    n = len(check.ranks)
    outside = check.table.loc[check.table["p_adjusted"] <= 1 - check.level, "quantity"].tolist()
    verdict = f"{len(outside)} of {len(check.table)} leave" if outside else f"All {len(check.table)} keep within"
    groups = _groups(check.table["quantity"].tolist())
    height = 2.6 * -(-len(groups) // 2)
    figure = headed_figure(
        f"Does the truth rank evenly among the draws? {verdict} the band",
        f"{about} {n} simulations; each ranks its true value among {check.n_ranked} draws from its posterior. Line: "
        "share of simulations at or below a rank, less the share expected. A line above 0: draws too high; below: too "
        "low; an S that rises first: too narrow. Grey: holds every line, everywhere, with probability "
        f"{check.level:.0%} if model and sampler are right.",
        height,
        width=7.6,
    )
    panels = panel_grid(
        figure,
        [(name, _note(check, members)) for name, members in groups.items()],
        2,
        x_label="rank, as a share of the draws",
        y_label="share of simulations,\nless uniform",
    )
    low, high = check.band()
    at = (np.arange(check.n_ranked) + 1) / (check.n_ranked + 1)
    for axes, members in zip(panels, groups.values(), strict=True):
        axes.fill_between(at, low - at, high - at, color="#DDDDDD", linewidth=0, step="post")
        axes.axhline(0, color=REFERENCE, linewidth=0.8)
        for style, (label, column) in zip(cycle(_LINES), members.items(), strict=False):
            counts = np.bincount(check.ranks[column], minlength=check.n_ranked + 1).cumsum()[:-1]
            axes.plot(at, counts / n - at, linestyle=style, linewidth=1.3, label=plain(label))
        axes.set_xlim(0, 1)
        axes.legend(fontsize=7, ncols=2, loc="upper right", handlelength=2.4, columnspacing=1.0, borderaxespad=0.2)
    largest = 1.75 * max(np.abs(panels[0].get_ylim()))
    panels[0].set_ylim(-largest / 1.75, largest)
    return figure


def coverage_figure(table: pd.DataFrame, about: str) -> "Figure":
    """Draw how often intervals held the truth against how often they should, by final calibration.

    Parameters
    ----------
    table
        As :func:`~analysis.simulation.interval_coverage.coverage` returns it.
    about
        What was simulated, for the caption.
    """
    n = int(table["n_worlds"].max())
    widths = table.groupby("recalibration", sort=False)["mean_width"].first()
    figure = headed_figure(
        "Do intervals hold the truth as often as they say?",
        f"{about} {n} simulations. Truth: the probability, in the simulation's world, that the selected answer is "
        "right (left), and its mean over questions of like confidence (right). Bars: 95% for the number of "
        "simulations. Above the line: intervals wider than need be. Mean width of 90% intervals: "
        + ", ".join(f"{_NAMES.get(str(name), name)} {width:.3f}" for name, width in widths.items())
        + ".",
        3.3,
        width=7.6,
    )
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, (unit, title) in zip(axes, _UNITS.items(), strict=True):
        _draw_coverage(panel, table[table["unit"] == unit])
        panel.set(title=title, xlabel="level of the interval")
    axes[0].set_ylabel("share of intervals that\nhold the truth")
    axes[0].legend(loc="upper left")
    return figure


_UNITS = {"question": "single questions", "bin": "bins of like confidence"}
_NAMES = {"none": "without final calibration", "platt": "with final calibration"}


def _draw_coverage(axes: "Axes", table: pd.DataFrame) -> None:
    diagonal(axes)
    for number, (method, rows) in enumerate(table.groupby("recalibration", sort=False)):
        axes.errorbar(
            rows["level"] + 0.006 * (2 * number - 1),
            rows["coverage"],
            yerr=1.96 * rows["error"],
            fmt=MARKERS[number],
            color=f"C{number}",
            markerfacecolor="white" if number else f"C{number}",
            capsize=3,
            linewidth=1.3,
            label=_NAMES.get(str(method), str(method)),
        )
    lowest = float(np.nanmin([table["level"], table["coverage"] - 1.96 * table["error"]]))
    axes.set(xlim=(table["level"].min() - 0.05, 1.0), ylim=(lowest - 0.04, 1.01))


def _groups(names: list[str]) -> dict[str, dict[str, str]]:
    """Return the columns of each panel by the label of their line: a panel a parameter of levels, and two others."""
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        parameter, bracket, level = name.partition("[")
        if bracket:
            groups.setdefault(f"{parameter}, by level", {})[level[:-1]] = name
    others = [name for name in names if "[" not in name]
    groups["other parameters"] = {name: name for name in others if name not in _DERIVED}
    groups["what follows from all parameters"] = {_DERIVED[name]: name for name in others if name in _DERIVED}
    return {title: members for title, members in groups.items() if members}


def _note(check: RankCheck, members: dict[str, str]) -> str:
    rows = check.table[check.table["quantity"].isin(members.values())]
    return f"smallest adjusted p {rows['p_adjusted'].min():.2g}"
