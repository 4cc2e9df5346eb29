"""What a forecaster does behind its methods: training, choosing, correcting, and drawing from its models."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import torch
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import BaseEstimator  # type: ignore[import-untyped]
from torch import Tensor, nn

from stakes.data.cases import neighbouring_sets
from stakes.data.estimator_input import Rows
from stakes.data.outcome_bounds import OutcomeBounds, within_bounds
from stakes.data.time_axis import Times
from stakes.evaluation.corrections import Correction
from stakes.evaluation.headroom import resolved_block
from stakes.evaluation.ladder import JudgedCases, Ladder, rung_on_test
from stakes.evaluation.proven_correction import corrected, proven_correction
from stakes.evaluation.weight_frontier import Frontier
from stakes.forecaster.base import ForecastKind, parameters_of_kind
from stakes.forecaster.choice import choose, kept_models
from stakes.forecaster.decision_makers import CostParameters, climatology_action, parameter_values
from stakes.forecaster.fresh_errors import DrawMembers, NewestRows, Which, fresh_corrections
from stakes.forecaster.judgement import JudgedAnswers
from stakes.forecaster.ladder import RungForecast, climb_ladder
from stakes.forecaster.plan import PlannedFit, plan_fit
from stakes.forecaster.trees import TreeLocation
from stakes.method.actions import optimal_action
from stakes.method.argument_checks import whole_number
from stakes.method.check_program import lacks_gradient
from stakes.method.costs import Cost
from stakes.method.models.model_ensemble import pooled_parts
from stakes.method.parameter_column import ParameterColumn
from stakes.method.parameter_range import RangedParameter
from stakes.method.scores import energy_score
from stakes.status_lines import StatusLines
from stakes.training.all_rows import FoundTraining, train_on_all_rows
from stakes.training.located_model import place_models
from stakes.training.many_weights import FittedWeight, TrainingPlan, resolved_device, train_weights, without_failures

__all__ = ["TrainedModels"]

_SETS, _SET_MEMBERS = 24, 30  # of members, that tell whether the decision has a gradient
_NO_GRADIENT = "the best action moves with no member, so the decision has no gradient"
_STAGES = {
    "climatology": "climatology",
    "linear": "the linear forecast",
    "network": "the network on its score",
    "total-score": "the network on the score of the total as well",
    "decision": "one network for each decision weight",
}
_MEMBERS_TO_CORRECT = 200  # whose errors prove a correction


class TrainedModels(JudgedAnswers, BaseEstimator):  # type: ignore[misc]
    """The models of a forecaster, and what they were trained with.

    Attributes:
        gap: How many rows the lead time has, as all parameters up to `verbose` one of `DecisionAwareForecaster`.
        decision_weight: How much the decision weighs, or "auto".
        conditioned: Whether models see the parameter of the cost that is a range.
        refit_on_all_rows: Whether the models that are taken are trained again on all rows.
        ladder: Whether each rung of the ladder is tried.
        fresh_errors: Whether members may be corrected by the errors of validation rows.
        tolerance: By how many per cent the score of the weight that is taken may be worse; None for no limit.
        device: Where the models are computed.
        n_jobs: How many processes share the weights.
        warm_start: Whether a second fit starts from the models of the first.
        verbose: Whether progress is shown.
        models_: The models that members are drawn from.
        kind_: What these models are: without features, linear, or what the parameters ask for.
        ladder_: How each rung was judged; None where the ladder was not climbed.
        rung_forecasts_: The forecast of each rung by its name, as long as the forecaster is in memory.
        decision_weight_: The weight that was taken.
        frontier_: How it was chosen; None where it was given.
        training_: How each model of the search trained.
        found_: How long the models that are kept are to be trained on other rows.
        correction_: How members are corrected by past errors; None where they are not.
        baseline_correction_: The same for weight 0 beside them.
        validation_cases_: How many rows did not train in the search.
        noise_seed_: What the noise of the forecasts is drawn from.
        outcome_bounds_: What outcomes cannot cross; None for nothing.
        trees_: What the models add their forecasts to; None on another base.
        ranged_: The parameter of the cost that was a range; None where none was.
    """

    gap: int
    decision_weight: float | Literal["auto"]
    conditioned: bool
    refit_on_all_rows: bool
    ladder: bool
    fresh_errors: bool
    tolerance: float | None
    device: str
    n_jobs: int | None
    warm_start: bool
    verbose: int
    models_: list[nn.Module]
    kind_: ForecastKind
    ladder_: Ladder | None
    rung_forecasts_: dict[str, RungForecast]
    decision_weight_: float
    frontier_: Frontier | None
    training_: list[dict[str, Any]]
    found_: FoundTraining
    correction_: Correction | None
    baseline_correction_: Correction | None
    validation_cases_: int
    noise_seed_: int
    outcome_bounds_: OutcomeBounds | None
    trees_: TreeLocation | None
    ranged_: RangedParameter | None

    # How the forecast is chosen

    def _search(self, rows: Rows, folder: Path | None, stop: Callable[[], bool] | None) -> None:
        """Train all weights, choose one, and correct it where that is proven to help."""
        parameters = self.get_params(deep=False)
        if self._why_no_decision(rows):
            parameters["weights"] = (0.0,)
        planned = plan_fit(parameters, *rows, start=self._start())
        plan, self.validation_cases_, block = planned.training, planned.validation_rows, planned.block
        self.kind_, self.ladder_, self.rung_forecasts_ = "network", None, {}
        fitted = self._trained(plan, folder, stop)
        choice = choose(fitted, plan.settings, block, self.decision_weight == "auto", self.tolerance)
        self.decision_weight_, self.frontier_, self.training_, self.found_ = choice
        self.correction_, self.baseline_correction_ = None, None
        self._keep(fitted, plan, planned.trees)
        if self.fresh_errors:
            self._correct_by_fresh_errors(rows, block, folder, stop)

    def _climb(self, rows: Rows, folder: Path | None, stop: Callable[[], bool] | None) -> None:
        """Take the highest rung of the ladder that can be defended."""
        say = StatusLines(quiet=not self.verbose)

        def train(plan: TrainingPlan, name: str) -> list[FittedWeight]:
            if name in _STAGES:
                say(f"training {_STAGES[name]}")
            return self._trained(plan, folder and folder / name, stop)

        def confirmed(forecast: RungForecast) -> bool:
            """Whether it needs a correction that is fitted again on newer rows."""
            other = copy.copy(self)
            other._take(forecast._replace(fitted=copy.deepcopy(forecast.fitted)))
            other._correct_by_fresh_errors(rows, forecast.planned.block, folder and folder / "fresh-errors", stop)
            return other.correction_ is not None

        parameters = self.get_params(deep=False)
        why = self._why_no_decision(rows)
        climbed = climb_ladder(
            parameters, rows, start=self._start(), train=train, confirm=confirmed, why_no_decision=why
        )
        self.ladder_, self.rung_forecasts_, weight_0, self.frontier_, self.training_ = climbed
        taken = self.rung_forecasts_[self.ladder_.taken.name]
        self._take(taken, weight_0)
        for forecast in self.rung_forecasts_.values():
            place_models(forecast.fitted.models, forecast.planned.trees)
        if taken.correction is not None:
            self._correct_by_fresh_errors(rows, taken.planned.block, folder and folder / "fresh-errors-taken", stop)

    def _why_no_decision(self, rows: Rows) -> str:
        """Why no decision weight can be chosen among, as `stakes check-cost` finds; empty where one can."""
        choosing = self.decision_weight == "auto" and any(self.weights)
        if not choosing or self.ranged_ is not None or len(rows.outcome) < 2:
            return ""
        sets = neighbouring_sets(rows.outcome.double().numpy(), _SETS, _SET_MEMBERS)
        if not lacks_gradient(self.cost, sets):
            return ""
        StatusLines(quiet=not self.verbose)(f"decision weights are not trained: {_NO_GRADIENT}")
        return f"not trained: {_NO_GRADIENT}"

    def _take(self, taken: RungForecast, weight_0: FittedWeight | None = None) -> None:
        """Keep the forecast of a rung, and weight 0 beside a decision weight."""
        fitted, plan = taken.fitted, taken.planned.training
        kept = [weight_0, fitted] if fitted.weight and weight_0 is not None else [fitted]
        self.kind_, self.decision_weight_ = taken.kind, fitted.weight
        self.validation_cases_ = taken.planned.validation_rows
        records = [record for each in kept for record in each.records]
        self.found_ = FoundTraining.of(plan.settings, records, [each.weight for each in kept])
        self.correction_, self.baseline_correction_ = None, None
        self._keep(kept, plan, taken.planned.trees)

    # How models are trained

    def _start(self) -> list[dict[str, Tensor]]:
        """The weights of the networks of the fit before, those of weight 0 where they were kept; none to go afresh."""
        known = self.warm_start and getattr(self, "kind_", "network") == "network"
        models = (getattr(self, "baseline_models_", []) or getattr(self, "models_", [])) if known else []
        return [model.state_dict() for model in models]

    def _plan(self, features: Tensor, outcome: Tensor, times: Times | None, **which: bool) -> PlannedFit:
        """The training of models of the kind that was taken."""
        parameters = parameters_of_kind(self.get_params(deep=False), getattr(self, "kind_", "network"))
        return plan_fit(parameters, features, outcome, times, start=self._start(), **which)

    def _trained(self, plan: TrainingPlan, folder: Path | None, stop: Callable[[], bool] | None) -> list[FittedWeight]:
        processes, quiet = self._processes(plan.device), not self.verbose
        return train_weights(plan, processes, checkpoints=folder, stop=stop, quiet=quiet)

    def _processes(self, device: str) -> int:
        return int(effective_n_jobs(self.n_jobs)) if torch.device(device).type == "cpu" else 1

    def place_on(self, trees: TreeLocation | None) -> None:
        """Let the models add their forecasts to those of trees.

        Args:
            trees: What the models were trained on; None on another base.
        """
        self.trees_ = trees
        place_models([*self.models_, *self.baseline_models_], trees)

    def _train_again(self, rows: Rows, checkpoints: Path | None, stop: Callable[[], bool] | None) -> Self:
        """The chosen models trained on all these rows."""
        planned = self._plan(*rows, all_rows=True)
        plan, processes, quiet = planned.training, self._processes(planned.training.device), not self.verbose
        again = train_on_all_rows(plan, self.found_, processes, checkpoints=checkpoints, stop=stop, quiet=quiet)
        without_failures(again)  # which warns of them
        return self._keep(again, plan, planned.trees)

    def _correct_by_fresh_errors(
        self, rows: Rows, block: int, folder: Path | None, stop: Callable[[], bool] | None
    ) -> None:
        """Prove what corrects the models of the search, or those that are trained again on all rows."""
        lead, held = whole_number("gap", self.gap, 0), self.validation_cases_
        newest = NewestRows(rows.features, rows.outcome, len(rows.outcome) - held + lead, lead)

        def refitted(known: slice) -> DrawMembers:
            other, name = copy.copy(self), f"first-{known.stop}-rows"
            return other._train_again(rows.part(known), folder and folder / name, stop)._drawn

        bounded = partial(within_bounds, bounds=self.outcome_bounds_)
        cost = self._cost_of(rows.features[newest.first :])
        judge = partial(proven_correction, cost=cost, lead=lead, block=block, bounded=bounded)
        corrections = fresh_corrections(newest, self._drawn, refitted if self.refit_on_all_rows else None, judge)
        self.correction_, self.baseline_correction_ = corrections.get("chosen"), corrections.get("baseline")

    def tested_ladder(self, X: Any, y: Any, *, times: Any = None) -> Ladder | None:  # noqa: N803
        """The ladder with every rung judged on rows that chose nothing, beside this forecast; None where there is none.

        Rungs are judged by the models that validation judged, so only right after `fit`; climatology by the constant
        action that is best for all rows of the fit, which is compared with everywhere.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            times: When it happened (n,), which tells how many neighbours belong together; None if it is not known.
        """
        if self.ladder_ is None or not self.rung_forecasts_:
            return self.ladder_
        features, outcome, when = self._validated(X, y, times)
        block = resolved_block(self.block, len(outcome), when)
        taken = self._worth(self._forecast(features), features, outcome)
        tested = []
        for name, forecast in self.rung_forecasts_.items():
            seen = forecast.planned.training.column.seen(features)
            drawn = self._members(seen, forecast.fitted.models, forecast.correction)
            worth = self._worth(drawn, features, outcome)
            if name == "climatology":
                worth = worth._replace(cost=self._climatology_cost(features, outcome))
            tested.append(rung_on_test(name, worth, taken, block))
        return replace(self.ladder_, tested=tuple(tested))

    @torch.no_grad()
    def _worth(self, drawn: Iterator[tuple[slice, Tensor]], features: Tensor, outcome: Tensor) -> JudgedCases:
        """What members are worth case by case."""
        parts = []
        for rows, members in drawn:
            cost = self._cost_of(features[rows])
            paid = cost(optimal_action(cost, members, thorough=True), outcome[rows])
            parts.append((paid, energy_score(members, outcome[rows])))
        return JudgedCases(*(torch.cat(each).double().numpy() for each in zip(*parts, strict=True)))

    def _drawn(self, features: Tensor) -> dict[Which, Tensor]:
        """Members (n, M, D) of each forecast there is, as many as prove a correction."""
        kinds: tuple[Which, ...] = ("chosen", "baseline") if self.baseline_models_ else ("chosen",)
        members = min(int(self.members), _MEMBERS_TO_CORRECT)
        return {which: torch.cat([part for _, part in self._forecast(features, which, members)]) for which in kinds}

    def _keep(self, fitted: list[FittedWeight], plan: TrainingPlan, trees: TreeLocation | None) -> Self:
        """Keep the models of the chosen weight and of weight 0, with the best constant action for what they saw."""
        self.models_, self.baseline_models_ = kept_models(fitted, self.decision_weight_)
        self.place_on(trees)
        self.noise_seed_, self.outcome_bounds_ = plan.noise_seed, plan.bounds
        self.climatology_action_ = climatology_action(self.cost, plan.train.outcome)
        return self

    # For whom it decides

    @property
    def parameter_column(self) -> ParameterColumn:
        """Where each row has the parameter of its cost, and whether the models see it."""
        conditioned = bool(self.conditioned) and getattr(self, "kind_", "network") == "network"
        return ParameterColumn(self.ranged_, conditioned)

    def _with_parameter(
        self, features: Tensor, given: CostParameters | None, *, deciding: bool, judging: bool = False
    ) -> Tensor:
        """Features (n, F) with the parameter of each row; spread over its range where rows are only judged."""
        column = self.parameter_column
        unseen = not (deciding or column.conditioned or given)  # members are the same for any
        values = parameter_values(column, self.cost, given, len(features), spread=judging or unseen)
        return torch.cat([features, values.to(features)], 1) if column.width else features

    def _cost_of(self, features: Tensor) -> Cost:
        return self.parameter_column.cost(self.cost, features)

    # What it forecasts

    def _forecast(
        self, features: Tensor, which: Which = "chosen", members: int | None = None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part."""
        models: Sequence[nn.Module] = self.models_ if which == "chosen" else self.baseline_models_
        correction = self.correction_ if which == "chosen" else self.baseline_correction_
        return self._members(self.parameter_column.seen(features), models, correction, members)

    def _members(
        self,
        features: Tensor,
        models: Sequence[nn.Module],
        correction: Correction | None,
        members: int | None = None,
    ) -> Iterator[tuple[slice, Tensor]]:
        count = whole_number("members", self.members if members is None else members)
        parts = pooled_parts(models, features, count, self.noise_seed_, resolved_device(self.device))
        return ((rows, within_bounds(corrected(drawn, correction), self.outcome_bounds_)) for rows, drawn in parts)
