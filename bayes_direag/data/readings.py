"""What the records of questions mean: their levels, their kind of answers, and which answers are right."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayes_direag.data.answers import AnswerKind, canonical, infer_kind
from bayes_direag.data.records import Observation, Origin, Question
from bayes_direag.errors import LevelError, ObservationError


class Status(IntEnum):
    """Why an observation is, or is not, usable."""

    USABLE = 0
    ABSENT = 1
    """The question has no observation of this level."""
    NO_ANSWER = 2
    """The answer is null."""
    UNPARSABLE = 3
    """The answer cannot be read in the declared kind."""
    NO_CONFIDENCE = 4
    """The answer can be read, but the confidence is null."""


class Usable(NamedTuple):
    """An observation with an answer and a confidence."""

    level: int
    answer: str
    confidence: float


class Reading(NamedTuple):
    """What the observations of one question say.

    Attributes
    ----------
    status : dict of int to Status
        By level number; levels that are absent are left out.
    usable : tuple of Usable
        The canonical answers, with their confidences in percent.
    candidates : tuple of str
        The distinct answers, in string order.
    right : frozenset of str
        The candidates that are right.
    n_conflicts : int
        The number of candidates whose ``correct`` flags disagree.
    labelled : bool
        Whether it is known which candidates are right.
    """

    status: dict[int, Status]
    usable: tuple[Usable, ...]
    candidates: tuple[str, ...]
    right: frozenset[str]
    n_conflicts: int
    labelled: bool


def read_question(question: Question, kind: AnswerKind, path: Path | None, line: int | None) -> Reading:
    """Return what the observations of a question say; ``path`` and ``line`` are for the errors.

    Raises
    ------
    ObservationError
        If the gold answer is not of this kind, or there is none and only some usable observations are
        flagged.
    """
    gold = canonical(question.gold_answer, kind)
    if question.gold_answer is not None and gold is None:
        raise ObservationError(
            f"the gold answer of question {question.problem_id!r} cannot be read as {kind}",
            path=path,
            line=line,
            field="gold_answer",
            seen=question.gold_answer,
            expected=f"a {kind} answer that leaves no doubt",
            remedy="Correct it, or declare another kind with --answers.",
        )
    status: dict[int, Status] = {}
    usable: list[Usable] = []
    flags: dict[str, list[bool]] = {}
    n_flags = 0
    for observation in question.observations:
        answer = canonical(observation.answer, kind)
        status[observation.level] = _status(observation, answer)
        if answer is None or observation.confidence is None:
            continue
        usable.append(Usable(observation.level, answer, observation.confidence))
        if observation.correct is not None:
            flags.setdefault(answer, []).append(observation.correct)
            n_flags += 1
    if gold is None and 0 < n_flags < len(usable):
        raise ObservationError(
            f"question {question.problem_id!r} has no gold answer, and {n_flags} of its {len(usable)} usable "
            "observations are flagged correct or not",
            path=path,
            line=line,
            field="correct",
            expected="a gold answer, or a flag on all usable observations, or on none",
            remedy="Add the gold answer or the missing flags, or remove the flags.",
        )
    candidates = tuple(sorted({answer for _, answer, _ in usable}))
    return Reading(
        status=status,
        usable=tuple(usable),
        candidates=candidates,
        right=frozenset(answer for answer in candidates if _is_right(answer, gold, flags.get(answer))),
        n_conflicts=sum(len(set(answer_flags)) > 1 for answer_flags in flags.values()),
        labelled=gold is not None or n_flags > 0,
    )


def _is_right(answer: str, gold: str | None, flags: Sequence[bool] | None) -> bool:
    return 2 * sum(flags) > len(flags) if flags else answer == gold


def _status(observation: Observation, answer: str | None) -> Status:
    if observation.answer is None:
        return Status.NO_ANSWER
    if answer is None:
        return Status.UNPARSABLE
    return Status.USABLE if observation.confidence is not None else Status.NO_CONFIDENCE


class Stated(NamedTuple):
    """What tells percentages from fractions: how many confidences there are, the largest, and if any is in (0, 1)."""

    n: int
    largest: float
    any_between: bool


def stated(percents: Float[np.ndarray, " report"]) -> Stated:
    """Sum up confidences as they were stated."""
    between = (percents > 0) & (percents < 1)
    return Stated(len(percents), float(percents.max(initial=0)), bool(between.any()))


def check_percentages(found: Iterable[Stated], path: Path | None) -> None:
    """Raise ObservationError if 20 or more confidences look like fractions: all in 0..1, some inside it."""
    numbers, largest, between = zip(*found, strict=True)
    if sum(numbers) >= 20 and max(largest) <= 1 and any(between):
        raise ObservationError(
            f"none of the {sum(numbers)} confidences is above 1, as if they were fractions",
            path=path,
            field="confidence",
            seen=max(largest),
            expected="percentages, 0 to 100",
            remedy="Multiply the confidences by 100.",
        )


def resolve_kind(questions: Sequence[Question], declared: AnswerKind | None, source: Origin) -> AnswerKind:
    """Return the declared kind of answers, or what the gold answers show; text if there are only flags."""
    if declared is not None:
        return declared
    golds = [question.gold_answer for question in questions if question.gold_answer is not None]
    flagged = any(o.correct is not None for question in questions for o in question.observations)
    return "text" if flagged and not golds else infer_kind(golds, source.path)


def level_table(questions: Sequence[Question], source: Origin) -> dict[int, str]:
    """Return the level numbers that occur, in order, each with its name, or ``level_3`` where it has none.

    Raises
    ------
    ObservationError
        If a number goes by two names, or a name by two numbers.
    """
    found: dict[int, dict[str, int | None]] = {}  # for each level its names, with the line of the first
    for question, line in zip(questions, source.lines, strict=True):
        for observation in question.observations:
            names = found.setdefault(observation.level, {})
            if observation.level_name is not None:
                names.setdefault(observation.level_name, line)
    table: dict[int, str] = {}
    for level, names in sorted(found.items()):
        name, *others = list(names) or [f"level_{level}"]
        if others:
            raise _level_error(f"level {level} is called {name!r} before", others[0], source, names[others[0]])
        if name in table.values():
            raise _level_error(f"level {level} has the name of another level", name, source, names.get(name))
        table[level] = name
    return table


def level_columns(
    level_names: Sequence[str], known: Sequence[str], path: Path | None, line_of: Callable[[str], int | None]
) -> list[int]:
    """Return where each level stands among those that a fit knows.

    Raises
    ------
    LevelError
        If there is one that the fit does not know; ``line_of`` says where it is first used.
    """
    for name in level_names:
        if name not in known:
            line = line_of(name)
            place = "" if path is None or line is None else f"{path}, line {line}, field level_name: "
            raise LevelError(
                f"{place}this level is unknown to the fit; saw {name!r}; expected one of {', '.join(known)}. Rename "
                "the level if it is one of these; else remove its observations, or fit anew with it."
            )
    return [known.index(name) for name in level_names]


def _level_error(problem: str, name: str, source: Origin, line: int | None) -> ObservationError:
    return ObservationError(
        problem,
        path=source.path,
        line=line,
        field="level_name",
        seen=name,
        expected="one name for each level number, and one number for each name, in all questions",
        remedy="Rename the level, or correct its number.",
    )
