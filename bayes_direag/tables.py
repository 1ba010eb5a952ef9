"""Prediction tables as files."""

from pathlib import Path

import pandas as pd

from bayes_direag.errors import DirEAGError
from bayes_direag.files import atomic_path

_WRITERS = {
    ".csv": lambda table, path: table.to_csv(path, index=False),
    ".jsonl": lambda table, path: table.to_json(path, orient="records", lines=True, double_precision=15),
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
}


def check_table_path(path: str | Path) -> None:
    """Raise DirEAGError unless the suffix is one that :func:`write_table` knows."""
    if Path(path).suffix not in _WRITERS:
        raise DirEAGError(f"{path}: saw the suffix {Path(path).suffix!r}; expected one of {', '.join(_WRITERS)}.")


def write_table(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as Parquet, CSV or JSON Lines, by suffix; completely or not at all. Missing values: empty, or null."""
    check_table_path(path)
    with atomic_path(path) as partial_path:
        _WRITERS[Path(path).suffix](table, partial_path)
