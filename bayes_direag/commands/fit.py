"""The command ``direag fit``: learn from labelled questions how much each report counts, and save the fit."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.commands.show import show_fit, show_quality
from bayes_direag.data.engines import Engine
from bayes_direag.errors import DirEAGError
from bayes_direag.model.settings import Method, Variant


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
        ),
    ] = "confidence",
    answers: options.AnswersOption = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    equal: options.EqualOption = None,
    recalibration: options.RecalibrationOption = None,
    out_of_fold: options.OutOfFoldOption = None,
    overrides: options.SetOption = None,
    chains: options.ChainsOption = 4,
    warmup: options.WarmupOption = 1000,
    draws: options.DrawsOption = 1000,
    target_accept: options.AcceptOption = 0.97,
    allow_weighted: options.WeightedOption = False,
    by_pattern: options.ByPatternOption = None,
    engine: options.EngineOption = "local",
    seed: options.SeedOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Learn from labelled questions how much each report counts, and save the fit.

    In a large Parquet file, questions that a fit cannot tell apart are counted. This does not change the parameters,
    but the fit does not record which questions it has seen.

    Example: direag fit train.jsonl --out fit.nc --method nuts --answers numeric
    """
    from bayes_direag.data.counted import read_labelled

    options.check_file(target, observations)
    columns = options.chosen_columns(column, scale, equal)
    settings = options.chosen_preset(preset, recalibration, out_of_fold, overrides)
    by_pattern = _counting(by_pattern, engine, method, settings.recalibration.out_of_fold)
    with options.progress() as step:
        labelled = read_labelled(
            observations, answers, by_pattern=by_pattern, engine=engine, on_step=step, columns=columns
        )
    if not as_json:
        show_quality(labelled, observations, inferred=answers is None)
    if method == "map":
        with options.progress() as step:
            step(f"fitting {variant} to {labelled.quality().n_questions:,} questions")
            from bayes_direag.fits.fitting import fit_map

            fitted = fit_map(labelled, preset=settings, variant=variant, seed=seed)
    else:
        sampling = options.chosen_sampling(chains, warmup, draws, target_accept)
        from bayes_direag.fits.fitting import fit_nuts

        fitted = fit_nuts(
            labelled,
            preset=settings,
            variant=variant,
            sampling=sampling,
            seed=seed,
            allow_weighted=allow_weighted,
            progress=options.err.is_terminal,
        )
    fitted.save(target)
    show_fit(fitted, target, as_json=as_json)


def _counting(by_pattern: bool | None, engine: Engine, method: Method, out_of_fold: int) -> bool | None:
    """Return whether to count questions by pattern, None if that depends on the size of the file.

    Raises DirEAGError if one option needs patterns, and another every question.
    """
    counts = "--count-patterns" if by_pattern else f"--engine {engine}" if engine != "local" else None
    keeps = (
        "--keep-questions" if by_pattern is False
        else "--method nuts" if method == "nuts"
        else f"recalibrating out of fold ({out_of_fold} folds; none with --out-of-fold 0)" if out_of_fold
        else None
    )  # fmt: skip
    if counts and keeps:
        raise DirEAGError(
            f"{counts} counts questions by pattern, but {keeps} needs every question. Leave one of them out."
        )
    return False if keeps else by_pattern
