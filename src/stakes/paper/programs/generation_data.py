"""Days of an electricity load with what Donti, Amos and Kolter (2017) forecast them from.

Their features: the loads of the day before, its temperatures and their squares, the temperatures of the day itself with
squares and cubes (a stand-in for a forecast of them), whether it is a weekend, a federal holiday, or summer time, and
the day of the year as a wave. The last fifth of the days is the test, as theirs is. We differ in that features are
scaled by training days alone, that federal holidays are known in the test years too, and that a last day of a single
hour is left out. From 2012 on the temperatures of the table are not in degrees any more, and from 2014 on they are
constant: as in their runs.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stakes.data.records.reference_tables import read_reference_table
from stakes.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LOAD_TABLE", "LoadDays", "load_days", "summer_time"]

LOAD_TABLE = "donti_pjm_price_load_hourly_2008_2016.csv.gz"
"""The file of the loads, which is not shipped."""

_TIME, _LOAD, _HEAT = "time_local_eastern", "load_GW", "temp"
_HOURS = 24
_LEAST_HOURS = 23  # of a day, as the one on which summer time begins has
_YEAR = 365

Floats = NDArray[np.float64]


class LoadDays(NamedTuple):
    """Days whose day before is there.

    Attributes:
        features: What is known of each day, (N, 149).
        loads: Its hourly loads in GW, (N, 24).
        days: Its date, (N,).
    """

    features: Floats
    loads: Floats
    days: NDArray[np.datetime64]


def load_days(folder: str | None) -> LoadDays:
    """The days of the table with their features.

    Args:
        folder: The folder of the table; None for the current one.
    """
    table = read_reference_table(LOAD_TABLE, folder, _TIME)
    for column in ("time", _LOAD, _HEAT):
        if column not in table:
            raise TableError(f"{LOAD_TABLE} must have the column {column}, got {list(table.columns)}")
    table = table.dropna(subset=[_LOAD, _HEAT])
    loads, heat = (_by_day(table, column) for column in (_LOAD, _HEAT))
    days = loads.index.to_numpy("datetime64[D]")
    load, warmth = loads.to_numpy(np.float64), heat.to_numpy(np.float64)
    before, today = warmth[:-1], warmth[1:]
    features = [load[:-1], before, before**2, today, today**2, today**3, _calendar(days[1:])]
    following = np.diff(days) == np.timedelta64(1, "D")  # days whose day before is there
    return LoadDays(np.concatenate(features, axis=1)[following], load[1:][following], days[1:][following])


def summer_time(days: NDArray[np.datetime64]) -> NDArray[np.bool_]:
    """Whether summer time holds in the United States when each day begins, by the rule since 2007.

    It begins on the second Sunday of March and ends on the first one of November, both after midnight.

    >>> summer_time(np.array(["2010-03-14", "2010-03-15", "2010-11-07", "2010-11-08"], dtype="datetime64[D]")).tolist()
    [False, True, True, False]

    Args:
        days: Dates (N,).
    """
    begins, ends = _sunday(days, month=3) + 7, _sunday(days, month=11)
    return np.asarray((days.astype(np.int64) > begins) & (days.astype(np.int64) <= ends))


def _sunday(days: NDArray[np.datetime64], month: int) -> NDArray[np.int64]:
    """The first Sunday of a month in the year of each day, counted in days since 1970."""
    months = 12 * days.astype("datetime64[Y]").astype(np.int64) + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    return first.astype(np.int64) + (6 - _weekday(first)) % 7


def _weekday(days: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """0 for Monday."""
    return (days.astype(np.int64) + 3) % 7  # day 0, 1970-01-01, was a Thursday


def _calendar(days: NDArray[np.datetime64]) -> Floats:
    """Weekend, holiday, summer time, and the day of the year as a wave, (N, 5)."""
    from pandas.tseries.holiday import USFederalHolidayCalendar

    holidays = USFederalHolidayCalendar().holidays(str(days.min()), str(days.max())).to_numpy("datetime64[D]")
    angle = 2 * np.pi * ((days - days.astype("datetime64[Y]")).astype(np.int64) + 1) / _YEAR
    columns = [_weekday(days) >= 5, np.isin(days, holidays), summer_time(days), np.cos(angle), np.sin(angle)]
    return np.column_stack(columns).astype(np.float64)


def _by_day(table: "pd.DataFrame", column: str) -> "pd.DataFrame":
    """Days by hours; an hour that a day lacks has the value of the next one, or of the one before."""
    time = table["time"]
    wide = table.assign(day=time.dt.normalize(), hour=time.dt.hour).pivot_table(column, "day", "hour")
    whole = wide.reindex(columns=range(_HOURS)).dropna(thresh=_LEAST_HOURS)
    if whole.empty:
        raise TableError(f"{LOAD_TABLE} must have days of at least {_LEAST_HOURS} hours, got none")
    return whole.bfill(axis=1).ffill(axis=1)
