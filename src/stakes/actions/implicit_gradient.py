"""The gradient of the best action by the implicit function theorem: at the minimum, or between smooth walls."""

from dataclasses import dataclass

import torch
from torch import Tensor

from stakes.actions.certificates import case_bounds, expected_cost_of, interior_and_residual, reach_of
from stakes.actions.scalar_solvers import NewtonBisection, Solver
from stakes.costs.cost import ActionSolution, Cost
from stakes.costs.derivatives import ExpectedCost, all_derivatives, slope_of
from stakes.errors import SettingError
from stakes.programs.convex_actions import BarrierNewton
from stakes.programs.interior_point import InteriorPoint

_CURVATURE_FLOOR = 1e-4  # H must exceed this share of the curvature that the scan sees around the minimum


def solve_with_jacobian(
    cost: Cost, samples: Tensor, weights: Tensor | None, solver: Solver | InteriorPoint | BarrierNewton
) -> tuple[ActionSolution, Tensor]:
    """A solver's answer with its certificate, and the Jacobian d a*/d y_m (..., M, D)."""
    if isinstance(solver, type | InteriorPoint | BarrierNewton) or not (
        callable(solver) and hasattr(solver, "tolerance")
    ):
        raise SettingError(f"solver must be a solver such as NewtonBisection(), got {solver!r}")
    f, (lower, upper) = expected_cost_of(cost, samples, weights), case_bounds(cost, samples)
    action, sound, typical_curvature = solver(f, lower, upper)
    value, slope, curvature, cross = all_derivatives(
        lambda a, y: expected_cost_of(cost, y, weights)(a), action, samples
    )
    interior, residual = interior_and_residual(action, slope, curvature, lower, upper)
    curved = (curvature > 0) & (curvature > _CURVATURE_FLOOR * typical_curvature)
    reached = residual <= reach_of(solver.tolerance, action, lower, upper)
    converged = sound & (curved | ~interior) & reached & torch.isfinite(value)
    moves = interior & converged
    jacobian = torch.where(moves, -1 / torch.where(moves, curvature, 1.0), 0.0)[..., None, None] * cross
    unproven = torch.zeros_like(converged)
    return ActionSolution(action[..., None], value, interior, residual, converged, curvature, unproven), jacobian


@dataclass(frozen=True, eq=False)
class WalledCost:
    """A cost of one number between walls."""

    cost: Cost  # the cost itself
    bounds: tuple[Tensor, Tensor]  # where the walls stand, (...) each
    height: Tensor  # what the logarithms of the distances are multiplied by, (...)
    lower: Tensor  # what no best action falls below, (...): a share of the way from one wall to the other
    upper: Tensor  # what no best action exceeds, (...)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost and that of the walls, (...)."""
        low, high = self.bounds
        level = action[..., 0]
        return self.cost(action, outcome) - self.height * ((level - low).log() + (high - level).log())


def walled(cost: Cost, expected_cost: ExpectedCost, bounds: tuple[Tensor, Tensor], smoothing: float) -> WalledCost:
    """The cost between walls."""
    low, high = bounds
    width = high - low
    steepest = torch.maximum(slope_of(expected_cost, low).abs(), slope_of(expected_cost, high).abs())
    # No slope between the bounds of a convex cost exceeds the steepest, which a wall at this distance outdoes.
    least = 0.5 * smoothing / (1 + 2 * smoothing) * width
    return WalledCost(cost, bounds, smoothing * width * steepest, low + least, high - least)


def solve_between_walls(
    cost: Cost, samples: Tensor, weights: Tensor | None, smoothing: float
) -> tuple[ActionSolution, Tensor]:
    """The best action of each case between walls, and its Jacobian (..., M, D)."""
    inside = walled(cost, expected_cost_of(cost, samples, weights), case_bounds(cost, samples), smoothing)
    return solve_with_jacobian(inside, samples, weights, NewtonBisection())
