from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from stakes.artifacts.fits import AboutFit
from stakes.artifacts.folder import DataFingerprint, FittedSpan
from stakes.data.tables.layout import TableLayout
from stakes.workflows.decide import part_of_fit_notes, unlike_fit_notes

ROWS = TableLayout(("y",), ("a",))
SHA256 = "0" * 64


def table(values: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"a": values, "y": np.arange(len(values), dtype=float)})


def about(values: list[float], fitted: int) -> AboutFit:
    quality = ROWS.cases(table(values)).quality
    return AboutFit(DataFingerprint("t.csv", len(values), SHA256), quality=quality, fitted=FittedSpan(fitted))


def test_the_table_of_the_fit_without_times() -> None:
    cases = ROWS.cases(table([1.0, 2.0, 3.0, 4.0, 5.0]))
    known = about([1.0, 2.0, 3.0, 4.0, 5.0], fitted=4)
    (sentence,) = part_of_fit_notes(known, cases, SHA256)
    assert "4 of 5 cases were part of the fit" in sentence
    assert part_of_fit_notes(known, cases, "1" * 64) == ()
    assert part_of_fit_notes(known, cases, None) == ()
    assert part_of_fit_notes(AboutFit(), cases, SHA256) == ()


def test_times_of_the_fit_in_another_table() -> None:
    times = np.arange("2020-01-01", "2020-01-06", dtype="datetime64[D]").astype("datetime64[s]")
    cases = replace(ROWS.cases(table([1.0, 2.0, 3.0, 4.0, 5.0])), times=times)
    known = replace(about([1.0, 2.0], 2), fitted=FittedSpan(2, "2019-01-01T00:00:00", str(times[1])))
    assert part_of_fit_notes(known, cases, None)[0].startswith("2 of 5 cases lie in the time of the fit, 2019-01-01T")
    assert "2 of 5 cases were part of the fit" in part_of_fit_notes(known, cases, SHA256)[0]


def test_facts_that_are_missing_raise_no_doubt() -> None:
    known = about([30.0, 90.0], 2)
    del known.quality.columns["a"]["max"]
    assert unlike_fit_notes(known, ROWS, ROWS.cases(table([0.05, 0.08])).quality) == ()


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([30.0, 90.0], [31.0, 260.0], ""),
        ([30.0, 90.0], [31.0, 0.05], ""),
        ([30.0, 90.0], [0.05, 0.08], "a: 0.05 where the fit saw 30 to 90: another unit?"),
        ([-90.0, -30.0], [-0.05, -0.08], "a: -0.05 where the fit saw -90 to -30: another unit?"),
        ([30.0, 90.0], [31.0, 30000.0], "a: 30,000 where the fit saw 30 to 90: another unit?"),
        ([250.0, 310.0], [-20.0, 30.0], "a: -20 where the fit saw 250 to 310: another unit?"),
        ([1.0, 2.0], [-500.0, 300.0], "a: -500 where the fit saw 1 to 2: another unit?"),
        ([3.0, 3.0], [3.0, 3.0], ""),
        ([3.0, 3.0], [3.0, 4.0], "a: 4 where the fit saw 3 to 3: another unit?"),
    ],
)
def test_columns_far_from_those_of_the_fit(before: list[float], now: list[float], said: str) -> None:
    quality = ROWS.cases(table(now)).quality
    assert unlike_fit_notes(about(before, 2), ROWS, quality) == ((said,) if said else ())
    assert unlike_fit_notes(AboutFit(), ROWS, quality) == ()
