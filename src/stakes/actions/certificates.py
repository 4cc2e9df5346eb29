"""Whether an action of one number is the best: its expected cost, the slopes beside it, and what they prove."""

from collections.abc import Callable

import torch
from torch import Tensor

from stakes.actions.scalar_solvers import NewtonBisection, global_search, spot_check_convexity
from stakes.argument_checks import known_false, known_on_host
from stakes.costs.cost import ActionSolution, Cost, states_convexity, total_of, vector_cost
from stakes.costs.derivatives import ExpectedCost, slope_and_curvature, slope_of
from stakes.costs.member_weights import mean_of_members, relative_weights
from stakes.errors import CostError, ShapeError


def expected_cost_of(cost: Cost, samples: Tensor, weights: Tensor | None) -> ExpectedCost:
    """Expected costs (...) of actions (...)."""
    members = samples.movedim(-2, 0).contiguous()  # (M, ..., D); one copy, and every evaluation runs along the cases
    shares = None if weights is None else weights.movedim(-1, 0).contiguous()  # (M, ...)
    return lambda action: mean_of_members(member_costs(cost, action, members), shares, 0)


def member_costs(cost: Cost, action: Tensor, members: Tensor) -> Tensor:
    """What scalar actions cost at each member, (M, ...)."""
    costs, shape = cost(action[..., None], members), members.shape[:-1]
    if not isinstance(costs, Tensor) or costs.shape != shape:
        came = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
        raise ShapeError(
            f"the cost must return a tensor of shape {tuple(shape)} for action {(*action.shape, 1)} and outcome "
            f"{tuple(members.shape)}, got {came}"
        )
    return costs


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
        each = slope_of(lambda a: member_costs(cost, a, members), action.expand(members.shape[:-1]))
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
    """The largest residual that counts as none, (...): a share of the bounds' distance, or the rounding
    of the action.
    """
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
    """Raise if the cost is stated to be convex in the action and its expected cost is seen not to be.

    It is a spot check at a few actions: that it passes proves nothing.
    """
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
            "the cost is stated to be convex in the action, but the expected cost is curved downwards at some "
            "actions: leave out convex=True"
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
    near = reach_of(NewtonBisection().tolerance, action, torch.zeros_like(size), size)
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
