"""Whole questions as arrays, straight from the columns of a table: what the ordinary reader finds, without records.

What that reader would refuse is only found here; the reader itself is then asked to say what is wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.answer_codes import answer_codes
from bayes_direag.data.long_form import from_table
from bayes_direag.data.parquet_rows import Rows, Span
from bayes_direag.data.parquet_survey import Survey, whole_levels
from bayes_direag.data.readings import Stated, Status, read_question, stated

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False)
class QuestionColumns:
    """Some whole questions of a file.

    Attributes
    ----------
    problem_id : pyarrow.Array
        The questions.
    texts : pyarrow.Array
        Distinct canonical answers, in string order.
    answer : (problem, level) array
        Index of the answer given among the texts; -1 where not usable.
    confidence, candidate, status, correct, labelled, conflicting : arrays
        As in :class:`~bayes_direag.data.observations.Observations`; nothing is right or labelled where labels were not
        looked at.
    stated : Stated
        What tells percentages from fractions.
    """

    problem_id: "pyarrow.Array"
    texts: "pyarrow.Array"
    answer: Int[np.ndarray, "problem level"]
    confidence: Float[np.ndarray, "problem level"]
    candidate: Int[np.ndarray, "problem level"]
    status: Int[np.ndarray, "problem level"]
    correct: Bool[np.ndarray, "problem level"]
    labelled: Bool[np.ndarray, " problem"]
    conflicting: Int[np.ndarray, " problem"]
    stated: Stated

    def answers(self, candidate: Int[np.ndarray, " problem"]) -> "pyarrow.Array":
        """Return the text of one candidate of each question; missing for -1."""
        import pyarrow

        said = np.where(self.candidate == candidate[:, None], self.answer, -1).max(axis=1, initial=-1)
        return self.texts.take(pyarrow.array(said, mask=candidate < 0))


def read_columns(survey: Survey, span: Span | None = None) -> Iterator[QuestionColumns]:
    """Yield the questions of a surveyed file, or of a span of it, in parts of bounded size.

    Raises
    ------
    ObservationError
        Where :meth:`Observations.read <bayes_direag.data.observations.Observations.read>` would, in the same words.
        Gold answers and flags are not looked at unless the survey is for labels.
    """
    for rows in survey.rows(span):
        yield question_columns(rows, survey)


def question_columns(rows: Rows, survey: Survey) -> QuestionColumns:
    """Turn the rows of whole questions into arrays; see :func:`read_columns`."""
    places = _places(rows, survey)
    golds = _one_of_each(rows, "gold_answer", survey)
    codes = answer_codes([rows.table["answer"].chunk(0), golds], survey.kind)
    percent = rows.table["confidence"].to_numpy().astype(float)
    stated_ = ~_missing(rows, "confidence")
    usable = (codes.codes[0] >= 0) & stated_

    shape = (len(rows.start), len(survey.levels))
    answer, confidence = np.full(shape, -1), np.full(shape, np.nan)
    status, flag = np.full(shape, Status.ABSENT, np.int8), np.full(shape, -1, np.int8)
    state = np.where(codes.codes[0] < 0, Status.UNPARSABLE, np.where(stated_, Status.USABLE, Status.NO_CONFIDENCE))
    state[codes.blank[0]] = Status.NO_ANSWER
    reported = places >= 0
    status.ravel()[places[reported]] = state[reported]
    answer.ravel()[places[usable]] = codes.codes[0][usable]
    confidence.ravel()[places[usable]] = percent[usable] / 100
    if "correct" in rows.table.column_names:
        flags = rows.table["correct"].chunk(0).cast("int8").fill_null(-1).to_numpy()
        flag.ravel()[places[usable]] = flags[usable]

    candidate = ranks(answer)
    gold = codes.codes[1]
    unreadable = (gold < 0) & ~codes.blank[1]
    correct, n_flags, conflicting = _judged(candidate, flag, (answer == gold[:, None]) & (answer >= 0))
    partly = (gold < 0) & (n_flags > 0) & (n_flags < (candidate >= 0).sum(axis=1))
    _refuse(unreadable | partly, rows, survey)
    for column in ("dataset", "model"):
        _one_of_each(rows, column, survey)
    return QuestionColumns(
        problem_id=rows.table["problem_id"].chunk(0).take(rows.start),
        texts=codes.texts,
        answer=answer,
        confidence=confidence,
        candidate=candidate.astype(np.int32),
        status=status,
        correct=correct,
        labelled=(gold >= 0) | (n_flags > 0),
        conflicting=conflicting.astype(np.int32),
        stated=stated(percent[usable]),
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
    found = np.empty_like(answer)
    np.put_along_axis(found, order, np.cumsum(another, axis=1) - 1, axis=1)
    return found


def _places(rows: Rows, survey: Survey) -> Int[np.ndarray, " row"]:
    """Return where each row's report goes in a table of questions by levels; -1 for a row without a report.

    Rows that the ordinary reader refuses are refused here.
    """
    import pyarrow.compute as pc

    question = np.repeat(np.arange(len(rows.start)), np.diff(rows.start, append=rows.table.num_rows))
    own = {"level", "level_name", "answer", "confidence", "correct"} & set(rows.table.column_names)
    reported = ~np.logical_and.reduce([_missing(rows, name) for name in own])
    level = rows.table["level"].to_numpy().astype(float)
    percent = rows.table["confidence"].to_numpy().astype(float)
    named = pc.fill_null(pc.not_equal(rows.table["problem_id"].chunk(0), ""), False).to_numpy(zero_copy_only=False)
    in_range = _missing(rows, "confidence") | ((percent >= 0) & (percent <= 100))
    wrong = ~named | (reported & ~whole_levels(level)) | ~in_range
    _refuse(np.logical_or.reduceat(wrong, rows.start), rows, survey)
    numbers = np.array(list(survey.levels), float)
    place = np.where(reported, question * len(numbers) + np.searchsorted(numbers, level), -1)
    times = np.bincount(place[reported], minlength=len(rows.start) * len(numbers))
    _refuse((times.reshape(len(rows.start), -1) > 1).any(axis=1), rows, survey)
    return place


def _one_of_each(rows: Rows, column: str, survey: Survey) -> "pyarrow.Array":
    """Return what the rows of each question have in a column that says something of the question; missing if not read.

    Questions whose rows differ are refused.
    """
    import pyarrow

    if column not in rows.table.column_names:
        return pyarrow.nulls(len(rows.start), pyarrow.large_string())
    coded = rows.table[column].chunk(0).dictionary_encode()
    code = coded.indices.fill_null(-1).to_numpy()
    last = np.maximum.reduceat(code, rows.start)
    first = np.minimum.reduceat(np.where(code < 0, len(coded.dictionary), code), rows.start)
    _refuse((last >= 0) & (first != last), rows, survey)
    return coded.dictionary.take(pyarrow.array(last, mask=last < 0))


def _judged(
    candidate: Int[np.ndarray, "problem level"],
    flag: Int[np.ndarray, "problem level"],
    is_gold: Bool[np.ndarray, "problem level"],
) -> tuple[Bool[np.ndarray, "problem level"], Int[np.ndarray, " problem"], Int[np.ndarray, " problem"]]:
    """Return which answers are right, how many flags each question has, and of how many candidates they disagree.

    Parameters
    ----------
    flag : (problem, level) array
        1 where a usable answer is flagged right, 0 where wrong, -1 where it carries no flag.
    is_gold : (problem, level) array
        Whether it is the gold answer.
    """
    if not (flag >= 0).any():
        nothing = np.zeros(len(candidate), int)
        return is_gold, nothing, nothing
    row, level = np.nonzero(flag >= 0)
    of_candidate = row, candidate[row, level]
    n_flags, n_true = np.zeros(candidate.shape, int), np.zeros(candidate.shape, int)
    np.add.at(n_flags, of_candidate, 1)
    np.add.at(n_true, of_candidate, flag[row, level])
    mine = np.maximum(candidate, 0)
    flagged = np.take_along_axis(n_flags, mine, axis=1)
    majority = 2 * np.take_along_axis(n_true, mine, axis=1) > flagged
    correct = np.where(flagged > 0, majority, is_gold) & (candidate >= 0)
    return correct, n_flags.sum(axis=1), ((n_true > 0) & (n_true < n_flags)).sum(axis=1)


def _missing(rows: Rows, column: str) -> Bool[np.ndarray, " row"]:
    return np.asarray(rows.table[column].is_null().to_numpy(), bool)


def _refuse(wrong: Bool[np.ndarray, " problem"], rows: Rows, survey: Survey) -> None:
    """Have the ordinary reader say what is wrong with the first question that is, if any."""
    if not wrong.any():
        return
    table, lines = rows.of_question(int(np.argmax(wrong)))
    for line, question in from_table(table, lines.tolist(), survey.path):
        read_question(question, survey.kind, survey.path, line)
    raise AssertionError(f"{survey.path}, line {lines[0]}: the ordinary reader finds nothing wrong")
