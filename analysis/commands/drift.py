"""The command ``direag drift``: whether reports on new questions are like those on the labelled ones."""

from typing import Annotated

import typer

from bayes_direag.commands import options


def drift_command(
    fit: options.FitFile,
    observations: options.ObservationsFile,
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
    as_json: options.JsonOption = False,
) -> None:
    """Test whether reports on new questions differ from those that a fit has learned from. Labels are not used.

    What is compared is which levels agree, and how confident each is. Exit code 0: no difference was found. 1: they
    differ, so label 30 of the new questions at random, then estimate. Different is not wrong: docs/estimate.md.

    Example: direag drift fit.nc new.jsonl
    """
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.fit import Fit

    learned = Fit.load(fit)
    columns = options.chosen_columns(column, scale, groups, learned.columns)
    drift = learned.drift(Observations.read(observations, learned.answers, columns), alarm_rate=alarm_rate)
    if as_json:
        options.out.print_json(data={"fit": str(fit), **drift.record()}, allow_nan=False)
    else:
        options.out.print(drift.text())
    if drift.differs:
        raise typer.Exit(1)
