"""The scalar action whose conditional value at risk is least: a search within a search.

At every action a the members' costs c_m say exactly what the inner search would find: the threshold is their quantile,
and what it charges is their mean with weights v_m that fall on the tail alone,

    g(a) = sum_m v_m c_m(a),   v_m = mix (share of m above the level) / (1 - level) + (1 - mix) w_m.

g is convex where c is. It has kinks where c has them and where two members change places at the threshold. Between
kinks the weights stand still, and the gradient of the best action is the usual one, -g_ay / g_aa. At a kink two pieces
of g meet, and go on meeting as the members move, so that it is that of the secant: less the change of g_y over that of
g_a.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.method.certificates import interior_and_residual, reach_of
from stakes.method.costs import Cost
from stakes.method.derivatives import all_derivatives, slope_and_curvature, slope_of, with_gradient
from stakes.method.expected_costs import case_bounds, member_costs
from stakes.method.program_actions import ProgramAction
from stakes.method.solvers import NewtonBisection, Solver

__all__ = ["TailSearch", "tail_weights", "with_threshold"]

_KINK = 8.0  # a slope that changes by more than that many times what the curvature explains is at a kink
_ROUNDING = 64 * torch.finfo(torch.float64).eps  # of slopes


class _Tail(NamedTuple):
    """Weights v of the members' costs (M, ...), and the place (1, ...) of the member at the threshold."""

    weights: Tensor
    place: Tensor


def tail_weights(costs: Tensor, shares: Tensor, level: float) -> _Tail:
    """What each member weighs in the conditional value at risk, and which one is at the threshold.

    Args:
        costs: What the members cost, (M, ...).
        shares: What they weigh in the mean, (M, ...), adding up to 1.
        level: The share of them below the threshold.
    """
    order = costs.argsort(dim=0, stable=True)
    each = shares.gather(0, order)
    up_to = each.cumsum(0)
    above = torch.minimum((up_to - level).clamp(min=0.0), each) / (1 - level)
    place = (up_to < level * (1 - _ROUNDING)).sum(0, keepdim=True).clamp(max=len(costs) - 1)
    return _Tail(torch.zeros_like(above).scatter(0, order, above), order.gather(0, place))


def with_threshold(action: Tensor, costs: Tensor, weights: Tensor | None, level: float, solved: Tensor) -> Tensor:
    """Actions and their threshold, (..., A + 1): the lowest of the best ones, with its gradient where it is solved.

    Args:
        action: Actions (..., A).
        costs: What they cost at the members, (M, ...).
        weights: What each member weighs, (..., M); None where all count alike.
        level: The share of the members below the threshold.
        solved: Whether the actions are the best ones, (...), bool.
    """
    place = tail_weights(costs.detach(), _shares(costs.detach(), weights), level).place
    threshold = costs.gather(0, place)[0]
    return torch.cat([action, torch.where(solved, threshold, threshold.detach())[..., None]], -1)


def _shares(costs: Tensor, weights: Tensor | None) -> Tensor:
    """What the members weigh, (M, ...), adding up to 1."""
    shares = torch.ones_like(costs) if weights is None else weights.movedim(-1, 0).to(costs).expand_as(costs)
    return shares / shares.sum(0)


@dataclass(frozen=True)
class TailSearch:
    """How the best scalar action is found.

    Attributes:
        cost: The plain cost, convex in the action.
        level: The share of the members below the threshold, between 0 and 1.
        mix: The share of the conditional value at risk in what is minimised.
        solver: The outer search; None for as many steps as bring halved brackets to a kink.
    """

    cost: Cost
    level: float
    mix: float
    solver: Solver | None = None

    def __call__(self, samples: Tensor, weights: Tensor | None, *, gradient: bool = False) -> ProgramAction:
        """The best action of each forecast and its threshold, (..., 2).

        Args:
            samples: Members (..., M, D), in double precision.
            weights: What each member weighs, (..., M); None where all count alike.
            gradient: Whether actions are to be differentiable in the members.
        """
        with torch.no_grad():
            members = samples.detach()
            best, jacobian = self._best(members, _shares(members.movedim(-2, 0)[..., 0], weights))
        action = best.action[..., 0]
        action = with_gradient(action, samples, jacobian) if gradient else action
        costs = member_costs(self.cost, action, samples.movedim(-2, 0))
        return best._replace(action=with_threshold(action[..., None], costs, weights, self.level, best.solved))

    def _best(self, samples: Tensor, shares: Tensor) -> tuple[ProgramAction, Tensor]:
        """The best action (..., 1) and its Jacobian (..., M, D)."""
        solver = self.solver or NewtonBisection(iterations=32, tolerance=1e-9)

        def g(action: Tensor, members: Tensor) -> Tensor:
            costs = member_costs(self.cost, action, members.movedim(-2, 0))
            tail = tail_weights(costs.detach(), shares, self.level).weights
            return ((self.mix * tail + (1 - self.mix) * shares) * costs).sum(0)

        lower, upper = case_bounds(self.cost, samples)
        action = solver(lambda a: g(a, samples), lower, upper).action
        value, slope, curvature, cross = all_derivatives(g, action, samples)
        interior, residual = interior_and_residual(action, slope, curvature, lower, upper)
        reach = reach_of(solver.tolerance, action, lower, upper)
        before, after = (_side(g, (action + sign * reach).clamp(lower, upper), samples) for sign in (-1, 1))
        steepest = torch.maximum(before.slope.abs(), after.slope.abs())
        rounding = _ROUNDING * steepest
        falls = (before.action <= lower) | (before.slope <= rounding)
        rises = (after.action >= upper) | (after.slope >= -rounding)
        solved = falls & rises & torch.isfinite(value)
        gap = slope.abs() * torch.where(slope > 0, action - lower, upper - action)
        gap, residual = (
            torch.where(solved, torch.minimum(each, most), each)
            for each, most in ((gap, reach * steepest), (residual, reach))
        )
        jacobian = _jacobian(before, after, curvature, cross, interior & solved, rounding)
        no = torch.zeros_like(solved)
        return ProgramAction(action[..., None], gap, residual, solved, interior, curvature, no, no), jacobian


class _Side(NamedTuple):
    """An action (...) beside the best one: g_a and g_aa there, (...), and g_y, (..., M, D)."""

    action: Tensor
    slope: Tensor
    curvature: Tensor
    by_members: Tensor


def _side(g: Callable[[Tensor, Tensor], Tensor], action: Tensor, samples: Tensor) -> _Side:
    slope, curvature = slope_and_curvature(lambda a: g(a, samples), action)
    return _Side(action, slope, curvature, slope_of(lambda members: g(action, members), samples))


def _jacobian(before: _Side, after: _Side, curvature: Tensor, cross: Tensor, moves: Tensor, rounding: Tensor) -> Tensor:
    """How the best action moves with the members, (..., M, D): by a secant at a kink, else by the curvature."""
    jump = after.slope - before.slope
    explained = (after.action - before.action) * torch.maximum(before.curvature, after.curvature)
    kinked = moves & (before.slope < 0) & (after.slope > 0) & (jump > _KINK * explained + rounding)
    smooth = moves & ~kinked & (curvature > 0)
    secant = (after.by_members - before.by_members) / _wide(torch.where(kinked, jump, 1.0))
    implicit = cross / _wide(torch.where(smooth, curvature, 1.0))
    return -torch.where(_wide(kinked), secant, torch.where(_wide(smooth), implicit, 0.0))


def _wide(values: Tensor) -> Tensor:
    return values[..., None, None]
