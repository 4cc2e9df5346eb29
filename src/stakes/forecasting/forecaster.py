"""The estimator: from a table and a cost to forecasts and decisions, by the conventions of scikit-learn."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data
from torch import Tensor, nn

from stakes.actions.check_cost import gradient_objection
from stakes.argument_checks import whole_number
from stakes.console import StatusLines
from stakes.costs.cost import Cost, require_cost
from stakes.costs.parameter_column import ParameterColumn, RangedParameter, ranged_parameter
from stakes.data.case_table import (
    CaseTable,
    as_table,
    as_tensor,
    checked_times,
    neighbouring_sets,
    outcome_names,
    require_single_precision,
)
from stakes.data.forecasts.quantiles import OutcomeBounds, within_bounds
from stakes.data.leaks import leaks, warn_of_leaks
from stakes.errors import SettingError, ShapeError, StakesError
from stakes.evaluation.headroom import headroom as policy_headroom
from stakes.evaluation.intervals import block_length
from stakes.evaluation.selection import Frontier, Headroom, JudgedCases, ModelSelection, candidate_on_test, frontier
from stakes.forecasting.answers import (
    DrawMembers,
    JudgedAnswers,
    NewestRows,
    recent_corrections,
    require_one_decision_maker,
)
from stakes.forecasting.corrections import Correction, corrected, proven_correction
from stakes.forecasting.fitted_forecast import CostParameters, Which, parameter_values
from stakes.forecasting.plan import ForecasterParameters, ForecastKind, PlannedFit, TreeLocation, plan_fit
from stakes.forecasting.selection import CandidateForecast, select_forecast
from stakes.models.ensemble import pooled_parts
from stakes.models.residual_model import place_models
from stakes.scores.decision_score import climatology_action, realised_costs
from stakes.scores.scoring_rules import energy_score
from stakes.training.policy import require_one_action
from stakes.training.settings import RefitSchedule, TrainingSettings, resolved_device
from stakes.training.weight_search import FittedWeight, TrainingPlan, train_on_all_rows, train_weights, without_failures


class KeptModels(NamedTuple):
    """The models that a forecaster keeps.

    Attributes:
        chosen: Those of the selected weight.
        weight_0: Those of weight 0 beside it; none where that was selected, or not trained.
    """

    chosen: list[nn.Module]
    weight_0: list[nn.Module]


class Choice(NamedTuple):
    """What a search has found.

    Attributes:
        weight: The selected weight.
        frontier: How it was chosen; None where it was given.
        records: How each model of the search trained.
        training: How long the models that are kept are to be trained on all rows.
    """

    weight: float
    frontier: Frontier | None
    records: list[dict[str, Any]]
    training: RefitSchedule


def choose(
    fitted: Sequence[FittedWeight], settings: TrainingSettings, block: int, choosing: bool, tolerance: float | None
) -> Choice:
    """Choose among the weights of a search; a warning tells of each model that failed."""
    sound = {each.weight for each in without_failures(fitted)}
    weight, trade_off = fitted[-1].weight, None
    if choosing:
        cost, score = (np.stack([getattr(each, name) for each in fitted]) for name in ("cost", "score"))
        trade_off = frontier([each.weight for each in fitted], cost, score, block=block, tolerance=tolerance)
        weight = trade_off.chosen
    kept_models(fitted, weight)  # there must be some
    records = [record for each in fitted for record in each.records]
    return Choice(weight, trade_off, records, RefitSchedule.of(settings, records, sorted(sound & {0.0, weight})))


def kept_models(fitted: Sequence[FittedWeight], weight: float) -> KeptModels:
    """The models of the selected weight and of weight 0; an error where all of the first failed."""
    by_weight = {each.weight: each for each in fitted}
    if not by_weight[weight].models:
        raise StakesError(f"all models of weight {weight:g} failed: {by_weight[weight].records[0]['failure']}")
    return KeptModels(by_weight[weight].models, by_weight[0.0].models if weight and 0.0 in by_weight else [])


_SETS, _SET_MEMBERS = 24, 30  # of members, that tell whether the decision has a gradient
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
        models_: The models that members are drawn from.
        kind_: What these models are: without features, linear, or what the parameters ask for.
        selection_: How each candidate was judged; None where there was no model selection.
        candidate_forecasts_: The forecast of each candidate by its name, as long as the forecaster is in memory.
        decision_weight_: The selected weight.
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

    models_: list[nn.Module]
    kind_: ForecastKind
    selection_: ModelSelection | None
    candidate_forecasts_: dict[str, CandidateForecast]
    decision_weight_: float
    frontier_: Frontier | None
    training_: list[dict[str, Any]]
    found_: RefitSchedule
    correction_: Correction | None
    baseline_correction_: Correction | None
    validation_cases_: int
    noise_seed_: int
    outcome_bounds_: OutcomeBounds | None
    trees_: TreeLocation | None
    ranged_: RangedParameter | None

    # How the forecast is chosen

    def _search(self, rows: CaseTable, folder: Path | None, stop: Callable[[], bool] | None) -> None:
        """Train all weights, choose one, and correct it where that is proven to help."""
        parameters = self.parameters
        if self._why_no_decision(rows):
            parameters = replace(parameters, weights=(0.0,))
        planned = plan_fit(parameters, rows, start=self._start())
        plan, self.validation_cases_, block = planned.training, planned.validation_rows, planned.block
        self.kind_, self.selection_, self.candidate_forecasts_ = "network", None, {}
        fitted = self._trained(plan, folder, stop)
        choice = choose(fitted, plan.settings, block, self.decision_weight == "auto", self.tolerance)
        self.decision_weight_, self.frontier_, self.training_, self.found_ = choice
        self.correction_, self.baseline_correction_ = None, None
        self._keep(fitted, plan, planned.trees)
        if self.recent_errors:
            self._correct_by_recent_errors(rows, block, folder, stop)

    def _select(self, rows: CaseTable, folder: Path | None, stop: Callable[[], bool] | None) -> None:
        """Select the last candidate that can be defended."""
        say = StatusLines(quiet=not self.verbose)

        def train(plan: TrainingPlan, name: str) -> list[FittedWeight]:
            if name in _STAGES:
                say(f"training {_STAGES[name]}")
            return self._trained(plan, folder and folder / name, stop)

        def confirmed(forecast: CandidateForecast) -> bool:
            """Whether it needs a correction that is fitted again on newer rows."""
            other = copy.copy(self)
            other._take(forecast._replace(fitted=copy.deepcopy(forecast.fitted)))
            other._correct_by_recent_errors(rows, forecast.planned.block, folder and folder / "recent-errors", stop)
            return other.correction_ is not None

        why = self._why_no_decision(rows)
        found = select_forecast(
            self.parameters, rows, start=self._start(), train=train, confirm=confirmed, why_no_decision=why
        )
        self.selection_, self.candidate_forecasts_, weight_0, self.frontier_, self.training_ = found
        selected = self.candidate_forecasts_[self.selection_.selected.name]
        self._take(selected, weight_0)
        for forecast in self.candidate_forecasts_.values():
            place_models(forecast.fitted.models, forecast.planned.trees)
        if selected.correction is not None:
            self._correct_by_recent_errors(
                rows, selected.planned.block, folder and folder / "recent-errors-selected", stop
            )

    def _why_no_decision(self, rows: CaseTable) -> str:
        """Why no decision weight can be chosen among, as `stakes check-cost` finds; empty where one can."""
        choosing = self.decision_weight == "auto" and any(self.weights)
        if not choosing or self.ranged_ is not None or len(rows.outcome) < 2:
            return ""
        sets = neighbouring_sets(rows.outcome.double().numpy(), _SETS, _SET_MEMBERS)
        if not (objection := gradient_objection(self.cost, sets)):
            return ""
        reason = objection[0].lower() + objection[1:].removesuffix(".")
        StatusLines(quiet=not self.verbose)(f"decision weights are not trained: {reason}")
        return f"not trained: {reason}"

    def _take(self, selected: CandidateForecast, weight_0: FittedWeight | None = None) -> None:
        """Keep the forecast of a candidate, and weight 0 beside a decision weight."""
        fitted, plan = selected.fitted, selected.planned.training
        kept = [weight_0, fitted] if fitted.weight and weight_0 is not None else [fitted]
        self.kind_, self.decision_weight_ = selected.kind, fitted.weight
        self.validation_cases_ = selected.planned.validation_rows
        records = [record for each in kept for record in each.records]
        self.found_ = RefitSchedule.of(plan.settings, records, [each.weight for each in kept])
        self.correction_, self.baseline_correction_ = None, None
        self._keep(kept, plan, selected.planned.trees)

    # How models are trained

    @property
    def parameters(self) -> ForecasterParameters:
        """What is asked for now."""
        return ForecasterParameters(**self.get_params(deep=False))

    def _start(self) -> list[dict[str, Tensor]]:
        """The weights of the networks of the fit before, those of weight 0 where they were kept; none to go afresh."""
        known = self.warm_start and getattr(self, "kind_", "network") == "network"
        models = (getattr(self, "baseline_models_", []) or getattr(self, "models_", [])) if known else []
        return [model.state_dict() for model in models]

    def _plan(self, rows: CaseTable, **which: bool) -> PlannedFit:
        """The training of models of the selected kind."""
        return plan_fit(self.parameters.of_kind(getattr(self, "kind_", "network")), rows, start=self._start(), **which)

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

    def _train_again(self, rows: CaseTable, checkpoints: Path | None, stop: Callable[[], bool] | None) -> Self:
        """The chosen models trained on all these rows."""
        planned = self._plan(rows, all_rows=True)
        plan, processes, quiet = planned.training, self._processes(planned.training.device), not self.verbose
        again = train_on_all_rows(plan, self.found_, processes, checkpoints=checkpoints, stop=stop, quiet=quiet)
        without_failures(again)  # which warns of them
        return self._keep(again, plan, planned.trees)

    def _correct_by_recent_errors(
        self, rows: CaseTable, block: int, folder: Path | None, stop: Callable[[], bool] | None
    ) -> None:
        """Prove what corrects the models of the search, or those that are trained again on all rows."""
        lead, held = whole_number("gap", self.gap, 0), self.validation_cases_
        newest = NewestRows(rows.features, rows.outcome, len(rows.outcome) - held + lead, lead)

        def refitted(known: slice) -> DrawMembers:
            other, name = copy.copy(self), f"first-{known.stop}-rows"
            return other._train_again(rows.rows(known), folder and folder / name, stop)._drawn

        bounded = partial(within_bounds, bounds=self.outcome_bounds_)
        cost = self._cost_of(rows.features[newest.first :])
        judge = partial(proven_correction, cost=cost, lead=lead, block=block, bounded=bounded)
        corrections = recent_corrections(newest, self._drawn, refitted if self.refit_on_all_rows else None, judge)
        self.correction_, self.baseline_correction_ = corrections.get("chosen"), corrections.get("baseline")

    def tested_selection(self, X: Any, y: Any, *, times: Any = None) -> ModelSelection | None:
        """Every candidate judged on rows that chose nothing, beside this forecast; None without model selection.

        Candidates are judged by the models that validation judged, so only right after `fit`; climatology by the
        constant action that is best for all rows of the fit, which is compared with everywhere.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            times: When it happened (n,), which tells how many neighbours belong together; None if it is not known.
        """
        if self.selection_ is None or not self.candidate_forecasts_:
            return self.selection_
        rows = self._validated(X, y, times)
        features, outcome = rows.features, rows.outcome
        block = block_length(len(rows), rows.times, self.block)
        selected = self._worth(self._forecast(features), features, outcome)
        tested = []
        for name, forecast in self.candidate_forecasts_.items():
            seen = forecast.planned.training.column.seen(features)
            drawn = self._members(seen, forecast.fitted.models, forecast.correction)
            worth = self._worth(drawn, features, outcome)
            if name == "climatology":
                worth = worth._replace(cost=self._climatology_cost(features, outcome))
            tested.append(candidate_on_test(name, worth, selected, block))
        return replace(self.selection_, tested=tuple(tested))

    def _worth(self, drawn: Iterator[tuple[slice, Tensor]], features: Tensor, outcome: Tensor) -> JudgedCases:
        """What members are worth case by case."""
        parameter = self.parameter_column.parameters(features)
        decided = realised_costs(self.cost, drawn, outcome, parameter=parameter, score=energy_score)
        return JudgedCases(*decided.cost_and_score())

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
        constant = climatology_action(self.cost, plan.train.outcome).flatten().tolist()
        self.climatology_action_ = constant[0] if len(constant) == 1 else tuple(constant)
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


Floats = NDArray[np.float64]


class DecisionAwareForecaster(TrainedModels, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An ensemble forecast of y given X, trained with a proper score and with the cost of the decision it serves.

    The rows are in the order of time: the last ones, which touch the training rows, decide when to stop, and the chosen
    weight is then trained again on all of them; leave a gap of the lead time before rows that judge. Every row sees the
    same noise: its forecast does not depend on the other rows. `score` is the mean realised cost, negative.

    Args:
        cost: What a decision costs. One of its parameters may be a range, as in `ShortfallCost(ParameterRange(1, 50))`:
            then one forecast is trained for all decision makers in it, each row drawing its own, and `decide` is told
            which one each row belongs to.
        model: "implicit", "diffusion", "linear" (which needs no training: `LinearModel`), settings such as
            `ImplicitSettings(hidden=64)`, or a function of the numbers of features and outcomes that makes a
            `SampleModel`.
        base: What the forecast starts from: "linear", ridge regression with the covariance of its errors, to which an
            implicit model adds a network and which early stopping may keep; "trees", boosted trees (LightGBM, extra
            `trees`), to whose forecasts any model adds its own, an implicit one with a linear start; or "none".
        gap: How many rows the lead time has: rows so near to those that a linear forecast is tried on are left out of
            its fit. 0 where a forecast is issued just before its outcome.
        outcome_bounds: What the outcomes cannot cross, (lower, upper), of which one may be None: members beyond are
            drawn to it. "auto" takes what the cost knows (`cost.outcome_bounds`), or 0 and a capacity at which the data
            have many exact ties; None for none.
        scoring_rule: What is trained beside the decision: "energy", "pointwise", "total", or a mixture such as
            "energy=1,total=0.5", as `score` in `TrainingSettings`; None takes that of `training`, "energy" by default.
        decision_weight: How much the decision weighs, from 0, the score alone, to 1, the decision alone. "auto" trains
            all `weights` from one start; alternate blocks of the validation rows decide when to stop and which
            weight to take (`stakes.evaluation.selection`).
        conditioned: Whether models see the parameter of the cost that is a range, as one more feature, so that each
            decision maker has a forecast of their own; otherwise one forecast serves all alike.
        baseline: Whether weight 0 is trained and kept beside a weight that is a number; "auto" always does so.
        weights: Which weights "auto" chooses among; 0 is one of them in any case.
        members: How many members a forecast has.
        ensemble: How many models of different seeds are trained and pooled into one forecast.
        decision_member_count: Members that the decision is made from in training, of which the score sees the first;
            None for those of `training`: by default the members of the score.
        epochs: How many epochs are trained at most, in place of those of `training`.
        training: All else about the training; None for what suits the number of rows and of epochs.
        validation_fraction: The share of the rows, the last ones, that decide when to stop and which weight to take.
        refit_on_all_rows: Whether the models of the selected weight, and of weight 0 beside it, are then trained
            again on all rows, for the epochs that were best; False keeps those of the first rows, which have not seen
            the last ones.
        model_selection: Whether "auto" selects among climatology, the linear forecast, the network, its correction by
            recent errors, the score of the total and decision weights, each after the linear one only with proof, so
            that the forecast may be a linear one; False takes the network and chooses its weight only.
        recent_errors: Whether members are corrected by the errors of the validation rows, each forecast by models that
            were trained on rows before it, where that is proven to help (`stakes.forecasting.corrections`).
        tolerance: By how many per cent the energy score of the weight that "auto" takes may lie above that of weight 0,
            or of the candidate before it; None for no limit.
        block: How many neighbouring rows belong together; "auto" tells by their times.
        device: "cpu", "cuda", another device of torch, or "auto": the GPU where there is one.
        n_jobs: How many processes share the weights, as scikit-learn counts them; a GPU needs but one.
        warm_start: Whether a second fit starts from the models of the first, their scaling too, without pre-training.
        random_state: The seed of all that is random, the noise of the forecasts included.
        verbose: Whether progress is shown; 0 for none.

    >>> import numpy as np, stakes
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> y = X.mean(1)
    >>> few = stakes.DecisionAwareForecaster(stakes.ShortfallCost(5.0), decision_weight=0.5, epochs=2, random_state=0)
    >>> few.fit(X, y).decide(X[:3]).shape, few.sample(X[:3]).shape
    ((3,), (3, 500, 1))
    """

    __setattr__ = object.__setattr__  # parameters of an estimator can be set
    __delattr__ = object.__delattr__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # a cost, where scikit-learn expects R^2
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        times: Any = None,
        checkpoints: Path | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Self:
        """Train the models, choose the weight where `decision_weight` is "auto", and train it again on all rows.

        A feature that reproduces an outcome almost exactly is told of, by a `StakesWarning` and in `leaks_`.

        Args:
            X: Features (n, F), rows in the order of time.
            y: Outcomes (n,) or (n, D).
            times: When these happened (n,), which tells how many neighbours belong together; None if it is not known.
            checkpoints: A folder with which the same call goes on after a kill; None keeps nothing.
            stop: Asked after every epoch; where it says yes, the training ends with `InterruptedTraining`.
        """
        rows = self._validated(X, y, times, fitting=True)
        names = [str(name) for name in getattr(self, "feature_names_in_", self._numbered_features)]
        features, outcomes = (part.double().numpy() for part in (rows.features[:, : len(names)], rows.outcome))
        self.leaks_ = leaks(features, names, outcomes, self.target_names_)
        warn_of_leaks(self.leaks_)
        folder = None if checkpoints is None else Path(checkpoints)
        choose = self._select if self.model_selection and self.decision_weight == "auto" else self._search
        choose(rows, folder, stop)
        return self._train_again(rows, folder and folder / "all-rows", stop) if self.refit_on_all_rows else self

    def refit(
        self,
        X: Any,
        y: Any,
        *,
        times: Any = None,
        checkpoints: Path | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Self:
        """Train the chosen weight again on other rows, for the epochs that `fit` found; nothing is chosen or judged.

        With `warm_start` it goes on from the models there are.

        Args:
            X: Features (n, F), rows in the order of time: those of the fit and newer ones, as a rule.
            y: Outcomes (n,) or (n, D).
            times: When these happened (n,); None if it is not known.
            checkpoints: A folder of its own with which the same call goes on after a kill; None keeps nothing.
            stop: Asked after every epoch; where it says yes, the training ends with `InterruptedTraining`.
        """
        rows = self._validated(X, y, times)
        if ranged_parameter(self.cost) != self.ranged_:
            raise SettingError(f"refit needs the cost of the fit, with its range of {self.ranged_}, got {self.cost}")
        return self._train_again(rows, checkpoints, stop)

    def headroom(self, X: Any, y: Any, *, times: Any = None) -> Headroom:
        """Whether there is anything to gain, before fitting: a forecast of weight 0 against a policy.

        Both are trained on the first rows; the validation rows that do not stop the training judge them. A decision
        with many parts is refused: a policy decides about one number. So is a cost with a range: it decides for one.

        Args:
            X: Features (n, F), rows in the order of time.
            y: Outcomes (n,) or (n, D).
            times: When these happened (n,); None if it is not known.
        """
        require_one_action(self.cost)
        require_one_decision_maker(self.cost)
        other = clone(self)
        planned = other._plan(other._validated(X, y, times, fitting=True), score_only=True)
        plan, block = planned.training, planned.block
        (score_only,) = without_failures(train_weights(plan, quiet=not self.verbose))
        assert plan.judged is not None
        cases = (plan.train, plan.stopping, plan.judged)
        with StatusLines(quiet=not self.verbose).counting("training a policy on the cost alone") as progressed:
            return policy_headroom(
                self.cost, *cases, score_only.cost, block=block, seed=plan.noise_seed, progressed=progressed
            )

    # What goes in

    def _validated(
        self, X: Any, y: Any, times: Any, cost_parameters: CostParameters | None = None, fitting: bool = False
    ) -> CaseTable:
        """Features and parameter (n, F + width), outcomes (n, D), times (n,); in fitting, their columns are noted."""
        targets = as_table(y, "y")
        if fitting:
            require_cost(self.cost)
            self.ranged_ = ranged_parameter(self.cost)
            table, outcome = validate_data(
                self, as_table(X, "X"), targets, dtype=np.float64, multi_output=True, y_numeric=True
            )
            self.single_output_ = outcome.ndim == 1
            self.n_outputs_ = 1 if self.single_output_ else outcome.shape[1]
            self.target_names_ = outcome_names(targets, self.n_outputs_)
            names = getattr(self, "feature_names_in_", self._numbered_features)
            require_single_precision(table, names, "feature")
            require_single_precision(outcome.reshape(len(outcome), -1), self.target_names_, "target")
            features = as_tensor(table, "X")
        else:
            features = self._features(X)
            outcome = check_array(targets, ensure_2d=False, dtype=np.float64, input_name="y")
            check_consistent_length(features, outcome)
        outcome = outcome.reshape(len(outcome), -1)
        if outcome.shape[1] != self.n_outputs_:
            raise ShapeError(f"y must have the {self.n_outputs_} columns of the fit, got {outcome.shape[1]}")
        features = self._with_parameter(features, cost_parameters, deciding=True, judging=True)
        return CaseTable(features, as_tensor(outcome, "y"), checked_times(times, len(outcome)))

    @property
    def _numbered_features(self) -> list[str]:
        return [f"x{place}" for place in range(self.n_features_in_)]

    def _features(self, X: Any) -> Tensor:
        check_is_fitted(self, "models_")
        return as_tensor(validate_data(self, as_table(X, "X"), reset=False, dtype=np.float64), "X")
