"""The command ``direag diagnose``: whether the posterior can be believed."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands.options import AllOption, FitFile, JsonOption, may_replace, out, progress


def diagnose_command(
    fit: FitFile,
    target: Annotated[
        Path | None, typer.Option("--out", help="Folder for diagnosis.json, parameters.csv and pictures.")
    ] = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a posterior can be believed: sampling, what the labels taught, what the model predicts.

    Needs a fit by NUTS. Exit code 0: believable. 1: not, the sampling failed; the verdict says what to do.

    Example: direag diagnose fit.nc --out diagnosis
    """
    with progress() as step:
        step(f"reading {fit}")
        from analysis.diagnosis import DIAGNOSIS_FOLDER, diagnose
        from analysis.display.folders import jsonable
        from analysis.display.terminal import shown
        from bayes_direag.fits.fit import Fit

        if target is not None:
            DIAGNOSIS_FOLDER.check(target)
            may_replace(target)
        fitted = Fit.load(fit)
        step("checking")
        diagnosis = diagnose(fitted)
        if target is not None:
            step("drawing")
            diagnosis.write(target)
    if as_json:
        out.print_json(data=jsonable({"file": str(fit), **diagnosis.record}), allow_nan=False)
    else:
        out.print(f"{fit}: {fitted.n_questions} questions, {fitted.n_samples} draws", soft_wrap=True)
        out.print(shown(diagnosis.blocks(everything=everything)))
        if target is not None:
            out.print(f"{target}: diagnosis.json, parameters.csv, pictures\n", soft_wrap=True)
    if not diagnosis.believable:
        raise typer.Exit(1)
