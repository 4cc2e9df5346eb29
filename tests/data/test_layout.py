"""Which columns of a table are what, and what became of its rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from stakes.data.tables.layout import (
    DataQuality,
    MissingColumns,
    TableLayout,
    left_out_notes,
    missing_columns,
)
from stakes.errors import SettingError, StakesError, TableError
from stakes.settings import from_plain, to_plain


def hourly(count: int = 8, **columns: Any) -> pd.DataFrame:
    """load = 0, 1, 2 ... at full hours, temperature ten times that, and columns besides."""
    hours = pd.date_range("2020-01-01", periods=count, freq="h")
    numbers = np.arange(float(count))
    return pd.DataFrame({"time": hours, "load": numbers, "temperature": 10 * numbers, **columns})


def rows(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [5.0, 6, 8, 7], **columns})


LAGGED = TableLayout(("load",), ("load",), time="time", lags=(0, 2), lead=3)


def test_rows_are_cases_as_they_stand() -> None:
    layout = TableLayout(("y",)).resolved(rows(name=["a", "b", "c", "d"], empty=np.nan))
    assert layout.features == layout.feature_names == ("x",)
    cases = layout.cases(rows())
    assert cases.feature_table["x"].tolist() == [1, 2, 3, 4]
    assert cases.outcome_table["y"].tolist() == [5, 6, 8, 7]
    assert cases.times is cases.today is None
    assert cases.feature_table.index.tolist() == [1, 2, 3, 4]
    assert cases.feature_table.index.name == "row"


def test_features_do_not_depend_on_the_order_of_columns() -> None:
    table = hourly(wind=1.0, action=0.0)
    turned = table[table.columns[::-1]]
    for layout in (
        TableLayout(("load",), time="time", baseline_action="action"),
        TableLayout(("load",), time="time", lags=(0, 1), lead=1, known=("wind",), baseline_action="action"),
    ):
        one, other = layout.cases(table), layout.cases(turned)
        pd.testing.assert_frame_equal(one.feature_table, other.feature_table)
        assert layout.resolved(table) == layout.resolved(turned)
        resolved = layout.resolved(table)
        pd.testing.assert_frame_equal(
            resolved.inputs(table.assign(more=1)).feature_table, resolved.inputs(turned).feature_table
        )


def test_default_features_leave_out_what_is_something_else() -> None:
    table = hourly(action=1.0, day=pd.Timestamp("2020-01-01"), note="x")
    layout = TableLayout(("load",), time="time", baseline_action="action")
    assert layout.resolved(table).features == ("temperature",)
    lagged = replace(layout, lags=(0,), lead=1)
    assert lagged.resolved(table).features == ("load", "temperature")
    assert layout.resolved(table).resolved(rows()) == layout.resolved(table)


def test_lagged_features_by_definition() -> None:
    layout = replace(LAGGED, known=("temperature",), calendar=("hour",), baseline_action="action")
    table = hourly(action=np.arange(100.0, 108.0))
    cases = layout.cases(table)
    assert cases.feature_table.columns.tolist() == list(layout.feature_names)
    assert layout.feature_names == ("load@0h", "load@-2h", "temperature@+3h", "hour_sin", "hour_cos")
    assert cases.feature_table["load@0h"].tolist() == [2, 3, 4]
    assert cases.feature_table["load@-2h"].tolist() == [0, 1, 2]
    assert cases.feature_table["temperature@+3h"].tolist() == [50, 60, 70]
    np.testing.assert_allclose(
        cases.feature_table["hour_cos"], np.cos(2 * np.pi * np.array([5, 6, 7]) / 24), atol=1e-12
    )
    assert cases.outcome_table["load"].tolist() == [5, 6, 7]
    assert cases.times.astype(str).tolist() == [f"2020-01-01T0{hour}:00:00" for hour in (5, 6, 7)]
    assert cases.today.tolist() == [105, 106, 107]
    assert cases.quality.left_out == {"the lags reach before the first row": 5}


def test_inputs_go_on_for_the_lead() -> None:
    inputs = LAGGED.inputs(hourly())
    assert inputs.outcome_names == ()
    assert inputs.times.astype(str).tolist() == [f"2020-01-01T{hour:02}:00:00" for hour in range(5, 11)]
    assert inputs.feature_table["load@0h"].tolist() == [2, 3, 4, 5, 6, 7]
    pd.testing.assert_frame_equal(inputs.feature_table.iloc[:3], LAGGED.cases(hourly()).feature_table)


def test_inputs_need_no_targets_and_few_rows() -> None:
    layout = TableLayout(("load",), ("temperature",), time="time", lags=(0, 24), lead=6, baseline_action="action")
    few = pd.DataFrame({"time": ["2020-01-02T00:00", "2020-01-01T00:00"], "temperature": [2.0, 1.0]})
    inputs = layout.inputs(few)
    assert inputs.feature_table.to_numpy().tolist() == [[2, 1]]
    assert inputs.times.astype(str).tolist() == ["2020-01-02T06:00:00"]
    assert inputs.today is None
    one = replace(layout, lags=(0,)).inputs(few.iloc[:1])
    assert one.feature_table.to_numpy().tolist() == [[2]]
    assert one.quality.step_hours is None


def test_a_baseline_action_at_a_time_to_come() -> None:
    inputs = replace(LAGGED, baseline_action="action").inputs(hourly(action=1.0))
    np.testing.assert_array_equal(inputs.today, [1, 1, 1, np.nan, np.nan, np.nan])


def test_rows_with_missing_values_are_left_out_and_counted() -> None:
    table = rows(x=[1.0, np.nan, 3, np.nan], y=[1.0, 2, np.nan, np.nan], z=[1.0, 2, 3, 4]).reindex(range(5))
    table.loc[4] = [4.0, 9, 5]
    layout = TableLayout(("y",), ("x", "z"))
    cases = layout.cases(table)
    assert cases.feature_table.index.tolist() == [1, 5]
    assert cases.quality.left_out == {"a feature is missing": 2, "the outcome is missing": 1}
    assert (cases.quality.rows, cases.quality.used) == (5, 2)
    assert layout.inputs(table).feature_table.index.tolist() == [1, 3, 5]


def test_rows_are_put_in_time_order() -> None:
    table = hourly(action=np.arange(8.0)).sample(frac=1, random_state=3)
    layout = TableLayout(("load",), ("temperature",), time="time", calendar=("hour",), baseline_action="action")
    cases = layout.cases(table)
    assert (np.diff(cases.times).astype(int) == 3600).all()
    assert cases.feature_table["temperature"].tolist() == [10 * hour for hour in range(8)]
    assert cases.today.tolist() == list(range(8))
    np.testing.assert_allclose(cases.feature_table["hour_sin"], np.sin(2 * np.pi * np.arange(8) / 24), atol=1e-12)
    assert cases.quality.unsorted > 0
    pd.testing.assert_frame_equal(LAGGED.cases(table).feature_table, LAGGED.cases(hourly()).feature_table)


def test_quality_says_what_is_there() -> None:
    table = hourly(always=3.0).drop(index=[4, 5])
    table.loc[0, "temperature"] = np.nan
    quality = TableLayout(("load",), time="time", lags=(0,), lead=1).cases(table).quality
    assert (quality.first, quality.last, quality.step_hours) == ("2020-01-01T00:00:00", "2020-01-01T07:00:00", 1.0)
    assert (quality.rows, quality.used, quality.gaps, quality.unsorted) == (6, 3, 1, 0)
    assert quality.constant == ("always",)
    assert quality.columns["temperature"] == {"min": 10, "mean": 38, "max": 70, "missing": 1}
    assert quality.left_out == {
        "the lags reach before the first row": 1,
        "a time it needs is absent": 3,
        "a value it needs is missing": 1,
    }
    assert from_plain(DataQuality, to_plain(quality)) == quality


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no target": ({"targets": ()}, "targets must name at least one column"),
    "one text for several": ({"targets": "load"}, "targets must be a tuple of names, got 'load'"),
    "feature twice": ({"features": ("a", "a")}, "features must differ from each other, got 'a' twice"),
    "lag twice": ({"lags": (0, 0)}, "lags must differ from each other, got 0 twice"),
    "negative lag": ({"lags": (-1,)}, "lags must be a number of hours from 0 on, got -1"),
    "lead of zero": ({"lead": 0}, "lead must be a number of hours above 0, got 0"),
    "no time": ({"time": None}, "lags need lead, .* and the column time"),
    "known without lags": ({"lags": (), "lead": None, "known": ("a",), "features": ("b",)}, "known needs lags"),
    "target as feature": ({"lags": (), "lead": None}, "the target 'load' cannot be a feature of its own time"),
    "target known": ({"known": ("load",)}, "the target 'load' cannot be a feature of its own time"),
    "time as feature": ({"features": ("time",)}, "the column 'time' is time, so it cannot be a target or a feature"),
    "action as feature": ({"baseline_action": "load"}, "the column 'load' is baseline_action"),
}


@pytest.mark.parametrize(("changes", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_a_layout_that_cannot_be_is_refused(changes: dict[str, Any], expected: str) -> None:
    refuses(SettingError, expected, replace, LAGGED, **changes)


ROWS = TableLayout(("y",), ("x",))
TABLES: dict[str, tuple[TableLayout, pd.DataFrame, str]] = {
    "feature not there": (replace(ROWS, features=("X1",)), rows(), "features: the table has no column 'X1'"),
    "time not there": (replace(ROWS, time="t"), rows(), "time: the table has no column 't'"),
    "action not there": (replace(ROWS, baseline_action="now"), rows(), "baseline_action: the table has no column"),
    "known not there": (replace(LAGGED, known=("wind",)), hourly(), "known: the table has no column 'wind'"),
    "one row": (ROWS, rows().iloc[:1], "the table has 1 row, expected many"),
    "one complete row": (ROWS, rows(x=[1, None, None, None]), "only one case .* is complete.*: in 3 a feature is"),
    "no complete row": (ROWS, rows(x=[1, None, None, None], y=[None, 1, 2, 3]), "no row of the table is"),
    "feature without a value": (ROWS, rows(x=np.nan), "features: column 'x' has no value in any row"),
    "target without a value": (LAGGED, hourly().assign(load=np.nan), "column 'load' has no value in any row"),
    "beyond single precision": (ROWS, rows(x=[1, 2, -1e39, 4]), r"features: column 'x' must hold numbers of at"),
    "target never changes": (ROWS, rows(y=5.0), "the target 'y' is 5 in all 4 cases: nothing to forecast"),
    "text among numbers": (TableLayout(("y",)), rows(z=["1", "2", "?", "4"]), r"features: column 'z' .* got '\?'"),
    "time twice": (replace(ROWS, time="t"), rows(t=["2020-01-01"] * 4), "must have each time once, but data rows"),
    "irregular times": (
        LAGGED,
        hourly().assign(time=[*hourly()["time"][:7], pd.Timestamp("2020-01-01 07:30")]),
        "column 'time' must have times whole steps of 1 h apart for lags, but 2020-01-01T07:30:00 is not",
    ),
    "lead between the steps": (replace(LAGGED, lead=1.5), hourly(), "lead must be a multiple of the table's"),
    "lags beyond the table": (replace(LAGGED, lags=(99,)), hourly(), "8 need inputs from outside the range"),
}


@pytest.mark.parametrize(("layout", "table", "expected"), TABLES.values(), ids=TABLES)
def test_a_table_that_does_not_fit_is_refused(layout: TableLayout, table: pd.DataFrame, expected: str) -> None:
    refuses(StakesError, expected, layout.cases, table)


def test_inputs_that_do_not_fit_are_refused() -> None:
    refuses(TableError, "no target time has all its features in the table: in 2 a", LAGGED.inputs, hourly().iloc[:2])
    refuses(SettingError, "features", TableLayout(("y",)).inputs, rows())
    with pytest.raises(TableError, match="no row of the table is complete: in 4 a feature is missing"):
        replace(ROWS, features=("x", "z")).inputs(rows(x=[1, 2, np.nan, np.nan], z=[np.nan, np.nan, 3, 4]))
    refuses(TableError, "'x'", ROWS.inputs, rows(x=np.nan))


def test_columns_as_ranges() -> None:
    names = ["h1", "h2", "h3", "f1", "f2", "f3", "wind", "did1", "did2", "did3"]
    table = pd.DataFrame(np.arange(50.0).reshape(5, 10) % 7, columns=names)
    layout = TableLayout(("h1:h3",), ("f1:f2", "wind"), baseline_action="did1:did3").resolved(table)
    assert (layout.targets, layout.features) == (("h1", "h2", "h3"), ("f1", "f2", "wind"))
    cases = layout.cases(table)
    assert cases.today.tolist() == table[["did1", "did2", "did3"]].to_numpy().tolist()
    assert layout.unused(table) == ("f3",)
    others = TableLayout(("h1:h3",), baseline_action="did1,did3").resolved(table)
    assert others.features == ("did2", "f1", "f2", "f3", "wind")
    assert layout.inputs(table[["f1", "f2", "wind"]]).today is None
    refuses(TableError, "'h9'", TableLayout(("h1:h9",)).resolved, table)
    refuses(TableError, "ranges that count up, got h3:h1", TableLayout(("h3:h1",)).resolved, table)
    refuses(SettingError, "'h2'", TableLayout(("h1:h3",), ("h2",)).resolved, table)


DAYS = pd.date_range("1987-12-20", periods=30, freq="D")  # 1988 begins with the 13th
LAYOUT = TableLayout(("y",), ("a", "t_dinard", "h_dinard"), time="day")


def table() -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(30, 4))
    return pd.DataFrame(values, columns=["a", "t_dinard", "h_dinard", "y"]).assign(day=DAYS)


def test_the_column_to_blame_and_what_its_absence_gives_back() -> None:
    rows = table()
    rows.loc[:11, "t_dinard"] = np.nan
    rows.loc[[3, 20], "a"] = np.nan
    rows.loc[5, "y"] = np.nan
    quality = LAYOUT.cases(rows).quality
    assert left_out_notes(quality) == (
        "13 of 30 rows left out: a feature is missing",
        "'t_dinard' is missing before 1988-01-01: without it 10 more rows could be used",
    )
    without = replace(LAYOUT, features=("a", "h_dinard"))
    assert len(without.cases(rows)) == quality.used + 10
    assert from_plain(DataQuality, to_plain(quality)) == quality


def test_columns_that_are_missing_together_are_blamed_together() -> None:
    rows = table()
    rows.loc[20:, ["t_dinard", "h_dinard"]] = np.nan
    rows.loc[4, "h_dinard"] = np.nan
    assert LAYOUT.cases(rows).quality.blamed == MissingColumns(("t_dinard", "h_dinard"), 11, "in 11 rows")
    rows.loc[4, "h_dinard"] = 1.0
    (_, sentence) = left_out_notes(LAYOUT.cases(rows).quality)
    assert sentence == "'t_dinard', 'h_dinard' are missing after 1988-01-08: without them 10 more rows could be used"


def test_a_lagged_column_is_blamed_for_every_target_time_that_needs_it() -> None:
    rows = table()
    rows.loc[[10, 11], "a"] = np.nan
    layout = TableLayout(("y",), ("a", "h_dinard"), "day", (0, 24), 24, ("t_dinard",))
    cases = layout.cases(rows)
    assert cases.quality.blamed == MissingColumns(("a",), 3, "in 2 rows")
    assert len(replace(layout, features=("h_dinard",)).cases(rows)) == len(cases) + 3
    rows.loc[[20], "t_dinard"] = np.nan
    assert layout.cases(rows).quality.left_out["a value it needs is missing"] == 4


def test_a_target_is_not_blamed_as_there_is_no_case_without_it() -> None:
    rows = table()
    rows.loc[3, "y"] = np.nan
    cases = TableLayout(("y",), ("y", "a"), "day", (0, 24), 24).cases(rows)
    assert cases.quality.left_out["a value it needs is missing"] == 3
    assert cases.quality.blamed is None


def test_nobody_is_to_blame_for_a_missing_outcome_or_a_row_to_decide_for() -> None:
    rows = table()
    rows.loc[3, "y"] = np.nan
    assert LAYOUT.cases(rows).quality.blamed is None
    rows.loc[3, "a"] = np.nan
    assert LAYOUT.cases(rows).quality.blamed is None
    assert LAYOUT.inputs(rows).quality.blamed is None


@pytest.mark.parametrize(("rows", "columns"), [(40, 70), (300, 9)])
def test_the_fit_without_them_can_use_as_many_rows_as_is_said(rows: int, columns: int) -> None:
    generator = np.random.default_rng(rows)
    values = generator.normal(size=(rows, columns))
    values[generator.random(values.shape) < 0.02] = np.nan
    names = [f"c{place}" for place in range(columns)]
    missing = np.isnan(values)[np.isnan(values).any(1)]
    blamed = missing_columns(missing, names, dict(zip(names, values.T, strict=True)), None)
    kept = np.array([name not in blamed.columns for name in names])
    more = (~np.isnan(values[:, kept]).any(1)).sum() - (~np.isnan(values).any(1)).sum()
    assert blamed.given_back == more > 0
