"""Schedules with ramp limits and allocations under a budget, each solved exactly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from stakes.argument_checks import (
    known_false,
    known_on_host,
    number_on_host,
    require_finite,
    require_positive,
    shown_numbers,
)
from stakes.costs.cost import ActionSolution, Parameter
from stakes.costs.member_weights import mean_cost, mean_of_members
from stakes.errors import CostError
from stakes.programs.interior_point import InteriorPoint
from stakes.programs.part_costs import (
    AT_BOUND,
    BETWEEN,
    ROUNDING,
    PartAction,
    PartCosts,
    SlopeRange,
    parameter_parts,
    redone,
    take_lists,
)
from stakes.programs.scenario_program import ProgramCost, ScenarioProgram, required_interior_point


class ExactAction(NamedTuple):
    """The best actions of some cases, and the proof of it."""

    action: Tensor  # (..., A), in double precision, differentiable in the members
    gap: Tensor  # by how much another action could cost less at most, in the cost's unit, (...)
    residual: Tensor  # by how much a limit, or the condition of a minimum, is violated, in units of the case, (...)


def budgeted_action(costs: PartCosts, samples: Tensor, budget: Tensor) -> ExactAction:
    """The best action of each case whose budget is less than the parts alone would take; others have none."""
    saved = costs.prices[..., None] * (1 - costs.below[..., :-1]) - costs.long[..., None]  # (B, A, M), falling
    ends = pad(costs.members.clamp(min=0.0), (1, 0))  # of the stretches, (B, A, M + 1)
    worth = _worth(saved.flatten(1), ends.diff(dim=-1).flatten(1), budget)  # of the last unit, (B, 1)
    tolerance = ROUNDING * costs.prices.sum(-1, keepdim=True)
    least, most = (
        _reached(costs, samples, (saved > level[..., None]).sum(-1)) for level in (worth + tolerance, worth - tolerance)
    )
    left, room = budget - least.sum(-1, keepdim=True), (most - least).sum(-1, keepdim=True)
    action = least + left / torch.where(room > 0, room, 1.0) * (most - least)
    return ExactAction(action, *_allocation_proof(costs, action.detach(), budget, worth))


def _worth(saved: Tensor, length: Tensor, budget: Tensor) -> Tensor:
    """What a unit saves on the stretch on which the budget ends, (B, 1)."""
    ordered, order = torch.sort(saved, -1, descending=True)
    spent = length.gather(-1, order).cumsum(-1)
    return ordered.gather(-1, (spent < budget).sum(-1, keepdim=True).clamp(max=spent.shape[-1] - 1))


def _reached(costs: PartCosts, samples: Tensor, stretches: Tensor) -> Tensor:
    """Where each part ends after so many stretches, (B, A), differentiable in the members."""
    part = torch.arange(stretches.shape[-1], device=stretches.device)
    member = costs.members_at(part * samples.shape[1] + (stretches - 1).clamp(min=0), samples)
    return torch.where(stretches > 0, member, 0.0).clamp(min=0.0)


def _allocation_proof(costs: PartCosts, action: Tensor, budget: Tensor, worth: Tensor) -> tuple[Tensor, Tensor]:
    """The gap and the residual of actions, with the worth of the last unit as the price of the budget."""
    reach = ROUNDING * budget
    slopes = costs.slopes(action, reach)
    wrong = torch.maximum(torch.where(action <= reach, 0.0, slopes.least + worth), -worth - slopes.most)
    wrong = torch.maximum(wrong.amax(-1), -worth[:, 0]).clamp(min=0.0)
    off = (action.sum(-1) - budget[:, 0]).abs()
    gap = reach[:, 0] * (slopes.most - slopes.least).sum(-1) + worth[:, 0].abs() * off
    return gap, torch.maximum(wrong / costs.prices.amax(-1), off / budget[:, 0])


def ramped_action(costs: PartCosts, free: Tensor, ramp: Tensor) -> tuple[PartAction, Tensor, Tensor]:
    """The best action of each case, its gap and its residual, (B,) each."""
    # No best action leaves the free ones; numbers far beyond them, such as a bound in place of none, would cost digits.
    ends = torch.cat([free, costs.mean], -1)
    spread = ends.amax(-1, keepdim=True) - ends.amin(-1, keepdim=True) + ramp
    costs = replace(costs, lower=torch.maximum(costs.lower, free.amin(-1, keepdim=True) - ramp))
    limits = _limits(free, ramp)
    best = _schedule(_parts(costs, limits, spread), limits, ROUNDING * costs.prices.sum(-1, keepdim=True), ramp)
    return best, *_schedule_proof(costs, ramp, best.action, spread)


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


def _schedule_proof(costs: PartCosts, ramp: Tensor, action: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
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


_PROVEN = 1e-9  # the largest residual of an exact action whose proof holds


class SeparableCost(ProgramCost):
    """A program whose parts are separable but for limits that join them: it is solved exactly, without a solver."""

    separable: ClassVar[bool] = True
    has_parameters_of_cases: ClassVar[bool] = True
    action_is_outcome: ClassVar[bool] = True

    def exact_action(self, samples: Tensor, weights: Tensor | None = None) -> ExactAction:
        """The best action with all limits."""
        raise NotImplementedError

    def allowed(self, action: Tensor, cases: torch.Size) -> Tensor:
        """Whether actions (B, A) of these cases meet the limits that join their parts, (B,)."""
        raise NotImplementedError

    def free_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        """The best action part by part, (..., A), without these limits."""
        costs = PartCosts.of(self, samples, weights)
        return costs.with_gradient(costs.best(), *_in_one_axis(samples, weights)).reshape(_of_cases(samples))

    def best_action(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> Tensor:
        solver = required_interior_point(solver)
        if solver is not None and solver.smoothing is None:
            return self._free_or_solved(samples, weights, solver, gradient=True)[0]
        exact, solved = self._proven(samples, weights)
        if solver is None:
            return torch.where(solved[..., None], exact.action, exact.action.detach())
        smooth = super().best_action(samples, weights, solver)
        return exact.action.detach() + (smooth - smooth.detach())

    def solve(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> ActionSolution:
        solver, program = required_interior_point(solver), self.program(samples.shape[-1], samples.device)
        reasons: Sequence[Tensor]
        if solver is not None and solver.smoothing is None:
            action, gap, residual, solved, *reasons = self._free_or_solved(samples, weights, solver)
        else:
            (action, gap, residual), solved = self._proven(samples, weights)
            reasons = _why_unproven(program, samples, weights, solved)
        value = mean_cost(self, action, samples.double(), weights)
        interior = program.is_interior(action, samples, weights)
        curvature = program.least_curvature.expand(value.shape)
        return ActionSolution(action, value, interior, residual, solved, curvature, solved, gap, *reasons)

    def _proven(self, samples: Tensor, weights: Tensor | None) -> tuple[ExactAction, Tensor]:
        """The exact action, and whether its proof holds, (...)."""
        exact = self.exact_action(samples, weights)
        return exact, _known(samples) & (exact.residual <= _PROVEN) & torch.isfinite(exact.gap)

    def _free_or_solved(
        self, samples: Tensor, weights: Tensor | None, solver: InteriorPoint, *, gradient: bool = False
    ) -> list[Tensor]:
        """In closed form where that meets all limits, else by the program: action, gap, residual, solved, reasons."""
        near, members, middle = self.centred(samples, weights)
        costs, nearby = PartCosts.of(near, members, weights), near.program(samples.shape[-1], samples.device)
        free, known = costs.best(), _known(samples).flatten()
        nothing, no = torch.zeros_like(free.action[:, 0]), torch.zeros_like(known)
        alone = costs.with_gradient(free, *_in_one_axis(members, weights)), nothing, nothing, known, no, no

        def solve(places: Tensor | None) -> tuple[Tensor, ...]:
            action, found = nearby.solve(members, weights, solver, gradient=gradient, places=places)
            proof = found.gap, found.residual, found.solved, found.infeasible, found.unbounded
            return action.reshape(-1, action.shape[-1]), *proof

        action, *proof = redone(near.allowed(free.action, samples.shape[:-2]), alone, solve)
        return [action.reshape(_of_cases(samples)) + middle, *(each.reshape(samples.shape[:-2]) for each in proof)]


def _why_unproven(
    program: ScenarioProgram, samples: Tensor, weights: Tensor | None, solved: Tensor
) -> tuple[Tensor, Tensor]:
    """Where an exact action has no proof, whether the limits contradict each other or the cost is unbounded."""
    left = (_known(samples) & ~solved).flatten()
    infeasible, unbounded = torch.zeros_like(left), torch.zeros_like(left)
    if known_on_host(left.any()):
        places = left.nonzero()[:, 0]
        again = program.solve(samples, weights, places=places).solution
        infeasible = infeasible.index_copy(0, places, again.infeasible)
        unbounded = unbounded.index_copy(0, places, again.unbounded)
    return infeasible.reshape(solved.shape), unbounded.reshape(solved.shape)


def _known(samples: Tensor) -> Tensor:
    """Whether all members are finite, (...)."""
    return torch.isfinite(samples.detach()).all(-1).all(-1)


def _of_cases(samples: Tensor) -> tuple[int, ...]:
    """The shape of actions with a part for each outcome, (..., A)."""
    return (*samples.shape[:-2], samples.shape[-1])


@dataclass(frozen=True)
class ScheduleCost(SeparableCost):
    """Commit a_t for every t of T before y_t is known, and pay for what is short or long at each t:

    c(a, y) = sum_t short relu(y_t - a_t) + long relu(a_t - y_t) + 1/2 quadratic (a_t - y_t)^2
    with |a_t - a_{t-1}| <= ramp.

    Parameters are numbers, lists, or tensors or arrays whose last axis is T or 1 after the cases (...).

    Attributes:
        short: The cost per missing unit, not negative.
        long: The cost per excess unit, not negative; short and long must not both be 0.
        quadratic: Twice the cost per squared difference, not negative.
        ramp: The largest change from one t to the next, positive, a number or (..., 1); None for no limit.
        lower: The lower bound of every a_t.
        upper: The upper bound of every a_t; None for no bound.

    >>> import torch, stakes
    >>> members = torch.tensor([[[1.0, 1.0, 4.0], [2.0, 1.0, 5.0], [3.0, 1.0, 6.0]]])  # one case, three members, T = 3
    >>> stakes.optimal_action(stakes.ScheduleCost(short=3.0, long=1.0), members)
    tensor([[3., 1., 6.]])
    >>> stakes.optimal_action(stakes.ScheduleCost(short=4.0, long=1.0, ramp=1.0), members).round(decimals=3)
    tensor([[3., 4., 5.]])
    """

    short: Parameter
    long: Parameter
    quadratic: Parameter = 0.0
    ramp: Parameter | None = None
    lower: Parameter = 0.0
    upper: Parameter | None = None

    def __post_init__(self) -> None:
        take_lists(self)
        _require_prices(self.short, self.long)
        require_not_negative("quadratic", self.quadratic)
        if self.ramp is not None:
            require_positive("ramp", self.ramp, CostError)
        _require_bounds(self.lower, self.upper)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        return _imbalance(self.short, self.long, action, outcome, self.quadratic)

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        return ((0.5 * self.quadratic * outcome - self.long) * outcome).sum(-1)

    def centred(self, samples: Tensor, weights: Tensor | None = None) -> tuple[Self, Tensor, Tensor | float]:
        """The same decision about members around zero, these members, and how far they were moved, (..., 1).

        A solver that squares numbers far from zero would lose the digits in which they differ.
        """
        each, double = None if weights is None else weights.detach()[..., None], samples.double()
        middle = mean_of_members(double.detach(), each, -2).mean(-1, keepdim=True)
        middle = torch.where(torch.isfinite(middle), middle, 0.0)
        upper = None if self.upper is None else _double(self.upper) - middle
        return replace(self, lower=_double(self.lower) - middle, upper=upper), double - middle[..., None, :], middle

    def exact_action(self, samples: Tensor, weights: Tensor | None = None) -> ExactAction:
        if self.ramp is None:
            action = self.free_action(samples, weights)
            return ExactAction(action, *2 * [torch.zeros_like(action[..., 0]).detach()])
        costs, cases = PartCosts.of(self, samples, weights), samples.shape[:-2]
        free, ramps = costs.best(), _of_case(self, "ramp", cases, samples.device)

        def ramped(places: Tensor | None) -> tuple[Tensor, ...]:
            rows = slice(None) if places is None else places
            best, *proof = ramped_action(costs.rows(rows), free.action[rows], ramps[rows])
            return *best, *proof

        nothing = torch.zeros_like(free.action[:, 0])
        *best, gap, residual = redone(self.allowed(free.action, cases), (*free, nothing, nothing), ramped)
        action = costs.with_gradient(PartAction(*best), *_in_one_axis(samples, weights))
        return ExactAction(action.reshape(_of_cases(samples)), gap.reshape(cases), residual.reshape(cases))

    def allowed(self, action: Tensor, cases: torch.Size) -> Tensor:
        if self.ramp is None:
            return torch.ones_like(action[:, 0], dtype=torch.bool)
        return (action.diff(dim=-1).abs() <= _of_case(self, "ramp", cases, action.device)).all(-1)

    @property
    def depends_on_order(self) -> bool:
        return self.ramp is not None

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        steps = [] if self.ramp is None else [f"{first} to {second}" for first, second in pairwise(outcomes)]
        return tuple(("ramp", f"{step}, {way}") for way in ("up", "down") for step in steps)

    def program(self, parts: int, device: torch.device | None = None) -> ScenarioProgram:
        eye = torch.eye(parts, dtype=torch.float64, device=device)
        curved = parameter_parts(self, "quadratic", len(eye), eye.device)
        limits = {}
        if self.ramp is not None:
            steps = eye[1:] - eye[:-1]
            ramp = parameter_parts(self, "ramp", 1, device)
            limits = {"G": torch.cat([steps, -steps]), "g": ramp.expand(*ramp.shape[:-1], 2 * (parts - 1))}
        if self.upper is not None:
            limits["upper"] = parameter_parts(self, "upper", parts, device)
        return _simple_program(self, eye, P=torch.diag_embed(curved), p_y=-torch.diag_embed(curved), **limits)


@dataclass(frozen=True)
class AllocationCost(SeparableCost):
    """Allocate a budget to D places before their outcomes y_d are known:

    c(a, y) = sum_d short relu(y_d - a_d) + long relu(a_d - y_d),   sum_d a_d <= budget,   a_d >= 0.

    Parameters are numbers, lists, or tensors or arrays whose last axis is D or 1 after the cases (...).

    Attributes:
        short: The cost per missing unit, not negative.
        long: The cost per excess unit, not negative; short and long must not both be 0.
        budget: The amount to divide, positive, a number or (..., 1).

    >>> import torch, stakes
    >>> members = torch.tensor([[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]])  # one case, three members, D = 2
    >>> stakes.optimal_action(stakes.AllocationCost(short=3.0, long=1.0, budget=20.0), members)
    tensor([[3., 6.]])
    """

    short: Parameter
    long: Parameter
    budget: Parameter
    lower: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        take_lists(self)
        _require_prices(self.short, self.long)
        require_positive("budget", self.budget, CostError)

    @property
    def upper(self) -> Parameter:
        """The largest share, all there is."""
        return self.budget

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        return _imbalance(self.short, self.long, action, outcome)

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        return -(self.long * outcome).sum(-1)

    @property
    def depends_on_order(self) -> bool:
        return False

    def exact_action(self, samples: Tensor, weights: Tensor | None = None) -> ExactAction:
        costs, cases = PartCosts.of(self, samples, weights), samples.shape[:-2]
        free, (members, shares) = costs.best(), _in_one_axis(samples, weights)
        budgets = _of_case(self, "budget", cases, samples.device)

        def budgeted(places: Tensor | None) -> ExactAction:
            rows = slice(None) if places is None else places
            return budgeted_action(costs.rows(rows), members[rows], budgets[rows])

        alone, nothing = costs.with_gradient(free, members, shares), torch.zeros_like(free.action[:, 0])
        action, gap, residual = redone(self.allowed(free.action, cases), (alone, nothing, nothing), budgeted)
        return ExactAction(action.reshape(_of_cases(samples)), gap.reshape(cases), residual.reshape(cases))

    def allowed(self, action: Tensor, cases: torch.Size) -> Tensor:
        return (action.sum(-1, keepdim=True) <= _of_case(self, "budget", cases, action.device))[:, 0]

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return (("budget", "all"),)

    def program(self, parts: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program; that no share exceeds the budget follows from their sum."""
        eye = torch.eye(parts, dtype=torch.float64, device=device)
        return _simple_program(self, eye, G=torch.ones_like(eye[:1]), g=parameter_parts(self, "budget", 1, device))


def _of_case(cost: SeparableCost, name: str, cases: torch.Size, device: torch.device) -> Tensor:
    """A parameter that is one number per case, (B, 1)."""
    return parameter_parts(cost, name, 1, device).expand(*cases, 1).reshape(-1, 1)


def _imbalance(
    short: Parameter, long: Parameter, action: Tensor, outcome: Tensor, quadratic: Parameter = 0.0
) -> Tensor:
    off = action - outcome
    cost = short * torch.relu(-off) + long * torch.relu(off)
    return (cost + 0.5 * quadratic * off**2).sum(-1).to(off.dtype)  # whatever the precision of the prices


def _simple_program(cost: ScheduleCost | AllocationCost, eye: Tensor, **others: Tensor) -> ScenarioProgram:
    """The cost long (a - y) + (short + long) z, z >= y - a, of every part, without what no action changes."""
    short, long, lower = (parameter_parts(cost, name, len(eye), eye.device) for name in ("short", "long", "lower"))
    return ScenarioProgram(
        T=eye,
        W=torch.ones_like(eye[0]),
        h_y=eye,
        q=short + long,
        p=long,
        lower=lower,
        **others,
    )


def _in_one_axis(samples: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Members (B, M, A) and weights (B, M) of cases in one axis."""
    count = samples.shape[-2]
    shares = None if weights is None else weights.expand(samples.shape[:-1]).reshape(-1, count)
    return samples.reshape(-1, *samples.shape[-2:]), shares


def _double(value: Parameter) -> Parameter:
    return value.double() if isinstance(value, Tensor) else value


def _require_prices(short: Parameter, long: Parameter) -> None:
    require_not_negative("short", short)
    require_not_negative("long", long)
    if known_false(torch.as_tensor(short) + torch.as_tensor(long) > 0):
        raise CostError("short and long must not both be 0, as nothing would be at stake")


def require_not_negative(name: str, value: Parameter) -> None:
    """Raise if a parameter of a cost is negative anywhere, or no finite number."""
    require_finite(name, value, CostError)
    if known_false(torch.as_tensor(value) >= 0):
        raise CostError(f"{name} must not be negative, got {float(torch.as_tensor(value).min()):g}")


def _require_bounds(lower: Parameter, upper: Parameter | None) -> None:
    require_finite("lower", lower, CostError)
    if upper is None:
        return
    least, most = torch.broadcast_tensors(torch.as_tensor(lower), torch.as_tensor(upper))
    if known_false(ordered := least <= most):
        got = f"got {shown_numbers(lower)} and {shown_numbers(upper)}"
        if ordered.dim():
            place = tuple((~ordered).nonzero()[0].tolist())
            got = f"got {float(least[place]):g} and {float(most[place]):g} in part {place[-1] + 1}"
        raise CostError(f"lower must not exceed upper, {got}")
