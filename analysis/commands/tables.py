"""The command ``direag tables``: the paper's two tables from evaluation folders, to look at, to typeset, as data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from analysis.commands.free_folder import check_free_folder
from bayes_direag.commands.options import SeedOption, out, progress
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    import pandas as pd

    from analysis.runs.evaluated_run import EvaluatedRun


TableFormat = Literal["console", "csv", "markdown", "latex"]


def tables_command(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders written by `direag evaluate`.")],
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for table1 and table2 (.csv, .md, .tex, .json) and differences.csv."),
    ] = None,
    form: Annotated[
        TableFormat, typer.Option("--format", metavar="FORMAT", help="What to print: console, csv, markdown or latex.")
    ] = "console",
    level: Annotated[
        float, typer.Option(help="Level of the intervals; the rest to 1 is the false-discovery rate.")
    ] = 0.95,
    seed: SeedOption = 0,
) -> None:
    """Make the paper's Tables 1 and 2 from evaluations, beside the printed figures.

    Table 1 has the seven methods, Table 2 the four variants of the evidence. Model and dataset come from the
    observations that were evaluated; where the paper has the same, its figures stand beside. A third table says
    what tells DirEAG from each other method, on the same questions.

    With --format csv the first two tables are printed, one under the other; differences.csv comes with --out.

    Example: direag tables results --out tables
    """
    if not 0 < level < 1:
        raise DirEAGError(f"--level {level}: expected a probability between 0 and 1, such as 0.95.")
    if target is not None:
        check_free_folder(target)
    with progress() as step:
        step("reading")
        from analysis.paper.paper_layouts import differences_layout, paper_layout, to_console, to_latex, to_markdown
        from analysis.paper.paper_tables import PRINTED_TABLES, in_printed_order, method_differences, paper_table
        from analysis.runs.evaluated_run import read_evaluated_run

        runs = in_printed_order([read_evaluated_run(folder) for folder in _distinct(folders)])
        tables = [paper_table(table, runs, level=level, seed=seed) for table in PRINTED_TABLES]
        layouts = [paper_layout(*pair, runs, level) for pair in zip(PRINTED_TABLES, tables, strict=True)]
        differences = method_differences(runs, level=level, seed=seed, on_step=step)
    everything = [*layouts, differences_layout(differences, runs, level)]
    if target is not None:
        from bayes_direag.data.files import write_table

        target.mkdir(exist_ok=True)
        for table, rows, layout in zip(PRINTED_TABLES, tables, layouts, strict=True):
            stem = target / f"table{table.number}"
            write_table(rows, stem.with_suffix(".csv"))
            _write(stem.with_suffix(".json"), _as_json(rows, runs, level, seed))
            _write(stem.with_suffix(".md"), to_markdown(layout))
            _write(stem.with_suffix(".tex"), to_latex(layout))
        write_table(differences, target / "differences.csv")
    match form:
        case "console":
            out.print(*map(to_console, everything))
            if target is not None:
                files = "table1 and table2 as .csv, .md, .tex, .json; differences.csv"
                out.print(f"{target}: {files}", soft_wrap=True)
        case "csv":
            import pandas as pd

            typer.echo(pd.concat(tables).to_csv(index=False), nl=False)
        case "markdown":
            typer.echo("\n".join(map(to_markdown, everything)), nl=False)
        case "latex":
            typer.echo("\n".join(map(to_latex, everything)), nl=False)


def _distinct(folders: list[Path]) -> list[Path]:
    for position, folder in enumerate(folders):
        if any(folder.resolve() == earlier.resolve() for earlier in folders[:position]):
            raise DirEAGError(f"{folder}: saw this run twice; expected each once. Leave one out.")
    return folders


def _as_json(rows: "pd.DataFrame", runs: "list[EvaluatedRun]", level: float, seed: int) -> str:
    """Return a table with what it takes to repeat it."""
    from importlib.metadata import version

    from bayes_direag.data.files import as_records

    origin = [
        {"run": str(run.folder), **run.protocol._asdict(), "fit_method": run.fit_method, "preset": run.preset}
        for run in runs
    ]
    values = {
        "interval_level": level,
        "seed": seed,
        "ece_bins": 10,
        "bayes-direag": version("bayes-direag"),
        "runs": origin,
        "rows": as_records(rows),
    }
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    from bayes_direag.data.files import atomic_path

    with atomic_path(path) as partial_path:
        partial_path.write_text(text, encoding="utf-8")
