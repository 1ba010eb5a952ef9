"""The command ``direag plot``: the pictures of an evaluation or of a fit, each with its numbers beside it."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.commands.options import LevelOption
from bayes_direag.commands import options
from bayes_direag.errors import DirEAGError

Format = Literal["png", "svg", "pdf"]


def plot_command(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|FIT", help="A folder written by `direag evaluate`, or a fit (.nc).")
    ],
    target: Annotated[Path, typer.Option("--out", help="Folder for the pictures and their numbers (CSV).")],
    observations: Annotated[
        Path | None,
        typer.Option(
            "--obs",
            help="With a fit: also draw how it does on those of these questions that it has not seen. With an "
            "evaluation: the evaluated observations, needed only where it was a test set or nothing was fitted.",
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", help="Of an evaluation: whose reliability and null state. [direag]")
    ] = None,
    form: Annotated[Format, typer.Option("--format", metavar="FORMAT", help="png, svg or pdf.")] = "png",
    level: LevelOption = 0.95,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Draw an evaluation, from its held-out predictions, or what a fit has learned.

    Of an evaluation: benefit, base_rate, null_state, reliability, risk_coverage, stated_confidence. Of a fit:
    calibration_curves, levels, shared, recalibration, and the former too where unseen observations are given.

    Example: direag plot results --out figures
    """
    from analysis.evaluation import EVALUATION_FOLDER

    EVALUATION_FOLDER.check_apart(target)
    if method is not None and not source.is_dir():
        raise DirEAGError(f"--method {method}: saw it with the fit {source}; expected an evaluation. Leave it out.")
    with options.progress() as step:
        step("reading")
        from itertools import chain

        from analysis.display.document import LeftOut
        from analysis.display.style import save_figure
        from analysis.evaluation import Evaluation, evaluate_fit
        from analysis.learned import fit_pictures
        from analysis.methods.direag import calibrated_method
        from analysis.pictures import evaluation_pictures
        from bayes_direag.data.files import write_table
        from bayes_direag.data.observations import Observations
        from bayes_direag.fits.fit import Fit

        if source.is_dir():
            columns = options.chosen_columns(column, scale, groups)
            evaluation = Evaluation.read(source, observations, columns)
            pictures = evaluation_pictures(evaluation, method or "direag", seed=seed, level=level)
        else:
            fit = Fit.load(source)
            pictures = fit_pictures(fit, level=level)
            if observations is not None:
                columns = options.chosen_columns(column, scale, groups, fit.columns)
                labelled = Observations.read(observations, fit.answers, columns)
                unseen = evaluate_fit(fit, labelled, observations.name)
                pictures = chain(
                    pictures, evaluation_pictures(unseen, calibrated_method(fit.variant), seed=seed, level=level)
                )
        lines = []
        for picture in pictures:
            if isinstance(picture, LeftOut):
                lines.append(f"{picture.name}: left out, {picture.reason}.")
                continue
            step(picture.name)
            target.mkdir(exist_ok=True)
            save_figure(picture.figure, target / f"{picture.name}.{form}")
            for name, table in picture.tables.items():
                write_table(table, target / f"{name}.csv")
            numbers = ", ".join(f"{name}.csv" for name in picture.tables)
            lines.append(f"{target / picture.name}.{form}  ({numbers})")
    for line in lines:
        options.out.print(line, soft_wrap=True)
