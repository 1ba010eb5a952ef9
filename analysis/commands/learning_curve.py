"""The command ``direag learning-curve``: how good each method is, by the number of labelled questions."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.options import LevelOption, ListMethodsOption, named_list, read_observations
from bayes_direag.commands import options
from bayes_direag.commands.quality import show_remarks
from bayes_direag.errors import DirEAGError


def learning_curve_command(
    observations: options.ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Folder for results.csv, summary.csv and the picture.")],
    numbers: Annotated[
        str, typer.Option("--n", metavar="N,N,...", help="Numbers of labelled questions to learn from.")
    ] = "30,100,300,1000",
    splits: Annotated[int, typer.Option(min=2, help="Random splits into questions learned from and tested.")] = 20,
    methods: Annotated[
        str, typer.Option(help="Names, separated by commas; default stands for all but the slow ones.")
    ] = "default",
    answers: options.AnswersOption = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    equal: options.EqualOption = None,
    labels: options.LabelsOption = None,
    chains: options.ChainsOption = 4,
    warmup: options.WarmupOption = 250,
    draws: options.DrawsOption = 1000,
    target_accept: options.AcceptOption = 0.98,
    level: LevelOption = 0.95,
    seed: options.SeedOption = 0,
    everything: options.AllOption = False,
    as_json: options.JsonOption = False,
    _: ListMethodsOption = False,
) -> None:
    """Say how many labelled questions are needed, and which method is best.

    In every split the methods learn from the first 30, 100, ... labelled questions in random order, and are tested on
    those beyond the largest number, from which none has learned.

    Methods (see --list-methods) are those of evaluate that learn from the reports alone, and map_PRESET and
    nuts_PRESET, also with _calibrated. To add the slow ones: --methods default,nuts_bayes_calibrated.

    Results are written as they are made. The same command resumes an interrupted run; with more --methods or --splits
    it adds to it.

    Example: direag learning-curve labelled.jsonl --out curve --n 30,100
    """
    label_counts = _whole_numbers(numbers)
    options.require_parent(target)
    columns = options.chosen_columns(column, scale, groups, equal)
    labelled = read_observations(observations, answers, columns, labels, quiet=as_json, everything=everything)
    import pandas as pd

    from analysis.display.terminal import shown
    from analysis.learning_curve import curve_folder
    from analysis.learning_curve.curve import asked_for, draw_splits, measured, summarise
    from analysis.learning_curve.curve_display import curve_blocks, learning_curve_figure, sampling_note
    from analysis.methods.registry import chosen_curve_methods, is_sampled
    from bayes_direag.data.files import as_records

    wanted = chosen_curve_methods(named_list(methods))
    sampled = any(map(is_sampled, wanted))
    sampling = options.chosen_sampling(chains, warmup, draws, target_accept) if sampled else None
    drawn = draw_splits(labelled, label_counts, n_splits=splits, seed=seed)
    identity = curve_folder.identity(labelled, drawn, sampling=sampling, seed=seed)
    results = curve_folder.begin(target, identity)
    with options.progress() as step:
        for rows in measured(labelled, drawn, wanted, sampling=sampling, seed=seed, done=results, on_step=step):
            results = pd.concat([results, rows], ignore_index=True)
            curve_folder.write_results(target, results)
        step("drawing")
        results = asked_for(results, drawn, wanted)
        summary = summarise(results, tested_share=drawn.tested_share, level=level)
        about = (
            f"{observations.name}: {len(drawn.order)} random splits. In each, {drawn.n_test} of {drawn.n_usable} "
            "usable questions are tested and not learned from, the same by all methods and for all numbers of labels."
        )
        picture = learning_curve_figure(summary, about, level)
        record = curve_folder.finish(target, drawn, wanted, level, summary, picture)
    if as_json:
        options.out.print_json(data={"out": str(target), **record, "summary": as_records(summary)}, allow_nan=False)
        return
    options.out.print(about, *(f"{n} labels: left out, {reason}." for n, reason in drawn.left_out.items()), sep="\n")
    options.out.print("", shown(curve_blocks(summary, level, everything=everything)), sep="\n")
    if sampled:
        options.out.print(sampling_note(results))
    options.out.print(
        f"Every figure: {target / 'summary.csv'}\nDrawn: {target / 'learning_curve.png'}\n", soft_wrap=True
    )
    show_remarks(labelled, labels)


def _whole_numbers(numbers: str) -> list[int]:
    try:
        return [int(number) for number in named_list(numbers)]
    except ValueError:
        expected = "expected whole numbers with commas between, as in 30,100,300."
        raise DirEAGError(f"--n {numbers}: {expected}") from None
