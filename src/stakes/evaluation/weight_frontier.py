"""What each decision weight costs and scores on cases that training has not seen, and which weight to take.

Among the weights whose cost lies below that of weight 0 in a paired test of all of them together
(`stakes.evaluation.simultaneous_bounds`), the cheapest wins. The smallest of them that is at most one standard error of
their paired difference more expensive than the winner is taken; without a winner it is weight 0. Where no weight is
truly cheaper, another than 0 is taken in about 1 of 40 data sets. A `tolerance` leaves weights aside whose score lies
too far above that of weight 0. Weights that decide the same in every case, such as those that all kept their start, are
one candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.intervals import Difference, Resampling, Sampled
from stakes.evaluation.simultaneous_bounds import upper_bounds
from stakes.method.argument_checks import require_count, require_finite
from stakes.number_text import change_text, fixed_text, number_text

__all__ = ["LEAST_BLOCKS", "Frontier", "FrontierPoint", "Interval", "frontier", "too_few_to_choose"]

LEAST_BLOCKS = 10  # fewer are all of one sign too often by chance for an interval to be believed

Floats = NDArray[np.float64]

if TYPE_CHECKING:
    Interval = Difference
else:
    Interval = tuple[float, float, float]  # as `stakes.settings` reads it; the dataclasses make it a Difference again


@dataclass(frozen=True)
class FrontierPoint:
    """One decision weight on the judged cases, and how it differs from weight 0; a weight that failed has no numbers.

    Attributes:
        weight: The decision weight.
        cost: The mean realised cost.
        score: The mean score; lower is better.
        cost_change: The cost less that of weight 0, with the interval of this weight alone.
        score_change: The score less that of weight 0, in per cent of it, with the interval of this weight alone; None
            where weight 0 has a mean score of 0.
        allowed: Whether the score is within the tolerance.
        failed: Whether its training failed.
        cost_bound: What the change of the cost lies below, 97.5 % sure of all allowed weights at once; None for weight
            0, and where there are too few blocks to tell.
        also: Higher weights whose models forecast exactly the same.
    """

    weight: float
    cost: float | None
    score: float | None
    cost_change: Interval | None
    score_change: Interval | None
    allowed: bool
    failed: bool
    cost_bound: float | None = None
    also: tuple[float, ...] = field(default=(), metadata={"later": True})

    def __post_init__(self) -> None:
        for name in ("cost_change", "score_change"):
            if (change := getattr(self, name)) is not None:
                object.__setattr__(self, name, Difference(*change))

    @property
    def cheaper(self) -> bool:
        """Whether the cost lies below that of weight 0: by its own interval, and tested with the other weights."""
        change, bound = self.cost_change, self.cost_bound
        return change is not None and bound is not None and max(*change, bound) < 0


@dataclass(frozen=True)
class Frontier:
    """What every decision weight costs and scores, and which one to take.

    Attributes:
        points: All weights in increasing order.
        chosen: The weight to take.
        reason: Why, in a few sentences.
        tolerance: How far the score may lie above that of weight 0, in per cent of it; None for no limit.
        cases: How many cases the weights were judged on.
        block: How many neighbouring cases depend on each other.
    """

    points: tuple[FrontierPoint, ...]
    chosen: float
    reason: str
    tolerance: float | None
    cases: int
    block: int

    def table(self) -> pd.DataFrame:
        """One line per weight; NaN where it failed."""
        lines = [
            {
                "weight": point.weight,
                "cost": point.cost,
                **_columns("cost_change", point.cost_change),
                "cost_bound": point.cost_bound,
                "score": point.score,
                **_columns("score_change_percent", point.score_change),
                "allowed": point.allowed,
                "failed": point.failed,
                "chosen": point.weight == self.chosen,
            }
            for point in self.points
        ]
        table = pd.DataFrame(lines)
        return table.astype(dict.fromkeys(table.columns[:-3], np.float64))


def frontier(
    weights: Sequence[float],
    cost: ArrayLike,
    score: ArrayLike,
    *,
    block: int = 1,
    tolerance: float | None = None,
    level: float = 0.975,
    resamples: int = 2000,
) -> Frontier:
    """Judge decision weights by their costs and scores on the same cases, and choose one.

    A weight with a number that is not finite has failed. With fewer than `LEAST_BLOCKS` blocks of cases, weight 0 is
    chosen.

    >>> paid = np.random.default_rng(0).gamma(2.0, size=200)
    >>> costs, scores = [paid, 0.9 * paid, 0.8 * paid], [paid, 1.01 * paid, 1.05 * paid]
    >>> judged = frontier([0.0, 0.5, 0.9], costs, scores, tolerance=2.0)
    >>> judged.chosen, [point.allowed for point in judged.points]
    (0.5, [True, True, False])

    Args:
        weights: The W decision weights, 0 among them, in any order.
        cost: What the decisions cost, (W, N), in the order of time.
        score: The scores of the same N cases, (W, N); lower is better.
        block: How many neighbouring cases depend on each other, at most all of them.
        tolerance: How far the mean score may lie above that of weight 0, in per cent of it; None for no limit.
        level: How sure the bounds of all weights hold at once.
        resamples: How many resamples the bounds of all weights at once come from.
    """
    if tolerance is not None:
        require_finite("tolerance", tolerance)
    require_count("block", block)
    given, costs, scores = _checked(weights, cost, score)
    places = _same_forecasts(given, costs, scores)
    ordered, costs, scores = [given[place] for place in places], costs[list(places)], scores[list(places)]
    base = ordered.index(0.0)
    if np.isnan(costs[base, 0]):
        raise NonFiniteError("cost and score of weight 0 must be finite, since all other weights are judged against it")
    cases = costs.shape[1]
    resampling = Resampling(cases, block=min(block, cases))
    changes = [_Changes.of(*rival, costs[base], scores[base], resampling) for rival in zip(costs, scores, strict=True)]
    points = tuple(
        replace(_point(weight, cost.mean(), score.mean(), change, tolerance), also=also)
        for weight, also, cost, score, change in zip(ordered, places.values(), costs, scores, changes, strict=True)
    )
    enough = not too_few_to_choose(cases, resampling.block)
    if enough:
        points = _bounded(points, costs - costs[base], resampling.block, level, resamples)
    suited = [place for place, point in enumerate(points) if point.allowed and point.cheaper]
    winner = min(suited, key=lambda place: changes[place].cost.estimate, default=base)
    taken = next((place for place in suited if _as_cheap(changes[place].cost, changes[winner].cost)), base)
    gained = _gain(points[base], points[taken], points[winner], tolerance) if suited else ""
    why = gained or _why_none(points, tolerance, enough)
    reason = f"Weight {ordered[taken]:g} is taken, judged on {_counted(resampling)}: {why}.{_tested(points, tolerance)}"
    limit = None if tolerance is None else float(tolerance)
    return Frontier(points, ordered[taken], reason, limit, cases, resampling.block)


def too_few_to_choose(cases: int, block: int) -> str:
    """Why so many cases cannot choose a weight, for people; nothing where they can.

    >>> too_few_to_choose(40, 7), too_few_to_choose(70, 7)
    ('40 cases in blocks of 7 are too few to choose a decision weight by, at least 70 are needed', '')

    Args:
        cases: How many cases judge the weights.
        block: How many neighbouring cases depend on each other.
    """
    if cases >= LEAST_BLOCKS * block:
        return ""
    which = f"{cases} case{'s' if cases > 1 else ''}{f' in blocks of {block}' if block > 1 else ''}"
    needed = LEAST_BLOCKS * block
    return f"{which} are too few to choose a decision weight by, at least {needed} are needed"


class _Changes(NamedTuple):
    """Cost and score of a weight less those of weight 0, and the score of weight 0; not finite where it failed."""

    cost: Sampled
    score: Sampled
    baseline_score: Sampled

    @classmethod
    def of(
        cls, cost: Floats, score: Floats, baseline_cost: Floats, baseline_score: Floats, resampling: Resampling
    ) -> Self:
        values = np.stack([cost - baseline_cost, score - baseline_score, baseline_score])
        return cls(*resampling.means(values[:, None, None]))


def _point(weight: float, cost: float, score: float, change: _Changes, tolerance: float | None) -> FrontierPoint:
    if np.isnan(cost):
        return FrontierPoint(weight, None, None, None, None, allowed=False, failed=True)
    percent = (change.score / abs(change.baseline_score) * 100.0).interval()
    return FrontierPoint(
        weight,
        float(cost),
        float(score),
        change.cost.interval(),
        percent if np.isfinite(percent).all() else None,  # a mean score of 0 has no per cent
        allowed=weight == 0
        or tolerance is None
        or 100 * change.score.estimate <= tolerance * abs(change.baseline_score.estimate),
        failed=False,
    )


def _bounded(
    points: tuple[FrontierPoint, ...], change: Floats, block: int, level: float, resamples: int
) -> tuple[FrontierPoint, ...]:
    """The points with the bounds of their changes in cost (W, N), which hold for all allowed weights at once."""
    tried = [place for place, point in enumerate(points) if point.weight != 0 and not point.failed]
    allowed = [points[place].allowed for place in tried]
    if not tried:
        return points
    together = allowed if any(allowed) else None
    upper = upper_bounds(change[tried], block=block, together=together, level=level, resamples=resamples)
    bounds = dict(zip(tried, upper.tolist(), strict=True))
    return tuple(replace(point, cost_bound=bounds.get(place)) for place, point in enumerate(points))


def _checked(weights: Sequence[float], cost: ArrayLike, score: ArrayLike) -> tuple[list[float], Floats, Floats]:
    """Weights in increasing order, with their costs and scores; NaN throughout where a number is not finite."""
    given = [float(weight) for weight in weights]
    for weight in given:
        require_finite("weights", weight)
    if 0.0 not in given or len(set(given)) < len(given):
        raise SettingError(f"weights must all differ and hold 0, against which the others are judged, got {given}")
    costs, scores = (np.asarray(values, dtype=np.float64) for values in (cost, score))
    for name, values in (("cost", costs), ("score", scores)):
        if values.ndim != 2 or values.shape != (len(given), costs.shape[-1]) or not values.size:
            raise ShapeError(
                f"cost and score must have one shape, {len(given)} weights by at least one case, got {name} of shape "
                f"{values.shape}"
            )
    order = np.argsort(given)
    failed = ~(np.isfinite(costs) & np.isfinite(scores)).all(1, keepdims=True)
    costs, scores = (np.where(failed, np.nan, values)[order] for values in (costs, scores))
    return sorted(given), costs, scores


def _same_forecasts(weights: Sequence[float], costs: Floats, scores: Floats) -> dict[int, tuple[float, ...]]:
    """The place of each weight that forecasts as no lower one does, with the higher ones that forecast the same."""
    places: dict[bytes, list[int]] = {}
    for place in range(len(weights)):
        whole = np.concatenate([costs[place], scores[place]])
        kind = str(place).encode() if np.isnan(whole).any() else whole.tobytes()
        places.setdefault(kind, []).append(place)
    return {first: tuple(weights[place] for place in others) for first, *others in places.values()}


def _as_cheap(change: Sampled, winner: Sampled) -> bool:
    """Whether a cost lies at most one standard error of the paired difference above the winner's."""
    above = change - winner
    return above.estimate <= above.error


def _columns(name: str, change: Difference | None) -> dict[str, float | None]:
    mean, low, high = change or (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def _counted(judged: Resampling) -> str:
    blocks = f" in blocks of {judged.block}" if judged.block > 1 else ""
    return f"{judged.cases} case{'s' if judged.cases > 1 else ''}{blocks}"


def _gain(base: FrontierPoint, taken: FrontierPoint, winner: FrontierPoint, tolerance: float | None) -> str:
    """What is gained by the weight that is taken, and why it is not the winner."""
    score = taken.score_change
    assert taken.cost_change is not None
    assert taken.cost is not None
    assert base.cost is not None
    why = (
        f"its mean cost is {number_text(taken.cost)} instead of {number_text(base.cost)} at weight 0 (change "
        f"{change_text(taken.cost_change)})"
    )
    if score is not None:
        score_text = fixed_text(score.mean, 2, signed=True)
        why += f" and its score changes by {score_text} %"
        why += "" if tolerance is None else f" ({tolerance:+g} % is allowed)"
    if winner is not taken:
        why += f"; weight {winner.weight:g} is cheaper still, but by no more than one standard error"
    return why


def _tested(points: Sequence[FrontierPoint], tolerance: float | None) -> str:
    """What was tested, for people."""
    count = sum(point.allowed and point.cost_bound is not None for point in points)
    if not count:
        return ""
    allowed = "" if tolerance is None else " that the score allows"
    who = f"One weight{allowed} was" if count == 1 else f"{count} weights{allowed} were"
    together = "" if count == 1 else " all at once"
    return (
        f" {who} tested{together} for being cheaper than weight 0; by chance alone about 1 in 40 such tests would take "
        "another than 0."
    )


def _why_none(points: Sequence[FrontierPoint], tolerance: float | None, enough: bool) -> str:
    others = [point for point in points if point.weight != 0]
    ruled_out = [f"{point.weight:g}" for point in others if point.cheaper and not point.allowed]
    if not others:
        return "no other was tried"
    if all(point.failed for point in others):
        return "all others failed"
    if not enough:
        return f"too few to tell whether another is cheaper, at least {LEAST_BLOCKS} blocks are needed"
    if ruled_out:
        return (
            f"those that are significantly cheaper ({', '.join(ruled_out)}) raise the score by more than the "
            f"{tolerance:g} % allowed"
        )
    return "no other is significantly cheaper"
