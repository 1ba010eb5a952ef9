"""The front door: ``direag``. Each command reads files, calls the packages and prints; no computation lives here."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from analysis.commands.compare import compare_command
from analysis.commands.diagnose import diagnose_command
from analysis.commands.evaluate import evaluate_command, show_evaluation, show_quality
from analysis.commands.explain import explain_command
from analysis.commands.learning_curve import EPILOG as LEARNING_CURVE_EPILOG
from analysis.commands.learning_curve import learning_curve_command
from analysis.commands.plan import EPILOG as PLAN_EPILOG
from analysis.commands.plan import plan_command
from analysis.commands.plot import plot_command
from analysis.commands.report import report_command
from analysis.commands.sbc import sbc_command
from analysis.commands.tables import tables_command
from bayes_direag.cli_options import (
    AcceptOption,
    AnswersOption,
    ByPatternOption,
    ChainsOption,
    DrawsOption,
    EngineOption,
    FitFile,
    JsonOption,
    MethodOption,
    OutOfFoldOption,
    PresetOption,
    RecalibrationOption,
    SeedOption,
    SetOption,
    WarmupOption,
    WeightedOption,
    chosen_preset,
    chosen_sampling,
)
from bayes_direag.compilation_cache import keep_compiled
from bayes_direag.console import check_file, err, out, progress, require_parent
from bayes_direag.errors import DirEAGError
from bayes_direag.pooled_command import ObservationsFiles, PoolOption, fit_pooled_command, only_file, show_pooled
from bayes_direag.predict_command import predict_command
from bayes_direag.settings import Variant
from elicitation.command import elicit_command

if TYPE_CHECKING:
    from bayes_direag.fit import Fit


class FrontDoor(TyperGroup):
    """The commands; an expected error becomes one clear line and exit code 2, Ctrl-C exits with 130."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        keep_compiled()
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
app.command("evaluate", epilog="Example: direag evaluate observations.jsonl --out results --folds 5")(evaluate_command)
app.command("diagnose", epilog="Example: direag diagnose fit.nc --out diagnosis")(diagnose_command)
app.command("compare", epilog="Example: direag compare map.nc nuts.nc --obs labelled.jsonl")(compare_command)
app.command("explain", epilog="Example: direag explain fit.nc observations.jsonl svamp-00017")(explain_command)
app.command("learning-curve", epilog=LEARNING_CURVE_EPILOG)(learning_curve_command)
app.command("plan", epilog=PLAN_EPILOG)(plan_command)
app.command("plot", epilog="Example: direag plot results --out figures")(plot_command)
app.command("report", epilog="Example: direag report results --fit fit.nc")(report_command)
app.command("tables", epilog="Example: direag tables results --out tables")(tables_command)
app.command("predict", epilog="Example: direag predict fit.nc new.jsonl --out predictions.csv")(predict_command)
app.command("sbc", epilog="Example: direag sbc --n 200 --questions 100 --out sbc")(sbc_command)


@app.command(epilog="Example: direag fit train.jsonl --out fit.nc --method nuts --answers numeric")
def fit(
    observations: ObservationsFiles,
    target: Annotated[Path, typer.Option("--out", help="Where to write the fit (NetCDF).")],
    method: MethodOption = "map",
    preset: PresetOption = None,
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
    chains: ChainsOption = 4,
    warmup: WarmupOption = 1000,
    draws: DrawsOption = 1000,
    target_accept: AcceptOption = 0.9,
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
    """
    from bayes_direag.labelled_file import read_labelled

    check_file(target, *observations)
    if pool:
        fit_pooled_command(
            observations,
            target,
            answers=answers,
            preset=chosen_preset(preset, "nuts", recalibration, out_of_fold, overrides),
            variant=variant,
            sampling=chosen_sampling(chains, warmup, draws, target_accept),
            seed=seed,
            one_by_one=not by_pattern and engine == "local",
            as_json=as_json,
        )
        return
    source = only_file(observations)
    settings = chosen_preset(preset, method, recalibration, out_of_fold, overrides)
    one_by_one = method == "nuts" or settings.recalibration.out_of_fold > 0
    if one_by_one and by_pattern is None and engine == "local":
        by_pattern = False
    with progress() as step:
        labelled = read_labelled(source, answers, by_pattern=by_pattern, engine=engine, on_step=step)
    if not as_json:
        show_quality(labelled, source, inferred=answers is None)
    if method == "map":
        with progress() as step:
            step(f"fitting {variant} to {labelled.quality().n_questions:,} questions")
            from bayes_direag.map_fit import fit_map

            found = fit_map(labelled, preset=settings, variant=variant, seed=seed)
    else:
        sampling = chosen_sampling(chains, warmup, draws, target_accept)
        from bayes_direag.nuts_fit import fit_nuts

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
    _show(found, target, as_json=as_json)


@app.command(epilog="Example: direag show fit.nc")
def show(fit: FitFile, as_json: JsonOption = False) -> None:
    """Say what a fit is, whether it converged, and what it has learned, level by level."""
    from bayes_direag.fit import Fit
    from bayes_direag.pooled_fit import PooledFit, is_pooled

    if is_pooled(fit):
        show_pooled(PooledFit.load(fit), fit, as_json=as_json)
    else:
        _show(Fit.load(fit), fit, as_json=as_json)


@app.command(epilog="Example: direag simulate --n 500 --seed 1 --out simulated.jsonl")
def simulate(
    target: Annotated[Path, typer.Option("--out", help="Where to write: .jsonl, .parquet or .csv.")],
    n: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 500,
    seed: SeedOption = 0,
) -> None:
    """Draw observations from the model itself, with known parameters; each record says that it is simulated."""
    from bayes_direag.simulate import simulate_observations

    check_file(target)
    questions = simulate_observations(n, seed=seed)
    questions.write(target)
    out.print(f"{target}: {n} simulated questions, {questions.n_levels} levels.", soft_wrap=True)


@app.command(epilog="Example: direag quickstart --out direag-quickstart")
def quickstart(
    target: Annotated[Path, typer.Option("--out", help="Folder for what it makes.")] = Path("direag-quickstart"),
    seed: SeedOption = 0,
) -> None:
    """Do the main job on the bundled example: evaluate, fit, predict, show what came out, write the report.

    The example is real: 300 sums, each asked five times of a model of 135 million parameters.
    """
    from analysis.evaluation import evaluate as run
    from analysis.evaluation_folder import FOLDER, REPORT, write_evaluation
    from analysis.report.report_file import write_report
    from analysis.report.source import read_source
    from analysis.tables import reliability_table
    from bayes_direag.bundled_example import example_observations
    from bayes_direag.map_fit import fit_map
    from bayes_direag.tables import write_table

    require_parent(target)
    results = target / "evaluation"
    FOLDER.check(results)
    if target.is_dir() and any(target.iterdir()) and not (target / "observations.jsonl").is_file():
        raise DirEAGError(f"--out {target}: saw other files there; expected a new or empty folder. Choose another.")
    target.mkdir(exist_ok=True)
    questions = example_observations()
    questions.write(target / "observations.jsonl")
    elicited = {"samples": example_observations("samples"), "topk": example_observations("topk")}
    with progress() as step:
        found = run(questions, elicited=elicited, seed=seed, on_step=step)
        write_evaluation(found, results, questions, elicited=elicited)
        step("fitting to all questions")
        final = fit_map(questions, seed=seed)
        final.save(target / "fit.nc")
        write_table(final.predict(questions), target / "predictions.csv")
        write_report(read_source(target), target / REPORT, step)
    model = questions.questions[0].model
    title = f"{model}, {len(questions)} sums asked at {questions.n_levels} levels: 5-fold cross-fit, preset paper"
    show_evaluation(found, title, results, as_json=False)
    out.print(reliability_table(found.predictions, "direag"))
    out.print(
        f"""Do the same with your own file in place of observations.jsonl:
  cd {target}
  direag evaluate observations.jsonl --out evaluation
  direag fit observations.jsonl --out fit.nc
  direag predict fit.nc observations.jsonl --out predictions.csv

{target / REPORT}: all of it on one page, to read and to send. Open it in a browser; direag report writes yours.""",
        soft_wrap=True,
    )


def _show(fit: "Fit", path: Path, *, as_json: bool) -> None:
    from analysis.tables import fit_summary, parameter_tables, summary_table
    from bayes_direag.tables import as_records

    if as_json:
        summary = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fit_summary(fit).items()
        }
        values = {"fit": str(path), **summary, "parameters": as_records(fit.parameters())}
        out.print_json(data=values, allow_nan=False)
        return
    out.print(summary_table(fit, str(path)), parameter_tables(fit))
