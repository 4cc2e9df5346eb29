"""Members that are made of quantiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.argument_checks import require_one_of
from stakes.costs.cost import total_of
from stakes.costs.scalar_costs import scalar_cost
from stakes.data.forecasts.layout import Pair, TailShape
from stakes.data.outcome_bounds import OutcomeBounds, given_bounds, outcome_bounds, within
from stakes.errors import SettingError, ShapeError, TableError
from stakes.text import number_text

Floats = NDArray[np.float64]
_PIECE = 0.01  # the probability of a piece between two levels, at most
_TAIL_PIECES, _TAIL_STEP = 20, 0.25  # of a tail, each so many times its scale s long; e^-5 of it lies beyond


def quantile_members(
    levels: Sequence[float], quantiles: ArrayLike, tails: TailShape = "exponential"
) -> tuple[Floats, Floats]:
    """Weighted members of forecasts that are given by their quantiles: members (N, M) and weights (M,), adding up to 1.

    >>> import torch, stakes
    >>> levels, quantiles = [0.1, 0.5, 0.9], [[20.0, 30.0, 60.0]]
    >>> members, weights = map(torch.from_numpy, quantile_members(levels, quantiles))
    >>> cost = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=0.0, upper=100.0)  # decides for the level 0.9
    >>> stakes.optimal_action(cost, members[..., None], weights=weights)
    tensor([[60.]], dtype=torch.float64)

    Args:
        levels: Levels from 0 to 1, ascending, at least two, on both sides of the median.
        quantiles: Quantiles (N, K) of N forecasts at the K levels, ascending in each row.
        tails: What lies beyond the outermost levels: "exponential" tails, or "flat" ones, which end there.
    """
    require_one_of("tails", tails, ("exponential", "flat"))
    given, values = np.asarray(levels, dtype=np.float64), np.asarray(quantiles, dtype=np.float64)
    if list(given) != checked_levels(levels):
        raise SettingError(f"levels must ascend, got {_listed(levels)}")
    if values.ndim != 2 or values.shape[1] != len(given):
        raise ShapeError(f"quantiles must have shape (N, {len(given)}), one column a level, got {values.shape}")
    if (np.diff(values) < 0).any():
        raise SettingError("quantiles must ascend with their levels in every row; see uncrossed")
    nodes = _nodes(given, tails)
    return nodes.members(values), nodes.weights


def checked_levels(levels: Sequence[float]) -> list[float]:
    """The levels in ascending order, or a sentence about what is wrong with them."""
    ordered = sorted(levels)
    for level in ordered:
        if not 0 <= level <= 1:
            raise SettingError(f"levels must lie between 0 and 1, got {number_text(level)}")
    for level, following in pairwise(ordered):
        if level == following:
            raise SettingError(f"levels must be unique, got {number_text(level)} twice")
    if not ordered or not ordered[0] < 0.5 < ordered[-1]:
        raise SettingError(
            f"levels must lie on both sides of the median, or half of the forecast would be a guess, got "
            f"{_listed(ordered) or 'none'}"
        )
    return ordered


def uncrossed(quantiles: Floats, name: str) -> tuple[Floats, tuple[str, ...]]:
    """Quantiles sorted in every row, with a note where they were not; levels that mean something else are refused."""
    crossing = (np.diff(quantiles) < 0).any(1)
    if not (count := int(crossing.sum())):
        return quantiles, ()
    if 2 * count > len(quantiles) and (np.diff(quantiles[crossing]).mean() < 0):
        raise TableError(
            f"{name} has quantiles that fall as their levels rise, in {count} of {len(quantiles)} cases; a level is "
            "the probability of an outcome below the quantile, so a P90 that is exceeded with 90 % probability is q10"
        )
    ordered = np.sort(quantiles, axis=1)
    worst = number_text(float(np.abs(ordered - quantiles).max()))
    return ordered, (
        f"{count} of {len(quantiles)} cases have quantiles that cross, and were sorted (by up to {worst})",
    )


class _Nodes(NamedTuple):
    """Members as q_base + share (q_high - q_low), which is exact where quantiles tie; M of each."""

    base: NDArray[np.intp]
    low: NDArray[np.intp]
    share: Floats
    weights: Floats

    def members(self, quantiles: Floats) -> Floats:
        """The members (N, M) of quantiles (N, K), each between the quantiles beside it."""
        with np.errstate(over="ignore"):  # what is not finite is refused by those who decide
            steps = quantiles[:, self.low + 1] - quantiles[:, self.low]
            members = quantiles[:, self.base] + self.share * steps
        inner = (self.share >= 0) & (self.share <= 1) & (self.base == self.low)
        return np.where(inner, np.minimum(members, quantiles[:, self.low + 1]), members)


def _nodes(levels: Floats, tails: TailShape) -> _Nodes:
    """Where members lie, in ascending order, and what they weigh."""
    last = len(levels) - 1
    pieces = [max(1, math.ceil(round(gap / _PIECE, 6))) for gap in np.diff(levels)]
    low = np.append(np.repeat(np.arange(last), pieces), last - 1)
    share = np.append(np.concatenate([np.arange(count) / count for count in pieces]), 0.0)
    base = np.append(low[:-1], last)
    places = np.append((levels[low] + share * (levels[low + 1] - levels[low]))[:-1], levels[-1])
    gaps = np.diff(places, prepend=places[0], append=places[-1])
    weights = (gaps[:-1] + gaps[1:]) / 2
    above, above_weights = _tail(levels, tails)
    below, below_weights = _tail(1 - levels[::-1], tails)
    weights[-1] += above_weights[0]
    weights[0] += below_weights[0]
    return _Nodes(
        base=np.concatenate([np.zeros(len(below), np.intp), base, np.full(len(above), last)]),
        low=np.concatenate([np.zeros(len(below), np.intp), low, np.full(len(above), last - 1)]),
        share=np.concatenate([-below[::-1], share, above]),
        weights=np.concatenate([below_weights[:0:-1], weights, above_weights[1:]]),
    )


def _tail(levels: Floats, tails: TailShape) -> tuple[Floats, Floats]:
    """How many of the last steps above the last quantile members lie, (T,), and its own weight and theirs, (T + 1,)."""
    beyond = 1 - levels[-1]
    if tails == "flat" or beyond <= 0:
        return np.empty(0), np.array([beyond])
    likely = np.exp(-_TAIL_STEP * np.arange(_TAIL_PIECES + 1))  # to lie beyond the beginning of each piece
    upwards = 1 / _TAIL_STEP - 1 / math.expm1(_TAIL_STEP)  # what of a piece its mean gives to the end
    masses = likely[:-1] - likely[1:]
    weights = np.concatenate([(1 - upwards) * masses, [0.0, likely[-1]]])
    weights[1 : _TAIL_PIECES + 1] += upwards * masses
    depths = np.append(_TAIL_STEP * np.arange(1, _TAIL_PIECES + 1), _TAIL_STEP * _TAIL_PIECES + 1)
    return depths / math.log((1 - levels[-2]) / beyond), beyond * weights


def _listed(levels: Sequence[float]) -> str:
    return ", ".join(map(number_text, levels))


@dataclass(frozen=True, eq=False)
class WeightedQuantiles:
    """Weighted members of N forecasts of quantiles."""

    members: Floats  # the members (N, M), ascending; (N, M, D) of D outcomes
    weights: Floats  # what each of them weighs, (M,), adding up to 1
    notes: tuple[str, ...]  # sentences about what the user should know


def weighted_quantiles(
    levels: Sequence[float],
    quantiles: Floats,
    name: str,
    *,
    tails: TailShape = "exponential",
    bounds: Pair | Literal["auto"] | None = "auto",
    cost: object = None,
    target: str = "outcome",
) -> WeightedQuantiles:
    """The weighted members of quantiles, sorted where these cross."""
    checked_levels(levels)
    ordered, notes = uncrossed(quantiles, name)
    known = quantile_bounds(cost, ordered) if bounds == "auto" else given_bounds(bounds)
    members, weights = quantile_members(levels, ordered, tails)
    if 0.5 not in levels:
        low, high = max(level for level in levels if level < 0.5), min(level for level in levels if level > 0.5)
        apart = f"between {number_text(low)} and {number_text(high)}"
        notes += (f"there is no median: quantiles {apart} are interpolated linearly",)
    notes += known.sentences([target]) if known is not None else ()
    return WeightedQuantiles(within(members, known), weights, notes)


def weighted_vectors(levels: Sequence[float], quantiles: Floats, name: str, **how: Any) -> WeightedQuantiles:
    """The weighted members (N, M, D) of quantiles (N, Q, D) of each outcome by itself."""
    each = [weighted_quantiles(levels, values, name, **how) for values in np.moveaxis(quantiles, 2, 0)]
    notes = tuple(dict.fromkeys(note for one in each for note in one.notes))
    return WeightedQuantiles(np.stack([one.members for one in each], -1), each[0].weights, notes)


def quantile_bounds(cost: Any, quantiles: Floats) -> OutcomeBounds | None:
    """What outcomes cannot cross, as the cost knows or quantiles show it; None where there is nothing."""
    bounds = outcome_bounds("auto", cost, torch.from_numpy(quantiles.reshape(-1, 1)))
    if bounds is not None or total_of(cost) is None:
        return bounds
    known = scalar_cost(cost)
    if known is not None and known.outcome_is_share and quantiles.min() >= 0 and quantiles.max() <= 1:
        return OutcomeBounds(((0.0, 1.0),), "cost")
    from_zero = not isinstance(cost.lower, torch.Tensor) and cost.lower == 0 and quantiles.min() >= 0
    return OutcomeBounds(((0.0, None),), "cost") if from_zero else None
