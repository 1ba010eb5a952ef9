"""Parquet files in parts of bounded size: scanned once, then read by column, in whole questions.

Rows are checked by column. A question with an error is then made a record, whose validation gives the message.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int
from pandas.util import hash_array
from pyarrow import parquet, types
from pydantic import ConfigDict, TypeAdapter

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.long_table import LongTable, Overview, QuestionArrays, Texts, question_arrays
from bayes_direag.data.records import (
    COLUMNS,
    NUMBER,
    OF_OBSERVATION,
    OF_QUESTION,
    Columns,
    Origin,
    Question,
    is_signal,
    no_questions,
    question_from_rows,
    signal_of,
)
from bayes_direag.errors import ObservationError

#: The number of rows held at once, unless one question has more.
ROWS_AT_ONCE = 1 << 19
_BUFFER = 1 << 20

#: The rows of a question need not be adjacent in files with at most this many rows.
LARGEST_REGROUPED = 5_000_000

# The columns that a prediction needs, and those that a fit needs as well.
_REPORTS = ("problem_id", "level", "level_name", "answer", "confidence")
_LABELS = ("correct", "gold_answer", "dataset", "model")

_AS_TEXT = TypeAdapter(str, config=ConfigDict(coerce_numbers_to_str=True))
_TEXTS = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of some whole questions, those of each question adjacent.

    Attributes
    ----------
    given : pyarrow.Table
        The rows as they are in the file.
    columns : dict of str to pyarrow.Array
        All columns as texts (``large_string``), doubles and flags; missing if the table lacks the column or has one of
        another type.
    line, start : (row,) and (problem,) arrays
        The number of each row in the file, from 1; the first row of each question, from 0.
    """

    path: Path
    given: pyarrow.Table
    columns: dict[str, pyarrow.Array]
    line: Int[np.ndarray, " row"]
    start: Int[np.ndarray, " problem"]

    @classmethod
    def of(cls, given: pyarrow.Table, path: Path, line: Int[np.ndarray, " row"]) -> "Part":
        """Convert rows; a question ends where the problem_id changes."""
        columns = {name: _column(name, given) for name in (*COLUMNS, *filter(is_signal, given.column_names))}
        return cls(path, given, columns, line, _starts(columns["problem_id"]))

    @property
    def problem_id(self) -> pyarrow.Array:
        """The names of the questions."""
        return self.columns["problem_id"].take(self.start)

    def record(self, number: int) -> Question:
        """Return one question as a record."""
        begin, end = [*self.start[number : number + 2].tolist(), len(self.line)][:2]
        rows = zip(self.line[begin:end].tolist(), self.given[begin:end].to_pylist(), strict=True)
        return question_from_rows(list(rows), self.path)

    def check(self) -> None:
        """Raise ObservationError for the first question whose rows cannot be used, if any."""
        given = {name: _bools(self.given[name].is_valid()) for name in self.given.column_names if name in self.columns}
        unread = [given[name] & _bools(self.columns[name].is_null()) for name in given]
        unnamed = _bools(pc.equal(self.columns["problem_id"], ""))
        stated = ["confidence", *filter(is_signal, given)]
        reported = np.logical_or.reduce([given[name] for name in (*OF_OBSERVATION, *stated) if name in given])
        out_of_range = [given[name] & ~((self._number(name) >= 0) & (self._number(name) <= 100)) for name in stated]
        rows = np.logical_or.reduce([*unread, unnamed, reported & ~self._has_level(), *out_of_range])
        wrong = np.logical_or.reduceat(rows, self.start)
        for name in set(OF_QUESTION) & given.keys():
            code = texts_of(self.columns[name]).code
            first, last = np.where(code < 0, len(code), code), code
            wrong |= np.minimum.reduceat(first, self.start) < np.maximum.reduceat(last, self.start)
        for number in np.flatnonzero(wrong).tolist():
            self.record(number)
        if wrong.any():
            raise ObservationError(
                "a column holds values of a type that cannot be used",
                path=self.path,
                expected="texts, numbers, flags and nulls",
                remedy="Convert the column and write the table again.",
            )

    def long_table(self) -> LongTable:
        """Return the columns of the reports, without the rows that have no valid level."""
        row = np.flatnonzero(self._has_level())
        question = np.repeat(np.arange(len(self.start)), np.diff(self.start, append=len(self.line)))
        gold = texts_of(self.columns["gold_answer"])

        def texts(name: str) -> Texts:
            values, code = texts_of(self.columns[name])
            return Texts(values, code[row])

        return LongTable(
            source=Origin(self.path, tuple(self.line[self.start].tolist())),
            record=self.record,
            question=question[row],
            level=self._number("level")[row].astype(np.int64),
            level_name=texts("level_name"),
            answer=texts("answer"),
            percents={NUMBER: self._number("confidence")[row]}
            | {signal_of(name): self._number(name)[row] for name in self.columns if is_signal(name)},
            flag=self.columns["correct"].cast("int8").fill_null(-1).to_numpy()[row],
            gold=Texts(gold.values, np.maximum.reduceat(gold.code, self.start)),
            group=texts("group"),
        )

    def _number(self, name: str) -> Float[np.ndarray, " row"]:
        return np.asarray(self.columns[name].to_numpy(zero_copy_only=False), float)

    def _has_level(self) -> Bool[np.ndarray, " row"]:
        level = self._number("level")
        return np.asarray((level >= 0) & (level < 2**40) & (np.floor(level) == level))


def read_rows(path: Path, columns: Columns | None) -> tuple[list[str], Iterator[tuple[int, dict[str, object]]]]:
    """Read the column names of a file, and its numbered rows; without ``columns`` only the columns that we know."""
    table = _read(path, COLUMNS if columns is None else None)
    return table.column_names, enumerate(table.to_pylist(), 1)


def regrouped(path: Path, columns: Sequence[str]) -> Part:
    """Read a whole file with the rows of each question made adjacent, questions in the order of their first rows."""
    table = _read(path, columns)
    code = _column("problem_id", table).dictionary_encode(null_encoding="encode").indices.to_numpy()
    order = np.argsort(code, kind="stable")
    return Part.of(table.take(order), path, order + 1)


def parts(path: Path, columns: Sequence[str]) -> Iterator[Part]:
    """Yield some columns of a file in parts.

    The rows of each question must be adjacent. Columns that the file lacks are missing in all rows.
    """
    with _opened(path, columns) as (file, names):
        start, held = 0, list[pyarrow.RecordBatch]()
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
            held.append(batch)
            if sum(part.num_rows for part in held) < ROWS_AT_ONCE:
                continue
            table = pyarrow.Table.from_batches(held)
            if last := int(_starts(_column("problem_id", table))[-1]):
                yield Part.of(table[:last], path, np.arange(start, start + last) + 1)
                held, start = table[last:].to_batches(), start + last
        if held:
            yield Part.of(pyarrow.Table.from_batches(held), path, np.arange(start, file.metadata.num_rows) + 1)


def texts_of(column: pyarrow.Array) -> Texts:
    """Code a column of texts; blank ones are missing."""
    coded = column.dictionary_encode()
    values = coded.dictionary.to_pylist()
    texts = tuple(text for text in values if text and not text.isspace())
    place = {text: number for number, text in enumerate(texts)}
    code = np.array([*(place.get(text, -1) for text in values), -1])
    return Texts(texts, code[coded.indices.fill_null(-1).to_numpy()])


def _read(path: Path, columns: Sequence[str] | None) -> pyarrow.Table:
    with _opened(path, columns) as (file, names):
        return file.read(columns=names)


@contextmanager
def _opened(path: Path, columns: Sequence[str] | None) -> Iterator[tuple[parquet.ParquetFile, list[str]]]:
    """Open a file; yields it and those of ``columns`` that it has, or all its columns if None.

    Raises ObservationError if it cannot be read, or if ``columns`` are given and it lacks required ones.
    """
    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
            given = file.schema_arrow.names
            if columns is not None:
                Columns().check(given, path)
            signals = filter(is_signal, given if columns and "confidence" in columns else ())
            yield file, given if columns is None else [name for name in (*columns, *signals) if name in given]
    except (pyarrow.ArrowException, OSError) as error:
        raise ObservationError(
            f"this Parquet file cannot be read ({error})",
            path=path,
            expected="a complete Parquet file",
            remedy="Write it again: a copy or a run may have been interrupted.",
        ) from error


def _column(name: str, given: pyarrow.Table) -> pyarrow.Array:
    """Return a column in its declared type and in one piece; numbers become texts as in records."""
    is_number = name in ("level", "confidence") or is_signal(name)
    wanted = pyarrow.bool_() if name == "correct" else pyarrow.float64() if is_number else pyarrow.large_string()
    column = given[name] if name in given.column_names else pyarrow.chunked_array([pyarrow.nulls(given.num_rows)])
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    column = column.cast(kind)
    fits = types.is_boolean(kind) if name == "correct" else types.is_integer(kind) or types.is_floating(kind)
    fits |= wanted == pyarrow.large_string() and (types.is_decimal(kind) or any(test(kind) for test in _TEXTS))
    if not fits:
        return pyarrow.nulls(len(column), wanted)
    if types.is_floating(kind) and not is_number:
        coded = pyarrow.concat_arrays(column.cast(pyarrow.float64()).chunks).dictionary_encode()
        texts = [_AS_TEXT.validate_python(value) for value in coded.dictionary.to_pylist()]
        return pyarrow.array(texts, wanted).take(coded.indices)
    chunks = column.cast(wanted, safe=False).chunks
    return chunks[0] if len(chunks) == 1 else pyarrow.concat_arrays([*chunks, pyarrow.nulls(0, wanted)])


def _starts(names: pyarrow.Array) -> Int[np.ndarray, " problem"]:
    """Return the rows at which a question begins; each row without a name is a question of its own."""
    changes = _bools(pc.not_equal(names[1:], names[:-1]))
    return np.flatnonzero(np.concatenate([np.ones(min(len(names), 1), bool), changes]))


def _bools(column: Any) -> Bool[np.ndarray, " row"]:
    """Return a column of flags as an array, where missing ones are True."""
    return np.asarray(pc.fill_null(column, True).to_numpy(zero_copy_only=False), bool)


@dataclass(frozen=True)
class ParquetScan:
    """What must be known of a whole file before any of it is used.

    Attributes
    ----------
    columns, signals : tuple of str
        The columns to read, and the signals to use.
    levels, lines : dict
        The name of each level by number; the line of the first question with each level, by name.
    groups, voting
        As in :class:`~bayes_direag.data.observations.Observations`; the numbers of the levels that only vote.
    together : bool
        Whether the rows of every question are adjacent.
    """

    path: Path
    columns: tuple[str, ...]
    n_questions: int
    levels: dict[int, str]
    groups: tuple[str, ...] | None
    voting: frozenset[int]
    signals: tuple[str, ...]
    lines: dict[str, int | None]
    kind: AnswerKind
    together: bool

    def arrays(self) -> Iterator[tuple[pyarrow.Array, QuestionArrays]]:
        """Yield the names and arrays of the questions of the file, in parts of bounded size.

        Raises the ObservationErrors of :meth:`Observations.read <bayes_direag.data.observations.Observations.read>`.
        """
        for part in parts(self.path, self.columns) if self.together else [regrouped(self.path, self.columns)]:
            part.check()
            table = part.long_table()
            yield part.problem_id, question_arrays(table, self.levels, self.kind, self.voting, self.signals)


def scan_parquet(path: Path, kind: AnswerKind | None, *, labels: bool) -> ParquetScan:
    """Scan a Parquet file in parts; its gold answers and flags are read later only with ``labels``.

    Questions are identified by a 64-bit hash: among ten million, two collide with probability 3e-6, and the rows are
    then taken to be scattered. Raises ObservationError as :meth:`Observations.read
    <bayes_direag.data.observations.Observations.read>` does, or if the rows of a question are not adjacent in a file of
    more than :data:`LARGEST_REGROUPED` rows.
    """
    columns = ["problem_id", "level", "level_name", "group", "confidence"]
    columns += ["correct", "gold_answer"] if kind is None else []
    overview, hashes, starts, n_rows = Overview(), [], [], 0
    for part in parts(path, columns):
        overview.add(part.long_table())
        hashes.append(hash_array(part.problem_id.to_numpy(zero_copy_only=False), categorize=False))
        starts.append(part.line[part.start] - 1)
        n_rows += len(part.line)
    if not starts:
        raise no_questions(path)
    start = np.concatenate(starts)
    distinct, first = np.unique(np.concatenate(hashes), return_index=True)
    together = len(distinct) == len(start)
    if not together and n_rows > LARGEST_REGROUPED:
        again = int(start[np.setdiff1d(np.arange(len(start)), first)[0]])
        raise ObservationError(
            f"rows of this question are not adjacent to its other rows, and {n_rows:,} rows are too many to be sorted",
            path=path,
            line=again + 1,
            field="problem_id",
            seen=_column("problem_id", _read(path, ("problem_id",)))[again].as_py(),
            expected="adjacent rows for each question",
            remedy="Sort the file first, for example with DuckDB: COPY (FROM 'in.parquet' ORDER BY problem_id) TO "
            "'sorted.parquet'.",
        )
    overview.check_percentages(path)
    kind, levels = overview.kind(kind, path), overview.levels(path)
    groups = overview.groups(levels, path)
    return ParquetScan(
        path=path,
        columns=(*_REPORTS, *(_LABELS if labels else ())),
        n_questions=len(distinct),
        levels=levels,
        groups=groups,
        voting=overview.voting(levels, groups),
        signals=overview.signals,
        lines={levels[number]: line for (number, _), line in reversed(overview.pairs.items())},
        kind=kind,
        together=together,
    )
