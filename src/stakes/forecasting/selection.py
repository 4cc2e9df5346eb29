"""Candidate after candidate of a forecaster or a recalibrator: what is fitted for each, and what it is worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.costs.cost import Cost, total_of
from stakes.data.case_table import CaseTable
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import Pair
from stakes.data.forecasts.quantiles import within_bounds
from stakes.errors import SettingError, ShapeError, StakesError
from stakes.evaluation.intervals import block_length
from stakes.evaluation.selection import (
    Frontier,
    JudgedCandidate,
    JudgedCases,
    ModelSelection,
    candidate_on_test,
    decision_candidate,
    first_candidate,
    frontier,
    judged_candidate,
    step_level,
    too_few_to_choose,
    unjudged_candidate,
    unproven_candidate,
)
from stakes.forecasting.corrections import LEAST_CASES, ORIGINS, Correction, corrected_in_time
from stakes.forecasting.plan import ForecasterParameters, ForecastKind, PlannedFit, plan_fit
from stakes.forecasting.recalibration import (
    CorrectionPlan,
    JudgedCorrection,
    RecalibratorState,
    case_weights,
    forecast_worth,
    form_of,
    judge_correction,
    learned,
    trained_on_decision,
)
from stakes.models.ensemble import pooled_parts
from stakes.scores.decision_score import realised_costs
from stakes.scores.mixture import score_weights
from stakes.scores.scoring_rules import energy_score
from stakes.training.weight_search import FittedWeight, TrainingPlan, without_failures

Train = Callable[[TrainingPlan, str], list[FittedWeight]]
"""Trains the weights of a plan, with a name for its checkpoints."""


class CandidateForecast(NamedTuple):
    """A forecast that was tried."""

    kind: ForecastKind  # what its models are
    fitted: FittedWeight  # its models
    planned: PlannedFit  # what they were trained with
    correction: Correction | None


Confirm = Callable[[CandidateForecast], bool]
"""Whether a forecast still needs its correction once it is fitted again on newer rows."""


class SelectedForecast(NamedTuple):
    """What was tried, and what was selected."""

    selection: ModelSelection  # how each candidate was judged
    forecasts: dict[str, CandidateForecast]  # the forecast of each candidate that did not fail, by its name
    weight_0: FittedWeight | None
    frontier: Frontier | None  # how the decision weights were judged; None where none was tried
    records: list[dict[str, Any]]  # how each model trained


def select_forecast(
    parameters: ForecasterParameters,
    rows: CaseTable,
    *,
    start: Sequence[Mapping[str, Tensor]],
    train: Train,
    confirm: Confirm,
    why_no_decision: str = "",
) -> SelectedForecast:
    """Try every candidate on the one selected so far."""
    return _ForecasterSelection(parameters, rows, start, train, confirm, why_no_decision).run()


class _ForecasterSelection:
    """The candidate selected so far, and all that were tried."""

    def __init__(
        self,
        parameters: ForecasterParameters,
        rows: CaseTable,
        start: Sequence[Mapping[str, Tensor]],
        train: Train,
        confirm: Confirm,
        why_no_decision: str,
    ) -> None:
        self.parameters, self.train, self.confirm = parameters, train, confirm
        self.why_no_decision = why_no_decision
        self.network = plan_fit(parameters, rows, start=start)
        self.simple: dict[ForecastKind, PlannedFit] = {
            kind: plan_fit(parameters.of_kind(kind), rows) for kind in ("climatology", "linear")
        }
        self.candidates: list[JudgedCandidate] = []
        self.forecasts: dict[str, CandidateForecast] = {}
        self.records: list[dict[str, Any]] = []
        self.frontier: Frontier | None = None
        self.weight_0: FittedWeight | None = None
        self.corrected = False
        self.level = step_level(len(self._steps()))

    def run(self) -> SelectedForecast:
        """All candidates in order; the linear one alone where nothing can be proven."""
        base = self._trained("climatology", self.simple["climatology"])
        self.held = self._judged(base)
        self.candidates.append(first_candidate("climatology", self.held))
        self.forecasts["climatology"] = base
        judged, block = len(self.held.cost), self.network.block
        if few := too_few_to_choose(judged, block):
            linear = self._trained("linear", self.simple["linear"])
            why = f"{few.replace('choose a decision weight by', 'prove anything by')}: it is the safe choice"
            self.forecasts["linear"] = linear
            self.candidates.append(unproven_candidate("linear", self.candidates[0], self._judged(linear), why))
        else:
            for step in self._steps():
                getattr(self, f"_try_{step}")()
            if self.why_no_decision:
                self.candidates.append(unjudged_candidate("decision", self._selected, self.why_no_decision))
        selection = ModelSelection(tuple(self.candidates), judged, min(block, judged))
        return SelectedForecast(selection, self.forecasts, self.weight_0, self.frontier, self.records)

    # The candidates

    def _steps(self) -> list[str]:
        """The candidates above climatology."""
        plan = self.network.training
        total = total_of(plan.cost) is not None and plan.train.outcome.shape[1] > 1
        wanted = {
            "linear": True,
            "network": True,
            "recent_errors": self.parameters.recent_errors,
            "total_score": total and "total" not in score_weights(plan.settings.score),
            "decision": any(plan.weights) and not self.why_no_decision,
        }
        return [name for name, tried in wanted.items() if tried]

    def _try_linear(self) -> None:
        self._try("linear", self._trained("linear", self.simple["linear"]), presumed=True)

    def _try_network(self) -> None:
        forecast = self._trained("network", self._alone(self.network), "network")
        self.weight_0 = forecast.fitted if forecast.fitted.models else None
        self._try("network", forecast)

    def _try_recent_errors(self) -> None:
        before = self.forecasts[self._selected.name]
        validation, lead = before.planned.validation, self._lead
        if len(validation) - lead < ORIGINS * LEAST_CASES:
            return
        members = self._members(before)
        mended = self._worth(self._in_time(members, before))
        forecast = before._replace(correction=self._whole_correction(members, before))
        candidate = self._candidate("recent_errors", forecast, mended)
        if candidate.accepted and not self.confirm(forecast):
            why = "it helps a forecast that has not seen the newest rows; fitted again on them, it needs no correction"
            candidate = replace(candidate, accepted=False, why=why)
        self.corrected = candidate.accepted
        self._add(candidate, forecast, mended)

    def _try_total_score(self) -> None:
        settings = self.network.training.settings
        mixture = ",".join(f"{name}={weight:g}" for name, weight in score_weights(settings.score).items()) + ",total=1"
        plan = replace(self.network.training, settings=replace(settings, score=mixture))
        planned = self._alone(self.network._replace(training=plan))
        forecast = self._trained("network", planned, "total-score")
        candidate = self._try("total_score", forecast, {"score": mixture})
        if candidate.accepted:
            self.network, self.weight_0 = self.network._replace(training=plan), forecast.fitted

    def _try_decision(self) -> None:
        if self.weight_0 is None:  # as all networks would fail
            return
        plan = self.network.training
        weights = tuple(weight for weight in plan.weights if weight)
        planned = self.network._replace(training=replace(plan, weights=weights))
        below, held = self._selected, self.held
        trained = {each.weight: self._forecast("network", each, planned) for each in self._train(planned, "decision")}
        worth = {weight: self._judged(forecast) for weight, forecast in trained.items()}
        cost, score = (np.stack([getattr(each, name) for each in (held, *worth.values())]) for name in held._fields)
        tolerance, block = self.parameters.tolerance, self.network.block
        self.frontier = frontier([0.0, *worth], cost, score, block=block, tolerance=tolerance, level=self.level)
        candidate = decision_candidate(self.frontier, worth, below, held)
        weight = candidate.parameters.get("decision weight")
        if weight is not None:
            self._add(candidate, trained[float(weight)], worth[float(weight)])
        else:
            self.candidates.append(candidate)

    # How a candidate is tried

    @property
    def _selected(self) -> JudgedCandidate:
        return [candidate for candidate in self.candidates if candidate.accepted][-1]

    @property
    def _lead(self) -> int:
        return int(self.parameters.gap)

    def _alone(self, planned: PlannedFit) -> PlannedFit:
        """Weight 0 alone."""
        return planned._replace(training=replace(planned.training, weights=(0.0,)))

    def _trained(self, kind: ForecastKind, planned: PlannedFit, name: str = "") -> CandidateForecast:
        (fitted,) = self._train(planned, name or kind)
        return self._forecast(kind, fitted, planned)

    def _train(self, planned: PlannedFit, name: str) -> list[FittedWeight]:
        fitted = self.train(replace(planned.training, judged=None), name)  # judged here, all by the same noise
        self.records += [record for each in fitted for record in each.records]
        try:
            without_failures(fitted)  # which warns of them
        except StakesError:
            if name in self.simple:
                raise
        return fitted

    def _forecast(self, kind: ForecastKind, fitted: FittedWeight, planned: PlannedFit) -> CandidateForecast:
        forecast = CandidateForecast(kind, fitted, planned, None)
        if not self.corrected or not fitted.models:
            return forecast
        return forecast._replace(correction=self._whole_correction(self._members(forecast), forecast))

    def _try(
        self,
        name: str,
        forecast: CandidateForecast,
        parameters: Mapping[str, str | float] | None = None,
        presumed: bool = False,
    ) -> JudgedCandidate:
        judged = self._judged(forecast)
        return self._add(self._candidate(name, forecast, judged, parameters, presumed), forecast, judged)

    def _candidate(
        self,
        name: str,
        forecast: CandidateForecast,
        judged: JudgedCases,
        parameters: Mapping[str, str | float] | None = None,
        presumed: bool = False,
    ) -> JudgedCandidate:
        return judged_candidate(
            name,
            judged,
            self._selected,
            self.held,
            block=forecast.planned.block,
            level=self.level,
            parameters=parameters,
            presumed=presumed,
        )

    def _add(self, candidate: JudgedCandidate, forecast: CandidateForecast, judged: JudgedCases) -> JudgedCandidate:
        self.candidates.append(candidate)
        if forecast.fitted.models:
            self.forecasts[candidate.name] = forecast
        if candidate.accepted:
            self.held = judged
        return candidate

    # What a forecast is worth

    def _judged(self, forecast: CandidateForecast) -> JudgedCases:
        """Of all candidates by the same noise; not finite where the forecast failed."""
        if not forecast.fitted.models:
            nothing = np.full(len(self.network.judged_rows), np.nan)
            return JudgedCases(nothing, nothing)
        members = self._members(forecast)
        return self._worth(self._in_time(members, forecast) if self.corrected else members)

    def _members(self, forecast: CandidateForecast) -> Tensor:
        """Members (n, M, D) of all validation rows, before any correction."""
        plan = forecast.planned.training
        features = plan.column.seen(forecast.planned.validation.features)
        drawn = pooled_parts(
            forecast.fitted.models, features, plan.members, plan.noise_seed, plan.device, share_noise=False
        )
        return torch.cat([members for _, members in drawn])

    def _in_time(self, members: Tensor, forecast: CandidateForecast) -> Tensor:
        """The members as they could have been corrected at the time; the first rows of a lead time stay as they are."""
        outcome = forecast.planned.validation.outcome[self._lead :].double().numpy()
        block = -(-len(outcome) // ORIGINS)
        later = corrected_in_time(members[self._lead :].double().numpy(), outcome, lead=self._lead, block=block)
        return torch.cat([members[: self._lead], torch.from_numpy(later).float()])

    def _whole_correction(self, members: Tensor, forecast: CandidateForecast) -> Correction:
        later = slice(self._lead, None)
        outcome = forecast.planned.validation.outcome[later]
        return Correction.fit(members[later].double().numpy(), outcome.double().numpy())

    def _worth(self, members: Tensor) -> JudgedCases:
        """Cost and score of members (n, M, D) of all validation rows, on those that judge."""
        plan, validation, rows = self.network.training, self.network.validation, self.network.judged_rows
        drawn, features = within_bounds(members[rows], plan.bounds), validation.features[rows]
        if not bool(torch.isfinite(drawn).all()):
            nothing = np.full(len(rows), np.nan)
            return JudgedCases(nothing, nothing)
        parameter = plan.column.parameters(features)
        decided = realised_costs(plan.cost, drawn, validation.outcome[rows], parameter=parameter, score=energy_score)
        return JudgedCases(*decided.cost_and_score())


_BLOCKS = 5
_HALF_LIVES = (30.0, 90.0, 365.0)  # days
_DAY = 86400  # seconds
_FIRST_SHARE = 1 / 3  # of the cases before the test, which only teach

CaseNumbers = NDArray[np.int64]
SelectionProgress = Callable[[int, int], None]
"""What is told how many of about how many corrections are learned."""


class CorrectionSelectionSettings(NamedTuple):
    """How a correction is selected."""

    cost: Cost  # what an action costs at an outcome
    bounds: tuple[Pair, ...]  # what each outcome cannot cross
    decision_weights: tuple[float, ...]  # which decision weights are tried
    tolerance: float | None
    test_fraction: float  # the share of the cases, the last ones, that choose nothing
    gap: int  # how many of the cases before a block are not known yet when it is issued, beside what the times say
    block: int | Literal["auto"]  # how many neighbouring cases depend on each other; "auto" tells by their times


class PastPart(NamedTuple):
    """Some cases, and those that had happened before any of them was issued."""

    rows: CaseNumbers  # the places of the cases
    known: CaseNumbers  # the places of those that may teach


class PastParts(NamedTuple):
    """Which cases judge what was learned from which."""

    blocks: tuple[PastPart, ...]  # those that choose a candidate
    test: PastPart | None  # those that choose nothing; None where there are none


class Recalibrated(NamedTuple):
    """What was tried, and what was selected."""

    selection: ModelSelection  # how each candidate was judged
    plan: CorrectionPlan  # what the selected candidate learns
    state: RecalibratorState  # what it has learned from all cases
    judged: JudgedCorrection | None  # the test cases; None where there are none


class _Tried(NamedTuple):
    """A candidate that was tried: what it learns, what it learned before each block, and what that was worth."""

    plan: CorrectionPlan
    states: Sequence[RecalibratorState]
    worth: JudgedCases


def past_parts(past: ForecastSet, test_fraction: float, gap: int) -> PastParts:
    """Which cases judge what was learned from which; too few cases are refused."""
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


def _part(past: ForecastSet, start: int, end: int, gap: int) -> PastPart:
    """The cases from start to end, and those that had happened before the first of them was issued."""
    known = np.arange(max(start - gap, 0))
    issued = past.issued if past.issued is not None else past.times
    if past.times is not None and issued is not None:
        known = known[past.times[known] < issued[start:end].min()]
    return PastPart(np.arange(start, end), known)


def select_correction(
    past: ForecastSet, settings: CorrectionSelectionSettings, progress: SelectionProgress = lambda done, of: None
) -> Recalibrated:
    """Try every candidate on the one selected so far, and learn the selected one from all cases."""
    parts = past_parts(past, settings.test_fraction, settings.gap)
    return _RecalibratorSelection(past, settings, parts, progress).run()


class _RecalibratorSelection:
    """The candidate selected so far, and all that were tried."""

    def __init__(
        self, past: ForecastSet, settings: CorrectionSelectionSettings, parts: PastParts, progress: SelectionProgress
    ) -> None:
        self.past, self.settings, self.parts = past, settings, parts
        self.rows = np.concatenate([part.rows for part in parts.blocks])
        self.block = self._block(self.rows)
        self.several = past.members.shape[2] > 1
        as_came = not self.several or form_of(past) == "members"
        self.dependence: Literal["members", "errors"] = "members" if as_came else "errors"
        self.half_lives = tuple(days for days in _HALF_LIVES if days < self._days)
        self.tried: dict[str, _Tried] = {}
        self.candidates: list[JudgedCandidate] = []
        several = (self.half_lives, [weight for weight in settings.decision_weights if weight])
        steps = len(self._steps())
        tries = steps + sum(max(0, len(tried) - 1) for tried in several)
        self.level = step_level(tries)
        self.progress, self.done = progress, 0
        self.of = len(parts.blocks) * (1 + tries) + (1 + steps if parts.test is not None else 0) + 1

    def run(self) -> Recalibrated:
        """All candidates in order; the forecast as it came where nothing can be proven."""
        raw = self._learned_in_time(CorrectionPlan(dependence="members"))
        self._add(first_candidate("raw", raw.worth), raw)
        if few := too_few_to_choose(len(self.rows), self.block):
            self._try_without_proof(few.replace("choose a decision weight by", "prove anything by"))
        else:
            for step in self._steps():
                getattr(self, f"_try_{step}")()
        return self._result()

    # The candidates

    def _steps(self) -> list[str]:
        """The candidates above the forecast as it came."""
        wanted = {
            "bias_and_spread": True,
            "linear": True,
            "recent_errors": bool(self.half_lives),
            "dependence": self.several and self.dependence == "members",
            "decision": any(self.settings.decision_weights),
        }
        return [name for name, tried in wanted.items() if tried]

    def _try_bias_and_spread(self) -> None:
        plan = CorrectionPlan("bias_and_spread", "bias_and_spread", self.dependence)
        self._try(plan, presumed=self.past.is_point)

    def _try_linear(self) -> None:
        self._try(replace(self._corrected, candidate="linear", margins="linear"))

    def _try_recent_errors(self) -> None:
        plan = replace(self._corrected, candidate="recent_errors")
        tried = [self._learned_in_time(replace(plan, half_life=days)) for days in self.half_lives]
        candidates = [self._judged(each, {"half-life in days": each.plan.half_life or 0.0}) for each in tried]
        proven = [place for place, candidate in enumerate(candidates) if candidate.accepted] or range(len(candidates))
        best = min(proven, key=lambda place: float(tried[place].worth.score.mean()))
        self._add(candidates[best], tried[best])

    def _try_dependence(self) -> None:
        self._try(replace(self._corrected, candidate="dependence", dependence="errors"))

    def _try_decision(self) -> None:
        weights = tuple(weight for weight in self.settings.decision_weights if weight)
        plan = replace(self._corrected, candidate="decision")
        start = self._held if self._held.plan.margins != "raw" else self._learned_in_time(plan)
        tried = {weight: self._trained(start, replace(plan, decision_weight=weight)) for weight in weights}
        worth = {weight: each.worth for weight, each in tried.items()}
        held = self._held.worth
        cost, score = (np.stack([getattr(each, name) for each in (held, *worth.values())]) for name in held._fields)
        judged = frontier(
            [0.0, *worth], cost, score, block=self.block, tolerance=self.settings.tolerance, level=self.level
        )
        candidate = decision_candidate(judged, worth, self._selected, held)
        if not candidate.accepted:  # as any other correction may, a weight may better the score and cost no more
            others = [self._judged(each, {"decision weight": weight}) for weight, each in tried.items()]
            candidate = min(
                (each for each in others if each.accepted), key=lambda each: each.cost or 0.0, default=candidate
            )
        self._add(candidate, tried[float(candidate.parameters["decision weight"])])

    def _trained(self, start: _Tried, plan: CorrectionPlan) -> _Tried:
        """The states of a candidate trained further on the decision, each by the cases it was learned from."""
        states = []
        for state, part in zip(start.states, self.parts.blocks, strict=True):
            past = self.past.rows(part.known)
            weight = case_weights(past, plan.half_life)
            states.append(trained_on_decision(state, past, self.settings.cost, plan.decision_weight, weight))
            self._tell()
        return self._judged_in_time(plan, states)

    def _try_without_proof(self, few: str) -> None:
        tried = self._learned_in_time(CorrectionPlan("bias_and_spread", "bias_and_spread", self.dependence))
        if self.past.is_point:
            why = f"{few}, but a point forecast must learn from past errors how unsure it is"
            self._add(unproven_candidate("bias_and_spread", self._selected, tried.worth, why), tried)
        else:
            why = f"{few}: the forecast stays as it came"
            candidate = replace(unproven_candidate("bias_and_spread", self._selected, tried.worth, why), accepted=False)
            self._add(candidate, tried)

    # How a candidate is tried

    @property
    def _selected(self) -> JudgedCandidate:
        return [candidate for candidate in self.candidates if candidate.accepted][-1]

    @property
    def _days(self) -> float:
        """How many days lie between the first and the last case that judges; 0 where it is not known."""
        if self.past.times is None:
            return 0.0
        return float(np.ptp(self.past.times[: self.rows[-1] + 1].astype(np.int64))) / _DAY

    @property
    def _held(self) -> _Tried:
        return self.tried[self._selected.name]

    @property
    def _corrected(self) -> CorrectionPlan:
        """The plan that is held, or that of bias and spread where the forecast stays as it came."""
        held = self._held.plan
        return held if held.margins != "raw" else replace(held, margins="bias_and_spread")

    def _try(self, plan: CorrectionPlan, *, presumed: bool = False) -> None:
        tried = self._learned_in_time(plan)
        self._add(self._judged(tried, presumed=presumed), tried)

    def _judged(
        self, tried: _Tried, parameters: Mapping[str, str | float] | None = None, *, presumed: bool = False
    ) -> JudgedCandidate:
        return judged_candidate(
            tried.plan.candidate,
            tried.worth,
            self._selected,
            self._held.worth,
            block=self.block,
            level=self.level,
            parameters=parameters,
            presumed=presumed,
        )

    def _add(self, candidate: JudgedCandidate, tried: _Tried) -> None:
        self.candidates.append(candidate)
        self.tried[candidate.name] = tried

    def _learned_in_time(self, plan: CorrectionPlan) -> _Tried:
        """What is learned before each block, and what it is worth there."""
        states: list[RecalibratorState] = []
        for part in self.parts.blocks:
            states.append(self._learned(self.past.rows(part.known), plan, states[-1] if states else None))
        return self._judged_in_time(plan, states)

    def _judged_in_time(self, plan: CorrectionPlan, states: Sequence[RecalibratorState]) -> _Tried:
        worth = [self._worth(state, part.rows) for state, part in zip(states, self.parts.blocks, strict=True)]
        joined = (np.concatenate([getattr(each, name) for each in worth]) for name in JudgedCases._fields)
        return _Tried(plan, states, JudgedCases(*joined))

    def _learned(self, past: ForecastSet, plan: CorrectionPlan, like: RecalibratorState | None) -> RecalibratorState:
        state = learned(past, plan, self.settings.bounds, self.settings.cost, like)
        self._tell()
        return state

    def _tell(self) -> None:
        self.done += 1
        self.progress(self.done, max(self.done, self.of))

    def _worth(self, state: RecalibratorState, rows: CaseNumbers) -> JudgedCases:
        given = self.past.rows(rows)
        assert given.outcomes is not None
        return forecast_worth(self.settings.cost, state.apply(given), given.outcomes)

    def _block(self, rows: CaseNumbers) -> int:
        times = None if self.past.times is None else self.past.times[rows]
        return block_length(len(rows), times, self.settings.block)

    # What comes of it

    def _result(self) -> Recalibrated:
        plan = self._held.plan
        selection = ModelSelection(tuple(self.candidates), len(self.rows), min(self.block, len(self.rows)))
        state = self._learned(self.past, plan, self._held.states[-1])
        test = self.parts.test
        if test is None:
            return Recalibrated(selection, plan, state, None)
        known, block = self.past.rows(test.known), self._block(test.rows)
        states = {name: self._learned(known, tried.plan, tried.states[-1]) for name, tried in self.tried.items()}
        worth = {name: self._worth(state, test.rows) for name, state in states.items()}
        selected = self._selected.name
        tested = tuple(candidate_on_test(name, each, worth[selected], block) for name, each in worth.items())
        given = self.past.rows(test.rows)
        members, weights = states[selected].apply(given)
        judged = judge_correction(given, members, self.settings.cost, block, weights)
        return Recalibrated(replace(selection, tested=tested), plan, state, judged)
