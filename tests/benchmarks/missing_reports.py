"""What a fit says of questions that lack levels: how far claims are off, cell by cell, and the benefit.

    python -m tests.benchmarks.missing_reports FILES --labels 100 --splits 2 --csv missing.csv --picture missing.png

Fits to questions with all reports are tested on up to 800 others, of which all lack the same levels: random ones, or
all but one group (levels whose names differ in the last part alone, as runs of a prompt or prompts of a model). A cell
is such a choice. ``general`` has the final calibration of whole questions, ``panel`` that of the levels that are left;
``labels`` is the accuracy of the labelled questions with these levels, as an estimate of that of the others: no
calibration by these labels alone can be expected to be nearer.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, headed_figure, save_figure
from bayes_direag import Fit, Observations, fit_map
from tests.benchmarks.common import benefit, kept_rows, parser, shuffled

MOST = 800
#: The shares of the levels that are kept, as bins, with their names.
SHARES, NAMES = (0, 0.15, 0.3, 0.6, 0.99), ("to .15", "to .3", "to .6", "to .99")


def choices(observations: Observations, rng: np.random.Generator) -> Iterator[tuple[str, list[int]]]:
    """Yield choices of columns, with what they are."""
    n, families = observations.n_levels, defaultdict(list)
    for column, name in enumerate(observations.level_names):
        families[name.rpartition("_")[0] or name].append(column)
    if 1 < len(families) < n:
        yield from ((f"group {name}", columns) for name, columns in families.items())
    for number in dict.fromkeys((1, 2, 4, n // 2, n - 1)):
        if 0 < number < n:
            for turn in range(4 if number < 4 else 2):
                yield f"{number} random ({turn})", sorted(rng.permutation(n)[:number].tolist())


def of_labels(fit: Fit, panels: np.ndarray) -> float:
    """Return the accuracy of labelled questions with these panels; of several panels, in mean."""
    labelled = fit.calibration.labelled
    distinct, times = np.unique(panels, axis=0, return_counts=True)
    replays = labelled.replays(distinct)
    right = [replays.right[:, replays.panel == number].mean() for number in range(len(distinct))]
    known = ~np.isnan(right)
    return float(np.average(np.array(right)[known], weights=times[known]))


def measured(path: Path, n: int, n_splits: int) -> Iterator[dict[str, object]]:
    """Yield a row for each split and choice of levels."""
    observations = Observations.read(path).with_agreement()
    for split in range(n_splits):
        order = shuffled(observations, split)
        if len(order) < n + 150:
            return
        labelled, tested = (observations.select(np.sort(rows)) for rows in (order[:n], order[n : n + MOST]))
        fit, rng = fit_map(labelled), np.random.default_rng(split)
        for what, columns in choices(observations, rng):
            asked = tested.without(np.broadcast_to(~np.isin(np.arange(observations.n_levels), columns), tested.shape))
            asked = asked.select(asked.answered)
            table = fit.predict(asked, warn=False)
            right, panel = asked.is_right(table["answer"]), table["probability"].to_numpy()
            general = fit.recalibration.of_selected(table["support"].to_numpy()[None])[0]
            floor = of_labels(fit, fit.evaluation(asked).data.panels) - right.mean()
            row = {"split": split, "what": what, "share": len(columns) / observations.n_levels, "off_labels": floor}
            for name, said in (("general", general), ("panel", panel)):
                row |= {f"off_{name}": said.mean() - right.mean(), f"benefit_{name}": benefit(right, said)}
            yield row
        jax.clear_caches()


def table_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, by share of the levels and for groups, how far cells are off in mean and at worst, and benefits."""
    shares = pd.cut(rows["share"], SHARES, labels=NAMES).astype(str)
    is_group = rows["what"].str.startswith("group")
    kinds = [("all", slice(None)), ("groups", is_group), *((name, (shares == name) & ~is_group) for name in NAMES)]
    lines = {}
    for kind, chosen in kinds:
        cells = rows.loc[chosen]
        off = cells.filter(like="off_").abs()
        lines[kind] = {
            "cells": len(cells),
            **off.mean().add_prefix("mean_"),
            **off.max().add_prefix("worst_"),
            **cells.filter(like="benefit_").mean(),
        }
    return pd.DataFrame(lines).T


def picture(rows: pd.DataFrame, n: int) -> Figure:
    """Draw every cell's mean claim less its accuracy by the share of the levels that is left."""
    title = "Claims allow for the reports that are missing"
    caption = (
        f"Mean probability less the share of right answers, of {rows['file'].nunique()} recordings; each point is a "
        f"choice of levels that all of up to {MOST} new questions have left. Fits to {n} questions with all levels."
    )
    with figure_style():
        figure = headed_figure(title, caption, 3.6)
        axes = figure.subplots()
        axes.axhline(0, color=REFERENCE, linewidth=1)
        for name, what, colour in (("general", "as for whole questions", WRONG), ("panel", "for what is left", RIGHT)):
            axes.plot(rows["share"], rows[f"off_{name}"], "o", color=colour, markersize=3.5, alpha=0.6, label=what)
        axes.set(xlabel="share of the levels that is left", ylabel="mean probability - accuracy")
        axes.legend(loc="upper right", title="calibrated")
    return figure


def main() -> None:
    arguments = parser(__doc__, splits=2)
    arguments.add_argument("--labels", type=int, default=100)
    arguments.add_argument("--csv", type=Path, required=True)
    arguments.add_argument("--picture", type=Path)
    given = arguments.parse_args()
    rows = kept_rows(given.csv, given.files, lambda path: measured(path, given.labels, given.splits))
    print(f"{rows['file'].nunique()} files, {given.labels} labels")
    print(table_of(rows).to_string(float_format="{:.3f}".format))
    if given.picture:
        save_figure(picture(rows, given.labels), given.picture)


if __name__ == "__main__":
    main()
