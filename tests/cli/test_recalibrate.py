"""`stakes recalibrate`, and the other commands on its folder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from calls import called, complaint
from user_files import past_forecasts

import stakes
from stakes.artifacts.recalibrations import load_recalibration
from stakes.reports.comparison import Comparison, comparison_of_recalibration
from stakes.reports.report import write_comparison
from stakes.reports.sentences import warning_sentences

COST = "newsvendor:underage=9,overage=1,upper=30,unit=EUR"
ASKED = ("--forecast", "m1:m8", "--outcome", "power", "--cost", COST, "--decision-weights", "none")


@pytest.fixture(autouse=True)
def _undrawn(recalibrated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that all tests read has a report; to draw one for each folder that they make would take seconds."""
    assert (recalibrated / "report.html").is_file()

    def only_asked_for(comparison: Comparison, folder: Path, out: Path | None = None) -> Path | None:
        return None if out is None else write_comparison(comparison, folder, out)

    monkeypatch.setattr("stakes.workflows.recalibrate.write_comparison", only_asked_for)


def kept(past: Path | str = "past.csv", **columns: object) -> Path:
    past_forecasts().assign(**columns).to_csv(past, index=False)
    return Path(past)


def test_a_folder_is_made_and_told_of() -> None:
    kept()
    code, output, errors = called("recalibrate", "past.csv", *ASKED, "--lead", "24", "--out", "wind")
    assert code == 0
    assert output.startswith("model selection on ")
    assert output.splitlines()[-1] == "wind"
    assert "\nraw " in output
    assert "bias and spread" in output
    assert " per case against the raw forecast [" in output
    assert errors == "learning from the errors of 160 past forecasts, each of 8 members\n"
    names = {path.name for path in Path("wind").iterdir()}
    assert {"bundle.json", "state.json", "selection.json", "judged.parquet"} <= names
    again = complaint("recalibrate", "past.csv", *ASKED, "--out", "wind")
    assert again == "wind holds a recalibration already; --force replaces it, another folder keeps both"
    code, output, errors = called(
        "recalibrate", "past.csv", *ASKED, "--baseline-action", "done", "--out", "wind", "--force", "--json", "--quiet"
    )
    assert (code, errors) == (0, "")
    record = json.loads(output)
    assert record["candidate"] in ("bias_and_spread", "linear")
    selection = record["selection"]
    assert all("validation_cost" in each and "cost" not in each for each in selection["candidates"])
    (tested,) = (each["test_cost"] for each in selection["tested"] if each["name"] == record["candidate"])
    assert selection["fitted_again"]["test_cost"] == pytest.approx(tested)
    assert load_recalibration(Path("wind")).layout.today == ("done",)


def test_what_is_saved_decides_as_what_was_fitted(recalibrated: Path) -> None:
    opened = load_recalibration(recalibrated)
    table = past_forecasts()
    fresh = stakes.Recalibrator(opened.cost, decision_weights=())
    fresh.fit(table.filter(like="m").drop(columns="time"), table["power"], times=table["time"], leads=24.0)
    table.drop(columns=["power", "done"]).to_csv("new.csv", index=False)
    code, _, errors = called("decide", str(recalibrated), "new.csv", "--out", "actions.csv")
    assert (code, errors) == (0, "")
    found = pd.read_csv("actions.csv")
    expected = fresh.decide(table.filter(regex="^m"), times=table["time"], leads=24.0)
    np.testing.assert_allclose(found["action"], expected, rtol=1e-9)
    assert found["time"][0] == "2020-01-01T00:00:00Z"


def test_the_newest_case_for_another_cost(recalibrated: Path) -> None:
    past_forecasts().to_csv("new.csv", index=False)
    words = ("decide", str(recalibrated), "new.csv", "--last")
    code, output, _ = called(*words)
    assert (code, len(output.splitlines())) == (0, 2)
    other = called(*words, "--cost", "newsvendor:underage=1,overage=9,upper=30")
    assert "it now decides for newsvendor:underage=1" in other[2]
    action = [float(text.splitlines()[1].split(",")[1]) for text in (output, other[1])]
    assert action[1] < action[0]


def test_evaluation_beside_the_forecast_as_it_came_and_today(recalibrated: Path) -> None:
    past_forecasts(90, "2021-01-01").to_csv("later.csv", index=False)
    code, output, errors = called("evaluate", str(recalibrated), "later.csv", "--json", "--cases", "cases.csv")
    assert (code, errors[:36]) == (0, "note: baseline is the forecast as gi")
    rows = {row["metric"]: row for row in json.loads(output)["metrics"]}
    assert rows["cost"]["value"] < rows["cost"]["baseline"]
    assert rows["spread_skill"]["baseline"] < 0.5 < rows["spread_skill"]["value"]
    cases = pd.read_csv("cases.csv")
    members = past_forecasts(90, "2021-01-01")
    highest = np.sort(members.filter(regex="^m"), axis=1)[:, 7]  # 9 : 1 takes the eighth of eight
    np.testing.assert_allclose(cases["raw_action"], highest)
    assert {"today_cost", "raw_cost", "cost", "power"} <= set(cases.columns)
    shutil.copy(recalibrated.parent / "past.csv", "past.csv")
    assert "this is the table of the fit" in called("evaluate", str(recalibrated), "past.csv")[2]


def test_climatology_of_many_sites_has_an_action_for_each() -> None:
    small, large = past_forecasts(120), past_forecasts(120)
    large[large.columns.drop("time")] += 20.0
    both = pd.concat([small.assign(site="small"), large.assign(site="large")]).drop(columns="done")
    both.to_csv("past.csv", index=False)
    asked = ("--forecast", "m1:m8", "--outcome", "power", "--decision-weights", "none", "--sites", "each")
    cost = "newsvendor:underage=9,overage=1,upper=90"
    assert called("recalibrate", "past.csv", *asked, "--cost", cost, "--out", "sites", "--quiet")[0] == 0
    judged = load_recalibration(Path("sites")).judged
    assert judged is not None
    known = small["power"].to_numpy()[: np.searchsorted(small["time"].astype("datetime64[s]"), judged.times.min())]
    stock = np.quantile(known, 0.9, method="inverted_cdf") + np.where(judged.cases["site"] == "large", 20.0, 0.0)
    short = judged.values("outcome") - stock
    constant = np.where(short > 0, 9 * short, -short)
    np.testing.assert_allclose(judged.values("climatology_cost"), constant)
    dearer = replace(judged, cases=judged.cases.assign(raw_cost=constant + 1, corrected_cost=constant + 1))
    compared = replace(load_recalibration(Path("sites")), judged=dearer)
    (warning,) = warning_sentences(comparison_of_recalibration(compared))[-1:]
    assert warning.startswith("Warning: one action per site for all its cases ")
    code, output, errors = called("evaluate", "sites", "past.csv", "--json")
    assert (code, "the best constant action of each site" in errors) == (0, True)
    found = {row["metric"]: row["value"] for row in json.loads(output)["metrics"]}
    seen = small["power"].to_numpy()
    stock = np.quantile(seen, 0.9, method="inverted_cdf")
    of_each = np.where(seen > stock, 9 * (seen - stock), stock - seen).mean()  # the same at both, 20 apart
    assert found["climatology_cost"] == pytest.approx(of_each)


def test_a_case_without_recourse_is_left_out_of_both_forecasts(recalibrated: Path) -> None:
    bounded = "[decide.plan]\nupper = 30\n[recourse.bought]\ncost = 5\nupper = 20\n"
    bounded += '[recourse_constraints]\nc = "plan + bought >= outcome"'
    Path("bounded.toml").write_text(bounded)
    past_forecasts().assign(power=lambda table: table["power"].mask(table.index == 7, 90.0)).to_csv(
        "new.csv", index=False
    )
    code, output, errors = called("evaluate", str(recalibrated), "new.csv", "--cost", "bounded.toml", "--json")
    assert code == 0, errors
    assert "1 of 160 cases have an infinite cost" in errors
    found = json.loads(output)
    assert (found["cases"], len(found["infeasible_cases"])) == (159, 1)
    assert all(row["baseline"] is not None for row in found["metrics"] if row["metric"] == "cost")


def test_a_refit_is_compared_with_the_former(recalibrated: Path) -> None:
    longer = pd.concat([past_forecasts(), past_forecasts(120, "2020-06-09")])
    longer.to_csv("longer.csv", index=False)
    code, output, _ = called("refit", str(recalibrated), "longer.csv", "--out", "newer", "--quiet")
    assert code == 0
    assert "newer than the old correction the new one" in output
    assert load_recalibration(Path("newer")).about.fitted.cases == 280
    assert "needs a new folder" in complaint("refit", str(recalibrated), "longer.csv", "--out", str(recalibrated))


def test_a_file_of_forecasts_beside_outcomes() -> None:
    table = past_forecasts()
    table[["time", "power"]].to_csv("seen.csv", index=False)
    table.drop(columns=["power", "done"]).melt("time", var_name="member", value_name="ahead").to_csv(
        "f.csv", index=False
    )
    asked = ("--forecast", "f.csv", *ASKED[2:])
    assert called("recalibrate", "seen.csv", *asked, "--out", "wind", "--quiet")[0] == 0
    assert called("decide", "wind", "f.csv", "--out", "a.csv", "--quiet")[0] == 0
    assert len(pd.read_csv("a.csv")) == 160
    assert "--outcomes" in complaint("evaluate", "wind", "f.csv")
    assert called("evaluate", "wind", "f.csv", "--outcomes", "seen.csv", "--quiet")[0] == 0
    assert "--forecast" in complaint("refit", "wind", "seen.csv", "--out", "newer")
    assert called("monitor", "wind", "seen.csv", "--forecast", "f.csv", "--quiet")[0] == 0
    assert "--forecast" in complaint("monitor", "wind", "seen.csv")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--forecast", "m1:m99"), "has no column 'm99'"),
        (("--forecast", "none.csv"), "there is no file 'none.csv'"),
        (("--forecast", "m1:m8", "--columns", "m1"), "--columns are those of a file of forecasts"),
        (("--outcome", "powr"), "did you mean 'power'?"),
        (("--lead", "-3"), "leads must not be negative"),
        (("--lead", "ahead"), "no column 'ahead'"),
        (("--cost", "nonsense"), "nonsense"),
        (("--decision-weights", "a"), "decision_weights must be numbers"),
        (("--decision-weights", "1.5"), "decision_weight must lie in [0, 1), got 1.5"),
        (("--test-fraction", "2"), "test_fraction"),
        (("--outcome-bounds", "0,5"), "outcome_bounds must hold all outcomes"),
        (("--read-as", "quantiles"), "quantile"),
        (("--sites", "north"), "has no site 'north'"),
        (("--out", "past.csv"), "is a file"),
        (("--out", "."), "is not empty; choose another folder"),
    ],
)
def test_what_cannot_be_recalibrated_is_one_line_and_leaves_nothing(words: tuple[str, ...], said: str) -> None:
    kept()
    before = sorted(path.name for path in Path().iterdir())
    pairs = [*zip(ASKED[::2], ASKED[1::2], strict=True), ("--out", "wind"), *zip(words[::2], words[1::2], strict=True)]
    flat = [word for pair in dict(pairs).items() for word in pair]
    assert said in complaint("recalibrate", "past.csv", *flat, "--quiet")
    assert sorted(path.name for path in Path().iterdir()) == before


def test_the_report_is_written_again(recalibrated: Path) -> None:
    page = (recalibrated / "report.html").read_text("utf-8")
    assert "Decisions on power with a recalibrated forecast" in page
    code, output, _ = called("report", str(recalibrated), "--out", "again.html")
    assert (code, output.strip()) == (0, "again.html")
    assert " per case against the raw forecast [" in Path("again.html").read_text("utf-8")
    other = complaint("report", str(recalibrated), "--cost", "newsvendor:underage=1,overage=1,upper=30")
    assert other.startswith("the cost must be that of the fit")


def test_another_unit_than_that_of_the_past_is_noticed(recalibrated: Path) -> None:
    later = past_forecasts(90, "2021-01-01")
    members = [f"m{place}" for place in range(1, 9)]
    later.assign(**{name: later[name] / 1000 for name in members}).to_csv("later.csv", index=False)
    for command in ("decide", "evaluate", "monitor"):
        assert "note: forecasts reach 0.00" in called(command, str(recalibrated), "later.csv")[2]


def test_a_grid_in_another_unit_is_turned_into_that_of_the_past() -> None:
    table = past_forecasts()
    table[["time", "power"]].to_csv("seen.csv", index=False)
    grid = xr.DataArray(
        table.filter(regex="^m").to_numpy(),
        {"time": table["time"].to_numpy("datetime64[ns]")},
        ("time", "number"),
        "tp",
        attrs={"units": "mm"},
    )
    grid.to_netcdf("mm.nc", engine="h5netcdf")
    (grid / 1000).assign_attrs(units="m").to_netcdf("m.nc", engine="h5netcdf")
    asked = ("--forecast", "mm.nc", *ASKED[2:])
    assert called("recalibrate", "seen.csv", *asked, "--out", "rain", "--quiet")[0] == 0
    assert called("decide", "rain", "mm.nc", "--out", "mm.csv")[0] == 0
    code, _, errors = called("decide", "rain", "m.nc", "--out", "m.csv")
    assert code == 0
    assert "note: the forecasts in 'm.nc' are converted from m to mm" in errors
    np.testing.assert_allclose(pd.read_csv("m.csv")["action"], pd.read_csv("mm.csv")["action"], rtol=1e-9)


@pytest.mark.filterwarnings("always::stakes.errors.StakesWarning")
def test_a_leak_is_told_and_kept() -> None:
    kept(copy=past_forecasts()["power"])
    words = ("--forecast", "m1,copy,m2", "--features", "m3", *ASKED[2:], "--lead", "24", "--out", "wind")
    code, output, errors = called("recalibrate", "past.csv", *words)
    assert code == 0, errors
    for said in (errors, output, *load_recalibration(Path("wind")).about.said[-1:]):
        assert "'copy' reproduces" in said


def test_decision_weights_without_a_gradient_are_not_trained_and_progress_is_told_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stakes.training.progress._SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("stakes.forecasting.correction_candidates.trained_on_decision", pytest.fail)
    random = np.random.default_rng(0)
    level = random.normal(60, 20, size=(160, 4))
    table = pd.DataFrame(level, columns=[f"f{hour}" for hour in range(4)])
    table[[f"h{hour}" for hour in range(4)]] = level + random.normal(5, 3, size=(160, 4))
    table.assign(time=pd.date_range("2024-01-01", periods=160)).to_csv("past.csv", index=False)
    words = ("--forecast", "f0:f3", "--outcome", "h0:h3", "--cost", "arbitrage:power=1,energy=2,efficiency=0.9")
    code, output, errors = called("recalibrate", "past.csv", *words, "--lead", "24", "--out", "battery")
    assert code == 0, errors
    first, second, *lines = errors.splitlines()
    assert first.startswith("decision weights are not trained: ")
    assert "gradient" in first
    assert second.startswith("learning from the errors of 160 past forecasts")
    assert lines[:2] == ["1 of 25 done", "2 of 25 done"]
    decision = load_recalibration(Path("battery")).selection.candidates[-1]
    assert (decision.name, decision.cost, decision.accepted) == ("decision", None, False)
    assert decision.why == first.removeprefix("decision weights are ")
    assert decision.why in output
