"""The estimator behind a saved forecast: what it was asked for, and how it was trained and selected."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, make_dataclass
from numbers import Integral
from typing import Any, Literal, get_type_hints

import numpy as np

from stakes.argument_checks import require_count
from stakes.artifacts.fits import LibraryModel, require_at_most, require_small
from stakes.errors import SettingError
from stakes.evaluation.selection import Frontier, ModelSelection
from stakes.forecasting.fitted_forecast import FittedForecast
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.forecasting.plan import (
    SIMPLE_KINDS,
    ForecasterParameters,
    ForecastKind,
    TreeLocation,
    based_model,
    simple_model,
)
from stakes.json_values import json_value
from stakes.settings import from_plain, to_plain
from stakes.training.settings import (
    ESTIMATOR_MODELS,
    ModelFactory,
    ModelSettings,
    PoolSettings,
    RefitSchedule,
    resolved_device,
)

_STORED = [
    each.name for each in fields(ForecasterParameters) if each.name not in ("cost", "candidates", "n_jobs", "verbose")
]
_STORED_TYPES = {"model": LibraryModel | Literal["own"], "weights": tuple[float, ...], "random_state": int | None}
_TYPES = get_type_hints(ForecasterParameters) | _STORED_TYPES
_StoredParameters = make_dataclass("_StoredParameters", [(name, _TYPES[name]) for name in _STORED], frozen=True)


@dataclass(frozen=True)
class _Found:
    """What fitting found, beside the forecast."""

    kind: ForecastKind
    validation_cases: int  # how many cases decided when to stop, or which weight to take
    frontier: Frontier | None  # how the weight was chosen; None where it was given
    selection: ModelSelection | None  # how each candidate was judged; None without model selection
    found: RefitSchedule | None  # how long the models are to be trained on other rows
    leaks: tuple[str, ...]
    pool: PoolSettings | None = None  # what a pool is made of

    def __post_init__(self) -> None:
        require_count("validation_cases", self.validation_cases)


def model_of(forecaster: DecisionAwareForecaster) -> LibraryModel | Literal["own"]:
    """What makes the models of a forecaster."""
    if forecaster.pool_ is not None:
        return forecaster.pool_
    if forecaster.kind_ not in (*SIMPLE_KINDS, "network"):
        raise SettingError(
            f"the selected forecast is of your own model {forecaster.kind_!r}, and a folder holds no code: keep the "
            "forecaster itself, as with joblib.dump, or fit without that candidate"
        )
    if forecaster.kind_ != "network":
        return simple_model(forecaster.kind_)
    model = based_model(forecaster.model, forecaster.base, forecaster.gap)
    return model if isinstance(model, LibraryModel) else "own"


def training_record(forecaster: DecisionAwareForecaster) -> dict[str, Any]:
    """What training.json holds; it is refused if it could not be read again."""
    given = {name: getattr(forecaster, name) for name in _STORED}
    model, seed = given["model"], given["random_state"]
    model = ESTIMATOR_MODELS[model]() if isinstance(model, str) else model
    given["model"] = to_plain(model) if isinstance(model, LibraryModel) else "own"
    given["random_state"] = seed if isinstance(seed, Integral) else None
    found = _Found(
        forecaster.kind_,
        forecaster.validation_cases_,
        forecaster.frontier_,
        forecaster.selection_,
        forecaster.found_,
        forecaster.leaks_,
        forecaster.pool_,
    )
    parameters: Any = from_plain(_StoredParameters, json_value(given))
    return {"parameters": to_plain(parameters), "found": to_plain(found), "models": list(forecaster.training_)}


def restored_forecaster(
    record: Mapping[str, Any],
    forecast: FittedForecast,
    model: ModelSettings | ModelFactory | None,
    trees: TreeLocation | None,
) -> DecisionAwareForecaster:
    """The estimator as it was fitted, around its forecast."""
    if record.keys() != {"parameters", "found", "models"}:
        raise SettingError(f"parameters, found and models must be given, got {', '.join(map(repr, record))}")
    if not all(isinstance(each, Mapping) for each in record["models"]):
        raise SettingError("models must be tables")
    require_small(record["parameters"])
    given = dict(vars(from_plain(_StoredParameters, record["parameters"], "parameters")))
    found = from_plain(_Found, record["found"], "found")
    _require_alike(given, found, model, trees)
    given["device"] = given["device"] if resolved_device(given["device"]) == forecast.device else "auto"
    forecaster = DecisionAwareForecaster(forecast.cost, **given | {"model": model or given["model"]})
    state, names = forecast.state, forecast.state.feature_names
    forecaster.forecast_, forecaster.trees_ = forecast, trees
    forecaster.n_features_in_, forecaster.n_outputs_ = state.features, len(state.target_names)
    forecaster.target_names_, forecaster.single_output_ = state.target_names, state.single_output
    if names is not None:
        forecaster.feature_names_in_ = np.array(names, dtype=object)
    for name, value in vars(found).items():
        setattr(forecaster, f"{name}_", value)
    forecaster.training_, forecaster.candidate_forecasts_ = list(record["models"]), {}
    return forecaster


def _require_alike(given: Mapping[str, Any], found: _Found, model: object, trees: TreeLocation | None) -> None:
    """Raise where what was asked for cannot be what was saved."""
    if given["model"] == "own" and model is None:
        raise SettingError("the model is the user's own and is not in the folder; pass its factory as model=")
    if given["model"] != "own" and model is not None:
        raise SettingError(f"the folder holds its {given['model'].name} model; model= is for one of the user's own")
    if (found.kind == "pool") != (found.pool is not None):
        raise SettingError(f"pool must be given for a pool and for nothing else, got a forecast of kind {found.kind!r}")
    in_pool = found.pool is not None and any(part.kind == "trees" for part in found.pool.parts)
    on_trees = found.kind == "trees" or in_pool or (given["base"] == "trees" and found.kind == "network")
    if on_trees != (trees is not None):
        raise SettingError(f"base {given['base']} goes with {'no trees' if trees else 'trees'}, got the other")
    require_at_most("ensemble", given["ensemble"])
    require_count("gap", given["gap"], least=0)
