"""Numbers of ERA5 that are made up."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

NAMES = ("u10", "v10", "u100", "v100", "t2m", "d2m", "skt", "sp")


def values(name: str, times: Any, latitudes: Sequence[float], longitudes: Sequence[float]) -> NDArray[np.float64]:
    """(T, Y, X): a plausible number of that variable, different everywhere; longitudes count from -180 to 180."""
    hours = (np.asarray(times).astype("datetime64[h]") - np.datetime64("1940-01-01", "h")).astype(float)
    east = (np.asarray(longitudes) + 180) % 360 - 180
    wave = np.sin(hours / 8766 * 2 * np.pi)[:, None, None] + hours[:, None, None] / 1e6
    place = np.asarray(latitudes)[:, None] / 90 + east[None, :] / 1000
    return (280.0 if name in ("t2m", "d2m", "skt") else 3.0) + NAMES.index(name) / 10 + 4 * wave + place


TIMES = np.datetime64("2020-01-01", "ns") + np.arange(48) * np.timedelta64(1, "h")
LATITUDES, LONGITUDES = [52.75, 52.5, 52.25], [13.25, 13.5, 13.75]
UNITS = {"u10": "m s**-1", "v10": "m s**-1", "t2m": "K", "sp": "Pa"}


def grid(*names: str) -> xr.Dataset:
    """Hourly, 3 x 3 points, every value different."""
    axes = ["time", "latitude", "longitude"]
    arrays = {name: (axes, values(name, TIMES, LATITUDES, LONGITUDES), {"units": UNITS[name]}) for name in names}
    return xr.Dataset(arrays, {"time": TIMES, "latitude": LATITUDES, "longitude": LONGITUDES})


def point(*names: str) -> xr.Dataset:
    return grid(*names).isel(latitude=1, longitude=1, drop=True)


def saved(dataset: xr.Dataset, path: Path) -> str:
    if path.suffix == ".zarr":
        dataset.to_zarr(path, consolidated=False)
    elif path.suffix == ".nc":
        dataset.to_netcdf(path, engine="h5netcdf")
    else:
        table = dataset.to_dataframe().reset_index()
        table = table.rename(columns={name: f"{name} ({unit})" for name, unit in UNITS.items()})
        table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return str(path)
