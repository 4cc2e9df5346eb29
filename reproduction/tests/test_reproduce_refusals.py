"""What cannot be reproduced is refused in one line, before anything is written."""

import errno
import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from tiny_reproduction import tiny_studies

from reproduction.__main__ import main
from stakes.files import locked


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def complaint(*words: str) -> str:
    """The one line that the command says."""
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = main([*words])
    assert (code, output.getvalue()) == (2, "")
    text = errors.getvalue()
    assert text.startswith("stakes: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return text[8:-1]


WRONG_WORDS = [
    ("wnid", "there is no task 'wnid' to reproduce; did you mean 'wind'?"),
    ("wind --model difusion", "did you mean 'diffusion'?"),
    ("synthetic --model implicit", "the paper has no implicit model for synthetic"),
    ("--figure windpower_setpu", "there is no figure 'windpower_setpu'; did you mean 'windpower_setup'?"),
    ("frost --figure windpower_setup", "the figure windpower_setup belongs to wind, not to frost"),
    (
        "wind --model implicit --figure windpower_cutoff_diffusion",
        "the figure windpower_cutoff_diffusion needs the diffusion model, but model is implicit",
    ),
    ("wind --record wind_nora11", "did you mean 'wind_nora10'?"),
    ("wind --record frost_era5", "task.record must be one of 'wind_north_sea', 'wind_nora10'"),
    ("frost --record wind_nora10", "task.record must be one of 'frost_merra2', 'frost_era5'"),
    ("wind --record nowhere.nc", "there is no file 'nowhere.nc'"),
    ("synthetic --record wind_nora10", "the synthetic task has no record: --record is for wind and frost"),
    ("portfolio --record wind_nora10", "the portfolios have no record to choose: --record is for wind and frost"),
    ("--record wind_nora10", "a record belongs to one task: --record needs the subject wind or frost, got all"),
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
    assert complaint("wind", "--device", "cuda", "--out", "x") == "device is cuda, but torch finds no CUDA device here"
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
        ("wind", ("ws10", "km/h", 5), "variable 'ws10' of 'a.nc' must be in m/s, got units 'km/h'"),
        ("wind", ("ws10", "m s-1", 5, slice(-1464, None)), "the test split of record 'a.nc', "),
        ("wind", ("ws10", "m s-1", 2), "record must have at least 4 full years"),
        ("frost", ("t2m", "furlong", 5), "variable 't2m' of 'a.nc' must be in K or degC, got units 'furlong'"),
        ("frost", ("t2m", "degC", 5, slice(2922, None)), "split of record 'a.nc', "),
    ],
)
def test_a_file_that_does_not_fit_is_refused(task: str, file: tuple[Any, ...], message: str) -> None:
    write("a.nc", *file)
    said = complaint(task, "--record", "a.nc", "--budget", "quick", "--out", "x")
    assert message in said
    if "split" in message:
        assert "is empty" in said
    assert not Path("x").exists()


@pytest.mark.parametrize("out", ["file", "file/below", "read-only/folder", "read-only"])
@pytest.mark.parametrize("words", [["synthetic", "--budget", "quick"], ["--figure", "windpower_setup"]])
def test_a_folder_that_cannot_be_written_is_refused(out: str, words: list[str]) -> None:
    Path("file").write_text("mine")
    Path("read-only").mkdir(mode=0o500)
    if out.startswith("read-only") and os.access("read-only", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert complaint(*words, "--out", out).startswith(f"{out} cannot be used as a folder: ")
    assert Path("file").read_text() == "mine"
    assert list(Path("read-only").iterdir()) == []


def test_a_folder_in_which_another_process_works_is_refused() -> None:
    with locked(Path("x")):
        assert complaint("synthetic", "--budget", "quick", "--out", "x") == "another process is training in x"
    assert [file.name for file in Path("x").iterdir()] == [".lock"]


@pytest.mark.parametrize("words", [["--figure", "windpower_setup"], ["synthetic", "--budget", "quick", "--quiet"]])
def test_a_full_disk_is_one_line(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with tiny_studies():
        said = complaint(*words, "--out", "x")
    assert said.endswith(" cannot be written: No space left on device; what was saved before is intact")
    assert [file for file in Path("x").rglob("*") if file.is_file() and file.name != ".lock"] == []
