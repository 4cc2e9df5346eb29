"""What a decision costs.

A cost is called with members in front, action (..., A) against outcome (M, ..., D), so that parameters of the batch
shape (...) broadcast untouched. Actions are scalars, A = 1. A cost that knows its closed form has `best_action`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import hardtanh, logsigmoid

from stakes.errors import CostError
from stakes.method.argument_checks import known_false, require_finite, require_one_of, require_positive
from stakes.method.derivatives import with_gradient
from stakes.method.sorting import sort_members

__all__ = [
    "ClosedFormCost",
    "Cost",
    "FunctionCost",
    "ImbalanceCost",
    "NewsvendorCost",
    "Parameter",
    "PowerCurve",
    "ProtectionCost",
    "ShortfallCost",
    "TotalCost",
    "WindDispatchCost",
    "cost_function",
    "require_bounds",
    "require_cost",
]

Parameter = float | Tensor
"""A number, or a tensor of the batch shape (...) that gives each case its own decision maker."""


@runtime_checkable
class Cost(Protocol):
    """What a decision maker pays, c(a, y), for taking action a in [lower, upper] and then seeing outcome y."""

    @property
    def lower(self) -> Parameter: ...

    @property
    def upper(self) -> Parameter: ...

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """Action (..., A) and outcome (..., D) to cost (...)."""
        ...


@runtime_checkable
class ClosedFormCost(Cost, Protocol):
    """A cost that can state its best action."""

    def best_action(self, samples: Tensor) -> Tensor | None:
        """Bayes action (..., A) of samples (..., M, D), differentiable in the members, with no gradient at the bounds.

        None where these parameters have no formula.
        """
        ...


@runtime_checkable
class TotalCost(Cost, Protocol):
    """A cost that sees the outcomes of all sites as one number."""

    def total(self, outcome: Tensor) -> Tensor:
        """What the decision is about, outcome (..., D) to (...)."""
        ...


@dataclass(frozen=True)
class ShortfallCost:
    """Commit power a, be paid for it, and pay for what is missing: c(a, p) = -a + penalty relu(a - p)^2.

    The outcome is the power of D >= 1 sites as a fraction of capacity; what counts is p, their mean.
    With p sorted and S_k the sum of the k smallest, a* = min(1, min_k (M / (2 penalty) + S_k) / k).
    """

    penalty: Parameter
    lower: ClassVar[float] = 0.0
    upper: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        require_positive("penalty", self.penalty, CostError)

    def total(self, outcome: Tensor) -> Tensor:
        return _mean_over_sites(outcome)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        committed = action.squeeze(-1)
        return self.penalty * torch.relu(committed - self.total(outcome)) ** 2 - committed

    def best_action(self, samples: Tensor) -> Tensor:
        power = self.total(samples)  # (..., M)
        members = power.shape[-1]
        revenue = members / (2 * _last_axis(self.penalty))
        ordered = sort_members(power)
        count = torch.arange(1, members + 1, dtype=power.dtype, device=power.device)
        found = ((revenue + torch.cumsum(ordered, -1)) / count).amin(-1, keepdim=True)
        found = torch.maximum(found, ordered[..., :1])  # one member falls short, whatever the rounding
        short = (power.detach() <= found).to(power.dtype)  # the members that fall short share the penalty
        action = (revenue + (short * power).sum(-1, keepdim=True)) / short.sum(-1, keepdim=True)
        return _clip(action, self.lower, self.upper)


@dataclass(frozen=True)
class PowerCurve:
    """Wind speed in m/s to power as a fraction of capacity: a ramp, a rated plateau and the cut-off in storms.

    P(v) = sigmoid(ramp_sharpness (h - ramp_speed)) sigmoid(-cutoff_sharpness (h - cutoff_speed)),
    h = v (hub_height / reference_height)^shear. For speeds already at hub height set shear = 0.
    """

    ramp_speed: float = 9.0
    ramp_sharpness: float = 0.8
    cutoff_speed: float = 22.0
    cutoff_sharpness: float = 2.0
    hub_height: float = 100.0
    reference_height: float = 10.0
    shear: float = 0.143

    def __post_init__(self) -> None:
        for name in ("ramp_sharpness", "cutoff_sharpness", "hub_height", "reference_height"):
            require_positive(name, getattr(self, name), CostError)
        require_finite("shear", self.shear, CostError)
        _require_ordered("ramp_speed", self.ramp_speed, "cutoff_speed", self.cutoff_speed)

    @property
    def hub_factor(self) -> float:
        """Hub-height speed over the speed at the reference height."""
        return float((self.hub_height / self.reference_height) ** self.shear)

    def hub_speed(self, speed: Tensor) -> Tensor:
        return speed * self.hub_factor

    def __call__(self, speed: Tensor) -> Tensor:
        """Any shape to the same shape."""
        # Subtracting before scaling keeps the difference exact where the curve is steep.
        ramp = self.ramp_sharpness * self.hub_factor * (speed - self.ramp_speed / self.hub_factor)
        cutoff = self.cutoff_sharpness * self.hub_factor * (self.cutoff_speed / self.hub_factor - speed)
        return torch.exp(logsigmoid(ramp) + logsigmoid(cutoff))


@dataclass(frozen=True)
class WindDispatchCost(ShortfallCost):
    """Commit the power of a wind farm: c(a, y) = -a + penalty relu(a - P(y))^2 (the paper's lambda is `penalty`).

    The outcome is the wind speed in m/s at D >= 1 sites; what counts is the mean of their power.
    """

    power_curve: PowerCurve = field(default_factory=PowerCurve)

    def total(self, outcome: Tensor) -> Tensor:
        return _mean_over_sites(self.power_curve(outcome))


@dataclass(frozen=True)
class ProtectionCost:
    """Protect at level a in [0, 1] against a hazard, with s(y) its severity between 0 and 1:

    c(a, y) = s(y) (1 - a)^exposure_power + false_alarm_ratio (1 - s(y)) a^protection_power,
    s(y) = sigmoid(+-sharpness (y - threshold)), + for a hazard above the threshold, - for one below.

    The paper does not print its protection cost; this is a reconstruction with the properties it states
    (`false_alarm_ratio` is its alpha). For powers 2 and 1, with m = mean s,
    a* = clip(1 - alpha (1 - m) / (2 m), 0, 1), and the curvature there is H = 2 m > 2 alpha / (2 + alpha).
    For D > 1 sites the severity is the mean over the sites.
    """

    threshold: Parameter
    false_alarm_ratio: Parameter
    hazard: Literal["above", "below"] = "above"
    sharpness: Parameter = 10.0
    exposure_power: float = 2.0
    protection_power: float = 1.0
    lower: ClassVar[float] = 0.0
    upper: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        require_positive("false_alarm_ratio", self.false_alarm_ratio, CostError)
        require_positive("sharpness", self.sharpness, CostError)
        for name in ("threshold", "exposure_power", "protection_power"):
            require_finite(name, getattr(self, name), CostError)
        require_one_of("hazard", self.hazard, ("above", "below"), CostError)
        if min(self.exposure_power, self.protection_power) < 1 or self.exposure_power + self.protection_power <= 2:
            raise CostError(
                "exposure_power and protection_power must be at least 1 and one of them above 1, or the expected cost "
                f"has no curvature; got {self.exposure_power} and {self.protection_power}"
            )

    def severity(self, outcome: Tensor) -> Tensor:
        """s(y), outcome (..., D) to (...)."""
        return _mean_over_sites(_logistic(self._log_odds(outcome)))

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        level, log_odds = action.squeeze(-1), self._log_odds(outcome)
        severity, calm = (_mean_over_sites(_logistic(each)) for each in (log_odds, -log_odds))
        exposed = severity * (1 - level) ** self.exposure_power
        return exposed + self.false_alarm_ratio * calm * level**self.protection_power

    def best_action(self, samples: Tensor) -> Tensor | None:
        if (self.exposure_power, self.protection_power) != (2.0, 1.0):
            return None
        log_odds = self._log_odds(samples.detach().movedim(-2, 0))  # (M, ..., D)
        severities = torch.sigmoid(log_odds)
        # Where the hazard is all but impossible the level is far below 0 and clipped, whatever the floor.
        severity = severities.mean((0, -1)).clamp(min=torch.finfo(samples.dtype).eps)  # (...), m
        ratio = self.false_alarm_ratio / 2 / severity
        level = 1 - (1 - severity) * ratio
        # d a*/d y = alpha / (2 m^2) dm/dy; sigmoid(-x) has the digits that 1 - sigmoid(x) has lost.
        inside = (level > self.lower) & (level < self.upper)
        pull = inside * ratio / severity * (self._steepness / (log_odds.shape[0] * log_odds.shape[-1]))
        jacobian = pull[..., None] * severities * torch.sigmoid(-log_odds)
        action = level.clamp(self.lower, self.upper)
        return with_gradient(action, samples, jacobian.movedim(0, -2))[..., None]

    @property
    def _steepness(self) -> Parameter:
        return self.sharpness if self.hazard == "above" else -self.sharpness

    def _log_odds(self, outcome: Tensor) -> Tensor:
        return _last_axis(self._steepness) * (outcome - _last_axis(self.threshold))


@dataclass(frozen=True)
class NewsvendorCost:
    """Stock a, sell y, with linear costs: c(a, y) = underage relu(y - a) + overage relu(a - y).

    y is the sum over D >= 1 sites. a* is the order statistic ceil(M tau), tau = underage / (underage + overage),
    never interpolated; its gradient goes to that one member.
    """

    underage: Parameter
    overage: Parameter
    lower: Parameter
    upper: Parameter

    def __post_init__(self) -> None:
        require_positive("underage", self.underage, CostError)
        require_positive("overage", self.overage, CostError)
        require_bounds(self.lower, self.upper)

    def total(self, outcome: Tensor) -> Tensor:
        return _sum_over_sites(outcome)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        gap = self.total(outcome) - action.squeeze(-1)
        return self.underage * torch.relu(gap) + self.overage * torch.relu(-gap)

    def best_action(self, samples: Tensor) -> Tensor:
        demand = self.total(samples)  # (..., M)
        members = demand.shape[-1]
        rounding = 1 - 4 * torch.finfo(demand.dtype).eps  # M tau just above a whole number is that number
        rank = members * rounding * self.underage / (self.underage + self.overage)
        ordered = sort_members(demand)
        if isinstance(rank, Tensor):
            indices = torch.ceil(rank).long().clamp(1, members) - 1
            chosen = ordered.gather(-1, indices.expand(demand.shape[:-1])[..., None])
        else:
            index = max(math.ceil(rank), 1) - 1
            chosen = ordered[..., index : index + 1]
        position = (demand.detach() == chosen).to(torch.uint8).argmax(-1, keepdim=True)
        return _clip(demand.gather(-1, position), self.lower, self.upper)


@dataclass(frozen=True)
class ImbalanceCost:
    """Buy a, need y, and settle the difference at quadratic cost: c(a, y) = short relu(y - a)^2 + long relu(a - y)^2.

    y is the sum over D >= 1 sites. a* is an expectile: with y sorted and S_k the sum of the k smallest,
    a_k = (long S_k + short (S_M - S_k)) / (long k + short (M - k)), and a* is the largest a_k where short >= long,
    the smallest where short < long, clipped to the bounds.
    """

    short: Parameter
    long: Parameter
    lower: Parameter
    upper: Parameter

    def __post_init__(self) -> None:
        require_positive("short", self.short, CostError)
        require_positive("long", self.long, CostError)
        require_bounds(self.lower, self.upper)

    def total(self, outcome: Tensor) -> Tensor:
        return _sum_over_sites(outcome)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        gap = self.total(outcome) - action.squeeze(-1)
        return self.short * torch.relu(gap) ** 2 + self.long * torch.relu(-gap) ** 2

    def best_action(self, samples: Tensor) -> Tensor:
        need = self.total(samples)  # (..., M)
        members = need.shape[-1]
        centre = need.detach().mean(-1, keepdim=True)  # sums of differences keep their digits in physical units
        short, long = _last_axis(self.short), _last_axis(self.long)
        below = torch.cumsum(sort_members(need.detach() - centre), -1)  # S_1 .. S_M
        count = torch.arange(1, members + 1, device=need.device)
        roots = (long * below + short * (below[..., -1:] - below)) / (long * count + short * (members - count))
        largest, smallest = roots.amax(-1, keepdim=True), roots.amin(-1, keepdim=True)
        expectile = _where(short >= long, largest, smallest)
        above = (need.detach() - centre > expectile).to(need.dtype)
        weight = long + (short - long) * above
        action = centre + (weight * (need - centre)).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True)
        return _clip(action, self.lower, self.upper)


@dataclass(frozen=True)
class FunctionCost:
    """A torch function of action and outcome as a cost; see `cost_function`."""

    function: Callable[[Tensor, Tensor], Tensor]
    lower: Parameter
    upper: Parameter

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise CostError(f"function must be callable as f(action, outcome), got {type(self.function).__name__}")
        require_bounds(self.lower, self.upper)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        if outcome.shape[-1] == 1:
            return self.function(action.squeeze(-1), outcome.squeeze(-1))
        return self.function(action, outcome)


def cost_function(function: Callable[[Tensor, Tensor], Tensor], lower: Parameter, upper: Parameter) -> FunctionCost:
    """Wrap any torch function f(action, outcome) as a cost on [lower, upper].

    For a single outcome, D = 1, both arguments come without their last axis and f is elementwise; for D > 1 they are
    action (..., 1) and outcome (..., D), and f returns (...). It must be differentiable in both arguments.

    >>> import torch, stakes
    >>> cost = stakes.cost_function(lambda a, y: (a - y) ** 2, lower=0.0, upper=10.0)
    >>> members = torch.tensor([[1.0], [2.0], [6.0]])  # (M, D)
    >>> stakes.optimal_action(cost, members)
    tensor([3.])
    """
    return FunctionCost(function, lower, upper)


def _logistic(log_odds: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), with a gradient that keeps its digits at both ends, unlike that of `torch.sigmoid`."""
    return torch.exp(logsigmoid(log_odds))


def _clip(action: Tensor, lower: Parameter, upper: Parameter) -> Tensor:
    """Action (..., 1) within bounds (...), with no gradient at the bounds."""
    if not (isinstance(lower, Tensor) or isinstance(upper, Tensor)):
        return hardtanh(action, lower, upper)  # unlike clamp, no gradient where it only touches
    lower, upper = _last_axis(lower), _last_axis(upper)
    clipped = torch.where(action <= lower, lower, torch.where(action >= upper, upper, action))
    return clipped.to(action.dtype)


def _mean_over_sites(values: Tensor) -> Tensor:
    """(..., D) to (...); a single site is not copied."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values.mean(-1)


def _sum_over_sites(values: Tensor) -> Tensor:
    return values.squeeze(-1) if values.shape[-1] == 1 else values.sum(-1)


def _where(condition: bool | Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    if isinstance(condition, Tensor):
        return torch.where(condition, chosen, other)
    return chosen if condition else other


def _last_axis(parameter: Parameter) -> Parameter:
    """A parameter (...) made to broadcast against (..., M) or (..., D)."""
    return parameter[..., None] if isinstance(parameter, Tensor) else parameter


def _require_ordered(name: str, value: Parameter, other_name: str, other: Parameter) -> None:
    require_finite(name, value, CostError)
    require_finite(other_name, other, CostError)
    if known_false(value < other):
        raise CostError(f"{name} must be below {other_name}, got {value} and {other}")


def require_cost(cost: object) -> None:
    """Raise unless the object can serve as a cost."""
    if not (callable(cost) and hasattr(cost, "lower") and hasattr(cost, "upper")):
        raise CostError(f"cost must have lower, upper and be callable as c(action, outcome), got {type(cost).__name__}")
    require_bounds(cost.lower, cost.upper)


def require_bounds(lower: Parameter, upper: Parameter) -> None:
    """Raise unless the bounds are finite and lower < upper."""
    _require_ordered("lower", lower, "upper", upper)
