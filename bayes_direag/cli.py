"""The front door: ``direag``. Each command reads files, calls the packages and prints; no computation lives here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from bayes_direag.answers import AnswerKind
from bayes_direag.cli_options import (
    AnswersOption,
    FitFile,
    JsonOption,
    ObservationsFile,
    OutOfFoldOption,
    PresetOption,
    RecalibrationOption,
    SeedOption,
    SetOption,
)
from bayes_direag.errors import DirEAGError
from bayes_direag.presets import Preset, PresetName, RecalibrationMethod, Variant, parse_overrides
from bayes_direag.presets import preset as named_preset
from elicitation.command import elicit_command

if TYPE_CHECKING:
    from analysis.evaluation import Evaluation
    from bayes_direag.fit import Fit
    from bayes_direag.observations import Observations

# Paths and level names are printed as they are, even if they look like markup.
out = Console(markup=False, emoji=False, highlight=False)
err = Console(markup=False, emoji=False, highlight=False, stderr=True, soft_wrap=True)


class FrontDoor(TyperGroup):
    """The commands; an expected error becomes one clear line and exit code 2, Ctrl-C exits with 130."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (DirEAGError, OSError) as error:
            err.print(f"direag: {error}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            err.print("direag: interrupted; nothing was left half written.")
            raise typer.Exit(130) from None


app = typer.Typer(
    name="direag",
    cls=FrontDoor,
    help="Calibrated answers from a language model's own stated confidences.",
    epilog="Example: direag quickstart",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

app.command("elicit", epilog="Example: direag elicit --questions svamp --model FOLDER --out run --limit 100")(
    elicit_command
)


@app.command(epilog="Example: direag fit train.jsonl --out fit.nc --preset paper --answers numeric")
def fit(
    observations: ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Where to write the fit (NetCDF).")],
    preset: PresetOption = "paper",
    variant: Annotated[
        Variant,
        typer.Option(
            metavar="VARIANT", help="count: votes. level: votes by level. confidence: stated confidences too."
        ),
    ] = "confidence",
    answers: AnswersOption = None,
    recalibration: RecalibrationOption = None,
    out_of_fold: OutOfFoldOption = None,
    overrides: SetOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn from labelled questions how reports should count (MAP), and save the fit."""
    _check_file(target, observations)
    settings = _settings(preset, recalibration, out_of_fold, overrides)
    labelled = _read(observations, answers, quiet=as_json)
    with _progress() as step:
        step(f"fitting {variant} to {len(labelled)} questions")
        from bayes_direag.fit import fit_map

        found = fit_map(labelled, preset=settings, variant=variant, seed=seed)
        found.save(target)
    _show(found, target, as_json=as_json)


@app.command(epilog="Example: direag predict fit.nc new.jsonl --out predictions.csv")
def predict(
    fit: FitFile,
    observations: ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Where to write the table: .parquet, .csv or .jsonl.")],
    as_json: JsonOption = False,
) -> None:
    """Select an answer for every question, with its calibrated probability of being right.

    Gold answers are not needed and not looked at. The table has a row a question, in the order of the file.
    """
    from bayes_direag.fit import Fit
    from bayes_direag.observations import Observations
    from bayes_direag.tables import check_table_path, write_table

    _check_file(target, fit, observations)
    check_table_path(target)
    found = Fit.load(fit)
    questions = Observations.read(observations, found.tree.attrs["answers"])
    with _progress() as step:
        step(f"predicting {len(questions)} questions")
        table = found.predict(questions)
        write_table(table, target)
    unanswered = int(table["confidence"].isna().sum())
    if as_json:
        out.print_json(data={"out": str(target), "n": len(table), "unanswered": unanswered})
    else:
        out.print(f"{target}: {len(table)} questions, {unanswered} of them unanswered.", soft_wrap=True)


@app.command(epilog="Example: direag evaluate observations.jsonl --out results --folds 5")
def evaluate(
    observations: ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Folder for the results.")],
    test: Annotated[Path | None, typer.Option(help="Evaluate on these instead of cross-fitting.")] = None,
    samples: Annotated[
        Path | None, typer.Option(help="Several samples a question, for self_consistency and answer_entropy.")
    ] = None,
    topk: Annotated[Path | None, typer.Option(help="One list of guesses a question, for topk.")] = None,
    preset: PresetOption = "paper",
    folds: Annotated[int, typer.Option(help="Number of cross-fitting folds.")] = 5,
    methods: Annotated[str | None, typer.Option(help="Names, separated by commas. Left out: all.")] = None,
    vanilla_level: Annotated[
        str | None, typer.Option(help="Level of method vanilla, if not the one so called.")
    ] = None,
    answers: AnswersOption = None,
    recalibration: RecalibrationOption = None,
    out_of_fold: OutOfFoldOption = None,
    overrides: SetOption = None,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples behind each interval.")] = 1000,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Score every method on questions it has not seen, by cross-fitting or on a test set.

    Methods: vanilla, majority, mean_confidence, steerconf; self_consistency, answer_entropy and topk, from
    elicitations of their own; count, level and confidence, also as count_calibrated and level_calibrated; direag,
    which is confidence calibrated.

    The folder, where an earlier evaluation gives way, gets predictions.csv, metrics.csv, parameters.csv, fits/ and
    evaluation.json with the settings and versions.
    """
    from analysis.evaluation import evaluate as run
    from analysis.evaluation_folder import check_folder, write_evaluation

    settings = _settings(preset, recalibration, out_of_fold, overrides)
    _require_parent(target)
    check_folder(target)
    labelled = _read(observations, answers, quiet=as_json)
    tested = None if test is None else _read(test, answers or labelled.kind, quiet=as_json)
    paths = {"samples": samples, "topk": topk}
    elicited = {name: _read(path, labelled.kind, quiet=True) for name, path in paths.items() if path is not None}
    with _progress() as step:
        found = run(
            labelled,
            tested,
            elicited=elicited,
            preset=settings,
            methods=None if methods is None else [name.strip() for name in methods.split(",")],
            vanilla_level=vanilla_level,
            n_folds=folds,
            seed=seed,
            n_resamples=resamples,
            on_step=step,
        )
        write_evaluation(found, target, labelled, tested, elicited)
    how = f"{folds}-fold cross-fit" if test is None else f"tested on {test}"
    _show_evaluation(found, f"{observations}: {how}, preset {settings.label}", target, as_json=as_json)


@app.command(epilog="Example: direag show fit.nc")
def show(fit: FitFile, as_json: JsonOption = False) -> None:
    """Say what a fit is, whether it converged, and what it has learned, level by level."""
    from bayes_direag.fit import Fit

    _show(Fit.load(fit), fit, as_json=as_json)


@app.command(epilog="Example: direag simulate --n 500 --seed 1 --out simulated.jsonl")
def simulate(
    target: Annotated[Path, typer.Option("--out", help="Where to write: .jsonl, .parquet or .csv.")],
    n: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 500,
    seed: SeedOption = 0,
) -> None:
    """Draw observations from the model itself, with known parameters; each record says that it is simulated."""
    from bayes_direag.simulate import simulate_observations

    _check_file(target)
    questions = simulate_observations(n, seed=seed)
    questions.write(target)
    out.print(f"{target}: {n} simulated questions, {questions.n_levels} levels.", soft_wrap=True)


@app.command(epilog="Example: direag quickstart --out direag-quickstart")
def quickstart(
    target: Annotated[Path, typer.Option("--out", help="Folder for what it makes.")] = Path("direag-quickstart"),
    seed: SeedOption = 0,
) -> None:
    """Do the main job on the bundled example: evaluate, fit, predict, and show what came out.

    The example is real: 300 sums, each asked five times of a model of 135 million parameters.
    """
    from analysis.evaluation import evaluate as run
    from analysis.evaluation_folder import check_folder, write_evaluation
    from analysis.tables import reliability_table
    from bayes_direag.bundled_example import example_observations
    from bayes_direag.fit import fit_map
    from bayes_direag.tables import write_table

    _require_parent(target)
    results = target / "evaluation"
    check_folder(results)
    if target.is_dir() and any(target.iterdir()) and not (target / "observations.jsonl").is_file():
        raise DirEAGError(f"--out {target}: saw other files there; expected a new or empty folder. Choose another.")
    target.mkdir(exist_ok=True)
    questions = example_observations()
    questions.write(target / "observations.jsonl")
    elicited = {"samples": example_observations("samples"), "topk": example_observations("topk")}
    with _progress() as step:
        found = run(questions, elicited=elicited, seed=seed, on_step=step)
        write_evaluation(found, results, questions, elicited=elicited)
        step("fitting to all questions")
        final = fit_map(questions, seed=seed)
        final.save(target / "fit.nc")
        write_table(final.predict(questions), target / "predictions.csv")
    model = questions.questions[0].model
    title = f"{model}, {len(questions)} sums asked at {questions.n_levels} levels: 5-fold cross-fit, preset paper"
    _show_evaluation(found, title, results, as_json=False)
    out.print(reliability_table(found.predictions, "direag"))
    out.print(
        f"""Do the same with your own file in place of observations.jsonl:
  cd {target}
  direag evaluate observations.jsonl --out evaluation
  direag fit observations.jsonl --out fit.nc
  direag predict fit.nc observations.jsonl --out predictions.csv""",
        soft_wrap=True,
    )


def _settings(
    name: PresetName, recalibration: RecalibrationMethod | None, out_of_fold: int | None, overrides: list[str] | None
) -> Preset:
    final = {"method": recalibration, "out_of_fold": out_of_fold}
    given = [f"recalibration.{field}={value}" for field, value in final.items() if value is not None]
    return named_preset(name).override(**parse_overrides([*(overrides or ()), *given]))


def _read(path: Path, answers: AnswerKind | None, *, quiet: bool) -> "Observations":
    from analysis.tables import quality_table
    from bayes_direag.observations import Observations

    observations = Observations.read(path, answers)
    if not quiet:
        inferred = " (inferred from the gold answers)" if answers is None else ""
        out.print(quality_table(observations.quality(), f"{path}: {observations.kind} answers{inferred}"))
    return observations


def _show_evaluation(found: "Evaluation", title: str, target: Path, *, as_json: bool) -> None:
    from analysis.tables import interval_table, metrics_table
    from bayes_direag.tables import as_records

    if as_json:
        out.print_json(data={"out": str(target), "metrics": as_records(found.metrics)}, allow_nan=False)
        return
    out.print(metrics_table(found, title), interval_table(found))
    out.print(f"{target}: predictions.csv, metrics.csv, parameters.csv, evaluation.json, fits/\n", soft_wrap=True)


def _show(fit: "Fit", path: Path, *, as_json: bool) -> None:
    from analysis.tables import fit_summary, parameter_tables, summary_table
    from bayes_direag.tables import as_records

    if as_json:
        values = {"fit": str(path), **fit_summary(fit), "parameters": as_records(fit.parameters())}
        out.print_json(data=values, allow_nan=False)
        return
    out.print(summary_table(fit, str(path)), parameter_tables(fit))


def _check_file(target: Path, *inputs: Path) -> None:
    """Make sure that a file can be written there, and that it would replace none of the inputs."""
    _require_parent(target)
    if target.is_dir():
        raise DirEAGError(f"--out {target}: saw a folder; expected the name of a file. Add one.")
    if any(target.exists() and path.exists() and target.samefile(path) for path in inputs):
        raise DirEAGError(f"--out {target}: saw a file that is read here; expected another. Choose a new name.")


def _require_parent(target: Path) -> None:
    if not target.absolute().parent.is_dir():
        raise DirEAGError(f"--out {target}: there is no folder {target.parent}; expected one. Make it first.")


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done, and for how long; yields a function that names the next step."""
    if not err.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda step: progress.update(task, description=step)
