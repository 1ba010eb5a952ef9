"""The sources of questions: rows of files and of the Hugging Face hub, and the reading of each published form."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple

from bayes_direag.errors import DirEAGError

Form = Literal["gsm8k", "svamp", "gsm_hard"]
Record = Mapping[str, object]


class Row(NamedTuple):
    """One row: its line (its number from 1 if rows are not lines) and its fields, with numbers as text.

    ``record`` is the text of a row that is not a record.
    """

    line: int
    record: Record | str


class Told(NamedTuple):
    """The contents of a row: name, question and gold answer, each None if missing."""

    name: str | None
    question: object
    gold: object


class HubSource(NamedTuple):
    """Where a benchmark is published, and the splits that are read by default."""

    repository: str
    config: str | None
    revision: str
    splits: tuple[str, ...]
    default: tuple[str, ...]


#: The named benchmarks, each at a pinned revision.
HUB: Mapping[Form, HubSource] = {
    "gsm8k": HubSource(
        "openai/gsm8k", "main", "cc7b047b6e5bb11b4f1af84efc572db110a51b3c", ("train", "test"), ("test",)
    ),
    "svamp": HubSource(
        "ChilleD/SVAMP", None, "5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef", ("train", "test"), ("train", "test")
    ),
    "gsm_hard": HubSource(
        "reasoning-machines/gsm-hard", None, "960448f73503112d4226baeb8eb41d3fb5ae2506", ("train",), ("train",)
    ),
}


def _tell_gsm8k(row: Record) -> Told:
    _, _, gold = str(row.get("answer")).partition("####")
    return Told(None, row.get("question"), gold.strip())


def _tell_svamp(row: Record) -> Told:
    number = re.fullmatch(r"chal-(\d+)", str(row.get("ID")))
    body, question = row.get("Body"), row.get("Question")
    whole = f"{body.strip()} {question.strip()}" if isinstance(body, str) and isinstance(question, str) else None
    return Told(f"svamp-{int(number[1]) - 1:05}" if number else None, whole, row.get("Answer"))


def _tell_gsm_hard(row: Record) -> Told:
    target = str(row.get("target"))
    # Targets are floats, which files print with too many digits: 5186630.5999999996 is the float 5186630.6.
    is_float = re.fullmatch(r"-?\d+\.\d+(?:[eE][+-]?\d+)?", target)
    return Told(None, row.get("input"), repr(float(target)) if is_float else target)


#: The function that reads a row of each published form.
TELL: Mapping[Form, Callable[[Record], Told]] = {
    "gsm8k": _tell_gsm8k,
    "svamp": _tell_svamp,
    "gsm_hard": _tell_gsm_hard,
}


def published_form(rows: Iterable[Row]) -> Form | None:
    """Return the published form of the first record, None if it has none of them."""
    record = next((row.record for row in rows if not isinstance(row.record, str)), {})
    if {"ID", "Body", "Question", "Answer"} <= record.keys():
        return "svamp"
    if {"input", "code", "target"} <= record.keys():
        return "gsm_hard"
    if record.keys() == {"question", "answer"} and "####" in str(record["answer"]):
        return "gsm8k"
    return None


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file of JSON Lines, JSON (a list of objects), CSV or TSV, perhaps compressed.

    Raises DirEAGError if the file cannot be read, or has no row.
    """
    if not path.is_file():
        raise DirEAGError(
            f"{path}: saw no such file; expected one of {', '.join(HUB)}, or a file. Check the name or path."
        )
    from bayes_direag.data.json_lines import read_lines

    lines = [*read_lines(path)]
    if path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        rows = list(_table_rows(lines, path))
    else:
        text = "".join(lines)
        rows = _array_rows(path, text) if text.lstrip().startswith("[") else list(_line_rows(text))
    if not any(not isinstance(row.record, str) for row in rows):
        raise DirEAGError(
            f"{path}: there is no question here; saw {''.join(lines)[:60]!r}; expected JSON objects, one a line, a "
            "JSON list of them, or a table whose name ends in .csv or .tsv. Check that this is the right file."
        )
    return rows


def hub_rows(name: Form, split: str | None) -> list[Row]:
    """Read the rows of a named benchmark with the Hugging Face ``datasets`` library.

    Raises DirEAGError if the library is missing, the benchmark has no such split, or it cannot be loaded.
    """
    source = HUB[name]
    if split is not None and split not in source.splits:
        raise DirEAGError(f"{name} has no split {split!r}; expected one of {', '.join(source.splits)}.")
    try:
        load_dataset = import_module("datasets").load_dataset
    except ImportError as error:
        raise DirEAGError(
            f"reading {name} by name needs the Hugging Face datasets library, which is not installed, or "
            'a path to the published file. Run: pip install ".[datasets]" in the checkout of bayes-direag'
        ) from error
    records: list[Record] = []
    for part in source.default if split is None else (split,):
        try:
            data = load_dataset(source.repository, source.config, split=part, revision=source.revision)
            records += [{field: _text(value) for field, value in record.items()} for record in data]
        except Exception as error:
            raise DirEAGError(
                f"{source.repository} (split {part}, revision {source.revision}) cannot be loaded "
                f"({type(error).__name__}: {str(error)[:200]}); expected it on the hub or in the local cache. Check "
                "the connection, or give the path of the published file."
            ) from error
    if name == "svamp":
        records.sort(key=lambda record: _tell_svamp(record).name or "")  # the order of the published file
    return [Row(number, record) for number, record in enumerate(records, start=1)]


def _text(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _load_json(text: str) -> object:
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)


def _line_rows(text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                record = _load_json(line)
            except (ValueError, RecursionError):
                record = None
            yield Row(number, record if isinstance(record, dict) else line)


def _array_rows(path: Path, text: str) -> list[Row]:
    try:
        records = _load_json(text)
    except (ValueError, RecursionError) as error:
        raise DirEAGError(
            f"{path}: this is not JSON ({error}); expected a list of objects. Check that the file is complete."
        ) from error
    assert isinstance(records, list)  # noqa: S101 - the text begins with a bracket
    return [
        Row(number, record if isinstance(record, dict) else json.dumps(record))
        for number, record in enumerate(records, start=1)
    ]


def _table_rows(lines: Sequence[str], path: Path) -> Iterator[Row]:
    from bayes_direag.data.tables import csv_cells

    header, _, cells = csv_cells(lines, path)
    for *values, line in zip(*(column.to_pylist() for column in cells.columns), strict=True):
        yield Row(line, {name: value for name, value in zip(header, values, strict=True) if name})
