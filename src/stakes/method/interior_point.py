"""Scenario programs in batches: a primal-dual interior-point method that eliminates every member's recourse.

    minimise over a, z_m   1/2 a'Pa + p'a + sum_m w_m (1/2 z_m'Q z_m + q_m'z_m)
    subject to             C a <= d,   E a = e,   W z_m + T a >= h_m,   z_m >= 0

The linear system of a step (`stakes.method.interior_step`) has the size of the action, whatever the number of members.
All numbers are double, and each case is in units of its own.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeVar

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
from stakes.method.recession import hardly_bent, steepest_way
from stakes.method.scenario_data import ScenarioData, Units, beside, largest, scaled, times

__all__ = ["InteriorPoint", "ProgramSolution", "in_units_of", "start_of", "system_at"]

_START = 0.1  # the least slack and price to begin with, in the units of a case
_RAY = 1e-7  # how well a ray must prove that there is no solution
_FAR = 10.0  # limits beyond that, in the units of a case, do not draw the start
_SMALL_COST = 1e-5  # an objective that small, in the units of a case, need not be known to as many digits
_LOOKS = 5  # steps from one look for a proof that there is no solution to the next
_COPIES = 40  # numbers that a step holds for each slack of a member
_KEPT = 1e-10  # the least slack and price, in the units of a case, that a gradient is taken at
_OWN, _NOISE = 1e-6, 1e-11  # what a limit may be broken by, as a share of its own numbers, and in the units of a case
_SETTLED = 1e-7  # the largest error of a case that counts as solved though the tolerance was not reached
_PATIENCE = 4  # steps that bring such a case no nearer before it is left alone: rounding keeps it there


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
        iterations: How many steps are taken at most; cases that are solved, or as good as solved and no longer getting
            better, are left alone.
        tolerance: The largest residual, and gap over 1 plus the objective, at which a case is left alone, in units of
            the case.
        smoothing: None for the exact gradient, which limits that bind block. A number, such as 0.01, takes the gradient
            of the action whose limits are walls (`stakes.method.central_path`), every slack times its price being that
            number in units of the case; actions and certificates stay exact. With it, a cost of one number takes the
            gradient of its action between walls (`stakes.method.walls`), too.
        memory: About how many bytes a solve may take. A batch that needs more is solved in chunks, at least one case at
            a time; no answer depends on it. The gradient keeps the factors of all cases. None for 128 MiB on a CPU,
            where larger chunks take longer, and 1 GiB elsewhere.
        fixed_iterations: How many steps are taken where Python may not look at numbers, as on an accelerator, so that a
            training step can be captured. Programs mostly need 7 to 15; one that needs more is not certified.
    """

    iterations: int = 40
    tolerance: float = 1e-10
    smoothing: float | None = None
    memory: int | None = None
    fixed_iterations: int = 25

    def __post_init__(self) -> None:
        require_count("iterations", self.iterations, 1)
        require_positive("tolerance", self.tolerance)
        if self.memory is not None:
            require_count("memory", self.memory)
        require_count("fixed_iterations", self.fixed_iterations)
        if self.smoothing is not None:
            require_positive("smoothing", self.smoothing)

    def solve(self, data: ScenarioData) -> ProgramSolution:
        """Solve all programs of a batch; none depends on another.

        Args:
            data: The programs.
        """
        cases = len(data.p)
        memory = self.memory or (1 << 27 if data.p.device.type == "cpu" else 1 << 30)
        at_once = max(1, memory // _bytes_of_a_case(data))
        if cases <= at_once:
            return self._solve(data)
        return _joined([self._solve(data.rows(slice(i, i + at_once))) for i in range(0, cases, at_once)])

    def _solve(self, data: ScenarioData) -> ProgramSolution:
        even, units = scaled(data)
        x, verdict, count = self._run(even, start_of(even))
        return _solution(even, units, *self._second_look(even, x, verdict), count)

    def _second_look(self, data: ScenarioData, x: Iterate, verdict: "_Verdict") -> tuple[Iterate, "_Verdict"]:
        """What was left open, with a little curvature, and whether its cost falls for ever; where Python can look."""
        left = verdict.open_above(_SETTLED)
        if not known_on_host(left.any()):
            return x, verdict
        places = left.nonzero()[:, 0]
        part = data.rows(places)
        part = replace(part, recourse=part.recourse.by_matrices)
        again, known = _some(x, places), _some(verdict, places)
        bent, ways = hardly_bent(part), steepest_way(part)
        for program in (bent,) if part.recourse is data.recourse else (part, bent):
            other = self._run(program, start_of(program))[0]
            error = _error(part, other, residuals_of(part, other))
            again, known = either(error < known.error, other, again), known.seen(error)
        if ways is not None:
            falls = _unbounded(part, self._run(ways, start_of(ways))[0])
            known = known._replace(unbounded=falls & (known.error > _SETTLED))
        return _put(x, places, again), _put(verdict, places, known)

    def _run(self, data: ScenarioData, x: Iterate) -> tuple[Iterate, "_Verdict", int]:
        """The best iterate of each case, what is known of it, and the steps taken."""
        best, verdict, count = x, _Verdict.open(data), 0
        last = self.fixed_iterations if known_on_host(verdict.infeasible.any()) is None else self.iterations
        left_behind: list[tuple[Iterate, _Verdict, Tensor]] = []  # and the places of those that went on
        for count in range(last + 1):
            residuals = residuals_of(data, x)
            error = _error(data, x, residuals)
            best, verdict = either(error < verdict.error, x, best), verdict.seen(error)
            if count == last or count % _LOOKS == _LOOKS - 1:
                verdict = verdict.proven(data, x)
            waiting = verdict.open_above(self.tolerance) & ~verdict.stalled
            if count == last or known_on_host(~waiting.any()):
                break
            if known_on_host(2 * waiting.sum() <= len(waiting)):
                places = waiting.nonzero()[:, 0]
                left_behind.append((best, verdict, places))
                data, waiting = data.rows(places), waiting[places]
                x, best = _some(x, places), _some(best, places)
                residuals, verdict = _some(residuals, places), _some(verdict, places)
            x = either(waiting, stepped(data, x, residuals), x)
        for whole, known, places in reversed(left_behind):
            best, verdict = _put(whole, places, best), _put(known, places, verdict)
        return best, verdict, count


def _bytes_of_a_case(data: ScenarioData) -> int:
    """About what one case takes at the height of a step."""
    members, actions = data.h.shape[1], data.p.shape[1]
    of_member = _COPIES * (data.recourse.rows + data.recourse.parts) + data.recourse.factor_size
    return 8 * (members * of_member + _COPIES * (actions + len(data.C)) + 6 * actions**2)


def _joined(chunks: list[ProgramSolution]) -> ProgramSolution:
    """The solutions of all chunks as those of one batch."""
    iterate = Iterate(*map(torch.cat, zip(*(chunk.iterate for chunk in chunks), strict=True)))
    names = ("objective", "gap", "residual", "solved", "infeasible", "unbounded")
    others = {name: torch.cat([getattr(chunk, name) for chunk in chunks]) for name in names}
    return ProgramSolution(iterate, iterations=max(chunk.iterations for chunk in chunks), **others)


class _Verdict(NamedTuple):
    """The least error of each case so far, steps since it fell, and whether there is proven to be no solution, (B,)."""

    error: Tensor
    stale: Tensor
    infeasible: Tensor
    unbounded: Tensor

    @classmethod
    def open(cls, data: ScenarioData) -> Self:
        error = torch.full_like(data.p[:, 0], torch.inf)
        return cls(error, torch.zeros_like(error), error < 0, error < 0)

    @property
    def stalled(self) -> Tensor:
        """Which cases count as solved and come no nearer, (B,)."""
        return (self.error <= _SETTLED) & (self.stale >= _PATIENCE)

    def open_above(self, tolerance: float) -> Tensor:
        """What is neither solved to a tolerance nor proven to have no solution, but for cases without numbers, (B,)."""
        return (self.error > tolerance) & (self.error < torch.inf) & ~self.infeasible & ~self.unbounded

    def seen(self, error: Tensor) -> Self:
        stale = torch.where(error < self.error, 0.0, self.stale + 1)
        return self._replace(error=torch.fmin(error, self.error), stale=stale)

    def proven(self, data: ScenarioData, x: Iterate) -> Self:
        solved = self.error <= _SETTLED
        infeasible, unbounded = _infeasible(data, x) & ~solved, _unbounded(data, x) & ~solved
        return self._replace(infeasible=self.infeasible | infeasible, unbounded=self.unbounded | unbounded)


_Parts = TypeVar("_Parts", Iterate, Residuals, _Verdict)


def _some(whole: _Parts, places: Tensor) -> _Parts:
    """Some of the cases."""
    return type(whole)(*(each[places] for each in whole))


def _put(whole: _Parts, places: Tensor, parts: _Parts) -> _Parts:
    """The whole with some cases replaced."""
    return type(whole)(*(one.index_copy(0, places, part) for one, part in zip(whole, parts, strict=True)))


def start_of(data: ScenarioData) -> Iterate:
    """The minimum of the problem with squares in place of limits, with slacks and prices made positive.

    Args:
        data: The programs, in units of their own.
    """
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
    residuals = residuals_of(data, x)
    unit = units.action * units.cost
    residual, objective, gap = largest(*residuals), _objective(data, x) * unit, gap_of(data, x) * unit
    solved = (verdict.error <= _SETTLED) & _kept(data, x, residuals) & torch.isfinite(objective)
    return ProgramSolution(
        in_units_of(units, x), objective, gap, residual, solved, verdict.infeasible, verdict.unbounded, count
    )


def _kept(data: ScenarioData, x: Iterate, residuals: Residuals) -> Tensor:
    """Whether limits and equations hold as well as their own numbers ask for, which may be far below others, (B,)."""
    reach = largest(x.a)[:, None]
    rows = ((data.C, data.d, residuals.c.clamp(min=0.0)), (data.E, data.e, residuals.e.abs()))
    off = [
        violated > _OWN * torch.maximum(right.abs(), matrix.abs().sum(-1) * reach) + _NOISE
        for matrix, right, violated in rows
    ]
    return ~torch.cat(off, -1).any(-1)


def in_units_of(units: Units, x: Iterate) -> Iterate:
    """An iterate of programs in units of their own, in the units of the programs as they were.

    Args:
        units: The units of each case.
        x: The iterate.
    """
    return Iterate(*(value * beside(size, value) for value, size in zip(x, _sizes(units), strict=True)))


def _sizes(units: Units) -> Iterate:
    """The unit of each part of an iterate, (B,)."""
    action, cost = units
    return Iterate(a=action, s=action, price=cost, nu=cost, z=action, v=action, mu=cost, zeta=cost)


def system_at(data: ScenarioData, solution: ProgramSolution) -> "StepSystem":
    """The linear system at the solution, from which the action's gradient follows.

    A limit binds where its price exceeds what it leaves, in units of the case, and the smaller of both is brought
    nearer to zero than the last step left it. A case that was not solved has the system of another point, so that it
    cannot spoil the others by a NaN.

    Args:
        data: The programs.
        solution: Their solutions.
    """
    units = Units(*(torch.where(solution.solved, unit, 1.0) for unit in scaled(data)[1]))
    parts = {}
    for name, value, size in zip(Iterate._fields, solution.iterate, _sizes(units), strict=True):
        parts[name] = torch.where(beside(solution.solved, value), value / beside(size, value), 1.0)
    for slack, price in (("s", "price"), ("v", "mu"), ("z", "zeta")):
        parts[slack], parts[price] = _decided(parts[slack], parts[price])
    parts["price"] = limited(data, parts["price"])
    return StepSystem(data, in_units_of(units, Iterate(**parts)))


def _decided(slack: Tensor, price: Tensor) -> tuple[Tensor, Tensor]:
    """Slacks and prices of which the smaller is taken down to its square over the larger."""
    binds = slack < price
    smaller = (torch.where(binds, slack, price) ** 2 / torch.where(binds, price, slack)).clamp(min=_KEPT)
    return torch.where(binds, smaller, slack), torch.where(binds, price, smaller)


def _infeasible(data: ScenarioData, x: Iterate) -> Tensor:
    """Whether the prices prove that the limits contradict each other (Farkas), (B,)."""
    mu = data.weights[..., None] * x.mu
    allowed = torch.where(torch.isfinite(data.d), data.d, 0.0)
    bound = (allowed * x.price).sum(-1) + (data.e * x.nu).sum(-1) - (data.h * mu).sum((1, 2))  # < 0 is the proof
    slope = x.price @ data.C + x.nu @ data.E - data.recourse.pull(data.weights, x.mu)
    violated = largest(slope, data.recourse.priced(mu).clamp(min=0.0))
    far = (_RAY * largest(allowed)).clamp(min=1.0)  # the proof is to hold as far as limits may let an action go
    return (bound < 0) & (violated * far <= _RAY * -bound)


def _unbounded(data: ScenarioData, x: Iterate) -> Tensor:
    """Whether the iterate points where the cost falls for ever, (B,)."""
    falls = (data.p * x.a).sum(-1) + (data.weights * (data.q * x.z).sum(-1)).sum(-1)  # < 0 is the proof
    over = limited(data, x.a @ data.C.mT).clamp(min=0.0)
    missed = (-data.recourse.reached(x.z) - data.recourse.moved(x.a)).clamp(min=0.0)
    curved = largest(times(data.P, x.a), data.curvature * data.recourse.curved(x.z))
    violated = torch.maximum(largest(over, x.a @ data.E.mT, missed), curved)
    return (falls < 0) & (violated <= _RAY * -falls)
