"""The action of least expected cost, its certificate and its gradient."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature

import torch
from torch import Tensor

from stakes.actions.scalar_solvers import Located, NewtonBisection, Solver, global_search, spot_check_convexity
from stakes.argument_checks import check_finite, check_samples, known_false, known_on_host, working_precision
from stakes.costs.cost import (
    ActionSolution,
    Cost,
    closed_form_of,
    require_cost,
    requires_eager,
    states_convexity,
    total_of,
    vector_cost,
)
from stakes.costs.member_weights import (
    ExpectedCost,
    all_derivatives,
    broadcasts_to,
    mean_of_members,
    member_costs,
    relative_weights,
    slope_and_curvature,
    slope_of,
    with_gradient,
)
from stakes.errors import CostError, SettingError
from stakes.programs.convex_actions import BarrierNewton
from stakes.programs.interior_point import InteriorPoint


def expected_cost_of(cost: Cost, samples: Tensor, weights: Tensor | None) -> ExpectedCost:
    """Expected costs (...) of actions (...)."""
    members = samples.movedim(-2, 0).contiguous()  # (M, ..., D); one copy, and every evaluation runs along the cases
    shares = None if weights is None else weights.movedim(-1, 0).contiguous()  # (M, ...)
    return lambda action: mean_of_members(member_costs(cost, action[..., None], members), shares, 0)


def case_bounds(cost: Cost, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper bound of each case, (...)."""
    blank = samples[..., 0, 0]
    lower, upper = (
        bound.to(blank.dtype).expand_as(blank) if isinstance(bound, Tensor) else torch.full_like(blank, bound)
        for bound in (cost.lower, cost.upper)
    )
    return lower, upper


_WHOLE = {torch.float32: torch.int32, torch.float64: torch.int64}

Slope = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From actions (...) to the slope f' there and what of it may be rounding, (...) each."""


def slope_with_rounding(cost: Cost, samples: Tensor, weights: Tensor | None) -> Slope:
    """The slope of the expected cost, and the rounding of the sum of the members' own slopes at the same action."""
    members = samples.movedim(-2, 0).contiguous()
    shares = None if weights is None else weights.movedim(-1, 0).contiguous()

    def slope(action: Tensor) -> tuple[Tensor, Tensor]:
        each = slope_of(lambda a: member_costs(cost, a[..., None], members), action.expand(members.shape[:-1]))
        rounding = 8 * torch.finfo(each.dtype).eps * mean_of_members(each.abs(), shares, 0)
        return mean_of_members(each, shares, 0), rounding.nan_to_num(posinf=0.0)

    return slope


def is_enclosed(
    cost: Cost, samples: Tensor, weights: Tensor | None, action: Tensor, reach: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """Whether, within reach of the action, f falls before and rises after it, or a bound comes first, (...), bool.

    It is looked at in the precision of the samples, which may be above that of the action.
    """
    slope = slope_with_rounding(cost, samples, weights)
    action, distance, lower, upper = (each.to(samples.dtype) for each in (action, reach, lower, upper))
    before, after = action - distance, action + distance
    left, left_rounding = slope(torch.maximum(before, lower))
    right, right_rounding = slope(torch.minimum(after, upper))
    return ((before <= lower) | (left <= left_rounding)) & ((after >= upper) | (right >= -right_rounding))


def interior_and_residual(
    action: Tensor, slope: Tensor, curvature: Tensor, lower: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor]:
    """Whether the action is interior, and its residual |f'|/H: none at a bound that the slope pushes against."""
    pushed = ((action <= lower) & (slope >= 0)) | ((action >= upper) & (slope <= 0)) | (slope == 0)
    interior = (action > lower) & (action < upper)
    distance = torch.where(curvature < torch.inf, slope.abs() / curvature.clamp(min=0), torch.inf)
    return interior, torch.where(pushed, 0.0, distance)


def reach_of(tolerance: float, action: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The largest residual that counts as none, (...): a share of the bounds' distance, or the action's rounding."""
    return torch.maximum(tolerance * (upper - lower), 8 * torch.finfo(action.dtype).eps * action.abs())


def bisected(slope: Slope, lower: Tensor, upper: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The ends of the shortest interval of a floating type between which the slope of a convex f changes its sign.

    Halving goes by the numbers that there are, not by distance: it takes as many steps as the type has bits, however
    far apart the bounds and however near zero the action.
    """
    low, high = _place_of(lower.to(dtype)), _place_of(upper.to(dtype))
    for _ in range(torch.finfo(dtype).bits):
        middle = (low & high) + ((low ^ high) >> 1)  # the mean, without overflow
        there = slope(_number_at(middle, dtype).to(lower.dtype))[0]
        low, high = torch.where(there <= 0, middle, low), torch.where(there >= 0, middle, high)
    return _number_at(low, dtype), _number_at(high, dtype)


def _place_of(values: Tensor) -> Tensor:
    """Whole numbers in the order of the values, one for each that the type has."""
    return _turned(values.contiguous().view(_WHOLE[values.dtype])).long()


def _number_at(place: Tensor, dtype: torch.dtype) -> Tensor:
    return _turned(place.to(_WHOLE[dtype])).view(dtype)


def _turned(bits: Tensor) -> Tensor:
    """Bits of floating numbers to their places, and back: those of negative ones count the other way."""
    return torch.where(bits < 0, torch.iinfo(bits.dtype).min - bits, bits)


_CLOSED_FORM_TOLERANCE = 1e-5  # as a solver's tolerance


def check_stated_convexity(cost: Cost, samples: Tensor, weights: Tensor | None = None) -> None:
    """Raise if a spot check at a few actions contradicts declared convexity; passing it proves nothing."""
    if not states_convexity(cost):
        return
    if (vector := vector_cost(cost)) is None:
        double = samples.double()  # so that rounding is not taken for a bend
        weights = relative_weights(weights, double)
        spot_check_convexity(expected_cost_of(cost, double, weights), *case_bounds(cost, double))
        return
    bent = vector.violates_convexity(samples, relative_weights(weights, samples))
    if bent is not None and known_false(~bent):
        raise CostError(
            "the cost is declared convex in the action, but its expected cost curves downwards at some actions: "
            "remove convex=True"
        )


def places_of(cost: Cost, samples: Tensor) -> Tensor:
    """The members in the action's unit, (..., M), as far as that is known."""
    if (total := total_of(cost)) is not None:
        return total(samples)
    return samples[..., 0] if samples.shape[-1] == 1 else torch.cat([samples.mean(-1), samples.sum(-1)], -1)


def certify(
    cost: Cost, samples: Tensor, weights: Tensor | None, solution: ActionSolution, tolerance: float | None
) -> ActionSolution:
    """The solution for a convex cost, with its proof: the slope of f changes its sign within the tolerance.

    It is a share of the distance between the bounds. None finds the action to rounding where it is not close to that.
    """
    action = solution.action[..., 0]
    lower, upper = _bounds_like(action, cost, samples)
    if tolerance is None:
        action, distance = settled(cost, samples, weights, action)
    else:
        distance = reach_of(tolerance, action, lower, upper)
    f = expected_cost_of(cost, samples, weights)
    enclosed = is_enclosed(cost, samples, weights, action, distance, lower, upper)
    value = f(action.to(samples.dtype))
    slope, curvature = slope_and_curvature(f, action.to(samples.dtype))
    interior, residual = interior_and_residual(action, slope, curvature, lower, upper)
    certified = enclosed & torch.isfinite(value)
    residual = torch.where(certified, torch.minimum(residual, distance), residual)
    value, residual, curvature = (each.to(action.dtype) for each in (value, residual, curvature))
    converged = solution.converged | certified
    return ActionSolution(action[..., None], value, interior, residual, converged, curvature, certified)


def settled(cost: Cost, samples: Tensor, weights: Tensor | None, action: Tensor) -> tuple[Tensor, Tensor]:
    """The action of a convex cost, halved down to rounding where its digits are not proven, and how far it may be off.

    A share of the bounds' distance may be many times the action, so that its own size counts as well.
    """
    lower, upper = _bounds_like(action, cost, samples)
    size = torch.minimum(upper - lower, action.abs())
    near = reach_of(NewtonBisection.tolerance, action, torch.zeros_like(size), size)
    enclosed = is_enclosed(cost, samples, weights, action, near, lower, upper)
    if known_on_host(enclosed.all()):
        return action, near
    f, slope = expected_cost_of(cost, samples, weights), slope_with_rounding(cost, samples, weights)
    low, high = bisected(slope, lower.to(samples.dtype), upper.to(samples.dtype), action.dtype)
    (falling, _), (left, right) = slope(low.to(samples.dtype)), (f(each.to(samples.dtype)) for each in (low, high))
    found = torch.where((falling >= 0) | (left < right), low, high)
    return torch.where(enclosed, action, found), torch.where(enclosed, near, high - low)


def _bounds_like(action: Tensor, cost: Cost, samples: Tensor) -> tuple[Tensor, Tensor]:
    """The bounds of each case, (...), rounded as its action is."""
    lower, upper = case_bounds(cost, samples)
    return lower.to(action.dtype), upper.to(action.dtype)


def check_closed_form(
    cost: Cost, samples: Tensor, weights: Tensor | None, action: Tensor, thorough: bool
) -> ActionSolution:
    """A formula needs no curvature: a kink of f is a minimum too, if the slopes beside it point to it."""
    f, (lower, upper) = expected_cost_of(cost, samples, weights), _bounds_like(action, cost, samples)
    slope, curvature = slope_and_curvature(f, action.to(samples.dtype))
    interior, residual = interior_and_residual(action, slope, curvature, lower, upper)
    reach = reach_of(_CLOSED_FORM_TOLERANCE, action, lower, upper)
    enclosed = is_enclosed(cost, samples, weights, action, reach, lower, upper)
    residual = torch.where(enclosed, torch.minimum(residual, reach), residual)
    value = f(action.to(samples.dtype))
    converged = (residual <= reach) & (enclosed | (curvature > 0)) & torch.isfinite(value)
    convex = states_convexity(cost)
    if thorough and not convex:
        converged = converged & _unbeaten(f, value, lower, upper, places_of(cost, samples))
    certified = converged & enclosed if convex else torch.zeros_like(converged)
    value, residual, curvature = (each.to(action.dtype) for each in (value, residual, curvature))
    return ActionSolution(action[..., None], value, interior, residual, converged, curvature, certified)


def _unbeaten(f: ExpectedCost, value: Tensor, lower: Tensor, upper: Tensor, places: Tensor) -> Tensor:
    """Whether the thorough search finds nothing that is expected to cost less than a formula's action."""
    best = f(global_search(f, lower, upper, places).action)
    scale = torch.maximum(f(lower).abs(), f(upper).abs())
    return value - best <= 1e-6 * torch.maximum(scale, best.abs())


def solve_action(
    cost: Cost,
    samples: Tensor,
    solver: Solver | InteriorPoint | BarrierNewton | None = None,
    *,
    weights: Tensor | None = None,
    check: bool | None = None,
    thorough: bool = True,
) -> ActionSolution:
    """Bayes action of each forecast, with its certificate and without gradients    (eq. optimal_action_mc).

    A cost known to be convex in the action gets a certificate. Any other is evaluated at more than four hundred
    actions, the members among them, and the best is refined, which proves nothing; see `ActionSolution`.

    Args:
        cost: The cost of an action at an outcome; tensor parameters broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How to find the minimum. None takes the closed form of the cost if it has one, `NewtonBisection()` for
            other costs known to be convex, and the thorough search for the rest.
        weights: Weight of each member, (..., M) or (M,), not negative; only ratios matter. None for equal weights. A
            closed form that does not support weights is replaced by a solver.
        check: Whether to reject NaN and infinite members: True always, False never, None on a CPU only, so as not to
            disturb the capture of a training step.
        thorough: Whether to search costs not known to be convex thoroughly, and to spot-check declared convexity. False
            uses `NewtonBisection()`, as `optimal_action` does, which is several times faster and may miss the best
            minimum. A vector action without a solution is NaN, and so is its expected cost; with False it keeps the
            numbers of the search.

    >>> import torch, stakes
    >>> power = torch.tensor([[[0.2], [0.4], [0.9]]])  # one case, three members, one site
    >>> solution = stakes.solve_action(stakes.ShortfallCost(penalty=5.0), power)
    >>> solution.action, solution.interior, solution.certified
    (tensor([[0.4500]]), tensor([True]), tensor([True]))
    """
    if requires_eager(cost):
        return torch.compiler.disable(solve_action)(
            cost, samples, solver, weights=weights, check=check, thorough=thorough
        )
    if _in_inference_mode():
        with torch.inference_mode(False):  # the certificate needs derivatives
            weights = None if weights is None else weights.clone()
            return solve_action(cost, samples.clone(), solver, weights=weights, check=check, thorough=thorough)
    with torch.no_grad(), _full_precision(samples):
        given = weights
        samples, weights = _prepare(cost, samples, weights, check)
        if (vector := vector_cost(cost)) is not None:
            if thorough:
                check_stated_convexity(cost, samples, weights)
            solution = _in_precision_of(samples, vector.solve(samples, weights, solver))
            return _answered(solution) if thorough else solution
        convex = states_convexity(cost)
        # Single precision proves nothing where prices or weights are far apart.
        exact = samples.double() if convex else samples
        exact_weights = relative_weights(given, exact)
        closed_form = _closed_form(cost, exact, exact_weights) if solver is None else None
        if closed_form is not None:
            action = closed_form[..., 0].to(samples.dtype)
            return check_closed_form(cost, exact, exact_weights, action, thorough)
        if thorough:
            check_stated_convexity(cost, samples, weights)
        chosen = solver or _default_solver(cost, samples, thorough)
        solution = solve_with_jacobian(cost, samples, weights, chosen)[0]
        if not convex:
            return solution
        return certify(cost, exact, exact_weights, solution, None if solver is None else chosen.tolerance)


def optimal_action(
    cost: Cost,
    samples: Tensor,
    solver: Solver | InteriorPoint | BarrierNewton | None = None,
    *,
    weights: Tensor | None = None,
    check: bool | None = None,
    thorough: bool = False,
) -> Tensor:
    """Bayes action (..., A) of each forecast, differentiable in the members               (eq. ift_member).

    The gradient follows from the implicit function theorem. It is zero at the bounds and where the search has not
    converged, and it cannot be differentiated again.

    The search is made for training: a cost without a closed form is evaluated at nine actions and the best is refined,
    which finds the best action if the expected cost is convex and may miss it otherwise. `solve_action` and
    `thorough=True` search thoroughly.

    Args:
        cost: The cost of an action at an outcome; tensor parameters broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How to find the minimum. None takes the closed form of the cost if it has one, else `NewtonBisection()`.
            `InteriorPoint(smoothing=0.01)` finds the same action but takes the gradient of the problem with a log
            barrier, so that it does not vanish at the bounds.
        weights: Weight of each member, (..., M) or (M,), not negative; only ratios matter, and they get no gradient.
            None for equal weights. A closed form that does not support weights is replaced by a solver.
        check: Whether to reject NaN and infinite members: True always, False never, None on a CPU only, so as not to
            disturb the capture of a training step.
        thorough: Whether to search costs not known to be convex as thoroughly as `solve_action` does: for evaluating
            decisions, not for training.
    """
    if requires_eager(cost):
        eager = torch.compiler.disable(optimal_action)
        return eager(cost, samples, solver, weights=weights, check=check, thorough=thorough)
    if _in_inference_mode():
        with torch.inference_mode(False), torch.no_grad():  # the solver needs derivatives
            weights = None if weights is None else weights.clone()
            return optimal_action(cost, samples.clone(), solver, weights=weights, check=check, thorough=thorough)
    with _full_precision(samples):
        given = weights
        samples, weights = _prepare(cost, samples, weights, check)
        if (vector := vector_cost(cost)) is not None:
            return vector.best_action(samples, weights, solver).to(samples.dtype)
        if isinstance(solver, InteriorPoint) and solver.smoothing is not None:
            return _with_barrier_gradient(cost, samples, weights, solver.smoothing, thorough)
        exact = samples.double() if thorough and states_convexity(cost) else samples  # as `solve_action` does it
        closed_form = _closed_form(cost, exact, relative_weights(given, exact)) if solver is None else None
        if closed_form is not None:
            return closed_form.to(samples.dtype)
        with torch.no_grad():
            members = samples.detach()
            chosen = solver or _default_solver(cost, members, thorough)
            solution, jacobian = solve_with_jacobian(cost, members, weights, chosen)
            action = solution.action[..., 0]
            if solver is None and thorough and states_convexity(cost):
                action = settled(cost, exact.detach(), relative_weights(given, exact), action)[0]
        return with_gradient(action, samples, jacobian)[..., None]


def _with_barrier_gradient(
    cost: Cost, samples: Tensor, weights: Tensor | None, smoothing: float, thorough: bool
) -> Tensor:
    """The best action with the gradient of that with a log barrier; its own where the solver did not converge."""
    exact = optimal_action(cost, samples, weights=weights, check=False, thorough=thorough)
    with torch.no_grad():
        solution, jacobian = solve_with_log_barrier(cost, samples.detach(), weights, smoothing)
    smooth = with_gradient(exact[..., 0].detach(), samples, jacobian)[..., None]
    return torch.where((solution.converged & solution.interior)[..., None], smooth, exact)


def _in_precision_of(samples: Tensor, best: ActionSolution) -> ActionSolution:
    """A solution in double precision in that of the samples, certified where its expected cost is finite there."""
    names = ("action", "expected_cost", "residual", "curvature")
    rounded = replace(best, **{name: getattr(best, name).to(samples.dtype) for name in names})
    return replace(rounded, certified=best.certified & torch.isfinite(rounded.expected_cost))


def _answered(solution: ActionSolution) -> ActionSolution:
    """The solution with no numbers for what has none: they would break limits, or stand for a cost without end."""
    assert solution.infeasible is not None
    assert solution.unbounded is not None
    none = solution.infeasible | solution.unbounded
    return replace(
        solution,
        action=torch.where(none[..., None], torch.nan, solution.action),
        expected_cost=torch.where(none, torch.nan, solution.expected_cost),
        interior=solution.interior & ~none,
        gap=None if solution.gap is None else torch.where(none, torch.nan, solution.gap),
    )


def _default_solver(cost: Cost, samples: Tensor, thorough: bool) -> Solver:
    """How a cost without a closed form is solved where nothing else is asked for."""
    return _Thorough(places_of(cost, samples)) if thorough and not states_convexity(cost) else NewtonBisection()


@dataclass(frozen=True)
class _Thorough:
    """The thorough search as a solver."""

    places: Tensor  # (..., M)
    tolerance: float = NewtonBisection.tolerance

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        return global_search(expected_cost, lower, upper, self.places)


def _in_inference_mode() -> bool:
    return not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()


def _prepare(cost: Cost, samples: Tensor, weights: Tensor | None, check: bool | None) -> tuple[Tensor, Tensor | None]:
    check_samples(samples)
    if vector_cost(cost) is None:
        require_cost(cost)
        _require_batch_shape(cost, samples.shape[:-2])
    check_finite(samples, "samples", check)
    samples = working_precision(samples)
    return samples, relative_weights(weights, samples)


def _require_batch_shape(cost: Cost, cases: torch.Size) -> None:
    """Raise if a tensor parameter would broadcast the cases to something else."""
    parameters = {**getattr(cost, "__dict__", {}), "lower": cost.lower, "upper": cost.upper}
    for name, value in parameters.items():
        if isinstance(value, Tensor) and not broadcasts_to(value.shape, cases):
            raise CostError(
                f"{name} must be a number or broadcast to the cases {tuple(cases)}, got shape {tuple(value.shape)}"
            )


def _full_precision(samples: Tensor) -> AbstractContextManager[object]:
    """Autocast off: the network may run in half precision, the argmin does not."""
    device = samples.device.type if isinstance(samples, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _closed_form(cost: Cost, samples: Tensor, weights: Tensor | None) -> Tensor | None:
    formula = closed_form_of(cost)
    if formula is None or weights is None:
        return None if formula is None else formula(samples)
    return formula(samples, weights=weights) if "weights" in signature(formula).parameters else None


# The gradient by the implicit function theorem: at the minimum, or with a log barrier at the bounds

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
class BarrierCost:
    """A cost of one number with a log barrier at its bounds."""

    cost: Cost  # the cost itself
    bounds: tuple[Tensor, Tensor]  # where the barrier is infinite, (...) each
    height: Tensor  # what the logarithms of the distances are multiplied by, (...)
    lower: Tensor  # what no best action falls below, (...): a share of the way from one bound to the other
    upper: Tensor  # what no best action exceeds, (...)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost and the barrier, (...)."""
        low, high = self.bounds
        level = action[..., 0]
        return self.cost(action, outcome) - self.height * ((level - low).log() + (high - level).log())


def with_log_barrier(
    cost: Cost, expected_cost: ExpectedCost, bounds: tuple[Tensor, Tensor], smoothing: float
) -> BarrierCost:
    """The cost with the barrier."""
    low, high = bounds
    width = high - low
    steepest = torch.maximum(slope_of(expected_cost, low).abs(), slope_of(expected_cost, high).abs())
    # No slope between the bounds of a convex cost exceeds the steepest, which the barrier at this distance outdoes.
    least = 0.5 * smoothing / (1 + 2 * smoothing) * width
    return BarrierCost(cost, bounds, smoothing * width * steepest, low + least, high - least)


def solve_with_log_barrier(
    cost: Cost, samples: Tensor, weights: Tensor | None, smoothing: float
) -> tuple[ActionSolution, Tensor]:
    """The best action of each case with the barrier, and its Jacobian (..., M, D)."""
    inside = with_log_barrier(cost, expected_cost_of(cost, samples, weights), case_bounds(cost, samples), smoothing)
    return solve_with_jacobian(inside, samples, weights, NewtonBisection())
