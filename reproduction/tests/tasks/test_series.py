"""The wind and frost tasks on a NetCDF file of the user's own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from refusals import refuses

from reproduction.tasks.frost import FrostTask
from reproduction.tasks.portfolio import SimulatedPortfolio
from reproduction.tasks.synthetic import SyntheticTask
from reproduction.tasks.task import TaskData
from reproduction.tasks.wind import WindTask
from stakes.costs.scalar_costs import PowerCurve
from stakes.data.case_table import CaseTable
from stakes.data.records import load_record
from stakes.errors import SettingError, StakesError, TableError


@pytest.mark.parametrize(
    ("record", "rows", "inputs", "frost"),
    [
        ("frost_merra2", (9_674, 1_202, 2_414), 27, (0.294, 0.252, 0.251)),
        ("frost_era5", (9_674, 1_206, 2_170), 12, (0.202, 0.133, 0.146)),
    ],
)
def test_rows_inputs_and_share_of_frost(
    record: str, rows: tuple[int, int, int], inputs: int, frost: tuple[float, float, float]
) -> None:
    task = FrostTask(record=record)
    data = task.data()
    splits = (data.train, data.validation, data.test)
    assert tuple(len(split) for split in splits) == rows
    assert len(data.feature_names) == inputs
    for split, share in zip(splits, frost, strict=True):
        found = task.regions["frost"](split.outcome).float().mean()
        assert abs(found - share) < 0.001
        assert task.regions["no frost"](split.outcome).float().mean() == 1 - found


@pytest.mark.parametrize("record", ["frost_merra2", "frost_era5"])
def test_only_cold_months_and_more_than_one_winter_in_the_test(record: str) -> None:
    data = FrostTask(record=record).data()
    for split in (data.train, data.validation, data.test):
        assert split.times is not None
        months = split.times.astype("datetime64[M]")
        assert set(months.astype(int) % 12 + 1) == {11, 12, 1, 2, 3}
    assert data.test.times is not None
    winters = np.unique((data.test.times.astype("datetime64[M]") + 6).astype("datetime64[Y]"))
    assert len(winters) >= 3


def test_a_row_is_every_column_now_6_and_12_hours_ago_and_the_temperature_in_24() -> None:
    source, data = load_record("frost_merra2"), FrostTask().data()
    assert data.feature_names[:2] == ("t2m@0h", "skt@0h")
    assert data.feature_names[-1] == "v850@-12h"
    assert data.test.times is not None
    place = int(np.flatnonzero(source.times == data.test.times[300])[0])
    expected = np.concatenate([source.values[place - 4], source.values[place - 5], source.values[place - 6]])
    np.testing.assert_allclose(data.test.features[300].numpy(), expected, rtol=1e-6)
    assert data.test.outcome[300].item() == pytest.approx(source.values[place, 0], rel=1e-6)


@pytest.mark.parametrize(
    ("record", "rows", "regions"),
    [
        ("wind_north_sea", (21_909, 1_461, 1_457), {"ramp": 1_076, "rated": 225, "cut-off": 72}),
        ("wind_nora10", (21_913, 1_457, 1_457), {"ramp": 1_027, "rated": 224, "cut-off": 126}),
    ],
)
def test_rows_and_regions(record: str, rows: tuple[int, int, int], regions: dict[str, int]) -> None:
    task = WindTask(record=record)
    data = task.data()
    assert (len(data.train), len(data.validation), len(data.test)) == rows
    assert {name: int(mask(data.test.outcome).sum()) for name, mask in task.regions.items()} == regions
    # The first three target times of a split would need inputs from the one before.
    assert [split.left_out.outside_range for split in task.splits().values()] == [3, 3, 3]


@pytest.mark.parametrize(("record", "column"), [("wind_north_sea", "ws10"), ("wind_nora10", "W10")])
def test_a_row_is_the_speed_now_6_and_12_hours_ago_and_in_6_hours(record: str, column: str) -> None:
    source, data = load_record(record), WindTask(record=record).data()
    assert data.feature_names == (f"{column}@0h", f"{column}@-6h", f"{column}@-12h")
    assert data.test.times is not None
    place = int(np.flatnonzero(source.times == data.test.times[40])[0])
    expected = source.select(column).values[[place - 2, place - 4, place - 6, place], 0]
    found = torch.cat([data.test.features[40], data.test.outcome[40]])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_years_are_those_of_the_paper() -> None:
    data = WindTask().data()
    years = [np.unique(split.times.astype("datetime64[Y]")).astype(int) + 1970 for split in (data.train, data.test)]
    assert years[0].tolist() == list(range(2005, 2020))
    assert years[1].tolist() == [2021]


def test_shear_is_that_of_the_record_unless_given() -> None:
    assert WindTask().power_curve == PowerCurve(cutoff_sharpness=1.0)
    assert WindTask(record="wind_nora10").power_curve == PowerCurve(shear=0.11, cutoff_sharpness=1.0)
    assert WindTask(record="wind_nora10", shear=0.2).power_curve.shear == 0.2
    assert WindTask(shear=0.0).power_curve.hub_factor == 1.0


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        (FrostTask, {"record": "frost_merra", "lead_hours": 7, "false_alarm_ratio": -0.5, "sharpness": 0.0}),
        (FrostTask, {"threshold": float("inf")}),
        (WindTask, {"record": "wind_north_see", "lead_hours": 9, "penalty": -1.0, "hub_height": 0.0}),
        (WindTask, {"record": None, "lead_hours": 0, "ramp_speed": 30.0, "shear": float("nan")}),
        (SyntheticTask, {"frequency": 0.0, "data_seed": -1}),
        (SyntheticTask, {"data_seed": 0.5}),
        (SimulatedPortfolio, {"sites": 0, "correlation": 1.5, "sites_seed": "a", "penalty": -5.0}),
    ],
)
def test_settings_are_checked_by_name(task: type, wrong: dict[str, object]) -> None:
    for name, value in wrong.items():
        refuses(StakesError, name, task, **{name: value})


REFERENCE = Path(__file__).parents[4] / "shared" / "data" / "reference"
TASKS = (WindTask, FrostTask)


def reference(name: str) -> str:
    if not (REFERENCE / name).is_file():
        pytest.skip("the reference files are not here")
    return str(REFERENCE / name)


def write(path: Path, start: str, end: str, missing: tuple[str, str] | None = None) -> str:
    """6-hourly wind and temperature of [start, end), NaN in [missing)."""
    times = np.arange(start, end, np.timedelta64(6, "h"), dtype="datetime64[h]").astype("datetime64[ns]")
    days = (times - np.datetime64("2000")) / np.timedelta64(1, "D")
    wave = np.sin(2 * np.pi * days / 365.25) + 0.3 * np.sin(days)
    if missing is not None:
        wave[(times >= np.datetime64(missing[0])) & (times < np.datetime64(missing[1]))] = np.nan
    values = {"ws10": (9 + 6 * wave, "m s-1"), "t2m": (280 - 12 * wave, "K")}
    variables = {name: (["time"], found, {"units": units}) for name, (found, units) in values.items()}
    xr.Dataset(variables, coords={"time": times}).to_netcdf(path, engine="h5netcdf")
    return str(path)


def years(data: TaskData) -> list[tuple[int, int]]:
    def of(cases: CaseTable) -> tuple[int, int]:
        assert cases.times is not None
        found = cases.times.astype("datetime64[Y]").astype(int) + 1970
        return int(found.min()), int(found.max())

    return [of(cases) for cases in (data.train, data.validation, data.test)]


@pytest.mark.parametrize(
    ("start", "end", "wind", "frost"),
    [
        (
            "2004-12-01",
            "2022-03-01",
            [(2005, 2019), (2020, 2020), (2021, 2021)],
            [(2004, 2018), (2019, 2019), (2020, 2021)],
        ),
        (
            "2005-01-01",
            "2021-12-31",
            [(2005, 2018), (2019, 2019), (2020, 2020)],
            [(2005, 2017), (2018, 2018), (2019, 2020)],
        ),
        (
            "2010-01-01",
            "2015-01-01",
            [(2010, 2012), (2013, 2013), (2014, 2014)],
            [(2010, 2011), (2012, 2012), (2013, 2014)],
        ),
        (
            "2010-07-01",
            "2016-06-01",
            [(2010, 2013), (2014, 2014), (2015, 2015)],
            [(2010, 2012), (2013, 2013), (2014, 2015)],
        ),
    ],
    ids=["the paper's years", "one day less", "five years", "years that are not full"],
)
def test_years_of_the_splits(tmp_path: Path, start: str, end: str, wind: list[Any], frost: list[Any]) -> None:
    path = write(tmp_path / "a.nc", start, end)
    assert years(WindTask(record=path).data()) == wind
    assert years(FrostTask(record=path).data()) == frost


def test_wind_is_in_metres_per_second_and_frost_in_degrees(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", "2010", "2015")
    wind, frost = WindTask(record=path).data(), FrostTask(record=path).data()
    assert (wind.feature_names, wind.outcome_names) == (("ws10@0h", "ws10@-6h", "ws10@-12h"), ("ws10",))
    assert (wind.unit, frost.unit) == ("m/s", "degC")
    assert frost.outcome_names == ("t2m",)
    assert frost.feature_names[:3] == ("t2m@0h", "ws10@0h", "t2m@-6h")
    assert -10 < frost.train.outcome.min() < 0 < frost.train.outcome.max() < 25
    assert "a.nc" in wind.attribution


def test_a_row_reaches_as_far_back_as_in_the_embedded_records(tmp_path: Path) -> None:
    splits = WindTask(record=write(tmp_path / "a.nc", "2010", "2015")).splits()
    assert [split.left_out.outside_range for split in splits.values()] == [3, 3, 3]
    test = splits["test"]
    assert torch.equal(test.features[1:, 0], test.outcome[:-1, 0])  # the speed now is what the row before foresees


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("end", "full"), [("2013-01-01", 2), ("2011-06-01", 0)])
def test_too_few_years_are_refused(tmp_path: Path, task: Any, end: str, full: int) -> None:
    path = write(tmp_path / "a.nc", "2010-12-01", end)
    needed = 4 if task is WindTask else 5
    refuses(SettingError, rf"at least {needed} full years.*got {full} in", task(record=path).data)


@pytest.mark.parametrize(
    ("task", "name", "start", "end"),
    [
        (WindTask, "train", "2010", "2013"),
        (WindTask, "validation", "2013", "2014"),
        (WindTask, "test", "2014", "2015"),
        (FrostTask, "train", "2010", "2012"),
        (FrostTask, "validation", "2012", "2013"),
        (FrostTask, "test", "2013", "2015"),
    ],
)
def test_an_empty_split_is_named(tmp_path: Path, task: Any, name: str, start: str, end: str) -> None:
    path = write(tmp_path / "a.nc", "2010", "2015", missing=(start, end))
    refuses(TableError, rf"{name} split.*\[{start}, {end}\)", task(record=path).data)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("record", ["", "wind", 3, Path("a.nc"), "a\0b", "x" * 5000])
def test_what_is_neither_a_record_nor_a_path_is_refused(task: Any, record: Any) -> None:
    refuses(StakesError, "record", task, record=record)


def test_the_reference_wind_trains_on_ten_years() -> None:
    task = WindTask(record=reference("wind_era5_hornsrev_hourly_1997_2008.nc"))
    data = task.data()
    assert years(data) == [(1997, 2006), (2007, 2007), (2008, 2008)]
    assert (len(data.train), len(data.validation), len(data.test)) == (14_605, 1_457, 1_461)
    assert all(0 < mask(data.test.outcome).sum() < len(data.test) for mask in task.regions.values())


def test_the_reference_frost_trains_on_37_years() -> None:
    data = FrostTask(record=reference("frost_era5_berlin_hourly_1980_2019.nc")).data()
    assert years(data) == [(1980, 2016), (2017, 2017), (2018, 2019)]
    assert len(data.feature_names) == 30
    assert data.outcome_names == ("t2m_berlin",)
