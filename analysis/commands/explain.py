"""The command ``direag explain``: one question, explained in tables, as JSON, as a picture."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands import options


def explain_command(
    fit: options.FitFile,
    observations: options.ObservationsFile,
    problem_id: Annotated[str, typer.Argument(help="The question's problem_id in OBS.", metavar="PROBLEM_ID")],
    target: Annotated[
        Path | None, typer.Option("--out", help="Also write a picture there: .png, .svg or .pdf.")
    ] = None,
    level: Annotated[float, typer.Option("--interval", help="Probability of the intervals of a NUTS fit.")] = 0.9,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    same: options.SameOption = None,
    preset: options.ProgramOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Say why one question got its answer and its probability.

    Each report's answer, how probable it would be alone, what it adds to the support of the selected answer, and the
    answer and probability without it. The question's right answer is shown if OBS has it, and not used.

    Example: direag explain fit.nc observations.jsonl svamp-00017
    """
    from analysis.display.folders import jsonable
    from analysis.display.style import save_figure
    from analysis.display.terminal import shown
    from analysis.explanation import explain

    if target is not None:
        options.check_file(target, fit, observations)
    learned = options.load_fit(fit, preset, options.chosen_same(same))
    with options.progress() as step:
        step(f"explaining {problem_id}")
        columns = options.chosen_columns(column, scale, groups, learned.columns)
        explanation = explain(learned, learned.read(observations, columns), problem_id, interval_level=level)
        if target is not None:
            save_figure(explanation.figure(), target)
    if as_json:
        files = {"fit": str(fit), "out": None if target is None else str(target)}
        options.out.print_json(data=jsonable(files | explanation.record), allow_nan=False)
        return
    options.out.print(shown(explanation.blocks()))
    if target is not None:
        options.out.print(f"{target}: the same as a picture", soft_wrap=True)
