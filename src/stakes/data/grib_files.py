"""GRIB files as xarray Datasets, read by cfgrib (extra `grib`), whose ecCodes comes as a wheel."""

from importlib import import_module
from typing import TYPE_CHECKING

from stakes.errors import NetCDFError, one_line

if TYPE_CHECKING:  # importing it for real takes a second, which only a file needs
    from xarray import DataArray, Dataset

__all__ = ["read_grib"]

_MEMBER = "number"


def read_grib(path: str) -> "Dataset":
    """The variables of a GRIB file; the control member, which is a kind of its own there, is one more member.

    No index file is written beside it, and a file that is cut short is refused.

    Args:
        path: The file.
    """
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        raise NetCDFError(f"{path!r} cannot be read: {one_line(error)}") from error
    try:
        cfgrib = import_module("cfgrib")
    except ImportError as error:
        raise NetCDFError(f'{path!r} can only be read with cfgrib; pip install "stakes[grib]"') from error
    options = {"indexpath": "", "errors": "raise"}
    try:
        parts = cfgrib.open_datasets(path, backend_kwargs=options, decode_timedelta=False)
    except Exception as error:  # which ones damaged content can provoke is not documented
        raise NetCDFError(f"{path!r} cannot be read as GRIB: {one_line(error)}") from error
    if not parts:
        raise NetCDFError(f"{path!r} holds no GRIB message")
    return _joined(parts, path)


def _joined(parts: "list[Dataset]", path: str) -> "Dataset":
    """The variables of all parts, which differ in what a Dataset has once, such as control and perturbed members."""
    if len(parts) == 1:
        return parts[0]
    from xarray import Dataset

    names = dict.fromkeys(str(name) for part in parts for name in part.data_vars)
    return Dataset(
        {name: _all_members([part[name] for part in parts if name in part.data_vars], path) for name in names}
    )


def _all_members(arrays: "list[DataArray]", path: str) -> "DataArray":
    from xarray import concat

    if len(arrays) == 1:
        return arrays[0]
    if not all(_MEMBER in array.coords for array in arrays):
        raise NetCDFError(f"{path!r} holds {arrays[0].name!r} of several kinds, such as levels; keep one of them")
    widened = [array if _MEMBER in array.dims else array.expand_dims(_MEMBER) for array in arrays]
    try:
        joined = concat(widened, _MEMBER, coords="minimal", compat="override", join="exact")
    except ValueError as error:
        raise NetCDFError(f"{path!r} holds {arrays[0].name!r} of several kinds: {one_line(error)}") from error
    if not joined.indexes[_MEMBER].is_unique:
        raise NetCDFError(
            f"{path!r} holds {arrays[0].name!r} of several kinds, with the same members; keep one of them"
        )
    return joined.sortby(_MEMBER)
