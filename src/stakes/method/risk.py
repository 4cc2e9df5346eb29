"""What a risk-averse decision maker minimises: the conditional value at risk of a cost, or a mixture with its mean."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from stakes.errors import CostError, SettingError, ShapeError, StakesWarning
from stakes.method.barrier_newton import BarrierNewton
from stakes.method.costs import Cost, Parameter, require_cost, states_convexity
from stakes.method.cvar_programs import CVaRProgram
from stakes.method.interior_point import InteriorPoint
from stakes.method.program_actions import (
    NamedParts,
    PartsCost,
    ProgramAction,
    ProgramCost,
    is_interior,
    least_curvature,
)
from stakes.method.program_quantities import amount_words
from stakes.method.program_words import Program
from stakes.method.programs import ScenarioProgram
from stakes.method.schedules import ScheduleCost
from stakes.method.solvers import Solver
from stakes.method.tail_search import TailSearch, with_threshold

__all__ = ["CVaRCost", "LinearRecourseCost", "plain_cost_of", "risk_of"]

_IN_THE_TAIL = 5  # so many members at least, or it is a guess


@runtime_checkable
class LinearRecourseCost(ProgramCost, Protocol):
    """A program that knows what it leaves out of the cost: what a conditional value at risk needs."""

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        """What no action changes of the cost, beside that of the program, (...).

        Args:
            outcome: Outcomes (..., D).
        """
        ...


@dataclass(frozen=True)
class CVaRCost:
    """The conditional value at risk of a cost: the mean of its worst outcomes, a share 1 - level of all.

    In the form of Rockafellar and Uryasev (2000) a threshold t is part of the decision, and with c = cost(a, y)

        charge(a, t, y) = mix (t + relu(c - t) / (1 - level)) + (1 - mix) c,

    whose mean, with the best t, is the conditional value at risk of c, mixed with its mean. So the charge is a cost
    like any other, and a proper score of the widened decision. The best t is the level's quantile of c.

    An action has one more part than that of the cost, t, in the unit of the cost; it comes last and is hidden where
    decisions are shown (`hidden_parts`).

    Attributes:
        cost: The plain cost: `ScheduleCost`, `AllocationCost`, `StorageCost`, `ArbitrageCost` or another program with
            linear recourse, or any cost of one number that is known to be convex in it.
        level: The share of the outcomes below the threshold, between 0 and 1, such as 0.9 for the worst tenth. A
            forecast of M members has M (1 - level) of them in its tail: below 5 there is a warning.
        mix: How much the conditional value at risk counts, above 0 and at most 1; the mean cost is the rest.

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
        if isinstance(self.cost, PartsCost) or (
            isinstance(self.cost, ProgramCost) and not isinstance(self.cost, LinearRecourseCost)
        ):
            raise CostError(
                "cost must be a program with linear recourse that has fixed_cost, or a convex cost of one number, got "
                f"{type(self.cost).__name__}"
            )
        if not isinstance(self.cost, ProgramCost) and not states_convexity(self.cost):
            raise CostError(
                "cost must be known to be convex in the action, as by cost_function(..., convex=True), got "
                f"{type(self.cost).__name__}"
            )

    @property
    def lower(self) -> Parameter:
        """The least action, without the threshold."""
        return self.cost.lower

    @property
    def upper(self) -> Parameter:
        """The largest action, without the threshold."""
        return self.cost.upper

    @property
    def part_bounds(self) -> Callable[[int], tuple[Tensor, Tensor]] | None:
        """The bounds of each part, without the threshold; None where they are alike for all."""
        return getattr(self.cost, "part_bounds", None)

    @property
    def total(self) -> Callable[[Tensor], Tensor] | None:
        """What the cost makes of the outcomes of all sites; None where it says nothing."""
        return getattr(self.cost, "total", None)

    @property
    def outcome_bounds(self) -> Any:
        """What outcomes cannot cross, as the cost knows it; None where it says nothing."""
        return getattr(self.cost, "outcome_bounds", None)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The charge of each action, (...).

        Args:
            action: Actions and their threshold, (..., A + 1).
            outcome: Outcomes (..., D) that broadcast against them.
        """
        plain, threshold = self.plain_cost(action, outcome), action[..., -1]
        charge = threshold + torch.relu(plain - threshold) / (1 - self.level)
        return charge if self.mix == 1 else self.mix * charge + (1 - self.mix) * plain

    def plain_cost(self, action: Tensor, outcome: Tensor) -> Tensor:
        """What each action costs without any aversion, (...).

        Args:
            action: Actions and their threshold, (..., A + 1).
            outcome: Outcomes (..., D) that broadcast against them.
        """
        if action.shape[-1] < 2:
            raise ShapeError(f"action must hold an action and its threshold, got shape {tuple(action.shape)}")
        return self.cost(action[..., :-1], outcome)

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """What the parts of an action are called, without the threshold.

        Args:
            outcomes: The names of the D outcomes.
        """
        return self.cost.part_names(outcomes) if isinstance(self.cost, NamedParts) else tuple(outcomes)

    def find_action(
        self, samples: Tensor, weights: Tensor | None, solver: object = None, *, gradient: bool = False
    ) -> ProgramAction:
        """The best action of each forecast and its threshold.

        Args:
            samples: Members (..., M, D).
            weights: What each member weighs, (..., M); None where all count alike.
            solver: An `InteriorPoint` for a program, else a solver such as `NewtonBisection`; None for the default one.
            gradient: Whether actions are to be differentiable in the members.
        """
        self._warn_of_few(samples.shape[-2])
        double = samples.double()
        if isinstance(self.cost, LinearRecourseCost):
            return self._program_action(self.cost, double, weights, solver, gradient)
        if solver is not None and (
            isinstance(solver, type | InteriorPoint | BarrierNewton) or not hasattr(solver, "tolerance")
        ):
            raise SettingError(f"solver must be a solver such as NewtonBisection() for this cost, got {solver!r}")
        search = TailSearch(self.cost, self.level, self.mix, cast(Solver | None, solver))
        return search(double, weights, gradient=gradient)

    def _program_action(
        self, cost: LinearRecourseCost, samples: Tensor, weights: Tensor | None, solver: object, gradient: bool
    ) -> ProgramAction:
        if solver is not None and not isinstance(solver, InteriorPoint):
            raise SettingError(f"solver must be an InteriorPoint for this cost, got {solver!r}")
        if solver is not None and solver.smoothing is not None:
            raise SettingError("smoothing must be None for a conditional value at risk, whose gradient is exact only")
        program, cases = cost.program(samples.shape[-1], samples.device), samples.shape[:-2]
        _require_linear_words(cost, program)
        near, members, middle = cost.centred(samples, weights) if isinstance(cost, ScheduleCost) else (cost, samples, 0)
        fixed = near.fixed_cost(members.movedim(-2, 0)).movedim(0, -1)
        widened = CVaRProgram(near.program(samples.shape[-1], samples.device), self.level, self.mix)
        action, solution = widened.solve(members, fixed, weights, solver, gradient=gradient)
        action = torch.cat([action[..., :-1] + middle, action[..., -1:]], -1)
        names = ("gap", "residual", "solved", "infeasible", "unbounded")
        gap, residual, solved, infeasible, unbounded = (getattr(solution, name).reshape(cases) for name in names)
        if program.recourse.simple:  # else what members cost takes as long as the action
            own = action[..., :-1]
            action = with_threshold(own, cost(own, samples.movedim(-2, 0)), weights, self.level, solved)
        interior = is_interior(program, action[..., :-1], samples, weights, gradient)
        curvature = least_curvature(program, cases, gradient)
        return ProgramAction(action, gap, residual, solved, interior, curvature, infeasible, unbounded)

    def _warn_of_few(self, members: int) -> None:
        tail = members * (1 - self.level)
        if members > 1 and tail < _IN_THE_TAIL * (1 - 1e-9):
            warnings.warn(
                f"the tail beyond level {self.level:g} holds {tail:.2g} of {members} members: take at least "
                f"{_IN_THE_TAIL / (1 - self.level):.0f} (in training decision_member_count), or a lower level",
                StakesWarning,
                stacklevel=2,
            )


def _require_linear_words(cost: Cost, program: ScenarioProgram) -> None:
    """Raise where squares of the recourse cost anything, in the words of a program that is stated in words."""
    if isinstance(cost, Program) and program.Q is not None and bool(program.Q.any()):
        name = next(name for name, quantity in cost.recourse.items() if quantity.square)
        raise CostError(
            f"recourse.{name}.square must be 0 for an aversion to risk (cvar_level), which needs a recourse of linear "
            f"costs, got {amount_words(cost.recourse[name].square)}"
        )


def risk_of(cost: Cost) -> CVaRCost | None:
    """The aversion to risk that a cost is, or has inside, as one from a user's file may; None without any.

    Args:
        cost: Any cost.
    """
    inner = cost if isinstance(cost, CVaRCost) else getattr(cost, "cost", None)
    return inner if isinstance(inner, CVaRCost) else None


def plain_cost_of(cost: Cost) -> Cost:
    """The same decision without its aversion to risk.

    Args:
        cost: Any cost.
    """
    risk = risk_of(cost)
    return cost if risk is None else risk.cost
