"""Days of a made-up load, and their features by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_programs import made_loads

from reproduction.programs.generation import LOAD_TABLE, load_days, summer_time
from reproduction.programs.problem import chronological_cases
from stakes.errors import TableError


def test_features_by_hand(tmp_path: Path) -> None:
    made_loads(tmp_path)
    days = load_days(str(tmp_path))
    assert days.features.shape == (11, 6 * 24 + 5)
    assert days.days[0] == np.datetime64("2010-03-11")
    saturday = list(days.days).index(np.datetime64("2010-03-13"))  # the third day after the first
    row = days.features[saturday]
    np.testing.assert_allclose(days.loads[saturday], 1.3 + np.arange(24) / 100)
    np.testing.assert_allclose(row[:24], 1.2 + np.arange(24) / 100)  # the day before
    np.testing.assert_allclose(row[24:144:24], [48, 48**2, 47, 47**2, 47**3])
    angle = 2 * np.pi * 72 / 365  # the 72nd day of the year
    np.testing.assert_allclose(row[144:], [1, 0, 0, np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose(days.features[saturday + 2, 144:147], [0, 0, 1])  # Monday, in summer time


def test_holidays_are_known(tmp_path: Path) -> None:
    made_loads(tmp_path, first="2015-07-01")
    days = load_days(str(tmp_path))
    assert days.days[days.features[:, 145] == 1].tolist() == [
        np.datetime64("2015-07-03").item()
    ]  # the fourth, observed


def test_days_with_missing_hours(tmp_path: Path) -> None:
    table = made_loads(tmp_path)
    lost = [24 * 2 + 2, *range(24 * 5, 24 * 5 + 4), 24 * 8 + 23]  # one hour, four hours, and the last hour of a day
    table.drop(index=lost).to_csv(tmp_path / LOAD_TABLE, index=False, compression="gzip")
    days = load_days(str(tmp_path))
    third = list(days.days).index(np.datetime64("2010-03-12"))
    assert days.loads[third, 2] == days.loads[third, 3] == pytest.approx(1.23)  # the next hour's
    ninth = list(days.days).index(np.datetime64("2010-03-18"))
    assert days.loads[ninth, 23] == days.loads[ninth, 22]
    gone = {np.datetime64("2010-03-15"), np.datetime64("2010-03-16")}  # the sixth day, and the one that follows it
    assert not gone & set(days.days)
    assert len(days.days) == 9


def test_parts_are_in_the_order_of_time(tmp_path: Path) -> None:
    made_loads(tmp_path, days=51)
    train, validation, test = chronological_cases(*load_days(str(tmp_path)))
    assert (len(train), len(validation), len(test)) == (32, 8, 10)
    assert train.times is not None
    assert validation.times is not None
    assert test.times is not None
    assert train.times[-1] < validation.times[0]
    assert validation.times[-1] < test.times[0]


def test_summer_time_over_years() -> None:
    days = np.arange("2008-01-01", "2017-01-01", dtype="datetime64[D]")
    local = pd.DatetimeIndex(days).tz_localize("America/New_York")
    expected = np.array([bool(moment.dst()) for moment in local])
    np.testing.assert_array_equal(summer_time(days), expected)


def test_tables_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=LOAD_TABLE):
        load_days(str(tmp_path))
    table = made_loads(tmp_path)
    table.drop(columns="temp").to_csv(tmp_path / LOAD_TABLE, index=False, compression="gzip")
    with pytest.raises(TableError, match="must have the column temp"):
        load_days(str(tmp_path))
    table.iloc[:20].to_csv(tmp_path / LOAD_TABLE, index=False, compression="gzip")
    with pytest.raises(TableError, match="must have days of at least 23 hours, got none"):
        load_days(str(tmp_path))
