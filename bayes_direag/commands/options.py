"""The arguments and options that several commands of the front door share."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.engines import Engine
from bayes_direag.errors import DirEAGError
from bayes_direag.model.presets import default_preset, parse_overrides
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import Method, Preset, PresetName, RecalibrationMethod, SamplingSettings

ObservationsFile = Annotated[Path, typer.Argument(help="Observation file: JSON Lines, Parquet or CSV.", metavar="OBS")]
FitFile = Annotated[Path, typer.Argument(help="A fit, as `direag fit` writes it.", metavar="FIT")]
AnswersOption = Annotated[
    AnswerKind | None,
    typer.Option(help="How answers are compared. Left out: inferred from the gold answers, and said."),
]
MethodOption = Annotated[
    Method,
    typer.Option(
        "--method", metavar="METHOD", help="map: the posterior's mode. nuts: the whole posterior, by sampling."
    ),
]
PresetOption = Annotated[
    PresetName | None,
    typer.Option(
        metavar="PRESET",
        help="paper: the equations as printed. release: the paper's released code. bayes: proper priors. pooled: the "
        "same, levels borrowing from each other. Left out: paper for map, bayes for nuts.",
    ),
]
ChainsOption = Annotated[int, typer.Option("--chains", min=2, help="nuts: number of independent chains.")]
WarmupOption = Annotated[int, typer.Option("--warmup", min=1, help="nuts: steps that adapt, and are thrown away.")]
DrawsOption = Annotated[int, typer.Option("--draws", min=25, help="nuts: draws kept of each chain.")]
AcceptOption = Annotated[
    float, typer.Option("--target-accept", help="nuts: nearer 1 means smaller steps and fewer divergences.")
]
WeightedOption = Annotated[
    bool, typer.Option("--allow-weighted", help="nuts: sample although the preset weighs questions unequally.")
]
RecalibrationOption = Annotated[
    RecalibrationMethod | None,
    typer.Option(
        metavar="METHOD",
        help="The final calibration: platt, release, temperature, isotonic or none. Left out: the preset's own.",
    ),
]
OutOfFoldOption = Annotated[
    int | None, typer.Option(help="Recalibrate out of fold, over this many inner folds; 0: on the fitting questions.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Override the preset: weight.start=0. Repeats.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn; recorded in what is written.")]
ByPatternOption = Annotated[
    bool | None,
    typer.Option(
        "--count-patterns/--keep-questions",
        help="map: keep a row a pattern, or a row a question. Left out: patterns for Parquet of over a million rows.",
    ),
]
EngineOption = Annotated[
    Engine,
    typer.Option(
        metavar="ENGINE",
        help="Where Parquet is worked through: local, or ray, on the cluster that Ray finds or starts.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


def chosen_preset(
    name: PresetName | None,
    method: Method,
    recalibration: RecalibrationMethod | None,
    out_of_fold: int | None,
    overrides: list[str] | None,
) -> Preset:
    """Return the preset of that name, or the method's own, with the options' changes."""
    final = {"method": recalibration, "out_of_fold": out_of_fold}
    given = [f"recalibration.{field}={value}" for field, value in final.items() if value is not None]
    return (named_preset(name) if name else default_preset(method)).override(
        **parse_overrides([*(overrides or ()), *given])
    )


def chosen_sampling(chains: int, warmup: int, draws: int, target_accept: float) -> SamplingSettings:
    """Return how to sample, and have JAX split the CPU into a device for each chain; before JAX is first used."""
    from numpyro import set_host_device_count

    if not 0 < target_accept < 1:
        raise DirEAGError(f"--target-accept {target_accept}: expected a rate between 0 and 1, such as 0.95.")
    set_host_device_count(chains)
    return SamplingSettings(n_chains=chains, n_warmup=warmup, n_draws=draws, target_accept=target_accept)
