"""The action of least expected cost, its certificate and its gradient.

    a*(F_M) = argmin over a in [lower, upper] of f(a) = 1/M sum_m c(a, y_m)             (eq. optimal_action_mc)
    d a*/d y_m = -1/(M H) d^2 c / da dy (a*, y_m),   H = f''(a*)                          (eq. ift_member)

Solver, gradient and answer are separate things: a solver finds a* and says for which rows it may be trusted, the
gradient follows from a* alone by the implicit function theorem, and a row that cannot be trusted gets none.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor

from stakes.checks import check_finite, check_samples, known_on_host, require_positive, working_precision
from stakes.costs import ClosedFormCost, Cost, require_bounds
from stakes.errors import CostError, SettingError, ShapeError
from stakes.gradients import with_gradient

__all__ = ["ActionSolution", "NewtonBisection", "ProjectedGradient", "Solver", "optimal_action", "solve_action"]

_CURVATURE_FLOOR = 1e-4  # H must exceed this share of the curvature that the scan sees around the minimum
_CLOSED_FORM_TOLERANCE = 1e-5  # as a solver's tolerance


@dataclass(frozen=True)
class ActionSolution:
    """Best actions with their certificate; a batch of cases (...).

    `residual` is |f'|/H, the distance a Newton step would still go, 0 at a bound that the slope pushes against.
    `converged` is False for a row that is flat, has several local minima or did not reach its minimum: its action
    is the best one found, and `optimal_action` gives it no gradient.
    """

    action: Tensor  # (..., A)
    expected_cost: Tensor  # (...)
    interior: Tensor  # (...) bool: strictly between the bounds
    residual: Tensor  # (...)
    converged: Tensor  # (...) bool
    curvature: Tensor  # (...) H = f''(a*)


class Located(NamedTuple):
    """What a solver returns for each row (...)."""

    action: Tensor
    sound: Tensor  # bool: what it saw of f varies, and falls and then only rises
    typical_curvature: Tensor  # of f around the minimum, at the scale of what it saw


ExpectedCost = Callable[[Tensor], Tensor]
"""f: actions (...) to expected costs (...)."""


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
        _require_count("iterations", self.iterations, 1)
        _require_count("intervals", self.intervals, 2)

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        scan = _scan(expected_cost, lower, upper, self.intervals)
        low, action, high = scan.bracket()
        width = upper - lower
        rounding = 4 * torch.finfo(action.dtype).eps * torch.maximum(width, action.abs())
        best, best_slope = action, torch.full_like(action, torch.inf)
        last_step = width
        for _ in range(self.iterations):
            slope, curvature = _slope_and_curvature(expected_cost, action)
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
        _require_count("steps", self.steps, 1)
        require_positive("step_size", self.step_size)
        require_positive("tolerance", self.tolerance)

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        action = (lower + upper) / 2
        for _ in range(self.steps):
            action = torch.clamp(action - self.step_size * _slope(expected_cost, action), lower, upper)
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


def solve_action(
    cost: Cost, samples: Tensor, solver: Solver | None = None, *, check: bool | None = None
) -> ActionSolution:
    """Bayes action of each forecast (..., M, D), with its certificate and without gradients.

    `solver` None takes the cost's closed form where it has one, else `NewtonBisection()`. `check` False leaves out the
    test for NaN and infinite members, True insists on it; None makes it where no captured step could be disturbed.

    >>> import torch, stakes
    >>> power = torch.tensor([[[0.2], [0.4], [0.9]]])  # one case, three members, one site
    >>> solution = stakes.solve_action(stakes.ShortfallCost(penalty=5.0), power)
    >>> solution.action, solution.interior, solution.converged
    (tensor([[0.4500]]), tensor([True]), tensor([True]))
    """
    if _in_inference_mode():
        with torch.inference_mode(False):  # the certificate needs derivatives
            return solve_action(cost, samples.clone(), solver, check=check)
    with torch.no_grad(), _full_precision(samples):
        samples = _prepare(cost, samples, check)
        closed_form = _closed_form(cost, samples) if solver is None else None
        if closed_form is not None:
            return _certify_closed_form(cost, samples, closed_form[..., 0])
        return _solve(cost, samples, solver or NewtonBisection())[0]


def optimal_action(cost: Cost, samples: Tensor, solver: Solver | None = None, *, check: bool | None = None) -> Tensor:
    """Bayes action (..., A) of each forecast (..., M, D), differentiable in the members.

    Arguments as in `solve_action`. The gradient is that of the implicit function theorem, zero at the bounds and where
    the certificate fails. It is a first derivative: the result cannot be differentiated twice.
    """
    if _in_inference_mode():
        with torch.inference_mode(False), torch.no_grad():  # the solver needs derivatives
            return optimal_action(cost, samples.clone(), solver, check=check)
    with _full_precision(samples):
        samples = _prepare(cost, samples, check)
        closed_form = _closed_form(cost, samples) if solver is None else None
        if closed_form is not None:
            return closed_form.to(samples.dtype)
        with torch.no_grad():
            solution, jacobian = _solve(cost, samples.detach(), solver or NewtonBisection())
        return with_gradient(solution.action[..., 0], samples, jacobian)[..., None]


def _solve(cost: Cost, samples: Tensor, solver: Solver) -> tuple[ActionSolution, Tensor]:
    """A solver's answer with its certificate, and the Jacobian d a*/d y_m (..., M, D)."""
    f, (lower, upper) = _expected_cost(cost, samples), _bounds(cost, samples)
    action, sound, typical_curvature = solver(f, lower, upper)
    value, slope, curvature, cross = _derivatives(cost, action, samples)
    interior, residual = _status(action, slope, curvature, lower, upper)
    curved = (curvature > 0) & (curvature > _CURVATURE_FLOOR * typical_curvature)
    reached = residual <= _reach(solver.tolerance, action, lower, upper)
    converged = sound & (curved | ~interior) & reached & torch.isfinite(value)
    moves = interior & converged
    jacobian = torch.where(moves, -1 / torch.where(moves, curvature, 1.0), 0.0)[..., None, None] * cross
    return ActionSolution(action[..., None], value, interior, residual, converged, curvature), jacobian


def _certify_closed_form(cost: Cost, samples: Tensor, action: Tensor) -> ActionSolution:
    """A formula needs no curvature: a kink of f is a minimum too, if the slopes beside it point to it."""
    f, (lower, upper) = _expected_cost(cost, samples), _bounds(cost, samples)
    slope, curvature = _slope_and_curvature(f, action)
    interior, residual = _status(action, slope, curvature, lower, upper)
    reach = _reach(_CLOSED_FORM_TOLERANCE, action, lower, upper)
    enclosed = (_slope(f, action - reach) <= 0) & (_slope(f, action + reach) >= 0)
    residual = torch.where(enclosed, torch.minimum(residual, reach), residual)
    value = f(action)
    converged = (residual <= reach) & torch.isfinite(value)
    return ActionSolution(action[..., None], value, interior, residual, converged, curvature)


def _status(action: Tensor, slope: Tensor, curvature: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the action is interior, and its residual |f'|/H: none at a bound that the slope pushes against."""
    pushed = ((action <= lower) & (slope >= 0)) | ((action >= upper) & (slope <= 0)) | (slope == 0)
    interior = (action > lower) & (action < upper)
    distance = torch.where(curvature < torch.inf, slope.abs() / curvature.clamp(min=0), torch.inf)
    return interior, torch.where(pushed, 0.0, distance)


def _reach(tolerance: float, action: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The largest residual that counts as none: a share of the bounds' distance, or the rounding of the action."""
    return torch.maximum(tolerance * (upper - lower), 8 * torch.finfo(action.dtype).eps * action.abs())


def _in_inference_mode() -> bool:
    return not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()


def _prepare(cost: Cost, samples: Tensor, check: bool | None) -> Tensor:
    check_samples(samples)
    if not (callable(cost) and hasattr(cost, "lower") and hasattr(cost, "upper")):
        raise CostError(f"cost must have lower, upper and be callable as c(action, outcome), got {type(cost).__name__}")
    require_bounds(cost.lower, cost.upper)
    _require_batch_shape(cost, samples.shape[:-2])
    check_finite(samples, "samples", check)
    return working_precision(samples)


def _require_batch_shape(cost: Cost, cases: torch.Size) -> None:
    """Raise if a tensor parameter would broadcast the cases to something else."""
    parameters = {**getattr(cost, "__dict__", {}), "lower": cost.lower, "upper": cost.upper}
    for name, value in parameters.items():
        if isinstance(value, Tensor) and not _broadcasts_to(value.shape, cases):
            raise CostError(
                f"{name} must be a number or broadcast to the cases {tuple(cases)}, got shape {tuple(value.shape)}"
            )


def _broadcasts_to(shape: torch.Size, cases: torch.Size) -> bool:
    sizes = zip(reversed(shape), reversed(cases), strict=False)
    return len(shape) <= len(cases) and all(size in (1, wanted) for size, wanted in sizes)


def _full_precision(samples: Tensor) -> AbstractContextManager[object]:
    """Autocast off: the network may run in half precision, the argmin does not."""
    device = samples.device.type if isinstance(samples, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _closed_form(cost: Cost, samples: Tensor) -> Tensor | None:
    return cast(ClosedFormCost, cost).best_action(samples) if hasattr(cost, "best_action") else None


def _expected_cost(cost: Cost, samples: Tensor) -> ExpectedCost:
    members = samples.movedim(-2, 0).contiguous()  # (M, ..., D); one copy, and every evaluation runs along the cases
    shape = members.shape[:-1]

    def f(action: Tensor) -> Tensor:
        costs = cost(action[..., None], members)
        if costs.shape != shape:
            raise ShapeError(
                f"the cost must return shape {tuple(shape)} for action {(*action.shape, 1)} and outcome "
                f"{tuple(members.shape)}, got {tuple(costs.shape)}"
            )
        return costs.mean(0)

    return f


def _bounds(cost: Cost, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper bound of each case, (...)."""
    blank = samples[..., 0, 0]
    lower, upper = (
        bound.to(blank.dtype).expand_as(blank) if isinstance(bound, Tensor) else torch.full_like(blank, bound)
        for bound in (cost.lower, cost.upper)
    )
    return lower, upper


def _slope(f: ExpectedCost, action: Tensor) -> Tensor:
    """f'(a), (...)."""
    if (leaf := _leaf(action)) is None:
        return torch.func.grad(lambda a: f(a).sum())(action)
    with torch.enable_grad():
        return _grad(f(leaf), (leaf,))[0]


def _slope_and_curvature(f: ExpectedCost, action: Tensor) -> tuple[Tensor, Tensor]:
    """f'(a) and f''(a), each (...). Rows are independent, so the derivative of the sum holds every row's own."""
    if (leaf := _leaf(action)) is None:
        curvature, slope = torch.func.grad(lambda a: _with_self(_slope(f, a)), has_aux=True)(action)
        return slope, curvature
    with torch.enable_grad():
        (slope,) = _grad(f(leaf), (leaf,), create_graph=True)
        return slope.detach(), _grad(slope, (leaf,))[0]


def _derivatives(cost: Cost, action: Tensor, samples: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """f, f', f'' (...) and the cross derivative d f'/d y_m (..., M, D)."""
    action_leaf, samples_leaf = _leaf(action), _leaf(samples)
    if action_leaf is None or samples_leaf is None:

        def slope_at(a: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return _with_self(_slope(_expected_cost(cost, y), a))

        (curvature, cross), slope = torch.func.grad(slope_at, argnums=(0, 1), has_aux=True)(action, samples)
        return _expected_cost(cost, samples)(action), slope, curvature, cross
    with torch.enable_grad():
        value = _expected_cost(cost, samples_leaf)(action_leaf)
        (slope,) = _grad(value, (action_leaf,), create_graph=True)
        curvature, cross = _grad(slope, (action_leaf, samples_leaf))
    return value.detach(), slope.detach(), curvature, cross


def _leaf(tensor: Tensor) -> Tensor | None:
    """A leaf for `torch.autograd.grad`, which is many times faster than `torch.func` in eager code.

    None inside `torch.compile` and under `torch.func` transforms, where only `torch.func` will do.
    """
    if torch.compiler.is_compiling():
        return None
    try:
        return tensor.detach().requires_grad_()
    except RuntimeError:
        return None


def _grad(output: Tensor, inputs: tuple[Tensor, ...], create_graph: bool = False) -> tuple[Tensor, ...]:
    """Derivatives of the sum of `output`, zero for what it does not depend on."""
    if not output.requires_grad:
        return tuple(torch.zeros_like(each) for each in inputs)
    return torch.autograd.grad(output.sum(), inputs, create_graph=create_graph, materialize_grads=True)


def _with_self(values: Tensor) -> tuple[Tensor, Tensor]:
    return values.sum(), values


def _require_count(name: str, value: int, least: int) -> None:
    if value < least:
        raise SettingError(f"{name} must be at least {least}, got {value}")
