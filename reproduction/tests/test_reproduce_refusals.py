"""What cannot be reproduced is refused in one line, before anything is written."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from reproduction_calls import complaint
from tiny_reproduction import tiny_studies

from stakes.files import locked


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


WRONG_WORDS = [
    ("wnid", "'wind'"),
    ("wind --model difusion", "'diffusion'"),
    ("synthetic --model implicit", "implicit"),
    ("--figure windpower_setpu", "'windpower_setup'"),
    ("frost --figure windpower_setup", "windpower_setup"),
    ("wind --model implicit --figure windpower_cutoff_diffusion", "windpower_cutoff_diffusion"),
    ("wind --record wind_nora11", "'wind_nora10'"),
    ("wind --record frost_era5", "task.record"),
    ("wind --record nowhere.nc", "'nowhere.nc'"),
    *((f"{subject} --record wind_nora10", "--record") for subject in ("synthetic", "portfolio", "")),
    ("wind --quik", "--quik"),
]


@pytest.mark.parametrize(("words", "message"), WRONG_WORDS, ids=lambda words: str(words)[:60])
def test_what_is_not_there_is_refused(words: str, message: str) -> None:
    Path("old").mkdir()
    Path("old/results.json").write_text("mine")
    for out in ("new", "old"):
        assert message in complaint(*words.split(), "--out", out)
    assert not Path("new").exists()
    assert [(file.name, file.read_text()) for file in Path("old").iterdir()] == [("results.json", "mine")]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    assert "CUDA" in complaint("wind", "--device", "cuda", "--out", "x")
    assert not Path("x").exists()


def write(path: str, name: str, unit: str, years: int, missing: slice | None = None) -> str:
    """A NetCDF file of one variable, 6-hourly from 2000 on, NaN in `missing`."""
    times = np.arange("2000-01-01", f"{2000 + years}-01-01", 6, dtype="datetime64[h]").astype("datetime64[ns]")
    values = 9 + np.sin(np.arange(len(times)) / 50)
    if missing is not None:
        values[missing] = np.nan
    xr.Dataset({name: (["time"], values, {"units": unit})}, {"time": times}).to_netcdf(path, engine="h5netcdf")
    return path


@pytest.mark.parametrize(
    ("task", "file", "message"),
    [
        ("wind", ("ws10", "km/h", 5), "'km/h'"),
        ("wind", ("ws10", "m s-1", 5, slice(-1464, None)), "test split"),
        ("wind", ("ws10", "m s-1", 2), "4 full years"),
        ("frost", ("t2m", "furlong", 5), "'furlong'"),
        ("frost", ("t2m", "degC", 5, slice(2922, None)), "split"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(task: str, file: tuple[Any, ...], message: str) -> None:
    write("a.nc", *file)
    assert message in complaint(task, "--record", "a.nc", "--budget", "quick", "--out", "x")
    assert not Path("x").exists()


@pytest.mark.parametrize("out", ["file", "file/below", "read-only/folder", "read-only"])
@pytest.mark.parametrize("words", [["synthetic", "--budget", "quick"], ["--figure", "windpower_setup"]])
def test_a_folder_that_cannot_be_written_is_refused(out: str, words: list[str]) -> None:
    Path("file").write_text("mine")
    Path("read-only").mkdir(mode=0o500)
    if out.startswith("read-only") and os.access("read-only", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert complaint(*words, "--out", out).startswith(out)
    assert Path("file").read_text() == "mine"
    assert list(Path("read-only").iterdir()) == []


def test_a_folder_in_which_another_process_works_is_refused() -> None:
    with locked(Path("x")):
        assert "another process" in complaint("synthetic", "--budget", "quick", "--out", "x")
    assert [file.name for file in Path("x").iterdir()] == [".lock"]


@pytest.mark.parametrize("words", [["--figure", "windpower_setup"], ["synthetic", "--budget", "quick", "--quiet"]])
def test_a_full_disk_is_one_line(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with tiny_studies():
        said = complaint(*words, "--out", "x")
    assert "No space left on device" in said
    assert [file for file in Path("x").rglob("*") if file.is_file() and file.name != ".lock"] == []
