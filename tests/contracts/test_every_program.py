"""One battery for every decision with many parts: stacks, transforms, autocast, and cases that spoil no other."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partialmethod
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from stakes import (
    AllocationCost,
    ArbitrageCost,
    CVaRCost,
    DecisionScore,
    ImbalanceCost,
    InteriorPoint,
    NewtonBisection,
    Program,
    Quantity,
    ScheduleCost,
    StorageCost,
    cost_function,
    optimal_action,
    solve_action,
)
from stakes.programs.convex_actions import BarrierNewton

PARTS, MEMBERS = 3, 9
EARNED = torch.tensor([1.0, 1.3, 0.8], dtype=torch.float64)
BUDGET = torch.ones(1, PARTS), torch.tensor([4.0])
FEW_STEPS = InteriorPoint(iterations=12)  # as many as are needed: where nobody looks all are taken


@dataclass(frozen=True)
class Decision:
    """A decision with one parameter left open, how many parts its actions have, and how few steps solve it."""

    make: Callable[[Any], Any]
    parts: int
    solver: Any = None
    one_number: bool = False  # whether its parameter has the shape of the cases, without an axis of the parts

    def cost(self, parameter: float | Tensor) -> Any:
        return self.make(parameter[..., 0] if self.one_number and isinstance(parameter, Tensor) else parameter)


def smooth(action: Tensor, outcome: Tensor) -> Tensor:
    return (softplus(5 * (outcome - action)) + action / 5).sum(-1)


DECISIONS = {
    "schedule": Decision(lambda short: ScheduleCost(short, 1.0, 0.7, 0.5), 3),
    "free schedule": Decision(lambda short: ScheduleCost(short, 1.0, 0.7), 3),
    "allocation": Decision(lambda short: AllocationCost(short, 1.0, 4.0), 3),
    "storage": Decision(lambda short: StorageCost(EARNED, short + 2, 0.1, 0.5, 0.8), 3, FEW_STEPS),
    "arbitrage": Decision(lambda power: ArbitrageCost(power / 4, 1.0, 0.9, 0.3), 6, FEW_STEPS),
    "tail of schedules": Decision(lambda short: CVaRCost(ScheduleCost(short, 1.0, 0.7, 0.5), 0.4), 4, FEW_STEPS),
    "tail of one number": Decision(
        lambda short: CVaRCost(ImbalanceCost(short, 1.0, 0.0, 20.0), 0.4), 2, NewtonBisection(30, tolerance=1e-8), True
    ),
    "function": Decision(lambda upper: cost_function(smooth, 0.0, upper, True, limits=BUDGET), 3, BarrierNewton(12)),
}
WORDS = Decision(
    lambda _: Program(
        decide={"plan": Quantity(cost=EARNED.tolist(), upper=9)},
        recourse={"missing": Quantity(cost=[5.0, 6.0, 7.0])},
        recourse_constraints={"demand": "plan + missing >= outcome"},
        limits={"budget": "sum(plan) <= 4"},
    ),
    3,
    FEW_STEPS,
)
MENDED = Decision(
    lambda _: Program(
        decide={"plan": Quantity(cost=EARNED.tolist(), square=0.1)},
        recourse={"bought": Quantity(cost=5), "urgent": Quantity(cost=3, upper=0.2), "spilled": Quantity(cost=0.3)},
        recourse_constraints={"balance": "plan + bought + urgent - spilled = outcome"},
        limits={"budget": "sum(plan) <= 4"},
    ),
    3,
    InteriorPoint(iterations=14),
)
every_decision = pytest.mark.parametrize("decision", DECISIONS.values(), ids=DECISIONS)
with_words = pytest.mark.parametrize(
    "decision", [*DECISIONS.values(), WORDS, MENDED], ids=[*DECISIONS, "words", "words with recourse in groups"]
)


def members(*shape: int, seed: int = 0) -> Tensor:
    """Higher from part to part, so that ramps bind and a battery earns."""
    drawn = torch.randn(*shape, PARTS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 4
    return drawn.abs() + torch.tensor([0.7, 1.7, 2.7], dtype=torch.float64)


@with_words
def test_no_case_depends_on_another(decision: Decision) -> None:
    samples, cost = members(2, 1, MEMBERS), decision.cost(4.0)
    together = optimal_action(cost, samples, decision.solver)
    assert together.shape == (2, 1, decision.parts)
    alone = optimal_action(cost, samples[1, 0], decision.solver)
    torch.testing.assert_close(together[1, 0], alone, rtol=0.0, atol=1e-12)


@every_decision
def test_mapped_over_members_and_parameters_with_gradients(decision: Decision) -> None:
    # Nobody looks at numbers there, as on an accelerator: all steps are taken.
    samples, parameters = members(2, 1, MEMBERS).requires_grad_(), torch.tensor([3.0, 5.0], dtype=torch.float64)
    whole = optimal_action(decision.cost(parameters[:, None, None]), samples, decision.solver)
    (gradient,) = torch.autograd.grad(whole.square().sum(), samples)

    def total(each: Tensor, parameter: Tensor) -> tuple[Tensor, Tensor]:
        action = optimal_action(decision.cost(parameter[None]), each, decision.solver)
        return action.square().sum(), action

    turned = samples.detach().movedim(0, 2)
    mapped = torch.func.vmap(torch.func.grad(total, has_aux=True), in_dims=(2, 0))(turned, parameters)
    torch.testing.assert_close(mapped[1], whole, rtol=0.0, atol=1e-7)
    torch.testing.assert_close(mapped[0], gradient, rtol=1e-4, atol=1e-6)
    assert bool((gradient != 0).any())


@with_words
def test_autocast_changes_nothing(decision: Decision) -> None:
    samples, cost = members(2, MEMBERS).bfloat16(), decision.cost(4.0)
    expected = optimal_action(cost, samples.float(), decision.solver)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        action = optimal_action(cost, samples, decision.solver)
    assert action.dtype == torch.float32
    assert torch.equal(action, expected)


@with_words
def test_a_spoilt_case_is_not_certified_and_spoils_no_other(decision: Decision) -> None:
    samples, cost = members(3, MEMBERS), decision.cost(4.0)
    expected = solve_action(cost, samples, decision.solver).action
    samples[1, 3, 1] = math.nan
    with torch.inference_mode():
        solution = solve_action(cost, samples, decision.solver, check=False)
    assert solution.certified.tolist() == [True, False, True]
    torch.testing.assert_close(solution.action[::2], expected[::2], rtol=0.0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # the compiler's own look
@pytest.mark.parametrize("name", ["schedule", "tail of one number", "function"])
def test_compiled_code_leaves_it_to_python(name: str) -> None:
    torch.compiler.reset()
    decision = DECISIONS[name]
    cost, outcome = decision.cost(4.0), members(2, seed=1)
    score = DecisionScore(cost) if decision.parts == PARTS else None

    def total(samples: Tensor) -> Tensor:
        action = optimal_action(cost, 2 * samples, decision.solver)
        return action.sin().sum() + (0.0 if score is None else score(2 * samples, outcome).sum())

    slopes = []
    for function in (total, torch.compile(total, backend="aot_eager")):
        leaf = members(2, MEMBERS).requires_grad_()
        slopes.append(torch.autograd.grad(function(leaf), leaf)[0])
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-9)


@with_words
def test_no_cases(decision: Decision) -> None:
    solution = solve_action(decision.cost(4.0), members(0, MEMBERS), decision.solver)
    assert solution.action.shape == (0, decision.parts)
    assert solution.certified.shape == (0,)


def with_two_steps(solver: InteriorPoint, run: Callable[..., Any], *given: Any) -> Any:
    return run(replace(solver, fixed_iterations=2), *given)


@with_words
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_is_looked_at_and_nothing_brought_along_where_the_members_are(
    decision: Decision, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors on the device "meta" have no numbers: a look at one, or a tensor left on the CPU, is an error."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)  # which knows no such device
    monkeypatch.setattr(torch, "autocast", lambda device, enabled: nullcontext())
    monkeypatch.setattr(InteriorPoint, "_run", partialmethod(with_two_steps, InteriorPoint._run))  # all are alike
    outcomes = 1 if decision.one_number else PARTS
    samples = torch.empty(4, MEMBERS, outcomes, dtype=torch.float64, device="meta").requires_grad_()
    weights = torch.empty(4, MEMBERS, dtype=torch.float64, device="meta") if weighted else None
    solver = decision.solver
    if isinstance(solver, BarrierNewton | NewtonBisection):
        solver = replace(solver, iterations=2)
    paid = DecisionScore(decision.cost(5.0), solver=solver)(samples, samples.detach()[:, 0], weights=weights)
    assert paid.shape == (4,)
    (gradient,) = torch.autograd.grad(paid.sum(), samples)
    assert gradient.shape == samples.shape


def action_and_gradient(decision: Decision, device: str) -> tuple[Tensor, Tensor]:
    samples = members(4, MEMBERS).to(device).requires_grad_()
    action = optimal_action(decision.cost(4.0), samples, decision.solver)
    (gradient,) = torch.autograd.grad(action.square().sum(), samples)
    return action.detach().cpu(), gradient.cpu()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@with_words
def test_an_accelerator_finds_what_the_cpu_does(decision: Decision) -> None:
    torch.testing.assert_close(
        action_and_gradient(decision, "cuda"), action_and_gradient(decision, "cpu"), rtol=1e-6, atol=1e-7
    )
