"""Labelled questions counted by pattern: one row for all questions that a fit cannot tell apart, and their number.

A pattern holds for each level whether it has a usable report, which of the question's candidates it names, its
confidence, and whether it is right. Memory grows with the number of patterns, not of questions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow
from jaxtyping import Float, Int, Shaped

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.engines import Engine, Span, is_parquet, prepare
from bayes_direag.data.long_table import QuestionArrays
from bayes_direag.data.observations import Observations
from bayes_direag.data.parquet import ParquetScan, group_edges, scan_parquet
from bayes_direag.data.records import Columns, Origin, Question, Status, signal_column

#: By default, a Parquet file with more rows than this is counted by pattern.
LARGEST_KEPT = 1_000_000
# Stands for a missing confidence, as one NaN does not equal another.
_NOT_STATED = -1.0


class Patterns(NamedTuple):
    """Which pattern each question has.

    Attributes
    ----------
    member : (pattern,) array
        A question of each pattern; the order of the patterns does not depend on that of the questions.
    pattern : (problem,) array
        The pattern of each question.
    """

    member: Int[np.ndarray, " pattern"]
    pattern: Int[np.ndarray, " problem"]

    def total(self, weight: Float[np.ndarray, "batch problem"]) -> Float[np.ndarray, "batch pattern"]:
        """Sum the weights of the questions of each pattern."""
        totals = [np.bincount(self.pattern, row, len(self.member)) for row in weight]
        return np.stack(totals).astype(float)  # bincount returns integers if there are no questions


def distinct_rows(columns: Sequence[Shaped[np.ndarray, " row"]]) -> Patterns:
    """Find the distinct rows of a table, given its columns, at least one.

    Examples
    --------
    >>> distinct_rows([np.array([3, 1, 3, 3]), np.array([0.5, 0.5, 0.5, 0.1])])
    Patterns(member=array([1, 3, 0]), pattern=array([2, 0, 2, 1]))
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        place, values = pd.factorize(column)
        code, _ = pd.factorize(code * len(values) + place)
    _, first = np.unique(code, return_index=True)
    order = np.lexsort([column[first] for column in reversed(columns)])
    return Patterns(first[order], np.argsort(order)[code])


def read_labelled(
    path: Path,
    answers: AnswerKind | None = None,
    *,
    by_pattern: bool | None = None,
    engine: Engine = "local",
    on_step: Callable[[str], None] = lambda _: None,
    columns: Columns | None = None,
) -> Observations:
    """Read an observation file for a fit.

    Raises as :meth:`Observations.read <bayes_direag.data.observations.Observations.read>` and
    :func:`~bayes_direag.data.engines.prepare` do.

    Parameters
    ----------
    by_pattern
        Keep a row for each pattern instead of each question. By default for Parquet files of more than
        :data:`LARGEST_KEPT` rows, and on engines other than local.
    columns
        The names of the file's columns; the file is then read whole, in this process.
    """
    prepare(engine, path, columns)
    if by_pattern is None and columns is None:
        by_pattern = engine != "local" or (is_parquet(path) and group_edges(path)[-1] > LARGEST_KEPT)
    if by_pattern and columns is None and is_parquet(path):
        return count_parquet(path, answers, engine=engine, on_step=on_step)
    observations = Observations.read(path, answers, columns)
    return count_patterns(observations) if by_pattern else observations


def count_parquet(
    source: Path,
    answers: AnswerKind | None = None,
    *,
    engine: Engine = "local",
    on_step: Callable[[str], None] = lambda _: None,
) -> Observations:
    """Read a Parquet file as patterns, in parts; see :func:`read_labelled`.

    A pattern has the name of its first question, and its candidates are named by number. The records of the result hold
    only the datasets and models of the file.
    """
    on_step(f"looking through {source}")
    scan = scan_parquet(source, answers, labels=True)
    start, n_done, n_counted = monotonic(), 0, 0
    tables: list[pyarrow.Table] = []
    for table in scan.run(partial(_patterns, scan), engine):
        tables.append(table)
        if sum(part.num_rows for part in tables) > 2 * n_counted:  # the total cost stays linear in the number of parts
            tables = [_counted(pyarrow.concat_tables(tables))]
            n_counted = tables[0].num_rows
        n_done += int(table["multiplicity"].to_numpy().sum())
        rate = n_done / (monotonic() - start)
        on_step(f"counted {n_done:,} of {scan.n_questions:,} questions, {rate:,.0f} a second")
    return _observations(_counted(pyarrow.concat_tables(tables)), scan)


def count_patterns(observations: Observations) -> Observations:
    """Return the first question of every pattern, with its ``multiplicity``, regardless of clusters.

    A fit to the patterns equals a fit to all questions.
    """
    table = _counted(_table(observations, np.arange(len(observations)), observations.row_counts))
    first = observations.select(table["question"].to_numpy())
    return replace(first, multiplicity=table["multiplicity"].to_numpy(), cluster=None)


def _patterns(scan: ParquetScan, span: Span | None) -> Iterator[pyarrow.Table]:
    for names, questions in scan.arrays(span):
        yield _counted(_table(questions, names, np.ones(len(names), int)))


def _table(
    questions: QuestionArrays | Observations,
    names: pyarrow.Array | Int[np.ndarray, " problem"],
    counts: Int[np.ndarray, " problem"],
) -> pyarrow.Table:
    """Return a row for each question: its name, its count, and the columns that make its pattern.

    A usable report is one number, twice the candidate, plus 1 if it is right. Another is minus its status.
    """
    usable = questions.candidate >= 0
    reports = np.where(usable, 2 * questions.candidate + questions.correct, -questions.status.astype(int))
    columns: dict[str, object] = {"question": names, "multiplicity": counts}
    columns |= {f"report {level}": column for level, column in enumerate(reports.astype(np.int16).T)}
    signals = {signal_column(name): values for name, values in questions.signals.items()}
    for name, values in {"confidence": questions.confidence, **signals}.items():
        stated = np.nan_to_num(values, nan=_NOT_STATED).T
        columns |= {f"{name} {level}": np.ascontiguousarray(column) for level, column in enumerate(stated)}
    return pyarrow.table({**columns, "labelled": questions.labelled, "conflicting": questions.conflicting})


def _counted(table: pyarrow.Table) -> pyarrow.Table:
    """Keep the first row of each pattern, with the sum of the counts."""
    patterns = distinct_rows([table[name].to_numpy() for name in table.column_names[2:]])
    counts = patterns.total(table["multiplicity"].to_numpy()[None].astype(float))[0]
    first = table.take(patterns.member)
    return first.set_column(1, "multiplicity", pyarrow.array(counts.astype(np.int64)))


def _observations(table: pyarrow.Table, scan: ParquetScan) -> Observations:
    def by_level(name: str) -> Shaped[np.ndarray, "pattern level"]:
        return np.stack([table[f"{name} {level}"].to_numpy() for level in range(len(scan.levels))], axis=1)

    def stated(name: str) -> Float[np.ndarray, "pattern level"]:
        values = by_level(name)
        return np.where(values == _NOT_STATED, np.nan, values)

    reports = by_level("report")
    usable = reports >= 0
    candidate = np.where(usable, reports // 2, -1).astype(np.int32)
    numbers = [tuple(str(number) for number in range(n)) for n in range(len(scan.levels) + 1)]
    record = Question(problem_id="any", dataset=scan.datasets or None, model=scan.models or None, observations=())
    return Observations(
        problem_id=tuple(table["question"].to_pylist()),
        level_names=tuple(scan.levels.values()),
        kind=scan.kind,
        confidence=stated("confidence"),
        signals={name: stated(signal_column(name)) for name in scan.signals[1:]},
        first_signal=scan.signals[0],
        candidate=candidate,
        candidates=tuple(numbers[n] for n in (candidate.max(axis=1, initial=-1) + 1).tolist()),
        correct=usable & (reports % 2 == 1),
        labelled=table["labelled"].to_numpy(),
        status=np.where(usable, Status.USABLE, -reports).astype(np.int8),
        conflicting=table["conflicting"].to_numpy(),
        questions=(record,) * table.num_rows,
        origin=Origin(scan.path, (None,) * table.num_rows),
        multiplicity=table["multiplicity"].to_numpy(),
        groups=scan.groups,
    )


def by_first_mention(candidate: Int[np.ndarray, "problem level"]) -> Int[np.ndarray, "problem level"]:
    """Renumber each question's candidates in the order in which its levels name them; -1 stays.

    Examples
    --------
    >>> by_first_mention(np.array([[2, 0, -1, 2, 1], [-1, 0, 0, 0, 0]]))
    array([[ 0,  1, -1,  0,  2],
           [-1,  0,  0,  0,  0]])
    """
    n, n_levels = candidate.shape
    question, renumbered = np.arange(n), np.full(candidate.shape, -1)
    number, n_named = np.full((n, n_levels + 1), -1), np.zeros(n, int)  # the last column stands for no report
    for level, named in enumerate(candidate.T):
        fresh = (named >= 0) & (number[question, named] < 0)
        number[question[fresh], named[fresh]] = n_named[fresh]
        n_named += fresh
        renumbered[:, level] = number[question, named]
    return renumbered
