# ruff: noqa: N803 X is the name that scikit-learn prescribes
"""The estimator: from a table and a cost to forecasts and decisions, by the conventions of scikit-learn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone  # type: ignore[import-untyped]
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)
from torch import Tensor, nn

from stakes.data.cases import Cases
from stakes.data.estimator_input import alternate_blocks, as_table, as_tensor, checked_times, outcome_names
from stakes.data.time_axis import Times
from stakes.decisions import Decisions, solve_decisions
from stakes.errors import SettingError, ShapeError, StakesError
from stakes.evaluation.forecast_table import forecast_table, todays_cost
from stakes.evaluation.headroom import Headroom, resolved_block
from stakes.evaluation.headroom import headroom as policy_headroom
from stakes.evaluation.metrics import Assessor, Region
from stakes.evaluation.weight_frontier import frontier
from stakes.method.actions import optimal_action
from stakes.method.argument_checks import require_finite, whole_number
from stakes.method.costs import Cost, require_cost
from stakes.method.models.model_ensemble import pooled_parts
from stakes.method.training_settings import ModelSettings, TrainingSettings
from stakes.training.many_weights import (
    FittedWeight,
    ModelFactory,
    TrainingPlan,
    automatic_settings,
    model_factory,
    resolved_device,
    train_weights,
    without_failures,
)

__all__ = ["DecisionAwareForecaster"]

Floats = NDArray[np.float64]
Which = Literal["chosen", "baseline"]

_MEMBERS_TO_CHOOSE = 200  # of the pooled forecasts by which a weight is chosen


class DecisionAwareForecaster(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An ensemble forecast of y given X, trained with a proper score and with the cost of the decision it serves.

    The rows are in the order of time: the last `validation_fraction`, which touches the training rows, decides when to
    stop; leave a gap of the lead time before rows that judge. `decision_weight` "auto" trains all `weights`, 0 among
    them, from one pre-training; alternate blocks of the validation rows decide when to stop and which weight to take
    (`stakes.evaluation.weight_frontier`), with an energy score at most `tolerance` per cent above that of weight 0. A
    number trains that weight and, with `baseline`, weight 0 beside it.

    `model` is "implicit", "diffusion", settings such as `ImplicitSettings(hidden=64)`, or a function of the numbers of
    features and outcomes that makes a `SampleModel`. `ensemble` models of different seeds are trained, and pooled into
    one forecast of `members` members. `training` says all else about the training, by default what suits the number
    of rows or of `epochs`, which take the place of its own. `block` is how many neighbouring rows belong together.
    `n_jobs` processes share the weights; a GPU needs but one. With `warm_start` a second fit starts from the models of
    the first, their scaling too, without pre-training. `score` is the mean realised cost, negative.
    Every row sees the same noise, drawn from `random_state`: its forecast does not depend on the other rows.

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
        decision_weight: float | Literal["auto"] = "auto",
        baseline: bool = False,
        weights: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        members: int = 500,
        ensemble: int = 1,
        epochs: int | None = None,
        training: TrainingSettings | None = None,
        validation_fraction: float = 0.25,
        tolerance: float = 2.0,
        block: int | Literal["auto"] = "auto",
        device: str = "auto",
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.cost = cost
        self.model = model
        self.decision_weight = decision_weight
        self.baseline = baseline
        self.weights = weights
        self.members = members
        self.ensemble = ensemble
        self.epochs = epochs
        self.training = training
        self.validation_fraction = validation_fraction
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
        """Train on X (n, F) and y (n,) or (n, D), rows in the order of time; `times` (n,) may say when.

        With a folder `checkpoints` the same call goes on after a kill; `stop` is asked after every epoch, and ends the
        training with `InterruptedTraining`.
        """
        features, outcome, when = self._validated(X, y, times, fitting=True)
        plan, self.validation_cases_, block = self._plan(features, outcome, when, self._weights())
        processes = self._processes(plan.device)
        fitted = train_weights(plan, processes, checkpoints=checkpoints, stop=stop, quiet=not self.verbose)
        self._take(fitted, block)
        self.noise_seed_ = plan.noise_seed
        self.climatology_action_ = float(optimal_action(self.cost, plan.train.outcome))
        return self

    def headroom(self, X: Any, y: Any, *, times: Any = None) -> Headroom:
        """Whether there is anything to gain, before fitting: a forecast of weight 0 against a policy.

        Both are trained on the first rows; the validation rows that do not stop the training judge them.
        """
        other = clone(self)
        features, outcome, when = other._validated(X, y, times, fitting=True)
        plan, _, block = other._plan(features, outcome, when, (0.0,), judging=True)
        (found,) = without_failures(train_weights(plan, quiet=not self.verbose))
        assert plan.judged is not None
        return policy_headroom(
            self.cost, plan.train, plan.stopping, plan.judged, found.cost, block=block, seed=plan.noise_seed
        )

    # Forecasts and decisions

    def sample(self, X: Any, members: int | None = None) -> NDArray[np.float32]:
        """Members (n, M, D) of the forecast, in the units of y."""
        parts = [part.numpy() for _, part in self._forecast(self._features(X), members=members)]
        return np.concatenate(parts)

    def predict(self, X: Any) -> Floats:
        """The mean of the forecast, shaped as y."""
        parts = [part.double().mean(1).numpy() for _, part in self._forecast(self._features(X))]
        return self._as_outcome(np.concatenate(parts))

    def predict_quantiles(self, X: Any, q: ArrayLike) -> Floats:
        """Quantiles of the forecast at the levels q (Q,): (n, Q), or (n, Q, D) for several outcomes."""
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise SettingError(f"q must be levels between 0 and 1, got {q!r}")
        parts = [
            np.quantile(part.double().numpy(), levels, axis=1, method="hazen").swapaxes(0, 1)
            for _, part in self._forecast(self._features(X))
        ]
        return self._as_outcome(np.concatenate(parts))

    def solve(self, X: Any) -> Decisions:
        """The action of least expected cost for each row, what it is expected to cost, and whether it is certified."""
        members = (part for _, part in self._forecast(self._features(X)))
        return solve_decisions(self.cost, members, double=True)

    def decide(self, X: Any) -> Floats:
        """The action of least expected cost for each row, (n,)."""
        return self.solve(X).action

    def expected_cost(self, X: Any) -> Floats:
        """What the forecast expects its best action to cost, (n,)."""
        return self.solve(X).expected_cost

    # Judgement

    def score(self, X: Any, y: Any) -> float:
        """The mean realised cost of the actions, negative: the higher the better."""
        features, outcome, _ = self._validated(X, y, None)
        total = 0.0
        for rows, members in self._forecast(features):
            total += float(self.cost(optimal_action(self.cost, members), outcome[rows]).double().sum())
        return -total / len(outcome)

    def assess(
        self, X: Any, y: Any, which: Which = "chosen", regions: Mapping[str, Region] | None = None
    ) -> dict[str, Floats]:
        """All metrics of `stakes.evaluation.metrics.Assessor` case by case, and what the best constant action costs.

        "baseline" is the forecast of weight 0, which a fit with `decision_weight` "auto" or `baseline` keeps.
        `regions` by name are parts of the outcomes, of which the forecast's share is taken too.
        """
        features, outcome, _ = self._validated(X, y, None)
        return self._assessed(features, outcome, which, regions)

    def evaluate(self, X: Any, y: Any, *, times: Any = None, baseline_action: ArrayLike | None = None) -> pd.DataFrame:
        """Scores and costs on these rows with 95 % intervals; see `stakes.evaluation.forecast_table`.

        Where there is a forecast of weight 0 its values stand beside them, with the paired difference. The last rows
        compare with today's action, where `baseline_action` (n,) gives it; NaN where it is not known.
        """
        features, outcome, when = self._validated(X, y, times)
        today = None if baseline_action is None else todays_cost(self.cost, baseline_action, outcome)
        chosen = self._assessed(features, outcome, "chosen")
        baseline = self._assessed(features, outcome, "baseline") if self.baseline_models_ else None
        block = resolved_block(self.block, len(outcome), when)
        return forecast_table(chosen, baseline, int(self.members), block, today)

    # What goes in

    def _validated(self, X: Any, y: Any, times: Any, fitting: bool = False) -> tuple[Tensor, Tensor, Times | None]:
        """Features (n, F), outcomes (n, D) and times (n,); in fitting, what is known of their columns is kept."""
        targets = as_table(y, "y")
        if fitting:
            require_cost(self.cost)
            found, outcome = validate_data(
                self, as_table(X, "X"), targets, dtype=np.float64, multi_output=True, y_numeric=True
            )
            self.single_output_ = outcome.ndim == 1
            self.n_outputs_ = 1 if self.single_output_ else outcome.shape[1]
            self.target_names_ = outcome_names(targets, self.n_outputs_)
            features = as_tensor(found, "X")
        else:
            features = self._features(X)
            outcome = check_array(targets, ensure_2d=False, dtype=np.float64, input_name="y")
            check_consistent_length(features, outcome)
        outcome = outcome.reshape(len(outcome), -1)
        if outcome.shape[1] != self.n_outputs_:
            raise ShapeError(f"y must have the {self.n_outputs_} columns of the fit, got {outcome.shape[1]}")
        return features, as_tensor(outcome, "y"), checked_times(times, len(outcome))

    def _features(self, X: Any) -> Tensor:
        check_is_fitted(self, "models_")
        found = validate_data(self, as_table(X, "X"), reset=False, dtype=np.float64)
        return as_tensor(found, "X")

    def _weights(self) -> tuple[float, ...]:
        if self.decision_weight == "auto":
            return tuple(sorted({0.0, *map(float, self.weights)}))
        weight = self.decision_weight
        if not isinstance(weight, Real) or isinstance(weight, bool) or not 0 <= weight <= 1:
            raise SettingError(f'decision_weight must be "auto" or lie in [0, 1], got {weight!r}')
        return tuple(sorted({*([0.0] if self.baseline else ()), float(weight)}))

    def _plan(
        self,
        features: Tensor,
        outcome: Tensor,
        times: Times | None,
        weights: tuple[float, ...],
        judging: bool | None = None,
    ) -> tuple[TrainingPlan, int, int]:
        """What is to be trained, the number of validation rows, and the block."""
        judging = self.decision_weight == "auto" if judging is None else judging
        members, ensemble = whole_number("members", self.members, 2), whole_number("ensemble", self.ensemble)
        if members < ensemble:
            raise SettingError(f"members must be at least one of each of the {ensemble} models, got {members}")
        require_finite("tolerance", self.tolerance)
        held = self._validation_rows(len(outcome), judging)
        first = len(outcome) - held
        block = resolved_block(self.block, held, None if times is None else times[first:])
        stopping = judged = np.arange(held)
        if judging:
            stopping, judged = alternate_blocks(held, block)
        validation = Cases(features[first:], outcome[first:])
        start = self._start(ensemble)
        random = check_random_state(self.random_state)
        seed, noise_seed = (int(random.randint(np.iinfo(np.int32).max)) for _ in range(2))
        plan = TrainingPlan(
            cost=self.cost,
            factory=model_factory(self.model),
            settings=self._settings(first) if not start else replace(self._settings(first), pretraining_epochs=0),
            weights=weights,
            seeds=tuple(range(seed, seed + ensemble)),
            train=Cases(features[:first], outcome[:first]),
            stopping=validation.rows(stopping),
            judged=validation.rows(judged) if judging else None,
            members=max(ensemble, min(members, _MEMBERS_TO_CHOOSE)),
            noise_seed=noise_seed,
            device=resolved_device(self.device),
            start=start,
        )
        return plan, held, block

    def _start(self, ensemble: int) -> tuple[dict[str, Tensor], ...]:
        """The weights of the fit before, those of weight 0 where they were kept; none to start afresh."""
        models = (getattr(self, "baseline_models_", []) or getattr(self, "models_", [])) if self.warm_start else []
        if models and len(models) != ensemble:
            raise SettingError(f"ensemble must be the {len(models)} of the fit before, with warm_start, got {ensemble}")
        return tuple(model.state_dict() for model in models)

    def _validation_rows(self, rows: int, judging: bool) -> int:
        fraction, least = self.validation_fraction, 2 if judging else 1
        if isinstance(fraction, str | bool) or not 0 < fraction < 1:
            raise SettingError(f"validation_fraction must lie between 0 and 1, got {fraction!r}")
        if rows <= least:
            raise ShapeError(
                f"X must have at least {least + 1} rows, one to train on and {least} for validation, got "
                f"{rows} sample{'s' if rows > 1 else ''}"
            )
        return min(max(least, round(fraction * rows)), rows - 1)

    def _settings(self, cases: int) -> TrainingSettings:
        epochs = None if self.epochs is None else whole_number("epochs", self.epochs)
        if self.training is None:
            return automatic_settings(cases, epochs)
        if not isinstance(self.training, TrainingSettings):
            raise SettingError(f"training must be TrainingSettings, got {self.training!r}")
        return self.training if epochs is None else replace(self.training, epochs=epochs)

    def _processes(self, device: str) -> int:
        return int(effective_n_jobs(self.n_jobs)) if torch.device(device).type == "cpu" else 1

    # What comes out

    def _take(self, fitted: list[FittedWeight], block: int) -> None:
        """Choose among the weights, and keep the models of the chosen one and of weight 0."""
        by_weight = {each.weight: each.models for each in without_failures(fitted)}
        self.frontier_, self.decision_weight_ = None, fitted[-1].weight
        if self.decision_weight == "auto":
            cost, score = (np.stack([getattr(each, name) for each in fitted]) for name in ("cost", "score"))
            weights = [each.weight for each in fitted]
            self.frontier_ = frontier(weights, cost, score, block=block, tolerance=float(self.tolerance))
            self.decision_weight_ = self.frontier_.chosen
        if self.decision_weight_ not in by_weight:
            raise StakesError(
                f"all models of weight {self.decision_weight_:g} failed: {fitted[-1].records[0]['failure']}"
            )
        self.models_ = by_weight[self.decision_weight_]
        self.baseline_models_ = by_weight.get(0.0, []) if self.decision_weight_ else []
        self.training_ = [record for each in fitted for record in each.records]

    def _forecast(
        self, features: Tensor, which: Which = "chosen", members: int | None = None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part."""
        models: Sequence[nn.Module] = self.models_ if which == "chosen" else self.baseline_models_
        count = whole_number("members", self.members if members is None else members)
        return pooled_parts(models, features, count, self.noise_seed_, resolved_device(self.device))

    def _assessed(
        self, features: Tensor, outcome: Tensor, which: Which, regions: Mapping[str, Region] | None = None
    ) -> dict[str, Floats]:
        if which == "baseline" and not self.baseline_models_:
            raise SettingError("there is no forecast of weight 0 beside this one; fit with baseline=True")
        assessor = Assessor(self.cost, regions or {})
        parts = [assessor(members, outcome[rows]) for rows, members in self._forecast(features, which)]
        found = {name: torch.cat([part[name] for part in parts]).double().numpy() for name in parts[0]}
        constant = torch.full_like(outcome[:, :1], self.climatology_action_)
        return found | {"climatology_cost": self.cost(constant, outcome).double().numpy()}

    def _as_outcome(self, values: Floats) -> Floats:
        return values[..., 0] if self.single_output_ else values
