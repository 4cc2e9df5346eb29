from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from made_era5 import LATITUDES, LONGITUDES, TIMES, grid, point, saved
from made_era5 import values as era5_values
from numpy.typing import NDArray
from refusals import refuses

from reproduction.series_files import open_series, read_temperature, read_wind
from reproduction.tasks.frost import FrostTask
from reproduction.tasks.wind import WindTask
from stakes.data.tables.files import read_table
from stakes.data.tables.gridded_files import read_series
from stakes.errors import StakesError, TableError

READERS = (read_wind, read_temperature)


def hourly(hours: int = 48, start: str = "2020-01-01") -> NDArray[np.datetime64]:
    return np.datetime64(start, "ns") + np.arange(hours) * np.timedelta64(1, "h")


def series(values: Any, units: str | None = None, axis: str = "time") -> xr.DataArray:
    return xr.DataArray(np.asarray(values, dtype=float), dims=[axis], attrs={} if units is None else {"units": units})


def on_grid(
    values: NDArray[Any], units: str, axis: str, latitudes: list[float], longitudes: list[float], **single: Any
) -> xr.DataArray:
    """Values (T, Y, X) in a layout of the Climate Data Store, with dimensions of length 1 behind the time."""
    shape = (len(values), *(1 for _ in single), *values.shape[1:])
    coords = {**{name: [value] for name, value in single.items()}, "latitude": latitudes, "longitude": longitudes}
    return xr.DataArray(values.reshape(shape), dims=[axis, *coords], coords=coords, attrs={"units": units})


def write(path: Path, times: Any, variables: dict[str, Any], axis: str = "time", **options: Any) -> str:
    xr.Dataset(variables, coords={axis: times}).to_netcdf(path, **{"engine": "h5netcdf", **options})
    return str(path)


def temperatures() -> NDArray[np.float64]:
    """(48, 3, 3) in K, different everywhere."""
    return 270 + np.arange(48 * 9, dtype=float).reshape(48, 3, 3) / 100


@pytest.mark.parametrize("name", ["ws10", "si10", "10si", "W10", "SI10", "ws10_site"])
def test_a_wind_speed_is_found_by_its_name(tmp_path: Path, name: str) -> None:
    record = read_wind(write(tmp_path / "a.nc", hourly(), {name: series(np.arange(48), "m s**-1")}), 6)
    assert (record.columns, record.units) == ((name,), ("m/s",))
    assert record.values[:, 0].tolist() == [0, 6, 12, 18, 24, 30, 36, 42]
    assert record.times.dtype == "datetime64[s]"
    assert record.times[1] == np.datetime64("2020-01-01T06:00")


@pytest.mark.parametrize(
    ("east", "north"), [("u10", "v10"), ("10u", "10v"), ("U10", "V10"), ("u10_berlin", "v10_berlin")]
)
def test_components_make_a_speed(tmp_path: Path, east: str, north: str) -> None:
    variables = {east: series(np.full(48, -3), "m s-1"), north: series(np.full(48, 4), "m/s")}
    record = read_wind(write(tmp_path / "a.nc", hourly(), variables), 6)
    assert record.columns == ("ws10",)
    assert (record.values == 5).all()
    assert f"from {east} and {north}" in record.attribution


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
@pytest.mark.parametrize(
    ("axis", "single"),
    [("time", {}), ("time", {"expver": 1}), ("valid_time", {}), ("valid_time", {"number": 0, "expver": 1})],
)
def test_both_layouts_and_both_formats(tmp_path: Path, axis: str, single: dict[str, int], engine: Any) -> None:
    array = on_grid(temperatures(), "K", axis, LATITUDES, LONGITUDES, **single)
    record = read_temperature(write(tmp_path / "a.nc", hourly(), {"t2m": array}, axis, engine=engine), 6)
    assert record.columns[:3] == ("t2m[0,0]", "t2m[-1,-1]", "t2m[-1,0]")
    assert len(record.columns) == 9
    assert set(record.units) == {"degC"}
    expected = temperatures()[::6] - 273.15
    np.testing.assert_allclose(record.values[:, 0], expected[:, 1, 1])
    np.testing.assert_allclose(record.select("t2m[1,-1]").values[:, 0], expected[:, 2, 0])
    assert "at 52.5 N 13.5 E, the central of 3 x 3 grid points," in record.title


def test_only_the_points_next_to_the_centre_of_a_large_grid(tmp_path: Path) -> None:
    values = np.arange(48 * 35, dtype=float).reshape(48, 5, 7) / 100
    array = on_grid(values, "degC", "time", [float(y) for y in range(5)], [float(x) for x in range(7)])
    record = read_temperature(write(tmp_path / "a.nc", hourly(), {"t2m": array}), 6)
    assert len(record.columns) == 9
    np.testing.assert_array_equal(record.values[:, 0], values[::6, 2, 3])
    np.testing.assert_array_equal(record.select("t2m[1,1]").values[:, 0], values[::6, 3, 4])


@pytest.mark.parametrize(
    ("point", "row", "column", "words"),
    [
        (None, 1, 1, "at 52.5 N 13.5 E, the central of 3 x 3"),
        ((52.3, 13.2), 2, 0, "at 52.25 N 13.25 E, the nearest of 3 x 3"),
        ((52.75, 373.75), 0, 2, "at 52.75 N 13.75 E, the nearest of 3 x 3"),
    ],
)
def test_wind_of_one_grid_point(tmp_path: Path, point: Any, row: int, column: int, words: str) -> None:
    array = on_grid(temperatures(), "m s-1", "time", LATITUDES, LONGITUDES)
    record = read_wind(write(tmp_path / "a.nc", hourly(), {"ws10": array}), 6, point)
    np.testing.assert_array_equal(record.values[:, 0], temperatures()[::6, row, column])
    assert words in record.title


def test_a_point_off_the_grid_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", hourly(), {"ws10": on_grid(temperatures(), "m/s", "time", LATITUDES, LONGITUDES)})
    with pytest.raises(TableError, match=r"point must lie in the grid of .*, got \(48, 13.5\), 4.25 from any latitude"):
        read_wind(path, 6, (48, 13.5))


def test_every_other_time_series_is_an_input_of_the_temperature(tmp_path: Path) -> None:
    variables = {
        "sp": series(np.arange(48), "Pa"),
        "skt": series(np.full(48, 280.15), "K"),
        "t2m_london": series(np.full(48, 283.15), "K"),
        "T2M": series(np.full(48, 275.15), "kelvin"),
        "empty": series(np.full(48, np.nan), "m"),
        "levels": xr.DataArray(np.ones((48, 2)), dims=["time", "level"]),
        "words": xr.DataArray(["a"] * 48, dims=["time"]),
        "height": xr.DataArray(34.0),
    }
    record = read_temperature(write(tmp_path / "a.nc", hourly(), variables), 6)
    assert record.columns == ("T2M", "sp", "skt", "t2m_london")
    assert record.units == ("degC", "Pa", "degC", "degC")
    np.testing.assert_allclose(record.values[3], [2, 18, 7, 10])


@pytest.mark.parametrize("units", ["degC", "°C", "C", "degree_Celsius", "degrees Celsius", None])
def test_degrees_celsius_stay(tmp_path: Path, units: str | None) -> None:
    record = read_temperature(write(tmp_path / "a.nc", hourly(), {"t2m": series(np.full(48, -4), units)}), 6)
    assert (record.values == -4).all()


def test_infinite_and_filled_values_are_missing(tmp_path: Path) -> None:
    speed = np.ones(48)
    speed[6], speed[12] = np.inf, np.nan
    encoding = {"ws10": {"_FillValue": -32767.0}}
    record = read_wind(write(tmp_path / "a.nc", hourly(), {"ws10": series(speed, "m/s")}, encoding=encoding), 6)
    assert np.isnan(record.values[:, 0]).tolist() == [False, True, True, *[False] * 5]


@pytest.mark.parametrize(
    ("times", "first"),
    [
        (hourly(48, "2020-01-01T05:00"), "2020-01-01T06:00"),  # hours that are multiples of 6
        (hourly(48, "2020-01-01T00:30"), "2020-01-01T00:30"),  # means around the half hour
        (hourly(48, "2020-01-01T01:00")[::6], "2020-01-01T01:00"),  # 6-hourly already
        (np.delete(hourly(), [3, 4, 13]), "2020-01-01T00:00"),  # a gap does not move the others
    ],
)
def test_six_hourly_times(tmp_path: Path, times: NDArray[np.datetime64], first: str) -> None:
    record = read_wind(write(tmp_path / "a.nc", times, {"ws10": series(np.ones(len(times)), "m/s")}), 6)
    assert record.times[0] == np.datetime64(first)
    assert set(np.diff(record.times)) == {np.timedelta64(6, "h")}


def test_a_step_that_does_not_divide_the_wanted_one_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", hourly(48)[::4], {"ws10": series(np.ones(12), "m/s")})
    with pytest.raises(TableError, match=r"the step of .*a.nc' must divide 6 h, got 4 h"):
        read_wind(path, 6)


def along(axis: str, size: int) -> xr.DataArray:
    return xr.DataArray(np.ones((48, size)), dims=["time", axis], attrs={"units": "m/s"})


UNUSABLE: list[tuple[Any, dict[str, Any], str]] = [
    (read_wind, {"u10": series(np.ones(48), "m/s")}, "u10"),
    (read_wind, {name: series(np.ones(48), "m/s") for name in ("u10_berlin", "v10_paris")}, "u10_berlin, v10_paris"),
    (read_wind, {"height": xr.DataArray(3.0)}, "none"),
    (read_wind, {"ws10": series(np.ones(48), "K")}, "'ws10'.*'K'"),
    (read_wind, {"ws10": series(np.ones(48))}, "'ws10'"),
    (read_wind, {"ws10": series(np.full(48, np.nan), "m/s")}, "'ws10'"),
    (read_wind, {"ws10": series(np.full(48, -999), "m/s")}, "'ws10'.*-999"),
    (read_wind, {"ws10": along("number", 10)}, "'number'"),
    (read_temperature, {"skt": series(np.ones(48), "K"), "sp": series(np.ones(48), "Pa")}, "skt, sp"),
    (read_temperature, {"t2m": series(np.full(48, 280), "Pa")}, "'t2m'.*'Pa'"),
    (read_temperature, {"t2m": series(np.full(48, 270))}, "'t2m'.*270"),
    (read_temperature, {"t2m": series(np.full(48, 270), "degC")}, "'t2m'.*'degC'"),
    (read_temperature, {"t2m": series(np.full(48, 5), "K")}, "'t2m'.*-268.15"),
    (read_temperature, {"t2m": series(np.full(48, np.nan), "K")}, "'t2m'"),
    (read_temperature, {"t2m": along("level", 2)}, "'level'"),
]


@pytest.mark.parametrize(
    ("read", "variables", "named"), UNUSABLE, ids=[f"{read.__name__}-{named}" for read, _, named in UNUSABLE]
)
def test_a_file_without_wind_or_temperature_is_refused(
    tmp_path: Path, read: Any, variables: dict[str, Any], named: str
) -> None:
    refuses(TableError, named, read, write(tmp_path / "a.nc", hourly(), variables), 6)


@pytest.mark.parametrize("read", READERS)
def test_a_file_without_dates_is_refused(tmp_path: Path, read: Any) -> None:
    xr.Dataset({"t2m": series(np.ones(9), "K", "x")}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(TableError, match=r"has no time axis, expected a variable time or valid_time .*; it holds t2m"):
        read(str(tmp_path / "a.nc"), 6)
    numbered = write(tmp_path / "b.nc", np.arange(9), {"t2m": series(np.ones(9), "K")})
    with pytest.raises(TableError, match="has no time axis"):
        read(numbered, 6)


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_a_file_that_is_cut_short_is_refused_in_one_line(tmp_path: Path, engine: Any) -> None:
    path = tmp_path / "a.nc"
    write(path, hourly(), {"ws10": series(np.ones(48), "m/s")}, engine=engine)
    whole = path.read_bytes()
    for length in np.linspace(4, len(whole) - 1, 30).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(StakesError, match=r"a.nc'[^\n]*$"):
            read_wind(str(path), 6)


@pytest.mark.parametrize("suffix", [".nc", ".zarr", ".csv", ".parquet"])
def test_wind_and_frost_of_every_format(tmp_path: Path, suffix: str) -> None:
    path = saved(point("sp", "t2m", "u10", "v10"), tmp_path / f"a{suffix}")
    made = read_series(saved(point("sp", "t2m", "u10", "v10"), tmp_path / "expected.nc"))
    np.testing.assert_allclose(read_wind(path, 6).values[:, 0], np.hypot(made["u10"], made["v10"])[::6])
    frost = read_temperature(path, 6)
    assert frost.units == ("degC", "Pa", "m s**-1", "m s**-1")
    np.testing.assert_allclose(frost.values[:, 0], made["t2m"][::6])


def test_a_table_of_a_grid_is_read_like_the_grid(tmp_path: Path) -> None:
    path = saved(grid("u10", "v10", "t2m"), tmp_path / "a.nc")
    read_table(Path(path)).to_csv(tmp_path / "a.csv", index=False)
    again = str(tmp_path / "a.csv")
    np.testing.assert_allclose(read_wind(again, 6).values, read_wind(path, 6).values)
    frost, expected = read_temperature(again, 6), read_temperature(path, 6)
    assert frost.columns[0] == expected.columns[0] == "t2m[0,0]"
    np.testing.assert_allclose(frost.select(*expected.columns).values, expected.values)


def test_tables_without_units(tmp_path: Path) -> None:
    text = "valid_time,ws10,t2m\n2020-01-01 06:00,4,-3\n2020-01-01 00:00,3,-2\n2020-01-01 12:00,,1.5\n"
    (tmp_path / "a.csv").write_text(text)
    path = str(tmp_path / "a.csv")
    wind = read_wind(path, 6)
    assert (wind.units, wind.times[0]) == (("m/s",), np.datetime64("2020-01-01"))
    np.testing.assert_array_equal(wind.values[:, 0], [3, 4, np.nan])
    assert read_temperature(path, 6).values[:, 0].tolist() == [-2, -3, 1.5]
    (tmp_path / "a.csv").write_text(text.replace("-3", "270"))
    refuses(TableError, r"has no units attribute, expected 'K' or 'degC'", read_temperature, path, 6)
    (tmp_path / "a.csv").write_text(text.replace("ws10", "ws10 [kn]"))
    refuses(TableError, r"variable 'ws10' of .* must be in m/s, got units 'kn'", read_wind, path, 6)


def test_any_name_for_the_only_column_of_dates(tmp_path: Path) -> None:
    pd.DataFrame({"when": TIMES, "ws10": 3.0}).to_parquet(tmp_path / "a.parquet")
    assert len(read_wind(str(tmp_path / "a.parquet"), 6).times) == 8


TABLES = {
    "no times": "day,ws10\n1,2\n2,3\n",
    "numbers for times": "time,ws10\n1,2\n2,3\n",
    "twice": "time,ws10\n2020-01-01,2\n2020-01-01,3\n",
    "same name": "time,u10 (m/s),u10 [kn]\n2020-01-01,2,1\n2020-01-02,3,4\n",
    "no numbers": "time,wind\n2020-01-01,strong\n2020-01-02,weak\n",
    "no header": "2020-01-01,2\n2020-01-02,3\n",
    "empty": "",
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_tables_that_are_no_series(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    refuses(StakesError, "a.csv|'time'", read_wind, str(tmp_path / "a.csv"), 6)


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
    array = (["valid_time", "latitude", "longitude"], era5_values("t2m", times, LATITUDES, LONGITUDES), {"units": "K"})
    coordinates = {"valid_time": times, "latitude": LATITUDES, "longitude": LONGITUDES}
    saved(xr.Dataset({"t2m": array}, coordinates), tmp_path / "a.nc")
    data = FrostTask(record=str(tmp_path / "a.nc")).data()
    assert len(data.feature_names) == 27
    assert data.outcome_names == ("t2m[0,0]",)
    expected = era5_values("t2m", data.train.times, [52.5], [13.5])[:, 0, 0] - 273.15
    np.testing.assert_allclose(data.train.outcome[:, 0], expected, atol=1e-3)


@pytest.mark.parametrize(("label", "name", "unit"), [
    ("t2m (K)", "t2m", "K"),
    ("t2m [ m s-1 ]", "t2m", "m s-1"),
    ("a (b) [K]", "a (b)", "K"),
    ("t2m[0,1]", "t2m[0,1]", ""),
    ("(K)", "(K)", ""),
    ("t2m ()", "t2m ()", ""),
    (f"t2m({' ' * 100_000},)", f"t2m({' ' * 100_000},)", ""),
])  # fmt: skip
def test_the_unit_in_the_name_of_a_column(tmp_path: Path, label: str, name: str, unit: str) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame({"time": pd.date_range("2020-01-01", periods=2), label: [1.0, 2.0]}).to_parquet(path)
    with open_series(str(path)) as file:
        assert {str(key): array.attrs["units"] for key, array in file.dataset.data_vars.items()} == {name: unit}
