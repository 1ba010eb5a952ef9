"""The command ``direag import``: make an observation file from logs of other tools."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands.options import AnswersOption, out
from bayes_direag.data.files import write_questions
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import Format, import_logs
from elicitation.importing.replies import count_words
from elicitation.questions import load_questions


def import_command(
    form: Annotated[
        Format, typer.Argument(metavar="FORMAT", help="lm-eval, inspect, batch, uqlm, transcripts or observations.")
    ],
    files: Annotated[list[str], typer.Argument(help="The logs, each as FILE, or LEVEL=FILE to name its level.")],
    target: Annotated[Path, typer.Option("--out", help="Observation file to write: JSON Lines, Parquet or CSV.")],
    questions: Annotated[
        str | None, typer.Option(help="The questions that were asked (as for direag elicit), for their gold answers.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column with the names of questions, in that file.")] = None,
    scorer: Annotated[
        list[str] | None,
        typer.Option(help="The filter (lm-eval), scorer (inspect) or score (uqlm) to use; repeatable."),
    ] = None,
    answers: AnswersOption = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Regular expression for a reply: first group the answer, second the confidence."
        ),
    ] = None,
) -> None:
    """Make an observation file from logs of another tool.

    Several files are several levels: models, prompts or repeats. Replies are read as by direag elicit; a confidence
    that is not stated is missing.

    Example: direag import lm-eval samples_*.jsonl --out observations.jsonl
    """
    paths = _named(files)
    if target.resolve() in {Path(path).resolve() for path in (paths.values() if isinstance(paths, dict) else paths)}:
        raise DirEAGError(f"--out {target}: saw one of the logs; expected another file. Choose another name.")
    asked = None if questions is None else load_questions(questions, id_column=id_column, kind=answers)
    imported = import_logs(form, paths, questions=asked, scorers=scorer or (), kind=answers, pattern=pattern)
    write_questions(imported.questions, target)
    levels = {report.level: report.level_name for question in imported.questions for report in question.observations}
    unanswered = sum(all(report.answer is None for report in question.observations) for question in imported.questions)
    unlabelled = sum(question.gold_answer is None for question in imported.questions)
    out.print(
        f"{len(imported.questions)} questions, {unanswered} unanswered, {unlabelled} without a gold answer; "
        f"levels: {', '.join(str(levels[level]) for level in sorted(levels))}; "
        f"replies: {count_words(imported.statuses)}.\n"
        f"{target} is ready for direag evaluate and direag fit.",
        soft_wrap=True,
    )


def _named(files: list[str]) -> dict[str, str] | list[str]:
    """Return the files, by level if they are given as LEVEL=FILE."""
    pairs = [(None, file) if Path(file).exists() or "=" not in file else file.split("=", 1) for file in files]
    named = {name: path for name, path in pairs if name}
    if not named:
        return files
    if len(named) < len(files):
        raise DirEAGError(f"saw {' '.join(files)}; expected LEVEL=FILE for every file, each level once. Name them all.")
    return named
