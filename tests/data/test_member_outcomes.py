"""Which outcomes belong to which forecasts, where each has a file of its own and a case may lack nothing."""

from pathlib import Path

import numpy as np
import pytest
from forecast_files import read, written
from refusals import refuses

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import StakesError, TableError

ROWS = "north,2020-01-01,1,5\nwest,2020-01-01,10,5\nwest,2020-01-02,20,5\nnorth,2020-01-02,2,5\n"


def members(folder: Path, *targets: str) -> Path:
    """Three members of each target on two days, the later one first."""
    names = [f"{target}_m{member}" for target in targets for member in range(3)] or ["m0", "m1", "m2"]
    ones = ",1" * len(names)
    return written(folder, f"time,{','.join(names)}\n2020-01-02{ones}\n2020-01-01{ones}\n", "members.csv")


def judged(folder: Path, content: str, *targets: str, **said: object) -> ForecastSet:
    return read(members(folder, *targets), written(folder, content), **said)


def seen(folder: Path, content: str, *targets: str, **said: object) -> list[list[float]]:
    outcomes = judged(folder, content, *targets, **said).outcomes
    return [list(row) for row in outcomes.tolist()]


def test_outcomes_are_matched_by_label(tmp_path: Path) -> None:
    assert seen(tmp_path, "time,load\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n") == [[2], [1]]
    several = "when,b,a,x\n2020-01-01T00:00Z,1,10,0\n2020-01-02T00:00Z,2,,0\n"
    path = members(tmp_path, "a", "b")
    path.write_text(path.read_text().replace("time", "when"))
    given = read(path, written(tmp_path, several), time="when")
    assert given.outcomes.tolist() == [[10, 1]]
    assert "1 of 2 cases lack an outcome and are left out" in given.notes
    assert seen(tmp_path, several.replace("when", "time"), outcomes=("x",)) == [[0], [0]]


def test_outcomes_without_labels_are_matched_by_row(tmp_path: Path) -> None:
    rows = written(tmp_path, "m1,m2\n1,2\n,4\n5,6\n7,\n", "rows.csv")
    for content in ("y\n1\n2\n3\n4\n", "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n2020-01-04,4\n"):
        given = read(rows, written(tmp_path, content))
        assert given.index.tolist() == [0, 2]
        assert given.outcomes[:, 0].tolist() == [1, 3]
    for count in (3, 5):
        with pytest.raises(TableError, match=f"has {count} rows, .* 4;"):
            read(rows, written(tmp_path, "y\n" + "1\n" * count))


def test_coordinates_are_no_outcomes(tmp_path: Path) -> None:
    assert seen(tmp_path, "time,lat,lon,power\n2020-01-01,52,5,1\n2020-01-02,52,5,2\n") == [[2], [1]]


def test_outcomes_that_are_there_twice_and_agree_are_taken_once(tmp_path: Path) -> None:
    assert seen(tmp_path, "time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,1\n") == [[2], [1]]


REFUSED = {
    "label twice": ("time,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,3\n", {}, "00:00:00 has both 1 and 3"),
    "text": ("time,outcome\n2020-01-01,x\n2020-01-02,2\n", {}, "'outcome' must hold numbers, got 'x' in data row 1"),
    "a case without a row": ("time,y\n2020-01-01,1\n", {}, "no outcome for 2020-01-02 00:00:00, a case of the"),
    "labels for times": ("case,y\na,1\n", {}, "cases by label, .*by time"),
    "too many": ("time,y,z\n2020-01-01,1,2\n", {"outcomes": ("y", "z")}, "an outcome for each target .* got 2: y, z"),
    "no row of the site": ("site,time,y\nnorth,2020-01-01,1\neast,2020-01-02,2\n", {}, "no outcome of site 'outcome'"),
    "two columns of sites": (f"site,time,power,load\n{ROWS}", {}, "beside that of sites, got power, load"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_outcomes_that_do_not_belong_are_refused(tmp_path: Path, name: str) -> None:
    content, said, expected = REFUSED[name]
    refuses(StakesError, expected, judged, tmp_path, content, **said)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("zero,b20", "'b00'"),
        ("b0,b20", "'b00'"),
    ],
)
def test_no_column_of_another_outcome_is_suggested(tmp_path: Path, there: str, expected: str) -> None:
    refuses(TableError, expected, judged, tmp_path, f"time,{there}\n2020-01-01,1,2\n2020-01-02,1,2\n", "b00", "b20")


def test_outcomes_with_a_row_for_each_site(tmp_path: Path) -> None:
    content = f"site,time,power,lead\n{ROWS}"
    assert seen(tmp_path, content, "west", "north") == [[20, 2], [10, 1]]
    assert seen(tmp_path, content, "west", "north", sites=("north",)) == [[2], [1]]
    assert seen(tmp_path, content.replace("lead", "load"), "west", "north", outcomes=("power",)) == [[20, 2], [10, 1]]
    with pytest.raises(TableError, match="2020-01-01 00:00:00, north has both 1 and 3"):
        judged(tmp_path, f"{content.replace(',lead', '').replace(',5', '')}north,2020-01-01,3\n", "west", "north")


def test_outcomes_of_other_names_are_taken_in_order_only_where_the_user_has_given_one(tmp_path: Path) -> None:
    content = "time,x,y\n2020-01-01,1,2\n2020-01-02,3,4\n"
    refuses(TableError, "must have the names of the", judged, tmp_path, content, "h0", "h1", outcomes=("y", "x"))
    given = judged(tmp_path, content, "h0", "h1", outcomes=("y", "x"), sites=("h0", "h1"))
    np.testing.assert_array_equal(given.outcomes, [[4, 3], [2, 1]])
    told = "outcomes do not have the names of forecasts and are matched in order: y of h0, x of h1"
    assert told in given.notes


@pytest.mark.parametrize("wide", [True, False])
def test_a_site_is_known_by_its_code_as_it_is_written(tmp_path: Path, wide: bool) -> None:
    rows = "2020-01-01,01,1\n2020-01-01,02,2\n2020-01-02,01,3\n2020-01-02,02,4\n"
    ahead = written(tmp_path, f"time,location,m1,m2\n{rows.replace(chr(10), ',9' + chr(10))}", "ahead.csv")
    content = "time,02,01\n2020-01-01,2,1\n2020-01-02,4,3\n" if wide else f"time,location,y\n{rows}"
    given = read(ahead, written(tmp_path, content))
    assert given.targets == ("01", "02")
    np.testing.assert_array_equal(given.outcomes, [[1, 2], [3, 4]])


def test_a_case_is_known_by_its_code_as_it_is_written(tmp_path: Path) -> None:
    ahead = written(tmp_path, "case,m1,m2\n01,1,1\nx2,2,2\n", "ahead.csv")
    np.testing.assert_array_equal(read(ahead, written(tmp_path, "case,y\nx2,2\n01,1\n")).outcomes, [[1], [2]])
    assert read(written(tmp_path, "case,m1\n01,1\n02,2\n")).index.tolist() == ["01", "02"]


def test_todays_action_may_be_unknown_and_of_each_site(tmp_path: Path) -> None:
    content = "time,west,north,did_north,did_west\n2020-01-01,1,2,3,\n2020-01-02,4,5,6,7\n"
    each = judged(tmp_path, content, "west", "north", sites="each", today=("did_north", "did_west"))
    np.testing.assert_array_equal(each.today, [7, 6, np.nan, 3])
    one = judged(tmp_path, "time,y,did\n2020-01-01,1,\n2020-01-02,4,5\n", outcomes=("y",), today=("did",))
    np.testing.assert_array_equal(one.today, [5, np.nan])
