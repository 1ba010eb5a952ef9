"""Prediction tables as files."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from bayes_direag.data.writing import atomic_path
from bayes_direag.errors import DirEAGError


def as_records(table: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows as plain Python values by column: missing ones (None, NaN, NA) as None."""
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]


def check_table_path(path: str | Path) -> None:
    """Raise DirEAGError unless the suffix is one that :func:`write_table` knows."""
    suffix = Path(path).suffix
    if suffix.lower() not in _WRITERS:
        raise DirEAGError(f"{path}: saw the suffix {suffix!r}; expected one of {', '.join(_WRITERS)}. Rename it.")


def write_table(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, JSON Lines or Parquet, by suffix; completely or not at all.

    Every number is written to its last digit. Missing values are empty in CSV and null elsewhere, so CSV alone
    cannot tell a missing text from an empty one. A table without rows keeps its columns, but for JSON Lines.

    Raises
    ------
    DirEAGError
        If the suffix is none of ``.csv``, ``.jsonl`` and ``.parquet``.
    """
    check_table_path(path)
    with atomic_path(path) as partial_path:
        _WRITERS[partial_path.suffix.lower()](table, partial_path)


def _to_csv(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False)


def _to_json_lines(table: pd.DataFrame, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in as_records(table):
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _to_parquet(table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(path, index=False)


_WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": _to_csv,
    ".jsonl": _to_json_lines,
    ".parquet": _to_parquet,
}
