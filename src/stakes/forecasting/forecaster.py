"""The estimator: from a table and a cost to forecasts and decisions, by the conventions of scikit-learn."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from stakes.actions.climatology import climatology_action
from stakes.argument_checks import whole_number
from stakes.costs.cost import ParameterColumn, ranged_parameter, require_cost
from stakes.data.case_table import (
    CaseTable,
    as_table,
    as_tensor,
    checked_times,
    outcome_names,
    require_single_precision,
)
from stakes.data.leaks import leaks, warn_of_leaks
from stakes.errors import SettingError
from stakes.evaluation.intervals import block_length
from stakes.evaluation.selection import Frontier, ModelSelection, candidate_on_test
from stakes.forecasting.decisions import untrained_decision
from stakes.forecasting.fitted_forecast import FittedForecast, ForecastAnswers, ForecastState, PooledForecast, Which
from stakes.forecasting.forecast_candidates import ForecastSelection, ForecastTraining, SelectedForecast, warm_start
from stakes.forecasting.input_range import InputRange
from stakes.forecasting.plan import ForecasterParameters, ForecastKind, TreeLocation
from stakes.training.progress import StatusLines
from stakes.training.settings import PoolSettings, RefitSchedule, resolved_device

Floats = NDArray[np.float64]


class DecisionAwareForecaster(ForecasterParameters, ForecastAnswers, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An ensemble forecast of y given X, trained with a proper score and with the cost of the decision it serves.

    Rows are in the order of time. The last ones stop the training and select the decision weight, which is then trained
    again on all rows. Leave a gap of the lead time before your test rows. A row's forecast does not depend on the other
    rows. `score` is the negative mean realised cost.

    Args:
        cost: What a decision costs. One of its parameters may be a range, as in `ShortfallCost(ParameterRange(1, 50))`:
            then one forecast is trained for all decision makers in that range, with a value drawn for each row, and
            `decide` takes the value of each row.
        model: "implicit", "diffusion", "linear" (which needs no training: `LinearModel`), settings such as
            `ImplicitSettings(hidden=64)`, or a function of the numbers of features and outcomes that makes a
            `SampleModel`.
        candidates: Your own models by name, which model selection compares with those of the library on the same
            held-out cases: scikit-learn regressors, with out-of-fold errors around their predictions, or models with
            uncertainty, as in `DecisionRegressor`. They see features as an array. If one is selected, pickle the
            forecaster; a folder holds no code.
        base: What the forecast starts from: "linear", ridge regression with the covariance of its errors, to which an
            implicit model adds a network and which early stopping may keep; "trees", boosted trees (LightGBM, extra
            `trees`), to whose forecasts any model adds its own, an implicit one with a linear start; or "none".
        gap: Number of rows in the lead time; the cross-validation of the linear forecast leaves out so many rows beside
            each held-out block. 0 if a forecast is issued just before its outcome.
        outcome_bounds: Physical limits of the outcomes, (lower, upper), one of which may be None; members are clipped
            to them. "auto" uses `cost.outcome_bounds`, or 0 and a capacity at which the data have many exact ties; None
            for none.
        scoring_rule: The proper score of the training loss: "energy", "pointwise", "total", or a mixture such as
            "energy=1,total=0.5", as `score` in `TrainingSettings`; None takes that of `training`, "energy" by default.
        decision_weight: Share of the decision in the loss, from 0 (score only) to 1 (decision only). "auto" trains all
            `weights` from the same start; alternate blocks of the validation rows stop training and select the weight.
        conditioned: Whether models take the cost parameter with a range as a feature, so that each decision maker gets
            a forecast of their own.
        baseline: Whether weight 0 is trained and kept beside a weight that is a number; "auto" always does so.
        weights: Decision weights that "auto" compares; 0 is always one of them.
        members: Members of each forecast.
        ensemble: How many models with different seeds are trained and pooled into one forecast; a model without a seed,
            such as a linear one, is fitted once.
        decision_member_count: Members that the decision is made from in training, of which the score sees the first;
            None for those of `training`: by default the members of the score, and 30 where "auto" tries weights of an
            implicit model for a scalar action, because few members make a forecast overconfident.
        epochs: Maximum number of epochs, instead of those of `training`.
        training: All other training settings; None for settings that suit the numbers of rows and epochs.
        validation_fraction: Share of the rows, the latest, for early stopping and selection.
        refit_on_all_rows: Whether the models of the selected weight, and of weight 0 beside it, are trained again on
            all rows, for the best number of epochs; False keeps the models that have not seen the validation rows.
        model_selection: Whether "auto" selects among climatology, the linear forecast, boosted trees (where LightGBM is
            installed, outcomes are few and the model is not "linear"), the networks, the score of the total, decision
            weights, a pool of these and a correction by recent errors: each is selected if it is expected to cost less
            than the one before it, the last one if it does no harm. The score of the total and decision weights must
            save at least 0.5 % of what is paid above perfect foresight. False keeps the networks and selects only their
            weight.
        recent_errors: Whether members are corrected by the errors of the validation rows, each forecast by models that
            were trained on rows before it, where that is expected to help, or where they lie nearer to their mean, or
            farther, than errors do (`stakes.Correction`).
        tolerance: Largest accepted increase of the score, in percent, over weight 0 or the candidate before; None for
            no limit.
        block: Number of consecutive rows that depend on each other; "auto" derives it from their times.
        device: "cpu", "cuda", another device of torch, or "auto": the GPU where there is one.
        n_jobs: Number of processes, as in scikit-learn; a GPU needs one.
        warm_start: Whether a second fit starts from the models and the scaling of the first, without pre-training.
        random_state: Random seed of the training and of the forecasts' noise.
        verbose: Whether to show progress; 0 shows none.

    Attributes:
        forecast_: The fitted forecast: models, correction and bounds of their members, and the best constant action.
        kind_: The kind of its models: without features, linear, trees, as the parameters ask, or a pool of these.
        pool_: The parts of a pool and their shares; None for any other forecast.
        selection_: How each candidate was judged; None where there was no model selection.
        candidate_forecasts_: The forecast of each candidate by its name, as long as the forecaster is in memory.
        frontier_: How the decision weight was selected; None where it was given.
        training_: The training record of each model of the search.
        found_: How many epochs `refit` trains the selected models for.
        validation_cases_: The number of validation rows in the search.
        trees_: The trees to whose forecasts the models add; None on another base.
        leaks_: A note for each outcome that a feature reproduces almost exactly.

    >>> import numpy as np, stakes
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> y = X.mean(1)
    >>> few = stakes.DecisionAwareForecaster(stakes.ShortfallCost(5.0), decision_weight=0.5, epochs=2, random_state=0)
    >>> few.fit(X, y).decide(X[:3]).shape, few.sample(X[:3]).shape
    ((3,), (3, 500, 1))
    """

    __setattr__ = object.__setattr__  # parameters of an estimator can be set
    __delattr__ = object.__delattr__

    forecast_: FittedForecast
    kind_: ForecastKind
    selection_: ModelSelection | None
    candidate_forecasts_: dict[str, PooledForecast]
    frontier_: Frontier | None
    training_: list[dict[str, Any]]
    found_: RefitSchedule
    validation_cases_: int
    trees_: TreeLocation | None
    pool_: PoolSettings | None
    leaks_: tuple[str, ...]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # a cost, where scikit-learn expects R^2
        return tags

    @property
    def parameters(self) -> ForecasterParameters:
        """What is asked for now."""
        return ForecasterParameters(**self.get_params(deep=False))

    @property
    def decision_weight_(self) -> float:
        """The selected decision weight."""
        return self.forecast_.state.decision_weight

    @property
    def forecast(self) -> FittedForecast:
        """The fitted forecast, for the cost and with the number of members that are asked for now."""
        check_is_fitted(self, "forecast_")
        block = self.block if self.block == "auto" else whole_number("block", self.block)
        state = replace(self.forecast_.state, members=whole_number("members", self.members), block=block)
        return replace(self.forecast_, cost=self.cost, state=state, device=resolved_device(self.device))

    # How it is fitted

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        times: Any = None,
        checkpoints: Path | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Self:
        """Train the models, select the weight where `decision_weight` is "auto", and train it again on all rows.

        A `StakesWarning` and `leaks_` name any feature that reproduces an outcome almost exactly.

        Args:
            X: Features (n, F), rows in the order of time.
            y: Outcomes (n,) or (n, D).
            times: Times of the outcomes (n,), from which the length of blocks is derived; None if unknown.
            checkpoints: A folder from which the same call resumes after an interruption; None keeps nothing.
            stop: Called after every epoch; if it returns True, training ends with `InterruptedTraining`.
        """
        rows = self._rows(X, y, times)
        names = self._feature_names
        features, outcomes = (part.double().numpy() for part in (rows.features[:, : len(names)], rows.outcome))
        self.leaks_ = leaks(features, names, outcomes, self.target_names_)
        warn_of_leaks(self.leaks_)
        training = ForecastTraining(self.parameters, None if checkpoints is None else Path(checkpoints), stop)
        start = warm_start(self.parameters, self.kind_, self._kept) if hasattr(self, "forecast_") else []
        found = ForecastSelection(training, rows, start, self._why_no_decision(rows)).run()
        self.selection_, self.candidate_forecasts_, self.frontier_ = found.selection, found.candidates, found.frontier
        self.training_, self.validation_cases_ = found.records, found.validation_cases
        if self.refit_on_all_rows:
            return self._keep(found.selected.trained_on(rows, "all-rows"), rows)
        return self._keep(found.selected, rows.rows(slice(len(rows) - found.validation_cases)))

    def refit(
        self,
        X: Any,
        y: Any,
        *,
        times: Any = None,
        checkpoints: Path | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Self:
        """Train the selected weight again on other rows, for the epochs that `fit` found, without a new selection.

        With `warm_start` training continues from the fitted models.

        Args:
            X: Features (n, F), rows in the order of time: usually those of the fit and newer ones.
            y: Outcomes (n,) or (n, D).
            times: Times of the outcomes (n,); None if unknown.
            checkpoints: A new folder from which the same call resumes after an interruption; None keeps nothing.
            stop: Called after every epoch; if it returns True, training ends with `InterruptedTraining`.
        """
        rows = self.forecast.cases(self._table(X), y, times)
        if ranged_parameter(self.cost) != self.forecast_.state.ranged:
            fitted = self.forecast_.state.ranged
            raise SettingError(f"refit needs the cost of the fit, with its range of {fitted}, got {self.cost}")
        training = ForecastTraining(self.parameters, None if checkpoints is None else Path(checkpoints), stop)
        weight = self.decision_weight_
        selected = SelectedForecast(training, self.kind_, weight, self.found_, self._kept, self.trees_, self.pool_)
        return self._keep(selected.trained_on(rows), rows)

    def tested_selection(self, X: Any, y: Any, *, times: Any = None) -> ModelSelection | None:
        """Every candidate judged on rows that chose nothing, beside this forecast; None without model selection.

        Candidates are judged by the models that validation judged, so only right after `fit`; climatology by the
        constant action that is best for all rows of the fit, which is compared with everywhere.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            times: When it happened (n,), which tells how many neighbours belong together; None if unknown.
        """
        if self.selection_ is None or not self.candidate_forecasts_:
            return self.selection_
        fitted = self.forecast
        rows = fitted.cases(self._table(X), y, times)
        block = block_length(len(rows), rows.times, self.block)
        selected = fitted.worth(rows)
        tested = []
        for name, forecast in self.candidate_forecasts_.items():
            worth = fitted.worth(rows, forecast)
            if name == "climatology":
                worth = worth._replace(cost=fitted.climatology_cost(rows))
            tested.append(candidate_on_test(name, worth, selected, block))
        return replace(self.selection_, tested=tuple(tested))

    # What goes in, and what is kept

    def _rows(self, X: Any, y: Any, times: Any) -> CaseTable:
        """Features and parameter (n, F + width), outcomes (n, D), times (n,) to fit on; their columns are noted."""
        require_cost(self.cost)
        targets = as_table(y, "y")
        table, outcome = validate_data(
            self, as_table(X, "X"), targets, dtype=np.float64, multi_output=True, y_numeric=True
        )
        self.single_output_ = outcome.ndim == 1
        self.n_outputs_ = 1 if self.single_output_ else outcome.shape[1]
        self.target_names_ = outcome_names(targets, self.n_outputs_)
        outcome = outcome.reshape(len(outcome), -1)
        require_single_precision(table, self._feature_names, "feature")
        require_single_precision(outcome, self.target_names_, "target")
        features, column = as_tensor(table, "X"), ParameterColumn.of(self.cost)
        if column.width:
            features = torch.cat([features, column.spread(len(features)).to(features)], 1)
        return CaseTable(features, as_tensor(outcome, "y"), checked_times(times, len(outcome)))

    @property
    def _feature_names(self) -> list[str]:
        numbered = [f"x{place}" for place in range(self.n_features_in_)]
        return [str(name) for name in getattr(self, "feature_names_in_", numbered)]

    def _table(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "forecast_")
        return np.asarray(validate_data(self, as_table(X, "X"), reset=False, dtype=np.float64))

    @property
    def _kept(self) -> dict[Which, PooledForecast]:
        kinds: tuple[Which, ...] = ("chosen", "baseline") if self.forecast_.baseline_models else ("chosen",)
        return {which: self.forecast_.pooled(which) for which in kinds}

    def _keep(self, selected: SelectedForecast, rows: CaseTable) -> Self:
        """Keep models that were trained on these rows, with the best constant action for them."""
        names = getattr(self, "feature_names_in_", None)
        constant = climatology_action(self.cost, rows.outcome).flatten().tolist()
        chosen, baseline = selected.forecasts["chosen"], selected.forecasts.get("baseline")
        state = ForecastState(
            features=self.n_features_in_,
            feature_names=None if names is None else tuple(map(str, names)),
            target_names=self.target_names_,
            single_output=self.single_output_,
            decision_weight=selected.decision_weight,
            climatology_action=constant[0] if len(constant) == 1 else tuple(constant),
            noise_seed=chosen.noise_seed,
            members=whole_number("members", self.members),
            block=self.block,
            ranged=chosen.column.parameter,
            conditioned=chosen.column.conditioned,
            outcome_bounds=chosen.bounds,
            correction=chosen.correction,
            baseline_correction=None if baseline is None else baseline.correction,
        )
        beside = () if baseline is None else baseline.models
        inputs = InputRange.of(chosen.column.without(rows.features).numpy())
        device = resolved_device(self.device)
        self.forecast_ = FittedForecast(self.cost, state, inputs, chosen.models, beside, device)
        self.kind_, self.found_, self.trees_ = selected.kind, selected.schedule, selected.trees
        self.pool_ = selected.pool
        return self

    def _why_no_decision(self, rows: CaseTable) -> str:
        """Why no decision weight can be chosen among; empty where one can."""
        choosing = self.decision_weight == "auto" and any(self.weights)
        why = untrained_decision(self.cost, rows.outcome.double().numpy()) if choosing else ""
        if why:
            StatusLines(quiet=not self.verbose)(f"decision weights are {why}")
        return why
