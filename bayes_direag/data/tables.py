"""Tables: pandas frames, CSV, Parquet, and whatever else Arrow reads; with a row a report, or a row a question.

All readers raise ObservationError if a table cannot be read. What its columns mean is not looked at, but for a column
``observations`` with lists of reports, whose fields have our names.
"""

import csv
import io
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import pyarrow.compute as pc
from pyarrow import parquet, types

from bayes_direag.data.json_lines import columns_by_name, table_of_records
from bayes_direag.data.records import NUMBERS, OF_OBSERVATION, OF_QUESTION, SIGNALS, ByName
from bayes_direag.data.source_table import DictionaryColumn, QuestionTable, RowTable, SourceTable, whole
from bayes_direag.errors import ColumnsWarning, ObservationError

if TYPE_CHECKING:
    import pandas

_ABOUT = ("problem_id", *OF_QUESTION)


def table_of_frame(frame: Any) -> SourceTable:
    """Take a frame, with the named parts of its index, or an Arrow table; the first row is line 1.

    Parts of a column's name are joined: ``("answer", "gpt")`` is ``answer_gpt``.
    """
    if not hasattr(frame, "iloc"):
        return table_of_arrow(pyarrow.table(frame))
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(named) if named else frame
    header = ["_".join(filter(None, map(str, name if isinstance(name, tuple) else (name,)))) for name in frame.columns]
    return RowTable(
        header, cache(lambda name: _frame_column(frame.iloc[:, header.index(name)])), np.arange(len(frame)) + 1
    )


def _frame_column(column: "pandas.Series[Any]") -> DictionaryColumn:
    if column.dtype != object:
        with suppress(pyarrow.ArrowException, TypeError):  # for types that Arrow lacks, such as complex numbers
            values = pyarrow.Table.from_pandas(column.to_frame("column"), preserve_index=False)["column"]
            if not isinstance(values.type, pyarrow.BaseExtensionType):  # such as periods, which are numbers there
                return _arrow_column(values)
    return DictionaryColumn.of(column.tolist())


def _arrow_column(column: pyarrow.ChunkedArray, path: Path | None = None) -> DictionaryColumn:
    if types.is_dictionary(column.type):
        values = column.type.value_type
        if types.is_string_view(values):  # as categories of polars are; Arrow has no cast of such a dictionary
            values = pyarrow.string()
            column = column.cast(pyarrow.dictionary(pyarrow.int32(), values))
        column = column.cast(values)
    if isinstance(column.type, pyarrow.BaseExtensionType):
        if column.type.extension_name != "arrow.json":
            raise ObservationError(
                "a column has a type that is not read",
                path=path,
                seen=str(column.type),
                expected="texts, numbers, flags and nulls",
                remedy="Convert the column and write the table again.",
            )
        column = column.cast(column.type.storage_type)
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
        raise _not_text(path, error) from error


def _not_text(path: Path | None, error: UnicodeDecodeError) -> ObservationError:
    return ObservationError(
        "texts are not UTF-8", path=path, seen=error.object, expected="UTF-8", remedy="Write the table again."
    )


def table_of_arrow(table: pyarrow.Table, path: Path | None = None) -> SourceTable:
    """Take an Arrow table, with a row for each question if there is a column of observations, or for each report."""
    line = np.arange(table.num_rows) + 1
    if "observations" not in table.column_names:
        return RowTable(table.column_names, cache(lambda name: _arrow_column(table[name], path)), line, path)
    lists = table["observations"].combine_chunks()
    is_list = types.is_list(lists.type) or types.is_large_list(lists.type)
    if not is_list or not types.is_struct(lists.type.value_type):
        return table_of_records(list(zip(line.tolist(), table.to_pylist(), strict=True)), path)
    rows = lists.flatten()
    fields = dict(zip(rows.type.names, rows.flatten(), strict=True))
    reports = {
        name: _arrow_column(pyarrow.chunked_array([values]), path)
        for name, values in fields.items()
        if name in OF_OBSERVATION
    }
    if "confidences" in fields:
        reports |= _columns_by_name(fields["confidences"], SIGNALS, path)
    if "level" in reports:
        reports["level"] = reports["level"].changed(whole)
    about = {name: _arrow_column(table[name], path) for name in _ABOUT if name in table.column_names}
    if "numbers" in table.column_names:
        about |= _columns_by_name(table["numbers"].combine_chunks(), NUMBERS, path)
    n_reports = pc.list_value_length(lists).fill_null(0).to_numpy().astype(int)
    return QuestionTable(about, reports, n_reports, line, path)


def _columns_by_name(values: pyarrow.Array, of: ByName, path: Path | None) -> dict[str, DictionaryColumn]:
    """Return the columns of values by name, which rows have as a struct or a map in one field."""
    if types.is_struct(values.type):
        named = zip(values.type.names, values.flatten(), strict=True)
        return {of.column(name): _arrow_column(pyarrow.chunked_array([each]), path) for name, each in named}
    maps = values.to_pylist() if types.is_map(values.type) else []
    return columns_by_name([{of.field: dict(pairs or ())} for pairs in maps], of)


#: No more values a column are read than these, in all and for each byte of a file: its claims may be false.
_MOST_VALUES, _MOST_A_BYTE = 50_000_000, 100


def parquet_table(path: Path) -> SourceTable:
    """Read a Parquet file with a row for each report, or for each question; of rows, a column when it is needed."""
    with read_whole(path):
        file = parquet.ParquetFile(path)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        n_columns = file.metadata.num_columns
        claimed = max((sum(group.column(k).num_values for group in groups) for k in range(n_columns)), default=0)
        if claimed > min(_MOST_VALUES, _MOST_A_BYTE * path.stat().st_size):
            raise pyarrow.ArrowInvalid(f"it claims to hold {claimed:,} values in {path.stat().st_size:,} bytes")
        header = file.schema_arrow.names
        if "observations" in header:
            known = [name for name in header if name in ("observations", "numbers", *_ABOUT)]
            if left_out := [name for name in header if name not in known]:
                remark = f"{path}: not read, and not written again: {', '.join(left_out)}. JSON Lines keep all fields."
                warnings.warn(remark, ColumnsWarning, stacklevel=2)
            return table_of_arrow(file.read(known), path)

    @cache
    def column(name: str) -> DictionaryColumn:
        with read_whole(path):
            return _arrow_column(file.read([name])[name], path)

    return RowTable(header, column, np.arange(file.metadata.num_rows) + 1, path)


@contextmanager
def read_whole(path: Path) -> Iterator[None]:
    """Raise ObservationError if Parquet that the block reads is damaged, or no Parquet."""
    try:
        yield
    except UnicodeDecodeError as error:  # of a column's name
        raise _not_text(path, error) from error
    except (pyarrow.ArrowException, OSError) as error:
        raise ObservationError(
            f"this Parquet file cannot be read ({error})",
            path=path,
            expected="a complete Parquet file",
            remedy="Write it again: a copy or a run may have been interrupted.",
        ) from error


def csv_table(lines: Iterable[str], path: Path) -> RowTable:
    """Take the lines of a CSV file with a row a report or a question.

    A column without a name is called by its place, such as ``column 1``; one that is empty too is left out.
    """
    delimiter, names, columns, line = csv_columns(lines, path)
    header = {
        name or f"column {number}": cells
        for number, (name, cells) in enumerate(zip(names, columns, strict=True), 1)
        if name or any(cells)
    }
    is_once = len({*filter(None, names)}) == len([*filter(None, names)])
    return RowTable(
        [*header] if is_once else names,
        cache(lambda name: DictionaryColumn.of(cell or None for cell in header[name])),
        np.array(line, int),
        path,
        delimiter,
    )


def csv_columns(lines: Iterable[str], path: Path) -> tuple[str, list[str], list[Sequence[str]], list[int]]:
    """Return what divides the cells of a CSV file, its header, its columns as texts, and the lines of the rows.

    Cells are divided by a comma, or by what the header has more of: semicolons or tabs. Where names in the header are
    among spaces, those of all cells are removed; of a formula of a text (``="5"``) the text counts. Raises
    ObservationError for a row with more or fewer cells.
    """
    whole = [*_with_any_end(lines)]
    n_before = next((number for number, line in enumerate(whole) if line.strip()), len(whole))
    if said := re.fullmatch(r'"?sep=([,;\t])"?', "".join(whole[n_before : n_before + 1]).strip("\r\n")):  # of Excel
        n_before += 1
    delimiter = said[1] if said else max(",;\t", key="".join(whole[n_before : n_before + 1]).count)
    (_, spelled), *rows = [*_csv_rows(whole[n_before:], path, delimiter, n_before + 1)] or [(1, [""])]
    header = [_cell(name, is_padded=True) for name in spelled]
    columns: list[Sequence[str]] = [*zip(*(cells for _, cells in rows), strict=True)] or [()] * len(header)
    if spelled != header or any('="' in line for line in whole):
        columns = [[_cell(cell, is_padded=spelled != header) for cell in column] for column in columns]
    return delimiter, header, columns, [line for line, _ in rows]


def _cell(text: str, *, is_padded: bool) -> str:
    text = text.strip() if is_padded else text
    return text[2:-1] if text.startswith('="') and text.endswith('"') else text


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
