# ruff: noqa: N803 X is the name that scikit-learn prescribes
"""The estimator: from a table and a cost to forecasts and decisions, by the conventions of scikit-learn."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)
from torch import Tensor

from stakes.data.estimator_input import Rows, as_table, as_tensor, checked_times, outcome_names
from stakes.data.leaks import leaks, warn_of_leaks
from stakes.data.outcome_bounds import Pair
from stakes.data.single_precision import require_single_precision
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.headroom import Headroom
from stakes.evaluation.headroom import headroom as policy_headroom
from stakes.forecaster.base import Base
from stakes.forecaster.decision_makers import CostParameters, require_one_decision_maker
from stakes.forecaster.training import TrainedModels
from stakes.method.costs import Cost, require_cost
from stakes.method.parameter_range import ranged_parameter
from stakes.method.training_settings import ModelSettings, TrainingSettings
from stakes.status_lines import StatusLines
from stakes.training.many_weights import (
    ModelFactory,
    train_weights,
    without_failures,
)
from stakes.training.policy import require_one_action

__all__ = ["DecisionAwareForecaster"]

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
            weight to take (`stakes.evaluation.weight_frontier`).
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
        refit_on_all_rows: Whether the models of the weight that is taken, and of weight 0 beside it, are then trained
            again on all rows, for the epochs that were best; False keeps those of the first rows, which have not seen
            the last ones.
        ladder: Whether "auto" climbs from climatology over the linear forecast, the network, its correction by fresh
            errors and the score of the total to decision weights, each above the linear one only with proof
            (`stakes.evaluation.ladder`), so that the forecast may be a linear one; False takes the network and chooses
            its weight only.
        fresh_errors: Whether members are corrected by the errors of the validation rows, each forecast by models that
            were trained on rows before it, where that is proven to help (`stakes.evaluation.proven_correction`).
        tolerance: By how many per cent the energy score of the weight that "auto" takes may lie above that of weight 0,
            or of the rung below it; None for no limit.
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

    def __init__(
        self,
        cost: Cost,
        *,
        model: str | ModelSettings | ModelFactory = "implicit",
        base: Base = "linear",
        gap: int = 0,
        outcome_bounds: Pair | Literal["auto"] | None = "auto",
        scoring_rule: str | None = None,
        decision_weight: float | Literal["auto"] = "auto",
        conditioned: bool = False,
        baseline: bool = False,
        weights: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        members: int = 500,
        ensemble: int = 1,
        decision_member_count: int | None = None,
        epochs: int | None = None,
        training: TrainingSettings | None = None,
        validation_fraction: float = 0.25,
        refit_on_all_rows: bool = True,
        ladder: bool = True,
        fresh_errors: bool = True,
        tolerance: float | None = None,
        block: int | Literal["auto"] = "auto",
        device: str = "auto",
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.cost = cost
        self.model = model
        self.base = base
        self.gap = gap
        self.outcome_bounds = outcome_bounds
        self.scoring_rule = scoring_rule
        self.decision_weight = decision_weight
        self.conditioned = conditioned
        self.baseline = baseline
        self.weights = weights
        self.members = members
        self.ensemble = ensemble
        self.decision_member_count = decision_member_count
        self.epochs = epochs
        self.training = training
        self.validation_fraction = validation_fraction
        self.refit_on_all_rows = refit_on_all_rows
        self.ladder = ladder
        self.fresh_errors = fresh_errors
        self.tolerance = tolerance
        self.block = block
        self.device = device
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

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
        choose = self._climb if self.ladder and self.decision_weight == "auto" else self._search
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
        if self.found_ is None:
            raise SettingError("a forecaster of an earlier version does not know how long to train: fit it anew")
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
        features, outcome, when = other._validated(X, y, times, fitting=True)
        planned = other._plan(features, outcome, when, score_only=True)
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
    ) -> Rows:
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
        return Rows(features, as_tensor(outcome, "y"), checked_times(times, len(outcome)))

    @property
    def _numbered_features(self) -> list[str]:
        return [f"x{place}" for place in range(self.n_features_in_)]

    def _features(self, X: Any) -> Tensor:
        check_is_fitted(self, "models_")
        return as_tensor(validate_data(self, as_table(X, "X"), reset=False, dtype=np.float64), "X")
