"""Labelled and new questions compared level by level, as a table and a picture."""

from typing import TYPE_CHECKING

from analysis.display.document import Column, Table
from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, fitting, headed_figure, row_labels
from analysis.display.text import counted, number
from bayes_direag.decisions.drift import Drift

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARES = {"agreement": "agreement with the other levels", "confidence": "stated confidence"}


def drift_table(drift: Drift) -> Table:
    """Tabulate the mean agreement and confidence of each level before and after, the most different first."""
    shares = {
        Column(f"{share}\n{side}"): lambda row, name=f"{share}_{side}": number(row[name])
        for share in _SHARES
        for side in ("before", "after")
    }
    return Table.of(
        f"{counted(drift.n_labelled, 'labelled question')} (before), {counted(drift.n_new, 'new question')} (after)",
        drift.levels.to_dict("records"),
        {
            Column("level", holds="name"): lambda row: row["level"],
            Column("p"): lambda row: number(row["p_value"]),
            **shares,
        },
        "p: how often a level of questions that are alike would differ as much; allows for the number of levels. "
        "agreement: mean share of equal answers with each other level. confidence: mean of those stated.",
    )


def drift_figure(drift: Drift) -> "Figure":
    """Draw the mean agreement and confidence of each level before and after."""
    levels, changed = drift.levels, drift.levels["level"].isin(drift.changed)
    title = "These reports are not like the labelled ones" if drift.differs else "No change of the reports was found"
    n_labelled, n_new = counted(drift.n_labelled, "labelled question"), counted(drift.n_new, "new question")
    caption = (
        f"Open: {n_labelled}; filled: {n_new}. Red: levels with a p-value of at most {drift.alarm_rate:g}; the most "
        "different one is on top. Agreement: mean share of equal answers with each other level. Confidence: mean of "
        "those stated."
    )
    place = range(len(levels))[::-1]
    colour = [WRONG if is_changed else RIGHT for is_changed in changed]
    with figure_style():
        figure = headed_figure(title, caption, 0.9 + 0.3 * len(levels))
        panels = figure.subplots(1, len(_SHARES), sharey=True)
        for axes, (share, label) in zip(panels, _SHARES.items(), strict=True):
            before, after = levels[f"{share}_before"], levels[f"{share}_after"]
            axes.hlines(place, before, after, color=REFERENCE, linewidth=1)
            axes.scatter(before, place, s=36, color="white", edgecolor=colour, linewidth=1.5, zorder=3)
            axes.scatter(after, place, s=36, color=colour, zorder=3)
            axes.set(xlabel=label, xlim=(-0.03, 1.03))
        row_labels(panels[0], [fitting(name, 2.2) for name in levels["level"]])
        panels[0].set_ylim(-0.6, len(levels) - 0.4)
    return figure
