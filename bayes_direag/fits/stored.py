"""Write and read the file of a fit. What is read may come from anyone."""

import errno
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import get_args

import netCDF4
import xarray as xr
from xarray.backends import NetCDF4DataStore

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.atomic import atomic_path
from bayes_direag.inference.container import require_format
from bayes_direag.model.settings import FitMethod

#: Only log-likelihoods are compressed, to a quarter, so arrays need a few times as much memory as a file has bytes.
_MOST_MEMORY = 100
#: How the log-likelihoods of draws are stored, question by question, since those of one question share digits.
_COMPRESSED = {"zlib": True, "complevel": 4, "significant_digits": 4, "quantize_mode": "GranularBitRound"}
#: Attributes of a container that are one of a few words.
_WORDS: dict[str, tuple[str, ...]] = {
    "method": get_args(FitMethod),
    "answers": get_args(AnswerKind),
}


def write_tree(tree: xr.DataTree, path: str | Path) -> None:
    """Write a container as NetCDF, completely or not at all; raise OSError if it cannot be written."""
    path, encoding = Path(path).expanduser(), {}
    if "log_likelihood" in tree.children:
        shape = tree["log_likelihood"]["target"].shape
        encoding["/log_likelihood"] = {"target": {**_COMPRESSED, "chunksizes": (*shape[:-1], 1)}}
    with atomic_path(path) as partial_path:
        try:
            tree.to_netcdf(partial_path, engine="netcdf4", encoding=encoding)
        except RuntimeError as error:  # the NetCDF library does not say why it cannot write
            raise OSError(errno.EIO, f"{error} in writing, perhaps as the disk is full", str(path)) from error
        content = partial_path.read_bytes()
        with partial_path.open("ab") as file:  # what follows the end of an HDF5 file is not read
            file.write(_digest(content))


def stored_tree(path: str | Path) -> xr.DataTree:
    """Read a NetCDF file; raise ValueError if it is damaged, its groups claim to be much larger, or are no such fit.

    Its digest is checked first, since the NetCDF library may crash on a damaged file, or never return. The file is
    opened once, and meanwhile Ctrl-C and SIGTERM end the process: the library does not hear Python's handlers.
    """
    whole = Path(path).read_bytes()
    if not whole.startswith(b"\x89HDF"):
        raise ValueError("this is no NetCDF file")
    content, digest = whole[:-_DIGEST_SIZE], whole[-_DIGEST_SIZE:]
    if digest != _digest(content):
        raise ValueError("its content is not what was written: it is damaged, or of an earlier version")
    with _ended_by_signals(), netCDF4.Dataset("fit.nc", memory=content) as stored:
        variables = [variable for group in stored.groups.values() for variable in group.variables.values()]
        claimed = sum(8 * math.prod(variable.shape) for variable in variables)
        if claimed > _MOST_MEMORY * len(content):
            raise ValueError(f"it claims to hold {claimed / 2**20:,.0f} MiB in {len(content) / 2**10:,.0f} KiB")
        groups = {
            name: xr.open_dataset(NetCDF4DataStore(group)).load()  # type: ignore[no-untyped-call]
            for name, group in stored.groups.items()
        }
        about = xr.Dataset(attrs={name: stored.getncattr(name) for name in stored.ncattrs()})
    tree = xr.DataTree.from_dict({"/": about, **groups})
    require_format(tree)
    for attribute, words in _WORDS.items():
        if tree.attrs[attribute] not in words:
            raise ValueError(f"saw {attribute} {tree.attrs[attribute]!r}; expected {', '.join(words)}")
    return tree


def _digest(content: bytes) -> bytes:
    return b"direag " + sha256(content).digest()


_DIGEST_SIZE = len(_digest(b""))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process at once, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
