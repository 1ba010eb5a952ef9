"""The parameters of one fit, or of several side by side, as they are shown: as tables, as a forest."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.document import Column, Picture, Table
from analysis.display.glossary import PARAMETERS
from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, forest, headed_figure, row_labels
from analysis.display.text import interval, listed, number, percent, told_apart
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import INTERVAL_LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"blue": RIGHT, "green": "#009E73", "purple": "#CC79A7"}
#: What a fit of any model adds to its parameters.
_ADDED = ("share", "recalibration_")
_POOLED = ("_centre", "_spread", "_agreement")


def compared_parameters(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Return the parameters of fits under each other, those that labels identify first.

    ``parameter``, ``level`` (missing without one), ``identified``, ``model``; ``value``, the mode of a MAP or the
    median of draws; ``low``, ``high``, the 90 % interval of draws; and where a MAP is among the fits, ``below``, the
    share of draws below it (ties count half).
    """
    point = next((fit for fit in fits.values() if fit.n_samples == 1), None)
    tables = []
    for name, fit in fits.items():
        table = fit.parameters().rename(columns={"mode": "value", "median": "value"})
        table = table.reindex(columns=["parameter", "level", "identified", "value", "low", "high"])
        table = table.assign(model=name, below=np.nan)
        if fit.n_samples > 1 and point is not None:
            draws = fit.draws()
            mode = point.draws().iloc[0].reindex(draws.columns).to_numpy(float)
            table["below"] = np.where(np.isnan(mode), np.nan, (draws < mode).mean() + (draws == mode).mean() / 2)
        tables.append(table)
    whole, order = pd.concat(tables, ignore_index=True), ["identified", "parameter", "level"]
    return whole.sort_values(order, key=lambda column: pd.factorize(column)[0], ignore_index=True)


def parameter_tables(table: pd.DataFrame, *, is_own: bool = False) -> Iterator[Table]:
    """Yield the parameters that labels identify, and those that they do not, with a column for each fit.

    Of a model of one's own only what every fit adds is explained: a site may have a name of ours and another meaning.
    """
    explained = {
        "share: of the weight of all levels.": table["parameter"] == "share",
        "relative: in units of the weight of all levels.": table["parameter"].str.endswith("_relative"),
        "draws below: how much of the posterior lies below the mode.": table["below"].notna(),
    }
    note = " ".join(text for text, rows in explained.items() if rows.any())
    scale = "Only their ratios change predictions: the prior alone sets their common scale."
    n_models, estimates = table["model"].nunique(), table[["value", "low", "high"]].to_numpy(float)
    meaning = table["parameter"].map(partial(_meaning, is_own))
    rows = table.assign(
        name=table["parameter"] + [f", {level}" if isinstance(level, str) else "" for level in table["level"]],
        estimate=[f"{number(value, 2)} {interval(low, high, 2)}".rstrip() for value, low, high in estimates],
        share=["" if np.isnan(below) else percent(below, 0) for below in table["below"]],
        meaning=meaning.mask(meaning == meaning.shift(), ""),  # once for what is alike
    )
    for identified, title in ((True, "Parameters that labels identify"), (False, "And those that they do not")):
        part = rows[rows["identified"] == identified]
        columns: dict[Column, Callable[[str], str]] = {Column("parameter", holds="name"): str}
        for model, whole in rows.groupby("model", sort=False):
            of_name = part[part["model"] == model].set_index("name")
            head = f"{model}\n" if n_models > 1 else ""
            header = "mode" if whole["low"].isna().all() else f"median [{INTERVAL_LEVEL:.0%} interval]"
            columns[Column(head + header)] = defaultdict(str, of_name["estimate"].to_dict()).__getitem__
            if whole["below"].notna().any():
                shares = defaultdict(str, of_name["share"].to_dict())
                columns[Column(f"{head if n_models > 2 else ''}draws below")] = shares.__getitem__
        if n_models == 1 and identified:
            columns[Column("what it says", holds="prose")] = part.set_index("name")["meaning"].__getitem__
        if len(part):
            yield Table.of(title, part["name"].unique(), columns, note if identified else scale, "parameters.csv")


def _meaning(is_own: bool, parameter: str) -> str:
    name = parameter.partition("[")[0]
    if is_own and not name.startswith(_ADDED):
        return ""
    return PARAMETERS.get(name) or PARAMETERS.get(name.rpartition("_")[2], "")


def parameters_picture(table: pd.DataFrame, about: str = "") -> Picture:
    """Draw what labels identify as a forest, a panel for each parameter: those of levels left, the others right.

    What pooled levels share (centre, spread, agreement) is left to the table, and so are the others where no fit has
    intervals.
    """
    known = table[table["identified"].astype(bool) & ~table["parameter"].str.endswith(_POOLED)]
    panels = [part for _, part in known.groupby("parameter", sort=False)]
    left = [part for part in panels if part["level"].notna().all()]
    right = [part for part in panels if part["level"].isna().all() and part["low"].notna().any()]
    rows = [part["level"].nunique() for part in left]
    height = max(0.24 * sum(rows) + 0.55 * len(rows), 0.62 * len(right)) + 0.4
    with figure_style():
        figure = headed_figure("Where do the parameters lie?", f"{about} {_caption(table)}".strip(), height, width=7.4)
        grid = figure.add_gridspec(1, 2 if right else 1)
        for side, parts, sizes in ((0, left, [n + 0.8 for n in rows]), (1, right, [1.0] * len(right))):
            if not parts:
                continue
            cells = grid[side].subgridspec(len(parts), 1, height_ratios=sizes)
            for panel, part in enumerate(parts):
                axes = figure.add_subplot(cells[panel, 0])
                if not right:
                    axes.axvline(0, color=REFERENCE, linewidth=1)
                _draw_forest(axes, part)
                axes.set_title(part["parameter"].iloc[0].replace("_", " "), loc="left", fontsize=10)
            axes.set_xlabel("value; each panel has its own scale")
    return Picture("parameters", figure, {"parameters": table})


def _caption(table: pd.DataFrame) -> str:
    is_point = table.groupby("model", sort=False)["low"].apply(lambda low: low.isna().all())
    points, draws = ([str(name) for name in is_point.index[rows]] for rows in (is_point, ~is_point))
    said = [f"Orange diamonds: {listed(points)}, the mode."] if points else []
    said += [
        f"{colour.capitalize()} dots and lines: {name}, median and {INTERVAL_LEVEL:.0%} interval."
        for name, colour in zip(draws, _COLOURS, strict=False)
    ]
    return " ".join([*said, "What pooled levels share is in the table."])


def _draw_forest(axes: "Axes", part: pd.DataFrame) -> None:
    """Draw a row for each level: the median and interval of draws, the mode of a MAP as a diamond."""
    colours, levels = cycle(_COLOURS.values()), part["level"].unique()
    for _, rows in part.groupby("model", sort=False):
        ends = rows.set_index("level")[["value", "low", "high"]].reindex(levels)
        if rows["low"].isna().all():
            height = np.arange(len(levels))[::-1]
            axes.plot(ends["value"], height, "D", color=WRONG, markersize=6, markeredgecolor="white", zorder=4)
        else:
            forest(axes, ends, colour=next(colours))
    row_labels(axes, told_apart([level if isinstance(level, str) else "" for level in levels], 18))
    axes.set_ylim(-0.6, len(levels) - 0.4)
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(axis="y", length=0)
