import sys
from datetime import date

import numpy as np
import pandas as pd
import pytest

from stakes.data.tables.lags import calendar_features, calendar_names, check_calendar
from stakes.data.tables.layout import TableLayout
from stakes.errors import SettingError

WEEK = np.arange("2024-04-29", "2024-05-06", dtype="datetime64[D]").astype("datetime64[s]")  # from a Monday on


def test_the_weekday_is_one_of_seven() -> None:
    columns = calendar_features(WEEK + np.timedelta64(23, "h"), ("weekday",))
    np.testing.assert_array_equal(columns, np.eye(7))
    names = calendar_names(("weekday",))
    assert names == tuple(f"weekday_{day}".lower() for day in pd.DatetimeIndex(WEEK).day_name())


def test_the_earlier_coding_is_still_there() -> None:
    angle = 2 * np.pi * np.arange(7) / 7
    columns = calendar_features(WEEK, ("weekday_wave",))
    np.testing.assert_allclose(columns, np.stack([np.sin(angle), np.cos(angle)], 1), atol=1e-15)
    assert calendar_names(("weekday_wave",)) == ("weekday_sin", "weekday_cos")


def test_holidays_are_those_of_the_country_and_its_part() -> None:
    calendar = ("holiday:FR", "hour", "holiday:DE-BY")
    days = np.array([date(2020, 7, 14), date(2021, 7, 14), date(2021, 7, 15), date(2021, 1, 6)], "datetime64[s]")
    columns = calendar_features(days + np.timedelta64(13, "h"), calendar)
    np.testing.assert_array_equal(columns[:, 0], [1, 1, 0, 0])  # le 14 juillet
    np.testing.assert_array_equal(columns[:, 3], [0, 0, 0, 1])  # Epiphany, in Bavaria alone
    assert calendar_names(calendar) == ("holiday_FR", "hour_sin", "hour_cos", "holiday_DE-BY")
    assert calendar_features(days, ("holiday:DE",)).sum() == 0


def test_a_layout_has_them_with_and_without_lags() -> None:
    times = pd.date_range("2024-04-25", periods=20, freq="D")
    table = pd.DataFrame({"time": times, "a": np.arange(20.0), "y": np.arange(20.0) ** 2})
    rows = TableLayout(("y",), ("a",), "time", calendar=("weekday", "holiday:FR"))
    lagged = TableLayout(("y",), ("a",), "time", (0,), 24, calendar=("weekday", "holiday:FR"))
    for layout in (rows, lagged):
        cases = layout.cases(table)
        assert tuple(cases.feature_table) == layout.feature_names
        assert cases.feature_table["holiday_FR"].idxmax() == pd.Timestamp("2024-05-01")
        assert (cases.feature_table["weekday_monday"].to_numpy() == (cases.feature_table.index.day_of_week == 0)).all()


@pytest.mark.parametrize("name", ["month", "holiday", "holiday:", "holiday:france", "holiday:F/R", "Weekday"])
def test_what_the_calendar_lacks_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="calendar must be of hour, weekday, season, holiday:COUNTRY") as caught:
        check_calendar((name,))
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", ["holiday:XX", "holiday:DE-XX"])
def test_an_unknown_country_is_named(name: str) -> None:
    with pytest.raises(SettingError, match=f"calendar {name} is of a country or part that the package holidays lacks"):
        calendar_features(WEEK, (name,))


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(SettingError, match=r'calendar holiday:FR needs the package holidays: pip install "stakes\[hol'):
        calendar_features(WEEK, ("holiday:FR",))
