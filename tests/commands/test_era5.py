"""`stakes data era5` on a small store of the same layout, and what the other commands make of its file."""

import json
from pathlib import Path

import numpy as np
import pytest
from calls import called, complaint
from made_era5 import RecordingClient, make_store

from stakes.commands.flags import names
from stakes.data.era5 import cds as era5_cds
from stakes.data.tables import read_table

LATITUDES, LONGITUDES = [57.0, 56.75, 56.5], [4.75, 5.0, 5.25]
POINT = ("--at", "56.7", "5.1", "--years", "2021", "--step", "24")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("store") / "a.zarr"
    return make_store(path, ["u10", "v10"], "2021-01-01", "2022-01-01", LATITUDES, LONGITUDES, chunk=73)


@pytest.fixture(scope="module")
def fetched(store: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of u10, v10 and the speed at one point; read it only."""
    path = str(tmp_path_factory.mktemp("fetched") / "a.nc")
    words = ["--source", "arco", "--store", store, "--variables", "u10,v10", *POINT, "--out", path]
    assert called("data", "era5", *words)[0] == 0
    return path


def test_a_file_from_a_store(store: str) -> None:
    words = ("data", "era5", "--source", "arco", "--store", store, "--variables", "10m_u_component_of_wind,v10", *POINT)
    code, output, errors = called(*words, "--out", "a.nc")
    assert (code, output) == (0, "a.nc\n")
    assert len(errors.splitlines()) == 12
    assert errors.startswith("2021-01, 1 of 12: from the Zarr store")
    assert list(read_table(Path("a.nc")).columns) == ["time", "u10", "v10", "ws10"]
    assert complaint(*words, "--out", "a.nc") == "'a.nc' exists already; --force overwrites it"
    code, output, errors = called(*words, "--patch", "3", "--out", "a.nc", "--force", "--json", "--quiet")
    assert (code, errors) == (0, "")
    found = json.loads(output)
    assert (found["rows"], found["longitudes"], found["missing"]) == (365, LONGITUDES, {"u10": 0, "v10": 0})


def test_a_file_from_the_climate_data_store(monkeypatch: pytest.MonkeyPatch) -> None:
    client = RecordingClient()
    monkeypatch.setattr(era5_cds, "_client", lambda: client)
    code, output, errors = called("data", "era5", "--source", "cds", "--variables", "u10,v10", *POINT, "--out", "a.nc")
    assert (code, output) == (0, "a.nc\n")
    assert errors.startswith("2021, 1 of 1: from the Climate Data Store")
    assert [request["area"] for _, request in client.requests] == [[56.75, 5.0, 56.75, 5.0]]
    speed = read_table(Path("a.nc"))["ws10"]
    assert (len(speed), np.isfinite(speed).all()) == (365, True)


def test_check_cost_reads_the_file(fetched: str) -> None:
    code, _, errors = called(
        "check-cost", fetched, "--target", "ws10", "--cost", "protection:threshold=4,false_alarm_ratio=0.2"
    )
    assert (code, errors) == (0, "")


def test_fit_and_decide_take_the_file(fetched: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stakes.fitting.fit.write_fit_report", lambda *_: None)  # whose figures take longer than this
    columns = ["--target", "ws10", "--features", "ws10", "--time", "time", "--lags", "0,24", "--lead", "24"]
    cost = ["--cost", "protection:threshold=4,false_alarm_ratio=0.2", "--decision-weight", "0.5", "--epochs", "1"]
    here = ["--no-headroom", "--members", "10", "--device", "cpu", "--workers", "1", "--quiet"]
    code, _, errors = called("fit", fetched, *columns, *cost, *here, "--out", "fit")
    assert (code, errors) == (0, "")
    code, output, _ = called("decide", "fit", fetched, "--json")
    rows = json.loads(output)["rows"]
    assert (code, len(rows), rows[-1]["time"]) == (0, 364, "2022-01-01T00:00:00Z")


REFUSED = {
    "variable": ({"--variables": "u11"}, "ERA5 has no variable 'u11' that stakes knows; did you mean 'u10'?"),
    "years": ({"--years": "1900-1950"}, "years must be whole ones from 1940 to "),
    "globe": ({"--at": "95 5"}, "at must be a latitude from -90 to 90 and a longitude from -180 to 360"),
    "pole": ({"--at": "-90 5", "--patch": "3"}, "reaches beyond the pole"),
    "date line": ({"--at": "0 -180", "--patch": "3"}, "lies across the date line"),
    "ending": ({"--out": "a.csv"}, "the output must be a file that ends in .nc"),
    "store": ({"--store": "a.zarr"}, "store belongs to the source arco"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], message: str) -> None:
    monkeypatch.setattr(era5_cds, "_client", RecordingClient)
    asked = {"--source": "cds", "--variables": "u10", "--at": "56.7 5", "--years": "2021", "--out": "a.nc", **changes}
    before = sorted(Path.cwd().iterdir())
    assert message in complaint(
        "data", "era5", *(word for name, text in asked.items() for word in (name, *text.split()))
    )
    assert sorted(Path.cwd().iterdir()) == before


def test_a_column_of_a_grid_is_one_name() -> None:
    assert names("t2m[0,0], t2m[-1,0],sp") == ("t2m[0,0]", "t2m[-1,0]", "sp")
    assert names("a,,b ]c, d") == ("a", "b ]c", "d")
