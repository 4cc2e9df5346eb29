"""Scenario reduction: weighted support points, and what deciding from them costs."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.actions.solve import solve_action
from stakes.argument_checks import check_finite, check_samples, require_count
from stakes.costs.cost import ActionSolution, Cost
from stakes.costs.member_weights import mean_cost, mean_of_members, relative_weights
from stakes.errors import ShapeError
from stakes.models.support_points import (
    energy_distance,
    mean_distance,
    nearest_members,
    support_points,
    support_weights,
)

_MOMENTS_OF_POINTS = 0.5  # matched moments for each point, at most: more would leave the weights no freedom


@dataclass(frozen=True, eq=False)
class ReducedMembers:
    """A few weighted members that represent many, and the cost of deciding from them.

    Attributes:
        members: The support points (..., n, D), in the unit of the members, or some of the members.
        weights: Their weights, (..., n), which sum to 1 in each case.
        energy_distance: Their distance from all members, 2 E|X - Y| - E|X - X'| - E|Y - Y'|, (...).
        full_action: With a cost, the best action under all members, (..., A).
        action: With a cost, the best action under the reduced members, (..., A).
        expected_cost: With a cost, the expected cost of that action under the reduced members, (...).
        gap: With a cost, E c(action) - E c(full_action) under all members, (...): what the reduction costs.
        certified: With a cost, whether the best action under all members is certified, and with it the gap, (...),
            bool.
    """

    members: Tensor
    weights: Tensor
    energy_distance: Tensor
    full_action: Tensor | None = None
    action: Tensor | None = None
    expected_cost: Tensor | None = None
    gap: Tensor | None = None
    certified: Tensor | None = None

    def scenarios(self, names: tuple[str, ...] | None = None) -> dict[str, NDArray[np.generic]]:
        """The columns of a long table with a row per case, scenario and outcome, the format of stochastic programs.

        They are `case`, `scenario`, `probability`, `outcome` and `value`; batch axes are flattened.

        Args:
            names: The names of the D outcomes; None numbers them from 1.
        """
        values = self.members.reshape(-1, *self.members.shape[-2:])
        labels = np.array(names if names is not None else [str(place + 1) for place in range(values.shape[2])])
        if len(labels) != values.shape[2]:
            raise ShapeError(f"names must name {values.shape[2]} outcomes, got {len(labels)}")
        case, scenario, outcome = (each.ravel() for each in np.indices(tuple(values.shape)))
        probability = self.weights.reshape(values.shape[:2]).numpy()[case, scenario]
        columns = {"case": case + 1, "scenario": scenario + 1, "probability": probability}
        return columns | {"outcome": labels[outcome], "value": values.numpy().ravel()}


def reduce_members(
    samples: Tensor, count: int, weights: Tensor | None = None, cost: Cost | None = None
) -> ReducedMembers:
    """A few weighted members that represent many: support points, which have the least energy distance to all members.

    The energy distance is the divergence of the energy score. With a cost, the weights also preserve the expected cost
    of the best action under all members, and its slope there, as far as weights can; members close to support points of
    their costs are tried, too. Each case gets the reduction with the best decision, and `gap` is what it costs under
    all members. The result is deterministic and has no gradient.

    Args:
        samples: Members (..., M, D) of each forecast, in physical units; scale outcomes of different magnitude first,
            as distances mix them.
        count: n, the number of members to keep, at most M.
        weights: Weight of each member, (..., M) or (M,), not negative; only ratios matter. None for equal weights.
        cost: The cost of an action at an outcome; None if there is no decision.

    >>> import torch, stakes
    >>> members = torch.distributions.LogNormal(0.0, 1.0).icdf(torch.linspace(0.001, 0.999, 1000))[:, None]
    >>> reduced = stakes.reduce_members(members, 20, cost=stakes.NewsvendorCost(9.0, 1.0, 0.0, 100.0))
    >>> reduced.members.shape, bool(reduced.gap < 0.02 * reduced.expected_cost), bool(reduced.certified)
    (torch.Size([20, 1]), True, True)
    """
    check_samples(samples)
    check_finite(samples, "samples", True)
    require_count("count", count)
    if samples.shape[-2] < 2:
        raise ShapeError("samples must have at least two members, got one")
    if count > samples.shape[-2]:
        raise ShapeError(f"count must be at most the number of members, {samples.shape[-2]}, got {count}")
    shares = relative_weights(weights, samples)
    points = support_points(samples, count, shares)
    chances = support_weights(samples, points, shares)
    apart = mean_distance(samples, shares)  # quadratic in the number of members, so once
    if cost is None:
        return _reduced(samples, shares, points, chances, apart)
    full = solve_action(cost, samples, weights=shares)
    traits = _cost_and_slope(cost, full.action, samples)
    chosen = nearest_members(*_beside_traits(samples, traits, count, shares))[..., None]
    some = samples.gather(-2, chosen.expand(*chosen.shape[:-1], samples.shape[-1]))
    keeping = [(each, _keeping(cost, samples, shares, each, full.action, traits)) for each in (points, some)]
    best, *others = (
        _decided(cost, samples, shares, _reduced(samples, shares, *each, apart), full)
        for each in (*keeping, (points, chances))
    )
    for other in others:
        best = _each_better(other, best)
    return best


def _reduced(samples: Tensor, shares: Tensor | None, points: Tensor, chances: Tensor, apart: Tensor) -> ReducedMembers:
    distance = energy_distance(samples, points, shares, chances, apart)
    return ReducedMembers(*(each.to(samples.dtype) for each in (points, chances, distance)))


def _decided(
    cost: Cost, samples: Tensor, shares: Tensor | None, reduced: ReducedMembers, full: ActionSolution
) -> ReducedMembers:
    few = solve_action(cost, reduced.members, weights=reduced.weights)
    exact = None if shares is None else shares.double()
    paid, least = (mean_cost(cost, each.double(), samples.double(), exact) for each in (few.action, full.action))
    return ReducedMembers(
        reduced.members,
        reduced.weights,
        reduced.energy_distance,
        full_action=full.action,
        action=few.action,
        expected_cost=few.expected_cost,
        gap=torch.where(full.certified, (paid - least).clamp(min=0), paid - least),  # but for rounding
        certified=full.certified & paid.isfinite(),
    )


def _beside_traits(samples: Tensor, traits: Tensor, count: int, shares: Tensor | None) -> tuple[Tensor, Tensor]:
    """Members with their cost and slope beside them, which vary together as much as they do, and support points.

    Few points of many outcomes lie too close together in what a decision is about, such as their sum.
    """
    values, beside = samples.double(), traits.mT
    spread, own = (each.var(-2, correction=0).sum(-1).sqrt()[..., None, None] for each in (values, beside))
    joined = torch.cat([values, beside * torch.where(own > 0, spread / own, 0.0)], -1)
    return joined, support_points(joined, count, shares)


def _keeping(
    cost: Cost, samples: Tensor, shares: Tensor | None, points: Tensor, action: Tensor, traits: Tensor
) -> Tensor:
    """Weights (..., n) that keep the mean cost of an action and its slope, or the cost alone where there are few."""
    at_points = _cost_and_slope(cost, action, points.to(samples.dtype))
    kept = slice(None) if traits.shape[-2] <= _MOMENTS_OF_POINTS * points.shape[-2] else slice(1)
    means = mean_of_members(traits, None if shares is None else shares[..., None, :], -1)
    moments = at_points[..., kept, :].nan_to_num(), means[..., kept].nan_to_num()
    return support_weights(samples, points, shares, moments)


def _cost_and_slope(cost: Cost, action: Tensor, members: Tensor) -> Tensor:
    """What an action costs at every member, and the slope in each of its parts, (..., 1 + A, M)."""
    outcomes = members.double().movedim(-2, 0)
    with torch.enable_grad():
        actions = action.double().expand(*outcomes.shape[:-1], -1).detach().requires_grad_()
        costs = cost(actions, outcomes)
        (slope,) = torch.autograd.grad(costs.sum(), actions) if costs.requires_grad else (actions[..., :0],)
    return torch.cat([costs.detach()[..., None], slope], -1).movedim(0, -1)


def _each_better(first: ReducedMembers, second: ReducedMembers) -> ReducedMembers:
    """Case by case the one of the smaller gap, the first of two alike."""
    assert first.gap is not None
    assert second.gap is not None
    worse = first.gap > second.gap

    def of_case(name: str) -> Tensor:
        one, other = getattr(first, name), getattr(second, name)
        shape = (*worse.shape, *[1] * (one.dim() - worse.dim()))
        return torch.where(worse.reshape(shape), other, one)

    return ReducedMembers(**{field.name: of_case(field.name) for field in fields(ReducedMembers)})
