"""Days of made-up shops."""

import numpy as np
from numpy.typing import NDArray

from reproduction.programs.bakery import bakery_cases, bakery_days
from stakes.data.records import Record


def made_record(values: dict[str, NDArray[np.float64]], start: str = "2017-10-01") -> Record:
    count = len(next(iter(values.values())))
    times = np.datetime64(start, "s") + np.timedelta64(86400, "s") * np.arange(count)
    table = np.column_stack(list(values.values()))
    return Record("made", "made up", times, table, tuple(values), ("piece",) * len(values), "", "")


def shops(days: int = 400) -> dict[str, NDArray[np.float64]]:
    """Two shops that are open, one that is mostly closed, and a product that hardly anybody wants."""
    day = np.arange(days, dtype=np.float64)
    closed = np.where(day % 2 == 0, 0.0, 500.0)
    return {
        "demand_7_101": 100 + day,
        "demand_8_101": 200 + day % 7,
        "demand_9_101": closed,
        "demand_7_109": np.full(days, 1.0),
        "demand_7_110": np.full(days, 2.0),
        "is_holiday": (day == 50).astype(np.float64),
        "rain_2": day / 10,
    }


def test_features_by_hand() -> None:
    days = bakery_days(made_record(shops()))
    assert (days.product, days.shops) == ("101", ("7", "8"))
    place = list(days.days).index(np.datetime64("2017-10-01") + 50)
    np.testing.assert_allclose(days.demand[place], [150, 201])
    weekdays = [np.mean([143, 136, 129, 122]), 201]  # the same weekdays of the four weeks before
    week = [np.mean(100 + np.arange(42, 49)), np.mean(200 + np.arange(7))]  # two to eight days before
    np.testing.assert_allclose(days.features[place, :6], [*weekdays, *week, 1.0, 5.0])
    assert days.features[place, 6:].sum() == 1.0
    assert days.features.shape[1] == 13
    assert days.days[0] == np.datetime64("2017-10-08")  # the first with a same weekday before it


def test_days_on_which_a_shop_is_closed_are_left_out() -> None:
    values = shops()
    values["demand_8_101"][60] = 0.0
    days = bakery_days(made_record(values))
    assert np.datetime64("2017-10-01") + 60 not in days.days
    later = list(days.days).index(np.datetime64("2017-10-01") + 67)
    assert days.features[later, 1] == 200 + 67 % 7  # the mean of the other three weeks, all alike


def test_parts_by_their_dates() -> None:
    train, validation, test = bakery_cases(bakery_days(made_record(shops())))
    assert train.times is not None
    assert validation.times is not None
    assert test.times is not None
    assert (train.times[-1], validation.times[0]) == (np.datetime64("2017-12-31"), np.datetime64("2018-01-01"))
    assert (validation.times[-1], test.times[0]) == (np.datetime64("2018-06-30"), np.datetime64("2018-07-01"))


def test_the_record_of_the_package() -> None:
    days = bakery_days()
    assert len(days.shops) == 21
    assert (days.demand > 0).all()
    assert np.isfinite(days.features).all()
