"""Scenario programs: gradients, recourse, wrong matrices."""

from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import (
    CVaRCost,
    InteriorPoint,
    Program,
    Quantity,
    ScenarioProgram,
    StorageCost,
    optimal_action,
    solve_action,
)
from stakes.errors import CostError, NonFiniteError, ShapeError, StakesError, StakesWarning

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
    for given in (None, weights):
        assert torch.autograd.gradcheck(
            lambda samples, given=given: program.solve(samples, given, EXACT, gradient=True).action,
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


def test_under_vmap(program: ScenarioProgram) -> None:
    members = double(2, 3, 4, 2, seed=7)
    mapped = torch.func.vmap(lambda samples: program.solve(samples).action)(members)
    torch.testing.assert_close(mapped, program.solve(members).action, rtol=1e-5, atol=1e-7)


RIGHT: dict[str, Any] = {"T": torch.ones(2, 3), "W": torch.ones(2), "h_y": torch.ones(2, 4), "q": torch.ones(2)}


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"q": torch.ones(3)}, ShapeError, "q must end"),
        ({"h": torch.ones(1)}, ShapeError, "h must end"),
        ({"W": torch.ones(3), "q": torch.ones(3)}, ShapeError, "W must have"),
        ({"Q": torch.ones(5)}, ShapeError, "Q must have"),
        ({"P": torch.ones(3)}, ShapeError, "P must end"),
        ({"G": torch.ones(1, 3)}, CostError, "G and g"),
        ({"p": torch.full((3,), torch.nan)}, NonFiniteError, "p must be finite"),
    ],
)
def test_wrong_matrices(wrong: dict[str, Tensor], error: type[StakesError], said: str) -> None:
    with pytest.raises(error, match=said):
        ScenarioProgram(**RIGHT | wrong)


def test_wrong_members(program: ScenarioProgram) -> None:
    with pytest.raises(ShapeError, match="samples must have 2 outcomes"):
        program.solve(double(2, 4, 3))
    batch = ScenarioProgram(**RIGHT | {"q": torch.ones(5, 2)}, P=torch.eye(3))
    with pytest.raises(CostError, match="q must broadcast to the cases"):
        batch.solve(double(2, 6, 4))


HARD = Program(decide={"plan": Quantity(cost=1.0, upper=100)}, covers={"demand": "3 * plan >= outcome"})


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
    with pytest.warns(StakesWarning, match="no gradient by the parameters of this cost"):
        optimal_action(battery, torch.rand(1, 9, 3, dtype=torch.float64).requires_grad_())


def test_a_number_of_words_has_no_gradient_and_says_so() -> None:
    price = torch.tensor(3.0, requires_grad=True)
    with pytest.warns(StakesWarning, match=r"no gradient by the parameters of this cost \(numbers.price\)"):
        Program({"plan": Quantity(cost="price - outcome", upper=1)}, numbers={"price": price})
