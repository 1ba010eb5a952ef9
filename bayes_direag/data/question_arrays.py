"""From the rows of whole questions to arrays: which reports are usable, and which answers are right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.data.long_table import LongTable, Texts
from bayes_direag.errors import ObservationError


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


@dataclass(frozen=True, eq=False)
class QuestionArrays:
    """Some whole questions as arrays.

    Attributes
    ----------
    texts : tuple of str
        The distinct canonical answers, in string order.
    answer : (problem, level) array
        The place of the answer given among the texts; -1 where not usable.
    confidence, candidate, status, correct, labelled, conflicting : arrays
        As in :class:`~bayes_direag.data.observations.Observations`.
    """

    texts: tuple[str, ...]
    answer: Int[np.ndarray, "problem level"]
    confidence: Float[np.ndarray, "problem level"]
    candidate: Int[np.ndarray, "problem level"]
    status: Int[np.ndarray, "problem level"]
    correct: Bool[np.ndarray, "problem level"]
    labelled: Bool[np.ndarray, " problem"]
    conflicting: Int[np.ndarray, " problem"]

    def candidates(self) -> tuple[tuple[str, ...], ...]:
        """Return the distinct answers to each question, in string order."""
        return tuple(tuple(self.texts[code] for code in sorted({*codes} - {-1})) for codes in self.answer.tolist())


def question_arrays(table: LongTable, levels: Iterable[int], kind: AnswerKind) -> QuestionArrays:
    """Turn the rows of questions into arrays, given the numbers of all levels, in order.

    An answer is right if more than half of its flags in that question say so, or, where it carries none, if it equals
    the gold answer.

    Raises
    ------
    ObservationError
        If a gold answer is not of this kind, a question without one is flagged in part, or a level stands twice.
    """
    texts, (said, gold) = _canonical((table.answer, table.gold), kind)
    numbers = np.array(list(levels), np.int64)
    shape = (len(table.source.lines), len(numbers))
    place = table.question, np.searchsorted(numbers, table.level)
    times = np.bincount(place[0] * shape[1] + place[1], minlength=shape[0] * shape[1]).reshape(shape)
    unstated = np.isnan(table.percent)
    answer, confidence = np.full(shape, -1), np.full(shape, np.nan)
    status, flag = np.full(shape, Status.ABSENT, np.int8), np.full(shape, -1, np.int8)
    reasons = {Status.NO_ANSWER: table.answer.code < 0, Status.UNPARSABLE: said < 0, Status.NO_CONFIDENCE: unstated}
    status[place] = np.select(list(reasons.values()), list(reasons), Status.USABLE)
    usable = (said >= 0) & ~unstated
    place = place[0][usable], place[1][usable]
    answer[place] = said[usable]
    confidence[place] = table.percent[usable] / 100
    flag[place] = table.flag[usable]

    candidate = ranks(answer)
    correct, n_flags, conflicting = _judged(candidate, flag, (answer == gold[:, None]) & (answer >= 0))
    n_usable = (candidate >= 0).sum(axis=1)
    unreadable = (gold < 0) & (table.gold.code >= 0)
    flagged_in_part = (gold < 0) & (n_flags > 0) & (n_flags < n_usable)
    for number in np.flatnonzero(unreadable | flagged_in_part | (times > 1).any(axis=1))[:1].tolist():
        raise _unusable(table, number, kind, int(n_flags[number]), int(n_usable[number]))
    return QuestionArrays(
        texts=texts,
        answer=answer,
        confidence=confidence,
        candidate=candidate.astype(np.int32),
        status=status,
        correct=correct,
        labelled=(gold >= 0) | (n_flags > 0),
        conflicting=conflicting.astype(np.int32),
    )


def ranks(answer: Int[np.ndarray, "problem level"]) -> Int[np.ndarray, "problem level"]:
    """Return the distinct answers of each question numbered from 0, in their order; -1 stays.

    Examples
    --------
    >>> ranks(np.array([[7, 3, -1, 7], [-1, -1, -1, -1]]))
    array([[ 1,  0, -1,  1],
           [-1, -1, -1, -1]])
    """
    order = np.argsort(answer, axis=1)
    inorder = np.take_along_axis(answer, order, axis=1)
    another = np.diff(inorder, axis=1, prepend=-1) > 0
    numbered = np.empty_like(answer)
    np.put_along_axis(numbered, order, np.cumsum(another, axis=1) - 1, axis=1)
    return numbered


def _canonical(columns: Sequence[Texts], kind: AnswerKind) -> tuple[tuple[str, ...], list[Int[np.ndarray, " _"]]]:
    """Return the distinct canonical answers in string order, and for each column their places, or -1."""
    spelled = [[canonical(text, kind) for text in column.values] for column in columns]
    texts = sorted({text for column in spelled for text in column if text is not None})
    place: dict[str | None, int] = {text: number for number, text in enumerate(texts)}
    codes = [np.array([*(place.get(text, -1) for text in column), -1]) for column in spelled]
    return tuple(texts), [code[column.code] for code, column in zip(codes, columns, strict=True)]


def _judged(
    candidate: Int[np.ndarray, "problem level"],
    flag: Int[np.ndarray, "problem level"],
    is_gold: Bool[np.ndarray, "problem level"],
) -> tuple[Bool[np.ndarray, "problem level"], Int[np.ndarray, " problem"], Int[np.ndarray, " problem"]]:
    """Return which answers are right, how many flags each question has, and of how many candidates they disagree."""
    row, level = np.nonzero(flag >= 0)
    place, size = row * candidate.shape[1] + candidate[row, level], candidate.size
    n_flags = np.bincount(place, minlength=size).reshape(candidate.shape)
    n_true = np.bincount(place[flag[row, level] == 1], minlength=size).reshape(candidate.shape)
    given = np.maximum(candidate, 0)
    flagged = np.take_along_axis(n_flags, given, axis=1)
    majority = 2 * np.take_along_axis(n_true, given, axis=1) > flagged
    correct = np.where(flagged > 0, majority, is_gold) & (candidate >= 0)
    return correct, n_flags.sum(axis=1), ((n_true > 0) & (n_true < n_flags)).sum(axis=1)


def _unusable(table: LongTable, number: int, kind: AnswerKind, n_flags: int, n_usable: int) -> ObservationError:
    """Return what is wrong with a question whose rows are each for itself in order."""
    question, path, line = table.record(number), table.source.path, table.source.lines[number]
    if table.gold.code[number] >= 0:
        return ObservationError(
            f"the gold answer of question {question.problem_id!r} cannot be read as {kind}",
            path=path,
            line=line,
            field="gold_answer",
            seen=question.gold_answer,
            expected=f"a {kind} answer that leaves no doubt",
            remedy="Correct it, or declare another kind with --answers.",
        )
    return ObservationError(
        f"question {question.problem_id!r} has no gold answer, and {n_flags} of its {n_usable} usable "
        "observations are flagged correct or not",
        path=path,
        line=line,
        field="correct",
        expected="a gold answer, or a flag on all usable observations, or on none",
        remedy="Add the gold answer or the missing flags, or remove the flags.",
    )
