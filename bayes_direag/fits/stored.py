"""Read the file of a fit, which may come from anyone."""

import math
from pathlib import Path

import netCDF4
import xarray as xr
from xarray.backends import NetCDF4DataStore

#: Only log-likelihoods are compressed, to a quarter, so arrays need a few times as much memory as a file has bytes.
_MOST_MEMORY = 100


def stored_tree(path: str | Path) -> xr.DataTree:
    """Read the groups of a NetCDF file; raise ValueError if they claim to be much larger than it.

    The file is opened once, since the NetCDF library may crash if it opens a damaged one again.
    """
    size = Path(path).stat().st_size
    with netCDF4.Dataset(path) as stored:
        variables = [variable for group in stored.groups.values() for variable in group.variables.values()]
        claimed = sum(8 * math.prod(variable.shape) for variable in variables)
        if claimed > _MOST_MEMORY * size:
            raise ValueError(f"it claims to hold {claimed / 2**20:,.0f} MiB in {size / 2**10:,.0f} KiB")
        groups = {
            name: xr.open_dataset(NetCDF4DataStore(group)).load()  # type: ignore[no-untyped-call]
            for name, group in stored.groups.items()
        }
        about = xr.Dataset(attrs={name: stored.getncattr(name) for name in stored.ncattrs()})
    return xr.DataTree.from_dict({"/": about, **groups})
