"""Observation files: recognised by content when read, by suffix when written, and never written in part."""

import csv
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from gzip import BadGzipFile, GzipFile
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.columns import Columns
from bayes_direag.data.records import Question
from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pandas

    import bayes_direag.data.long_table
    import bayes_direag.data.source_table

#: The formats in which tables are written.
SUFFIXES = (".csv", ".jsonl", ".parquet")
#: A compressed file may unpack to so many bytes for each of its own, which for a pipe are not known, and some more.
_MOST_A_BYTE, _OF_A_PIPE = 100, 1 << 20


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open a file, or what is compressed in it; raise ObservationError if it cannot be, or is a workbook."""
    try:
        file = path.open("rb")
    except OSError as error:
        known = {FileNotFoundError: "there is no such file", IsADirectoryError: "this is a folder"}
        problem = known.get(type(error), f"the file cannot be read ({error.strerror or error})")
        raise _unreadable(path, problem, "Check the path.") from error
    with file:
        start = file.peek(8)
        if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
            raise _unreadable(path, "this is a workbook, or an archive", "Save its sheet as CSV.")
        if not start.startswith(b"\x1f\x8b"):
            yield file
            return
        most = _MOST_A_BYTE * (path.stat().st_size or _OF_A_PIPE) + _OF_A_PIPE
        try:
            content = GzipFile(fileobj=file).read(most + 1)
        except (BadGzipFile, EOFError, zlib.error) as error:
            raise _unreadable(path, f"this is not a whole gzip file ({error})", "Compress it again.") from error
        if len(content) > most:
            raise _unreadable(path, f"it unpacks to more than {most:,} bytes", "If that is right, unpack it first.")
        yield BufferedReader(BytesIO(content))


def _unreadable(path: Path, problem: str, remedy: str) -> ObservationError:
    expected = "an observation file (JSON Lines, Parquet or CSV; text perhaps compressed by gzip)"
    return ObservationError(problem, path=path, expected=expected, remedy=remedy)


def lines_of(file: Iterable[bytes], path: Path) -> Iterator[str]:
    """Yield the lines of a file in UTF-8, each with its end; raise ObservationError for other bytes."""
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig")  # files that were joined have a byte order mark in their middle too
        except UnicodeDecodeError as error:
            raise ObservationError(
                "this is not UTF-8 text",
                path=path,
                line=number,
                seen=line[error.start : error.end],
                expected="UTF-8",
                remedy="Save the file in UTF-8, and check that it is an observation file.",
            ) from error


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, as :func:`lines_of` does."""
    with opened(path) as file:
        yield from lines_of(file, path)


def read_table(
    path: Path, names: Columns | None = None, *, with_labels: bool = True
) -> "bayes_direag.data.long_table.LongTable":
    """Read an observation file.

    JSON Lines hold one question a line, in this project's form or in that of the paper's released implementation, or
    one report a line. Parquet holds a question a row, or is a table in long form, as CSV is. Without ``with_labels``
    right answers, flags and weights are not looked at. Raises ObservationError if the file cannot be read, or a value
    in it cannot be used.
    """
    from bayes_direag.data.long_table import LongTable

    return LongTable.of(_source(path), names, with_labels=with_labels)


def _source(path: Path) -> "bayes_direag.data.source_table.SourceTable":
    with opened(path) as file:
        if file.peek(4).startswith(b"PAR1"):
            if not file.seekable():
                raise ObservationError(
                    "Parquet cannot be read from a pipe",
                    path=path,
                    expected="a file, or JSON Lines or CSV from the pipe",
                    remedy="Write it to a file first.",
                )
            from bayes_direag.data.tables import parquet_table

            return parquet_table(path)
        lines = [*lines_of(file, path)]
    start = next(filter(str.strip, lines), "").lstrip()
    if not start:
        raise ObservationError(
            "the file is empty",
            path=path,
            expected="one question a line",
            remedy="Check that the run that should have written it has finished.",
        )
    if start[0] in "{[":
        from bayes_direag.data.json_lines import json_lines, table_of_records

        return table_of_records([*json_lines(lines, path)], path)
    from bayes_direag.data.tables import csv_table

    return csv_table(lines, path)


def read_questions(path: str | Path) -> tuple[Question, ...]:
    """Read the records of an observation file, in its order; ObservationError if a value in it cannot be used."""
    return read_table(Path(path)).require_unique().records()


def write_questions(questions: Sequence[Question], path: str | Path) -> None:
    """Write questions as JSON Lines, Parquet or CSV, by suffix; see :func:`write_observations`."""
    from bayes_direag.data.json_lines import table_of_questions

    write_observations(table_of_questions(questions), path)


def write_observations(table: "bayes_direag.data.long_table.LongTable", path: str | Path) -> None:
    """Write questions as JSON Lines, Parquet or CSV, by suffix; completely or not at all.

    JSON Lines and Parquet have a line or row for each question, CSV has the rows of
    :func:`~bayes_direag.data.long_frame.long_frame`. Only JSON Lines
    keep fields that we do not know. Raises ObservationError for another suffix, or if the file cannot be written.
    """
    path = Path(path)
    check_table_path(path)
    try:
        if path.suffix.lower() == ".csv":
            from bayes_direag.data.long_frame import long_frame

            frame = long_frame(table)
            write_table(frame.assign(correct=frame["correct"].map({True: "true", False: "false"})), path)
            return
        with atomic_path(path) as partial_path:
            if path.suffix.lower() == ".parquet":
                from bayes_direag.data.long_frame import write_parquet

                write_parquet(table, partial_path)
            else:
                lines = (question.model_dump_json(exclude_unset=True) for question in table.records())
                _write_lines(lines, partial_path)
    except OSError as error:
        raise ObservationError(
            f"the file cannot be written ({error.strerror or error})",
            path=path,
            expected="a file in an existing folder that may be written",
            remedy="Create the folder, or write somewhere else.",
        ) from error


def as_records(table: "pandas.DataFrame") -> list[dict[str, object]]:
    """Return the rows as Python values by column; missing ones (None, NaN, NA) are None."""
    values = table.astype(object).where(table.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in values]


def check_table_path(path: str | Path) -> None:
    """Raise ObservationError unless the suffix is one that :func:`write_table` knows."""
    suffix = Path(path).suffix
    if suffix.lower() not in SUFFIXES:
        raise ObservationError(
            f"saw the suffix {suffix!r}", path=Path(path), expected=f"one of {', '.join(SUFFIXES)}", remedy="Rename it."
        )


def write_csv(table: "pandas.DataFrame", file: TextIO, *, header: bool = True) -> None:
    """Write a table as CSV, every text as it is; if one holds a carriage return, all are in quotation marks."""
    texts = table.select_dtypes(["object", "str", "category"])
    marked = any("\r" in str(text) for name in texts for text in texts[name].dropna().unique())
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if marked else csv.QUOTE_MINIMAL
    table.to_csv(file, index=False, header=header, lineterminator="\n", quoting=quoting)


def write_table(table: "pandas.DataFrame", path: str | Path) -> None:
    """Write a table as CSV, JSON Lines or Parquet, by suffix, in full precision; completely or not at all.

    Missing values are empty in CSV and null in the others, so only CSV cannot tell a missing text from an empty one.
    Without rows, CSV and Parquet keep the columns. Raises ObservationError for another suffix.
    """
    write_parts([table], path)


def write_parts(tables: Iterable["pandas.DataFrame"], path: str | Path) -> None:
    """Write tables of the same columns one after the other, as :func:`write_table` writes one."""
    check_table_path(path)
    with atomic_path(path) as partial_path:
        match partial_path.suffix.lower():
            case ".csv":
                with partial_path.open("w", encoding="utf-8", newline="") as file:
                    for number, table in enumerate(tables):
                        write_csv(table, file, header=number == 0)
            case ".parquet":
                from bayes_direag.data.long_frame import write_parquet_parts

                write_parquet_parts(tables, partial_path)
            case _:
                records = (row for table in tables for row in as_records(table))
                _write_lines((json.dumps(row, ensure_ascii=False, allow_nan=False) for row in records), partial_path)


def _write_lines(lines: Iterable[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
