import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called

from stakes.workflows import demo, fit
from stakes.workflows.inputs import FitInputs

pytestmark = pytest.mark.usefixtures("blank_figures")


def test_the_demo_goes_from_tables_to_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_MEMBERS", 10)
    monkeypatch.setattr(fit, "_OUTCOMES_KEPT", 50)
    shortened(monkeypatch, 200)
    code, page, errors = called("demo", "--out", str(tmp_path), "--epochs", "1", "--workers", "1")
    assert code == 0, errors
    for words in (
        "a bakery",
        "Irish",
        "France",
        "cost today",
        "The last decisions",
        "model selection on",
        "ddop",
    ):
        assert words in page + errors
    for example in demo.EXAMPLES:
        assert (tmp_path / example.name / "report.html").is_file()
    code, page, errors = called("demo", "--out", str(tmp_path), "--epochs", "1", "--workers", "1", "--json")
    assert code == 0, errors
    records = json.loads(page)  # of the fits that are there already
    assert list(records) == [example.name for example in demo.EXAMPLES]
    assert all(len(record["last_decisions"]) == 4 for record in records.values())


def shortened(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    def last_rows(example: demo.Example) -> demo.Example:
        return replace(example, table=lambda: example.table().tail(rows))

    monkeypatch.setattr(demo, "EXAMPLES", tuple(last_rows(example) for example in demo.EXAMPLES))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FitInputs]:
    """What is fitted to, all of it."""
    folder = tmp_path_factory.mktemp("whole")
    return {example.name: FitInputs.read(example.request(folder, None)) for example in demo.EXAMPLES}


@pytest.mark.parametrize("example", demo.EXAMPLES, ids=lambda example: example.name)
def test_the_demo_does_not_doubt_its_own_data(whole: dict[str, FitInputs], example: demo.Example) -> None:
    inputs = whole[example.name]
    assert inputs.spec.doubts(inputs.cases.outcome_table) == []


def test_days_on_which_every_shop_is_closed_are_no_cases(whole: dict[str, FitInputs]) -> None:
    outcomes = whole["bakery"].cases.outcome_table
    assert len(outcomes) > 1100
    assert (outcomes["demand"] > 0).all()


def test_what_is_planned_today_keeps_the_ramp_and_sees_no_later_load() -> None:
    load = pd.DataFrame(np.random.default_rng(0).normal(50, 10, (100, 2)), columns=["load_h00", "load_h06"])
    load.index = pd.date_range("2016-01-01", periods=100)
    plan = demo._planned_today(load)
    changed = load.copy()
    changed.iloc[80:] += 1000
    pd.testing.assert_frame_equal(demo._planned_today(changed).iloc[:81], plan.iloc[:81])
    assert plan.iloc[28:].notna().all(axis=None)
    assert plan.diff(axis=1).abs().max(axis=None) <= 10 + 1e-9
    assert plan.iloc[99, 0] == np.quantile(load.iloc[99 - 56 : 99 : 7, 0], 10 / 11)
