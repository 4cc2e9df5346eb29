"""A fitted forecaster as plain values and named tensors, and back."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from stakes.errors import SettingError
from stakes.evaluation.weight_frontier import Frontier
from stakes.forecaster import DecisionAwareForecaster
from stakes.json_values import json_value
from stakes.method.argument_checks import check_finite, require_count
from stakes.method.costs import Cost
from stakes.method.models.sample_model import SampleModel
from stakes.method.training_settings import DiffusionSettings, ImplicitSettings, ModelSettings, TrainingSettings
from stakes.settings import from_plain, shown, to_plain
from stakes.training.many_weights import MODELS, ModelFactory, model_factory, resolved_device
from stakes.training.tensor_files import HEADER_LIMIT, load_tensors

__all__ = ["EstimatorSettings", "FittedState", "settings_from_plain", "settings_of", "state_of"]
__all__ += ["restored", "tensors_of"]

_LARGEST_MODEL = 4096  # of any number in a model's settings: what a file says is built before it is compared
_LARGEST_MEMBERS = 10**6
_LARGEST_ENSEMBLE = 1000
_SHORTEST_ENTRY = 50  # bytes, of a tensor in the header of its file
_DEVICE = re.compile(r"(?!meta)[a-z]{2,20}(?::[0-9]{1,3})?")


@dataclass(frozen=True)
class EstimatorSettings:
    """The estimator's parameters but its cost; `model` is "own" where the user's factory made it.

    `n_jobs` and `verbose` are no matter of the fitted forecaster.
    """

    model: ImplicitSettings | DiffusionSettings | Literal["own"]
    decision_weight: float | Literal["auto"]
    weights: tuple[float, ...]
    baseline: bool
    members: int
    ensemble: int
    epochs: int | None
    training: TrainingSettings | None
    validation_fraction: float
    tolerance: float
    block: int | Literal["auto"]
    device: str
    random_state: int | None
    warm_start: bool = False

    def __post_init__(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            raise SettingError(f'device must be "auto" or a device of torch, got {shown(self.device)}')
        resolved_device(self.device)  # which knows them
        _require_at_most("members", self.members, _LARGEST_MEMBERS)
        _require_at_most("ensemble", self.ensemble, _LARGEST_ENSEMBLE)


@dataclass(frozen=True)
class FittedState:
    """What fitting found; the names of features are None where the table had none."""

    features: int
    feature_names: tuple[str, ...] | None
    target_names: tuple[str, ...]
    single_output: bool
    decision_weight: float
    climatology_action: float
    noise_seed: int
    validation_cases: int
    models: int
    baselines: int
    frontier: Frontier | None

    def __post_init__(self) -> None:
        require_count("features", self.features)
        require_count("noise_seed", self.noise_seed, least=0)
        require_count("validation_cases", self.validation_cases)
        _require_at_most("models", self.models, _LARGEST_ENSEMBLE)
        if self.feature_names is not None and len(self.feature_names) != self.features:
            raise SettingError(f"feature_names must be {self.features} names, got {len(self.feature_names)}")
        if not self.target_names or (self.single_output and len(self.target_names) > 1):
            raise SettingError(
                f"target_names must be one or more names, one for a single output, got {len(self.target_names)}"
            )
        if not 0 <= self.decision_weight <= 1:
            raise SettingError(f"decision_weight must lie in [0, 1], got {self.decision_weight}")
        if self.baselines:
            _require_at_most("baselines", self.baselines, _LARGEST_ENSEMBLE)


def settings_from_plain(values: Mapping[str, Any]) -> EstimatorSettings:
    """The settings of a file, the model's numbers looked at first: a mere schedule of 10^12 steps fills the memory."""
    model = values.get("model")
    for name, value in model.items() if isinstance(model, Mapping) else ():
        if isinstance(value, int) and value > _LARGEST_MODEL:
            raise SettingError(f"model.{name} must be at most {_LARGEST_MODEL}, got {shown(value)}")
    return from_plain(EstimatorSettings, values)


def settings_of(forecaster: DecisionAwareForecaster) -> EstimatorSettings:
    """The settings, in a form that `settings_from_plain` reads."""
    given = {field.name: getattr(forecaster, field.name) for field in fields(EstimatorSettings)}
    model, seed = given["model"], given["random_state"]
    if isinstance(model, str):
        model = MODELS[model]
    given["model"] = to_plain(model) if isinstance(model, (ImplicitSettings, DiffusionSettings)) else "own"
    given["random_state"] = seed if isinstance(seed, Integral) else None
    return settings_from_plain(json_value(given))


def state_of(forecaster: DecisionAwareForecaster) -> FittedState:
    """What fitting found."""
    names = getattr(forecaster, "feature_names_in_", None)
    return FittedState(
        features=forecaster.n_features_in_,
        feature_names=None if names is None else tuple(map(str, names)),
        target_names=tuple(forecaster.target_names_),
        single_output=forecaster.single_output_,
        decision_weight=forecaster.decision_weight_,
        climatology_action=forecaster.climatology_action_,
        noise_seed=forecaster.noise_seed_,
        validation_cases=forecaster.validation_cases_,
        models=len(forecaster.models_),
        baselines=len(forecaster.baseline_models_),
        frontier=forecaster.frontier_,
    )


def tensors_of(forecaster: DecisionAwareForecaster) -> dict[str, Tensor]:
    """The weights of all models: "model.0.KEY" and, of those of weight 0, "baseline.0.KEY"."""
    models, baselines = forecaster.models_, forecaster.baseline_models_
    keys = [*_keys("model", len(models)), *_keys("baseline", len(baselines))]
    states = {key: model.state_dict() for key, model in zip(keys, [*models, *baselines], strict=True)}
    return {key + name: value for key, state in states.items() for name, value in state.items()}


def restored(
    settings: EstimatorSettings,
    state: FittedState,
    weights: Path,
    sha256: str,
    cost: Cost,
    model: ModelSettings | ModelFactory | None = None,
) -> DecisionAwareForecaster:
    """The forecaster as it was fitted; the weights must be those of its models, and finite."""
    keys = [*_keys("model", state.models), *_keys("baseline", state.baselines)]
    made = _with_weights(_untrained(settings, state, model), keys, weights, sha256)
    given = {field.name: getattr(settings, field.name) for field in fields(settings)}
    given |= {"model": model or settings.model, "device": _present(settings.device)}
    forecaster = DecisionAwareForecaster(cost, **given)
    forecaster.models_, forecaster.baseline_models_ = made[: state.models], made[state.models :]
    forecaster.n_features_in_, forecaster.n_outputs_ = state.features, len(state.target_names)
    if state.feature_names is not None:
        forecaster.feature_names_in_ = np.array(state.feature_names, dtype=object)
    for name in set(vars(state)) - {"features", "feature_names", "models", "baselines"}:
        setattr(forecaster, f"{name}_", getattr(state, name))
    return forecaster


def _keys(kind: str, count: int) -> list[str]:
    return [f"{kind}.{index}." for index in range(count)]


def _untrained(settings: EstimatorSettings, state: FittedState, own: ModelSettings | ModelFactory | None) -> nn.Module:
    """A model of the right shapes; one of the library's takes no memory until there are weights for it."""
    features, outcomes = state.features, len(state.target_names)
    if settings.model != "own":
        with torch.device("meta"):
            return settings.model.build(features, outcomes)
    assert own is not None
    with torch.random.fork_rng(devices=[]):
        model = model_factory(own)(features, outcomes)
    if not isinstance(model, nn.Module) or not isinstance(model, SampleModel):
        raise SettingError(f"model must make a torch module with the methods of SampleModel, got {type(model)}")
    return model


def _with_weights(untrained: nn.Module, keys: Sequence[str], path: Path, sha256: str) -> list[nn.Module]:
    """A copy of the model for every key, with the weights that the file has for it."""
    shapes = {name: (value.dtype, tuple(value.shape)) for name, value in untrained.state_dict().items()}
    if len(keys) * len(shapes) * _SHORTEST_ENTRY > HEADER_LIMIT:
        raise SettingError(f"no file holds {len(keys)} models of {len(shapes)} tensors")
    tensors = load_tensors(path, sha256, {key + name: shape for key in keys for name, shape in shapes.items()})
    for name, tensor in tensors.items():
        check_finite(tensor, f"{path}: {name}", True)
    models = []
    for key in keys:
        model = copy.deepcopy(untrained)
        if any(value.is_meta for value in model.state_dict().values()):
            model.to_empty(device="cpu")
        model.load_state_dict({name: tensors[key + name] for name in shapes})
        models.append(model.requires_grad_(False).eval())
    return models


def _present(device: str) -> str:
    """The device, or "auto" where there is no such one."""
    try:
        torch.empty(0, device=resolved_device(device))
    except (AssertionError, NotImplementedError, RuntimeError):
        return "auto"
    return device


def _require_at_most(name: str, value: int, most: int) -> None:
    require_count(name, value)
    if value > most:
        raise SettingError(f"{name} must be at most {most}, got {shown(value)}")
