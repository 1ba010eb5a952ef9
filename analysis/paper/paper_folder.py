"""Everything that the paper has of its results, from one's own evaluations: made at once, written to one folder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from analysis.display.style import save_figure
from analysis.paper.paper_figures import base_rate_figure, base_rate_table, null_state_figure, null_state_table
from analysis.paper.paper_layouts import (
    Layout,
    differences_layout,
    long_latex,
    long_markdown,
    paper_layout,
    to_latex,
    to_markdown,
)
from analysis.paper.paper_tables import PRINTED_TABLES, in_printed_order, method_differences, paper_table
from analysis.runs.evaluated_run import EvaluatedRun, read_evaluated_run
from bayes_direag.data.files import as_records, atomic_path, write_table

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
            _write(target / f"{stem.name}-long.md", long_markdown(table, rows))
            _write(target / f"{stem.name}-long.tex", long_latex(table, rows))
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
