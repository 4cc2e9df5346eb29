"""The tasks on tables that may not be shipped, on tables of their layout."""

import numpy as np
import pytest
import torch
from fake_tables import fake_table

from reproduction.tables import SERIES
from reproduction.tasks import find_task
from reproduction.tasks import portfolio as european_wind
from reproduction.tasks import portfolio as gefcom_wind
from reproduction.tasks import portfolio as new_york_load
from reproduction.tasks.portfolio import EuropeanWind, FrenchLoad, GefcomWind, IrishWind, NewYorkLoad
from stakes.costs.scalar_costs import PowerCurve
from stakes.data.records import load_record
from stakes.errors import SettingError, TableError


def test_rows_are_counted_and_incomplete_ones_left_out() -> None:
    task = FrenchLoad()
    data = task.data()
    assert (len(data.train), len(data.validation), len(data.test)) == (7_256, 1_428, 1_428)
    assert [split.left_out.missing_value for split in task.splits().values()] == [20, 4, 4]


def test_inputs_are_loads_temperatures_weekday_and_hour() -> None:
    data = FrenchLoad().data()
    assert data.feature_names[0] == "load_ARA@0h"
    assert data.feature_names[12] == "load_ARA@-24h"
    assert data.feature_names[36] == "temp_ARA@0h"
    assert data.feature_names[48] == "temp_ARA@+24h"
    assert data.feature_names[60:] == ("weekday_sin", "weekday_cos", "hour_sin", "hour_cos")
    assert len(data.outcome_names) == 12


def test_loads_are_in_gigawatts() -> None:
    data, record = FrenchLoad().data(), load_record("load_france")
    assert data.unit == "GW"
    assert data.test.times is not None
    place = int(np.flatnonzero(record.times == data.test.times[0])[0])
    np.testing.assert_allclose(data.test.outcome[0].numpy() * 1000, record.values[place, :12], rtol=1e-6)
    np.testing.assert_allclose(data.test.features[0, 48:60].numpy(), record.values[place, 12:], rtol=1e-6)
    assert data.train.outcome.sum(-1).min() > 25
    assert data.train.outcome.sum(-1).max() < 100


def test_the_year_of_the_lockdowns_is_left_out() -> None:
    data = FrenchLoad().data()
    years = {int(str(time)[:4]) for split in (data.train, data.validation, data.test) for time in split.times}
    assert years == {2014, 2015, 2016, 2017, 2018, 2019, 2021}


def test_rows_and_inputs() -> None:
    data = IrishWind().data()
    assert (len(data.train), len(data.validation), len(data.test)) == (4_381, 728, 1_459)
    assert data.feature_names[:2] == ("RPT@0h", "VAL@0h")
    assert data.feature_names[12] == "RPT@-24h"
    assert data.feature_names[24:] == ("season_sin", "season_cos")
    assert data.outcome_names == load_record("wind_irish").columns


def test_speeds_are_in_metres_per_second() -> None:
    data, record = IrishWind().data(), load_record("wind_irish")
    assert data.unit == "m/s"
    assert data.test.times is not None
    assert data.test.times[0] == np.datetime64("1975-01-03")
    place = int(np.flatnonzero(record.times == data.test.times[0])[0])
    np.testing.assert_allclose(data.test.outcome[0].numpy(), record.values[place] * 1852 / 3600, rtol=1e-6)


def test_what_counts_is_the_mean_power_at_hub_height() -> None:
    task, outcome = IrishWind(penalty=7.0), IrishWind().data().test.outcome
    power = PowerCurve()(outcome).mean(-1)
    assert torch.equal(task.mean_power(outcome), power)
    action = torch.full((len(outcome), 1), 0.3)
    expected = -0.3 + 7.0 * torch.relu(0.3 - power) ** 2
    torch.testing.assert_close(task.cost(action, outcome), expected)


NAMES = ("european_wind", "gefcom_wind", "new_york_load")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (european_wind, gefcom_wind, new_york_load):
        monkeypatch.setattr(module, "read_reference_table", fake_table)


@pytest.mark.usefixtures("tables")
def test_european_power_is_a_fraction_of_the_capacity_of_its_year() -> None:
    series = EuropeanWind(tables="somewhere").series()
    power = fake_table("wind_europe_21series_6hourly_2017_2020.csv.gz", None)
    assert series.columns == SERIES
    for row in (0, len(power) - 1):
        capacity = power["time"][row].year - 2015
        np.testing.assert_allclose(series.values[row], power.loc[row, list(SERIES)].astype(float) / capacity)


@pytest.mark.usefixtures("tables")
def test_all_hours_train_and_every_fourth_judges() -> None:
    for task in (GefcomWind(), NewYorkLoad()):
        data = task.data()
        assert data.train.times is not None
        assert set(np.diff(data.train.times).astype("timedelta64[h]").astype(int)) == {1}
        for cases in (data.validation, data.test):
            assert cases.times is not None
            assert set(np.diff(cases.times).astype("timedelta64[h]").astype(int)) == {4}


@pytest.mark.usefixtures("tables")
def test_features_are_what_is_known_when_the_forecast_is_made() -> None:
    data = NewYorkLoad().data()
    names, table = (
        data.feature_names,
        fake_table("load_nyiso_11zones_dayahead_hourly_2018_2019.csv.gz", None, "time_utc"),
    )
    assert data.test.times is not None
    by_time = table.set_index("time")
    time = data.test.times[100]
    seen = dict(zip(names, data.test.features[100].tolist(), strict=True))
    two_days_ago = by_time.loc[time - np.timedelta64(48, "h")]
    assert seen["load_WEST@0h"] == pytest.approx(two_days_ago["load_WEST"] / 1000)
    assert seen["error_WEST@0h"] == pytest.approx(
        (two_days_ago["load_WEST"] - two_days_ago["dayahead_WEST"]) / 1000, abs=1e-6
    )
    assert seen["dayahead_WEST@+48h"] == pytest.approx(by_time.loc[time]["dayahead_WEST"] / 1000)
    farms = GefcomWind().data()
    speed, east, north = (farms.feature_names.index(f"{name}10_z03@+24h") for name in ("ws", "u", "v"))
    found = farms.train.features[7]
    assert float(found[speed]) == pytest.approx(float(found[[east, north]].norm()))


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_table_is_named(name: str) -> None:
    with pytest.raises(TableError, match=r"\.csv.* must be a table in '.*nowhere'"):
        find_task(name)(tables="nowhere").data()  # type: ignore[call-arg]
    with pytest.raises(SettingError, match="tables must be the path of a folder as text or None, got 5"):
        find_task(name)(tables=5)  # type: ignore[call-arg]
