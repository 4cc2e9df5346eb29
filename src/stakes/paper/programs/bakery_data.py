"""Days of a bakery's shops: the demand for one product, and what is known of it two days before.

The product with the largest demand, and the shops that are open on nearly all training days; days on which one of them
is closed are left out, since who closes is known beforehand. Features of a day: of each shop the mean demand of the
last four same weekdays and of the last week on which it was open, both up to two days before; promotions, holidays and
weekday; and rain and temperature of the day itself, a stand-in for a forecast of them.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from stakes.data.cases import Cases
from stakes.data.records.record import Record, load_record

__all__ = ["BakeryDays", "bakery_cases", "bakery_days"]

_RECORD = "demand_bakery"
_PRODUCTS = ("101", "109", "110")
_VALIDATION, _TEST = np.datetime64("2018-01-01"), np.datetime64("2018-07-01")
_OPEN = 0.95  # of the training days
_KNOWN = 2  # days before, up to which demand is known
_WEEKDAYS = (7, 14, 21, 28)
_WEEK = tuple(range(_KNOWN, _KNOWN + 7))
_BESIDE = ("promotion_", "is_", "rain_", "temperature_")

Floats = NDArray[np.float64]


class BakeryDays(NamedTuple):
    """Days on which all shops are open.

    Attributes:
        features: What is known of each day, (N, F).
        demand: The demand at each shop, in pieces, (N, D).
        days: Its date, (N,).
        product: The number of the product.
        shops: The numbers of the D shops.
    """

    features: Floats
    demand: Floats
    days: NDArray[np.datetime64]
    product: str
    shops: tuple[str, ...]


def bakery_days(record: Record | None = None) -> BakeryDays:
    """The days with their features.

    Args:
        record: Demand by day, columns "demand_SHOP_PRODUCT" and others; None for the record of the package.
    """
    record = record or load_record(_RECORD)
    days = record.times.astype("datetime64[D]")
    training = days < _VALIDATION
    product = max(_PRODUCTS, key=lambda each: np.nansum(_demand(record, each)[0][training]))
    demand, shops = _demand(record, product)
    often = (demand[training] > 0).mean(0) >= _OPEN
    demand, shops = demand[:, often], tuple(shop for shop, kept in zip(shops, often, strict=True) if kept)
    opened = np.where(demand > 0, demand, np.nan)
    beside = [place for place, name in enumerate(record.columns) if name.startswith(_BESIDE)]
    weekdays = np.eye(7)[days.astype(np.int64) % 7]
    features = [_mean_before(opened, _WEEKDAYS), _mean_before(opened, _WEEK), record.values[:, beside], weekdays]
    table = np.concatenate(features, axis=1)
    whole = np.isfinite(table).all(1) & np.isfinite(opened).all(1)
    return BakeryDays(table[whole], demand[whole], days[whole], product, shops)


def bakery_cases(days: BakeryDays) -> tuple[Cases, Cases, Cases]:
    """Training cases to the end of 2017, validation cases to the middle of 2018, and test cases after that.

    Args:
        days: All days.
    """
    features, demand = (torch.from_numpy(values).float() for values in (days.features, days.demand))
    first, second = np.searchsorted(days.days, [_VALIDATION, _TEST])
    edges = (slice(0, first), slice(first, second), slice(second, len(days.days)))
    train, validation, test = (Cases(features[rows], demand[rows], days.days[rows]) for rows in edges)
    return train, validation, test


def _demand(record: Record, product: str) -> tuple[Floats, tuple[str, ...]]:
    """The demand for a product (T, shops), and the shops."""
    names = [name.split("_") for name in record.columns]
    places = [place for place, name in enumerate(names) if name[0] == "demand" and name[-1] == product]
    return record.values[:, places], tuple(names[place][1] for place in places)


def _mean_before(values: Floats, days: tuple[int, ...]) -> Floats:
    """The mean of what is there some days before each day, (T, D); NaN where nothing is."""
    moved = np.full((len(days), *values.shape), np.nan)
    for place, before in enumerate(days):
        moved[place, before:] = values[:-before]
    there = np.isfinite(moved)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, moved, 0.0).sum(0) / there.sum(0))
