"""Schedules whose neighbours differ by a ramp at most, solved exactly, hour by hour.

    minimise over a   sum_t f_t(a_t)   subject to   |a_t - a_{t-1}| <= ramp,   lower_t <= a_t <= upper_t

with the f_t of `stakes.method.part_costs`. Let g_t be the slope of what the hours up to t cost at least, as a function
of a_t. It rises, and

    g_{t+1}(a) = f'_{t+1}(a) + min(g_t(a + ramp), 0) + max(g_t(a - ramp), 0),

so that what lies to the left of its root moves left by a ramp, what lies to the right moves right, and it is zero in
between. g_t is thus a list of bends, and its root is found by one sort and one sum. A bound is a bend too, steeper than
all prices together. The hours after t are dealt with in the same way, from the last one on, until both halves of a day
meet in the middle. From there to either side, a_t is the point next to its root that its neighbour allows.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from stakes.method.argument_checks import number_on_host
from stakes.method.part_costs import AT_BOUND, BETWEEN, ROUNDING, PartAction, PartCosts, SlopeRange

__all__ = ["RampedAction", "ramped_action"]


class RampedAction(NamedTuple):
    """The best actions of B cases, and the proof of it.

    Attributes:
        parts: The actions and what they move with.
        gap: By how much another action could cost less at most, (B,).
        residual: By how much a limit, or the condition of a minimum, is violated, in units of the case, (B,).
    """

    parts: PartAction
    gap: Tensor
    residual: Tensor


def ramped_action(costs: PartCosts, free: Tensor, ramp: Tensor) -> RampedAction:
    """The best action of each case.

    Args:
        costs: The costs of the parts, (B, A).
        free: The best actions without the limit, (B, A).
        ramp: By how much neighbours may differ, (B, 1).
    """
    # No best action leaves the free ones; numbers far beyond them, such as a bound in place of none, would cost digits.
    ends = torch.cat([free, costs.mean], -1)
    spread = ends.amax(-1, keepdim=True) - ends.amin(-1, keepdim=True) + ramp
    costs = replace(costs, lower=torch.maximum(costs.lower, free.amin(-1, keepdim=True) - ramp))
    limits = _limits(free, ramp)
    best = _schedule(_parts(costs, limits, spread), limits, ROUNDING * costs.prices.sum(-1, keepdim=True), ramp)
    return RampedAction(best, *_proof(costs, ramp, best.action, spread))


class _Slope(NamedTuple):
    """A rising slope of each case, as a list of N bends; or those of all parts, with A after B in all shapes."""

    x: Tensor  # where it bends, (B, N)
    jump: Tensor  # by how much it rises there, (B, N)
    turn: Tensor  # by how much it becomes steeper there, (B, N)
    held_by: Tensor  # what a root stays at there, (B, N)
    start: Tensor  # left of all bends it is start + steepness a, (B, 1)
    steepness: Tensor  # (B, 1)

    def of_part(self, t: int) -> "_Slope":
        return _Slope(*(each[:, t] for each in self))

    def rows(self, places: slice) -> "_Slope":
        return _Slope(*(each[places] for each in self))


class _Root(NamedTuple):
    """Where a slope is zero, and what holds it there, (B, 1) each."""

    at: Tensor
    held_by: Tensor

    def rows(self, places: slice) -> "_Root":
        return _Root(self.at[places], self.held_by[places])


class _Limits(NamedTuple):
    """What no best action falls below or exceeds, (B, A, 1) each, or (B, 1) of one part."""

    lowest: Tensor
    highest: Tensor

    def of_part(self, t: int) -> "_Limits":
        return _Limits(*(each[:, t] for each in self))


def _limits(free: Tensor, ramp: Tensor) -> _Limits:
    """The greatest schedule without too steep ramps that exceeds no free action, and the least that none exceeds."""
    climb = ramp * torch.arange(free.shape[-1], dtype=free.dtype, device=free.device)
    either = torch.stack([free, -free, free.flip(-1), -free.flip(-1)])
    either = (either - climb).cummin(-1).values + climb  # the least over s <= t of free_s + ramp (t - s)
    spare = ROUNDING * torch.maximum(free.abs().amax(-1, keepdim=True), ramp)
    lowest, highest = (torch.minimum(either[:2], either[2:].flip(-1)) - spare)[..., None]
    return _Limits(lowest, -highest)


def _parts(costs: PartCosts, limits: _Limits, spread: Tensor) -> _Slope:
    """The slopes of all parts between the limits, with bends at the members and the bounds."""
    x, jump, held_by, below = _members(costs, limits)
    wall = 2 * (costs.prices + costs.quadratic * spread).sum(-1, keepdim=True)  # steeper than all prices
    wall = wall.expand_as(costs.lower)
    bounds = [costs.lower] if number_on_host(torch.isinf(costs.upper).all()) else [costs.lower, costs.upper]
    jump = torch.cat([jump, *[wall[..., None]] * len(bounds)], -1)
    start = costs.long - costs.prices * (1 - below) - costs.quadratic * costs.mean - wall
    return _Slope(
        torch.cat([x, torch.stack(bounds, -1).clamp(max=torch.finfo(x.dtype).max)], -1),
        jump,
        torch.zeros_like(jump),
        pad(held_by, (0, len(bounds)), value=AT_BOUND),
        start[..., None],
        costs.quadratic[..., None],
    )


def _members(costs: PartCosts, limits: _Limits) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Bends at the members within the limits and at the upper limit, (B, A, W), and what lies below, (B, A).

    Where Python may not look at numbers, all members are kept.
    """
    members, count = costs.members, costs.members.shape[-1]
    below = costs.below.expand(*members.shape[:2], -1)
    first = (members < limits.lowest).sum(-1, keepdim=True)
    last = (members <= limits.highest).sum(-1, keepdim=True)
    widest = number_on_host((last - first).amax())
    first = first if widest is not None else torch.zeros_like(first)
    place = first + torch.arange(count + 1 if widest is None else int(widest) + 1, device=members.device)
    inside, place = place < last, place.clamp(max=count - 1)
    jump = costs.prices[..., None] * (below.gather(-1, place + 1) - below.gather(-1, place))
    part = torch.arange(members.shape[1], device=members.device)[:, None]
    return (
        torch.where(inside, members.gather(-1, place), limits.highest),
        torch.where(inside, jump, 0.0),
        torch.where(inside, part * count + place, BETWEEN),
        below.gather(-1, first)[..., 0],
    )


def _schedule(parts: _Slope, limits: _Limits, tolerance: Tensor, ramp: Tensor) -> PartAction:
    """Inward through the slopes of both halves of a day at once, and outward through the actions."""
    cases, hours = parts.x.shape[:2]
    middle = hours // 2
    both = _Slope(*(_halves(each, middle) for each in parts)), _Limits(*(_halves(each, middle) for each in limits))
    twice = (torch.cat([tolerance, tolerance]), torch.cat([ramp, ramp]))
    none = twice[1][:, :0]
    whole = slope = _Slope(none, none, none, none.long(), 0 * twice[1], 0 * twice[1])
    roots = []
    for t in range(middle):
        whole = _sum([slope, both[0].of_part(t)], both[1].of_part(t))
        root, slope = _split(whole, *twice)
        roots.append(root)
    first, second = slice(None, cases), slice(cases, None)
    own = [parts.of_part(middle), slope.rows(second)] if hours % 2 else [whole.rows(second)]
    met, _ = _split(_sum([slope.rows(first), *own], limits.of_part(middle)), tolerance, ramp)
    inward = [root.rows(first) for root in roots], [root.rows(second) for root in roots[: hours - middle - 1]]
    in_order = [*inward[0], met, *reversed(inward[1])]
    at, held_by = (torch.cat(each, -1) for each in zip(*in_order, strict=True))
    return _outwards(at, held_by, ramp, middle)


def _halves(values: Tensor, middle: int) -> Tensor:
    """Those of the first hours, and below them those of the last hours from the end, (2 B, middle, ...)."""
    return torch.cat([values[:, :middle], values.flip(1)[:, :middle]])


def _sum(slopes: list[_Slope], limits: _Limits) -> _Slope:
    """The sum of slopes, its bends in order; beyond the limits it is straight."""
    x, jump, turn, held_by = (torch.cat(each, -1) for each in list(zip(*slopes, strict=True))[:4])
    start, steepness = (sum(each[1:], each[0]) for each in list(zip(*slopes, strict=True))[4:])
    ordered, order = torch.sort(x, -1)
    low = x < limits.lowest
    first, last = low.sum(-1, keepdim=True), (x < limits.highest).sum(-1, keepdim=True)
    widest = number_on_host((last - first).amax())
    if widest is None:
        jump, turn, held_by = (each.gather(-1, order) for each in (jump, turn, held_by))
        return _Slope(ordered, jump, turn, held_by, start, steepness)
    place = first + torch.arange(int(widest) + 1, device=x.device)
    inside, place = place < last, place.clamp(max=x.shape[-1] - 1)
    order = order.gather(-1, place)
    return _Slope(
        torch.where(inside, ordered.gather(-1, place), limits.highest),
        torch.where(inside, jump.gather(-1, order), 0.0),
        torch.where(inside, turn.gather(-1, order), 0.0),
        held_by.gather(-1, order),
        start + torch.where(low, jump - turn * x, 0.0).sum(-1, keepdim=True),
        steepness + torch.where(low, turn, 0.0).sum(-1, keepdim=True),
    )


def _split(slope: _Slope, tolerance: Tensor, ramp: Tensor) -> tuple[_Root, _Slope]:
    """The lowest root of a slope, and what the hours up to it ask of the next one.

    That is both sides of the root a ramp apart, with two more bends, and zero in between.
    """
    steepness = slope.steepness + slope.turn.cumsum(-1)  # after each bend
    first = slope.start + slope.steepness * slope.x[:, :1]
    rises = torch.addcmul(slope.jump, steepness - slope.turn, slope.x.diff(dim=-1, prepend=slope.x[:, :1])).cumsum(-1)
    place = (rises < -tolerance - first).sum(-1, keepdim=True).clamp(max=slope.x.shape[-1] - 1)
    values = (slope.x, slope.jump, slope.turn, slope.held_by, steepness, rises)
    x, jump, turn, held_by, after, value = (each.gather(-1, place) for each in values)
    value, before = value + first, after - turn  # just after the bend; how steep it is before
    bent = value <= jump
    at = torch.where(bent, x, x - (value - jump) / torch.where(bent, 1.0, before))
    root = _Root(at, torch.where(bent, held_by, BETWEEN))
    left = torch.arange(slope.x.shape[-1], device=x.device) < place
    pair = (
        torch.cat([at - ramp, at + ramp], -1),
        torch.where(bent, torch.cat([jump - value, value.clamp(min=0.0)], -1), 0.0),
        torch.cat([-before, torch.where(bent, after, before)], -1),
        root.held_by.expand(-1, 2),
    )
    moved = (
        slope.x + torch.where(left, -ramp, ramp),
        slope.jump.scatter(-1, place, torch.where(bent, 0.0, jump)),
        slope.turn.scatter(-1, place, torch.where(bent, 0.0, turn)),
        slope.held_by,
    )
    x, jump, turn, held_by = (torch.cat(each, -1) for each in zip(moved, pair, strict=True))
    start = slope.start + ramp * slope.steepness
    return root, _Slope(x, jump, turn, held_by, start, slope.steepness)


def _outwards(roots: Tensor, held_by: Tensor, ramp: Tensor, middle: int) -> PartAction:
    """The actions: each at its root, or as near to it as its neighbour on the way to the middle allows."""
    columns = list(roots.split(1, -1))
    for t in [*range(middle - 1, -1, -1), *range(middle + 1, len(columns))]:
        beside = columns[t + 1 if t < middle else t - 1]
        columns[t] = torch.minimum(torch.maximum(columns[t], beside - ramp), beside + ramp)
    action = torch.cat(columns, -1)
    hours = torch.arange(len(columns), device=action.device)
    leads = (roots == action) | (hours == middle)
    later = torch.where(leads, hours, len(columns)).flip(-1).cummin(-1).values.flip(-1)
    sooner = torch.where(leads, hours, 0).cummax(-1).values
    return PartAction(action, held_by, torch.where(hours < middle, later, sooner))


def _proof(costs: PartCosts, ramp: Tensor, action: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """The gap and the residual of actions, by prices of the ramps and bounds.

    The price mu_t of the ramp after t is the sum of the slopes of the parts up to t, each between those just below and
    just above the action, beyond them at a bound. It must be zero where the ramp does not bind, and where it does have
    the sign of a force that the ramp withstands; the last one is zero. All prices that the hours before allow lie
    between two sums, and of these the highest that the hours after allow is taken.
    """
    size = torch.maximum(action.abs().amax(-1, keepdim=True), ramp)
    reach = ROUNDING * size
    least, most = costs.slopes(action, reach)
    unit = (costs.prices + costs.quadratic * spread).sum(-1, keepdim=True)
    least = torch.where(action <= costs.lower + reach, least - unit, least)  # a bound withstands any price
    most = torch.where(action >= costs.upper - reach, most + unit, most)
    step = action.diff(dim=-1)
    lowest = pad(torch.where(step <= reach - ramp, -torch.inf, 0.0), (0, 1))
    highest = pad(torch.where(step >= ramp - reach, torch.inf, 0.0), (0, 1))
    price = _prices(SlopeRange(least, most), highest)
    slope = torch.cat([price[:, :1], price.diff(dim=-1)], -1)
    wrong = torch.stack([least - slope, slope - most, lowest - price]).amax((0, 2)).clamp(min=0.0)
    too_steep = pad(step.abs() - ramp, (0, 1))
    outside = torch.stack([costs.lower - action, action - costs.upper, too_steep]).amax((0, 2)).clamp(min=0.0)
    gap = reach[:, 0] * ((most - least).sum(-1) + price.abs().sum(-1))
    return gap, torch.maximum(wrong / unit[:, 0], outside / size[:, 0])


def _prices(slopes: SlopeRange, highest: Tensor) -> Tensor:
    """Of all sums of slopes up to each part that stay below the highest, the highest that end at zero, (B, A)."""
    least, most = (each.cumsum(-1) for each in slopes)
    allowed = most + (highest - most).cummin(-1).values.clamp(max=0.0)  # by the hours before
    allowed = pad(allowed[:, :-1], (0, 1))
    return least + (allowed - least).flip(-1).cummin(-1).values.flip(-1)
