"""How the best action of a scenario program moves with its numbers, by the implicit function theorem.

A change of h, q and p leaves residuals at the solution, which one more step of the solver would remove
(`stakes.method.interior_step`): that step is how the solution moves. With S, Theta and K of its linear system

    K da + E'dnu = sum_m w_m T'S^-1 (W Theta dq_m + dh_m) - dp,   E da = 0.
"""

import torch
from torch import Tensor

from stakes.method.central_path import central_point
from stakes.method.interior_point import ProgramSolution, system_at
from stakes.method.interior_step import Iterate, Products, Residuals, StepSystem
from stakes.method.scenario_data import ScenarioData, beside, scaled

__all__ = ["implicit_change"]

_FLAT = 1e-6  # a curvature that small, in the units of a case, is none


def implicit_change(
    data: ScenarioData,
    solution: ProgramSolution,
    rows: Tensor,
    prices: Tensor | None,
    slope: Tensor | None,
    smoothing: float | None = None,
) -> Tensor:
    """How the action moves, (B, A), differentiable in the changes; it stays where a case is not solved.

    Args:
        data: The programs.
        solution: Their solutions.
        rows: dh, how what the rows ask for changes, (B, M, R).
        prices: dq, how what the recourse costs changes, (B, M, Z); None where it does not.
        slope: dp, how what the action costs changes, (B, A); None where it does not.
        smoothing: As in `InteriorPoint`; None for the exact gradient.
    """
    system, known = _system(data, solution, smoothing)
    moves = known & ~_flat(data, system)
    nothing = Iterate(*map(torch.zeros_like, system.x))
    residuals = Residuals(
        a=nothing.a if slope is None else _where(moves, slope),
        c=nothing.s,
        e=torch.zeros_like(data.e),
        z=nothing.z if prices is None else _where(moves, prices),
        v=-_where(known, rows),
    )
    return _where(known, system.step(residuals, Products(nothing.s, nothing.v, nothing.z)).a)


def _where(chosen: Tensor, values: Tensor) -> Tensor:
    """The values of the chosen cases, zero elsewhere."""
    return torch.where(beside(chosen, values), values, 0.0)


@torch.no_grad()
def _system(data: ScenarioData, solution: ProgramSolution, smoothing: float | None) -> tuple[StepSystem, Tensor]:
    """The linear system of the gradient, and which cases have one, (B,)."""
    if smoothing is None:
        return system_at(data, solution), solution.solved
    centre = central_point(data, smoothing)
    parts = (torch.where(beside(centre.reached, part), part, 1.0) for part in centre.iterate)
    return StepSystem(data, Iterate(*parts)), solution.solved & centre.reached


@torch.no_grad()
def _flat(data: ScenarioData, system: StepSystem) -> Tensor:
    """Whether actions beside the best cost the same, (B,): no price, however little it changes, moves it a little."""
    action, cost = scaled(data)[1]
    return system.flat(_FLAT * cost / action)
