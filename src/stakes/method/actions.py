"""The action of least expected cost, its certificate and its gradient.

    a*(F_M) = argmin over a in [lower, upper] of f(a) = 1/M sum_m c(a, y_m)             (eq. optimal_action_mc)
    d a*/d y_m = -1/(M H) d^2 c / da dy (a*, y_m),   H = f''(a*)                          (eq. ift_member)

Solver, gradient and answer are separate things: a solver finds a* and says what speaks against it, the gradient
follows from a* alone by the implicit function theorem, and a row that is not certified gets none.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from stakes.errors import CostError, SettingError, ShapeError
from stakes.method.argument_checks import check_finite, check_samples, working_precision
from stakes.method.costs import ClosedFormCost, Cost, require_cost
from stakes.method.derivatives import ExpectedCost, all_derivatives, slope_and_curvature, slope_of, with_gradient
from stakes.method.solvers import NewtonBisection, Solver

__all__ = ["ActionSolution", "optimal_action", "solve_action"]

_CURVATURE_FLOOR = 1e-4  # H must exceed this share of the curvature that the scan sees around the minimum
_CLOSED_FORM_TOLERANCE = 1e-5  # as a solver's tolerance


@dataclass(frozen=True)
class ActionSolution:
    """Best actions with their certificate, one for each case of a batch (...).

    What `certified` says depends on what is known about f, the expected cost as a function of the action:

    - f is convex, as it is for every cost of this library: no action has a lower expected cost, up to the solver's
      tolerance and rounding. For a convex f a local minimum is the global one.
    - f comes from any other cost: the action is a local minimum, and at the actions of the solver's scan (nine unless
      the solver says otherwise, equally spaced from bound to bound) f falls and then only rises. A lower minimum
      between two neighbouring actions of the scan is not seen.
    - The cost states its best action (`best_action`): the slope of f is zero there, or changes its sign. That this is
      the best action follows where f is convex; elsewhere it rests on the formula.

    Attributes:
        action: The best action that was found, (..., A).
        expected_cost: Its expected cost f(a*), the mean over the members, (...).
        interior: Whether the action lies strictly between the bounds, (...), bool.
        residual: |f'|/H, the distance that a Newton step would still go, in units of the action, (...). It is 0 at a
            bound that the slope pushes against.
        converged: The same as `certified`, (...), bool.
        curvature: H = f''(a*), (...).
    """

    action: Tensor
    expected_cost: Tensor
    interior: Tensor
    residual: Tensor
    converged: Tensor
    curvature: Tensor

    @property
    def certified(self) -> Tensor:
        """Whether the action passed all checks, (...), bool; what that proves is said above.

        False for a case whose f is flat, falls again after it has risen in the scan, or whose minimum was not reached:
        the action is then the best one that was found, and `optimal_action` gives it no gradient.
        """
        return self.converged


def solve_action(
    cost: Cost, samples: Tensor, solver: Solver | None = None, *, check: bool | None = None
) -> ActionSolution:
    """Bayes action of each forecast, with its certificate and without gradients    (eq. optimal_action_mc).

    `ActionSolution` says what the certificate proves: the best action for a convex cost; for any other cost a local
    minimum that the scan of a few actions does not contradict.

    Args:
        cost: What the action costs at an outcome; parameters that are tensors broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How the minimum is found. None takes the cost's closed form where it has one, else `NewtonBisection()`.
        check: Whether to look for NaN and infinite members: True always does, False never; None does so on a CPU,
            where no captured training step could be disturbed.

    >>> import torch, stakes
    >>> power = torch.tensor([[[0.2], [0.4], [0.9]]])  # one case, three members, one site
    >>> solution = stakes.solve_action(stakes.ShortfallCost(penalty=5.0), power)
    >>> solution.action, solution.interior, solution.certified
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
    """Bayes action (..., A) of each forecast, differentiable in the members               (eq. ift_member).

    The gradient is that of the implicit function theorem, zero at the bounds and where the action is not certified. It
    is a first derivative: the result cannot be differentiated twice.

    Args:
        cost: What the action costs at an outcome; parameters that are tensors broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How the minimum is found. None takes the cost's closed form where it has one, else `NewtonBisection()`.
        check: Whether to look for NaN and infinite members: True always does, False never; None does so on a CPU,
            where no captured training step could be disturbed.
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
    if isinstance(solver, type) or not (callable(solver) and hasattr(solver, "tolerance")):
        raise SettingError(f"solver must be a solver such as NewtonBisection(), got {solver!r}")
    f, (lower, upper) = _expected_cost(cost, samples), _bounds(cost, samples)
    action, sound, typical_curvature = solver(f, lower, upper)
    value, slope, curvature, cross = all_derivatives(lambda a, y: _expected_cost(cost, y)(a), action, samples)
    interior, residual = _status(action, slope, curvature, lower, upper)
    curved = (curvature > 0) & (curvature > _CURVATURE_FLOOR * typical_curvature)
    reached = residual <= _reach(solver.tolerance, action, lower, upper)
    certified = sound & (curved | ~interior) & reached & torch.isfinite(value)
    moves = interior & certified
    jacobian = torch.where(moves, -1 / torch.where(moves, curvature, 1.0), 0.0)[..., None, None] * cross
    return ActionSolution(action[..., None], value, interior, residual, certified, curvature), jacobian


def _certify_closed_form(cost: Cost, samples: Tensor, action: Tensor) -> ActionSolution:
    """A formula needs no curvature: a kink of f is a minimum too, if the slopes beside it point to it."""
    f, (lower, upper) = _expected_cost(cost, samples), _bounds(cost, samples)
    slope, curvature = slope_and_curvature(f, action)
    interior, residual = _status(action, slope, curvature, lower, upper)
    reach = _reach(_CLOSED_FORM_TOLERANCE, action, lower, upper)
    # Where f is flat to one side, as a newsvendor's can be, the sum of the members' slopes is zero but for rounding.
    rounding = 8 * torch.finfo(action.dtype).eps * torch.maximum(slope_of(f, lower).abs(), slope_of(f, upper).abs())
    enclosed = (slope_of(f, action - reach) <= rounding) & (slope_of(f, action + reach) >= -rounding)
    residual = torch.where(enclosed, torch.minimum(residual, reach), residual)
    value = f(action)
    certified = (residual <= reach) & torch.isfinite(value)
    return ActionSolution(action[..., None], value, interior, residual, certified, curvature)


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
    require_cost(cost)
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
        if not isinstance(costs, Tensor) or costs.shape != shape:
            came = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
            raise ShapeError(
                f"the cost must return a tensor of shape {tuple(shape)} for action {(*action.shape, 1)} and outcome "
                f"{tuple(members.shape)}, got {came}"
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
