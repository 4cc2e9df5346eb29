from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from stakes.data.members import MembersFile, read_members, read_outcomes
from stakes.data.tables import TableError
from stakes.errors import StakesError

WIDE = "time,m1,m2,m3\n2020-01-02,4,5,6\n2020-01-01,1,2,3\n"
LONG = "number,time,load,wind\n1,2020-01-01,2,20\n0,2020-01-01,1,10\n0,2020-01-02,3,30\n1,2020-01-02,4,40\n"


def written(folder: Path, content: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def netcdf(folder: Path, variables: dict[str, Any], coords: dict[str, Any] | None = None) -> Path:
    xr.Dataset(variables, coords).to_netcdf(folder / "a.nc", engine="h5netcdf")
    return folder / "a.nc"


def days(*numbers: int) -> Any:
    return np.array([f"2020-01-{number:02}" for number in numbers], "datetime64[ns]")


def test_wide_tables(tmp_path: Path) -> None:
    found = read_members(written(tmp_path, WIDE))
    assert found.members.tolist() == [[[4], [5], [6]], [[1], [2], [3]]]
    assert found.index.tolist() == pd.to_datetime(["2020-01-02", "2020-01-01"]).tolist()
    assert (found.targets, found.unit, found.notes) == (("outcome",), "", ())
    assert repr(found) == "MembersFile(2 cases of 3 members, targets outcome)"


def test_wide_tables_with_another_time_column_labels_or_none(tmp_path: Path) -> None:
    path = written(tmp_path, WIDE.replace("time", "when"))
    assert read_members(path, time="when").index.name == "when"
    labels = read_members(written(tmp_path, "Case,0,1\n07,1,2\nb,3,4\n")).index
    assert labels.tolist() == ["07", "b"]
    rows = read_members(written(tmp_path, "a,b\n1,2\n3,4\n"))
    assert (rows.index.name, rows.members.shape) == ("row", (2, 2, 1))


@pytest.mark.parametrize("number", ["number", "member", "realization"])
def test_long_tables(tmp_path: Path, number: str) -> None:
    found = read_members(written(tmp_path, LONG.replace("number", number)))
    assert found.members.tolist() == [[[1, 10], [2, 20]], [[3, 30], [4, 40]]]
    assert found.targets == ("load", "wind")
    assert found.index.tolist() == pd.to_datetime(["2020-01-01", "2020-01-02"]).tolist()


def test_parquet(tmp_path: Path) -> None:
    pd.DataFrame({"m1": [1.0], "m2": [2.0]}, pd.DatetimeIndex(["2020-01-01"])).to_parquet(tmp_path / "a.parquet")
    found = read_members(tmp_path / "a.parquet")
    assert found.members.tolist() == [[[1], [2]]]
    assert found.index.tolist() == [pd.Timestamp("2020-01-01")]


@pytest.mark.parametrize("dims", [("number", "time"), ("time", "number")])
def test_netcdf_with_number_anywhere(tmp_path: Path, dims: tuple[str, str]) -> None:
    array = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("time", "number"), attrs={"units": "m s-1"})
    variables = {"ws": array.transpose(*dims).expand_dims(latitude=[52.0]), "other": ("time", [1.0, 2.0])}
    found = read_members(netcdf(tmp_path, variables, {"time": days(1, 2)}))
    assert found.members[:, :, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (found.targets, found.unit) == (("ws",), "m s-1")
    assert found.index.tolist() == pd.to_datetime(["2020-01-01", "2020-01-02"]).tolist()


def test_netcdf_sites_are_targets(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(2, 3, 2)
    variables = {"power": (("site", "number", "time"), values)}
    found = read_members(netcdf(tmp_path, variables, {"site": ["north", "south"]}))
    assert found.targets == ("power[north]", "power[south]")
    np.testing.assert_array_equal(found.members, values.transpose(2, 1, 0))
    assert found.index.name == "row"


def test_netcdf_valid_times_labels_and_a_chosen_variable(tmp_path: Path) -> None:
    both = {name: (("step", "number"), np.ones((2, 3))) for name in ("a", "b")}
    path = netcdf(tmp_path, both, {"step": [6, 12], "valid_time": ("step", days(3, 4))})
    assert read_members(path, variable="b").index[0] == pd.Timestamp("2020-01-03")
    labelled = netcdf(tmp_path, {"a": (("case", "number"), np.ones((2, 3)))}, {"case": [7, 8]})
    assert read_members(labelled).index.tolist() == ["7", "8"]
    single = netcdf(tmp_path, {"a": ("number", np.ones(3))})
    assert read_members(single).members.shape == (1, 3, 1)


def test_incomplete_cases_are_left_out_with_a_note(tmp_path: Path) -> None:
    found = read_members(written(tmp_path, WIDE + "2020-01-03,7,,9\n"))
    assert len(found.index) == len(found.members) == 2
    assert found.notes == ("1 of 3 cases have missing members and are left out",)
    long = read_members(written(tmp_path, LONG + "0,2020-01-03,5,50\n"))
    assert (len(long.index), len(long.notes)) == (2, 1)


def test_a_single_member_is_a_point_forecast(tmp_path: Path) -> None:
    found = read_members(written(tmp_path, "time,a\n2020-01-01,5\n"))
    assert found.members.shape == (1, 1, 1)
    assert "point forecast" in found.notes[0]


MEMBERS: dict[str, tuple[str, str]] = {
    "time twice": (WIDE + "2020-01-01,7,8,9\n", "has the time 2020-01-01 00:00:00 more than once .1 such."),
    "day first": (WIDE.replace("2020-01-02", "02.01.2020"), "must hold ISO times"),
    "only times": ("time\n2020-01-01\n", "has no column of members"),
    "text column": ("time,place,a\n2020-01-01,Rome,5\n", "has text in the column 'place'; columns of members hold"),
    "text cell": (
        WIDE.replace("5", "five"),
        "column 'm2' .*'five' in data row 1",
    ),
    "outcome among members": (WIDE.replace("m3", "observed"), "has the column 'observed', which looks like no member"),
    "all incomplete": ("time,a,b\n2020-01-01,1,\n", "has no case without missing members, of 1"),
    "infinite": (WIDE.replace("6", "inf"), "column 'm3' must be finite, got inf in data row 1"),
    "long without case": ("number,load\n0,1\n1,2\n", "has the column 'number' but none of the case"),
    "long without target": ("number,time\n0,2020-01-01\n", "has no column of numbers besides 'number' and 'time'"),
    "member twice": (LONG + "1,2020-01-02,5,50\n", "has member 1 of case 2020-01-02 00:00:00 more than once"),
    "member without number": (LONG + ",2020-01-03,5,50\n", "must have a member in the column 'number' of every row"),
    "case without label": ("case,a\nx,1\n,2\n", "column 'case' must hold a label in every row, but data row 2"),
}


@pytest.mark.parametrize(("content", "expected"), MEMBERS.values(), ids=MEMBERS)
def test_members_that_are_none_are_refused(tmp_path: Path, content: str, expected: str) -> None:
    with pytest.raises(StakesError, match=expected) as caught:
        read_members(written(tmp_path, content))
    assert len(str(caught.value).splitlines()) == 1


ONES = np.ones((2, 3))
DATASETS: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "no number": ({"a": ("time", [1.0])}, None, "has no variable with the dimension 'number'; it holds a"),
    "several": (
        dict.fromkeys("ab", (("time", "number"), ONES)),
        None,
        "has several variables with the dimension 'number', a, b; name one as variable",
    ),
    "not that one": ({"ab": (("time", "number"), ONES)}, "abc", "has no variable 'abc' .*; did you mean 'ab'"),
    "a grid": (
        {"a": (("time", "number", "x"), np.ones((2, 3, 4)))},
        None,
        r"one dimension of cases.* time \(2\), x \(4\)",
    ),
    "infinite": ({"a": (("time", "number"), ONES * np.inf)}, None, "must be finite or missing"),
}


@pytest.mark.parametrize(("variables", "wanted", "expected"), DATASETS.values(), ids=DATASETS)
def test_datasets_that_are_no_members(
    tmp_path: Path, variables: dict[str, Any], wanted: str | None, expected: str
) -> None:
    with pytest.raises(TableError, match=expected):
        read_members(netcdf(tmp_path, variables), variable=wanted)


def test_netcdf_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(StakesError, match="NetCDF"):
        read_members(written(tmp_path, "text", "a.nc"))


def members(targets: tuple[str, ...] = ("outcome",), index: Any = None) -> MembersFile:
    index = pd.DatetimeIndex(["2020-01-02", "2020-01-01"], name="time") if index is None else index
    return MembersFile(np.ones((len(index), 3, len(targets))), index, targets)


def test_outcomes_are_matched_by_label(tmp_path: Path) -> None:
    path = written(tmp_path, "time,load\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n")
    found = read_outcomes(path, members())
    assert found["outcome"].tolist() == [2, 1]
    assert found.index.equals(members().index)
    several = written(tmp_path, "when,b,a,x\n2020-01-01T00:00Z,1,10,0\n2020-01-02T00:00Z,2,,0\n")
    both = read_outcomes(several, members(("a", "b")), time="when")
    np.testing.assert_array_equal(both[["a", "b"]], [[np.nan, 2], [10, 1]])
    assert read_outcomes(several, members(), time="when", targets=["x"])["outcome"].tolist() == [0, 0]


def test_outcomes_without_labels_are_matched_by_row(tmp_path: Path) -> None:
    rows = members(index=pd.RangeIndex(3, name="row")[np.array([True, False, True])])
    assert read_outcomes(written(tmp_path, "y\n1\n2\n3\n"), rows)["outcome"].tolist() == [1, 3]
    with pytest.raises(TableError, match="has 2 rows, but the members have 3 cases"):
        read_outcomes(written(tmp_path, "y\n1\n2\n"), rows)


OUTCOMES: dict[str, tuple[str, str]] = {
    "label missing": (
        "time,y\n2020-01-01,1\n",
        "has no outcome for 2020-01-02 00:00:00, a case of the members .1 such.",
    ),
    "label twice": (
        "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,3\n",
        "has the time 2020-01-01 00:00:00 more than once",
    ),
    "no labels": ("y\n1\n2\n", "has no column of times or cases"),
    "labels, not times": ("case,y\na,1\nb,2\n", "has labels in the column 'case', but the members have times"),
    "several columns": (
        "time,y,z\n2020-01-01,1,2\n",
        "has no column 'outcome'; there are y, z, or say which with targets",
    ),
    "no numbers": ("time,y\n2020-01-01,x\n2020-01-02,y\n", "has no column 'outcome'"),
    "text": ("time,outcome\n2020-01-01,x\n2020-01-02,2\n", "column 'outcome' must hold numbers, got 'x' in data row 1"),
}


@pytest.mark.parametrize(("content", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcomes_that_do_not_belong_are_refused(tmp_path: Path, content: str, expected: str) -> None:
    with pytest.raises(TableError, match=expected) as caught:
        read_outcomes(written(tmp_path, content), members())
    assert len(str(caught.value).splitlines()) == 1


def test_the_number_of_targets_must_agree(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="targets must be 1, as the members have, got y, z"):
        read_outcomes(written(tmp_path, "time,y,z\n2020-01-01,1,2\n"), members(), targets=["y", "z"])
