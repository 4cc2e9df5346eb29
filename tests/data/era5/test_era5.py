"""ERA5 from the Climate Data Store and from a Zarr store, neither reached: what is asked, and what becomes of it."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from made_era5 import Layout, RecordingClient, downloaded, make_store, values

from stakes.data.era5.arco import ArcoStore
from stakes.data.era5.cds import ClimateDataStore, cds_request
from stakes.data.era5.fetch import Fetched, fetch_era5, find_source
from stakes.data.era5.request import UNITS, VARIABLES, Era5Request, Piece, variable_names, years_of
from stakes.data.era5.standard_form import ERA5_ATTRIBUTION
from stakes.data.record_files import read_series, read_temperature, read_wind
from stakes.errors import Era5Error, SettingError, StakesError

BERLIN = Era5Request(("t2m",), (52.52, 13.4), (2019, 2021), patch=3, step=24)
YEAR = ("2021-01-01", "2022-01-01")
ONE_YEAR = Era5Request(("t2m",), (52.52, 13.4), (2021, 2021), patch=3, step=24)
AROUND_BERLIN = ([52.75, 52.5, 52.25], [13.25, 13.5, 13.75])


def fetched(client: RecordingClient, out: Path, request: Era5Request = BERLIN) -> Fetched:
    return fetch_era5(request, ClimateDataStore(client), out)


def content(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        return dataset.load()


def test_the_exact_request_of_a_year(tmp_path: Path) -> None:
    client = RecordingClient()
    fetched(client, tmp_path / "a.nc", Era5Request(("u10", "v10"), (56.75, 5.0), (2020, 2020), step=6))
    assert client.requests == [
        (
            "reanalysis-era5-single-levels",
            {
                "product_type": ["reanalysis"],
                "variable": ["10m_u_component_of_wind", "10m_v_component_of_wind"],
                "year": ["2020"],
                "month": ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12"],
                "day": [f"{day:02d}" for day in range(1, 32)],
                "time": ["00:00", "06:00", "12:00", "18:00"],
                "area": [56.75, 5.0, 56.75, 5.0],
                "data_format": "netcdf",
                "download_format": "unarchived",
            },
        )
    ]


def test_many_fields_are_asked_for_by_the_month() -> None:
    request = Era5Request(("t2m",), (52.5, 13.5), (2020, 2021))
    pieces = list(request.pieces(ClimateDataStore.most_fields))
    assert len(pieces) == 24
    assert (pieces[1].name, cds_request(request, pieces[1])["month"]) == ("2020-02", ["02"])
    assert len(request.times(pieces[1])) == 29 * 24
    assert [piece.name for piece in BERLIN.pieces(ClimateDataStore.most_fields)] == ["2019", "2020", "2021"]


def test_the_area_encloses_the_patch() -> None:
    assert cds_request(BERLIN, Piece(2020, (1,)))["area"] == [52.75, 13.25, 52.25, 13.75]


@pytest.mark.parametrize(
    ("at", "latitude", "longitude"),
    [((58.1, -1.4), 58.0, -1.5), ((58, 358.5), 58.0, -1.5), ((0, 180), 0.0, -180.0), ((-89.95, 359.99), -90.0, 0.0)],
)
def test_the_nearest_point_of_the_grid(at: Any, latitude: float, longitude: float) -> None:
    request = Era5Request(("t2m",), at, (2020, 2020))
    assert (request.latitudes, request.longitudes) == ((latitude,), (longitude,))


def test_names_and_years_as_they_are_written() -> None:
    assert variable_names("10m_u_component_of_wind, v10,2m_temperature") == ("u10", "v10", "t2m")
    assert variable_names("u10,v10,t2m,sp,d2m,skt") == ("u10", "v10", "t2m", "sp", "d2m", "skt")
    assert (years_of("2005-2021"), years_of(" 2021 ")) == ((2005, 2021), (2021, 2021))
    assert UNITS.keys() == VARIABLES.keys()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown variable": ({"variables": ("2m_temprature",)}, "no variable '2m_temprature' .* mean '2m_temperature'"),
    "no variable": ({"variables": ()}, "variables must name at least one"),
    "twice": ({"variables": ("t2m", "t2m")}, "variables must differ from each other, got 't2m' twice"),
    "off the globe": ({"at": (95.0, 5.0)}, "at must be a latitude .* got 95 5"),
    "no number": ({"at": (float("nan"), 5.0)}, "at must be a latitude .* got nan 5"),
    "too far east": ({"at": (5.0, 361.0)}, "at must be a latitude .* got 5 361"),
    "too early": ({"years": (1939, 2000)}, "years must be whole ones from 1940 to .*, got 1939-2000"),
    "not over yet": ({"years": (2000, 2999)}, "years must be whole ones .* got 2000-2999"),
    "turned round": ({"years": (2001, 2000)}, "years must be whole ones .*, the earlier first, got 2001-2000"),
    "even patch": ({"patch": 2}, "patch must be an odd number of points from 1 to 41, got 2"),
    "large patch": ({"patch": 43}, "patch must be an odd number"),
    "step": ({"step": 5}, "step must be a number of hours that divides 24, got 5"),
    "at the pole": ({"at": (89.9, 5.0), "patch": 3}, "the patch of 3 x 3 points around latitude 90 reaches beyond the"),
    "at the other": ({"at": (-89.75, 5.0), "patch": 5}, "around latitude -89.75 reaches beyond the pole"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    settings = {"variables": ("t2m",), "at": (52.5, 13.5), "years": (2020, 2020), **changes}
    with pytest.raises(SettingError, match=message):
        Era5Request(**settings)


@pytest.mark.parametrize("text", ["", "20", "2005:2021", "2005-", "all"])
def test_years_that_are_none(text: str) -> None:
    with pytest.raises(SettingError, match=r"years must be such as 2005-2021 or 2021, got "):
        years_of(text)


def test_the_store_cannot_reach_across_the_date_line(tmp_path: Path) -> None:
    request = Era5Request(("t2m",), (0, 180), (2020, 2020), patch=3, step=24)
    with pytest.raises(SettingError, match=r"lies across the date line, longitude 180, .* or --source arco"):
        fetched(RecordingClient(), tmp_path / "a.nc", request)
    assert list(tmp_path.iterdir()) == []


# What comes back


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("layout", ["new", "old", "versions"])
def test_every_layout_of_the_store_becomes_one(tmp_path: Path, layout: Layout, zipped: bool) -> None:
    request = Era5Request(("t2m", "u10"), (52.52, 13.4), (2019, 2020), patch=3, step=24)
    download = fetched(RecordingClient(layout, zipped), tmp_path / "a.nc", request)
    dataset = content(tmp_path / "a.nc")
    assert {name: array.dims for name, array in dataset.data_vars.items()} == dict.fromkeys(
        ["t2m", "u10"], ("valid_time", "latitude", "longitude")
    )
    times = np.arange("2019", "2021", dtype="datetime64[D]")
    np.testing.assert_array_equal(dataset["valid_time"].to_numpy(), times)
    assert (dataset["latitude"].to_numpy().tolist(), dataset["longitude"].to_numpy().tolist()) == AROUND_BERLIN
    for name in request.variables:
        np.testing.assert_allclose(dataset[name], values(name, times, *AROUND_BERLIN), rtol=1e-6)
    assert (dataset["t2m"].attrs["units"], dataset["u10"].attrs["units"]) == ("K", "m s**-1")
    assert dataset.attrs["attribution"] == ERA5_ATTRIBUTION
    assert download.record() == {
        "out": str(tmp_path / "a.nc"),
        "variables": ["t2m", "u10"],
        "latitudes": [52.75, 52.5, 52.25],
        "longitudes": [13.25, 13.5, 13.75],
        "rows": 731,
        "first": "2019-01-01T00:00:00",
        "last": "2020-12-31T00:00:00",
        "step_hours": 24,
        "missing": {"t2m": 0, "u10": 0},
    }
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_the_file_is_read_by_the_tasks(tmp_path: Path) -> None:
    request = Era5Request(("u10", "v10", "t2m"), (52.5, 13.5), (2019, 2020), patch=3, step=6)
    fetched(RecordingClient(), tmp_path / "a.nc", request)
    wind, frost = read_wind(str(tmp_path / "a.nc"), 6), read_temperature(str(tmp_path / "a.nc"), 6)
    assert wind.values.shape == (731 * 4, 1)
    assert frost.columns[0] == "t2m[0,0]"
    assert len(frost.columns) == 27
    times = np.arange("2019", "2021", np.timedelta64(6, "h"), dtype="datetime64[h]")
    expected = np.hypot(*(values(name, times, [52.5], [13.5])[:, 0, 0] for name in ("u10", "v10")))
    np.testing.assert_allclose(wind.values[:, 0], expected, rtol=1e-5)
    assert "Contains modified Copernicus Climate Change Service information" in wind.attribution


def test_missing_values_stay_missing_and_are_told(tmp_path: Path) -> None:
    class OverSea(RecordingClient):
        def retrieve(self, name: str, request: dict[str, Any], target: str) -> None:
            dataset = downloaded(request, ["t2m", "stl1"], "new")
            dataset["stl1"][:, 0] = np.nan
            dataset.to_netcdf(target, engine="h5netcdf")

    download = fetched(OverSea(), tmp_path / "a.nc", Era5Request(("t2m", "stl1"), (52.5, 13.5), (2021, 2021), 3, 24))
    assert download.missing == {"t2m": 0, "stl1": 365 * 3}
    assert download.notes == ("stl1: 1095 of 3285 values are missing",)
    assert "stl1[-1,0]" not in read_series(str(tmp_path / "a.nc")).columns


class Sends(RecordingClient):
    """Sends the same bytes, or a changed data set, whatever is asked."""

    def __init__(self, sent: Any) -> None:
        super().__init__()
        self.sent = sent

    def retrieve(self, name: str, request: dict[str, Any], target: str) -> None:
        if isinstance(self.sent, bytes):
            Path(target).write_bytes(self.sent)
        else:
            self.sent(downloaded(request, ["t2m"], "new")).to_netcdf(target, engine="h5netcdf")


WRONG: dict[str, tuple[Any, str]] = {
    "empty": (b"", "is empty, expected a NetCDF file"),
    "GRIB": (b"GRIB" + bytes(50), "is no NetCDF file"),
    "cut": (b"\x89HDF\r\n\x1a\n" + bytes(100), "cannot be read as NetCDF"),
    "ZIP of nothing": (b"PK\x05\x06" + bytes(18), "is a ZIP file without NetCDF"),
    "short": (
        lambda data: data.isel(valid_time=slice(100)),
        "has 100 of 365 wanted times; 2019-04-11T00:00:00 is absent",
    ),
    "no times": (lambda data: data.isel(valid_time=slice(0)), "has 0 of 365 wanted times; 2019-01-01"),
    "another": (lambda data: data.rename(t2m="d2m"), r"lacks the variable t2m \(2m_temperature\); it holds d2m"),
    "elsewhere": (lambda data: data.assign_coords(latitude=data.latitude + 1), "lacks the latitude 52.25"),
    "no grid": (lambda data: data.isel(longitude=0), "must run along time, latitude and longitude, lacks longitude"),
    "numbers": (lambda data: data.assign_coords(valid_time=np.arange(365)), "times of .* must be dates, got int64"),
    "members": (lambda data: data.drop_vars("number").expand_dims(number=3), "t2m of .* has 3 entries along 'number'"),
}


@pytest.mark.parametrize(("sent", "message"), WRONG.values(), ids=WRONG)
def test_something_else_than_was_asked_for(tmp_path: Path, sent: Any, message: str) -> None:
    with pytest.raises(StakesError, match=message) as caught:
        fetched(Sends(sent), tmp_path / "a.nc")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a.nc").exists()
    assert {path.name for path in (tmp_path / "a.nc.parts").iterdir()} == {".lock", "request.json"}


def test_a_damaged_zip_file(tmp_path: Path) -> None:
    client = RecordingClient(zipped=True)
    client.retrieve("", cds_request(BERLIN, Piece(2019, (1,))), str(tmp_path / "whole.zip"))
    whole = bytearray((tmp_path / "whole.zip").read_bytes())
    whole[200] ^= 0xFF
    with pytest.raises(StakesError, match=r"is a damaged ZIP file|cannot be read"):
        fetched(Sends(bytes(whole)), tmp_path / "a.nc")


# Faults, and going on


FAULTS = {
    "403 Client Error: Forbidden\nrequired licences not accepted": r"licence .* not accepted yet: log in at .*download",
    "401 Client Error: Unauthorized for url": "refuses the key in .cdsapirc",
    "403 Client Error\ncost limits exceeded\nYour request is too large": "calls the request too large; ask for fewer",
    "HTTPSConnectionPool: Max retries exceeded, failed to resolve": "cannot be reached; the pieces .* are kept",
    "ProxyError: 407 Proxy Authentication Required": "cannot be reached",
    "something new\nin two lines": "did not answer the request: RuntimeError: something new in two lines; the pieces",
}


@pytest.mark.parametrize(("said", "message"), FAULTS.items())
def test_what_the_store_says_becomes_one_line(tmp_path: Path, said: str, message: str) -> None:
    client = RecordingClient()
    client.faults[1] = RuntimeError(said)
    with pytest.raises(Era5Error, match=message) as caught:
        fetched(client, tmp_path / "a.nc")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fault", [RuntimeError("connection lost"), KeyboardInterrupt()])
def test_a_second_call_goes_on(tmp_path: Path, fault: BaseException) -> None:
    client = RecordingClient()
    client.faults[3] = fault
    with pytest.raises((Era5Error, KeyboardInterrupt)):
        fetched(client, tmp_path / "a.nc")
    assert not (tmp_path / "a.nc").exists()
    said: list[str] = []
    fetch_era5(BERLIN, ClimateDataStore(client), tmp_path / "a.nc", said.append)
    assert [request["year"] for _, request in client.requests] == [["2019"], ["2020"], ["2021"], ["2021"]]
    assert said[:2] == ["2019, 1 of 3: is there already", "2020, 2 of 3: is there already"]
    assert said[2].startswith("2021, 3 of 3: from the Climate Data Store")
    fetched(RecordingClient(), tmp_path / "b.nc")
    assert content(tmp_path / "a.nc").identical(content(tmp_path / "b.nc"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.nc", "b.nc"]


def test_a_damaged_piece_is_fetched_again(tmp_path: Path) -> None:
    client = RecordingClient()
    client.faults[3] = RuntimeError("connection lost")
    with pytest.raises(Era5Error):
        fetched(client, tmp_path / "a.nc")
    piece = tmp_path / "a.nc.parts" / "2019.nc"
    piece.write_bytes(piece.read_bytes()[:-100])
    assert fetched(client, tmp_path / "a.nc").rows == 1096
    assert [request["year"] for _, request in client.requests[3:]] == [["2019"], ["2021"]]


def test_pieces_of_another_request_are_not_mixed_in(tmp_path: Path) -> None:
    client = RecordingClient()
    client.faults[2] = RuntimeError("connection lost")
    with pytest.raises(Era5Error):
        fetched(client, tmp_path / "a.nc")
    other = Era5Request(("d2m",), (52.52, 13.4), (2019, 2021), patch=3, step=24)
    with pytest.raises(SettingError, match=r"a.nc.parts holds pieces of another request; delete it, or choose"):
        fetched(client, tmp_path / "a.nc", other)
    (tmp_path / "a.nc.parts" / "request.json").write_text("{}")
    with pytest.raises(SettingError, match=r"a.nc.parts holds pieces of an unknown request; delete it, or choose"):
        fetched(client, tmp_path / "a.nc")


def test_a_request_of_which_nothing_came_does_not_stand_in_the_way(tmp_path: Path) -> None:
    client = RecordingClient()
    client.faults[1] = RuntimeError("connection lost")
    with pytest.raises(Era5Error):
        fetched(client, tmp_path / "a.nc")
    other = Era5Request(("d2m",), (52.52, 13.4), (2021, 2021), step=24)
    assert fetched(client, tmp_path / "a.nc", other).rows == 365


def test_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cdsapi")
    for name in ("CDSAPI_URL", "CDSAPI_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CDSAPI_RC", str(tmp_path / "absent"))
    with pytest.raises(
        Era5Error, match=r"needs your key: register at .*, and copy the two lines url and key .* \.cdsapirc"
    ):
        fetch_era5(BERLIN, find_source("cds"), tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("absent", "source", "store"),
    [("cdsapi", "cds", None), ("zarr", "arco", "a.zarr"), ("zarr", "arco", None), ("gcsfs", "arco", None)],
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str, source: str, store: str | None
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(SettingError, match=rf'{absent}; pip install "stakes\[era5\]"$'):
        fetch_era5(BERLIN, find_source(source, store), tmp_path / "a.nc")


def test_sources_that_are_none() -> None:
    with pytest.raises(SettingError, match="source must be cds or arco, got 'mars'"):
        find_source("mars")
    with pytest.raises(SettingError, match="store belongs to the source arco"):
        find_source("cds", "a.zarr")


# The Zarr store


@pytest.fixture(scope="module")
def globe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All longitudes of the three rows around the equator."""
    path = tmp_path_factory.mktemp("globe") / "a.zarr"
    return make_store(path, ["t2m"], *YEAR, [0.25, 0, -0.25], np.arange(0, 360, 0.25).tolist(), chunk=73)


@pytest.mark.parametrize("options", [{}, {"zarr_format": 2, "consolidated": True}], ids=str)
def test_a_patch_from_a_zarr_store(tmp_path: Path, options: dict[str, Any]) -> None:
    latitudes, longitudes = np.arange(53.5, 51.5, -0.25).tolist(), np.arange(12.5, 14.75, 0.25).tolist()
    store = make_store(tmp_path / "a.zarr", ["t2m"], *YEAR, latitudes, longitudes, **options)
    said: list[str] = []
    fetch_era5(ONE_YEAR, ArcoStore(store), tmp_path / "a.nc", said.append)
    assert len(said) == 12  # a month each
    dataset = content(tmp_path / "a.nc")
    times = np.arange(*YEAR, dtype="datetime64[D]")
    np.testing.assert_allclose(dataset["t2m"], values("t2m", times, *AROUND_BERLIN), rtol=1e-6)
    assert dataset["t2m"].attrs == {"units": "K", "long_name": "t2m"}
    fetched(RecordingClient(), tmp_path / "b.nc", ONE_YEAR)
    np.testing.assert_allclose(dataset["t2m"], content(tmp_path / "b.nc")["t2m"])


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((0.1, 358.5), [-1.75, -1.5, -1.25]),
        ((0, 0), [-0.25, 0.0, 0.25]),  # across the edge of the store
        ((0, 180), [-180.25, -180.0, -179.75]),  # across the date line
    ],
)
def test_longitudes_all_round_the_globe(
    globe: str, tmp_path: Path, at: tuple[float, float], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArcoStore, "most_fields", 366)  # the year in one piece
    fetch_era5(Era5Request(("t2m",), at, (2021, 2021), 3, 24), ArcoStore(globe), tmp_path / "a.nc")
    dataset = content(tmp_path / "a.nc")
    assert dataset["longitude"].to_numpy().tolist() == expected
    times = np.arange(*YEAR, dtype="datetime64[D]")
    np.testing.assert_allclose(dataset["t2m"], values("t2m", times, [0.25, 0, -0.25], expected), rtol=1e-6)


def test_years_that_the_store_has_not_yet(tmp_path: Path) -> None:
    """The axis of the public store goes on for decades, without values."""
    store = make_store(tmp_path / "a.zarr", ["t2m"], *YEAR, *AROUND_BERLIN, stop="2021-06-30", chunk=73)
    with pytest.raises(SettingError, match=r"has values up to 2021-06-30, got the years 2021-2021"):
        fetch_era5(ONE_YEAR, ArcoStore(store), tmp_path / "a.nc")
    with pytest.raises(SettingError, match=r"has values from 2021-01-01, got the years 2020-2020"):
        fetch_era5(Era5Request(("t2m",), (52.5, 13.5), (2020, 2020), 3, 24), ArcoStore(store), tmp_path / "a.nc")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_a_store_without_what_is_wanted(tmp_path: Path) -> None:
    store = make_store(tmp_path / "a.zarr", ["d2m"], *YEAR, *AROUND_BERLIN, chunk=73)
    with pytest.raises(SettingError, match=r"has no variable '2m_temperature'; did you mean '2m_dewpoint_temperature'"):
        fetch_era5(ONE_YEAR, ArcoStore(store), tmp_path / "a.nc")
    daily = Era5Request(("d2m",), (52.5, 13.5), (2021, 2021), step=6)
    with pytest.raises(Era5Error, match=r"has 31 of 124 wanted times; 2021-01-01T06:00:00 is absent"):
        fetch_era5(daily, ArcoStore(store), tmp_path / "a.nc")


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"there is no Zarr store .*absent.zarr', expected a folder or an address"):
        fetch_era5(BERLIN, ArcoStore(str(tmp_path / "absent.zarr")), tmp_path / "a.nc")
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(Era5Error, match=r"the Zarr store .*empty.zarr cannot be opened: [^\n]*$"):
        fetch_era5(BERLIN, ArcoStore(str(tmp_path / "empty.zarr")), tmp_path / "a.nc")
    store = make_store(tmp_path / "a.zarr", ["t2m"], *YEAR, *AROUND_BERLIN, chunk=73)
    chunk = tmp_path / "a.zarr" / "2m_temperature" / "c" / "1" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-5])
    with pytest.raises(Era5Error, match=r"variable t2m of the Zarr store .* cannot be read: [^\n]*$"):
        fetch_era5(ONE_YEAR, ArcoStore(store), tmp_path / "b.nc")
