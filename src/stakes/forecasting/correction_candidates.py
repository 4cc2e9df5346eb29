"""The candidates of a recalibrator: what each learns from past errors, what that is worth, and which is selected."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from stakes.costs.cost import Cost
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import Pair
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.intervals import block_length
from stakes.evaluation.selection import (
    START,
    Candidate,
    CandidateSelection,
    CaseNumbers,
    Fold,
    JudgedCases,
    ModelSelection,
    candidate_on_test,
    rolling_folds,
)
from stakes.forecasting.corrections import CorrectedMembers, Correction, CorrectionPlan, case_weights, form_of
from stakes.forecasting.error_model import LEAST_CASES
from stakes.forecasting.parameters import RecalibratorSettings
from stakes.forecasting.recalibration import (
    JudgedCorrection,
    forecast_worth,
    judge_correction,
    learned,
    trained_on_decision,
)
from stakes.scores.decision_score import foresight_costs

_BLOCKS = 5
_HALF_LIVES = (30.0, 90.0, 365.0)  # days
_DAY = 86400  # seconds
_FIRST_SHARE = 1 / 3  # of the cases before the test, which only teach

SelectionProgress = Callable[[int, int], None]
"""What is told how many of about how many corrections are learned."""


class PastParts(NamedTuple):
    """Which cases judge what was learned from which."""

    blocks: tuple[Fold, ...]  # those that choose a candidate
    test: Fold | None  # those that choose nothing; None where there are none


class Recalibrated(NamedTuple):
    """What was tried, and what was selected."""

    selection: ModelSelection  # how each candidate was judged
    plan: CorrectionPlan  # what the selected candidate learns
    state: Correction  # what it has learned from all cases
    judged: JudgedCorrection | None  # the test cases; None where there are none


def past_parts(past: ForecastSet, test_fraction: float, gap: int) -> PastParts:
    """Which cases judge what was learned from which; too few cases are refused."""
    if isinstance(test_fraction, str | bool) or not 0 <= test_fraction < 1:
        raise SettingError(f"test_fraction must lie from 0 to below 1, got {test_fraction!r}")
    cases = len(past)
    first_test = cases - round(test_fraction * cases)
    first = max(LEAST_CASES + gap, round(_FIRST_SHARE * first_test))
    edges = np.unique(np.linspace(min(first, first_test), first_test, _BLOCKS + 1).round().astype(np.int64))
    blocks = rolling_folds(edges.tolist(), gap, past.times, past.issued)
    test = rolling_folds([first_test, cases], gap, past.times, past.issued) if first_test < cases else []
    enough, tested = (tuple(part for part in parts if len(part.known) >= LEAST_CASES) for parts in (blocks, test))
    if not enough:
        raise ShapeError(
            f"a recalibration needs at least {LEAST_CASES} past forecasts with outcomes, besides those held out as "
            f"test cases, got {cases} in all"
        )
    return PastParts(enough, tested[0] if tested else None)


@dataclass(frozen=True)
class CorrectionCandidate(Candidate[ForecastSet, Correction]):
    """A correction, before it is learned."""

    plan: CorrectionPlan
    cost: Cost
    bounds: tuple[Pair, ...]  # what each outcome cannot cross
    tell: Callable[[], None] = lambda: None  # called after each that is learned

    @property
    def name(self) -> str:
        """That of its plan."""
        return self.plan.candidate

    def fit(self, cases: ForecastSet, like: Correction | None = None) -> Correction:
        """What past cases teach."""
        state = learned(cases, self.plan, self.bounds, self.cost, like)
        self.tell()
        return state

    def members(self, fitted: Correction, cases: ForecastSet) -> CorrectedMembers:
        """The corrected members of other cases."""
        return fitted.corrected(cases)


class _Trial(NamedTuple):
    """A candidate, and what it learned before each block."""

    candidate: CorrectionCandidate
    states: Sequence[Correction]

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def plan(self) -> CorrectionPlan:
        return self.candidate.plan


class CorrectionSelection:
    """Every candidate, tried on the one selected so far; and the selected one, learned from all cases."""

    def __init__(
        self,
        past: ForecastSet,
        cost: Cost,
        bounds: tuple[Pair, ...],
        settings: RecalibratorSettings,
        progress: SelectionProgress = lambda done, of: None,
        why_no_decision: str = "",
    ) -> None:
        self.past, self.cost, self.bounds, self.settings = past, cost, bounds, settings
        self.parts = past_parts(past, settings.test_fraction, settings.gap)
        rows = np.concatenate([part.rows for part in self.parts.blocks])
        several = past.members.shape[2] > 1
        as_came = not several or form_of(past) == "members"
        self.dependence: Literal["members", "errors"] = "members" if as_came else "errors"
        self.half_lives = tuple(days for days in _HALF_LIVES if days < self._days(rows))
        self.why_no_decision = why_no_decision
        self.weights = tuple(weight for weight in settings.decision_weights if weight and not why_no_decision)
        self.joined = several and as_came
        steps = 2 + bool(self.half_lives) + self.joined + bool(self.weights)
        tries = steps + sum(max(0, len(variants) - 1) for variants in (self.half_lives, self.weights))
        assert past.outcomes is not None
        foresight = float(foresight_costs(past.rows(rows).priced(cost), torch.from_numpy(past.outcomes[rows])).mean())
        self.engine = CandidateSelection(
            self._judged, len(rows), self._block(rows), tries, foresight=foresight, tolerance=settings.tolerance
        )
        self.progress, self.done = progress, 0
        self.of = len(self.parts.blocks) * (1 + tries) + (1 + steps if self.parts.test is not None else 0) + 1

    def run(self) -> Recalibrated:
        """All candidates in order; the forecast as it came where there are too few cases to tell."""
        engine, point = self.engine, self.past.is_point
        engine.add(self._trial(CorrectionPlan(dependence="members")), START)
        mended = CorrectionPlan("bias_and_spread", "bias_and_spread", self.dependence)
        if engine.too_few:
            stays = "but a point forecast has no spread of its own and needs that of past errors"
            why = f"{engine.too_few}, {stays}" if point else f"{engine.too_few}: the forecast is not corrected"
            engine.add(self._trial(mended), why, accepted=point)
            return self._result()
        engine.try_one(self._trial(mended))
        engine.try_one(self._trial(self._changed("linear", margins="linear")))
        if self.half_lives:
            plans = {days: self._changed("recent_errors", half_life=days) for days in self.half_lives}
            variants = [({"half-life in days": days}, self._trial(plan)) for days, plan in plans.items()]
            engine.try_best(variants)
        if self.joined:
            engine.try_one(self._trial(self._changed("dependence", dependence="errors")))
        if self.weights:
            self._try_decision()
        elif self.why_no_decision:
            engine.add_unfitted("decision", self.why_no_decision)
        return self._result()

    def _try_decision(self) -> None:
        """Each weight, from what the score has taught."""
        held, plan = self.engine.trial, self._changed("decision")
        start = held if held.plan.margins != "raw" else self._trial(plan)
        trials = {weight: self._trained(start, replace(plan, decision_weight=weight)) for weight in self.weights}
        self.engine.try_weights(trials)

    # How a candidate is tried

    def _changed(self, candidate: str, **changes: Any) -> CorrectionPlan:
        """The plan that is held, or that of bias and spread where the forecast stays as it came, with a change."""
        held = self.engine.trial.plan
        corrected = held if held.margins != "raw" else replace(held, margins="bias_and_spread")
        return replace(corrected, candidate=candidate, **changes)

    def _candidate(self, plan: CorrectionPlan) -> CorrectionCandidate:
        return CorrectionCandidate(plan, self.cost, self.bounds, self._tell)

    def _trial(self, plan: CorrectionPlan) -> _Trial:
        """What is learned before each block."""
        candidate = self._candidate(plan)
        return _Trial(candidate, candidate.fit_folds(self.past, self.parts.blocks))

    def _trained(self, start: _Trial, plan: CorrectionPlan) -> _Trial:
        """The states of a candidate trained further on the decision, each by the cases it was learned from."""
        states = []
        for state, part in zip(start.states, self.parts.blocks, strict=True):
            past = self.past.rows(part.known)
            weight = case_weights(past, plan.half_life)
            states.append(trained_on_decision(state, past, self.cost, plan.decision_weight, weight))
            self._tell()
        return _Trial(self._candidate(plan), states)

    def _tell(self) -> None:
        self.done += 1
        self.progress(self.done, max(self.done, self.of))

    # What a candidate is worth

    def _judged(self, trial: _Trial) -> JudgedCases:
        parts = zip(trial.states, self.parts.blocks, strict=True)
        worth = [self._worth(state, part.rows) for state, part in parts]
        return JudgedCases(*map(np.concatenate, zip(*worth, strict=True)))

    def _worth(self, state: Correction, rows: CaseNumbers) -> JudgedCases:
        given = self.past.rows(rows)
        assert given.outcomes is not None
        return forecast_worth(given.priced(self.cost), state.corrected(given), given.outcomes)

    def _days(self, rows: CaseNumbers) -> float:
        """How many days lie between the first and the last case that judges; 0 where it is not known."""
        if self.past.times is None:
            return 0.0
        return float(np.ptp(self.past.times[: rows[-1] + 1].astype(np.int64))) / _DAY

    def _block(self, rows: CaseNumbers) -> int:
        times = None if self.past.times is None else self.past.times[rows]
        return block_length(len(rows), times, self.settings.block)

    # What comes of it

    def _result(self) -> Recalibrated:
        selection, held, test = self.engine.result(), self.engine.trial, self.parts.test
        state = held.candidate.fit(self.past, held.states[-1])
        if test is None:
            return Recalibrated(selection, held.plan, state, None)
        known, block, selected = self.past.rows(test.known), self._block(test.rows), selection.selected.name
        states = {name: trial.candidate.fit(known, trial.states[-1]) for name, trial in self.engine.trials.items()}
        worth = {name: self._worth(each, test.rows) for name, each in states.items()}
        tested = tuple(candidate_on_test(name, each, worth[selected], block) for name, each in worth.items())
        given = self.past.rows(test.rows)
        members, weights = states[selected].corrected(given)
        judged = judge_correction(given, members, self.cost, block, weights, known)
        return Recalibrated(replace(selection, tested=tested), held.plan, state, judged)
