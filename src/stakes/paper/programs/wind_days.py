"""Days of ten wind farms with what a weather forecast says of them (GEFCom2014, Hong et al. 2016).

A case is a day from 01 to 24 UTC, forecast at 00 UTC by the weather run of that time: the power of the farms as a
fraction of their capacity, the mean over those that report, for each of 24 hours. What is known of it: the power that
the forecast wind speeds mean by each farm's own curve, hour by hour; by how much that was wrong in the last hour
before; and the season. A curve is the mean power in twenty classes of forecast wind speed, of training days, with
straight lines between them.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from stakes.data.cases import Cases
from stakes.data.records.reference_tables import GEFCOM_WIND, read_reference_table
from stakes.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["WindDays", "power_by_speed", "wind_cases", "wind_days"]

_FARMS = tuple(f"z{farm:02d}" for farm in range(1, 11))
_HOURS = 24
_CLASSES = 20
_YEAR = 365.25
_VALIDATION, _TEST = np.datetime64("2013-04-01"), np.datetime64("2013-07-01")

Floats = NDArray[np.float64]


class WindDays(NamedTuple):
    """Days whose day before is there.

    Attributes:
        features: What is known of each day, (N, 27).
        power: The mean power of the farms in each hour, a fraction of capacity, (N, 24).
        days: Its date, (N,).
    """

    features: Floats
    power: Floats
    days: NDArray[np.datetime64]


def wind_days(folder: str | None) -> WindDays:
    """The days of the table with their features.

    Args:
        folder: The folder of the table; None for the current one.
    """
    table = read_reference_table(GEFCOM_WIND, folder)
    names = ("time", *(f"{name}_{farm}" for name in ("power", "u100", "v100") for farm in _FARMS))
    for name in names:
        if name not in table:
            raise TableError(f"{GEFCOM_WIND} must have the column {name}, got {list(table.columns)[:5]} and others")
    hours = table["time"].to_numpy("datetime64[h]") - np.timedelta64(1, "h")  # 24 UTC belongs to the day that it ends
    days = hours.astype("datetime64[D]")
    if len(hours) % _HOURS or (days.reshape(-1, _HOURS) != days[::_HOURS, None]).any():
        raise TableError(f"{GEFCOM_WIND} must have whole days, from 01 to 24 UTC")
    power, east, north = (_columns(table, name) for name in ("power", "u100", "v100"))
    known = hours < _VALIDATION.astype("datetime64[h]")
    meant = power_by_speed(np.hypot(east, north), power, known).mean(1).reshape(-1, _HOURS)
    made = np.nanmean(power, axis=1).reshape(-1, _HOURS)
    dates = days[::_HOURS]
    angle = 2 * np.pi * (dates - dates.astype("datetime64[Y]")).astype(np.float64) / _YEAR
    features = [meant[1:], (made - meant)[:-1, -1:], np.cos(angle)[1:, None], np.sin(angle)[1:, None]]
    return WindDays(np.concatenate(features, axis=1), made[1:], dates[1:])


def power_by_speed(speed: Floats, power: Floats, known: NDArray[np.bool_]) -> Floats:
    """The power that forecast wind speeds mean, (n, farms), by the mean power of known hours with such a forecast.

    Args:
        speed: Forecast wind speeds, (n, farms).
        power: Power, (n, farms); NaN where it is not known.
        known: Which hours the curves are learned from, (n,).
    """
    meant = np.empty_like(speed)
    for farm in range(speed.shape[1]):
        rows = known & np.isfinite(power[:, farm])
        order = np.argsort(speed[rows, farm], kind="stable")
        classes = np.array_split(order, min(_CLASSES, len(order)))
        speeds, powers = ([values[rows, farm][part].mean() for part in classes] for values in (speed, power))
        meant[:, farm] = np.interp(speed[:, farm], speeds, powers)
    return meant


def wind_cases(days: WindDays) -> tuple[Cases, Cases, Cases]:
    """Training cases to March 2013, validation cases to June, and test cases after that.

    Args:
        days: All days.
    """
    edges = [0, *np.searchsorted(days.days, [_VALIDATION, _TEST]).tolist(), len(days.days)]
    features, power = (torch.tensor(values, dtype=torch.float32) for values in (days.features, days.power))
    rows = [slice(first, end) for first, end in pairwise(edges)]
    first, second, third = (Cases(features[part], power[part], days.days[part]) for part in rows)
    return first, second, third


def _columns(table: "pd.DataFrame", name: str) -> Floats:
    return table[[f"{name}_{farm}" for farm in _FARMS]].to_numpy(np.float64)
