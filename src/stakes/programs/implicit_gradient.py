"""How the best action of a scenario program moves with its numbers: the implicit function theorem."""

from typing import NamedTuple

import torch
from torch import Tensor

from stakes.argument_checks import known_on_host
from stakes.programs.interior_point import (
    Iterate,
    Products,
    ProgramSolution,
    Residuals,
    ScenarioData,
    StepSystem,
    beside,
    either,
    in_units_of,
    largest,
    limited,
    residuals_of,
    scaled,
    start_of,
    system_at,
    towards,
)

_STEPS = 40
_REACHED = 1e-8  # the largest residual, and share of the smoothing by which a product may be off


class CentralPoint(NamedTuple):
    """A point of the central path of each of B programs."""

    iterate: Iterate  # the action, slacks and prices, in the units of the programs
    reached: Tensor  # whether the search has come to the point, (B,), bool; not where limits contradict each other


def central_point(data: ScenarioData, smoothing: float) -> CentralPoint:
    """The point where every slack times its price is the smoothing, in units of the case; none depends on another."""
    even, units = scaled(data)
    x = start_of(even)
    for step in range(_STEPS + 1):
        residuals = residuals_of(even, x)
        off = Products(limited(even, x.s * x.price - smoothing), x.v * x.mu - smoothing, x.z * x.zeta - smoothing)
        reached = (largest(*residuals) <= _REACHED) & (largest(*off) <= _REACHED * smoothing)
        if step == _STEPS or known_on_host(reached.all()):
            break
        x = either(reached, x, towards(even, x, residuals, off))
    return CentralPoint(in_units_of(units, x), reached)


_FLAT = 1e-6  # a curvature that small, in the units of a case, is none


def implicit_change(
    data: ScenarioData,
    solution: ProgramSolution,
    rows: Tensor,
    prices: Tensor | None,
    slope: Tensor | None,
    smoothing: float | None = None,
) -> Tensor:
    """How the action moves, (B, A), differentiable in the changes; it stays where a case is not solved."""
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
