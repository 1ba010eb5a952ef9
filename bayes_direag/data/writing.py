"""Files that are whole or not there at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path that takes the place of ``path`` once the block has succeeded.

    The temporary file lies in the same folder and has the same suffix. If the block raises, it is removed and
    what stood at ``path`` before is untouched; so a reader sees the old file or the new one, never a part.

    Parameters
    ----------
    path : path-like
        The file to write or replace. Its folder must exist.

    Raises
    ------
    FileNotFoundError
        If the block wrote nothing to the temporary path.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
