"""Actions of many parts for any convex cost: bounds, linear limits, and a function that is twice differentiable.

The certificate is the gap of Frank and Wolfe, the most that the slope of the expected cost f could promise,

    f(a) - f(s) <= f'(a)'(a - s)   for every action s,   so   gap = f'(a)'a - min over s of f'(a)'s,

and the linear program in it is bounded by its dual: with prices of the limits G s <= g and E s = e, and what the slope
and they leave, r = f' + G'price + E'nu, no s between the bounds has f's below sum_i min(r_i lower_i, r_i upper_i) -
price'g - nu'e. The gradient follows from the conditions of a minimum, with the linear system of the last step. The
certificate rests on f being convex, which is its author's word: some points that are looked at may refute it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from stakes.errors import CostError, SettingError, ShapeError
from stakes.method.argument_checks import check_finite, known_false, require_count
from stakes.method.barrier_newton import BarrierNewton, BarrierSolution, BarrierSystem, LinearLimits
from stakes.method.costs import Parameter, refuse_numpy, require_bounds, states_convexity
from stakes.method.derivatives import slope_and_hessian
from stakes.method.member_weights import mean_of_members
from stakes.method.part_costs import parameter_parts
from stakes.method.program_actions import BINDS, ProgramAction
from stakes.method.program_checks import warn_of_parameters
from stakes.method.programs import ScenarioProgram

__all__ = ["ConvexCost", "Limits"]

Limits = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, Tensor]
"""(G, g) for G a <= g, or (G, g, E, e) with E a = e besides: (K, A), (..., K), (J, A) and (..., J)."""

_SETTLED, _SMALL_COST = 1e-7, 1e-5  # the largest gap over the cost, and what of the case's unit counts as cost besides
_CONVEX = 1e-8  # how negative a curvature may be by rounding, as a share of the largest
_LOOKED_AT = 8  # actions whose curvature may refute that a cost is convex
_REPEATED = 1e-12  # how little an equation may add to others, as a share of the largest
_KEPT = 1e-9  # the least slack and price, in units of the case, that a gradient is taken at


@dataclass(frozen=True, eq=False)
class ConvexCost:
    """A torch function of an action with many parts, meant to be convex in it, as a cost; see `cost_function`.

    Attributes:
        function: f(action, outcome), as in `cost_function`.
        lower: The least that each part may be, a number or (..., A).
        upper: The most that each part may be, a number or (..., A).
        parts: A, how many parts an action has.
        limits: (G, g) for G a <= g, or (G, g, E, e) with E a = e besides; None for bounds alone.
        convex: Whether the author says that the cost is convex in the action; without this word nothing is certified.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    lower: Parameter
    upper: Parameter
    parts: int
    limits: Limits | None = None
    convex: bool = False
    _within: "dict[torch.device, _Within]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise CostError(f"function must be callable as f(action, outcome), got {type(self.function).__name__}")
        require_count("parts", self.parts, 2)
        require_bounds(self.lower, self.upper)
        states_convexity(self)
        object.__setattr__(self, "_within", {torch.device("cpu"): _Within.of(self)})

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each action, (...).

        Args:
            action: Actions (..., A).
            outcome: Outcomes (..., D) that broadcast against them.
        """
        try:
            return self.function(action, outcome)
        except (RuntimeError, TypeError, IndexError) as error:
            refuse_numpy(error)
            parts, outcomes = action.shape[-1], outcome.shape[-1]
            if isinstance(error, TypeError) or parts == outcomes:
                raise
            raise ShapeError(
                f"the function fails for an action of {parts} parts and {outcomes} outcomes, action "
                f"{tuple(action.shape)} and outcome {tuple(outcome.shape)}: {error}"
            ) from error

    def find_action(
        self, samples: Tensor, weights: Tensor | None, solver: object = None, *, gradient: bool = False
    ) -> ProgramAction:
        """The best action of each forecast.

        Args:
            samples: Members (..., M, D).
            weights: What each member weighs, (..., M); None where all count alike.
            solver: A `BarrierNewton`; None for the default one.
            gradient: Whether actions are to be differentiable in the members.
        """
        if solver is not None and not isinstance(solver, BarrierNewton):
            raise SettingError(f"solver must be a BarrierNewton for this cost, got {solver!r}")
        if gradient:
            limits = {f"limits[{place}]": number for place, number in enumerate(self.limits or ())}
            warn_of_parameters({"lower": self.lower, "upper": self.upper, **limits})
        within, members = self._within_on(samples.device).at(samples.shape[:-2]), samples.double()
        expected = self._expected(within, weights)
        with torch.no_grad():
            fixed = members.detach()
            solution = (solver or BarrierNewton())(
                lambda x: expected(x, fixed), within.limits, within.start, within.width
            )
            slope, hessian = slope_and_hessian(lambda x: expected(x, fixed), solution.x)
            value = expected(solution.x, fixed)
            best = within.judged(solution, value, slope, hessian)
            if not gradient:  # on an accelerator eigenvalues make the host wait
                return best._replace(curvature=torch.linalg.eigvalsh(hessian.nan_to_num())[..., 0])
        moves = torch.func.grad(lambda x: expected(x, members).sum())(solution.x)
        moved = within.moved(solution, hessian, best.solved, moves - moves.detach())
        return best._replace(action=best.action + moved)

    def seen_bent(self, samples: Tensor, weights: Tensor | None) -> Tensor:
        """Whether the expected cost of a forecast is seen not to be convex, (...), bool: that it is not proves nothing.

        The curvature at a few actions within the limits is looked at, in all directions.

        Args:
            samples: Members (..., M, D).
            weights: What each member weighs, (..., M); None where all count alike.
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
            return mean_of_members(self._member_costs(within.lower + x, y.movedim(-2, 0)), shares, 0)

        return expected

    def _within_on(self, device: torch.device) -> "_Within":
        if device not in self._within:
            self._within[device] = self._within[torch.device("cpu")].to(device)
        return self._within[device]

    def _member_costs(self, action: Tensor, members: Tensor) -> Tensor:
        costs, shape = self(action, members), members.shape[:-1]
        if not isinstance(costs, Tensor) or costs.shape != shape:
            came = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
            raise ShapeError(
                f"the function must return a tensor of shape {tuple(shape)} for action {tuple(action.shape)} and "
                f"outcome {tuple(members.shape)}, got {came}"
            )
        return costs


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
        G, g, E, e = _matrices(cost.limits, cost.parts)  # noqa: N806
        eye = torch.eye(cost.parts, dtype=torch.float64)
        width = most - least
        C = torch.cat([G, eye, -eye])  # noqa: N806
        d = torch.cat(_alike(g - least @ G.mT, width, torch.zeros_like(width)), -1)
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

        C, d, E, e, room = self.limits  # noqa: N806
        limits = LinearLimits(C, spread(d), E, spread(e), spread(room))
        return _Within(spread(self.lower), spread(self.width), limits, spread(self.start))

    def places(self, count: int) -> list[Tensor]:
        """Some x (..., A) within the limits, spread evenly over the bounds and then drawn to the middle."""
        C, E = self.limits.C, self.limits.E  # noqa: N806
        shares = torch.quasirandom.SobolEngine(self.width.shape[-1]).fast_forward(1).draw(count, dtype=torch.float64)
        inside = []
        for share in shares.to(self.width.device):
            way = share * self.width - self.start
            if len(E):
                way = way - way @ E.mT @ torch.linalg.pinv(E).mT  # where what is to be equal stays so
            reach = ((way @ C.mT) / self.limits.slack(self.start)).amax(-1, keepdim=True).clamp(min=1.0)
            inside.append(self.start + way / reach)
        return inside

    def judged(self, solution: BarrierSolution, value: Tensor, slope: Tensor, hessian: Tensor) -> ProgramAction:
        """The action with its certificate."""
        G, g, E, e = self._own  # noqa: N806
        x, prices = solution.x, solution.price[..., : len(G)]
        left = slope + prices @ G + solution.nu @ E
        least = (left * self.width).clamp(max=0.0).sum(-1) - (prices * g).sum(-1) - (solution.nu * e).sum(-1)
        gap = ((slope * x).sum(-1) - least).clamp(min=0.0)
        small = gap <= _SETTLED * (value.abs() + _SMALL_COST * solution.unit)
        interior = (self.limits.slack(x) / self.limits.room).amin(-1) > BINDS
        solved = small & _curves_upwards(hessian) & torch.isfinite(value)
        action = self.lower + torch.minimum(x.clamp(min=0.0), self.width)
        unknown, no = torch.full_like(gap, torch.nan), torch.zeros_like(solved)
        return ProgramAction(action, gap, solution.error, solved, interior, unknown, no, no)

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
        C, d, E, e, _ = self.limits  # noqa: N806
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
        raise CostError("limits must be (G, g), for G a <= g, or (G, g, E, e), with E a = e besides")
    blank = torch.zeros(0, parts, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    numbers = [torch.as_tensor(each, dtype=torch.float64, device="cpu") for each in given]
    for name, matrix, vector in zip(("G and g", "E and e"), numbers[::2], numbers[1::2], strict=False):
        if matrix.dim() != 2 or matrix.shape[1] != parts or vector.shape[-1:] != matrix.shape[:1]:
            came = f"{tuple(matrix.shape)} and {tuple(vector.shape)}"
            raise ShapeError(f"{name} of limits must have the shapes (K, {parts}) and (..., K), got {came}")
        check_finite(matrix, name, None)
        check_finite(vector, name, None)
    G, g, E, e = (*numbers, *blank, *blank)[:4] if len(numbers) < 4 else numbers  # noqa: N806
    return G, g, E, e


def _alike(*vectors: Tensor) -> list[Tensor]:
    """Vectors (..., n), each for all cases that another has."""
    cases = torch.broadcast_shapes(*(vector.shape[:-1] for vector in vectors))
    return [vector.expand(*cases, vector.shape[-1]) for vector in vectors]


def _middle(limits: LinearLimits) -> Tensor:
    """The x (..., A) that is farthest from all limits, which are refused where there is none."""
    d, e = _alike(limits.d, limits.e)
    C, parts = limits.C, limits.C.shape[1]  # noqa: N806
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
            "limits must leave room between the bounds: no action meets them all, or only at an edge of each (what is "
            "to be equal goes into E and e)"
        )
    return middle[..., :-1]
