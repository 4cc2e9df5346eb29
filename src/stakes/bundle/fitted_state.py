"""What fitting found and the models themselves, as plain values and named tensors, and the forecaster made of them."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from stakes.bundle.estimator_settings import MOST_MODELS, EstimatorSettings, require_at_most
from stakes.data.outcome_bounds import OutcomeBounds
from stakes.errors import SettingError
from stakes.evaluation.corrections import Correction
from stakes.evaluation.ladder import Ladder
from stakes.evaluation.weight_frontier import Frontier
from stakes.forecaster.base import ForecastKind, based_factory, parameters_of_kind
from stakes.forecaster.estimator import DecisionAwareForecaster
from stakes.forecaster.trees import TreeLocation
from stakes.method.argument_checks import check_finite, require_count, require_decision_weight
from stakes.method.costs import Cost
from stakes.method.models.sample_model import SampleModel
from stakes.method.parameter_column import ParameterColumn
from stakes.method.parameter_range import RangedParameter
from stakes.method.training_settings import ModelSettings
from stakes.training.all_rows import FoundTraining
from stakes.training.many_weights import ModelFactory, resolved_device
from stakes.training.model_folder import load_models, model_keys, state_layout, versions_here
from stakes.training.tensor_files import HEADER_LIMIT

__all__ = ["FittedState", "fitted_state", "model_weights", "restored_forecaster"]

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
    """What fitting found.

    Attributes:
        features: How many features there are.
        feature_names: Their names; None where the table had none.
        target_names: The names of the outcomes.
        single_output: Whether the outcomes came without a second axis.
        decision_weight: The weight that was taken.
        climatology_action: The constant action that was best for the training outcomes, a number for each of its parts
            where it has several, or one for each of some values of a parameter that is a range.
        noise_seed: What the noise of the forecasts is drawn from.
        validation_cases: How many cases decided when to stop, or which weight to take.
        models: How many models the forecast is pooled from.
        baselines: How many models of weight 0 there are beside them.
        frontier: How the weight was chosen; None where it was given.
        versions: The versions of stakes, torch and Python that fitted it.
        trees: For how many outcomes there are trees, all of them or none.
        outcome_bounds: What each outcome cannot cross; None where there are no bounds.
        found: How long its models are to be trained on other rows; None in bundles of earlier versions.
        correction: How members are corrected by past errors; None where they are not.
        baseline_correction: The same for weight 0 beside them.
        kind: What its models are: without features, linear, or what the parameters ask for.
        ladder: How each rung was judged; None where the ladder was not climbed.
        ranged: The parameter of the cost that was a range; None where none was.
        leaks: A sentence for each outcome that features reproduce almost exactly.
    """

    features: int
    feature_names: tuple[str, ...] | None
    target_names: tuple[str, ...]
    single_output: bool
    decision_weight: float
    climatology_action: float | tuple[float, ...]
    noise_seed: int
    validation_cases: int
    models: int
    baselines: int
    frontier: Frontier | None
    versions: dict[str, str]
    trees: int = field(default=0, metadata={"later": True})
    outcome_bounds: OutcomeBounds | None = field(default=None, metadata={"later": True})
    found: FoundTraining | None = field(default=None, metadata={"later": True})
    correction: Correction | None = field(default=None, metadata={"later": True})
    baseline_correction: Correction | None = field(default=None, metadata={"later": True})
    kind: ForecastKind = field(default="network", metadata={"later": True})
    ladder: Ladder | None = field(default=None, metadata={"later": True})
    ranged: RangedParameter | None = field(default=None, metadata={"later": True})
    leaks: tuple[str, ...] = field(default=(), metadata={"later": True})

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
    """What fitting found.

    Args:
        forecaster: The fitted forecaster.
    """
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
        ladder=forecaster.ladder_,
        ranged=forecaster.ranged_,
        leaks=forecaster.leaks_,
    )


def model_weights(forecaster: DecisionAwareForecaster) -> dict[str, dict[str, Tensor]]:
    """The `state_dict` of each model by its key: "model.0." and so on, "baseline.0." of those of weight 0.

    Args:
        forecaster: The fitted forecaster.
    """
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
    """The forecaster as it was fitted; the weights must be those of its models, and finite.

    Args:
        settings: Its parameters.
        state: What fitting found.
        weights: The file of its models' weights.
        sha256: What that file must hash to.
        cost: What it decides for.
        model: The factory of the user's own model; None for one of the library.
        trees: What its models add their forecasts to; None on another base.
    """
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
    forecaster.rung_forecasts_ = {}
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
        given = {"model": settings.model, "base": settings.base}
        known = parameters_of_kind(given, state.kind)
        with torch.device("meta"):
            return based_factory(known["model"], known["base"], settings.gap)(features, outcomes)
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
