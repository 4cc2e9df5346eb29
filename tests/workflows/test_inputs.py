"""What a fit says of its table before anything is trained."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from stakes.artifacts.fits import AboutFit
from stakes.artifacts.folder import DataFingerprint, FittedSpan
from stakes.data.tables.layout import TableLayout
from stakes.workflows.decide import part_of_fit_notes
from stakes.workflows.inputs import FitInputs, FitRequest

COST = "imbalance:short=10,long=1,upper=20"
SAME_TIME = "the features have the time of the target"


def written(**columns: object) -> None:
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"wind": generator.uniform(0, 9, 60), "load": generator.uniform(5, 15, 60)})
    table.insert(0, "time", pd.date_range("2021-01-01", periods=60, freq="h"))
    table.assign(**columns).to_csv("table.csv", index=False)


def notes(layout: TableLayout, cost: str = COST, **settings: object) -> tuple[str, ...]:
    return FitInputs.read(replace(FitRequest("table.csv", cost, layout), **settings)).notes


def test_features_of_the_same_time_are_told() -> None:
    written()
    (note,) = notes(TableLayout(("load",), time="time"))
    assert note.startswith(SAME_TIME)
    _, note = notes(TableLayout(("load",)))  # the times are there, and not used
    assert note.startswith(SAME_TIME)


def test_lagged_features_and_rows_without_times_are_no_such_case() -> None:
    written()
    assert not any(SAME_TIME in note for note in notes(TableLayout(("load",), (), "time", (0,), 1)))
    assert notes(TableLayout(("load",), ("wind",))) == ()
    only_calendar = TableLayout(("load",), time="time", calendar=("hour",))
    pd.read_csv("table.csv").drop(columns="wind").to_csv("table.csv", index=False)
    assert notes(only_calendar) == ()


def test_rows_left_out_are_told_before_training() -> None:
    written(wind=[np.nan] * 12 + [1.0, 2.0] * 24)
    assert notes(TableLayout(("load",), ("wind",))) == (
        "12 of 60 rows left out: a feature is missing",
        "'wind' is missing in 12 rows: without it 12 more rows could be used",
    )


def test_directions_become_sine_and_cosine_and_that_is_told() -> None:
    written(wind_dir=np.linspace(0, 350, 60))
    request = FitRequest("table.csv", COST, TableLayout(("load",), ("wind", "wind_dir")))
    found = FitInputs.read(request)
    (note,) = found.notes
    assert "'wind_dir' (--directions none" in note
    assert list(found.cases.feature_names) == ["wind", "wind_dir_sin", "wind_dir_cos"]
    plain = FitInputs.read(replace(request, directions=()))
    assert (list(plain.cases.feature_names), plain.notes) == (["wind", "wind_dir"], ())
    asked_for = FitInputs.read(replace(request, directions=("wind",)))
    assert list(asked_for.cases.feature_names) == ["wind_sin", "wind_cos", "wind_dir"]
    assert asked_for.notes == ()
    given = TableLayout(("load",), ("wind", "wind_dir"), directions=("wind",))
    assert FitInputs.read(replace(request, layout=given)).layout == given


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ("wind_dispatch:penalty=5", "the name of 'ws100' says 100 m"),
        ("protection:threshold=7,false_alarm_ratio=0.2", "the hazard is taken to lie above the threshold 7"),
    ],
)
def test_what_a_cost_takes_for_granted_is_told(cost: str, words: str) -> None:
    written(ws100=np.linspace(0, 20, 60))
    assert any(words in note for note in notes(TableLayout(("ws100",), ("wind",)), cost))


def test_numbers_of_each_outcome_are_told_by_its_name() -> None:
    written(h1=np.arange(60) % 7 + 1.0, h0=np.arange(60) % 5 + 1.0)
    layout = TableLayout(("h1", "h0"), ("wind",))
    assert notes(layout, "schedule:short=9/8,long=1")[-1] == "short: h1 9, h0 8"


ROWS = TableLayout(("y",), ("a",))
SHA256 = "0" * 64


def rows_of(values: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"a": values, "y": np.arange(len(values), dtype=float)})


def about(values: list[float], fitted: int) -> AboutFit:
    quality = ROWS.cases(rows_of(values)).quality
    return AboutFit(DataFingerprint("t.csv", len(values), SHA256), quality=quality, fitted=FittedSpan(fitted))


def test_the_table_of_the_fit_without_times() -> None:
    cases = ROWS.cases(rows_of([1.0, 2.0, 3.0, 4.0, 5.0]))
    known = about([1.0, 2.0, 3.0, 4.0, 5.0], fitted=4)
    (sentence,) = part_of_fit_notes(known, cases, SHA256)
    assert "4 of 5 cases were part of the fit" in sentence
    assert part_of_fit_notes(known, cases, "1" * 64) == ()
    assert part_of_fit_notes(known, cases, None) == ()
    assert part_of_fit_notes(AboutFit(), cases, SHA256) == ()


def test_times_of_the_fit_in_another_rows_of() -> None:
    times = np.arange("2020-01-01", "2020-01-06", dtype="datetime64[D]").astype("datetime64[s]")
    cases = replace(ROWS.cases(rows_of([1.0, 2.0, 3.0, 4.0, 5.0])), times=times)
    known = replace(about([1.0, 2.0], 2), fitted=FittedSpan(2, "2019-01-01T00:00:00", str(times[1])))
    assert part_of_fit_notes(known, cases, None)[0].startswith("2 of 5 cases lie in the time of the fit, 2019-01-01T")
    assert "2 of 5 cases were part of the fit" in part_of_fit_notes(known, cases, SHA256)[0]
