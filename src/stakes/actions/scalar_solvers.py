"""Batched solvers for scalar actions: Newton with bisection, projected gradient, and a global search."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from stakes.argument_checks import known_false, known_on_host, require_count, require_positive
from stakes.costs.member_weights import ExpectedCost, slope_and_curvature, slope_of
from stakes.errors import CostError


class Located(NamedTuple):
    """What a solver returns for each row (...)."""

    action: Tensor  # where it stopped, (...)
    sound: Tensor  # whether f varies over the scanned actions, and only falls and then rises, (...), bool
    typical_curvature: Tensor


class Solver(Protocol):
    """Minimises f on [lower, upper], row by row."""

    @property
    def tolerance(self) -> float:
        """The largest residual |f'|/H that counts as zero, as a fraction of the distance between the bounds."""
        ...

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        """The action of each row, and what the scan of f showed.

        Args:
            expected_cost: f, from actions (...) to expected costs (...), a function of its own in each row.
            lower: Lower bounds (...).
            upper: Upper bounds (...).
        """
        ...


@dataclass(frozen=True)
class NewtonBisection(Solver):
    """Newton's method on f', safeguarded by bisection; exact to rounding for smooth costs.

    A coarse scan of f at `intervals` + 1 actions finds the bracket and flags rows that rise and then fall again. The
    result is the global minimum if f is convex, and otherwise the minimum next to the best scanned action.

    Attributes:
        iterations: The number of steps. It is fixed, so that a training step on a GPU can be captured; on a CPU the
            solver stops once no row moves any more.
        intervals: The number of equal intervals in the scan, at least 2.
        tolerance: The largest residual |f'|/H that counts as zero, as a fraction of the distance between the bounds.
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
        action = self._refine(expected_cost, scan.bracket(), upper - lower)
        return Located(action, scan.sound, scan.typical_curvature)

    def _refine(self, expected_cost: ExpectedCost, bracket: tuple[Tensor, Tensor, Tensor], width: Tensor) -> Tensor:
        """The action of the smallest |f'| within a bracket of lower end, first action and upper end, (...) each."""
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
class ProjectedGradient(Solver):
    """The paper's solver, for reference: `steps` of a <- clip(a - step_size f'(a)) from the middle of the bounds.

    The paper takes 50 steps in training and 200 at inference, and does not give their size. Steps above 2/L diverge,
    with L the largest f'', and small ones do not arrive, hence the wide default tolerance. It descends into the minimum
    next to the middle; a scan of f at nine actions flags rows that rise and then fall again.

    Attributes:
        steps: The number of steps.
        step_size: The factor on the slope, in the square of the action's unit over the cost's.
        tolerance: The largest residual |f'|/H that counts as zero, as a fraction of the distance between the bounds.
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
        scan = _scan(expected_cost, lower, upper, NewtonBisection.intervals)
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


_INTERVALS = 256
_MEMBERS = 128  # at most; of more, evenly spaced order statistics
_VALLEYS, _ROUNDS, _PARTS = 8, 3, 8  # each round leaves two of the parts of each valley
_CHECKED_INTERVALS, _CHECK_TOLERANCE = 32, 1e-6

ACTIONS_LOOKED_AT = _INTERVALS + 1 + _VALLEYS * _ROUNDS * (_PARTS - 1)
"""How many actions `global_search` evaluates for each row, its members not counted."""


def global_search(f: ExpectedCost, lower: Tensor, upper: Tensor, places: Tensor) -> Located:
    """The best action of many, refined, row by row; `sound` says that all of them together show one valley."""
    grid, values = _values_on_grid(f, lower, upper, places)
    width = upper - lower
    action = _deepest(f, grid, values)
    # Rounding may have led the values a little beside the minimum, where its slope still shows the way.
    low, high = (torch.clamp(action + share * width, lower, upper) for share in (-1 / _INTERVALS, 1 / _INTERVALS))
    refined = NewtonBisection()._refine(f, (low, action, high), width)
    noise = 8 * torch.finfo(values.dtype).eps * values.abs().amax(0)
    action = torch.where(f(refined) <= f(action) + noise, refined, action)
    left, right = (torch.clamp(action + share * width, lower, upper) for share in (-0.125, 0.125))
    rise = torch.maximum(f(left), f(right)) - f(action)
    sound = (values.amax(0) - values.amin(0) > noise) & (_valley_depth(values) <= noise)
    return Located(action, sound, rise / (right - left) ** 2)


def _valley_depth(values: Tensor) -> Tensor:
    """How high the largest rise of values (P, ...) is between two lower places, (...): 0 with only one valley."""
    before = torch.cummin(values, 0).values
    after = torch.cummin(values.flip(0), 0).values.flip(0)
    return (values - torch.maximum(before, after)).amax(0)


def spot_check_convexity(f: ExpectedCost, lower: Tensor, upper: Tensor) -> None:
    """Raise if f is not convex at a few equally spaced actions; not checked if compiled, vmapped or on a GPU."""
    grid = _equally_spaced(lower, upper, _CHECKED_INTERVALS)
    values = torch.stack([f(action) for action in grid])
    bend = values[:-2] - 2 * values[1:-1] + values[2:]
    holds = ~(bend < -_CHECK_TOLERANCE * values.abs().amax(0))
    if known_false(holds):
        place = grid[1:-1][~holds][0].item()
        raise CostError(
            f"the cost is declared convex in the action, but its expected cost is not, near the action {place:g}: "
            "remove convex=True"
        )


def _equally_spaced(lower: Tensor, upper: Tensor, intervals: int) -> Tensor:
    shares = torch.linspace(0, 1, intervals + 1, dtype=lower.dtype, device=lower.device)
    return torch.stack([torch.lerp(lower, upper, share) for share in shares])


def _values_on_grid(f: ExpectedCost, lower: Tensor, upper: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending actions between the bounds, and f at them, (P, ...) each."""
    ordered = places.sort(-1).values
    if (count := ordered.shape[-1]) > _MEMBERS:
        chosen = torch.linspace(0, count - 1, _MEMBERS, device=places.device).round().long()
        ordered = ordered[..., chosen]
    members = ordered.movedim(-1, 0).clamp(lower, upper)
    grid = torch.cat([_equally_spaced(lower, upper, _INTERVALS), members]).sort(0).values
    return grid, torch.stack([f(action) for action in grid])


def _deepest(f: ExpectedCost, grid: Tensor, values: Tensor) -> Tensor:
    """The lowest place of the deepest valleys, (...), after they have been narrowed down."""
    beyond = torch.full_like(values[:1], torch.inf)
    padded = torch.cat([beyond, values, beyond])
    lowest = (values < padded[:-2]) & (values <= padded[2:])  # of equal values the first
    floors, valleys = torch.where(lowest, values, torch.inf).topk(_VALLEYS, 0, largest=False)
    best = torch.stack([grid[0], grid[0], grid[0], beyond[0]])  # lower end, place, upper end, value
    for floor, valley in zip(floors, valleys, strict=True):
        if known_on_host((floor == torch.inf).all()):  # no row has so many
            break
        near = [(valley + offset).clamp(0, len(grid) - 1)[None] for offset in (-1, 0, 1)]
        bracket = torch.stack([*(grid.gather(0, index)[0] for index in near), values.gather(0, near[1])[0]])
        for _ in range(_ROUNDS):
            bracket = _narrower(f, *bracket)
        best = torch.where(bracket[3] < best[3], bracket, best)
    return best[1]


def _narrower(f: ExpectedCost, low: Tensor, action: Tensor, high: Tensor, value: Tensor) -> Tensor:
    """The best of the given action and of those that part the bracket, between its neighbours, and its value."""
    inner = _equally_spaced(low, high, _PARTS)[1:-1]
    values = torch.cat([torch.stack([f(each) for each in inner]), value[None]])
    least, index = values.min(0)
    chosen = torch.cat([inner, action[None]]).gather(0, index[None])[0]
    step = (high - low) / _PARTS
    return torch.stack([torch.maximum(chosen - step, low), chosen, torch.minimum(chosen + step, high), least])
