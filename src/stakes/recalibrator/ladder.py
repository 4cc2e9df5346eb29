"""From rung to rung for a forecast that somebody else makes: what past errors teach, and what that is worth.

The past cases lie in the order in which they were issued. After the first part, which only teaches, come five blocks:
each is corrected by what was learned from cases that had happened before its first forecast was issued, and all rungs
are judged on all of these blocks. The last part, the test cases, chooses nothing: every rung is judged there once more,
by what was learned before it. The forecast as it came is left only with proof; a point forecast, which knows of no
uncertainty, also where past errors make its score better.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.data.outcome_bounds import Pair
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.headroom import resolved_block
from stakes.evaluation.judged_correction import JudgedCorrection, judge_correction
from stakes.evaluation.ladder import (
    JudgedCases,
    Ladder,
    Rung,
    decision_rung,
    first_rung,
    rung_on_test,
    step_level,
    tried_rung,
    unproven_rung,
)
from stakes.evaluation.shift_and_factor import LEAST_CASES
from stakes.evaluation.weight_frontier import frontier, too_few_to_choose
from stakes.method.costs import Cost
from stakes.recalibrator.decision import trained_on_decision
from stakes.recalibrator.judgement import forecast_worth
from stakes.recalibrator.learning import RungPlan, case_weights, learned
from stakes.recalibrator.state import RecalibratorState, form_of

__all__ = ["ClimbProgress", "ClimbSettings", "PastParts", "Recalibrated", "climb_given_ladder", "past_parts"]

_BLOCKS = 5
_HALF_LIVES = (30.0, 90.0, 365.0)  # days
_DAY = 86400  # seconds
_FIRST_SHARE = 1 / 3  # of the cases before the test, which only teach

Rows = NDArray[np.int64]
ClimbProgress = Callable[[int, int], None]
"""What is told how many of about how many corrections are learned."""


class ClimbSettings(NamedTuple):
    """How the ladder is climbed.

    Attributes:
        cost: What an action costs at an outcome.
        bounds: What each outcome cannot cross.
        decision_weights: Which decision weights are tried.
        tolerance: By how many per cent the score of a decision weight may lie above that of the rung below; None for
            no limit.
        test_fraction: The share of the cases, the last ones, that choose nothing.
        gap: How many of the cases before a block are not known yet when it is issued, beside what the times say.
        block: How many neighbouring cases depend on each other; "auto" tells by their times.
    """

    cost: Cost
    bounds: tuple[Pair, ...]
    decision_weights: tuple[float, ...]
    tolerance: float | None
    test_fraction: float
    gap: int
    block: int | Literal["auto"]


class PastPart(NamedTuple):
    """Some cases, and those that had happened before any of them was issued.

    Attributes:
        rows: The places of the cases.
        known: The places of those that may teach.
    """

    rows: Rows
    known: Rows


class PastParts(NamedTuple):
    """Which cases judge what was learned from which.

    Attributes:
        blocks: Those that choose a rung.
        test: Those that choose nothing; None where there are none.
    """

    blocks: tuple[PastPart, ...]
    test: PastPart | None


class Recalibrated(NamedTuple):
    """What was tried, and what was taken.

    Attributes:
        ladder: How each rung was judged.
        plan: What the rung that was taken learns.
        state: What it has learned from all cases.
        judged: The test cases; None where there are none.
    """

    ladder: Ladder
    plan: RungPlan
    state: RecalibratorState
    judged: JudgedCorrection | None


class _Tried(NamedTuple):
    """A rung that was tried: what it learns, what it learned before each block, and what that was worth."""

    plan: RungPlan
    states: Sequence[RecalibratorState]
    worth: JudgedCases


def past_parts(past: GivenForecasts, test_fraction: float, gap: int) -> PastParts:
    """Which cases judge what was learned from which; too few cases are refused.

    Args:
        past: All cases, in the order of issue.
        test_fraction: The share of the cases, the last ones, that choose nothing.
        gap: How many of the cases before a part are not known when it is issued, beside what the times say.
    """
    if isinstance(test_fraction, str | bool) or not 0 <= test_fraction < 1:
        raise SettingError(f"test_fraction must lie from 0 to below 1, got {test_fraction!r}")
    cases = len(past)
    first_test = cases - round(test_fraction * cases)
    first = max(LEAST_CASES + gap, round(_FIRST_SHARE * first_test))
    edges = np.unique(np.linspace(min(first, first_test), first_test, _BLOCKS + 1).round().astype(np.int64))
    parts = [_part(past, start, end, gap) for start, end in pairwise(edges.tolist())]
    test = _part(past, first_test, cases, gap) if first_test < cases else None
    enough = tuple(part for part in parts if len(part.known) >= LEAST_CASES)
    if not enough:
        raise ShapeError(
            f"past forecasts with outcomes must be at least {LEAST_CASES} to learn from, beside those that judge what "
            f"was learned, got {cases} in all"
        )
    return PastParts(enough, test if test is not None and len(test.known) >= LEAST_CASES else None)


def _part(past: GivenForecasts, start: int, end: int, gap: int) -> PastPart:
    """The cases from start to end, and those that had happened before the first of them was issued."""
    known = np.arange(max(start - gap, 0))
    issued = past.issued if past.issued is not None else past.times
    if past.times is not None and issued is not None:
        known = known[past.times[known] < issued[start:end].min()]
    return PastPart(np.arange(start, end), known)


def climb_given_ladder(
    past: GivenForecasts, settings: ClimbSettings, progress: ClimbProgress = lambda done, of: None
) -> Recalibrated:
    """Try every rung on the one that is held, and learn the one that is taken from all cases.

    Args:
        past: The past cases with outcomes, in the order of issue.
        settings: How the ladder is climbed.
        progress: Is told, each time a correction is learned, how many are, and about how many will be.
    """
    parts = past_parts(past, settings.test_fraction, settings.gap)
    return _Climb(past, settings, parts, progress).run()


class _Climb:
    """The rung that is held, and all that were tried."""

    def __init__(
        self, past: GivenForecasts, settings: ClimbSettings, parts: PastParts, progress: ClimbProgress
    ) -> None:
        self.past, self.settings, self.parts = past, settings, parts
        self.rows = np.concatenate([part.rows for part in parts.blocks])
        self.block = self._block(self.rows)
        self.several = past.members.shape[2] > 1
        as_came = not self.several or form_of(past) == "members"
        self.dependence: Literal["members", "errors"] = "members" if as_came else "errors"
        self.half_lives = tuple(days for days in _HALF_LIVES if days < self._days)
        self.tried: dict[str, _Tried] = {}
        self.rungs: list[Rung] = []
        several = (self.half_lives, [weight for weight in settings.decision_weights if weight])
        steps = len(self._steps())
        tries = steps + sum(max(0, len(tried) - 1) for tried in several)
        self.level = step_level(tries)
        self.progress, self.done = progress, 0
        self.of = len(parts.blocks) * (1 + tries) + (1 + steps if parts.test is not None else 0) + 1

    def run(self) -> Recalibrated:
        """All rungs from below; the forecast as it came where nothing can be proven."""
        raw = self._learned_in_time(RungPlan(dependence="members"))
        self._add(first_rung("raw", raw.worth), raw)
        if few := too_few_to_choose(len(self.rows), self.block):
            self._try_without_proof(few.replace("choose a decision weight by", "prove anything by"))
        else:
            for step in self._steps():
                getattr(self, f"_try_{step}")()
        return self._climbed()

    # The rungs

    def _steps(self) -> list[str]:
        """The candidates above the forecast as it came."""
        wanted = {
            "bias_and_spread": True,
            "linear": True,
            "fresh_errors": bool(self.half_lives),
            "dependence": self.several and self.dependence == "members",
            "decision": any(self.settings.decision_weights),
        }
        return [name for name, tried in wanted.items() if tried]

    def _try_bias_and_spread(self) -> None:
        plan = RungPlan("bias_and_spread", "bias_and_spread", self.dependence)
        self._try(plan, presumed=self.past.is_point)

    def _try_linear(self) -> None:
        self._try(replace(self._corrected, rung="linear", margins="linear"))

    def _try_fresh_errors(self) -> None:
        plan = replace(self._corrected, rung="fresh_errors")
        tried = [self._learned_in_time(replace(plan, half_life=days)) for days in self.half_lives]
        rungs = [self._judged(each, {"half-life in days": each.plan.half_life or 0.0}) for each in tried]
        proven = [place for place, rung in enumerate(rungs) if rung.climbed] or range(len(rungs))
        best = min(proven, key=lambda place: float(tried[place].worth.score.mean()))
        self._add(rungs[best], tried[best])

    def _try_dependence(self) -> None:
        self._try(replace(self._corrected, rung="dependence", dependence="errors"))

    def _try_decision(self) -> None:
        weights = tuple(weight for weight in self.settings.decision_weights if weight)
        plan = replace(self._corrected, rung="decision")
        start = self._held if self._held.plan.margins != "raw" else self._learned_in_time(plan)
        tried = {weight: self._trained(start, replace(plan, decision_weight=weight)) for weight in weights}
        worth = {weight: each.worth for weight, each in tried.items()}
        held = self._held.worth
        cost, score = (np.stack([getattr(each, name) for each in (held, *worth.values())]) for name in held._fields)
        judged = frontier(
            [0.0, *worth], cost, score, block=self.block, tolerance=self.settings.tolerance, level=self.level
        )
        rung = decision_rung(judged, worth, self._taken, held)
        if not rung.climbed:  # as any other correction may, a weight may better the score and cost no more
            others = [self._judged(each, {"decision weight": weight}) for weight, each in tried.items()]
            rung = min((each for each in others if each.climbed), key=lambda each: each.cost or 0.0, default=rung)
        self._add(rung, tried[float(rung.parameters["decision weight"])])

    def _trained(self, start: _Tried, plan: RungPlan) -> _Tried:
        """The states of a rung trained further on the decision, each by the cases it was learned from."""
        states = []
        for state, part in zip(start.states, self.parts.blocks, strict=True):
            past = self.past.rows(part.known)
            weight = case_weights(past, plan.half_life)
            states.append(trained_on_decision(state, past, self.settings.cost, plan.decision_weight, weight))
            self._tell()
        return self._judged_in_time(plan, states)

    def _try_without_proof(self, few: str) -> None:
        tried = self._learned_in_time(RungPlan("bias_and_spread", "bias_and_spread", self.dependence))
        if self.past.is_point:
            why = f"{few}, but a point forecast must learn from past errors how unsure it is"
            self._add(unproven_rung("bias_and_spread", self._taken, tried.worth, why), tried)
        else:
            why = f"{few}: the forecast stays as it came"
            rung = replace(unproven_rung("bias_and_spread", self._taken, tried.worth, why), climbed=False)
            self._add(rung, tried)

    # How a rung is tried

    @property
    def _taken(self) -> Rung:
        return [rung for rung in self.rungs if rung.climbed][-1]

    @property
    def _days(self) -> float:
        """How many days lie between the first and the last case that judges; 0 where it is not known."""
        if self.past.times is None:
            return 0.0
        return float(np.ptp(self.past.times[: self.rows[-1] + 1].astype(np.int64))) / _DAY

    @property
    def _held(self) -> _Tried:
        return self.tried[self._taken.name]

    @property
    def _corrected(self) -> RungPlan:
        """The plan that is held, or that of bias and spread where the forecast stays as it came."""
        held = self._held.plan
        return held if held.margins != "raw" else replace(held, margins="bias_and_spread")

    def _try(self, plan: RungPlan, *, presumed: bool = False) -> None:
        tried = self._learned_in_time(plan)
        self._add(self._judged(tried, presumed=presumed), tried)

    def _judged(
        self, tried: _Tried, parameters: Mapping[str, str | float] | None = None, *, presumed: bool = False
    ) -> Rung:
        return tried_rung(
            tried.plan.rung,
            tried.worth,
            self._taken,
            self._held.worth,
            block=self.block,
            level=self.level,
            parameters=parameters,
            presumed=presumed,
        )

    def _add(self, rung: Rung, tried: _Tried) -> None:
        self.rungs.append(rung)
        self.tried[rung.name] = tried

    def _learned_in_time(self, plan: RungPlan) -> _Tried:
        """What is learned before each block, and what it is worth there."""
        states: list[RecalibratorState] = []
        for part in self.parts.blocks:
            states.append(self._learned(self.past.rows(part.known), plan, states[-1] if states else None))
        return self._judged_in_time(plan, states)

    def _judged_in_time(self, plan: RungPlan, states: Sequence[RecalibratorState]) -> _Tried:
        worth = [self._worth(state, part.rows) for state, part in zip(states, self.parts.blocks, strict=True)]
        joined = (np.concatenate([getattr(each, name) for each in worth]) for name in JudgedCases._fields)
        return _Tried(plan, states, JudgedCases(*joined))

    def _learned(self, past: GivenForecasts, plan: RungPlan, like: RecalibratorState | None) -> RecalibratorState:
        state = learned(past, plan, self.settings.bounds, self.settings.cost, like)
        self._tell()
        return state

    def _tell(self) -> None:
        self.done += 1
        self.progress(self.done, max(self.done, self.of))

    def _worth(self, state: RecalibratorState, rows: Rows) -> JudgedCases:
        given = self.past.rows(rows)
        assert given.outcomes is not None
        return forecast_worth(self.settings.cost, state.apply(given), given.outcomes)

    def _block(self, rows: Rows) -> int:
        times = None if self.past.times is None else self.past.times[rows]
        return resolved_block(self.settings.block, len(rows), times)

    # What comes of it

    def _climbed(self) -> Recalibrated:
        plan = self._held.plan
        ladder = Ladder(tuple(self.rungs), len(self.rows), min(self.block, len(self.rows)))
        state = self._learned(self.past, plan, self._held.states[-1])
        test = self.parts.test
        if test is None:
            return Recalibrated(ladder, plan, state, None)
        known, block = self.past.rows(test.known), self._block(test.rows)
        states = {name: self._learned(known, tried.plan, tried.states[-1]) for name, tried in self.tried.items()}
        worth = {name: self._worth(state, test.rows) for name, state in states.items()}
        taken = self._taken.name
        tested = tuple(rung_on_test(name, each, worth[taken], block) for name, each in worth.items())
        given = self.past.rows(test.rows)
        members, weights = states[taken].apply(given)
        judged = judge_correction(given, members, self.settings.cost, block, weights)
        return Recalibrated(replace(ladder, tested=tested), plan, state, judged)
