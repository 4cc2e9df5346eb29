"""What the service answers is what the library says."""

import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import torch
from golden.make_bundle import LAYOUT, table
from refusals import refuses

import stakes
from stakes.artifacts.fits import load_bundle
from stakes.artifacts.folder import STORED_CASES
from stakes.data.forecasts.quantiles import quantile_members
from stakes.data.tables.layout import TableLayout
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.service.routes import Service
from stakes.service.schemas import CurveRequest, DecideRequest, RequestError, TableRequest
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source
from stakes.settings import to_plain
from stakes.workflows.decide import decide_fit

NAMES = list(LAYOUT.features)
WHOLE: dict[str, Any] = {
    "shortfall": stakes.ShortfallCost,
    "wind_dispatch": stakes.WindDispatchCost,
    "protection": stakes.ProtectionCost,
    "newsvendor": stakes.NewsvendorCost,
    "imbalance": stakes.ImbalanceCost,
}
ROWS = table(5)[NAMES]


@pytest.fixture(scope="module")
def forecaster(fit: Path) -> DecisionAwareForecaster:
    return load_bundle(fit).forecaster


def asked(client: httpx.Client, path: str, **body: Any) -> Any:
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def actions(answer: Any) -> list[float]:
    return [decision["action"] for decision in answer["decisions"]]


def test_decisions_are_those_of_the_forecaster(client: httpx.Client, forecaster: DecisionAwareForecaster) -> None:
    answer = asked(client, "/v1/decide", features=ROWS.to_dict("records"))
    expected = forecaster.solve(ROWS)
    assert actions(answer) == expected.action.tolist()
    for place, decision in enumerate(answer["decisions"]):
        assert decision["expected_cost"] == expected.expected_cost[place]
        assert decision["certificate"]["interior"] == expected.interior[place]
        assert decision["certificate"]["residual"] == expected.residual[place]
        assert decision["certificate"]["certified"] == expected.certified[place]
    quantiles = [list(decision["quantiles"].values()) for decision in answer["decisions"]]
    np.testing.assert_allclose(quantiles, forecaster.predict_quantiles(ROWS, [0.1, 0.5, 0.9]))
    assert (answer["member_count"], answer["unit"], answer["action_unit"]) == (50, "EUR", "MW")


def test_a_feature_outside_its_training_range_is_named_with_the_decision(client: httpx.Client) -> None:
    rows = ROWS.assign(sun=ROWS["sun"] + 50 * (np.arange(5) == 3)).to_dict("records")
    answer = asked(client, "/v1/decide", features=rows)
    named = [decision["outside_training_range"] for decision in answer["decisions"]]
    assert named == ["", "", "", "sun", ""]
    assert answer["notes"][-1].startswith("1 of 5 ")
    (curve, *_) = asked(client, "/v1/curve", features=rows[3])["curves"]
    assert curve["decision"]["outside_training_range"] == "sun"
    unmoved = asked(client, "/v1/decide", features=ROWS.to_dict("records"))
    assert [each["action"] for each in answer["decisions"][:3]] == actions(unmoved)[:3]


def test_rows_may_be_lists_and_keys_come_in_any_order(client: httpx.Client) -> None:
    by_name = asked(client, "/v1/decide", features=ROWS.to_dict("records"))
    assert asked(client, "/v1/decide", features=ROWS.to_numpy().tolist()) == by_name
    turned = [dict(reversed(row.items())) for row in ROWS.to_dict("records")]
    assert asked(client, "/v1/decide", features=turned) == by_name
    mixed = [turned[0], *ROWS.to_numpy().tolist()[1:]]
    assert asked(client, "/v1/decide", features=mixed) == by_name


def test_a_row_does_not_depend_on_its_neighbours(client: httpx.Client) -> None:
    rows = ROWS.to_numpy().tolist()
    alone = [actions(asked(client, "/v1/decide", features=[row]))[0] for row in rows]
    assert alone == actions(asked(client, "/v1/decide", features=rows * 10))[: len(rows)]


def test_another_number_of_members_and_other_levels(client: httpx.Client, forecaster: DecisionAwareForecaster) -> None:
    answer = asked(client, "/v1/decide", features=ROWS.to_numpy().tolist(), member_count=7, quantiles=[0.25])
    members = torch.from_numpy(forecaster.sample(ROWS, 7))
    assert actions(answer) == stakes.solve_action(forecaster.cost, members).action[:, 0].tolist()
    assert answer["member_count"] == 7
    assert [list(decision["quantiles"]) for decision in answer["decisions"]] == [["0.25"]] * 5


def test_weight_0_can_be_asked_for(client: httpx.Client, forecaster: DecisionAwareForecaster) -> None:
    answer = asked(client, "/v1/decide", features=ROWS.to_numpy().tolist(), forecast="weight_0")
    outcome = np.full(len(ROWS), 3.0)
    assert actions(answer) == pytest.approx(forecaster.assess(ROWS, outcome, "baseline")["action"].tolist())
    assert actions(answer) != actions(asked(client, "/v1/decide", features=ROWS.to_numpy().tolist()))


@pytest.mark.parametrize("deep", [False, True])
def test_members_that_are_there_already(client: httpx.Client, deep: bool) -> None:
    members = np.random.default_rng(0).normal(3, 1, (4, 30))
    sent = members[..., None] if deep else members
    answer = asked(client, "/v1/decide", members=sent.tolist(), cost={"short": 2.5, "lower": 1})
    cost = stakes.ImbalanceCost(short=2.5, long=1.0, lower=1.0, upper=9.0)
    expected = stakes.solve_action(cost, torch.from_numpy(members)[..., None])
    assert actions(answer) == expected.action[:, 0].tolist()
    assert answer["forecast"] == "members"
    assert "short=2.5" in answer["cost"]


def test_quantiles_are_no_members(client: httpx.Client) -> None:
    levels, quantiles = [0.1, 0.25, 0.5, 0.75, 0.9], [[1.0, 2.0, 3.0, 4.0, 6.0], [2.0, 2.5, 3.0, 5.0, 8.0]]
    answer = asked(client, "/v1/decide", members=quantiles, member_levels=levels, quantiles=[0.1, 0.9])
    members, weights = map(torch.from_numpy, quantile_members(levels, quantiles))
    cost = stakes.ImbalanceCost(short=4.0, long=1.0, lower=0.0, upper=9.0)
    expected = stakes.solve_action(cost, members[..., None].clamp(min=0), weights=weights)
    assert actions(answer) == expected.action[:, 0].tolist()
    assert [decision["quantiles"] for decision in answer["decisions"]] == [{"0.1": 1, "0.9": 6}, {"0.1": 2, "0.9": 8}]
    assert "outcome_bounds" in answer["notes"][0]
    assert "member_levels" in asked(client, "/v1/decide", members=quantiles)["notes"][0]
    assert asked(client, "/v1/decide", members=[[1, 3, 2, 4, 6], [2, 2.5, 3, 5, 8]])["notes"] == []
    assert asked(client, "/v1/decide", members=[[0, 0, 0, 0, 0, 0, 4]] * 9)["notes"] == []  # dry members tell nothing
    (curve,) = asked(client, "/v1/curve", members=quantiles[0], member_levels=levels, points=201)["curves"]
    assert curve["decision"]["action"] == actions(answer)[0]
    assert min(curve["expected_costs"]) == pytest.approx(curve["decision"]["expected_cost"], rel=1e-3)
    assert np.trapezoid(curve["density"], curve["outcomes"]) == pytest.approx(1, abs=0.02)


def test_the_action_at_a_bound_is_said_to_be_there(client: httpx.Client) -> None:
    (decision,) = asked(client, "/v1/decide", members=[[50.0, 51.0]])["decisions"]
    assert decision["action"] == 9.0
    certificate = {"interior": False, "residual": 0.0, "certified": True, "status": "certified", "gap": None}
    assert decision["certificate"] == certificate


def test_forecasts(client: httpx.Client, forecaster: DecisionAwareForecaster) -> None:
    rows = ROWS.to_numpy().tolist()
    answer = asked(client, "/v1/forecast", features=rows, quantiles=[0.1, 0.9], with_members=True, member_count=20)
    members = forecaster.sample(ROWS, 20)
    for row, found in enumerate(answer["forecasts"]):
        assert found["members"] == members[row].tolist()
        assert found["mean"]["load"] == pytest.approx(members[row].mean(), rel=1e-6)
        levels = np.quantile(members[row, :, 0].astype(np.float64), [0.1, 0.9], method="hazen")
        assert list(found["quantiles"]["load"].values()) == pytest.approx(levels.tolist())
    assert asked(client, "/v1/forecast", features=rows)["forecasts"][0]["members"] is None


def test_the_curve_is_the_expected_cost_and_its_least_is_the_action(
    client: httpx.Client, forecaster: DecisionAwareForecaster
) -> None:
    answer = asked(client, "/v1/curve", features=ROWS.iloc[0].to_dict(), cost={"long": 3}, points=401)
    assert [curve["forecast"] for curve in answer["curves"]] == ["selected", "weight_0"]
    curve = answer["curves"][0]
    cost = stakes.ImbalanceCost(short=4.0, long=3.0, lower=0.0, upper=9.0)
    members = torch.from_numpy(forecaster.sample(ROWS[:1]))[0].double()
    for place in (0, 200, 400):
        expected = cost(torch.tensor([curve["actions"][place]]).double(), members).mean()
        assert curve["expected_costs"][place] == pytest.approx(float(expected), rel=1e-5)
    least = int(np.argmin(curve["expected_costs"]))
    step = curve["actions"][1] - curve["actions"][0]
    assert abs(curve["actions"][least] - curve["decision"]["action"]) <= step
    assert curve["decision"]["expected_cost"] <= min(curve["expected_costs"]) + 1e-6
    width = np.diff(curve["outcomes"]).mean()
    assert sum(curve["density"]) * width == pytest.approx(1, abs=0.02)


def test_curves_of_one_forecast_and_of_members(client: httpx.Client) -> None:
    (curve,) = asked(client, "/v1/curve", features=[0, 0, 0], forecasts=["weight_0"])["curves"]
    assert curve["title"] == "Weight 0"
    (curve,) = asked(client, "/v1/curve", members=[3, 3, 3])["curves"]
    assert curve["decision"]["action"] == 3
    assert max(curve["density"]) > 0


def test_a_table_is_decided_as_the_command_does(client: httpx.Client, fit: Path) -> None:
    given = table(6)
    given.loc[2, "sun"] = np.nan
    answer = asked(client, "/v1/table", csv=given.to_csv(index=False), quantiles=[0.5])
    expected = decide_fit(load_bundle(fit), fit, given, None, [0.5])
    assert answer["columns"] == list(expected.table.columns)
    assert answer["rows"] == expected.table.to_numpy(object).tolist()
    assert answer["notes"] == list(expected.notes)
    assert "'sun'" in answer["notes"][0]


def test_a_table_of_times_is_decided_as_the_command_does(fit: Path, tmp_path: Path) -> None:
    """In UTC, and with the same remarks: on the zone, on what was left out, on values outside the range of the fit."""
    layout = TableLayout(("load",), tuple(NAMES), time="time")
    given = table(6).assign(time=pd.date_range("2021-06-01", periods=6, freq="h", tz="Europe/Berlin"))
    bundle = load_bundle(fit)
    folder = stakes.artifacts.fits.save_bundle(
        tmp_path / "timed",
        bundle.forecaster,
        cost_spec=bundle.cost_spec,
        layout=layout,
        about={"quality": to_plain(layout.cases(given).quality)},
    )
    given.loc[1, "wind"], given.loc[2, "sun"] = 5000, np.nan
    service = Service(open_source(folder, None, ServiceSettings()))
    answer = service.table(TableRequest(csv=given.to_csv(index=False), quantiles=[0.5]))
    expected = decide_fit(load_bundle(folder), folder, given, None, [0.5])
    assert answer.notes == list(expected.notes)
    assert [note.partition(" ")[0] for note in answer.notes] == ["1", "times", "1"]
    assert answer.rows[0] == ["2021-05-31T22:00:00Z", *expected.table.iloc[0, 1:]]
    assert service.model().table_columns == ["time", *NAMES]


@pytest.mark.parametrize("name", WHOLE)
def test_every_slider_of_a_cost_of_the_library_says_what_it_is(fit: Path, name: str) -> None:
    known = fields(WHOLE[name]) if name != "wind_dispatch" else (*fields(WHOLE[name])[:1], *fields(stakes.PowerCurve))
    numbers = {field.name: field.default if isinstance(field.default, float) else 1.0 for field in known}
    numbers |= {"upper": 9.0} if "upper" in numbers else {}
    words = ",".join(f"{key}={value}" for key, value in numbers.items() if key != "hazard")
    service = Service(open_source(fit, f"{name}:{words}", ServiceSettings()))
    sliders = [each for each in service.model().cost.parameters if each.slider]
    assert sliders
    assert [each.name for each in sliders if not each.about] == []


def test_the_model_tells_what_is_served(client: httpx.Client) -> None:
    answer = client.get("/v1/model").json()
    assert [feature["name"] for feature in answer["features"]] == NAMES
    assert answer["targets"] == ["load"]
    assert {each["name"]: each["value"] for each in answer["cost"]["parameters"]}["short"] == 4
    assert (answer["cost"]["unit"], answer["cost"]["action_unit"]) == ("EUR", "MW")
    assert [each["decision_weight"] for each in answer["forecasts"]] == [0.9, 0.0]
    assert answer["bundles"][0]["versions"].keys() == {"stakes", "torch", "python"}
    assert answer["version"] == stakes.__version__
    assert answer["limits"]["max_rows"] == 50


def test_cases_have_features_and_outcomes(client: httpx.Client) -> None:
    cases = client.get("/v1/cases").json()["cases"]
    assert len(cases) == 20
    assert cases[-1]["label"] == "row 20"
    given = table(20)
    assert cases[3]["features"] == pytest.approx(given.loc[3, NAMES].to_dict())
    assert cases[3]["outcome"]["load"] == cases[3]["total"] == pytest.approx(given.loc[3, "load"])


def test_health_and_schema_are_there_and_pages_from_elsewhere_are_not(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "pending": 0}
    paths = client.get("/openapi.json").json()["paths"]
    asked = {"/v1/decide", "/v1/value", "/v1/forecast", "/v1/curve", "/v1/parts", "/v1/table", "/v1/series"}
    assert asked | {"/v1/model", "/v1/cases", "/healthz"} == set(paths)
    assert [client.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]


def test_cases_that_cannot_be_read_are_a_note(fit: Path, tmp_path: Path) -> None:
    shutil.copytree(fit, tmp_path / "load")
    (tmp_path / "load" / STORED_CASES).write_bytes(b"PAR1")
    opened = open_source(tmp_path / "load", None, ServiceSettings())
    service = Service(opened)
    assert any(STORED_CASES.name in note for note in opened.notes)
    assert service.cases().cases == []
    typical = [feature.typical for feature in service.model().features]
    assert typical == pytest.approx(table(300)[NAMES].mean().tolist(), abs=0.05)  # of the training


def test_cases_that_the_manifest_does_not_name_are_not_read(fit: Path, tmp_path: Path) -> None:
    stakes.artifacts.fits.save_bundle(tmp_path / "bare", load_bundle(fit).forecaster)
    (tmp_path / "bare" / STORED_CASES).parent.mkdir()
    shutil.copy(fit / STORED_CASES, tmp_path / "bare" / STORED_CASES)
    assert open_source(tmp_path / "bare", None, ServiceSettings()).cases().cases == []


def test_a_fit_without_a_layout_takes_no_tables(fit: Path, tmp_path: Path) -> None:
    stakes.artifacts.fits.save_bundle(tmp_path / "bare", load_bundle(fit).forecaster)
    service = Service(open_source(tmp_path / "bare", None, ServiceSettings()))
    assert not service.model().takes_tables
    refuses(RequestError, "without the layout", service.table, TableRequest(csv="wind\n1\n"))


def test_an_own_cost_is_served_with_other_numbers_and_without_its_folder(fit: Path, tmp_path: Path) -> None:
    file = tmp_path / "costs.py"
    file.write_text("def mine(action, outcome, steep):\n    return steep * (action - outcome) ** 2 + action\n")
    service = Service(open_source(fit, f"{file}:mine:lower=0,upper=9,steep=2", ServiceSettings()))
    members = [[1.0, 3.0]]
    found = [
        service.decide(DecideRequest(members=members, cost=cost)).decisions[0].action for cost in ({}, {"steep": 0.5})
    ]
    assert found == pytest.approx([1.75, 1.0], abs=1e-4)
    assert service.model().cost.text == "costs.py:mine:lower=0,upper=9,steep=2"
    assert [each.name for each in service.model().cost.parameters if each.slider] == ["steep"]


@pytest.mark.parametrize(
    "cost", ["schedule:short=5,long=1", "newsvendor:underage=5,overage=1,upper=50,cvar_level=0.5,cvar_mix=0.7"]
)
def test_curves_of_a_schedule_of_one_part_and_of_aversion_to_risk(fit: Path, cost: str) -> None:
    """The least expected cost on the curve is that of the best action."""
    service = Service(open_source(fit, cost, ServiceSettings()))
    assert service.model().cost.parts == []
    for members, levels in (([1.0, 2.0, 3.0, 4.0, 5.0, 6.5] * 2, None), ([1.0, 3.0, 8.0], [0.1, 0.5, 0.9])):
        request = CurveRequest(members=members, member_levels=levels, points=401)
        (curve,) = service.curve(request).curves
        assert min(curve.expected_costs) == pytest.approx(curve.decision.expected_cost, rel=2e-3)
        least = curve.actions[int(np.argmin(curve.expected_costs))]
        assert least == pytest.approx(curve.decision.action, abs=0.3)


def test_value_is_that_of_the_library(client: httpx.Client, forecaster: DecisionAwareForecaster) -> None:
    rows = table(40)
    outcomes = rows[list(LAYOUT.targets)].to_numpy()[:, 0]
    asks = {"features": rows[NAMES].to_dict("records"), "outcomes": outcomes.tolist(), "parameter": "short"}
    answer = asked(client, "/v1/value", **asks, low=1, high=20, points=5, against="weight_0")
    cost = stakes.ImbalanceCost(stakes.ParameterRange(1, 20), forecaster.cost.long, 0.0, forecaster.cost.upper)
    drawn = {"selected": forecaster.sample(rows[NAMES])}
    wanted = stakes.value_curve(drawn, outcomes, cost, answer["values"])
    np.testing.assert_allclose(answer["forecasts"][0]["cost"], wanted.cost[0], rtol=1e-6)
    np.testing.assert_allclose(answer["climatology_cost"], wanted.climatology_cost, rtol=1e-6)
    assert [each["forecast"] for each in answer["forecasts"]] == ["selected", "weight_0"]
    assert "short" in answer["sentence"]
    posted = asked(
        client, "/v1/value", members=[[1, 2], [3, 4]], **{**asks, "features": None, "outcomes": [1, 5]}, low=1, high=2
    )
    assert posted["saved_low"] == [None] * 50
    bad = {"parameter": "shrt", "low": -1, "outcomes": [[1, 2]] * 40, "against": "selected"}
    fields = {"parameter": "cost.shrt", "low": "low", "outcomes": "outcomes", "against": "against"}
    for name, value in bad.items():
        reply = client.post("/v1/value", json={**asks, "low": 1, "high": 20, name: value})
        assert (reply.status_code, reply.json()["error"]["field"]) == (422, fields[name])
