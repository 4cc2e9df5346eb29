"""Tables of the layout of those that may not be shipped, with values made of waves; some shorter than they are."""

from functools import cache

import numpy as np
import pandas as pd

from reproduction.tables import EUROPEAN_CAPACITY, EUROPEAN_POWER, GEFCOM_WIND, NEW_YORK_LOAD, SERIES
from reproduction.tasks.portfolio import _ZONES

_FARMS = [f"z{farm:02d}" for farm in range(1, 11)]


def fake_table(name: str, folder: str | None, time: str = "time") -> pd.DataFrame:
    """What `read_reference_table` would read."""
    return _table(name).rename(columns={time: "time"})


@cache
def _table(name: str) -> pd.DataFrame:
    return {
        EUROPEAN_POWER: _european_power,
        EUROPEAN_CAPACITY: _european_capacity,
        GEFCOM_WIND: _gefcom,
        NEW_YORK_LOAD: _new_york,
    }[name]()


def _waves(times: pd.DatetimeIndex, columns: list[str]) -> dict[str, np.ndarray]:
    """Between 0 and 1, each with two periods, one of which all share."""
    steps = np.arange(len(times))
    return {column: (2 + np.sin(steps / (9 + place)) + np.sin(steps / 150)) / 4 for place, column in enumerate(columns)}


def _european_power() -> pd.DataFrame:
    times = pd.date_range("2017", "2021", freq="6h", inclusive="left")
    return pd.DataFrame({"time": times, **_waves(times, list(SERIES))})


def _european_capacity() -> pd.DataFrame:
    return pd.DataFrame({"series": SERIES, **{f"p99.5_{year}": float(year - 2015) for year in range(2017, 2021)}})


def _gefcom() -> pd.DataFrame:
    times = pd.date_range("2013-02-01 01:00", "2013-09-01", freq="h")
    powers = _waves(times, [f"power_{farm}" for farm in _FARMS])
    weather = [f"{name}_{farm}" for farm in _FARMS for name in ("u10", "v10", "u100", "v100")]
    return pd.DataFrame({"time": times, **powers, **_waves(times, weather)})


def _new_york() -> pd.DataFrame:
    times = pd.date_range("2018-10-01 06:00", "2019-06-01", freq="h")
    loads = {f"load_{zone}": 3000 * values for zone, values in _waves(times, list(_ZONES)).items()}
    forecasts = {
        name.replace("load", "dayahead"): load + 50 * np.sin(np.arange(len(times)) / (5 + place))
        for place, (name, load) in enumerate(loads.items())
    }
    return pd.DataFrame({"time_utc": times, **loads, **forecasts})
