"""Observation files: recognised by content when read, by suffix when written, and never written in part."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import from_json

from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.records import (
    COLUMNS,
    NUMBER,
    OF_OBSERVATION,
    OF_QUESTION,
    Columns,
    Origin,
    Question,
    Row,
    check_unique,
    is_signal,
    question_from_record,
    question_from_rows,
    signal_column,
)
from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pandas

#: Questions, and where they were read.
type Records = tuple[tuple[Question, ...], Origin]

#: The formats in which tables are written.
SUFFIXES = (".csv", ".jsonl", ".parquet")

# The fields of replies, samples and guesses in files of the paper's released implementation, and of their answers.
_RELEASED = {"outputs": "pred_answer_norm", "samples": "pred_answer_norm", "topk_items": "answer_norm"}
# A record with one of these fields is a question, one without is a row.
_WITH_REPORTS = frozenset({"observations", *_RELEASED})


def as_records(table: "pandas.DataFrame") -> list[dict[str, object]]:
    """Return the rows as Python values by column; missing ones (None, NaN, NA) are None."""
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]


def check_table_path(path: str | Path) -> None:
    """Raise ObservationError unless the suffix is one that :func:`write_table` knows."""
    suffix = Path(path).suffix
    if suffix.lower() not in SUFFIXES:
        raise ObservationError(
            f"saw the suffix {suffix!r}", path=Path(path), expected=f"one of {', '.join(SUFFIXES)}", remedy="Rename it."
        )


def write_table(table: "pandas.DataFrame", path: str | Path) -> None:
    """Write a table as CSV, JSON Lines or Parquet, by suffix, in full precision; completely or not at all.

    Missing values are empty in CSV and null in the others, so only CSV cannot tell a missing text from an empty one.
    Without rows, CSV and Parquet keep the columns. Raises ObservationError for another suffix.
    """
    check_table_path(path)
    with atomic_path(path) as partial_path:
        match partial_path.suffix.lower():
            case ".csv":
                table.to_csv(partial_path, index=False, lineterminator="\n")
            case ".parquet":
                table.to_parquet(partial_path, index=False)
            case _:
                records = as_records(table)
                _write_lines((json.dumps(row, ensure_ascii=False, allow_nan=False) for row in records), partial_path)


def _write_lines(lines: Iterable[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_questions(questions: Sequence[Question], path: str | Path) -> None:
    """Write questions as JSON Lines, Parquet or CSV, by suffix; completely or not at all.

    JSON Lines keep every field; tables are those of :func:`long_frame`. Raises ObservationError for another suffix, or
    if the file cannot be written.
    """
    path = Path(path)
    try:
        if path.suffix.lower() == ".jsonl":
            with atomic_path(path) as temporary:
                _write_lines((question.model_dump_json(exclude_unset=True) for question in questions), temporary)
        else:
            table = long_frame(questions)
            if path.suffix.lower() == ".csv":
                table["correct"] = table["correct"].map({True: "true", False: "false"})
            write_table(table, path)
    except OSError as error:
        raise ObservationError(
            f"the file cannot be written ({error.strerror or error})",
            path=path,
            expected="a file in an existing folder that may be written",
            remedy="Create the folder, or write somewhere else.",
        ) from error


def long_frame(questions: Sequence[Question]) -> "pandas.DataFrame":
    """Return questions in long form: one row for each observation, in :data:`~bayes_direag.data.records.COLUMNS`.

    Further signals have columns after the stated confidence. A question without observations is one row with an empty
    level.
    """
    import pandas as pd

    rows: list[Row] = []
    for question in questions:
        about = {name: getattr(question, name) for name in ("problem_id", *OF_QUESTION)}
        for report in question.observations or (None,):
            signals = {signal_column(name): value for name, value in getattr(report, "confidences", {}).items()}
            rows.append({**about, **signals, **{name: getattr(report, name, None) for name in OF_OBSERVATION}})
    further = sorted({name for row in rows for name in row if is_signal(name)} - {signal_column(NUMBER)})
    place = COLUMNS.index("confidence") + 1
    columns = [*COLUMNS[:place], *further, *COLUMNS[place:]]
    types = {"level": "Int64", "confidence": "Float64", "correct": "boolean"} | dict.fromkeys(further, "Float64")
    return pd.DataFrame(rows, columns=columns).astype({name: types.get(name, "str") for name in columns})


def is_parquet(path: str | Path) -> bool:
    """Tell by its first bytes whether a file is Parquet; False if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def read_records(path: Path, columns: Columns | None = None) -> Records:
    """Read the questions of a file, at least one, and the line on which each begins.

    JSON Lines hold one question a line, in this project's form or in that of the paper's released implementation. CSV
    and Parquet are tables in long form, and so may JSON Lines be if ``columns`` are given.

    Raises ObservationError if the file cannot be read, or a value in it cannot be used.
    """
    if is_parquet(path):
        from bayes_direag.data.parquet import read_rows

        return questions_of_rows(*read_rows(path, columns), path, columns)
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
        return questions_of_records(list(json_lines(path, text)), path, columns)
    return questions_of_rows(*_csv_rows(text, path, columns or Columns()), path, columns)


def read_questions(path: str | Path) -> list[Question]:
    """Read the records of an observation file, in its order; ObservationError if a value in it cannot be used."""
    return list(read_records(Path(path))[0])


def questions_of_records(numbered: Sequence[tuple[int, object]], path: Path | None, columns: Columns | None) -> Records:
    """Make a question of each numbered record; or of rows in long form, if ``columns`` are given and none has reports.

    Raises ObservationError if a value cannot be used.
    """
    if columns is not None:
        rows = [(line, row) for line, row in numbered if isinstance(row, Mapping) and not _WITH_REPORTS & row.keys()]
        if len(rows) == len(numbered):
            header = dict.fromkeys(str(name) for _, row in rows for name in row)
            return questions_of_rows(list(header), rows, path, columns)
        numbered = [(line, columns.row(record) if isinstance(record, Mapping) else record) for line, record in numbered]
        reports = [
            (line, report)
            for line, record in numbered
            for report in (record.get("observations") or () if isinstance(record, dict) else ())
            if isinstance(report, dict)
        ]
        columns.converted(reports, path)
    spelling = {} if columns is None else columns.spelling
    origin = Origin(path, tuple(line for line, _ in numbered))
    return check_unique(tuple(_question(record, path, line, spelling) for line, record in numbered), origin)


def questions_of_rows(
    header: Sequence[str],
    numbered: Iterable[tuple[int, Mapping[str, object]]],
    path: Path | None,
    columns: Columns | None,
) -> Records:
    """Make questions of a table in long form, in the order of their first rows, each with the line of that row.

    Raises ObservationError if a value cannot be used, or a column is missing.
    """
    names = columns or Columns()
    names.check(header, path)
    if columns is not None:
        numbered = columns.converted(((line, columns.row(row)) for line, row in numbered), path)
    return _grouped(numbered, path, names.spelling)


def questions_of_wide(
    table: "pandas.DataFrame", columns: Columns, *, answer: str, confidence: str, correct: str
) -> Records:
    """Make questions of a table with a row for each; in the names of a level's columns, ``{level}`` is its name.

    Raises ObservationError if a value cannot be used, or a column is missing.
    """
    header = [str(name) for name in table.columns]
    before, marked, after = answer.partition("{level}")
    matching = [name for name in header if name.startswith(before) and name.endswith(after) and marked]
    levels = columns.levels or [name[len(before) : len(name) - len(after)] for name in matching]
    patterns = {"answer": answer, "confidence": confidence, "correct": correct}
    named = {level: {our: theirs.replace("{level}", level) for our, theirs in patterns.items()} for level in levels}
    needed = [columns.question, *(names[our] for names in named.values() for our in ("answer", "confidence"))]
    missing = [name for name in (needed if named else [answer]) if name not in header]
    if missing:
        raise ObservationError(
            f"the table has no column {missing[0]}",
            seen=", ".join(header),
            expected="a column of that name, where {level} stands for the name of a level",
            remedy="Name the columns: question='id', answer='{level}_answer', confidence='{level}_confidence'.",
        )
    rows: list[tuple[int, Row]] = []
    for line, record in enumerate(as_records(table), 1):
        about = {name: value for name, value in columns.row(record).items() if name in ("problem_id", *OF_QUESTION)}
        for level, names in named.items():
            report = {our: record.get(theirs) for our, theirs in names.items()}
            rows.append((line, {**about, "level": level, **report}))
    return _grouped(columns.converted(rows, None), None, columns.spelling)


def _grouped(
    numbered: Iterable[tuple[int, Mapping[str, object]]], path: Path | None, spelling: Mapping[str, str]
) -> Records:
    groups: dict[object, list[tuple[int, Mapping[str, object]]]] = {}
    for line, row in numbered:
        groups.setdefault(row.get("problem_id"), []).append((line, row))
    questions = tuple(question_from_rows(group, path, spelling) for group in groups.values())
    return check_unique(questions, Origin(path, tuple(group[0][0] for group in groups.values())))


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
            remedy="Save the file in UTF-8, and check that it is an observation file.",
        ) from error


def json_lines(path: Path, text: str | None = None) -> Iterator[tuple[int, object]]:
    """Yield the values of a JSON Lines file, each with its line number; ObservationError if it cannot be read."""
    text = _text(path) if text is None else text
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for n_before, (number, line) in enumerate(numbered):
        try:
            yield number, from_json(line)
        except ValueError as error:
            reason = str(error).replace("line 1 ", "")
            if 0 < n_before == len(numbered) - 1:
                problem, seen = f"this last line is cut off ({reason})", line[-40:]
                remedy = f"The lines before it ({n_before}) are complete: remove this one, or resume the run."
            else:
                problem, seen = f"this line is not JSON ({reason})", line
                remedy = "Correct the line. An object or a list must stand on one line."
            raise ObservationError(
                problem, path=path, line=number, seen=seen, expected="one complete JSON object a line", remedy=remedy
            ) from error


def _question(record: object, path: Path | None, line: int, spelling: Mapping[str, str]) -> Question:
    if not isinstance(record, dict) or "observations" in record:
        return question_from_record(record, path, line, spelling)
    for form, answer in _RELEASED.items():
        if form in record:
            spelling = {"observations": form, "level": "level_index", "gold_answer": "gold_answer_norm"}
            return question_from_record(_renamed(record, form), path, line, {**spelling, "answer": answer})
    raise ObservationError(
        "this object has neither observations nor outputs",
        path=path,
        line=line,
        seen=sorted(record),
        expected="observations (this project's form) or outputs (the released implementation's)",
        remedy="Check that this is an observation file and not, for example, a question set; if it has a line a "
        "report, name its columns (--column level=NAME).",
    )


def _renamed(record: dict[str, object], form: str) -> dict[str, object]:
    """Rename the fields of a record of the released implementation.

    Its raw answers are used only if the field of the normalised ones is absent, as a null there means no answer. Its
    ``level`` is the signed strength of the prompt, so the level is its ``level_index``.
    """
    items, gold = record[form], record.get("gold_answer_norm")
    renamed = {name: value for name, value in record.items() if name not in (form, "confidence", "raw_output")}
    renamed["gold_answer"] = record.get("gold_answer_raw") if gold is None else gold
    if isinstance(items, list):
        items = [_renamed_item(item, form, place) for place, item in enumerate(items)]
    return {**renamed, "observations": items}


def _renamed_item(item: object, form: str, place: int) -> object:
    if not isinstance(item, dict):
        return item
    answer = _RELEASED[form]
    kept = {name: value for name, value in item.items() if name not in ("level", "level_index")}
    if form != "outputs":
        kept |= {"level": place, "level_name": f"{'sample' if form == 'samples' else 'rank'}_{place}"}
    elif "level_index" in item:
        kept["level"] = item["level_index"]
    return {**kept, "answer": item.get(answer, item.get(answer.replace("_norm", "_raw")))}


def _csv_rows(text: str, path: Path, columns: Columns) -> tuple[list[str], list[tuple[int, Row]]]:
    """Return the header of a CSV table, and its rows as numbers, flags and texts, each with its first line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line, rows = 1, []
    try:
        header = next(reader)
        columns.check(header, path)
        meanings = {columns.level: _number, columns.confidence: _number, columns.correct: _flag}
        convert = [_number if is_signal(name) else meanings.get(name, str) for name in header]
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
                        remedy="Put quotation marks around cells that contain commas.",
                    )
                values = (meaning(cell) if cell else None for meaning, cell in zip(convert, cells, strict=True))
                rows.append((line, dict(zip(header, values, strict=True))))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ObservationError(
            f"this is not CSV ({error})",
            path=path,
            line=line,
            expected="comma-separated cells with paired quotation marks",
            remedy="Write the table with a CSV library, which adds quotation marks where needed.",
        ) from error
    return header, rows


def _number(cell: str) -> object:
    try:
        return float(cell)
    except ValueError:
        return cell


def _flag(cell: str) -> object:
    return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)
