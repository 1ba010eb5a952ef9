"""From a long table to arrays: the levels and signals of a whole file, then the reports of each question.

A report is usable or not, and an answer right or not; both are decided here. What contradicts itself raises
ObservationError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from bayes_direag.data.answers import AnswerKind, canonical, infer_kind, is_list, refusal_of_gold
from bayes_direag.data.equality import Same
from bayes_direag.data.long_table import FEWEST_OF_SCALE, LongTable
from bayes_direag.data.records import NUMBER, Status
from bayes_direag.data.source_table import DictionaryColumn
from bayes_direag.errors import ObservationError

PerReport = Int[np.ndarray, "problem level"]
AreReports = Bool[np.ndarray, "problem level"]
PerQuestion = Int[np.ndarray, " problem"]


def levels_of(table: LongTable) -> dict[int, str]:
    """Return the level numbers that occur, in order, each with its name, or for example ``level_3`` without one.

    Raises ObservationError if a level has two names, or two levels have one, or names that differ in case or spaces
    alone.
    """
    named, levels, spelled = _first_lines(table, "level_name"), dict[int, str](), dict[str, str]()
    for level in sorted({level for level, _ in named}):
        lines = {name: line for (number, name), line in named.items() if number == level and name is not None}
        name, *others = list(lines) or [f"level_{level}"]
        other = spelled.setdefault(" ".join(name.split()).casefold(), name)
        if others or other in levels.values():
            seen = others[0] if others else name
            raise ObservationError(
                f"level {level} is called {name!r} before"
                if others
                else f"this is the name of another level, {other!r}",
                path=table.path,
                line=lines.get(seen),
                field="level_name",
                seen=seen,
                expected="one name for each level, and names that differ in more than case or spaces",
                remedy="Rename the level, spell it as before, or correct its number.",
            )
        levels[level] = name
    return levels


def groups_of(table: LongTable, levels: Mapping[int, str]) -> tuple[str, ...] | None:
    """Return the group of each level, or its name if it has no group; None if no level has a group.

    Raises ObservationError if a level is in two groups, or a group has the name of a level outside it.
    """
    grouped, groups = _first_lines(table, "group"), dict[int, str]()
    for (level, name), line in grouped.items():
        if name is None:
            continue
        other = groups.setdefault(level, name) != name
        if other or any(levels[number] == name and (number, name) not in grouped for number in levels):
            before = f"level {levels[level]!r} is in group {groups[level]!r} before"
            raise ObservationError(
                before if other else "this group has the name of a level that is not in it",
                path=table.path,
                line=line,
                field="group",
                seen=name,
                expected="one group for each level in all questions, with a name that no other level has",
                remedy="Rename the group, or give the level's reports one group.",
            )
    return tuple(groups.get(number, name) for number, name in levels.items()) if groups else None


def _first_lines(table: LongTable, name: str) -> dict[tuple[int, str | None], int | None]:
    """Return each pair of a level and a text of its reports, and the line of the first question that has it."""
    rows, texts = np.flatnonzero(table.is_report), table.texts(name)
    level = table.numbers("level")[rows].astype(int)
    _, first = np.unique(level * (len(texts.values) + 1) + texts.code[rows], return_index=True)
    firsts = zip(*(values[np.sort(first)].tolist() for values in (level, rows, table.question[rows])), strict=True)
    return {(number, texts.value(row)): table.line_of(question) for number, row, question in firsts}


def check_percentages(table: LongTable, levels: Mapping[int, str]) -> None:
    """Raise ObservationError if values of a signal look like fractions, or like ratings.

    Fractions: five or more values of all levels, or of one, are at most 1, and one is above 0. Ratings: twenty or
    more values of all levels are whole numbers of at most 10, and one is above 1.
    """
    level, signals = table.numbers("level"), table.percents.items()
    called = {number: number if name == f"level_{number}" else name for number, name in levels.items()}
    parts = [("", None), *((f" of level {name!r}", number) for number, name in called.items())]
    for (of_level, number), (signal, percents) in product(parts, signals):
        stated = percents[~np.isnan(percents) & ((number is None) | (level == number))]
        n, largest = len(stated), float(stated.max(initial=0))
        if n >= FEWEST_OF_SCALE and 0 < largest <= 1:
            looks, scale = "at most 1, so they look like fractions", "fraction"
        elif not of_level and n >= 20 and 1 < largest <= 10 and not (stated % 1).any():
            looks = f"whole and at most {largest:g}, so they look like ratings"
            scale = "1-5" if largest <= 5 else "0-10"
        else:
            continue
        is_mixed = scale == "fraction" and any(np.nanmax(values, initial=0) > 1 for _, values in signals)
        change = "multiply them by 100" if is_mixed else f"say scale={scale!r} (on the command line --scale {scale})"
        raise ObservationError(
            f"all {n} confidences{of_level} are {looks}",
            path=table.path,
            field="confidence" if signal == NUMBER else f"confidences.{signal}",
            seen=largest,
            expected="percentages, 0 to 100",
            remedy=f"If they are, {change}. If they are percentages, say scale='percent'.",
        )


def kind_of(table: LongTable) -> AnswerKind:
    """Infer how answers are compared from the gold answers, or as texts if there are only flags."""
    golds = table.texts_of_questions("gold_answer")
    if not golds.given.any() and table.texts("correct").given.any():
        return "text"
    texts = [text for text in golds.objects().tolist() if text is not None]
    answers = np.split(table.texts("answer").objects(), table.start[1:])
    said = [[text for text in answers[number] if text is not None] for number in np.flatnonzero(golds.given)]
    return infer_kind(texts, table.path, table.line[table.start[golds.given]].tolist(), said)


def question_arrays(
    table: LongTable,
    levels: Mapping[int, str],
    kind: AnswerKind,
    voting: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the arrays of :class:`~bayes_direag.data.observations.Observations` by name.

    Given are the numbers of all levels, in order, with the names that a fit knows them by, and the names of those that
    only vote; by default, those that never state a signal. Reports of levels that only vote are usable without a
    confidence, and one that they state is ignored. The signals are those that are stated, or ``number``. What is right,
    and what contradicts itself, is said at ``Observations.from_questions``.
    """
    said, golds = table.texts("answer"), table.texts_of_questions("gold_answer")
    texts, (said_answer, gold) = _canonical((said, golds), kind)

    # of each report: its place, what it says, and whether it can be used
    reports = np.flatnonzero(table.is_report)
    question = table.question[reports]
    column = np.searchsorted([*levels], table.numbers("level")[reports].astype(int))
    percents = {name: percent[reports] for name, percent in table.percents.items()}
    states = ~np.isnan([*percents.values()]).all(axis=0)
    names = np.array([*levels.values()])
    silent = np.setdiff1d(names, names[np.unique(column[states])])
    votes = np.isin(names, silent if voting is None else voting)[column]
    reasons = {
        Status.NO_ANSWER: ~said.given[reports],
        Status.UNPARSABLE: said_answer[reports] < 0,
        Status.NO_CONFIDENCE: ~states & ~votes,
    }
    status_of_report = np.select(list(reasons.values()), list(reasons), Status.USABLE)
    is_usable = status_of_report == Status.USABLE

    # in the arrays: the reports that can be used, and why others cannot
    shape = len(table), len(levels)

    def placed(values: np.ndarray, absent: int | float) -> np.ndarray:
        array = np.full(shape, absent, values.dtype)
        array[question[is_usable], column[is_usable]] = values[is_usable]
        return array

    answer = placed(said_answer[reports], -1)
    flag = placed(np.nan_to_num(table.numbers("correct"), nan=-1)[reports].astype(np.int8), -1)
    stating = [name for name, percent in percents.items() if not np.isnan(percent).all()] or [NUMBER]
    signals = {name: placed(np.where(votes, np.nan, percents[name]) / 100, np.nan) for name in stating}
    status = np.full(shape, Status.ABSENT, np.int8)
    status[question, column] = status_of_report

    if table.joins is not None:
        code = {text: number for number, text in enumerate(texts)}
        for row, cell in np.argwhere(answer >= 0).tolist():
            answer[row, cell] = code[table.joins[row][texts[answer[row, cell]]]]
    candidate = ranks(answer)
    weights = table.texts_of_questions("weight")
    correct, n_flags, conflicting = _judged(candidate, flag, (answer == gold[:, None]) & (answer >= 0))
    n_usable = (candidate >= 0).sum(axis=1)
    lists = np.array([kind != "choices" and is_list(text) for text in golds.values] + [False], bool)
    unreadable = golds.given & ((gold < 0) | (lists[golds.code] & (not any(map(is_list, said.values)))))
    flagged_in_part = (gold < 0) & (n_flags > 0) & (n_flags < n_usable)
    twice = np.bincount(question, minlength=shape[0]) > (status != Status.ABSENT).sum(axis=1)
    for number in np.flatnonzero(unreadable | flagged_in_part | twice)[:1].tolist():
        raise _contradiction(table, number, kind, int(n_flags[number]), int(n_usable[number]))
    return {
        "signals": signals,
        "candidate": candidate.astype(np.int32),
        "candidates": _candidates(answer, texts),
        "status": status,
        "correct": correct,
        "labelled": (gold >= 0) | (n_flags > 0),
        "conflicting": conflicting.astype(np.int32),
        "weight": np.array([*weights.values, 1.0])[weights.code],
        "numbers": table.numbers_of_questions,
    }


def joined(table: LongTable, kind: AnswerKind, same: Same | None) -> LongTable:
    """Return the table with the answers to each question joined; the right answer stands for those that equal it."""
    if same is None:
        return replace(table, joins=None)
    golds = table.texts_of_questions("gold_answer").objects().tolist()
    joins = []
    for gold, spelled in zip(golds, spellings(replace(table, joins=None), kind), strict=True):
        right = canonical(gold, kind)
        gold_first: dict[str, str] = {} if right is None else {right: gold}
        joins.append(same.joined({**gold_first, **spelled, **gold_first}))
    return replace(table, joins=joins)


def standing(
    table: LongTable, question: int, text: str | None, kind: AnswerKind, same: Same | None = None
) -> str | None:
    """Return the answer that stands for a text in a question: its canonical form, or what that is joined to.

    With ``same``, a text that no report gives is joined to the first answer that it equals.
    """
    spelling = canonical(text, kind)
    if text is None or spelling is None or table.joins is None:
        return spelling
    joins = table.joins[question]
    if spelling in joins or same is None:
        return joins.get(spelling, spelling)
    spelled = spellings(table.take(np.array([question])), kind)[0]
    return next((joins[answer] for answer, said in spelled.items() if same(text, said)), spelling)


def ranks(answer: PerReport) -> PerReport:
    """Rank the distinct answers of each question from 0; -1 stays.

    Examples
    --------
    >>> ranks(np.array([[7, 3, -1, 7], [-1, -1, -1, -1]]))
    array([[ 1,  0, -1,  1],
           [-1, -1, -1, -1]])
    """
    order = np.argsort(answer, axis=1)
    is_new = np.diff(np.take_along_axis(answer, order, axis=1), axis=1, prepend=-1) > 0
    numbered = np.empty_like(answer)
    np.put_along_axis(numbered, order, np.cumsum(is_new, axis=1) - 1, axis=1)
    return numbered


def _candidates(answer: PerReport, texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the distinct answers to each question, in string order."""
    ordered = np.sort(answer, axis=1)
    is_new = np.diff(ordered, axis=1, prepend=-1) > 0
    said = [texts[number] for number in ordered[is_new].tolist()]
    ends = np.cumsum(is_new.sum(axis=1)).tolist()
    return tuple(tuple(said[start:end]) for start, end in zip([0, *ends], ends, strict=False))


def _canonical(
    columns: Sequence[DictionaryColumn], kind: AnswerKind
) -> tuple[tuple[str, ...], list[Int[np.ndarray, " _"]]]:
    """Return the distinct canonical answers in string order, and for each row of a column the place of its answer."""
    spelled = [[canonical(text, kind) for text in column.values] for column in columns]
    texts = sorted({text for column in spelled for text in column if text is not None})
    number_of: dict[str | None, int] = {text: number for number, text in enumerate(texts)}
    codes = [np.array([*(number_of.get(text, -1) for text in column), -1]) for column in spelled]
    return tuple(texts), [code[column.code] for code, column in zip(codes, columns, strict=True)]


def spellings(table: LongTable, kind: AnswerKind) -> list[dict[str, str]]:
    """Return how the reports on each question spell its answers: as most of them, of several as the first.

    What stands for others is spelled as itself, or as one of them.
    """
    said = table.texts("answer")
    texts, (code,) = _canonical((said,), kind)
    row = np.flatnonzero(code >= 0)
    answer = table.question[row] * len(texts) + code[row]
    distinct, first, count = np.unique(
        answer * len(said.values) + said.code[row], return_index=True, return_counts=True
    )
    answer = distinct // max(len(said.values), 1)
    spelled: list[dict[str, str]] = [{} for _ in range(len(table))]
    for entry in np.lexsort([-first, count, answer]).tolist():  # what comes last stays
        question, number = divmod(int(answer[entry]), len(texts))
        spelled[question][texts[number]] = said.values[distinct[entry] % len(said.values)]
    if table.joins is None:
        return spelled
    joins_of_each = zip(table.joins, spelled, strict=True)
    return [{**{joins[text]: said for text, said in texts.items()}, **texts} for joins, texts in joins_of_each]


def _judged(candidate: PerReport, flag: PerReport, is_gold: AreReports) -> tuple[AreReports, PerQuestion, PerQuestion]:
    """Return which answers are right, and of each question the numbers of flags and of candidates that they contradict.

    Flags contradict each other, or call an answer wrong that equals the gold answer; one that differs may be right.
    """
    row, level = np.nonzero(flag >= 0)
    cell, size = row * candidate.shape[1] + candidate[row, level], candidate.size
    n_flags = np.bincount(cell, minlength=size).reshape(candidate.shape)
    n_true = np.bincount(cell[flag[row, level] == 1], minlength=size).reshape(candidate.shape)
    index = np.maximum(candidate, 0)
    flagged = np.take_along_axis(n_flags, index, axis=1)
    majority = 2 * np.take_along_axis(n_true, index, axis=1) > flagged
    correct = np.where(flagged > 0, majority, is_gold) & (candidate >= 0)
    conflicting = (n_true > 0) & (n_true < n_flags)
    row, level = np.nonzero(is_gold & (flagged > 0) & ~majority)
    conflicting[row, candidate[row, level]] = True
    return correct, n_flags.sum(axis=1), conflicting.sum(axis=1)


def _contradiction(table: LongTable, number: int, kind: AnswerKind, n_flags: int, n_usable: int) -> ObservationError:
    question = table.record(number)
    where: dict[str, Any] = {"path": table.path, "line": table.line_of(number)}
    if (gold := question.gold_answer) is not None:
        clause, remedy = refusal_of_gold(gold, kind)
        problem, where = f"the gold answer of question {question.problem_id!r} {clause}", where | {"seen": gold}
        return ObservationError(problem, field="gold_answer", expected=f"one {kind} answer", remedy=remedy, **where)
    return ObservationError(
        f"question {question.problem_id!r} has no gold answer, and {n_flags} of its {n_usable} usable "
        "observations have a flag",
        field="correct",
        expected="a gold answer, or a correct flag on all usable observations, or on none",
        remedy="Add the gold answer or the missing flags, or remove the flags.",
        **where,
    )
