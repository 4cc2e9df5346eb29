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

FORECASTS: dict[str, tuple[str, str]] = {
    "levels_of_more_than_one": (rows("q0.1,q0.5,q1.5", "1,2,3"), "'q1.5' beside others that name quantiles, but"),
    "a_level_below_0": (rows("-0.1,0.5,0.9", "1,2,3"), "the column '-0.1', which names no level of a quantile"),
    "a_level_in_two_spellings": (rows("q10,0.1,q50,q90", "1,2,3,4"), "the level 0.1 twice, in the columns q10, 0.1"),
    "no_median_and_one_side_only": (rows("q60,q75,q90", "1,2,3"), "on both sides of the median"),
    "one_quantile_among_members": (rows("q50,m1,m2", "1,2,3"), "one column that names a level, 'q50'"),
    "one_end_of_an_interval": (rows("NHITS-lo-80,NHITS", "1,2"), "one column that names a level, 'NHITS-lo-80'"),
    "quantiles_all_crossing": (rows("q10,q50,q90", "3,2,1", "6,5,4", "9,5,1"), "quantiles that fall"),
    "quantiles_all_missing": (rows("q10,q50,q90", ",2,3", "1,,3"), "all 2 cases of 'given.csv' lack quantiles"),
    "a_header_only": ("time,a,b\n", "has a header but no rows"),
    "a_row_too_short": ("time,a,b\n2020-01-01,1\n", "has 2 fields, but the header has 3"),
    "members_all_missing": ("time,a,b\n2020-01-01,,\n", "all 1 cases of 'given.csv' lack members"),
    "only_times": ("time\n2020-01-01\n", "has no column of members"),
    "an_outcome_among_members": ("time,a,obs\n2020-01-01,1,2\n", "'obs'"),
    "a_number_without_its_case": ("number,a\n0,1\n1,2\n", "'number'"),
    "an_infinite_quantile": (rows("q10,q50,q90", "1,2,inf"), "column 'q90' must be finite, got inf in data row 1"),
    "words_among_quantiles": (rows("q10,q50,q90", "1,2,high"), "has text in the column 'q90'"),
    "quantiles_beside_the_outcome": (rows("q10,q50,q90,load", "1,2,3,2"), "'load', which names no level"),
    "members_or_quantiles": (rows("q1,q2,q3", "1,2,3"), "q1 to q3, which may be members or quantiles"),
    "quantiles_of_two_sites": (rows("n_q10,n_q90,s_q10,s_q90", "1,2,1,2"), "--dependence PAST"),
    "sites_with_other_levels": (rows("n_q10,n_q90,s_q25,s_q75", "1,2,1,2"), "the same levels for each of n, s"),
    "sites_with_other_members": (rows("n_m1,n_m2,s_m1", "1,2,3"), "'s_m1'"),
    "a_time_twice": ("time,q10,q90\n2020-01-01,1,2\n2020-01-01,1,2\n", "has the time 2020-01-01 00:00:00 more"),
    "a_time_missing": ("time,m1,m2\n2020-01-01,1,2\n,1,2\n", "must hold a time in every row, but data row 2 has none"),
    "a_day_that_never_was": ("time,m1,m2\n2020-02-30,1,2\n", "got '2020-02-30' in data row 1"),
    "zones_in_some_rows": (
        "time,m1,m2\n2020-01-01T00:00+02:00,1,2\n2020-01-01 06:00,1,2\n",
        "a time zone in every row or in none, but data rows 1 and 2 differ",
    ),
    "a_member_that_is_never_there": (rows("m1,m2,m3", "1,,3", "2,,4"), "all 2 cases of 'given.csv' lack members"),
    "members_that_come_and_go": ("time,number,x\n2020-01-01,0,1\n2020-01-02,1,3\n", "all 2 cases of 'given.csv'"),
    "a_member_twice": ("time,number,x\n2020-01-01,0,1\n2020-01-01,0,2\n", "has member 0 of case 2020-01-01"),
    "two_models_in_one_table": (
        "unique_id,ds,sample_id,NHITS,TFT\na,2020-01-01,0,1,2\na,2020-01-01,1,1,2\n",
        "several columns of values, NHITS, TFT; ",
    ),
    "a_hub_without_quantiles": (f"{HUB}US,2020-01-01,pmf,0.5,1\n", "no output_type quantile or sample to read,"),
    "a_hub_with_a_level_of_1.9": (
        f"{HUB}US,2020-01-01,quantile,0.1,0\nUS,2020-01-01,quantile,0.5,1\nUS,2020-01-01,quantile,1.9,3\n",
        "levels must lie between 0 and 1, got 1.9",
    ),
    "units_in_the_cells": (rows("m1,m2", "270 K,271 K", "-2 C,-1 C"), "has text in the column 'm1'"),
    "one_member_in_kelvin": (rows("m1,m2,m3", *HALVES), "member 3 lies around 293, the others around 21"),
    "points_and_commas_as_decimals": ("time;m1;m2\n2020-01-01;1,5;2.5\n2020-01-02;1.234,5;2\n", "'1.234,5'"),
}


@pytest.mark.parametrize("name", FORECASTS)
def test_a_forecast_that_cannot_be_used(name: str) -> None:
    content, message = FORECASTS[name]
    assert message in refused(content)


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

PASTS: dict[str, tuple[str, str, str]] = {
    "one_past_case": (rows(HEAD, *PAST[:1]), "", "at least 50 past forecasts"),
    "few_past_cases": (rows(HEAD, *PAST), "", "at least 50 past forecasts"),
    "no_outcome_yet": (rows(HEAD, *(f"{line}," for line in BARE)), "", "has no outcome in y for any of the forecasts"),
    "outcomes_where_forecasts_are_missing": (rows(HEAD, "1,2,3,", ",,,4"), "", "all 2 cases of 'given.csv' lack"),
    "outcomes_in_words": (rows(HEAD, "1,2,3,wet"), "", "column 'y' must hold numbers, got 'wet' in data row 1"),
    "an_infinite_outcome": (rows(HEAD, "1,2,3,inf"), "", "column 'y' must be finite, got inf in data row 1"),
    "an_outcome_among_the_members": (rows(HEAD, *PAST), "--forecast m1:y", "'y' was given two"),
    "an_outcome_among_the_features": (rows(HEAD, *PAST), "--features y", "'y' was given two"),
    "an_outcome_that_is_not_there": (rows(HEAD, *PAST), "--outcome z", "has no column 'z'"),
    "members_that_are_not_there": (rows(HEAD, *PAST), "--forecast m1:m9", "has no column 'm9'"),
    "two_outcomes_of_one_forecast": (
        rows(f"{HEAD},z", *(f"{line},1" for line in PAST)),
        "--outcome y,z",
        "for 2, y, z",
    ),
    "features_in_words": (
        rows(f"{HEAD},f", *(f"{line},calm" for line in PAST)),
        "--features f",
        "got 'calm' in data row 1",
    ),
    "a_past_time_twice": (f"time,{HEAD}\n" + 2 * "2020-01-01,1,2,3,2\n", "", "more than once"),
    "one_run_twice": (ISSUED + 2 * "2020-01-02,2020-01-01,1,2,3,2\n", "--issued issued", "the time and issued"),
    "issued_after_the_outcome": (
        f"{ISSUED}2020-01-01,2020-01-02,1,2,3,2\n",
        "--issued issued",
        "may have seen its outcome",
    ),
    "found_to_be_issued_after_the_outcome": (
        f"{ISSUED}2020-01-01,2020-01-02,1,2,3,2\n",
        "",
        "may have seen its outcome",
    ),
    "issued_in_words": (f"{ISSUED}2020-01-02,yesterday,1,2,3,2\n", "--issued issued", "got 'yesterday' in data row 1"),
    "a_negative_lead": (rows(HEAD, *PAST), "--lead=-24", "leads must not be negative"),
    "leads_in_words": (
        rows(f"lead,{HEAD}", *(f"soon,{line}" for line in PAST)),
        "--lead lead",
        "got 'soon' in data row 1",
    ),
    "leads_that_contradict": (
        f"time,issued,lead,{HEAD}\n2020-01-02,2020-01-01,6,1,2,3,2\n",
        "--issued issued --lead lead",
        "leads must be times less issued",
    ),
    "kelvin_against_celsius": (
        rows(HEAD, *(f"{270 + day % 5},{271 + day % 5},{272 + day % 5},{day % 4}" for day in range(14))),
        "",
        "around 273, outcomes around 1;",
    ),
    "megawatts_against_gigawatts": (
        rows(HEAD, *(f"{1000 * (day % 5)},{900 * (day % 5)},{800 * (day % 5)},{day % 4}" for day in range(14))),
        "",
        "unit",
    ),
    "past_quantiles_that_fall": (
        rows("q10,q50,q90,y", *("9,5,1,4" for _ in range(14))),
        "--forecast q10,q50,q90",
        "in 14 of 14 cases",
    ),
    "a_site_that_is_nowhere": (rows(HEAD, *PAST), "--site place", "has no column 'place'"),
}


@pytest.mark.parametrize("name", PASTS)
def test_a_past_that_cannot_be_used(name: str) -> None:
    content, extra, message = PASTS[name]
    Path("given.csv").write_text(content)
    usual = {"--forecast": "m1:m3", "--outcome": "y"}
    words = [word for flag, value in usual.items() if flag not in extra for word in (flag, value)]
    assert message in complaint("recalibrate", "given.csv", *words, *extra.split(), "--cost", COST, "--out", "new")


OUTCOMES = {
    "outcomes_of_other_years": ("time,y\n1999-01-01,1\n", "forecasts and outcomes never overlap"),
    "outcomes_by_label": ("case,y\na,1\n", "cases by label, "),
    "outcomes_without_times": ("y\n1\n", "cases by their place, "),
    "two_outcomes_at_one_time": ("time,y\n2020-01-01,1\n2020-01-01,2\n", "must have one 'y' a case"),
    "an_empty_file_of_outcomes": ("", "is empty"),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes_that_do_not_fit_the_forecasts(name: str) -> None:
    content, message = OUTCOMES[name]
    Path("given.csv").write_text(content)
    words = ["--forecast", "members.csv", "--outcome", "y", "--cost", COST, "--out", "new"]
    assert message in complaint("recalibrate", "given.csv", *words)


def test_a_recalibration_is_not_replaced_by_nothing(recalibrated: Path) -> None:
    before = {path.name: path.read_bytes() for path in recalibrated.iterdir() if path.is_file()}
    Path("given.csv").write_text(rows(HEAD, *PAST))
    words = ["--forecast", "m1:m3", "--outcome", "y", "--cost", COST, "--out", str(recalibrated), "--force"]
    assert "at least 50 past forecasts" in complaint("recalibrate", "given.csv", *words)
    assert {path.name: path.read_bytes() for path in recalibrated.iterdir() if path.is_file()} == before
