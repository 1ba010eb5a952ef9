"""Observation files: told apart by content when read, by suffix when written; a file is whole or not there at all."""

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import from_json

from bayes_direag.data.columns import Columns, Row
from bayes_direag.data.long_table import LongTable, long_table
from bayes_direag.data.records import (
    COLUMNS,
    OF_OBSERVATION,
    OF_QUESTION,
    Origin,
    Question,
    check_unique,
    no_questions,
    question_from_record,
    question_from_rows,
)
from bayes_direag.errors import DirEAGError, ObservationError

if TYPE_CHECKING:
    import pandas


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path that takes the place of ``path`` once the block has succeeded.

    The temporary file lies in the same folder and has the same suffix. If the block raises, it is removed and
    what stood at ``path`` before is untouched; so a reader sees the old file or the new one, never a part.

    The folder must exist. Raises FileNotFoundError if the block wrote nothing to the temporary path.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def as_records(table: "pandas.DataFrame") -> list[dict[str, object]]:
    """Return the rows as plain Python values by column: missing ones (None, NaN, NA) as None."""
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]


def check_table_path(path: str | Path) -> None:
    """Raise DirEAGError unless the suffix is one that :func:`write_table` knows."""
    suffix = Path(path).suffix
    if suffix.lower() not in _WRITERS:
        raise DirEAGError(f"{path}: saw the suffix {suffix!r}; expected one of {', '.join(_WRITERS)}. Rename it.")


def write_table(table: "pandas.DataFrame", path: str | Path) -> None:
    """Write a table as CSV, JSON Lines or Parquet, by suffix; completely or not at all.

    Every number is written to its last digit. Missing values are empty in CSV and null elsewhere, so CSV alone
    cannot tell a missing text from an empty one. A table without rows keeps its columns, but for JSON Lines.
    Raises DirEAGError as :func:`check_table_path` does.
    """
    check_table_path(path)
    with atomic_path(path) as partial_path:
        _WRITERS[partial_path.suffix.lower()](table, partial_path)


def _table_as_json_lines(table: "pandas.DataFrame", path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in as_records(table):
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


_WRITERS: dict[str, Callable[["pandas.DataFrame", Path], None]] = {
    ".csv": lambda table, path: table.to_csv(path, index=False),
    ".jsonl": _table_as_json_lines,
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
}

_REQUIRED = ("problem_id", "level", "answer", "confidence")

#: A record with one of these is a question, one without is a row.
_WITH_REPORTS = frozenset({"observations", "outputs"})

# The names of the released implementation of the paper, by those of this project.
_RELEASED = {
    "observations": "outputs",
    "level": "level_index",
    "answer": "pred_answer_norm",
    "gold_answer": "gold_answer_norm",
}


def is_parquet(path: str | Path) -> bool:
    """Tell by its first bytes whether there is a Parquet file."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def read_file(path: Path, columns: Columns | None = None) -> tuple[LongTable, tuple[Question, ...]]:
    """Return the columns of an observation file of any form, and its records; see :func:`read_records`."""
    if columns is not None or not is_parquet(path):
        questions, origin = read_records(path, columns)
        check_unique(questions, origin)
        return long_table(questions, origin), questions
    from bayes_direag.data.parquet import whole_file

    part = whole_file(path)
    if not len(part.start):
        raise no_questions(path)
    part.check()
    return part.long_table(), part.records()


def read_records(path: Path, columns: Columns | None = None) -> tuple[tuple[Question, ...], Origin]:
    """Read the questions of a file, row by row, and the line on which each begins.

    JSON Lines hold one question a line, in this project's form or in that of the released implementation of the paper;
    CSV is a table in long form. If ``columns`` are named, so may JSON Lines be.

    Raises
    ------
    ObservationError
        If the file cannot be read, or something in it cannot be used.
    """
    if is_parquet(path):
        from bayes_direag.data.parquet import rows_of

        return questions_of_records(list(enumerate(rows_of(path), 1)), path, columns or Columns())
    text = _text(path)
    start = text.lstrip()[:1]
    if not start:
        raise ObservationError(
            "the file is empty",
            path=path,
            expected="one question a line",
            remedy="Check that the run that should have written it has finished.",
        )
    if start in "{[":
        return questions_of_records(list(_json_lines(text, path)), path, columns)
    return questions_of_rows(list(_csv_rows(text, path, columns or Columns())), path, columns)


def questions_of_records(
    numbered: Sequence[tuple[int, object]], path: Path | None, columns: Columns | None
) -> tuple[tuple[Question, ...], Origin]:
    """Make a question of each record or, if columns are named and none holds observations, of the rows that they are.

    Raises
    ------
    ObservationError
        If something in them cannot be used; ``path`` and the records' numbers are for that.
    """
    if columns is not None:
        given = [(line, row) for line, row in numbered if isinstance(row, Mapping) and not _WITH_REPORTS & row.keys()]
        if len(given) == len(numbered):
            check_columns(list(dict.fromkeys(str(name) for _, row in given for name in row)), path, columns)
            rows = [(line, columns.row(row)) for line, row in given]
            return questions_of_rows(rows, path, columns)
        numbered = columns.nested(numbered, path)
    questions = [
        _question(record, path, line, {} if columns is None else columns.spelling) for line, record in numbered
    ]
    return tuple(questions), Origin(path, tuple(line for line, _ in numbered))


def questions_of_rows(
    numbered: Sequence[tuple[int, Row]], path: Path | None, columns: Columns | None
) -> tuple[tuple[Question, ...], Origin]:
    """Make the questions of a table in long form, in the order of their first rows, each with the line of that.

    Raises ObservationError as :func:`questions_of_records` does.
    """
    spelling: dict[str, str] = {}
    if columns is not None:
        columns.in_our_form(numbered, path)
        spelling = columns.spelling
    groups: dict[object, list[tuple[int, Row]]] = {}
    for line, row in numbered:
        groups.setdefault(row.get("problem_id"), []).append((line, row))
    lines, questions = [], []
    for group in groups.values():
        own, rows = zip(*group, strict=True)
        lines.append(own[0])
        questions.append(question_from_rows(rows, own, path, spelling))
    return tuple(questions), Origin(path, tuple(lines))


def write_questions(questions: Sequence[Question], path: str | Path) -> None:
    """Write questions as JSON Lines, Parquet or CSV, whichever the suffix says; whole or not at all.

    JSON Lines keep every field. The tables are in long form and hold the columns ``problem_id``, ``level``,
    ``level_name``, ``answer``, ``confidence``, ``correct``, ``group``, ``gold_answer``, ``cluster``,
    ``dataset``, ``model`` and ``question``; a question without observations is one row with an empty level.

    Raises
    ------
    ObservationError
        If the suffix is none of ``.jsonl``, ``.parquet`` and ``.csv``, or the file cannot be written.
    """
    path = Path(path)
    writers: dict[str, Callable[[Sequence[Question], Path], None]] = {
        ".jsonl": _to_json_lines,
        ".parquet": _to_parquet,
        ".csv": _to_csv,
    }
    if path.suffix.lower() not in writers:
        raise ObservationError(
            f"no format goes by the suffix {path.suffix!r}",
            path=path,
            expected=" or ".join(writers),
            remedy="Give the file one of these suffixes.",
        )
    try:
        with atomic_path(path) as temporary:
            writers[path.suffix.lower()](questions, temporary)
    except OSError as error:
        raise ObservationError(
            f"the file cannot be written ({error.strerror or error})",
            path=path,
            expected="a file in an existing folder that may be written",
            remedy="Create the folder, or write somewhere else.",
        ) from error


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        known = {FileNotFoundError: "there is no such file", IsADirectoryError: "this is a folder"}
        raise ObservationError(
            known.get(type(error), f"the file cannot be read ({error.strerror or error})"),
            path=path,
            expected="an observation file (JSON Lines, Parquet or CSV)",
            remedy="Check the path.",
        ) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ObservationError(
            "this is not UTF-8 text",
            path=path,
            line=data.count(b"\n", 0, error.start) + 1,
            seen=data[error.start : error.end],
            expected="UTF-8",
            remedy="Save the file in UTF-8, or check that it is an observation file at all.",
        ) from error


def _json_lines(text: str, path: Path) -> Iterator[tuple[int, object]]:
    """Yield the values of JSON Lines, each with its line."""
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for position, (number, line) in enumerate(numbered):
        try:
            yield number, from_json(line)
        except ValueError as error:
            raise _not_json(error, path, number, line, position, last=line is numbered[-1][1]) from error


def _question(record: object, path: Path | None, line: int, spelling: Mapping[str, str]) -> Question:
    if not isinstance(record, dict) or "observations" in record:
        return question_from_record(record, path, line, spelling=spelling)
    if "outputs" in record:
        return question_from_record(_renamed(record), path, line, spelling=_RELEASED)
    raise ObservationError(
        "this object holds neither observations nor outputs",
        path=path,
        line=line,
        seen=sorted(record),
        expected="observations (this project's form) or outputs (the released implementation's)",
        remedy="Check that this is an observation file and not, for example, a question set; if it has a line a "
        "report, name its columns (--column level=NAME).",
    )


def _not_json(error: ValueError, path: Path, number: int, line: str, complete: int, *, last: bool) -> ObservationError:
    """Return the error of a line that is not JSON: cut off, if it is the last of several."""
    reason = str(error).replace("line 1 ", "")
    if last and complete:
        problem, seen = f"this last line is cut off ({reason})", line[-40:]
        remedy = f"The lines before it ({complete}) are whole and fine: remove this one, or resume the run."
    else:
        problem, seen = f"this line is not JSON ({reason})", line
        remedy = "Correct the line; an object or a list that spans several lines must stand on one."
    return ObservationError(
        problem, path=path, line=number, seen=seen, expected="one whole JSON object a line", remedy=remedy
    )


def _renamed(record: dict[str, object]) -> dict[str, object]:
    """Return a record of the released implementation under this project's names.

    Its normalised answers go before its raw ones, which stand in only where the field is absent (a null means
    that there was no answer). Its ``level``, the signed strength of the prompt, gives way to ``level_index``.
    """
    outputs = record["outputs"]
    gold = record.get("gold_answer_norm")
    renamed = {name: value for name, value in record.items() if name != "outputs"}
    renamed["gold_answer"] = record.get("gold_answer_raw") if gold is None else gold
    renamed["observations"] = [_renamed_output(output) for output in outputs] if isinstance(outputs, list) else outputs
    return renamed


def _renamed_output(output: object) -> object:
    if not isinstance(output, dict):
        return output
    kept = {name: value for name, value in output.items() if name not in ("level", "level_index")}
    if "level_index" in output:
        kept["level"] = output["level_index"]
    kept["answer"] = output.get("pred_answer_norm", output.get("pred_answer_raw"))
    return kept


def _csv_rows(text: str, path: Path, columns: Columns) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a CSV table as numbers, flags and texts, each with the line on which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        header = next(reader)
        names = check_columns(header, path, columns)
        line = reader.line_num + 1
        for cells in reader:
            if cells:
                if len(cells) != len(header):
                    raise ObservationError(
                        f"this row has {len(cells)} cells",
                        path=path,
                        line=line,
                        seen=",".join(cells),
                        expected=f"{len(header)} cells, as in the header",
                        remedy="Put quotation marks around cells that hold commas.",
                    )
                yield line, {name: _value(name, cell) for name, cell in zip(names, cells, strict=True) if name}
            line = reader.line_num + 1
    except csv.Error as error:
        raise ObservationError(
            f"this is not CSV ({error})",
            path=path,
            line=line,
            expected="comma-separated cells, quotation marks in pairs",
            remedy="Write the table with a CSV library, which quotes what needs it.",
        ) from error


def _value(column: str, cell: str) -> object:
    """Return what a CSV cell means; a cell that should be a number or a flag and is none stays text."""
    if not cell:
        return None
    if column == "correct":
        return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)
    if column in ("level", "confidence"):
        try:
            return float(cell)
        except ValueError:
            return cell
    return cell


def check_columns(given: Sequence[str], path: Path | None, columns: Columns) -> list[str | None]:
    """Return what the columns of a table are called here; see :meth:`Columns.ours`.

    Raises ObservationError unless it has those that it needs, and those that were named, each once.
    """
    spelling, default = columns.spelling, Columns().spelling
    required = [name for name in _REQUIRED if name != "level" or columns.group not in given]
    wanted = [spelling[name] for name in default if name in required or spelling[name] != default[name]]
    missing = [name for name in wanted if name not in given]
    if missing or len(set(given)) < len(given):
        raise ObservationError(
            f"the table has no column {missing[0]}" if missing else "the table has two columns of one name",
            path=path,
            line=None if path is None else 1,
            seen=", ".join(given),
            expected=f"the columns {', '.join(wanted)}, each once",
            remedy="Say what they are called (--column level=NAME; in Python level='NAME'), or rename them; a file in "
            "another form than a table begins with { on every line.",
        )
    return [columns.ours(name) for name in given]


def _to_json_lines(questions: Iterable[Question], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for question in questions:
            file.write(question.model_dump_json(exclude_unset=True) + "\n")


def _to_csv(questions: Sequence[Question], path: Path) -> None:
    """Write questions as a CSV table with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in _long_form(questions):
            writer.writerow(str(value).lower() if isinstance(value, bool) else value for value in row.values())


def _to_parquet(questions: Sequence[Question], path: Path) -> None:
    """Write questions as a Parquet table."""
    import pyarrow
    from pyarrow import parquet

    types = {"level": pyarrow.int64(), "confidence": pyarrow.float64(), "correct": pyarrow.bool_()}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in COLUMNS])
    parquet.write_table(pyarrow.Table.from_pylist(list(_long_form(questions)), schema=schema), path)


def long_frame(questions: Iterable[Question]) -> "pandas.DataFrame":
    """Return questions in long form: a row an observation, in the columns of a table that is written."""
    import pandas as pd

    types = {"level": "Int64", "confidence": "Float64", "correct": "boolean"}
    table = pd.DataFrame(list(_long_form(questions)), columns=list(COLUMNS))
    return table.astype({name: types.get(name, "str") for name in COLUMNS})


def _long_form(questions: Iterable[Question]) -> Iterator[Row]:
    """Yield the rows of questions in long form, in the columns that observation files have."""
    for question in questions:
        for observation in question.observations or (None,):
            yield {
                "problem_id": question.problem_id,
                **{name: getattr(observation, name, None) for name in OF_OBSERVATION},
                **{name: getattr(question, name) for name in OF_QUESTION},
            }
