"""All that the paper has of its results, from one's own evaluations: tables, and Figures 2 and 3, in one folder."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, forest, headed_figure, row_labels, save_figure
from analysis.paper.paper_layouts import (
    Layout,
    differences_layout,
    long_layout,
    paper_layout,
    to_latex,
    to_longtable,
    to_markdown,
)
from analysis.paper.paper_tables import (
    METHODS_TABLE,
    PRINTED_TABLES,
    Setting,
    in_printed_order,
    method_differences,
    paper_table,
    setting,
)
from analysis.paper.paper_tables import REFERENCE as METHOD
from analysis.runs.evaluated_run import EvaluatedRun, read_evaluated_run
from analysis.scores.null_state import NULL_GROUPS, base_rate_gains, null_state
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import as_records, write_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What :meth:`PaperResults.write` writes, in words.
FILES = (
    "table1 and table2 as .csv, .md, .tex, .json, and -long as .md, .tex; differences.csv; figure2 and figure3 as "
    ".png, .csv"
)


@dataclass(frozen=True, eq=False)
class PaperResults:
    """What :func:`paper_results` has made.

    ``runs``: in the paper's order. ``tables``: those of :data:`~analysis.paper.paper_tables.PRINTED_TABLES`.
    ``differences``: from :func:`~analysis.paper.paper_tables.method_differences`. ``level``, ``seed``: of intervals.
    """

    runs: Sequence[EvaluatedRun]
    tables: Sequence[pd.DataFrame]
    differences: pd.DataFrame
    level: float
    seed: int

    @property
    def layouts(self) -> list[Layout]:
        """Both tables and the differences, ready for any format."""
        pairs = zip(PRINTED_TABLES, self.tables, strict=True)
        layouts = [paper_layout(table, rows, self.runs, self.level) for table, rows in pairs]
        return [*layouts, differences_layout(self.differences, self.runs, self.level)]

    def write(self, target: Path) -> None:
        """Write :data:`FILES` to a folder, made if need be, in place of such files there; no figures without DirEAG."""
        target.mkdir(exist_ok=True)
        for table, rows, layout in zip(PRINTED_TABLES, self.tables, self.layouts, strict=False):
            stem = target / f"table{table.number}"
            write_table(rows, stem.with_suffix(".csv"))
            _write(stem.with_suffix(".json"), self._as_json(rows))
            _write(stem.with_suffix(".md"), to_markdown(layout))
            _write(stem.with_suffix(".tex"), to_latex(layout))
            whole = long_layout(table, rows)
            _write(target / f"{stem.name}-long.md", to_markdown(whole))
            _write(target / f"{stem.name}-long.tex", to_longtable(whole))
        write_table(self.differences, target / "differences.csv")
        for name, measure, draw in (
            ("figure2", base_rate_table, base_rate_figure),
            ("figure3", null_state_table, null_state_figure),
        ):
            measured = measure(self.runs, level=self.level, seed=self.seed)
            if len(measured):
                write_table(measured, target / f"{name}.csv")
                save_figure(draw(measured, self.level), target / f"{name}.png")

    def _as_json(self, rows: pd.DataFrame) -> str:
        """Return a table with what it takes to repeat it."""
        origin = [
            {"run": str(run.folder), **run.protocol._asdict(), "fit_method": run.fit_method, "preset": run.preset}
            for run in self.runs
        ]
        values = {
            "interval_level": self.level,
            "seed": self.seed,
            "ece_bins": 10,
            "bayes-direag": version("bayes-direag"),
            "runs": origin,
            "rows": as_records(rows),
        }
        return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def paper_results(
    folders: Sequence[Path], *, level: float = 0.95, seed: int = 0, on_step: Callable[[str], None] = lambda _: None
) -> PaperResults:
    """Make tables, comparisons and intervals of folders written by ``direag evaluate``.

    Raises DirEAGError if one is no such folder.
    """
    runs = in_printed_order([read_evaluated_run(folder) for folder in folders])
    tables = [paper_table(table, runs, level=level, seed=seed) for table in PRINTED_TABLES]
    return PaperResults(runs, tables, method_differences(runs, level=level, seed=seed, on_step=on_step), level, seed)


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as partial_path:
        partial_path.write_text(text, encoding="utf-8")


#: The two means of Figure 3, and which group of questions each is of.
_NULL_MEANS = {"correct": NULL_GROUPS[0], "absent": NULL_GROUPS[2]}
_ENDS = ("", "_low", "_high")


def base_rate_table(runs: Sequence[EvaluatedRun], *, level: float, seed: int) -> pd.DataFrame:
    """Compare DirEAG with the constant that equals its accuracy: what Figure 2 shows, one row per run that has DirEAG.

    Returns: ``run``, ``model``, ``dataset``; the columns of :func:`~analysis.scores.null_state.base_rate_gains`; and
    what follows from the printed Table 1: ``brier_printed``, ``base_rate_brier_printed``, ``brier_gain_printed``,
    ``auroc_printed`` and ``auroc_gain_printed``, NaN for a setting that the paper does not have.
    """
    rows = []
    printed = METHODS_TABLE.figures().xs("DirEAG", level=METHODS_TABLE.column)
    for run, where, own in _of_method(runs):
        gains = base_rate_gains(own, seed=seed, level=level).drop(columns="method").to_dict("records")[0]
        cell = printed.reindex([where[:2]]).iloc[0]
        accuracy, brier, auroc = (float(cell[name]) for name in ("accuracy", "brier", "auroc"))
        base_rate = accuracy * (1 - accuracy)
        rows.append(
            {"run": str(run.folder), "model": where.model, "dataset": where.dataset}
            | gains
            | {
                "brier_printed": brier,
                "base_rate_brier_printed": base_rate,
                "brier_gain_printed": base_rate - brier,
                "auroc_printed": auroc,
                "auroc_gain_printed": auroc - 0.5,
            }
        )
    return pd.DataFrame(rows)


def null_state_table(runs: Sequence[EvaluatedRun], *, level: float, seed: int) -> pd.DataFrame:
    """Return the mean null probabilities of Figure 3, one row per run that has DirEAG.

    Returns: ``run``, ``model``, ``dataset``; ``correct``, where the selected answer is right; ``absent``, where no
    candidate is; ``difference``, the second minus the first; each with ``_low`` and ``_high``; and the number of such
    questions, ``n_correct`` and ``n_absent``. NaN where there is none.
    """
    rows = []
    for run, where, own in _of_method(runs):
        state = null_state(own, seed=seed, level=level)
        row: dict[str, object] = {"run": str(run.folder), "model": where.model, "dataset": where.dataset}
        for name, quantity in {**_NULL_MEANS, "difference": "difference to selected"}.items():
            found = state.quantity(quantity)
            row |= {f"{name}{end}": found[end[1:] or "value"] for end in _ENDS}
            row |= {f"n_{name}": found["n"]} if name in _NULL_MEANS else {}
        rows.append(row)
    return pd.DataFrame(rows)


def base_rate_figure(table: pd.DataFrame, level: float) -> "Figure":
    """Draw what :func:`base_rate_table` found at an interval level."""
    caption = (
        "Dots: DirEAG. Grey lines: the base rate, a predictor that gives every question the same probability, its "
        f"share of right answers. Bars: {level:.0%} bootstrap interval, over questions, of the gap between the two. "
        "Hollow and thin, below each: what follows from the paper's Table 1, where it has the setting. For the Brier "
        "score left is better, for the AUROC right."
    )
    with figure_style():
        figure = headed_figure("DirEAG against its base rate, as in the paper's Figure 2", caption, _height(table))
        axes = figure.subplots(1, 2, sharey=True)
        half = np.full(len(table), 0.5)
        base, base_printed = (table[f"base_rate_brier{end}"].to_numpy(float) for end in ("", "_printed"))
        _beside(axes[0], table, "brier", base, base_printed, RIGHT)
        _beside(axes[1], table, "auroc", half, half, "#009E73")
        _name_rows(axes[0], table)
        axes[0].set_xlabel("Brier score")
        axes[1].set_xlabel("AUROC")
    return figure


def null_state_figure(table: pd.DataFrame, level: float) -> "Figure":
    """Draw what :func:`null_state_table` found at an interval level."""
    caption = (
        "Mean held-out probability of DirEAG that no candidate is right: of questions whose selected answer is right "
        "(blue dots), and of those to which no level gave a right answer (orange squares). Bars: "
        f"{level:.0%} bootstrap interval over questions. The paper draws the same, but prints no figures of it."
    )
    with figure_style():
        figure = headed_figure("Null probability, as in the paper's Figure 3", caption, _height(table))
        axes = figure.subplots()
        looks = (("correct", "selected answer right", RIGHT, "o"), ("absent", "no candidate right", WRONG, "s"))
        for name, shown, colour, marker in looks:
            forest(axes, *(table[f"{name}{end}"].to_numpy(float) for end in _ENDS), colour=colour, marker=marker)
            axes.plot([], [], color=colour, marker=marker, linestyle="", label=shown)
        _name_rows(axes, table)
        axes.set_xlabel("mean null probability")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9)
    return figure


def _beside(
    axes: "Axes", table: pd.DataFrame, name: str, base: np.ndarray, base_printed: np.ndarray, colour: str
) -> None:
    """Draw ours with its base rate, and the printed below; the interval is of the gain, seen from the base rate."""
    gains = table[[f"{name}_gain_low", f"{name}_gain_high"]].to_numpy(float).T
    low, high = base - gains[::-1] if name == "brier" else base + gains
    forest(axes, table[name].to_numpy(float), low, high, colour=colour)
    place = np.arange(len(table))[::-1]
    axes.vlines(base, place - 0.15, place + 0.3, color=REFERENCE, linewidth=2)
    printed = table[f"{name}_printed"].to_numpy(float)
    base_printed = np.where(np.isnan(printed), np.nan, base_printed)
    axes.vlines(base_printed, place - 0.47, place - 0.2, color=REFERENCE, linewidth=1)
    axes.scatter(printed, place - 0.33, s=26, marker="D", color="white", edgecolor=colour, zorder=3)


def _of_method(runs: Sequence[EvaluatedRun]) -> Iterator[tuple[EvaluatedRun, Setting, pd.DataFrame]]:
    """Yield each run that has DirEAG, its setting, and what DirEAG says there."""
    for run in runs:
        own = run.predictions[run.predictions["method"] == METHOD]
        if len(own):
            yield run, setting(run), own


def _height(table: pd.DataFrame) -> float:
    return 1.0 + 0.42 * len(table)


def _name_rows(axes: "Axes", table: pd.DataFrame) -> None:
    names = zip(table["model"], table["dataset"], strict=True)
    row_labels(axes, [f"{model}, {dataset}" for model, dataset in names])
    axes.set_ylim(-0.7, len(table) - 0.4)
