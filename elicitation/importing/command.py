"""The command ``direag import``: make an observation file from logs of other tools."""

from glob import glob
from pathlib import Path
from typing import Annotated, Literal

import typer

from bayes_direag.commands.options import AnswersOption, err, out, progress
from bayes_direag.data.answers import infer_kind
from bayes_direag.data.files import write_questions
from bayes_direag.errors import DirEAGError
from elicitation.finish_reasons import tell_unknown
from elicitation.importing.formats import LogFormat, import_logs
from elicitation.questions import load_questions
from elicitation.unread import PATTERN, count_words, tell_unread

#: As many questions as ``direag evaluate`` has folds.
FEWEST = 5


def import_command(
    form: Annotated[
        LogFormat,
        typer.Argument(metavar="FORMAT", help="lm-eval, inspect, batch, transcripts or observations."),
    ],
    files: Annotated[
        list[str],
        typer.Argument(help="The logs, each as FILE, or LEVEL=FILE to name its level; FILE may be a pattern."),
    ],
    target: Annotated[Path, typer.Option("--out", help="Observation file to write: JSON Lines, Parquet or CSV.")],
    questions: Annotated[
        str | None, typer.Option(help="The questions that were asked (as for direag elicit), for their gold answers.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=NAME", help="Name of a column of that file, as for direag elicit."),
    ] = None,
    scorer: Annotated[
        list[str] | None,
        typer.Option(help="The filter (lm-eval) or scorer (inspect) to use; repeatable."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="The metric (lm-eval) that judges answers; target compares with the target.")
    ] = None,
    answers: AnswersOption = None,
    scale: Annotated[
        Literal["percent", "fraction"],
        typer.Option(help="Whether confidences without a unit are percentages (0 to 100) or fractions (0 to 1)."),
    ] = "percent",
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Regular expression of a reply, with a group named answer and one named confidence; or with groups "
            "without a name, in this order.",
        ),
    ] = None,
) -> None:
    """Make an observation file from logs of another tool.

    Several files are several levels: models, prompts or repeats. Replies are read as by direag elicit; a confidence
    that is not stated is missing.

    Example: direag import lm-eval samples_*.jsonl --out observations.jsonl
    """
    paths = [(level, path) for file in files for level, path in _named(file)]
    if target.resolve() in {path.resolve() for _, path in paths}:
        raise DirEAGError(f"--out {target}: saw one of the logs; expected another file. Choose another name.")
    if columns and questions is None:
        raise DirEAGError("--column: saw names of columns, and no --questions; expected both. Give the file.")
    named = dict(column.partition("=")[::2] for column in columns or ())
    asked = None if questions is None else load_questions(questions, columns=named, kind=answers)
    if any(level is None for level, _ in paths) and any(level for level, _ in paths):
        raise DirEAGError(f"saw {' '.join(files)}; expected LEVEL=FILE for every file, or for none. Name them all.")
    with progress() as step:
        step("reading logs")
        imported = import_logs(
            form,
            [path if level is None else (level, path) for level, path in paths],
            questions=asked,
            scorers=scorer or (),
            kind=answers,
            pattern=pattern,
            scale=scale,
            metric=metric,
        )
        from bayes_direag.data.observations import Observations  # here, as NumPy would slow down the help

        observations = Observations.from_questions(imported.questions, imported.kind)
        write_questions(imported.questions, target)
    levels = {report.level: report.level_name for question in imported.questions for report in question.observations}
    unanswered = sum(all(report.answer is None for report in question.observations) for question in imported.questions)
    unlabelled = sum(question.gold_answer is None for question in imported.questions)
    if imported.unknown_reasons:
        err.print(tell_unknown(imported.unknown_reasons))
    for remark in imported.remarks:
        err.print(remark, soft_wrap=True)
    golds = [question.gold_answer for question in imported.questions if question.gold_answer]
    declared = "" if imported.kind == (infer_kind(golds) if golds else "text") else f" with --answers {imported.kind}"
    usable = int((observations.labelled & observations.usable.any(axis=1)).sum())
    ready = (
        f"{target} is ready for direag evaluate and direag fit{declared}."
        if usable >= FEWEST
        else f"{target}: {usable} questions have a right answer and a usable report; direag evaluate needs {FEWEST}."
    )
    out.print(
        f"{len(imported.questions)} questions, {unanswered} unanswered, {unlabelled} without a gold answer; "
        f"levels: {', '.join(str(levels[level]) for level in sorted(levels))}; "
        f"replies: {count_words(imported.statuses)}.\n"
        f"{ready}",
        soft_wrap=True,
    )
    if told := tell_unread(imported.questions, f"If such replies have a form, give it: --pattern {PATTERN}."):
        err.print(told)


def _named(argument: str) -> list[tuple[str | None, Path]]:
    """Return the files of an argument ``FILE`` or ``LEVEL=FILE``, each with the name of its level."""
    level, file = (None, argument) if Path(argument).exists() or "=" not in argument else argument.split("=", 1)
    paths = [Path(file)] if Path(file).exists() else map(Path, sorted(glob(file)) or [file])
    return [(level or None, path) for path in paths]
