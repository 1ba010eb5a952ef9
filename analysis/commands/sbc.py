"""The command ``direag sbc``: whether sampler and intervals are right, in simulations whose truth is known."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.model.settings import PresetName, SamplingSettings, Variant

if TYPE_CHECKING:
    from rich.console import Group

    from analysis.simulation.simulation_check import SimulationCheck


def sbc_command(
    target: Annotated[Path, typer.Option("--out", help="Folder for sbc.json, tables and pictures.")],
    n: Annotated[int, typer.Option("--n", min=2, help="Number of simulations.")] = 200,
    questions: Annotated[int, typer.Option(min=1, help="Labelled questions in each.")] = 100,
    variant: Annotated[Variant, typer.Option(metavar="VARIANT", help="count, level or confidence.")] = "confidence",
    signals: Annotated[int, typer.Option(min=1, max=3, help="Signals of each report.")] = 1,
    preset: Annotated[PresetName, typer.Option(metavar="PRESET", help="Whose priors: bayes or paper.")] = "bayes",
    overrides: options.SetOption = None,
    warmup: Annotated[int, typer.Option(min=1, help="Steps of each chain that adapt, and are thrown away.")] = 500,
    draws: Annotated[int, typer.Option(min=99, help="Draws kept of each chain.")] = 1000,
    seed: options.SeedOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Check sampler and intervals where the truth is known, by simulation.

    Parameters are drawn from the prior and right answers from the model, and NUTS is given these. Where the truth
    ranks among the draws says whether model and sampler are right. How often the intervals of fresh questions'
    probabilities hold the truth is measured without and with the final calibration.

    Exit code 0: the ranks are as they should be. 1: they are not.

    Example: direag sbc --n 200 --questions 100 --out sbc
    """
    settings = options.chosen_preset(preset, None, None, overrides)
    with options.progress() as step:
        step("loading")
        from numpyro import set_host_device_count

        set_host_device_count(os.cpu_count() or 1)
        from analysis.display.folders import jsonable
        from analysis.simulation.simulation_check import (
            FOLDER,
            SimulationSettings,
            check_by_simulation,
            simulation_record,
            write_simulation_check,
        )

        FOLDER.check(target)
        wanted = SimulationSettings(
            n=n,
            n_questions=questions,
            n_signals=signals,
            variant=variant,
            preset=settings,
            sampling=SamplingSettings(n_warmup=warmup, n_draws=draws),
            seed=seed,
        )
        check = check_by_simulation(wanted, step)
        step("drawing")
        write_simulation_check(check, target)
    if as_json:
        options.out.print_json(data=jsonable({"out": str(target), **simulation_record(check)}), allow_nan=False)
    else:
        options.out.print(_shown(check), f"{target}: sbc.json, tables and pictures\n", soft_wrap=True)
    if not check.sound:
        raise typer.Exit(1)


def _shown(check: "SimulationCheck") -> "Group":
    from rich.console import Group

    from analysis.display.text import number, percent, shown_table

    rows = (
        [
            f"{row['quantity']}{' OUT' if row['p_adjusted'] <= 1 - check.ranks.level else ''}",
            number(row["p_value"], 4),
            number(row["p_adjusted"]),
            number(row["autocorrelation"], 2, signed=True),
        ]
        for row in check.ranks.table.to_dict("records")
    )
    verdict = "as they should be" if check.sound else "NOT as they should be: model or sampler are wrong"
    title = f"Ranks of the truth among {check.ranks.n_ranked} draws, {check.settings.n} simulations"
    caption = (
        f"Ranks are {verdict}, at level {check.ranks.level:.0%} for all quantities together. "
        f"{check.n_divergent} simulations had divergent draws."
    )
    ranks = shown_table(title, ["quantity"], ["p", "adjusted p", "autocorrelation"], rows, caption)
    rows = (
        [
            row["recalibration"],
            row["unit"],
            percent(row["level"], 0),
            f"{number(row['coverage'])} ± {number(row['error'])}",
            number(row["mean_width"]),
        ]
        for row in check.coverage.to_dict("records")
    )
    caption = "Share of intervals that hold the truth, ± its standard error over the simulations."
    headers = ["  level", "  covered", "  90% width"]
    title = f"Coverage. {check.settings.text}"
    return Group(ranks, shown_table(title, ["final calibration", "  of"], headers, rows, caption))
