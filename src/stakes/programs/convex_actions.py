"""Functions as costs, and their vector actions between bounds and linear limits by a primal-dual Newton method."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from stakes.argument_checks import check_finite, known_false, known_on_host, require_count, require_positive
from stakes.costs.cost import ActionSolution, Parameter, VectorCost, explain_failure, require_bounds, states_convexity
from stakes.costs.member_weights import (
    ExpectedCost,
    mean_cost,
    mean_of_members,
    member_costs,
    slope_and_hessian,
    slope_of,
)
from stakes.errors import CostError, SettingError, ShapeError
from stakes.programs.part_costs import joined, parameter_parts
from stakes.programs.scenario_program import BINDS, ScenarioProgram, warn_of_parameters

_TO_THE_LIMIT = 0.99  # of the way to the nearest limit
_HALVINGS = 8
_LEAST_SLACK = 1e-14  # of the room that a limit leaves
_RIDGE = 1e-15  # what keeps a factorisation positive, as a share of the diagonal


class LinearLimits(NamedTuple):
    """C x <= d and E x = e."""

    C: Tensor  # the limits, (K, A), enough of them to bound every part
    d: Tensor  # what they allow, (..., K)
    E: Tensor  # the equations, (J, A)
    e: Tensor  # what they equal, (..., J)
    room: Tensor  # how far each limit may be away, (..., K), positive

    def slack(self, x: Tensor) -> Tensor:
        """What the limits leave, (..., K), kept positive."""
        return torch.maximum(self.d - x @ self.C.mT, _LEAST_SLACK * self.room)


class BarrierSolution(NamedTuple):
    """Where the method ended, in each case (...)."""

    x: Tensor  # the best x, (..., A)
    price: Tensor  # that of the limits, (..., K)
    nu: Tensor  # that of the equations, (..., J)
    error: Tensor  # the largest violation of the conditions of a minimum, in units of the case, (...)
    unit: Tensor  # how much f varies between the limits, as its derivatives at the start tell, (...), positive


@dataclass(frozen=True)
class BarrierNewton:
    """How convex functions are minimised."""

    iterations: int = 40
    tolerance: float = 1e-13

    def __post_init__(self) -> None:
        require_count("iterations", self.iterations, 1)
        require_positive("tolerance", self.tolerance)

    def __call__(self, f: ExpectedCost, limits: LinearLimits, start: Tensor, width: Tensor) -> BarrierSolution:
        """The minimum of each case."""
        slope, hessian = slope_and_hessian(f, start)
        curved = hessian.diagonal(dim1=-2, dim2=-1)
        unit = (slope.abs() * width + curved.abs() * width**2).sum(-1)
        unit = torch.where((unit > 0) & (unit < torch.inf), unit, 1.0)
        slack = limits.slack(start)
        best = BarrierSolution(
            start, 0.1 * unit[..., None] / slack, torch.zeros_like(limits.e), torch.full_like(unit, torch.inf), unit
        )
        at = best
        for count in range(self.iterations + 1):
            at = at._replace(error=_error(at, slope, limits, width))
            best = _either(at.error < best.error, at, best)
            waiting = best.error > self.tolerance
            if count == self.iterations or known_on_host(~waiting.any()):
                break
            at = _either(waiting, _stepped(f, at, slope, hessian, limits, width), at)
            slope, hessian = slope_and_hessian(f, at.x)
        return best


class BarrierSystem:
    """The linear system of a step, factorised."""

    def __init__(self, hessian: Tensor, ratio: Tensor, limits: LinearLimits) -> None:
        self.E = limits.E
        self.matrix = hessian + limits.C.mT @ (ratio[..., None] * limits.C)
        self.shape = self.matrix.diagonal(dim1=-2, dim2=-1).abs().clamp(min=1e-300).rsqrt()
        even = self.shape[..., None] * self.matrix * self.shape[..., None, :]
        eye = torch.eye(even.shape[-1], dtype=even.dtype, device=even.device)
        factor, failed = torch.linalg.cholesky_ex(even + _RIDGE * eye)
        if known_on_host((failed == 0).all()) is not True:  # where f is not convex the step is that of a convex one
            size = even.abs().sum((-2, -1), keepdim=True)
            factor = torch.where((failed == 0)[..., None, None], factor, torch.linalg.cholesky_ex(even + size * eye).L)
        self.factor = factor
        if len(self.E):
            self.across = self._inverse(self.E.mT.expand(*even.shape[:-2], -1, -1))  # (..., A, J)
            self.equations = torch.linalg.cholesky_ex(self.E @ self.across).L

    def solve(self, slope: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
        """The x and nu with K x + E'nu = slope and E x = off."""
        x = self._inverse(slope[..., None])
        x = (x + self._inverse(slope[..., None] - self.matrix @ x))[..., 0]
        if not len(self.E):
            return x, off
        nu = torch.cholesky_solve((x @ self.E.mT - off)[..., None], self.equations)
        return x - (self.across @ nu)[..., 0], nu[..., 0]

    def _inverse(self, columns: Tensor) -> Tensor:
        return self.shape[..., None] * torch.cholesky_solve(self.shape[..., None] * columns, self.factor)


def _error(at: BarrierSolution, slope: Tensor, limits: LinearLimits, width: Tensor) -> Tensor:
    violated = (_condition(at, slope, limits) * width).abs().sum(-1)
    return (violated + (limits.slack(at.x) * at.price).sum(-1)) / at.unit


def _condition(at: BarrierSolution, slope: Tensor, limits: LinearLimits) -> Tensor:
    """What the slopes of f and of the limits leave, (..., A): zero at a minimum."""
    return slope + at.price @ limits.C + at.nu @ limits.E


def _stepped(
    f: ExpectedCost, at: BarrierSolution, slope: Tensor, hessian: Tensor, limits: LinearLimits, width: Tensor
) -> BarrierSolution:
    """One step: where it would go without a target tells the target."""
    slack = limits.slack(at.x)
    system, products = BarrierSystem(hessian, at.price / slack, limits), (slack * at.price).mean(-1)

    def towards(target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pushed = slope + at.nu @ limits.E + (target[..., None] / slack) @ limits.C
        x, nu = system.solve(-pushed, limits.e - at.x @ limits.E.mT)
        price = (target[..., None] + at.price * (x @ limits.C.mT)) / slack - at.price
        return x, price, nu

    straight = towards(torch.zeros_like(products))
    target = ((1 - _length(at, straight, slack, limits)) ** 3).clamp(min=1e-3) * products
    step = towards(target)
    length = _TO_THE_LIMIT * _length(at, step, slack, limits)
    before = _violated(at, slope, limits, width, target)
    taken, waiting = at, length > 0
    for _ in range(_HALVINGS):
        moved = at._replace(
            **{
                name: getattr(at, name) + length[..., None] * part
                for name, part in zip(("x", "price", "nu"), step, strict=True)
            }
        )
        after = _violated(moved, slope_of(f, moved.x), limits, width, target)
        better = waiting & (after <= (1 - 0.01 * length) * before)
        taken, waiting = _either(better, moved, taken), waiting & ~better
        if known_on_host(~waiting.any()):
            break
        length = torch.where(waiting, length / 2, length)
    return _either(waiting & torch.isfinite(after), moved, taken)


def _violated(at: BarrierSolution, slope: Tensor, limits: LinearLimits, width: Tensor, target: Tensor) -> Tensor:
    """The size of all that a step is to remove, (...)."""
    condition = _condition(at, slope, limits) * width
    centred = limits.slack(at.x) * at.price - target[..., None]
    return (condition.square().sum(-1) + centred.square().sum(-1)).sqrt()


def _length(at: BarrierSolution, step: tuple[Tensor, Tensor, Tensor], slack: Tensor, limits: LinearLimits) -> Tensor:
    """How far slacks and prices stay positive, at most 1, (...)."""
    x, price, _ = step
    fastest = torch.minimum((-(x @ limits.C.mT) / slack).amin(-1), (price / at.price).amin(-1))
    return -1 / fastest.clamp(max=-1.0)


def _either(chosen: Tensor, one: BarrierSolution, other: BarrierSolution) -> BarrierSolution:
    wide = chosen[..., None]
    return BarrierSolution(
        *(torch.where(wide if a.dim() > chosen.dim() else chosen, a, b) for a, b in zip(one, other, strict=True))
    )


Limits = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, Tensor]
"""(G, g) for G a <= g, or (G, g, E, e) with E a = e besides: (K, A), (..., K), (J, A) and (..., J)."""

_SETTLED, _SMALL_COST = 1e-7, 1e-5  # the largest gap over the cost, and what of the case's unit counts as cost besides
_CONVEX = 1e-8  # how negative a curvature may be by rounding, as a share of the largest
_LOOKED_AT = 8  # actions whose curvature may refute that a cost is convex
_REPEATED = 1e-12  # how little an equation may add to others, as a share of the largest
_KEPT = 1e-9  # the least slack and price, in units of the case, that a gradient is taken at


@dataclass(frozen=True, eq=False)
class ConvexCost(VectorCost):
    """A torch function of an action with many parts, meant to be convex in it, as a cost; see `cost_function`."""

    function: Callable[[Tensor, Tensor], Tensor]  # f(action, outcome), as in `cost_function`
    lower: Parameter  # the least that each part may be, a number or (..., A)
    upper: Parameter  # the most that each part may be, a number or (..., A)
    parts: int  # a, how many parts an action has
    limits: Limits | None = None  # (G, g) for G a <= g, or (G, g, E, e) with E a = e besides; None for bounds alone
    convex: bool = False
    convex_by_word: ClassVar[bool] = True
    _within: "dict[torch.device, _Within]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise CostError(f"function must be callable as f(action, outcome), got {type(self.function).__name__}")
        require_count("parts", self.parts, 2)
        require_bounds(self.lower, self.upper)
        states_convexity(self)
        object.__setattr__(self, "_within", {torch.device("cpu"): _Within.of(self)})

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each action, (...)."""
        try:
            return self.function(action, outcome)
        except (RuntimeError, TypeError, IndexError) as error:
            explain_failure(error)
            parts, outcomes = action.shape[-1], outcome.shape[-1]
            if isinstance(error, TypeError) or parts == outcomes:
                raise
            raise ShapeError(
                f"the function fails for an action of {parts} parts and {outcomes} outcomes, action "
                f"{tuple(action.shape)} and outcome {tuple(outcome.shape)}: {error}"
            ) from error

    def part_count(self, outcomes: int) -> int:
        return self.parts

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """Those of the outcomes where there is a part for each, else numbers."""
        return tuple(outcomes) if len(outcomes) == self.parts else tuple(map(str, range(1, self.parts + 1)))

    def best_action(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> Tensor:
        limits = {f"limits[{place}]": number for place, number in enumerate(self.limits or ())}
        warn_of_parameters({"lower": self.lower, "upper": self.upper, **limits})
        within, members = self._within_on(samples.device).at(samples.shape[:-2]), samples.double()
        expected = self._expected(within, weights)
        solution, hessian, judged = self._searched(within, expected, members.detach(), solver)
        moves = torch.func.grad(lambda x: expected(x, members).sum())(solution.x)
        return judged.action + within.moved(solution, hessian, judged.solved, moves - moves.detach())

    def solve(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> ActionSolution:
        within, members = self._within_on(samples.device).at(samples.shape[:-2]), samples.double()
        solution, hessian, judged = self._searched(within, self._expected(within, weights), members, solver)
        no = torch.zeros_like(judged.solved)
        return ActionSolution(
            action=judged.action,
            expected_cost=mean_cost(self, judged.action, members, weights),
            interior=judged.interior,
            residual=solution.error,
            converged=judged.solved,
            curvature=torch.linalg.eigvalsh(hessian.nan_to_num())[..., 0],
            certified=judged.solved & self.convex,
            gap=judged.gap if self.convex else torch.full_like(judged.gap, torch.nan),
            infeasible=no,
            unbounded=no,
        )

    @torch.no_grad()
    def _searched(
        self, within: "_Within", expected: Callable[[Tensor, Tensor], Tensor], members: Tensor, solver: object
    ) -> tuple[BarrierSolution, Tensor, "_Judged"]:
        """Where the search ended, the second derivatives there, and the action."""
        if solver is not None and not isinstance(solver, BarrierNewton):
            raise SettingError(f"solver must be a BarrierNewton for this cost, got {solver!r}")
        solution = (solver or BarrierNewton())(
            lambda x: expected(x, members), within.limits, within.start, within.width
        )
        slope, hessian = slope_and_hessian(lambda x: expected(x, members), solution.x)
        return solution, hessian, within.judged(solution, expected(solution.x, members), slope, hessian)

    def violates_convexity(self, samples: Tensor, weights: Tensor | None) -> Tensor:
        """Whether the expected cost of a forecast is seen not to be convex, (...), bool: that it is not proves nothing.

        The curvature at a few actions within the limits is looked at, in all directions.
        """
        within, members = self._within_on(samples.device).at(samples.shape[:-2]), samples.double()
        expected = self._expected(within, weights)
        bent = torch.zeros(samples.shape[:-2], dtype=torch.bool, device=samples.device)
        for x in within.places(_LOOKED_AT):
            hessian = slope_and_hessian(lambda x: expected(x, members), x)[1]
            bent = bent | (~_curves_upwards(hessian) & torch.isfinite(hessian).all(-1).all(-1))
        return bent

    def _expected(self, within: "_Within", weights: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
        """The expected cost (...) of x = a - lower, (..., A), over members (..., M, D)."""
        shares = None if weights is None else weights.movedim(-1, 0).double()

        def expected(x: Tensor, y: Tensor) -> Tensor:
            return mean_of_members(member_costs(self, within.lower + x, y.movedim(-2, 0)), shares, 0)

        return expected

    def _within_on(self, device: torch.device) -> "_Within":
        if device not in self._within:
            self._within[device] = self._within[torch.device("cpu")].to(device)
        return self._within[device]


class _Judged(NamedTuple):
    """An action (..., A), and what is known of it, (...) each."""

    action: Tensor
    gap: Tensor  # by how much another action could cost less at most, if f is convex
    solved: Tensor
    interior: Tensor


@dataclass(frozen=True, eq=False)
class _Within:
    """The limits of each case, of x = a - lower, and a point strictly within them."""

    lower: Tensor  # (..., A)
    width: Tensor  # (..., A)
    limits: LinearLimits
    start: Tensor  # (..., A)

    @classmethod
    def of(cls, cost: ConvexCost) -> "_Within":
        least, most = (parameter_parts(cost, name, cost.parts, torch.device("cpu")) for name in ("lower", "upper"))
        least, most = torch.broadcast_tensors(least, most)
        G, g, E, e = _matrices(cost.limits, cost.parts)
        eye = torch.eye(cost.parts, dtype=torch.float64)
        width = most - least
        C = torch.cat([G, eye, -eye])
        d = joined(g - least @ G.mT, width, torch.zeros_like(width))
        room = (width @ C.abs().mT).clamp(min=1e-300)
        own = LinearLimits(C, d, E, e - least @ E.mT, room)
        start = _middle(own)  # which is refused where equations contradict each other
        return cls(least, width, own._replace(**_independent(own.E, own.e)), start)

    def to(self, device: torch.device) -> "_Within":
        limits = LinearLimits(*(part.to(device) for part in self.limits))
        return _Within(self.lower.to(device), self.width.to(device), limits, self.start.to(device))

    def at(self, cases: torch.Size) -> "_Within":
        """The same for all cases (...)."""

        def spread(value: Tensor) -> Tensor:
            try:
                return value.expand(*cases, value.shape[-1])
            except RuntimeError:
                raise CostError(
                    f"bounds and limits must broadcast to the cases {tuple(cases)}, got {tuple(value.shape[:-1])}"
                ) from None

        C, d, E, e, room = self.limits
        limits = LinearLimits(C, spread(d), E, spread(e), spread(room))
        return _Within(spread(self.lower), spread(self.width), limits, spread(self.start))

    def places(self, count: int) -> list[Tensor]:
        """Some x (..., A) within the limits, spread evenly over the bounds and then drawn to the middle."""
        C, E = self.limits.C, self.limits.E
        shares = torch.quasirandom.SobolEngine(self.width.shape[-1]).fast_forward(1).draw(count, dtype=torch.float64)
        inside = []
        for share in shares.to(self.width.device):
            way = share * self.width - self.start
            if len(E):
                way = way - way @ E.mT @ torch.linalg.pinv(E).mT  # where what is to be equal stays so
            reach = ((way @ C.mT) / self.limits.slack(self.start)).amax(-1, keepdim=True).clamp(min=1.0)
            inside.append(self.start + way / reach)
        return inside

    def judged(self, solution: BarrierSolution, value: Tensor, slope: Tensor, hessian: Tensor) -> "_Judged":
        """The action, and what is known of it."""
        G, g, E, e = self._own
        x, prices = solution.x, solution.price[..., : len(G)]
        left = slope + prices @ G + solution.nu @ E
        least = (left * self.width).clamp(max=0.0).sum(-1) - (prices * g).sum(-1) - (solution.nu * e).sum(-1)
        gap = ((slope * x).sum(-1) - least).clamp(min=0.0)
        small = gap <= _SETTLED * (value.abs() + _SMALL_COST * solution.unit)
        interior = (self.limits.slack(x) / self.limits.room).amin(-1) > BINDS
        solved = small & _curves_upwards(hessian) & torch.isfinite(value)
        action = self.lower + torch.minimum(x.clamp(min=0.0), self.width)
        return _Judged(action, gap, solved, interior)

    def moved(self, solution: BarrierSolution, hessian: Tensor, solved: Tensor, change: Tensor) -> Tensor:
        """How the action moves with the slope, (..., A); it stays where it is not solved."""
        with torch.no_grad():
            slack = torch.maximum(self.limits.slack(solution.x), _KEPT * self.limits.room)
            price = torch.maximum(solution.price, _KEPT * solution.unit[..., None] / self.limits.room)
            sound = solved[..., None]
            safe = torch.where(sound[..., None], hessian, _unit_matrix(hessian))
            system = BarrierSystem(safe, torch.where(sound, price / slack, 1.0), self.limits)
        change = torch.where(sound, change, 0.0)
        return torch.where(sound, system.solve(-change, torch.zeros_like(self.limits.e))[0], 0.0)

    @property
    def _own(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The limits without the bounds."""
        C, d, E, e, _ = self.limits
        count = len(C) - 2 * C.shape[1]
        return C[:count], d[..., :count], E, e


def _independent(E: Tensor, e: Tensor) -> dict[str, Tensor]:  # noqa: N803
    """The same equations without those that repeat others."""
    turned, sizes, _ = torch.linalg.svd(E, full_matrices=False)
    kept = turned[:, sizes > _REPEATED * sizes.amax()] if len(E) else turned
    return {"E": E, "e": e} if kept.shape[1] == len(E) else {"E": kept.mT @ E, "e": e @ kept}


def _curves_upwards(hessian: Tensor) -> Tensor:
    """Whether curvatures (..., A, A) are negative in no direction, but for rounding, (...), bool."""
    rounding = _CONVEX * hessian.abs().amax((-2, -1), keepdim=True) + torch.finfo(hessian.dtype).tiny
    curved: Tensor = torch.linalg.cholesky_ex(hessian + rounding * _unit_matrix(hessian)).info == 0
    return curved


def _unit_matrix(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _matrices(limits: Limits | None, parts: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """G, g, E and e in double precision, empty where there are none."""
    given = () if limits is None else limits
    if not isinstance(given, tuple) or len(given) not in (0, 2, 4):
        raise CostError("limits must be (G, g), for G a <= g, or (G, g, E, e), with E a = e too")
    blank = torch.zeros(0, parts, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    numbers = [torch.as_tensor(each, dtype=torch.float64, device="cpu") for each in given]
    for name, matrix, vector in zip(("G and g", "E and e"), numbers[::2], numbers[1::2], strict=False):
        if matrix.dim() != 2 or matrix.shape[1] != parts or vector.shape[-1:] != matrix.shape[:1]:
            came = f"{tuple(matrix.shape)} and {tuple(vector.shape)}"
            raise ShapeError(f"{name} of limits must have the shapes (K, {parts}) and (..., K), got {came}")
        check_finite(matrix, name, None)
        check_finite(vector, name, None)
    G, g, E, e = (*numbers, *blank, *blank)[:4] if len(numbers) < 4 else numbers
    return G, g, E, e


def _middle(limits: LinearLimits) -> Tensor:
    """The x (..., A) that is farthest from all limits, which are refused where there is none."""
    d, e = joined(limits.d, limits.e).split([limits.d.shape[-1], limits.e.shape[-1]], -1)
    C, parts = limits.C, limits.C.shape[1]
    rows = torch.cat([C, C.norm(dim=1, keepdim=True)], 1)
    last = torch.eye(parts + 1, dtype=torch.float64)[-1]
    program = ScenarioProgram(
        T=torch.zeros(1, parts + 1),
        W=torch.ones(1),
        h_y=torch.zeros(1, 1),
        q=torch.ones(1),
        p=-last,
        G=rows,
        g=d,
        E=torch.nn.functional.pad(limits.E, (0, 1)) if len(limits.E) else None,
        e=e if len(limits.E) else None,
    )
    middle, solution = program.solve(torch.zeros(*d.shape[:-1], 1, 1))
    free = middle[..., -1] > 1e-9 * (d.abs().amax(-1) + 1e-300)
    if known_false(solution.solved.reshape(free.shape) & free):
        raise CostError(
            "limits must leave room between the bounds, but no action lies strictly inside all of them (equalities go "
            "into E and e)"
        )
    return middle[..., :-1]


# A function of action and outcome as a cost


@dataclass(frozen=True)
class FunctionCost:
    """A torch function of action and outcome as a cost; see `cost_function`."""

    function: Callable[[Tensor, Tensor], Tensor]  # f(action, outcome), as in `cost_function`
    lower: Parameter  # the least action that can be taken
    upper: Parameter  # the largest action that can be taken
    convex: bool = False  # whether the author says that the cost is convex in the action

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise CostError(f"function must be callable as f(action, outcome), got {type(self.function).__name__}")
        require_bounds(self.lower, self.upper)
        states_convexity(self)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        if outcome.shape[-1] == 1:
            action, outcome = action.squeeze(-1), outcome.squeeze(-1)
        try:
            return self.function(action, outcome)
        except (RuntimeError, TypeError) as error:
            explain_failure(error)
            raise


def cost_function(
    function: Callable[[Tensor, Tensor], Tensor],
    lower: Parameter,
    upper: Parameter,
    convex: bool = False,
    *,
    limits: Limits | None = None,
    parts: int | None = None,
) -> FunctionCost | ConvexCost:
    """Wrap any torch function f(action, outcome) as a cost on [lower, upper].

    For a vector action, A > 1, give `limits` or `parts`. Then f should be convex in the action and twice
    differentiable: the search starts in the middle of the limits and finds one minimum, and there is no gradient where
    the curvature is negative in some direction.

    Args:
        function: The cost of an action at an outcome, differentiable in both. For a single outcome, D = 1, both
            arguments come without their last axis and f is elementwise; for D > 1 they are action (..., 1) and outcome
            (..., D), and f returns (...). For a vector action they are always action (..., A) and outcome (..., D).
        lower: The smallest feasible action, finite; for a vector action a number, or a tensor whose last axis is A or
            1.
        upper: The largest feasible action, finite and above `lower`; likewise.
        convex: Whether f is convex in the action at every outcome. Certificates rest on this declaration, as no number
            of evaluations can prove it; `solve_action`, `check_cost` and `check_program` raise if they find that it
            does not hold. Without it no action is certified.
        limits: (G, g) for G a <= g, or (G, g, E, e) with E a = e too: matrices (K, A) and (J, A), and right-hand sides
            (..., K) and (..., J). None for bounds alone.
        parts: A; None for the columns of G, or for a scalar action if there are no limits.

    >>> import torch, stakes
    >>> cost = stakes.cost_function(lambda a, y: (a - y) ** 2, lower=0.0, upper=10.0)
    >>> members = torch.tensor([[1.0], [2.0], [6.0]])  # (M, D)
    >>> stakes.optimal_action(cost, members)
    tensor([3.])
    >>> budget = torch.ones(1, 2), torch.tensor([4.0])  # a_1 + a_2 <= 4
    >>> cost = stakes.cost_function(lambda a, y: ((a - y) ** 2).sum(-1), 0.0, 10.0, limits=budget)
    >>> stakes.optimal_action(cost, torch.tensor([[1.0, 4.0], [3.0, 2.0]])).round(decimals=4)
    tensor([1.5000, 2.5000])
    """
    if limits is None and parts is None:
        return FunctionCost(function, lower, upper, convex)
    if parts is None:
        shape = limits[0].shape if isinstance(limits, tuple) and limits and isinstance(limits[0], Tensor) else ()
        if len(shape) != 2:
            raise CostError("limits must be (G, g) with a matrix G, (K, A), for G a <= g")
        parts = int(shape[1])
    return ConvexCost(function, lower, upper, parts, limits, convex)
