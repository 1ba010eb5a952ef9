"""The rows of a Parquet table in long form, streamed by whole questions, in columns of few types.

Nothing here makes a record of a question or of an observation: at ten million questions these would be the cost.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int
from pydantic import ConfigDict, TypeAdapter

from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet

#: Rows that are held at once; more only where one question has more.
ROWS_AT_ONCE = 1 << 20
_BUFFER = 1 << 20

_TEXTS = ("problem_id", "level_name", "answer", "gold_answer", "dataset", "model")
_AS_TEXT = TypeAdapter(str, config=ConfigDict(coerce_numbers_to_str=True))


class Span(NamedTuple):
    """Rows of a file, from 0, the last not included."""

    start: int
    stop: int


class Rows(NamedTuple):
    """The rows of some whole questions.

    Attributes
    ----------
    table : pyarrow.Table
        Texts as ``large_string``, ``level`` and ``confidence`` as whole numbers or doubles, ``correct`` as flags; each
        column in one piece.
    line : (row,) array
        The number of each row in the file, from 1.
    start : (problem,) array
        Where in the table each question begins.
    """

    table: "pyarrow.Table"
    line: Int[np.ndarray, " row"]
    start: Int[np.ndarray, " problem"]

    def of_question(self, number: int) -> tuple["pyarrow.Table", Int[np.ndarray, " row"]]:
        """Return the rows of one question, and their numbers in the file."""
        begin = int(self.start[number])
        end = int(self.start[number + 1]) if number + 1 < len(self.start) else self.table.num_rows
        return self.table.slice(begin, end - begin), self.line[begin:end]


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Say of a Parquet file that it cannot be read, where that is what comes to light."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise ObservationError(
            f"this Parquet file cannot be read ({error})",
            path=path,
            expected="a whole Parquet file",
            remedy="Write it again: a copy or a run may have been interrupted.",
        ) from error


def is_parquet(path: str | Path) -> bool:
    """Tell by its first bytes whether there is a Parquet file."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def number_of_rows(path: Path) -> int:
    """Return how many rows a Parquet file has."""
    from pyarrow import parquet

    with parquet_errors(path), parquet.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def is_columnar(schema: "pyarrow.Schema", columns: Sequence[str]) -> bool:
    """Tell whether those of the columns that there are hold what can be read without a record a question."""
    return all(_is_readable(name, schema.field(name).type) for name in columns if name in schema.names)


def stream_rows(path: Path, columns: Sequence[str], span: Span | None = None) -> Iterator[Rows]:
    """Yield the rows of a file (or of a span of it that begins and ends with a question) by whole questions.

    Rows of one question are taken to stand together.

    Parameters
    ----------
    columns
        Which to read; those that the file lacks are left out.
    """
    import pyarrow
    from pyarrow import parquet

    with parquet_errors(path), parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
        here = Span(0, file.metadata.num_rows) if span is None else span
        names = [name for name in columns if name in file.schema_arrow.names]
        held: list[pyarrow.RecordBatch] = []
        first, n_held = here.start, 0
        for batch in _batches(file, names, here):
            held.append(batch)
            n_held += batch.num_rows
            if n_held < ROWS_AT_ONCE:
                continue
            table = normal(pyarrow.Table.from_batches(held))
            start = question_starts(table)
            if len(start) == 1:
                continue
            cut = int(start[-1])
            yield Rows(table.slice(0, cut), np.arange(first + 1, first + 1 + cut), start[:-1])
            rest = pyarrow.Table.from_batches(held).slice(cut)
            held, first, n_held = rest.to_batches(), first + cut, rest.num_rows
        if held:
            table = normal(pyarrow.Table.from_batches(held))
            yield Rows(table, np.arange(first + 1, first + 1 + n_held), question_starts(table))


def question_starts(table: "pyarrow.Table") -> Int[np.ndarray, " problem"]:
    """Return the rows that another question stands before; the first row is one of them."""
    import pyarrow.compute as pc

    name = table["problem_id"].chunk(0) if table.num_rows else table["problem_id"].combine_chunks()
    changes = pc.fill_null(pc.not_equal(name[1:], name[:-1]), True).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.concatenate([np.ones(min(len(name), 1), bool), changes.astype(bool)]))


def normal(table: "pyarrow.Table") -> "pyarrow.Table":
    """Return the same columns in few types, each in one piece; numbers that stand for texts become texts."""
    import pyarrow

    arrays = [_normal(name, table[name]) for name in table.column_names]
    return pyarrow.table(arrays, names=table.column_names)


def _batches(file: "parquet.ParquetFile", names: list[str], span: Span) -> Iterator["pyarrow.RecordBatch"]:
    """Yield the batches of a span, from no more row groups than it takes."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    end = np.cumsum(sizes)
    groups = [group for group, size in enumerate(sizes) if end[group] > span.start and end[group] - size < span.stop]
    if not groups:
        return
    here = int(end[groups[0]]) - sizes[groups[0]]
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups, columns=names):
        low, high = max(span.start - here, 0), min(span.stop - here, batch.num_rows)
        here += batch.num_rows
        if low < high:
            yield batch.slice(low, high - low)


def _is_readable(name: str, kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    number = types.is_integer(kind) or types.is_floating(kind)
    if types.is_null(kind):
        return True
    if name in _TEXTS:
        return bool(text or number)
    return bool(types.is_boolean(kind) if name == "correct" else number)


def _normal(name: str, column: "pyarrow.ChunkedArray") -> "pyarrow.Array":
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if name == "correct":
        wanted = pyarrow.bool_()
    elif name in _TEXTS:
        wanted = pyarrow.large_string()
        if types.is_floating(column.type):
            return _texts_of_numbers(column)
    else:
        wanted = pyarrow.float64() if types.is_floating(column.type) else pyarrow.int64()
    whole = column.cast(wanted).combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):  # what no rows come to, before pyarrow 21
        return whole.chunk(0) if whole.num_chunks else pyarrow.array([], wanted)
    return whole


def _texts_of_numbers(column: "pyarrow.ChunkedArray") -> "pyarrow.Array":
    """Write numbers as a record would, each distinct one once."""
    import pyarrow

    coded = column.cast(pyarrow.float64()).combine_chunks().dictionary_encode()
    texts = [_AS_TEXT.validate_python(number) for number in coded.dictionary.to_pylist()]
    return pyarrow.array(texts, pyarrow.large_string()).take(coded.indices)
