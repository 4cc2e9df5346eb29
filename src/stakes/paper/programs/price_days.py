"""Days of the PJM electricity price with what is known the day before (the battery problem of Donti et al. 2017).

A case is a day of 24 prices, in USD per MWh. What is known of it: the prices of the day before and of the same day a
week before, the load forecast and the temperatures of the day with their squares (a stand-in for a forecast of them),
the day of the week and the season. The last fifth of the days is the test, as theirs is.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stakes.data.records.reference_tables import read_reference_table
from stakes.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PRICE_TABLE", "PriceDays", "price_days"]

PRICE_TABLE = "donti_pjm_price_load_hourly_2008_2016.csv.gz"
"""The file of the prices, which is not shipped."""

_TIME = "time_local_eastern"
_PRICE, _LOAD, _HEAT = "pjm_da_price", "pjm_load_forecast", "temp_dca_F"
_HOURS, _WEEK, _YEAR = 24, 7, 365.25
_LOAD_UNIT = 1000.0  # MW in a GW

Floats = NDArray[np.float64]


class PriceDays(NamedTuple):
    """Days whose week before is there.

    Attributes:
        features: What is known of each day, (N, 153).
        prices: Its hourly prices in USD per MWh, (N, 24).
        days: Its date, (N,).
    """

    features: Floats
    prices: Floats
    days: NDArray[np.datetime64]


def price_days(folder: str | None) -> PriceDays:
    """The days of the table with their features.

    Args:
        folder: The folder of the table; None for the current one.
    """
    table = read_reference_table(PRICE_TABLE, folder, _TIME)
    for column in ("time", _PRICE, _LOAD, _HEAT):
        if column not in table:
            raise TableError(f"{PRICE_TABLE} must have the column {column}, got {list(table.columns)}")
    table = table.dropna(subset=[_PRICE, _LOAD])
    days = table["time"].to_numpy("datetime64[D]")
    whole = len(days) % _HOURS == 0 and len(days) > _WEEK * _HOURS
    grid = days.reshape(-1, _HOURS) if whole else np.empty((0, 1), "datetime64[D]")
    if not len(grid) or (grid != grid[:, :1]).any() or (np.diff(grid[:, 0]) != np.timedelta64(1, "D")).any():
        raise TableError(f"{PRICE_TABLE} must have whole days of prices without a gap, more than a week of them")
    prices, load, heat = (_by_day(table, column) for column in (_PRICE, _LOAD, _HEAT))
    load = load / _LOAD_UNIT
    rows, dates = slice(_WEEK, None), grid[_WEEK:, 0]
    features = [prices[_WEEK - 1 : -1], prices[:-_WEEK], load[rows], load[rows] ** 2, heat[rows], heat[rows] ** 2]
    return PriceDays(np.concatenate([*features, _calendar(dates)], axis=1), prices[rows], dates)


def _calendar(days: NDArray[np.datetime64]) -> Floats:
    """The day of the week, and the day of the year as a wave, (N, 9)."""
    weekday = (days.astype(np.int64) + 3) % _WEEK  # day 0, 1970-01-01, was a Thursday
    angle = 2 * np.pi * (days - days.astype("datetime64[Y]")).astype(np.float64) / _YEAR
    return np.column_stack([np.eye(_WEEK)[weekday], np.cos(angle), np.sin(angle)])


def _by_day(table: "pd.DataFrame", column: str) -> Floats:
    """Days by hours; a temperature that is missing lies on the line between its neighbours."""
    values: Floats = table[column].interpolate(limit_direction="both").to_numpy(np.float64)
    return values.reshape(-1, _HOURS)
