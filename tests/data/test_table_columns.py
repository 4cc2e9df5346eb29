"""Columns of a table as numbers, times, directions and labels, looked up by name."""

import re
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from stakes.data.forecasts.columns import chosen_columns
from stakes.data.tables.columns import (
    case_labels,
    column_numbers,
    column_times,
    likely_directions,
    newest_cases,
    zone_notes,
)
from stakes.data.tables.files import parse_delimited
from stakes.data.tables.layout import TableLayout
from stakes.errors import (
    SettingError,
    StakesError,
    TableError,
    did_you_mean,
    listed,
    names_text,
)


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
    assert refuses(TableError, expected, column_numbers, table, ["a", "load"], "features").startswith(
        "features: column 'load' must"
    )


def test_commas_between_thousands_are_no_decimal_commas() -> None:
    table = table_of("a\tload\n1\t987\n2\t1,234\n3\t\n")
    refuses(TableError, "got '1,234' in data row 2; write numbers", column_numbers, table, ["load"], "features")
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
    refuses(TableError, f"column '{column}' of 'a.csv' holds '{doubtful}', which may be [0-9]{{4}} or", table_of, text)


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


def test_columns_that_hold_no_numbers() -> None:
    table = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"]), "lists": [[1, 2]], "temperature": [1.0]})
    for column, expected in (
        ("when", "column 'when' must hold numbers, got dates and times"),
        ("lists", "column 'lists' must hold numbers, got a list of 2 in data row 1"),
        ("temprature", "no column 'temprature'; did you mean 'temperature'"),
    ):
        refuses(TableError, expected, column_numbers, table, [column], "features")
    assert column_numbers(table, [], "features").shape == (1, 0)


TIMES: dict[str, tuple[list[object], str]] = {
    "day or month first": (["01.02.2020", "02.02.2020"], "got '01.02.2020' in data row 1; write the year"),
    "slashes": (["2020-01-01", "1/2/2020"], "got '1/2/2020' in data row 2"),
    "no date": (["2020-01-01", "soon"], "must hold ISO times such as 2020-02-01 13:00, got 'soon' in data row 2"),
    "now": (["now", "2020-01-01"], "got 'now' in data row 1"),
    "no such day": (["2020-01-01", "2020-02-30"], "got '2020-02-30' in data row 2"),
    "hour 24": (["2020-01-01 24:00"], "got '2020-01-01 24:00' in data row 1"),
    "missing": (["2020-01-01", None], "must hold a time in every row, but data row 2 has none"),
    "missing among times": ([pd.Timestamp("2020-01-01"), pd.NaT], "data row 2 has none"),
    "number": ([20200101, 20200102], "must hold ISO times such as 2020-02-01 13:00, got the number 20200101"),
    "twice": (["2020-01-01", "2020-01-02", "2020-01-01"], "data rows 1 and 3 are both 2020-01-01T00:00:00"),
    "clocks set back": (["2020-10-25 02:00", "2020-10-25 02:00"], "where clocks are set back"),
    "zone in some rows": (["2020-01-01T00:00Z", "2020-01-01T01:00"], "time zone in every row or in none.* 1 and 2"),
    "far ahead": (["2020-01-01", "9999-12-31"], "years 1678 to 2261, got 9999-12-31T00:00:00 in data row 2"),
    "long ago": (["0001-01-01"], "years 1678 to 2261, got 0001-01-01T00:00:00 in data row 1"),
    "fractions of a second": (["2020-01-01T00:00:00.5"], "must hold whole seconds"),
}


@pytest.mark.parametrize(("cells", "expected"), TIMES.values(), ids=TIMES)
def test_times_that_are_none_are_named(cells: list[object], expected: str) -> None:
    assert refuses(StakesError, expected, column_times, pd.DataFrame({"when": cells}), "when").startswith(
        "column 'when' must"
    )


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


HOURS = ["h0", "h1", "h10", "h11", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"]  # as sorting names leaves them
BESIDE = [f"{name}_h{hour:02}" for hour in range(4) for name in ("load", "forecast")]


def test_a_range_of_numbered_columns_goes_by_the_numbers() -> None:
    assert chosen_columns(["h0:h11"], HOURS, "'a.csv'") == [f"h{hour}" for hour in range(12)]
    assert chosen_columns(["load_h00:load_h03"], BESIDE, "'a.csv'") == BESIDE[::2]
    assert chosen_columns(["f006:f018"], ["f006", "f012", "f018", "f024"], "'a.csv'") == ["f006", "f012", "f018"]
    assert chosen_columns(["load_h00:forecast_h01"], BESIDE, "'a.csv'") == BESIDE[:4]
    assert chosen_columns(["h1:h1"], HOURS, "'a.csv'") == ["h1"]


@pytest.mark.parametrize(
    ("wanted", "columns", "said"),
    [
        ("h00:h03", ["h00", "h01", "h03"], "h00:h01,h03"),
        ("h1:h3", ["h1", "h2", "h02", "h3"], "do not count up evenly"),
        ("load_h02:forecast_h01", BESIDE, "'forecast_h01' comes before 'load_h02'"),
    ],
)
def test_ranges_that_mean_nothing_certain(wanted: str, columns: list[str], said: str) -> None:
    refuses(TableError, re.escape(said), chosen_columns, [wanted], columns, "'a.csv'")


def test_a_table_with_too_many_columns_is_refused() -> None:
    header = ",".join(f"c{place}" for place in range(100_001))
    row = ",".join(["1"] * 100_001)
    refuses(TableError, "has 100,001 columns, expected at", parse_delimited, f"{header}\n{row}\n".encode(), "'a.csv'")


def test_near_names_are_looked_for_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"c{place}" for place in range(20_000)]
    monkeypatch.setattr("stakes.errors.get_close_matches", lambda *_, **__: pytest.fail("takes minutes"))
    assert did_you_mean("C19999", many) == "did you mean 'c19999'?"
    assert did_you_mean("cc", many).endswith("c48, c49 and 19,950 more")
    assert did_you_mean("c" * 5000, ["d"]) == "there are d"
    assert listed(["a", "b"]) == "a, b"


def test_names_that_count_up_are_told_by_the_first_and_the_last() -> None:
    hours = [f"load[h{hour:02}]" for hour in range(24)]
    assert names_text(hours) == "load[h00] ... load[h23] (24)"
    for names in (hours[:6], hours[::-1], hours[:7] + hours[8:], [*hours, "total"]):
        assert names_text(names) == listed(names)


AROUND = [0.0, 90.0, 271.0, 359.0, np.nan]
ROWS = TableLayout(("y",), ("a", "wd", "z"), directions=("wd",))


def table() -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(40, 3))
    degrees = np.random.default_rng(1).integers(0, 361, 40).astype(float)
    times = pd.date_range("2020-01-01", periods=40, freq="h")
    return pd.DataFrame(values, columns=["a", "z", "y"]).assign(wd=degrees, time=times)


@pytest.mark.parametrize(
    ("name", "values", "is_one"),
    [
        ("wd", AROUND, True),
        ("WD100", AROUND, True),
        ("site1_wd_10m", AROUND, True),
        ("winddir", AROUND, True),
        ("Wind Direction", AROUND, True),
        ("wdir10", AROUND, True),
        ("direct_radiation", AROUND, False),
        ("load", AROUND, False),
        ("wdemand", AROUND, False),
        ("wind_dir", [0.0, 90.0, 270.0], False),
        ("wind_dir", [100.0, 359.0], False),
        ("wind_dir", [0.0, 361.0], False),
        ("wind_dir", [-180.0, 180.0], False),
    ],
)
def test_directions_are_known_by_name_and_values(name: str, values: list[float], is_one: bool) -> None:
    assert likely_directions(pd.DataFrame({name: values}), [name]) == ((name,) if is_one else ())


def test_a_table_that_has_the_sine_already_is_left_alone() -> None:
    assert likely_directions(pd.DataFrame({"wd": AROUND, "wd_sin": AROUND}), ["wd"]) == ()


def test_rows_have_sine_and_cosine() -> None:
    features = ROWS.cases(table()).feature_table
    assert tuple(features.columns) == ROWS.feature_names == ("a", "wd_sin", "wd_cos", "z")
    np.testing.assert_allclose(features["wd_cos"], np.cos(np.deg2rad(table()["wd"])))
    np.testing.assert_array_equal(ROWS.inputs(table().drop(columns="y")).feature_table, features)


def test_lagged_and_known_directions_are_those_of_their_columns() -> None:
    layout = TableLayout(("y",), ("a", "wd"), "time", (0, 3), 2, ("wd", "z"), directions=("wd",))
    angle = np.deg2rad(table()["wd"])
    waved = table().assign(wd_sin=np.sin(angle), wd_cos=np.cos(angle))
    plain = TableLayout(("y",), ("a", "wd_sin", "wd_cos"), "time", (0, 3), 2, ("wd_sin", "wd_cos", "z"))
    pd.testing.assert_frame_equal(layout.cases(table()).feature_table, plain.cases(waved).feature_table)
    assert layout.feature_names == plain.feature_names


def test_a_target_keeps_its_degrees() -> None:
    layout = TableLayout(("wd",), ("wd",), "time", (0,), 1, directions=("wd",))
    cases = layout.cases(table())
    np.testing.assert_array_equal(cases.outcome_table["wd"], table()["wd"][1:])
    assert list(cases.feature_table) == ["wd_sin@0h", "wd_cos@0h"]


def test_a_missing_direction_is_blamed_by_its_own_name() -> None:
    rows = table()
    rows.loc[:4, "wd"] = np.nan
    blamed = ROWS.cases(rows).quality.blamed
    assert (blamed.columns, blamed.given_back) == (("wd",), 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"directions": ("b",)}, "directions"),
        ({"features": ("wd", "wd_sin")}, "'wd_sin'"),
        ({"directions": ("wd", "wd")}, "directions"),
    ],
)
def test_wrong_directions_are_refused(changes: dict[str, tuple[str, ...]], message: str) -> None:
    refuses(SettingError, message, replace, ROWS, **changes)


def test_rows_are_counted_from_1_and_all_else_stays() -> None:
    assert case_labels(pd.RangeIndex(3, name="row")).tolist() == [1, 2, 3]
    for index in (pd.Index(["a", "b"], name="case"), pd.DatetimeIndex(["2020-01-01"], name="time")):
        assert case_labels(index) is index


def test_rows_and_the_newest_case_of_each_site() -> None:
    each = pd.MultiIndex.from_product([[0, 1], ["north", "west"]], names=["row", "site"])
    assert case_labels(each).tolist() == [(1, "north"), (1, "west"), (2, "north"), (2, "west")]
    assert newest_cases(each).tolist() == [2, 3]
    assert newest_cases(pd.Index([3, 9, 4])).tolist() == [1]
