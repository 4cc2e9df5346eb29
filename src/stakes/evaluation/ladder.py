"""The ladder: each forecast is tried against the best one proven so far, and taken only with proof.

From climatology upwards each candidate is compared with the rung that is held, on the same validation cases. It is
climbed where it is significantly cheaper, or where it is significantly better in score and its mean cost on these
cases is at most half a per cent higher. (Costs are noisy: to ask for a bound of that size would keep climatology where
a forecast is better by a third.)

The linear forecast is the exception: it is the strongest simple one, shrunk towards climatology where there is nothing
to know, so it is taken wherever its score was better, without proof. A short record proves little: with 75 cases
climatology stayed where ridge regression was a quarter cheaper.

All other steps are one family: with k of them each is tested at the level 1 - 0.05 / k, cost and score at once
(`stakes.evaluation.simultaneous_bounds`), so that a step which is worth nothing is climbed in at most 1 of 20 data
sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.errors import SettingError
from stakes.evaluation.intervals import Difference, Resampling
from stakes.evaluation.simultaneous_bounds import upper_bounds
from stakes.evaluation.weight_frontier import Frontier, Interval
from stakes.number_text import change_text, count_text, fixed_text, number_text
from stakes.settings import to_plain

__all__ = ["GIVEN_RUNGS", "RUNGS", "JudgedCases", "Ladder", "Rung", "RungOnTest", "rung_on_test", "step_level"]
__all__ += ["decision_rung", "first_rung", "tried_rung", "unproven_rung", "untried_rung"]

RUNGS = ("climatology", "linear", "network", "fresh_errors", "total_score", "decision")
"""All rungs of a forecast that is trained, from below."""

GIVEN_RUNGS = ("raw", "bias_and_spread", "linear", "fresh_errors", "dependence", "decision")
"""All rungs of a forecast that somebody else makes, from below."""

_FALSE_CLIMBS = 0.05  # of the whole ladder
_NO_DEARER = 0.005  # of the cost
_SAME = "it is the same forecast"
_ROUNDING = 1e-6  # of the largest cost and score: what is closer is the same

Floats = NDArray[np.float64]


class JudgedCases(NamedTuple):
    """What a forecast is worth case by case.

    Attributes:
        cost: What its decisions cost, (N,), in the order of time.
        score: Its scores, (N,); lower is better.
    """

    cost: Floats
    score: Floats


@dataclass(frozen=True)
class Rung:
    """A forecast that was tried, and how it differs from the rung that was held; one that failed has no numbers.

    Attributes:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        below: The rung it was compared with; None for the first.
        parameters: In what it differs from that, by name, such as the decision weight.
        cost: Its mean cost on the validation cases.
        score: Its mean score there.
        cost_change: Its cost less that of the rung below, with an interval of its own.
        score_change: Its score less that of the rung below, in per cent of it; None where that is 0.
        cost_bound: What the change of the cost lies below, tested with all else; None where it was not.
        score_bound: What the change of the score lies below, likewise, in the unit of the score.
        climbed: Whether it was taken.
        why: Why or why not, in a few words.
    """

    name: str
    below: str | None
    parameters: dict[str, str | float]
    cost: float | None
    score: float | None
    cost_change: Interval | None
    score_change: Interval | None
    cost_bound: float | None
    score_bound: float | None
    climbed: bool
    why: str

    def __post_init__(self) -> None:
        for name in ("name", "below"):
            if (value := getattr(self, name)) is not None and value not in _WORDS:
                raise SettingError(f"{name} must be one of {', '.join(_WORDS)}, got {value!r}")
        for name in ("cost_change", "score_change"):
            if (change := getattr(self, name)) is not None:
                object.__setattr__(self, name, Difference(*change))

    @property
    def deciding_change(self) -> Difference | None:
        """The change of the cost with the upper end that decided: its own, or that of all steps tested together."""
        if self.cost_change is None or self.cost_bound is None:
            return self.cost_change
        mean, low, high = self.cost_change
        return Difference(mean, low, max(high, self.cost_bound))


@dataclass(frozen=True)
class RungOnTest:
    """A rung on test cases, which chose nothing.

    Attributes:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        cost: Its mean cost there, by the models that validation judged; of climatology that of the best constant
            action for all rows before the test cases.
        score: Its mean score there.
        cost_change: The cost of the forecast that was taken, fitted on all rows before the test cases, less that of
            this rung, with its interval.
    """

    name: str
    cost: float
    score: float
    cost_change: Interval

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost_change", Difference(*self.cost_change))


@dataclass(frozen=True)
class Ladder:
    """All rungs that were tried, from below.

    Attributes:
        rungs: How each was judged on validation cases.
        cases: How many of these there were.
        block: How many neighbouring ones depend on each other.
        tested: Each rung on test cases; empty where there were none.
    """

    rungs: tuple[Rung, ...]
    cases: int
    block: int
    tested: tuple[RungOnTest, ...] = field(default=(), metadata={"later": True})

    def __post_init__(self) -> None:
        if not any(rung.climbed for rung in self.rungs):
            raise SettingError("rungs must have one that was climbed")

    @property
    def taken(self) -> Rung:
        """The rung that was taken: the highest that was climbed."""
        return [rung for rung in self.rungs if rung.climbed][-1]

    @property
    def test_cost(self) -> float | None:
        """What the forecast that was taken, fitted again, costs on the test cases; None where there were none."""
        return self.tested[0].cost + self.tested[0].cost_change.mean if self.tested else None

    def record(self) -> dict[str, Any]:
        """For machines: costs and scores named after the cases that they are means of."""
        plain = to_plain(self)
        for kind, cases in (("rungs", "validation"), ("tested", "test")):
            plain[kind] = [
                {f"{cases}_{name}" if name in JudgedCases._fields else name: value for name, value in rung.items()}
                for rung in plain.get(kind, [])
            ]
        taken = {"name": self.taken.name, "test_cost": self.test_cost}
        return plain if self.test_cost is None else {**plain, "fitted_again": taken}

    def words(self, name: str) -> str:
        """What a rung is, for people.

        Args:
            name: The name of one of the rungs.
        """
        return rung_words(name, given=self.rungs[0].name == GIVEN_RUNGS[0])

    @property
    def reason(self) -> str:
        """Which rung was taken and why, in a sentence, and what was not."""
        taken, others = self.taken, [rung.name for rung in self.rungs if not rung.climbed]
        blocks = f" in blocks of {self.block}" if self.block > 1 else ""
        left = f" Not taken: {', '.join(map(self.words, others))}." if others else ""
        return (
            f"Taken is {self.words(taken.name)}{_parameter_words(taken.parameters)}, judged on "
            f"{count_text(self.cases, 'validation case')}{blocks}: {taken.why}.{left}"
        )

    def table(self) -> pd.DataFrame:
        """One line per rung; NaN where it failed or was not tested."""
        tested = {rung.name: rung for rung in self.tested}
        lines = [
            {
                "rung": rung.name,
                "parameters": ", ".join(f"{name} {value}" for name, value in rung.parameters.items()),
                "cost": rung.cost,
                **_columns("cost_change", rung.cost_change),
                "score": rung.score,
                **_columns("score_change_percent", rung.score_change),
                "test_cost": tested[rung.name].cost if rung.name in tested else None,
                "climbed": rung.climbed,
                "why": rung.why,
            }
            for rung in self.rungs
        ]
        table = pd.DataFrame(lines)
        numbers = [name for name in table.columns if name not in ("rung", "parameters", "climbed", "why")]
        return table.astype(dict.fromkeys(numbers, np.float64))


def rung_words(name: str, *, given: bool = False) -> str:
    """What a rung is, for people.

    Args:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        given: Whether it is one of the latter.
    """
    return (_GIVEN_WORDS if given else _WORDS)[name]


_WORDS = {
    "climatology": "climatology",
    "linear": "the linear forecast",
    "network": "the network",
    "fresh_errors": "the correction by fresh errors",
    "total_score": "training on the score of the total as well",
    "decision": "training on the decision as well",
    "raw": "the raw forecast",
    "bias_and_spread": "the correction of bias and spread",
    "dependence": "the dependence of past errors",
}
_GIVEN_WORDS = {
    **_WORDS,
    "linear": "the correction by further numbers of the forecast",
    "fresh_errors": "the correction by which newer errors count more",
}


def step_level(steps: int) -> float:
    """How sure each of so many steps must be, for the whole ladder to be 95 % sure.

    Args:
        steps: How many candidates are tried above the first rung.
    """
    return 1 - _FALSE_CLIMBS / max(1, steps)


def first_rung(name: str, judged: JudgedCases) -> Rung:
    """The rung that all start from.

    Args:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        judged: What it is worth on the validation cases.
    """
    return _rung(name, None, {}, judged, None, None, None, climbed=True, why="all start from it")


def unproven_rung(name: str, below: Rung, judged: JudgedCases, why: str) -> Rung:
    """A rung that is taken without a test.

    Args:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        below: The rung it stands on.
        judged: What it is worth on the validation cases.
        why: Why it is taken.
    """
    return _rung(name, below, {}, judged, None, None, None, climbed=True, why=why)


def untried_rung(name: str, below: Rung, why: str) -> Rung:
    """A rung without numbers, which is not taken.

    Args:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        below: The rung that is held.
        why: Why it has none.
    """
    return Rung(name, below.name, {}, None, None, None, None, None, None, climbed=False, why=why)


def tried_rung(
    name: str,
    candidate: JudgedCases,
    below: Rung,
    held: JudgedCases,
    *,
    block: int,
    level: float,
    parameters: Mapping[str, str | float] | None = None,
    presumed: bool = False,
) -> Rung:
    """Try a candidate against the rung that is held.

    >>> paid = np.random.default_rng(0).gamma(2.0, size=400)
    >>> base = first_rung("climatology", JudgedCases(paid, paid))
    >>> tried_rung("linear", JudgedCases(0.9 * paid, paid), base, JudgedCases(paid, paid), block=1, level=0.99).climbed
    True

    Args:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        candidate: What it is worth on the validation cases; not finite where it failed.
        below: The rung that is held.
        held: What that is worth on the same cases.
        block: How many neighbouring cases depend on each other.
        level: How sure a step must be, as `step_level` has it.
        parameters: In what the candidate differs from the rung below; None for nothing that has a name.
        presumed: Whether it is taken without proof where its score was better.
    """
    known = dict(parameters or {})
    if not all(np.isfinite(values).all() for values in candidate):
        return Rung(name, below.name, known, None, None, None, None, None, None, climbed=False, why="it failed")
    change = np.stack([candidate.cost - held.cost, candidate.score - held.score])
    cost_bound, score_bound = upper_bounds(change, block=min(block, len(held.cost)), level=level).tolist()
    resampling = Resampling(len(held.cost), block=min(block, len(held.cost)))
    climbed, why = _verdict(change, held, cost_bound, score_bound, resampling)
    if presumed and not climbed and why != _SAME and change[1].mean() < 0:
        better = fixed_text(-100 * float(change[1].mean() / held.score.mean()), 1)
        climbed, why = True, f"its score was {better} % better, and it is left only with proof"
    bounds = cost_bound, score_bound
    return _rung(name, below, known, candidate, (held, resampling), *bounds, climbed=climbed, why=why)


def decision_rung(frontier: Frontier, candidates: Mapping[float, JudgedCases], below: Rung, held: JudgedCases) -> Rung:
    """The decision weight that a frontier takes, or the cheapest of those that it does not take, as a rung.

    Args:
        frontier: How the weights were judged against the rung that is held, which has the place of weight 0 in it.
        candidates: What each weight above 0 is worth on the validation cases.
        below: The rung that is held.
        held: What that is worth.
    """
    weighted = [point for point in frontier.points if point.weight]
    sound = [point for point in weighted if not point.failed]
    if not sound:
        why = "it failed" if weighted else "the model forecasts the same at every decision weight"
        return untried_rung("decision", below, why)
    taken = next((point for point in sound if point.weight == frontier.chosen), None)
    shown = taken or min(sound, key=lambda point: point.cost or 0.0)
    parameters: dict[str, str | float] = {"decision weight": shown.weight}
    if shown.also:
        parameters["the same at"] = ", ".join(f"{weight:g}" for weight in shown.also)
    resampling = Resampling(frontier.cases, block=frontier.block)
    judged, bounds = (held, resampling), (shown.cost_bound, None)
    why = "no decision weight is proven to be cheaper"
    if taken is not None and taken.cost_change is not None:
        why = _cheaper(taken.cost_change, float(held.cost.mean()))
    judged_cases = candidates[shown.weight]
    return _rung("decision", below, parameters, judged_cases, judged, *bounds, climbed=taken is not None, why=why)


def rung_on_test(name: str, judged: JudgedCases, taken: JudgedCases, block: int) -> RungOnTest:
    """A rung on test cases, beside the forecast that was taken.

    Args:
        name: One of `RUNGS` or `GIVEN_RUNGS`.
        judged: What the rung is worth on the test cases.
        taken: What the forecast is worth that was taken and fitted again on all rows before them.
        block: How many neighbouring test cases depend on each other.
    """
    resampling = Resampling(len(judged.cost), block=min(block, len(judged.cost)))
    change = resampling.mean((taken.cost - judged.cost)[None, None]).interval()
    return RungOnTest(name, float(judged.cost.mean()), float(judged.score.mean()), change)


def _rung(
    name: str,
    below: Rung | None,
    parameters: dict[str, str | float],
    judged: JudgedCases,
    held: tuple[JudgedCases, Resampling] | None,
    cost_bound: float | None,
    score_bound: float | None,
    *,
    climbed: bool,
    why: str,
) -> Rung:
    cost_change, score_change = (None, None) if held is None else _changes(judged, *held)
    return Rung(
        name,
        None if below is None else below.name,
        parameters,
        float(judged.cost.mean()),
        float(judged.score.mean()),
        cost_change,
        score_change,
        cost_bound,
        score_bound,
        climbed=climbed,
        why=why,
    )


def _changes(judged: JudgedCases, held: JudgedCases, resampling: Resampling) -> tuple[Difference, Difference | None]:
    """What changes in cost, and in score as a percentage."""
    values = np.stack([judged.cost - held.cost, judged.score - held.score, held.score])
    cost, score, base = resampling.means(values[:, None, None])
    percent = (score / abs(base) * 100.0).interval()
    return cost.interval(), percent if np.isfinite(percent).all() else None


def _verdict(
    change: Floats, held: JudgedCases, cost_bound: float, score_bound: float, resampling: Resampling
) -> tuple[bool, str]:
    """Whether the changes (2, N) of cost and score are proof enough, and why."""
    if (np.abs(change) <= _ROUNDING * np.abs(np.stack(held)).max(1, keepdims=True)).all():
        return False, _SAME
    cost, paid = resampling.mean(change[0][None, None]).interval(), float(held.cost.mean())
    if cost_bound < 0 and cost.significant:
        return True, _cheaper(cost, paid)
    if score_bound >= 0:
        alone = "cheaper by itself, but with all steps tested together " if cost.high < 0 else ""
        return False, f"it is {alone}not proven to be cheaper, nor to be better in score"
    if cost.mean > _NO_DEARER * abs(paid):
        return False, "its score is better, but it may cost more"
    percent = -100 * float(change[1].mean()) / abs(float(held.score.mean()))
    more = "not more" if cost.mean <= 0 else "hardly more"
    return (
        True,
        f"its score is {fixed_text(percent, 1)} % better and it was {more} expensive (change {change_text(cost)})",
    )


def _cheaper(change: Difference, before: float) -> str:
    now, then = number_text(before + change.mean), number_text(before)
    return f"its mean cost is {now} instead of {then} (change {change_text(change)})"


def _columns(name: str, change: Difference | None) -> dict[str, float | None]:
    mean, low, high = change or (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def _parameter_words(parameters: Mapping[str, str | float]) -> str:
    values = parameters.items()
    said = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in values)
    return f" ({said})" if said else ""
