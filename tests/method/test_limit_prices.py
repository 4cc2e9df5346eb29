"""Which limits bind, and what one more unit would save, against finite differences of the expected cost."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import stakes
from stakes.errors import CostError
from stakes.method.limit_prices import limit_prices
from stakes.method.program_actions import part_names


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


def test_limits_have_names_and_those_that_do_not_bind_cost_nothing() -> None:
    cost = stakes.ScheduleCost(short=4.0, long=1.0, ramp=1.0)
    found = limit_prices(cost, torch.tensor([[1.0, 1.0, 4.0], [2.0, 1.0, 5.0], [3.0, 1.0, 6.0]]), ["a", "b", "c"])
    assert found.kinds == ("ramp",) * 4 + ("lower",) * 3
    binding = {place for place, binds in zip(found.places, found.binds.tolist(), strict=True) if binds}
    assert binding == {"a to b, up", "b to c, up"}
    assert (found.price[~found.binds] == 0).all()
    assert (found.price[found.binds] > 0.1).all()


def test_weights_of_members_count() -> None:
    samples, weights = members(2, 5, 3), torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    cost = stakes.AllocationCost(short=5.0, long=1.0, budget=2.0)
    weighted, chosen = limit_prices(cost, samples, weights=weights), limit_prices(cost, samples[:, [1, 2, 4]])
    torch.testing.assert_close(weighted.price, chosen.price, rtol=1e-4, atol=1e-5)


def test_a_program_without_names_of_its_own_has_numbers() -> None:
    class Unnamed:
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
    with pytest.raises(CostError, match="many parts, got ShortfallCost"):
        limit_prices(stakes.ShortfallCost(5.0), members(1, 4, 1))


def test_names_of_parts() -> None:
    battery, schedule = stakes.ArbitrageCost(power=1.0, energy=1.0), stakes.ScheduleCost(1.0, 1.0)
    assert part_names(schedule, ["a", "b"], 2) == ("a", "b")
    assert part_names(schedule, ["a", "b"], 3) == ("1", "2", "3")
    assert part_names(schedule, ["a"], 1) == ("action",)
    assert part_names(battery, ["a"], 2) == ("charge_a", "discharge_a")
