"""ERA5 as the stores would send it, made by a formula: every value says which variable, time and point it is of."""

import json
import zipfile
from calendar import monthrange
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from stakes.data.era5.request import UNITS, VARIABLES

SHORT = {long: short for short, long in VARIABLES.items()}
Layout = Literal["new", "old", "versions"]
Floats = NDArray[np.float64]


def values(name: str, times: Any, latitudes: Sequence[float], longitudes: Sequence[float]) -> Floats:
    """(T, Y, X): a plausible number of that variable, different everywhere; longitudes count from -180 to 180."""
    hours = (np.asarray(times).astype("datetime64[h]") - np.datetime64("1940-01-01", "h")).astype(float)
    east = (np.asarray(longitudes) + 180) % 360 - 180
    wave = np.sin(hours / 8766 * 2 * np.pi)[:, None, None] + hours[:, None, None] / 1e6
    place = np.asarray(latitudes)[:, None] / 90 + east[None, :] / 1000
    return (280.0 if UNITS[name] == "K" else 3.0) + list(VARIABLES).index(name) / 10 + 4 * wave + place


def times_of(request: Mapping[str, Any]) -> NDArray[np.datetime64]:
    """The times that the store would return; days that a month does not have are passed over."""
    days = [
        np.datetime64(f"{year}-{month}-{day}")
        for year in request["year"]
        for month in request["month"]
        for day in request["day"]
        if int(day) <= monthrange(int(year), int(month))[1]
    ]
    hours = [np.timedelta64(int(time[:2]), "h") for time in request["time"]]
    return np.array([day + hour for day in days for hour in hours], "datetime64[ns]")


class RecordingClient:
    """Stands in for `cdsapi.Client`: keeps every request and writes what the store would."""

    def __init__(self, layout: Layout = "new", zipped: bool = False) -> None:
        self.layout, self.zipped = layout, zipped
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.faults: dict[int, BaseException] = {}

    def retrieve(self, name: str, request: dict[str, Any], target: str) -> None:
        self.requests.append((name, request))
        if len(self.requests) in self.faults:
            raise self.faults[len(self.requests)]
        names = [SHORT[long] for long in request["variable"]]
        asked = json.dumps(request)
        if not self.zipped:
            Path(target).write_bytes(netcdf_file(asked, tuple(names), self.layout))
            return
        with zipfile.ZipFile(target, "w") as archive:
            for place, name in enumerate(names):
                archive.writestr(f"../data_stream-oper_stepType-{place}.nc", netcdf_file(asked, (name,), self.layout))


@cache
def netcdf_file(request: str, names: tuple[str, ...], layout: Layout) -> bytes:
    """The answer to a request, which is JSON here, as a file; most tests make the same ones."""
    return bytes(downloaded(json.loads(request), names, layout).to_netcdf(engine="h5netcdf"))


def downloaded(request: Mapping[str, Any], names: Sequence[str], layout: Layout) -> xr.Dataset:
    """The answer to a request, in the present layout, in the old one, or in the old one with preliminary values."""
    north, west, south, east = request["area"]
    latitudes = np.arange(north, south - 0.1, -0.25)
    longitudes = np.arange(west, east + 0.1, 0.25)
    times = times_of(request)
    axis = "valid_time" if layout == "new" else "time"
    arrays = {}
    for name in names:
        array = xr.DataArray(
            values(name, times, latitudes.tolist(), longitudes.tolist()),
            dims=[axis, "latitude", "longitude"],
            attrs={"units": UNITS[name], "long_name": name, "GRIB_paramId": 1},
        )
        if layout == "versions":
            final = np.arange(len(times)) < len(times) // 2
            array = xr.concat([array.where(xr.DataArray(keep, dims=[axis])) for keep in (final, ~final)], "expver")
        arrays[name] = array
    coords: dict[str, Any] = {axis: times, "latitude": latitudes, "longitude": longitudes}
    if layout == "new":
        coords |= {"number": 0, "expver": (axis, np.full(len(times), "0001"))}
    return xr.Dataset(arrays, coords)


def make_store(
    path: Path,
    names: Sequence[str],
    start: str,
    end: str,
    latitudes: Sequence[float],
    longitudes: Sequence[float],
    *,
    hours: int = 24,
    stop: str | None = None,
    chunk: int = 1,
    **options: Any,
) -> str:
    """A Zarr store of [start, end) in the layout of ARCO-ERA5: chunks of one time, missing values after `stop`.

    Larger chunks are read much faster, where a test does not look at how they are read.
    """
    times = np.arange(start, end, np.timedelta64(hours, "h"), dtype="datetime64[h]").astype("datetime64[ns]")
    arrays = {}
    for name in names:
        found = values(name, times, latitudes, longitudes)
        if stop is not None:
            found[times > np.datetime64(stop) + np.timedelta64(1, "D")] = np.nan
        words = {"units": UNITS[name], "long_name": name, "short_name": name}
        arrays[VARIABLES[name]] = (["time", "latitude", "longitude"], found.astype(np.float32), words)
    coords: dict[str, Any] = {"time": times, "latitude": np.float32(latitudes), "longitude": np.float32(longitudes)}
    attrs = {"valid_time_start": start[:10], "valid_time_stop": stop or str(times[-1])[:10]}
    chunks = {long: {"chunks": (chunk, len(latitudes), len(longitudes))} for long in arrays}
    xr.Dataset(arrays, coords, attrs).to_zarr(path, encoding=chunks, **{"consolidated": False, **options})
    return str(path)
