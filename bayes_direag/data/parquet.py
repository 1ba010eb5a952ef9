"""Parquet files in parts of bounded size: looked through once, and then read by whole questions, in columns.

What is wrong with a row is seen in columns; the question is then made a record, which says it in words.
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
from bayes_direag.data.engines import Engine, Job, Span, run_on_ray
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

#: Rows that are held at once; more only where one question has more.
ROWS_AT_ONCE = 1 << 19
_BUFFER = 1 << 20

_AS_TEXT = TypeAdapter(str, config=ConfigDict(coerce_numbers_to_str=True))
_TEXTS = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of some whole questions, those of one question together.

    Attributes
    ----------
    given : pyarrow.Table
        The rows as they stand in the file.
    columns : dict of str to pyarrow.Array
        All columns as texts (``large_string``), doubles and flags; missing where the table lacks a column, or holds
        something else than should be there.
    line, start : (row,) and (problem,) arrays
        The number of each row in the file, from 1; where each question begins.
    """

    path: Path
    given: pyarrow.Table
    columns: dict[str, pyarrow.Array]
    line: Int[np.ndarray, " row"]
    start: Int[np.ndarray, " problem"]

    @classmethod
    def of(cls, given: pyarrow.Table, path: Path, line: Int[np.ndarray, " row"]) -> "Part":
        """Take in rows; a question ends where the next row is of another."""
        columns = {name: _column(name, given) for name in (*COLUMNS, *filter(is_signal, given.column_names))}
        names = columns["problem_id"]
        changes = pc.fill_null(pc.not_equal(names[1:], names[:-1]), True).to_numpy(zero_copy_only=False)
        start = np.flatnonzero(np.concatenate([np.ones(min(len(names), 1), bool), changes.astype(bool)]))
        return cls(path, given, columns, line, start)

    @property
    def problem_id(self) -> pyarrow.Array:
        """The questions."""
        return self.columns["problem_id"].take(self.start)

    def without_last(self) -> "Part":
        """Return the same less the last question."""
        end = int(self.start[-1])
        columns = {name: column[:end] for name, column in self.columns.items()}
        return Part(self.path, self.given[:end], columns, self.line[:end], self.start[:-1])

    def record(self, number: int) -> Question:
        """Make one question of its rows."""
        begin, end = [*self.start[number : number + 2].tolist(), len(self.line)][:2]
        rows = zip(self.line[begin:end].tolist(), self.given[begin:end].to_pylist(), strict=True)
        return question_from_rows(list(rows), self.path)

    def check(self) -> None:
        """Raise ObservationError about the first question that its rows cannot make, if any."""
        given = {name: ~_missing(self.given[name]) for name in self.given.column_names if name in self.columns}
        unread = [given[name] & _missing(self.columns[name]) for name in given]
        names = self.columns["problem_id"]
        unnamed = _missing(names) | pc.fill_null(pc.equal(names, ""), True).to_numpy(zero_copy_only=False).astype(bool)
        stated = ["confidence", *filter(is_signal, given)]
        reported = np.logical_or.reduce([given[name] for name in (*OF_OBSERVATION, *stated) if name in given])
        out_of_range = [given[name] & ~((self._number(name) >= 0) & (self._number(name) <= 100)) for name in stated]
        rows = np.logical_or.reduce([*unread, unnamed, reported & ~_is_level(self._number("level")), *out_of_range])
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
        """Return the columns of the reports; rows without a level that can be are left out."""
        level = self._number("level")
        row = np.flatnonzero(_is_level(level))
        question = np.repeat(np.arange(len(self.start)), np.diff(self.start, append=len(level)))
        texts = ("level_name", "answer", "gold_answer", "group")
        name, answer, gold, group = (texts_of(self.columns[name]) for name in texts)
        return LongTable(
            source=Origin(self.path, tuple(self.line[self.start].tolist())),
            record=self.record,
            question=question[row],
            level=level[row].astype(np.int64),
            level_name=Texts(name.values, name.code[row]),
            answer=Texts(answer.values, answer.code[row]),
            percents={NUMBER: self._number("confidence")[row]}
            | {signal_of(name): self._number(name)[row] for name in self.columns if is_signal(name)},
            flag=self.columns["correct"].cast("int8").fill_null(-1).to_numpy()[row],
            gold=Texts(gold.values, np.maximum.reduceat(gold.code, self.start)),
            group=Texts(group.values, group.code[row]),
        )

    def _number(self, name: str) -> Float[np.ndarray, " row"]:
        return np.asarray(self.columns[name].to_numpy(zero_copy_only=False), float)


def read_rows(path: Path, columns: Columns | None) -> tuple[list[str], Iterator[tuple[int, dict[str, object]]]]:
    """Read what the columns of a file are called, and its rows by number; without ``columns`` but those we know."""
    with _opened(path, COLUMNS if columns is None else None) as (file, names):
        table = file.read(columns=names)
    return table.column_names, enumerate(table.to_pylist(), 1)


def regrouped(path: Path, columns: Sequence[str]) -> Part:
    """Read a whole file with the rows of each question put together, questions in the order of their first rows."""
    with _opened(path, columns) as (file, names):
        table = file.read(columns=names)
    code = _column("problem_id", table).dictionary_encode(null_encoding="encode").indices.to_numpy()
    order = np.argsort(code, kind="stable")
    return Part.of(table.take(order), path, order + 1)


def parts(path: Path, columns: Sequence[str], span: Span | None = None) -> Iterator[Part]:
    """Yield a file, or a span of it that begins and ends with a question, in parts: of some columns, if it has them.

    Rows of one question are taken to stand together.
    """
    with _opened(path, columns) as (file, names):
        here = Span(0, file.metadata.num_rows) if span is None else span
        first, n_held = here.start, 0
        held: list[pyarrow.RecordBatch] = []
        for batch in _batches(file, names, here):
            held.append(batch)
            n_held += batch.num_rows
            if n_held < ROWS_AT_ONCE:
                continue
            part = _part(held, path, first)
            if len(part.start) > 1:
                yield part.without_last()
                cut = int(part.start[-1])
                held, first, n_held = part.given[cut:].to_batches(), first + cut, n_held - cut
        if held:
            yield _part(held, path, first)


def group_edges(path: Path) -> Int[np.ndarray, " edge"]:
    """Return the rows of a file at which row groups begin, and in the last place the number of rows."""
    with _opened(path, ()) as (file, _):
        return _edges(file)


def texts_of(column: pyarrow.Array) -> Texts:
    """Return a column of texts by its distinct ones; a blank one is missing."""
    coded = column.dictionary_encode()
    values = coded.dictionary.to_pylist()
    texts = tuple(text for text in values if text and not text.isspace())
    place = {text: number for number, text in enumerate(texts)}
    code = np.array([*(place.get(text, -1) for text in values), -1])
    return Texts(texts, code[coded.indices.fill_null(-1).to_numpy()])


@contextmanager
def _opened(path: Path, columns: Sequence[str] | None) -> Iterator[tuple[parquet.ParquetFile, list[str]]]:
    """Open a file, and tell which of some columns, or of all (None), it has; of some, it must have those we need."""
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
            expected="a whole Parquet file",
            remedy="Write it again: a copy or a run may have been interrupted.",
        ) from error


def _edges(file: parquet.ParquetFile) -> Int[np.ndarray, " edge"]:
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    return np.cumsum([0, *sizes])


def _part(batches: list[pyarrow.RecordBatch], path: Path, first: int) -> Part:
    table = pyarrow.Table.from_batches(batches)
    return Part.of(table, path, np.arange(first + 1, first + 1 + table.num_rows))


def _batches(file: parquet.ParquetFile, names: list[str], span: Span) -> Iterator[pyarrow.RecordBatch]:
    """Yield the batches of a span, from no more row groups than it takes."""
    edges = _edges(file)
    groups = np.flatnonzero((edges[1:] > span.start) & (edges[:-1] < span.stop)).tolist()
    here = int(edges[groups[0]]) if groups else 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups, columns=names) if groups else ():
        low, high = max(span.start - here, 0), min(span.stop - here, batch.num_rows)
        here += batch.num_rows
        if low < high:
            yield batch.slice(low, high - low)


def _column(name: str, given: pyarrow.Table) -> pyarrow.Array:
    """Return a column in its one type and one piece; numbers that stand for texts become such as in records."""
    is_number = name in ("level", "confidence") or is_signal(name)
    wanted = pyarrow.bool_() if name == "correct" else pyarrow.float64() if is_number else pyarrow.large_string()
    column = given[name] if name in given.column_names else pyarrow.chunked_array([pyarrow.nulls(given.num_rows)])
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    column = column.cast(kind)
    number = types.is_integer(kind) or types.is_floating(kind)
    fits = types.is_boolean(kind) if name == "correct" else number
    fits |= wanted == pyarrow.large_string() and (types.is_decimal(kind) or any(test(kind) for test in _TEXTS))
    if not fits:
        return pyarrow.nulls(len(column), wanted)
    if types.is_floating(kind) and not is_number:
        coded = pyarrow.concat_arrays(column.cast(pyarrow.float64()).chunks).dictionary_encode()
        texts = [_AS_TEXT.validate_python(value) for value in coded.dictionary.to_pylist()]
        return pyarrow.array(texts, wanted).take(coded.indices)
    chunks = column.cast(wanted, safe=False).chunks
    return chunks[0] if len(chunks) == 1 else pyarrow.concat_arrays([*chunks, pyarrow.nulls(0, wanted)])


def _is_level(number: Float[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Tell which numbers can be that of a level; a missing one (NaN) cannot."""
    return np.asarray((number >= 0) & (number < 2**40) & (np.floor(number) == number))


def _missing(column: Any) -> Bool[np.ndarray, " row"]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)


#: A file with more rows than this must have those of a question together.
LARGEST_REGROUPED = 5_000_000

#: What a prediction looks at, and what a fit looks at besides.
_REPORTS = ("problem_id", "level", "level_name", "answer", "confidence")
_LABELS = ("correct", "gold_answer", "dataset", "model")


@dataclass(frozen=True)
class ParquetScan:
    """What has to be known of a whole file before any of it is used.

    Attributes
    ----------
    columns, signals : tuple of str
        Those that are looked at.
    levels, lines : dict
        The name of each level by number, and the line of the first question with a level by name.
    groups, voting
        As in :class:`~bayes_direag.data.observations.Observations`; and the levels that only vote, by number.
    datasets, models : str
        The distinct names, separated by commas; looked for with the labels only.
    together : bool
        Whether the rows of every question stand together.
    cuts : tuple of int
        For every row group in which a question begins, the first such row, from 0: where the file can be cut.
    """

    path: Path
    columns: tuple[str, ...]
    n_rows: int
    n_questions: int
    levels: dict[int, str]
    groups: tuple[str, ...] | None
    voting: frozenset[int]
    signals: tuple[str, ...]
    lines: dict[str, int | None]
    kind: AnswerKind
    datasets: str
    models: str
    together: bool
    cuts: tuple[int, ...]

    def spans(self, n_rows: int) -> list[Span]:
        """Cut the file at edges of row groups into spans of at least so many rows, but for the last."""
        starts = [0]
        for cut in self.cuts if self.together else ():
            if cut - starts[-1] >= n_rows:
                starts.append(cut)
        return [Span(*pair) for pair in zip(starts, [*starts[1:], self.n_rows], strict=True)]

    def arrays(self, span: Span | None = None) -> Iterator[tuple[pyarrow.Array, QuestionArrays]]:
        """Yield the questions of the file, or of a span of it, in parts of bounded size: their names, and the arrays.

        Raises ObservationError where :meth:`Observations.read
        <bayes_direag.data.observations.Observations.read>` would, in the same words.
        """
        together = parts(self.path, self.columns, span) if self.together else [regrouped(self.path, self.columns)]
        for part in together:
            part.check()
            table = part.long_table()
            yield part.problem_id, question_arrays(table, self.levels, self.kind, self.voting, self.signals)

    def run(self, job: Job, engine: Engine) -> Iterator[pyarrow.Table]:
        """Yield the tables that a job makes of the file, in its order; raise what the job raises."""
        return job(None) if engine == "local" else run_on_ray(job, self.spans(ROWS_AT_ONCE))


def scan_parquet(path: Path, kind: AnswerKind | None, *, labels: bool) -> ParquetScan:
    """Look through a Parquet file, in parts; its gold answers and flags only if the ``labels`` matter.

    Questions are known by 64 bits of a hash: of ten million, two are taken for one with a probability of three in a
    million; the rows are then taken to be scattered. Raises ObservationError as :meth:`Observations.read
    <bayes_direag.data.observations.Observations.read>` does; or if the rows of a question do not stand together in a
    file of more than :data:`LARGEST_REGROUPED` rows.
    """
    about = {name: dict[str, None]() for name in ("dataset", "model")}
    telling = ("correct", "gold_answer") if kind is None else ()
    overview, hashes, starts = Overview(), [], []
    for part in parts(
        path, ("problem_id", "level", "level_name", "group", "confidence", *telling, *(about if labels else ()))
    ):
        overview.add(part.long_table())
        hashes.append(_hashed(part.problem_id))
        starts.append(part.line[part.start] - 1)
        for name, known in about.items():
            known |= dict.fromkeys(texts_of(part.columns[name]).values)
    if not starts:
        raise no_questions(path)
    start, edges = np.concatenate(starts), group_edges(path)
    n_rows = int(edges[-1])
    distinct, first = np.unique(np.concatenate(hashes), return_index=True)
    together = len(distinct) == len(start)
    if not together and n_rows > LARGEST_REGROUPED:
        again = int(start[np.setdiff1d(np.arange(len(start)), first)[0]])
        raise _scattered(path, n_rows, again)
    overview.check_percentages(path)
    kind, levels = overview.kind(kind, path), overview.levels(path)
    groups = overview.groups(levels, path)
    return ParquetScan(
        path=path,
        columns=(*_REPORTS, *(_LABELS if labels else ())),
        n_rows=n_rows,
        n_questions=len(distinct),
        levels=levels,
        groups=groups,
        voting=overview.voting(levels, groups),
        signals=overview.signals,
        lines={levels[number]: line for (number, _), line in reversed(overview.pairs.items())},
        kind=kind,
        datasets=", ".join(about["dataset"]),
        models=", ".join(about["model"]),
        together=together,
        cuts=tuple(np.unique(start[np.searchsorted(start, edges[edges <= start[-1]])]).tolist()),
    )


def _hashed(names: pyarrow.Array) -> np.ndarray:
    return np.asarray(hash_array(names.to_numpy(zero_copy_only=False), categorize=False))


def _scattered(path: Path, n_rows: int, again: int) -> ObservationError:
    part = next(parts(path, ("problem_id",), Span(again, again + 1)))
    return ObservationError(
        f"rows of this question stand here apart from its others, and {n_rows:,} rows are too many to be put in order",
        path=path,
        line=again + 1,
        field="problem_id",
        seen=part.problem_id[0].as_py(),
        expected="all rows of a question together",
        remedy="Sort the file first, for example with DuckDB: COPY (FROM 'in.parquet' ORDER BY problem_id) TO "
        "'sorted.parquet'.",
    )
