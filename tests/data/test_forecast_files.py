"""Files of forecasts and of outcomes, as people and other tools write them: what is read of each, or why nothing is.

All of it stands in forecast_files.txt, which `make snapshots` writes anew.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from forecast_files import read, written
from snapshots import assert_as_kept

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.quantiles import quantile_members
from stakes.errors import StakesError

WIDE = "time,m1,m2,m3\n2020-01-02,4,5,6\n2020-01-01,1,2,3\n"
LONG = "number,time,load,wind\n1,2020-01-01,2,20\n0,2020-01-01,1,10\n0,2020-01-02,3,30\n1,2020-01-02,4,40\n"
ONE_TARGET = "number,time,load\n1,2020-01-01,2\n0,2020-01-01,1\n0,2020-01-02,3\n1,2020-01-02,4\n"
COORDINATES = "".join(f"2020-01-01,{number},52,5,{number}.5\n" for number in range(3))
NAMED = "time,control,m1,m2,power,number,a:b\n2020-01-01,0,1,2,9,7,8\n"
QUANTILES = "time,q10,q50,q90\n2020-01-01,1,2,5\n2020-01-02,2,4,8\n"
CROSSING = "time,q10,q40,q90,mean\n2020-01-01,5,4,6,1\n2020-01-02,1,2,3,1\n2020-01-03,,2,3,1\n"
SITES = "time,north_m1,west_m1,north_m2,west_m2\n2020-01-01,1,10,2,20\n2020-01-02,3,30,4,40\n"
SITED = "2020-01-02,north,1,2\n2020-01-02,west,10,20\n2020-01-01,west,30,40\n2020-01-01,north,3,4\n"
TWO_SITES = "time,north_q10,north_q90,west_q10,west_q90\n2020-01-01,1,2,10,20\n"
NEURAL = "unique_id,ds,sample_id,NHITS\na,2020-01-01,1,5\na,2020-01-01,0,4\nb,2020-01-01,0,40\nb,2020-01-01,1,50\n"
CHRONOS = "item_id,timestamp,target_name,predictions,0.1,0.5,0.9\n"
SHOP = f"{CHRONOS}shop,2020-01-01,sales,2,1,2,5\nshop,2020-01-02,sales,2,2,3,4\n"
SHOPS = f"{CHRONOS}a,2020-01-01,sales,2,1,2,5\nb,2020-01-01,sales,2,10,20,50\n"
HUB = "reference_date,location,horizon,target,target_end_date,output_type,output_type_id,value\n"
MEAN = "2020-01-01,US,1,flu,2020-01-02,mean,NA,25\n"
FISH = "case,member,calamari,fish\n1,a,3,4\n1,b,3,sold out\n2,a,3,4\n2,b,3,5\n"
BOTH = "site,time,number,load,wind\na,2020-01-01,0,1,2\nb,2020-01-01,0,1,2\n"


def hub(kind: str, *cells: tuple[str, str, object, float]) -> str:
    lines = [f"2020-01-01,{place},1,flu,{end},{kind},{key},{value}\n" for place, end, key, value in cells]
    return "".join(lines)


STORAGE = stakes.StorageCost(1.0, 3.0, 0.0, power=1.0, energy=1.0)
OF_HUB = [("US", f"2020-01-0{day}", level, 10 * day + 10 * level) for day in (2, 1) for level in (0.9, 0.1, 0.5)]
SAMPLES = [("06", "2020-01-02", "s1", 1), ("36", "2020-01-02", "s2", 20), ("36", "2020-01-02", "s1", 10)]
SAMPLES += [("06", "2020-01-02", "s2", 2)]
KINDS = HUB + hub("sample", *SAMPLES) + hub("quantile", ("06", "2020-01-02", 0.1, 1))
LEVEL = ("US", "2020-01-02", 0.1, 1)
RSV = hub("quantile", ("US", "2020-01-02", 0.9, 2)).replace("flu", "rsv")
RUNS = hub("quantile", *[("US", "2020-01-08", level, 1) for level in (0.1, 0.9)]) * 2
AHEAD = "\n".join(f"US,{ahead},quantile,{level},{ahead + level}" for ahead in (2, 1) for level in (0.1, 0.9))

FORECASTS: dict[str, tuple[str, dict[str, Any]]] = {
    "wide": (WIDE, {}),
    "wide with another column of times": (WIDE.replace("time", "when"), {"time": "when"}),
    "wide with labels": ("Case,0,1\n07,1,2\nb,3,4\n", {}),
    "wide without labels": ("a,b\n1,2\n3,4\n", {}),
    "wide with a gap": (WIDE + "2020-01-03,7,,9\n", {}),
    "long": (LONG, {"outcomes": ("load", "wind")}),
    "long by member": (LONG.replace("number", "member"), {"outcomes": ("wind",)}),
    "long by realization": (LONG.replace("number", "realization"), {"outcomes": ("load",)}),
    "long with a gap": (ONE_TARGET + "0,2020-01-03,5\n", {}),
    "coordinates beside numbered members": ("time,lead,m1,m2,Station_ID\n2020-01-01,24,1,2,EDDF\n", {}),
    "coordinates beside counted members": ("time,lead,0,1,Station_ID\n2020-01-01,24,1,2,EDDF\n", {}),
    "coordinates beside named members": ("time,lead,a,b,Station_ID\n2020-01-01,24,1,2,EDDF\n", {}),
    "coordinates in a long table": (f"time,number,latitude,longitude,power\n{COORDINATES}", {}),
    "a coordinate alone": ("time,number,level\n2020-01-01,0,3\n2020-01-01,1,4\n", {}),
    "a coordinate that is named": ("time,number,level\n2020-01-01,0,3\n2020-01-01,1,4\n", {"outcomes": ("level",)}),
    "columns by range": (NAMED, {"columns": ("control", "m1:m2")}),
    "columns in their own order": (NAMED, {"columns": ("m2", "m1")}),
    "a column with a colon": (NAMED, {"columns": ("a:b", "m1")}),
    "a range beyond the columns": (NAMED, {"columns": ("m1:m3",)}),
    "a range that falls": (NAMED, {"columns": ("m2:m1",)}),
    "a column in a range and by name": (NAMED, {"columns": ("m1:m2", "m1")}),
    "a column of text": ("time,place,a\n2020-01-01,Rome,5\n", {}),
    "long without a target": ("number,time\n0,2020-01-01\n", {}),
    "an outcome under another name": ("time,power,m1,m2,m3\n2020-01-01,9,1,2,3\n", {}),
    "an outcome between members": ("time,0,power,1,mean\n2020-01-01,1,9,2,3\n", {}),
    "two ensembles": ("time,u1,u2,u3,v1,v2\n2020-01-01,1,2,3,4,5\n", {}),
    "a member without a number": (ONE_TARGET + ",2020-01-03,5\n", {}),
    "a case without a label": ("case,a\nx,1\n,2\n", {}),
    "flat quantiles": (QUANTILES, {"read_as": "quantiles", "tails": "flat"}),
    "quantiles as members": (QUANTILES, {"read_as": "members"}),
    "quantiles that cross and a mean": (CROSSING, {"tails": "flat"}),
    "sites in names": (SITES, {}),
    "one site of several": (SITES, {"sites": ("west",)}),
    "each site": (SITES, {"sites": "each"}),
    "a site that is not there": (SITES, {"sites": ("east",)}),
    "points of sites": ("time,north,west\n2020-01-01,1,2\n", {"read_as": "points"}),
    "quantiles of sites": (TWO_SITES, {}),
    "quantiles of sites for a cost of both": (TWO_SITES, {"cost": STORAGE}),
    "samples of neuralforecast": (NEURAL, {}),
    "each site of neuralforecast": (NEURAL, {"sites": "each"}),
    "steps of neuralforecast": ("unique_id,ds,sample_id,NHITS\na,7,s1,4\na,7,s0,5\n", {}),
    "quantiles of Chronos": (SHOP, {"tails": "flat"}),
    "several series of Chronos": (SHOPS, {}),
    "one series of Chronos": (SHOPS, {"sites": ("b",), "tails": "flat"}),
    "quantiles of a hub": (HUB + MEAN + hub("quantile", *OF_HUB), {"tails": "flat"}),
    "samples of a hub": (HUB + hub("sample", *SAMPLES), {}),
    "a hub of quantiles and samples": (KINDS, {}),
    "the samples of both": (KINDS, {"read_as": "members"}),
    "a hub without dates": ("location,horizon,output_type,output_type_id,value\n" + AHEAD, {"tails": "flat"}),
    "a hub of several targets": (HUB + hub("quantile", LEVEL) + RSV, {}),
    "a hub of several runs": (HUB + RUNS + RUNS.replace("2020-01-01", "2020-01-07"), {}),
    "a hub with a level that is none": (HUB + hub("quantile", ("US", "2020-01-02", "low", 1)), {}),
    "a hub without a type": (HUB + hub("", LEVEL), {}),
    "a hub without a level": (HUB + hub("quantile", ("US", "2020-01-02", "", 1)), {}),
    "a column of levels": ("time,quantile,load\n2020-01-01,0.9,0.9\n2020-01-01,0.2,0.2\n", {"tails": "flat"}),
    "a column of sites": (f"time,site,m1,m2\n{SITED}", {}),
    "a column of sites, named": (f"time,farm,m1,m2\n{SITED}", {"site": "farm"}),
    "a column of sites, not named": (f"time,farm,m1,m2\n{SITED}", {}),
    "a column of sites without cases": ("site,m1,m2\nnorth,1,2\nwest,10,20\n", {"sites": "each"}),
    "a column of sites with a gap": (f"time,site,m1,m2\n{SITED}2020-01-03,west,5,6\n", {}),
    "cases of sites that nothing tells": ("site,m1,m2\na,1,2\na,3,4\nb,5,6\n", {}),
    "a site twice": ("time,site,m1,m2\n2020-01-01,a,1,2\n2020-01-01,b,1,2\n2020-01-01,a,3,4\n", {}),
    "sites told twice": ("time,site,n_m1,n_m2,w_m1,w_m2\n2020-01-01,a,1,2,3,4\n2020-01-01,b,1,2,3,4\n", {}),
    "two values beside sites": (BOTH, {"outcomes": ("load", "wind")}),
    "a word among numbers": (FISH, {}),
    "a word among the numbers that are meant": (FISH, {"outcomes": ("calamari", "fish")}),
    "a word among other numbers": (FISH, {"outcomes": ("calamari",)}),
    "a case with a zero in front": ("case,m1\n01,1\n02,2\n", {}),
}  # fmt: skip


def ahead(*targets: str) -> str:
    """Three members of each target on two days, the later one first."""
    names = [f"{target}_m{member}" for target in targets for member in range(3)] or ["m0", "m1", "m2"]
    ones = ",1" * len(names)
    return f"time,{','.join(names)}\n2020-01-02{ones}\n2020-01-01{ones}\n"


ROWS = "north,2020-01-01,1,5\nwest,2020-01-01,10,5\nwest,2020-01-02,20,5\nnorth,2020-01-02,2,5\n"
OF_SITES, OF_ROWS = ahead("west", "north"), "m1,m2\n1,2\n,4\n5,6\n7,\n"
CODES = "2020-01-01,01,1\n2020-01-01,02,2\n2020-01-02,01,3\n2020-01-02,02,4\n"
CODED = f"time,location,m1,m2\n{CODES.replace(chr(10), ',9' + chr(10))}"
MORE = "a,2020-01-01,1,1,2\nb,2020-01-01,1,1,2\n"
ORDERED = "time,x,y\n2020-01-01,1,2\n2020-01-02,3,4\n"
DID = "time,west,north,did_north,did_west\n2020-01-01,1,2,3,\n2020-01-02,4,5,6,7\n"

OUTCOMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "by time": (ahead(), "time,load\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n", {}),
    "by name, with a gap": (ahead("a", "b"), "time,b,a,x\n2020-01-01T00:00Z,1,10,0\n2020-01-02T00:00Z,2,,0\n", {}),
    "by the name that is given": (ahead(), "time,b,x\n2020-01-01,1,0\n2020-01-02,2,0\n", {"outcomes": ("x",)}),
    "by row": (OF_ROWS, "y\n1\n2\n3\n4\n", {}),
    "by row, not by time": (OF_ROWS, "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n2020-01-04,4\n", {}),
    "too few rows": (OF_ROWS, "y\n1\n1\n1\n", {}),
    "too many rows": (OF_ROWS, "y\n1\n1\n1\n1\n1\n", {}),
    "beside coordinates": (ahead(), "time,lat,lon,power\n2020-01-01,52,5,1\n2020-01-02,52,5,2\n", {}),
    "twice and alike": (ahead(), "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,1\n", {}),
    "twice and unlike": (ahead(), "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,3\n", {}),
    "text": (ahead(), "time,outcome\n2020-01-01,x\n2020-01-02,2\n", {}),
    "a case without a row": (ahead(), "time,y\n2020-01-01,1\n", {}),
    "labels for times": (ahead(), "case,y\na,1\n", {}),
    "too many columns": (ahead(), "time,y,z\n2020-01-01,1,2\n", {"outcomes": ("y", "z")}),
    "no row of the site": (ahead(), "site,time,y\nnorth,2020-01-01,1\neast,2020-01-02,2\n", {}),
    "two columns of sites": (ahead(), f"site,time,power,load\n{ROWS}", {}),
    "columns of other outcomes": (ahead("b00", "b20"), "time,zero,b20\n2020-01-01,1,2\n2020-01-02,1,2\n", {}),
    "a row for each site": (OF_SITES, f"site,time,power,lead\n{ROWS}", {}),
    "a row for each of more sites": (OF_SITES, f"site,time,power,lead\n{ROWS}", {"sites": ("north",)}),
    "a row for each site, one column named": (OF_SITES, f"site,time,power,load\n{ROWS}", {"outcomes": ("power",)}),
    "a site twice and unlike": (OF_SITES, f"site,time,power\n{ROWS.replace(',5', '')}north,2020-01-01,3\n", {}),
    "other names": (ahead("h0", "h1"), ORDERED, {"outcomes": ("y", "x")}),
    "other names in their order": (ahead("h0", "h1"), ORDERED, {"outcomes": ("y", "x"), "sites": ("h0", "h1")}),
    "codes of sites in columns": (CODED, "time,02,01\n2020-01-01,2,1\n2020-01-02,4,3\n", {}),
    "codes of sites in rows": (CODED, f"time,location,y\n{CODES}", {}),
    "codes of cases": ("case,m1,m2\n01,1,1\nx2,2,2\n", "case,y\nx2,2\n01,1\n", {}),
    "today's action of each site": (OF_SITES, DID, {"sites": "each", "today": ("did_north", "did_west")}),
    "today's action": (ahead(), "time,y,did\n2020-01-01,1,\n2020-01-02,4,5\n", {"outcomes": ("y",), "today": ("did",)}),
    "of a long table": (BOTH + MORE, "site,time,load\na,2020-01-01,1\nb,2020-01-01,1\n", {"outcomes": ("load",)}),
}  # fmt: skip


def described(given: ForecastSet) -> list[str]:
    """Members by case and target, and what belongs to them; of quantiles the first and the last member."""
    members = given.members if given.weights is None else given.members[:, [0, -1]]
    lines = [f"{case}: {each.T.tolist()}" for case, each in zip(given.labels, members, strict=True)]
    beside = {"outcomes": given.outcomes, "today": given.today}
    lines += [f"{name} {values.tolist()}" for name, values in beside.items() if values is not None]
    known_by = ", ".join(map(str, given.index.names))
    return [f"by {known_by}; targets {', '.join(given.targets)}", *lines, *(f"note: {note}" for note in given.notes)]


def what_is_said(folder: Path, name: str, forecasts: str, seen: str | None, said: dict[str, Any]) -> str:
    path = written(folder, forecasts)
    outcomes = None if seen is None else written(folder, seen, "seen.csv")
    try:
        lines = described(read(path, outcomes, **said))
    except StakesError as error:
        lines = [f"{type(error).__name__}: {error}"]
    return "\n    ".join([name, *lines]).replace(f"{folder}/", "")


def test_what_is_read_of_every_file(tmp_path: Path) -> None:
    told = [what_is_said(tmp_path, name, given, None, said) for name, (given, said) in FORECASTS.items()]
    told += [what_is_said(tmp_path, name, given, seen, said) for name, (given, seen, said) in OUTCOMES.items()]
    assert_as_kept(Path(__file__).with_name("forecast_files.txt"), "\n".join(told) + "\n")


def test_separator_and_encoding_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("time;\u0161|1;2\n2020-01-01;3;4\n".encode("cp1250"))
    csv = {"separator": ";", "encoding": "cp1250", "columns": ("\u0161|1", "2")}
    assert read(path, path, outcomes=("\u0161|1",), **csv).outcomes.tolist() == [[3]]


def test_times_of_parquet_in_another_zone_are_told(tmp_path: Path) -> None:
    for zone, notes in {"Europe/Dublin": 2, "UTC": 1}.items():
        times = pd.DatetimeIndex(["2020-07-01 12:00"], tz=zone, name="time")
        pd.DataFrame({"m1": [1.0], "m2": [2.0]}, times).to_parquet(tmp_path / "a.parquet")
        assert len(read(tmp_path / "a.parquet").notes) == notes


def test_quantiles_become_weighted_members(tmp_path: Path) -> None:
    given = read(written(tmp_path, QUANTILES))
    expected, weights = quantile_members((0.1, 0.5, 0.9), [[1, 2, 5], [2, 4, 8]])
    np.testing.assert_array_equal(given.members[..., 0], expected)
    np.testing.assert_array_equal(given.weights, weights)
    assert given.equal_members.shape == (2, 100, 1)
    np.testing.assert_allclose(np.quantile(given.equal_members[0, :, 0], [0.1, 0.5, 0.9]), [1, 2, 5], atol=0.1)


def test_tails_end_at_the_bounds(tmp_path: Path) -> None:
    path, wind = written(tmp_path, QUANTILES), stakes.WindDispatchCost(5.0)
    assert read(path).members.min() < 0
    bounded = read(path, outcome_bounds="0,6").members
    assert (bounded.min(), bounded.max()) == (0, 6)
    assert read(path, cost=wind).members.min() == 0
    assert "outcome_bounds" in read(path, cost=wind).notes[-1]
    assert read(path, cost=wind, outcome_bounds="none").members.min() < 0
    dark = "".join(f"2020-02-{day:02},0,0,{day}\n" for day in range(1, 20))
    assert read(written(tmp_path, f"time,q10,q50,q90\n{dark}2020-03-01,0,3,5\n")).members.min() == 0
    assert read(written(tmp_path, WIDE), outcome_bounds="2,").members.min() == 2


@pytest.mark.parametrize("sites", ["together", "each"])
def test_quantiles_of_several_sites_that_pay_by_themselves(tmp_path: Path, sites: str) -> None:
    cost = stakes.AllocationCost(9.0, 1.0, budget=100.0)
    given = read(written(tmp_path, TWO_SITES), cost=cost, tails="flat", sites=sites)
    members, weights = torch.from_numpy(given.members), torch.from_numpy(given.weights)
    assert stakes.optimal_action(cost, members, weights=weights).flatten().tolist() == [2.0, 20.0]  # at 0.9
