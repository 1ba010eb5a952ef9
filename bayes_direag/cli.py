"""The front door: ``direag``. Each command reads files, calls the packages and prints; no computation lives here."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from analysis.evaluation import Evaluation
    from bayes_direag.fit import Fit
    from bayes_direag.observations import Observations
    from bayes_direag.presets import Preset

out = Console()
err = Console(stderr=True)


class FrontDoor(TyperGroup):
    """The commands; an expected error becomes one clear line and exit code 2, Ctrl-C exits with 130."""

    def invoke(self, ctx: typer.Context) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except DirEAGError as error:
            err.print(f"direag: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            err.print("direag: interrupted; nothing was left half written.")
            raise typer.Exit(130) from None


app = typer.Typer(
    name="direag",
    cls=FrontDoor,
    help="Calibrated answers from a language model's own stated confidences. Start with: direag quickstart",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


class PresetName(StrEnum):
    """The presets by name."""

    PAPER = "paper"
    RELEASE = "release"
    BAYES = "bayes"


class VariantName(StrEnum):
    """The variants by name."""

    COUNT = "count"
    LEVEL = "level"
    CONFIDENCE = "confidence"


class Answers(StrEnum):
    """The kinds of answers."""

    NUMERIC = "numeric"
    CHOICE = "choice"
    TEXT = "text"


class RecalibrationName(StrEnum):
    """The final calibrations by name."""

    PLATT = "platt"
    RELEASE = "release"
    TEMPERATURE = "temperature"
    ISOTONIC = "isotonic"
    NONE = "none"


ObservationsFile = Annotated[
    Path,
    typer.Argument(help="Observation file: JSON Lines, Parquet or CSV.", show_default=False, metavar="OBS"),
]
FitFile = Annotated[Path, typer.Argument(help="A fit, as `direag fit` writes it.", show_default=False, metavar="FIT")]
AnswersOption = Annotated[
    Answers | None,
    typer.Option(help="How answers are compared. Left out: inferred from the gold answers, and said."),
]
PresetOption = Annotated[
    PresetName,
    typer.Option(help="paper: the equations as printed. release: the paper's released code. bayes: proper priors."),
]
RecalibrationOption = Annotated[
    RecalibrationName | None,
    typer.Option(help="The final calibration, if not the preset's own."),
]
OutOfFoldOption = Annotated[
    int | None,
    typer.Option(help="Recalibrate on out-of-fold support from this many inner folds; 0: on the fitting questions."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Override a field of the preset: eps=0.005, weight.start=0."),
]
SeedOption = Annotated[int, typer.Option(help="Deals folds and draws resamples; recorded in what is written.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


@app.command(epilog="Example: direag fit train.jsonl --out fit.nc --preset paper --answers numeric")
def fit(
    observations: ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Where to write the fit (NetCDF).", show_default=False)],
    preset: PresetOption = PresetName.PAPER,
    variant: Annotated[
        VariantName,
        typer.Option(help="count: votes. level: votes by level. confidence: stated confidences too."),
    ] = VariantName.CONFIDENCE,
    answers: AnswersOption = None,
    recalibration: RecalibrationOption = None,
    out_of_fold: OutOfFoldOption = None,
    overrides: SetOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn from labelled questions how reports should count (MAP), and save the fit."""
    _require_folder(target)
    settings = _settings(preset, recalibration, out_of_fold, overrides)
    labelled = _read(observations, answers, quiet=as_json)
    with _progress() as step:
        step(f"fitting {variant} to {len(labelled)} questions")
        from bayes_direag.fit import fit_map

        found = fit_map(labelled, preset=settings, variant=variant.value, seed=seed)
        found.save(target)
    _show(found, str(target), as_json=as_json)


@app.command(epilog="Example: direag predict fit.nc new.jsonl --out predictions.csv")
def predict(
    fit: FitFile,
    observations: ObservationsFile,
    target: Annotated[
        Path,
        typer.Option("--out", help="Where to write the table: .parquet, .csv or .jsonl.", show_default=False),
    ],
    as_json: JsonOption = False,
) -> None:
    """Select an answer for every question, with its calibrated probability of being right."""
    from bayes_direag.fit import Fit
    from bayes_direag.observations import Observations
    from bayes_direag.tables import check_table_path, write_table

    _require_folder(target)
    check_table_path(target)
    found = Fit.load(fit)
    questions = Observations.read(observations, found.tree.attrs["answers"])
    with _progress() as step:
        step(f"predicting {len(questions)} questions")
        table = found.predict(questions)
        write_table(table, target)
    unanswered = int(table["confidence"].isna().sum())
    mean = table["confidence"].mean()
    if as_json:
        print_json({"out": str(target), "n": len(table), "unanswered": unanswered, "mean_confidence": mean})
    else:
        out.print(f"{len(table)} questions -> {target}: mean confidence {mean:.3f}, {unanswered} unanswered.")


@app.command(epilog="Example: direag evaluate observations.jsonl --out results --folds 5")
def evaluate(
    observations: ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Folder for the results.", show_default=False)],
    test: Annotated[
        Path | None, typer.Option(help="Evaluate on these instead of cross-fitting.", show_default=False)
    ] = None,
    preset: PresetOption = PresetName.PAPER,
    folds: Annotated[int, typer.Option(help="Number of cross-fitting folds.")] = 5,
    methods: Annotated[
        list[str] | None,
        typer.Option(help="Methods to evaluate; repeat, or separate by commas. Left out: all."),
    ] = None,
    vanilla_level: Annotated[
        str | None,
        typer.Option(help="The level that method vanilla takes; left out: the one called vanilla."),
    ] = None,
    answers: AnswersOption = None,
    recalibration: RecalibrationOption = None,
    out_of_fold: OutOfFoldOption = None,
    overrides: SetOption = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples behind each interval.")] = 1000,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Score every method on questions it has not seen, by cross-fitting or on a test set."""
    settings = _settings(preset, recalibration, out_of_fold, overrides)
    labelled = _read(observations, answers, quiet=as_json)
    tested = None if test is None else _read(test, answers or Answers(labelled.kind), quiet=as_json)
    names = None if methods is None else [name for part in methods for name in part.split(",")]
    found = _evaluated(
        labelled, tested, target, preset=settings, methods=names, vanilla_level=vanilla_level, n_folds=folds,
        seed=seed, n_resamples=resamples,
    )  # fmt: skip
    how = f"{folds}-fold cross-fit" if test is None else f"tested on {test}"
    _show_evaluation(found, f"{observations}: {how}, preset {settings.name}", target, as_json=as_json)


@app.command(epilog="Example: direag show fit.nc")
def show(fit: FitFile, as_json: JsonOption = False) -> None:
    """Say what a fit is, what it has learned by level, and how it converged."""
    from bayes_direag.fit import Fit

    _show(Fit.load(fit), str(fit), as_json=as_json)


@app.command(epilog="Example: direag simulate --n 500 --seed 1 --out simulated.jsonl")
def simulate(
    target: Annotated[
        Path, typer.Option("--out", help="Where to write: .jsonl, .parquet or .csv.", show_default=False)
    ],
    n: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 500,
    seed: SeedOption = 0,
) -> None:
    """Draw observations from the model itself, with known parameters; every record says that it is simulated."""
    from bayes_direag.simulate import simulate_observations

    _require_folder(target)
    simulate_observations(n, seed=seed).write(target)
    out.print(f"{n} simulated questions x 5 levels -> {target}")


@app.command(epilog="Example: direag quickstart --out direag-quickstart")
def quickstart(
    target: Annotated[Path, typer.Option("--out", help="Folder for what it makes.")] = Path("direag-quickstart"),
    n: Annotated[int, typer.Option(min=50, help="Number of simulated questions.")] = 600,
    seed: SeedOption = 1,
) -> None:
    """Do the main job on a small simulated set: evaluate, fit, predict, and show what came out."""
    from analysis.tables import reliability_table
    from bayes_direag.simulate import simulate_observations
    from bayes_direag.tables import write_table

    _require_folder(target)
    target.mkdir(exist_ok=True)
    questions = simulate_observations(n, seed=seed)
    questions.write(target / "simulated.jsonl")
    title = f"{n} SIMULATED questions x 5 levels: 5-fold cross-fit, preset paper"
    found = _evaluated(questions, None, target / "evaluation", preset=_settings(PresetName.PAPER), seed=seed)
    _show_evaluation(found, title, target / "evaluation", as_json=False)
    out.print(reliability_table(found.predictions, "direag"))
    with _progress() as step:
        step("fitting to all questions")
        from bayes_direag.fit import fit_map

        final = fit_map(questions, seed=seed)
        final.save(target / "fit.nc")
        write_table(final.predict(questions), target / "predictions.csv")
    out.print(
        f"These were simulated questions. The same on your own, in place of simulated.jsonl:\n"
        f"  cd {target}\n"
        "  direag evaluate simulated.jsonl --out evaluation\n"
        "  direag fit simulated.jsonl --out fit.nc\n"
        "  direag predict fit.nc simulated.jsonl --out predictions.csv",
        highlight=False,
    )


def main() -> None:
    """Run the command line."""
    app()


def print_json(value: object) -> None:
    """Print a value as JSON on standard output, undefined numbers as null."""
    out.print_json(json.dumps(_without_nan(value)))


def _read(path: Path, answers: Answers | None, *, quiet: bool) -> "Observations":
    from analysis.tables import quality_table
    from bayes_direag.observations import Observations

    observations = Observations.read(path, None if answers is None else answers.value)
    if not quiet:
        inferred = " (inferred from the gold answers)" if answers is None else ""
        out.print(quality_table(observations.quality(), f"{path}: {observations.kind} answers{inferred}"))
    return observations


def _settings(
    name: PresetName,
    recalibration: RecalibrationName | None = None,
    out_of_fold: int | None = None,
    overrides: list[str] | None = None,
) -> "Preset":
    from bayes_direag.presets import preset

    changes: dict[str, Any] = {}
    for override in overrides or ():
        field, equals, text = override.partition("=")
        if not equals:
            raise DirEAGError(f"--set {override}: saw no '='; expected FIELD=VALUE, for example --set eps=0.005.")
        *parents, last = field.split(".")
        place = changes
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = _parsed(text)
    final = {"method": recalibration and recalibration.value, "out_of_fold": out_of_fold}
    given = {key: value for key, value in final.items() if value is not None}
    if given:
        changes["recalibration"] = {**changes.get("recalibration", {}), **given}
    return preset(name.value).override(**changes)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _evaluated(
    observations: "Observations", test: "Observations | None", target: Path, **settings: Any
) -> "Evaluation":
    from analysis.evaluation import evaluate
    from analysis.evaluation_folder import check_folder, write_evaluation

    _require_folder(target)
    check_folder(target)
    with _progress() as step:
        found = evaluate(observations, test, on_step=step, **settings)
        step("writing")
        write_evaluation(found, target, observations, test, settings)
    return found


def _show_evaluation(found: "Evaluation", title: str, target: Path, *, as_json: bool) -> None:
    from analysis.tables import as_records, interval_table, metrics_table

    if as_json:
        print_json({"out": str(target), "metrics": as_records(found.metrics)})
        return
    out.print(metrics_table(found, title))
    out.print(interval_table(found))
    out.print(
        f"Written to {target}: predictions.csv, metrics.csv, parameters.csv, evaluation.json, fits/",
        style="dim",
    )


def _show(fit: "Fit", name: str, *, as_json: bool) -> None:
    from analysis.tables import as_records, fit_summary, parameter_table

    if as_json:
        print_json({"fit": name, **fit_summary(fit), "parameters": as_records(fit.parameters())})
        return
    out.print(parameter_table(fit, name))
    for key, value in fit_summary(fit).items():
        out.print(f"  {key.replace('_', ' ')}: {value}", highlight=False, markup=False)


def _require_folder(target: Path) -> None:
    if not target.absolute().parent.is_dir():
        raise DirEAGError(
            f"--out {target}: there is no folder {target.parent}; expected an existing one. Make it first."
        )


def _without_nan(value: object) -> object:
    match value:
        case dict():
            return {key: _without_nan(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_nan(item) for item in value]
        case float() if value != value:
            return None
        case _:
            return value.item() if hasattr(value, "item") else value


@contextmanager
def _progress() -> Iterator[Any]:
    """Show what is being done, and for how long, on standard error; yields a function that names the next step."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda step: progress.update(task, description=step)
