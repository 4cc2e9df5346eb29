"""From rung to rung: what is trained for each, and what it is worth on validation rows that stop no training.

Each candidate is built on the rung that is held: once fresh errors have been proven to help, all later candidates are
corrected too, and once the score of the total has, decision weights are trained with it. A row is corrected only by
errors of rows that end a lead time before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stakes.data.estimator_input import Rows
from stakes.data.outcome_bounds import within_bounds
from stakes.errors import StakesError
from stakes.evaluation.corrections import Correction
from stakes.evaluation.fresh_errors import corrected_in_time
from stakes.evaluation.ladder import (
    JudgedCases,
    Ladder,
    Rung,
    decision_rung,
    first_rung,
    step_level,
    tried_rung,
    unproven_rung,
    untried_rung,
)
from stakes.evaluation.proven_correction import ORIGINS
from stakes.evaluation.shift_and_factor import LEAST_CASES
from stakes.evaluation.weight_frontier import Frontier, frontier, too_few_to_choose
from stakes.forecaster.base import ForecastKind, parameters_of_kind
from stakes.forecaster.plan import PlannedFit, plan_fit
from stakes.method.actions import optimal_action
from stakes.method.costs import TotalCost
from stakes.method.models.model_ensemble import pooled_parts
from stakes.method.score_mixture import score_weights
from stakes.method.scores import energy_score
from stakes.training.many_weights import FittedWeight, TrainingPlan, without_failures

__all__ = ["Climbed", "RungForecast", "climb_ladder"]

_ROWS_AT_ONCE = 4096  # that are judged together

Train = Callable[[TrainingPlan, str], list[FittedWeight]]
"""Trains the weights of a plan, with a name for its checkpoints."""


class RungForecast(NamedTuple):
    """A forecast that was tried.

    Attributes:
        kind: What its models are.
        fitted: Its models.
        planned: What they were trained with.
        correction: What the errors of all validation rows correct in it; None where it is not corrected.
    """

    kind: ForecastKind
    fitted: FittedWeight
    planned: PlannedFit
    correction: Correction | None


Confirm = Callable[[RungForecast], bool]
"""Whether a forecast still needs its correction once it is fitted again on newer rows."""


class Climbed(NamedTuple):
    """What was tried, and what was taken.

    Attributes:
        ladder: How each rung was judged.
        forecasts: The forecast of each rung that did not fail, by its name.
        weight_0: The models of weight 0 beside a decision weight that was taken; None where none was.
        frontier: How the decision weights were judged; None where none was tried.
        records: How each model trained.
    """

    ladder: Ladder
    forecasts: dict[str, RungForecast]
    weight_0: FittedWeight | None
    frontier: Frontier | None
    records: list[dict[str, Any]]


def climb_ladder(
    parameters: Mapping[str, Any],
    rows: Rows,
    *,
    start: Sequence[Mapping[str, Tensor]],
    train: Train,
    confirm: Confirm,
    why_no_decision: str = "",
) -> Climbed:
    """Try every rung on the one that is held.

    Args:
        parameters: Of `stakes.DecisionAwareForecaster`, by name.
        rows: All rows in the order of time.
        start: The weights of the networks to start from, one of each of the ensemble; none to start afresh.
        train: Trains the weights of a plan.
        confirm: Whether the forecast, fitted again on newer rows, still needs the correction that helped it.
        why_no_decision: Why no decision weight can be trained; empty where they can.
    """
    return _Climb(parameters, rows, start, train, confirm, why_no_decision).run()


class _Climb:
    """The rung that is held, and all that were tried."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        rows: Rows,
        start: Sequence[Mapping[str, Tensor]],
        train: Train,
        confirm: Confirm,
        why_no_decision: str,
    ) -> None:
        self.parameters, self.train, self.confirm = parameters, train, confirm
        self.why_no_decision = why_no_decision
        self.network = plan_fit(parameters, *rows, start=start)
        self.simple: dict[ForecastKind, PlannedFit] = {
            kind: plan_fit(parameters_of_kind(parameters, kind), *rows) for kind in ("climatology", "linear")
        }
        self.rungs: list[Rung] = []
        self.forecasts: dict[str, RungForecast] = {}
        self.records: list[dict[str, Any]] = []
        self.frontier: Frontier | None = None
        self.weight_0: FittedWeight | None = None
        self.corrected = False
        self.level = step_level(len(self._steps()))

    def run(self) -> Climbed:
        """All rungs from below; the linear one alone where nothing can be proven."""
        base = self._trained("climatology", self.simple["climatology"])
        self.held = self._judged(base)
        self.rungs.append(first_rung("climatology", self.held))
        self.forecasts["climatology"] = base
        judged, block = len(self.held.cost), self.network.block
        if few := too_few_to_choose(judged, block):
            linear = self._trained("linear", self.simple["linear"])
            why = f"{few.replace('choose a decision weight by', 'prove anything by')}: it is the safe choice"
            self.forecasts["linear"] = linear
            self.rungs.append(unproven_rung("linear", self.rungs[0], self._judged(linear), why))
        else:
            for step in self._steps():
                getattr(self, f"_try_{step}")()
            if self.why_no_decision:
                self.rungs.append(untried_rung("decision", self._taken, self.why_no_decision))
        ladder = Ladder(tuple(self.rungs), judged, min(block, judged))
        return Climbed(ladder, self.forecasts, self.weight_0, self.frontier, self.records)

    # The rungs

    def _steps(self) -> list[str]:
        """The candidates above climatology."""
        plan = self.network.training
        total = isinstance(plan.cost, TotalCost) and plan.train.outcome.shape[1] > 1
        wanted = {
            "linear": True,
            "network": True,
            "fresh_errors": self.parameters["fresh_errors"],
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

    def _try_fresh_errors(self) -> None:
        before = self.forecasts[self._taken.name]
        validation, lead = before.planned.validation, self._lead
        if len(validation) - lead < ORIGINS * LEAST_CASES:
            return
        members = self._members(before)
        mended = self._worth(self._in_time(members, before))
        forecast = before._replace(correction=self._whole_correction(members, before))
        rung = self._rung("fresh_errors", forecast, mended)
        if rung.climbed and not self.confirm(forecast):
            why = "it helps a forecast that has not seen the newest rows; fitted again on them, it needs no correction"
            rung = replace(rung, climbed=False, why=why)
        self.corrected = rung.climbed
        self._add(rung, forecast, mended)

    def _try_total_score(self) -> None:
        settings = self.network.training.settings
        mixture = ",".join(f"{name}={weight:g}" for name, weight in score_weights(settings.score).items()) + ",total=1"
        plan = replace(self.network.training, settings=replace(settings, score=mixture))
        planned = self._alone(self.network._replace(training=plan))
        forecast = self._trained("network", planned, "total-score")
        rung = self._try("total_score", forecast, {"score": mixture})
        if rung.climbed:
            self.network, self.weight_0 = self.network._replace(training=plan), forecast.fitted

    def _try_decision(self) -> None:
        if self.weight_0 is None:  # as all networks would fail
            return
        plan = self.network.training
        weights = tuple(weight for weight in plan.weights if weight)
        planned = self.network._replace(training=replace(plan, weights=weights))
        below, held = self._taken, self.held
        trained = {each.weight: self._forecast("network", each, planned) for each in self._train(planned, "decision")}
        worth = {weight: self._judged(forecast) for weight, forecast in trained.items()}
        cost, score = (np.stack([getattr(each, name) for each in (held, *worth.values())]) for name in held._fields)
        tolerance, block = self.parameters["tolerance"], self.network.block
        self.frontier = frontier([0.0, *worth], cost, score, block=block, tolerance=tolerance, level=self.level)
        rung = decision_rung(self.frontier, worth, below, held)
        weight = rung.parameters.get("decision weight")
        if weight is not None:
            self._add(rung, trained[float(weight)], worth[float(weight)])
        else:
            self.rungs.append(rung)

    # How a rung is tried

    @property
    def _taken(self) -> Rung:
        return [rung for rung in self.rungs if rung.climbed][-1]

    @property
    def _lead(self) -> int:
        return int(self.parameters["gap"])

    def _alone(self, planned: PlannedFit) -> PlannedFit:
        """Weight 0 alone."""
        return planned._replace(training=replace(planned.training, weights=(0.0,)))

    def _trained(self, kind: ForecastKind, planned: PlannedFit, name: str = "") -> RungForecast:
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

    def _forecast(self, kind: ForecastKind, fitted: FittedWeight, planned: PlannedFit) -> RungForecast:
        forecast = RungForecast(kind, fitted, planned, None)
        if not self.corrected or not fitted.models:
            return forecast
        return forecast._replace(correction=self._whole_correction(self._members(forecast), forecast))

    def _try(
        self,
        name: str,
        forecast: RungForecast,
        parameters: Mapping[str, str | float] | None = None,
        presumed: bool = False,
    ) -> Rung:
        judged = self._judged(forecast)
        return self._add(self._rung(name, forecast, judged, parameters, presumed), forecast, judged)

    def _rung(
        self,
        name: str,
        forecast: RungForecast,
        judged: JudgedCases,
        parameters: Mapping[str, str | float] | None = None,
        presumed: bool = False,
    ) -> Rung:
        return tried_rung(
            name,
            judged,
            self._taken,
            self.held,
            block=forecast.planned.block,
            level=self.level,
            parameters=parameters,
            presumed=presumed,
        )

    def _add(self, rung: Rung, forecast: RungForecast, judged: JudgedCases) -> Rung:
        self.rungs.append(rung)
        if forecast.fitted.models:
            self.forecasts[rung.name] = forecast
        if rung.climbed:
            self.held = judged
        return rung

    # What a forecast is worth

    def _judged(self, forecast: RungForecast) -> JudgedCases:
        """Of all rungs by the same noise; not finite where the forecast failed."""
        if not forecast.fitted.models:
            nothing = np.full(len(self.network.judged_rows), np.nan)
            return JudgedCases(nothing, nothing)
        members = self._members(forecast)
        return self._worth(self._in_time(members, forecast) if self.corrected else members)

    def _members(self, forecast: RungForecast) -> Tensor:
        """Members (n, M, D) of all validation rows, before any correction."""
        plan = forecast.planned.training
        features = plan.column.seen(forecast.planned.validation.features)
        drawn = pooled_parts(
            forecast.fitted.models, features, plan.members, plan.noise_seed, plan.device, share_noise=False
        )
        return torch.cat([members for _, members in drawn])

    def _in_time(self, members: Tensor, forecast: RungForecast) -> Tensor:
        """The members as they could have been corrected at the time; the first rows of a lead time stay as they are."""
        outcome = forecast.planned.validation.outcome[self._lead :].double().numpy()
        block = -(-len(outcome) // ORIGINS)
        later = corrected_in_time(members[self._lead :].double().numpy(), outcome, lead=self._lead, block=block)
        return torch.cat([members[: self._lead], torch.from_numpy(later).float()])

    def _whole_correction(self, members: Tensor, forecast: RungForecast) -> Correction:
        later = slice(self._lead, None)
        outcome = forecast.planned.validation.outcome[later]
        return Correction.fit(members[later].double().numpy(), outcome.double().numpy())

    @torch.no_grad()
    def _worth(self, members: Tensor) -> JudgedCases:
        """Cost and score of members (n, M, D) of all validation rows, on those that judge."""
        planned, parts = self.network, []
        plan, features = planned.training, planned.validation.features
        for rows in torch.from_numpy(planned.judged_rows).split(_ROWS_AT_ONCE):
            drawn, outcome = within_bounds(members[rows], plan.bounds), planned.validation.outcome[rows]
            if not bool(torch.isfinite(drawn).all()):
                parts.append(torch.full((2, len(rows)), torch.nan))
                continue
            cost = plan.column.cost(plan.cost, features[rows])
            paid = cost(optimal_action(cost, drawn, thorough=True), outcome)
            parts.append(torch.stack([paid, energy_score(drawn, outcome)]))
        return JudgedCases(*torch.cat(parts, 1).double().numpy())
