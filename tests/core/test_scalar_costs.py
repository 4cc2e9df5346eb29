"""Costs of one number: protocols, formulas, best actions, power curve, functions as costs, and refusals."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses
from torch import Tensor

from stakes import (
    Cost,
    CostLossCost,
    ImbalanceCost,
    NewsvendorCost,
    PowerCurve,
    ProtectionCost,
    ShortfallCost,
    WindDispatchCost,
    cost_function,
    optimal_action,
    solve_action,
)
from stakes.costs.cost import closed_form_of, require_cost, total_of
from stakes.errors import CostError, ShapeError


@pytest.mark.parametrize("thing", [None, 3.0, torch.sub, "shortfall"])
def test_what_cannot_serve_as_a_cost_is_refused(thing: Any) -> None:
    refuses(CostError, "cost", require_cost, thing)


DOUBLE = torch.float64


def price(cost: Cost, action: float, *outcome: float) -> float:
    return cost(torch.tensor([action], dtype=DOUBLE), torch.tensor(outcome, dtype=DOUBLE)).item()


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@pytest.mark.parametrize(
    ("action", "power", "expected"),
    [(0.5, 0.7, -0.5), (0.5, 0.5, -0.5), (0.5, 0.3, -0.5 + 5 * 0.04), (1.0, 0.0, 4.0), (0.0, 0.0, 0.0)],
)
def test_shortfall_values(action: float, power: float, expected: float) -> None:
    assert price(ShortfallCost(5.0), action, power) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("hazard", "sign"), [("above", 1), ("below", -1)])
@pytest.mark.parametrize(("exposure", "protection"), [(2.0, 1.0), (1.0, 2.0), (3.0, 1.5)])
def test_protection_values(hazard: Any, sign: int, exposure: float, protection: float) -> None:
    cost = ProtectionCost(1.0, 0.3, hazard, sharpness=2.0, exposure_power=exposure, protection_power=protection)
    severity = sigmoid(sign * 2.0 * (1.7 - 1.0))
    expected = severity * 0.6**exposure + 0.3 * (1 - severity) * 0.4**protection
    assert price(cost, 0.4, 1.7) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("action", "demand", "expected"), [(3.0, 5.0, 8.0), (5.0, 3.0, 2.0), (4.0, 4.0, 0.0)])
def test_newsvendor_values(action: float, demand: float, expected: float) -> None:
    for kind, paid in ((NewsvendorCost, expected), (ImbalanceCost, 2 * expected)):  # of differences of 2, squared
        cost = kind(4.0, 1.0, 0.0, 10.0)
        assert price(cost, action, demand) == price(cost, action, demand - 1, 0.5, 0.5) == paid


@pytest.mark.parametrize(
    ("underage", "overage", "rank"), [(1.0, 1.0, 2), (3.0, 1.0, 3), (3.01, 1.0, 4), (1.0, 99.0, 1), (99.0, 1.0, 4)]
)
def test_newsvendor_takes_an_order_statistic(underage: float, overage: float, rank: int) -> None:
    members = torch.tensor([[7.0], [1.0], [3.0], [5.0]], requires_grad=True)
    action = NewsvendorCost(underage, overage, 0.0, 10.0).best_action(members)
    assert action.item() == [1.0, 3.0, 5.0, 7.0][rank - 1]
    (gradient,) = torch.autograd.grad(action.sum(), members)
    assert torch.equal(gradient, (members.detach() == action.detach()).float())


@pytest.mark.parametrize("members", [10, 20, 30, 50, 70, 100, 300])
def test_newsvendor_rank_is_exact_at_whole_numbers(members: int) -> None:
    selection = torch.arange(1.0, members + 1)[:, None]
    for tenths in range(1, 10):
        action = NewsvendorCost(tenths / 10, 1 - tenths / 10, 0.0, 1000.0).best_action(selection)
        assert action.item() == members * tenths // 10


def test_newsvendor_gradient_of_tied_members_goes_to_one() -> None:
    members = torch.tensor([[2.0], [2.0], [2.0]], requires_grad=True)
    action = NewsvendorCost(1.0, 1.0, 0.0, 10.0).best_action(members)
    (gradient,) = torch.autograd.grad(action.sum(), members)
    assert sorted(gradient.flatten().tolist()) == [0.0, 0.0, 1.0]


def test_cost_loss_protects_where_the_probability_exceeds_the_ratio_and_is_certified() -> None:
    members = torch.rand(40, 9, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.rand(40, 9, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
    cost = CostLossCost(0.4, 0.7, loss=2.0, event="below")
    share = ((members < 0.4).double().mean(-1) * weights).sum(-1) / weights.sum(-1)
    solution = solve_action(cost, members, weights=weights)
    assert solution.certified.all()
    assert torch.equal(solution.action[:, 0], (share > 0.35).double())
    assert 0 < solution.action.mean() < 1
    assert not optimal_action(cost, members, weights=weights).requires_grad


PARAMETERS = torch.tensor([2.0, 5.0, 20.0], dtype=DOUBLE)
MAKERS: dict[str, Callable[[Any], Cost]] = {
    "shortfall": ShortfallCost,
    "wind": WindDispatchCost,
    "protection_threshold": lambda p: ProtectionCost(p / 10, 0.5),
    "protection_ratio": lambda p: ProtectionCost(0.5, p / 10, "below"),
    "protection_sharpness": lambda p: ProtectionCost(0.5, 0.5, sharpness=p),
    "cost_loss_threshold": lambda p: CostLossCost(p / 10, 0.3),
    "cost_loss_protection": lambda p: CostLossCost(0.5, p, 6.0, "below"),
    "newsvendor_underage": lambda p: NewsvendorCost(p, 3.0, 0.0, 10.0),
    "newsvendor_overage": lambda p: NewsvendorCost(3.0, p, 0.0, 10.0),
    "newsvendor_bounds": lambda p: NewsvendorCost(2.0, 3.0, p / 10, p),
    "imbalance_short": lambda p: ImbalanceCost(p, 3.0, 0.0, 10.0),
    "imbalance_long": lambda p: ImbalanceCost(3.0, p, 0.0, 10.0),
    "imbalance_bounds": lambda p: ImbalanceCost(2.0, 3.0, p / 10, p),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("sites", [1, 3])
def test_tensor_parameters_equal_a_loop_over_floats(name: str, sites: int) -> None:
    generator = torch.Generator().manual_seed(1)
    members = torch.rand(3, 9, sites, dtype=DOUBLE, generator=generator)
    actions = torch.rand(3, 1, dtype=DOUBLE, generator=generator)
    together, apart = MAKERS[name](PARAMETERS), [MAKERS[name](value) for value in PARAMETERS.tolist()]
    outcomes = members.movedim(-2, 0)
    torch.testing.assert_close(
        together(actions, outcomes),
        torch.stack([cost(actions[row], members[row]) for row, cost in enumerate(apart)], -1),
    )
    torch.testing.assert_close(
        best(together, members), torch.stack([best(cost, members[row]) for row, cost in enumerate(apart)])
    )


def best(cost: Cost, members: Tensor) -> Tensor:
    assert closed_form_of(cost) is not None
    action = cost.best_action(members)
    assert action is not None
    return action


NOT_POSITIVE: tuple[Any, ...] = (0.0, -1.0, math.nan, math.inf, torch.tensor([1.0, -1.0]), torch.tensor(math.nan))
NOT_FINITE: tuple[Any, ...] = (math.nan, math.inf, -math.inf, torch.tensor([0.0, math.nan]))
NO_POSITIVE_NUMBERS = (0.0, -1.0, math.nan, math.inf)
NO_FINITE_NUMBERS = (math.nan, math.inf, -math.inf)
BAD: list[tuple[str, Callable[[Any], Any], tuple[Any, ...]]] = [
    ("penalty", lambda bad: ShortfallCost(bad), NOT_POSITIVE),
    ("penalty", lambda bad: WindDispatchCost(bad), NOT_POSITIVE),
    ("threshold", lambda bad: ProtectionCost(bad, 0.5), NOT_FINITE),
    ("threshold", lambda bad: CostLossCost(bad, 0.5), NOT_FINITE),
    ("protection", lambda bad: CostLossCost(0.0, bad), NOT_POSITIVE),
    ("loss", lambda bad: CostLossCost(0.0, 0.5, bad), NOT_POSITIVE),
    ("event", lambda bad: CostLossCost(0.0, 0.5, event=bad), ("sideways", "", None)),
    ("false_alarm_ratio", lambda bad: ProtectionCost(0.0, bad), NOT_POSITIVE),
    ("sharpness", lambda bad: ProtectionCost(0.0, 0.5, sharpness=bad), NOT_POSITIVE),
    ("hazard", lambda bad: ProtectionCost(0.0, 0.5, hazard=bad), ("sideways", "", None)),
    ("exposure_power", lambda bad: ProtectionCost(0.0, 0.5, exposure_power=bad), (0.5, 1.0, -1.0, math.nan, math.inf)),
    ("protection_power", lambda bad: ProtectionCost(0.0, 0.5, protection_power=bad), (0.5, -1.0, math.nan, math.inf)),
    ("underage", lambda bad: NewsvendorCost(bad, 1.0, 0.0, 1.0), NOT_POSITIVE),
    ("overage", lambda bad: NewsvendorCost(1.0, bad, 0.0, 1.0), NOT_POSITIVE),
    ("lower", lambda bad: NewsvendorCost(1.0, 1.0, bad, 1.0), (*NOT_FINITE, 1.0, 2.0)),
    ("upper", lambda bad: NewsvendorCost(1.0, 1.0, 0.0, bad), (*NOT_FINITE, 0.0, -2.0)),
    ("short", lambda bad: ImbalanceCost(bad, 1.0, 0.0, 1.0), NOT_POSITIVE),
    ("long", lambda bad: ImbalanceCost(1.0, bad, 0.0, 1.0), NOT_POSITIVE),
    ("lower", lambda bad: ImbalanceCost(1.0, 1.0, bad, 1.0), (*NOT_FINITE, 1.0, 2.0)),
    ("upper", lambda bad: ImbalanceCost(1.0, 1.0, 0.0, bad), (*NOT_FINITE, 0.0, -2.0)),
    ("ramp_sharpness", lambda bad: PowerCurve(ramp_sharpness=bad), NO_POSITIVE_NUMBERS),
    ("cutoff_sharpness", lambda bad: PowerCurve(cutoff_sharpness=bad), NO_POSITIVE_NUMBERS),
    ("hub_height", lambda bad: PowerCurve(hub_height=bad), NO_POSITIVE_NUMBERS),
    ("reference_height", lambda bad: PowerCurve(reference_height=bad), NO_POSITIVE_NUMBERS),
    ("shear", lambda bad: PowerCurve(shear=bad), NO_FINITE_NUMBERS),
    ("ramp_speed", lambda bad: PowerCurve(ramp_speed=bad), (*NO_FINITE_NUMBERS, 22.0, 30.0)),
    ("cutoff_speed", lambda bad: PowerCurve(cutoff_speed=bad), (*NO_FINITE_NUMBERS, 9.0, 3.0)),
    ("function", lambda bad: cost_function(bad, 0.0, 1.0), (None, 3.0)),
    ("lower", lambda bad: cost_function(torch.sub, bad, 1.0), (*NO_FINITE_NUMBERS, 1.0, 2.0)),
    ("upper", lambda bad: cost_function(torch.sub, 0.0, bad), (*NO_FINITE_NUMBERS, 0.0, -2.0)),
]


@pytest.mark.parametrize(("field", "make", "bad_ones"), BAD)
def test_bad_parameter_is_named(field: str, make: Callable[[Any], Any], bad_ones: tuple[Any, ...]) -> None:
    for bad in bad_ones:
        refuses(CostError, rf"\b{field}\b", make, bad)


@pytest.mark.parametrize("name", MAKERS)
def test_a_cost_is_a_function_of_its_total(name: str) -> None:
    """Sites count by their total alone. Protection has none: it adds up severities."""
    cost = MAKERS[name](1.5)
    total = total_of(cost)
    assert (total is not None) is not name.startswith(("protection", "cost_loss"))
    if total is None:
        return
    outcome, action = 6 * torch.rand(20, 3, dtype=DOUBLE), torch.rand(20, 1, dtype=DOUBLE)
    seen = cost.power_curve(outcome) if isinstance(cost, WindDispatchCost) else outcome
    expected = seen.mean(-1) if isinstance(cost, ShortfallCost) else seen.sum(-1)
    torch.testing.assert_close(cost.total(outcome), expected)
    plain = ShortfallCost(cost.penalty) if isinstance(cost, WindDispatchCost) else cost
    torch.testing.assert_close(cost(action, outcome), plain(action, expected[..., None]))


@pytest.mark.parametrize("name", [*MAKERS, "protection_powers"])
def test_costs_are_convex_in_the_action(name: str) -> None:
    """On which it rests that a certified action of theirs is the best one."""
    powers = lambda p: ProtectionCost(0.5, 0.5, exposure_power=p, protection_power=1.5)
    cost = (MAKERS | {"protection_powers": powers})[name](2.0)
    generator = torch.Generator().manual_seed(0)
    outcome = 12 * torch.rand(500, 2, dtype=DOUBLE, generator=generator)
    width = cost.upper - cost.lower
    first, second = (cost.lower + width * torch.rand(500, 1, dtype=DOUBLE, generator=generator) for _ in range(2))
    share = torch.rand(500, 1, dtype=DOUBLE, generator=generator)
    chord = share[:, 0] * cost(first, outcome) + (1 - share[:, 0]) * cost(second, outcome)
    assert (cost(share * first + (1 - share) * second, outcome) <= chord + 1e-12 * chord.abs()).all()


@pytest.mark.parametrize("solve", [optimal_action, lambda cost, samples: solve_action(cost, samples).action])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("outcome", [-3.0, -300.0])
def test_a_hazard_far_rarer_than_a_false_alarm_is_dear_is_not_protected_against(
    solve: Callable[[ProtectionCost, Tensor], Tensor], dtype: torch.dtype, outcome: float
) -> None:
    samples = torch.full((10, 1), outcome, dtype=dtype, requires_grad=True)
    assert solve(ProtectionCost(0.0, 1e-9), samples).item() == 0.0
    (gradient,) = torch.autograd.grad(optimal_action(ProtectionCost(0.0, 1e-9), samples).sum(), samples)
    assert not gradient.any()


def test_power_curve_formula() -> None:
    curve = PowerCurve()
    hub = 7.0 * 10**0.143
    expected = sigmoid(0.8 * (hub - 9)) * sigmoid(-2 * (hub - 22))
    assert curve(torch.tensor(7.0, dtype=DOUBLE)).item() == pytest.approx(expected, rel=1e-14)


def test_gradient_keeps_its_digits_where_the_curve_is_all_but_flat() -> None:
    speed = torch.tensor([-40.0, 0.0, 9.0, 16.0, 22.0, 60.0], dtype=DOUBLE, requires_grad=True)
    curve = PowerCurve(shear=0.0)
    (slope,) = torch.autograd.grad(curve(speed).sum(), speed)
    up, down = 0.8 * (speed - 9), -2 * (speed - 22)
    power = torch.sigmoid(up) * torch.sigmoid(down)
    expected = power * (0.8 * torch.sigmoid(-up) - 2 * torch.sigmoid(-down))
    torch.testing.assert_close(slope, expected.detach(), rtol=1e-9, atol=0.0)


def test_cost_function_drops_the_last_axis_for_one_outcome() -> None:
    seen: list[tuple[int, ...]] = []

    def squared(action: Tensor, outcome: Tensor) -> Tensor:
        seen.append((*action.shape, -1, *outcome.shape))
        return (action - outcome) ** 2

    values = cost_function(squared, 0.0, 1.0)(torch.full((4, 1), 3.0), torch.full((6, 4, 1), 1.0))
    assert seen == [(4, -1, 6, 4)]
    assert torch.equal(values, torch.full((6, 4), 4.0))


def test_cost_function_passes_all_axes_for_many_outcomes() -> None:
    cost = cost_function(lambda action, outcome: ((action - outcome) ** 2).sum(-1), 0.0, 1.0)
    values = cost(torch.full((4, 1), 3.0), torch.tensor([1.0, 2.0]).expand(6, 4, 2))
    assert torch.equal(values, torch.full((6, 4), 5.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, y: np.maximum(3 * (y - a), a - y),
        lambda a, y: torch.from_numpy((a.numpy() - y.numpy()) ** 2),
        lambda a, y: torch.as_tensor(np.abs(np.asarray(a) - np.asarray(y))),
    ],
)
@pytest.mark.filterwarnings("ignore:__array_wrap__")
@pytest.mark.parametrize("parts", [None, 2])
def test_numpy_in_a_function_is_refused_in_plain_words(function: Callable[..., Tensor], parts: int | None) -> None:
    samples = torch.rand(4, 10, parts or 1, generator=torch.Generator().manual_seed(0))
    for solve in (solve_action, optimal_action):
        with pytest.raises((CostError, ShapeError), match=r"calls numpy|ndarray"):
            solve(cost_function(function, 0.0, 1.0, parts=parts), samples)


@pytest.mark.parametrize("function", [max, lambda a, y: 3 * (y - a) if y > a else a - y])
def test_a_branch_in_a_function_is_refused_in_plain_words(function: Callable[..., Tensor]) -> None:
    samples = torch.rand(4, 10, 1, generator=torch.Generator().manual_seed(0))
    for solve in (solve_action, optimal_action):
        with pytest.raises(CostError, match="branches on the values"):
            solve(cost_function(function, 0.0, 1.0), samples)
