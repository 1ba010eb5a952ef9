"""The command ``direag fit``: learn from labelled questions how much each report counts, and save the fit."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_direag.commands import options
from bayes_direag.commands.show import show_fit, show_quality, show_remarks
from bayes_direag.errors import UncheckedWarning
from bayes_direag.model.settings import Variant

_FURTHER = "Further questions"


def fit_command(
    observations: options.ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Where to write the fit (NetCDF).")],
    method: options.MethodOption = "map",
    preset: options.PresetOption = "bayes",
    variant: Annotated[
        Variant,
        typer.Option(
            metavar="VARIANT",
            help="What counts. count: votes. level: votes by level. confidence: also stated confidences.",
            rich_help_panel=options.MODEL,
        ),
    ] = "confidence",
    answers: options.AnswersOption = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    equal: options.EqualOption = None,
    labels: options.LabelsOption = None,
    unlabelled: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Further questions: how levels agree there counts, labels do not.",
            rich_help_panel=_FURTHER,
        ),
    ] = None,
    also: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labelled questions of an older set, of another task or month.",
            rich_help_panel=_FURTHER,
        ),
    ] = None,
    also_counts: Annotated[
        float,
        typer.Option(
            "--also-counts", help="How many questions the older ones count as, together.", rich_help_panel=_FURTHER
        ),
    ] = 100.0,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="New questions may have fewer reports than these: learn from parts of the reports too.",
            rich_help_panel=_FURTHER,
        ),
    ] = False,
    recalibration: options.RecalibrationOption = None,
    out_of_fold: options.OutOfFoldOption = None,
    overrides: options.SetOption = None,
    chains: options.ChainsOption = 4,
    warmup: options.WarmupOption = 250,
    draws: options.DrawsOption = 1000,
    target_accept: options.AcceptOption = 0.98,
    allow_weighted: options.WeightedOption = False,
    seed: options.SeedOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Learn from labelled questions how much each report counts, and save the fit.

    Example: direag fit train.jsonl --out fit.nc --method nuts --answers numeric
    """
    from bayes_direag.data.observations import Observations

    options.check_file(target, observations, *filter(None, [unlabelled, also]))
    columns = options.chosen_columns(column, scale, groups, equal)
    settings = options.chosen_preset(preset, recalibration, out_of_fold, overrides)
    with options.progress() as step:
        step(f"reading {observations}")
        labelled = Observations.read(observations, answers, columns, labels)
        further, older = (file and Observations.read(file, labelled.kind, columns) for file in (unlabelled, also))
    if not as_json:
        show_quality(labelled, observations, inferred=answers is None)
        show_remarks(labelled, labels)
    given: dict[str, Any] = {
        "preset": settings,
        "variant": variant,
        "unlabelled": further,
        "partial": partial,
        "seed": seed,
    }
    given |= {"also": older, "also_counts": also_counts}
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always", UncheckedWarning)
        if method == "map":
            with options.progress() as step:
                step(f"fitting {variant} to {labelled.labelled.sum():,} questions")
                from bayes_direag.fits.fitting import fit_map

                fitted = fit_map(labelled, **given)
        else:
            given |= {"sampling": options.chosen_sampling(chains, warmup, draws, target_accept)}
            from bayes_direag.fits.fitting import fit_nuts

            terminal = options.err.is_terminal
            fitted = fit_nuts(labelled, **given, allow_weighted=allow_weighted, progress=terminal)
    for remark in remarks:
        options.err.print(str(remark.message), soft_wrap=True)
    fitted.save(target)
    show_fit(fitted, target, as_json=as_json)
