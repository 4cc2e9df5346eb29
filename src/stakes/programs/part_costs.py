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
    """An action of every part, and what it moves with."""

    action: Tensor  # (B, A), without gradient
    held_by: Tensor
    leader: Tensor  # the part whose `held_by` says so for this one; parts with one leader move together, (B, A)


class SlopeRange(NamedTuple):
    """The slopes of a part's cost near an action, each (B, A)."""

    least: Tensor  # that just below it
    most: Tensor  # that just above it


@dataclass(frozen=True, eq=False)
class PartCosts:
    """B cases with A parts each, in double precision and without gradient."""

    members: Tensor  # in ascending order, (B, A, M)
    below: Tensor  # what the members before each place weigh, of 1 in all, (B, A, M + 1), or 1 in place of B and A
    mean: Tensor  # of the members, (B, A)
    short: Tensor  # what a missing unit costs, (B, A)
    long: Tensor  # what a unit too many costs, (B, A)
    quadratic: Tensor  # what the square of the difference costs, twice, (B, A)
    lower: Tensor  # what a part does not fall below, (B, A)
    upper: Tensor  # what a part does not exceed, (B, A), infinite where there is no such bound
    weights: Tensor | None = None

    @classmethod
    def of(cls, cost: object, samples: Tensor, weights: Tensor | None) -> "PartCosts":
        """The costs of the parts of each case, cases in one axis."""
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
        """Some of the cases."""
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
        """The slopes of each part's cost within some distance of an action, bounds apart."""
        least, most = (self._slope(action - reach, strictly=True), self._slope(action + reach, strictly=False))
        return SlopeRange(least, most)

    def _slope(self, action: Tensor, strictly: bool) -> Tensor:
        at = action[..., None]
        passed = (self.members < at if strictly else self.members <= at).sum(-1)
        below = self.below.expand(*action.shape, -1).gather(-1, passed[..., None])[..., 0]
        return self.long - self.prices * (1 - below) + self.quadratic * (action - self.mean)

    def with_gradient(self, best: PartAction, samples: Tensor, weights: Tensor | None) -> Tensor:
        """The actions (B, A) with their gradient by the members: each moves with what holds its leader."""
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
        """The members at some places among all the A * M members of a case in order, with their gradient, (B, A)."""
        count, parts = samples.shape[1:]
        part, value = place // count, self.members.flatten(1).gather(-1, place)
        column = samples.detach().double().gather(-1, part[:, None].expand(-1, count, -1))  # (B, M, A)
        tied = (column == value[:, None]).byte()
        member = (tied if self.weights is None else tied * self.weights[..., None]).argmax(1)
        return samples.flatten(1).gather(-1, member * parts + part).double()


def take_lists(cost: object) -> None:
    """Hold the numbers of a cost that came as lists or arrays as tensors, in double precision, as many of each."""
    for name, value in vars(cost).items():
        if isinstance(value, np.number):
            object.__setattr__(cost, name, value.item())
        elif isinstance(value, list | tuple | np.ndarray):
            try:
                object.__setattr__(cost, name, torch.as_tensor(value, dtype=torch.float64))
            except (TypeError, ValueError):
                raise CostError(f"{name} must be a list of numbers, one per outcome, got {value!r}") from None
    sizes = {name: value.shape[-1:].numel() for name, value in vars(cost).items() if isinstance(value, Tensor)}
    several = {name: size for name, size in sizes.items() if size != 1}
    if len(set(several.values())) > 1:
        counts = ", ".join(f"{name} has {size}" for name, size in several.items())
        raise CostError(f"lists of numbers must all have one per outcome, got: {counts}")


def parameter_parts(cost: object, name: str, parts: int, device: torch.device | None) -> Tensor:
    """A parameter of a cost as one number a part, (..., A), in double precision."""
    value = getattr(cost, name)
    if not isinstance(value, Tensor):  # made where it is needed: a captured step may copy nothing there
        return torch.full((parts,), value, dtype=torch.float64, device=device)
    value = value.to(device, torch.float64)
    value = value if value.dim() else value[None]
    if value.shape[-1] not in (1, parts):
        if parts == 1:
            raise ShapeError(f"{name} must be one number, or one per case (..., 1), got {tuple(value.shape)}")
        raise ShapeError(f"{name} must be one number, or one per outcome ({parts}), got {value.shape[-1]}")
    return value.expand(*value.shape[:-1], parts)


def joined(*vectors: Tensor) -> Tensor:
    """Vectors (..., n) concatenated, each repeated for all cases that another has."""
    cases = torch.broadcast_shapes(*(vector.shape[:-1] for vector in vectors))
    return torch.cat([vector.expand(*cases, vector.shape[-1]) for vector in vectors], -1)


def redone(
    allowed: Tensor, alone: tuple[Tensor, ...], solve: Callable[[Tensor | None], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """What was found without limits, with all cases solved that break them."""
    if cheaply_known(allowed.all()):
        return alone
    if cheaply_known(allowed.any()) is None:  # on an accelerator all are solved: nothing waits for the device
        pairs = zip(alone, solve(None), strict=True)
        return tuple(torch.where(allowed.reshape(-1, *[1] * (one.dim() - 1)), one, other) for one, other in pairs)
    places = (~allowed).nonzero()[:, 0]
    return tuple(one.index_copy(0, places, other) for one, other in zip(alone, solve(places), strict=True))
