"""The last test cases of a fit, kept to be looked at."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from load_tables import load_table
from refusals import refuses

from stakes.artifacts.folder import STORED_CASES, load_cases, save_cases
from stakes.data.case_table import Category
from stakes.data.tables.layout import TableLayout
from stakes.errors import CheckpointError, TableError

ROWS = TableLayout(("y", "z"), features=("a", "b"))


def row_cases(rows: int = 6) -> pd.DataFrame:
    return pd.DataFrame(np.arange(4.0 * rows).reshape(rows, 4), columns=["a", "b", "y", "z"])


def test_cases_come_back_as_they_were(tmp_path: Path) -> None:
    cases = ROWS.cases(row_cases())
    save_cases(tmp_path, cases)
    stored = load_cases(tmp_path, ("a", "b"), ("y", "z"))
    assert stored.index.tolist() == [f"row {row}" for row in range(1, 7)]
    np.testing.assert_array_equal(stored.features, cases.features)
    np.testing.assert_array_equal(stored.outcome, cases.outcome)


def test_only_the_last_ones_are_kept_and_times_are_labels(tmp_path: Path) -> None:
    layout = TableLayout(("load",), features=("load",), time="time", lags=(0, 12), lead=12)
    cases = layout.cases(load_table(300))
    save_cases(tmp_path, cases)
    stored = load_cases(tmp_path, layout.feature_names, ("load",))
    assert len(stored.index) == 200
    assert stored.index[-1] == cases.feature_table.index[-1].isoformat()
    np.testing.assert_array_equal(stored.features, cases.features[-200:])


def test_words_are_kept_with_their_cases(tmp_path: Path) -> None:
    words = ["calm", "storm", "calm", "gale", "calm", "storm"]
    save_cases(tmp_path, replace(ROWS.cases(row_cases()), categories={"weather": Category.of(words)}))
    stored = load_cases(tmp_path, ("a", "b"), ("y", "z"))
    assert stored.categories["weather"].words.tolist() == words


def test_cases_of_another_fit_are_refused(tmp_path: Path) -> None:
    save_cases(tmp_path, ROWS.cases(row_cases()))
    refuses(TableError, "feature c", load_cases, tmp_path, ("a", "c"), ("y", "z"))
    pd.DataFrame({"feature a": [1.0]}).to_parquet(tmp_path / STORED_CASES)
    refuses(TableError, "'label'", load_cases, tmp_path, ("a",), ())
    pd.DataFrame({"label": ["x"], "feature a": [np.nan]}).to_parquet(tmp_path / STORED_CASES)
    refuses(TableError, "missing values", load_cases, tmp_path, ("a",), ())


def test_a_pipe_and_a_table_of_many_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / STORED_CASES).parent.mkdir()
    pd.DataFrame({"label": ["x"] * 201, "feature a": np.zeros(201)}).to_parquet(tmp_path / STORED_CASES)
    refuses(TableError, "must hold at most 200 cases in 67108864 bytes, got 201 in ", load_cases, tmp_path, ("a",), ())
    (tmp_path / STORED_CASES).unlink()
    os.mkfifo(tmp_path / STORED_CASES)
    refuses(CheckpointError, "must be a regular file, not a link, a folder or a pipe", load_cases, tmp_path, ("a",), ())
