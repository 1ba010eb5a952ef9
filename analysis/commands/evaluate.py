"""The command ``direag evaluate``: score every method, print the tables, write the folder."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.commands.options import ListMethodsOption, ResamplesOption, named_list, read_observations
from bayes_direag.commands import options
from bayes_direag.model.presets import label
from bayes_direag.model.settings import FitMethod

if TYPE_CHECKING:
    from analysis.evaluation import Evaluation


def evaluate_command(
    observations: options.ObservationsFile,
    target: Annotated[Path, typer.Option("--out", help="Folder for the results.")],
    test: Annotated[Path | None, typer.Option(help="Evaluate on these instead of cross-fitting.")] = None,
    samples: Annotated[
        Path | None, typer.Option(help="Several samples a question, for self_consistency and answer_entropy.")
    ] = None,
    topk: Annotated[Path | None, typer.Option(help="One list of guesses a question, for topk.")] = None,
    fit_method: Annotated[
        FitMethod, typer.Option("--fit-method", metavar="METHOD", help="map, or nuts for the whole posterior (slower).")
    ] = "map",
    preset: options.PresetOption = "bayes",
    folds: Annotated[int, typer.Option(help="Number of cross-fitting folds.")] = 5,
    methods: Annotated[str | None, typer.Option(help="Names, separated by commas. Left out: one of each kind.")] = None,
    vanilla_level: Annotated[
        str | None, typer.Option(help="Level of method vanilla, if not the one so called.")
    ] = None,
    answers: options.AnswersOption = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    equal: options.EqualOption = None,
    labels: options.LabelsOption = None,
    recalibration: options.RecalibrationOption = None,
    out_of_fold: options.OutOfFoldOption = None,
    overrides: options.SetOption = None,
    chains: options.ChainsOption = 4,
    warmup: options.WarmupOption = 250,
    draws: options.DrawsOption = 1000,
    target_accept: options.AcceptOption = 0.98,
    allow_weighted: options.WeightedOption = False,
    resamples: ResamplesOption = 1000,
    seed: options.SeedOption = 0,
    as_json: options.JsonOption = False,
    _: ListMethodsOption = False,
) -> None:
    """Score every method on questions it has not seen, by cross-fitting or on a test set.

    Methods are ranked by benefit; --list-methods says what each does. By default one of each kind is scored: a single
    level, votes and confidences as they are and recalibrated, classifiers of the votes, models of the levels' accuracy,
    and DirEAG with its variants.

    The folder, which replaces an earlier evaluation, gets predictions.csv, metrics.csv, parameters.csv, fits/ and
    evaluation.json with the settings and versions.

    Example: direag evaluate observations.jsonl --out results --folds 5
    """
    from analysis.evaluation import evaluate
    from analysis.runs.evaluated_run import EVALUATION_FOLDER

    settings = options.chosen_preset(preset, recalibration, out_of_fold, overrides)
    EVALUATION_FOLDER.check(target)
    columns = options.chosen_columns(column, scale, equal)
    labelled = read_observations(observations, answers, columns, labels, quiet=as_json)
    tested = None if test is None else read_observations(test, answers or labelled.kind, columns, quiet=as_json)
    paths = {"samples": samples, "topk": topk}
    elicited = {
        name: read_observations(path, labelled.kind, columns, quiet=True) for name, path in paths.items() if path
    }
    sampling = options.chosen_sampling(chains, warmup, draws, target_accept) if fit_method == "nuts" else None
    with options.progress() as step:
        evaluation = evaluate(
            labelled,
            tested,
            elicited=elicited,
            fit_method=fit_method,
            preset=settings,
            sampling=sampling,
            allow_weighted=allow_weighted,
            methods=None if methods is None else named_list(methods),
            vanilla_level=vanilla_level,
            n_folds=folds,
            seed=seed,
            n_resamples=resamples,
            on_step=step,
        )
        evaluation.write(target, shlex.join(["direag", *sys.argv[1:]]))
    fitted = "MAP" if fit_method == "map" else "NUTS"
    how = f"{folds}-fold cross-fit" if test is None else f"tested on {test}"
    show_evaluation(evaluation, f"{observations}: {how}, {fitted}, preset {label(settings)}", target, as_json=as_json)


def show_evaluation(evaluation: "Evaluation", title: str, target: Path, *, as_json: bool) -> None:
    """Print the tables of an evaluation, or the same as JSON."""
    from analysis.display.terminal import shown
    from analysis.methods.direag import SHARED_AGREEMENT
    from analysis.runs.tables import metrics_table, ranking_table
    from bayes_direag.data.files import as_records

    if as_json:
        options.out.print_json(data={"out": str(target), "metrics": as_records(evaluation.metrics)}, allow_nan=False)
        return
    table, level = evaluation.metrics, evaluation.settings.interval_level
    options.out.print(shown([ranking_table(table, title, level), metrics_table(table)]))
    if evaluation.fits and evaluation.test is None and evaluation.settings.preset.uses_agreement:
        options.out.print(f"{SHARED_AGREEMENT}\n", soft_wrap=True)
    options.out.print(
        f"{target}: predictions.csv, metrics.csv, parameters.csv, evaluation.json, fits/\n", soft_wrap=True
    )
