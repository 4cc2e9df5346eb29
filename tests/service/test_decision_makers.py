"""A service that answers each customer with their own cost."""

from typing import Any

import numpy as np
import pytest
from ranged_fit import LAYOUT, ranged_fit, table
from refusals import refuses

from stakes.artifacts.fits import load_bundle
from stakes.cost_spec.spec import CostSpec
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.service.cost import ServedCost
from stakes.service.routes import Service
from stakes.service.schemas import CurveRequest, DecideRequest, ForecastRequest, RequestError, TableRequest
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source

ROWS = table(5)[list(LAYOUT.features)]
FEATURES = ROWS.to_numpy().tolist()


def service(conditioned: bool = True, cost: str | None = None) -> Service:
    return Service(open_source(ranged_fit(conditioned)[0], cost, ServiceSettings()))


def forecaster(conditioned: bool = True) -> DecisionAwareForecaster:
    return load_bundle(ranged_fit(conditioned)[0]).forecaster


@pytest.mark.parametrize("conditioned", [True, False])
def test_decisions_are_those_of_the_forecaster(conditioned: bool) -> None:
    for penalty in (5.0, [1.0, 2.0, 7.5, 20.0, 50.0]):
        answer = service(conditioned).decide(DecideRequest(features=FEATURES, cost={"penalty": penalty}))
        expected = forecaster(conditioned).solve(ROWS, cost_parameters={"penalty": penalty})
        np.testing.assert_allclose([each.action for each in answer.decisions], expected.action, rtol=1e-6)
        costs = [each.expected_cost for each in answer.decisions]
        np.testing.assert_allclose(costs, expected.expected_cost, rtol=1e-5, atol=1e-7)
    assert answer.cost == "shortfall:penalty=1..50,unit=EUR"


def test_members_of_a_request_are_decided_for_each_row() -> None:
    members = [[[0.2, 0.4], [0.5, 0.6], [0.7, 0.9]]] * 2
    answer = service().decide(DecideRequest(members=members, cost={"penalty": [1.0, 50.0]}))
    generous, careful = (each.action for each in answer.decisions)
    assert isinstance(generous, float)
    assert isinstance(careful, float)
    assert generous > careful


def test_other_lists_are_not_passed_over_beside_one_of_the_range() -> None:
    spec = CostSpec.parse("newsvendor:underage=1..9,overage=1,lower=0,upper=50")
    served = ServedCost(spec, spec.build(), 1.0, ["y"])
    assert served.priced({"underage": [2.0, 3.0, 4.0], "upper": 20.0}, 3).cost.upper == 20.0
    for underage in (2.0, [2.0, 3.0, 4.0]):
        refuses(RequestError, "", served.priced, {"underage": underage, "upper": [1.0, 2.0, 3.0]}, 3)


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ({}, "7.07"),
        ({"penalty": None}, "1 to 50"),
        ({"penalti": 5.0}, "'penalti'"),
        ({"penalty": 80.0}, "got 80"),
        ({"penalty": [1.0, 2.0]}, "5 rows, got 2"),
        ({"penalty": [1.0, 2.0, 3.0, 4.0, 90.0]}, "got 90"),
    ],
)
def test_what_is_missing_or_beyond_the_range_is_refused(cost: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        service().decide(DecideRequest(features=FEATURES, cost=cost))
    assert caught.value.field == f"cost.{next(iter(cost), 'penalty')}"
    (parameter,) = service().model().cost.parameters
    assert (parameter.name, parameter.value, parameter.slider) == ("penalty", 7.07, True)
    assert (parameter.low, parameter.high, parameter.scale) == (1.0, 50.0, "log")


def test_curves_and_tables_are_of_one_decision_maker() -> None:
    served = service()
    curve = served.curve(CurveRequest(features=FEATURES[0], cost={"penalty": 5.0}))
    expected = forecaster().decide(ROWS[:1], cost_parameters={"penalty": 5})[0]
    assert curve.curves[0].decision.action == pytest.approx(expected, rel=1e-6)
    other = served.curve(CurveRequest(features=FEATURES[0], cost={"penalty": 6.0}))
    assert other.curves[0].density != curve.curves[0].density  # members are drawn anew for another decision maker
    told = served.table(TableRequest(csv=table(3).to_csv(index=False), cost={"penalty": 5.0}))
    place = told.columns.index("action")
    assert told.rows[0][place] == pytest.approx(expected, rel=1e-6)
    refuses(RequestError, "penalty", served.curve, CurveRequest(features=FEATURES[0], cost={"penalty": [5.0]}))


def test_a_forecast_needs_the_cost_only_where_it_depends_on_it() -> None:
    answer = service().forecast(ForecastRequest(features=FEATURES, cost={"penalty": 5.0}))
    expected = forecaster().predict(ROWS, cost_parameters={"penalty": 5})
    means = [list(row.mean.values()) for row in answer.forecasts]
    np.testing.assert_allclose(means, expected, rtol=1e-5)
    refuses(RequestError, "penalty", service().forecast, ForecastRequest(features=FEATURES))
    shared = service(conditioned=False)
    assert len(shared.forecast(ForecastRequest(features=FEATURES)).forecasts) == 5
    refuses(RequestError, "selected", shared.forecast, ForecastRequest(features=FEATURES, cost={"penalty": 5.0}))


def test_a_number_in_place_of_the_range_must_lie_in_it() -> None:
    fixed = service(cost="shortfall:penalty=5,unit=EUR")
    answer = fixed.decide(DecideRequest(features=FEATURES))
    expected = forecaster().decide(ROWS, cost_parameters={"penalty": 5})
    np.testing.assert_allclose([each.action for each in answer.decisions], expected, rtol=1e-6)
    refuses(RequestError, "got 70", fixed.decide, DecideRequest(features=FEATURES, cost={"penalty": 70.0}))
    strange = service(cost="newsvendor:underage=2,overage=1,upper=2")
    refuses(RequestError, "depends on penalty", strange.decide, DecideRequest(features=FEATURES))
