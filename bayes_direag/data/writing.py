"""Files that are whole or not there at all, and tables as such files."""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_direag.errors import DirEAGError

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


def _to_json_lines(table: "pandas.DataFrame", path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in as_records(table):
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


_WRITERS: dict[str, Callable[["pandas.DataFrame", Path], None]] = {
    ".csv": lambda table, path: table.to_csv(path, index=False),
    ".jsonl": _to_json_lines,
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
}
