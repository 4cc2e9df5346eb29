"""Whose decision each case of a table is, from the command line to the report."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ranged_fit import COST, LAYOUT, ranged_fit, table
from refusals import refuses

from stakes.artifacts.fits import load_bundle
from stakes.cli import main
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.layout import TableLayout
from stakes.errors import CostError, SettingError, StakesError, TableError
from stakes.files import read_json
from stakes.training.execution import Execution
from stakes.workflows.decide import DecidedCases, Told, case_parameters, decide_fit
from stakes.workflows.evaluate import evaluate_fit
from stakes.workflows.fit import run_fit, run_refit
from stakes.workflows.inputs import FitRequest

THEIRS = "@theirs"
RANGED = CostSpec.parse(COST).build()


def decided_by(
    folder: Path, rows: pd.DataFrame, cost: str | None, levels: Sequence[float], told: Told = None
) -> DecidedCases:
    bundle = load_bundle(folder, cost=None if cost is None else CostSpec.parse(cost))
    return decide_fit(bundle, folder, rows, cost, levels, told=told)


@pytest.fixture(scope="module", params=[True, False], ids=["conditioned", "shared"])
def folder(request: pytest.FixtureRequest) -> Path:
    return ranged_fit(request.param)[0]


def test_decisions_are_those_of_each_rows_own_penalty(folder: Path) -> None:
    rows = table(8)
    decided = decided_by(folder, rows, None, [0.5], told=THEIRS).table
    np.testing.assert_allclose(decided["penalty"], rows["theirs"])
    forecaster = load_bundle(folder).forecaster
    features = rows[list(LAYOUT.features)]
    expected = forecaster.decide(features, cost_parameters={"penalty": rows["theirs"]})
    np.testing.assert_allclose(decided["action"], expected, rtol=1e-6)
    for row, penalty in enumerate(rows["theirs"]):
        alone = decided_by(folder, rows, None, [0.5], told=float(penalty)).table
        np.testing.assert_allclose(decided["action"][row], alone["action"][row], rtol=1e-5)


def test_another_cost_within_the_range_is_one_of_the_decision_makers(folder: Path) -> None:
    by_cost = decided_by(folder, table(8), "shortfall:penalty=5,unit=EUR", [0.5])
    by_parameter = decided_by(folder, table(8), None, [0.5], told=5.0)
    np.testing.assert_allclose(by_cost.table["action"], by_parameter.table["action"], rtol=1e-6)
    assert not by_cost.notes


def test_rows_that_lack_a_feature_have_their_own_penalty_too(folder: Path) -> None:
    rows = table(8)
    rows.loc[[2, 5], "sun"] = np.nan
    decided = decided_by(folder, rows, None, [0.5], told=THEIRS).table
    whole = decided_by(folder, table(8), None, [0.5], told=THEIRS).table
    np.testing.assert_allclose(decided["penalty"], rows["theirs"])
    known = decided["missing_features"] == ""
    assert known.sum() == 6
    np.testing.assert_allclose(decided["action"][known], whole["action"][known], rtol=1e-6)
    cheap, dear = (
        decided_by(folder, rows, None, [0.5], told=float(penalty)).table["action"][~known] for penalty in (1, 50)
    )
    assert (cheap > dear).all()


@pytest.mark.parametrize(
    ("told", "error", "said"),
    [
        (None, SettingError, r"penalty from 1 to 50.*penalty=7.07.*penalty=@COLUMN"),
        (80.0, CostError, "got 80"),
        ("@wind", CostError, "must lie between 1 and 50"),
        ("@price", TableError, "'price'"),
    ],
)
def test_what_is_not_told_or_wrong_is_refused(told: Told, error: type[StakesError], said: str) -> None:
    refuses(error, said, decided_by, ranged_fit(True)[0], table(4), None, [0.5], told=told)


def test_a_column_may_not_lack_a_value() -> None:
    rows = table(4)
    rows.loc[1, "theirs"] = np.nan
    refuses(TableError, "'theirs'", decided_by, ranged_fit(True)[0], rows, None, [0.5], told=THEIRS)


def test_with_lags_the_penalty_is_that_of_the_issue_time() -> None:
    times = pd.date_range("2020-01-01", periods=6, freq="6h")
    rows = pd.DataFrame({"time": times, "load": np.arange(6.0), "theirs": np.arange(6) + 2.0})
    layout = TableLayout(("load",), features=("load",), time="time", lags=(0,), lead=12)
    index = layout.inputs(rows).feature_table.index
    values = case_parameters(RANGED, THEIRS, rows, layout, index, needed=True)
    assert index[0] == times[0] + pd.Timedelta(hours=12)
    assert values["penalty"].tolist() == rows["theirs"].tolist()


def test_cases_are_judged_for_their_own_decision_makers(folder: Path) -> None:
    rows = table()
    spread = evaluate_fit(load_bundle(folder), folder, rows, None)
    assert "spread evenly over that range" in spread.notes[0]
    assert np.log(spread.cases["penalty"]).mean() == pytest.approx(np.log(50) / 2, abs=0.02)
    judged = evaluate_fit(load_bundle(folder), folder, rows, None, told=THEIRS)
    np.testing.assert_allclose(judged.cases["penalty"], rows["theirs"])
    assert not any("spread evenly" in note for note in judged.notes)
    cases = judged.cases
    short = np.maximum(cases["action"] - cases[["north", "south"]].mean(axis=1), 0)
    np.testing.assert_allclose(cases["cost"], cases["penalty"] * short**2 - cases["action"], rtol=1e-4, atol=1e-5)


def test_the_fit_tells_what_it_is_worth_by_penalty(folder: Path) -> None:
    bundle = load_bundle(folder)
    told = bundle.known.by_parameter
    assert [each.value for each in told] == pytest.approx([1, 50**0.25, 50**0.5, 50**0.75, 50])
    assert all(each.weight_0_cost is not None and each.change is not None for each in told)
    assert all(first.cost < second.cost for first, second in pairwise(told))
    result = ranged_fit(bundle.forecaster.conditioned)[1]
    (title, shown) = result.tables[-1]
    assert "one decision maker each" in title
    assert list(shown["penalty"]) == [each.value for each in told]
    page = (folder / "report.html").read_text()
    assert "One forecast serves all decision makers with penalty from 1 to 50" in page
    assert "What is it worth to each decision maker?" in page
    assert "drawn for penalty 7.07, the middle of its range" in page
    assert result.record()["by_parameter"] is not None


def test_the_same_request_finds_what_was_fitted() -> None:
    folder, result = ranged_fit(True)
    record = read_json(folder / "fit.json")
    assert record["cost"]["parameters"] == {"penalty": "1..50"}
    request = FitRequest(
        record["request"]["data"],
        COST,
        LAYOUT,
        conditioned=True,
        decision_weight=0.4,
        epochs=2,
        members=30,
        recent_errors=False,
    )
    again = run_fit(request, folder, Execution("cpu", 1, True))
    assert again.sentences == result.sentences
    pd.testing.assert_frame_equal(again.facts["by_parameter"], result.facts["by_parameter"])


def test_a_feature_of_nothing_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "power.csv", index=False)
    plain = FitRequest(str(tmp_path / "power.csv"), "shortfall:penalty=5", LAYOUT, conditioned=True)
    refuses(SettingError, "conditioned", run_fit, plain, tmp_path / "fit", Execution())
    assert not (tmp_path / "fit").exists()


def test_a_refit_is_compared_for_the_same_decision_makers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stakes.workflows.fit.write_comparison", lambda *_: None)
    rows = table(300).assign(time=pd.date_range("2020-01-01", periods=300, freq="D"))
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    rows[:220].to_csv(old, index=False)
    rows.to_csv(new, index=False)
    layout = TableLayout(("north", "south"), features=("wind", "sun"), time="time")
    settings = {"model": "linear", "decision_weight": 0.0, "members": 30, "recent_errors": False}
    run_fit(FitRequest(str(old), COST, layout, **settings), tmp_path / "first", Execution("cpu", 1, True))
    result = run_refit(tmp_path / "first", new, tmp_path / "second", None, Execution("cpu", 1, True))
    assert "newer than the old fit the new forecast" in result.sentences[-1]


def test_the_commands_take_a_parameter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ranged_fit(True)[0])
    table(6).to_csv(tmp_path / "new.csv", index=False)
    data = str(tmp_path / "new.csv")
    assert main(["decide", folder, data, "--cost", "shortfall:penalty=@theirs", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("row,penalty,action")
    assert len(lines) == 7
    assert main(["evaluate", folder, data, "--cost", "shortfall:penalty=5", "--block", "1", "--quiet"]) == 0
    assert "cost" in capsys.readouterr().out
    refused = [
        ["decide", folder, data],
        ["decide", "--members", data, "--cost", "shortfall:penalty=@nobodys"],
        ["decide", folder, data, "--cost", "shortfall:penalty=@nobodys"],
        ["decide", "--members", data, "--cost", "shortfall:penalty=1..50"],
    ]
    for arguments in refused:
        assert main(arguments) != 0
        assert "stakes: " in capsys.readouterr().err
