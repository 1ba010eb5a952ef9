"""Replies in logs of any format, and their combination into questions with observations."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from bayes_direag.data.answers import AnswerKind, infer_kind
from bayes_direag.data.files import read_lines
from bayes_direag.data.plain import is_missing
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError, ObservationError
from elicitation.fields import Scale
from elicitation.finish_reasons import is_unknown
from elicitation.parsing import read_by_pattern, read_confidence, read_guesses, read_reply
from elicitation.questions import QuestionSet
from elicitation.readings import ParseStatus, Reading
from elicitation.unread import count_words


class Log(NamedTuple):
    """A log to read."""

    path: Path
    level: str | None = None  # None for the name that the format gives
    scorers: tuple[str, ...] = ()  # the filters or scorers to use; each makes a level
    names: tuple[str, ...] = ()  # of the questions that were asked, in order
    metric: str | None = None  # the metric that judges answers, or ``target``

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
    """One reply to one question, with what the log says of the question."""

    problem_id: str
    level: str  # its name in the log: empty if the log is one level
    text: str | None  # None if there was no reply
    line: int | None = None
    finish_reason: str | None = None
    confidence: str | None = None  # beside the text, on the scale of confidences
    given: Mapping[str, object] = field(default_factory=dict)  # values from the tool, which go before those of the text
    gold_answer: str | None = None
    question: str | None = None
    dataset: str | None = None
    model: str | None = None
    group: str | None = None  # the name that exchangeable levels (repeats of one prompt) share
    file: str | None = None  # the name of the file, if levels have no other name
    further: Mapping[str, object] = field(default_factory=dict)  # fields of the question, such as its cluster
    task: str | None = None  # the set of questions
    identity: str | None = None  # what tells the question from others of the same name: its text, or a hash of it
    remark: str | None = None  # on the log


class Imported(NamedTuple):
    """The contents of logs: questions, how answers are compared, replies by status and finish reason, and remarks."""

    questions: list[Question]
    kind: AnswerKind
    statuses: Counter[str]
    unknown_reasons: Counter[str]
    remarks: list[str]


def put_together(
    replies: Sequence[tuple[Log, Reply]],
    asked: QuestionSet | None,
    kind: AnswerKind | None,
    pattern: re.Pattern[str] | None,
    scale: Scale = "percent",
) -> Imported:
    """Combine replies into questions, in order of appearance; levels are numbered likewise.

    Levels whose names are all numbers are numbered in numerical order. Questions that were ``asked`` are kept without a
    reply too. Without a ``kind``, answers are compared as in ``asked``, or else by the kind of the gold answers, or as
    texts if they are only judged. Raises DirEAGError if two replies have the same question and level, gold answers
    disagree, a question was not asked, or no reply has an answer.
    """
    paths = ", ".join(dict.fromkeys(str(log.path) for log, _ in replies))
    told: dict[str, dict[str, object]] = {}
    for problem in () if asked is None else asked.problems:
        facts = {"question": problem.question, "dataset": problem.dataset, "gold_answer": problem.gold_answer}
        told[problem.problem_id] = {name: value for name, value in facts.items() if value is not None}
    for log, reply in replies:
        _join(told, log, reply, known_only=asked is not None)
    golds = [str(facts["gold_answer"]) for facts in told.values() if facts.get("gold_answer")]
    if kind is None:
        judged = not golds and any("correct" in reply.given for _, reply in replies)
        kind = asked.kind if asked is not None else "text" if judged else infer_kind(golds, paths)
    statuses: Counter[str] = Counter()
    taken: dict[tuple[str, str], tuple[Log, Reply, Reading]] = {}
    for log, reply in replies:
        for level, reading in _read(log, reply, kind, pattern, scale):
            if level and is_missing(level):
                raise log.error(
                    "the name of this level stands for a missing value",
                    line=reply.line,
                    seen=level,
                    expected="another name",
                    remedy="Name the level by NAME=FILE, or in the log.",
                )
            statuses[reading.status] += 1
            if (before := taken.setdefault((reply.problem_id, level), (log, reply, reading)))[1] is not reply:
                raise log.error(
                    f"question {reply.problem_id!r} has this level already, in {before[0].path}",
                    line=reply.line,
                    seen=level,
                    expected="each level once in each question",
                    remedy="If the files are different levels, name them: NAME=FILE. "
                    'In transcripts, give each reply a field "level".',
                )
    names = list(dict.fromkeys(level for _, level in taken))
    if all(map(str.isdecimal, names)):
        names.sort(key=int)
    number = {name: index for index, name in enumerate(names)}
    observations: dict[str, list[Observation]] = {name: [] for name in told}
    for (name, level), (_, reply, reading) in taken.items():
        read = {"answer": reading.answer, "confidence": reading.confidence, "parse_status": str(reading.status)}
        source = {"raw_output": reply.text, "finish_reason": reply.finish_reason}
        index = {"level": number[level], "level_name": level}
        index |= {} if reply.group is None else {"group": reply.group}
        values = dict(reply.given)
        if pattern is not None and "parse_status" in values and values.get("answer") is None:  # of a run, not read
            values |= {name: value for name, value in read.items() if value is not None}
        observations[name].append(Observation.model_validate({**read, **source, **values, **index}))
    if not any(report.answer for reports in observations.values() for report in reports):
        raise DirEAGError(
            f"{paths}: none of {len(taken)} replies holds an answer ({count_words(statuses)}); expected a field such "
            "as 'Answer: ...'. Give the form of an answer with --pattern, or a scorer of the tool "
            "with --scorer."
        )
    by_level = {name: sorted(reports, key=lambda report: report.level) for name, reports in observations.items()}
    records = [{"problem_id": name, **facts, "observations": by_level[name]} for name, facts in told.items()]
    unknown = Counter(str(reply.finish_reason) for _, reply in replies if is_unknown(reply.finish_reason))
    remarks = list(dict.fromkeys(reply.remark for _, reply in replies if reply.remark is not None))
    return Imported([Question.model_validate(record) for record in records], kind, statuses, unknown, remarks)


def _join(told: dict[str, dict[str, object]], log: Log, reply: Reply, *, known_only: bool) -> None:
    """Add what a reply says of its question."""
    if known_only and reply.problem_id not in told:
        raise log.error(
            "this question is not among those of --questions",
            line=reply.line,
            seen=reply.problem_id,
            expected=f"one of {', '.join(list(told)[:3])} ...",
            remedy="Give the file of the questions that were asked, with --column id=NAME if need be.",
        )
    if is_missing(reply.problem_id):
        raise log.error(
            "a reply without the name of its question",
            line=reply.line,
            seen=reply.problem_id,
            expected="a name that does not stand for a missing value",
            remedy="Give every question its own name.",
        )
    facts = told.setdefault(reply.problem_id, {})
    if reply.model is not None:
        known = str(facts.setdefault("model", reply.model))
        if reply.model not in (known, *known.split(", ")):
            facts["model"] = f"{known}, {reply.model}"
    stated = {"gold_answer": reply.gold_answer, "question": reply.question, "dataset": reply.dataset, **reply.further}
    for name, value in stated.items():
        if value is not None and facts.setdefault(name, value) != value and name in ("gold_answer", "cluster"):
            raise log.error(
                f"question {reply.problem_id!r} has the {name.replace('_', ' ')} {facts[name]!r} elsewhere",
                line=reply.line,
                seen=value,
                expected="the same questions in all files",
                remedy="Import logs of different questions into separate files.",
            )


def _read(
    log: Log, reply: Reply, kind: AnswerKind, pattern: re.Pattern[str] | None, scale: Scale
) -> list[tuple[str, Reading]]:
    """Return the level of a reply with what it says; of a list of guesses, a level for each."""
    if reply.confidence is not None:
        ((level, reading),) = _read(log, replace(reply, confidence=None), kind, pattern, scale)[:1]
        stated, status = read_confidence(reply.confidence, scale)
        if stated is None and not is_missing(reply.confidence):
            raise log.error(
                "the confidence cannot be read",
                line=reply.line,
                seen=reply.confidence,
                expected="a percentage, or a fraction with --scale fraction",
                remedy="Correct the field confidence, or say --scale fraction.",
            )
        return [(level, Reading(reading.answer, stated, reading.status if reading.answer is None else status))]
    if reply.text is None:
        status = ParseStatus.OK if reply.given.get("answer") else ParseStatus.NO_ANSWER
        return [(reply.level, Reading(None, None, status))]
    if pattern is not None:
        return [(reply.level, read_by_pattern(reply.text, reply.finish_reason, pattern, scale))]
    reading = read_reply(reply.text, reply.finish_reason, kind=kind, scale=scale)
    if reading.status is ParseStatus.NO_ANSWER and not reply.given:
        guesses = read_guesses(reply.text, reply.finish_reason, kind=kind, scale=scale)
        if len(guesses.answers) > 1 and guesses.status is ParseStatus.OK:
            pairs = enumerate(guesses.answers)
            return [(f"{reply.level} rank_{rank}", Reading(*pair, ParseStatus.OK)) for rank, pair in pairs]
    return [(reply.level, reading)]


def read_records[Record: BaseModel](log: Log, form: type[Record]) -> Iterator[tuple[int, Record]]:
    """Yield the records of a file of JSON Lines, each with its line.

    Raises ObservationError if the file cannot be read, or a line is not a record of this form.
    """
    lines = [(number, line) for number, line in enumerate(read_lines(log.path), 1) if line.strip()]
    if not lines:
        raise log.error("the file is empty", expected="one JSON object a line", remedy="Check the path.")
    for number, line in lines:
        try:
            yield number, form.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            needed = [about.alias or name for name, about in form.model_fields.items() if about.is_required()]
            raise ObservationError(
                first["msg"],
                path=log.path,
                line=number,
                field=".".join(map(str, first["loc"])) or None,
                seen=line if first["type"] in ("json_invalid", "missing") else first["input"],
                expected=f"an object with {', '.join(needed)}",
                remedy="Check that the file has this format and is complete.",
            ) from error
