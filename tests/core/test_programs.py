"""Scenario programs: actions, gradients, recourse, and wrong or hostile numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from core.random_costs import KINDS, random_decision
from example_counts import examples
from hostile_programs import WAYS, spoilt
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from torch import Tensor

from stakes import (
    AllocationCost,
    ArbitrageCost,
    Cost,
    CVaRCost,
    InteriorPoint,
    NewtonBisection,
    Program,
    Quantity,
    ScenarioProgram,
    ScheduleCost,
    ShortfallCost,
    StorageCost,
    cost_function,
    optimal_action,
    solve_action,
)
from stakes.argument_checks import unwatched
from stakes.costs.cost import action_parts, is_separable
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError, StakesError, StakesWarning
from stakes.programs.scenario_program import program_cost

EXACT = InteriorPoint(iterations=30, tolerance=1e-12)


def double(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(scope="module")
def program() -> ScenarioProgram:
    """Three parts with an equation and bounds, a recourse of ten parts in four rows, priced by the outcome too."""
    eye = torch.eye(10, dtype=torch.float64)
    return ScenarioProgram(
        T=double(4, 3),
        W=torch.cat([double(4, 6, seed=1), eye[:4, :4]], 1),
        h_y=double(4, 2, seed=2),
        q=double(10, seed=3).abs() + 1,
        q_y=0.1 * double(10, 2, seed=4),
        Q=0.3 * eye,
        P=eye[:3, :3],
        p=double(3, seed=5),
        p_y=0.2 * double(3, 2, seed=6),
        lower=-torch.ones(3),
        upper=torch.ones(3),
        E=torch.ones(1, 3),
        e=torch.tensor([0.5]),
    )


def test_gradient_by_the_members(program: ScenarioProgram) -> None:
    members, weights = double(2, 2, 2, seed=7).requires_grad_(), double(2, 2, seed=8).abs()
    for weighted in (None, weights):
        assert torch.autograd.gradcheck(
            lambda samples, weighted=weighted: program.solve(samples, weighted, EXACT, gradient=True).action,
            (members,),
            eps=1e-4,  # where the same limits bind, the action is linear in the members
            atol=1e-6,
            rtol=1e-4,
            fast_mode=True,
        )


def test_cost_of_the_recourse_and_its_gradient_by_the_prices(program: ScenarioProgram) -> None:
    action = program.solve(double(2, 4, 2, seed=7)).action.requires_grad_()
    outcome = double(2, 2, seed=9).requires_grad_()
    assert torch.autograd.gradcheck(program.recourse_cost, (action, outcome), eps=1e-4, atol=1e-4, fast_mode=True)
    assert torch.autograd.gradcheck(program.own_cost, (action, outcome))


def test_the_objective_is_the_mean_cost_over_the_members(program: ScenarioProgram) -> None:
    members = double(2, 4, 2, seed=7)
    action, solution = program.solve(members)
    by_member = members.movedim(-2, 0)
    expected = (program.own_cost(action, by_member) + program.recourse_cost(action, by_member)).mean(0)
    torch.testing.assert_close(solution.objective, expected, rtol=1e-7, atol=1e-8)


def test_no_recourse_costs_without_end() -> None:
    """z >= 0 and -z >= y - a cannot be met where y > a."""
    one = torch.ones(1, 1)
    program = ScenarioProgram(T=one, W=torch.tensor([[-1.0, -1.0]]), h_y=one, q=torch.ones(2), lower=torch.zeros(1))
    cost = program.recourse_cost(torch.tensor([[1.0], [1.0]]), torch.tensor([[0.5], [2.0]]))
    assert cost.tolist() == [pytest.approx(0.0, abs=1e-7), torch.inf]


def test_a_case_that_cannot_be_solved_has_no_gradient_and_spoils_no_other() -> None:
    eye = torch.eye(2, dtype=torch.float64)
    upper = torch.tensor([[1.0, 1.0], [1.0, -1.0]])  # the second case has bounds that cross
    crossing = ScenarioProgram(
        T=eye, W=torch.ones(2), h_y=eye, q=2 * torch.ones(2), P=eye, lower=0 * upper, upper=upper
    )
    members = (0.5 + 0.1 * double(2, 5, 2)).requires_grad_()
    action, solution = crossing.solve(members, gradient=True)
    assert solution.solved.tolist() == [True, False]
    assert solution.infeasible.tolist() == [False, True]
    (gradient,) = torch.autograd.grad(action.sum(), members)
    assert bool((gradient[0] != 0).any())
    assert bool((gradient[1] == 0).all())


RIGHT: dict[str, Any] = {"T": torch.ones(2, 3), "W": torch.ones(2), "h_y": torch.ones(2, 4), "q": torch.ones(2)}
EYE = torch.eye(2)
SQUARE = {"T": EYE, "W": torch.ones(2), "h_y": EYE, "q": torch.ones(2), "G": EYE, "g": torch.ones(2)}


@pytest.mark.parametrize(
    ("right", "wrong", "error"),
    [
        (RIGHT, {"q": torch.ones(3)}, ShapeError),
        (RIGHT, {"h": torch.ones(1)}, ShapeError),
        (RIGHT, {"W": torch.ones(3), "q": torch.ones(3)}, ShapeError),
        (RIGHT, {"Q": torch.ones(5)}, ShapeError),
        (RIGHT, {"P": torch.ones(3)}, ShapeError),
        (RIGHT, {"G": torch.ones(1, 3)}, CostError),
        (RIGHT, {"p": torch.full((3,), torch.nan)}, NonFiniteError),
        (SQUARE, {"g": torch.tensor([1.0, torch.nan])}, NonFiniteError),
        (SQUARE, {"upper": torch.tensor([1.0, -torch.inf])}, NonFiniteError),
        (SQUARE, {"lower": torch.tensor([1.0, torch.inf])}, NonFiniteError),
        (SQUARE, {"W": torch.tensor([1.0, 0.0])}, CostError),
        (SQUARE, {"P": torch.tensor([[1.0, 2.0], [0.0, 1.0]])}, CostError),
        (SQUARE, {"P": torch.tensor([[1.0, 2.0], [2.0, 1.0]])}, CostError),
        (SQUARE, {"Q": torch.tensor([1.0, -1.0])}, CostError),
    ],
)
def test_wrong_matrices(right: dict[str, Tensor], wrong: dict[str, Tensor], error: type[StakesError]) -> None:
    refuses(error, f"^{next(iter(wrong))} ", ScenarioProgram, **right | wrong)


def test_wrong_members(program: ScenarioProgram) -> None:
    refuses(ShapeError, "samples", program.solve, double(2, 4, 3))
    batch = ScenarioProgram(**RIGHT | {"q": torch.ones(5, 2)}, P=torch.eye(3))
    refuses(CostError, "q ", batch.solve, double(2, 6, 4))


HARD = Program(decide={"plan": Quantity(cost=1.0, upper=100)}, recourse_constraints={"demand": "3 * plan >= outcome"})


@pytest.mark.parametrize("weights", [[1.0, 1.0, 0.0], [1.0, 1.0, 1e-14]])
def test_a_member_without_weight_asks_for_nothing(weights: list[float]) -> None:
    samples = torch.tensor([[[3.0, 6.0], [9.0, 3.0], [21.0, 27.0]]], dtype=torch.float64)
    solution = solve_action(HARD, samples, weights=torch.tensor(weights, dtype=torch.float64))
    needed = torch.tensor([[3.0, 2.0]] if weights[-1] == 0 else [[7.0, 9.0]], dtype=torch.float64)
    assert bool(solution.certified)
    torch.testing.assert_close(solution.action, needed, rtol=0.0, atol=1e-6)
    torch.testing.assert_close(solution.expected_cost, needed.sum(-1), rtol=0.0, atol=1e-6)


def test_what_is_rounded_to_single_precision_breaks_no_cover() -> None:
    samples = 100 * torch.rand(50, 20, 3, generator=torch.Generator().manual_seed(0))
    solution = solve_action(HARD, samples)
    assert bool(solution.certified.all())
    assert solution.expected_cost.dtype == torch.float32
    torch.testing.assert_close(solution.expected_cost, solve_action(HARD, samples.double()).expected_cost.float())


@pytest.mark.parametrize("averse", [False, True])
def test_gradients_by_parameters_of_a_program_are_not_silently_nothing(averse: bool) -> None:
    power = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    battery: Any = StorageCost(price=1.0, short=3.0, long=0.0, power=power, energy=5.0)
    battery = CVaRCost(battery, 0.4) if averse else battery
    with pytest.warns(StakesWarning, match="gradient"):
        optimal_action(battery, torch.rand(1, 9, 3, dtype=torch.float64).requires_grad_())


def test_a_number_of_words_has_no_gradient_and_says_so() -> None:
    price = torch.tensor(3.0, requires_grad=True)
    with pytest.warns(StakesWarning, match=r"numbers\.price"):
        Program({"plan": Quantity(cost="price - outcome", upper=1)}, numbers={"price": price})


COST = ScheduleCost(4.0, 1.0, quadratic=0.5, ramp=0.3)


def members(*shape: int) -> torch.Tensor:
    return 2 + torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_schedule_without_limits_is_a_program_that_needs_no_solver() -> None:
    assert program_cost(COST) is COST
    assert is_separable(COST)
    found = solve_action(ScheduleCost(4.0, 1.0), members(3, 6, 4))
    assert found.gap is not None
    assert float(found.gap.max()) == float(found.residual.max()) == 0.0
    assert bool(found.interior.all())
    refuses(SettingError, "InteriorPoint", solve_action, COST, members(3, 6, 4), NewtonBisection())


FUNCTION = cost_function(lambda a, y: ((a - y) ** 2).sum(-1), 0.0, 9.0, convex=True, parts=3)


@pytest.mark.parametrize(
    ("cost", "parts"),
    [
        (COST, 4),
        (CVaRCost(COST, 0.5), 4),
        (ArbitrageCost(1.0, 1.0, 0.9, 0.1), 8),
        (FUNCTION, 3),
        (ShortfallCost(5.0), 1),
        (CVaRCost(ShortfallCost(5.0), 0.5), 1),
    ],
)
def test_how_many_parts_an_action_of_four_outcomes_has(cost: Cost, parts: int) -> None:
    assert action_parts(cost, 4) == parts


@pytest.mark.parametrize(
    "cost", [ScheduleCost(4.0, 1.0), AllocationCost(4.0, 1.0, 3.0), AllocationCost(4.0, 1.0, 99.0)]
)
@pytest.mark.parametrize("solver", [None, InteriorPoint()])
def test_costs_on_an_accelerator_with_and_without_limits_that_bind(
    cost: ScheduleCost | AllocationCost, solver: InteriorPoint | None
) -> None:
    samples = members(2, 6, 4).requires_grad_()
    with unwatched():
        blind = optimal_action(cost, samples, solver)
    torch.testing.assert_close(blind, optimal_action(cost, samples, solver), rtol=0.0, atol=1e-6)
    assert bool(torch.isfinite(torch.autograd.grad(blind.sum(), samples)[0]).all())


def battery_gradient(prices: list[float]) -> Tensor:
    """By the prices of hours, for a battery without losses or wear."""
    members = torch.tensor([prices], dtype=torch.float64)[None].requires_grad_()
    action = optimal_action(ArbitrageCost(power=1.0, energy=1.5, efficiency=1.0), members)
    (gradient,) = torch.autograd.grad((action * torch.arange(8.0)).sum(), members)
    return gradient


def test_no_gradient_by_prices_where_many_actions_cost_the_same() -> None:
    assert float(battery_gradient([1.0, 1.0, 2.0, 2.0]).abs().max()) == 0.0
    assert float(battery_gradient([1.0, 1.5, 3.0, 2.0]).abs().max()) < 1e-6  # a corner


def test_a_limit_whose_price_is_small_still_blocks() -> None:
    """1/2 a^2 - y a with a <= 1, for y just above 1 and just below it."""
    one = torch.ones(1, 1, dtype=torch.float64)
    program = ScenarioProgram(T=0 * one, W=one[0], h_y=0 * one, q=one[0], P=one, p_y=-one, upper=one[0])
    members = torch.tensor([1.001, 0.999], dtype=torch.float64)[:, None, None].requires_grad_()
    action = program.solve(members, gradient=True).action
    (gradient,) = torch.autograd.grad(action.sum(), members)
    torch.testing.assert_close(gradient.flatten(), torch.tensor([0.0, 1.0]).double(), rtol=0.0, atol=1e-4)


COSTS = {
    "schedule": ScheduleCost(4.0, 1.0, ramp=0.3),
    "quadratic schedule": ScheduleCost(4.0, 1.0, quadratic=0.5, ramp=0.3),
    "allocation": AllocationCost(4.0, 1.0, budget=2.0),
    "storage": StorageCost(1.0, 3.0, 0.1, power=0.8, energy=1.5),
    "arbitrage": ArbitrageCost(power=0.5, energy=1.2, quadratic=0.1),
}
MEMBERS = 2 + torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@given(st.sampled_from(sorted(WAYS)), st.integers(0, 10_000), st.sampled_from([None, 0.01]))
@examples(16)
def test_a_spoilt_case_is_refused_flagged_or_right(way: str, seed: int, smoothing: float | None) -> None:
    spoilt(way, seed, smoothing)


@pytest.mark.parametrize("kind", KINDS)
def test_random_decisions_against_clarabel(kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        decision = random_decision(generator, kind, 2, degenerate=False)
        solution = solve_action(decision.cost, decision.samples, weights=decision.weights)
        assert bool(solution.certified.all())
        assert solution.gap is not None
        for case, paid in enumerate(solution.expected_cost.tolist()):
            theirs = decision.program(case).clarabel()
            assert theirs.verdict == "optimal"
            assert paid == pytest.approx(theirs.objective, rel=1e-6, abs=1e-7)
            assert float(solution.gap[case]) <= 1e-6 * (1 + abs(paid))


@pytest.mark.parametrize("size", [1e-9, 1e9])
@pytest.mark.parametrize(
    "cost",
    [
        lambda size: ScheduleCost(4.0, 1.0, ramp=0.3 * size),
        lambda size: AllocationCost(4.0, 1.0, budget=2.0 * size),
        lambda size: StorageCost(1.0, 3.0, 0.1, power=0.8 * size, energy=1.5 * size),
        lambda size: ArbitrageCost(power=0.5, energy=1.2, quadratic=0.1 * max(size, 1e-3)),
    ],
)
def test_the_unit_does_not_matter(cost: Callable[[float], Cost], size: float) -> None:
    size = max(size, 1e-3) if isinstance(cost(size), ArbitrageCost) else size  # its prices are beside one of 1
    own, plain = (solve_action(cost(each), each * MEMBERS) for each in (size, 1.0))
    assert bool(own.certified.all())
    torch.testing.assert_close(own.expected_cost / size, plain.expected_cost, rtol=1e-7, atol=1e-9)


def test_bounds_that_meet_or_that_a_ramp_cannot_follow() -> None:
    lower, upper = torch.tensor([[0.0, 0, 0], [0, 0, 5], [1, 1, 0]]), torch.tensor([[9.0, 9, 9], [9, 1, 9], [1, 3, 3]])
    solution = solve_action(ScheduleCost(4.0, 1.0, ramp=0.5, lower=lower, upper=upper), MEMBERS)
    assert solution.certified.tolist() == [True, False, True]
    assert solution.action[2, 0].item() == pytest.approx(1.0)
