"""Tables as other tools write them, with one row for each member or quantile."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from forecast_files import read, written
from refusals import refuses

from stakes.errors import StakesError, TableError

HUB = "reference_date,location,horizon,target,target_end_date,output_type,output_type_id,value\n"


def test_samples_as_neuralforecast_has_them(tmp_path: Path) -> None:
    rows = "a,2020-01-01,1,5\na,2020-01-01,0,4\nb,2020-01-01,0,40\nb,2020-01-01,1,50\n"
    path = written(tmp_path, f"unique_id,ds,sample_id,NHITS\n{rows}")
    ensemble = read(path)
    assert (ensemble.members.tolist(), ensemble.targets) == ([[[4, 40], [5, 50]]], ("a", "b"))
    assert (ensemble.index.name, ensemble.index[0]) == ("ds", pd.Timestamp("2020-01-01"))
    assert "2 sites, a, b, " in ensemble.notes[1]
    each = read(path, sites="each")
    assert each.members[..., 0].tolist() == [[4, 5], [40, 50]]
    one = read(written(tmp_path, "unique_id,ds,sample_id,NHITS\na,7,s1,4\na,7,s0,5\n"))
    assert (one.members.tolist(), one.index.tolist(), one.targets) == ([[[5], [4]]], [7], ("NHITS",))


def test_quantiles_as_chronos_has_them(tmp_path: Path) -> None:
    header = "item_id,timestamp,target_name,predictions,0.1,0.5,0.9\n"
    path = written(tmp_path, f"{header}shop,2020-01-01,sales,2,1,2,5\nshop,2020-01-02,sales,2,2,3,4\n")
    ensemble = read(path)
    assert (len(ensemble.index), ensemble.targets) == (2, ("outcome",))
    assert "3 quantiles, levels 0.1 to 0.9" in ensemble.notes[0]
    assert ensemble.notes[2:] == (
        "left out as coordinates: item_id, target_name",
        "left out beside the quantiles: predictions",
    )
    several = written(tmp_path, f"{header}a,2020-01-01,sales,2,1,2,5\nb,2020-01-01,sales,2,10,20,50\n")
    refuses(TableError, r"has quantiles of 2 sites, a, b; .*--sites each .*--sites a for one", read, several)
    assert read(several, sites=("b",)).targets == ("b",)
    each = read(several, sites="each")
    assert (each.index.names, [site for _, site in each.index]) == (["timestamp", "site"], ["a", "b"])


def hub(kind: str, *cells: tuple[str, str, object, float]) -> str:
    lines = [f"2020-01-01,{place},1,flu,{end},{kind},{key},{value}\n" for place, end, key, value in cells]
    return "".join(lines)


def test_quantiles_of_a_hub(tmp_path: Path) -> None:
    cells = [("US", f"2020-01-0{day}", level, 10 * day + 10 * level) for day in (2, 1) for level in (0.9, 0.1, 0.5)]
    mean = "2020-01-01,US,1,flu,2020-01-02,mean,NA,25\n"
    ensemble = read(written(tmp_path, HUB + mean + hub("quantile", *cells)))
    assert ensemble.index.tolist() == [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]
    assert "3 quantiles, levels 0.1 to 0.9" in ensemble.notes[0]
    middle = np.searchsorted(np.cumsum(ensemble.weights), 0.5)
    assert ensemble.members[:, middle, 0].tolist() == [15, 25]
    assert "left out beside the output_type quantile: mean" in ensemble.notes


def test_samples_of_a_hub_keep_their_identity_across_sites(tmp_path: Path) -> None:
    cells = [("06", "2020-01-02", "s1", 1), ("36", "2020-01-02", "s2", 20), ("36", "2020-01-02", "s1", 10)]
    cells += [("06", "2020-01-02", "s2", 2)]
    ensemble = read(written(tmp_path, HUB + hub("sample", *cells)))
    assert ensemble.members.tolist() == [[[1, 10], [2, 20]]]
    both = written(tmp_path, HUB + hub("sample", *cells) + hub("quantile", ("06", "2020-01-02", 0.1, 1)))
    refuses(TableError, "--read-as quantiles or --read-as members", read, both)
    assert read(both, read_as="members").members.tolist() == [[[1, 10], [2, 20]]]


def test_cases_of_a_hub_without_dates_are_horizons(tmp_path: Path) -> None:
    rows = [f"US,{ahead},quantile,{level},{ahead + level}" for ahead in (2, 1) for level in (0.1, 0.9)]
    ensemble = read(written(tmp_path, "location,horizon,output_type,output_type_id,value\n" + "\n".join(rows)))
    assert (ensemble.index.name, ensemble.index.tolist()) == ("horizon", [1, 2])


def test_a_column_of_levels(tmp_path: Path) -> None:
    ensemble = read(written(tmp_path, "time,quantile,load\n" + "".join(f"2020-01-01,{p},{p}\n" for p in (0.9, 0.2))))
    assert ensemble.notes[0] == "1 cases of 2 quantiles, levels 0.2 to 0.9, targets load"
    assert (
        ensemble.notes[1]
        == "read as quantiles, interpolated linearly between the levels, with exponential tails beyond"
    )


def test_a_column_of_sites_beside_members(tmp_path: Path) -> None:
    rows = "2020-01-02,north,1,2\n2020-01-02,west,10,20\n2020-01-01,west,30,40\n2020-01-01,north,3,4\n"
    ensemble = read(written(tmp_path, f"time,site,m1,m2\n{rows}"))
    assert ensemble.members.tolist() == [[[1, 10], [2, 20]], [[3, 30], [4, 40]]]
    assert (ensemble.targets, ensemble.index[0]) == (("north", "west"), pd.Timestamp("2020-01-02"))
    farms = written(tmp_path, f"time,farm,m1,m2\n{rows}")
    refuses(StakesError, "'farm'", read, farms)
    assert read(farms, site="farm").targets == ("north", "west")
    alone = read(written(tmp_path, "site,m1,m2\nnorth,1,2\nwest,10,20\n"), sites="each")
    assert (alone.index.names, alone.members[..., 0].tolist()) == (["row", "site"], [[1, 2], [10, 20]])
    gap = read(written(tmp_path, f"time,site,m1,m2\n{rows}2020-01-03,west,5,6\n"))
    assert gap.notes[-1] == "1 of 3 cases lack members and are left out"


REFUSED: dict[str, tuple[str, str]] = {
    "several targets": (
        HUB
        + hub("quantile", ("US", "2020-01-02", 0.1, 1))
        + hub("quantile", ("US", "2020-01-02", 0.9, 2)).replace("flu", "rsv"),
        "has several targets, flu, rsv; --variable 'flu' takes one",
    ),
    "several runs": (
        HUB
        + hub("quantile", *[("US", "2020-01-08", p, 1) for p in (0.1, 0.9)]) * 2
        + hub("quantile", ("US", "2020-01-15", 0.1, 1)).replace("2020-01-01", "2020-01-07"),
        "has level 0.1 of case 2020-01-08 00:00:00 more than once; keep the rows of one reference_date",
    ),
    "level that is none": (HUB + hub("quantile", ("US", "2020-01-02", "low", 1)), "column 'output_type_id' must"),
    "no type": (HUB + hub("", ("US", "2020-01-02", 0.1, 1)), "no output_type quantile or sample to read, it has none"),
    "no level": (HUB + hub("quantile", ("US", "2020-01-02", "", 1)), "must have a level in the column"),
    "sites without cases": ("site,m1,m2\na,1,2\na,3,4\nb,5,6\n", "has the column 'site' but none of the case"),
    "site twice": (
        "time,site,m1,m2\n2020-01-01,a,1,2\n2020-01-01,b,1,2\n2020-01-01,a,3,4\n",
        "has the time and site 2020-01-01 00:00:00, a more than once",
    ),
    "sites twice over": (
        "time,site,n_m1,n_m2,w_m1,w_m2\n2020-01-01,a,1,2,3,4\n2020-01-01,b,1,2,3,4\n",
        "has sites in the column 'site' and in the names of others, n, w",
    ),
}


@pytest.mark.parametrize(("content", "expected"), REFUSED.values(), ids=REFUSED)
def test_tables_that_cannot_be_read(tmp_path: Path, content: str, expected: str) -> None:
    refuses(StakesError, expected, read, written(tmp_path, content))


def test_one_column_of_values_beside_sites(tmp_path: Path) -> None:
    path = written(tmp_path, "site,time,number,load,wind\na,2020-01-01,0,1,2\nb,2020-01-01,0,1,2\n")
    refuses(TableError, "must have one column of values beside that of sites", read, path, outcomes=("load", "wind"))
    seen = written(tmp_path, "site,time,load\na,2020-01-01,1\nb,2020-01-01,1\n", "b.csv")
    two = path.read_text().replace("a,2020-01-01,0,1,2", "a,2020-01-01,0,1,2\na,2020-01-01,1,1,2\nb,2020-01-01,1,1,2")
    assert read(written(tmp_path, two), seen, outcomes=("load",)).targets == ("a", "b")


def test_a_column_with_a_word_among_its_numbers_is_not_left_out(tmp_path: Path) -> None:
    rows = "1,a,3,4\n1,b,3,sold out\n2,a,3,4\n2,b,3,5\n"
    path = written(tmp_path, f"case,member,calamari,fish\n{rows}")
    for targets in ((), ("calamari", "fish")):
        refuses(TableError, "'fish'", read, path, outcomes=targets)
    assert read(path, outcomes=("calamari",)).targets == ("calamari",)
