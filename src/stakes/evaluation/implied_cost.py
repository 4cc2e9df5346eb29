"""The cost parameter that past actions imply: the first-order condition, read backwards.

An action of least expected cost has E[c'(a, Y; p)] = 0, whatever was known when it was taken (Elliott, Komunjer and
Timmermann, 2005). The parameter p at which that holds for the actions taken and what happened is the implied one, and
those at which it cannot be rejected are its interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.costs.cost import (
    Cost,
    RangedParameter,
    action_parts,
    ranged_parameter,
    require_cost,
    user_cost_errors,
    with_parameter,
)
from stakes.costs.member_weights import mean_of_members
from stakes.data.case_table import checked_times
from stakes.errors import CostError, NonFiniteError, ShapeError
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling, block_length
from stakes.evaluation.value import given_forecast, given_outcomes
from stakes.text import count_text, interval_text, number_text

Floats = NDArray[np.float64]
_GRID = 49  # values of a range at which the condition is looked at
_HALVINGS = 14  # between two of them: to 1e-5 of a value in a range of 1 to 1000
_SHARES: list[float] = np.linspace(0, 1, _GRID).tolist()
_LITTLE = 1e-9  # of the largest derivative: what changes less does not depend on the parameter
_OTHER_PRICE = {"underage": "overage", "short": "long"}  # prices of too little, and of too much


@dataclass(frozen=True)
class ImpliedCost:
    """The value of a cost parameter that past actions imply.

    Attributes:
        parameter: The name of the parameter.
        value: Its implied value; NaN if the actions do not reveal one.
        low: The lower end of its 95 % interval, from blocks of neighbouring cases; the end of the range where values
            below it are not rejected either.
        high: The upper end, likewise.
        reason: Why the actions reveal no value; empty if they do.
        cases: Number of informative actions: those strictly between the bounds.
        at_bounds: Number of actions at a bound, which carry no information.
        by_forecast: The value, with its interval, at which the forecast that was there calls for these actions; None
            without a forecast.
        by_size: The values that the lower and the higher half of the actions imply, where these differ by more than
            chance, so that no one number explains all actions; None otherwise.
        ties: The share of the outcomes that equal the action.
        other_price: The price of the opposite error, where `value` is stated as a multiple of it; None otherwise.
    """

    parameter: str
    value: float
    low: float
    high: float
    reason: str
    cases: int
    at_bounds: int
    by_forecast: Difference | None = None
    by_size: tuple[float, float] | None = None
    ties: float = 0.0
    other_price: float | None = None

    @property
    def identified(self) -> bool:
        """Whether the actions reveal a value."""
        return not self.reason

    @property
    def sentence(self) -> str:
        """What the actions say, in words."""
        left_out = f" {count_text(self.at_bounds, 'action')} at a bound left out." if self.at_bounds else ""
        if not self.identified:
            return f"The actions do not reveal {self.parameter}: {self.reason}.{left_out}"
        told = (
            f"{self._told(Difference(self.value, self.low, self.high))}, judging by {count_text(self.cases, 'action')}."
        )
        if self.by_forecast is not None:
            told += f" The forecast implies {self._amounts(self.by_forecast)}."
        if self.by_size is not None:
            low, high = (number_text(value / (self.other_price or 1.0), 3) for value in self.by_size)
            told += f" No single number explains all actions: the lower half implies {low}, the higher half {high}."
        return told + left_out

    def _told(self, implied: Difference) -> str:
        amounts = self._amounts(implied)
        if self.other_price is None:
            return f"The actions behave as if {self.parameter} were {amounts}"
        return f"The actions behave as if being short cost {amounts} times as much as being long"

    def _amounts(self, implied: Difference) -> str:
        mean, low, high = (each / (self.other_price or 1.0) for each in implied)
        return interval_text(mean, low, high)


def implied_cost(
    actions: ArrayLike,
    outcomes: ArrayLike,
    cost: Cost,
    *,
    members: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    times: Any = None,
    block: int | Literal["auto"] = "auto",
) -> ImpliedCost:
    """The value of a cost parameter that past actions imply, with its interval.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> known = random.normal(50, 10, size=3000)
    >>> demand = known + 5 * random.normal(size=3000)
    >>> stock = known + 5 * 0.8416  # the 80 % quantile of what can be known: too few cost 4 times as much as too many
    >>> cost = stakes.NewsvendorCost(stakes.ParameterRange(0.1, 100), 1.0, 0.0, 200.0)
    >>> implied = stakes.implied_cost(stock, demand, cost)
    >>> implied.low < 4 < implied.high, round(implied.value, 1)
    (True, 3.8)

    Args:
        actions: Actions taken, (N,), in time order.
        outcomes: What happened, (N,) or (N, D).
        cost: The cost of a scalar action, one of whose parameters is a range: the values considered.
        members: The forecast at the time, members (N, M) or (N, M, D), for `by_forecast`; None for none.
        weights: Weight of each member, (M,); None for equal weights.
        times: When the outcomes happened, (N,); None if unknown.
        block: How many neighbouring cases depend on each other; "auto" derives it from their times.
    """
    action, outcome = _checked(actions, outcomes, cost)
    given = None if members is None else given_forecast("members", members, outcomes, outcome, weights)
    ranged = ranged_parameter(cost)
    assert ranged is not None
    size = block_length(len(action), checked_times(times, len(action)), block)
    inner = _interior(with_parameter(cost, ranged.name, ranged.range.middle), action)
    other = getattr(cost, _OTHER_PRICE.get(ranged.name, ""), None)
    about = {
        "parameter": ranged.name,
        "cases": int(inner.sum()),
        "at_bounds": int((~inner).sum()),
        "other_price": float(other) if isinstance(other, int | float) else None,
    }

    def untold(reason: str) -> ImpliedCost:
        return ImpliedCost(value=math.nan, low=math.nan, high=math.nan, reason=reason, **about)  # type: ignore[arg-type]

    if not inner.any():
        return untold("all of them are at a bound")
    if inner.sum() < LEAST_BLOCKS * size:
        return untold(f"{inner.sum()} of them between the bounds, in blocks of {size}, are too few")
    if float(np.ptp(action[inner])) <= _LITTLE * float(np.abs(action).max()):
        return untold("they never vary, so a habit cannot be told from a choice")
    condition = _Condition(cost, ranged, action, outcome[None], inner, size)
    found, reason = condition.solved()
    if reason:
        return untold(reason)
    by_forecast = None
    if given is not None:
        shares = None if given.weights is None else torch.from_numpy(given.weights / given.weights.mean())
        drawn = torch.from_numpy(given.members).movedim(1, 0)
        called_for, why = _Condition(cost, ranged, action, drawn, inner, size, shares).solved()
        by_forecast = None if why else called_for
    value, low, high = found
    return ImpliedCost(
        value=value,
        low=low,
        high=high,
        reason="",
        by_forecast=by_forecast,
        by_size=condition.by_size(value),
        ties=condition.ties,
        **about,  # type: ignore[arg-type]
    )


@dataclass(frozen=True, eq=False)
class _Condition:
    """E[c'(a, Y; p)] = 0 as a function of p, from the left and from the right, where outcomes may equal actions."""

    cost: Cost
    ranged: RangedParameter
    action: Floats  # (N,)
    outcome: Tensor  # (M, N, D)
    inner: NDArray[np.bool_]  # which cases are judged, (N,)
    block: int
    weights: Tensor | None = None  # of the members, (M,), 1 in the mean
    _known: dict[float, Floats] = field(default_factory=dict)

    def slopes(self, share: float) -> Floats:
        """The derivative of the cost at each action from below and from above, (2, N), NaN at a bound."""
        if share not in self._known:
            cost = with_parameter(self.cost, self.ranged.name, self._value(share))
            sides = np.stack([np.nextafter(self.action, end) for end in (-np.inf, np.inf)])
            weights = None if self.weights is None else self.weights[:, None, None]
            with user_cost_errors(cost), torch.enable_grad():
                taken = torch.from_numpy(sides)[..., None].requires_grad_()
                outcome = self.outcome[:, None].expand(-1, 2, -1, -1)
                paid = mean_of_members(cost(taken, outcome), weights, 0)
                if not paid.requires_grad:
                    raise CostError(f"cost must depend on the action through functions of torch, got {cost}")
                (slope,) = torch.autograd.grad(paid.sum(), taken)
            self._known[share] = np.where(self.inner, slope[..., 0].numpy(), np.nan)
        return self._known[share]

    def _value(self, share: float) -> float:
        return float(self.ranged.range.at(torch.tensor(share, dtype=torch.float64)))

    def _mean(self, share: float) -> float:
        return float(np.nanmean(self.slopes(share)))

    def held(self, share: float) -> bool:
        """Whether the condition cannot be rejected at this value."""
        sides = self.slopes(share)
        no_ties = np.array_equal(sides[0], sides[1], equal_nan=True)
        sides = sides[:1] if no_ties else sides
        means = Resampling(len(self.action), block=self.block).means(sides[:, None, None])
        return means[0].interval().low <= 0 <= means[-1].interval().high

    @property
    def ties(self) -> float:
        """How many of the outcomes equal the action."""
        below, above = self.slopes(0.5)
        return float((np.abs(above - below) > _LITTLE * np.nanmax(np.abs(above)))[self.inner].mean())

    def solved(self) -> tuple[Difference, str]:
        """The value with its interval, or why there is none."""
        nowhere, ranged = Difference(math.nan, math.nan, math.nan), self.ranged
        words = ranged.in_words
        size = max(float(np.nanmax(np.abs(self.slopes(share)[0]))) for share in (0.0, 1.0))
        means = [self._mean(share) for share in _SHARES]
        if np.ptp(means) <= _LITTLE * size:
            return nowhere, "at these outcomes the marginal cost does not depend on it"
        if len(roots := self._roots()) > 1:
            return nowhere, f"several values of {words} explain them"
        if not roots:
            return nowhere, f"they are {'higher' if means[0] > 0 else 'lower'} than any {words} calls for"
        (root,) = roots
        ends = [self._end(root, _SHARES[::-1]), self._end(root, _SHARES)]
        return Difference(*(self._value(share) for share in (root, *ends))), ""

    def _end(self, root: float, shares: list[float]) -> float:
        """How far the values go on that are not rejected, from the root through shares of the range in this order."""
        inside = root
        for share in shares:
            if (share - root) * (shares[-1] - root) > 0:
                if not self.held(share):
                    return self._boundary(inside, share, self.held)
                inside = share
        return inside

    def _roots(self) -> list[float]:
        """Where the condition holds, as shares of the range."""
        above = [self._mean(share) > 0 for share in _SHARES]
        turns = [place for place in range(_GRID - 1) if above[place] != above[place + 1]]

        def as_at(turn: int) -> Callable[[float], bool]:
            return lambda share: (self._mean(share) > 0) == above[turn]

        return [self._boundary(_SHARES[turn], _SHARES[turn + 1], as_at(turn)) for turn in turns]

    def _boundary(self, inside: float, outside: float, holds: Callable[[float], bool]) -> float:
        """Where it ceases to hold, between a share where it does and another; that one where it holds there too."""
        if inside == outside or holds(outside):
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if holds(middle) else (inside, middle)
        return inside

    def by_size(self, value: float) -> tuple[float, float] | None:
        """What the lower and the higher half of the actions imply, where that differs by more than chance.

        Whether the slope at the value goes with the action is tested, less what choosing the value took away.
        """
        share = float(self.ranged.range.share(torch.tensor(value, dtype=torch.float64)))
        step = 1e-4 if share < 0.5 else -1e-4
        slope, moved = (self.slopes(at).mean(0) for at in (share, share + step))
        steepness = moved - slope
        size = np.where(self.inner, self.action, np.nan)
        if not np.nansum(steepness):
            return None
        centre = float(np.nansum(size * steepness) / np.nansum(steepness))
        with_size = ((size - centre) * slope)[None, None, None]
        (tested,) = Resampling(len(self.action), block=self.block).means(with_size)
        if not tested.interval().significant:
            return None
        middle = float(np.nanmedian(size))
        halves = [self.inner & (self.action <= middle), self.inner & (self.action > middle)]
        apart = [
            _Condition(self.cost, self.ranged, self.action, self.outcome, half, self.block, self.weights)._roots()
            for half in halves
            if half.any()
        ]
        if [len(roots) for roots in apart] != [1, 1]:
            return None
        return self._value(apart[0][0]), self._value(apart[1][0])


def _interior(cost: Cost, action: Floats) -> NDArray[np.bool_]:
    lower, upper = (float(bound) for bound in (cost.lower, cost.upper))
    if ((action < lower) | (action > upper)).any():
        raise CostError(
            f"actions must lie between lower {lower:g} and upper {upper:g} of the cost, got {action.min():g} to "
            f"{action.max():g}"
        )
    return (action > lower) & (action < upper)


def _checked(actions: ArrayLike, outcomes: ArrayLike, cost: Cost) -> tuple[Floats, Tensor]:
    """Actions (N,) and outcomes (N, D)."""
    require_cost(cost)
    taken = np.asarray(actions, dtype=np.float64)
    taken = taken[:, 0] if taken.ndim == 2 and taken.shape[1] == 1 else taken
    if taken.ndim != 1 or not len(taken):
        raise ShapeError(f"actions must be one number a case, (N,), got shape {taken.shape}")
    if unusable := int((~np.isfinite(taken)).sum()):
        raise NonFiniteError(f"actions must be finite, got {unusable} of {len(taken)} that are not")
    seen = given_outcomes(outcomes, "outcomes")
    if len(seen) != len(taken):
        raise ShapeError(f"outcomes must be of the {len(taken)} cases of the actions, got {len(seen)}")
    if action_parts(cost, seen.shape[1]) != 1:
        raise CostError(f"cost must decide about one number, got {type(cost).__name__} with an action of several parts")
    if ranged_parameter(cost) is None:
        raise CostError(
            f"cost must have a parameter that is a range, as in ShortfallCost(ParameterRange(1, 50)), got {cost}"
        )
    return taken, seen
