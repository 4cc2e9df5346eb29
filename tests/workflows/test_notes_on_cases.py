from dataclasses import replace

import numpy as np
import pandas as pd

from stakes.artifacts.fits import AboutFit
from stakes.artifacts.folder import DataFingerprint, FittedSpan
from stakes.data.tables.layout import TableLayout
from stakes.workflows.decide import part_of_fit_notes

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
