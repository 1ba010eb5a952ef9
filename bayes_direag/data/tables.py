"""Tables: pandas frames, CSV, Parquet, and whatever else Arrow reads; with a row a report, or a row a question.

All readers raise ObservationError if a value cannot be used, or a column is missing.
"""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import pyarrow.compute as pc
from jaxtyping import Int, Shaped
from pyarrow import csv as pyarrow_csv
from pyarrow import parquet, types

from bayes_direag.data.columns import RUN, Columns
from bayes_direag.data.json_lines import signal_columns, table_of_records
from bayes_direag.data.long_table import DictionaryColumn, LongTable, whole
from bayes_direag.data.plain import flag
from bayes_direag.data.records import COLUMNS, NUMBER, OF_OBSERVATION, OF_QUESTION, signal_column, signal_of, type_of
from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pandas


def table_of_frame(frame: Any, names: Columns) -> LongTable:
    """Take a frame or an Arrow table with a row a report or a question; the first row is line 1."""
    if not hasattr(frame, "iloc"):
        return table_of_arrow(pyarrow.table(frame), None, names)
    header = [str(name) for name in frame.columns]

    def coded(name: str, _: str) -> DictionaryColumn:
        return _frame_column(frame.iloc[:, header.index(name)])

    return LongTable.of_rows(names.layout(header, None), coded, None, np.arange(len(frame)) + 1, names)


def _frame_column(column: "pandas.Series[Any]") -> DictionaryColumn:
    if column.dtype != object:
        with suppress(pyarrow.ArrowException, TypeError):  # for types that Arrow lacks, such as complex numbers
            return _arrow_column(pyarrow.Table.from_pandas(column.to_frame("column"), preserve_index=False)["column"])
    return DictionaryColumn.of(column.tolist())


def _arrow_column(column: pyarrow.ChunkedArray, path: Path | None = None) -> DictionaryColumn:
    if types.is_dictionary(column.type):
        values = column.type.value_type
        if types.is_string_view(values):  # as categories of polars are; Arrow has no cast of such a dictionary
            values = pyarrow.string()
            column = column.cast(pyarrow.dictionary(pyarrow.int32(), values))
        column = column.cast(values)
    if types.is_nested(column.type):
        return DictionaryColumn.of(column.to_pylist())
    encoded = column.dictionary_encode()
    if not encoded.num_chunks:
        return DictionaryColumn.missing(0)
    values = encoded.chunk(0).dictionary
    is_short = types.is_float16(values.type) or types.is_float32(values.type)
    code = np.concatenate([chunk.indices.fill_null(-1).to_numpy() for chunk in encoded.chunks])
    try:
        return DictionaryColumn.without_missing(values.to_numpy() if is_short else values.to_pylist(), code)
    except UnicodeDecodeError as error:
        raise ObservationError(
            "texts are not UTF-8",
            path=path,
            seen=error.object,
            expected="UTF-8",
            remedy="Write the table again.",
        ) from error


def table_of_arrow(table: pyarrow.Table, path: Path | None, names: Columns | None) -> LongTable:
    """Take an Arrow table, with a row for each question if there is a column of observations, or for each report."""
    line = np.arange(table.num_rows) + 1
    if "observations" in table.column_names:
        return _of_nested(table, path, names, line)
    layout = (names or Columns()).layout(table.column_names, path)
    return LongTable.of_rows(layout, lambda name, _: _arrow_column(table[name], path), path, line, names)


def unlabelled_columns(header: Sequence[str], names: Columns) -> list[str]:
    """Return which columns are read where questions are only predicted: none that holds what is known of a question."""
    known = names.known(header)
    about = {theirs for our, theirs in known.items() if our in OF_QUESTION}
    return [name for name in _used(header, None, names) if name not in about]


def _used(header: Sequence[str], path: Path | None, names: Columns) -> list[str]:
    if "observations" in header:
        used = {"observations", *names.known(header).values()}
    else:
        of_reports = names.layout(header, path).values()
        used = {*chain.from_iterable(chain.from_iterable(each.values() for each in of_reports))}
    return [name for name in header if name in used]


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
    reports = {our: _arrow_column(pyarrow.chunked_array([fields[name]]), path) for our, name in of_reports.items()}
    if types.is_map(signals.type):
        reports |= signal_columns([{"confidences": dict(pairs or ())} for pairs in signals.to_pylist()])
    if "level" in reports:
        reports["level"] = reports["level"].changed(whole)
    return LongTable.of_questions(
        {our: _arrow_column(table[name], path) for our, name in own.items() if our not in OF_OBSERVATION},
        reports,
        pc.list_value_length(lists).fill_null(0).to_numpy().astype(int),
        path,
        line,
        names,
    )


#: No more values a column are read than these, in all and for each byte of a file: its claims may be false.
_MOST_VALUES, _MOST_A_BYTE = 50_000_000, 100


def parquet_table(path: Path, names: Columns | None) -> LongTable:
    """Read a Parquet file with a row for each report, or for each question."""
    with read_whole(path), parquet.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        n_columns = file.metadata.num_columns
        claimed = max((sum(group.column(k).num_values for group in groups) for k in range(n_columns)), default=0)
        if claimed > min(_MOST_VALUES, _MOST_A_BYTE * path.stat().st_size):
            raise pyarrow.ArrowInvalid(f"it claims to hold {claimed:,} values in {path.stat().st_size:,} bytes")
        columns = _used(file.schema_arrow.names, path, names or Columns())
        return table_of_arrow(file.read(columns=columns), path, names)


@contextmanager
def read_whole(path: Path) -> Iterator[None]:
    """Raise ObservationError if Parquet that the block reads is damaged, or no Parquet."""
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise ObservationError(
            f"this Parquet file cannot be read ({error})",
            path=path,
            expected="a complete Parquet file",
            remedy="Write it again: a copy or a run may have been interrupted.",
        ) from error


_ANSWERS = ("answer", "gold_answer")
# A number whose comma is no comma between thousands.
_DECIMAL_COMMA = re.compile(r"[^\d.,]*(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+)[^\d.,]*")


def csv_table(lines: Iterable[str], path: Path, names: Columns | None) -> LongTable:
    """Take the lines of a CSV file with a row a report or a question."""
    header, delimiter, cells = csv_cells(lines, path)
    layout = (names or Columns()).layout([name for name in header if name], path)
    meaning: dict[type, Callable[[str], object]] = {str: str, int: _number, float: _number, bool: flag}

    def coded(name: str, our: str) -> DictionaryColumn:
        column = _arrow_column(cells[header.index(name)])
        if delimiter == ";" and our in _ANSWERS:
            _refuse_decimal_commas(column, cells[-1].to_numpy(), name, path)
        return column.changed(meaning[str if our == RUN else type_of(our)])

    return LongTable.of_rows(layout, coded, path, cells[-1].to_numpy(), names)


def _refuse_decimal_commas(column: DictionaryColumn, line: Int[np.ndarray, " row"], name: str, path: Path) -> None:
    """Raise ObservationError for a number with a decimal comma: 1,234 beside it would be taken for thousands."""
    for code, text in enumerate(column.values):
        if _DECIMAL_COMMA.fullmatch(text):
            raise ObservationError(
                "this number has a decimal comma",
                path=path,
                line=int(line[column.code == code].min()),
                field=name,
                seen=text,
                expected="decimal points",
                remedy="Export the table with decimal points (a spreadsheet: with English as its language). If such "
                "answers are texts, export it with commas between the cells.",
            )


def csv_cells(lines: Iterable[str], path: Path) -> tuple[list[str], str, pyarrow.Table]:
    """Return the header of a CSV file, what divides its cells, and its rows as texts, null if empty, and their lines.

    Cells are divided by a comma, or by what the header has more of: semicolons or tabs. Where names in the header are
    among spaces, those of all cells are removed. Raises ObservationError for a row with more or fewer cells.
    """
    whole = [*_with_any_end(lines)]
    n_before = next((number for number, line in enumerate(whole) if line.strip()), len(whole))
    delimiter = max(",;\t", key="".join(whole[n_before : n_before + 1]).count)
    rows = _csv_rows(whole[n_before:], path, delimiter, n_before + 1)
    line, spelled = next(rows, (1, [""]))
    header = [name.strip() for name in spelled]
    text, names = "".join(whole[line:]), list(map(str, range(len(header))))
    is_plain = '"' not in "".join(whole) and "\r" not in text.replace("\r\n", "")
    table = _plain_csv(text, names, delimiter) if is_plain else None
    if table is None or table.num_rows < len(whole) - line:  # Arrow does not say on which lines rows are
        numbered = [*rows]
        columns = zip(*(cells for _, cells in numbered), strict=True) if numbered else [[] for _ in header]
        texts = [pyarrow.array([cell or None for cell in column], pyarrow.string()) for column in columns]
        table, number = pyarrow.table(texts, names), [line for line, _ in numbered]
    else:
        number = [*range(line + 1, len(whole) + 1)]
    if spelled != header:
        trimmed = [pc.utf8_trim_whitespace(column) for column in table.columns]
        table = pyarrow.table(trimmed, table.column_names)
    return header, delimiter, table.append_column("line", [np.array(number, int)])


def _plain_csv(text: str, names: list[str], delimiter: str) -> pyarrow.Table | None:
    """Return the cells of a text without quotation marks, five times as fast as Python does; None if one is wrong."""
    options = pyarrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pyarrow.string()), null_values=[""], strings_can_be_null=True
    )
    whole_text = pyarrow_csv.ReadOptions(column_names=names, block_size=min(4 * len(text) + 1, 2**31 - 1))
    with suppress(pyarrow.ArrowInvalid):
        return pyarrow_csv.read_csv(
            pyarrow.BufferReader(text.encode()), whole_text, pyarrow_csv.ParseOptions(delimiter=delimiter), options
        )
    return None


def _csv_rows(lines: Iterable[str], path: Path, delimiter: str, line: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file that are not blank, with their lines; raise ObservationError for a wrong one."""
    limit, n_before, width = csv.field_size_limit(sys.maxsize), line - 1, 0
    try:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
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
        raise ObservationError(
            f"this is not CSV ({error})",
            path=path,
            line=line,
            expected="cells with commas, semicolons or tabs between them, and paired quotation marks",
            remedy="Write the table with a CSV library, which adds quotation marks where needed.",
        ) from error
    finally:
        csv.field_size_limit(limit)


def _with_any_end(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that may also end in a carriage return."""
    return chain.from_iterable(io.StringIO(line, newline="") if "\r" in line else (line,) for line in lines)


def _number(cell: str) -> object:
    try:
        return cell if "_" in cell else float(cell)  # Python takes 1_0 for 10
    except ValueError:
        return cell


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
    return [signal_column(name) for name in table.percents if name != NUMBER]


def write_parquet_parts(tables: Iterable["pandas.DataFrame"], path: Path) -> None:
    """Write frames of the same columns one after the other, each as a row group, as pandas would write them."""
    parts = (pyarrow.Table.from_pandas(table, preserve_index=False) for table in tables)
    first = next(parts)
    with parquet.ParquetWriter(path, first.schema) as writer:
        for rows in chain([first], parts):
            writer.write_table(rows)


def _of_rows(table: LongTable, name: str) -> Shaped[np.ndarray, " row"]:
    if type_of(name) is str:
        return table.texts(name).objects()
    return table.percents[NUMBER] if name == "confidence" else table.numbers(name)
