"""Costs of one number, with a formula for their best action: shortfall, imbalance, newsvendor, protection, wind."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import torch
from torch import Tensor
from torch.nn.functional import hardtanh, logsigmoid

from stakes.argument_checks import require_below, require_finite, require_one_of, require_positive
from stakes.costs.cost import Cost, Parameter, checked_at_both_ends, require_bounds
from stakes.costs.member_weights import in_order, mean_of_members, relative_weights, sort_members, with_gradient
from stakes.costs.parameter_range import ParameterRange
from stakes.errors import CostError


@dataclass(frozen=True)
class PowerCurve:
    """Power as a fraction of capacity at a wind speed in m/s: a ramp, a rated plateau, and cut-off in storms.

    P(v) = sigmoid(ramp_sharpness (h - ramp_speed)) sigmoid(-cutoff_sharpness (h - cutoff_speed)),
    h = v (hub_height / reference_height)^shear. For speeds already at hub height set shear = 0.

    Attributes:
        ramp_speed: Speed at hub height at which half the capacity is reached, in m/s.
        ramp_sharpness: How steeply the power rises there, per m/s.
        cutoff_speed: Speed at hub height at which cut-off halves the power, in m/s; above `ramp_speed`.
        cutoff_sharpness: How steeply the power falls there, per m/s.
        hub_height: Height of the hub, in m.
        reference_height: Height at which the speed is given, in m.
        shear: Exponent of the power law by which the wind grows with height.
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
        require_below("ramp_speed", self.ramp_speed, "cutoff_speed", self.cutoff_speed, CostError)

    @property
    def hub_factor(self) -> float:
        """Hub-height speed over the speed at the reference height."""
        return float((self.hub_height / self.reference_height) ** self.shear)

    def hub_speed(self, speed: Tensor) -> Tensor:
        """The wind speed at hub height.

        Args:
            speed: Wind speed at the reference height in m/s, of any shape.
        """
        return speed * self.hub_factor

    def __call__(self, speed: Tensor) -> Tensor:
        """Power as a fraction of capacity, in the shape of the speeds.

        Args:
            speed: Wind speed at the reference height in m/s, of any shape.
        """
        # Subtracting before scaling keeps the difference exact where the curve is steep.
        ramp = self.ramp_sharpness * self.hub_factor * (speed - self.ramp_speed / self.hub_factor)
        cutoff = self.cutoff_sharpness * self.hub_factor * (self.cutoff_speed / self.hub_factor - speed)
        return torch.exp(logsigmoid(ramp) + logsigmoid(cutoff))


PriceParameter = Parameter | ParameterRange
"""A parameter that may be a range, from which training draws a value for each case."""


class ScalarCost:
    """What these costs tell reports and checks about their outcomes."""

    outcome_is_share: ClassVar[bool] = False  # of capacity, between 0 and 1

    if TYPE_CHECKING:

        @property
        def lower(self) -> Any: ...

        @property
        def upper(self) -> Any: ...

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost c(a, y) of each action at its outcome, (...).

        Args:
            action: Actions (..., 1) within the bounds.
            outcome: Outcomes (..., D) that broadcast against the actions.
        """
        raise NotImplementedError

    def best_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor | None:
        """The best action a*, (..., 1), with its gradient by the members; None where there is no formula.

        Args:
            samples: Members (..., M, D) of the outcome.
            weights: Weight of each member, (..., M), not negative; None for equal weights.
        """
        raise NotImplementedError

    @property
    def tail(self) -> tuple[float, Literal["above", "below"]] | None:
        """The threshold, and its side, beyond which the cost is highest."""
        return None

    @property
    def deciding_outcomes(self) -> tuple[float, float]:
        """The range of outcomes over which the decision changes."""
        return float(self.lower), float(self.upper)


def scalar_cost(cost: object) -> ScalarCost | None:
    """The cost as one of these; None for any other."""
    return cost if isinstance(cost, ScalarCost) else None


def own_prices(cost: object) -> dict[str, Tensor]:
    """The parameters that differ between cases, (N,); none where all cases share one cost."""
    if not isinstance(cost, ScalarCost):
        return {}
    values = {each.name: getattr(cost, each.name) for each in fields(cast(Any, cost))}
    return {name: value for name, value in values.items() if isinstance(value, Tensor) and value.dim() == 1}


def cost_of_rows(cost: Cost, rows: Any) -> Cost:
    """The cost of some cases where each has its own prices; the same cost where all share one."""
    own = {name: value[rows] for name, value in own_prices(cost).items()}
    return replace(cast(Any, cost), **own) if own else cost


_BEFORE_CUT_OFF = 2.0  # m/s: the paper's cut-off region begins where power is already falling


@dataclass(frozen=True)
class ShortfallCost(ScalarCost):
    """Sell power a ahead and pay a penalty for any shortfall: c(a, p) = -a + penalty relu(a - p)^2.

    The outcome is the power of D >= 1 sites as a fraction of capacity; only its mean p matters.
    With p sorted and S_k the sum of the k smallest, a* = min(1, min_k (M / (2 penalty) + S_k) / k).

    Attributes:
        penalty: Price of the squared shortfall, where committed power earns 1; positive.
    """

    penalty: PriceParameter
    lower: ClassVar[float] = 0.0
    upper: ClassVar[float] = 1.0
    convex: ClassVar[bool] = True
    action_is_outcome: ClassVar[bool] = True
    outcome_is_share: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not checked_at_both_ends(self):
            _require_positive(self, "penalty")

    def total(self, outcome: Tensor) -> Tensor:
        """The mean power p of the sites, (...).

        Args:
            outcome: Power (..., D) of the sites, as a fraction of capacity.
        """
        return _mean_over_sites(outcome)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost c(a, p), (...), of committed power (..., 1), both as fractions of capacity."""
        committed = action.squeeze(-1)
        return self.penalty * torch.relu(committed - self.total(outcome)) ** 2 - committed

    def best_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        power = self.total(samples)  # (..., M)
        weights = relative_weights(weights, samples)
        revenue = power.shape[-1] / (2 * _last_axis(self.penalty))
        ordered, count, sums = in_order(power, weights)
        unclipped = ((revenue + sums) / count).amin(-1, keepdim=True)
        lowest = ordered[..., :1] if weights is None else _lowest_that_counts(power.detach(), weights)
        unclipped = torch.maximum(unclipped, lowest)  # one member falls short, whatever the rounding
        short = (power.detach() <= unclipped).to(power.dtype)  # the members that fall short share the penalty
        short = short if weights is None else short * weights
        action = (revenue + (short * power).sum(-1, keepdim=True)) / short.sum(-1, keepdim=True)
        return _clip(action, self.lower, self.upper)


@dataclass(frozen=True)
class WindDispatchCost(ShortfallCost):
    """Sell the power of a wind farm ahead: c(a, y) = -a + penalty relu(a - P(y))^2 (the paper's lambda is `penalty`).

    The outcome is the wind speed in m/s at D >= 1 sites; only the mean of their power matters. The best action is that
    of `ShortfallCost` for this power.

    Attributes:
        penalty: lambda, the price of the squared shortfall, where committed power earns 1; positive.
        power_curve: P, the power curve of a site.
    """

    power_curve: PowerCurve = field(default_factory=PowerCurve)
    outcome_bounds: ClassVar[tuple[float | None, float | None]] = (0.0, None)
    outcome_is_share: ClassVar[bool] = False

    @property
    def tail(self) -> tuple[float, Literal["above", "below"]]:
        """The wind speeds at which the cost is highest, from just below cut-off upwards."""
        curve = self.power_curve
        return (curve.cutoff_speed - _BEFORE_CUT_OFF) / curve.hub_factor, "above"

    @property
    def deciding_outcomes(self) -> tuple[float, float]:
        """The range of wind speeds over which the decision changes."""
        return 0.0, 1.2 * self.power_curve.cutoff_speed / self.power_curve.hub_factor

    def total(self, outcome: Tensor) -> Tensor:
        """The mean power P(y), (...), at wind speeds (..., D) in m/s at the curve's reference height."""
        return _mean_over_sites(self.power_curve(outcome))


@dataclass(frozen=True)
class ProtectionCost(ScalarCost):
    """Protect at a level a in [0, 1] against a hazard of severity s(y) between 0 and 1:

    c(a, y) = s(y) (1 - a)^exposure_power + false_alarm_ratio (1 - s(y)) a^protection_power,
    s(y) = sigmoid(+-sharpness (y - threshold)), + for a hazard above the threshold, - for one below.

    The paper does not print its protection cost; this is a reconstruction with the properties it states
    (`false_alarm_ratio` is its alpha). With powers 2 and 1, and m = mean s,
    a* = clip(1 - alpha (1 - m) / (2 m), 0, 1), and the curvature there is H = 2 m > 2 alpha / (2 + alpha).
    For D > 1 sites the severity is their mean. Other powers have no closed form.

    Attributes:
        threshold: The outcome at which the severity is one half, in the outcome's unit.
        false_alarm_ratio: alpha, the cost of full protection without a hazard over that of a hazard without
            protection; positive.
        hazard: Whether the hazard lies "above" the threshold or "below" it.
        sharpness: How steeply the severity rises at the threshold, per unit of the outcome; positive.
        exposure_power: Exponent of the unprotected share, at least 1.
        protection_power: Exponent of the protection, at least 1; at least one exponent must exceed 1.
    """

    threshold: PriceParameter
    false_alarm_ratio: PriceParameter
    hazard: Literal["above", "below"] = "above"
    sharpness: PriceParameter = 10.0
    exposure_power: float = 2.0
    protection_power: float = 1.0
    lower: ClassVar[float] = 0.0
    upper: ClassVar[float] = 1.0
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if checked_at_both_ends(self):
            return
        _require_positive(self, "false_alarm_ratio", "sharpness")
        for name in ("threshold", "exposure_power", "protection_power"):
            require_finite(name, getattr(self, name), CostError)
        require_one_of("hazard", self.hazard, ("above", "below"), CostError)
        if min(self.exposure_power, self.protection_power) < 1 or self.exposure_power + self.protection_power <= 2:
            raise CostError(
                "exposure_power and protection_power must be at least 1, and one of them above 1 (or the expected cost "
                f"has no curvature), got {self.exposure_power} and {self.protection_power}"
            )

    @property
    def tail(self) -> tuple[float, Literal["above", "below"]] | None:
        """Where the hazard lies; None if the threshold differs between cases."""
        return (float(self.threshold), self.hazard) if isinstance(self.threshold, float | int) else None

    @property
    def deciding_outcomes(self) -> tuple[float, float]:
        threshold, width = float(self.threshold), 10 / float(self.sharpness)
        return threshold - width, threshold + width

    def severity(self, outcome: Tensor) -> Tensor:
        """The severity s(y), the mean over the sites, (...), between 0 and 1.

        Args:
            outcome: Outcomes (..., D) of the sites, in the unit of the threshold.
        """
        return _mean_over_sites(_logistic(self._log_odds(outcome)))

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost c(a, y), (...), of a level of protection (..., 1); a certain hazard costs 1 without any."""
        level, log_odds = action.squeeze(-1), self._log_odds(outcome)
        severity, calm = (_mean_over_sites(_logistic(each)) for each in (log_odds, -log_odds))
        exposed = severity * (1 - level) ** self.exposure_power
        return exposed + self.false_alarm_ratio * calm * level**self.protection_power

    def best_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor | None:
        """The best level of protection a*, (..., 1), with its gradient; None for powers other than 2 and 1."""
        if (self.exposure_power, self.protection_power) != (2.0, 1.0):
            return None
        log_odds = self._log_odds(samples.detach().movedim(-2, 0))  # (M, ..., D)
        severities = torch.sigmoid(log_odds)
        weights = relative_weights(weights, samples)
        counted = severities if weights is None else severities * weights.movedim(-1, 0)[..., None]
        severity = counted.mean((0, -1)).clamp(min=torch.finfo(samples.dtype).tiny)  # (...), m
        ratio = self.false_alarm_ratio / 2 / severity
        level = 1 - (1 - severity) * ratio
        # d a*/d y = alpha / (2 m^2) dm/dy; sigmoid(-x) has the digits that 1 - sigmoid(x) has lost.
        inside = (level > self.lower) & (level < self.upper)
        pull = torch.where(inside, ratio / severity, 0.0)
        pull = pull * (self._steepness / (log_odds.shape[0] * log_odds.shape[-1]))
        jacobian = pull[..., None] * counted * torch.sigmoid(-log_odds)
        action = level.clamp(self.lower, self.upper)
        return with_gradient(action, samples, jacobian.movedim(0, -2))[..., None]

    @property
    def _steepness(self) -> PriceParameter:
        return self.sharpness if self.hazard == "above" else -self.sharpness

    def _log_odds(self, outcome: Tensor) -> Tensor:
        return _last_axis(self._steepness) * (outcome - _last_axis(self.threshold))


@dataclass(frozen=True)
class CostLossCost(ScalarCost):
    """Protect (a = 1) or not (a = 0) against an event, at a price: c(a, y) = protection a + loss (1 - a) s(y).

    s(y) is 1 if the outcome lies beyond the threshold, else 0: the cost-loss model of forecast verification. The best
    action is to protect if the forecast probability of the event exceeds protection / loss. Over a range of
    `protection`, the value of a forecast is its relative economic value. Over a range of `threshold`, its excess cost
    over perfect foresight is the Murphy diagram of its quantile at level 1 - protection / loss. For D > 1 sites s is
    the mean over the sites. The action jumps between 0 and 1, so nothing can be trained on this cost.

    Attributes:
        threshold: The outcome beyond which the event happens, in the outcome's unit.
        protection: Cost of full protection; positive, and only useful below `loss`.
        loss: Cost of the event without protection; positive.
        event: Whether it happens "above" the threshold or "below" it; at the threshold it does not.
    """

    threshold: PriceParameter
    protection: PriceParameter
    loss: PriceParameter = 1.0
    event: Literal["above", "below"] = "above"
    lower: ClassVar[float] = 0.0
    upper: ClassVar[float] = 1.0
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if checked_at_both_ends(self):
            return
        _require_positive(self, "protection", "loss")
        require_finite("threshold", cast(Parameter, self.threshold), CostError)
        require_one_of("event", self.event, ("above", "below"), CostError)

    @property
    def tail(self) -> tuple[float, Literal["above", "below"]] | None:
        """Where the event happens; None if the threshold differs between cases."""
        return (float(self.threshold), self.event) if isinstance(self.threshold, float | int) else None

    @property
    def deciding_outcomes(self) -> tuple[float, float]:
        """Outcomes on both sides of the threshold."""
        threshold = float(self.threshold)
        return threshold - max(1.0, abs(threshold)), threshold + max(1.0, abs(threshold))

    def events(self, outcome: Tensor) -> Tensor:
        """The share of the sites at which the event happens, (...).

        Args:
            outcome: Outcomes (..., D) of the sites, in the unit of the threshold.
        """
        threshold = _last_axis(self.threshold)
        happens = outcome > threshold if self.event == "above" else outcome < threshold
        return _mean_over_sites(happens.to(outcome.dtype))

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost c(a, y), (...), of a share of full protection (..., 1), from 0 to 1."""
        level = action.squeeze(-1)
        return self.protection * level + self.loss * (1 - level) * self.events(outcome)

    def best_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        """The best level of protection a*, (..., 1), 0 or 1, which has no gradient."""
        events = self.events(samples.detach().movedim(-2, 0)).movedim(0, -1)  # (..., M)
        share = mean_of_members(events, relative_weights(weights, samples), -1)
        return (share * self.loss > self.protection).to(samples.dtype)[..., None]


class _SumCost(ScalarCost):
    """A cost of too little and of too much of a quantity, the sum over all sites."""

    action_is_outcome: ClassVar[bool] = True
    prices: ClassVar[tuple[str, str]]

    def __post_init__(self) -> None:
        if not checked_at_both_ends(self):
            _require_positive(self, *self.prices)
            require_bounds(self.lower, self.upper)

    def total(self, outcome: Tensor) -> Tensor:
        """The sum over the sites, (...).

        Args:
            outcome: Outcomes (..., D) of the sites.
        """
        return outcome.squeeze(-1) if outcome.shape[-1] == 1 else outcome.sum(-1)


@dataclass(frozen=True)
class NewsvendorCost(_SumCost):
    """Stock a for a demand y, at linear costs: c(a, y) = underage relu(y - a) + overage relu(a - y).

    y is the sum over D >= 1 sites. a* is the order statistic ceil(M tau), tau = underage / (underage + overage),
    never interpolated, and its gradient goes to that one member. With weights it is the smallest member at which the
    cumulative weight reaches tau.

    Attributes:
        underage: Cost of one missing unit, such as the lost margin; positive.
        overage: Cost of one excess unit, such as its price less its salvage value; positive.
        lower: Smallest stock, in units of the demand.
        upper: Largest stock, above `lower`.
    """

    underage: PriceParameter
    overage: PriceParameter
    lower: Parameter
    upper: Parameter
    convex: ClassVar[bool] = True
    prices: ClassVar[tuple[str, str]] = ("underage", "overage")

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost c(a, y), (...), of a stock (..., 1) that meets the demand (..., D) of the sites."""
        gap = self.total(outcome) - action.squeeze(-1)
        return self.underage * torch.relu(gap) + self.overage * torch.relu(-gap)

    def best_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        demand = self.total(samples)  # (..., M)
        members = demand.shape[-1]
        rounding = 1 - 4 * torch.finfo(demand.dtype).eps  # M tau just above a whole number is that number
        underage, overage = (
            price.to(demand.dtype) if isinstance(price, Tensor) else price for price in (self.underage, self.overage)
        )
        rank = members * rounding * underage / (underage + overage)
        if (weights := relative_weights(weights, samples)) is not None:
            return _clip(_weighted_order_statistic(demand, weights, rank), self.lower, self.upper)
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
class ImbalanceCost(_SumCost):
    """Buy a, need y, and settle the difference at quadratic cost: c(a, y) = short relu(y - a)^2 + long relu(a - y)^2.

    y is the sum over D >= 1 sites. a* is an expectile: with y sorted and S_k the sum of the k smallest,
    a_k = (long S_k + short (S_M - S_k)) / (long k + short (M - k)), and a* is the largest a_k where short >= long,
    the smallest where short < long, clipped to the bounds.

    Attributes:
        short: Cost per squared missing unit; positive.
        long: Cost per squared excess unit; positive.
        lower: Smallest action, in units of the need.
        upper: Largest action, above `lower`.
    """

    short: PriceParameter
    long: PriceParameter
    lower: Parameter
    upper: Parameter
    convex: ClassVar[bool] = True
    prices: ClassVar[tuple[str, str]] = ("short", "long")

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost c(a, y), (...), of an amount bought (..., 1) where the sites need (..., D)."""
        gap = self.total(outcome) - action.squeeze(-1)
        return self.short * torch.relu(gap) ** 2 + self.long * torch.relu(-gap) ** 2

    def best_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
        need = self.total(samples)  # (..., M)
        members, weights = need.shape[-1], relative_weights(weights, samples)
        # Sums of differences keep their digits in physical units.
        centre = mean_of_members(need.detach(), weights, -1)[..., None]
        short, long = _last_axis(self.short), _last_axis(self.long)
        _, count, below = in_order(need.detach() - centre, weights)  # S_1 .. S_M
        roots = (long * below + short * (below[..., -1:] - below)) / (long * count + short * (members - count))
        largest, smallest = roots.amax(-1, keepdim=True), roots.amin(-1, keepdim=True)
        expectile = _where(short >= long, largest, smallest)
        above = (need.detach() - centre > expectile).to(need.dtype)
        weight = long * (1 - above) + short * above  # exact, however far apart the prices are
        weight = weight if weights is None else weight * weights
        action = centre + (weight * (need - centre)).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True)
        return _clip(action, self.lower, self.upper)


def _weighted_order_statistic(values: Tensor, weights: Tensor, rank: Parameter) -> Tensor:
    """The smallest member (..., 1) whose cumulative weight is at least `rank`, of M in all."""
    ordered, count, _ = in_order(values, weights)
    place = (count < _last_axis(rank)).sum(-1, keepdim=True).clamp(max=values.shape[-1] - 1)
    chosen = (values.detach() == ordered.gather(-1, place)) & (weights > 0)
    return values.gather(-1, chosen.to(torch.uint8).argmax(-1, keepdim=True))


def _lowest_that_counts(values: Tensor, weights: Tensor) -> Tensor:
    """The smallest value (..., 1) of a member whose weight is not zero."""
    return torch.where(weights > 0, values, torch.inf).amin(-1, keepdim=True)


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


def _where(condition: bool | Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    if isinstance(condition, Tensor):
        return torch.where(condition, chosen, other)
    return chosen if condition else other


def _require_positive(cost: object, *names: str) -> None:
    for name in names:
        require_positive(name, getattr(cost, name), CostError)


def _last_axis(parameter: PriceParameter) -> Parameter:
    """A parameter (...) made to broadcast against (..., M) or (..., D)."""
    if isinstance(parameter, ParameterRange):
        parameter.refuse()
    return parameter[..., None] if isinstance(parameter, Tensor) else parameter
