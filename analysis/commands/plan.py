"""The command ``direag plan``: what more labels would bring, and which questions to label."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands import whole_numbers
from bayes_direag.commands import options


def plan_command(
    fit: options.FitFile,
    observations: options.ObservationsFile,
    target: Annotated[
        Path | None, typer.Option("--out", help="Also write tables and a picture to this folder.")
    ] = None,
    more: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of further labels to look at.")
    ] = "0,50,100,200,500,1000",
    worth: Annotated[int, typer.Option(min=0, help="How many questions to list as most worth labelling.")] = 20,
    accuracy: Annotated[
        float, typer.Option("--target-accuracy", help="Accuracy among the answered, for the share answered.")
    ] = 0.9,
    assurance: Annotated[float, typer.Option(help="Probability that it is reached.")] = 0.9,
    interval_level: Annotated[
        float, typer.Option("--interval-level", help="Probability that the intervals hold.")
    ] = 0.9,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    equal: options.EqualOption = None,
    seed: options.SeedOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Say what more labels would bring, and which questions are most worth labelling.

    Needs a fit by NUTS, and questions that it has not learned from. Nothing is fitted again, and labels are not used.

    Example: direag plan fit.nc unlabelled.jsonl --out plan
    """
    wanted = whole_numbers("--more", more, "0,100,500")
    from analysis.display.folders import jsonable
    from analysis.planning.plan import FOLDER, plan, plan_record, plan_tables, write_plan
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.fit import Fit

    if target is not None:
        FOLDER.check(target)
    learned = Fit.load(fit)
    with options.progress() as step:
        step(f"reading {observations}")
        questions = Observations.read(observations, learned.answers, options.chosen_columns(column, scale, equal))
        step("planning")
        planned = plan(
            learned,
            questions,
            more=wanted,
            n_worth=worth,
            target=accuracy,
            assurance=assurance,
            interval_level=interval_level,
            seed=seed,
        )
        if target is not None:
            write_plan(planned, learned, target)
    if as_json:
        options.out.print_json(data=jsonable({"file": str(fit), **plan_record(planned, learned)}), allow_nan=False)
        return
    options.out.print(plan_tables(planned))
    if target is not None:
        options.out.print(f"{target}: plan.json, plan.csv, worth_labelling.csv, plan.png\n", soft_wrap=True)
