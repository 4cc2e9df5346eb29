"""The action of least expected cost, its certificate and its gradient.

    a*(F_M) = argmin over a in [lower, upper] of f(a) = 1/M sum_m c(a, y_m)             (eq. optimal_action_mc)
    d a*/d y_m = -1/(M H) d^2 c / da dy (a*, y_m),   H = f''(a*)                          (eq. ift_member)

Solver, gradient and answer are separate things: a solver finds a* and says what speaks against it, the gradient
follows from a* alone by the implicit function theorem, and a row that did not converge gets none. A certificate is a
proof, and so it needs a cost that is known to be convex: of any other cost only some actions can be looked at. Members
that do not count alike have weights w_m, which then stand for 1/M.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature

import torch
from torch import Tensor

from stakes.errors import CostError, SettingError, ShapeError
from stakes.method.argument_checks import check_finite, check_samples, working_precision
from stakes.method.costs import Cost, TotalCost, require_cost, states_convexity
from stakes.method.derivatives import ExpectedCost, all_derivatives, slope_and_curvature, slope_of, with_gradient
from stakes.method.interior_point import InteriorPoint
from stakes.method.member_weights import mean_of_members, relative_weights
from stakes.method.program_actions import ProgramCost, program_action
from stakes.method.solvers import Located, NewtonBisection, Solver
from stakes.method.thorough_search import spot_check_convexity, thorough_search

__all__ = ["ActionSolution", "check_stated_convexity", "optimal_action", "solve_action"]

_CURVATURE_FLOOR = 1e-4  # H must exceed this share of the curvature that the scan sees around the minimum
_CLOSED_FORM_TOLERANCE = 1e-5  # as a solver's tolerance


@dataclass(frozen=True)
class ActionSolution:
    """Best actions, what speaks for them and which of them are certified, one for each case of a batch (...).

    With f the expected cost as a function of the action, two things are said of every action:

    - `certified`: no action has a lower expected cost, up to the solver's tolerance and rounding. That is proven, and
      only for a cost that is convex in the action: those of this library are, and of another cost its author can say
      so (`cost_function(..., convex=True)`, or `convex = True` in a class). The proof is then that the slope of f
      changes its sign at the action, or pushes it against a bound.
    - `converged`: a minimum was reached, the best of the actions that were looked at, and they show no other one. For
      a cost that is not known to be convex this is all there is to be had: a minimum between them is not seen.

    Attributes:
        action: The best action that was found, (..., A).
        expected_cost: Its expected cost f(a*), the mean over the members, (...).
        interior: Whether the action lies strictly between the bounds, (...), bool.
        residual: |f'|/H, the distance that a Newton step would still go, in units of the action, (...). It is 0 at a
            bound that the slope pushes against.
        converged: Whether the action is a strict minimum, or at a bound that the slope pushes against, and nothing that
            was looked at speaks against it, (...), bool. False for a case whose f is flat, falls again after it has
            risen, or whose minimum was not reached. `optimal_action` gives a gradient only where its own search,
            that of nine actions, converges.
        curvature: H = f''(a*), (...).
        certified: Whether it is proven that no action has a lower expected cost, (...), bool. Always False for a cost
            that is not known to be convex in the action.
        gap: For an action of many parts, by how much a better one could lower the expected cost at most, (...), but for
            the residual; None for one number.

    For an action of many parts, A > 1, `interior` says that no limit of any part binds, `residual` how far limits and
    the conditions of a minimum are violated, in units of the case, and `curvature` is the least of the action's own
    cost in any direction.
    """

    action: Tensor
    expected_cost: Tensor
    interior: Tensor
    residual: Tensor
    converged: Tensor
    curvature: Tensor
    certified: Tensor
    gap: Tensor | None = None


def solve_action(
    cost: Cost,
    samples: Tensor,
    solver: Solver | InteriorPoint | None = None,
    *,
    weights: Tensor | None = None,
    check: bool | None = None,
    thorough: bool = True,
) -> ActionSolution:
    """Bayes action of each forecast, with its certificate and without gradients    (eq. optimal_action_mc).

    A cost that is known to be convex in the action gets a certificate. Any other is searched thoroughly: more than four
    hundred actions are looked at, the members among them, and the best is refined; that proves nothing, see
    `ActionSolution`.

    Args:
        cost: What the action costs at an outcome; parameters that are tensors broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How the minimum is found. None takes the cost's closed form where it has one, `NewtonBisection()` for
            another cost that is known to be convex, and the thorough search for any other.
        weights: What each member weighs, (..., M) or (M,) for all cases, not negative; only ratios matter. None where
            all count alike. A closed form that takes no `weights` is passed over for a solver.
        check: Whether to look for NaN and infinite members: True always does, False never; None does so on a CPU,
            where no captured training step could be disturbed.
        thorough: Whether a cost that is not known to be convex is searched thoroughly, and what its author states is
            spot-checked. False takes `NewtonBisection()` for it, as `optimal_action` does, which is several times
            faster and may miss the best minimum.

    >>> import torch, stakes
    >>> power = torch.tensor([[[0.2], [0.4], [0.9]]])  # one case, three members, one site
    >>> solution = stakes.solve_action(stakes.ShortfallCost(penalty=5.0), power)
    >>> solution.action, solution.interior, solution.certified
    (tensor([[0.4500]]), tensor([True]), tensor([True]))
    """
    if _in_inference_mode():
        with torch.inference_mode(False):  # the certificate needs derivatives
            weights = None if weights is None else weights.clone()
            return solve_action(cost, samples.clone(), solver, weights=weights, check=check, thorough=thorough)
    with torch.no_grad(), _full_precision(samples):
        samples, weights = _prepare(cost, samples, weights, check)
        if isinstance(cost, ProgramCost):
            return _program_solution(cost, samples, weights, solver)
        convex = states_convexity(cost)
        closed_form = _closed_form(cost, samples, weights) if solver is None else None
        if closed_form is not None:
            return _check_closed_form(cost, samples, weights, closed_form[..., 0], thorough)
        if thorough:
            check_stated_convexity(cost, samples, weights)
        solver = solver or _default_solver(cost, samples, thorough)
        solution = _solve(cost, samples, weights, solver)[0]
        return _certify(cost, samples, weights, solution, solver.tolerance) if convex else solution


def optimal_action(
    cost: Cost,
    samples: Tensor,
    solver: Solver | InteriorPoint | None = None,
    *,
    weights: Tensor | None = None,
    check: bool | None = None,
    thorough: bool = False,
) -> Tensor:
    """Bayes action (..., A) of each forecast, differentiable in the members               (eq. ift_member).

    The gradient is that of the implicit function theorem, zero at the bounds and where the search has not converged. It
    is a first derivative: the result cannot be differentiated twice.

    It is made for training: a cost without a closed form is scanned at nine actions and the best of them refined, which
    finds the best action if the expected cost is convex, and otherwise may miss it. `solve_action` searches thoroughly,
    and so does this where it is asked to.

    Args:
        cost: What the action costs at an outcome; parameters that are tensors broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How the minimum is found. None takes the cost's closed form where it has one, else `NewtonBisection()`.
        weights: What each member weighs, (..., M) or (M,) for all cases, not negative; only ratios matter, and no
            gradient goes to them. None where all count alike. A closed form that takes no `weights` is passed over for
            a solver.
        check: Whether to look for NaN and infinite members: True always does, False never; None does so on a CPU,
            where no captured training step could be disturbed.
        thorough: Whether a cost that is not known to be convex is searched as thoroughly as `solve_action` does it,
            whose action this then is. It is meant for judging decisions, where no training step waits.
    """
    if _in_inference_mode():
        with torch.inference_mode(False), torch.no_grad():  # the solver needs derivatives
            weights = None if weights is None else weights.clone()
            return optimal_action(cost, samples.clone(), solver, weights=weights, check=check, thorough=thorough)
    with _full_precision(samples):
        samples, weights = _prepare(cost, samples, weights, check)
        if isinstance(cost, ProgramCost):
            return program_action(cost, samples, weights, solver, gradient=True).action.to(samples.dtype)
        closed_form = _closed_form(cost, samples, weights) if solver is None else None
        if closed_form is not None:
            return closed_form.to(samples.dtype)
        with torch.no_grad():
            members = samples.detach()
            solution, jacobian = _solve(cost, members, weights, solver or _default_solver(cost, members, thorough))
        return with_gradient(solution.action[..., 0], samples, jacobian)[..., None]


def check_stated_convexity(cost: Cost, samples: Tensor, weights: Tensor | None = None) -> None:
    """Raise if the cost is stated to be convex in the action and its expected cost is seen not to be.

    It is a spot check at a few actions: that it passes proves nothing.

    Args:
        cost: Any cost; one that states nothing passes.
        samples: Members (..., M, D) of each forecast.
        weights: What each member weighs, (..., M); None where all count alike.
    """
    if states_convexity(cost):
        double = samples.double()  # so that rounding is not taken for a bend
        weights = relative_weights(weights, double)
        spot_check_convexity(_expected_cost(cost, double, weights), *_bounds(cost, double))


def _solve(
    cost: Cost, samples: Tensor, weights: Tensor | None, solver: Solver | InteriorPoint
) -> tuple[ActionSolution, Tensor]:
    """A solver's answer with its certificate, and the Jacobian d a*/d y_m (..., M, D)."""
    if isinstance(solver, type | InteriorPoint) or not (callable(solver) and hasattr(solver, "tolerance")):
        raise SettingError(f"solver must be a solver such as NewtonBisection(), got {solver!r}")
    f, (lower, upper) = _expected_cost(cost, samples, weights), _bounds(cost, samples)
    action, sound, typical_curvature = solver(f, lower, upper)
    value, slope, curvature, cross = all_derivatives(lambda a, y: _expected_cost(cost, y, weights)(a), action, samples)
    interior, residual = _status(action, slope, curvature, lower, upper)
    curved = (curvature > 0) & (curvature > _CURVATURE_FLOOR * typical_curvature)
    reached = residual <= _reach(solver.tolerance, action, lower, upper)
    converged = sound & (curved | ~interior) & reached & torch.isfinite(value)
    moves = interior & converged
    jacobian = torch.where(moves, -1 / torch.where(moves, curvature, 1.0), 0.0)[..., None, None] * cross
    unproven = torch.zeros_like(converged)
    return ActionSolution(action[..., None], value, interior, residual, converged, curvature, unproven), jacobian


def _program_solution(
    cost: ProgramCost, samples: Tensor, weights: Tensor | None, solver: Solver | InteriorPoint | None
) -> ActionSolution:
    """The solution of a decision with many parts."""
    found = program_action(cost, samples, weights, solver)
    action = found.action.to(samples.dtype)
    shares = None if weights is None else weights.movedim(-1, 0)
    value = mean_of_members(cost(action, samples.movedim(-2, 0)), shares, 0)
    least = cost.program(samples.shape[-1], samples.device).least_curvature.to(value.dtype).expand_as(value)
    return ActionSolution(
        action, value, found.interior, found.residual.to(value.dtype), found.solved, least, found.solved, found.gap
    )


def _default_solver(cost: Cost, samples: Tensor, thorough: bool) -> Solver:
    """How a cost without a closed form is solved where nothing else is asked for."""
    return _Thorough(_places(cost, samples)) if thorough and not states_convexity(cost) else NewtonBisection()


@dataclass(frozen=True)
class _Thorough:
    """The thorough search as a solver."""

    places: Tensor  # (..., M)
    tolerance: float = NewtonBisection().tolerance

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        return thorough_search(expected_cost, lower, upper, self.places)


def _places(cost: Cost, samples: Tensor) -> Tensor:
    """The members in the action's unit, (..., M), as far as that is known."""
    if isinstance(cost, TotalCost):
        return cost.total(samples)
    return samples[..., 0] if samples.shape[-1] == 1 else torch.cat([samples.mean(-1), samples.sum(-1)], -1)


def _certify(
    cost: Cost, samples: Tensor, weights: Tensor | None, solution: ActionSolution, tolerance: float
) -> ActionSolution:
    """The solution for a convex cost, with its proof: the slope of f changes its sign within the tolerance."""
    f, (lower, upper) = _expected_cost(cost, samples, weights), _bounds(cost, samples)
    action = solution.action[..., 0]
    enclosed = _enclosed(f, action, _reach(tolerance, action, lower, upper), lower, upper, torch.zeros_like(action))
    return replace(solution, certified=enclosed & torch.isfinite(solution.expected_cost))


def _check_closed_form(
    cost: Cost, samples: Tensor, weights: Tensor | None, action: Tensor, thorough: bool
) -> ActionSolution:
    """A formula needs no curvature: a kink of f is a minimum too, if the slopes beside it point to it."""
    f, (lower, upper) = _expected_cost(cost, samples, weights), _bounds(cost, samples)
    slope, curvature = slope_and_curvature(f, action)
    interior, residual = _status(action, slope, curvature, lower, upper)
    reach = _reach(_CLOSED_FORM_TOLERANCE, action, lower, upper)
    # Where f is flat to one side, as a newsvendor's can be, the sum of the members' slopes is zero but for rounding.
    steepest = torch.maximum(slope_of(f, lower).abs(), slope_of(f, upper).abs())
    rounding = 8 * torch.finfo(action.dtype).eps * steepest.nan_to_num(posinf=0.0)
    enclosed = _enclosed(f, action, reach, lower, upper, rounding)
    residual = torch.where(enclosed, torch.minimum(residual, reach), residual)
    value = f(action)
    converged = (residual <= reach) & (enclosed | (curvature > 0)) & torch.isfinite(value)
    convex = states_convexity(cost)
    if thorough and not convex:
        converged = converged & _unbeaten(f, value, lower, upper, _places(cost, samples))
    certified = converged if convex else torch.zeros_like(converged)
    return ActionSolution(action[..., None], value, interior, residual, converged, curvature, certified)


def _unbeaten(f: ExpectedCost, value: Tensor, lower: Tensor, upper: Tensor, places: Tensor) -> Tensor:
    """Whether the thorough search finds nothing that is expected to cost less than a formula's action."""
    best = f(thorough_search(f, lower, upper, places).action)
    scale = torch.maximum(f(lower).abs(), f(upper).abs())
    return value - best <= 1e-6 * torch.maximum(scale, best.abs())


def _enclosed(f: ExpectedCost, action: Tensor, reach: Tensor, lower: Tensor, upper: Tensor, rounding: Tensor) -> Tensor:
    """Whether, within reach of the action, f falls before and rises after it, or a bound comes first."""
    before, after = action - reach, action + reach
    falls = (before <= lower) | (slope_of(f, torch.maximum(before, lower)) <= rounding)
    rises = (after >= upper) | (slope_of(f, torch.minimum(after, upper)) >= -rounding)
    return falls & rises


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


def _prepare(cost: Cost, samples: Tensor, weights: Tensor | None, check: bool | None) -> tuple[Tensor, Tensor | None]:
    check_samples(samples)
    if not isinstance(cost, ProgramCost):
        require_cost(cost)
        _require_batch_shape(cost, samples.shape[:-2])
    check_finite(samples, "samples", check)
    samples = working_precision(samples)
    return samples, relative_weights(weights, samples)


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


def _closed_form(cost: Cost, samples: Tensor, weights: Tensor | None) -> Tensor | None:
    formula: Callable[..., Tensor | None] | None = getattr(cost, "best_action", None)
    if formula is None or weights is None:
        return None if formula is None else formula(samples)
    return formula(samples, weights=weights) if "weights" in signature(formula).parameters else None


def _expected_cost(cost: Cost, samples: Tensor, weights: Tensor | None) -> ExpectedCost:
    members = samples.movedim(-2, 0).contiguous()  # (M, ..., D); one copy, and every evaluation runs along the cases
    shares = None if weights is None else weights.movedim(-1, 0).contiguous()  # (M, ...)
    shape = members.shape[:-1]

    def f(action: Tensor) -> Tensor:
        costs = cost(action[..., None], members)
        if not isinstance(costs, Tensor) or costs.shape != shape:
            came = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
            raise ShapeError(
                f"the cost must return a tensor of shape {tuple(shape)} for action {(*action.shape, 1)} and outcome "
                f"{tuple(members.shape)}, got {came}"
            )
        return mean_of_members(costs, shares, 0)

    return f


def _bounds(cost: Cost, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper bound of each case, (...)."""
    blank = samples[..., 0, 0]
    lower, upper = (
        bound.to(blank.dtype).expand_as(blank) if isinstance(bound, Tensor) else torch.full_like(blank, bound)
        for bound in (cost.lower, cost.upper)
    )
    return lower, upper
