"""The arguments and options that several commands of the front door share."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.answers import AnswerKind
from bayes_direag.presets import PresetName, RecalibrationMethod

ObservationsFile = Annotated[Path, typer.Argument(help="Observation file: JSON Lines, Parquet or CSV.", metavar="OBS")]
FitFile = Annotated[Path, typer.Argument(help="A fit, as `direag fit` writes it.", metavar="FIT")]
AnswersOption = Annotated[
    AnswerKind | None,
    typer.Option(help="How answers are compared. Left out: inferred from the gold answers, and said."),
]
PresetOption = Annotated[
    PresetName,
    typer.Option(help="paper: the equations as printed. release: the paper's released code. bayes: proper priors."),
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
