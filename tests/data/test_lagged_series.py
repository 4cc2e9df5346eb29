"""Lagged features, calendars and directions of regular series."""

import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from stakes.data.tables.lags import (
    LaggedInput,
    LaggedSeries,
    LeftOut,
    TimeSeries,
    calendar_features,
    calendar_names,
    check_calendar,
)
from stakes.data.tables.layout import TableLayout
from stakes.errors import SettingError, StakesError, TableError

START = np.datetime64("2020-02-27T00:00:00")
HOUR = np.timedelta64(3600, "s")


def hourly(count: int, step_hours: int = 1) -> np.ndarray:
    return START + step_hours * HOUR * np.arange(count)


def simple(lags: tuple[float, ...] = (0,), lead: float = 1, **settings) -> LaggedSeries:
    return LaggedSeries((LaggedInput(("a",), lags),), targets=("a",), lead_hours=lead, **settings)


@st.composite
def problems(draw):
    """A gappy series with missing values, settings that fit its step, and a range."""
    step = draw(st.sampled_from([1, 3, 6]))
    count = draw(st.integers(3, 40))
    present = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    present[:2] = True
    known = np.array(draw(st.lists(st.sampled_from([True, True, True, False]), min_size=2 * count, max_size=2 * count)))
    values = np.where(known, np.arange(2.0 * count), np.nan).reshape(count, 2)
    times = hourly(count, step)
    lags = st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True)
    settings = LaggedSeries(
        inputs=(
            LaggedInput(("a",), tuple(step * lag for lag in draw(lags))),
            LaggedInput(("b",), tuple(step * lag for lag in draw(lags))),
        ),
        targets=("a",),
        lead_hours=step * draw(st.integers(1, 5)),
        at_target_time=draw(st.sampled_from([(), ("b",)])),
        months=draw(st.sampled_from([(), (2,), (3,), (2, 3)])),
    )
    offset = draw(st.integers(-5, count)) * step
    start = START + offset * HOUR
    end = start + draw(st.integers(1, count + 5)) * step * HOUR
    return TimeSeries(times[present], values[present], ("a", "b"), step_hours=step), settings, start, end


def expected_rows(series: TimeSeries, settings: LaggedSeries, start, end):
    """The definition, one row and one time at a time."""
    at = {
        (time, name): value
        for time, row in zip(series.times, series.values, strict=True)
        for name, value in zip(series.columns, row, strict=True)
    }
    rows, left_out = [], LeftOut(0, 0, 0)
    target = series.times[0]
    while target <= series.times[-1]:
        month = target.astype(object).month
        if start <= target < end and (not settings.months or month in settings.months):
            issue = target - int(settings.lead_hours) * HOUR
            needed = [
                (issue - int(lag) * HOUR, name)
                for part in settings.inputs
                for lag in part.lag_hours
                for name in part.columns
            ]
            needed += [(target, name) for name in settings.at_target_time]
            everything = [*needed, *((target, name) for name in settings.targets)]
            if not all(start <= time < end for time, _ in everything):
                left_out = replace(left_out, outside_range=left_out.outside_range + 1)
            elif not all(key in at for key in everything):
                left_out = replace(left_out, absent_time=left_out.absent_time + 1)
            elif np.isnan([at[key] for key in everything]).any():
                left_out = replace(left_out, missing_value=left_out.missing_value + 1)
            else:
                rows.append((target, [at[key] for key in needed], [at[target, name] for name in settings.targets]))
        target = target + np.timedelta64(series.step_seconds, "s")
    return rows, left_out


@given(problems())
def test_every_row_is_what_the_definition_says_and_no_other(problem) -> None:
    series, settings, start, end = problem
    rows, left_out = expected_rows(series, settings, start, end)
    if not rows:
        refuses(TableError, f"{left_out.outside_range} need inputs from outside", settings.split, series, start, end)
        return
    split = settings.split(series, start, end)
    assert split.left_out == left_out
    assert split.times.tolist() == [time.astype(object) for time, _, _ in rows]
    assert split.features.tolist() == [features for _, features, _ in rows]
    assert split.outcome.tolist() == [outcomes for _, _, outcomes in rows]
    assert split.features.shape == (len(split), len(split.feature_names))
    assert split.outcome.shape == (len(split), len(split.outcome_names))


@given(problems())
def test_a_marker_outside_a_split_changes_nothing_in_it(problem) -> None:
    series, settings, start, end = problem
    outside = (series.times < start) | (series.times >= end)
    marked = series.values.copy()
    marked[outside] = 1e9
    try:
        plain = settings.split(series, start, end)
    except TableError:
        refuses(TableError, "", settings.split, replace(series, values=marked), start, end)
        return
    seen = settings.split(replace(series, values=marked), start, end)
    np.testing.assert_array_equal(seen.features, plain.features)
    np.testing.assert_array_equal(seen.outcome, plain.outcome)
    assert seen.left_out == plain.left_out


def test_overlapping_splits_are_refused() -> None:
    series = TimeSeries(hourly(100), np.arange(100.0), ("a",))
    ranges = {"test": ("2020-02-28", "2020-03-01"), "train": ("2020-02-27", "2020-02-29")}
    refuses(SettingError, "'test'", simple().splits, series, ranges)


def test_gaps_and_missing_values_are_left_out_and_counted() -> None:
    values = np.arange(20.0)
    values[5] = np.nan
    values[15] = np.inf
    keep = np.arange(20) != 10
    split = simple().split(TimeSeries(hourly(20)[keep], values[keep], ("a",)), START, START + 20 * HOUR)
    assert split.left_out == LeftOut(outside_range=1, absent_time=2, missing_value=4)
    assert split.outcome[:, 0].tolist() == [1, 2, 3, 4, 7, 8, 9, 12, 13, 14, 17, 18, 19]
    assert (split.features + 1 == split.outcome).all()


def test_float32_stays_and_the_rest_becomes_float64() -> None:
    settings = simple(calendar=("hour",))
    for given_type, kept in ((np.float32, torch.float32), (np.float64, torch.float64), (np.int16, torch.float64)):
        split = settings.split(TimeSeries(hourly(6), np.arange(6, dtype=given_type), ("a",)), "2020", "2021")
        assert split.features.dtype == split.outcome.dtype == kept


def test_calendar_features_belong_to_the_target_time() -> None:
    times = np.arange("2019-01-01", "2021-01-02", dtype="datetime64[6h]").astype("datetime64[s]")
    settings = LaggedSeries((), ("a",), 24, at_target_time=(), calendar=("hour", "weekday_wave", "season"))
    split = settings.split(TimeSeries(times, np.zeros(len(times)), ("a",)), "2019", "2022")
    assert split.feature_names == ("hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "season_sin", "season_cos")
    for time, row in zip(split.times[::7].tolist(), split.features[::7], strict=True):
        year = datetime(time.year, 1, 1)
        season = (time - year) / (datetime(time.year + 1, 1, 1) - year)
        angles = 2 * np.pi * np.array([time.hour / 24, time.weekday() / 7, season])
        np.testing.assert_allclose(row, np.stack([np.sin(angles), np.cos(angles)], 1).ravel(), atol=1e-12)


def test_ranges_may_be_of_every_kind() -> None:
    series = TimeSeries(hourly(72), np.arange(72.0), ("a",))
    zone = timezone(timedelta(hours=2))
    for start in ("2020-02-28", date(2020, 2, 28), np.datetime64("2020-02-28"), datetime(2020, 2, 28, 2, tzinfo=zone)):
        assert simple().split(series, start, "2020-03").times[0] == np.datetime64("2020-02-28T01:00:00")
    for start, end, message in (
        ("2021", "2020", "start must come before end"),
        (2020, 2021, "start must be a list of dates and times, got int64"),
        ("soon", "2021", "start must be dates and times"),
        ("2030", "2031", "of 0 target times"),
    ):
        refuses(StakesError, message, simple().split, series, start, end)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lead_hours": 0}, "lead_hours"),
        ({"lead_hours": float("nan")}, "lead_hours"),
        ({"lead_hours": "24"}, "lead_hours"),
        ({"targets": "a"}, "targets"),
        ({"targets": ()}, "at least one column each"),
        ({"inputs": ()}, "at least one column each"),
        ({"targets": ("a", "a")}, "got a twice"),
        ({"inputs": (LaggedInput(("a",)), LaggedInput(("a",)))}, "got a@0h twice"),
        ({"calendar": ("month",)}, "calendar"),
        ({"months": (0,)}, "months"),
        ({"at_target_time": ("a",)}, "show the model its own target a"),
    ],
)
def test_settings_that_make_no_rows_are_refused(change: dict, message: str) -> None:
    refuses(SettingError, message, replace, simple(), **change)


def test_inputs_that_make_no_features_are_refused() -> None:
    refuses(SettingError, "lag_hours", LaggedInput, ("a",), (0, -6))
    refuses(SettingError, "at least one each", LaggedInput, (), (0,))
    series = TimeSeries(hourly(9, 6), np.zeros(9), ("wind",))
    settings = LaggedSeries((LaggedInput(("wind",), (0, 3)),), ("wind",), 24)
    refuses(SettingError, "lag_hours", settings.split, series, "2020", "2021")
    refuses(SettingError, "'wnd'", replace(settings, inputs=(LaggedInput(("wnd",)),)).split, series, "2020", "2021")


def test_rows_to_come_need_no_outcomes() -> None:
    series = TimeSeries(hourly(5), np.arange(10.0).reshape(5, 2), ("a", "b"))
    settings = simple((0, 1), lead=2)
    upcoming = settings.upcoming(series)
    assert upcoming.times.tolist() == hourly(7)[3:].tolist()
    assert upcoming.features.tolist() == [[2, 0], [4, 2], [6, 4], [8, 6]]
    assert upcoming.outcome.shape == (4, 0)
    assert upcoming.left_out == LeftOut(0, 1, 0)
    known = replace(settings, at_target_time=("b",)).upcoming(series)
    assert known.features.tolist() == [[2, 0, 7], [4, 2, 9]]
    without = TimeSeries(hourly(1), np.ones(1), ("other",), step_hours=1)
    assert LaggedSeries((LaggedInput(("other",)),), ("a",), 1).upcoming(without).features.tolist() == [[1]]


@pytest.mark.parametrize(
    ("hours", "message"),
    [
        ([0, 1, 2, 2, 3], "times"),
        ([0, 1, 3, 2, 4], "times"),
        ([0, 6, 12, 15, 18, 24], "row 3, 2020-02-27T15:00:00, is not a multiple of 6 h from 2020-02-27T00:00:00"),
        ([0], "times"),
        ([], "times"),
    ],
)
def test_times_off_a_regular_axis_are_refused(hours: list[int], message: str) -> None:
    refuses(TableError, message, TimeSeries, START + HOUR * np.array(hours, dtype=int), np.zeros(len(hours)), ("a",))


def test_the_step_may_be_given() -> None:
    times = START + HOUR * np.array([0, 6, 12, 15, 18, 24])
    assert TimeSeries(times, np.zeros(6), ("a",), step_hours=3).step_seconds == 3 * 3600
    assert TimeSeries(times[:3], np.zeros(3), ("a",)).step_seconds == 6 * 3600
    refuses(SettingError, "step_hours", TimeSeries, times, np.zeros(6), ("a",), step_hours=0)


def test_times_of_every_kind_become_utc() -> None:
    paris = ZoneInfo("Europe/Paris")
    aware = [datetime(2020, 3, 29, hour, tzinfo=UTC).astimezone(paris) for hour in range(6)]  # over the clock change
    expected = np.datetime64("2020-03-29T00:00:00") + HOUR * np.arange(6)
    naive = [time.astimezone(UTC).replace(tzinfo=None) for time in aware]
    kinds = {
        "aware datetimes": aware,
        "naive datetimes": naive,
        "offset texts": [time.isoformat() for time in aware],
        "Z texts": [time.isoformat() + "Z" for time in naive],
        "naive texts": [time.isoformat() for time in naive],
        "nanoseconds": expected.astype("datetime64[ns]"),
        "hours": expected.astype("datetime64[h]"),
    }
    for kind, times in kinds.items():
        in_utc = TimeSeries(times, np.zeros(6), ("a",)).times
        assert in_utc.dtype == np.dtype("datetime64[s]"), kind
        assert (in_utc == expected).all(), kind
    days = TimeSeries([date(2020, 1, 1), date(2020, 1, 2)], np.zeros(2), ("a",)).times
    assert days.tolist() == [datetime(2020, 1, 1), datetime(2020, 1, 2)]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1.0, 2.0], "got float64"),
        (["2020-01-01T00:00:00", "yesterday"], "yesterday"),
        ([datetime(2020, 1, 1), 5], "5 is not one"),
        (np.array(["2020-01-01", "NaT"], "datetime64[D]"), "NaT in row 1"),
        (np.array(["2020-01-01T00:00:00.5", "2020-01-02"], "datetime64[ms]"), "whole seconds"),
        (np.array([["2020-01-01"], ["2020-01-02"]], "datetime64[D]"), r"shape \(2, 1\)"),
    ],
)
def test_what_is_no_time_is_refused(times, message: str) -> None:
    refuses(TableError, message, TimeSeries, times, np.zeros(2), ("a",))


def test_values_that_do_not_fit_are_refused() -> None:
    for values, columns, message in (
        (np.zeros((3, 2)), ("a",), r"shape \(3, 1\), times by columns, got \(3, 2\)"),
        (np.zeros((3, 2)), ("a", "a"), "different names, got a, a"),
        (np.array(["1", "2", "3"]), ("a",), "real numbers"),
        (np.zeros(3), "a", "columns must be a tuple of names, got 'a'"),
    ):
        refuses(StakesError, message, TimeSeries, hourly(3), values, columns)


WEEK = np.arange("2024-04-29", "2024-05-06", dtype="datetime64[D]").astype("datetime64[s]")  # from a Monday on


def test_the_weekday_is_one_of_seven() -> None:
    columns = calendar_features(WEEK + np.timedelta64(23, "h"), ("weekday",))
    np.testing.assert_array_equal(columns, np.eye(7))
    names = calendar_names(("weekday",))
    assert names == tuple(f"weekday_{day}".lower() for day in pd.DatetimeIndex(WEEK).day_name())


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
    assert repr(name) in refuses(SettingError, "calendar", check_calendar, (name,))


@pytest.mark.parametrize("name", ["holiday:XX", "holiday:DE-XX"])
def test_an_unknown_country_is_named(name: str) -> None:
    with pytest.raises(SettingError, match=f"calendar {name} is of a country or part that the package holidays lacks"):
        calendar_features(WEEK, (name,))


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(SettingError, match=r'calendar holiday:FR needs the package holidays: pip install "stakes\[hol'):
        calendar_features(WEEK, ("holiday:FR",))
