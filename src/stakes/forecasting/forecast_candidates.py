"""The candidates of a forecaster: how each is trained and corrected, what it is worth, and which one is selected."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import effective_n_jobs
from numpy.typing import NDArray
from torch import Tensor

from stakes.argument_checks import whole_number
from stakes.console import StatusLines
from stakes.costs.cost import total_of
from stakes.data.case_table import CaseTable
from stakes.data.outcome_bounds import within_bounds
from stakes.errors import StakesError
from stakes.evaluation.selection import (
    START,
    Candidate,
    CandidateSelection,
    Frontier,
    JudgedCases,
    ModelSelection,
    rolling_folds,
    weight_frontier,
)
from stakes.forecasting.corrections import ORIGINS, Correction, corrected_in_time
from stakes.forecasting.error_model import LEAST_CASES
from stakes.forecasting.fitted_forecast import PooledForecast, Which
from stakes.forecasting.plan import ForecasterParameters, ForecastKind, PlannedFit, TreeLocation, plan_fit
from stakes.forecasting.recalibration import proven_correction
from stakes.models.residual_model import place_models
from stakes.scores.decision_score import realised_costs
from stakes.scores.mixture import score_weights
from stakes.scores.scoring_rules import energy_score
from stakes.training.settings import RefitSchedule, resolved_device
from stakes.training.weight_search import (
    FittedWeight,
    TrainingPlan,
    train_on_all_rows,
    train_weights,
    without_failures,
)

Forecasts = Mapping[Which, PooledForecast]
"""The forecast of the selected weight, and that of weight 0 beside it where it was trained."""

Judge = Callable[[Tensor, Tensor], Correction | None]
"""The correction of members (n, M, D) with these outcomes (n, D), or None where none is proven."""

_MEMBERS_TO_CORRECT = 200  # whose errors prove a correction
_STAGES = {
    "climatology": "climatology",
    "linear": "the linear forecast",
    "network": "the network on its score",
    "total_score": "the network on the score of the total as well",
    "decision": "one network for each decision weight",
}


@dataclass(frozen=True)
class ForecastTraining:
    """How the models of a forecaster are trained."""

    parameters: ForecasterParameters
    checkpoints: Path | None = None
    stop: Callable[[], bool] | None = None

    def within(self, name: str) -> "ForecastTraining":
        """The same, with checkpoints in a folder of its own."""
        return replace(self, checkpoints=self.checkpoints and self.checkpoints / name)

    def search(self, plan: TrainingPlan) -> list[FittedWeight]:
        """The weights of a plan, trained until the rows that stop the training say so."""
        return train_weights(plan, **self._options(plan))

    def again(self, plan: TrainingPlan, schedule: RefitSchedule) -> list[FittedWeight]:
        """The same for as long as a search found best."""
        return train_on_all_rows(plan, schedule, **self._options(plan))

    def _options(self, plan: TrainingPlan) -> dict[str, Any]:
        on_cpu, quiet = torch.device(plan.device).type == "cpu", not self.parameters.verbose
        processes = int(effective_n_jobs(self.parameters.n_jobs)) if on_cpu else 1
        return {"processes": processes, "checkpoints": self.checkpoints, "stop": self.stop, "quiet": quiet}


@dataclass(frozen=True, eq=False)
class SelectedForecast(Candidate[CaseTable, Forecasts]):
    """A forecast and that of weight 0 beside it, and how both are trained again on other rows."""

    training: ForecastTraining
    kind: ForecastKind
    decision_weight: float
    schedule: RefitSchedule  # how long its models are to be trained
    forecasts: Forecasts
    trees: TreeLocation | None = None

    @property
    def name(self) -> str:
        """What its models are."""
        return self.kind

    def fit(self, cases: CaseTable, like: Forecasts | None = None) -> Forecasts:
        """Trained on these rows; a warm start goes on from the models there are."""
        return self.trained_on(cases, f"first-{len(cases)}-rows").forecasts

    def trained_on(self, cases: CaseTable, name: str = "") -> "SelectedForecast":
        """The same, corrected as it is, with models that are trained on these rows."""
        parameters, training = self.training.parameters, self.training.within(name)
        start = warm_start(parameters, self.kind, self.forecasts)
        planned = plan_fit(parameters, cases, self.kind, start=start, all_rows=True)
        fitted = training.again(planned.training, self.schedule)
        without_failures(fitted)  # which warns of them
        again = selected_forecast(training, planned, fitted, self.decision_weight)
        corrections = {which: each.correction for which, each in self.forecasts.items()}
        return replace(self, forecasts=again.forecasts, trees=again.trees).corrected(corrections)

    def members(self, fitted: Forecasts, cases: CaseTable) -> dict[Which, Tensor]:
        """As many members (n, M, D) of each forecast as prove a correction."""
        parameters = self.training.parameters
        members, device = min(int(parameters.members), _MEMBERS_TO_CORRECT), resolved_device(parameters.device)
        return {
            which: torch.cat([part for _, part in each.members(cases.features, members, device)])
            for which, each in fitted.items()
        }

    def corrected(self, corrections: Mapping[Which, Correction | None]) -> "SelectedForecast":
        """The same with members that are corrected so."""
        forecasts = {which: replace(each, correction=corrections.get(which)) for which, each in self.forecasts.items()}
        return replace(self, forecasts=forecasts)


def warm_start(parameters: ForecasterParameters, kind: ForecastKind, forecasts: Forecasts) -> list[dict[str, Tensor]]:
    """The weights that networks go on from, those of weight 0 where they were kept; none to go afresh."""
    if not parameters.warm_start or kind != "network":
        return []
    return [model.state_dict() for model in forecasts.get("baseline", forecasts["chosen"]).models]


def _pooled(planned: PlannedFit, fitted: FittedWeight) -> PooledForecast:
    plan = planned.training
    if planned.trees is not None:
        place_models(fitted.models, planned.trees)
    return PooledForecast(fitted.models, plan.noise_seed, plan.column, plan.bounds)


def selected_forecast(
    training: ForecastTraining, planned: PlannedFit, fitted: Sequence[FittedWeight], weight: float
) -> SelectedForecast:
    """A weight, and weight 0 beside it where that was trained; an error where all models of the first failed."""
    kept = {each.weight: each for each in fitted if each.weight in (0.0, weight) and each.models}
    if weight not in kept:
        failed = next(each for each in fitted if each.weight == weight)
        raise StakesError(f"all models of weight {weight:g} failed: {failed.records[0]['failure']}")
    records = [record for each in kept.values() for record in each.records]
    schedule = RefitSchedule.of(planned.training.settings, records, [*kept])
    forecasts: dict[Which, PooledForecast] = {"chosen": _pooled(planned, kept[weight])}
    if weight and 0.0 in kept:
        forecasts["baseline"] = _pooled(planned, kept[0.0])
    return SelectedForecast(training, planned.kind, weight, schedule, forecasts, planned.trees)


# What corrects a forecast by its recent errors


def recent_corrections(
    selected: Candidate[CaseTable, Forecasts],
    searched: Forecasts,
    rows: CaseTable,
    judge: Judge,
    *,
    first: int,
    lead: int,
    again: bool,
) -> Mapping[Which, Correction | None]:
    """What corrects each forecast; None where nothing is proven to.

    Rows from `first` on were forecast by models that had seen none within the lead time. Where the models are trained
    `again` on all rows, the correction of later fits must be proven too: fits on the rows before forecast each block.
    """
    if first >= len(rows):
        return {}
    outcome = rows.outcome[first:]
    drawn = selected.members(searched, rows.rows(slice(first, None)))
    corrections = {which: judge(members, outcome) for which, members in drawn.items()}
    if not again or not any(corrections.values()):
        return corrections
    second = first + -(-len(outcome) // ORIGINS)
    edges = np.linspace(second, len(rows), ORIGINS).round().astype(np.int64).tolist()
    later = selected.out_of_fold(rows, rolling_folds(edges, lead))
    return {
        which: correction
        and judge(torch.cat([drawn[which][: second - first], *(each[which] for each in later)]), outcome)
        for which, correction in corrections.items()
    }


# What is tried


class FoundForecast(NamedTuple):
    """What was tried, and what was selected."""

    selected: SelectedForecast
    selection: ModelSelection | None  # how each candidate was judged; None where only a decision weight was chosen
    candidates: dict[str, PooledForecast]  # the forecast of each candidate that did not fail, by its name
    frontier: Frontier | None  # how the decision weights were judged; None where none was tried
    records: list[dict[str, Any]]  # how each model trained
    validation_cases: int


class _Trial(NamedTuple):
    """Models that were trained for a candidate."""

    name: str
    planned: PlannedFit
    fitted: FittedWeight
    forecast: PooledForecast


class ForecastSelection:
    """Every candidate, tried on the one selected so far; without model selection only the decision weights."""

    def __init__(
        self,
        training: ForecastTraining,
        rows: CaseTable,
        start: Sequence[Mapping[str, Tensor]],
        why_no_decision: str,
    ) -> None:
        self.training, self.parameters, self.rows = training, training.parameters, rows
        self.why_no_decision = why_no_decision
        self.network = plan_fit(self.parameters, rows, start=start)
        self.validation = rows.rows(slice(len(rows) - self.network.validation_rows, None))
        self.lead = whole_number("gap", self.parameters.gap, 0)
        self.say = StatusLines(quiet=not self.parameters.verbose)
        self.records: list[dict[str, Any]] = []
        self.corrections: Mapping[Which, Correction | None] | None = None  # once members are corrected

    def run(self) -> FoundForecast:
        """What was selected, its members corrected where that is proven to help."""
        parameters = self.parameters
        if parameters.model_selection and parameters.decision_weight == "auto":
            return self._all_candidates()
        return self._weights_alone()

    def _all_candidates(self) -> FoundForecast:
        """All candidates in order; the linear one alone where nothing can be proven."""
        plan, parameters = self.network.training, self.parameters
        several = total_of(plan.cost) is not None and plan.train.outcome.shape[1] > 1
        total = several and "total" not in score_weights(plan.settings.score)
        decision = any(plan.weights) and not self.why_no_decision
        steps = 2 + parameters.recent_errors + total + decision
        judged, block = len(self.network.judged_rows), self.network.block
        engine = CandidateSelection(self._judged, judged, block, steps, parameters.tolerance)
        constant, straight = plan_fit(parameters, self.rows, "climatology"), plan_fit(parameters, self.rows, "linear")
        trade_off = None
        engine.add(self._trained(constant, "climatology"), START)
        linear = self._trained(straight, "linear")
        if engine.too_few:
            engine.add(linear, f"{engine.too_few}: it is the safe choice")
            return self._found(engine, None, None)
        engine.try_one(linear, presumed=True)
        network = self._trained(self.network, "network")
        engine.try_one(network)
        if parameters.recent_errors:
            self._try_recent_errors(engine)
        if total:
            network = self._try_total_score(engine, network)
        if decision and network.fitted.models:  # as otherwise all weights would fail
            weights = tuple(weight for weight in plan.weights if weight)
            trials = self._trained_weights(network.planned, weights, "decision")
            trade_off = engine.try_weights(trials)
        if self.why_no_decision:
            engine.add_unfitted("decision", self.why_no_decision)
        return self._found(engine, network, trade_off)

    def _weights_alone(self) -> FoundForecast:
        """The given decision weight, or the one that a frontier takes."""
        parameters, plan = self.parameters, self.network.training
        plan = replace(plan, weights=(0.0,)) if self.why_no_decision else plan
        fitted = self.training.search(plan)
        without_failures(fitted)
        weight, trade_off = plan.weights[-1], None
        if parameters.decision_weight == "auto":
            judged, worth = self.validation.rows(self.network.judged_rows), {}
            for each in fitted:
                members = _drawn(plan, _pooled(self.network, each), judged) if each.models else None
                worth[each.weight] = _worth(plan, members, judged)
            trade_off = weight_frontier(worth, self.network.block, parameters.tolerance)
            weight = trade_off.chosen
        selected = selected_forecast(self.training, self.network, fitted, weight)
        if parameters.recent_errors:
            selected = selected.corrected(self._proven(selected))
        records = [record for each in fitted for record in each.records]
        return FoundForecast(selected, None, {}, trade_off, records, len(self.validation))

    def _found(
        self, engine: CandidateSelection[_Trial], network: _Trial | None, trade_off: Frontier | None
    ) -> FoundForecast:
        name, planned, fitted, forecast = engine.trial
        beside = [network.fitted] if fitted.weight and network is not None else []
        selected = selected_forecast(self.training, planned, [*beside, fitted], fitted.weight)
        if name == "recent_errors":
            selected = selected.corrected(self.corrections or {})
        elif forecast.correction is not None:
            selected = selected.corrected(self._proven(selected, "recent-errors-selected"))
        tried = {name: trial.forecast for name, trial in engine.trials.items() if trial.fitted.models}
        return FoundForecast(selected, engine.result(), tried, trade_off, self.records, len(self.validation))

    # The candidates

    def _try_recent_errors(self, engine: CandidateSelection[_Trial]) -> None:
        below = engine.trial
        if len(self.validation) - self.lead < ORIGINS * LEAST_CASES:
            return

        def objection() -> str:
            alone = selected_forecast(self.training, below.planned, [below.fitted], below.fitted.weight)
            self.corrections = self._proven(alone, "recent-errors")
            if self.corrections.get("chosen") is not None:
                return ""
            return "it helps a forecast that has not seen the newest rows; fitted again on them, it needs no correction"

        corrected = self._with_correction(below)._replace(name="recent_errors")
        if not engine.try_one(corrected, objection=objection):
            self.corrections = None

    def _try_total_score(self, engine: CandidateSelection[_Trial], network: _Trial) -> _Trial:
        """The network that decision weights start from."""
        settings = self.network.training.settings
        mixture = ",".join(f"{name}={weight:g}" for name, weight in score_weights(settings.score).items()) + ",total=1"
        plan = replace(self.network.training, settings=replace(settings, score=mixture))
        scored = self._trained(self.network._replace(training=plan), "total_score")
        return scored if engine.try_one(scored, {"score": mixture}) else network

    # How a candidate is trained

    def _trained(self, planned: PlannedFit, name: str) -> _Trial:
        """Trained on its score alone."""
        return self._trained_weights(planned, (0.0,), name)[0.0]

    def _trained_weights(self, planned: PlannedFit, weights: tuple[float, ...], name: str) -> dict[float, _Trial]:
        self.say(f"training {_STAGES[name]}")
        fitted = self.training.within(name).search(replace(planned.training, weights=weights))
        self.records += [record for each in fitted for record in each.records]
        try:
            without_failures(fitted)  # which warns of them
        except StakesError:
            if planned.kind != "network":
                raise
        trials = {each.weight: _Trial(name, planned, each, _pooled(planned, each)) for each in fitted}
        if self.corrections is None:
            return trials
        return {weight: self._with_correction(trial) for weight, trial in trials.items()}

    def _with_correction(self, trial: _Trial) -> _Trial:
        """Corrected by all errors of the validation rows."""
        if not trial.fitted.models:
            return trial
        members = _drawn(self.network.training, trial.forecast, self.validation)[self.lead :].double().numpy()
        correction = Correction.fit(members, self.validation.outcome[self.lead :].double().numpy())
        return trial._replace(forecast=replace(trial.forecast, correction=correction))

    def _proven(self, selected: SelectedForecast, name: str = "") -> Mapping[Which, Correction | None]:
        """What corrects these models, or those that are trained again on all rows."""
        first = len(self.rows) - len(self.validation) + self.lead
        forecast = selected.forecasts["chosen"]
        cost = forecast.column.cost(self.parameters.cost, self.rows.features[first:])
        bounded = partial(within_bounds, bounds=forecast.bounds)
        judge = partial(proven_correction, cost=cost, lead=self.lead, block=self.network.block, bounded=bounded)
        own = replace(selected, training=self.training.within(name))
        again = self.parameters.refit_on_all_rows
        return recent_corrections(own, selected.forecasts, self.rows, judge, first=first, lead=self.lead, again=again)

    # What a forecast is worth

    def _judged(self, trial: _Trial) -> JudgedCases:
        """Of all candidates by the same noise; not finite where the forecast failed."""
        members, plan, chosen = None, self.network.training, self.network.judged_rows
        if trial.fitted.models:
            members = _drawn(plan, trial.forecast, self.validation)
            members = (members if trial.forecast.correction is None else self._in_time(members))[chosen]
        return _worth(plan, members, self.validation.rows(chosen))

    def _in_time(self, members: Tensor) -> Tensor:
        """The members as they could have been corrected at the time; the first rows of a lead time stay as they are."""
        outcome = self.validation.outcome[self.lead :].double().numpy()
        block = -(-len(outcome) // ORIGINS)
        later = corrected_in_time(members[self.lead :].double().numpy(), outcome, lead=self.lead, block=block)
        return torch.cat([members[: self.lead], torch.from_numpy(later).float()])


def _drawn(plan: TrainingPlan, forecast: PooledForecast, rows: CaseTable) -> Tensor:
    """Members (n, M, D) before any correction, each row with noise of its own."""
    parts = forecast.drawn(rows.features, plan.members, plan.device, share_noise=False)
    return torch.cat([members for _, members in parts])


def _worth(plan: TrainingPlan, members: Tensor | None, rows: CaseTable) -> JudgedCases:
    """Cost and score of members (n, M, D) of these rows; not finite where there are none, or some are not."""
    drawn = None if members is None else within_bounds(members, plan.bounds)
    if drawn is None or not bool(torch.isfinite(drawn).all()):
        return JudgedCases(*np.full((2, len(rows)), np.nan))
    parameter = plan.column.parameters(rows.features)
    decided = realised_costs(plan.cost, drawn, rows.outcome, parameter=parameter, score=energy_score)
    return JudgedCases(*decided.cost_and_score())


def costs_by_score_alone(training: ForecastTraining, rows: CaseTable) -> tuple[PlannedFit, NDArray[np.float64]]:
    """What the actions of a forecast of weight 0 cost on the rows that judge, and how these were divided."""
    planned = plan_fit(training.parameters, rows, score_only=True)
    (fitted,) = without_failures(training.search(planned.training))
    judged = rows.rows(slice(len(rows) - planned.validation_rows, None)).rows(planned.judged_rows)
    members = _drawn(planned.training, _pooled(planned, fitted), judged)
    return planned, _worth(planned.training, members, judged).cost
