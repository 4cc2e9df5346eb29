"""NetCDF files and Zarr stores as xarray Datasets and as time series, or one sentence about what is wrong with them."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.tables.files import GRIB
from stakes.data.tables.time_axis import Times, check_regular, to_utc
from stakes.errors import TableError, one_line
from stakes.files import is_pipe_or_device, unpacked_limit

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

Floats = NDArray[np.float64]


SPEEDS = ("ws10", "si10", "10si", "w10")
"""What files call the 10 m wind speed, in lower case."""

COMPONENTS = (("u10", "v10"), ("10u", "10v"))
"""What files call its eastward and northward components, in lower case."""

_ENGINES = ((b"\x89HDF", ("xarray", "h5netcdf", "h5py")), (b"CDF", ("xarray", "scipy")))
_ZARR_FILES = ("zarr.json", ".zgroup", ".zmetadata")
_VERSION = "expver"


@contextmanager
def open_dataset(path: str) -> Iterator["Dataset"]:
    """The data of a file, for as long as the context lasts; what is not needed is not read."""
    if os.path.isdir(path):  # which, unlike that of pathlib, answers for names too long as well
        dataset = _zarr_store(path)
    elif is_pipe_or_device(path):
        raise TableError(f"{path!r} must be a regular file, not a pipe or a device")
    elif path.lower().endswith(GRIB):
        raise TableError(f"{path!r} is a GRIB file; make a NetCDF file of it: cfgrib to_netcdf {path} -o members.nc")
    else:
        engine = _engine(path)
        if engine == "h5netcdf":
            _require_unpackable_axes(path, _axes_of_hdf5)
        # Durations stay numbers, as the radiation of some files would otherwise be read as one.
        dataset = _opened(path, "NetCDF", "open_dataset", engine=engine, decode_timedelta=False)
    with dataset:
        yield dataset


def require_unpackable(array: "DataArray", path: Path | None) -> None:
    """Raise where a variable about to be read, or a coordinate of it, is very much larger than its file, if any."""
    if path is not None:
        _require_sizes({str(each.name): each.nbytes for each in (array, *array.coords.values())}, path)


def _require_sizes(sizes: Mapping[str, int], path: Path) -> None:
    """Raise where a variable of so many bytes is very much larger than the file or store it lies in."""
    large = {name: size for name, size in sizes.items() if size > unpacked_limit(0)}
    if not large:
        return
    packed = sum(part.stat().st_size for part in (path.rglob("*") if path.is_dir() else [path]) if part.is_file())
    limit = unpacked_limit(packed)
    for name, size in large.items():
        if size > limit:
            raise TableError(
                f"{str(path)!r} has {packed:,} bytes, and its variable {name!r} unpacks to {size:,}, beyond the limit "
                f"of {limit:,}; if that is right, write it without compression"
            )


def one_version(array: "DataArray") -> "DataArray":
    """The variable without the dimension `expver`: the final version, and the preliminary one where that is missing."""
    if array.sizes.get(_VERSION, 1) == 1:
        return array
    versions = [array.isel({_VERSION: place}) for place in range(array.sizes[_VERSION])]
    return reduce(lambda final, preliminary: final.fillna(preliminary), versions)


def _require_unpackable_axes(path: str, sizes: Callable[[str], Mapping[str, int]]) -> None:
    """Raise where what lies along one dimension, as axes do, is very much larger than its file: it is read at once."""
    try:
        of_axes = sizes(path)
    except Exception:  # which ones damaged content can provoke is not documented; who opens it tells what is wrong
        return
    _require_sizes(of_axes, Path(path))


def _axes_of_hdf5(path: str) -> dict[str, int]:
    with import_module("h5netcdf").File(path, "r") as file:
        return _axes(file.variables)


def _axes_of_zarr(path: str) -> dict[str, int]:
    return _axes(dict(import_module("zarr").open_group(path, mode="r").arrays()))


def _axes(variables: Mapping[str, Any]) -> dict[str, int]:
    return {name: each.dtype.itemsize * each.shape[0] for name, each in variables.items() if each.ndim == 1}


def _opened(path: str, kind: str, function: str, **options: Any) -> "Dataset":
    try:
        dataset: Dataset = getattr(import_module("xarray"), function)(path, **options)
    except Exception as error:  # which ones damaged content can provoke is not documented
        raise TableError(f"{path!r} cannot be read as {kind}: {one_line(error)}") from error
    return dataset


def _zarr_store(path: str) -> "Dataset":
    if not any((Path(path) / name).is_file() for name in _ZARR_FILES):
        raise TableError(f"{path!r} is a folder, expected a NetCDF file or a Zarr store")
    try:
        import_module("zarr")
    except ImportError as error:
        raise TableError(f'{path!r} can only be read with zarr; pip install "stakes[zarr]"') from error
    _require_unpackable_axes(path, _axes_of_zarr)
    consolidated = (Path(path) / ".zmetadata").is_file()
    dataset = _opened(path, "Zarr", "open_zarr", chunks=None, decode_timedelta=False, consolidated=consolidated)
    return dataset[sorted(dataset.data_vars, key=str)]  # a folder has no order


def _engine(path: str) -> str:
    """What xarray reads the file with; a NetCDF file is HDF5 or, in its classic form, begins with CDF."""
    try:
        with Path(path).open("rb") as stream:
            begin = stream.read(4)
    except FileNotFoundError as error:
        raise TableError(f"there is no file {path!r}") from error
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        raise TableError(f"{path!r} cannot be read: {one_line(error)}") from error
    libraries = next((names for magic, names in _ENGINES if begin.startswith(magic)), None)
    if libraries is None:
        raise TableError(f"{path!r} is {'not a NetCDF file' if begin else 'empty, expected a NetCDF file'}")
    try:
        for name in libraries:
            import_module(name)
    except ImportError as error:
        wanted = " and ".join(libraries)
        raise TableError(f"{path!r} can only be read with {wanted}; pip install {' '.join(libraries)}") from error
    return libraries[1]


_AXES = ("valid_time", "time")
GRID = ("lat", "latitude", "lon", "longitude")  # in the order of the axes
KELVIN = ("k", "kelvin", "degk")
_FREEZING = 273.15  # K


@dataclass(frozen=True, eq=False)
class SeriesFile:
    """An open file of series."""

    path: str
    dataset: "Dataset"
    axis: str  # the dimension along which time runs
    times: Times  # the times (T,), in UTC
    step: int  # their step, in seconds

    @cached_property
    def series(self) -> dict[str, "DataArray"]:
        """The numeric variables that run along the time axis, without dimensions of length 1."""
        numeric = {str(name): array for name, array in self.dataset.data_vars.items() if array.dtype.kind in "fiu"}
        return {name: self._squeezed(array) for name, array in numeric.items() if self.axis in array.dims}

    def _squeezed(self, array: "DataArray") -> "DataArray":
        array = one_version(array)
        return array.squeeze([dim for dim in array.dims if dim != self.axis and array.sizes[dim] == 1])

    def grid(self, name: str) -> list[str]:
        """The dimensions of a variable besides time, latitude first."""
        return sorted(str(dim) for dim in self.series[name].dims if dim != self.axis)

    def unit(self, name: str) -> str:
        return str(self.series[name].attrs.get("units", "")).strip()

    def find(self, names: tuple[str, ...]) -> str | None:
        """The variable with one of these names, in any case, or else the first that begins with NAME_ or NAME[."""
        known = {name.lower(): name for name in self.series}
        alike = (lower for name in names for lower in known if lower.startswith((f"{name}_", f"{name}[")))
        return known.get(next((name for name in names if name in known), next(alike, "")))

    def lacks(self, needed: str) -> TableError:
        return TableError(f"{self.path!r} lacks {needed}; its time series are {', '.join(self.series) or 'none'}")

    def values(self, name: str, places: Any) -> Floats:
        """The values at some places of the grid, time on the first axis, NaN where they are missing."""
        array = self.series[name].isel(places)
        require_unpackable(array, Path(self.path))
        others = sorted(str(dim) for dim in array.dims if dim != self.axis)
        try:
            values = array.transpose(self.axis, *others).to_numpy().astype(np.float64)
        except Exception as error:  # which ones damaged content can provoke is not documented
            raise TableError(f"variable {name!r} of {self.path!r} cannot be read: {one_line(error)}") from error
        return np.where(np.isfinite(values), values, np.nan)

    def centre(self, name: str) -> dict[str, int]:
        """The central point of the grid of a variable."""
        return {dim: (self.series[name].sizes[dim] - 1) // 2 for dim in self.grid(name)}

    def around_centre(self, name: str) -> dict[str, Floats]:
        """The values (T,) of the points around the centre by column name, the centre first; Kelvin made degC."""
        centres = self.centre(name)
        around = {dim: slice(max(centre - 1, 0), centre + 2) for dim, centre in centres.items()}
        patch = self.values(name, around)
        if plain_unit(self.unit(name)) in KELVIN:
            patch = patch - _FREEZING
        sizes = dict(zip(around, patch.shape[1:], strict=True))
        offsets = product(*(range(around[dim].start - centres[dim], 2)[: sizes[dim]] for dim in around))
        columns = dict(zip(offsets, patch.reshape(len(self.times), -1).T, strict=True))
        first = sorted(columns, key=any)  # a stable sort: only the centre has no offset
        return {f"{name}[{','.join(map(str, offset))}]" if around else name: columns[offset] for offset in first}

    def columns(self) -> dict[str, tuple[str, Floats]]:
        """Variable and values (T,) by column of those on a grid or at a point, without columns that have no value."""
        return {
            column: (name, values)
            for name in self.series
            if set(self.grid(name)) <= set(GRID)
            for column, values in self.around_centre(name).items()
            if not np.isnan(values).all()
        }


def series_of(path: str, dataset: "Dataset") -> SeriesFile:
    """The series in an open file; an error unless its times lie on a regular axis."""
    if not dataset.variables:
        raise TableError(f"{path!r} holds no variables, expected time series")
    axis, moments = _time_axis(path, dataset)
    try:
        times = to_utc(moments, "times")
        return SeriesFile(path, dataset, axis, times, check_regular(times))
    except TableError as error:
        raise TableError(f"{path!r}: {error}") from error


def _time_axis(path: str, dataset: "Dataset") -> tuple[str, Any]:
    for name in _AXES:
        times = dataset.variables.get(name)
        if times is not None and times.ndim == 1 and times.dtype.kind == "M":
            return str(times.dims[0]), times.to_numpy()
    raise TableError(
        f"{path!r} has no time axis, expected a variable time or valid_time of dates along a dimension; it holds "
        f"{', '.join(map(str, dataset.variables))}"
    )


def read_series(path: str) -> pd.DataFrame:
    """The column `time` and every time series of a file: of a grid the central point and its neighbours, t2m[-1,0]."""
    with open_dataset(path) as dataset:
        file = series_of(path, dataset)
        columns = {column: values for column, (_, values) in file.columns().items()}
        if not columns:
            raise file.lacks("a time series with values along time, latitude and longitude")
        if file.find(SPEEDS) is None:
            columns |= _speeds(columns)
        if "time" in columns:
            raise TableError(f"{path!r} has a variable 'time' besides its times")
        return pd.DataFrame({"time": file.times, **columns})


def _speeds(columns: dict[str, Floats]) -> dict[str, Floats]:
    """The wind speed wherever both components of it are there."""
    lower = {column.lower(): column for column in columns}
    speeds = {}
    for column, east in columns.items():
        for name, partner in COMPONENTS:
            rest = column[len(name) :]
            other = lower.get(partner + rest.lower())
            if column.lower().startswith(name) and rest[:1] in ("", "_", "[") and other is not None:
                speeds[f"ws10{rest}"] = np.hypot(east, columns[other])
    return speeds


def plain_unit(unit: str) -> str:
    """A unit without the signs in which its spellings differ: "m s**-1" and "m s-1" are both "ms-1"."""
    return unit.lower().translate(str.maketrans("", "", " *^_."))
