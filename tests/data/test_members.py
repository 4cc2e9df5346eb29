from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from forecast_files import read, written
from refusals import refuses

import stakes
from stakes.data.forecasts.quantiles import quantile_members
from stakes.errors import StakesError, TableError

WIDE = "time,m1,m2,m3\n2020-01-02,4,5,6\n2020-01-01,1,2,3\n"
LONG = "number,time,load,wind\n1,2020-01-01,2,20\n0,2020-01-01,1,10\n0,2020-01-02,3,30\n1,2020-01-02,4,40\n"

ONE_TARGET = "number,time,load\n1,2020-01-01,2\n0,2020-01-01,1\n0,2020-01-02,3\n1,2020-01-02,4\n"


def netcdf(folder: Path, variables: dict[str, Any], coords: dict[str, Any] | None = None) -> Path:
    xr.Dataset(variables, coords).to_netcdf(folder / "a.nc", engine="h5netcdf")
    return folder / "a.nc"


def days(*numbers: int) -> Any:
    return np.array([f"2020-01-{number:02}" for number in numbers], "datetime64[ns]")


def test_wide_tables(tmp_path: Path) -> None:
    ensemble = read(written(tmp_path, WIDE))
    assert ensemble.members.tolist() == [[[4], [5], [6]], [[1], [2], [3]]]
    assert ensemble.index.tolist() == pd.to_datetime(["2020-01-02", "2020-01-01"]).tolist()
    assert (ensemble.targets, ensemble.notes) == (("outcome",), ("2 cases of 3 members, targets outcome",))


def test_wide_tables_with_another_time_column_labels_or_none(tmp_path: Path) -> None:
    path = written(tmp_path, WIDE.replace("time", "when"))
    assert read(path, time="when").index.name == "when"
    labels = read(written(tmp_path, "Case,0,1\n07,1,2\nb,3,4\n")).index
    assert labels.tolist() == ["07", "b"]
    rows = read(written(tmp_path, "a,b\n1,2\n3,4\n"))
    assert (rows.index.name, rows.members.shape) == ("row", (2, 2, 1))


@pytest.mark.parametrize("number", ["number", "member", "realization"])
def test_long_tables(tmp_path: Path, number: str) -> None:
    path = written(tmp_path, LONG.replace("number", number))
    ensemble = read(path, outcomes=("load", "wind"))
    assert ensemble.members.tolist() == [[[1, 10], [2, 20]], [[3, 30], [4, 40]]]
    assert ensemble.targets == ("load", "wind")
    assert ensemble.notes == ("2 cases of 2 members, targets load, wind",)
    assert read(path, outcomes=("wind",)).members[..., 0].tolist() == [[10, 20], [30, 40]]
    assert ensemble.index.tolist() == pd.to_datetime(["2020-01-01", "2020-01-02"]).tolist()


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


def test_incomplete_cases_are_left_out_with_a_note(tmp_path: Path) -> None:
    ensemble = read(written(tmp_path, WIDE + "2020-01-03,7,,9\n"))
    assert len(ensemble.index) == len(ensemble.members) == 2
    assert ensemble.notes[1:] == ("1 of 3 cases lack members and are left out",)
    long = read(written(tmp_path, LONG + "0,2020-01-03,5,50\n"), outcomes=("load",))
    assert (len(long.index), len(long.notes)) == (2, 2)


@pytest.mark.parametrize("names", [("m1", "m2"), ("member_03", "member_04"), ("0", "1"), ("m[0]", "m[10]"), ("a", "b")])
def test_coordinates_are_no_members(tmp_path: Path, names: tuple[str, str]) -> None:
    path = written(tmp_path, f"time,lead,{','.join(names)},Station_ID\n2020-01-01,24,1,2,EDDF\n")
    ensemble = read(path)
    assert ensemble.members[..., 0].tolist() == [[1, 2]]
    assert ensemble.notes[1] == "left out as coordinates: lead, Station_ID"


def test_coordinates_are_no_targets_unless_there_is_nothing_else(tmp_path: Path) -> None:
    rows = "".join(f"2020-01-01,{number},52,5,{number}.5\n" for number in range(3))
    ensemble = read(written(tmp_path, f"time,number,latitude,longitude,power\n{rows}"))
    assert (ensemble.targets, ensemble.members[0, :, 0].tolist()) == (("power",), [0.5, 1.5, 2.5])
    assert ensemble.notes[1] == "left out as coordinates: latitude, longitude"
    level = read(written(tmp_path, "time,number,level\n2020-01-01,0,3\n2020-01-01,1,4\n"))
    assert (level.targets, level.members[0, :, 0].tolist()) == (("level",), [3, 4])
    chosen = read(tmp_path / "a.csv", outcomes=("level",))
    assert chosen.targets == ("level",)


def test_members_are_chosen_by_name_and_by_range(tmp_path: Path) -> None:
    path = written(tmp_path, "time,control,m1,m2,power,number,a:b\n2020-01-01,0,1,2,9,7,8\n")
    for columns, expected in {
        ("m1:m2",): [1, 2],
        ("control", "m1:m2"): [0, 1, 2],
        ("m2", "m1"): [2, 1],
        ("a:b", "m1"): [8, 1],
    }.items():
        assert read(path, columns=columns).members[0, :, 0].tolist() == expected
    for columns, message in {
        ("m1:m3",): "has no column 'm3'; there are control, m1",
        ("m2:m1",): "ranges that count up, got m2:m1",
        ("m1:m2", "m1"): "each column once, got 'm1' twice",
    }.items():
        refuses(TableError, message, read, path, columns=columns)


def test_separator_and_encoding_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("time;\u0161|1;2\n2020-01-01;3;4\n".encode("cp1250"))
    ensemble = read(path, time="time", separator=";", encoding="cp1250", columns=("\u0161|1", "2"))
    assert ensemble.members[0, :, 0].tolist() == [3, 4]
    seen = read(path, path, outcomes=("\u0161|1",), columns=("\u0161|1", "2"), separator=";", encoding="cp1250")
    assert seen.outcomes.tolist() == [[3]]


def test_times_of_parquet_in_another_zone_are_told(tmp_path: Path) -> None:
    for zone, notes in {"Europe/Dublin": 2, "UTC": 1}.items():
        times = pd.DatetimeIndex(["2020-07-01 12:00"], tz=zone, name="time")
        pd.DataFrame({"m1": [1.0], "m2": [2.0]}, times).to_parquet(tmp_path / "a.parquet")
        assert len(read(tmp_path / "a.parquet").notes) == notes


MEMBERS: dict[str, tuple[str, str]] = {
    "text column": ("time,place,a\n2020-01-01,Rome,5\n", "has text in the column 'place'"),
    "long without target": ("number,time\n0,2020-01-01\n", "has no column of numbers besides 'number' and 'time'"),
    "outcome under another name": ("time,power,m1,m2,m3\n2020-01-01,9,1,2,3\n", "has the column 'power', which"),
    "outcome between members": ("time,0,power,1,mean\n2020-01-01,1,9,2,3\n", "has the columns 'power', 'mean',"),
    "two ensembles": ("time,u1,u2,u3,v1,v2\n2020-01-01,1,2,3,4,5\n", "has the columns 'v1', 'v2', which"),
    "member without number": (ONE_TARGET + ",2020-01-03,5\n", "must have a member in the column 'number' of every row"),
    "case without label": ("case,a\nx,1\n,2\n", "column 'case' must hold a label in every row, but data row 2"),
}


@pytest.mark.parametrize(("content", "expected"), MEMBERS.values(), ids=MEMBERS)
def test_members_that_are_none_are_refused(tmp_path: Path, content: str, expected: str) -> None:
    refuses(StakesError, expected, read, written(tmp_path, content))


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


def test_netcdf_has_no_columns_to_choose(tmp_path: Path) -> None:
    path = netcdf(tmp_path, {"a": (("time", "number"), ONES)})
    refuses(TableError, "columns must be left out", read, path, columns=("a",))


QUANTILES = "time,q10,q50,q90\n2020-01-01,1,2,5\n2020-01-02,2,4,8\n"


def test_quantiles_become_weighted_members(tmp_path: Path) -> None:
    ensemble = read(written(tmp_path, QUANTILES))
    assert (ensemble.members.shape[0], ensemble.targets) == (2, ("outcome",))
    expected, weights = quantile_members((0.1, 0.5, 0.9), [[1, 2, 5], [2, 4, 8]])
    np.testing.assert_array_equal(ensemble.members[..., 0], expected)
    np.testing.assert_array_equal(ensemble.weights, weights)
    assert ensemble.notes == (
        "2 cases of 3 quantiles, levels 0.1 to 0.9, targets outcome",
        "read as quantiles, interpolated linearly between the levels, with exponential tails beyond; "
        "--read-as members reads the columns as members of equal weight",
    )
    flat = read(tmp_path / "a.csv", read_as="quantiles", tails="flat")
    assert (flat.members.min(), flat.members.max()) == (1, 8)
    assert flat.notes[1] == "read as quantiles, interpolated linearly between the levels, with nothing beyond"
    members = read(tmp_path / "a.csv", read_as="members")
    assert (members.members[0, :, 0].tolist(), members.weights) == ([1, 2, 5], None)
    np.testing.assert_array_equal(members.equal_members, members.members)


def test_equally_likely_members_of_quantiles(tmp_path: Path) -> None:
    equal = read(written(tmp_path, QUANTILES)).equal_members[..., 0]
    assert equal.shape == (2, 100)
    np.testing.assert_allclose(np.quantile(equal[0], [0.1, 0.5, 0.9]), [1, 2, 5], atol=0.1)


def test_tails_end_at_the_bounds(tmp_path: Path) -> None:
    path = written(tmp_path, QUANTILES)
    assert read(path).members.min() < 0
    assert read(path, outcome_bounds="0,6").members.min() == 0
    assert read(path, outcome_bounds="0,6").members.max() == 6
    wind = read(path, cost=stakes.WindDispatchCost(5.0))
    assert wind.members.min() == 0
    assert wind.notes[-1] == "No member of outcome lies below 0, as the cost says (outcome_bounds)."
    assert read(path, cost=stakes.WindDispatchCost(5.0), outcome_bounds="none").members.min() < 0
    dark = "".join(f"2020-02-{day:02},0,0,{day}\n" for day in range(1, 20))
    night = read(written(tmp_path, f"time,q10,q50,q90\n{dark}2020-03-01,0,3,5\n"))
    assert night.members.min() == 0
    assert "at which many values lie exactly" in night.notes[-1]
    assert read(written(tmp_path, WIDE), outcome_bounds="2,").members.min() == 2


def test_what_is_told_of_quantiles(tmp_path: Path) -> None:
    rows = "2020-01-01,5,4,6,1\n2020-01-02,1,2,3,1\n2020-01-03,,2,3,1\n"
    ensemble = read(written(tmp_path, f"time,q10,q40,q90,mean\n{rows}"))
    assert ensemble.notes[2:] == (
        "left out beside the quantiles: mean",
        "1 of 3 cases lack quantiles and are left out",
        "1 of 2 cases have quantiles that cross, and were sorted (by up to 1)",
        "there is no median: quantiles between 0.4 and 0.9 are interpolated linearly",
    )


SITES = "time,north_m1,west_m1,north_m2,west_m2\n2020-01-01,1,10,2,20\n2020-01-02,3,30,4,40\n"


def test_sites_in_the_names_of_members(tmp_path: Path) -> None:
    ensemble = read(written(tmp_path, SITES))
    assert ensemble.members.tolist() == [[[1, 10], [2, 20]], [[3, 30], [4, 40]]]
    assert ensemble.targets == ("north", "west")
    assert "2 sites, north, west, " in ensemble.notes[1]
    west = read(tmp_path / "a.csv", sites=("west",))
    assert (west.members[..., 0].tolist(), west.targets) == ([[10, 20], [30, 40]], ("west",))
    each = read(tmp_path / "a.csv", sites="each")
    assert each.members[..., 0].tolist() == [[1, 2], [10, 20], [3, 4], [30, 40]]
    assert each.index.names == ["time", "site"]
    assert each.index[1] == (pd.Timestamp("2020-01-01"), "west")
    refuses(TableError, "'east'", read, tmp_path / "a.csv", sites=("east",))


def test_quantiles_of_several_sites(tmp_path: Path) -> None:
    path = written(tmp_path, "time,north_q10,north_q90,west_q10,west_q90\n2020-01-01,1,2,10,20\n")
    refuses(TableError, r"2 sites, north, west; .*--sites each decides for each", read, path)
    each = read(path, sites="each")
    assert [name for _, name in each.index] == ["north", "west"]
    assert each.notes[0] == "2 cases of 2 quantiles, levels 0.1 to 0.9, targets outcome"
    assert read(path, sites=("west",)).targets == ("west",)


def test_a_point_forecast_of_each_site(tmp_path: Path) -> None:
    ensemble = read(written(tmp_path, "time,north,west\n2020-01-01,1,2\n"), read_as="points")
    assert (ensemble.members.tolist(), ensemble.targets) == ([[[1, 2]]], ("north", "west"))
    assert "point forecast" in ensemble.notes[-1]


def test_quantiles_of_several_sites_that_pay_by_themselves(tmp_path: Path) -> None:
    path = written(tmp_path, "time,north_q10,north_q90,west_q10,west_q90\n2020-01-01,1,2,10,20\n")
    ensemble = read(path, cost=stakes.AllocationCost(9.0, 1.0, budget=100.0), tails="flat")
    assert ensemble.targets == ("north", "west")
    cost = stakes.AllocationCost(9.0, 1.0, budget=100.0)
    action = stakes.optimal_action(cost, torch.from_numpy(ensemble.members), weights=torch.from_numpy(ensemble.weights))
    assert action.tolist() == [[2.0, 20.0]]  # the quantiles at 0.9
    assert any("vary together" in note for note in ensemble.notes)
    refuses(TableError, "do not say how", read, path, cost=stakes.StorageCost(1.0, 3.0, 0.0, power=1.0, energy=1.0))
