"""A service of decisions with many parts: actions are lists, limits have prices, and no curve is drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refuses

import stakes
from stakes.artifacts.fits import save_bundle
from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.quantiles import quantile_members
from stakes.data.tables.layout import TableLayout
from stakes.service.cost import PricedCost
from stakes.service.routes import Service, decision_rows, parts_of_forecast
from stakes.service.schemas import CaseRequest, CurveRequest, DecideRequest, RequestError, TableRequest
from stakes.service.server import ServiceSettings
from stakes.service.sources import Drawn, open_source

HOURS = ["h1", "h2", "h3"]
WAYS = ("charge", "discharge")
SPEC = CostSpec.parse("schedule:short=5,long=1,ramp=0.5,unit=EUR,action_unit=MW")
COSTS = {
    "schedule": "schedule:short=5,long=1,quadratic=1,ramp=0.5,upper=9",
    "allocation": "allocation:short=5,long=1,budget=9,cvar_level=0.5,cvar_mix=0.5",
    "storage": "storage:price=0.1,short=5,long=1,power=1,energy=1",
    "arbitrage": "arbitrage:power=1,energy=1,quadratic=1",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    features = pd.DataFrame({"wind": generator.normal(size=60)})
    load = 5 + features.to_numpy() + np.array([0.0, 1.0, 0.2]) + 0.3 * generator.normal(size=(60, 3))
    forecaster = stakes.DecisionAwareForecaster(
        SPEC.build(), model="linear", base="none", decision_weight=0.0, members=20, random_state=0
    ).fit(features, pd.DataFrame(load, columns=HOURS))
    layout = TableLayout(tuple(HOURS), ("wind",))
    return save_bundle(tmp_path_factory.mktemp("parts") / "plan", forecaster, cost_spec=SPEC, layout=layout)


@pytest.fixture(scope="module")
def service(folder: Path) -> Service:
    return Service(open_source(folder, None, ServiceSettings()))


def test_an_action_is_a_list_with_its_certificate(service: Service) -> None:
    (decision,) = service.decide(DecideRequest(features=[[0.3]], quantiles=[0.5])).decisions
    action = np.array(decision.action)
    assert action.shape == (3,)
    assert np.abs(np.diff(action)).max() <= 0.5 + 1e-12  # which single precision would not keep
    assert decision.certificate.certified
    assert decision.certificate.gap == pytest.approx(0.0, abs=1e-6)
    assert np.shape(decision.quantiles["0.5"]) == (3,)


def test_parts_with_the_limits_that_bind(service: Service) -> None:
    answer = service.parts(CaseRequest(features=[0.3]))
    (told,) = answer.forecasts
    (decision,) = service.decide(DecideRequest(features=[[0.3]])).decisions
    assert told.decision.action == decision.action
    assert list(told.decision.quantiles) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    assert (answer.outcomes, answer.parts) == (HOURS, HOURS)
    assert told.binding[0].kind == "ramp"
    assert told.binding[0].place in ("h1 to h2, up", "h2 to h3, down")
    assert told.binding[0].saves > 0
    eased = service.parts(CaseRequest(features=[0.3], cost={"ramp": 9.0})).forecasts[0]
    assert eased.binding == []
    assert eased.decision.expected_cost < told.decision.expected_cost
    without = service.parts(CaseRequest(features=[0.3], cost={"ramp": None}))
    assert (without.forecasts, without.cost) == ([eased], "schedule:long=1,lower=0,short=5,unit=EUR,action_unit=MW")


def test_a_number_for_each_part(service: Service) -> None:
    def action(cost: dict[str, Any]) -> list[float]:
        return service.decide(DecideRequest(features=[[0.3]], cost={"ramp": None, **cost})).decisions[0].action

    low, high = action({"short": 2.0}), action({"short": 9.0})
    assert action({"short": [2.0, 9.0, 2.0]}) == [low[0], high[1], low[2]] != low
    for wrong, field in (
        ({"short": [2.0, 9.0]}, "features"),
        ({"ramp": [1.0, 2.0]}, "cost.ramp"),
        ({"short": None}, "cost.short"),
    ):
        with pytest.raises(RequestError) as error:
            action(wrong)
        assert error.value.field == field


def test_members_and_quantiles_that_are_sent(service: Service) -> None:
    rows = [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]]
    sent = service.parts(CaseRequest(members=rows)).forecasts[0].decision.action
    assert sent == pytest.approx([3.0, 3.0, 3.0])
    with_levels = DecideRequest(members=[rows], member_levels=[0.1, 0.5, 0.9])
    members, weights = quantile_members([0.1, 0.5, 0.9], [[1.0, 2.0, 3.0]])
    alone = stakes.optimal_action(
        stakes.ScheduleCost(5.0, 1.0), torch.from_numpy(members)[..., None], weights=torch.from_numpy(weights)
    )
    assert service.decide(with_levels).decisions[0].action == pytest.approx([float(alone)] * 3, rel=1e-5)


def test_the_mean_cost_of_an_action_that_averts_risk_is_told() -> None:
    spec = CostSpec.parse("newsvendor:underage=3,overage=1,upper=9,cvar_level=0.5")
    members = torch.linspace(1.0, 8.0, 12, dtype=torch.float64)[None, :, None]
    (told,) = decision_rows(PricedCost(spec, spec.build()), members, [], "members")
    action = torch.tensor([told.action], dtype=torch.float64)
    mean = stakes.NewsvendorCost(3.0, 1.0, 0.0, 9.0)(action, members[0]).mean()
    assert told.plain_expected_cost == pytest.approx(mean.item())
    assert told.expected_cost is not None
    assert told.expected_cost > mean


def test_a_curve_is_refused_and_so_are_parts_of_one_number(service: Service, folder: Path) -> None:
    refuses(RequestError, "/v1/parts", service.curve, CurveRequest(features=[0.3]))
    one = Service(open_source(folder, "newsvendor:underage=4,overage=1,upper=50", ServiceSettings()))
    refuses(RequestError, "/v1/curve", one.parts, CaseRequest(features=[0.3]))
    assert one.curve(CurveRequest(features=[0.3])).curves[0].decision.certificate.gap is None
    assert one.model().cost.parts == []


@pytest.mark.parametrize("wrong", [{"ramp": 0.0}, {"short": -2.0}, {"nothing": 1.0}])
def test_wrong_prices_are_refused_by_name(service: Service, wrong: dict[str, float]) -> None:
    with pytest.raises(RequestError) as error:
        service.parts(CaseRequest(features=[0.3], cost=wrong))
    assert error.value.field == f"cost.{next(iter(wrong))}"


def test_what_has_no_best_action_is_told_with_the_reason_and_the_others_are_answered() -> None:
    limited = stakes.Program(
        decide={"plan": stakes.Quantity(cost=-1, upper=5)}, recourse_constraints={"need": "2 * plan >= outcome"}
    )
    priced, members = PricedCost(SPEC, limited), torch.tensor([[[1.0, 2.0]], [[40.0, 2.0]]], dtype=torch.float64)
    solved, none = decision_rows(priced, members, [0.5], "members")
    assert np.isfinite(solved.action).all()
    assert solved.certificate.status == "certified"
    assert (none.action, none.expected_cost, none.certificate.status) == (None, None, "infeasible")
    drawn = Drawn("given", 2, [members[1:]], field="members")
    refuses(RequestError, "infeasible", parts_of_forecast, priced, drawn, ["h1", "h2"])


def test_a_table_has_a_column_for_each_part(service: Service) -> None:
    answer = service.table(TableRequest(csv="wind\n0.3\n-1\n", quantiles=[0.5]))
    assert answer.columns[1:5] == ["action_h1", "action_h2", "action_h3", "expected_cost"]
    assert len(answer.rows) == 2


@pytest.mark.parametrize("name", COSTS)
def test_every_slider_of_a_program_says_what_it_is_and_both_ends_decide(folder: Path, name: str) -> None:
    service = Service(open_source(folder, COSTS[name], ServiceSettings()))
    cost = service.model().cost
    assert cost.parts == (HOURS if name != "arbitrage" else [f"{way}_{hour}" for way in WAYS for hour in HOURS])
    sliders = [each for each in cost.parameters if each.slider]
    assert [each.name for each in sliders if not each.about] == []
    ranges = {each.name: (each.low, each.high) for each in sliders}
    assert all(0 <= low < high for low, high in ranges.values())
    assert ranges.get("efficiency", (0, 1))[1] == 1
    members = [[[5.0] * 3, [6.0] * 3] * 10]
    ends = [{key: end} for key, both in ranges.items() for end in both] if name in ("schedule", "allocation") else []
    for cost_there in ends:
        request = DecideRequest(members=members, cost=cost_there)
        assert np.isfinite(service.decide(request).decisions[0].expected_cost)
