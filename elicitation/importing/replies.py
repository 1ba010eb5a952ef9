"""Replies in logs of any format, and their combination into questions with observations."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from bayes_direag.data.answers import AnswerKind, infer_kind
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError, ObservationError
from elicitation.parsing import ParseStatus, Reading, read_by_pattern, read_reply
from elicitation.questions import QuestionSet


class Log(NamedTuple):
    """A log to read.

    Attributes
    ----------
    path, level
        The file, and the name of its level; None for the name that the format gives.
    scorers : tuple of str
        The filters of lm-eval, scorers of Inspect or score columns of uqlm to use; each makes a level.
    names : tuple of str
        The names of the questions that were asked, in order, for logs without them; empty if unknown.
    """

    path: Path
    level: str | None = None
    scorers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def error(
        self, problem: str, *, expected: str, remedy: str, line: int | None = None, seen: object = ...
    ) -> DirEAGError:
        """Return an error with the path of this log."""
        return ObservationError(problem, path=self.path, line=line, seen=seen, expected=expected, remedy=remedy)

    def check_scorers(self, known: Iterable[str]) -> None:
        """Raise ObservationError unless the chosen scorers are among those of the log."""
        names = sorted(known)
        for scorer in self.scorers:
            if scorer not in names:
                raise self.error(
                    "the log has no such scorer",
                    seen=scorer,
                    expected=f"one of {', '.join(names)}" if names else "none, as the log has none",
                    remedy="Correct --scorer, or leave it out to read the replies themselves.",
                )


@dataclass(frozen=True)
class Reply:
    """One reply to one question.

    Attributes
    ----------
    problem_id, level : str
        The names of the question and of the level.
    text, line, finish_reason
        The reply, None if there was none; its line in the file; why the model stopped.
    given : mapping
        Values from the tool, which take precedence over the text: ``answer``, ``confidence``, ``correct``.
    gold, question, dataset, model : str or None
        The gold answer, the text of the question, its data set and the model, if the log has them.
    group : str or None
        The name that exchangeable levels (repeats of one prompt) share.
    """

    problem_id: str
    level: str
    text: str | None
    line: int | None = None
    finish_reason: str | None = None
    given: Mapping[str, str | float | bool | None] = field(default_factory=dict)
    gold: str | None = None
    question: str | None = None
    dataset: str | None = None
    model: str | None = None
    group: str | None = None


class Imported(NamedTuple):
    """The contents of logs: questions, and the number of replies by parse status."""

    questions: list[Question]
    statuses: Counter[str]


def put_together(
    replies: Iterable[tuple[Log, Reply]],
    asked: QuestionSet | None,
    kind: AnswerKind | None,
    pattern: re.Pattern[str] | None,
) -> Imported:
    """Combine replies into questions, in order of appearance; levels are numbered likewise.

    Levels whose names are all numbers are numbered in numerical order. Raises DirEAGError if two replies have the same
    question and level, gold answers disagree, a question was not asked, or no reply has an answer.

    Parameters
    ----------
    asked : QuestionSet, optional
        The questions that were asked, for gold answers and texts; those without a reply are kept, unanswered.
    kind : {"numeric", "choice", "text"}, optional
        How answers are compared; by default as in ``asked``, or else inferred from the gold answers, or text if
        answers are only judged.
    pattern : re.Pattern, optional
        The pattern of answer and confidence in a reply, instead of its final line.
    """
    told: dict[str, dict[str, str]] = {} if asked is None else {p.problem_id: {} for p in asked.problems}
    if asked is not None:
        for problem in asked.problems:
            facts = {"question": problem.question, "dataset": problem.dataset, "gold_answer": problem.gold_answer}
            told[problem.problem_id] = {name: value for name, value in facts.items() if value is not None}
    taken: dict[tuple[str, str], tuple[Log, Reply]] = {}
    for log, reply in replies:
        _join(told, log, reply, known_only=asked is not None)
        if (before := taken.setdefault((reply.problem_id, reply.level), (log, reply))) != (log, reply):
            raise log.error(
                f"question {reply.problem_id!r} has this level already, in {before[0].path}",
                line=reply.line,
                seen=reply.level,
                expected="each level once in each question",
                remedy="If the files are different levels, name them: NAME=FILE.",
            )
    names = list(dict.fromkeys(level for _, level in taken))
    number = {name: place for place, name in enumerate(sorted(names, key=int) if _all_numbers(names) else names)}
    golds = [facts["gold_answer"] for facts in told.values() if facts.get("gold_answer")]
    if kind is None:
        judged = not golds and any("correct" in reply.given for _, reply in taken.values())
        kind = asked.kind if asked is not None else "text" if judged else infer_kind(golds)
    statuses: Counter[str] = Counter()
    observations: dict[str, list[Observation]] = {name: [] for name in told}
    for _, reply in taken.values():
        reading = _read(reply, kind, pattern)
        statuses[reading.status] += 1
        values = {"answer": reading.answer, "confidence": reading.confidence} | dict(reply.given)
        source = {"raw_output": reply.text, "parse_status": str(reading.status), "finish_reason": reply.finish_reason}
        source |= {} if reply.group is None else {"group": reply.group}
        place = {"level": number[reply.level], "level_name": reply.level}
        observations[reply.problem_id].append(Observation.model_validate(place | values | source))
    if not any(report.answer for reports in observations.values() for report in reports):
        paths = ", ".join(dict.fromkeys(str(log.path) for log, _ in taken.values()))
        raise DirEAGError(
            f"{paths}: none of {len(taken)} replies holds an answer ({count_words(statuses)}); expected a final line "
            "'Answer and Confidence (0-100): ...'. Give the form of an answer with --pattern, or a scorer of the tool "
            "with --scorer."
        )
    by_level = {name: sorted(reports, key=lambda report: report.level) for name, reports in observations.items()}
    records = [{"problem_id": name, **facts, "observations": by_level[name]} for name, facts in told.items()]
    return Imported([Question.model_validate(record) for record in records], statuses)


def _join(told: dict[str, dict[str, str]], log: Log, reply: Reply, *, known_only: bool) -> None:
    """Add what a reply says of its question."""
    if known_only and reply.problem_id not in told:
        raise log.error(
            "this question is not among those of --questions",
            line=reply.line,
            seen=reply.problem_id,
            expected=f"one of {', '.join(list(told)[:3])} ...",
            remedy="Give the file of the questions that were asked, with --id-column if need be.",
        )
    facts = told.setdefault(reply.problem_id, {})
    if reply.model is not None:
        known = facts.setdefault("model", reply.model)
        if reply.model not in (known, *known.split(", ")):
            facts["model"] = f"{known}, {reply.model}"
    stated = {"gold_answer": reply.gold, "question": reply.question, "dataset": reply.dataset}
    for name, value in stated.items():
        if value is not None and facts.setdefault(name, value) != value and name == "gold_answer":
            raise log.error(
                f"question {reply.problem_id!r} has the gold answer {facts[name]!r} elsewhere",
                line=reply.line,
                seen=value,
                expected="the same questions in all files",
                remedy="Import logs of different questions into separate files.",
            )


def _read(reply: Reply, kind: AnswerKind, pattern: re.Pattern[str] | None) -> Reading:
    if reply.text is None:
        return Reading(None, None, ParseStatus.OK if reply.given.get("answer") else ParseStatus.NO_ANSWER)
    if pattern is not None:
        return read_by_pattern(reply.text, reply.finish_reason, pattern)
    return read_reply(reply.text, reply.finish_reason, kind=kind)


def _all_numbers(names: list[str]) -> bool:
    return all(name.isdecimal() for name in names)


def count_words(statuses: Counter[str]) -> str:
    """Return the counts as text, such as ``ambiguous 2, ok 14``."""
    return ", ".join(f"{status} {n}" for status, n in sorted(statuses.items()))


def read_records[Record: BaseModel](log: Log, form: type[Record]) -> Iterator[tuple[int, Record]]:
    """Yield the records of a file of JSON Lines, each with its line.

    Raises ObservationError if the file is not UTF-8, or a line is not a record of this form.
    """
    try:
        lines = log.path.read_text("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise log.error("this is not UTF-8 text", expected="JSON Lines", remedy="Check the path.") from error
    if not any(map(str.strip, lines)):
        raise log.error("the file is empty", expected="one JSON object a line", remedy="Check the path.")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, form.model_validate_json(line)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                raise ObservationError(
                    first["msg"],
                    path=log.path,
                    line=number,
                    field=".".join(map(str, first["loc"])) or None,
                    seen=line if first["type"] in ("json_invalid", "missing") else first["input"],
                    expected=f"an object with {', '.join(_needed(form))}",
                    remedy="Check that the file has this format and is complete.",
                ) from error


def _needed(form: type[BaseModel]) -> list[str]:
    return [name for name, about in form.model_fields.items() if about.is_required()]
