"""The candidates of a forecaster: how each is trained and corrected, what it is worth, and which one is selected."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import effective_n_jobs
from torch import Tensor, nn

from stakes.argument_checks import whole_number
from stakes.costs.cost import total_of, vector_cost
from stakes.data.case_table import CaseTable
from stakes.data.outcome_bounds import within_bounds
from stakes.errors import StakesError, StakesWarning
from stakes.evaluation.selection import (
    START,
    Candidate,
    CandidateSelection,
    Frontier,
    JudgedCases,
    ModelSelection,
    decision_candidate,
    rolling_folds,
)
from stakes.forecasting.corrections import ORIGINS, Correction, corrected_in_time
from stakes.forecasting.error_model import LEAST_CASES
from stakes.forecasting.fitted_forecast import PooledForecast, Which
from stakes.forecasting.plan import (
    SIMPLE_KINDS,
    ForecasterParameters,
    ForecastKind,
    PlannedFit,
    TreeLocation,
    based_model,
    plan_fit,
    simple_model,
    trees_are_tried,
)
from stakes.forecasting.pool import found_pool
from stakes.forecasting.recalibration import distance_correction, helpful_correction, located_correction
from stakes.forecasting.regressor import RegressorFactory
from stakes.models.residual_model import place_models
from stakes.scores.decision_score import foresight_costs, realised_costs
from stakes.scores.scoring_rules import energy_score, score_weights
from stakes.training.progress import ReplicaRecord, StatusLines
from stakes.training.settings import (
    DiffusionSettings,
    ImplicitSettings,
    LinearSettings,
    PoolPart,
    PoolSettings,
    RefitSchedule,
    resolved_device,
)
from stakes.training.weight_search import FittedWeight, TrainingPlan, train_on_all_rows, train_weights, without_failures

Forecasts = Mapping[Which, PooledForecast]
"""The forecast of the selected weight, and that of weight 0 beside it where it was trained."""

Judge = Callable[..., Correction | None]
"""The correction of members (n, M, D) with these outcomes (n, D), judged in so many `origins`; None for none."""

_MEMBERS_TO_CORRECT = 200  # whose errors teach a correction
_FIRST_MODELS = 1  # of a candidate, which tell whether its others are trained
_DECISION_MEMBERS = 30  # to decide from in training: of the score's ten the forecast would learn to be too sure
_STAGES = {
    "climatology": "climatology",
    "linear": "the linear forecast",
    "trees": "boosted trees",
    "network": "the networks on their score",
    "total_score": "the networks on the score of the total as well",
    "decision": "networks for each decision weight",
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
        own = _fitted_whole(plan)
        return train_weights(plan, **self._options(plan)) if own is None else [own]

    def again(self, plan: TrainingPlan, schedule: RefitSchedule) -> list[FittedWeight]:
        """The same for as long as a search found best."""
        own = _fitted_whole(plan)
        return train_on_all_rows(plan, schedule, **self._options(plan)) if own is None else [own]

    def _options(self, plan: TrainingPlan) -> dict[str, Any]:
        on_cpu, quiet = torch.device(plan.device).type == "cpu", not self.parameters.verbose
        processes = int(effective_n_jobs(self.parameters.n_jobs)) if on_cpu else 1
        return {"processes": processes, "checkpoints": self.checkpoints, "stop": self.stop, "quiet": quiet}


def _fitted_whole(plan: TrainingPlan) -> FittedWeight | None:
    """A user's own model, which takes no steps of training, or how it failed; None where models are trained."""
    if not isinstance(plan.factory, RegressorFactory):
        return None
    features, outcome = plan.column.unmoved(plan.train.features), plan.train.outcome
    model, failure = plan.factory(features.shape[1], outcome.shape[1]), None
    try:
        model.fit_scaling(features, outcome)
        model.sample(features[:1], 2)
    except Exception as error:  # of code that is not ours; the other candidates stand
        failure = f"{type(plan.factory.estimator).__name__}: {type(error).__name__}: {error}"
    record = ReplicaRecord("finished" if failure is None else "failed", 0, 0, None, 0, failure)
    told = {"decision_weight": 0.0, "seed": plan.seeds[0], **asdict(record), "history": []}
    return FittedWeight(0.0, [] if failure else [model], [told])


@dataclass(frozen=True, eq=False)
class SelectedForecast(Candidate[CaseTable, Forecasts]):
    """A forecast and that of weight 0 beside it, and how both are trained again on other rows."""

    training: ForecastTraining
    kind: ForecastKind
    decision_weight: float
    schedule: RefitSchedule  # how long its models are to be trained
    forecasts: Forecasts
    trees: TreeLocation | None = None
    pool: PoolSettings | None = None  # of which kinds a pool is, each trained by itself

    @property
    def name(self) -> str:
        """What its models are."""
        return self.kind

    def fit(self, cases: CaseTable, like: Forecasts | None = None) -> Forecasts:
        """Trained on these rows; a warm start goes on from the models there are."""
        return self.trained_on(cases, f"first-{len(cases)}-rows").forecasts

    def trained_on(self, cases: CaseTable, name: str = "") -> "SelectedForecast":
        """The same, corrected as it is, with models that are trained on these rows."""
        if self.pool is not None:
            return self._pool_trained_on(cases, name, self.pool)
        parameters, training = self.training.parameters, self.training.within(name)
        start = warm_start(parameters, self.kind, self.forecasts)
        planned = plan_fit(parameters, cases, self.kind, start=start, all_rows=True)
        fitted = training.again(planned.training, self.schedule)
        without_failures(fitted)  # which warns of them
        again = selected_forecast(training, planned, fitted, self.decision_weight)
        corrections = {which: each.correction for which, each in self.forecasts.items()}
        return replace(self, forecasts=again.forecasts, trees=again.trees).corrected(corrections)

    def _pool_trained_on(self, cases: CaseTable, name: str, pool: PoolSettings) -> "SelectedForecast":
        """Every part trained by itself, with the shares there are."""
        at_once = RefitSchedule(self.schedule.settings, (0.0,), ((0,),))
        training, trained = self.training.within(name), []
        for part in pool.parts:
            schedule = self.schedule if part.kind == "network" else at_once
            (weight,) = schedule.weights
            each = SelectedForecast(training, part.kind, weight, schedule, {})
            trained.append(each.trained_on(cases, part.kind))
        drawn = [each.forecasts["chosen"].models for each in trained]
        parts = tuple(replace(part, models=len(each)) for part, each in zip(pool.parts, drawn, strict=True))
        again = replace(pool, parts=parts)
        correction = self.forecasts["chosen"].correction
        models = [again.around([model for each in drawn for model in each])]
        forecast = replace(trained[-1].forecasts["chosen"], models=models, correction=correction)
        trees = next((each.trees for each in trained if each.trees is not None), None)
        return replace(self, forecasts={"chosen": forecast}, trees=trees, pool=again)

    def members(self, fitted: Forecasts, cases: CaseTable) -> dict[Which, Tensor]:
        """As many members (n, M, D) of each forecast as teach a correction."""
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
    if not parameters.warm_start or kind != "network" or not forecasts:
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
    """What corrects each forecast; None where nothing is expected to.

    Rows from `first` on were forecast by models that had seen none within the lead time. Where what moves members seems
    to help, and the models are trained `again` on all rows, their errors are other than those of models that are long
    out of date: the second half of the rows is then forecast by a fit on what was known before it. It judges what the
    first half teaches of other models, as those of the forecast will be, and the errors of both halves teach.
    """
    if first >= len(rows):
        return {}
    outcome = rows.outcome[first:]
    drawn = selected.members(searched, rows.rows(slice(first, None)))
    corrections = {which: judge(members, outcome) for which, members in drawn.items()}
    if not again or not any(each is not None and each.models for each in corrections.values()):
        return corrections
    half = -(-len(outcome) // 2)
    (later,) = selected.out_of_fold(rows, rolling_folds([first + half, len(rows)], lead))
    return {
        which: correction and judge(torch.cat([drawn[which][:half], later[which]]), outcome, origins=2)
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
    pool: PoolSettings | None = None  # of what it is a pool
    worth: JudgedCases | None = None  # what a pool is worth by shares of other cases


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
        self.corrections: Mapping[Which, Correction | None] | None = None  # of the selected forecast
        self._fit_correction: Callable[..., Correction] = distance_correction

    def run(self) -> FoundForecast:
        """What was selected, its members corrected where that is expected to help."""
        parameters = self.parameters
        if parameters.model_selection and parameters.decision_weight == "auto":
            return self._all_candidates()
        return self._weights_alone()

    def _all_candidates(self) -> FoundForecast:
        """All candidates in order; the linear one alone where too few cases tell anything."""
        plan, parameters = self.network.training, self.parameters
        several = total_of(plan.cost) is not None and plan.train.outcome.shape[1] > 1
        total = several and "total" not in score_weights(plan.settings.score)
        asked_linear = isinstance(based_model(parameters.model, parameters.base), LinearSettings)
        trees = parameters.base != "trees" and not asked_linear and trees_are_tried(plan.train, plan.column)
        decision = any(plan.weights) and not self.why_no_decision
        own = parameters.candidates or {}
        engine = self._engine(3 + trees + len(own) + total + decision + parameters.recent_errors)
        trade_off = None
        engine.add(self._trained(plan_fit(parameters, self.rows, "climatology"), "climatology"), START)
        linear = self._trained(plan_fit(parameters, self.rows, "linear"), "linear")
        if engine.too_few:
            engine.add(linear, f"{engine.too_few}: it is the safe choice")
            for name in own:
                engine.add_unfitted(name, engine.too_few)
            return self._found(engine, None, None)
        engine.try_one(linear)
        if trees:
            engine.try_one(self._trained(plan_fit(parameters, self.rows, "trees"), "trees"))
        for name in own:
            engine.try_one(self._trained(plan_fit(parameters, self.rows, name), name))
        network = self._trained(self.network, "network")
        engine.try_one(network)
        if total:
            network = self._try_total_score(engine, network)
        if decision and network.fitted.models:  # as otherwise all weights would fail
            trade_off = self._try_decision(engine, network)
        if self.why_no_decision:
            engine.add_unfitted("decision", self.why_no_decision)
        self._try_pool(engine, network)
        if parameters.recent_errors:
            self._try_recent_errors(engine, network)
        return self._found(engine, network, trade_off)

    def _engine(self, steps: int) -> CandidateSelection[_Trial]:
        judged = self.validation.rows(self.network.judged_rows)
        cost, parameter = self.parameters.cost, self.network.training.column.parameters(judged.features)
        foresight = float(foresight_costs(cost, judged.outcome, parameter).mean())
        cases, block = len(judged), self.network.block
        tolerance = self.parameters.tolerance
        return CandidateSelection(self._judged, cases, block, steps, foresight=foresight, tolerance=tolerance)

    def _weights_alone(self) -> FoundForecast:
        """The given decision weight, or the one that a frontier takes."""
        parameters, plan = self.parameters, self.network.training
        plan = replace(plan, weights=(0.0,)) if self.why_no_decision else plan
        fitted = self.training.search(plan)
        without_failures(fitted)
        weight, trade_off = plan.weights[-1], None
        if parameters.decision_weight == "auto":
            trials = [_Trial("decision", self.network, each, _pooled(self.network, each)) for each in fitted]
            worth = {trial.fitted.weight: self._judged(trial) for trial in trials}
            trade_off = self._engine(1).weight_frontier(worth)
            weight = trade_off.chosen
        selected = selected_forecast(self.training, self.network, fitted, weight)
        if parameters.recent_errors:
            selected = selected.corrected(self._corrections(selected))
        records = [record for each in fitted for record in each.records]
        return FoundForecast(selected, None, {}, trade_off, records, len(self.validation))

    def _found(
        self, engine: CandidateSelection[_Trial], network: _Trial | None, trade_off: Frontier | None
    ) -> FoundForecast:
        selected = self._selected(engine.trial, network)
        if self.corrections is not None:
            selected = selected.corrected(self.corrections)
        tried = {name: trial.forecast for name, trial in engine.trials.items() if trial.fitted.models}
        return FoundForecast(selected, engine.result(), tried, trade_off, self.records, len(self.validation))

    def _selected(self, trial: _Trial, network: _Trial | None) -> SelectedForecast:
        """What was tried, with weight 0 beside a decision weight, and how it is trained again."""
        weight = trial.fitted.weight
        if trial.pool is None:
            beside = [network.fitted] if weight and network is not None else []
            return selected_forecast(self.training, trial.planned, [*beside, trial.fitted], weight)
        (trained,) = {record["decision_weight"] for record in trial.fitted.records}
        schedule = RefitSchedule.of(trial.planned.training.settings, trial.fitted.records, [trained])
        forecasts: Forecasts = {"chosen": trial.forecast}
        return SelectedForecast(self.training, "pool", 0.0, schedule, forecasts, trial.planned.trees, trial.pool)

    # The candidates

    def _try_pool(self, engine: CandidateSelection[_Trial], network: _Trial) -> None:
        """Linear forecast, trees and the networks that are selected so far, with shares that they earn by the score."""
        plan, parameters = self.network.training, self.parameters
        model = based_model(parameters.model, parameters.base, parameters.gap)
        network = engine.trial if engine.trial.planned.kind == "network" else network
        simple = [engine.trials[name] for name in ("linear", "trees") if name in engine.trials]
        trials = [trial for trial in (*simple, network) if trial.fitted.models]
        library = isinstance(model, (ImplicitSettings, DiffusionSettings)) and parameters.base == "linear"
        if not library or plan.column.conditioned or len(trials) < 2:
            return
        rows = self.validation.rows(self.network.judged_rows)
        drawn = [_drawn(plan, trial.forecast, self.validation)[self.network.judged_rows] for trial in trials]
        if not all(bool(torch.isfinite(members).all()) for members in drawn):
            return
        unit = plan.train.outcome.double().std(0)
        found = found_pool(
            drawn,
            rows.outcome,
            torch.where(unit > 0, unit, 1.0),
            lambda block, members: _worth(plan, members, rows.rows(block)),
        )
        given = [(trial, share) for trial, share in zip(trials, found.shares.tolist(), strict=True) if share]
        if len(given) < 2:
            engine.add_unfitted("pool", "no mixture is expected to score better than one forecast")
            return
        pool = PoolSettings(tuple(_pool_part(trial, share, model) for trial, share in given))
        models: list[nn.Module] = [pool.around([model for trial, _ in given for model in trial.fitted.models])]
        last, _ = given[-1]
        planned = last.planned._replace(kind="pool", trees=_trees_of(trial for trial, _ in given))
        fitted = FittedWeight(0.0, models, last.fitted.records)  # there is no such pool of weight 0 to compare with
        forecast = PooledForecast(models, plan.noise_seed, plan.column, plan.bounds)
        shares: dict[str, str | float] = {part.kind: round(part.share, 3) for part in pool.parts}
        if last.fitted.weight:
            shares["decision weight"] = last.fitted.weight
        engine.try_one(_Trial("pool", planned, fitted, forecast, pool, found.judged), shares)

    def _try_recent_errors(self, engine: CandidateSelection[_Trial], network: _Trial) -> None:
        """The selected forecast, corrected by errors of its own kind: the last candidate."""
        below = engine.trial
        if len(self.validation) - self.lead < ORIGINS * LEAST_CASES or not below.fitted.models:
            return
        found = self._corrections(self._selected(below, None), "recent-errors").get("chosen")
        self._fit_correction = located_correction if found is not None and found.models else distance_correction
        why = (
            "its spread is not proven wrong" if found is None else "its spread is more accurate, and nothing gets worse"
        )
        if found is not None and found.models:
            why = "expected to cost less, because errors persist from fit to fit"
        engine.add_judged(self._with_correction(below)._replace(name="recent_errors"), why, accepted=found is not None)
        if found is not None:  # weight 0 beside it is corrected alike
            self.corrections = {"chosen": found, "baseline": self._with_correction(network).forecast.correction}

    def _try_total_score(self, engine: CandidateSelection[_Trial], network: _Trial) -> _Trial:
        """The networks that decision weights start from; the first one tells whether the others are trained."""
        settings = self.network.training.settings
        mixture = ",".join(f"{name}={weight:g}" for name, weight in score_weights(settings.score).items()) + ",total=1"
        plan = replace(self.network.training, settings=replace(settings, score=mixture))
        planned, parameters = self.network._replace(training=plan), {"score": mixture}
        first = self._first_trained(planned, (0.0,), "total_score")[0.0]
        if network.fitted.models:
            judged = engine.beside(self._first_of(network), first, parameters)
            if not judged.accepted:
                engine.add_candidate(judged, first)
                return network
        scored = self._with_others(planned, first)
        return scored if engine.try_one(scored, parameters) else network

    def _try_decision(self, engine: CandidateSelection[_Trial], network: _Trial) -> Frontier:
        """The decision weight that the first models of each choose, with all models; against those of weight 0."""
        plan = network.planned.training
        implicit = isinstance(based_model(self.parameters.model, self.parameters.base), ImplicitSettings)
        if implicit and plan.settings.decision_member_count is None and vector_cost(plan.cost) is None:
            members = max(_DECISION_MEMBERS, plan.settings.members)
            plan = replace(plan, settings=replace(plan.settings, decision_member_count=members))
        planned = network.planned._replace(training=plan)
        trials = self._first_trained(planned, tuple(weight for weight in plan.weights if weight), "decision")
        trade_off = engine.try_weights(trials, held=self._first_of(network))
        weight = trade_off.chosen
        if not weight:
            shown = decision_candidate(trade_off, engine.selected)
            engine.add_candidate(shown, trials.get(float(shown.parameters.get("decision weight", 0))))
            return trade_off
        engine.try_one(self._with_others(planned, trials[weight]), {"decision weight": weight})
        return trade_off

    def _first_trained(self, planned: PlannedFit, weights: tuple[float, ...], name: str) -> dict[float, _Trial]:
        """The first models of some weights."""
        first = planned._replace(training=planned.training.of_seeds(slice(_FIRST_MODELS)))
        return self._trained_weights(first, weights, name)

    def _first_of(self, trial: _Trial) -> _Trial:
        """The first models of a candidate, against which those of others are judged."""
        first = FittedWeight(trial.fitted.weight, trial.fitted.models[:_FIRST_MODELS], trial.fitted.records)
        return trial._replace(fitted=first, forecast=_pooled(trial.planned, first))

    def _with_others(self, planned: PlannedFit, first: _Trial) -> _Trial:
        """All models of a candidate whose first ones are trained."""
        fitted, others = first.fitted, planned.training.of_seeds(slice(_FIRST_MODELS, None))
        if others.seeds:
            rest = planned._replace(training=others)
            more = self._trained_weights(rest, (fitted.weight,), f"{first.name}-again")[fitted.weight].fitted
            fitted = FittedWeight(fitted.weight, [*fitted.models, *more.models], [*fitted.records, *more.records])
        return _Trial(first.name, planned, fitted, _pooled(planned, fitted))

    # How a candidate is trained

    def _trained(self, planned: PlannedFit, name: str) -> _Trial:
        """Trained on its score alone."""
        return self._trained_weights(planned, (0.0,), name)[0.0]

    def _trained_weights(self, planned: PlannedFit, weights: tuple[float, ...], name: str) -> dict[float, _Trial]:
        stage = name.removesuffix("-again")
        self.say(f"training {_STAGES.get(stage, stage)}")
        fitted = self.training.within(name).search(replace(planned.training, weights=weights))
        self.records += [record for each in fitted for record in each.records]
        try:
            without_failures(fitted)  # which warns of them
        except StakesError as error:
            if planned.kind in SIMPLE_KINDS:
                raise
            if planned.kind != "network":
                warnings.warn(f"candidate {planned.kind!r} is left out: {error}", StakesWarning, stacklevel=2)
        return {each.weight: _Trial(name, planned, each, _pooled(planned, each)) for each in fitted}

    def _with_correction(self, trial: _Trial) -> _Trial:
        """Corrected by all errors of the validation rows."""
        members = _drawn(self.network.training, trial.forecast, self.validation)[self.lead :].double().numpy()
        correction = self._fit_correction(members, self.validation.outcome[self.lead :].double().numpy())
        return trial._replace(forecast=replace(trial.forecast, correction=correction), worth=None)

    def _corrections(self, selected: SelectedForecast, name: str = "") -> Mapping[Which, Correction | None]:
        """What corrects these models, or those that are trained again on all rows."""
        first = len(self.rows) - len(self.validation) + self.lead
        forecast = selected.forecasts["chosen"]
        cost = forecast.column.cost(self.parameters.cost, self.rows.features[first:])
        bounded = partial(within_bounds, bounds=forecast.bounds)
        judge = partial(helpful_correction, cost=cost, lead=self.lead, block=self.network.block, bounded=bounded)
        own = replace(selected, training=self.training.within(name))
        again = self.parameters.refit_on_all_rows
        return recent_corrections(own, selected.forecasts, self.rows, judge, first=first, lead=self.lead, again=again)

    # What a forecast is worth

    def _judged(self, trial: _Trial) -> JudgedCases:
        """Of all candidates by the same noise; not finite where the forecast failed."""
        if trial.worth is not None:
            return trial.worth
        members, plan, chosen = None, self.network.training, self.network.judged_rows
        if trial.fitted.models:
            members = _drawn(plan, trial.forecast, self.validation)
            members = (members if trial.forecast.correction is None else self._in_time(members))[chosen]
        return _worth(plan, members, self.validation.rows(chosen))

    def _in_time(self, members: Tensor) -> Tensor:
        """The members as they could have been corrected at the time; the first rows of a lead time stay as they are."""
        outcome = self.validation.outcome[self.lead :].double().numpy()
        block = -(-len(outcome) // ORIGINS)
        known = members[self.lead :].double().numpy()
        later = corrected_in_time(known, outcome, lead=self.lead, block=block, fit=self._fit_correction)
        return torch.cat([members[: self.lead], torch.from_numpy(later).float()])


def _pool_part(trial: _Trial, share: float, model: Any) -> PoolPart:
    kind: Any = trial.planned.kind
    return PoolPart(kind, simple_model(kind) if kind in SIMPLE_KINDS else model, len(trial.fitted.models), share)


def _trees_of(trials: Iterable[_Trial]) -> TreeLocation | None:
    return next((trial.planned.trees for trial in trials if trial.planned.trees is not None), None)


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
