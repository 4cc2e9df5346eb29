"""Programs with more recourse than a newsvendor's, for a day of 24 hours over 50 members: ours against cvxpy.

    python -m benchmarks.own_programs [--json benchmarks/results/own_programs_cpu.json]

A plan in words whose hours are mended in three ways, a battery beside commitments, and both averse to risk. Ours solves
64 cases at once, with the gradient; cvxpy with Clarabel, what one would write in five minutes, solves one after the
other without, compiled before; cvxpylayers with Clarabel has the gradient, too. `by matrices` is ours with the recourse
of a member factorised in one piece. Times are of a case, one thread each; ratios are medians over turns.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy
import torch
from cvxpylayers.torch import CvxpyLayer
from torch import Tensor

import stakes
from benchmarks.timing import interleave, processor
from stakes.actions.cvar import CVaRProgram
from stakes.programs.recourse import Recourse

HOURS, MEMBERS, CASES, FEW = 24, 50, 64, 2
LEVEL = 0.9
PRICE = 1 + 0.5 * torch.sin(torch.arange(HOURS, dtype=torch.float64) / 3)


class Problem(NamedTuple):
    """A decision of ours, and what it costs by cvxpy: from plan and members to each member's cost, and limits."""

    cost: Any
    stated: Callable[[Any, Any], tuple[Any, list[Any]]]


def mended(plan: Any, outcome: Any) -> tuple[Any, list[Any]]:
    bought, urgent, spilled = (cvxpy.Variable((MEMBERS, HOURS), nonneg=True) for _ in range(3))
    met = cvxpy.reshape(plan, (1, HOURS), order="C") + bought + urgent - spilled == outcome
    paid = cvxpy.sum(plan) + cvxpy.sum(5 * bought + 3 * urgent + 0.5 * spilled, axis=1)
    return paid, [met, urgent <= 0.5, cvxpy.sum(plan) <= 75]


def stored(plan: Any, outcome: Any) -> tuple[Any, list[Any]]:
    charged, discharged, bought, spilled = (cvxpy.Variable((MEMBERS, HOURS), nonneg=True) for _ in range(4))
    met = outcome + discharged - charged + bought - spilled == cvxpy.reshape(plan, (1, HOURS), order="C") + 0 * bought
    held = cvxpy.cumsum(0.9 * charged - discharged, axis=1)
    paid = -PRICE.numpy() @ plan + cvxpy.sum(4 * bought + 0.1 * spilled, axis=1)
    return paid, [met, charged <= 1, discharged <= 1, held >= 0, held <= 3]


PROBLEMS = {
    "a plan mended in three ways, in words": Problem(
        stakes.Program(
            decide={"plan": stakes.Quantity(cost=1)},
            recourse={
                "bought": stakes.Quantity(cost=5),
                "urgent": stakes.Quantity(cost=3, upper=0.5),
                "spilled": stakes.Quantity(cost=0.5),
            },
            recourse_constraints={"balance": "plan + bought + urgent - spilled = outcome"},
            limits={"budget": "sum(plan) <= 75"},
        ),
        mended,
    ),
    "commitments and a battery": Problem(stakes.StorageCost(PRICE, 4.0, 0.1, 1.0, 3.0), stored),
}


def days(cases: int) -> Tensor:
    """What 64 days may bring, a random walk around a daily course."""
    steps = torch.randn(cases, MEMBERS, HOURS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (3 + torch.sin(torch.arange(HOURS) / 4) + steps.cumsum(-1) / 6).clamp(min=0.0)


def in_cvxpy(stated: Callable[[Any, Any], tuple[Any, list[Any]]], averse: bool) -> tuple[Any, Any, Any]:
    """The problem, its members and its plan."""
    outcome, plan, threshold = cvxpy.Parameter((MEMBERS, HOURS)), cvxpy.Variable(HOURS), cvxpy.Variable()
    paid, limits = stated(plan, outcome)
    tail = threshold + cvxpy.sum(cvxpy.pos(paid - threshold)) / MEMBERS / (1 - LEVEL)
    least = tail if averse else cvxpy.sum(paid) / MEMBERS
    return cvxpy.Problem(cvxpy.Minimize(least), [plan >= 0, *limits]), outcome, plan


def measured(problem: Problem, averse: bool, rounds: int) -> dict[str, object]:
    """Milliseconds a case, and how far both are from each other."""
    members = days(CASES)
    cost = stakes.CVaRCost(problem.cost, LEVEL) if averse else problem.cost
    program, outcome, plan = in_cvxpy(problem.stated, averse)
    layer = CvxpyLayer(program, parameters=[outcome], variables=[plan], solver_args={"solve_method": "Clarabel"})

    def gradient(action: Callable[[Tensor], Tensor], cases: int) -> Callable[[], object]:
        leaf = members[:cases].clone().requires_grad_()
        return lambda: torch.autograd.grad(action(leaf).sum(), leaf)

    def by_cvxpy() -> list[float]:
        values = []
        for case in members[:FEW].numpy():
            outcome.value = case
            values.append(float(program.solve(solver="CLARABEL")))
        return values

    whole = _by_matrices(problem.cost, averse)
    timing = interleave(
        gradient(lambda leaf: stakes.optimal_action(cost, leaf), CASES),
        {
            "cvxpy with Clarabel, no gradient": by_cvxpy,
            "cvxpylayers with Clarabel": gradient(lambda leaf: layer(leaf)[0], FEW),
            "by matrices": gradient(whole, FEW),
        },
        rounds,
        least_seconds=0.2,
    )
    ours = stakes.solve_action(cost, members[:FEW]).expected_cost
    off = max(abs(one - other) / abs(other) for one, other in zip(ours.tolist(), by_cvxpy(), strict=True))
    counts = dict.fromkeys(timing.ratios, FEW) | {"ours": CASES}
    return {
        "ms a case": {name: value / counts[name] for name, value in timing.milliseconds.items()},
        "times ours": {name: value * CASES / FEW for name, value in timing.ratios.items()},
        "objectives differ by": off,
    }


def _by_matrices(cost: Any, averse: bool) -> Callable[[Tensor], Tensor]:
    known = cost.program(HOURS)
    program = stakes.ScenarioProgram(**{each.name: getattr(known, each.name) for each in fields(known)})
    vars(program)["recourse"] = Recourse(known.recourse.Q, known.recourse.W, known.recourse.T)

    def action(members: Tensor) -> Tensor:
        if averse:
            return CVaRProgram(program, LEVEL, 1.0).solve(members, cost.fixed_cost(members), gradient=True).action
        return program.solve(members, gradient=True).action

    return action


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how many turns each takes")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, object] = {
        "machine": f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    }
    for name, problem in PROBLEMS.items():
        for averse in (False, True):
            row = f"{name}, averse to risk" if averse else name
            result[row] = measured(problem, averse, given.rounds)
            print(row, json.dumps(result[row], indent=1), flush=True)
            if given.json:
                given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
