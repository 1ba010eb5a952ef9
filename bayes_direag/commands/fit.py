"""The command ``direag fit``: learn from labelled questions how reports should count, and save the fit."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands.multi_setting import ObservationsFiles, PoolOption, only_file
from bayes_direag.commands.options import (
    AcceptOption,
    AnswersOption,
    ByPatternOption,
    ChainsOption,
    ColumnOption,
    DrawsOption,
    EngineOption,
    EqualOption,
    JsonOption,
    MethodOption,
    OutOfFoldOption,
    PresetOption,
    RecalibrationOption,
    ScaleOption,
    SeedOption,
    SetOption,
    WarmupOption,
    WeightedOption,
    check_file,
    chosen_columns,
    chosen_preset,
    chosen_sampling,
    err,
    progress,
)
from bayes_direag.commands.show import show_fit, show_quality
from bayes_direag.data.files import Engine
from bayes_direag.errors import DirEAGError
from bayes_direag.model.settings import Method, Variant


def fit_command(
    observations: ObservationsFiles,
    target: Annotated[Path, typer.Option("--out", help="Where to write the fit (NetCDF).")],
    method: MethodOption = "map",
    preset: PresetOption = "bayes",
    variant: Annotated[
        Variant,
        typer.Option(
            metavar="VARIANT", help="count: votes. level: votes by level. confidence: stated confidences too."
        ),
    ] = "confidence",
    answers: AnswersOption = None,
    column: ColumnOption = None,
    scale: ScaleOption = None,
    equal: EqualOption = None,
    recalibration: RecalibrationOption = None,
    out_of_fold: OutOfFoldOption = None,
    overrides: SetOption = None,
    chains: ChainsOption = 4,
    warmup: WarmupOption = 1000,
    draws: DrawsOption = 1000,
    target_accept: AcceptOption = 0.95,
    allow_weighted: WeightedOption = False,
    by_pattern: ByPatternOption = None,
    engine: EngineOption = "local",
    pool: PoolOption = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn from labelled questions how reports should count, and save the fit.

    A large Parquet file is streamed, and what a fit cannot tell apart is counted: a row a pattern, with how many
    questions have it. The parameters are the same; the fit then does not say which questions it has seen.

    Example: direag fit train.jsonl --out fit.nc --method nuts --answers numeric
    """
    from bayes_direag.data.counted import read_labelled

    check_file(target, *observations)
    columns = chosen_columns(column, scale, equal)
    if pool:
        from bayes_direag.commands.multi_setting import fit_multi_setting_command

        fit_multi_setting_command(
            observations,
            target,
            answers=answers,
            columns=columns,
            preset=chosen_preset(preset, recalibration, out_of_fold, overrides),
            variant=variant,
            sampling=chosen_sampling(chains, warmup, draws, target_accept),
            seed=seed,
            one_by_one=not by_pattern and engine == "local",
            as_json=as_json,
        )
        return
    source = only_file(observations)
    settings = chosen_preset(preset, recalibration, out_of_fold, overrides)
    by_pattern = _counting(by_pattern, engine, method, settings.recalibration.out_of_fold)
    with progress() as step:
        labelled = read_labelled(source, answers, by_pattern=by_pattern, engine=engine, on_step=step, columns=columns)
    if not as_json:
        show_quality(labelled, source, inferred=answers is None)
    if method == "map":
        with progress() as step:
            step(f"fitting {variant} to {labelled.quality().n_questions:,} questions")
            from bayes_direag.fits.fitting import fit_map

            found = fit_map(labelled, preset=settings, variant=variant, seed=seed)
    else:
        sampling = chosen_sampling(chains, warmup, draws, target_accept)
        from bayes_direag.fits.fitting import fit_nuts

        found = fit_nuts(
            labelled,
            preset=settings,
            variant=variant,
            sampling=sampling,
            seed=seed,
            allow_weighted=allow_weighted,
            progress=err.is_terminal,
        )
    found.save(target)
    show_fit(found, target, as_json=as_json)


def _counting(by_pattern: bool | None, engine: Engine, method: Method, out_of_fold: int) -> bool | None:
    """Return whether to count questions by pattern; None where the size of the file decides.

    Raises
    ------
    DirEAGError
        If one option asks for it, and another for every question.
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
            f"{counts} counts questions by pattern, and {keeps} takes a file question by question; expected one or the "
            "other. Leave one of them out."
        )
    return False if keeps else by_pattern
