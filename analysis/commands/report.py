"""The command ``direag report``: an evaluation, and a fit, as one HTML file that a stranger can read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_direag.commands import options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from analysis.display.document import LeftOut, Picture

PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FOLDER", help="Also draw the pictures into this folder, with their numbers."),
]


def write_pictures(pictures: "Iterable[Picture | LeftOut]", folder: Path) -> None:
    """Write each picture as PNG, and the numbers in it as CSV, into a folder; those that are left out are named."""
    from analysis.display.document import LeftOut
    from analysis.display.style import save_figure
    from bayes_direag.data.files import write_table

    folder.mkdir(exist_ok=True)
    for picture in pictures:
        if isinstance(picture, LeftOut):
            options.out.print(picture.text, soft_wrap=True)
            continue
        save_figure(picture.figure, folder / f"{picture.name}.png")
        for name, table in picture.tables.items():
            write_table(table, folder / f"{name}.csv")


def check_pictures(folder: Path | None) -> None:
    """Raise DirEAGError unless pictures can be added to a folder that is no evaluation."""
    if folder is not None:
        from analysis.evaluation import EVALUATION_FOLDER

        EVALUATION_FOLDER.check_apart(folder)


def report_command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Written by `direag evaluate`, or by `direag quickstart`.")
    ],
    fit: Annotated[
        Path | None,
        typer.Option("--fit", metavar="FIT", help="Also report this fit: what it learned, and its diagnosis."),
    ] = None,
    observations: Annotated[
        Path | None,
        typer.Option(
            "--obs", metavar="OBS", help="The evaluated observations, for the questions' texts and right answers."
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", help="The file to write, .html.  [FOLDER/report.html]", show_default=False)
    ] = None,
    same: options.SameOption = None,
    plot: PlotOption = None,
) -> None:
    """Write one HTML file with the answer, tables, pictures, diagnosis, settings and limits of an evaluation.

    The file needs nothing else and no network, so it can be sent as it is. Of quickstart's folder the fit
    and the observations are found without being named.

    Example: direag report results --fit fit.nc
    """
    from analysis.evaluation import REPORT

    target = target or folder / REPORT
    options.require_suffix(target, ".html", ".htm")
    check_pictures(plot)
    with options.progress() as step:
        step("reading")
        from analysis import report
        from analysis.evaluation import Evaluation
        from analysis.pictures import evaluation_pictures
        from bayes_direag.fits.fit import Fit

        folder, fit, observations = report.with_parts(folder, fit, observations)
        evaluation = Evaluation.read(folder, observations, options.chosen_same(same))
        options.check_file(target, *(path for path in (fit, observations) if path is not None))
        report.write_report(evaluation, target, None if fit is None else Fit.load(fit), str(fit), step)
        if plot is not None:
            step("drawing")
            write_pictures(evaluation_pictures(evaluation), plot)
    options.out.print(f"{report.title(evaluation)}.", *report.sentences(evaluation), sep="\n")
    options.out.print(f"\n{target}: open it in a browser.", soft_wrap=True)
