"""Observations as a table, Parquet or CSV: one row an observation."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_direag.data.parquet_rows import parquet_errors
from bayes_direag.data.records import Question, question_from_record
from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pyarrow

_OF_OBSERVATION = ("level", "level_name", "answer", "confidence", "correct")
_OF_QUESTION = ("gold_answer", "dataset", "model", "question")
COLUMNS = ("problem_id", *_OF_OBSERVATION, *_OF_QUESTION)
_REQUIRED = ("problem_id", "level", "answer", "confidence")

type _Row = dict[str, object]


def from_csv(text: str, path: Path) -> Iterable[tuple[int, Question]]:
    """Yield the questions of a CSV table, each with its first line; ``path`` is for the errors."""
    return _questions(_csv_rows(text, path), path)


def from_parquet(path: Path) -> Iterable[tuple[int, Question]]:
    """Yield the questions of a Parquet table, each with its first row, counted from 1."""
    from pyarrow import parquet

    with parquet_errors(path):
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        check_columns(names, path)
        table = file.read(columns=[name for name in COLUMNS if name in names])
    return from_table(table, range(1, table.num_rows + 1), path)


def from_table(table: "pyarrow.Table", lines: Iterable[int], path: Path) -> Iterable[tuple[int, Question]]:
    """Yield the questions of an Arrow table in long form, each with the line of its first row."""
    rows = table.to_pylist()
    for row in rows:
        row["level"] = _whole(row["level"])
    return _questions(zip(lines, rows, strict=True), path)


def to_csv(questions: Sequence[Question], path: Path) -> None:
    """Write questions as a CSV table with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in _rows(questions):
            writer.writerow(str(value).lower() if isinstance(value, bool) else value for value in row.values())


def to_parquet(questions: Sequence[Question], path: Path) -> None:
    """Write questions as a Parquet table."""
    import pyarrow
    from pyarrow import parquet

    types = {"level": pyarrow.int64(), "confidence": pyarrow.float64(), "correct": pyarrow.bool_()}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in COLUMNS])
    parquet.write_table(pyarrow.Table.from_pylist(list(_rows(questions)), schema=schema), path)


def _rows(questions: Iterable[Question]) -> Iterator[_Row]:
    for question in questions:
        for observation in question.observations or (None,):
            yield {
                "problem_id": question.problem_id,
                **{name: getattr(observation, name, None) for name in _OF_OBSERVATION},
                **{name: getattr(question, name) for name in _OF_QUESTION},
            }


@dataclass
class _Group:
    """The rows of one question: the record they make, and the line of each observation."""

    line: int
    record: _Row
    observations: list[_Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def _questions(rows: Iterable[tuple[int, _Row]], path: Path) -> Iterator[tuple[int, Question]]:
    """Yield the questions of numbered rows, in the order of their first rows."""
    groups: dict[object, _Group] = {}
    for line, row in rows:
        row = {name: value for name, value in row.items() if value is not None}
        name = row.get("problem_id")
        group = groups.setdefault(name, _Group(line, {} if name is None else {"problem_id": name}))
        for column in _OF_QUESTION:
            if column in row and group.record.setdefault(column, row[column]) != row[column]:
                raise ObservationError(
                    f"question {name!r} has {group.record[column]!r} in an earlier row",
                    path=path,
                    line=line,
                    field=column,
                    seen=row[column],
                    expected="one value in all rows of a question",
                    remedy="Make the rows agree, or give the questions different ids.",
                )
        if any(column in row for column in _OF_OBSERVATION):
            group.observations.append({column: row[column] for column in _OF_OBSERVATION if column in row})
            group.lines.append(line)
    for group in groups.values():
        record = {**group.record, "observations": group.observations}
        yield group.line, question_from_record(record, path, group.line, rows=group.lines)


def _csv_rows(text: str, path: Path) -> Iterator[tuple[int, _Row]]:
    """Yield the rows of a CSV table as numbers, flags and texts, each with the line on which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        header = next(reader)
        check_columns(header, path)
        line = reader.line_num + 1
        for cells in reader:
            if cells:
                _check_length(cells, header, path, line)
                yield line, {name: _value(name, cell) for name, cell in zip(header, cells, strict=True)}
            line = reader.line_num + 1
    except csv.Error as error:
        raise ObservationError(
            f"this is not CSV ({error})",
            path=path,
            line=line,
            expected="comma-separated cells, quotation marks in pairs",
            remedy="Write the table with a CSV library, which quotes what needs it.",
        ) from error


def check_columns(names: Sequence[str], path: Path) -> None:
    """Raise ObservationError unless a table has the columns that it needs, each once."""
    missing = [name for name in _REQUIRED if name not in names]
    if missing or len(set(names)) < len(names):
        raise ObservationError(
            f"the table has no column {missing[0]}" if missing else "the table has two columns of one name",
            path=path,
            line=1,
            seen=", ".join(names),
            expected=f"the columns {', '.join(_REQUIRED)}, each once",
            remedy="Name the columns so; a file in another form than a table begins with { on every line.",
        )


def _check_length(cells: Sequence[str], header: Sequence[str], path: Path, line: int) -> None:
    if len(cells) != len(header):
        raise ObservationError(
            f"this row has {len(cells)} cells",
            path=path,
            line=line,
            seen=",".join(cells),
            expected=f"{len(header)} cells, as in the header",
            remedy="Put quotation marks around cells that hold commas.",
        )


def _value(column: str, cell: str) -> object:
    """Return what a CSV cell means; a cell that should be a number or a flag and is none stays text."""
    if not cell:
        return None
    if column == "correct":
        return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)
    if column in ("level", "confidence"):
        try:
            return _whole(float(cell)) if column == "level" else float(cell)
        except ValueError:
            return cell
    return cell


def _whole(number: object) -> object:
    """Return a whole number as an int: tables hold levels as floats where one is missing."""
    return int(number) if isinstance(number, float) and number.is_integer() else number
