"""The command ``direag drift``: whether reports on new questions are like those on the labelled ones."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands import options


def drift_command(
    fit: options.FitFile,
    observations: options.ObservationsFile,
    target: Annotated[
        Path | None, typer.Option("--out", help="Where to draw each level before and after: .png, .svg or .pdf.")
    ] = None,
    alarm_rate: Annotated[
        float,
        typer.Option(
            "--alarm-rate",
            help="How often questions that are alike are said to differ. Divide it by the number of batches.",
        ),
    ] = 0.05,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    equal: options.EqualOption = None,
    seed: options.SeedOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Test whether reports on new questions differ from those that a fit has learned from. Labels are not used.

    What is compared is which levels agree, and how confident each is. Exit code 0: no difference was found. 1: they
    differ, so label 30 of the new questions at random, then estimate. Different is not wrong: docs/estimate.md.

    Example: direag drift fit.nc new.jsonl --out drift.png
    """
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.fit import Fit

    if target is not None:
        options.check_file(target, fit, observations)
    learned = Fit.load(fit)
    columns = options.chosen_columns(column, scale, groups, equal, learned.columns)
    with options.progress() as step:
        step(f"reading {observations}")
        drift = learned.drift(
            Observations.read(observations, learned.answers, columns), alarm_rate=alarm_rate, seed=seed
        )
        if target is not None:
            step("drawing")
            from analysis.display.style import save_figure
            from analysis.drift import drift_figure

            save_figure(drift_figure(drift), target)
    if as_json:
        options.out.print_json(data={"fit": str(fit), "seed": seed, **drift.record()}, allow_nan=False)
    else:
        from analysis.display.document import Paragraph
        from analysis.display.terminal import shown
        from analysis.drift import drift_table

        options.out.print(shown([drift_table(drift), Paragraph(drift.text())]))
    if drift.differs:
        raise typer.Exit(1)
