from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reproduction.tables import read_reference_table, table_series
from stakes.errors import TableError


def test_a_table_has_its_times(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time_utc,x,y\n2020-01-01 06:00,1,2\n2020-01-01 07:00,3,\n")
    table = read_reference_table("a.csv", str(tmp_path), time="time_utc")
    series = table_series(table, ("y", "x"))
    assert series.columns == ("y", "x")
    assert series.times.tolist() == np.array(["2020-01-01T06", "2020-01-01T07"], "datetime64[s]").tolist()
    np.testing.assert_array_equal(series.values, [[2, 1], [np.nan, 3]])


def test_a_table_without_times_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("series,p\nAT_on,5\n")
    assert read_reference_table("a.csv", str(tmp_path)).equals(pd.DataFrame({"series": ["AT_on"], "p": [5]}))


@pytest.mark.parametrize("content", [None, "", "\x00\xff"])
def test_what_cannot_be_read_is_named_in_one_line(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "a.csv.gz").write_text(content, "latin-1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match=r"a.csv.gz must be a table in '.*', but cannot be read: ") as raised:
        read_reference_table("a.csv.gz", None)
    assert "\n" not in str(raised.value)
