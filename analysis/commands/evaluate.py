"""The command ``direag evaluate``: score every method, print the result, write the folder."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.commands.quality import show_quality, show_remarks
from bayes_direag.data.answers import AnswerKind

if TYPE_CHECKING:
    from analysis.evaluation import Evaluation

#: A group of options in the help.
_METHODS = "Methods"


def evaluate_command(
    observations: options.ObservationsFile,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results.  [the name of OBS, with -results]", show_default=False),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Evaluate on these instead of cross-fitting.")] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            help="Several samples a question, for self_consistency and answer_entropy.", rich_help_panel=_METHODS
        ),
    ] = None,
    topk: Annotated[
        Path | None, typer.Option(help="One list of guesses a question, for topk.", rich_help_panel=_METHODS)
    ] = None,
    fit_method: options.MethodOption = "map",
    preset: options.PresetOption = "bayes",
    folds: Annotated[int, typer.Option(help="Number of cross-fitting folds.")] = 5,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names, separated by commas. Left out: all, and --all says what each does.", rich_help_panel=_METHODS
        ),
    ] = None,
    answers: options.AnswersOption = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    same: options.SameOption = None,
    labels: options.LabelsOption = None,
    resamples: Annotated[
        int, typer.Option("--resamples", min=1, help="Bootstrap resamples behind each interval, and permutations.")
    ] = 1000,
    seed: options.SeedOption = 0,
    everything: options.AllOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Score every method on questions it has not seen, by cross-fitting or on a test set.

    Methods are ranked by benefit; --all says what each does: a single level, votes and confidences as they are
    and recalibrated, classifiers of the votes, and DirEAG with its variants.

    The folder, which replaces an earlier evaluation, gets predictions.csv, metrics.csv, parameters.csv, fits/ and
    evaluation.json with the settings and versions.

    Example: direag evaluate observations.jsonl
    """
    from analysis.evaluation import EVALUATION_FOLDER, evaluate
    from bayes_direag.data.observations import Observations

    target = target or options.beside(observations, "-results")
    EVALUATION_FOLDER.check(target)
    options.may_replace(target)
    columns, equal = options.chosen_columns(column, scale, groups), options.chosen_same(same)

    def read(path: Path, answers: AnswerKind | None, labels: Path | None = None) -> Observations:
        questions = Observations.read(path, answers, columns, labels, equal)
        if not as_json:
            show_quality(questions, path, inferred=answers is None, by_level=everything)
        return questions

    labelled = read(observations, answers, labels)
    tested = None if test is None else read(test, answers or labelled.kind)
    paths = {"samples": samples, "topk": topk}
    elicited = {
        name: Observations.read(path, labelled.kind, columns, same=equal) for name, path in paths.items() if path
    }
    if fit_method == "nuts":
        options.device_for_each_chain()
    with options.progress() as step:
        evaluation = evaluate(
            labelled,
            tested,
            elicited=elicited,
            fit_method=fit_method,
            preset=options.chosen_preset(preset),
            methods=None if methods is None else [name.strip() for name in methods.split(",")],
            labels=labels,
            n_folds=folds,
            seed=seed,
            n_resamples=resamples,
            on_step=step,
        )
        evaluation.write(target, shlex.join(["direag", *sys.argv[1:]]))
    show_evaluation(evaluation, target, everything=everything, as_json=as_json)
    if not as_json:
        options.out.print()
        show_remarks(labelled)
        if tested is not None:
            show_remarks(tested)


def show_evaluation(evaluation: "Evaluation", folder: Path, *, everything: bool = False, as_json: bool = False) -> None:
    """Print the result of an evaluation, or the same as JSON."""
    from analysis import report
    from analysis.display.folders import jsonable
    from analysis.display.terminal import shown

    if as_json:
        record: dict[str, object] = {
            "out": str(folder),
            "answer": [f"{report.title(evaluation)}.", *report.sentences(evaluation)],
            "method": evaluation.method,
            "metrics": evaluation.metrics,
            "differences": evaluation.differences,
            "calibration": evaluation.calibration,
        }
        options.out.print_json(data=jsonable(record), allow_nan=False)
        return
    blocks = report.every_method(evaluation) if everything else report.first_screen(evaluation)
    options.out.print(shown(blocks))
    options.out.print(
        f"Every figure: {folder / 'metrics.csv'}\nAs a page to read and to send: direag report {folder}",
        soft_wrap=True,
    )
