"""Files of series that users already have: NetCDF, Zarr stores, CSV and parquet."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from forecast_files import read
from made_era5 import TIMES, grid, point, saved, values
from refusals import refuses

from stakes.data.tables.files import read_table
from stakes.data.tables.gridded_files import open_dataset, read_series
from stakes.errors import TableError


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_every_format_gives_the_same(tmp_path: Path, suffix: str) -> None:
    path = saved(point("sp", "t2m", "u10", "v10"), tmp_path / f"a{suffix}")
    series = read_series(path)
    assert list(series.columns) == ["time", "sp", "t2m", "u10", "v10", "ws10"]
    np.testing.assert_array_equal(series["time"].to_numpy("datetime64[s]"), TIMES.astype("datetime64[s]"))
    np.testing.assert_allclose(series["t2m"], values("t2m", TIMES, [52.5], [13.5])[:, 0, 0] - 273.15)
    speed = np.hypot(series["u10"], series["v10"])
    np.testing.assert_allclose(series["ws10"], speed)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_grid_becomes_columns(tmp_path: Path, suffix: str) -> None:
    path = saved(grid("t2m", "u10", "v10"), tmp_path / f"a{suffix}")
    series = read_series(path)
    assert len(series.columns) == 37
    assert list(series.columns[:4]) == ["time", "t2m[0,0]", "t2m[-1,-1]", "t2m[-1,0]"]
    assert "ws10[1,-1]" in series.columns
    pd.testing.assert_frame_equal(read_table(Path(path)), series)


def test_names_of_places_are_kept_with_the_speed(tmp_path: Path) -> None:
    dataset = point("u10", "v10", "t2m").rename(u10="u10_berlin", v10="v10_berlin").assign(u100=point("u10")["u10"])
    assert list(read_series(saved(dataset, tmp_path / "a.nc")).columns) == (
        ["time", "u10_berlin", "v10_berlin", "t2m", "u100", "ws10_berlin"]
    )


def test_preliminary_values_stand_in_for_final_ones(tmp_path: Path) -> None:
    """The old layout of the Climate Data Store has both, one where the other is missing."""
    final = xr.DataArray(np.arange(48) < 30, dims=["time"])
    whole = grid("t2m")
    versions = xr.concat([whole.where(final), whole.where(~final)], pd.Index([1, 5], name="expver"))
    turned = versions.transpose("time", "expver", "latitude", "longitude")
    files = {"a.nc": turned, "b.nc": whole}
    joined, expected = (read_series(saved(each, tmp_path / name)) for name, each in files.items())
    np.testing.assert_array_equal(joined, expected)


def test_values_that_are_missing_everywhere_make_no_column(tmp_path: Path) -> None:
    dataset = grid("t2m", "sp")
    dataset["sp"][:, :, 0] = np.nan  # as soil over sea
    dataset["t2m"][5, 1, 1] = np.nan
    series = read_series(saved(dataset, tmp_path / "a.nc"))
    assert [column for column in series.columns if column.startswith("sp")] == [
        *("sp[0,0]", "sp[-1,0]", "sp[-1,1]", "sp[0,1]", "sp[1,0]", "sp[1,1]")
    ]
    assert np.flatnonzero(series["t2m[0,0]"].isna()).tolist() == [5]


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    refuses(TableError, "is a folder, expected a NetCDF file or a Zarr store", read_series, str(tmp_path / "a.zarr"))
    (tmp_path / "a.zarr" / "zarr.json").write_text("{")
    refuses(TableError, r"a.zarr' cannot be read as Zarr: [^\n]+$", read_series, str(tmp_path / "a.zarr"))
    for name in ("absent.nc", "absent.zarr", f"{'x' * 5000}.nc"):
        refuses(TableError, r"there is no file|cannot be read", read_series, name)
        refuses(TableError, r"there is no file|cannot be read", read_table, Path(name))


def test_a_damaged_store_is_refused_in_one_line(tmp_path: Path) -> None:
    path = Path(saved(grid("t2m"), tmp_path / "a.zarr"))
    chunk = next((path / "t2m" / "c").rglob("0"))
    chunk = chunk if chunk.is_file() else next(file for file in chunk.rglob("*") if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[:20])
    refuses(TableError, "'t2m'", read_series, str(path))


def test_a_file_without_series(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="lacks a time series with values along time, latitude and longitude"):
        read_series(saved(grid("t2m").expand_dims(level=2), tmp_path / "a.nc"))
    with pytest.raises(TableError, match="'time'"):
        read_table(Path(saved(point("t2m").rename(time="valid_time").rename(t2m="time"), tmp_path / "b.nc")))


@pytest.mark.parametrize("name", ["a.nc", "a.grib2"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(TableError, match="must be a regular file"), open_dataset(str(tmp_path / name)):
        pass


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_small_file_that_unpacks_to_very_much_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stakes.files._UNPACKED", 1000)
    axes = {"time": TIMES, "number": range(50), "latitude": range(10), "longitude": range(10)}
    zeros = np.zeros([len(labels) for labels in axes.values()])
    dataset = xr.Dataset({name: (tuple(axes), zeros) for name in ("t2m", "u10")}, axes)
    for array in dataset.data_vars.values():
        array.encoding = {"zlib": True} if suffix == ".nc" else {}
    path = Path(saved(dataset, tmp_path / f"a{suffix}"))
    refused = "'t2m' unpacks to 1,920,000, beyond the limit of .*without compression"
    for variable in ("t2m", "t2m,u10"):
        refuses(TableError, refused, read, path, variable=variable)
    assert read(path, variable="t2m", point=[(5, 5)]).members.shape == (48, 50, 1)  # the rest is not read
    monkeypatch.setattr("stakes.files._PACKED_TIMES", 0)
    refuses(TableError, "'t2m' unpacks to", read_series, saved(dataset.isel(number=0), tmp_path / f"b{suffix}"))


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_small_file_whose_coordinates_unpack_to_very_much_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Axes are read when a file is opened, other coordinates with their variable."""
    monkeypatch.setattr("stakes.files._UNPACKED", 200_000)
    shape, axes = (48, 50, 60), ("time", "number", "site")
    dataset = xr.Dataset({"t2m": (axes, np.zeros(shape, np.int8))}, {"time": TIMES})
    assert read(Path(saved(dataset, tmp_path / f"small{suffix}"))).members.shape[:2] == (48, 50)
    coordinates = {"room": ("room", np.zeros(400_000)), "height": (axes, np.zeros(shape))}
    for name, coordinate in coordinates.items():
        large = dataset.assign_coords({name: coordinate})
        for packed in (name, "t2m"):
            large[packed].encoding = {"zlib": True} if suffix == ".nc" else {}
        path = Path(saved(large, tmp_path / f"{name}{suffix}"))
        refuses(TableError, f"'{name}' unpacks to .*, beyond the limit of", read, path)
