"""Tables: pandas frames, CSV, Parquet, and whatever else Arrow reads; with a row a report, or a row a question."""

import csv
import io
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import batched, chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import pyarrow.compute as pc
from jaxtyping import Int, Shaped
from pyarrow import csv as pyarrow_csv
from pyarrow import parquet, types

from bayes_direag.data.columns import Columns
from bayes_direag.data.json_lines import signal_columns, table_of_records
from bayes_direag.data.long_table import Coded, LongTable, whole
from bayes_direag.data.records import COLUMNS, NUMBER, OF_OBSERVATION, OF_QUESTION, signal_column, signal_of, type_of
from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pandas


def table_of_frame(frame: Any, names: Columns) -> LongTable:
    """Take a frame or an Arrow table with a row a report or a question; the first row is line 1.

    Raises ObservationError if a value cannot be used, or a column is missing.
    """
    if not hasattr(frame, "iloc"):
        return table_of_arrow(pyarrow.table(frame), None, names)
    header = [str(name) for name in frame.columns]

    def coded(name: str, _: str) -> Coded:
        return _coded(frame.iloc[:, header.index(name)])

    return LongTable.of_rows(names.layout(header, None), coded, None, np.arange(len(frame)) + 1, names)


def _coded(column: "pandas.Series[Any]") -> Coded:
    if column.dtype == object:
        return Coded.of(column.tolist())
    return _coded_arrow(pyarrow.Table.from_pandas(column.to_frame("column"), preserve_index=False)["column"])


def _coded_arrow(column: pyarrow.ChunkedArray, path: Path | None = None) -> Coded:
    if types.is_dictionary(column.type):
        values = column.type.value_type
        if types.is_string_view(values):  # as categories of polars are; Arrow has no cast of such a dictionary
            values = pyarrow.string()
            column = column.cast(pyarrow.dictionary(pyarrow.int32(), values))
        column = column.cast(values)
    if types.is_nested(column.type):
        return Coded.of(column.to_pylist())
    encoded = column.dictionary_encode()
    if not encoded.num_chunks:
        return Coded.missing(0)
    values = encoded.chunk(0).dictionary
    is_short = types.is_float16(values.type) or types.is_float32(values.type)
    code = np.concatenate([chunk.indices.fill_null(-1).to_numpy() for chunk in encoded.chunks])
    try:
        return Coded.without_missing(values.to_numpy() if is_short else values.to_pylist(), code)
    except UnicodeDecodeError as error:
        raise ObservationError(
            "texts are not UTF-8",
            path=path,
            seen=error.object,
            expected="UTF-8",
            remedy="Write the table again.",
        ) from error


def table_of_arrow(
    table: pyarrow.Table, path: Path | None, names: Columns | None, first_line: int = 1, *, labelled: bool = True
) -> LongTable:
    """Take an Arrow table, with a row for each question if there is a column of observations, or for each report.

    Unless ``labelled``, gold answers and what else is known of questions are not looked at. Raises ObservationError if
    a value cannot be used, or a column is missing.
    """
    if not labelled:
        names = names and replace(names, needs_labels=False)
        table = table.select(_used(table.column_names, path, names, labelled=False))
    line = np.arange(table.num_rows) + first_line
    if "observations" in table.column_names:
        questions = _of_nested(table, path, names, line)
    else:
        layout = (names or Columns()).layout(table.column_names, path)
        questions = LongTable.of_rows(layout, lambda name, _: _coded_arrow(table[name], path), path, line, names)
    return questions if labelled else questions.unlabelled()


def _used(header: Sequence[str], path: Path | None, names: Columns | None, *, labelled: bool = True) -> list[str]:
    """Return which columns are read: without labels, none that holds what is known of a whole question.

    Raises ObservationError if a column is missing.
    """
    chosen = names or Columns()
    known = chosen.known(header)
    if "observations" in header:
        used = {"observations", *known.values()}
    else:
        of_reports = chosen.layout(header, path).values()
        used = {*chain.from_iterable(chain.from_iterable(each.values() for each in of_reports))}
    left_out = set() if labelled else {theirs for our, theirs in known.items() if our in OF_QUESTION}
    return [name for name in header if name in used - left_out]


def _of_nested(
    table: pyarrow.Table, path: Path | None, names: Columns | None, line: Int[np.ndarray, " row"]
) -> LongTable:
    chosen, lists = names or Columns(), table["observations"].combine_chunks()
    is_list = types.is_list(lists.type) or types.is_large_list(lists.type)
    if not is_list or not types.is_struct(lists.type.value_type):
        return table_of_records(list(zip(line.tolist(), table.to_pylist(), strict=True)), path, names)
    given = lists.flatten()
    fields = dict(zip(given.type.names, given.flatten(), strict=True))
    signals = fields.pop("confidences", pyarrow.nulls(0))
    if types.is_struct(signals.type):
        fields |= dict(zip(map(signal_column, signals.type.names), signals.flatten(), strict=True))
    own, of_reports = chosen.known(table.column_names), chosen.known(fields)
    reports = {our: _coded_arrow(pyarrow.chunked_array([fields[name]]), path) for our, name in of_reports.items()}
    if types.is_map(signals.type):
        reports |= signal_columns([{"confidences": dict(pairs or ())} for pairs in signals.to_pylist()])
    if "level" in reports:
        reports["level"] = reports["level"].changed(whole)
    return LongTable.of_questions(
        {our: _coded_arrow(table[name], path) for our, name in own.items() if our not in OF_OBSERVATION},
        reports,
        pc.list_value_length(lists).fill_null(0).to_numpy().astype(int),
        path,
        line,
        names,
    )


_BUFFER = 1 << 20


def parquet_tables(path: Path, names: Columns | None, rows_at_once: float) -> Iterator[LongTable]:
    """Read a Parquet file with a row for each report, or for each question: at once, or in parts without labels.

    Parts are of whole questions if the rows of each are adjacent. Raises ObservationError if the file or a value in it
    cannot be used.
    """
    labelled = rows_at_once == math.inf
    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
            columns = _used(file.schema_arrow.names, path, names, labelled=labelled)
            if labelled:
                yield table_of_arrow(file.read(columns=columns), path, names)
                return
            names = names and replace(names, needs_labels=False)
            n_rows = max(int(rows_at_once) // (8 if "observations" in columns else 1), 1)
            empty, first = file.schema_arrow.empty_table().select(columns), 1
            batches = (pyarrow.Table.from_batches([batch]) for batch in file.iter_batches(n_rows, columns=columns))
            for part in _whole_questions(chain([empty], batches), (names or Columns()).question, float(n_rows)):
                yield table_of_arrow(part, path, names, first)
                first += part.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise ObservationError(
            f"this Parquet file cannot be read ({error})",
            path=path,
            expected="a complete Parquet file",
            remedy="Write it again: a copy or a run may have been interrupted.",
        ) from error


def _whole_questions(tables: Iterator[pyarrow.Table], question: str, n_rows: float) -> Iterator[pyarrow.Table]:
    """Yield at least n rows at a time, cut where one question ends and the next begins; one table if there is none."""
    held, n_parts = next(tables), 0
    for table in tables:
        held = pyarrow.concat_tables([held, table])
        if n_whole := _n_of_whole_questions(held, question) if held.num_rows >= n_rows else 0:
            yield held[:n_whole]
            held, n_parts = held[n_whole:], n_parts + 1
    if held.num_rows or not n_parts:
        yield held


def _n_of_whole_questions(table: pyarrow.Table, question: str) -> int:
    """Return the number of rows without those of the last question, which may go on."""
    if "observations" in table.column_names:
        return int(table.num_rows)
    names = table[question]
    others = np.flatnonzero(pc.not_equal(names, names[-1]).fill_null(True).to_numpy())
    return int(others[-1]) + 1 if len(others) else 0


def csv_tables(lines: Iterable[str], path: Path, names: Columns | None, rows_at_once: float) -> Iterator[LongTable]:
    """Take the lines of a CSV file with a row a report or a question, at once or in parts of whole questions.

    Raises ObservationError if the file or a value in it cannot be used.
    """
    chosen, n_read = names or Columns(), count(1)
    lines = (line for line, _ in zip(_with_any_end(lines), n_read, strict=False))
    delimiter, lines = delimited(lines)
    _, header = next(csv_rows(lines, path, delimiter))
    layout = chosen.layout(header, path)
    number = _number if delimiter == "," else lambda cell: _number(cell.replace(",", "."))
    meaning: dict[type, Callable[[str], object]] = {str: str, int: number, float: number, bool: _flag}
    n_rows = rows_at_once / 8
    blocks = _csv_blocks(lines, next(n_read), path, header, delimiter, max(int(min(n_rows, _LINES_AT_ONCE)), 1))
    empty = pyarrow.table({name: pyarrow.array([], pyarrow.string()) for name in header} | {_LINE: np.arange(0)})
    for part in _whole_questions(chain([empty], blocks), chosen.question, n_rows):

        def coded(name: str, our: str, part: pyarrow.Table = part) -> Coded:
            return _coded_arrow(part[name]).changed(meaning[type_of(our)])

        yield LongTable.of_rows(layout, coded, path, part[_LINE].to_numpy(), names)


def delimited(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return all lines, and before them what divides the cells: a comma, or what the header has more of: ; or tabs."""
    start: list[str] = []
    while not "".join(start).strip() and (line := next(lines, None)) is not None:
        start.append(line)
    return max(",;\t", key="".join(start).count), chain(start, lines)


#: The number of lines that Arrow reads at once, and the name of a column that no header has.
_LINES_AT_ONCE, _LINE = 1 << 16, "\n"


def _csv_blocks(
    lines: Iterator[str], first: int, path: Path, header: Sequence[str], delimiter: str, n_lines: int
) -> Iterator[pyarrow.Table]:
    """Yield tables of texts, with the line of each row.

    Arrow reads them five times as fast as Python, but up to the first quotation mark, blank line or error alone: it
    does not say on which lines rows are, nor what is wrong with them.
    """
    options = pyarrow_csv.ConvertOptions(
        column_types=dict.fromkeys(header, pyarrow.string()), null_values=[""], strings_can_be_null=True
    )
    cells = pyarrow_csv.ParseOptions(delimiter=delimiter)
    while chunk := list(islice(lines, n_lines)):
        text, table = "".join(chunk), None
        if '"' not in text and "\r" not in text.replace("\r\n", ""):
            whole_text = pyarrow_csv.ReadOptions(column_names=header, block_size=min(4 * len(text), 2**31 - 1))
            with suppress(pyarrow.ArrowInvalid):
                table = pyarrow_csv.read_csv(pyarrow.BufferReader(text.encode()), whole_text, cells, options)
        if table is None or table.num_rows < len(chunk):
            break
        yield table.append_column(_LINE, [np.arange(first, first + len(chunk))])
        first += len(chunk)
    for rows in batched(csv_rows(chain(chunk, lines), path, delimiter, first, len(header)), n_lines):
        columns = zip(*(cells for _, cells in rows), strict=True)
        texts = {
            name: pyarrow.array([cell or None for cell in column], pyarrow.string())
            for name, column in zip(header, columns, strict=True)
        }
        yield pyarrow.table(texts | {_LINE: np.array([line for line, _ in rows])})


def csv_rows(
    lines: Iterable[str], path: Path, delimiter: str = ",", line: int = 1, width: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file with their lines; raise ObservationError for one with an error.

    The first of the lines may be another than line 1 of the file, and the number of cells may be known.
    """
    limit, n_before = csv.field_size_limit(sys.maxsize), line - 1
    try:
        reader = csv.reader(_with_any_end(lines), delimiter=delimiter, strict=True)
        for cells in reader:
            width = width or len(cells)
            if cells and len(cells) != width:
                raise ObservationError(
                    f"this row has {len(cells)} cells",
                    path=path,
                    line=line,
                    seen=delimiter.join(cells),
                    expected=f"{width} cells, as in the header",
                    remedy=f"Put quotation marks around cells that contain {delimiter!r}.",
                )
            if cells:
                yield line, cells
            line = n_before + reader.line_num + 1
    except csv.Error as error:
        raise _not_csv(path, line, str(error)) from error
    finally:
        csv.field_size_limit(limit)


def _with_any_end(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that may also end in a carriage return."""
    return chain.from_iterable(io.StringIO(line, newline="") if "\r" in line else (line,) for line in lines)


def _not_csv(path: Path, line: int | None, reason: str) -> ObservationError:
    return ObservationError(
        f"this is not CSV ({reason})",
        path=path,
        line=line,
        expected="cells with commas, semicolons or tabs between them, and paired quotation marks",
        remedy="Write the table with a CSV library, which adds quotation marks where needed.",
    )


def _number(cell: str) -> object:
    try:
        return float(cell)
    except ValueError:
        return cell


def _flag(cell: str) -> object:
    return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)


def long_frame(table: LongTable) -> "pandas.DataFrame":
    """Return questions in long form: one row for each report, in :data:`~bayes_direag.data.records.COLUMNS`.

    Further signals have columns after the stated confidence. A question without reports is one row with an empty level.
    """
    import pandas as pd

    place = COLUMNS.index("confidence") + 1
    dtypes = {str: "str", int: "Int64", float: "Float64", bool: "boolean"}
    is_written = table.is_report.copy()
    is_written[table.start[table.n_reports == 0]] = True
    columns: dict[str, object] = {}
    for name in (*COLUMNS[:place], *_further_signals(table), *COLUMNS[place:]):
        own = name == "problem_id" or name in OF_QUESTION
        values = table.texts_of_questions(name).objects()[table.question] if own else _of_rows(table, name)
        columns[name] = pd.array(values[is_written], dtypes[type_of(name)])
    return pd.DataFrame(columns)


def write_parquet(table: LongTable, path: Path) -> None:
    """Write a row for each question, with its reports as a list of structs: the fields of a JSON line."""
    dtypes = {str: "string", int: "int64", float: "float64", bool: "bool"}

    def of_reports(name: str) -> pyarrow.Array:
        return pyarrow.array(_of_rows(table, name)[table.is_report], dtypes[type_of(name)], from_pandas=True)

    reports = {name: of_reports(name) for name in OF_OBSERVATION}
    if further := _further_signals(table):
        arrays = [of_reports(name) for name in further]
        reports["confidences"] = pyarrow.StructArray.from_arrays(arrays, [signal_of(name) for name in further])
    ends = np.concatenate([[0], np.cumsum(table.n_reports)]).astype(np.int32)
    columns = {
        name: pyarrow.array(table.texts_of_questions(name).objects(), dtypes[type_of(name)])
        for name in ("problem_id", *OF_QUESTION)
    }
    structs = pyarrow.StructArray.from_arrays([*reports.values()], [*reports])
    columns["observations"] = pyarrow.ListArray.from_arrays(ends, structs)
    parquet.write_table(pyarrow.table(columns), path, row_group_size=1 << 16)


def _further_signals(table: LongTable) -> list[str]:
    """Return the columns of the signals other than the stated confidence."""
    return [signal_column(name) for name in table.percents if name != NUMBER]


def write_parquet_parts(tables: Iterable["pandas.DataFrame"], path: Path) -> None:
    """Write frames of the same columns one after the other, each as a row group, as pandas would write them."""
    with ExitStack() as stack:
        writer = None
        for table in tables:
            rows = pyarrow.Table.from_pandas(table, preserve_index=False)
            writer = writer or stack.enter_context(parquet.ParquetWriter(path, rows.schema))
            writer.write_table(rows)


def _of_rows(table: LongTable, name: str) -> Shaped[np.ndarray, " row"]:
    if type_of(name) is str:
        return table.texts(name).objects()
    return table.percents[NUMBER] if name == "confidence" else table.numbers(name)
