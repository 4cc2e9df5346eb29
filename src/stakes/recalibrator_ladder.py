"""From rung to rung for a forecast that somebody else makes: what past errors teach, and what that is worth.

The past cases lie in the order in which they were issued. After the first part, which only teaches, come five blocks:
each is corrected by what was learned from cases that had happened before its first forecast was issued, and all rungs
are judged on all of these blocks. The last part, the test cases, chooses nothing: every rung is judged there once more,
by what was learned before it. The forecast as it came is left only with proof; a point forecast, which knows of no
uncertainty, also where past errors make its score better.
"""

from collections.abc import Sequence
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
    first_rung,
    rung_on_test,
    step_level,
    tried_rung,
    unproven_rung,
)
from stakes.evaluation.shift_and_factor import LEAST_CASES
from stakes.evaluation.weight_frontier import too_few_to_choose
from stakes.method.costs import Cost
from stakes.recalibrator_judgement import forecast_worth
from stakes.recalibrator_learning import RungPlan, learned
from stakes.recalibrator_state import RecalibratorState

__all__ = ["ClimbSettings", "PastParts", "Recalibrated", "climb_given_ladder", "past_parts"]

_BLOCKS = 5
_FIRST_SHARE = 0.4  # of the cases before the test, which only teach

Rows = NDArray[np.int64]


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
    """Which cases judge what was learned from which.

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
    return PastParts(enough, test if test is not None and len(test.known) >= LEAST_CASES else None)


def _part(past: GivenForecasts, start: int, end: int, gap: int) -> PastPart:
    """The cases from start to end, and those that had happened before the first of them was issued."""
    known = np.arange(max(start - gap, 0))
    issued = past.issued if past.issued is not None else past.times
    if past.times is not None and issued is not None:
        known = known[past.times[known] < issued[start:end].min()]
    return PastPart(np.arange(start, end), known)


def climb_given_ladder(past: GivenForecasts, settings: ClimbSettings) -> Recalibrated:
    """Try every rung on the one that is held, and learn the one that is taken from all cases.

    Args:
        past: The past cases with outcomes, in the order of issue.
        settings: How the ladder is climbed.
    """
    parts = past_parts(past, settings.test_fraction, settings.gap)
    if not parts.blocks:
        raise ShapeError(
            f"past forecasts with outcomes must be at least {LEAST_CASES} to learn from, beside those that judge what "
            f"was learned, got {len(past)} in all"
        )
    return _Climb(past, settings, parts).run()


class _Climb:
    """The rung that is held, and all that were tried."""

    def __init__(self, past: GivenForecasts, settings: ClimbSettings, parts: PastParts) -> None:
        self.past, self.settings, self.parts = past, settings, parts
        self.rows = np.concatenate([part.rows for part in parts.blocks])
        self.block = self._block(self.rows)
        several = past.members.shape[2] > 1
        self.dependence: Literal["members", "errors"] = (
            "errors" if several and (past.is_point or past.weights is not None) else "members"
        )
        self.tried: dict[str, _Tried] = {}
        self.rungs: list[Rung] = []
        self.level = step_level(len(self._steps()))

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
        return ["bias_and_spread", "linear"]

    def _try_bias_and_spread(self) -> None:
        plan = RungPlan("bias_and_spread", "bias_and_spread", self.dependence)
        self._try(plan, presumed=self.past.is_point)

    def _try_linear(self) -> None:
        self._try(replace(self._corrected, rung="linear", margins="linear"))

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
    def _held(self) -> _Tried:
        return self.tried[self._taken.name]

    @property
    def _corrected(self) -> RungPlan:
        """The plan that is held, or that of bias and spread where the forecast stays as it came."""
        held = self._held.plan
        return held if held.margins != "raw" else self.tried["bias_and_spread"].plan

    def _try(self, plan: RungPlan, *, presumed: bool = False) -> None:
        tried = self._learned_in_time(plan)
        rung = tried_rung(
            plan.rung, tried.worth, self._taken, self._held.worth, block=self.block, level=self.level, presumed=presumed
        )
        self._add(rung, tried)

    def _add(self, rung: Rung, tried: _Tried) -> None:
        self.rungs.append(rung)
        self.tried[rung.name] = tried

    def _learned_in_time(self, plan: RungPlan) -> _Tried:
        """What is learned before each block, and what it is worth there."""
        states = [self._learned(self.past.rows(part.known), plan) for part in self.parts.blocks]
        worth = [self._worth(state, part.rows) for state, part in zip(states, self.parts.blocks, strict=True)]
        return _Tried(plan, states, _joined(worth))

    def _learned(self, past: GivenForecasts, plan: RungPlan) -> RecalibratorState:
        return learned(past, plan, self.settings.bounds)

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
        state = self._learned(self.past, plan)
        test = self.parts.test
        if test is None:
            return Recalibrated(ladder, plan, state, None)
        known, block = self.past.rows(test.known), self._block(test.rows)
        states = {
            rung.name: self._learned(known, self.tried[rung.name].plan)
            for rung in self.rungs
            if rung.name in self.tried
        }
        worth = {name: self._worth(state, test.rows) for name, state in states.items()}
        taken = self._taken.name
        tested = tuple(rung_on_test(name, each, worth[taken], block) for name, each in worth.items())
        given = self.past.rows(test.rows)
        members, weights = states[taken].apply(given)
        judged = judge_correction(given, members, self.settings.cost, block, weights)
        return Recalibrated(replace(ladder, tested=tested), plan, state, judged)


def _joined(worth: Sequence[JudgedCases]) -> JudgedCases:
    return JudgedCases(*(np.concatenate([getattr(each, name) for each in worth]) for name in JudgedCases._fields))
