"""What a forecaster does behind its methods: training, choosing, correcting, and drawing from its models."""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import torch
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import BaseEstimator  # type: ignore[import-untyped]
from torch import Tensor, nn

from stakes.data.estimator_input import Rows
from stakes.data.outcome_bounds import OutcomeBounds, within_bounds
from stakes.data.time_axis import Times
from stakes.evaluation.corrections import Correction
from stakes.evaluation.proven_correction import corrected, proven_correction
from stakes.evaluation.weight_frontier import Frontier
from stakes.forecaster_choice import choose, kept_models
from stakes.forecaster_fresh_errors import DrawMembers, NewestRows, Which, fresh_corrections
from stakes.forecaster_judgement import JudgedAnswers
from stakes.forecaster_plan import PlannedFit, plan_fit
from stakes.method.actions import optimal_action
from stakes.method.argument_checks import whole_number
from stakes.method.models.model_ensemble import pooled_parts
from stakes.training.all_rows import FoundTraining, train_on_all_rows
from stakes.training.located_model import LocatedModel
from stakes.training.many_weights import FittedWeight, TrainingPlan, resolved_device, train_weights, without_failures
from stakes.trees import TreeLocation

__all__ = ["TrainedModels"]

_MEMBERS_TO_CORRECT = 200  # whose errors prove a correction


class TrainedModels(JudgedAnswers, BaseEstimator):  # type: ignore[misc]
    """The models of a forecaster, and what they were trained with.

    Attributes:
        gap: How many rows the lead time has, as all parameters up to `verbose` one of `DecisionAwareForecaster`.
        decision_weight: How much the decision weighs, or "auto".
        refit_on_all_rows: Whether the models that are taken are trained again on all rows.
        fresh_errors: Whether members may be corrected by the errors of validation rows.
        tolerance: By how many per cent the score of the weight that is taken may be worse.
        device: Where the models are computed.
        n_jobs: How many processes share the weights.
        warm_start: Whether a second fit starts from the models of the first.
        verbose: Whether progress is shown.
        models_: The models that members are drawn from.
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
    """

    gap: int
    decision_weight: float | Literal["auto"]
    refit_on_all_rows: bool
    fresh_errors: bool
    tolerance: float
    device: str
    n_jobs: int | None
    warm_start: bool
    verbose: int
    models_: list[nn.Module]
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

    def _plan(self, features: Tensor, outcome: Tensor, times: Times | None, **which: bool) -> PlannedFit:
        """The training, from the models of the fit before, those of weight 0 where they were kept, or afresh."""
        models = (getattr(self, "baseline_models_", []) or getattr(self, "models_", [])) if self.warm_start else []
        start = [model.state_dict() for model in models]
        return plan_fit(self.get_params(deep=False), features, outcome, times, start=start, **which)

    def _processes(self, device: str) -> int:
        return int(effective_n_jobs(self.n_jobs)) if torch.device(device).type == "cpu" else 1

    def _search(self, rows: Rows, checkpoints: Path | None, stop: Callable[[], bool] | None) -> Self:
        """Train all weights, choose one, and train it again on all rows."""
        plan, self.validation_cases_, block, trees = self._plan(*rows)
        processes = self._processes(plan.device)
        fitted = train_weights(plan, processes, checkpoints=checkpoints, stop=stop, quiet=not self.verbose)
        tolerance = float(self.tolerance) if self.decision_weight == "auto" else None
        choice = choose(fitted, plan.settings, block, tolerance)
        self.decision_weight_, self.frontier_, self.training_, self.found_ = choice
        self.correction_ = None
        self.baseline_correction_ = None
        self._keep(fitted, plan, trees)
        folder = None if checkpoints is None else Path(checkpoints)
        if self.fresh_errors:
            self._correct_by_fresh_errors(rows, block, folder, stop)
        if not self.refit_on_all_rows:
            return self
        return self._train_again(rows, folder and folder / "all-rows", stop)

    def place_on(self, trees: TreeLocation | None) -> None:
        """Let the models add their forecasts to those of trees.

        Args:
            trees: What the models were trained on; None on another base.
        """
        self.trees_ = trees
        for model in (*self.models_, *self.baseline_models_):
            if isinstance(model, LocatedModel):
                model.location = trees

    def _train_again(self, rows: Rows, checkpoints: Path | None, stop: Callable[[], bool] | None) -> Self:
        """The chosen models trained on all these rows."""
        plan, _, _, trees = self._plan(*rows, all_rows=True)
        processes, quiet = self._processes(plan.device), not self.verbose
        again = train_on_all_rows(plan, self.found_, processes, checkpoints=checkpoints, stop=stop, quiet=quiet)
        without_failures(again)  # which warns of them
        return self._keep(again, plan, trees)

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
        judge = partial(proven_correction, cost=self.cost, lead=lead, block=block, bounded=bounded)
        found = fresh_corrections(newest, self._drawn, refitted if self.refit_on_all_rows else None, judge)
        self.correction_, self.baseline_correction_ = found.get("chosen"), found.get("baseline")

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
        self.climatology_action_ = float(optimal_action(self.cost, plan.train.outcome, thorough=True))
        return self

    def _forecast(
        self, features: Tensor, which: Which = "chosen", members: int | None = None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part."""
        models: Sequence[nn.Module] = self.models_ if which == "chosen" else self.baseline_models_
        correction = self.correction_ if which == "chosen" else self.baseline_correction_
        count = whole_number("members", self.members if members is None else members)
        parts = pooled_parts(models, features, count, self.noise_seed_, resolved_device(self.device))
        return ((rows, within_bounds(corrected(drawn, correction), self.outcome_bounds_)) for rows, drawn in parts)
