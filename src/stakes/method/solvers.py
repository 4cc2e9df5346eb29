"""Solvers for the action of least expected cost: many scalar problems at once, one a row.

A solver is a frozen dataclass whose fields are its settings. It sees only f, the expected cost as a function of the
action, and the bounds; it knows neither members nor gradients.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from stakes.method.argument_checks import known_on_host, require_count, require_positive
from stakes.method.derivatives import ExpectedCost, slope_and_curvature, slope_of

__all__ = ["Located", "NewtonBisection", "ProjectedGradient", "Solver"]


class Located(NamedTuple):
    """What a solver returns for each row (...)."""

    action: Tensor
    sound: Tensor  # bool: what it saw of f varies, and falls and then only rises
    typical_curvature: Tensor  # of f around the minimum, at the scale of what it saw


class Solver(Protocol):
    """Finds the minimum of f on [lower, upper], both (...), row by row.

    A row counts as converged when its residual is at most `tolerance` times the distance of the bounds.
    """

    @property
    def tolerance(self) -> float: ...

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located: ...


@dataclass(frozen=True)
class NewtonBisection:
    """Newton's method on f', kept inside a bracket that bisection shrinks; exact to rounding for smooth costs.

    A coarse scan of f at `intervals` + 1 actions finds the bracket and flags rows that rise and then fall again.
    The number of iterations is fixed, so that a step on an accelerator can be captured; on a CPU it stops early.
    """

    iterations: int = 20
    intervals: int = 8
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        require_positive("tolerance", self.tolerance)
        require_count("iterations", self.iterations, 1)
        require_count("intervals", self.intervals, 2)

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        scan = _scan(expected_cost, lower, upper, self.intervals)
        low, action, high = scan.bracket()
        width = upper - lower
        rounding = 4 * torch.finfo(action.dtype).eps * torch.maximum(width, action.abs())
        best, best_slope = action, torch.full_like(action, torch.inf)
        last_step = width
        for _ in range(self.iterations):
            slope, curvature = slope_and_curvature(expected_cost, action)
            better = slope.abs() <= best_slope
            best, best_slope = torch.where(better, action, best), torch.where(better, slope.abs(), best_slope)
            low = torch.where(slope <= 0, action, low)
            high = torch.where(slope >= 0, action, high)
            step = -slope / curvature
            newton = action + step
            # Newton while it lands inside and at least halves its step; else, and for H not positive, bisection.
            halves = (2 * step.abs() <= last_step) | (step.abs() <= rounding)
            accepted = (curvature > 0) & (curvature < torch.inf) & (newton >= low) & (newton <= high) & halves
            following = torch.where(accepted, newton, (low + high) / 2)
            last_step = (following - action).abs()
            action = following
            if known_on_host((last_step <= rounding).all()):
                break
        return Located(best, scan.sound, scan.typical_curvature)


@dataclass(frozen=True)
class ProjectedGradient:
    """The paper's solver, for reference: `steps` of a <- clip(a - step_size f'(a)) from the middle of the bounds.

    The paper takes 50 steps in training and 200 at inference and does not state their size. A step above 2/L, with L
    the largest f'', does not converge and a small one does not arrive, hence the wide default tolerance.
    """

    steps: int = 50
    step_size: float = 0.1
    tolerance: float = 1e-2

    def __post_init__(self) -> None:
        require_count("steps", self.steps, 1)
        require_positive("step_size", self.step_size)
        require_positive("tolerance", self.tolerance)

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        action = (lower + upper) / 2
        for _ in range(self.steps):
            action = torch.clamp(action - self.step_size * slope_of(expected_cost, action), lower, upper)
        scan = _scan(expected_cost, lower, upper, NewtonBisection().intervals)
        return Located(action, scan.sound, scan.typical_curvature)


class _Scan(NamedTuple):
    """f at equally spaced actions from bound to bound; what lies between two of them is not seen."""

    grid: Tensor  # (intervals + 1, ...)
    values: Tensor  # (intervals + 1, ...)

    @property
    def sound(self) -> Tensor:
        """Whether f varies and never falls again after it has risen, rounding aside."""
        noise = 8 * torch.finfo(self.values.dtype).eps * self.values.abs().amax(0)
        change = self.values.diff(dim=0)  # (intervals, ...)
        has_risen = torch.cummax((change > noise).to(self.values.dtype), 0).values > 0
        falls_again = ((change < -noise) & has_risen).any(0)
        return (self.values.amax(0) - self.values.amin(0) > noise) & ~falls_again

    @property
    def typical_curvature(self) -> Tensor:
        """How much f rises to the neighbours of the best action, over their distance squared."""
        (low, _, high), (left, value, right) = self._around_best()
        return (torch.maximum(left, right) - value) / (high - low) ** 2

    def bracket(self) -> tuple[Tensor, Tensor, Tensor]:
        """The neighbours of the best action, and between them the minimum of the parabola through the three."""
        (low, action, high), (left, value, right) = self._around_best()
        bend = left - 2 * value + right
        inside = (low < action) & (action < high) & (bend > 0)
        return low, torch.where(inside, action + (high - low) * (left - right) / (4 * bend), action), high

    def _around_best(self) -> tuple[list[Tensor], list[Tensor]]:
        """The best action with its neighbours, and f at them; at a bound the action is its own neighbour."""
        best, last = self.values.argmin(0, keepdim=True), len(self.grid) - 1
        near = [(best + offset).clamp(0, last) for offset in (-1, 0, 1)]
        return [self.grid.gather(0, index)[0] for index in near], [self.values.gather(0, index)[0] for index in near]


def _scan(f: ExpectedCost, lower: Tensor, upper: Tensor, intervals: int) -> _Scan:
    shares = [index / intervals for index in range(intervals)]
    grid = torch.stack([lower + share * (upper - lower) for share in shares] + [upper])
    return _Scan(grid, torch.stack([f(action) for action in grid]))
