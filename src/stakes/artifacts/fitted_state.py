"""What fitting found and the models themselves, as plain values and named tensors, and the forecaster made of them."""

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

from stakes.argument_checks import check_finite, require_count, require_decision_weight
from stakes.costs.cost import Cost
from stakes.costs.parameter_column import ParameterColumn, RangedParameter
from stakes.data.forecasts.quantiles import OutcomeBounds
from stakes.errors import SettingError
from stakes.evaluation.selection import Frontier, ModelSelection
from stakes.files import check_sha256, read_bytes, write_atomically
from stakes.forecasting.corrections import Correction
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.forecasting.plan import Base, ForecastKind, TreeLocation, based_factory, simple_model
from stakes.json_values import json_value
from stakes.models.sample_model import SampleModel
from stakes.settings import from_plain, shown, to_plain
from stakes.training.settings import (
    ESTIMATOR_MODELS,
    DiffusionSettings,
    ImplicitSettings,
    LinearSettings,
    ModelFactory,
    ModelSettings,
    RefitSchedule,
    TrainingSettings,
    resolved_device,
)
from stakes.training.stored_models import HEADER_LIMIT, load_models, model_keys, state_layout, versions_here

MOST_MODELS = 1000  # of an ensemble
_MOST_MEMBERS = 10**6
_LARGEST_SIZE = 4096  # of any number in a model's settings: what a file says is built before it is compared
_LIBRARY_MODELS = (ImplicitSettings, DiffusionSettings, LinearSettings)
_DEVICE = re.compile(r"(?!meta)[a-z]{2,20}(?::[0-9]{1,3})?")


@dataclass(frozen=True)
class EstimatorSettings:
    """The parameters of `stakes.DecisionAwareForecaster`, but `cost`, `n_jobs` and `verbose`."""

    model: ImplicitSettings | DiffusionSettings | LinearSettings | Literal["own"]
    decision_weight: float | Literal["auto"]  # the weight that was asked for; "auto" chose it
    weights: tuple[float, ...]  # which weights "auto" chose among
    baseline: bool  # whether weight 0 was trained beside a weight that was given
    members: int  # how many members a forecast has
    ensemble: int  # how many models are pooled into one forecast
    epochs: int | None  # how long the training was to be; None for what suits the number of rows
    training: TrainingSettings | None  # all else about the training; None for what suits the number of rows
    validation_fraction: float  # the share of the rows, the last ones, that decided when to stop
    tolerance: float | None  # by how many per cent the energy score may lie above that of weight 0; None for no limit
    block: int | Literal["auto"]  # how many neighbouring rows belong together; "auto" tells by their times
    device: str  # where the models are computed
    random_state: int | None  # the seed; None where it was none or a generator
    warm_start: bool  # whether a second fit starts from the models of the first
    base: Base  # what the forecast starts from
    gap: int  # how many rows the lead time has
    outcome_bounds: tuple[float | None, float | None] | Literal["auto"] | None
    scoring_rule: str | None
    decision_member_count: int | None
    refit_on_all_rows: bool
    recent_errors: bool
    model_selection: bool
    conditioned: bool

    def __post_init__(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            raise SettingError(f'device must be "auto" or a device of torch, got {shown(self.device)}')
        resolved_device(self.device)  # which knows them
        require_at_most("members", self.members, _MOST_MEMBERS)
        require_at_most("ensemble", self.ensemble, MOST_MODELS)
        require_count("gap", self.gap, least=0)


def settings_from_plain(values: Mapping[str, Any]) -> EstimatorSettings:
    """The settings of a file, the model's numbers looked at first: a mere schedule of 10^12 steps fills the memory."""
    model = values.get("model")
    for name, value in model.items() if isinstance(model, Mapping) else ():
        if isinstance(value, int) and value > _LARGEST_SIZE:
            raise SettingError(f"model.{name} must be at most {_LARGEST_SIZE}, got {shown(value)}")
    return from_plain(EstimatorSettings, values)


def estimator_settings(forecaster: DecisionAwareForecaster) -> EstimatorSettings:
    """The settings of a forecaster; they are refused if `settings_from_plain` would not read them again."""
    given = {field.name: getattr(forecaster, field.name) for field in fields(EstimatorSettings)}
    model, seed = given["model"], given["random_state"]
    if isinstance(model, str):
        model = ESTIMATOR_MODELS[model]
    given["model"] = to_plain(model) if isinstance(model, _LIBRARY_MODELS) else "own"
    given["random_state"] = seed if isinstance(seed, Integral) else None
    return settings_from_plain(json_value(given))


def require_at_most(name: str, value: int, most: int) -> None:
    """Raise unless the value is a whole number from 1 to `most`."""
    require_count(name, value)
    if value > most:
        raise SettingError(f"{name} must be at most {most}, got {shown(value)}")


_SHORTEST_ENTRY = 50  # bytes, of a tensor in the header of its file
_NOT_ATTRIBUTES = {
    "features",
    "feature_names",
    "models",
    "baselines",
    "versions",
    "trees",
}  # of the forecaster, with a _


@dataclass(frozen=True)
class FittedState:
    """What fitting found."""

    features: int  # how many features there are
    feature_names: tuple[str, ...] | None  # their names; None where the table had none
    target_names: tuple[str, ...]  # the names of the outcomes
    single_output: bool  # whether the outcomes came without a second axis
    decision_weight: float  # the selected weight
    climatology_action: float | tuple[float, ...]
    noise_seed: int  # what the noise of the forecasts is drawn from
    validation_cases: int  # how many cases decided when to stop, or which weight to take
    models: int  # how many models the forecast is pooled from
    baselines: int  # how many models of weight 0 there are beside them
    frontier: Frontier | None  # how the weight was chosen; None where it was given
    versions: dict[str, str]  # the versions of stakes, torch and Python that fitted it
    trees: int
    outcome_bounds: OutcomeBounds | None
    found: RefitSchedule | None
    correction: Correction | None
    baseline_correction: Correction | None
    kind: ForecastKind
    selection: ModelSelection | None
    ranged: RangedParameter | None
    leaks: tuple[str, ...]

    def __post_init__(self) -> None:
        require_count("features", self.features)
        require_count("noise_seed", self.noise_seed, least=0)
        require_count("validation_cases", self.validation_cases)
        require_at_most("models", self.models, MOST_MODELS)
        if self.feature_names is not None and len(self.feature_names) != self.features:
            raise SettingError(f"feature_names must be {self.features} names, got {len(self.feature_names)}")
        if not self.target_names or (self.single_output and len(self.target_names) > 1):
            raise SettingError(
                f"target_names must be one or more names, one for a single output, got {len(self.target_names)}"
            )
        require_decision_weight(self.decision_weight)
        if self.trees not in (0, len(self.target_names)):
            raise SettingError(f"trees must be 0 or one for each of {len(self.target_names)}, got {self.trees}")
        if self.outcome_bounds is not None and len(self.outcome_bounds.pairs) != len(self.target_names):
            raise SettingError(f"outcome_bounds must be {len(self.target_names)} pairs, got others")
        for name in ("correction", "baseline_correction"):
            correction = getattr(self, name)
            if correction is not None and correction.outcomes != len(self.target_names):
                raise SettingError(f"{name} must be of {len(self.target_names)} outcomes, got {correction.outcomes}")
        if self.baselines:
            require_at_most("baselines", self.baselines, MOST_MODELS)

    @property
    def named_features(self) -> tuple[str, ...]:
        """The names of the features, x0, x1 and so on where the table had none."""
        return self.feature_names or tuple(f"x{index}" for index in range(self.features))


def fitted_state(forecaster: DecisionAwareForecaster) -> FittedState:
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
        versions=versions_here(),
        outcome_bounds=forecaster.outcome_bounds_,
        trees=0 if forecaster.trees_ is None else len(forecaster.trees_.texts),
        found=forecaster.found_,
        correction=forecaster.correction_,
        baseline_correction=forecaster.baseline_correction_,
        kind=forecaster.kind_,
        selection=forecaster.selection_,
        ranged=forecaster.ranged_,
        leaks=forecaster.leaks_,
    )


def model_weights(forecaster: DecisionAwareForecaster) -> dict[str, dict[str, Tensor]]:
    """The `state_dict` of each model by its key: "model.0." and so on, "baseline.0." of those of weight 0."""
    models = [*forecaster.models_, *forecaster.baseline_models_]
    keys = _keys(len(forecaster.models_), len(forecaster.baseline_models_))
    return {key: model.state_dict() for key, model in zip(keys, models, strict=True)}


def restored_forecaster(
    settings: EstimatorSettings,
    state: FittedState,
    weights: Path,
    sha256: str,
    cost: Cost,
    model: ModelSettings | ModelFactory | None = None,
    trees: TreeLocation | None = None,
) -> DecisionAwareForecaster:
    """The forecaster as it was fitted; the weights must be those of its models, and finite."""
    if (settings.base == "trees" and state.kind == "network") != (trees is not None):
        raise SettingError(f"base {settings.base} goes with {'no trees' if trees else 'trees'}, got the other")
    keys = _keys(state.models, state.baselines)
    models = _with_weights(_untrained(settings, state, model), keys, weights, sha256)
    given = {each.name: getattr(settings, each.name) for each in fields(settings)}
    given |= {"model": model or settings.model, "device": _present(settings.device)}
    forecaster = DecisionAwareForecaster(cost, **given)
    forecaster.models_, forecaster.baseline_models_ = models[: state.models], models[state.models :]
    forecaster.n_features_in_, forecaster.n_outputs_ = state.features, len(state.target_names)
    if state.feature_names is not None:
        forecaster.feature_names_in_ = np.array(state.feature_names, dtype=object)
    forecaster.candidate_forecasts_ = {}
    for name in vars(state).keys() - _NOT_ATTRIBUTES:
        setattr(forecaster, f"{name}_", getattr(state, name))
    forecaster.place_on(trees)
    return forecaster


def _keys(models: int, baselines: int) -> list[str]:
    return [*model_keys(models), *model_keys(baselines, "baseline")]


def _untrained(settings: EstimatorSettings, state: FittedState, own: ModelSettings | ModelFactory | None) -> nn.Module:
    """A model of the right shapes; one of the library's takes no memory until there are weights for it."""
    column = ParameterColumn(state.ranged, settings.conditioned and state.kind == "network")
    features, outcomes = state.features + state.trees + column.conditioned, len(state.target_names)
    if settings.model != "own" or state.kind != "network":
        simple = None if state.kind == "network" else simple_model(state.kind)
        with torch.device("meta"):
            return based_factory(simple or settings.model, "none" if simple else settings.base, settings.gap)(
                features, outcomes
            )
    assert own is not None
    with torch.random.fork_rng(devices=[]):
        model = based_factory(own, settings.base, settings.gap)(features, outcomes)
    if not isinstance(model, nn.Module) or not isinstance(model, SampleModel):
        raise SettingError(f"model must make a torch module with the methods of SampleModel, got {type(model)}")
    return model


def _with_weights(untrained: nn.Module, keys: Sequence[str], path: Path, sha256: str) -> list[nn.Module]:
    """A copy of the model for every key, with the weights that the file has for it."""
    layout = state_layout(untrained)
    if len(keys) * len(layout) * _SHORTEST_ENTRY > HEADER_LIMIT:
        raise SettingError(f"no file holds {len(keys)} models of {len(layout)} tensors")
    models = []
    for key, weights in zip(keys, load_models(path, sha256, keys, layout), strict=True):
        for name, tensor in weights.items():
            check_finite(tensor, f"{path}: {key}{name}", True)
        model = copy.deepcopy(untrained)
        if any(value.is_meta for value in model.state_dict().values()):
            model.to_empty(device="cpu")
        model.load_state_dict(weights)
        models.append(model.requires_grad_(False).eval())
    return models


def _present(device: str) -> str:
    """The device, or "auto" where there is no such one."""
    try:
        torch.empty(0, device=resolved_device(device))
    except (AssertionError, NotImplementedError, RuntimeError):
        return "auto"
    return device


_LARGEST = 2**28  # bytes, of a file


def save_trees(folder: Path, trees: TreeLocation | None) -> tuple[str, ...]:
    """Write the trees of each outcome; returns the names of the files."""
    texts = () if trees is None else trees.texts
    names = _names(len(texts))
    for name, text in zip(names, texts, strict=True):
        write_atomically(folder / name, text.encode())
    return names


def load_trees(folder: Path, files: Mapping[str, str], state: FittedState) -> TreeLocation | None:
    """The trees of a bundle, or None where its forecast has another base."""
    if not state.trees:
        return None
    texts = []
    for name in _names(state.trees):
        if name not in files:
            raise SettingError(f"files must name {name}")
        content = read_bytes(folder / name, _LARGEST)
        check_sha256(str(folder / name), content, files[name])
        texts.append(_decoded(name, content))
    trees = TreeLocation(tuple(texts))
    trees.require_widths(state.features, len(state.target_names))
    return trees


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"trees-{index}.txt" for index in range(count))


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SettingError(f"{name} must be text, got {shown(str(error))}") from error
