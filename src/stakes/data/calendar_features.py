"""What the calendar says of a time, as features: waves of the hour and the season, the weekday, public holidays."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.time_axis import Times
from stakes.errors import SettingError
from stakes.settings import shown

__all__ = ["calendar_features", "calendar_names", "check_calendar"]

_WAVES = {"hour": "hour", "season": "season", "weekday_wave": "weekday"}  # and how their features begin
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_HOLIDAY = re.compile(r"holiday:(?P<country>[A-Z]{2,3})(?:-(?P<part>[A-Za-z0-9]{1,6}))?")
_EXPECTED = "hour, weekday, season, holiday:COUNTRY (such as holiday:FR or holiday:DE-BY)"


def check_calendar(calendar: Sequence[str]) -> None:
    """Raise unless each is known: "hour", "weekday", "season", "holiday:FR", or "weekday_wave".

    Args:
        calendar: What of a time shall be features. `weekday_wave` is sine and cosine of the weekday, which `weekday`
            was in earlier bundles.
    """
    for name in calendar:
        if name not in (*_WAVES, "weekday") and not _HOLIDAY.fullmatch(name):
            raise SettingError(f"calendar must be of {_EXPECTED}, got {shown(name)}")


def calendar_names(calendar: Sequence[str]) -> tuple[str, ...]:
    """The names of the features.

    >>> calendar_names(("hour", "holiday:FR"))
    ('hour_sin', 'hour_cos', 'holiday_FR')

    Args:
        calendar: What `check_calendar` takes.
    """
    return tuple(feature for name in calendar for feature in _names(name))


def calendar_features(times: Times, calendar: Sequence[str]) -> NDArray[np.float64]:
    """The features (N, K) of each time: sine and cosine of a wave, one 1 of seven for the weekday, 1 on a holiday.

    Args:
        times: The times (N,), in UTC.
        calendar: What `check_calendar` takes.
    """
    return np.concatenate([np.empty((len(times), 0)), *(_values(times, name) for name in calendar)], axis=1)


def _names(name: str) -> tuple[str, ...]:
    if name in _WAVES:
        return (f"{_WAVES[name]}_sin", f"{_WAVES[name]}_cos")
    return tuple(f"weekday_{day}" for day in _WEEKDAYS) if name == "weekday" else (name.replace(":", "_"),)


def _values(times: Times, name: str) -> NDArray[np.float64]:
    days, years = times.astype("datetime64[D]"), times.astype("datetime64[Y]")
    weekday = (days.astype(int) + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    if name == "weekday":
        return np.eye(7)[weekday]
    if name not in _WAVES:
        return _on_holidays(days, name)[:, None]
    year_start = years.astype("datetime64[s]")
    if name == "hour":
        fraction = (times - days) / np.timedelta64(1, "D")
    elif name == "season":
        fraction = (times - year_start) / ((years + 1).astype("datetime64[s]") - year_start)
    else:
        fraction = weekday / 7
    return np.stack([np.sin(2 * np.pi * fraction), np.cos(2 * np.pi * fraction)], axis=1)


def _on_holidays(days: NDArray[np.datetime64], name: str) -> NDArray[np.float64]:
    """1 on every public holiday (N,), by the package `holidays`."""
    match = _HOLIDAY.fullmatch(name)
    assert match is not None  # `check_calendar` has seen it
    years = sorted({day.year for day in np.unique(days.astype("datetime64[Y]")).astype(object)})
    try:
        known = _holidays(name).country_holidays(match["country"], subdiv=match["part"], years=years)
    except NotImplementedError as error:
        raise SettingError(
            f"calendar {name} is of a country or part that the package holidays lacks: {error}"
        ) from error
    return np.isin(days, np.array(sorted(known), "datetime64[D]")).astype(np.float64)


def _holidays(name: str) -> Any:
    try:
        import holidays
    except ImportError as error:
        raise SettingError(f'calendar {name} needs the package holidays: pip install "stakes[holidays]"') from error
    return holidays
