"""Schedules and allocations: a price for every unit short or long in each part, and limits that join the parts.

Without a limit that joins them the parts are decided one by one, in closed form. Where that decision breaks a limit,
the best action is found exactly by what is special to the limit (`stakes.method.ramps`, `stakes.method.budgets`), or by
the program where a solver is asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.errors import CostError
from stakes.method.argument_checks import known_false, require_finite, require_positive, shown_numbers
from stakes.method.budgets import BudgetedAction, budgeted_action
from stakes.method.costs import Parameter
from stakes.method.member_weights import mean_of_members
from stakes.method.part_costs import PartAction, PartCosts, parameter_parts, redone, take_lists
from stakes.method.programs import ScenarioProgram
from stakes.method.ramps import ramped_action

__all__ = ["AllocationCost", "FreeAction", "JoinedAction", "ScheduleCost", "require_not_negative"]


class FreeAction(NamedTuple):
    """The best action without the limits that join its parts.

    Attributes:
        action: Part by part, (..., A), differentiable in the members.
        allowed: Whether it meets these limits, so that it is the best action, (...), bool.
    """

    action: Tensor
    allowed: Tensor


class JoinedAction(NamedTuple):
    """The best action with all limits.

    Attributes:
        action: (..., A), in double precision, differentiable in the members.
        gap: By how much another action could cost less at most, in the cost's unit, (...).
        residual: How far it is from meeting all limits and the conditions of a minimum, in units of the case, (...).
    """

    action: Tensor
    gap: Tensor
    residual: Tensor


@dataclass(frozen=True)
class ScheduleCost:
    """Commit a_t for every t of T, with y_t to come, and pay by t for what is short or long:

    c(a, y) = sum_t short relu(y_t - a_t) + long relu(a_t - y_t) + 1/2 quadratic (a_t - y_t)^2
    with |a_t - a_{t-1}| <= ramp.

    A parameter is a number, a list, or a tensor or array whose last axis is T or 1, with the cases (...) before it.

    Attributes:
        short: What one missing unit costs, not negative.
        long: What one unit too many costs, not negative; short and long together are positive.
        quadratic: What the square of the difference costs, twice, not negative.
        ramp: By how much neighbours may differ, positive, a number or (..., 1); None for no such limit.
        lower: What no a_t falls below.
        upper: What no a_t exceeds; None for no such bound.

    >>> import torch, stakes
    >>> members = torch.tensor([[[1.0, 1.0, 4.0], [2.0, 1.0, 5.0], [3.0, 1.0, 6.0]]])  # one case, three members, T = 3
    >>> stakes.optimal_action(stakes.ScheduleCost(short=3.0, long=1.0), members)
    tensor([[3., 1., 6.]])
    >>> stakes.optimal_action(stakes.ScheduleCost(short=4.0, long=1.0, ramp=1.0), members).round(decimals=3)
    tensor([[3., 4., 5.]])
    """

    short: Parameter
    long: Parameter
    quadratic: Parameter = 0.0
    ramp: Parameter | None = None
    lower: Parameter = 0.0
    upper: Parameter | None = None

    def __post_init__(self) -> None:
        take_lists(self)
        _require_prices(self.short, self.long)
        require_not_negative("quadratic", self.quadratic)
        if self.ramp is not None:
            require_positive("ramp", self.ramp, CostError)
        _require_bounds(self.lower, self.upper)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each schedule, (...).

        Args:
            action: Schedules (..., T).
            outcome: Outcomes (..., T) that broadcast against them.
        """
        return _imbalance(self.short, self.long, action, outcome, self.quadratic)

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        """What no action changes of the cost, beside that of the program, (...).

        Args:
            outcome: Outcomes (..., T).
        """
        return ((0.5 * self.quadratic * outcome - self.long) * outcome).sum(-1)

    def centred(self, samples: Tensor, weights: Tensor | None = None) -> tuple["ScheduleCost", Tensor, Tensor]:
        """The same decision about members around zero, these members, and how far they were moved, (..., 1).

        A solver that squares numbers far from zero would lose the digits in which they differ.

        Args:
            samples: Members (..., M, T).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        each, double = None if weights is None else weights.detach()[..., None], samples.double()
        middle = mean_of_members(double.detach(), each, -2).mean(-1, keepdim=True)
        middle = torch.where(torch.isfinite(middle), middle, 0.0)
        upper = None if self.upper is None else _double(self.upper) - middle
        return replace(self, lower=_double(self.lower) - middle, upper=upper), double - middle[..., None, :], middle

    def free_action(self, samples: Tensor, weights: Tensor | None = None) -> FreeAction:
        """The best action without the ramp limit.

        Args:
            samples: Members (..., M, T).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        return _free_action(self, samples, weights)

    def joined_action(self, samples: Tensor, weights: Tensor | None = None) -> JoinedAction:
        """The best action, exactly: within the ramp limit.

        Args:
            samples: Members (..., M, T).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        if self.ramp is None:
            action = self.free_action(samples, weights).action
            return JoinedAction(action, *2 * [torch.zeros_like(action[..., 0]).detach()])
        costs, cases = PartCosts.of(self, samples, weights), samples.shape[:-2]
        free = costs.best()

        def ramped(places: Tensor | None) -> tuple[Tensor, ...]:
            rows = slice(None) if places is None else places
            best, *proof = ramped_action(costs.rows(rows), free.action[rows], self._ramps(cases, samples.device)[rows])
            return *best, *proof

        nothing = torch.zeros_like(free.action[:, 0])
        *best, gap, residual = redone(self._allowed(free.action, cases), (*free, nothing, nothing), ramped)
        action = costs.with_gradient(PartAction(*best), *_in_one_axis(samples, weights))
        return JoinedAction(action.reshape(*cases, samples.shape[-1]), gap.reshape(cases), residual.reshape(cases))

    def _allowed(self, action: Tensor, cases: torch.Size) -> Tensor:
        """Whether actions (B, T) meet the ramp limit, (B,)."""
        if self.ramp is None:
            return torch.ones_like(action[:, 0], dtype=torch.bool)
        return (action.diff(dim=-1).abs() <= self._ramps(cases, action.device)).all(-1)

    def _ramps(self, cases: torch.Size, device: torch.device) -> Tensor:
        """The ramp of each case, (B, 1)."""
        return parameter_parts(self, "ramp", 1, device).expand(*cases, 1).reshape(-1, 1)

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The ramp from each outcome to the next, up and then down.

        Args:
            outcomes: The names of the T outcomes.
        """
        steps = [] if self.ramp is None else [f"{first} to {second}" for first, second in pairwise(outcomes)]
        return tuple(("ramp", f"{step}, {way}") for way in ("up", "down") for step in steps)

    def program(self, parts: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program.

        Args:
            parts: T.
            device: Where its numbers are; None for the CPU.
        """
        eye = torch.eye(parts, dtype=torch.float64, device=device)
        curved = parameter_parts(self, "quadratic", len(eye), eye.device)
        limits = {}
        if self.ramp is not None:
            steps = eye[1:] - eye[:-1]
            ramp = parameter_parts(self, "ramp", 1, device)
            limits = {"G": torch.cat([steps, -steps]), "g": ramp.expand(*ramp.shape[:-1], 2 * (parts - 1))}
        if self.upper is not None:
            limits["upper"] = parameter_parts(self, "upper", parts, device)
        return _simple_program(self, eye, P=torch.diag_embed(curved), p_y=-torch.diag_embed(curved), **limits)


@dataclass(frozen=True)
class AllocationCost:
    """Share out a budget over D places, with y_d to come at each:

    c(a, y) = sum_d short relu(y_d - a_d) + long relu(a_d - y_d),   sum_d a_d <= budget,   a_d >= 0.

    A parameter is a number, a list, or a tensor or array whose last axis is D or 1, with the cases (...) before it.

    Attributes:
        short: What one missing unit costs, not negative.
        long: What one unit too many costs, not negative; short and long together are positive.
        budget: What there is to share out, positive, a number or (..., 1).

    >>> import torch, stakes
    >>> members = torch.tensor([[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]])  # one case, three members, D = 2
    >>> stakes.optimal_action(stakes.AllocationCost(short=3.0, long=1.0, budget=20.0), members)
    tensor([[3., 6.]])
    """

    short: Parameter
    long: Parameter
    budget: Parameter

    def __post_init__(self) -> None:
        take_lists(self)
        _require_prices(self.short, self.long)
        require_positive("budget", self.budget, CostError)

    @property
    def lower(self) -> float:
        """The least share, 0."""
        return 0.0

    @property
    def upper(self) -> Parameter:
        """The largest share, all there is."""
        return self.budget

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each allocation, (...).

        Args:
            action: Allocations (..., D).
            outcome: Outcomes (..., D) that broadcast against them.
        """
        return _imbalance(self.short, self.long, action, outcome)

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        """What no action changes of the cost, beside that of the program, (...).

        Args:
            outcome: Outcomes (..., D).
        """
        return -(self.long * outcome).sum(-1)

    def free_action(self, samples: Tensor, weights: Tensor | None = None) -> FreeAction:
        """The best action without the budget.

        Args:
            samples: Members (..., M, D).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        return _free_action(self, samples, weights)

    def joined_action(self, samples: Tensor, weights: Tensor | None = None) -> JoinedAction:
        """The best action, exactly: within the budget.

        Args:
            samples: Members (..., M, D).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        costs, cases = PartCosts.of(self, samples, weights), samples.shape[:-2]
        free, (members, shares) = costs.best(), _in_one_axis(samples, weights)

        def budgeted(places: Tensor | None) -> BudgetedAction:
            rows = slice(None) if places is None else places
            return budgeted_action(costs.rows(rows), members[rows], self._budgets(cases, samples.device)[rows])

        alone, nothing = costs.with_gradient(free, members, shares), torch.zeros_like(free.action[:, 0])
        action, gap, residual = redone(self._allowed(free.action, cases), (alone, nothing, nothing), budgeted)
        return JoinedAction(action.reshape(*cases, samples.shape[-1]), gap.reshape(cases), residual.reshape(cases))

    def _allowed(self, action: Tensor, cases: torch.Size) -> Tensor:
        """Whether the budget suffices for actions (B, D), (B,)."""
        return (action.sum(-1, keepdim=True) <= self._budgets(cases, action.device))[:, 0]

    def _budgets(self, cases: torch.Size, device: torch.device) -> Tensor:
        """The budget of each case, (B, 1)."""
        return parameter_parts(self, "budget", 1, device).expand(*cases, 1).reshape(-1, 1)

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The budget.

        Args:
            outcomes: The names of the D outcomes.
        """
        return (("budget", "all"),)

    def program(self, parts: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program; that no share exceeds the budget follows from their sum.

        Args:
            parts: D.
            device: Where its numbers are; None for the CPU.
        """
        eye = torch.eye(parts, dtype=torch.float64, device=device)
        return _simple_program(self, eye, G=torch.ones_like(eye[:1]), g=parameter_parts(self, "budget", 1, device))


def _free_action(cost: ScheduleCost | AllocationCost, samples: Tensor, weights: Tensor | None) -> FreeAction:
    costs, cases = PartCosts.of(cost, samples, weights), samples.shape[:-2]
    best = costs.best()
    action = costs.with_gradient(best, *_in_one_axis(samples, weights))
    return FreeAction(action.reshape(*cases, samples.shape[-1]), cost._allowed(best.action, cases).reshape(cases))


def _imbalance(
    short: Parameter, long: Parameter, action: Tensor, outcome: Tensor, quadratic: Parameter = 0.0
) -> Tensor:
    off = action - outcome
    cost = short * torch.relu(-off) + long * torch.relu(off)
    return (cost + 0.5 * quadratic * off**2).sum(-1).to(off.dtype)  # whatever the precision of the prices


def _simple_program(cost: ScheduleCost | AllocationCost, eye: Tensor, **others: Tensor) -> ScenarioProgram:
    """The cost long (a - y) + (short + long) z, z >= y - a, of every part, without what no action changes."""
    short, long, lower = (parameter_parts(cost, name, len(eye), eye.device) for name in ("short", "long", "lower"))
    return ScenarioProgram(
        T=eye,
        W=torch.ones_like(eye[0]),
        h_y=eye,
        q=short + long,
        p=long,
        lower=lower,
        **others,
    )


def _in_one_axis(samples: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Members (B, M, A) and weights (B, M) of cases in one axis."""
    count = samples.shape[-2]
    shares = None if weights is None else weights.expand(samples.shape[:-1]).reshape(-1, count)
    return samples.reshape(-1, *samples.shape[-2:]), shares


def _double(value: Parameter) -> Parameter:
    return value.double() if isinstance(value, Tensor) else value


def _require_prices(short: Parameter, long: Parameter) -> None:
    require_not_negative("short", short)
    require_not_negative("long", long)
    if known_false(torch.as_tensor(short) + torch.as_tensor(long) > 0):
        raise CostError("short and long must not both be 0: nothing would be at stake")


def require_not_negative(name: str, value: Parameter) -> None:
    """Raise if a parameter of a cost is negative anywhere, or no finite number.

    Args:
        name: What the message calls it.
        value: What came.
    """
    require_finite(name, value, CostError)
    if known_false(torch.as_tensor(value) >= 0):
        raise CostError(f"{name} must not be negative, got {float(torch.as_tensor(value).min()):g}")


def _require_bounds(lower: Parameter, upper: Parameter | None) -> None:
    require_finite("lower", lower, CostError)
    if upper is None:
        return
    least, most = torch.broadcast_tensors(torch.as_tensor(lower), torch.as_tensor(upper))
    if known_false(ordered := least <= most):
        got = f"got {shown_numbers(lower)} and {shown_numbers(upper)}"
        if ordered.dim():
            place = tuple((~ordered).nonzero()[0].tolist())
            got = f"got {float(least[place]):g} and {float(most[place]):g} in part {place[-1] + 1}"
        raise CostError(f"lower must not lie above upper, {got}")
