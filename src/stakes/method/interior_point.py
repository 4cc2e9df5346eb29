"""Scenario programs in batches: a primal-dual interior-point method that eliminates every member's recourse.

    minimise over a, z_m   1/2 a'Pa + p'a + sum_m w_m (1/2 z_m'Q z_m + q_m'z_m)
    subject to             C a <= d,   E a = e,   W z_m + T a >= h_m,   z_m >= 0

The linear system of a step (`stakes.method.interior_step`) has the size of the action, whatever the number of members.
All numbers are double, and each case is in units of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from stakes.method.argument_checks import known_on_host, require_count, require_positive
from stakes.method.interior_step import (
    Iterate,
    Products,
    Residuals,
    StepSystem,
    either,
    gap_of,
    limited,
    residuals_of,
    stepped,
)
from stakes.method.scenario_data import ScenarioData, Units, beside, largest, scaled, times

__all__ = ["InteriorPoint", "ProgramSolution", "system_at"]

_START = 0.1  # the least slack and price to begin with, in the units of a case
_RAY = 1e-7  # how well a ray must prove that there is no solution
_FAR = 10.0  # limits beyond that, in the units of a case, do not draw the start
_SMALL_COST = 1e-5  # an objective that small, in the units of a case, need not be known to as many digits
_LOOKS = 5  # steps from one look for a proof that there is no solution to the next
_KEPT = 1e-9  # the least slack and price, in the units of a case, that a gradient is taken at
_SETTLED = 1e-7  # the largest error of a case that counts as solved though the tolerance was not reached


class ProgramSolution(NamedTuple):
    """The solutions of B programs, in their own units.

    Attributes:
        iterate: The action and all prices.
        objective: What the action and the recourse cost, (B,).
        gap: By how much a better action could lower that at most, but for the residuals, (B,).
        residual: The largest violation of a limit, or of the conditions of a minimum, in units of the case, (B,).
        solved: Whether residual and gap are small, (B,), bool.
        infeasible: Whether it is proven that no action meets all limits, (B,), bool.
        unbounded: Whether it is proven that the cost has no lower bound, (B,), bool.
        iterations: How many steps were taken.
    """

    iterate: Iterate
    objective: Tensor
    gap: Tensor
    residual: Tensor
    solved: Tensor
    infeasible: Tensor
    unbounded: Tensor
    iterations: int


@dataclass(frozen=True)
class InteriorPoint:
    """How scenario programs are solved.

    Attributes:
        iterations: How many steps are taken at most. On an accelerator the number is fixed, so that a training step can
            be captured; on a CPU cases that are solved are left alone.
        tolerance: The largest residual, and gap over 1 plus the objective, at which a case is left alone, in units of
            the case.
    """

    iterations: int = 40
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        require_count("iterations", self.iterations, 1)
        require_positive("tolerance", self.tolerance)

    def solve(self, data: ScenarioData) -> ProgramSolution:
        """Solve all programs of a batch; none depends on another.

        Args:
            data: The programs.
        """
        even, units = scaled(data)
        return _solution(even, units, *self._run(even, _start(even), 0))

    def _run(self, data: ScenarioData, x: Iterate, first: int) -> tuple[Iterate, "_Verdict", int]:
        """The best iterate of each case from the step `first` on, what is known of it, and the steps taken in all."""
        best, verdict, count = x, _Verdict.open(data), first
        for count in range(first, self.iterations + 1):
            residuals = residuals_of(data, x)
            error = _error(data, x, residuals)
            best, verdict = either(error < verdict.error, x, best), verdict.seen(error)
            if count == self.iterations or count % _LOOKS == _LOOKS - 1:
                verdict = verdict.proven(data, x)
            waiting = (verdict.error > self.tolerance) & ~verdict.infeasible & ~verdict.unbounded
            if count == self.iterations or known_on_host(~waiting.any()):
                break
            if known_on_host(2 * waiting.sum() <= len(waiting)):  # the others are left behind
                places = waiting.nonzero()[:, 0]
                rest, known, count = self._run(data.rows(places), Iterate(*(part[places] for part in x)), count)
                best, verdict = Iterate(*_put(best, places, rest)), _Verdict(*_put(verdict, places, known))
                break
            x = either(waiting, stepped(data, x, residuals), x)
        return best, verdict, count


class _Verdict(NamedTuple):
    """The least error of each case so far, and whether it is proven to have no solution, (B,) each."""

    error: Tensor
    infeasible: Tensor
    unbounded: Tensor

    @classmethod
    def open(cls, data: ScenarioData) -> Self:
        error = torch.full_like(data.p[:, 0], torch.inf)
        return cls(error, error < 0, error < 0)

    def seen(self, error: Tensor) -> Self:
        return self._replace(error=torch.fmin(error, self.error))

    def proven(self, data: ScenarioData, x: Iterate) -> Self:
        solved = self.error <= _SETTLED
        infeasible, unbounded = _infeasible(data, x) & ~solved, _unbounded(data, x) & ~solved
        return self._replace(infeasible=self.infeasible | infeasible, unbounded=self.unbounded | unbounded)


def _put(whole: Iterable[Tensor], places: Tensor, parts: Iterable[Tensor]) -> Iterator[Tensor]:
    """The whole with some cases replaced."""
    return (one.index_copy(0, places, part) for one, part in zip(whole, parts, strict=True))


def _start(data: ScenarioData) -> Iterate:
    """The minimum of the problem with squares in place of limits, with slacks and prices made positive."""
    cases, members, _ = data.h.shape
    blank = data.h.new_ones(cases, members, 1)
    z, v = (blank.expand(-1, -1, size).contiguous() for size in (data.recourse.parts, data.recourse.rows))
    s = torch.ones_like(data.d)
    a, nu = data.p.new_zeros(cases, data.p.shape[1]), data.p.new_zeros(cases, len(data.E))
    share = float(members)  # a price of a member is over its weight
    at = Iterate(a, s, limited(data, s), nu, z, v, share * v, share * z)
    nothing = Iterate(*map(torch.zeros_like, at))
    near = replace(data, d=data.d.clamp(-_FAR, _FAR).where(torch.isfinite(data.d), torch.inf))
    step = StepSystem(near, at).step(residuals_of(near, nothing), Products(nothing.s, nothing.v, nothing.z))
    z, v = _raised((step.z, step.v))
    mu, zeta = (share * price for price in _raised((step.mu / share, step.zeta / share)))
    s = (data.d - step.a @ data.C.mT).clamp(min=_START)
    mean = ((v * mu).sum((1, 2)) + (z * zeta).sum((1, 2))) / (members * (v.shape[2] + z.shape[2]))
    price = limited(data, mean[:, None] / members / s)
    return Iterate(step.a, torch.where(torch.isfinite(s), s, 1.0), price, step.nu, z, v, mu, zeta)


def _raised(values: tuple[Tensor, ...]) -> list[Tensor]:
    """All values of a case shifted alike, so that none lies below the least to begin with."""
    least = torch.stack([value.flatten(1).amin(1) for value in values]).amin(0)
    shift = torch.where(least < _START, _START - least, 0.0)
    return [value + beside(shift, value) for value in values]


def _objective(data: ScenarioData, x: Iterate) -> Tensor:
    members = ((0.5 * data.curvature * data.recourse.curved(x.z) + data.q) * x.z).sum(-1)
    return ((0.5 * times(data.P, x.a) + data.p) * x.a).sum(-1) + (data.weights * members).sum(-1)


def _error(data: ScenarioData, x: Iterate, residuals: Residuals) -> Tensor:
    return torch.maximum(largest(*residuals) / 10, gap_of(data, x) / (_objective(data, x).abs() + _SMALL_COST))


def _solution(data: ScenarioData, units: Units, x: Iterate, verdict: _Verdict, count: int) -> ProgramSolution:
    """In the units of the programs."""
    residual, solved = largest(*residuals_of(data, x)), verdict.error <= _SETTLED
    unit = units.action * units.cost
    objective, gap = _objective(data, x) * unit, gap_of(data, x) * unit
    iterate = Iterate(*(value * beside(size, value) for value, size in zip(x, _sizes(units), strict=True)))
    return ProgramSolution(iterate, objective, gap, residual, solved, verdict.infeasible, verdict.unbounded, count)


def _sizes(units: Units) -> Iterate:
    """The unit of each part of an iterate, (B,)."""
    action, cost = units
    return Iterate(a=action, s=action, price=cost, nu=cost, z=action, v=action, mu=cost, zeta=cost)


def system_at(data: ScenarioData, solution: ProgramSolution) -> "StepSystem":
    """The linear system at the solution, from which the action's gradient follows.

    Slacks and prices are kept from zero: what is nearer to it than the digits of a sum tells nothing. A case that was
    not solved has the system of another point, so that it cannot spoil the others by a NaN.

    Args:
        data: The programs.
        solution: Their solutions.
    """
    parts = {}
    for name, value, size in zip(Iterate._fields, solution.iterate, _sizes(scaled(data)[1]), strict=True):
        known = torch.where(beside(solution.solved, value), value, 1.0)
        parts[name] = known if name in ("a", "nu") else torch.maximum(known, beside(_KEPT * size, value))
    return StepSystem(data, Iterate(**parts | {"price": limited(data, parts["price"])}))


def _infeasible(data: ScenarioData, x: Iterate) -> Tensor:
    """Whether the prices prove that the limits contradict each other (Farkas), (B,)."""
    mu = data.weights[..., None] * x.mu
    allowed = torch.where(torch.isfinite(data.d), data.d, 0.0)
    bound = (allowed * x.price).sum(-1) + (data.e * x.nu).sum(-1) - (data.h * mu).sum((1, 2))  # < 0 is the proof
    slope = x.price @ data.C + x.nu @ data.E - mu.sum(1) @ data.recourse.T
    violated = largest(slope, data.recourse.priced(mu).clamp(min=0.0))
    return (bound < 0) & (violated <= _RAY * -bound)


def _unbounded(data: ScenarioData, x: Iterate) -> Tensor:
    """Whether the iterate points where the cost falls for ever, (B,)."""
    falls = (data.p * x.a).sum(-1) + (data.weights * (data.q * x.z).sum(-1)).sum(-1)  # < 0 is the proof
    over = limited(data, x.a @ data.C.mT).clamp(min=0.0)
    missed = (-data.recourse.reached(x.z) - (x.a @ data.recourse.T.mT)[:, None]).clamp(min=0.0)
    curved = largest(times(data.P, x.a), data.curvature * data.recourse.curved(x.z))
    violated = torch.maximum(largest(over, x.a @ data.E.mT, missed), curved)
    return (falls < 0) & (violated <= _RAY * -falls)
