"""What one more unit of a limit would save, against finite differences of the expected cost."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes
from stakes.errors import CostError, ShapeError
from stakes.forecasting.decisions import solve_decisions
from stakes.programs.scenario_program import ProgramCost, limit_prices


def members(*shape: int) -> Tensor:
    return 3 + torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).cumsum(-1)


CASES: list[tuple[type[Any], dict[str, float], str]] = [
    (stakes.ScheduleCost, {"short": 5.0, "long": 1.0, "quadratic": 0.5, "ramp": 0.3, "upper": 3.5}, "ramp"),
    (stakes.ScheduleCost, {"short": 5.0, "long": 1.0, "quadratic": 0.5, "ramp": 0.3, "upper": 3.5}, "upper"),
    (stakes.AllocationCost, {"short": 5.0, "long": 1.0, "budget": 7.05}, "budget"),
    (stakes.ArbitrageCost, {"power": 1.0, "energy": 0.3, "efficiency": 0.9, "quadratic": 0.1}, "energy"),
]


@pytest.mark.parametrize(("kind", "parameters", "limit"), CASES)
def test_the_price_of_a_parameter_is_the_slope_of_the_expected_cost(
    kind: type[Any], parameters: dict[str, float], limit: str
) -> None:
    samples, step = members(3, 7, 4), 1e-4
    saved = limit_prices(kind(**parameters), samples).saved_by()[limit]
    less, more = (
        stakes.solve_action(kind(**parameters | {limit: parameters[limit] + change}), samples).expected_cost
        for change in (-step, step)
    )
    assert saved.max() > 0
    torch.testing.assert_close(saved, (less - more) / (2 * step), rtol=1e-3, atol=1e-4)


def test_a_limit_in_smaller_units_has_a_smaller_price() -> None:
    def saved(units: int) -> Tensor:
        program = stakes.Program(
            decide={"plan": stakes.Quantity(cost=1)},
            recourse={"missing": stakes.Quantity(cost=[5, 6, 7, 8])},
            recourse_constraints={"demand": "plan + missing >= outcome"},
            limits={"budget": f"{units} * sum(plan) <= {units} * 4"},
        )
        return limit_prices(program, members(3, 7, 4)).saved_by()["budget"]

    assert saved(1).min() > 1
    torch.testing.assert_close(saved(1), 10 * saved(10), rtol=1e-6, atol=0.0)


def test_limits_have_names_and_those_that_do_not_bind_cost_nothing() -> None:
    cost = stakes.ScheduleCost(short=4.0, long=1.0, ramp=1.0)
    found = limit_prices(cost, torch.tensor([[1.0, 1.0, 4.0], [2.0, 1.0, 5.0], [3.0, 1.0, 6.0]]), ["a", "b", "c"])
    assert found.kinds == ("ramp",) * 4 + ("lower",) * 3
    binding = {place for place, binds in zip(found.places, found.binds.tolist(), strict=True) if binds}
    assert binding == {"a to b, up", "b to c, up"}
    assert (found.price[~found.binds] == 0).all()
    assert (found.price[found.binds] > 0.1).all()


def test_a_program_without_names_of_its_own_has_numbers() -> None:
    class Unnamed(ProgramCost):
        def __init__(self) -> None:
            self.cost = stakes.AllocationCost(short=5.0, long=1.0, budget=2.0)
            self.lower, self.upper, self.program = self.cost.lower, self.cost.upper, self.cost.program

        def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
            return self.cost(action, outcome)

    found = limit_prices(Unnamed(), members(2, 5, 3))
    assert (found.kinds[0], found.places[0]) == ("limit", "1")


def test_a_program_without_a_solution_has_no_prices() -> None:
    program = stakes.ScheduleCost(short=1.0, long=1.0, ramp=0.1, upper=9.0).program(2)
    impossible = torch.cat([program.g[:1], torch.tensor([-5.0], dtype=torch.float64)])  # type: ignore[index]

    class Impossible(stakes.ScheduleCost):
        def program(self, parts: int, device: torch.device | None = None) -> stakes.ScenarioProgram:
            return replace(program, g=impossible)

    found = limit_prices(Impossible(1.0, 1.0, ramp=0.1, upper=9.0), members(1, 4, 2))
    assert found.price.isnan().all()
    assert not found.binds.any()


def test_a_decision_about_one_number_has_bounds_and_no_such_limits() -> None:
    refuses(CostError, "ShortfallCost", limit_prices, stakes.ShortfallCost(5.0), members(1, 4, 1))


def test_the_budget_has_one_price_where_one_place_gets_all_of_it() -> None:
    samples = torch.tensor([[[10.0, 0, 0], [12, 0, 0], [14, 0, 0]]], dtype=torch.float64)
    prices = limit_prices(stakes.AllocationCost(short=3.0, long=1.0, budget=6.0), samples).saved_by()
    assert prices["budget"].item() == pytest.approx(3.0, abs=1e-6)
    assert "upper" not in prices


def test_an_action_of_nothing_is_at_its_bound() -> None:
    dear = stakes.Program(
        decide={"hours": stakes.Quantity(cost=100)},
        recourse={"missing": stakes.Quantity(cost=1)},
        recourse_constraints={"demand": "hours + missing >= outcome"},
    )
    samples = torch.rand(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    prices = limit_prices(dear, samples)
    assert prices.binds.tolist() == 2 * [[kind == "lower" for kind in prices.kinds]]
    torch.testing.assert_close(prices.saved_by()["lower"], torch.full((2,), 3 * 99.0, dtype=torch.float64))
    assert not bool(stakes.solve_action(dear, samples).interior.any())
    assert solve_decisions(dear, [samples]).at_lower_bound.all()


def test_a_battery_without_use_is_at_its_bounds() -> None:
    prices = torch.full((2, 3, 4), 5.0, dtype=torch.float64)
    battery = stakes.ArbitrageCost(power=1.0, energy=2.0, efficiency=0.9, quadratic=0.1)
    assert not bool(stakes.solve_action(battery, prices).interior.any())


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_whether_a_limit_binds_does_not_depend_on_its_unit(unit: float) -> None:
    samples = 1e7 + 1e6 * torch.randn(4, 30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for budget, binds in ((3e6, False), (0.5e6, True)):
        program = stakes.Program(
            decide={"buy": stakes.Quantity(cost=0.05)},
            recourse={"short": stakes.Quantity(cost=0.2)},
            recourse_constraints={"demand": "buy + short >= outcome"},
            limits={"budget": "sum(0.05 * buy) / unit <= budget"},
            numbers={"unit": unit, "budget": budget / unit},
        )
        assert limit_prices(program, samples).binds[:, 0].tolist() == [binds] * 4


@pytest.mark.parametrize("name", ["ramp", "upper"])
def test_every_case_may_have_limits_of_its_own(name: str) -> None:
    limits = {"ramp": torch.tensor([[0.1], [9.0]]), "upper": torch.tensor([[2.0], [99.0]])}
    samples = members(2, 5, 3)
    together = limit_prices(stakes.ScheduleCost(3.0, 1.0, **{name: limits[name]}), samples)
    for case, limit in enumerate(limits[name]):
        alone = limit_prices(stakes.ScheduleCost(3.0, 1.0, **{name: limit.item()}), samples[case])
        torch.testing.assert_close(together.price[case], alone.price, rtol=0.0, atol=1e-6)


def test_names_of_other_outcomes_are_refused() -> None:
    with pytest.raises(ShapeError, match="outcomes"):
        limit_prices(stakes.ScheduleCost(2.0, 1.0, ramp=1.0), torch.rand(2, 4, 3), ["a", "b"])
