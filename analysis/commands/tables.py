"""The command ``direag tables``: the paper's tables and figures from evaluations, to look at, to typeset, as data."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.commands.options import LevelOption
from bayes_direag.commands.options import AllOption, SeedOption, out, progress
from bayes_direag.errors import DirEAGError

TableFormat = Literal["console", "csv", "markdown", "latex"]


def tables_command(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders written by `direag evaluate`.")],
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the tables (.csv, .md, .tex, .json) and Figures 2 and 3 (.png, .csv)."),
    ] = None,
    form: Annotated[
        TableFormat, typer.Option("--format", metavar="FORMAT", help="What to print: console, csv, markdown or latex.")
    ] = "console",
    level: LevelOption = 0.95,
    everything: AllOption = False,
    seed: SeedOption = 0,
) -> None:
    """Make the paper's Tables 1 and 2 from evaluations, beside the printed figures.

    Model and dataset come from the observations that were evaluated; where the paper has the same, its figures stand
    beside. The console says how often DirEAG is better and worse than another method, and in how many settings each of
    the paper's claims holds, as printed and in these runs; --all adds the tables.

    --out gets the seven methods of Table 1 and the four variants of Table 2 with intervals, claims and differences, and
    Figures 2 and 3: each run against its base rate, and its support of the null. Markdown and latex also print what
    tells DirEAG from each other method, at a false-discovery rate of 1 - LEVEL; csv prints both tables.

    Example: direag tables results --out tables
    """
    if target is not None:
        from analysis.evaluation import EVALUATION_FOLDER

        EVALUATION_FOLDER.check_apart(target)
    with progress() as step:
        step("reading")
        from analysis.display.document import Statements
        from analysis.display.terminal import shown
        from analysis.display.typeset import to_latex, to_markdown
        from analysis.paper.paper_results import FILES, paper_results

        results = paper_results(_each_once(folders), level=level, seed=seed, on_step=step)
        if target is not None:
            step("drawing")
            results.write(target)
    match form:
        case "console":
            out.print(shown([Statements((results.verdict,))]))
            for section in results.sections if everything else results.sections[:1]:
                out.print(section.title, "", shown(section.blocks), sep="\n")
            if target is not None:
                out.print(f"Written to {target}:", soft_wrap=True)
                out.print(FILES)
        case "csv":
            import pandas as pd

            typer.echo(pd.concat(results.tables).to_csv(index=False), nl=False)
        case "markdown":
            typer.echo("\n".join(map(to_markdown, results.sections)), nl=False)
        case "latex":
            typer.echo("\n".join(map(to_latex, results.sections)), nl=False)


def _each_once(folders: list[Path]) -> list[Path]:
    for position, folder in enumerate(folders):
        if any(folder.resolve() == earlier.resolve() for earlier in folders[:position]):
            raise DirEAGError(f"{folder}: saw this run twice; expected each once. Leave one out.")
    return folders
