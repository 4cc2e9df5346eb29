"""Vector decisions as scenario programs: their matrices, their best action and its gradient."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from stakes.argument_checks import check_finite, check_samples, known_false, known_on_host, shown_numbers
from stakes.costs.cost import ActionSolution, Cost, VectorCost, part_names, unwrapped
from stakes.costs.member_weights import broadcasts_to, counted, mean_cost, mean_of_members, relative_weights
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError, StakesWarning
from stakes.programs.interior_point import (
    InteriorPoint,
    Iterate,
    Products,
    ProgramSolution,
    Residuals,
    ScenarioData,
    StepSystem,
    beside,
    either,
    in_units_of,
    largest,
    limited,
    recourse_alone,
    residuals_of,
    scaled,
    start_of,
    system_at,
    tidied,
    towards,
)
from stakes.programs.recourse import Recourse, split

BINDS = 1e-6
"""The distance from a limit, relative to the action, up to which it binds."""

_ROUNDING = 1e-9  # of the largest number of a matrix


def require_meaning(numbers: Mapping[str, Tensor | None]) -> None:
    """Raise where a number would be passed over or give a wrong action; on an accelerator nothing is looked at."""
    diagonal = numbers["W"]
    if diagonal is None or diagonal.device.type != "cpu":
        return
    for name in ("g", "upper", "lower"):
        value = numbers.get(name)
        if value is not None and known_false((-value if name == "lower" else value) > -torch.inf):
            none = "infinity" if name == "lower" else "minus infinity"
            raise NonFiniteError(f"{name} must not be NaN or {none}, got {shown_numbers(value)}")
    if diagonal.dim() == 1 and known_false(diagonal > 0):
        raise CostError(f"W must be positive if given as a diagonal, got {shown_numbers(diagonal)}")
    for name in ("P", "Q"):
        matrix = numbers.get(name)
        if matrix is not None:
            _require_curvature(name, torch.diag(matrix) if matrix.dim() == 1 else matrix)


def warn_of_parameters(numbers: Mapping[str, object]) -> None:
    """Say so where a number of a cost has a gradient: solved actions are differentiable in the members alone."""
    names = [name for name, value in numbers.items() if isinstance(value, Tensor) and value.requires_grad]
    if names:
        warnings.warn(
            f"the action has no gradient with respect to the parameters of this cost ({', '.join(names)}): solved "
            "actions are differentiable in the members only",
            StakesWarning,
            stacklevel=2,
        )


def _require_curvature(name: str, matrix: Tensor) -> None:
    """Raise unless a matrix (..., n, n) is symmetric and positive semidefinite, but for rounding."""
    size = _ROUNDING * matrix.abs().amax((-2, -1), keepdim=True)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    if known_false((matrix - matrix.mT).abs() <= size):
        raise CostError(f"{name} must be symmetric")
    others = matrix - torch.diag_embed(diagonal)
    if not known_false(others == 0):
        convex: Tensor = diagonal >= -size[..., 0]
    else:
        convex = (
            torch.linalg.cholesky_ex(matrix + torch.diag_embed((size + 1e-300)[..., 0].expand_as(diagonal))).info == 0
        )
    if known_false(convex):
        raise CostError(f"{name} must be positive semidefinite, or the cost is not convex")


_MET = 1e-9  # a row that asks for less than that, of what it is made of, is met: an action is known no better


class SolvedProgram(NamedTuple):
    """The best actions of a batch of cases (...)."""

    action: Tensor
    solution: ProgramSolution  # all that the solver says, with the cases in one axis (B,)


@dataclass(frozen=True, eq=False)
class ScenarioProgram:
    """A two-stage program: an action a (A parts), outcomes y (D), and a recourse z (Z parts) in R rows per member.

        minimise over a:  1/2 a'P a + (p + p_y E y)'a + E min_z [1/2 z'Q z + (q + q_y y)'z]
        subject to        T a + W z >= h + h_y y, z >= 0;  G a <= g, E a = e, lower <= a <= upper

    Vectors may have batch axes (...), one entry per case; matrices are shared by all cases, except P and p_y. None
    means zero, or no limit.

    Attributes:
        T: The action in the rows of the recourse, (R, A).
        W: The recourse in its rows: (R, Z), or (R,) if diagonal.
        h_y: The outcome in the rows, (R, D).
        h: The constant of the rows, (..., R).
        q: The price of the recourse, (..., Z).
        q_y: Its dependence on the outcome, (Z, D).
        Q: The curvature of the recourse cost, positive semidefinite: (Z, Z), or (Z,) if diagonal.
        p: The price of the action, (..., A).
        p_y: Its dependence on the mean outcome, (..., A, D).
        P: The curvature of the action's cost, (..., A, A), positive semidefinite.
        G: Inequality constraints of the action, (K, A).
        g: Their right-hand sides, (..., K).
        E: Equality constraints of the action, (J, A).
        e: Their right-hand sides, (..., J).
        lower: Lower bounds of the action, (..., A).
        upper: Upper bounds of the action, (..., A).
    """

    T: Tensor
    W: Tensor
    h_y: Tensor
    q: Tensor
    h: Tensor | None = None
    q_y: Tensor | None = None
    Q: Tensor | None = None
    p: Tensor | None = None
    p_y: Tensor | None = None
    P: Tensor | None = None
    G: Tensor | None = None
    g: Tensor | None = None
    E: Tensor | None = None
    e: Tensor | None = None
    lower: Tensor | None = None
    upper: Tensor | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if (value := getattr(self, field.name)) is not None:
                object.__setattr__(self, field.name, torch.as_tensor(value, dtype=torch.float64))
        self._require_shapes()
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name not in ("g", "lower", "upper"):
                check_finite(value, field.name)
        require_meaning(vars(self))

    @property
    def parts(self) -> int:
        """A, how many parts an action has."""
        return self.T.shape[1]

    @property
    def outcomes(self) -> int:
        """D, how many outcomes a case has."""
        return self.h_y.shape[1]

    @property
    def limit_rows(self) -> Tensor:
        """The coefficients of the L limits, (L, A): the rows of G, then the upper and the lower bounds."""
        eye = torch.eye(self.parts, dtype=torch.float64, device=self.T.device)
        rows = ((self.G, self.G), (self.upper, eye), (self.lower, -eye))
        return torch.cat([eye[:0], *(row for limit, row in rows if limit is not None and row is not None)])

    @property
    def limit_sizes(self) -> Tensor:
        """The largest coefficient of each limit, (L,), which scales it before solving."""
        return _size_of_rows(self.limit_rows)

    @property
    def least_curvature(self) -> Tensor:
        """The smallest curvature of the action's own cost in any direction, (...)."""
        return self.T.new_zeros(()) if self.P is None else torch.linalg.eigvalsh(self.P)[..., 0]

    @cached_property
    def recourse(self) -> Recourse:
        """Q, W and T, in groups of rows where they fall apart."""
        with torch.inference_mode(False), torch.no_grad():  # it is kept, for training too
            Q = self.Q if self.Q is not None else self.T.new_zeros(self.W.shape[-1])
            return split(Recourse(Q, self.W, self.T))

    def to(self, device: torch.device | None) -> "ScenarioProgram":
        """The same program on another device.

        Args:
            device: The device; None for the current one.
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        moved = type(self)(**{name: value.to(device) for name, value in values.items() if value is not None})
        vars(moved)["recourse"] = self.recourse.to(device)  # whose groups are seen where numbers may be looked at
        return moved

    def solve(
        self,
        samples: Tensor,
        weights: Tensor | None = None,
        solver: InteriorPoint | None = None,
        *,
        gradient: bool = False,
        places: Tensor | None = None,
    ) -> SolvedProgram:
        """The best action of each forecast.

        Args:
            samples: Members (..., M, D).
            weights: Weight of each member, (..., M); only ratios matter. None for equal weights.
            solver: How to solve the program; None for `InteriorPoint()`.
            gradient: Whether the actions are differentiable in the members; unsolved ones have no gradient.
            places: The cases to solve, (n,), indices into the flattened batch; None for all.
        """
        if samples.shape[-1] != self.outcomes:
            raise ShapeError(f"samples must have {self.outcomes} outcomes, got shape {tuple(samples.shape)}")
        cases, double = samples.shape[:-2], samples.double()
        if gradient:
            warn_of_parameters(vars(self))
        with torch.no_grad():
            data = self.data(double.detach(), weights)
            data = data if places is None else data.rows(places)
            solver = solver or InteriorPoint()
            solution = solver.solve(data)
        action = solution.iterate.a
        if gradient:
            change = (double - double.detach()).reshape(cases.numel(), *samples.shape[-2:])
            p_y = self._batch(self.p_y, cases, 2)
            if places is not None:
                change, p_y = change[places], p_y if p_y is None or len(p_y) == 1 else p_y[places]
            action = action + self._moved(data, solution, solver.smoothing, change, p_y)
        else:
            action = torch.where(
                solution.solved[:, None], tidied(data, action, solution.iterate.price, solver.tolerance), action
            )
        return SolvedProgram(action if places is not None else action.reshape(*cases, self.parts), solution)

    def data(self, samples: Tensor, weights: Tensor | None = None) -> ScenarioData:
        """The programs of a batch of forecasts, with the batch flattened.

        Args:
            samples: Members (..., M, D).
            weights: Weight of each member, (..., M); None for equal weights.
        """
        *cases, members, width = samples.shape
        shape = torch.Size(cases)
        y = samples.reshape(-1, members, width)
        shares = y.new_ones(len(y), members) if weights is None else weights.double().expand(*cases, members)
        shares = shares.reshape(-1, members) / shares.reshape(-1, members).sum(-1, keepdim=True)
        y = counted(y, None if weights is None else shares)
        mean = (shares[:, None] @ y)[:, 0]
        p = self._vector("p", shape, self.parts) + _by_outcome(self._batch(self.p_y, shape, 2), mean)
        q = self._vector("q", shape, self.recourse.parts)[:, None]
        q = q if self.q_y is None else q + y @ self.q_y.mT
        h = self._vector("h", shape, self.recourse.rows)[:, None] + y @ self.h_y.mT
        C, d = self._limits(shape)
        E = y.new_zeros(0, self.parts) if self.E is None else self.E
        each = _size_of_rows(E)
        P = self._batch(self.P, shape, 2)
        return ScenarioData(
            P=y.new_zeros(1, self.parts, self.parts) if P is None else P,
            p=p.expand(len(y), -1),
            C=C,
            d=d,
            E=E / each[:, None],
            e=self._vector("e", shape, len(E)) / each,
            recourse=self.recourse,
            q=q,
            h=h,
            weights=shares,
            curvature=y.new_ones(len(y), 1, 1),
        )

    def unit(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        """The scale of actions in each case, (...): what could meet the recourse rows, or else the smallest limit.

        Args:
            samples: Members (..., M, D).
            weights: Weight of each member, (..., M); None for equal weights.
        """
        sizes, cases = samples.detach().double().abs(), samples.shape[:-2]
        most = (sizes if weights is None else torch.where(weights[..., None] > 0, sizes, 0.0)).amax(-2)
        asked = most @ self.h_y.abs().mT + self._vector("h", cases, len(self.T)).abs().reshape(*cases, len(self.T))
        does = self.T.abs().amax(-1)
        met = torch.where(does > 0, asked / torch.where(does > 0, does, 1.0), 0.0).amax(-1)
        C, d = self._limits(cases)
        allowed = torch.where(d != 0, d.abs(), torch.inf).reshape(*cases, len(C))
        least = torch.cat([allowed, torch.full_like(met, torch.inf)[..., None]], -1).amin(-1)
        return torch.where(met > 0, met, torch.where(least < torch.inf, least, 0.0))

    def slack(self, action: Tensor, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        """The distance of each action from each of its L limits, relative to its size, (..., L): G, upper, lower.

        Args:
            action: Actions (..., A).
            samples: Members (..., M, D), which set the scale.
            weights: Weight of each member, (..., M); None for equal weights.
        """
        C, d = self._limits(samples.shape[:-2])
        flat, unit = action.reshape(-1, self.parts), self.unit(samples, weights).reshape(-1, 1)
        size = torch.maximum(flat.abs().amax(-1, keepdim=True), unit).clamp(min=torch.finfo(flat.dtype).tiny)
        return ((d - flat @ C.mT) / size).reshape(*action.shape[:-1], len(C))

    def is_interior(self, action: Tensor, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        """Whether no limit of an action binds, (...), bool.

        Args:
            action: Actions (..., A).
            samples: Members (..., M, D), which set the scale.
            weights: Weight of each member, (..., M); None for equal weights.
        """
        return (self.slack(action, samples, weights) > BINDS).all(-1)

    def recourse_cost(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of the best recourse, (...), differentiable; infinite if there is none, -infinite if unbounded.

        Args:
            action: Actions (..., A).
            outcome: Outcomes (..., D).
        """
        asked = outcome.double() @ self.h_y.mT - action.double() @ self.T.mT  # (..., R)
        price = self.q if self.q_y is None else self.q + outcome.double() @ self.q_y.mT
        asked = asked if self.h is None else asked + self.h
        recourse = self.recourse
        if recourse.simple:
            least = (asked / recourse.W).clamp(min=0.0)
            curved = recourse.Q > 0
            own = torch.where(curved, -price / torch.where(curved, recourse.Q, 1.0), 0.0)
            z = torch.maximum(least, own)
            endless = (~curved & (price < 0)).any(-1)
            return torch.where(endless, -torch.inf, ((0.5 * recourse.Q * z + price) * z).sum(-1))
        size = outcome.double().abs() @ self.h_y.abs().mT + action.double().abs() @ self.T.abs().mT
        met = (asked > 0) & (asked <= _MET * size)
        asked = torch.where(met, asked - asked.detach(), asked)
        cases = asked.shape[:-1]
        price = price.expand(*cases, recourse.parts)
        with torch.no_grad():
            solution = InteriorPoint().solve(recourse_alone(recourse, price.detach(), asked.detach()))
        z, mu = (part[:, 0].reshape(*cases, part.shape[-1]) for part in (solution.iterate.z, solution.iterate.mu))
        value = torch.where(solution.unbounded, -torch.inf, torch.where(solution.solved, solution.objective, torch.inf))
        value = value.reshape(cases)
        return value + ((price - price.detach()) * z).sum(-1) + ((asked - asked.detach()) * mu).sum(-1)

    def own_cost(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of the action itself, 1/2 a'Pa + p(y)'a, (...).

        Args:
            action: Actions (..., A).
            outcome: Outcomes (..., D).
        """
        a, y = action.double(), outcome.double()
        slope = a.new_zeros(()) if self.p is None else self.p
        slope = slope if self.p_y is None else slope + (self.p_y @ y[..., None])[..., 0]
        bent = a.new_zeros(()) if self.P is None else 0.5 * (self.P @ a[..., None])[..., 0]
        return ((slope + bent) * a).sum(-1)

    def _moved(
        self,
        data: ScenarioData,
        solution: ProgramSolution,
        smoothing: float | None,
        change: Tensor,
        p_y: Tensor | None,
    ) -> Tensor:
        """How the action moves with the members (B, M, D), (B, A)."""
        prices = None if self.q_y is None else change @ self.q_y.mT
        slope = None if p_y is None else (p_y @ (data.weights[:, None] @ change).mT)[..., 0]
        return implicit_change(data, solution, change @ self.h_y.mT, prices, slope, smoothing)

    def _limits(self, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """All limits C a <= d, the bounds among them, each over the largest number of its row."""
        allowed = [self.T.new_zeros(shape.numel(), 0)]
        if self.G is not None:
            allowed.append(self._vector("g", shape, len(self.G)))
        if self.upper is not None:
            allowed.append(self._vector("upper", shape, self.parts))
        if self.lower is not None:
            allowed.append(-self._vector("lower", shape, self.parts))
        size = self.limit_sizes
        return self.limit_rows / size[:, None], torch.cat(allowed, -1) / size

    def _vector(self, name: str, shape: torch.Size, size: int) -> Tensor:
        """A vector of each case, (B, size); zeros where there is none."""
        value = getattr(self, name)
        value = self.T.new_zeros(size) if value is None else value
        _require_batch(name, value.shape[:-1], shape)
        return value.expand(*shape, size).reshape(shape.numel(), size)

    def _batch(self, value: Tensor | None, shape: torch.Size, axes: int) -> Tensor | None:
        """A matrix of each case, (B, ...), or (1, ...) where all share it."""
        if value is None or value.dim() == axes:
            return None if value is None else value[None]
        own = value.shape[-axes:]
        _require_batch("P and p_y", value.shape[:-axes], shape)
        return value.expand(*shape, *own).reshape(-1, *own)

    def _require_shapes(self) -> None:
        A, R, D = self.T.shape[-1], self.T.shape[0], self.h_y.shape[-1]
        Z = self.W.shape[-1]
        K, J = (0 if each is None else len(each) for each in (self.G, self.E))
        expected: dict[str, tuple[int, ...]] = {
            "T": (R, A), "h_y": (R, D), "q": (Z,), "h": (R,), "q_y": (Z, D), "p": (A,), "p_y": (A, D), "P": (A, A),
            "G": (K, A), "g": (K,), "E": (J, A), "e": (J,), "lower": (A,), "upper": (A,),
        }  # fmt: skip
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and tuple(value.shape[-len(shape) :]) != shape:
                raise ShapeError(f"{name} must end in the shape {shape}, got {tuple(value.shape)}")
        if self.W.dim() not in (1, 2) or self.W.shape[0] != R:
            raise ShapeError(f"W must have the shape ({R},) or ({R}, Z), got {tuple(self.W.shape)}")
        if self.Q is not None and tuple(self.Q.shape) not in ((Z,), (Z, Z)):
            raise ShapeError(f"Q must have the shape ({Z},) or ({Z}, {Z}), got {tuple(self.Q.shape)}")
        for matrix, vector in (("G", "g"), ("E", "e")):
            if (getattr(self, matrix) is None) != (getattr(self, vector) is None):
                raise CostError(f"{matrix} and {vector} must be given together")


def _require_batch(name: str, batch: torch.Size, cases: torch.Size) -> None:
    if not broadcasts_to(batch, cases):
        raise CostError(f"{name} must broadcast to the cases {tuple(cases)}, got {tuple(batch)} before its own axes")


def _size_of_rows(rows: Tensor) -> Tensor:
    """The largest number of each row, (L,); 1 of one that has none."""
    size = rows.abs().amax(-1)
    return torch.where(size > 0, size, 1.0)


def _by_outcome(matrix: Tensor | None, mean: Tensor) -> Tensor | float:
    return 0.0 if matrix is None else (matrix @ mean[..., None])[..., 0]


class ProgramCost(VectorCost):
    """A cost whose best action is that of a scenario program."""

    is_program: ClassVar[bool] = True

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        """The matrices of the program for so many outcomes."""
        raise NotImplementedError

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each action, (...), with the best recourse; infinite where there is none."""
        program = self.program(outcome.shape[-1], outcome.device)
        cost = program.own_cost(action, outcome) + program.recourse_cost(action, outcome) + self.fixed_cost(outcome)
        return cost.to(torch.promote_types(action.dtype, outcome.dtype))

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        """What no action changes of the cost, beside that of the program, (...)."""
        raise NotImplementedError

    def require_linear_recourse(self, outcomes: int) -> None:
        """Raise, in the words of the cost, where squares of the recourse cost anything."""

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """For each limit G a <= g the parameter that it is of, and where it holds."""
        rows = self.program(len(outcomes)).G
        return tuple(("limit", str(row)) for row in range(1, 1 + (0 if rows is None else len(rows))))

    def part_count(self, outcomes: int) -> int:
        return self.program(outcomes).parts

    def unit(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        return self.program(samples.shape[-1], samples.device).unit(samples, weights)

    def best_action(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> Tensor:
        program = self.program(samples.shape[-1], samples.device)
        return program.solve(samples, weights, required_interior_point(solver), gradient=True).action

    def solve(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> ActionSolution:
        program = self.program(samples.shape[-1], samples.device)
        action, solution = program.solve(samples, weights, required_interior_point(solver))
        cases, members = samples.shape[:-2], samples.double().movedim(-2, 0)
        shares = None if weights is None else weights.movedim(-1, 0)
        if known_on_host(solution.solved.all()):
            value = solution.objective.reshape(cases) + mean_of_members(self.fixed_cost(members), shares, 0)
        else:
            value = mean_cost(self, action, samples.double(), weights)
        return certified(program, action, value, solution, program.is_interior(action, samples, weights))

    def centred(self, samples: Tensor, weights: Tensor | None = None) -> tuple[Self, Tensor, Tensor | float]:
        """The same decision about members nearer to zero, these members, and how far they were moved, (..., 1)."""
        return self, samples, 0.0


def certified(
    program: ScenarioProgram, action: Tensor, value: Tensor, solution: ProgramSolution, interior: Tensor
) -> ActionSolution:
    """Actions (..., A) and their expected cost (...), with what the solver says of them."""
    names = ("residual", "solved", "gap", "infeasible", "unbounded")
    residual, solved, gap, infeasible, unbounded = (getattr(solution, name).reshape(value.shape) for name in names)
    curvature = program.least_curvature.expand(value.shape)
    return ActionSolution(action, value, interior, residual, solved, curvature, solved, gap, infeasible, unbounded)


def required_interior_point(solver: object) -> InteriorPoint | None:
    """The solver, which must be one for programs; None for the default one."""
    if solver is not None and not isinstance(solver, InteriorPoint):
        raise SettingError(f"solver must be an InteriorPoint for this cost, got {solver!r}")
    return solver


def program_cost(cost: object) -> ProgramCost | None:
    """The cost as one whose best action is that of a scenario program; None where it is not."""
    inner = unwrapped(cost)
    return inner if isinstance(inner, ProgramCost) else None


# How a solution moves with its data, by the implicit function theorem

_STEPS = 40
_REACHED = 1e-8  # the largest residual, and share of the smoothing by which a product may be off


class CentralPoint(NamedTuple):
    """A point of the central path of each of B programs."""

    iterate: Iterate  # the action, slacks and prices, in the units of the programs
    reached: Tensor  # whether the search has come to the point, (B,), bool; not where limits contradict each other


def central_point(data: ScenarioData, smoothing: float) -> CentralPoint:
    """The point where every slack times its price is the smoothing, in units of the case; none depends on another."""
    even, units = scaled(data)
    x = start_of(even)
    for step in range(_STEPS + 1):
        residuals = residuals_of(even, x)
        off = Products(limited(even, x.s * x.price - smoothing), x.v * x.mu - smoothing, x.z * x.zeta - smoothing)
        reached = (largest(*residuals) <= _REACHED) & (largest(*off) <= _REACHED * smoothing)
        if step == _STEPS or known_on_host(reached.all()):
            break
        x = either(reached, x, towards(even, x, residuals, off))
    return CentralPoint(in_units_of(units, x), reached)


_FLAT = 1e-6  # a curvature that small, in the units of a case, is none


def implicit_change(
    data: ScenarioData,
    solution: ProgramSolution,
    rows: Tensor,
    prices: Tensor | None,
    slope: Tensor | None,
    smoothing: float | None = None,
) -> Tensor:
    """How the action moves, (B, A), differentiable in the changes; it stays where a case is not solved."""
    system, known = _system(data, solution, smoothing)
    moves = known & ~_flat(data, system)
    nothing = Iterate(*map(torch.zeros_like, system.x))
    residuals = Residuals(
        a=nothing.a if slope is None else _where(moves, slope),
        c=nothing.s,
        e=torch.zeros_like(data.e),
        z=nothing.z if prices is None else _where(moves, prices),
        v=-_where(known, rows),
    )
    return _where(known, system.step(residuals, Products(nothing.s, nothing.v, nothing.z)).a)


def _where(chosen: Tensor, values: Tensor) -> Tensor:
    """The values of the chosen cases, zero elsewhere."""
    return torch.where(beside(chosen, values), values, 0.0)


@torch.no_grad()
def _system(data: ScenarioData, solution: ProgramSolution, smoothing: float | None) -> tuple[StepSystem, Tensor]:
    """The linear system of the gradient, and which cases have one, (B,)."""
    if smoothing is None:
        return system_at(data, solution), solution.solved
    centre = central_point(data, smoothing)
    parts = (torch.where(beside(centre.reached, part), part, 1.0) for part in centre.iterate)
    return StepSystem(data, Iterate(*parts)), solution.solved & centre.reached


@torch.no_grad()
def _flat(data: ScenarioData, system: StepSystem) -> Tensor:
    """Whether actions beside the best cost the same, (B,): no price, however little it changes, moves it a little."""
    action, cost = scaled(data)[1]
    return system.flat(_FLAT * cost / action)


# What limits are worth


class LimitPrices(NamedTuple):
    """The L limits at the best action of each case (...).

    Attributes:
        kinds: The parameter behind each limit, such as "ramp", "budget", "upper" or "lower", (L,).
        places: Where it applies, such as the name of a part, (L,).
        parts: The parts of the action it involves, counted from 0, (L,).
        binds: Whether the best action is at the limit, (..., L), bool.
        price: The fall of the expected cost per unit by which the limit is relaxed, in the cost's unit per unit of the
            action, (..., L): 0 where it does not bind, NaN where the program was not solved.
    """

    kinds: tuple[str, ...]
    places: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...]
    binds: Tensor
    price: Tensor

    def saved_by(self) -> dict[str, Tensor]:
        """The saving from one unit more of each parameter, everywhere at once, (...), by its name."""
        chosen = {kind: [own == kind for own in self.kinds] for kind in dict.fromkeys(self.kinds)}
        return {kind: self.price[..., torch.tensor(which)].sum(-1) for kind, which in chosen.items()}


def limit_prices(
    cost: Cost,
    samples: Tensor,
    outcomes: Sequence[str] | None = None,
    *,
    weights: Tensor | None = None,
    solver: InteriorPoint | None = None,
) -> LimitPrices:
    """Which limits bind at the best action, and their shadow prices.

    A price holds for small changes: it is the slope of the expected cost, and falls as the limit is relaxed.

    >>> import torch, stakes
    >>> members = torch.tensor([[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]])  # one case, three members, D = 2
    >>> limits = limit_prices(stakes.AllocationCost(short=3.0, long=1.0, budget=6.5), members, ["north", "south"])
    >>> limits.kinds[0], limits.binds[0, 0].item(), round(limits.price[0, 0].item(), 3)
    ('budget', True, 1.667)

    Args:
        cost: A risk-neutral program, such as `ScheduleCost`.
        samples: Members (..., M, D) of each forecast.
        outcomes: The names of the D outcomes; None numbers them.
        weights: Weight of each member, (..., M) or (M,); None for equal weights.
        solver: How to solve the program; None for `InteriorPoint()`.
    """
    if (stated := program_cost(cost)) is None:
        raise CostError(f"cost must be a risk-neutral program, such as ScheduleCost, got {type(cost).__name__}")
    check_samples(samples)
    names = [str(place) for place in range(1, samples.shape[-1] + 1)] if outcomes is None else list(outcomes)
    if len(names) != samples.shape[-1]:
        raise ShapeError(f"outcomes must name each of {samples.shape[-1]} outcomes, got {len(names)} names")
    program = stated.program(samples.shape[-1], samples.device)
    with torch.no_grad():
        shares = relative_weights(weights, samples)
        action, solution = program.solve(samples, shares, solver)
        left = program.slack(action, samples, shares)
    binds = left <= BINDS
    price = solution.iterate.price.reshape(left.shape) / program.limit_sizes
    solved = solution.solved.reshape(left.shape[:-1])[..., None]
    price = torch.where(solved, torch.where(binds, price, 0.0), torch.nan)
    limits = list(stated.limit_names(names))
    for kind, bound in (("upper", program.upper), ("lower", program.lower)):
        limits += [] if bound is None else [(kind, part) for part in part_names(cost, names)]
    kinds, places = tuple(kind for kind, _ in limits), tuple(place for _, place in limits)
    about = tuple(tuple(row.nonzero()[:, 0].tolist()) for row in program.limit_rows)
    return LimitPrices(kinds, places, about, binds & solved, price)
