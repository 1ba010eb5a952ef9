"""All that the paper has of its results, from one's own evaluations: tables, and Figures 2 and 3, in one folder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.display.document import Section
from analysis.display.folders import versions, write_record
from analysis.display.style import RIGHT, WRONG, figure_style, forest, headed_figure, row_labels, save_figure
from analysis.display.typeset import to_latex, to_markdown
from analysis.evaluation import Evaluation
from analysis.paper.paper_claims import claims_section, paper_claims
from analysis.paper.paper_layouts import differences_section, overall, paper_section
from analysis.paper.paper_tables import (
    METHODS_TABLE,
    PRINTED_TABLES,
    REFERENCE_METHOD,
    PrintedTable,
    Setting,
    design,
    in_printed_order,
    paper_differences,
    paper_table,
    setting,
)
from analysis.pictures import base_rate_figure
from analysis.scores.metrics import N_BINS
from analysis.scores.null_state import NULL_GROUPS, base_rate_gains, null_state
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import write_table
from bayes_direag.model.presets import label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What :meth:`PaperResults.write` writes, in words.
FILES = "table1 and table2 as .csv, .md, .tex, .json; claims and differences as .csv; figure2 and figure3 as .png, .csv"

#: The method whose null probability is the support of the null; that of DirEAG is after the final calibration.
SUPPORT_METHOD = "confidence"
#: The two means of Figure 3, and which group of questions each is of.
_NULL_MEANS = {"correct": NULL_GROUPS[0], "absent": NULL_GROUPS[2]}
_ENDS = ("", "_low", "_high")


@dataclass(frozen=True, eq=False)
class PaperResults:
    """The runs in the paper's order, both tables, and the differences of DirEAG to each other method."""

    runs: Sequence[Evaluation]
    tables: Sequence[pd.DataFrame]
    differences: pd.DataFrame
    level: float
    seed: int

    @property
    def claims(self) -> pd.DataFrame:
        """The paper's claims, counted over settings."""
        return paper_claims(self.differences)

    @property
    def verdict(self) -> str:
        """How often DirEAG is better or worse than another method."""
        return overall(self.differences, 1 - self.level)

    @property
    def sections(self) -> list[Section]:
        """Claims, both tables and differences, for any printer."""
        tables = [paper_section(*pair, self.runs, self.level) for pair in self._pairs()]
        differences = differences_section(self.differences, self.runs, self.level)
        return [claims_section(self.claims, self.level), *tables, differences]

    def _pairs(self) -> Iterator[tuple[PrintedTable, pd.DataFrame]]:
        return zip(PRINTED_TABLES, self.tables, strict=True)

    def write(self, target: Path) -> None:
        """Write :data:`FILES` to a folder, made if need be, in place of such files; no figures without their method."""
        target.mkdir(exist_ok=True)
        texts: dict[str, str] = {}
        for table, rows in self._pairs():
            stem = f"table{table.number}"
            write_table(rows, target / f"{stem}.csv")
            write_record(self._record(rows), target / f"{stem}.json")
            section = paper_section(table, rows, self.runs, self.level)
            texts |= {f"{stem}.md": to_markdown(section), f"{stem}.tex": to_latex(section)}
        for name, text in texts.items():
            with atomic_path(target / name) as partial_path:
                partial_path.write_text(text, encoding="utf-8")
        write_table(self.claims, target / "claims.csv")
        write_table(self.differences, target / "differences.csv")
        for name, measure, draw in (
            ("figure2", printed_gains, gain_figure),
            ("figure3", null_means, null_means_figure),
        ):
            measured = measure(self.runs, level=self.level, seed=self.seed)
            if len(measured):
                write_table(measured, target / f"{name}.csv")
                save_figure(draw(measured, self.level), target / f"{name}.png")

    def _record(self, rows: pd.DataFrame) -> dict[str, object]:
        """Return a table with what it takes to repeat it."""
        origin = [
            {
                "run": str(run.folder),
                **design(run)._asdict(),
                "fit_method": run.settings.fit_method,
                "preset": label(run.settings.preset),
            }
            for run in self.runs
        ]
        about = {"interval_level": self.level, "seed": self.seed, "ece_bins": N_BINS, **versions()}
        return about | {"runs": origin, "rows": rows}


def paper_results(
    folders: Sequence[Path], *, level: float = 0.95, seed: int = 0, on_step: Callable[[str], None] = lambda _: None
) -> PaperResults:
    """Make tables, comparisons and intervals of folders written by ``direag evaluate``."""
    runs = in_printed_order([Evaluation.read(folder) for folder in folders])
    tables = [paper_table(table, runs, level=level, seed=seed) for table in PRINTED_TABLES]
    differences = paper_differences(runs, level=level, seed=seed, on_step=on_step)
    return PaperResults(runs, tables, differences, level, seed)


def printed_gains(runs: Sequence[Evaluation], *, level: float, seed: int) -> pd.DataFrame:
    """Return the gains of DirEAG over its base rate, a row a run, beside what follows from the printed Table 1."""
    rows = []
    printed = METHODS_TABLE.figures().xs("DirEAG", level=METHODS_TABLE.column)
    for run, where, predictions in _of_method(runs, REFERENCE_METHOD):
        gains = base_rate_gains(predictions, seed=seed, level=level).drop(columns="method").to_dict("records")[0]
        cell = printed.reindex([where[:2]]).iloc[0]
        accuracy, brier, auroc = (float(cell[name]) for name in ("accuracy", "brier", "auroc"))
        base_rate = accuracy * (1 - accuracy)
        rows.append(
            _place(run, where)
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


def gain_figure(gains: pd.DataFrame, level: float) -> "Figure":
    """Draw the gains of DirEAG over its base rate, run by run, and those that the paper's Figure 2 shows."""
    about = "DirEAG, as in the paper's Figure 2. Diamonds: what follows from its Table 1, where it has the setting."
    return base_rate_figure(gains, _run_names(gains), about, level)


def null_means(runs: Sequence[Evaluation], *, level: float, seed: int) -> pd.DataFrame:
    """Return the mean support of the null of Figure 3, a row for each run that has it; NaN if undefined."""
    rows = []
    for run, where, predictions in _of_method(runs, SUPPORT_METHOD):
        state = null_state(predictions, seed=seed, level=level)
        row: dict[str, object] = _place(run, where)
        for name, quantity in {**_NULL_MEANS, "difference": "difference to selected"}.items():
            estimate = state.quantity(quantity)
            row |= {f"{name}{end}": estimate[end[1:] or "value"] for end in _ENDS}
            row |= {f"n_{name}": estimate["n"]} if name in _NULL_MEANS else {}
        rows.append(row)
    return pd.DataFrame(rows)


def null_means_figure(means: pd.DataFrame, level: float) -> "Figure":
    """Draw the mean support of the null, run by run."""
    caption = (
        "Mean held-out support of the null, before the final calibration: of questions whose selected answer is right "
        "(blue dots), and of those to which no level gave a right answer (orange squares). Bars: "
        f"{level:.0%} bootstrap interval over questions. The paper draws the same, but prints no figures of it."
    )
    few = {0: "no question", 1: "one question"}
    names = [
        f"{name}\n({few[n]} without a right candidate)" if n in few else name
        for name, n in zip(_run_names(means), means["n_absent"], strict=True)
    ]
    with figure_style():
        title = "Support of the null, as in the paper's Figure 3"
        figure = headed_figure(title, caption, 1.0 + 0.42 * len(means))
        axes = figure.subplots()
        looks = (("correct", "selected answer right", RIGHT, "o"), ("absent", "no candidate right", WRONG, "s"))
        for name, shown, colour, marker in looks:
            forest(axes, means[[name, f"{name}_low", f"{name}_high"]], colour=colour, marker=marker)
            axes.plot([], [], color=colour, marker=marker, linestyle="", label=shown)
        row_labels(axes, names)
        axes.set_xlabel("mean support of the null")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9)
    return figure


def _of_method(runs: Sequence[Evaluation], method: str) -> Iterator[tuple[Evaluation, Setting, pd.DataFrame]]:
    """Yield each run that has a method, its setting, and the predictions of the method there."""
    for run in runs:
        predictions = run.predictions[run.predictions["method"] == method]
        if len(predictions):
            yield run, setting(run), predictions


def _place(run: Evaluation, where: Setting) -> dict[str, object]:
    return {
        "run": str(run.folder),
        "model": where.model,
        "dataset": where.dataset,
        "preset": label(run.settings.preset),
    }


def _run_names(table: pd.DataFrame) -> list[str]:
    """Name the rows by model and dataset, and by preset if there are several."""
    columns = ["model", "dataset", *(["preset"] if len(set(table["preset"])) > 1 else [])]
    return [", ".join(names) for names in table[columns].to_numpy()]
