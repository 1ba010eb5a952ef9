"""Files that are written completely or not at all, in a temporary folder beside them."""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path, whose file replaces ``path`` once the block has succeeded.

    A link is followed; a device or a pipe is written into. If the block raises, ``path`` stays as it was. Raises
    OSError that names ``path`` if it cannot be written, and FileNotFoundError if the block wrote no file.
    """
    path = Path(path)
    is_device = path.exists() and not path.is_file()
    target = Path(tempfile.gettempdir(), path.name) if is_device else Path(os.path.realpath(path))
    with folder_beside(target) as folder:
        temporary = folder / path.name
        try:
            yield temporary
            if is_device:
                with temporary.open("rb") as content, path.open("wb") as device:
                    shutil.copyfileobj(content, device)
            else:
                _keep(temporary)
                os.replace(temporary, target)
                _keep(target.parent)
        except OSError as error:
            raise _naming(error, folder, path) from error


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside a path, and remove those that killed processes have left there for this path.

    A folder ``before`` in one of these had been at the path, and is put back if nothing is there.
    """
    name = re.compile(re.escape(f".{path.name}.") + r"\w{8}\.partial")
    with suppress(OSError):  # the parent cannot be listed, or another process has been quicker
        for left in [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name) and not _is_locked(entry)]:
            if (left / "before").exists() and not path.exists():
                (left / "before").rename(path)
            shutil.rmtree(left)
    try:
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    lock = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        folder = folder.rename(f"{folder}.partial")  # once it is locked, as others look for this name
        yield folder
    except OSError as error:
        raise _naming(error, folder, path) from error
    finally:
        os.close(lock)
        shutil.rmtree(folder)


def _keep(path: Path) -> None:
    """Let the system put a file or a folder on the disk now, so that a crash does not lose it."""
    opened = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that cannot
            os.fsync(opened)
    finally:
        os.close(opened)


def _naming(error: OSError, folder: Path, path: Path) -> OSError:
    """Return an error that names the path if it is about a file of the temporary folder, or names none."""
    if error.filename is None or str(error.filename).startswith(str(folder)):
        return OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), str(path))
    return error


def _is_locked(folder: Path) -> bool:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
