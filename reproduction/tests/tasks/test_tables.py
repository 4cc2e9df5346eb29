"""The tasks on tables that may not be shipped, on tables of their layout."""

import numpy as np
import pytest
from fake_tables import fake_table

from reproduction.tables import SERIES
from reproduction.tasks import find_task
from reproduction.tasks import portfolio as european_wind
from reproduction.tasks import portfolio as gefcom_wind
from reproduction.tasks import portfolio as new_york_load
from reproduction.tasks.portfolio import EuropeanWind, GefcomWind, NewYorkLoad
from stakes.errors import SettingError, TableError

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
