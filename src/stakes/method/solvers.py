"""Solvers for the action of least expected cost: many scalar problems at once, one per row.

A solver is a frozen dataclass whose fields are its settings. It sees only f, the expected cost as a function of the
action, and the bounds; it knows neither members nor gradients. It evaluates f at a few actions from bound to bound and
then refines the best of them: for a convex f that finds the minimum, for any other f it may miss a lower one that lies
between two of these actions.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from stakes.method.argument_checks import known_on_host, require_count, require_positive
from stakes.method.derivatives import ExpectedCost, slope_and_curvature, slope_of

__all__ = ["Located", "NewtonBisection", "ProjectedGradient", "Solver"]


class Located(NamedTuple):
    """What a solver returns for each row (...).

    Attributes:
        action: Where it stopped, (...).
        sound: Whether f, at the actions that were scanned, varies, and falls and then only rises, (...), bool.
        typical_curvature: f'' around the minimum as the scan sees it, (...): the yardstick for a curvature near zero.
    """

    action: Tensor
    sound: Tensor
    typical_curvature: Tensor


class Solver(Protocol):
    """Looks for the minimum of f on [lower, upper], row by row."""

    @property
    def tolerance(self) -> float:
        """The largest residual |f'|/H that counts as none, as a share of the distance between the bounds."""
        ...

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        """The action of each row, and what the solver saw of f.

        Args:
            expected_cost: f, from actions (...) to expected costs (...), each row its own function.
            lower: Lower bounds (...).
            upper: Upper bounds (...).
        """
        ...


@dataclass(frozen=True)
class NewtonBisection:
    """Newton's method on f', kept inside a bracket that bisection shrinks; exact to rounding for smooth costs.

    A coarse scan of f at `intervals` + 1 actions finds the bracket and flags rows that rise and then fall again. What
    lies between two scanned actions is not seen: the result is the global minimum if f is convex, and otherwise the
    minimum next to the best scanned action.

    Attributes:
        iterations: How many steps are taken. The number is fixed, so that a training step on an accelerator can be
            captured; on a CPU the solver stops when no row moves any more.
        intervals: How many equal intervals the scan divides the bounds into, at least 2.
        tolerance: The largest residual |f'|/H that counts as none, as a share of the distance between the bounds.
    """

    iterations: int = 20
    intervals: int = 8
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        require_positive("tolerance", self.tolerance)
        require_count("iterations", self.iterations, 1)
        require_count("intervals", self.intervals, 2)

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        """The action of the smallest |f'| that Newton's method and bisection came to, in each row.

        Args:
            expected_cost: f, from actions (...) to expected costs (...), each row its own function.
            lower: Lower bounds (...).
            upper: Upper bounds (...).
        """
        scan = _scan(expected_cost, lower, upper, self.intervals)
        action = self.refine(expected_cost, scan.bracket(), upper - lower)
        return Located(action, scan.sound, scan.typical_curvature)

    def refine(self, expected_cost: ExpectedCost, bracket: tuple[Tensor, Tensor, Tensor], width: Tensor) -> Tensor:
        """The action of the smallest |f'| that Newton's method and bisection come to within a bracket, (...).

        Args:
            expected_cost: f, from actions (...) to expected costs (...), each row its own function.
            bracket: Where the search begins: the lower end, an action and the upper end, (...) each.
            width: The distance between the bounds, (...).
        """
        low, action, high = bracket
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
        return best


@dataclass(frozen=True)
class ProjectedGradient:
    """The paper's solver, for reference: `steps` of a <- clip(a - step_size f'(a)) from the middle of the bounds.

    The paper takes 50 steps in training and 200 at inference and does not state their size. A step above 2/L, with L
    the largest f'', does not converge and a small one does not arrive, hence the wide default tolerance. It descends
    into the minimum next to the middle; a scan of f at nine actions flags rows that rise and then fall again.

    Attributes:
        steps: How many steps are taken.
        step_size: What the slope is multiplied by, in the square of the action's unit over the cost's.
        tolerance: The largest residual |f'|/H that counts as none, as a share of the distance between the bounds.
    """

    steps: int = 50
    step_size: float = 0.1
    tolerance: float = 1e-2

    def __post_init__(self) -> None:
        require_count("steps", self.steps, 1)
        require_positive("step_size", self.step_size)
        require_positive("tolerance", self.tolerance)

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        """The action of each row after the last step.

        Args:
            expected_cost: f, from actions (...) to expected costs (...), each row its own function.
            lower: Lower bounds (...).
            upper: Upper bounds (...).
        """
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
