"""Readings of a power system made into regular means: freak values become missing, nothing is filled in.

Where P is the 99.9 % quantile of all hourly means, an hour is missing if it exceeds 1.25 P, or if it lies more than
0.25 P above or below both its neighbours; half-hourly readings are screened before, with 0.12 P. Negative hours, a
standing farm's own use, count as 0. A mean over 6 hours needs 5 of them.
"""

import numpy as np
from numpy.typing import NDArray

from stakes.data.records.entsoe_wheel import PowerReadings

__all__ = ["hourly_means", "six_hourly_means", "yearly_capacity"]

Floats = NDArray[np.float64]

_HIGHEST = 0.999
_TOO_HIGH = 1.25
_SPIKE_OF_AN_HOUR = 0.25
_SPIKE_OF_HALF_AN_HOUR = 0.12
_CAPACITY = 0.995
_HOURS, _HOURS_NEEDED = 6, 5


def hourly_means(readings: PowerReadings, hours: NDArray[np.datetime64]) -> Floats:
    """The screened mean of each hour, (H,), NaN where it is missing.

    Args:
        readings: Power as reported.
        hours: The times (H,) at which consecutive hours begin.
    """
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
    """The means over 6 hours, (H / 6,), NaN where more than one hour is missing.

    Args:
        hourly: Hourly means (H,), H a multiple of 6.
    """
    blocks = hourly.reshape(-1, _HOURS)
    counts = np.isfinite(blocks).sum(1)
    return np.where(counts >= _HOURS_NEEDED, np.nansum(blocks, 1) / np.maximum(counts, 1), np.nan)


def yearly_capacity(hourly: Floats, hours: NDArray[np.datetime64]) -> dict[int, float]:
    """The 99.5 % quantile of each year's hours: a stand-in for the capacity installed in that year.

    Args:
        hourly: Hourly means (H,).
        hours: The times (H,) at which the hours begin.
    """
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
