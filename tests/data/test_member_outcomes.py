from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stakes.data.forecasts.members import MembersFile, read_members, read_outcomes
from stakes.errors import TableError


def written(folder: Path, content: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def members(targets: tuple[str, ...] = ("outcome",), index: Any = None) -> MembersFile:
    index = pd.DatetimeIndex(["2020-01-02", "2020-01-01"], name="time") if index is None else index
    return MembersFile(np.ones((len(index), 3, len(targets))), index, targets)


def test_outcomes_are_matched_by_label(tmp_path: Path) -> None:
    path = written(tmp_path, "time,load\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n")
    outcomes = read_outcomes(path, members()).table
    assert outcomes["outcome"].tolist() == [2, 1]
    assert outcomes.index.equals(members().index)
    several = written(tmp_path, "when,b,a,x\n2020-01-01T00:00Z,1,10,0\n2020-01-02T00:00Z,2,,0\n")
    both = read_outcomes(several, members(("a", "b")), time="when").table
    np.testing.assert_array_equal(both[["a", "b"]], [[np.nan, 2], [10, 1]])
    assert read_outcomes(several, members(), time="when", targets=["x"]).table["outcome"].tolist() == [0, 0]


def test_outcomes_without_labels_are_matched_by_row(tmp_path: Path) -> None:
    rows = read_members(written(tmp_path, "m1,m2\n1,2\n,4\n5,6\n7,\n"))
    assert rows.index.tolist() == [0, 2]
    assert read_outcomes(written(tmp_path, "y\n1\n2\n3\n4\n"), rows).table["outcome"].tolist() == [1, 3]
    for content in ("y\n1\n2\n3\n", "y\n1\n2\n3\n4\n5\n", "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n"):
        count = content.count("\n") - 1
        with pytest.raises(TableError, match=f"has {count} rows, but the members have 4 cases; without times"):
            read_outcomes(written(tmp_path, content), rows)
    made = members(index=pd.RangeIndex(2, name="row"))
    assert read_outcomes(written(tmp_path, "y\n1\n2\n"), made).table["outcome"].tolist() == [1, 2]


def test_coordinates_are_no_outcomes(tmp_path: Path) -> None:
    path = written(tmp_path, "time,lat,lon,power\n2020-01-01,52,5,1\n2020-01-02,52,5,2\n")
    assert read_outcomes(path, members()).table["outcome"].tolist() == [2, 1]


OUTCOMES: dict[str, tuple[str, str]] = {
    "label twice": (
        "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,3\n",
        "must have one 'y' a case, but 2020-01-01 00:00:00 has both 1 and 3",
    ),
    "text": ("time,outcome\n2020-01-01,x\n2020-01-02,2\n", "column 'outcome' must hold numbers, got 'x' in data row 1"),
}


@pytest.mark.parametrize(("content", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcomes_that_do_not_belong_are_refused(tmp_path: Path, content: str, expected: str) -> None:
    with pytest.raises(TableError, match=expected) as caught:
        read_outcomes(written(tmp_path, content), members())
    assert len(str(caught.value).splitlines()) == 1


def test_outcomes_that_are_there_twice_and_agree_are_taken_once(tmp_path: Path) -> None:
    path = written(tmp_path, "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,1\n")
    assert read_outcomes(path, members()).table["outcome"].tolist() == [2, 1]


def test_no_column_of_another_outcome_is_suggested(tmp_path: Path) -> None:
    path = written(tmp_path, "time,zero,b20\n2020-01-01,1,2\n2020-01-02,1,2\n")
    with pytest.raises(TableError, match=r"has no column 'b00', but 'zero'; --target says which .* of b00, b20$"):
        read_outcomes(path, members(("b00", "b20")))
    path = written(tmp_path, "time,b0,b20\n2020-01-01,1,2\n2020-01-02,1,2\n")
    with pytest.raises(TableError, match=r"has no column 'b00' \(did you mean 'b0'\?\); --target says"):
        read_outcomes(path, members(("b00", "b20")))
    path = written(tmp_path, "time,load_b00,load_b20\n2020-01-01,1,2\n2020-01-02,1,2\n")
    named = read_outcomes(path, members(("b00", "b20")), targets=["load_b20", "load_b00"])
    assert named.table["b00"].tolist() == [1, 1]


def test_the_number_of_targets_must_agree(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"--target must name 1 columns of outcomes, as many as .* got y, z"):
        read_outcomes(written(tmp_path, "time,y,z\n2020-01-01,1,2\n"), members(), targets=["y", "z"])


def test_outcomes_with_a_row_for_each_site(tmp_path: Path) -> None:
    rows = "north,2020-01-01,1,5\nwest,2020-01-01,10,5\nwest,2020-01-02,20,5\nnorth,2020-01-02,2,5\n"
    path = written(tmp_path, f"site,time,power,lead\n{rows}")
    outcomes = read_outcomes(path, members(("west", "north"))).table
    assert outcomes[["west", "north"]].to_numpy().tolist() == [[20, 2], [10, 1]]
    assert read_outcomes(path, members(("north",))).table["north"].tolist() == [2, 1]
    other = written(tmp_path, f"place,time,power,load\n{rows}")
    named = read_outcomes(other, members(("west", "north")), site="place", targets=["power"]).table
    assert named["north"].tolist() == [2, 1]
    for content, message in {
        f"site,time,power,load\n{rows}": "must have one column of outcomes beside that of sites, got power, load",
        f"site,time,power\n{rows.replace(',5', '')}north,2020-01-01,3\n": "2020-01-01 00:00:00, north has both 1 and 3",
        "site,time,power\nnorth,2020-01-01,1\neast,2020-01-02,2\n": "has no column 'west'",
    }.items():
        with pytest.raises(TableError, match=message):
            read_outcomes(written(tmp_path, content), members(("west", "north")))


def test_outcomes_belong_to_targets_by_their_names(tmp_path: Path) -> None:
    path = written(tmp_path, "time,load_h10,load_h2,load_h0\n2020-01-01,1,2,3\n2020-01-02,4,5,6\n")
    hours = members(("h0", "h2", "h10"))
    in_file_order = read_outcomes(path, hours, targets=["load_h10", "load_h2", "load_h0"])
    assert in_file_order.table[["h0", "h2", "h10"]].to_numpy().tolist() == [[6, 5, 4], [3, 2, 1]]
    same = written(tmp_path, "time,h0,h10,h20\n2020-01-01,1,2,3\n2020-01-02,4,5,6\n", "b.csv")
    ranged = read_outcomes(same, members(("h0", "h10", "h20")), targets=["h0:h20"])
    assert ranged.table.loc["2020-01-01"].tolist() == [1, 2, 3]


def test_outcomes_of_other_names_are_taken_in_order_only_where_the_user_has_given_one(tmp_path: Path) -> None:
    path = written(tmp_path, "time,x,y\n2020-01-01,1,2\n2020-01-02,3,4\n")
    with pytest.raises(TableError, match="must have the names of the forecasts' targets, h0, h1, or names that differ"):
        read_outcomes(path, members(("h0", "h1")), targets=["y", "x"])
    seen = read_outcomes(path, replace(members(("h0", "h1")), ordered=True), targets=["y", "x"])
    assert seen.table.to_numpy().tolist() == [[4, 3], [2, 1]]
    assert seen.notes == (
        "names do not tell which outcome belongs to which forecast: taken in order, y of h0, x of h1",
    )


def test_a_site_is_known_by_its_code_as_it_is_written(tmp_path: Path) -> None:
    rows = "2020-01-01,01,1\n2020-01-01,02,2\n2020-01-02,01,3\n2020-01-02,02,4\n"
    ensemble = read_members(written(tmp_path, f"time,location,m1\n{rows}"))
    assert ensemble.targets == ("01", "02")
    wide = written(tmp_path, "time,02,01\n2020-01-01,2,1\n2020-01-02,4,3\n", "wide.csv")
    for path in (wide, written(tmp_path, f"time,location,y\n{rows}")):
        assert read_outcomes(path, ensemble).table.to_numpy().tolist() == [[1, 2], [3, 4]]


def test_a_case_is_known_by_its_code_as_it_is_written(tmp_path: Path) -> None:
    ensemble = read_members(written(tmp_path, "case,m1\n01,1\nx2,2\n"))
    seen = read_outcomes(written(tmp_path, "case,y\nx2,2\n01,1\n"), ensemble).table
    assert seen["outcome"].tolist() == [1, 2]
    alone = read_members(written(tmp_path, "case,m1\n01,1\n02,2\n"))
    assert alone.index.tolist() == ["01", "02"]
