"""Tests of forecasts that somebody else makes, as they came."""

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import NonFiniteError, SettingError, ShapeError, StakesError, TableError

MEMBERS = np.arange(24.0).reshape(4, 3, 2)
TIMES = np.datetime64("2024-01-01T06") + np.arange(4).astype("timedelta64[D]")


def test_what_is_not_given_has_plain_names():
    given = ForecastSet(MEMBERS.astype(np.float32))
    assert given.members.dtype == np.float64
    assert given.targets == ("y0", "y1")
    assert given.index.equals(pd.RangeIndex(4, name="row"))
    assert len(given) == 4
    assert not given.is_point
    assert ForecastSet(MEMBERS[:, :1]).is_point


@pytest.mark.parametrize("left_out", ["times", "issued", "leads"])
def test_any_two_of_times_issued_and_leads_give_the_third(left_out):
    leads = np.array([6.0, 30.0, 0.0, 12.5])
    moments = {"times": TIMES, "leads": leads, "issued": TIMES - (leads * 3600).astype("timedelta64[s]")}
    given = ForecastSet(MEMBERS, **{name: values for name, values in moments.items() if name != left_out})
    for name, values in moments.items():
        np.testing.assert_array_equal(getattr(given, name), values)


def test_one_of_them_alone_stays_alone():
    given = ForecastSet(MEMBERS, leads=[1, 2, 3, 4])
    assert given.times is None
    assert given.issued is None


def test_times_are_in_utc():
    given = ForecastSet(MEMBERS, times=pd.DatetimeIndex(TIMES).tz_localize("Europe/Berlin"))
    assert given.times[0] == np.datetime64("2024-01-01T05")


def test_rows_are_of_every_field():
    given = ForecastSet(
        MEMBERS,
        weights=[1, 2, 1],
        targets=("north", "south"),
        index=pd.Index(list("abcd")),
        times=TIMES,
        leads=[24, 24, 48, 48],
        sites=["p", "q", "p", "q"],
        features=pd.DataFrame({"wind": [1, 2, 3, 4]}, index=[9, 8, 7, 6]),
        outcomes=MEMBERS[:, 0],
        today=[5, 6, 7, 8],
        notes=("a note",),
    )
    for selection in (slice(1, 3), [1, 2], np.array([False, True, True, False])):
        some = given.rows(selection)
        np.testing.assert_array_equal(some.members, MEMBERS[1:3])
        np.testing.assert_array_equal(some.weights, [1, 2, 1])
        assert some.targets == ("north", "south")
        assert some.notes == ("a note",)
        assert some.index.tolist() == ["b", "c"]
        np.testing.assert_array_equal(some.issued, given.issued[1:3])
        np.testing.assert_array_equal(some.leads, [24, 48])
        assert some.sites.tolist() == ["q", "p"]
        assert some.features["wind"].tolist() == [2, 3]
        np.testing.assert_array_equal(some.outcomes, MEMBERS[1:3, 0])
        assert some.today.tolist() == [6, 7]


def test_in_order_is_by_issue_and_then_by_time():
    days = np.array([3, 1, 2, 1]).astype("timedelta64[D]")
    times = np.datetime64("2024-01-01") + days
    given = ForecastSet(MEMBERS, times=times, leads=[48, 0, 0, 24])  # issued on 1, 1, 2, 0
    assert given.in_order().index.tolist() == [3, 1, 0, 2]
    assert ForecastSet(MEMBERS, times=times).in_order().index.tolist() == [1, 3, 2, 0]
    assert ForecastSet(MEMBERS).in_order().index.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ({"members": MEMBERS[0]}, ShapeError, "members"),
        ({"members": MEMBERS[:0]}, ShapeError, "members"),
        ({"members": [[["a"]]]}, ShapeError, "members"),
        ({"members": np.where(MEMBERS == 7, np.nan, MEMBERS)}, NonFiniteError, "members"),
        ({"weights": [1, 2]}, ShapeError, "weights"),
        ({"weights": [1, -1, 1]}, SettingError, "weights"),
        ({"targets": ("one",)}, ShapeError, "targets"),
        ({"index": pd.Index([1, 2])}, ShapeError, "index"),
        ({"outcomes": np.ones((4, 1))}, ShapeError, "outcomes"),
        ({"outcomes": np.full((4, 2), np.inf)}, NonFiniteError, "outcomes"),
        ({"today": np.ones(3)}, ShapeError, "today"),
        ({"sites": ["a"]}, ShapeError, "sites"),
        ({"features": pd.DataFrame({"a": [1.0, 2.0]})}, ShapeError, "features"),
        ({"features": pd.DataFrame({"a": list("abcd")})}, ShapeError, "'a'"),
        ({"features": pd.DataFrame(np.ones((4, 2)), columns=["a", "a"])}, ShapeError, "different names"),
        ({"features": np.ones((4, 0))}, ShapeError, "at least one column"),
        ({"times": ["yesterday"] * 4}, TableError, "times"),
        ({"leads": [1, 2, 3, -1]}, SettingError, "leads"),
        ({"times": TIMES, "issued": TIMES + 1}, SettingError, "issued .* after times.*in case 0, the first of 4"),
        ({"times": TIMES, "issued": TIMES + np.array([0, 0, 1, 0])}, SettingError, "issued .* after times.* in"),
        ({"times": TIMES, "issued": TIMES - 1, "leads": [1, 1, 2, 1]}, SettingError, "leads"),
    ],
)
def test_what_does_not_fit_is_refused(what, error, words):
    refuses(error, words, ForecastSet, **{"members": MEMBERS} | what)
    assert issubclass(error, StakesError)
