import html
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint
from load_tables import load_table

from stakes.actions import solve as actions
from stakes.actions.scalar_solvers import NewtonBisection
from stakes.costs.cost import Cost
from stakes.data.tables.layout import TableLayout
from stakes.errors import InterruptedTraining
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.training.execution import Execution
from stakes.training.settings import ImplicitSettings, TrainingSettings
from stakes.workflows import backtest
from stakes.workflows.inputs import FitInputs, FitRequest

COST = "imbalance:short=10,long=1,upper=20,unit=EUR"
COLUMNS = ["--target", "load", "--time", "time", "--lags", "0,12", "--lead", "24", "--baseline-action", "bought"]
WORDS = ["backtest", "load.csv", *COLUMNS, "--cost", COST, "--origins", "3", "--out", "out", "--device", "cpu"]


class Fits(list[int]):
    """How many cases each fit saw; `until` says after how many fits somebody presses Ctrl-C."""

    until = 100


@pytest.fixture(autouse=True)
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    """Small and quick forecasters in place of those of the request."""
    load_table().to_csv("load.csv", index=False)
    seen = Fits()

    def small(request: FitRequest, cost: Cost, execution: Execution) -> DecisionAwareForecaster:
        return Small(
            cost,
            model=ImplicitSettings(hidden=4, layers=1, noise=2),
            weights=(0.0, 0.5),
            model_selection=request.model_selection,
            members=6,
            training=TrainingSettings(epochs=1, validate_every=1, validation_members=4),
            random_state=request.seed,
            refit_on_all_rows=False,
            recent_errors=False,
            device=execution.resolved_device,
        )

    class Small(DecisionAwareForecaster):
        def fit(self, X, y, **rest):  # type: ignore[no-untyped-def]  # noqa: N803
            if len(seen) == seen.until:
                raise InterruptedTraining("asked to stop")
            seen.append(len(X))
            return super().fit(X, y, **rest)

    monkeypatch.setattr(FitRequest, "forecaster", small)
    return seen


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures are drawn, which takes longer than so little training."""
    monkeypatch.setattr(backtest, "write_comparison", lambda *_: None)


def test_each_origin_is_fitted_on_what_was_known_and_judged_on_what_came_next(fits: Fits) -> None:
    code, output, errors = called(*WORDS, "--json")
    assert code == 0
    assert errors.splitlines()[0] == "note: 3 of 200 rows left out: the lags reach before the first row"
    assert errors.count("\n") == 4
    parts = [pd.read_csv(f"out/origin-{place}.csv", parse_dates=["time"]) for place in (1, 2, 3)]
    judged = pd.concat(parts)
    cases = load_table()["time"].iloc[3:]  # two lags and the lead before the first target
    np.testing.assert_array_equal(judged["time"], cases.tail(len(judged)))
    assert len(judged) == round(0.2 * len(cases))
    for part, fitted in zip(parts, fits, strict=True):
        issued = part["time"].iloc[0] - pd.Timedelta(hours=24)
        assert fitted == (cases <= issued).sum() == part["fitted_cases"].iloc[0]
    found = json.loads(output)
    rows = found["origins"]
    assert [row["origin"] for row in rows] == ["1", "2", "3", "all"]
    overall = rows[-1]
    assert overall["cost"] == pytest.approx(judged["cost"].mean())
    assert overall["weight_0_change"] == pytest.approx((judged["cost"] - judged["weight_0_cost"]).mean())
    assert overall["climatology_change"] == pytest.approx((judged["cost"] - judged["climatology_cost"]).mean())
    assert overall["today_change"] == pytest.approx((judged["cost"] - judged["today_cost"]).mean())
    assert overall["climatology_low"] <= overall["climatology_change"] <= overall["climatology_high"]
    assert json.loads(Path("out/results.json").read_text()) == found
    assert len(pd.read_csv("out/table.csv")) == 4
    assert not Path("out/checkpoints").exists()
    page = html.unescape(Path("out/report.html").read_text())
    assert found["sentences"][-1] == "Report: out/report.html"
    for words in (*found["sentences"][:-1], "Against every rival", "against climatology"):
        assert words in page


@pytest.mark.parametrize("lead", [12.0, 24.0, 72.0])
def test_a_fit_too_learns_from_what_was_known_at_its_first_test_forecast(lead: float) -> None:
    layout = TableLayout(("load",), time="time", lags=(0.0, 12.0), lead=lead)
    inputs = FitInputs.read(FitRequest("load.csv", COST, layout))
    fitted, test = inputs.split
    assert test.times is not None
    assert fitted.times is not None
    assert len(test) == round(0.2 * len(inputs.cases))
    issued = test.times[0] - np.timedelta64(int(lead), "h")
    assert fitted.times[-1] == issued
    assert len(inputs.cases) - len(test) - len(fitted) == lead / 12 - 1


def test_without_a_lead_the_parts_touch() -> None:
    inputs = FitInputs.read(FitRequest("load.csv", COST, TableLayout(("load",), ("bought",), time="time")))
    fitted, test = inputs.split
    assert len(fitted) + len(test) == len(inputs.cases) == 200


@pytest.mark.usefixtures("no_report")
def test_a_finished_origin_is_not_fitted_again(fits: Fits) -> None:
    fits.until = 2
    code, output, errors = called(*WORDS)
    assert (code, output) == (130, "")
    assert errors.splitlines()[-1].startswith("stakes: interrupted")
    before = Path("out/origin-2.csv").read_bytes()
    fits.until = 100
    assert called(*WORDS)[0] == 0
    assert len(fits) == 3
    assert Path("out/origin-2.csv").read_bytes() == before
    code, output, errors = called(*WORDS, "--quiet")
    assert (code, errors, len(fits)) == (0, "", 3)
    assert output.startswith("mean costs in EUR; changes with their 95 % intervals\norigin")
    assert "candidate" in output.splitlines()[1].split()
    assert output.endswith("\nout\n")


@pytest.mark.usefixtures("no_report")
def test_without_a_selection_weight_0_is_the_rival(fits: Fits) -> None:
    code, output, _ = called(*WORDS, "--quiet", "--no-model-selection")
    assert code == 0
    assert "the forecast of weight 0" in output
    assert "candidate" not in output


@pytest.mark.usefixtures("no_report")
def test_other_settings_or_data_are_refused(fits: Fits) -> None:
    assert called(*WORDS, "--quiet")[0] == 0
    fits.clear()
    assert "other data or settings" in complaint(*WORDS, "--seed", "3")
    assert "other data or settings" in complaint(*WORDS[:-5], "2", *WORDS[-4:])
    load_table(190).to_csv("load.csv", index=False)
    assert "other data or settings" in complaint(*WORDS)
    assert fits == []


def test_a_folder_with_something_else_is_refused(fits: Fits) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    assert complaint(*WORDS) == "out is not empty; choose another folder for the backtest"
    assert complaint(*WORDS, "--test-fraction", "0.01") == (
        "test_fraction must leave at least 2 cases for each of 3 origins, got 2 of 197 cases"
    )
    assert "only" in complaint(*WORDS[:-4], "--out", "new", "--test-fraction", "0.99")
    assert fits == []


@pytest.mark.parametrize("content", ["{}", "[]", '{"request": {"data": 3}, "origins": 1}', "no"])
def test_settings_that_cannot_be_read(content: str) -> None:
    Path("out").mkdir()
    Path("out/backtest.json").write_text(content)
    complaint(*WORDS)


@pytest.mark.usefixtures("no_report")
def test_today_is_compared_where_it_is_known(fits: Fits) -> None:
    table = load_table()
    table.loc[table.index[-10:], "bought"] = np.nan
    table.to_csv("load.csv", index=False)
    code, output, _ = called(*WORDS, "--quiet", "--json")
    assert code == 0
    found = json.loads(output)
    overall = found["origins"][-1]
    known = pd.concat([pd.read_csv(f"out/origin-{place}.csv") for place in (1, 2, 3)]).dropna(subset="today_cost")
    assert overall["today_cases"] == len(known) == overall["cases"] - 10
    assert overall["today_cost"] == pytest.approx(known["today_cost"].mean())
    assert overall["cost_beside_today"] == pytest.approx(known["cost"].mean())
    assert overall["today_change"] == pytest.approx(overall["cost_beside_today"] - overall["today_cost"])
    assert f"today's action (known in {len(known)} cases)" in " ".join(found["sentences"])


@pytest.mark.usefixtures("no_report")
def test_an_own_cost_is_given_again(fits: Fits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "NewtonBisection", partial(NewtonBisection, iterations=2))  # enough for a square
    Path("costs.py").write_text("def paid(action, outcome):\n    return (action - outcome) ** 2\n")
    own = "costs.py:paid:lower=0,upper=20"
    words = [own if word == COST else word for word in WORDS]
    fits.until = 1
    assert called(*words, "--quiet")[0] == 130
    fits.until = 100
    resumed = called(*words, "--quiet")
    assert resumed == called(*words, "--quiet")  # the same table and sentences
    assert resumed[0] == 0
    assert resumed[1].count("\n") > 4
    assert len(fits) == 3
