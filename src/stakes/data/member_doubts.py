"""What looks wrong with the members of a forecast: codes for missing values, quantiles by another name, two units.

All of it is taken as it is, and told.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stakes.data.case_index import cases_text
from stakes.data.forecast_values import ForecastValues
from stakes.data.missing_codes import doubtful_end
from stakes.number_text import number_text

__all__ = ["ascend_like_quantiles", "code_doubts", "member_doubts"]

Floats = NDArray[np.float64]

_HARDLY_BY_CHANCE = math.log(1000)
_LEAST_MEMBERS, _MANY_MEMBERS = 3, 5  # of two models one is often the higher one, and of three or four for a day or so
_MANY_CASES = 30  # in which so few may not ascend by chance
_LEAST_NUMBERS = 30  # of a target, to say what its size is
_OTHER_UNIT = 300.0  # times as large: watts among kilowatts, not a small site among large ones
_ALIKE = 10.0  # times, at most, between the others: sites of all sizes, and dawn and noon, tell nothing


def member_doubts(forecast: ForecastValues, name: str, may_be_quantiles: bool) -> tuple[str, ...]:
    """Sentences about members that can hardly be right; none where nothing is doubtful.

    Args:
        forecast: The forecasts of all cases.
        name: What the sentences call the file.
        may_be_quantiles: Whether nobody has said that the values are members.
    """
    notes = [*code_doubts(forecast, name), *_unit_doubts(forecast, name)]
    if may_be_quantiles and forecast.levels is None and ascend_like_quantiles(forecast.values):
        notes.append(
            "the members of every case ascend, as quantiles do; if they are quantiles, name the columns by their "
            "levels, such as q10 and q50, and if they are members, --read-as members says so"
        )
    return tuple(notes)


def ascend_like_quantiles(values: Floats) -> bool:
    """Whether members ascend in every case and target, which is hardly by chance.

    Args:
        values: Members (N, M, D); equal ones, such as dry ones of rain, tell nothing.
    """
    cases, members, _ = values.shape
    if members < _LEAST_MEMBERS or (members < _MANY_MEMBERS and cases < _MANY_CASES):
        return False
    steps = np.diff(values, axis=1)
    if (steps < 0).any():
        return False
    rises = np.bincount((steps > 0).sum(1).max(1))  # cases by how often the target that tells most rises
    orders = sum(each * math.lgamma(count + 2) for count, each in enumerate(rises.tolist()))
    return orders >= _HARDLY_BY_CHANCE


def code_doubts(forecast: ForecastValues, name: str) -> tuple[str, ...]:
    """A sentence for each target with a value that looks like a code for a missing one.

    Args:
        forecast: The forecasts of all cases.
        name: What the sentences call the file.
    """
    notes = []
    for place, target in enumerate(forecast.targets):
        values = forecast.values[..., place]
        known = values[~np.isnan(values)]
        if len(known) < _LEAST_MEMBERS or (value := doubtful_end(known)) is None:
            continue
        cases = cases_text(forecast.index, (values == value).any(1))
        what = "members" if forecast.levels is None else "quantiles"
        notes.append(
            f"{name} has {number_text(value)} among the {what} of {target!r}, {cases}, far "
            "beyond all others; it is taken as it is: if it stands for a missing value, leave the field empty"
        )
    return tuple(notes)


def _unit_doubts(forecast: ForecastValues, name: str) -> tuple[str, ...]:
    """A sentence where one target alone is of another size than all others, which are of one."""
    cases, members, targets = forecast.values.shape
    if targets < 3 or cases * members < _LEAST_NUMBERS or np.isnan(forecast.values).all((0, 1)).any():
        return ()
    sizes = np.nanmedian(np.abs(forecast.values), axis=(0, 1))
    spreads = np.nanstd(forecast.values, axis=(0, 1))
    for place, target in enumerate(forecast.targets):
        others = np.delete(sizes, place)
        if all(_is_odd(every[place], np.delete(every, place)) for every in (sizes, spreads)):
            size, low, high = (number_text(float(f"{each:.3g}")) for each in (sizes[place], others.min(), others.max()))
            return (f"{name} has {target} around {size}, and all other targets around {low} to {high}: another unit?",)
    return ()


def _is_odd(one: np.float64, others: Floats) -> bool:
    low, high = others.min(), others.max()
    return bool(low > 0 and one > 0 and high <= _ALIKE * low and (one * _OTHER_UNIT < low or one > high * _OTHER_UNIT))
