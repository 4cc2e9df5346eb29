from datetime import date

import numpy as np
import pandas as pd
import pytest

from stakes.data.tables.columns import column_numbers, column_times, zone_notes
from stakes.data.tables.files import parse_delimited
from stakes.errors import StakesError, TableError


def table_of(text: str) -> pd.DataFrame:
    return parse_delimited(text.encode(), "'a.csv'")


CELLS: dict[str, tuple[str, str]] = {
    "decimal comma between commas": ('"12,5"', "got '12,5' in data row 2; write decimals with a point"),
    "space between thousands": ("1 234", "got '1 234' in data row 2; write numbers without spaces"),
    "narrow space between thousands": ("1\u202f234.5", "in data row 2; write numbers without spaces"),
    "comma between thousands": ('"1,234"', "got '1,234' in data row 2; write numbers without a mark between thousands"),
    "points between thousands": ('"1.234.567,8"', "in data row 2; write numbers without a mark between thousands"),
    "apostrophe between thousands": ("1'234", "in data row 2; write numbers without a mark between thousands"),
    "word": ("calm", "got 'calm' in data row 2"),
    "underscore": ("1_000", "got '1_000' in data row 2"),
    "hexadecimal": ("0x10", "got '0x10' in data row 2"),
    "infinite": ("inf", "must be finite, got inf in data row 2"),
    "minus infinite": ("-Infinity", "must be finite, got -inf in data row 2"),
    "beyond the largest number": ("1e999", "must be finite, got inf in data row 2"),
}


@pytest.mark.parametrize(("cell", "expected"), CELLS.values(), ids=CELLS)
def test_a_cell_that_is_no_number_is_named(cell: str, expected: str) -> None:
    table = table_of(f"a,load\n1,3\n2,{cell}\n3,5\n")
    with pytest.raises(TableError, match=expected) as caught:
        column_numbers(table, ["a", "load"], "features")
    assert str(caught.value).startswith("features: column 'load' must")
    assert len(str(caught.value).splitlines()) == 1


def test_commas_between_thousands_are_no_decimal_commas() -> None:
    table = table_of("a\tload\n1\t987\n2\t1,234\n3\t\n")
    with pytest.raises(TableError, match="got '1,234' in data row 2; write numbers without a mark between thousands"):
        column_numbers(table, ["load"], "features")
    for cells in (("1,234", "1,500"), ("987", "1,23"), ("1,234", "0,5"), ("1,234", "9876")):
        table = table_of("a\tload\n" + "".join(f"1\t{cell}\n" for cell in cells))
        assert table["load"].tolist() == [float(cell.replace(",", ".")) for cell in cells]


@pytest.mark.parametrize(
    ("first", "second", "doubtful"),
    [
        (["12,5", "3"], ["987", "1.234"], "1.234"),
        (["12,5", "3"], ["2.345", "1.234"], "2.345"),
        (["12.5", "3"], ["987", "1,234"], "1,234"),
        (["1,234", "2,345"], ["1.234", "NA"], "1,234"),
        (["1", "2"], ["1,234", "1.5"], "1,234"),
    ],
)
def test_a_thousand_or_a_decimal_number_is_not_guessed(first: list[str], second: list[str], doubtful: str) -> None:
    column = "b" if doubtful in second else "a"
    text = "a;b\n" + "".join(f"{left};{right}\n" for left, right in zip(first, second, strict=True))
    with pytest.raises(
        TableError, match=f"column '{column}' of 'a.csv' holds '{doubtful}', which may be [0-9]{{4}} or"
    ):
        table_of(text)


@pytest.mark.parametrize(
    ("first", "second", "numbers"),
    [
        (["12,5", "3"], ["987", "1,234"], [987, 1.234]),  # the first column shows what the comma is
        (["12,5", "3"], ["0.5", "1.234"], [0.5, 1.234]),
        (["12,5", "3"], ["9876", "1.234"], [9876, 1.234]),
        (["12.5", "3"], ["987", "1.234"], [987, 1.234]),
        (["5", "3"], ["987", "1.234"], [987, 1.234]),
    ],
)
def test_a_column_that_is_clear_decides(first: list[str], second: list[str], numbers: list[float]) -> None:
    text = "a;b\n" + "".join(f"{left};{right}\n" for left, right in zip(first, second, strict=True))
    assert table_of(text)["b"].tolist() == numbers


def test_marks_in_a_column_of_text_decide_nothing() -> None:
    assert table_of("a;b\nv 1,5;1.234\n2,5;987\n")["b"].tolist() == [1.234, 987]


def test_columns_that_hold_no_numbers() -> None:
    table = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"]), "lists": [[1, 2]], "temperature": [1.0]})
    for column, expected in (
        ("when", "column 'when' must hold numbers, got dates and times"),
        ("lists", "column 'lists' must hold numbers, got a list of 2 in data row 1"),
        ("temprature", "no column 'temprature'; did you mean 'temperature'"),
    ):
        with pytest.raises(TableError, match=expected):
            column_numbers(table, [column], "features")
    assert column_numbers(table, [], "features").shape == (1, 0)


TIMES: dict[str, tuple[list[object], str]] = {
    "day or month first": (
        ["01.02.2020", "02.02.2020"],
        "got '01.02.2020' in data row 1, where it is not certain which",
    ),
    "slashes": (["2020-01-01", "1/2/2020"], "got '1/2/2020' in data row 2, where it is not certain which is the day"),
    "no date": (["2020-01-01", "soon"], "must hold ISO times such as 2020-02-01 13:00, got 'soon' in data row 2"),
    "now": (["now", "2020-01-01"], "got 'now' in data row 1"),
    "no such day": (["2020-01-01", "2020-02-30"], "got '2020-02-30' in data row 2"),
    "hour 24": (["2020-01-01 24:00"], "got '2020-01-01 24:00' in data row 1"),
    "missing": (["2020-01-01", None], "must hold a time in every row, but data row 2 has none"),
    "missing among times": ([pd.Timestamp("2020-01-01"), pd.NaT], "data row 2 has none"),
    "number": ([20200101, 20200102], "must hold ISO times such as 2020-02-01 13:00, got the number 20200101"),
    "twice": (["2020-01-01", "2020-01-02", "2020-01-01"], "data rows 1 and 3 are both 2020-01-01T00:00:00 .1 such."),
    "clocks set back": (["2020-10-25 02:00", "2020-10-25 02:00"], "where clocks are set back, write UTC or the zone"),
    "zone in some rows": (["2020-01-01T00:00Z", "2020-01-01T01:00"], "time zone in every row or in none.* 1 and 2"),
    "far ahead": (["2020-01-01", "9999-12-31"], "years 1678 to 2261, got 9999-12-31T00:00:00 in data row 2"),
    "long ago": (["0001-01-01"], "years 1678 to 2261, got 0001-01-01T00:00:00 in data row 1"),
    "fractions of a second": (["2020-01-01T00:00:00.5"], "must hold whole seconds"),
}


@pytest.mark.parametrize(("cells", "expected"), TIMES.values(), ids=TIMES)
def test_times_that_are_none_are_named(cells: list[object], expected: str) -> None:
    with pytest.raises(StakesError, match=expected) as caught:
        column_times(pd.DataFrame({"when": cells}), "when")
    assert str(caught.value).startswith("column 'when' must")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ["2020-01-01", "2020-01-02"],
        ["2020-01-01 00:00", "2020-01-02 00:00:00"],
        ["2020/01/01 0:00", "2020/01/02 0:00"],
        ["2020-01-01T00:00Z", "2020-01-02T00:00Z"],
        ["2020-01-01T01:00+01:00", "2020-01-02 02:00:00+0200"],
        ["2019-12-31T19:00:00-05", "2020-01-01T19:00:00-05"],
        [date(2020, 1, 1), date(2020, 1, 2)],
    ],
)
def test_times_are_utc(texts: list[object]) -> None:
    times = column_times(pd.DataFrame({"t": texts}), "t")
    assert times.dtype == "datetime64[s]"
    assert times.tolist() == np.array(["2020-01-01", "2020-01-02"], "datetime64[s]").tolist()


@pytest.mark.parametrize(
    ("cells", "another"),
    [
        (["2020-01-01 00:00"], False),
        (["2020-01-01T00:00Z"], False),
        (["2020-01-01T00:00+00:00"], False),
        (["2020-01-01T01:00+01:00"], True),
        (pd.to_datetime(["2020-01-01"]).tz_localize("UTC"), False),
        (pd.to_datetime(["2020-01-01"]).tz_localize("Europe/Dublin"), True),
    ],
)
def test_another_zone_than_utc_is_noted(cells: object, another: bool) -> None:
    table = pd.DataFrame({"time": cells})
    assert len(zone_notes(table, "time")) == another
    assert zone_notes(table, None) == ()
