"""The parameters of one fit, or of several side by side: in words, as tables, as a forest."""

from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.document import Cell, Column, Picture, Record, Table
from analysis.display.glossary import PARAMETERS
from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, forest, headed_figure, row_labels
from analysis.display.text import interval, listed, number, percent, shortened
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import tidy_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

type Show = Callable[[Record], Cell | str]

#: Posterior probability of the intervals, and how many standard deviations of a normal posterior it spans.
INTERVAL_LEVEL, _SPAN = 0.9, 3.29
#: What a reader asks of first, in this order.
_FIRST = ("share", "slope", "bias", "sharpness")
_COLOURS = {"blue": RIGHT, "green": "#009E73", "purple": "#CC79A7"}
_FIGURES = ("value", "low", "high", "below", "shift")
_POOLED = ("_centre", "_spread", "_agreement")


def compared_parameters(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Return the parameters of fits under each other, those that labels identify first.

    ``parameter``, ``level`` (missing without one), ``identified``, ``model``; ``value``, the mode of a MAP or the
    median of draws; ``low``, ``high``, the 90 % interval of draws. Where a MAP is among the fits: ``below``, the share
    of draws below it (ties count half), and ``shift``, from the median to it in posterior standard deviations, taken as
    the interval's width over 3.29, since a long tail has no useful standard deviation.
    """
    point = next((fit for fit in fits.values() if fit.n_samples == 1), None)
    draws = {
        name: {known: tidy_draws(fit.tree, identified=known) for known in (True, False)} for name, fit in fits.items()
    }
    tables = []
    for name, fit in fits.items():
        for known, table in draws[name].items():
            ends = table.quantile([0.5, (1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2]).to_numpy()
            rows = table.columns.to_frame(index=False).assign(identified=known, model=name, value=ends[0])
            rows = rows.assign(low=np.nan, high=np.nan, below=np.nan, shift=np.nan)
            if fit.n_samples > 1:
                rows = rows.assign(low=ends[1], high=ends[2])
                if point is not None:
                    at = tidy_draws(point.tree, identified=known).iloc[0].reindex(table.columns).to_numpy(float)
                    below = (table < at).mean() + (table == at).mean() / 2
                    rows["below"] = below.where(~np.isnan(at)).to_numpy()
                    rows["shift"] = (at - ends[0]) / ((ends[2] - ends[1]) / _SPAN)
            tables.append(rows)
    found = pd.concat(tables, ignore_index=True)
    order = {name: place for place, name in enumerate(dict.fromkeys([*_FIRST, *found["parameter"]]))}
    levels = {name: place for place, name in enumerate(found["level"].dropna().unique())}
    keys = {"_known": ~found["identified"].astype(bool), "_name": found["parameter"].map(order)}
    keys |= {"_level": found["level"].map(levels).fillna(-1)}
    return found.assign(**keys).sort_values([*keys], kind="stable").drop(columns=[*keys]).reset_index(drop=True)


def parameters_in_words(table: pd.DataFrame) -> Iterator[str]:
    """Say where the mode of a MAP lies in each posterior."""
    known = table[table["identified"].astype(bool) & table["shift"].notna()]
    for name, rows in known.groupby("model", sort=False):
        far = rows.iloc[int(rows["shift"].abs().to_numpy().argmax())].to_dict()
        outside = int((~rows["below"].between((1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2)).sum())
        of = far["parameter"] if pd.isna(far["level"]) else f"{far['parameter']} of {far['level']}"
        yield (
            f"Of {len(rows)} parameters that labels identify, {outside} have their mode outside the "
            f"{INTERVAL_LEVEL:.0%} interval of {name}; farthest from the median is that of {of}, by "
            f"{number(far['shift'], 1, signed=True)} posterior standard deviations."
        )


def parameter_tables(table: pd.DataFrame) -> Iterator[Table]:
    """Yield the parameters that labels identify, and those that they do not, with a column for each fit."""
    names, shifted = (rows["model"].unique().tolist() for rows in (table, table.dropna(subset="shift")))
    short = {name: shortened(name, 12) for name in names}
    heads = short if len({*short.values()}) == len(names) else {name: name for name in names}
    note = "share: of the weight of all levels. relative: in units of that weight."
    if shifted:
        note += (
            " draws below: how much of the posterior lies below the mode. shift: from the median to the mode, in "
            "posterior standard deviations."
        )
    scale = "Only their ratios change predictions: the prior alone sets their common scale."
    for known, title in ((True, "Parameters that labels identify"), (False, "And those that they do not")):
        rows: dict[tuple[str, str], dict[str, object]] = {}
        for one in table[table["identified"] == known].to_dict("records"):
            level = one["level"] if isinstance(one["level"], str) else ""
            name = f"{one['parameter']}, {shortened(level, 22)}" if level else one["parameter"]
            first = all(parameter != one["parameter"] for parameter, _ in rows)
            meaning = _meaning(one["parameter"]) if first else ""
            row = rows.setdefault((one["parameter"], level), {"name": name, "meaning": meaning})
            row |= {f"{one['model']} {figure}": one[figure] for figure in _FIGURES}
        columns: dict[Column, Show] = {Column("parameter", holds="name"): lambda row: row["name"]}
        for name in names:
            own = table[table["model"] == name]
            columns |= _columns_of(name, heads[name] if len(names) > 1 else "", is_point=bool(own["low"].isna().all()))
            if name in shifted:
                columns |= _columns_of_shift(name, heads[name] if len(shifted) > 1 else "")
        if len(names) == 1 and known:
            columns[Column("what it says", holds="prose")] = lambda row: row["meaning"]
        yield Table.of(title, rows.values(), columns, note if known else scale, "parameters.csv")


def _meaning(parameter: str) -> str:
    """Return what a parameter says, or what that part of a pooled one does; nothing for one of a user's own model."""
    name = parameter.partition("[")[0]
    return PARAMETERS.get(name) or PARAMETERS.get(name.rpartition("_")[2], "")


def _columns_of(name: str, head: str, *, is_point: bool) -> dict[Column, Show]:
    def value(row: Record) -> str:
        return number(row.get(f"{name} value", np.nan), 2)

    def ends(row: Record) -> str:
        return interval(row.get(f"{name} low", np.nan), row.get(f"{name} high", np.nan), 2)

    start, header = f"{head}\n" if head else "", f"{INTERVAL_LEVEL:.0%} interval"
    if is_point:
        return {Column(f"{start}mode"): value}
    return {Column(f"{start}median"): value, Column(f"{start}{header}"): ends}


def _columns_of_shift(name: str, head: str) -> dict[Column, Show]:
    def below(row: Record) -> str:
        share = row.get(f"{name} below", np.nan)
        return "" if np.isnan(share) else percent(share, 0)

    def shift(row: Record) -> str:
        far = row.get(f"{name} shift", np.nan)
        return "" if np.isnan(far) else number(far, 1, signed=True)

    return {Column(f"{head or 'draws'}\nbelow"): below, Column(f"{head}\nshift" if head else "shift"): shift}


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
            for place, part in enumerate(parts):
                axes = figure.add_subplot(cells[place, 0])
                if not right:
                    axes.axvline(0, color=REFERENCE, linewidth=1)
                _draw_forest(axes, part)
                axes.set_title(part["parameter"].iloc[0].replace("_", " "), loc="left", fontsize=10)
            axes.set_xlabel("value; each panel has its own scale")
    return Picture("parameters", figure, {"parameters": table})


def _caption(table: pd.DataFrame) -> str:
    """Say what stands for which fit."""
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
            place = np.arange(len(levels))[::-1]
            axes.plot(ends["value"], place, "D", color=WRONG, markersize=6, markeredgecolor="white", zorder=4)
        else:
            forest(axes, ends, colour=next(colours))
    row_labels(axes, [shortened(level, 18) if isinstance(level, str) else "" for level in levels])
    axes.set_ylim(-0.6, len(levels) - 0.4)
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(axis="y", length=0)
