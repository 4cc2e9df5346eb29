"""Times of any kind made UTC, and the check that they lie on a regular axis."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.errors import SettingError, TableError

Times = NDArray[np.datetime64]


def to_utc(times: Any, name: str) -> Times:
    """Times of any kind, or ISO texts, as datetime64[s] in UTC; naive ones are in UTC, and pandas is not needed."""
    times = getattr(times, "array", times)  # what stands behind an index or a column of pandas
    if getattr(times, "tz", None) is not None:
        times = times.tz_convert(None)
    moments = np.asarray(times)
    if moments.dtype.kind in "OU":
        try:
            moments = np.array([_naive_utc(time) for time in moments.flat], "datetime64[us]").reshape(moments.shape)
        except ValueError as error:
            raise TableError(f"{name} must be dates and times, but {error}") from error
    if moments.dtype.kind != "M" or moments.ndim != 1:
        raise TableError(f"{name} must be a list of dates and times, got {moments.dtype} of shape {moments.shape}")
    if np.isnat(moments).any():
        raise TableError(f"{name} must all be known, got NaT in row {np.isnat(moments).argmax()}")
    seconds: Times = moments.astype("datetime64[s]")
    if len(fractional := np.flatnonzero(seconds != moments)):
        raise TableError(f"{name} must be whole seconds, got {moments[fractional[0]]}")
    return seconds


def check_regular(times: Times, step_hours: float | None = None) -> int:
    """The step in seconds, or an error unless the times increase by multiples of it."""
    least = 2 if step_hours is None else 1
    if len(times) < least:
        raise TableError(f"there must be at least {least} times, got {len(times)}")
    apart = np.diff(times).astype(np.int64)
    if len(backward := np.flatnonzero(apart < 0)):
        row = backward[0] + 1
        raise TableError(f"times must increase, but row {row}, {times[row]}, comes after {times[row - 1]}")
    if len(twice := np.flatnonzero(apart == 0)):
        raise TableError(f"times must be unique, but rows {twice[0]} and {twice[0] + 1} are both {times[twice[0]]}")
    step = most_frequent_step(apart) if step_hours is None else hours_to_seconds("step_hours", step_hours)
    if len(odd := np.flatnonzero((times - times[0]).astype(np.int64) % step)):
        raise TableError(
            f"times must be multiples of one step apart, but row {odd[0]}, {times[odd[0]]}, is not a multiple of "
            f"{step / 3600:g} h from {times[0]}; if the step is another, set step_hours"
        )
    return step


def hours_to_seconds(name: str, hours: float, minimum: int = 1) -> int:
    """Hours as whole seconds, or an error where they are too few."""
    if not isinstance(hours, int | float) or not np.isfinite(hours) or round(hours * 3600) < minimum:
        raise SettingError(f"{name} must be a number of hours {'above 0' if minimum else 'from 0 on'}, got {hours!r}")
    return round(hours * 3600)


def most_frequent_step(apart: NDArray[np.int64]) -> int:
    """The step that occurs most often, the smaller of two that tie."""
    steps, counts = np.unique(apart, return_counts=True)
    return int(steps[counts.argmax()])


def _naive_utc(time: Any) -> date | str | np.datetime64 | None:
    if isinstance(time, str) and len(time) > len("2020-01"):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime) and time.tzinfo is not None:
        time = time.astimezone(UTC).replace(tzinfo=None)
    if time is None or time != time:  # NaT of any library
        return None
    if not isinstance(time, date | str | np.datetime64):
        raise ValueError(f"{time!r} is not one")
    return time
