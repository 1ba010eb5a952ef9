"""Observations in long form, in columns: what every form of file comes to, whole or in parts.

A row is what one level said of one question. From these follow the levels of a file, the kind of its answers, the
arrays of its questions: which reports are usable, which answers are right.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.answers import AnswerKind, canonical, infer_kind
from bayes_direag.data.records import NUMBER, Origin, Question, Status
from bayes_direag.errors import LevelError, ObservationError


class Texts(NamedTuple):
    """A column of texts: the distinct ones, none of them blank, and the place of each row's among them, or -1."""

    values: tuple[str, ...]
    code: Int[np.ndarray, " row"]


@dataclass(frozen=True, eq=False)
class LongTable:
    """Some whole questions, a row a report.

    Attributes
    ----------
    record : callable
        Returns a question by number. Raises what is wrong with it, if its rows cannot be a question.
    question, level : (row,) arrays
        The number of the question, and that of the level.
    percents : dict of (row,) arrays
        The stated confidence, ``number``, and any further signals; NaN where there is none.
    flag : (row,) array
        1 where the answer is flagged as right, 0 where as wrong, -1 where it is not flagged.
    gold : Texts
        The gold answer of each question.
    """

    source: Origin
    record: Callable[[int], Question]
    question: Int[np.ndarray, " row"]
    level: Int[np.ndarray, " row"]
    level_name: Texts
    answer: Texts
    percents: dict[str, Float[np.ndarray, " row"]]
    flag: Int[np.ndarray, " row"]
    gold: Texts
    group: Texts


def long_table(questions: Sequence[Question], source: Origin) -> LongTable:
    """Return the columns of records, at least one."""
    reports = [report for question in questions for report in question.observations]
    further = {name for report in reports for name in report.confidences} - {NUMBER}
    return LongTable(
        source=source,
        record=questions.__getitem__,
        question=np.repeat(np.arange(len(questions)), [len(question.observations) for question in questions]),
        level=np.array([report.level for report in reports], np.int64),
        level_name=_coded(report.level_name for report in reports),
        answer=_coded(report.answer for report in reports),
        percents={NUMBER: np.array([report.confidence for report in reports], float)}
        | {name: np.array([report.confidences.get(name) for report in reports], float) for name in sorted(further)},
        flag=np.array([-1 if report.correct is None else report.correct for report in reports], np.int8),
        gold=_coded(question.gold_answer for question in questions),
        group=_coded(report.group for report in reports),
    )


def _coded(texts: Iterable[str | None]) -> Texts:
    place: dict[str, int] = {}
    code = [-1 if text is None else place.setdefault(text, len(place)) for text in texts]
    return Texts(tuple(place), np.array(code, np.int64))


@dataclass
class Overview:
    """What has to be known of a whole file before any of it becomes arrays; add all its parts first.

    Attributes
    ----------
    pairs, grouped : dict
        The pairs of level and level name that occur, in the order of the file, with the line of the first question;
        and those of level and group.
    kinds, flagged
        What the gold answers of each part show, and whether any answer is flagged right or wrong.
    stating
        The levels of which some report states a confidence.
    stated
        By signal, of those that are stated: how often, the largest, and whether any is in (0, 1).
    """

    pairs: dict[tuple[int, str | None], int | None] = field(default_factory=dict)
    grouped: dict[tuple[int, str | None], int | None] = field(default_factory=dict)
    kinds: set[AnswerKind] = field(default_factory=set)
    flagged: bool = False
    stating: set[int] = field(default_factory=set)
    stated: dict[str, tuple[int, float, bool]] = field(default_factory=dict)

    def add(self, table: LongTable) -> None:
        """Take in some questions."""
        for texts, pairs in ((table.level_name, self.pairs), (table.group, self.grouped)):
            _, first = np.unique(table.level * (len(texts.values) + 1) + texts.code, return_index=True)
            for row in np.sort(first).tolist():
                code = int(texts.code[row])
                pair = int(table.level[row]), texts.values[code] if code >= 0 else None
                pairs.setdefault(pair, table.source.lines[table.question[row]])
        self.flagged |= bool((table.flag >= 0).any())
        if table.gold.values:
            self.kinds.add(infer_kind(table.gold.values))
        for name, percent in table.percents.items():
            there = ~np.isnan(percent)
            self.stating.update(np.unique(table.level[there]).tolist())
            if there.any():
                n, largest, between = self.stated.get(name, (0, 0.0, False))
                between |= bool(((percent > 0) & (percent < 1)).any())
                self.stated[name] = n + int(there.sum()), max(largest, float(percent[there].max())), between

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that are stated: the number first, then by name; the number alone if nothing is."""
        return tuple(sorted(self.stated, key=lambda name: (name != NUMBER, name))) or (NUMBER,)

    def kind(self, declared: AnswerKind | None, path: Path | None) -> AnswerKind:
        """Return the declared kind of answers, or what the gold answers show; text if there are only flags.

        Raises ObservationError if nothing tells.
        """
        if declared is not None:
            return declared
        if not self.kinds and not self.flagged:
            return infer_kind([], path)
        return next(iter(self.kinds)) if len(self.kinds) == 1 else "text"

    def levels(self, path: Path | None) -> dict[int, str]:
        """Return the level numbers that occur, in order, each with its name, or ``level_3`` where it has none.

        Raises ObservationError if a number goes by two names, or a name by two numbers.
        """
        table: dict[int, str] = {}
        for level in sorted({level for level, _ in self.pairs}):
            lines = {name: line for (own, name), line in self.pairs.items() if own == level and name is not None}
            name, *others = list(lines) or [f"level_{level}"]
            if others or name in table.values():
                raise ObservationError(
                    f"level {level} is called {name!r} before" if others
                    else f"level {level} has the name of another level",
                    path=path,
                    line=lines.get((others or [name])[0]),
                    field="level_name",
                    seen=(others or [name])[0],
                    expected="one name for each level number, and one number for each name, in all questions",
                    remedy="Rename the level, or correct its number.",
                )  # fmt: skip
            table[level] = name
        return table

    def groups(self, levels: Mapping[int, str], path: Path | None) -> tuple[str, ...] | None:
        """Return the group of each level, or its own name where it has none; None where no level has one.

        Raises ObservationError if a level is of two groups, or a group is called like a level outside it.
        """
        group: dict[int, str] = {}
        for (level, name), line in self.grouped.items():
            taken = levels.items() if name is not None and group.get(level) is None else ()
            outside = [number for number, own in taken if own == name and (number, name) not in self.grouped]
            if name is not None and (group.setdefault(level, name) != name or outside):
                raise ObservationError(
                    f"level {levels[level]!r} is of group {group[level]!r} before" if not outside
                    else "this group has the name of a level that is not in it",
                    path=path,
                    line=line,
                    field="group",
                    seen=name,
                    expected="one group for each level in all questions, called like no other level",
                    remedy="Rename the group, or give the level's reports one group.",
                )  # fmt: skip
        return tuple(group.get(number, name) for number, name in levels.items()) if group else None

    def voting(self, levels: Mapping[int, str], groups: tuple[str, ...] | None) -> frozenset[int]:
        """Return the levels that only vote: no report of them, or of their group, states a confidence."""
        named = dict(zip(levels, groups or levels.values(), strict=True))
        stating = {named[level] for level in self.stating}
        return frozenset(level for level, name in named.items() if name not in stating)

    def check_percentages(self, path: Path | None) -> None:
        """Raise ObservationError if five or more of a signal look like fractions: all in 0..1, some inside it."""
        for name, (n, largest, any_between) in self.stated.items():
            if n >= 5 and largest <= 1 and any_between:
                raise ObservationError(
                    f"all {n} confidences are at most 1, so they look like fractions",
                    path=path,
                    field="confidence" if name == NUMBER else f"confidences.{name}",
                    seen=largest,
                    expected="percentages, 0 to 100",
                    remedy="If they are fractions, give --scale fraction (in Python scale='fraction'); if they are "
                    "percentages, give percent.",
                )


def level_table(questions: Sequence[Question], source: Origin) -> dict[int, str]:
    """Return the level numbers of records, in order, each with its name; see :meth:`Overview.levels`."""
    overview = Overview()
    overview.add(long_table(questions, source))
    return overview.levels(source.path)


def level_columns(
    level_names: Sequence[str], known: Sequence[str], path: Path | None, line_of: Callable[[str], int | None]
) -> list[int]:
    """Return where each level stands among those that a fit knows; LevelError, with the line, if it knows it not."""
    for name in level_names:
        if name not in known:
            line = line_of(name)
            place = "" if path is None or line is None else f"{path}, line {line}, field level_name: "
            raise LevelError(
                f"{place}this level is unknown to the fit; saw {name!r}; expected one of {', '.join(known)}. Rename "
                "the level if it is one of these; else remove its observations, or fit anew with it."
            )
    return [known.index(name) for name in level_names]


def aligned_columns(
    own: Sequence[str], known: Sequence[str], path: Path | None, line_of: Callable[[str], int | None]
) -> tuple[Int[np.ndarray, " column"], tuple[str, ...]]:
    """Put columns of some levels, several of one perhaps, in the order of a fit; -1 for a level that has none.

    Returns their levels besides; raises LevelError as :func:`level_columns` does.
    """
    level = np.array(level_columns(own, known, path, line_of), int)
    places = [np.flatnonzero(level == number) for number in range(len(known))]
    places = [place if len(place) else np.array([-1]) for place in places]
    order = np.concatenate([np.zeros(0, int), *places])
    return order, tuple(name for name, place in zip(known, places, strict=True) for _ in place)


#: What is known of each question, as arrays.
ARRAYS = ("candidate", "status", "correct", "labelled", "conflicting")


@dataclass(frozen=True, eq=False)
class QuestionArrays:
    """Some whole questions as arrays.

    Attributes
    ----------
    texts : tuple of str
        The distinct canonical answers, in string order.
    answer : (problem, level) array
        The place of the answer given among the texts; -1 where not usable.
    confidence : (problem, level) array
        Stated confidences as fractions, 0..1, not clipped; NaN where an observation is not usable, or only a vote.
    signals : dict of (problem, level) arrays
        Likewise any further signals, by name.
    candidate : (problem, level) array
        The answer given, by number among the question's own in string order; -1 where not usable.
    status : (problem, level) array
        Why an observation is or is not usable, as :class:`Status`.
    correct : (problem, level) array
        Whether the answer given is right; False where not usable or not labelled.
    labelled : (problem,) array
        Whether correctness is known: there is a gold answer, or all usable observations are flagged.
    conflicting : (problem,) array
        The number of answers whose ``correct`` flags disagree.
    """

    texts: tuple[str, ...]
    answer: Int[np.ndarray, "problem level"]
    confidence: Float[np.ndarray, "problem level"]
    signals: dict[str, Float[np.ndarray, "problem level"]]
    candidate: Int[np.ndarray, "problem level"]
    status: Int[np.ndarray, "problem level"]
    correct: Bool[np.ndarray, "problem level"]
    labelled: Bool[np.ndarray, " problem"]
    conflicting: Int[np.ndarray, " problem"]

    def candidates(self) -> tuple[tuple[str, ...], ...]:
        """Return the distinct answers to each question, in string order."""
        return tuple(tuple(self.texts[code] for code in sorted({*codes} - {-1})) for codes in self.answer.tolist())


def question_arrays(
    table: LongTable,
    levels: Iterable[int],
    kind: AnswerKind,
    voting: frozenset[int] = frozenset(),
    signals: Sequence[str] = (NUMBER,),
) -> QuestionArrays:
    """Turn the rows of questions into arrays, given the numbers of all levels, in order, and of those that only vote.

    The first of the signals is the ``confidence``.

    A report of the latter is usable without a confidence, and one that it states is not looked at.
    An answer is right if more than half of its flags in that question say so, or, where it carries none, if it equals
    the gold answer. Raises ObservationError if a gold answer is not of this kind, a question without one is flagged in
    part, or a level stands twice.
    """
    texts, (said, gold) = _canonical((table.answer, table.gold), kind)
    numbers = np.array(list(levels), np.int64)
    shape = (len(table.source.lines), len(numbers))
    place = table.question, np.searchsorted(numbers, table.level)
    times = np.bincount(place[0] * shape[1] + place[1], minlength=shape[0] * shape[1]).reshape(shape)
    votes = np.isin(table.level, list(voting))
    percents = [table.percents.get(name, np.full(len(votes), np.nan)) for name in signals]
    unstated = np.isnan([*table.percents.values()]).all(axis=0) & ~votes
    answer, stated = np.full(shape, -1), np.full((len(signals), *shape), np.nan)
    status, flag = np.full(shape, Status.ABSENT, np.int8), np.full(shape, -1, np.int8)
    reasons = {Status.NO_ANSWER: table.answer.code < 0, Status.UNPARSABLE: said < 0, Status.NO_CONFIDENCE: unstated}
    status[place] = np.select(list(reasons.values()), list(reasons), Status.USABLE)
    usable = (said >= 0) & ~unstated
    place = place[0][usable], place[1][usable]
    answer[place] = said[usable]
    for own, percent in zip(stated, percents, strict=True):
        own[place] = np.where(votes, np.nan, percent)[usable] / 100
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
        confidence=stated[0],
        signals=dict(zip(signals[1:], stated[1:], strict=True)),
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
