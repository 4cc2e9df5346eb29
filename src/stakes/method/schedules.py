"""Schedules and allocations: a price for every unit short or long in each part, and limits that join the parts.

Without a limit that joins them the parts are decided one by one, in closed form. A program is solved only where that
decision breaks a limit.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.errors import CostError, ShapeError
from stakes.method.argument_checks import require_finite, require_positive
from stakes.method.costs import Parameter
from stakes.method.member_weights import relative_weights
from stakes.method.programs import ScenarioProgram

__all__ = ["AllocationCost", "FreeAction", "ScheduleCost", "parameter_parts", "require_not_negative"]


class FreeAction(NamedTuple):
    """The best action without the limits that join its parts.

    Attributes:
        action: Part by part, (..., A), differentiable in the members.
        allowed: Whether it meets these limits, so that it is the best action, (...), bool.
    """

    action: Tensor
    allowed: Tensor


@dataclass(frozen=True)
class ScheduleCost:
    """Commit a_t for every t of T, with y_t to come, and pay by t for what is short or long:

    c(a, y) = sum_t short relu(y_t - a_t) + long relu(a_t - y_t) + 1/2 quadratic (a_t - y_t)^2
    with |a_t - a_{t-1}| <= ramp.

    A parameter is a number, or a tensor whose last axis is T or 1, with the cases (...) before it.

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

    def free_action(self, samples: Tensor, weights: Tensor | None = None) -> FreeAction:
        """The best action without the ramp limit.

        Args:
            samples: Members (..., M, T).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        action = _part_by_part(self, samples, weights, self.quadratic)
        if self.ramp is None:
            return FreeAction(action, torch.ones_like(action[..., 0], dtype=torch.bool))
        steps = action.detach().diff(dim=-1).abs()
        return FreeAction(action, (steps <= self.ramp).all(-1))

    def program(self, parts: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program.

        Args:
            parts: T.
            device: Where its numbers are; None for the CPU.
        """
        eye = torch.eye(parts, dtype=torch.float64, device=device)
        curved = parameter_parts(self.quadratic, len(eye), eye.device)
        limits = {}
        if self.ramp is not None:
            steps = eye[1:] - eye[:-1]
            ramp = torch.as_tensor(self.ramp, dtype=torch.float64, device=device)
            ramp = ramp if ramp.dim() else ramp[None]
            limits = {"G": torch.cat([steps, -steps]), "g": ramp.expand(*ramp.shape[:-1], 2 * (parts - 1))}
        return _simple_program(self, eye, P=torch.diag_embed(curved), p_y=-torch.diag_embed(curved), **limits)


@dataclass(frozen=True)
class AllocationCost:
    """Share out a budget over D places, with y_d to come at each:

    c(a, y) = sum_d short relu(y_d - a_d) + long relu(a_d - y_d),   sum_d a_d <= budget,   a_d >= 0.

    A parameter is a number, or a tensor whose last axis is D or 1, with the cases (...) before it.

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

    def free_action(self, samples: Tensor, weights: Tensor | None = None) -> FreeAction:
        """The best action without the budget.

        Args:
            samples: Members (..., M, D).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        action = _part_by_part(self, samples, weights)
        return FreeAction(action, action.detach().sum(-1, keepdim=True).le(self.budget).squeeze(-1))

    def program(self, parts: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program.

        Args:
            parts: D.
            device: Where its numbers are; None for the CPU.
        """
        eye = torch.eye(parts, dtype=torch.float64, device=device)
        budget = torch.as_tensor(self.budget, dtype=torch.float64, device=device)
        return _simple_program(self, eye, G=torch.ones_like(eye[:1]), g=budget if budget.dim() else budget[None])


def _imbalance(
    short: Parameter, long: Parameter, action: Tensor, outcome: Tensor, quadratic: Parameter = 0.0
) -> Tensor:
    off = action - outcome
    cost = short * torch.relu(-off) + long * torch.relu(off)
    return (cost + 0.5 * quadratic * off**2).sum(-1)


def _simple_program(cost: ScheduleCost | AllocationCost, eye: Tensor, **others: Tensor) -> ScenarioProgram:
    """The cost long (a - y) + (short + long) z, z >= y - a, of every part, without what no action changes."""
    upper = None if cost.upper is None else parameter_parts(cost.upper, len(eye), eye.device)
    long = parameter_parts(cost.long, len(eye), eye.device)
    return ScenarioProgram(
        T=eye,
        W=torch.ones_like(eye[0]),
        h_y=eye,
        q=parameter_parts(cost.short, len(eye), eye.device) + long,
        p=long,
        lower=parameter_parts(cost.lower, len(eye), eye.device),
        upper=upper,
        **others,
    )


def _part_by_part(
    cost: ScheduleCost | AllocationCost, samples: Tensor, weights: Tensor | None, quadratic: Parameter = 0.0
) -> Tensor:
    """The best action of every part alone, (..., A), within its bounds.

    With y sorted and w_k the weight up to the k-th, the slope falls to zero at the crossing of the members, which rise,
    and of a_k = mean y + ((short + long)(1 - w_k) - long) / quadratic, which fall: a* = max_k min(y_(k+1), a_k).
    """
    shares = relative_weights(weights, samples)
    values = samples.movedim(-2, -1)  # (..., A, M)
    count = values.shape[-1]
    each = torch.ones_like(values) if shares is None else shares[..., None, :].expand_as(values)
    ordered, order = torch.sort(values.detach(), -1)
    below = torch.cumsum(each.gather(-1, order).double(), -1) / count  # up to and with each member
    below = torch.cat([torch.zeros_like(below[..., :1]), below], -1)  # (..., A, M + 1)
    short, long, curved = (_beside_members(each, samples) for each in (cost.short, cost.long, quadratic))
    slope = (short + long) * (1 - below) - long
    # What is left of a slope that is zero but for rounding must not be divided by a curvature of zero.
    slope = torch.where(slope.abs() <= 1e-12 * (short + long), 0.0, slope)
    mean = (each * values).mean(-1, keepdim=True)
    crossing = torch.where(
        curved > 0, mean.detach() + slope / torch.where(curved > 0, curved, 1.0), slope.sign() * torch.inf
    )
    crossing = crossing.nan_to_num(nan=-torch.inf)  # a slope of zero without curvature: the lower end of what is best
    members = torch.cat([ordered.double(), torch.full_like(ordered[..., :1], torch.inf, dtype=torch.float64)], -1)
    best = torch.minimum(members, crossing)
    place = best.argmax(-1, keepdim=True)
    at_member = members.gather(-1, place) <= crossing.gather(-1, place)
    member = values.gather(-1, order.gather(-1, place.clamp(max=count - 1)))
    between = mean + (crossing.gather(-1, place) - mean).detach().to(values.dtype)
    action = torch.where(at_member, member, between)[..., 0]
    return _within(action, cost.lower, cost.upper)


def _within(action: Tensor, lower: Parameter, upper: Parameter | None) -> Tensor:
    """Actions within their bounds, with no gradient at a bound."""
    least = torch.as_tensor(lower, dtype=action.dtype, device=action.device)
    action = torch.where(action <= least, least, action)
    if upper is None:
        return action
    most = torch.as_tensor(upper, dtype=action.dtype, device=action.device)
    return torch.where(action >= most, most, action)


def parameter_parts(parameter: Parameter, parts: int, device: torch.device | None) -> Tensor:
    """A parameter as one number a part, (..., A), in double precision.

    Args:
        parameter: A number, or a tensor whose last axis is A or 1.
        parts: A.
        device: Where the numbers are to be; None for the CPU.
    """
    value = torch.as_tensor(parameter, dtype=torch.float64, device=device)
    value = value if value.dim() else value[None]
    if value.shape[-1] not in (1, parts):
        raise ShapeError(f"a parameter must be a number or end in an axis of 1 or {parts}, got {tuple(value.shape)}")
    return value.expand(*value.shape[:-1], parts)


def _beside_members(parameter: Parameter, samples: Tensor) -> Tensor:
    """A parameter (..., A) or (..., 1) beside members (..., A, M), in double precision."""
    value = torch.as_tensor(parameter, dtype=torch.float64, device=samples.device)
    return value[..., None] if value.dim() else value


def _require_prices(short: Parameter, long: Parameter) -> None:
    require_not_negative("short", short)
    require_not_negative("long", long)
    if bool((torch.as_tensor(short) + torch.as_tensor(long) <= 0).any()):
        raise CostError("short and long must not both be 0: nothing would be at stake")


def require_not_negative(name: str, value: Parameter) -> None:
    """Raise if a parameter of a cost is negative anywhere, or no finite number.

    Args:
        name: What the message calls it.
        value: What came.
    """
    require_finite(name, value, CostError)
    if bool((torch.as_tensor(value) < 0).any()):
        raise CostError(f"{name} must not be negative, got {float(torch.as_tensor(value).min()):g}")


def _require_bounds(lower: Parameter, upper: Parameter | None) -> None:
    require_finite("lower", lower, CostError)
    if upper is not None and bool((torch.as_tensor(lower) > torch.as_tensor(upper)).any()):
        raise CostError("lower must not lie above upper")
