"""A decision with many parts all the way: fit, decide, evaluate, report; one small fit for all of it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from quick_figures import figures_left_blank
from refusals import refuses

from stakes.artifacts.fits import load_bundle
from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.forecasts.reading import read_past
from stakes.data.tables.layout import TableLayout
from stakes.errors import StakesError
from stakes.json_values import json_value
from stakes.reports.report import report_of
from stakes.training.execution import Execution
from stakes.workflows.decide import decide_with
from stakes.workflows.evaluate import evaluate_with
from stakes.workflows.fit import run_fit
from stakes.workflows.inputs import FitRequest
from stakes.workflows.recalibrate import RecalibrateRequest, run_recalibrate

HOURS = ("h1", "h2", "h3")
COST = "schedule:short=5,long=1,ramp=0.5,unit=EUR,action_unit=MW"
LAYOUT = TableLayout(HOURS, ("wind",), time="day", baseline_action="did1:did3")


def table(days: int) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    wind = generator.normal(size=days)
    load = 5 + wind[:, None] + np.array([0.0, 1.0, 0.2]) + 0.3 * generator.normal(size=(days, 3))
    rows = pd.DataFrame(load.round(3), columns=list(HOURS)).assign(wind=wind)
    for hour in HOURS:
        rows[f"did{hour[1:]}"] = 6.0
    return rows.assign(day=pd.date_range("2020-01-01", periods=days, freq="D"))


def request(data: Path, **others: object) -> FitRequest:
    settings = {"model": "linear", "base": "none", "decision_weight": 0.0, "members": 20} | others
    return FitRequest(str(data), COST, LAYOUT, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("parts")
    table(80).to_csv(base / "load.csv", index=False)
    with figures_left_blank():
        run_fit(request(base / "load.csv"), base / "fit", Execution("cpu", 1, True))
    return base / "fit"


def test_a_column_for_each_part(folder: Path) -> None:
    decided = decide_with(folder, folder.parent / "load.csv", None, (0.5,))
    actions = decided.table[[f"action_{hour}" for hour in HOURS]].to_numpy()
    assert np.abs(np.diff(actions)).max() <= 0.5 + 1e-5
    assert decided.table["certified"].all()
    assert list(decided.table.columns[-3:]) == [f"quantile_0.5_{hour}" for hour in HOURS]
    assert json.dumps(json_value(decided.record()), allow_nan=False).count("action_h2") == 80


def test_what_it_was_worth_beside_todays_schedule(folder: Path) -> None:
    found = evaluate_with(folder, folder.parent / "load.csv", None, None)
    values = found.table.set_index("metric")["value"]
    assert values["cost"] < values["today_cost"] < values["climatology_cost"] * 3
    assert {"action_h1", "action_h3", "today_action_h2", "today_cost"} < set(found.cases)
    assert "action" not in found.cases
    short, long = ((sign * (found.cases[list(HOURS)] - 6)).clip(lower=0).sum(axis=1) for sign in (1, -1))
    np.testing.assert_allclose(found.cases["today_cost"], 5 * short + long, rtol=1e-6)


def test_another_cost_decides_with_the_same_forecast(folder: Path) -> None:
    shared = decide_with(folder, folder.parent / "load.csv", "allocation:short=5,long=1,budget=9", ()).table
    assert (shared[[f"action_{hour}" for hour in HOURS]].sum(axis=1) <= 9 + 1e-4).all()
    one = decide_with(folder, folder.parent / "load.csv", "newsvendor:underage=5,overage=1,upper=50", ()).table
    assert "action" in one
    assert "gap" not in one


def test_the_report_has_a_section_of_parts(folder: Path) -> None:
    about = load_bundle(folder).known
    assert about.parts.parts == HOURS
    assert [limit.kind for limit in about.parts.limits] == ["ramp", "lower"]
    assert about.parts.limits[0].share == 1.0
    with figures_left_blank():
        text = report_of(folder, None, folder.parent / "again.html").read_text()
    assert "Decisions part by part" in text
    assert "MW more of ramp would save" in text
    assert "no curve shows what it costs" in text


def test_todays_action_must_have_all_parts(folder: Path) -> None:
    with pytest.raises(StakesError, match="baseline_action"):
        evaluate_with(folder, folder.parent / "load.csv", None, None, baseline_action="did1")


def test_wrong_columns_of_todays_action_are_refused_before_anything_is_trained(folder: Path) -> None:
    data = folder.parent / "load.csv"
    for columns, said in (
        ("did1,did2", "must have the 3 parts"),
        ("did1,nothing,did3", "has no column 'nothing'"),
        ("h1,did2,did3", "the column 'h1' is baseline_action, so it cannot be a target"),
    ):
        with pytest.raises(StakesError, match=said):
            run_fit(
                replace(request(data), layout=replace(LAYOUT, baseline_action=columns)),
                folder.parent / "no",
                Execution(quiet=True),
            )
    assert not (folder.parent / "no").exists()


def test_past_schedules_are_compared_with_in_a_recalibration(tmp_path: Path) -> None:
    past = table(90).rename(columns={hour: f"seen_{hour}" for hour in HOURS})
    for hour in HOURS:
        past[hour] = past[f"seen_{hour}"] - 0.5
    past.drop(columns="wind").to_csv(tmp_path / "past.csv", index=False)
    seen = tuple(f"seen_{hour}" for hour in HOURS)
    layout = ForecastLayout(outcomes=seen, columns=HOURS, time="day", today=("did1", "did2", "did3"), read_as="points")
    given, _ = read_past(layout, tmp_path / "past.csv", None)
    assert given.today.shape == (90, 3)
    wrong = RecalibrateRequest(tmp_path / "past.csv", COST, replace(layout, today=("did1",)))
    refuses(StakesError, "must have the 3 parts", run_recalibrate, wrong, tmp_path / "out", quiet=True)
