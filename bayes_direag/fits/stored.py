"""Write and read the file of a fit. What is read may come from anyone."""

import errno
import inspect
import math
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path
from typing import get_args

import netCDF4
import numpy as np
import xarray as xr

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.atomic import atomic_path
from bayes_direag.errors import FitFileError
from bayes_direag.fits.container import FORMAT
from bayes_direag.model.settings import FitMethod

#: What a digest begins with, and how many seconds reading another program's file may take.
_SIGN, _LIMIT = b"direag ", 20
#: The NetCDF library takes one thread at a time.
_ONE_AT_A_TIME = threading.Lock()


def _check_claims(stored: netCDF4.Dataset, size: int) -> None:
    """Raise ValueError if a file claims to be far larger: only log-likelihoods are compressed, to a quarter."""
    variables = [variable for group in stored.groups.values() for variable in group.variables.values()]
    claimed = sum(8 * math.prod(variable.shape) for variable in variables)
    if claimed > 100 * size:
        raise ValueError(f"it claims to hold {claimed / 2**20:,.0f} MiB in {size / 2**10:,.0f} KiB")


#: Reads all of a file, unless its claims are refused.
_READ_ALL = f"""
import math, sys, netCDF4
{inspect.getsource(_check_claims)}
content = sys.stdin.buffer.read()
with netCDF4.Dataset("fit.nc", memory=content) as stored:
    _check_claims(stored, len(content))
    variables = [variable for group in stored.groups.values() for variable in group.variables.values()]
    for each in (stored, *stored.groups.values(), *variables):
        [each.getncattr(name) for name in each.ncattrs()]
    for variable in variables:
        variable[...], variable.filters(), variable.chunking()
"""
#: How the log-likelihoods of draws are stored, few questions together, since those of one question share digits.
_COMPRESSED = {"zlib": True, "complevel": 1, "significant_digits": 4, "quantize_mode": "GranularBitRound"}
#: Attributes of a container that are one of a few words.
_WORDS: dict[str, tuple[str, ...]] = {"method": get_args(FitMethod), "answers": get_args(AnswerKind)}


def write_tree(tree: xr.DataTree, path: str | Path) -> None:
    """Write a container as NetCDF, completely or not at all; raise OSError if it cannot be written."""
    path, encoding = Path(path).expanduser(), {}
    if "log_likelihood" in tree.children:
        shape = tree["log_likelihood"]["target"].shape
        encoding["/log_likelihood"] = {"target": {**_COMPRESSED, "chunksizes": (*shape[:-1], min(8, shape[-1]))}}
    with atomic_path(path) as partial_path:
        try:
            with _ONE_AT_A_TIME:
                tree.to_netcdf(partial_path, engine="netcdf4", encoding=encoding)
        except RuntimeError as error:  # the NetCDF library does not say why it cannot write
            raise OSError(errno.EIO, f"{error} in writing, perhaps as the disk is full", str(path)) from error
        content = partial_path.read_bytes()
        with partial_path.open("ab") as file:  # what follows the end of an HDF5 file is not read
            file.write(_digest(content))


def stored_tree(path: str | Path) -> xr.DataTree:
    """Read a NetCDF file; raise ValueError if it is damaged, claims to hold much more, or is no such fit.

    A file of :func:`write_tree` ends with its digest, and is read as it was written. Another program leaves none; on a
    damaged or forged file the NetCDF library may crash or never return, so a child process reads such a file first.
    """
    content = Path(path).read_bytes()
    if not content.startswith(b"\x89HDF"):
        raise ValueError("this is no NetCDF file")
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    if not digest.startswith(_SIGN):
        _try_apart(content)
    elif digest != _digest(body):
        raise ValueError("its content is not what was written: it is damaged, or of an earlier version")
    with _ONE_AT_A_TIME, netCDF4.Dataset("fit.nc", memory=content) as stored:
        _check_claims(stored, len(content))
        groups = {name: _dataset(group) for name, group in stored.groups.items()}
        about = xr.Dataset(attrs={name: stored.getncattr(name) for name in stored.ncattrs()})
    tree = xr.DataTree.from_dict({"/": about, **groups})
    if tree.attrs.get("format") != FORMAT:
        raise ValueError(f"its layout is not format {FORMAT}, perhaps that of an earlier version")
    for attribute, words in _WORDS.items():
        if tree.attrs[attribute] not in words:
            raise ValueError(f"saw {attribute} {tree.attrs[attribute]!r}; expected {', '.join(words)}")
    return tree


def _dataset(group: netCDF4.Dataset) -> xr.Dataset:
    """Return a group as xarray writes it, in half of the time that xarray's own reader of any NetCDF takes."""
    group.set_auto_maskandscale(False)
    variables = {}
    for name, stored in group.variables.items():
        values = np.asarray(stored[...])
        kind = "bool" if "dtype" in stored.ncattrs() else "str" if values.dtype == object else values.dtype
        variables[name] = (stored.dimensions, values.astype(kind, copy=False))
    coordinates = {name: variables.pop(name) for name in group.dimensions if name in variables}
    return xr.Dataset(variables, coordinates, {name: group.getncattr(name) for name in group.ncattrs()})


def unreadable(path: str | Path, what: str, error: Exception, expected: str) -> FitFileError:
    """Return the error of a file with which something is wrong, on one line."""
    cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return FitFileError(f"{path}: not {what} that this version can read ({cause}); expected {expected}")


def _try_apart(content: bytes) -> None:
    """Have a child process read all of a file; raise ValueError if it cannot."""
    command = [sys.executable, "-P", "-c", _READ_ALL]
    try:
        child = subprocess.run(command, input=content, capture_output=True, timeout=_LIMIT)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise ValueError(f"it is damaged: reading it did not end in {_LIMIT} seconds") from None
    if child.returncode:
        (*_, last) = child.stderr.decode().splitlines() or ["it is damaged"]
        raise ValueError(last.removeprefix("ValueError: "))


def _digest(content: bytes) -> bytes:
    return _SIGN + sha256(content).digest()


_DIGEST_SIZE = len(_digest(b""))
