"""Members that are made of quantiles, and the bounds that outcomes cannot cross, such as 0 or a capacity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.argument_checks import require_finite, require_one_of
from stakes.costs.cost import plain_cost_of, stated, total_of
from stakes.costs.scalar_costs import scalar_cost
from stakes.data.forecasts.layout import Pair, TailShape
from stakes.errors import SettingError, ShapeError, TableError
from stakes.text import number_text

_LEAST_TIES, _LEAST_SHARE = 10, 0.01  # of the rows, at an atom
_NAMED = 3  # outcomes, in a sentence
_NEIGHBOURS, _TIMES = 3, 3  # an atom has so many times the rows of each of the next values


@dataclass(frozen=True)
class OutcomeBounds:
    """What each outcome lies between."""

    pairs: tuple[Pair, ...]  # the bounds of each outcome
    source: Literal["given", "cost", "found"]

    def __post_init__(self) -> None:
        for pair in self.pairs:
            _require_pair(pair)

    def clip(self, members: Tensor) -> Tensor:
        """Members (..., D) with those beyond a bound drawn to it."""
        lower, upper = (
            members.new_tensor([end if bound is None else bound for bound in bounds])
            for bounds, end in zip(zip(*self.pairs, strict=True), (-torch.inf, torch.inf), strict=True)
        )
        return torch.minimum(torch.maximum(members, lower), upper)

    def sentences(self, names: Sequence[str]) -> tuple[str, ...]:
        """What a user should know of bounds that nobody gave."""
        if self.source == "given":
            return ()
        alike: dict[tuple[str, float], list[str]] = {}
        for name, pair in zip(names, self.pairs, strict=True):
            for words, bound in zip(("below", "above"), pair, strict=True):
                if bound is not None:
                    alike.setdefault((words, bound), []).append(name)
        why = "as the cost says" if self.source == "cost" else "at which many values lie exactly"
        return tuple(
            f"No member of {_first_names(of)} lies {words} {number_text(bound)}, {why} (outcome_bounds)."
            for (words, bound), of in alike.items()
        )


def _first_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def outcome_bounds(given: Pair | Literal["auto"] | None, cost: object, outcome: Tensor) -> OutcomeBounds | None:
    """The bounds of outcomes, or None where there are none."""
    if given is None:
        return None
    width = outcome.shape[1]
    values = outcome.double().cpu().numpy()
    if given != "auto":
        bounds = OutcomeBounds((_checked_pair(given),) * width, "given")
        _require_within(bounds, values)
        return bounds
    known = stated(plain_cost_of(cost), "outcome_bounds")
    if known is not None:
        bounds = OutcomeBounds((_checked_pair(known),) * width, "cost")
        if not _rows_outside(bounds, values):
            return bounds
    atoms = OutcomeBounds(tuple(_atoms(column) for column in values.T), "found")
    return atoms if any(bound is not None for pair in atoms.pairs for bound in pair) else None


def within_bounds(members: Tensor, bounds: OutcomeBounds | None) -> Tensor:
    """Members (..., D) drawn to the bounds of their outcomes."""
    return members if bounds is None else bounds.clip(members)


def written_pair(text: str) -> Pair | Literal["auto"] | None:
    """The bounds that a user writes: "auto", "none", or two numbers such as "0,1", either of which may be left out.

    >>> written_pair("0,")
    (0.0, None)
    """
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    parts = [part.strip() for part in text.split(",")]
    try:
        lower, upper = (float(part) if part else None for part in parts)
    except ValueError:
        raise SettingError(f'outcome_bounds must be auto, none or two numbers such as "0,1", got {text!r}') from None
    return _checked_pair((lower, upper))


def _checked_pair(pair: Any) -> Pair:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise SettingError(f'outcome_bounds must be "auto", None or a lower and an upper bound, got {pair!r}')
    lower, upper = (None if bound is None else float(bound) for bound in pair)
    _require_pair((lower, upper))
    return lower, upper


def _require_pair(pair: Pair) -> None:
    for bound in pair:
        if bound is not None:
            require_finite("outcome_bounds", bound)
    lower, upper = pair
    if lower is not None and upper is not None and lower >= upper:
        raise SettingError(f"outcome_bounds must have a lower bound below the upper one, got {lower:g} and {upper:g}")


def _rows_outside(bounds: OutcomeBounds, values: NDArray[np.float64]) -> int:
    return int((bounds.clip(torch.from_numpy(values)).numpy() != values).any(1).sum())


def _require_within(bounds: OutcomeBounds, values: NDArray[np.float64]) -> None:
    if outside := _rows_outside(bounds, values):
        lower, upper = ("none" if bound is None else f"{bound:g}" for bound in bounds.pairs[0])
        raise SettingError(
            f"outcome_bounds must hold all outcomes, but {outside} of {len(values)} rows lie outside {lower} to {upper}"
        )


def _atoms(column: NDArray[np.float64]) -> Pair:
    """0 where many values lie at this minimum, and the maximum where many lie there: many more than beside it."""
    values, counts = np.unique(column, return_counts=True)
    return (
        0.0 if values[0] == 0 and _is_atom(counts) else None,
        float(values[-1]) if _is_atom(counts[::-1]) else None,
    )


def _is_atom(counts: NDArray[np.int64]) -> bool:
    """Whether the first value has so many more rows than the next ones that it must be a bound."""
    if len(counts) <= _NEIGHBOURS or counts[0] < max(_LEAST_TIES, _LEAST_SHARE * counts.sum()):
        return False
    return bool(counts[0] >= _TIMES * counts[1 : 1 + _NEIGHBOURS].max())


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
            raise SettingError(f"levels must be there once each, got {number_text(level)} twice")
    if not ordered or not ordered[0] < 0.5 < ordered[-1]:
        raise SettingError(
            f"levels must lie on both sides of the median, or half of the forecast would be a guess, got "
            f"{_listed(ordered) or 'none'}"
        )
    return ordered


def uncrossed(quantiles: Floats, name: str) -> tuple[Floats, tuple[str, ...]]:
    """Quantiles that ascend in every row, and a note where they did not: sorting them brings each nearer to the truth.

    Where most rows descend the levels mean something else, and that is refused.
    """
    crossing = (np.diff(quantiles) < 0).any(1)
    if not (count := int(crossing.sum())):
        return quantiles, ()
    if 2 * count > len(quantiles) and (np.diff(quantiles[crossing]).mean() < 0):
        raise TableError(
            f"{name} has quantiles that fall where their levels rise, in {count} of {len(quantiles)} cases; levels are "
            "probabilities to stay below: where P90 is exceeded with 90 %, its column is q10"
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
    """How far above the last quantile members lie, (T,), in steps from the one before it, and T + 1 weights.

    The first weight is what the last quantile itself gets of the tail.
    """
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
        notes += (f"there is no median: {apart} the quantiles are on a line",)
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


def given_bounds(bounds: Pair | Literal["auto"] | None) -> OutcomeBounds | None:
    """The bounds that a user has given; None where there are none, or they are to be found."""
    return OutcomeBounds((bounds,), "given") if isinstance(bounds, tuple) else None


def within(members: Floats, bounds: OutcomeBounds | None) -> Floats:
    """Members of any shape between the bounds, which all targets share."""
    if bounds is None:
        return members
    lower, upper = bounds.pairs[0]
    return np.clip(members, -np.inf if lower is None else lower, np.inf if upper is None else upper)
