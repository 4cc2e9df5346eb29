"""Forecasts as people have them that cannot be used: one clear line each, and nothing of the user's is touched.

Every command is allowed to overwrite, and still must not, since there is nothing to write.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from calls import complaint
from snapshots import assert_as_kept

COST = "newsvendor:underage=9,overage=1,upper=500"
DAYS = [f"2020-01-{day:02d}" for day in range(1, 15)]


@pytest.fixture(autouse=True)
def nothing_is_touched(elsewhere: None) -> Iterator[None]:
    """Files are as they were before the command, which may have left none."""
    yield
    assert Path("mine.csv").read_text() == "mine"
    assert {path.name for path in Path().iterdir()} - {"given.csv", "given.nc"} == {
        "members.csv",
        "outcomes.csv",
        "mine.csv",
    }


def rows(header: str, *lines: str) -> str:
    """A table with one row a day."""
    return "\n".join([f"time,{header}", *(f"{day},{line}" for day, line in zip(DAYS, lines, strict=False))])


def refused(content: str | bytes, *words: str, name: str = "given.csv") -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return complaint("decide", "--members", name, "--cost", COST, "--out", "mine.csv", "--force", *words)


HUB = "location,target_end_date,output_type,output_type_id,value\n"
HALVES = [f"{20 + day % 3},{21 + day % 2},{294.15 - day % 4}" for day in range(14)]  # degC, degC, K

FORECASTS: dict[str, str] = {
    "levels of more than one": rows("q0.1,q0.5,q1.5", "1,2,3"),
    "a level below 0": rows("-0.1,0.5,0.9", "1,2,3"),
    "a level in two spellings": rows("q10,0.1,q50,q90", "1,2,3,4"),
    "no median and one side only": rows("q60,q75,q90", "1,2,3"),
    "one quantile among members": rows("q50,m1,m2", "1,2,3"),
    "one end of an interval": rows("NHITS-lo-80,NHITS", "1,2"),
    "quantiles all crossing": rows("q10,q50,q90", "3,2,1", "6,5,4", "9,5,1"),
    "quantiles all missing": rows("q10,q50,q90", ",2,3", "1,,3"),
    "a header only": "time,a,b\n",
    "a row too short": "time,a,b\n2020-01-01,1\n",
    "members all missing": "time,a,b\n2020-01-01,,\n",
    "only times": "time\n2020-01-01\n",
    "an outcome among members": "time,a,obs\n2020-01-01,1,2\n",
    "a number without its case": "number,a\n0,1\n1,2\n",
    "an infinite quantile": rows("q10,q50,q90", "1,2,inf"),
    "words among quantiles": rows("q10,q50,q90", "1,2,high"),
    "quantiles beside the outcome": rows("q10,q50,q90,load", "1,2,3,2"),
    "members or quantiles": rows("q1,q2,q3", "1,2,3"),
    "quantiles of two sites": rows("n_q10,n_q90,s_q10,s_q90", "1,2,1,2"),
    "sites with other levels": rows("n_q10,n_q90,s_q25,s_q75", "1,2,1,2"),
    "sites with other members": rows("n_m1,n_m2,s_m1", "1,2,3"),
    "a time twice": "time,q10,q90\n2020-01-01,1,2\n2020-01-01,1,2\n",
    "a time missing": "time,m1,m2\n2020-01-01,1,2\n,1,2\n",
    "a day that never was": "time,m1,m2\n2020-02-30,1,2\n",
    "zones in some rows": "time,m1,m2\n2020-01-01T00:00+02:00,1,2\n2020-01-01 06:00,1,2\n",
    "a member that is never there": rows("m1,m2,m3", "1,,3", "2,,4"),
    "members that come and go": "time,number,x\n2020-01-01,0,1\n2020-01-02,1,3\n",
    "a member twice": "time,number,x\n2020-01-01,0,1\n2020-01-01,0,2\n",
    "two models in one table": "unique_id,ds,sample_id,NHITS,TFT\na,2020-01-01,0,1,2\na,2020-01-01,1,1,2\n",
    "a hub without quantiles": f"{HUB}US,2020-01-01,pmf,0.5,1\n",
    "a hub with a level of 1.9": HUB
    + "".join(f"US,2020-01-01,quantile,{level},{level}\n" for level in (0.1, 0.5, 1.9)),
    "units in the cells": rows("m1,m2", "270 K,271 K", "-2 C,-1 C"),
    "one member in kelvin": rows("m1,m2,m3", *HALVES),
    "points and commas as decimals": "time;m1;m2\n2020-01-01;1,5;2.5\n2020-01-02;1.234,5;2\n",
}


def test_a_netcdf_file_cut_short() -> None:
    array = xr.DataArray(np.ones((40, 30)), {"time": np.arange(40)}, ("time", "number"))
    xr.Dataset({"power": array}).to_netcdf("given.nc", engine="h5netcdf")
    assert "given.nc" in refused(Path("given.nc").read_bytes()[:900], name="given.nc")


def test_a_packed_table_cut_short() -> None:
    assert "cannot be unpacked" in refused(gzip.compress(rows("m1,m2", "1,2").encode())[:-6])


def test_a_forecast_over_itself() -> None:
    said = complaint("decide", "--members", "members.csv", "--cost", COST, "--out", "members.csv", "--force")
    assert "members.csv" in said
    assert Path("members.csv").read_text().startswith("time,m0,")


PAST = [f"{day % 5},{day % 5 + 1},{day % 5 + 2},{day % 4 + 1}" for day in range(14)]  # three members and the outcome
BARE = [line.rsplit(",", 1)[0] for line in PAST]
HEAD = "m1,m2,m3,y"
ISSUED = "time,issued,m1,m2,m3,y\n"

PASTS: dict[str, tuple[str, str]] = {
    "one past case": (rows(HEAD, *PAST[:1]), ""),
    "few past cases": (rows(HEAD, *PAST), ""),
    "no outcome yet": (rows(HEAD, *(f"{line}," for line in BARE)), ""),
    "outcomes where forecasts are missing": (rows(HEAD, "1,2,3,", ",,,4"), ""),
    "outcomes in words": (rows(HEAD, "1,2,3,wet"), ""),
    "an infinite outcome": (rows(HEAD, "1,2,3,inf"), ""),
    "an outcome among the members": (rows(HEAD, *PAST), "--forecast m1:y"),
    "an outcome among the features": (rows(HEAD, *PAST), "--features y"),
    "an outcome that is not there": (rows(HEAD, *PAST), "--outcome z"),
    "members that are not there": (rows(HEAD, *PAST), "--forecast m1:m9"),
    "two outcomes of one forecast": (rows(f"{HEAD},z", *(f"{line},1" for line in PAST)), "--outcome y,z"),
    "features in words": (rows(f"{HEAD},f", *(f"{line},calm" for line in PAST)), "--features f"),
    "a past time twice": (f"time,{HEAD}\n" + 2 * "2020-01-01,1,2,3,2\n", ""),
    "one run twice": (ISSUED + 2 * "2020-01-02,2020-01-01,1,2,3,2\n", "--issued issued"),
    "issued after the outcome": (f"{ISSUED}2020-01-01,2020-01-02,1,2,3,2\n", "--issued issued"),
    "found to be issued after the outcome": (f"{ISSUED}2020-01-01,2020-01-02,1,2,3,2\n", ""),
    "issued in words": (f"{ISSUED}2020-01-02,yesterday,1,2,3,2\n", "--issued issued"),
    "a negative lead": (rows(HEAD, *PAST), "--lead=-24"),
    "leads in words": (rows(f"lead,{HEAD}", *(f"soon,{line}" for line in PAST)), "--lead lead"),
    "leads that contradict": (
        f"time,issued,lead,{HEAD}\n2020-01-02,2020-01-01,6,1,2,3,2\n",
        "--issued issued --lead lead",
    ),
    "kelvin against celsius": (
        rows(HEAD, *(f"{270 + day % 5},{271 + day % 5},{272 + day % 5},{day % 4}" for day in range(14))),
        "",
    ),
    "megawatts against gigawatts": (
        rows(HEAD, *(f"{1000 * (day % 5)},{900 * (day % 5)},{800 * (day % 5)},{day % 4}" for day in range(14))),
        "",
    ),
    "past quantiles that fall": (rows("q10,q50,q90,y", *("9,5,1,4" for _ in range(14))), "--forecast q10,q50,q90"),
    "a site that is nowhere": (rows(HEAD, *PAST), "--site place"),
}


OUTCOMES: dict[str, str] = {
    "outcomes of other years": "time,y\n1999-01-01,1\n",
    "outcomes by label": "case,y\na,1\n",
    "outcomes without times": "y\n1\n",
    "two outcomes at one time": "time,y\n2020-01-01,1\n2020-01-01,2\n",
    "an empty file of outcomes": "",
}


def recalibrated_from(content: str, extra: str = "", forecast: str = "m1:m3") -> str:
    Path("given.csv").write_text(content)
    usual = {"--forecast": forecast, "--outcome": "y"}
    words = [word for flag, value in usual.items() if flag not in extra for word in (flag, value)]
    return complaint("recalibrate", "given.csv", *words, *extra.split(), "--cost", COST, "--out", "new")


def test_what_is_said_of_every_file() -> None:
    """It stands in bad_forecasts.txt, which `make snapshots` writes anew."""
    said = {name: refused(content) for name, content in FORECASTS.items()}
    said |= {name: recalibrated_from(*past) for name, past in PASTS.items()}
    said |= {name: recalibrated_from(content, forecast="members.csv") for name, content in OUTCOMES.items()}
    told = "".join(f"{name}\n    {sentence}\n" for name, sentence in said.items())
    assert_as_kept(Path(__file__).with_name("bad_forecasts.txt"), told)


def test_a_recalibration_is_not_replaced_by_nothing(recalibrated: Path) -> None:
    before = {path.name: path.read_bytes() for path in recalibrated.iterdir() if path.is_file()}
    Path("given.csv").write_text(rows(HEAD, *PAST))
    words = ["--forecast", "m1:m3", "--outcome", "y", "--cost", COST, "--out", str(recalibrated), "--force"]
    assert "at least 50 past forecasts" in complaint("recalibrate", "given.csv", *words)
    assert {path.name: path.read_bytes() for path in recalibrated.iterdir() if path.is_file()} == before
