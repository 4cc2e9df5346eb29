"""Files of series that users already have: NetCDF, Zarr stores, CSV and parquet."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from forecast_files import read
from made_era5 import values
from refusals import refuses

from reproduction.series_files import read_temperature, read_wind
from reproduction.tasks.frost import FrostTask
from reproduction.tasks.wind import WindTask
from stakes.data.tables.files import read_table
from stakes.data.tables.gridded_files import open_dataset, read_series
from stakes.errors import NetCDFError, StakesError, TableError

REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "reference"
TIMES = np.datetime64("2020-01-01", "ns") + np.arange(48) * np.timedelta64(1, "h")
LATITUDES, LONGITUDES = [52.75, 52.5, 52.25], [13.25, 13.5, 13.75]
UNITS = {"u10": "m s**-1", "v10": "m s**-1", "t2m": "K", "sp": "Pa"}


def reference(name: str) -> str:
    if not (REFERENCE / name).is_file():
        pytest.skip("the reference files are not here")
    return str(REFERENCE / name)


def grid(*names: str) -> xr.Dataset:
    """Hourly, 3 x 3 points, every value different."""
    axes = ["time", "latitude", "longitude"]
    arrays = {name: (axes, values(name, TIMES, LATITUDES, LONGITUDES), {"units": UNITS[name]}) for name in names}
    return xr.Dataset(arrays, {"time": TIMES, "latitude": LATITUDES, "longitude": LONGITUDES})


def point(*names: str) -> xr.Dataset:
    return grid(*names).isel(latitude=1, longitude=1, drop=True)


def saved(dataset: xr.Dataset, path: Path) -> str:
    if path.suffix == ".zarr":
        dataset.to_zarr(path, consolidated=False)
    elif path.suffix == ".nc":
        dataset.to_netcdf(path, engine="h5netcdf")
    else:
        table = dataset.to_dataframe().reset_index()
        table = table.rename(columns={name: f"{name} ({unit})" for name, unit in UNITS.items()})
        table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("suffix", [".nc", ".zarr", ".csv", ".parquet"])
def test_every_format_gives_the_same(tmp_path: Path, suffix: str) -> None:
    path = saved(point("sp", "t2m", "u10", "v10"), tmp_path / f"a{suffix}")
    series = read_series(path)
    assert list(series.columns) == ["time", "sp", "t2m", "u10", "v10", "ws10"]
    np.testing.assert_array_equal(series["time"].to_numpy("datetime64[s]"), TIMES.astype("datetime64[s]"))
    np.testing.assert_allclose(series["t2m"], values("t2m", TIMES, [52.5], [13.5])[:, 0, 0] - 273.15)
    speed = np.hypot(series["u10"], series["v10"])
    np.testing.assert_allclose(series["ws10"], speed)
    np.testing.assert_allclose(read_wind(path, 6).values[:, 0], speed[::6])
    frost = read_temperature(path, 6)
    assert frost.units == ("degC", "Pa", "m s**-1", "m s**-1")
    np.testing.assert_allclose(frost.values[:, 0], series["t2m"][::6])


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_grid_becomes_columns(tmp_path: Path, suffix: str) -> None:
    path = saved(grid("t2m", "u10", "v10"), tmp_path / f"a{suffix}")
    series = read_series(path)
    assert len(series.columns) == 37
    assert list(series.columns[:4]) == ["time", "t2m[0,0]", "t2m[-1,-1]", "t2m[-1,0]"]
    assert "ws10[1,-1]" in series.columns
    pd.testing.assert_frame_equal(read_table(Path(path)), series)


def test_a_table_of_a_grid_is_read_like_the_grid(tmp_path: Path) -> None:
    path = saved(grid("u10", "v10", "t2m"), tmp_path / "a.nc")
    read_table(Path(path)).to_csv(tmp_path / "a.csv", index=False)
    again = str(tmp_path / "a.csv")
    np.testing.assert_allclose(read_wind(again, 6).values, read_wind(path, 6).values)
    frost, expected = read_temperature(again, 6), read_temperature(path, 6)
    assert frost.columns[0] == expected.columns[0] == "t2m[0,0]"
    np.testing.assert_allclose(frost.select(*expected.columns).values, expected.values)


def test_names_of_places_are_kept_with_the_speed(tmp_path: Path) -> None:
    dataset = point("u10", "v10", "t2m").rename(u10="u10_berlin", v10="v10_berlin").assign(u100=point("u10")["u10"])
    assert list(read_series(saved(dataset, tmp_path / "a.nc")).columns) == (
        ["time", "u10_berlin", "v10_berlin", "t2m", "u100", "ws10_berlin"]
    )


def test_a_speed_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    dataset = point("u10", "v10").assign(si10=point("u10")["u10"])
    assert list(read_series(saved(dataset, tmp_path / "a.nc")).columns) == ["time", "u10", "v10", "si10"]


@pytest.mark.parametrize("read", [lambda path: read_temperature(path, 1).values, read_series])
def test_preliminary_values_stand_in_for_final_ones(tmp_path: Path, read: Any) -> None:
    """The old layout of the Climate Data Store has both, one where the other is missing."""
    final = xr.DataArray(np.arange(48) < 30, dims=["time"])
    whole = grid("t2m")
    versions = xr.concat([whole.where(final), whole.where(~final)], pd.Index([1, 5], name="expver"))
    turned = versions.transpose("time", "expver", "latitude", "longitude")
    joined, expected = read(saved(turned, tmp_path / "a.nc")), read(saved(whole, tmp_path / "b.nc"))
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


def test_tables_without_units(tmp_path: Path) -> None:
    text = "valid_time,ws10,t2m\n2020-01-01 06:00,4,-3\n2020-01-01 00:00,3,-2\n2020-01-01 12:00,,1.5\n"
    (tmp_path / "a.csv").write_text(text)
    path = str(tmp_path / "a.csv")
    wind = read_wind(path, 6)
    assert (wind.units, wind.times[0]) == (("m/s",), np.datetime64("2020-01-01"))
    np.testing.assert_array_equal(wind.values[:, 0], [3, 4, np.nan])
    assert read_temperature(path, 6).values[:, 0].tolist() == [-2, -3, 1.5]
    (tmp_path / "a.csv").write_text(text.replace("-3", "270"))
    refuses(NetCDFError, r"has no units attribute, expected 'K' or 'degC'", read_temperature, path, 6)
    (tmp_path / "a.csv").write_text(text.replace("ws10", "ws10 [kn]"))
    refuses(NetCDFError, r"variable 'ws10' of .* must be in m/s, got units 'kn'", read_wind, path, 6)


def test_any_name_for_the_only_column_of_dates(tmp_path: Path) -> None:
    pd.DataFrame({"when": TIMES, "ws10": 3.0}).to_parquet(tmp_path / "a.parquet")
    assert len(read_wind(str(tmp_path / "a.parquet"), 6).times) == 8


TABLES = {
    "no times": ("day,ws10\n1,2\n2,3\n", "has no column of times, expected one that is called time, .* it has"),
    "numbers for times": ("time,ws10\n1,2\n2,3\n", "column 'time' must hold ISO times"),
    "twice": ("time,ws10\n2020-01-01,2\n2020-01-01,3\n", "must have each time once"),
    "same name": ("time,u10 (m/s),u10 [kn]\n2020-01-01,2,1\n2020-01-02,3,4\n", "whose names differ in their unit"),
    "no numbers": ("time,wind\n2020-01-01,strong\n2020-01-02,weak\n", "lacks the 10 m wind speed .* are none"),
    "no header": ("2020-01-01,2\n2020-01-02,3\n", "has no header"),
    "empty": ("", "is empty"),
}


@pytest.mark.parametrize(("text", "message"), TABLES.values(), ids=TABLES)
def test_tables_that_are_no_series(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    refuses(StakesError, message, read_wind, str(tmp_path / "a.csv"), 6)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    refuses(NetCDFError, "is a folder, expected a NetCDF file or a Zarr store", read_series, str(tmp_path / "a.zarr"))
    (tmp_path / "a.zarr" / "zarr.json").write_text("{")
    refuses(NetCDFError, r"a.zarr' cannot be read as Zarr: [^\n]+$", read_series, str(tmp_path / "a.zarr"))
    for name in ("absent.nc", "absent.zarr", f"{'x' * 5000}.nc"):
        refuses(NetCDFError, r"there is no file|cannot be read", read_series, name)
        refuses(TableError, r"there is no file|cannot be read", read_table, Path(name))
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(40))
    refuses(TableError, "is no parquet file", read_series, str(tmp_path / "a.parquet"))


def test_a_damaged_store_is_refused_in_one_line(tmp_path: Path) -> None:
    path = Path(saved(grid("t2m"), tmp_path / "a.zarr"))
    chunk = next((path / "t2m" / "c").rglob("0"))
    chunk = chunk if chunk.is_file() else next(file for file in chunk.rglob("*") if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[:20])
    refuses(NetCDFError, r"variable 't2m' of '.*a.zarr' cannot be read: [^\n]+$", read_series, str(path))


def test_a_file_without_series(tmp_path: Path) -> None:
    with pytest.raises(NetCDFError, match="lacks a time series with values along time, latitude and longitude"):
        read_series(saved(grid("t2m").expand_dims(level=2), tmp_path / "a.nc"))
    with pytest.raises(TableError, match="has a variable 'time' besides its times"):
        read_table(Path(saved(point("t2m").rename(time="valid_time").rename(t2m="time"), tmp_path / "b.nc")))


def test_zarr_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(point("t2m"), tmp_path / "a.zarr")
    monkeypatch.setitem(sys.modules, "zarr", None)
    refuses(NetCDFError, r'can only be read with zarr; pip install "stakes\[zarr\]"', read_series, path)


@pytest.mark.parametrize("suffix", [".zarr", ".csv", ".parquet"])
def test_the_tasks_take_every_format(tmp_path: Path, suffix: str) -> None:
    times = np.arange("2010", "2015", np.timedelta64(6, "h"), dtype="datetime64[h]").astype("datetime64[ns]")
    wave = np.sin(np.arange(len(times)) / 1461 * 2 * np.pi) + np.sin(np.arange(len(times)) / 4)
    dataset = xr.Dataset(
        {"u10": ("time", 5 + wave, {"units": "m/s"}), "v10": ("time", 5 - wave, {"units": "m/s"})}, {"time": times}
    ).assign(t2m=("time", 275 + 8 * wave, {"units": "K"}))
    path = saved(dataset, tmp_path / f"a{suffix}")
    assert WindTask(record=path).data().outcome_names == ("ws10",)
    assert FrostTask(record=path).data().outcome_names == ("t2m",)


def test_frost_takes_a_patch_as_the_paper_has_it(tmp_path: Path) -> None:
    """3 x 3 points at three times: 27 inputs; the target is the point in the middle."""
    times = np.arange("2010", "2015", np.timedelta64(6, "h"), dtype="datetime64[h]").astype("datetime64[ns]")
    array = (["valid_time", "latitude", "longitude"], values("t2m", times, LATITUDES, LONGITUDES), {"units": "K"})
    coordinates = {"valid_time": times, "latitude": LATITUDES, "longitude": LONGITUDES}
    saved(xr.Dataset({"t2m": array}, coordinates), tmp_path / "a.nc")
    data = FrostTask(record=str(tmp_path / "a.nc")).data()
    assert len(data.feature_names) == 27
    assert data.outcome_names == ("t2m[0,0]",)
    expected = values("t2m", data.train.times, [52.5], [13.5])[:, 0, 0] - 273.15
    np.testing.assert_allclose(data.train.outcome[:, 0], expected, atol=1e-3)


@pytest.mark.parametrize("name", ["a.nc", "a.grib2"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(NetCDFError, match="must be a regular file"), open_dataset(str(tmp_path / name)):
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
        refuses(NetCDFError, refused, read, path, variable=variable)
    assert read(path, variable="t2m", point=[(5, 5)]).members.shape == (48, 50, 1)  # the rest is not read
    monkeypatch.setattr("stakes.files._PACKED_TIMES", 0)
    refuses(NetCDFError, "'t2m' unpacks to", read_series, saved(dataset.isel(number=0), tmp_path / f"b{suffix}"))


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
        refuses(NetCDFError, f"'{name}' unpacks to .*, beyond the limit of", read, path)
