from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from stakes.data.tables.layout import DataQuality, MissingColumns, TableLayout, left_out_notes, missing_columns
from stakes.settings import from_plain, to_plain

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
