"""What a source returns brought into one form, the present layout of the Climate Data Store, checked and written."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stakes.data.era5.request import UNITS, VARIABLES, Era5Request
from stakes.data.time_axis import Times
from stakes.data.xarray_files import one_version, open_dataset
from stakes.errors import Era5Error, StakesError, one_line

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

__all__ = ["ERA5_ATTRIBUTION", "read_piece", "standard_dataset", "write_dataset"]

ERA5_ATTRIBUTION = (
    "Contains modified Copernicus Climate Change Service information (ERA5, Hersbach et al. 2020, "
    "doi:10.1002/qj.3803). Neither the European Commission nor ECMWF is responsible for any use of it."
)
_NEAR = 1e-3  # degrees
_COORDINATES = {"time": "valid_time", "lat": "latitude", "lon": "longitude"}
_AXES = ("valid_time", "latitude", "longitude")


def standard_dataset(datasets: Sequence["Dataset"], request: Era5Request, times: Times, source: str) -> "Dataset":
    """The wanted variables (T, Y, X) at the wanted times and points, and nothing else.

    Args:
        datasets: They hold the variables between them, by their short names or those that the stores ask for.
        request: The variables and points that are wanted.
        times: The times (T,) that are wanted.
        source: Where the data come from, for messages.
    """
    import xarray

    arrays = {name: _array(datasets, name, request, times, source) for name in request.variables}
    coordinates = {
        "valid_time": ("valid_time", times.astype("datetime64[ns]"), {"standard_name": "time", "long_name": "time"}),
        "latitude": ("latitude", np.array(request.latitudes), _axis_words("latitude", "degrees_north")),
        "longitude": ("longitude", np.array(request.longitudes), _axis_words("longitude", "degrees_east")),
    }
    return xarray.Dataset({name: (_AXES, *array) for name, array in arrays.items()}, coordinates)


def read_piece(path: Path, request: Era5Request, times: Times) -> "Dataset":
    """A piece that was written before; an error unless it is whole.

    Args:
        path: The NetCDF file of the piece.
        request: The variables and points it must have.
        times: The times (T,) it must have.
    """
    with open_dataset(str(path)) as dataset:
        return standard_dataset([dataset], request, times, str(path)).load()


def write_dataset(dataset: "Dataset", path: Path) -> None:
    """Write a NetCDF file atomically.

    Args:
        dataset: Data in the standard form.
        path: The file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    packed = {"zlib": True, "complevel": 4, "dtype": "float32", "_FillValue": np.float32(np.nan)}
    encoding: dict[Any, Any] = dict.fromkeys(dataset.data_vars, packed)
    encoding["valid_time"] = {"dtype": "int64", "units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}
    try:
        dataset.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
        os.replace(temporary, path)
    except OSError as error:
        raise Era5Error(f"{path} cannot be written: {one_line(error)}; the pieces that are done are kept") from error
    finally:
        with suppress(OSError):  # it is no longer there when all went well
            os.unlink(temporary)


def _array(
    datasets: Sequence["Dataset"], name: str, request: Era5Request, times: Times, source: str
) -> tuple[Any, dict[str, str]]:
    """Values (T, Y, X) of a variable and its attributes."""
    arrays = [dataset[key] for dataset in datasets for key in (name, VARIABLES[name]) if key in dataset.data_vars]
    if not arrays:
        held = ", ".join(str(key) for dataset in datasets for key in dataset.data_vars) or "nothing"
        raise Era5Error(f"{source} lacks the variable {name} ({VARIABLES[name]}); it holds {held}")
    array = arrays[0].rename({old: new for old, new in _COORDINATES.items() if old in arrays[0].dims})
    if missing := [axis for axis in _AXES if axis not in array.dims or axis not in array.coords]:
        raise Era5Error(f"variable {name} of {source} must run along time, latitude and longitude, lacks {missing[0]}")
    places = {
        "valid_time": _time_places(array, times, source),
        "latitude": _point_places(array, "latitude", request.latitudes, source),
        "longitude": _point_places(array, "longitude", request.longitudes, source),
    }
    try:
        values = _squeezed(array.isel(places), name, source).transpose(*_AXES).to_numpy()
    except StakesError:
        raise
    except Exception as error:  # which ones a store or damaged content can provoke is not documented
        raise Era5Error(f"variable {name} of {source} cannot be read: {one_line(error)}") from error
    words = {"units": UNITS[name], "long_name": VARIABLES[name].replace("_", " ")}
    kept = {key: str(value) for key, value in array.attrs.items() if key in (*words, "standard_name") and value}
    return values.astype(np.float32), words | kept


def _squeezed(array: "DataArray", name: str, source: str) -> "DataArray":
    """Without other dimensions, which must have length 1 unless they are versions of the same."""
    array = one_version(array)
    array = array.squeeze([dim for dim in array.dims if dim not in _AXES and array.sizes[dim] == 1])
    if others := [str(dim) for dim in array.dims if dim not in _AXES]:
        raise Era5Error(f"variable {name} of {source} has {array.sizes[others[0]]} entries along {others[0]!r}")
    return array


def _time_places(array: "DataArray", times: Times, source: str) -> Any:
    if array["valid_time"].dtype.kind != "M":
        raise Era5Error(f"the times of {source} must be dates, got {array['valid_time'].dtype}")
    held = array["valid_time"].to_numpy().astype("datetime64[s]")
    order = np.argsort(held, kind="stable")
    places = np.searchsorted(held, times, sorter=order).clip(max=max(len(held) - 1, 0))
    present = held[order[places]] == times if len(held) else np.zeros(len(times), dtype=bool)
    if not present.all():
        raise Era5Error(f"{source} has {present.sum()} of {len(times)} wanted times; {times[~present][0]} is absent")
    return order[places]


def _point_places(array: "DataArray", axis: str, wanted: Sequence[float], source: str) -> Any:
    """The place of each wanted coordinate; 350 E is 10 W."""
    held = array[axis].to_numpy().astype(np.float64)
    away = np.abs((held - np.array(wanted)[:, None] + 180) % 360 - 180)
    if not held.size or away.min(axis=1).max() > _NEAR:
        raise Era5Error(f"{source} lacks the {axis} {wanted[int(away.min(axis=1).argmax()) if held.size else 0]:g}")
    return away.argmin(axis=1)


def _axis_words(name: str, units: str) -> dict[str, str]:
    return {"units": units, "standard_name": name, "long_name": name}
