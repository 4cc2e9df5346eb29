"""Scenario programs in batches: a primal-dual interior-point method that eliminates every recourse."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from stakes.argument_checks import known_on_host, require_count, require_positive
from stakes.programs.recourse import ChargedRecourse, Recourse

_CORRECTIONS, _RIDGE = 10, 1e-12
_ROUNDING = 16 * torch.finfo(torch.float64).eps  # of an action: by how much one of that size may miss a limit
_FARTHEST = 100.0  # tolerances that a part of the action may move


@dataclass(frozen=True, eq=False)
class ScenarioData:
    """B programs of one shape, with M members each, in double precision."""

    P: Tensor  # the curvature of the action's own cost, (B, A, A) or (1, A, A), positive semidefinite
    p: Tensor  # the slope of it, (B, A)
    C: Tensor  # the limits of the action, (K, A)
    d: Tensor  # what they allow, (B, K); infinite where a case has no such limit
    E: Tensor  # the equations of the action, (J, A)
    e: Tensor  # what they equal, (B, J)
    recourse: Recourse | ChargedRecourse
    q: Tensor  # what the recourse costs, (B, M, Z) or (B, 1, Z)
    h: Tensor  # what it has to reach, (B, M, R)
    weights: Tensor  # what each member weighs, (B, M), adding up to 1 in every case
    curvature: Tensor  # by what Q is multiplied in each case, (B, 1, 1)

    def rows(self, places: Tensor | slice) -> "ScenarioData":
        """Some of the cases."""
        names = ("p", "d", "e", "q", "h", "weights", "curvature")
        chosen = {name: getattr(self, name)[places] for name in names}
        P = self.P if len(self.P) == 1 else self.P[places]
        return replace(self, P=P, recourse=self.recourse.chosen(places), **chosen)


def tidied(data: ScenarioData, action: Tensor, price: Tensor, tolerance: float) -> Tensor:
    """Actions (B, A) with parts put on the bounds that they are within a tolerance of; the others make up for it.

    A hundred tolerances are near enough where the prices (B, K) say that a bound binds: there the solver has stopped
    short of it. A case that would break a limit or an equation more than before keeps its action.
    """
    bounds = (data.C != 0).sum(-1) == 1
    C, d = data.C[bounds], data.d[:, bounds]
    left = d - action @ C.mT
    units = scaled(data)[1]
    unit = units.action[:, None]
    binds = left / unit < price[:, bounds] / units.cost[:, None]
    near = ((left.abs() <= torch.where(binds, _FARTHEST, 1.0) * tolerance * unit) & torch.isfinite(left)).double()
    count = near @ C.abs().sign()
    moved = (near * left.nan_to_num(0.0, 0.0, 0.0)) @ torch.where(C != 0, 1 / C, 0.0) / count.clamp(min=1.0)
    tidy, free = action + moved, (count == 0).double()
    rows, allowed = torch.cat([data.C[~bounds], data.E]), torch.cat([data.d[:, ~bounds], data.e], -1)
    equal = torch.arange(len(rows), device=rows.device) >= len(rows) - len(data.E)

    def broken(each: Tensor, held: Tensor = equal) -> Tensor:
        over = each @ rows.mT - allowed
        return torch.where(held, over, over.clamp(min=0.0))

    rounding = _ROUNDING * torch.maximum(unit[:, 0], largest(action))
    held = equal.expand(len(action), -1)
    for _ in range(_CORRECTIONS):
        over = broken(tidy, held)
        wrong = largest(over) > rounding
        if known_on_host(~wrong.any()):
            break
        held = held | (over > 0)  # and stays so: to mend one limit by another would go back and forth
        own = rows * free[:, None] * held[..., None]  # (B, rows, A)
        lower = torch.linalg.cholesky_ex(own @ own.mT + _RIDGE * torch.eye(len(rows)).to(own)).L
        moved = (own.mT @ torch.cholesky_solve(over[..., None], lower))[..., 0]
        tidy = torch.where(wrong[:, None], tidy - moved, tidy)
    before, after = (
        torch.maximum(largest(broken(each)), largest((each @ C.mT - d).clamp(min=0.0))) for each in (action, tidy)
    )
    kept = (after <= torch.maximum(before, rounding)) & (largest(tidy - action) <= _FARTHEST * tolerance * unit[:, 0])
    return torch.where(kept[:, None], tidy, action)


class Units(NamedTuple):
    """The units of each case."""

    action: Tensor  # of the action and the recourse, (B,)
    cost: Tensor  # of prices, (B,)


def scaled(data: ScenarioData) -> tuple[ScenarioData, Units]:
    """The same programs with numbers of the order of one, and their units."""
    allowed = torch.where(torch.isfinite(data.d), data.d, 0.0)
    reach = torch.maximum(largest(data.h), _least_action(data))
    action = _positive(torch.where(reach > 0, reach, largest(allowed)))
    curved = largest(data.P.expand(len(action), -1, -1), data.curvature * data.recourse.Q.abs().amax())
    cost = _positive(torch.maximum(largest(data.q, data.p), action * curved))
    of_action, of_cost = (lambda value: value / beside(action, value)), (lambda value: value / beside(cost, value))
    changed = {name: of_action(getattr(data, name)) for name in ("d", "e", "h")}
    changed |= {name: of_cost(getattr(data, name)) for name in ("p", "q")}
    ratio = action / cost
    changed |= {"P": beside(ratio, data.P) * data.P, "curvature": beside(ratio, data.curvature) * data.curvature}
    return replace(data, **changed), Units(action, cost)


def _least_action(data: ScenarioData) -> Tensor:
    """What the largest part of an action has at least, by each limit that forbids zero and by each equation, (B,)."""
    sides = ((data.C, torch.where(torch.isfinite(data.d), -data.d, 0.0).clamp(min=0.0)), (data.E, data.e))
    return largest(*(right / _positive(matrix.abs().sum(-1)) for matrix, right in sides))


def _positive(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)


def largest(*values: Tensor) -> Tensor:
    """The largest absolute value in each case, (B,)."""
    sizes = [value.abs().flatten(1).amax(1) for value in values if value.shape[1:].numel()]
    return torch.stack(sizes).amax(0) if sizes else values[0].new_zeros(len(values[0]))


def beside(values: Tensor, other: Tensor) -> Tensor:
    """One number a case, to be broadcast against other numbers of the cases."""
    return values.reshape(-1, *[1] * (other.dim() - 1))


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """The product of each matrix and its vector, (..., n)."""
    return (matrix @ vector[..., None])[..., 0]


def recourse_alone(recourse: Recourse, price: Tensor, asked: Tensor) -> ScenarioData:
    """Each case's own recourse as a program whose action, of one part, does nothing and costs what is usual there."""
    q, h = price.reshape(-1, 1, recourse.parts), asked.reshape(-1, 1, recourse.rows)
    blank = h[:, 0, :1]
    nothing: dict[str, Any] = {"C": blank[:0], "d": blank[:, :0], "E": blank[:0], "e": blank[:, :0]}
    usual = largest(q) / torch.where(largest(h) > 0, largest(h), 1.0)
    return ScenarioData(
        P=torch.where(usual > 0, usual, 1.0)[:, None, None],
        p=torch.zeros_like(blank),
        recourse=recourse.idle,
        q=q,
        h=h,
        weights=torch.ones_like(blank),
        curvature=torch.ones_like(blank)[..., None],
        **nothing,
    )


_BENT = 1e-9  # a curvature that tells equal actions apart and changes nothing else, in the units of a case


def hardly_bent(data: ScenarioData) -> ScenarioData:
    """The programs with so little curvature in every way that their solutions solve the programs themselves.

    A search that runs off along a way that costs nothing stays here.
    """
    recourse, own = data.recourse, _BENT * torch.eye(data.p.shape[1]).to(data.P)
    if isinstance(recourse, Recourse):
        curved = torch.ones_like(recourse.Q) if recourse.Q.dim() == 1 else torch.eye(recourse.parts).to(recourse.Q)
        recourse = replace(recourse, Q=recourse.Q + _BENT * curved)
    return replace(data, P=data.P + own, recourse=recourse)


def steepest_way(data: ScenarioData) -> ScenarioData | None:
    """The programs whose solutions are the ways along which the cost falls most; None for quadratic programs."""
    recourse = data.recourse
    if not isinstance(recourse, Recourse) or bool(recourse.Q.any()) or bool(data.P.any()):
        return None
    nothing = {name: torch.zeros_like(getattr(data, name)) for name in ("e", "h")}
    return replace(
        data,
        P=torch.eye(data.p.shape[1]).to(data.P)[None],
        d=torch.where(torch.isfinite(data.d), 0.0, data.d),
        recourse=replace(recourse, Q=recourse.Q.new_ones(recourse.parts)),
        curvature=torch.ones_like(data.curvature),
        **nothing,
    )


_TO_THE_LIMIT = 0.99  # of the way to the nearest limit
_TINY = 1e-300
_REFINED = 1  # how often a step is refined
_REPEATED = 1e-13  # what keeps the factorisation of equations positive, as a share of the diagonal
_STEP_RIDGE = 1e-15  # what keeps a factorisation positive, as a share of the diagonal


class Iterate(NamedTuple):
    """Where a method stands: the action, slacks and prices; all slacks and all prices but nu are positive."""

    a: Tensor  # the action, (B, A)
    s: Tensor  # what the limits leave, d - C a, (B, K)
    price: Tensor  # that of the limits, (B, K)
    nu: Tensor  # that of the equations, (B, J)
    z: Tensor  # the recourse, (B, M, Z)
    v: Tensor  # what the recourse reaches beyond its rows, (B, M, R)
    mu: Tensor  # the price of a row of a member, over its weight, (B, M, R)
    zeta: Tensor  # the price of z >= 0, likewise, (B, M, Z)


class Residuals(NamedTuple):
    """What an iterate violates."""

    a: Tensor  # the slope of the cost by the action, (B, A)
    c: Tensor  # the limits, (B, K)
    e: Tensor  # the equations, (B, J)
    z: Tensor  # the slope of the cost by the recourse, (B, M, Z)
    v: Tensor  # the rows of the recourse, (B, M, R)


def residuals_of(data: ScenarioData, x: Iterate) -> Residuals:
    """What an iterate violates."""
    recourse = data.recourse
    return Residuals(
        a=times(data.P, x.a) + data.p + x.price @ data.C + x.nu @ data.E - recourse.pull(data.weights, x.mu),
        c=limited(data, x.a @ data.C.mT + x.s - data.d),
        e=x.a @ data.E.mT - data.e,
        z=data.curvature * recourse.curved(x.z) + data.q - recourse.priced(x.mu) - x.zeta,
        v=recourse.reached(x.z) + recourse.moved(x.a) - x.v - data.h,
    )


def limited(data: ScenarioData, values: Tensor) -> Tensor:
    """The values of the limits there are, 0 elsewhere, (B, K)."""
    return torch.where(torch.isfinite(data.d), values, 0.0)


def gap_of(data: ScenarioData, x: Iterate) -> Tensor:
    """The sum of slacks times prices, (B,): the duality gap where nothing is violated."""
    members = (x.v * x.mu).sum(-1) + (x.z * x.zeta).sum(-1)
    return (x.s * x.price).sum(-1) + (data.weights * members).sum(-1)


class Products(NamedTuple):
    """Slacks times prices, less what they are to become."""

    s: Tensor  # of the limits, (B, K)
    v: Tensor  # of the rows of the recourse, (B, M, R)
    z: Tensor  # of its parts, (B, M, Z)


class StepSystem:
    """The linear system of a step at one iterate, factorised."""

    def __init__(self, data: ScenarioData, x: Iterate) -> None:
        self.data, self.x = data, x
        self.blocks = data.recourse.blocks(data.curvature, x.zeta / x.z, x.v / x.mu)
        limits = data.C.mT @ ((x.price / x.s)[..., None] * data.C)
        self.matrix = data.P + limits + self.blocks.on_actions(data.weights)  # (B, A, A)
        self.shape = self.matrix.diagonal(dim1=-2, dim2=-1).clamp(min=_TINY).rsqrt()
        even = self.shape[..., None] * self.matrix * self.shape[:, None]
        self.factor = torch.linalg.cholesky_ex(
            even + _STEP_RIDGE * torch.eye(even.shape[-1], dtype=even.dtype, device=even.device)
        ).L
        if len(data.E):
            self.across = torch.cholesky_solve(data.E.mT.expand(len(even), -1, -1) * self.shape[..., None], self.factor)
            self.across = self.shape[..., None] * self.across  # (B, A, J)
            own = data.E @ self.across  # (B, J, J); equations may repeat each other, or say nothing
            size = own.diagonal(dim1=-2, dim2=-1)
            ridge = torch.where(size > 0, _REPEATED * size, 1.0)
            self.equations = torch.linalg.cholesky_ex(own + torch.diag_embed(ridge)).L

    def flat(self, least: Tensor) -> Tensor:
        """Whether some way of the action has no curvature but that of rounding, (B,), bool; hidden parts apart."""
        pivots = self.factor.diagonal(dim1=-2, dim2=-1).square()  # of K with ones on its diagonal
        rounding = 4 * pivots.shape[-1] * torch.finfo(pivots.dtype).eps
        flat = (pivots < rounding) | (pivots < least[:, None] * self.shape**2)
        return flat[:, : flat.shape[-1] - self.data.recourse.hidden].any(-1)

    def step(self, residuals: Residuals, products: Products) -> Iterate:
        """The step that would remove the residuals and the products, were the problem linear."""
        step = self.unrefined_step(residuals, products)
        if not self.data.recourse.loses_digits:
            return step
        for _ in range(_REFINED):
            step = Iterate(*map(torch.add, step, self.unrefined_step(*self._left(step, residuals, products))))
        return step

    def _left(self, step: Iterate, residuals: Residuals, products: Products) -> tuple[Residuals, Products]:
        """What a step leaves of the residuals and the products."""
        x, data = self.x, self.data
        p, e, q, h = (torch.zeros_like(each) for each in (data.p, data.e, data.q, data.h))
        linear = replace(data, p=p, d=torch.where(torch.isfinite(data.d), 0.0, torch.inf), e=e, q=q, h=h)
        left = Residuals(*map(torch.add, residuals_of(linear, step), residuals))
        return left, Products(
            products.s + x.s * step.price + x.price * step.s,
            products.v + x.v * step.mu + x.mu * step.v,
            products.z + x.z * step.zeta + x.zeta * step.z,
        )

    def unrefined_step(self, residuals: Residuals, products: Products) -> Iterate:
        """The step as the factors give it, with the digits that they have."""
        x, data, blocks, recourse = self.x, self.data, self.blocks, self.data.recourse
        slope = residuals.z + products.z / x.z
        b = recourse.reached(blocks.theta(slope)) - residuals.v - products.v / x.mu
        pull = recourse.pull(data.weights, blocks.solve(b))
        pushed = (x.price * residuals.c - products.s) / x.s
        a, nu = self.actions(pull - residuals.a - pushed @ data.C, residuals.e)
        mu = blocks.solve(b - recourse.moved(a))
        z = blocks.theta(recourse.priced(mu) - slope)
        s = limited(data, -residuals.c - a @ data.C.mT)
        return Iterate(
            a,
            s,
            -(products.s + x.price * s) / x.s,
            nu,
            z,
            -(products.v + x.v * mu) / x.mu,
            mu,
            -(products.z + x.zeta * z) / x.z,
        )

    def actions(self, slope: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
        """The a and nu with K a + E'nu = slope and E a = -off, (B, A) and (B, J)."""
        a = self._solved(slope)
        a = a + self._solved(slope - times(self.matrix, a))
        if not len(self.data.E):
            return a, off
        nu = torch.cholesky_solve((a @ self.data.E.mT + off)[..., None], self.equations)
        return a - (self.across @ nu)[..., 0], nu[..., 0]

    def _solved(self, slope: Tensor) -> Tensor:
        return self.shape * torch.cholesky_solve((self.shape * slope)[..., None], self.factor)[..., 0]


def _length(x: Iterate, step: Iterate, most: float = 1.0) -> Tensor:
    """How far all slacks and prices stay positive, at most 1 or another number, (B,)."""
    pairs = [(getattr(x, name), getattr(step, name)) for name in ("s", "z", "v", "mu", "zeta")]
    pairs.append((torch.where(x.price > 0, x.price, 1.0), step.price))  # there is none where there is no limit
    fastest = [(change / value).flatten(1).amin(1) for value, change in pairs if value.shape[1:].numel()]
    return -1 / torch.stack(fastest).amin(0).clamp(max=-1 / most)


def _moved(x: Iterate, step: Iterate, length: Tensor) -> Iterate:
    return Iterate(*(torch.addcmul(one, beside(length, one), change) for one, change in zip(x, step, strict=True)))


def either(chosen: Tensor, x: Iterate, other: Iterate) -> Iterate:
    """The one iterate where it is chosen, else the other."""
    return Iterate(*(torch.where(beside(chosen, one), one, two) for one, two in zip(x, other, strict=True)))


def towards(data: ScenarioData, x: Iterate, residuals: Residuals, products: Products) -> Iterate:
    """One step of Newton's method, as far as slacks and prices stay positive."""
    step = StepSystem(data, x).step(residuals, products)
    return _moved(x, step, _TO_THE_LIMIT * _length(x, step, 1 / _TO_THE_LIMIT))


def stepped(data: ScenarioData, x: Iterate, residuals: Residuals) -> Iterate:
    """One step of Mehrotra's method."""
    system, share = StepSystem(data, x), 1 / data.h.shape[1]
    count = share * torch.isfinite(data.d).sum(-1) + x.v.shape[-1] + x.z.shape[-1]
    products = Products(x.s * x.price, x.v * x.mu, x.z * x.zeta)
    straight = system.unrefined_step(residuals, products)
    gap, length = gap_of(data, x), _length(x, straight)
    # What the straight step leaves: where slack and price both go to zero their product falls more slowly than others,
    # which must not run ahead of it.
    slower = (length**2 * gap_of(data, straight) / gap.clamp(min=_TINY)).clamp(min=0.0)
    target = (1 - length + slower).clamp(max=1.0) ** 3 * gap / count  # (B,)
    bent = Products(
        limited(data, products.s + straight.s * straight.price - share * target[:, None]),
        products.v + straight.v * straight.mu - target[:, None, None],
        products.z + straight.z * straight.zeta - target[:, None, None],
    )
    step = system.step(residuals, bent)
    return _moved(x, step, _TO_THE_LIMIT * _length(x, step))


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
    """The solutions of B programs, in their own units."""

    iterate: Iterate  # the action and all prices
    objective: Tensor  # what the action and the recourse cost, (B,)
    gap: Tensor  # by how much a better action could lower that at most, but for the residuals, (B,)
    residual: Tensor
    solved: Tensor  # whether residual and gap are small, (B,), bool
    infeasible: Tensor  # whether it is proven that no action meets all limits, (B,), bool
    unbounded: Tensor  # whether it is proven that the cost has no lower bound, (B,), bool
    iterations: int  # how many steps were taken


@dataclass(frozen=True)
class InteriorPoint:
    """The interior-point method for scenario programs.

    Attributes:
        iterations: The largest number of steps. Cases that are solved, or nearly solved and no longer improving, stop
            earlier.
        tolerance: The residual, and the gap over 1 plus the objective, at which a case counts as solved, in units of
            the case.
        smoothing: None for the exact gradient, which vanishes in directions that binding limits block. A number, such
            as 0.01, takes the gradient of the action with a log barrier at its limits, at the point where every slack
            times its price is that number in units of the case. Actions and certificates stay exact. It also applies
            to costs of a scalar action.
        memory: About how many bytes a solve may take; larger batches are solved in chunks of at least one case, with
            the same results. The gradient keeps the factors of all cases. None for 128 MiB on a CPU, where larger
            chunks are slower, and 1 GiB elsewhere.
        fixed_iterations: The number of steps on a GPU, where it has to be fixed so that a training step can be
            captured. Most programs need 7 to 15; one that needs more is not certified.
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
    """An iterate of programs in units of their own, in the units of the programs as they were."""
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
    """Whether the iterate points where the cost is unbounded below, (B,)."""
    falls = (data.p * x.a).sum(-1) + (data.weights * (data.q * x.z).sum(-1)).sum(-1)  # < 0 is the proof
    over = limited(data, x.a @ data.C.mT).clamp(min=0.0)
    missed = (-data.recourse.reached(x.z) - data.recourse.moved(x.a)).clamp(min=0.0)
    curved = largest(times(data.P, x.a), data.curvature * data.recourse.curved(x.z))
    violated = torch.maximum(largest(over, x.a @ data.E.mT, missed), curved)
    return (falls < 0) & (violated <= _RAY * -falls)
