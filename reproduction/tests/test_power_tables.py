from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reproduction.tables import (
    PowerReadings,
    hourly_means,
    read_reference_table,
    six_hourly_means,
    table_series,
    yearly_capacity,
)
from stakes.errors import TableError

HOURS = np.arange("2017-01-01", "2017-02-20", dtype="datetime64[h]").astype("datetime64[s]")


def readings(minutes: int, power: np.ndarray) -> PowerReadings:
    return PowerReadings(HOURS[0] + np.timedelta64(minutes, "m") * np.arange(len(power)), power.astype(float))


def smooth(count: int) -> np.ndarray:
    return 500 + 400 * np.sin(np.arange(count) / 30)


@pytest.mark.parametrize("minutes", [15, 30, 60])
def test_an_hour_is_the_mean_of_its_readings(minutes: int) -> None:
    power = smooth(len(HOURS) * 60 // minutes)
    np.testing.assert_allclose(hourly_means(readings(minutes, power), HOURS), power.reshape(len(HOURS), -1).mean(1))


def test_hours_without_readings_are_missing_and_outside_ones_ignored() -> None:
    power = smooth(len(HOURS))
    power[10] = np.nan
    gone = readings(60, power)
    gone = PowerReadings(np.delete(gone.times, 20), np.delete(gone.power, 20))
    means = hourly_means(gone, HOURS[5:-5])
    assert np.flatnonzero(np.isnan(means)).tolist() == [5, 15]


def test_missing_readings_of_an_hour_leave_the_others() -> None:
    power = smooth(4 * len(HOURS))
    power[40:43] = np.nan
    assert hourly_means(readings(15, power), HOURS)[10] == power[43]


def test_negative_hours_are_zero() -> None:
    power = smooth(len(HOURS))
    power[7:9] = -3.0
    assert hourly_means(readings(60, power), HOURS)[7:9].tolist() == [0.0, 0.0]


def test_an_hour_beside_both_its_neighbours_is_missing() -> None:
    power = smooth(len(HOURS))
    power[100] += 300
    power[200] -= 300
    power[300] += 200  # below a quarter of the highest
    power[400:402] += 300  # two hours agree with each other
    assert np.flatnonzero(np.isnan(hourly_means(readings(60, power), HOURS))).tolist() == [100, 200]


def test_an_hour_far_above_all_others_is_missing() -> None:
    power = np.full(len(HOURS), 1000.0)
    power[-1] = 1300.0  # at the edge, where there are no two neighbours
    means = hourly_means(readings(60, power), HOURS)
    assert np.flatnonzero(np.isnan(means)).tolist() == [len(HOURS) - 1]


def test_half_hours_are_screened_before_the_mean() -> None:
    power = smooth(2 * len(HOURS))
    power[201] += 150
    means = hourly_means(readings(30, power), HOURS)
    assert means[100] == power[200]
    quarter = smooth(4 * len(HOURS))
    quarter[401] += 150
    assert hourly_means(readings(15, quarter), HOURS)[100] == pytest.approx(quarter[400:404].mean())


def test_six_hours_need_five() -> None:
    hourly = np.arange(18.0)
    hourly[[3, 8, 9]] = np.nan
    means = six_hourly_means(hourly)
    assert means[0] == np.mean([0, 1, 2, 4, 5])
    assert np.isnan(means[1])
    assert means[2] == 14.5


def test_capacity_is_a_quantile_of_the_year() -> None:
    hours = np.array(["2017-12-31T22", "2017-12-31T23", "2018-01-01T00", "2018-01-01T01"], "datetime64[s]")
    capacity = yearly_capacity(np.array([1.0, 3.0, 7.0, np.nan]), hours)
    assert capacity == {2017: pytest.approx(1 + 0.995 * 2), 2018: 7.0}


def test_a_table_has_its_times(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time_utc,x,y\n2020-01-01 06:00,1,2\n2020-01-01 07:00,3,\n")
    table = read_reference_table("a.csv", str(tmp_path), time="time_utc")
    series = table_series(table, ("y", "x"))
    assert series.columns == ("y", "x")
    assert series.times.tolist() == np.array(["2020-01-01T06", "2020-01-01T07"], "datetime64[s]").tolist()
    np.testing.assert_array_equal(series.values, [[2, 1], [np.nan, 3]])


def test_a_table_without_times_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("series,p\nAT_on,5\n")
    assert read_reference_table("a.csv", str(tmp_path)).equals(pd.DataFrame({"series": ["AT_on"], "p": [5]}))


@pytest.mark.parametrize("content", [None, "", "\x00\xff"])
def test_what_cannot_be_read_is_named_in_one_line(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "a.csv.gz").write_text(content, "latin-1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match=r"a.csv.gz must be a table in '.*', but cannot be read: ") as raised:
        read_reference_table("a.csv.gz", None)
    assert "\n" not in str(raised.value)
