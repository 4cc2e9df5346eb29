from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from forecast_files import read
from refusals import refuses

from stakes import ScheduleCost, ShortfallCost, cost_function
from stakes.errors import TableError

VALUES = np.arange(6.0).reshape(2, 3)  # times, members


def netcdf(folder: Path, variables: dict[str, Any], coords: dict[str, Any] | None = None) -> Path:
    xr.Dataset(variables, coords).to_netcdf(folder / "a.nc", engine="h5netcdf")
    return folder / "a.nc"


@pytest.mark.parametrize("dimension", ["number", "member", "realization", "ensemble", "sample"])
def test_dimensions_of_members(tmp_path: Path, dimension: str) -> None:
    ensemble = read(netcdf(tmp_path, {"power": (("time", dimension), VALUES, {"units": "MW"})}))
    assert ensemble.members[..., 0].tolist() == VALUES.tolist()
    assert ensemble.notes[1] == "power is in MW, as the file says"


def test_any_other_dimension_by_its_name(tmp_path: Path) -> None:
    path = netcdf(tmp_path, {"power": (("time", "draw"), VALUES)})
    refuses(TableError, r"it holds power \(time, draw\); .*--member-dimension", read, path)
    assert read(path, member_dimension="draw").members[..., 0].tolist() == VALUES.tolist()
    both = netcdf(tmp_path, {"power": (("number", "sample"), VALUES)})
    refuses(TableError, "has the dimensions number, sample; .*--member-dimension", read, both)
    assert read(both, member_dimension="sample").members[..., 0].tolist() == VALUES.tolist()


def test_quantiles_along_a_dimension(tmp_path: Path) -> None:
    path = netcdf(tmp_path, {"power": (("quantile", "time"), VALUES.T[::-1])}, {"quantile": [0.9, 0.5, 0.1]})
    ensemble = read(path)
    assert "3 quantiles, levels 0.1 to 0.9" in ensemble.notes[0]
    middle = np.searchsorted(np.cumsum(ensemble.weights), 0.5)
    assert ensemble.members[:, middle, 0].tolist() == [1, 4]
    refuses(TableError, "must have levels", read, netcdf(tmp_path, {"power": (("quantile", "time"), VALUES.T)}))


GRID = {"latitude": [52.0, 51.0, 50.0], "longitude": [358.0, 359.0, 0.0, 1.0]}


def test_points_of_a_grid(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((2, 5, 3, 4))
    path = netcdf(tmp_path, {"t2m": (("time", "number", "latitude", "longitude"), values)}, GRID)
    one = read(path, point=((51.2, -1.1),))  # 359 E
    assert one.members[..., 0].tolist() == values[:, :, 1, 1].tolist()
    assert one.targets == ("t2m",)
    two = read(path, point=((50.0, 1.0), (52.0, -2.0)))
    np.testing.assert_array_equal(two.members, np.stack([values[..., 2, 3], values[..., 0, 0]], -1))
    assert two.targets == ("t2m[50 1]", "t2m[52 -2]")
    refuses(TableError, "point", read, path, point=((20.0, 0.0),))
    refuses(TableError, r"got time \(2\), latitude \(3\), longitude \(4\)", read, path)  # it has no times
    with pytest.raises(TableError, match="'latitude'"):
        read(netcdf(tmp_path, {"a": (("time", "number"), VALUES)}), point=((50.0, 0.0),))


def test_every_time_and_place_is_a_case(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((3, 5, 2, 4))
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
    coords = {"latitude": GRID["latitude"], "time": days, "longitude": GRID["longitude"]}
    ensemble = read(netcdf(tmp_path, {"t2m": (("latitude", "number", "time", "longitude"), values)}, coords))
    assert ensemble.index.names == ["time", "latitude", "longitude"]
    assert ensemble.members.shape == (24, 5, 1)
    for case, members in zip(ensemble.index, ensemble.members, strict=True):
        at = list(days.astype("datetime64[s]")).index(case[0].to_datetime64())
        place = GRID["latitude"].index(case[1]), GRID["longitude"].index(case[2])
        assert members[:, 0].tolist() == values[place[0], :, at, place[1]].tolist()
    assert "there is a case for every time and latitude and longitude" in ensemble.notes[1]
    sited = {"p": (("time", "step", "number", "site"), values.reshape(2, 3, 5, 4))}
    labels = {"time": days, "step": [0, 6, 12], "site": ["a", "b", "c", "d"]}
    each = read(netcdf(tmp_path, sited, labels), sites="each")
    assert each.index.names == ["time", "step", "site"]
    assert each.index[5][1:] == (6, "p[b]")
    assert each.members[5, :, 0].tolist() == values.reshape(2, 3, 5, 4)[0, 1, :, 1].tolist()


def test_tables_have_no_dimensions(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,m1,m2\n2020-01-01,1,2\n")
    for options in ({"member_dimension": "number"}, {"point": ((50.0, 0.0),)}):
        refuses(TableError, r"NetCDF files, but .*a.csv' is a table", read, tmp_path / "a.csv", **options)


HOURS = {"time": np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]"), "hour": ["h00", "h01", "h02"]}
RAMP = ScheduleCost(50.0, 0.5, ramp=0.2)


def hourly(folder: Path) -> Path:
    values = np.random.default_rng(0).random((2, 4, 3))
    return netcdf(folder, {"load": (("time", "number", "hour"), values)}, HOURS)


def test_any_dimension_may_be_that_of_the_parts(tmp_path: Path) -> None:
    path = hourly(tmp_path)
    own = cost_function(lambda a, y: ((a - y) ** 2).sum(-1), 0.0, 9.0, parts=3)
    for cost in (RAMP, own):
        refused = r"'hour' besides 'time', .*; --site hour .*, --sites each decides"
        refuses(TableError, refused, read, path, cost=cost)
    assert read(path, cost=own, site="hour").members.shape == (2, 4, 3)
    parts = read(path, cost=RAMP, site="hour")
    assert parts.targets == ("h00", "h01", "h02")
    assert parts.members.shape == (2, 4, 3)
    each = read(path, cost=RAMP, sites="each")
    assert each.members.shape == (6, 4, 1)
    assert "--site hour" in each.notes[1]
    assert read(path, cost=ShortfallCost(5.0)).members.shape == (6, 4, 1)
    refuses(TableError, "'load'", read, path, site="hours")
    twice = netcdf(tmp_path, {"load": (("number", "hour"), VALUES)}, {"hour": ["a", "b", "a"]})
    refuses(TableError, "'hour'", read, twice, site="hour")


def test_several_variables_are_the_parts(tmp_path: Path) -> None:
    units = {"h00": "MW", "h01": "MW", "odd": "K"}
    path = netcdf(tmp_path, {name: (("time", "number"), VALUES, {"units": unit}) for name, unit in units.items()})
    both = read(path, variable="h01, h00")
    assert both.targets == ("h01", "h00")
    assert both.members.shape == (2, 3, 2)
    assert both.notes[1] == "h01, h00 is in MW, as the file says"
    for names, message in {
        "h00,odd": "variables h00, odd of .* must have the same dimensions and one unit",
        "h00,h00": "--variable must name different variables",
        "h00,h02": "has no variable 'h00,h02'",
    }.items():
        refuses(TableError, message, read, path, variable=names)
    refuses(TableError, "--variable.* h00,h01", read, path)


def days(*numbers: int) -> Any:
    return np.array([f"2020-01-{number:02}" for number in numbers], "datetime64[ns]")


@pytest.mark.parametrize("site", ["site", "station"])
def test_netcdf_sites_are_targets(tmp_path: Path, site: str) -> None:
    values = np.arange(12.0).reshape(2, 3, 2)
    variables = {"power": ((site, "number", "time"), values)}
    ensemble = read(netcdf(tmp_path, variables, {site: ["north", "south"]}))
    assert ensemble.targets == ("power[north]", "power[south]")
    np.testing.assert_array_equal(ensemble.members, values.transpose(2, 1, 0))
    assert ensemble.index.name == "row"


def test_netcdf_valid_times_labels_and_a_chosen_variable(tmp_path: Path) -> None:
    both = {name: (("step", "number"), np.ones((2, 3))) for name in ("a", "b")}
    path = netcdf(tmp_path, both, {"step": [6, 12], "valid_time": ("step", days(3, 4))})
    assert read(path, variable="b").index[0] == pd.Timestamp("2020-01-03")
    labelled = netcdf(tmp_path, {"a": (("case", "number"), np.ones((2, 3)))}, {"case": [7, 8]})
    assert read(labelled).index.tolist() == ["7", "8"]
    single = netcdf(tmp_path, {"a": ("number", np.ones(3))})
    assert read(single).members.shape == (1, 3, 1)


ONES = np.ones((2, 3))
DATASETS: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "no number": ({"a": ("time", [1.0])}, None, r"has no variable with the dimension 'number'; it holds a"),
    "several": (dict.fromkeys("ab", (("time", "number"), ONES)), None, "has several variables with the dimension"),
    "not that one": ({"ab": (("time", "number"), ONES)}, "abc", "has no variable 'abc' .*; did you mean 'ab'"),
    "a grid": ({"a": (("time", "number", "x"), np.ones((2, 3, 4)))}, None, r"one dimension of cases.* time \(2\),"),
    "no members": ({"a": (("time", "number"), ONES[:, :0])}, None, "has 2 cases of 0 members, expected at least one"),
    "no cases": ({"a": (("time", "number"), ONES[:0])}, None, "has 0 cases of 3 members, expected at least one each"),
    "infinite": ({"a": (("time", "number"), ONES * np.inf)}, None, "must be finite or missing"),
}


@pytest.mark.parametrize(("variables", "wanted", "expected"), DATASETS.values(), ids=DATASETS)
def test_datasets_that_are_no_members(
    tmp_path: Path, variables: dict[str, Any], wanted: str | None, expected: str
) -> None:
    refuses(TableError, expected, read, netcdf(tmp_path, variables), variable=wanted)
