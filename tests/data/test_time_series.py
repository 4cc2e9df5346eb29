from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from stakes.data.tables.lags import TimeSeries
from stakes.errors import SeriesError, SettingError, StakesError

START = np.datetime64("2020-02-27T00:00:00")
HOUR = np.timedelta64(3600, "s")


def hourly(count: int) -> np.ndarray:
    return START + HOUR * np.arange(count)


@pytest.mark.parametrize(
    ("hours", "message"),
    [
        ([0, 1, 2, 2, 3], "times must be unique, but rows 2 and 3 are both 2020-02-27T02:00:00"),
        ([0, 1, 3, 2, 4], "times must increase, but row 3, 2020-02-27T02:00:00, comes after 2020-02-27T03:00:00"),
        ([0, 6, 12, 15, 18, 24], "row 3, 2020-02-27T15:00:00, is not a multiple of 6 h from 2020-02-27T00:00:00"),
        ([0], "times must be at least 2, got 1"),
        ([], "times must be at least 2, got 0"),
    ],
)
def test_times_off_a_regular_axis_are_refused(hours: list[int], message: str) -> None:
    with pytest.raises(SeriesError, match=message):
        TimeSeries(START + HOUR * np.array(hours, dtype=int), np.zeros(len(hours)), ("a",))


def test_the_step_may_be_given() -> None:
    times = START + HOUR * np.array([0, 6, 12, 15, 18, 24])
    assert TimeSeries(times, np.zeros(6), ("a",), step_hours=3).step_seconds == 3 * 3600
    assert TimeSeries(times[:3], np.zeros(3), ("a",)).step_seconds == 6 * 3600
    with pytest.raises(SettingError, match="step_hours must be a number of hours above 0, got 0"):
        TimeSeries(times, np.zeros(6), ("a",), step_hours=0)


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
        ([datetime(2020, 1, 1), 5], "5 is none"),
        (np.array(["2020-01-01", "NaT"], "datetime64[D]"), "NaT in row 1"),
        (np.array(["2020-01-01T00:00:00.5", "2020-01-02"], "datetime64[ms]"), "whole seconds"),
        (np.array([["2020-01-01"], ["2020-01-02"]], "datetime64[D]"), r"shape \(2, 1\)"),
    ],
)
def test_what_is_no_time_is_refused(times, message: str) -> None:
    with pytest.raises(SeriesError, match=message):
        TimeSeries(times, np.zeros(2), ("a",))


def test_values_that_do_not_fit_are_refused() -> None:
    for values, columns, message in (
        (np.zeros((3, 2)), ("a",), r"shape \(3, 1\), times by columns, got \(3, 2\)"),
        (np.zeros((3, 2)), ("a", "a"), "different names, got a, a"),
        (np.array(["1", "2", "3"]), ("a",), "real numbers"),
        (np.zeros(3), "a", "columns must be a tuple of names, got 'a'"),
    ):
        with pytest.raises(StakesError, match=message):
            TimeSeries(hourly(3), values, columns)
