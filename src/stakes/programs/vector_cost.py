"""Vector decisions in which each part has a price for what is short and what is long: the cost of every part alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from stakes.argument_checks import cheaply_known
from stakes.costs.member_weights import relative_weights, sort_members
from stakes.errors import CostError, ShapeError

BETWEEN, AT_BOUND = -1, -2  # what holds a part that no member holds
ROUNDING = 1e-12  # the rounding of an action or a slope, as a share of the case's largest


class PartAction(NamedTuple):
    """An action of every part, and what it moves with.

    Attributes:
        action: (B, A), without gradient.
        held_by: The member that it stays at: its place among all the A * M members of a case in order; `BETWEEN`
            where it lies between members and moves with their mean, `AT_BOUND` where it does not move, (B, A).
        leader: The part whose `held_by` says so for this one; parts with one leader move together, (B, A).
    """

    action: Tensor
    held_by: Tensor
    leader: Tensor


class SlopeRange(NamedTuple):
    """The slopes of a part's cost near an action, each (B, A).

    Attributes:
        least: That just below it.
        most: That just above it.
    """

    least: Tensor
    most: Tensor


@dataclass(frozen=True, eq=False)
class PartCosts:
    """B cases with A parts each, in double precision and without gradient.

    Attributes:
        members: In ascending order, (B, A, M).
        below: What the members before each place weigh, of 1 in all, (B, A, M + 1), or 1 in place of B and A.
        mean: Of the members, (B, A).
        short: What a missing unit costs, (B, A).
        long: What a unit too many costs, (B, A).
        quadratic: What the square of the difference costs, twice, (B, A).
        lower: What a part does not fall below, (B, A).
        upper: What a part does not exceed, (B, A), infinite where there is no such bound.
        weights: What each member weighs, (B, M), in the order in which they came; None where all count alike.
    """

    members: Tensor
    below: Tensor
    mean: Tensor
    short: Tensor
    long: Tensor
    quadratic: Tensor
    lower: Tensor
    upper: Tensor
    weights: Tensor | None = None

    @classmethod
    def of(cls, cost: object, samples: Tensor, weights: Tensor | None) -> "PartCosts":
        """The costs of the parts of each case, cases in one axis.

        Args:
            cost: A cost with the parameters short, long, lower, upper and, where it has squares, quadratic.
            samples: Members (..., M, A).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        *cases, count, parts = samples.shape
        flat = samples.detach().double().reshape(-1, count, parts)
        values, shares = flat.mT.contiguous(), relative_weights(weights, samples)
        if shares is None:
            members, mean = sort_members(values), flat.mean(1)
            below = (torch.arange(count + 1.0, dtype=torch.float64, device=flat.device) / count)[None, None]
        else:
            each = shares.detach().double().reshape(-1, count)
            members, order = torch.sort(values, -1)
            below = each[:, None].expand_as(values).gather(-1, order).cumsum(-1) / count
            below = torch.nn.functional.pad(below, (1, 0))
            mean = (each[..., None] * flat).mean(1)
        nothing = torch.zeros_like(mean)
        named = {
            "short": nothing,
            "long": nothing,
            "quadratic": nothing,
            "lower": nothing,
            "upper": nothing + torch.inf,
        }
        for name in named:
            if getattr(cost, name, None) is not None:
                own = parameter_parts(cost, name, parts, flat.device).expand(*cases, parts)
                named[name] = own.reshape(-1, parts)
        return cls(members, below, mean, **named, weights=None if shares is None else each)

    def rows(self, places: Tensor | slice) -> "PartCosts":
        """Some of the cases.

        Args:
            places: Which, (n,) or a slice.
        """
        names = ("members", "mean", "short", "long", "quadratic", "lower", "upper")
        below = self.below if len(self.below) == 1 else self.below[places]
        weights = None if self.weights is None else self.weights[places]
        return replace(self, below=below, weights=weights, **{name: getattr(self, name)[places] for name in names})

    @property
    def prices(self) -> Tensor:
        """By how much the slope of a part rises over all members, (B, A)."""
        return self.short + self.long

    def best(self) -> PartAction:
        """The best action of every part alone, within its bounds: the lowest at which its slope is not negative."""
        steepness, start = self.quadratic[..., None], (self.long - self.prices - self.quadratic * self.mean)[..., None]
        after = torch.addcmul(start + self.prices[..., None] * self.below[..., 1:], steepness, self.members)
        tolerance = ROUNDING * self.prices[..., None]
        last = self.members.shape[-1] - 1
        place = (after < -tolerance).sum(-1, keepdim=True).clamp(max=last)  # of the member where the slope turns
        below = self.below.expand(*place.shape[:2], -1).gather(-1, place)
        member = self.members.gather(-1, place)
        before = start + self.prices[..., None] * below + steepness * member
        between = before > tolerance  # the slope is zero between this member and the one before
        action = torch.where(between, member - before / torch.where(between, steepness, 1.0), member)
        action = torch.where((before >= -tolerance) & (steepness <= 0), -torch.inf, action)[..., 0]  # flat to the left
        own = torch.arange(action.shape[-1], device=action.device).expand_as(action)
        held_by = torch.where(between[..., 0], BETWEEN, own * (last + 1) + place[..., 0])
        within = torch.minimum(torch.maximum(action, self.lower), self.upper)
        held_by = torch.where((action <= self.lower) | (action >= self.upper), AT_BOUND, held_by)
        return PartAction(within, held_by, own)

    def slopes(self, action: Tensor, reach: Tensor) -> SlopeRange:
        """The slopes of each part's cost within some distance of an action, bounds apart.

        Args:
            action: (B, A).
            reach: How far from it, (B, 1).
        """
        least, most = (self._slope(action - reach, strictly=True), self._slope(action + reach, strictly=False))
        return SlopeRange(least, most)

    def _slope(self, action: Tensor, strictly: bool) -> Tensor:
        at = action[..., None]
        passed = (self.members < at if strictly else self.members <= at).sum(-1)
        below = self.below.expand(*action.shape, -1).gather(-1, passed[..., None])[..., 0]
        return self.long - self.prices * (1 - below) + self.quadratic * (action - self.mean)

    def with_gradient(self, best: PartAction, samples: Tensor, weights: Tensor | None) -> Tensor:
        """The actions (B, A) with their gradient by the members: each moves with what holds its leader.

        Args:
            best: The actions.
            samples: The members (B, M, A) that the costs were made from.
            weights: What each member weighs, (B, M); None where all count alike.
        """
        leader, held_by = best.leader, best.held_by.gather(-1, best.leader)
        mean = samples.mean(1) if weights is None else (weights[..., None] * samples).sum(1) / weights.sum(-1)[:, None]
        curved = self.quadratic.detach()
        total = torch.zeros_like(curved).scatter_add(-1, leader, curved).gather(-1, leader)
        share = curved / torch.where(total > 0, total, 1.0)
        together = torch.zeros_like(total).scatter_add(-1, leader, share * mean).gather(-1, leader)
        moving = torch.where(held_by == BETWEEN, together, 0.0)
        moving = torch.where(held_by >= 0, self.members_at(held_by.clamp(min=0), samples), moving)
        return best.action + (moving - moving.detach())

    def members_at(self, place: Tensor, samples: Tensor) -> Tensor:
        """The members at some places among all the A * M members of a case in order, with their gradient, (B, A).

        Args:
            place: The places, (B, A).
            samples: The members (B, M, A) that the costs were made from.
        """
        count, parts = samples.shape[1:]
        part, value = place // count, self.members.flatten(1).gather(-1, place)
        column = samples.detach().double().gather(-1, part[:, None].expand(-1, count, -1))  # (B, M, A)
        tied = (column == value[:, None]).byte()
        member = (tied if self.weights is None else tied * self.weights[..., None]).argmax(1)
        return samples.flatten(1).gather(-1, member * parts + part).double()


def take_lists(cost: object) -> None:
    """Hold the numbers of a cost that came as lists or arrays as tensors, in double precision, as many of each.

    Args:
        cost: A dataclass of parameters that is being made.
    """
    for name, value in vars(cost).items():
        if isinstance(value, np.number):
            object.__setattr__(cost, name, value.item())
        elif isinstance(value, list | tuple | np.ndarray):
            try:
                object.__setattr__(cost, name, torch.as_tensor(value, dtype=torch.float64))
            except (TypeError, ValueError):
                raise CostError(f"{name} must be numbers, one for each outcome, got {value!r}") from None
    sizes = {name: value.shape[-1:].numel() for name, value in vars(cost).items() if isinstance(value, Tensor)}
    several = {name: size for name, size in sizes.items() if size != 1}
    if len(set(several.values())) > 1:
        counts = ", ".join(f"{name} has {size}" for name, size in several.items())
        raise CostError(f"numbers for each outcome must be equally many, got: {counts}")


def parameter_parts(cost: object, name: str, parts: int, device: torch.device | None) -> Tensor:
    """A parameter of a cost as one number a part, (..., A), in double precision.

    Args:
        cost: The cost.
        name: The parameter, a number, or a tensor whose last axis is A or 1.
        parts: A.
        device: Where the numbers are to be; None for the CPU.
    """
    value = getattr(cost, name)
    if not isinstance(value, Tensor):  # made where it is needed: a captured step may copy nothing there
        return torch.full((parts,), value, dtype=torch.float64, device=device)
    value = value.to(device, torch.float64)
    value = value if value.dim() else value[None]
    if value.shape[-1] not in (1, parts):
        if parts == 1:
            raise ShapeError(f"{name} must be one number, or one for each case (..., 1), got {tuple(value.shape)}")
        raise ShapeError(f"{name} must be one number, or one for each of {parts} outcomes, got {value.shape[-1]}")
    return value.expand(*value.shape[:-1], parts)


def redone(
    allowed: Tensor, alone: tuple[Tensor, ...], solve: Callable[[Tensor | None], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """What was found without limits, with all cases solved that break them.

    Args:
        allowed: Which cases break none, (B,), bool.
        alone: What was found, (B, ...) each.
        solve: The same with the limits, of some places (n,), or of all cases for None.
    """
    if cheaply_known(allowed.all()):
        return alone
    if cheaply_known(allowed.any()) is None:  # on an accelerator all are solved: nothing waits for the device
        pairs = zip(alone, solve(None), strict=True)
        return tuple(torch.where(allowed.reshape(-1, *[1] * (one.dim() - 1)), one, other) for one, other in pairs)
    places = (~allowed).nonzero()[:, 0]
    return tuple(one.index_copy(0, places, other) for one, other in zip(alone, solve(places), strict=True))
