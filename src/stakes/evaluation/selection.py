"""Model selection: candidates fitted in order, what each costs on the same held-out cases, and which is selected."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from stakes.argument_checks import require_count, require_finite
from stakes.data.tables.time_axis import Times
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling, Sampled, upper_bounds
from stakes.frames import Tabular
from stakes.settings import shown, to_plain
from stakes.text import change_text, count_text, fixed_text, number_text

Floats = NDArray[np.float64]


class JudgedCases(NamedTuple):
    """What a forecast is worth case by case."""

    cost: Floats  # what its decisions cost, (N,), in the order of time
    score: Floats  # its scores, (N,); lower is better


@dataclass(frozen=True)
class FrontierPoint:
    """One decision weight on the judged cases against weight 0; one that failed has no numbers."""

    weight: float  # the decision weight
    cost: float | None  # the mean realised cost
    score: float | None  # the mean score; lower is better
    cost_change: Difference | None  # the cost less that of weight 0, with the interval of this weight alone
    score_change: Difference | None
    allowed: bool  # whether the score is within the tolerance
    failed: bool  # whether its training failed
    cost_bound: float | None = None  # what the change of the cost lies below, tested with all other weights
    expected_change: float | None = None  # by how much the cost is expected to change, as `expected_cost_change` has it
    also: tuple[float, ...] = ()  # higher weights that forecast the same

    def named(self, base: str) -> str:
        """The weight and those that forecast the same; what others are compared with by its name.

        >>> FrontierPoint(0.1, 1.0, 1.0, None, None, allowed=True, failed=False, also=(0.2, 0.3)).named("weight 0")
        '0.1 (also 0.2, 0.3)'
        """
        name = f"{self.weight:g}" if self.weight else base
        also = ", ".join(f"{weight:g}" for weight in self.also)
        return f"{name} (also {also})" if also else name

    @property
    def proven(self) -> bool:
        """Whether the cost is proven to lie below that of weight 0: by its own interval, and tested with the others."""
        return _proven(self.cost_change, self.cost_bound)


@dataclass(frozen=True, repr=False)
class Frontier(Tabular):
    """What every decision weight costs and scores, and which one to take."""

    points: tuple[FrontierPoint, ...]  # all weights in increasing order
    chosen: float  # the weight to take
    reason: str  # why, in a few sentences
    tolerance: float | None  # how far the score may lie above that of weight 0, in per cent of it; None for no limit
    cases: int  # how many cases the weights were judged on
    block: int  # how many neighbouring cases depend on each other

    @property
    def _headline(self) -> str:
        return self.reason

    def to_frame(self) -> pd.DataFrame:
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
    foresight: float | None = None,
    least_saving: float = 0.0,
    level: float = 0.975,
    resamples: int = 2000,
) -> Frontier:
    """Judge decision weights on the same cases, and choose the one with the least expected cost.

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
        tolerance: Largest increase of the mean score over that of weight 0, in percent; None for no limit.
        foresight: Mean cost of perfect foresight, with which differences of cost are shrunk towards what the score
            implies (`expected_cost_change`); None uses measured differences.
        least_saving: What a weight must be expected to save, as a share of what weight 0 pays above `foresight`.
        level: Simultaneous confidence of the bounds of all weights.
        resamples: Number of bootstrap resamples for the simultaneous bounds.
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
    worth = [JudgedCases(*each) for each in zip(costs, scores, strict=True)]
    changes = [_Change.of(each, worth[base], resampling) for each in worth]
    above = 0.0 if foresight is None else float(costs[base].mean()) - foresight
    points = tuple(
        replace(_point(weight, each, change, tolerance, above), also=also)
        for weight, also, each, change in zip(ordered, places.values(), worth, changes, strict=True)
    )
    enough = not too_few_to_choose(cases, resampling.block)
    if enough:
        points = _bounded(points, costs - costs[base], resampling.block, level, resamples)
    selected = base
    if enough:
        most = -least_saving * above
        suited = [
            place for place, point in enumerate(points) if point.allowed and (point.expected_change or 0.0) < most
        ]
        selected = min(suited, key=lambda place: points[place].expected_change or 0.0, default=base)
    gained = _gain(points[base], points[selected], tolerance) if selected != base else ""
    why = gained or _why_none(points, tolerance, enough, least_saving)
    blocks = f" in blocks of {resampling.block}" if resampling.block > 1 else ""
    reason = f"Weight {ordered[selected]:g} is selected, judged on {count_text(cases, 'case')}{blocks}: {why}."
    limit = None if tolerance is None else float(tolerance)
    return Frontier(points, ordered[selected], reason, limit, cases, resampling.block)


def too_few_to_choose(cases: int, block: int) -> str:
    """Why so many cases cannot choose a weight, for people; nothing where they can.

    >>> too_few_to_choose(40, 7), too_few_to_choose(70, 7)
    ('40 cases in blocks of 7 are too few to select a decision weight; at least 70 are needed', '')
    """
    if cases >= LEAST_BLOCKS * block:
        return ""
    which = f"{count_text(cases, 'case')}{f' in blocks of {block}' if block > 1 else ''}"
    needed = LEAST_BLOCKS * block
    return f"{which} are too few to select a decision weight; at least {needed} are needed"


class _Change(NamedTuple):
    """Cost and score of a forecast less those of another, and the score of that one; not finite where one failed."""

    cost: Sampled
    score: Sampled
    base_score: Sampled

    @classmethod
    def of(cls, judged: JudgedCases, base: JudgedCases, resampling: Resampling) -> Self:
        values = np.stack([judged.cost - base.cost, judged.score - base.score, base.score])
        return cls(*resampling.means(values[:, None, None]))

    @property
    def score_percent(self) -> Difference | None:
        """The change of the score as a percentage; a mean score of 0 has none."""
        percent = (self.score / abs(self.base_score) * 100.0).interval()
        return percent if np.isfinite(percent).all() else None

    def expected_cost(self, above_foresight: float) -> float:
        """By how much the cost is expected to change, given what the other forecast's lies above that of foresight."""
        relative = self.score.estimate / abs(self.base_score.estimate) if self.base_score.estimate else 0.0
        return expected_cost_change(self.cost.estimate, self.cost.error, relative, above_foresight)


_SCATTER = 0.05
"""By how much of the cost above foresight two forecasts of about the same score differ in cost: about as much as
`python -m benchmarks.selection problems` finds."""


def expected_cost_change(change: float, error: float, score_change: float, above_foresight: float) -> float:
    """The expected difference of two forecasts' costs, given a noisy estimate of it and the difference of their scores.

    Let A be the mean cost of the first forecast above that of perfect foresight, and s the relative change of the score
    from the first to the second. Scores are measured far more precisely than costs, and what is paid above foresight
    shrinks in proportion to the score, give or take 5 % of A and the proportion itself. So before costs are looked at,
    the difference of the costs is D ~ N(s A, t^2) with t^2 = A^2 (0.05^2 + s^2), and its estimate from held-out cases
    is d ~ N(D, e^2) with a standard error e. The mean of D given d is

        E[D | d] = (d / e^2 + s A / t^2) / (1 / e^2 + 1 / t^2).

    Many cases: it is d. Few, or costs that vary much: it is what the score implies.

    >>> expected_cost_change(-1.0, 0.0, 0.01, 20.0)
    -1.0
    >>> expected_cost_change(-1.0, 1e9, 0.01, 20.0)
    0.2
    """
    spread = above_foresight * math.hypot(_SCATTER, score_change)
    if not spread > 0 or error == 0:
        return change
    trust = spread**2 / (spread**2 + error**2)
    return trust * change + (1 - trust) * score_change * above_foresight


def _proven(change: Difference | None, bound: float | None) -> bool:
    return change is not None and bound is not None and max(*change, bound) < 0


def _point(
    weight: float, worth: JudgedCases, change: _Change, tolerance: float | None, above_foresight: float
) -> FrontierPoint:
    if np.isnan(worth.cost[0]):
        return FrontierPoint(weight, None, None, None, None, allowed=False, failed=True)
    worse = tolerance is not None and 100 * change.score.estimate > tolerance * abs(change.base_score.estimate)
    means = float(worth.cost.mean()), float(worth.score.mean())
    return FrontierPoint(
        weight,
        *means,
        change.cost.interval(),
        change.score_percent,
        allowed=weight == 0 or not worse,
        failed=False,
        expected_change=change.expected_cost(above_foresight),
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
        raise SettingError(f"weights must be distinct and include 0, against which the others are judged, got {given}")
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


def _columns(name: str, change: Difference | None) -> dict[str, float | None]:
    mean, low, high = change or (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def _gain(base: FrontierPoint, selected: FrontierPoint, tolerance: float | None) -> str:
    """What is expected of the selected weight, and what held-out cases say."""
    score = selected.score_change
    assert selected.cost_change is not None
    assert selected.cost is not None
    assert base.cost is not None
    why = (
        f"its mean cost is {number_text(selected.cost)} instead of {number_text(base.cost)} at weight 0 (change "
        f"{change_text(selected.cost_change)})"
    )
    if score is not None:
        score_text = fixed_text(score.mean, 2, signed=True)
        why += f" and its score changes by {score_text} %"
        why += "" if tolerance is None else f" ({tolerance:+g} % is allowed)"
    return f"{why}, {'' if selected.proven else 'not '}proven cheaper"


def _why_none(points: Sequence[FrontierPoint], tolerance: float | None, enough: bool, least_saving: float) -> str:
    others = [point for point in points if point.weight != 0]
    cheaper = [point for point in others if not point.failed and (point.expected_change or 0.0) < 0]
    if not others:
        return "no other weight was tried"
    if all(point.failed for point in others):
        return "all others failed"
    if not enough:
        return f"too few to tell whether another is cheaper; at least {LEAST_BLOCKS} blocks are needed"
    if any(point.allowed for point in cheaper):
        return f"no other is expected to save {100 * least_saving:g} % of what is paid above foresight"
    if cheaper:
        names = ", ".join(f"{point.weight:g}" for point in cheaper)
        return f"those expected to cost less ({names}) worsen the score by more than the {tolerance:g} % allowed"
    return "no other is expected to cost less"


CANDIDATES = ("climatology", "linear", "trees", "network", "total_score", "decision", "pool", "recent_errors")
"""All candidates of a forecast that is trained, the simplest first."""

CORRECTION_CANDIDATES = ("raw", "bias_and_spread", "linear", "recent_errors", "dependence", "decision")
"""All candidates for the correction of a forecast that somebody else makes, the simplest first."""

_FALSE_CLAIMS = 0.05  # of a whole selection
SAME_FORECAST = "it forecasts the same"
LEAST_SAVING = 0.005
"""What the first network of a candidate must be expected to save, of what is paid above foresight, to train others."""

_ROUNDING = 1e-6  # of the largest cost and score: what is closer is the same


@dataclass(frozen=True)
class JudgedCandidate:
    """A candidate on validation cases, against the one selected before it; one that failed has no numbers.

    It is accepted if it is expected to cost less, and said to be proven cheaper only if an interval shows it.
    """

    name: str  # one of `CANDIDATES` or `CORRECTION_CANDIDATES`, or what the user calls a model of their own
    below: str | None  # the candidate it was compared with; None for the first
    parameters: dict[str, str | float]  # in what it differs from that, by name, such as the decision weight
    cost: float | None = None  # its mean cost on the validation cases
    score: float | None = None  # its mean score there
    cost_change: Difference | None = None  # its cost less that of the candidate below, with an interval of its own
    score_change: Difference | None = None  # its score less that, in per cent of it; None where that is 0
    expected_change: float | None = None  # by how much its cost is expected to differ (`expected_cost_change`)
    cost_bound: float | None = None  # what the change of the cost lies below, tested with all else
    accepted: bool = field(kw_only=True)  # whether it replaced the one that was selected before it
    why: str = field(kw_only=True)  # why or why not, in a few words

    def __post_init__(self) -> None:
        for name in ("name", "below"):
            if (value := getattr(self, name)) is not None and value not in _WORDS:
                require_own_name(name, value)

    @property
    def tested_change(self) -> Difference | None:
        """The change of the cost with the upper end that proves it: its own, or that of all steps tested together."""
        if self.cost_change is None or self.cost_bound is None:
            return self.cost_change
        mean, low, high = self.cost_change
        return Difference(mean, low, max(high, self.cost_bound))

    @property
    def proven(self) -> bool:
        """Whether it is proven to be cheaper, tested together with all other steps."""
        return _proven(self.cost_change, self.cost_bound)


@dataclass(frozen=True)
class CandidateOnTest:
    """A candidate on test cases, which chose nothing."""

    name: str  # one of `CANDIDATES` or `CORRECTION_CANDIDATES`
    cost: float
    score: float  # its mean score there
    cost_change: Difference


@dataclass(frozen=True, repr=False)
class ModelSelection(Tabular):
    """All candidates that were tried, in order."""

    candidates: tuple[JudgedCandidate, ...]  # how each was judged on validation cases
    cases: int  # how many of these there were
    block: int  # how many neighbouring ones depend on each other
    tested: tuple[CandidateOnTest, ...] = ()

    def __post_init__(self) -> None:
        if not any(candidate.accepted for candidate in self.candidates):
            raise SettingError("candidates must include one that was accepted")

    @property
    def selected(self) -> JudgedCandidate:
        """The selected candidate: the last that was accepted."""
        return [candidate for candidate in self.candidates if candidate.accepted][-1]

    @property
    def corrects(self) -> bool:
        """Whether the candidates are corrections of a forecast that somebody else makes."""
        return self.candidates[0].name == CORRECTION_CANDIDATES[0]

    @property
    def has_network(self) -> bool:
        """Whether the selected forecast is one that trained with a seed."""
        return not self.corrects and self.model in ("network", "total_score", "decision", "pool")

    @property
    def model(self) -> str:
        """The candidate whose models make the selected forecast, corrected or not."""
        selected = self.selected
        return str(selected.below) if not self.corrects and selected.name == "recent_errors" else selected.name

    @property
    def test_cost(self) -> float | None:
        """What the selected forecast, fitted again, costs on the test cases; None where there were none."""
        return self.tested[0].cost + self.tested[0].cost_change.mean if self.tested else None

    def record(self) -> dict[str, Any]:
        """For machines: costs and scores named after the cases that they are means of."""
        plain = to_plain(self)
        for kind, cases in (("candidates", "validation"), ("tested", "test")):
            plain[kind] = [
                {f"{cases}_{name}" if name in JudgedCases._fields else name: value for name, value in candidate.items()}
                for candidate in plain.get(kind, [])
            ]
        selected = {"name": self.selected.name, "test_cost": self.test_cost}
        return plain if self.test_cost is None else {**plain, "fitted_again": selected}

    def words(self, name: str) -> str:
        """What a candidate is, for people."""
        return candidate_words(name, given=self.corrects)

    def forecast_words(self, candidate: JudgedCandidate | None = None) -> str:
        """What the forecast of a candidate is, by default of the selected one, for people."""
        candidate = candidate or self.selected
        if self.corrects:
            return self.words(candidate.name)
        if candidate.name == "recent_errors":
            return f"{candidate_words(str(candidate.below))} corrected by recent errors"
        if candidate.name == "total_score":
            return "the network trained on the score of the total as well"
        if candidate.name == "decision":
            weight = candidate.parameters.get("decision weight")
            return f"the decision-aware forecast{'' if weight is None else f' (weight {weight:g})'}"
        return candidate_words(candidate.name)

    @property
    def reason(self) -> str:
        """Which candidate was selected and why, in a sentence, and what was not."""
        selected, others = self.selected, [candidate.name for candidate in self.candidates if not candidate.accepted]
        blocks, name = f" in blocks of {self.block}" if self.block > 1 else "", self.words(selected.name)
        left = f" Not selected: {', '.join(map(self.words, others))}." if others else ""
        tested = any(candidate.expected_change is not None for candidate in self.candidates)
        kept = selected.why == START and tested
        why = "no other candidate is expected to cost less" if kept else selected.why
        return (
            f"{name[0].upper()}{name[1:]}{_parameter_words(selected.parameters)} was selected on "
            f"{count_text(self.cases, 'validation case')}{blocks}: {why}.{left}"
        )

    @property
    def _headline(self) -> str:
        return self.reason

    def to_frame(self) -> pd.DataFrame:
        """One line per candidate; NaN where it failed or was not tested."""
        tested = {candidate.name: candidate for candidate in self.tested}
        lines = [
            {
                "candidate": candidate.name,
                "parameters": ", ".join(f"{name} {value}" for name, value in candidate.parameters.items()),
                "cost": candidate.cost,
                **_columns("cost_change", candidate.cost_change),
                "score": candidate.score,
                **_columns("score_change_percent", candidate.score_change),
                "expected_change": candidate.expected_change,
                "test_cost": tested[candidate.name].cost if candidate.name in tested else None,
                "accepted": candidate.accepted,
                "proven": candidate.proven,
                "why": candidate.why,
            }
            for candidate in self.candidates
        ]
        table = pd.DataFrame(lines)
        numbers = [name for name in table.columns if name not in _NO_NUMBERS]
        return table.astype(dict.fromkeys(numbers, np.float64))


_OWN_NAME = re.compile(r"\w(?:[\w .+-]{0,38}[\w+])?")
_NO_NUMBERS = ("candidate", "parameters", "accepted", "proven", "why")


def candidate_title(name: str) -> str:
    """What a candidate is called in a figure or a table."""
    return name.replace("_", " ")


def candidate_words(name: str, *, given: bool = False) -> str:
    """What a candidate is, for people."""
    return (_GIVEN_WORDS if given else _WORDS).get(name, name)


def require_own_name(field: str, name: object) -> None:
    """Raise unless this may be what the user calls a candidate of their own, in figures and tables as in files."""
    if not isinstance(name, str) or name in _WORDS or not _OWN_NAME.fullmatch(name):
        raise SettingError(
            f"{field} must be up to 40 letters, digits, spaces and any of .+-_, and none of {', '.join(_WORDS)}, "
            f"got {shown(name)}"
        )


_WORDS = {
    "climatology": "climatology",
    "linear": "the linear forecast",
    "trees": "boosted trees",
    "network": "the network",
    "recent_errors": "the correction by recent errors",
    "total_score": "training on the score of the total as well",
    "decision": "training on the decision as well",
    "pool": "the pool of forecasts",
    "raw": "the raw forecast",
    "bias_and_spread": "the correction of bias and spread",
    "dependence": "the dependence of past errors",
}
_GIVEN_WORDS = {
    **_WORDS,
    "linear": "the correction by further numbers of the forecast",
    "recent_errors": "the correction that weights recent errors more",
}


def step_level(steps: int) -> float:
    """How sure each of so many steps must be, for all claims of a selection together to be 95 % sure."""
    return 1 - _FALSE_CLAIMS / max(1, steps)


def untested_candidate(
    name: str, below: JudgedCandidate | None, worth: JudgedCases | None, why: str, *, accepted: bool = True
) -> JudgedCandidate:
    """A candidate that is selected, or not, without a test; without numbers where it was not judged."""
    means = (None, None) if worth is None else (float(worth.cost.mean()), float(worth.score.mean()))
    return JudgedCandidate(name, None if below is None else below.name, {}, *means, accepted=accepted, why=why)


def judged_candidate(
    name: str,
    candidate: JudgedCases,
    below: JudgedCandidate,
    held: JudgedCases,
    *,
    foresight: float,
    block: int,
    level: float,
    parameters: Mapping[str, str | float] | None = None,
) -> JudgedCandidate:
    """Try a candidate against the one selected so far: accepted if it is expected to cost less.

    >>> paid = np.random.default_rng(0).gamma(2.0, size=400)
    >>> base = untested_candidate("climatology", None, JudgedCases(paid, paid), START)
    >>> cheaper = JudgedCases(0.9 * paid, paid)
    >>> judged = judged_candidate(
    ...     "linear", cheaper, base, JudgedCases(paid, paid), foresight=0.0, block=1, level=0.99
    ... )
    >>> judged.accepted, judged.proven
    (True, True)
    """
    known = dict(parameters or {})
    if not all(np.isfinite(values).all() for values in candidate):
        return JudgedCandidate(name, below.name, known, accepted=False, why="it failed")
    differences = np.stack([candidate.cost - held.cost, candidate.score - held.score])
    block = min(block, len(held.cost))
    change = _Change.of(candidate, held, Resampling(len(held.cost), block=block))
    expected = change.expected_cost(float(held.cost.mean()) - foresight)
    better = expected < 0 or (expected == 0 and change.score.estimate < 0)  # where the cost is the same for all
    tested = replace(
        untested_candidate(name, below, candidate, "", accepted=better),
        parameters=known,
        cost_change=change.cost.interval(),
        score_change=change.score_percent,
        expected_change=expected,
        cost_bound=float(upper_bounds(differences[:1], block=block, level=level)[0]),
    )
    if (np.abs(differences) <= _ROUNDING * np.abs(np.stack(held)).max(1, keepdims=True)).all():
        return replace(tested, accepted=False, why=SAME_FORECAST)
    return replace(tested, why=_why(tested))


def decision_candidate(frontier: Frontier, below: JudgedCandidate) -> JudgedCandidate:
    """The decision weight that a frontier chooses, or the cheapest of those that it does not, as a candidate."""
    weighted = [point for point in frontier.points if point.weight]
    sound = [point for point in weighted if not point.failed]
    if not sound:
        why = "it failed" if weighted else "the model forecasts the same at every decision weight"
        return untested_candidate("decision", below, None, why, accepted=False)
    selected = next((point for point in sound if point.weight == frontier.chosen), None)
    shown = selected or min(sound, key=lambda point: point.cost or 0.0)
    parameters: dict[str, str | float] = {"decision weight": shown.weight}
    if shown.also:
        parameters["the same at"] = ", ".join(f"{weight:g}" for weight in shown.also)
    numbers = shown.cost, shown.score, shown.cost_change, shown.score_change, shown.expected_change, shown.cost_bound
    candidate = JudgedCandidate("decision", below.name, parameters, *numbers, accepted=selected is not None, why="")
    return replace(candidate, why=_why(candidate) if selected else "no decision weight is expected to save enough")


def candidate_on_test(name: str, judged: JudgedCases, selected: JudgedCases, block: int) -> CandidateOnTest:
    """A candidate on test cases, beside the selected forecast."""
    resampling = Resampling(len(judged.cost), block=min(block, len(judged.cost)))
    change = resampling.mean((selected.cost - judged.cost)[None, None]).interval()
    return CandidateOnTest(name, float(judged.cost.mean()), float(judged.score.mean()), change)


def _why(candidate: JudgedCandidate) -> str:
    """Why a candidate was selected or not, in a few words."""
    expected, measured, score = candidate.expected_change, candidate.tested_change, candidate.score_change
    assert expected is not None
    assert measured is not None
    less = "less" if expected < 0 else "more"
    told = f"expected to cost {number_text(abs(expected))} {less} per case" if expected else "expected to cost the same"
    if not candidate.accepted:
        return told
    scored = "" if score is None else f", score {fixed_text(score.mean, 1, signed=True)} %"
    proof = "proven cheaper" if candidate.proven else "not proven cheaper"
    return f"{told} (measured change {change_text(measured)}{scored}; {proof})"


def _parameter_words(parameters: Mapping[str, str | float]) -> str:
    values = parameters.items()
    said = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in values)
    return f" ({said})" if said else ""


# The engine: candidates fitted in order, judged on the same held-out cases

CaseNumbers = NDArray[np.int64]
Cases = TypeVar("Cases", bound=Any)
Fitted = TypeVar("Fitted")


class Named(Protocol):
    """A candidate, or what was fitted for one."""

    @property
    def name(self) -> str:
        """One of `CANDIDATES` or `CORRECTION_CANDIDATES`."""


Trial = TypeVar("Trial", bound=Named)


START = "the simplest candidate"
"""Why the first candidate is selected."""


class Fold(NamedTuple):
    """Some cases, and those that had happened before any of them was issued."""

    rows: CaseNumbers  # the places of the cases
    known: CaseNumbers  # the places of those that may teach


def rolling_folds(
    edges: Sequence[int], gap: int, times: Times | None = None, issued: Times | None = None
) -> list[Fold]:
    """The cases between edges, each block with those that happened before it was issued, `gap` cases before at most."""
    folds = []
    issued = times if issued is None else issued
    for start, end in pairwise(edges):
        known = np.arange(max(start - gap, 0))
        if times is not None and issued is not None:
            known = known[times[known] < issued[start:end].min()]
        folds.append(Fold(np.arange(start, end), known))
    return folds


class Candidate(ABC, Generic[Cases, Fitted]):
    """A way to forecast, before it is fitted: on all cases, or on those known before each fold."""

    @property
    @abstractmethod
    def name(self) -> str:
        """One of `CANDIDATES` or `CORRECTION_CANDIDATES`."""

    @abstractmethod
    def fit(self, cases: Cases, like: Fitted | None = None) -> Fitted:
        """What it learns from cases; `like` was learned from fewer of them."""

    @abstractmethod
    def members(self, fitted: Fitted, cases: Cases) -> Any:
        """Members of cases that it has not seen."""

    def fit_folds(self, cases: Cases, folds: Sequence[Fold]) -> list[Fitted]:
        """What it learns before each fold."""
        fits: list[Fitted] = []
        for fold in folds:
            fits.append(self.fit(cases.rows(fold.known), fits[-1] if fits else None))
        return fits

    def out_of_fold(self, cases: Cases, folds: Sequence[Fold], fits: Sequence[Fitted] | None = None) -> list[Any]:
        """Members of the cases of each fold, by what was learned before it."""
        fits = self.fit_folds(cases, folds) if fits is None else fits
        return [self.members(fit, cases.rows(fold.rows)) for fit, fold in zip(fits, folds, strict=True)]


class CandidateSelection(Generic[Trial]):
    """Candidates tried in order on the same held-out cases, each against the one that is selected so far."""

    def __init__(
        self,
        judge: Callable[[Trial], JudgedCases],
        cases: int,
        block: int,
        steps: int,
        *,
        foresight: float,
        tolerance: float | None,
    ) -> None:
        self.judge, self.cases, self.block = judge, cases, block
        self.foresight, self.tolerance = foresight, tolerance
        self.level = step_level(steps)
        self.candidates: list[JudgedCandidate] = []
        self.trials: dict[str, Trial] = {}
        self._worth: dict[str, JudgedCases] = {}

    @property
    def selected(self) -> JudgedCandidate:
        """The candidate that is selected so far."""
        return [candidate for candidate in self.candidates if candidate.accepted][-1]

    @property
    def trial(self) -> Trial:
        """What was tried of it."""
        return self.trials[self.selected.name]

    @property
    def too_few(self) -> str:
        """Why so few cases prove nothing, for people; empty where they may."""
        return too_few_to_choose(self.cases, self.block).replace("select a decision weight", "prove anything")

    def add(self, trial: Trial, why: str, *, accepted: bool = True) -> None:
        """A candidate that is selected, or not, without a test."""
        worth, below = self.judge(trial), self.selected if self.candidates else None
        self._add(untested_candidate(trial.name, below, worth, why, accepted=accepted), trial, worth)

    def add_judged(self, trial: Trial, why: str, *, accepted: bool) -> None:
        """A candidate with its numbers, of which something else has decided whether it is selected."""
        worth = self.judge(trial)
        self._add(replace(self._tested(trial.name, worth), accepted=accepted, why=why), trial, worth)

    def add_unfitted(self, name: str, why: str) -> None:
        """A candidate without numbers."""
        self.add_candidate(untested_candidate(name, self.selected, None, why, accepted=False))

    def add_candidate(self, candidate: JudgedCandidate, trial: Trial | None = None) -> None:
        """One that was judged elsewhere, and is not selected."""
        self.candidates.append(candidate)
        if trial is not None:
            self.trials[candidate.name] = trial

    def try_one(
        self,
        trial: Trial,
        parameters: Mapping[str, str | float] | None = None,
    ) -> bool:
        """Whether a candidate is selected."""
        worth = self.judge(trial)
        return self._add(self._tested(trial.name, worth, parameters), trial, worth)

    def beside(self, held: Trial, trial: Trial, parameters: Mapping[str, str | float] | None = None) -> JudgedCandidate:
        """The first network of a candidate against the first of another: accepted if its others are worth training."""
        below = self.judge(held)
        found = self._tested(trial.name, self.judge(trial), parameters, below)
        saving = LEAST_SAVING * (float(below.cost.mean()) - self.foresight)
        if not found.accepted or (found.expected_change or 0.0) < -saving:
            return found
        return replace(found, accepted=False, why=f"{_why(replace(found, accepted=False))}, too little to train it")

    def try_best(self, trials: Sequence[tuple[Mapping[str, str | float], Trial]]) -> bool:
        """The variant of least expected cost."""
        worth = [self.judge(trial) for _, trial in trials]
        tested = [
            self._tested(trial.name, each, parameters) for each, (parameters, trial) in zip(worth, trials, strict=True)
        ]
        sound = [place for place, each in enumerate(tested) if each.expected_change is not None]
        best = min(sound, key=lambda place: tested[place].expected_change or 0.0, default=0)
        return self._add(tested[best], trials[best][1], worth[best])

    def try_weights(self, trials: Mapping[float, Trial], held: Trial | None = None) -> Frontier:
        """The decision weight that a frontier chooses; against another forecast of weight 0 nothing is selected yet."""
        below = self._worth[self.selected.name] if held is None else self.judge(held)
        worth = {weight: self.judge(trial) for weight, trial in trials.items()}
        judged = self.weight_frontier({0.0: below, **worth}, least_saving=0.0 if held is None else LEAST_SAVING)
        if held is None:
            candidate = decision_candidate(judged, self.selected)
            weight = float(candidate.parameters.get("decision weight", 0))
            self._add(candidate, trials.get(weight), worth.get(weight))
        return judged

    def weight_frontier(self, worth: Mapping[float, JudgedCases], least_saving: float = 0.0) -> Frontier:
        """What decision weights cost and score on the held-out cases, and which one to take."""
        cost, score = (np.stack([getattr(each, name) for each in worth.values()]) for name in JudgedCases._fields)
        options: dict[str, Any] = {"foresight": self.foresight, "least_saving": least_saving, "level": self.level}
        return frontier([*worth], cost, score, block=self.block, tolerance=self.tolerance, **options)

    def result(self) -> ModelSelection:
        """How each candidate was judged."""
        return ModelSelection(tuple(self.candidates), self.cases, min(self.block, self.cases))

    def _tested(
        self,
        name: str,
        worth: JudgedCases,
        parameters: Mapping[str, str | float] | None = None,
        held: JudgedCases | None = None,
    ) -> JudgedCandidate:
        return judged_candidate(
            name,
            worth,
            self.selected,
            self._worth[self.selected.name] if held is None else held,
            foresight=self.foresight,
            block=self.block,
            level=self.level,
            parameters=parameters,
        )

    def _add(self, candidate: JudgedCandidate, trial: Trial | None, worth: JudgedCases | None) -> bool:
        self.candidates.append(candidate)
        if trial is not None and worth is not None:
            self.trials[candidate.name], self._worth[candidate.name] = trial, worth
        return candidate.accepted
