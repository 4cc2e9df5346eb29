"""What a forecaster is trained on and how: its parameters, its rows, and what the forecast starts from."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from stakes.argument_checks import whole_number
from stakes.costs.cost import Cost, ParameterColumn
from stakes.data.case_table import CaseTable, alternate_blocks
from stakes.data.forecasts.layout import Pair
from stakes.data.outcome_bounds import outcome_bounds
from stakes.data.tables.time_axis import Times
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.intervals import block_length
from stakes.evaluation.selection import require_own_name
from stakes.forecasting.parameters import ForecastSettings
from stakes.forecasting.regressor import RegressorFactory
from stakes.models.linear import time_blocks
from stakes.models.residual_model import LocatedFactory
from stakes.settings import shown
from stakes.training.settings import (
    ESTIMATOR_MODELS,
    ImplicitSettings,
    LinearSettings,
    ModelFactory,
    ModelSettings,
    TrainingSettings,
    automatic_settings,
    model_factory,
    present_device,
)
from stakes.training.weight_search import TrainingPlan

ForecastKind = str
"""What the models of a forecast are: "climatology" (without features), "linear", "trees" (boosted), "network" (what the
parameters ask for), or the name of one of the user's own.
"""


@dataclass(frozen=True, eq=False, repr=False)
class ForecasterParameters(ForecastSettings):
    """What a forecaster is asked for; `stakes.DecisionAwareForecaster` says what each parameter means."""

    cost: Cost
    _: KW_ONLY
    model: str | ModelSettings | ModelFactory = "implicit"
    candidates: Mapping[str, Any] | None = None
    gap: int = 0
    outcome_bounds: Pair | Literal["auto"] | None = "auto"
    scoring_rule: str | None = None
    baseline: bool = False
    weights: Sequence[float] = (0.0, 0.1, 0.3)
    training: TrainingSettings | None = None
    refit_on_all_rows: bool = True
    block: int | Literal["auto"] = "auto"
    device: str = "auto"
    n_jobs: int | None = None
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    def of_kind(self, kind: ForecastKind) -> "ForecasterParameters":
        """Those of one of the candidates."""
        if kind == "network":
            seedless = isinstance(based_model(self.model, self.base), LinearSettings)
            return replace(self, ensemble=1) if seedless else self
        return replace(
            self,
            model=simple_model(kind) if kind in SIMPLE_KINDS else self._own_model(kind),
            base="trees" if kind == "trees" else "none",
            ensemble=1,
            decision_weight="auto",
            weights=(0.0,),
            conditioned=False,
        )

    def check(self) -> None:
        """Raise where one of these cannot be used; estimators are not checked before they are fitted."""
        super().check()
        own = self.candidates or {}
        if not isinstance(own, Mapping):
            raise SettingError(f"candidates must be models by their names, got {shown(own)}")
        for name, model in own.items():
            require_own_name("candidates", name)
            if not all(hasattr(model, needed) for needed in ("fit", "get_params")):
                raise SettingError(
                    f"candidates[{name!r}] must be a regressor of scikit-learn's kind, got {shown(model)}"
                )
        if own and not (self.model_selection and self.decision_weight == "auto"):
            raise SettingError('candidates need model_selection=True and decision_weight="auto"')

    def _own_model(self, name: str) -> RegressorFactory:
        if name not in (self.candidates or {}):
            raise SettingError(f"candidates must include {name!r}, which was selected, to fit it again")
        return RegressorFactory((self.candidates or {})[name], whole_number("gap", self.gap, 0))


SIMPLE_KINDS = ("climatology", "linear", "trees")


def simple_model(kind: ForecastKind) -> LinearSettings:
    """The model of a candidate that is not trained in steps; that of trees has the errors around their forecasts."""
    return LinearSettings(constant=kind != "linear")


def trees_are_tried(rows: CaseTable, column: ParameterColumn) -> bool:
    """Whether trees are a candidate: LightGBM is installed, and outcomes, each with trees of its own, are few."""
    few = rows.outcome.shape[1] <= _MOST_OUTCOMES and len(rows) >= _LEAST_ROWS
    return few and not column.conditioned and find_spec("lightgbm") is not None


def based_model(
    model: str | ModelSettings | ModelFactory, base: str, gap: int = 0
) -> str | ModelSettings | ModelFactory:
    """The model on its base: an implicit one gets a linear start unless the base is "none"."""
    gap = whole_number("gap", gap, 0)
    if isinstance(model, str) and model in ESTIMATOR_MODELS:
        model = ESTIMATOR_MODELS[model]()
    if isinstance(model, ImplicitSettings) and (base != "none" or model.linear):
        return replace(model, linear=True, gap=gap or model.gap)
    return replace(model, gap=gap or model.gap) if isinstance(model, LinearSettings) else model


def based_factory(model: str | ModelSettings | ModelFactory, base: str, gap: int = 0) -> ModelFactory:
    """What makes the model on its base from the numbers of features and outcomes."""
    factory = model_factory(based_model(model, base, gap))
    return LocatedFactory(factory) if base == "trees" else factory


_LEAST_ROWS = 20
_MOST_OUTCOMES = 4
_BLOCKS = 5
_ROUNDS, _PATIENCE = 500, 25
_PARAMETERS = {"objective": "regression", "learning_rate": 0.05, "verbosity": -1}
_SAME_EVERY_TIME = {"deterministic": True, "force_col_wise": True}


@dataclass(frozen=True)
class TreeLocation:
    """Where each outcome is to be expected, given the features."""

    texts: tuple[str, ...]  # lightGBM's model of each outcome, in its own text format

    def __call__(self, features: Tensor) -> Tensor:
        """The location of each case, (N, D)."""
        rows = features.double().cpu().numpy()
        columns = [np.asarray(booster.predict(rows)) for booster in self._boosters]
        return torch.from_numpy(np.stack(columns, 1)).to(features)

    def require_widths(self, features: int, outcomes: int) -> None:
        """Raise unless these are trees for so many features and outcomes."""
        widths = [booster.num_feature() for booster in self._boosters]
        if widths != [features] * outcomes:
            raise SettingError(f"trees must be {outcomes} models of {features} features each, got {widths}")

    @cached_property
    def _boosters(self) -> "list[Any]":
        lightgbm = _lightgbm()
        try:
            return [lightgbm.Booster(model_str=text) for text in self.texts]
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise SettingError(f"trees must be in LightGBM's text format: {shown(str(error))}") from error

    def __getstate__(self) -> dict[str, Any]:
        """The texts alone: boosters are made of them again."""
        return {"texts": self.texts}


def fit_trees(features: Tensor, outcome: Tensor, gap: int = 0, seed: int = 0) -> tuple[TreeLocation, Tensor]:
    """Boosted trees for each outcome, as many as are best out of fold; and what the folds forecast, (N, D)."""
    if len(features) < _LEAST_ROWS:
        raise ShapeError(f"base trees needs at least {_LEAST_ROWS} rows to train on, got {len(features)}")
    rows, targets = features.double().numpy(), outcome.double().numpy()
    everything = np.arange(len(rows))
    folds = [
        (np.delete(everything, left_out), everything[block]) for block, left_out in time_blocks(len(rows), gap, _BLOCKS)
    ]
    fitted = [_fit_column(rows, column, folds, seed) for column in targets.T]
    forecasts = torch.from_numpy(np.stack([forecast for _, forecast in fitted], 1))
    return TreeLocation(tuple(text for text, _ in fitted)), forecasts.to(outcome)


def _fit_column(rows: Any, target: Any, folds: list[tuple[Any, Any]], seed: int) -> tuple[str, Any]:
    """The text of the trees of one outcome, and the forecast (N,) of each row by trees that did not see it."""
    lightgbm = _lightgbm()
    parameters = {**_PARAMETERS, **_SAME_EVERY_TIME, "seed": seed}
    data = lightgbm.Dataset(rows, target, params=parameters, free_raw_data=False)
    stopping = lightgbm.early_stopping(_PATIENCE, verbose=False)
    tried = lightgbm.cv(parameters, data, _ROUNDS, folds=folds, callbacks=[stopping], return_cvbooster=True)[
        "cvbooster"
    ]
    forecast = np.empty(len(rows))
    for booster, (_, held_out) in zip(tried.boosters, folds, strict=True):
        forecast[held_out] = booster.predict(rows[held_out], num_iteration=tried.best_iteration)
    booster = lightgbm.train(parameters, data, tried.best_iteration)
    return booster.model_to_string(), forecast


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise SettingError('base trees needs LightGBM: pip install "stakes[trees]"') from error
    return lightgbm


_MEMBERS_TO_CHOOSE = 200  # of the pooled forecasts by which a weight is chosen


class PlannedFit(NamedTuple):
    """A plan for the training, and how its rows are divided."""

    kind: ForecastKind  # what is trained
    training: TrainingPlan  # what is to be trained
    validation_rows: int  # how many rows, the last ones, do not train
    block: int  # how many neighbouring rows belong together
    trees: TreeLocation | None
    validation: CaseTable  # the rows that do not train, with what trees forecast of them
    judged_rows: NDArray[np.int64]  # which of these choose a weight, and stop no training


class DividedRows(NamedTuple):
    """Which rows do what."""

    first: int  # the first validation row; those before it train
    block: int  # how many neighbouring rows belong together
    stopping: NDArray[np.int64]  # the validation rows that decide when to stop, counted from the first of them
    judged: NDArray[np.int64]  # those that choose the weight, likewise


def plan_fit(
    parameters: ForecasterParameters,
    rows: CaseTable,
    kind: ForecastKind = "network",
    *,
    start: Sequence[Mapping[str, Tensor]] = (),
    all_rows: bool = False,
) -> PlannedFit:
    """Plan the training of a forecaster; parameters that cannot be used are refused."""
    parameters.check()
    parameters = parameters.of_kind(kind)
    features, outcome = rows.features, rows.outcome
    weights = _weights(parameters)
    judging = parameters.decision_weight == "auto"
    members, ensemble = int(parameters.members), int(parameters.ensemble)
    if members < ensemble:
        raise SettingError(f"members must be at least {ensemble}, one for each model of the ensemble, got {members}")
    if start and len(start) != ensemble:
        raise SettingError(f"ensemble must be {len(start)}, as in the previous fit, with warm_start, got {ensemble}")
    fraction = parameters.validation_fraction
    first, block, stopping, judged = divided_rows(fraction, parameters.block, len(outcome), rows.times, judging)
    lead = whole_number("gap", parameters.gap, 0)
    judged = judged[judged >= lead] if judged[-1] >= lead else judged  # outcomes before that trained the models
    trained = len(outcome) if all_rows else first
    base = parameters.model, parameters.base, parameters.gap
    settings = _settings(parameters, first, linear=getattr(based_model(*base), "linear", False) is True)
    random = check_random_state(parameters.random_state)
    seed, noise_seed = (int(random.randint(np.iinfo(np.int32).max)) for _ in range(2))
    trees, column = None, ParameterColumn.of(parameters.cost, parameters.conditioned)
    if parameters.base == "trees":
        trees, features = _with_locations(features, outcome[:trained], parameters.gap, seed, column)
    validation = CaseTable(features[first:], outcome[first:])
    training = TrainingPlan(
        cost=parameters.cost,
        factory=based_factory(*base),
        settings=replace(settings, pretraining_epochs=0) if start else settings,
        weights=weights,
        seeds=tuple(range(seed, seed + ensemble)),
        train=CaseTable(features[:trained], outcome[:trained]),
        stopping=validation.rows(stopping),
        members=max(ensemble, min(members, _MEMBERS_TO_CHOOSE)),
        noise_seed=noise_seed,
        device=present_device(parameters.device),
        start=tuple(dict(state) for state in start),
        bounds=outcome_bounds(parameters.outcome_bounds, parameters.cost, outcome),
        conditioned=column.conditioned,
    )
    return PlannedFit(kind, training, len(validation), block, trees, validation, judged)


def divided_rows(
    validation_fraction: float, block: int | Literal["auto"], rows: int, times: Times | None, judging: bool = True
) -> DividedRows:
    """Which of so many rows train, stop the training and choose a weight."""
    held = _validation_rows(validation_fraction, rows, judging)
    first = rows - held
    together = block_length(held, None if times is None else times[first:], block)
    stopping, judged = alternate_blocks(held, together) if judging else (np.arange(held), np.arange(held))
    return DividedRows(first, together, stopping, judged)


def _with_locations(
    features: Tensor, outcome: Tensor, gap: int, seed: int, column: ParameterColumn
) -> tuple[TreeLocation, Tensor]:
    """Trees for the first rows, and the features with what trees forecast that saw neither a row nor its neighbours.

    Trees see no parameter of the cost, which stays the last column.
    """
    if column.conditioned:
        raise SettingError("conditioned needs base linear or none, got base trees")
    first, known = len(outcome), column.without(features)
    trees, out_of_fold = fit_trees(known[:first], outcome, gap, seed)
    locations = torch.cat([out_of_fold, trees(known[first:])])
    return trees, torch.cat([known, locations, features[:, known.shape[1] :]], 1)


def _weights(parameters: ForecasterParameters) -> tuple[float, ...]:
    weight = parameters.decision_weight
    if weight == "auto":
        return tuple(sorted({0.0, *map(float, parameters.weights)}))
    return tuple(sorted({*([0.0] if parameters.baseline else ()), float(weight)}))


def _validation_rows(fraction: float, rows: int, judging: bool) -> int:
    least = 2 if judging else 1
    if rows <= least:
        raise ShapeError(
            f"X must have at least {least + 1} rows, one to train on and {least} for validation, got "
            f"{rows} sample{'s' if rows > 1 else ''}"
        )
    return min(max(least, round(fraction * rows)), rows - 1)


def _settings(parameters: ForecasterParameters, cases: int, linear: bool) -> TrainingSettings:
    """How to train on so many cases, from a linear start or not."""
    epochs = None if parameters.epochs is None else int(parameters.epochs)
    training = parameters.training
    if training is None:
        training = automatic_settings(cases, epochs, linear)
    if not isinstance(training, TrainingSettings):
        raise SettingError(f"training must be TrainingSettings, got {training!r}")
    count = parameters.decision_member_count
    members = None if count is None else int(count)
    given: dict[str, Any] = {"epochs": epochs, "score": parameters.scoring_rule, "decision_member_count": members}
    return replace(training, **{name: value for name, value in given.items() if value is not None})
