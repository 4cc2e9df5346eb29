"""Risk-averse decisions: the conditional value at risk (CVaR) of a cost, or a mixture with its mean."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from stakes.actions.scalar_solvers import NewtonBisection, Solver
from stakes.actions.solve import case_bounds, interior_and_residual, reach_of
from stakes.costs.cost import (
    ActionSolution,
    Cost,
    Parameter,
    VectorCost,
    action_parts,
    bounds_of,
    part_names,
    plain_cost_of,
    require_cost,
    states_convexity,
    total_of,
    vector_cost,
)
from stakes.costs.member_weights import (
    all_derivatives,
    counted,
    mean_cost,
    member_costs,
    slope_and_curvature,
    slope_of,
    with_gradient,
)
from stakes.errors import CostError, SettingError, ShapeError, StakesWarning
from stakes.programs.convex_actions import BarrierNewton
from stakes.programs.interior_point import InteriorPoint, ProgramSolution, ScenarioData, largest
from stakes.programs.recourse import ChargedRecourse
from stakes.programs.scenario_program import (
    ProgramCost,
    ScenarioProgram,
    SolvedProgram,
    certified,
    implicit_change,
    program_cost,
    warn_of_parameters,
)


class _Widened(NamedTuple):
    """The programs with charge and threshold, and what the threshold is counted in and from, (B, 1) each."""

    data: ScenarioData
    unit: Tensor
    origin: Tensor


class CVaRProgram(NamedTuple):
    """A scenario program whose conditional value at risk is to be least."""

    program: ScenarioProgram  # the program, with a linear recourse
    level: float  # the share of the members below the threshold, between 0 and 1
    mix: float  # the share of the conditional value at risk in what is minimised, above 0; the mean cost is the rest

    def solve(
        self,
        samples: Tensor,
        fixed: Tensor,
        weights: Tensor | None = None,
        solver: InteriorPoint | None = None,
        *,
        gradient: bool = False,
    ) -> SolvedProgram:
        """The best action of each forecast and its threshold, (..., A + 1), in double precision."""
        if self.program.Q is not None and bool(self.program.Q.any()):
            raise CostError("cost must have linear recourse for CVaR, got a program with Q")
        cases, members = samples.shape[:-2], samples.shape[-2]
        samples, fixed = counted(samples, weights), counted(fixed[..., None], weights)[..., 0]
        flat, slopes = samples.reshape(-1, *samples.shape[-2:]), self._slopes(samples)
        fixed = fixed.reshape(-1, members)
        if gradient:
            warn_of_parameters(vars(self.program))
        with torch.no_grad():
            plain = self.program.data(samples.detach(), weights)
            wide = self._widened(plain, slopes.detach(), fixed.detach())
            solution = (solver or InteriorPoint()).solve(wide.data)
        action = solution.iterate.a
        if gradient:
            action = action + self._moved(wide, solution, _change(flat), _change(slopes), _change(fixed))
        own = action[:, :-1].reshape(*cases, self.program.parts)
        beyond = (action[:, -1:] * wide.unit + wide.origin).reshape(*cases, 1)
        always = self.program.own_cost(own, samples.new_zeros(samples.shape[-1]))[..., None]
        return SolvedProgram(torch.cat([own, beyond + always], -1), solution)

    def _slopes(self, samples: Tensor) -> Tensor:
        """What the action costs by each member, p_y y, (B, M, A), or (B, 1, A) of zeros where that is nothing."""
        p_y = self.program.p_y
        if p_y is None:
            return samples.new_zeros(samples.shape[:-2].numel(), 1, self.program.parts)
        return (samples @ p_y.mT).reshape(-1, samples.shape[-2], self.program.parts)

    def _widened(self, plain: ScenarioData, slopes: Tensor, fixed: Tensor) -> _Widened:
        cases, members, _ = plain.h.shape
        unit = largest(plain.q, slopes)
        unit = torch.where(unit > 0, unit, 1.0)[:, None]
        origin = (plain.weights * fixed).sum(-1, keepdim=True)
        mean = (plain.weights[:, None] @ slopes.expand(-1, members, -1))[:, 0]
        charge = (self.mix / (1 - self.level) * unit[:, None]).expand(cases, plain.q.shape[1], 1)
        alone = replace(self.program.recourse, Q=plain.q.new_zeros(plain.q.shape[-1]))
        data = replace(
            plain,
            P=pad(plain.P, (0, 1, 0, 1)),
            p=torch.cat([plain.p - self.mix * mean, self.mix * unit], -1),
            C=pad(plain.C, (0, 1)),
            E=pad(plain.E, (0, 1)),
            recourse=ChargedRecourse(alone, plain.q / unit[:, None], slopes / unit[:, None]),
            q=torch.cat([(1 - self.mix) * plain.q, charge], -1),
            h=torch.cat([plain.h, ((fixed - origin) / unit)[..., None]], -1),
        )
        return _Widened(data, unit, origin)

    def _moved(
        self, wide: _Widened, solution: ProgramSolution, change: Tensor, slopes: Tensor, fixed: Tensor
    ) -> Tensor:
        """How the action moves with changes of the members (B, M, D), of slopes, and of what they cost, (B, A + 1).

        Where prices and slopes change, they do so in the row of the charge and in the conditions of a minimum.
        """
        data, unit, q_y = wide.data, wide.unit[:, None], self.program.q_y
        action, z, price = (
            torch.where(solution.solved[:, None, None], part, 0.0)
            for part in (solution.iterate.a[:, None], solution.iterate.z, solution.iterate.mu[..., -1:])
        )
        last = fixed[..., None] / unit + (slopes / unit * action[..., :-1]).sum(-1, keepdim=True)
        prices = None
        if q_y is not None:
            prices = change @ q_y.mT
            last = last + (prices / unit * z[..., :-1]).sum(-1, keepdim=True)
            prices = pad((1 - self.mix + price / unit) * prices, (0, 1))
        slope = (data.weights[..., None] * (1 - self.mix + price / unit) * slopes).sum(1)
        rows = torch.cat([change @ self.program.h_y.mT, last], -1)
        return implicit_change(data, solution, rows, prices, pad(slope, (0, 1)))


def _change(values: Tensor) -> Tensor:
    """Zeros with the gradient of the values."""
    return values - values.detach()


_KINK = 8.0  # a slope that changes by more than that many times what the curvature explains is at a kink
_ROUNDING = 64 * torch.finfo(torch.float64).eps  # of slopes


class _Tail(NamedTuple):
    """Weights v of the members' costs (M, ...), and the place (1, ...) of the member at the threshold."""

    weights: Tensor
    place: Tensor


def tail_weights(costs: Tensor, shares: Tensor, level: float) -> _Tail:
    """What each member weighs in the conditional value at risk, and which one is at the threshold."""
    order = costs.argsort(dim=0, stable=True)
    each = shares.gather(0, order)
    up_to = each.cumsum(0)
    above = torch.minimum((up_to - level).clamp(min=0.0), each) / (1 - level)
    place = (up_to < level * (1 - _ROUNDING)).sum(0, keepdim=True).clamp(max=len(costs) - 1)
    return _Tail(torch.zeros_like(above).scatter(0, order, above), order.gather(0, place))


def with_threshold(action: Tensor, costs: Tensor, weights: Tensor | None, level: float, solved: Tensor) -> Tensor:
    """Actions and their threshold, (..., A + 1): the lowest of the best ones, with its gradient where it is solved."""
    place = tail_weights(costs.detach(), _shares(costs.detach(), weights), level).place
    threshold = costs.gather(0, place)[0]
    return torch.cat([action, torch.where(solved, threshold, threshold.detach())[..., None]], -1)


def _shares(costs: Tensor, weights: Tensor | None) -> Tensor:
    """What the members weigh, (M, ...), adding up to 1."""
    shares = torch.ones_like(costs) if weights is None else weights.movedim(-1, 0).to(costs).expand_as(costs)
    return shares / shares.sum(0)


@dataclass(frozen=True)
class TailSearch:
    """How the best scalar action is found."""

    cost: Cost  # the plain cost, convex in the action
    level: float  # the share of the members below the threshold, between 0 and 1
    mix: float  # the share of the conditional value at risk in what is minimised
    solver: Solver | None = None  # the outer search; None for as many steps as bring halved brackets to a kink

    def __call__(self, samples: Tensor, weights: Tensor | None, *, gradient: bool = False) -> ActionSolution:
        """The best action of each forecast and its threshold, (..., 2), and what it is to cost."""
        with torch.no_grad():
            members = samples.detach()
            best, jacobian = self._best(members, _shares(members.movedim(-2, 0)[..., 0], weights))
        action = best.action[..., 0]
        action = with_gradient(action, samples, jacobian) if gradient else action
        costs = member_costs(self.cost, action[..., None], samples.movedim(-2, 0))
        return replace(best, action=with_threshold(action[..., None], costs, weights, self.level, best.converged))

    def _best(self, samples: Tensor, shares: Tensor) -> tuple[ActionSolution, Tensor]:
        """The best action (..., 1) and its Jacobian (..., M, D)."""
        solver = self.solver or NewtonBisection(iterations=32, tolerance=1e-9)

        def g(action: Tensor, members: Tensor) -> Tensor:
            costs = member_costs(self.cost, action[..., None], members.movedim(-2, 0))
            tail = tail_weights(costs.detach(), shares, self.level).weights
            return ((self.mix * tail + (1 - self.mix) * shares) * costs).sum(0)

        lower, upper = case_bounds(self.cost, samples)
        action = solver(lambda a: g(a, samples), lower, upper).action
        value, slope, curvature, cross = all_derivatives(g, action, samples)
        interior, residual = interior_and_residual(action, slope, curvature, lower, upper)
        reach = reach_of(solver.tolerance, action, lower, upper)
        before, after = (_side(g, (action + sign * reach).clamp(lower, upper), samples) for sign in (-1, 1))
        steepest = torch.maximum(before.slope.abs(), after.slope.abs())
        rounding = _ROUNDING * steepest
        falls = (before.action <= lower) | (before.slope <= rounding)
        rises = (after.action >= upper) | (after.slope >= -rounding)
        solved = falls & rises & torch.isfinite(value)
        gap = slope.abs() * torch.where(slope > 0, action - lower, upper - action)
        gap, residual = (
            torch.where(solved, torch.minimum(each, most), each)
            for each, most in ((gap, reach * steepest), (residual, reach))
        )
        jacobian = _jacobian(before, after, curvature, cross, interior & solved, rounding)
        no = torch.zeros_like(solved)
        action = action[..., None]
        return ActionSolution(action, value, interior, residual, solved, curvature, solved, gap, no, no), jacobian


class _Side(NamedTuple):
    """An action (...) beside the best one: g_a and g_aa there, (...), and g_y, (..., M, D)."""

    action: Tensor
    slope: Tensor
    curvature: Tensor
    by_members: Tensor


def _side(g: Callable[[Tensor, Tensor], Tensor], action: Tensor, samples: Tensor) -> _Side:
    slope, curvature = slope_and_curvature(lambda a: g(a, samples), action)
    return _Side(action, slope, curvature, slope_of(lambda members: g(action, members), samples))


def _jacobian(before: _Side, after: _Side, curvature: Tensor, cross: Tensor, moves: Tensor, rounding: Tensor) -> Tensor:
    """How the best action moves with the members, (..., M, D): by a secant at a kink, else by the curvature."""
    jump = after.slope - before.slope
    explained = (after.action - before.action) * torch.maximum(before.curvature, after.curvature)
    kinked = moves & (before.slope < 0) & (after.slope > 0) & (jump > _KINK * explained + rounding)
    smooth = moves & ~kinked & (curvature > 0)
    secant = (after.by_members - before.by_members) / _wide(torch.where(kinked, jump, 1.0))
    implicit = cross / _wide(torch.where(smooth, curvature, 1.0))
    return -torch.where(_wide(kinked), secant, torch.where(_wide(smooth), implicit, 0.0))


def _wide(values: Tensor) -> Tensor:
    return values[..., None, None]


_IN_THE_TAIL = 5  # so many members at least, or it is a guess


@dataclass(frozen=True)
class CVaRCost(VectorCost):
    """The conditional value at risk (CVaR) of a cost: its mean over the worst share 1 - level of all outcomes.

    In the form of Rockafellar and Uryasev (2000) a threshold t becomes part of the decision. With c = cost(a, y),

        charge(a, t, y) = mix (t + relu(c - t) / (1 - level)) + (1 - mix) c,

    whose mean, at the best t, is a mixture of the CVaR of c and its mean. The best t is the `level` quantile of c. So
    the charge is a cost like any other, and a proper score of the extended decision.

    An action has one part more than that of the cost: t, in the unit of the cost, comes last. It is left out wherever
    actions are shown or counted (`hidden_parts`).

    Attributes:
        cost: The risk-neutral cost: `ScheduleCost`, `AllocationCost`, `StorageCost`, `ArbitrageCost` or another program
            with linear recourse, or any cost of a scalar action that is known to be convex in it.
        level: The share of outcomes below the threshold, between 0 and 1, such as 0.9 for the worst tenth. The tail of
            a forecast of M members holds M (1 - level) of them; fewer than 5 raise a warning.
        mix: The weight of CVaR, above 0 and at most 1; the mean cost gets the rest.

    >>> import torch, stakes
    >>> members = torch.arange(1.0, 101.0)[None, :, None] ** 2 / 100  # one case, a hundred members, one site
    >>> stakes.optimal_action(stakes.NewsvendorCost(3.0, 1.0, lower=0.0, upper=200.0), members)
    tensor([[56.2500]])
    >>> averse = stakes.CVaRCost(stakes.NewsvendorCost(3.0, 1.0, lower=0.0, upper=200.0), level=0.9)
    >>> stakes.optimal_action(averse, members)  # the stock, and the threshold
    tensor([[72.1900, 71.5500]])
    """

    cost: Cost
    level: float
    mix: float = 1.0
    hidden_parts: ClassVar[int] = 1
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_cost(self.cost)
        for name, value, most in (("level", self.level, "below 1"), ("mix", self.mix, "at most 1")):
            fits = isinstance(value, int | float) and 0 < value <= 1 and not (name == "level" and value == 1)
            if not fits:
                raise CostError(f"{name} must be a number above 0 and {most}, got {value!r}")
        if program_cost(self.cost) is not None:
            return
        if vector_cost(self.cost) is not None:
            raise CostError(
                "cost must be a program with linear recourse or a convex cost of a scalar action, got "
                f"{type(self.cost).__name__}"
            )
        if not states_convexity(self.cost):
            raise CostError(
                "cost must be known to be convex in the action, as by cost_function(..., convex=True), got "
                f"{type(self.cost).__name__}"
            )

    @property
    def lower(self) -> Parameter:
        """The smallest action, without the threshold."""
        return self.cost.lower

    @property
    def upper(self) -> Parameter:
        """The largest action, without the threshold."""
        return self.cost.upper

    @property
    def plain(self) -> Cost:
        return plain_cost_of(self.cost)

    @property
    def risk(self) -> "CVaRCost":
        return self

    @property
    def depends_on_order(self) -> bool:
        vector = vector_cost(self.cost)
        return vector is not None and vector.depends_on_order

    @property
    def total(self) -> Callable[[Tensor], Tensor] | None:
        """The `total` of the cost, the one number it sees of the outcomes; None if it has none."""
        return total_of(self.cost)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The charge of each action and its threshold (..., A + 1), (...)."""
        plain, threshold = self.plain_cost(action, outcome), action[..., -1]
        charge = threshold + torch.relu(plain - threshold) / (1 - self.level)
        return charge if self.mix == 1 else self.mix * charge + (1 - self.mix) * plain

    def plain_cost(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The risk-neutral cost of each action, (...).

        Args:
            action: Actions and their threshold, (..., A + 1).
            outcome: Outcomes (..., D) that broadcast against them.
        """
        if action.shape[-1] < 2:
            raise ShapeError(f"action must hold an action and its threshold, got shape {tuple(action.shape)}")
        return self.cost(action[..., :-1], outcome)

    def part_count(self, outcomes: int) -> int:
        return action_parts(self.cost, outcomes)

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        return part_names(self.cost, outcomes)

    def part_bounds(self, parts: int) -> tuple[Parameter, Parameter]:
        return bounds_of(self.cost, parts)

    def unit(self, samples: Tensor, weights: Tensor | None = None) -> Tensor | None:
        vector = vector_cost(self.cost)
        return None if vector is None else vector.unit(samples, weights)

    def best_action(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> Tensor:
        self._warn_of_few(samples.shape[-2])
        if (cost := program_cost(self.cost)) is not None:
            return self._solved_program(cost, samples.double(), weights, solver, gradient=True).action
        return self._search(solver)(samples.double(), weights, gradient=True).action

    def solve(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> ActionSolution:
        self._warn_of_few(samples.shape[-2])
        double = samples.double()
        if (cost := program_cost(self.cost)) is None:
            best = self._search(solver)(double, weights)
            return replace(best, expected_cost=mean_cost(self, best.action, double, weights))
        program = cost.program(samples.shape[-1], samples.device)
        action, solution = self._solved_program(cost, double, weights, solver)
        interior = program.is_interior(action[..., :-1], double, weights)
        return certified(program, action, mean_cost(self, action, double, weights), solution, interior)

    def _search(self, solver: object) -> TailSearch:
        if solver is not None and (
            isinstance(solver, type | InteriorPoint | BarrierNewton) or not hasattr(solver, "tolerance")
        ):
            raise SettingError(f"solver must be a solver such as NewtonBisection() for this cost, got {solver!r}")
        return TailSearch(self.cost, self.level, self.mix, cast(Solver | None, solver))

    def _solved_program(
        self,
        cost: ProgramCost,
        samples: Tensor,
        weights: Tensor | None,
        solver: object,
        *,
        gradient: bool = False,
    ) -> SolvedProgram:
        if solver is not None and not isinstance(solver, InteriorPoint):
            raise SettingError(f"solver must be an InteriorPoint for this cost, got {solver!r}")
        if solver is not None and solver.smoothing is not None:
            raise SettingError("smoothing must be None for CVaR, whose gradient is always exact")
        program = cost.program(samples.shape[-1], samples.device)
        cost.require_linear_recourse(samples.shape[-1])
        near, members, middle = cost.centred(samples, weights)
        fixed = near.fixed_cost(members.movedim(-2, 0)).movedim(0, -1)
        widened = CVaRProgram(near.program(samples.shape[-1], samples.device), self.level, self.mix)
        action, solution = widened.solve(members, fixed, weights, solver, gradient=gradient)
        action = torch.cat([action[..., :-1] + middle, action[..., -1:]], -1)
        if program.recourse.simple:  # else what members cost takes as long as the action
            own, solved = action[..., :-1], solution.solved.reshape(samples.shape[:-2])
            action = with_threshold(own, cost(own, samples.movedim(-2, 0)), weights, self.level, solved)
        return SolvedProgram(action, solution)

    def _warn_of_few(self, members: int) -> None:
        tail = members * (1 - self.level)
        if members > 1 and tail < _IN_THE_TAIL * (1 - 1e-9):
            warnings.warn(
                f"the tail beyond level {self.level:g} holds only {tail:.2g} of {members} members: use at least "
                f"{_IN_THE_TAIL / (1 - self.level):.0f} (decision_member_count in training) or a lower level",
                StakesWarning,
                stacklevel=2,
            )
