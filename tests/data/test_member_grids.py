from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from stakes.data.members import read_members
from stakes.errors import TableError

VALUES = np.arange(6.0).reshape(2, 3)  # times, members


def netcdf(folder: Path, variables: dict[str, Any], coords: dict[str, Any] | None = None) -> Path:
    xr.Dataset(variables, coords).to_netcdf(folder / "a.nc", engine="h5netcdf")
    return folder / "a.nc"


@pytest.mark.parametrize("dimension", ["number", "member", "realization", "ensemble", "sample"])
def test_dimensions_of_members(tmp_path: Path, dimension: str) -> None:
    found = read_members(netcdf(tmp_path, {"power": (("time", dimension), VALUES, {"units": "MW"})}))
    assert found.members[..., 0].tolist() == VALUES.tolist()
    assert found.notes[1] == "power is in MW, as the file says"


def test_any_other_dimension_by_its_name(tmp_path: Path) -> None:
    path = netcdf(tmp_path, {"power": (("time", "draw"), VALUES)})
    with pytest.raises(TableError, match=r"it holds power \(time, draw\); --member-dimension says"):
        read_members(path)
    assert read_members(path, dimension="draw").members[..., 0].tolist() == VALUES.tolist()
    both = netcdf(tmp_path, {"power": (("number", "sample"), VALUES)})
    with pytest.raises(TableError, match="has the dimensions number, sample; --member-dimension says which"):
        read_members(both)
    assert read_members(both, dimension="sample").members[..., 0].tolist() == VALUES.tolist()


def test_quantiles_along_a_dimension(tmp_path: Path) -> None:
    path = netcdf(tmp_path, {"power": (("quantile", "time"), VALUES.T[::-1])}, {"quantile": [0.9, 0.5, 0.1]})
    found = read_members(path)
    assert found.levels == (0.1, 0.5, 0.9)
    middle = np.searchsorted(np.cumsum(found.weights), 0.5)
    assert found.members[:, middle, 0].tolist() == [1, 4]
    with pytest.raises(TableError, match="must have levels between 0 and 1 along the dimension 'quantile'"):
        read_members(netcdf(tmp_path, {"power": (("quantile", "time"), VALUES.T)}))


GRID = {"latitude": [52.0, 51.0, 50.0], "longitude": [358.0, 359.0, 0.0, 1.0]}


def test_points_of_a_grid(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((2, 5, 3, 4))
    path = netcdf(tmp_path, {"t2m": (("time", "number", "latitude", "longitude"), values)}, GRID)
    one = read_members(path, points=[(51.2, -1.1)])  # 359 E
    assert one.members[..., 0].tolist() == values[:, :, 1, 1].tolist()
    assert one.targets == ("t2m",)
    two = read_members(path, points=[(50.0, 1.0), (52.0, -2.0)])
    np.testing.assert_array_equal(two.members, np.stack([values[..., 2, 3], values[..., 0, 0]], -1))
    assert two.targets == ("t2m[50 1]", "t2m[52 -2]")
    with pytest.raises(TableError, match=r"point must lie in the grid of .*, got \(20.0, 0.0\), 30 from any latitude"):
        read_members(path, points=[(20.0, 0.0)])
    with pytest.raises(TableError, match=r"or labels along each, got time \(2\), latitude \(3\), longitude \(4\)"):
        read_members(path)  # it has no times
    with pytest.raises(TableError, match="has no dimension 'latitude' to choose points of"):
        read_members(netcdf(tmp_path, {"a": (("time", "number"), VALUES)}), points=[(50.0, 0.0)])


def test_every_time_and_place_is_a_case(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((3, 5, 2, 4))
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
    coords = {"latitude": GRID["latitude"], "time": days, "longitude": GRID["longitude"]}
    found = read_members(netcdf(tmp_path, {"t2m": (("latitude", "number", "time", "longitude"), values)}, coords))
    assert found.index.names == ["time", "latitude", "longitude"]
    assert found.members.shape == (24, 5, 1)
    for case, members in zip(found.index, found.members, strict=True):
        at = list(days.astype("datetime64[s]")).index(case[0].to_datetime64())
        place = GRID["latitude"].index(case[1]), GRID["longitude"].index(case[2])
        assert members[:, 0].tolist() == values[place[0], :, at, place[1]].tolist()
    assert "there is a case for every time and latitude and longitude" in found.notes[1]
    sited = {"p": (("time", "step", "number", "site"), values.reshape(2, 3, 5, 4))}
    labels = {"time": days, "step": [0, 6, 12], "site": ["a", "b", "c", "d"]}
    each = read_members(netcdf(tmp_path, sited, labels), sites="each")
    assert each.index.names == ["time", "step", "site"]
    assert each.index[5][1:] == (6, "p[b]")
    assert each.members[5, :, 0].tolist() == values.reshape(2, 3, 5, 4)[0, 1, :, 1].tolist()


def test_stations_are_sites(tmp_path: Path) -> None:
    path = netcdf(tmp_path, {"power": (("station", "number"), VALUES)}, {"station": ["north", "west"]})
    assert read_members(path).targets == ("power[north]", "power[west]")


def test_zarr_stores(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    xr.Dataset({"power": (("time", "number"), VALUES)}).to_zarr(tmp_path / "a.zarr", zarr_format=2)
    assert read_members(tmp_path / "a.zarr").members[..., 0].tolist() == VALUES.tolist()


def test_tables_have_no_dimensions(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,m1,m2\n2020-01-01,1,2\n")
    for options in ({"dimension": "number"}, {"points": [(50.0, 0.0)]}):
        with pytest.raises(TableError, match=r"are of NetCDF files, but .*a.csv' is a table"):
            read_members(tmp_path / "a.csv", **options)  # type: ignore[arg-type]
