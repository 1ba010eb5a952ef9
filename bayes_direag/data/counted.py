"""Labelled questions counted by pattern: one row for all that a fit cannot tell apart, with how many they are.

Of a question only this is kept: level by level whether there is a report, which of the question's own answers it gives,
how confidently and if rightly. What is left is as large as the number of patterns, however many questions there are.
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

#: A Parquet file with more rows than this is counted by pattern unless told otherwise.
LARGEST_KEPT = 1_000_000
#: In the place of a confidence, as tables know no NaN that equals another.
_NOT_STATED = -1.0


class Patterns(NamedTuple):
    """How questions fall into patterns.

    Attributes
    ----------
    member : (pattern,) array
        The number of a question of each pattern, in an order that depends on the patterns alone.
    pattern : (problem,) array
        The number of each question's pattern.
    """

    member: Int[np.ndarray, " pattern"]
    pattern: Int[np.ndarray, " problem"]

    def total(self, weight: Float[np.ndarray, "batch problem"]) -> Float[np.ndarray, "batch pattern"]:
        """Add up what the questions of each pattern weigh."""
        totals = [np.bincount(self.pattern, row, len(self.member)) for row in weight]
        return np.stack(totals).astype(float)  # without questions bincount counts in whole numbers


def distinct_rows(columns: Sequence[Shaped[np.ndarray, " row"]]) -> Patterns:
    """Find the rows of a table that differ, given its columns, at least one.

    Examples
    --------
    >>> distinct_rows([np.array([3, 1, 3, 3]), np.array([0.5, 0.5, 0.5, 0.1])])
    Patterns(member=array([1, 3, 0]), pattern=array([2, 0, 2, 1]))
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        own, values = pd.factorize(column)
        code, _ = pd.factorize(code * len(values) + own)
    _, first = np.unique(code, return_index=True)
    order = np.lexsort([column[first] for column in reversed(columns)])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Patterns(first[order], place[code])


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
        Keep a row a pattern instead of a row a question. Left out: for Parquet files of more than
        :data:`LARGEST_KEPT` rows, and on another engine than this process.
    columns
        The names of what a table holds; it is then read whole, in this process.
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

    A pattern goes by the first question that has it, its candidates by their number; the records behind the rows name
    the datasets and models of the file, and nothing else.
    """
    on_step(f"looking through {source}")
    found = scan_parquet(source, answers, labels=True)
    start, done, n_counted = monotonic(), 0, 0
    tables: list[pyarrow.Table] = []
    for table in found.run(partial(_patterns, found), engine):
        tables.append(table)
        if sum(part.num_rows for part in tables) > 2 * n_counted:  # so seldom that it costs little, however many parts
            tables = [_counted(pyarrow.concat_tables(tables))]
            n_counted = tables[0].num_rows
        done += int(table["multiplicity"].to_numpy().sum())
        rate = done / (monotonic() - start)
        on_step(f"counted {done:,} of {found.n_questions:,} questions, {rate:,.0f} a second")
    return _observations(_counted(pyarrow.concat_tables(tables)), found)


def count_patterns(observations: Observations) -> Observations:
    """Return the first question of every pattern, with its ``multiplicity``: how many there are, of whatever clusters.

    A fit to these is a fit to all.
    """
    times = np.ones(len(observations), int) if observations.multiplicity is None else observations.multiplicity
    table = _counted(_table(observations, np.arange(len(observations)), times))
    first = observations.select(table["question"].to_numpy())
    return replace(first, multiplicity=table["multiplicity"].to_numpy(), cluster=None)


def _patterns(file: ParquetScan, span: Span | None) -> Iterator[pyarrow.Table]:
    for names, questions in file.arrays(span):
        yield _counted(_table(questions, names, np.ones(len(names), int)))


def _table(
    questions: QuestionArrays | Observations,
    name: pyarrow.Array | Int[np.ndarray, " problem"],
    times: Int[np.ndarray, " problem"],
) -> pyarrow.Table:
    """Return a row a question: which it is, how many it stands for, and what its pattern is made of.

    A report is one number: twice the candidate, and 1 more where it is right; or minus the status, where not usable.
    """
    usable = questions.candidate >= 0
    report = np.where(usable, 2 * questions.candidate + questions.correct, -questions.status.astype(int))
    stated = {"confidence": questions.confidence, **{signal_column(s): own for s, own in questions.signals.items()}}
    return pyarrow.table(
        {
            "question": name,
            "multiplicity": times,
            **{f"report {level}": column for level, column in enumerate(report.astype(np.int16).T)},
            **{
                f"{name} {level}": np.ascontiguousarray(column)
                for name, own in stated.items()
                for level, column in enumerate(np.nan_to_num(own, nan=_NOT_STATED).T)
            },
            "labelled": questions.labelled,
            "conflicting": questions.conflicting,
        }
    )


def _counted(table: pyarrow.Table) -> pyarrow.Table:
    """Put a row in the place of all that differ in nothing but the question, the first one's, and add up how many."""
    patterns = distinct_rows([table[name].to_numpy() for name in table.column_names[2:]])
    times = patterns.total(table["multiplicity"].to_numpy()[None].astype(float))[0]
    first = table.take(patterns.member)
    return first.set_column(1, "multiplicity", pyarrow.array(times.astype(np.int64)))


def _observations(table: pyarrow.Table, found: ParquetScan) -> Observations:
    levels = range(len(found.levels))
    report = np.stack([table[f"report {level}"].to_numpy() for level in levels], axis=1)

    def stated(name: str) -> Float[np.ndarray, "pattern level"]:
        own = np.stack([table[f"{name} {level}"].to_numpy() for level in levels], axis=1)
        return np.where(own == _NOT_STATED, np.nan, own)

    usable = report >= 0
    candidate = np.where(usable, report // 2, -1).astype(np.int32)
    numbers = [tuple(str(number) for number in range(n)) for n in range(len(levels) + 1)]
    record = Question(problem_id="any", dataset=found.datasets or None, model=found.models or None, observations=())
    return Observations(
        problem_id=tuple(table["question"].to_pylist()),
        level_names=tuple(found.levels.values()),
        kind=found.kind,
        confidence=stated("confidence"),
        signals={name: stated(signal_column(name)) for name in found.signals[1:]},
        first_signal=found.signals[0],
        candidate=candidate,
        candidates=tuple(numbers[n] for n in (candidate.max(axis=1, initial=-1) + 1).tolist()),
        correct=usable & (report % 2 == 1),
        labelled=table["labelled"].to_numpy(),
        status=np.where(usable, Status.USABLE, -report).astype(np.int8),
        conflicting=table["conflicting"].to_numpy(),
        questions=(record,) * table.num_rows,
        origin=Origin(found.path, (None,) * table.num_rows),
        multiplicity=table["multiplicity"].to_numpy(),
        groups=found.groups,
    )


def by_first_mention(candidate: Int[np.ndarray, "problem level"]) -> Int[np.ndarray, "problem level"]:
    """Return each question's candidates numbered in the order in which its levels name them; -1 stays.

    Examples
    --------
    >>> by_first_mention(np.array([[2, 0, -1, 2, 1], [-1, 0, 0, 0, 0]]))
    array([[ 0,  1, -1,  0,  2],
           [-1,  0,  0,  0,  0]])
    """
    n, n_levels = candidate.shape
    question, label = np.arange(n), np.full(candidate.shape, -1)
    number, n_named = np.full((n, n_levels + 1), -1), np.zeros(n, int)  # the last for no report
    for level in range(n_levels):
        said = candidate[:, level]
        fresh = (said >= 0) & (number[question, said] < 0)
        number[question[fresh], said[fresh]] = n_named[fresh]
        n_named += fresh
        label[:, level] = number[question, said]
    return label
