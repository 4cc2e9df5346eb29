"""A fitted forecast in a folder: JSON and safetensors, checked when read, with nothing in it that is executed."""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from torch import nn

from stakes.argument_checks import check_finite, require_count
from stakes.artifacts.folder import (
    INPUTS,
    MANIFEST,
    STATE,
    TRAINING,
    WEIGHTS,
    DataFingerprint,
    FittedSpan,
    SavedFolder,
    checked_words,
    chosen_cost,
    errors_name,
    read_kept,
    read_manifest,
    same_cost,
    saved_at_once,
    words_for,
)
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost
from stakes.data.tables.columns import column_numbers
from stakes.data.tables.files import write_table
from stakes.data.tables.layout import DataQuality, TableLayout
from stakes.errors import SettingError, TableError
from stakes.evaluation.case_metrics import JudgedParts, WorthAtValue
from stakes.files import JSON_LIMIT, check_sha256, read_bytes, write_atomically, write_json
from stakes.forecasting.fitted_forecast import FittedForecast, ForecastState
from stakes.forecasting.input_range import InputRange
from stakes.json_values import json_value
from stakes.models.residual_model import LocatedFactory, place_models
from stakes.models.sample_model import SampleModel
from stakes.settings import from_plain, shown
from stakes.training.settings import (
    DiffusionSettings,
    ImplicitSettings,
    LinearSettings,
    ModelFactory,
    ModelSettings,
    PoolSettings,
    model_factory,
    resolved_device,
)
from stakes.training.stored_models import HEADER_LIMIT, load_models, model_keys, save_models, state_layout

if TYPE_CHECKING:
    from stakes.forecasting.forecaster import DecisionAwareForecaster
    from stakes.forecasting.plan import TreeLocation

LibraryModel = ImplicitSettings | DiffusionSettings | LinearSettings | PoolSettings

_MOST_MODELS = 1000  # of an ensemble
_MOST_MEMBERS = 10**6
_MOST_FEATURES = 10**6
_LARGEST_SIZE = 4096  # of any number in a model's settings: what a file says is built before it is compared
_SHORTEST_ENTRY = 50  # bytes, of a tensor in the header of its file
_DEVICE = re.compile(r"(?!meta)[a-z]{2,20}(?::[0-9]{1,3})?")


@dataclass(frozen=True)
class AboutFit:
    """What is known of a fit, each part checked; a fit that was saved from Python need not have any."""

    data: DataFingerprint | None = None  # the table
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    quality: DataQuality | None = None  # what the table was like
    outcomes: tuple[tuple[float, ...], ...] = ()  # some of the training outcomes, (N, D)
    reason: str = ""  # why its decision weight was selected
    bounds: tuple[str, ...] = ()  # a sentence for each bound of an outcome that nobody gave
    leaks: tuple[str, ...] = ()  # a sentence for each outcome that features reproduce almost exactly
    correction: str = ""  # how members are corrected by past errors, in a sentence; empty where they are not
    fitted: FittedSpan | None = None  # which cases it was fitted on
    settings: dict[str, Any] = field(default_factory=dict)  # the settings of the fit, nested by name
    provenance: dict[str, str] = field(default_factory=dict)  # what it was made with and from, by name
    parts: JudgedParts | None = None
    by_parameter: tuple[WorthAtValue, ...] = ()
    alarms: tuple[str, ...] = ()  # sentences on what its test cases say against it

    @classmethod
    def read(cls, about: Mapping[str, Any]) -> Self:
        """What is known of `Bundle.about`; what does not fit is refused by its name."""
        settings = about.get("settings", {})
        if not isinstance(settings, Mapping):
            raise SettingError(f"about.settings must be a table, got {shown(settings)}")
        names = {each.name for each in fields(cls)} - {"settings"}
        typed = {name: value for name, value in about.items() if name in names}
        return replace(from_plain(cls, typed, "about"), settings=dict(settings))


@dataclass(frozen=True, eq=False, kw_only=True)
class Bundle(SavedFolder):
    """A fitted forecast and what is known about it."""

    kind: ClassVar[Literal["fit"]] = "fit"
    forecast: FittedForecast  # ready to forecast and decide
    cost_spec: CostSpec | None  # the cost in words; None for one that has none, as a Python function
    layout: TableLayout | None  # which columns of a table are what; None where the forecaster was saved without
    about: dict[str, Any]  # whatever else was saved
    known: AboutFit  # the same, as far as it is known what it means
    restore: Callable[[], "DecisionAwareForecaster"]

    @cached_property
    def forecaster(self) -> "DecisionAwareForecaster":
        """The estimator that was fitted; nothing of it is read before."""
        return self.restore()

    def layout_of(self, folder: Path) -> TableLayout:
        """What the columns of its table are; a forecaster saved from Python may have none."""
        if self.layout is None:
            raise SettingError(f"{folder} was saved without the layout of its table; use its forecaster from Python")
        return self.layout


def save_bundle(
    folder: Path,
    forecaster: "DecisionAwareForecaster",
    *,
    cost_spec: CostSpec | None = None,
    layout: TableLayout | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted forecaster; what was in the folder before is kept until all is written.

    Args:
        folder: Where to save it, created if necessary. A folder that holds something else is refused.
        forecaster: The fitted forecaster.
        cost_spec: Its cost in text. A cost of the library needs none; any other without a text must be given again to
            `load_bundle`.
        layout: Roles of the columns of the table, so that tables can be given later; None saves none.
        about: What else is known of the fit, in values that JSON can hold; see `Bundle`.
    """
    from stakes.artifacts.estimator import model_of, training_record

    folder, words = Path(folder), words_for(forecaster.cost) if cost_spec is None else cost_spec
    forecast, trees = forecaster.forecast, forecaster.trees_
    if not (words is None or words.is_own or same_cost(words.build(), forecaster.cost)):
        raise SettingError(f"cost_spec must be that of the forecaster's cost {forecaster.cost}, got {words}")
    stored = StoredForecast(
        model=model_of(forecaster),
        models=len(forecast.models),
        baselines=len(forecast.baseline_models),
        trees=0 if trees is None else len(trees.texts),
        device=forecaster.device,
        forecast=forecast.state,
    )
    known = json_value(about or {})
    AboutFit.read(known)
    if layout is not None:
        _require_same_names(layout, forecast.state)
    record = None if words is None else checked_words(words).record()
    with saved_at_once(folder, "fit", record, layout, known) as stage:
        write_json(stage / STATE, json_value(stored))
        write_json(stage / TRAINING, json_value(training_record(forecaster)))
        write_table(_input_table(forecast.inputs, forecast.state.named_features), stage / INPUTS)
        states = [model.state_dict() for model in (*forecast.models, *forecast.baseline_models)]
        save_models(stage / WEIGHTS, dict(zip(stored.keys, states, strict=True)))
        for name, text in zip(stored.tree_files, () if trees is None else trees.texts, strict=True):
            write_atomically(stage / name, text.encode())
    return folder


def load_bundle(
    folder: Path, *, cost: Cost | CostSpec | None = None, model: ModelSettings | ModelFactory | None = None
) -> Bundle:
    """Read a fit. Parts that came from your own code are not in the folder and must be given.

    Args:
        folder: Where it was saved.
        cost: Your own cost, again; or another cost, for which the decisions are then made.
        model: The factory of your own model, again; None for a model of the library.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, "fit")
    with errors_name(folder / MANIFEST):
        decided_for, words, notes = chosen_cost(manifest.cost, cost)
        about = manifest.about or {}
        known = AboutFit.read(about)
        layout = None if manifest.layout is None else from_plain(TableLayout, manifest.layout, "layout")
    with errors_name(folder / STATE):
        stored = StoredForecast.read(manifest.part(folder, STATE))
        if stored.model == "own" and model is None:
            raise SettingError("the model is the user's own and is not in the folder; pass its factory as model=")
    with errors_name(folder / MANIFEST):
        if layout is not None:
            _require_same_names(layout, stored.forecast)
        trees: Any = None
        if stored.trees:
            from stakes.forecasting.plan import TreeLocation

            trees = TreeLocation(manifest.tree_texts(folder, stored.tree_files))
            trees.require_widths(stored.forecast.features, len(stored.forecast.target_names))
    with errors_name(folder / INPUTS):
        kept = read_kept(folder / INPUTS, manifest.files[INPUTS], _MOST_FEATURES)
        inputs = _inputs_of(kept, stored.forecast.named_features)
    with errors_name(folder / WEIGHTS):
        forecast = stored.restored(folder / WEIGHTS, manifest.files[WEIGHTS], decided_for, model, trees, inputs)
    if stored.device not in ("auto", forecast.device):
        notes += (f"there is no device {stored.device} here; the forecast is computed on another",)
    with errors_name(folder / TRAINING):
        check_sha256(str(folder / TRAINING), read_bytes(folder / TRAINING, JSON_LIMIT), manifest.files[TRAINING])

    def restore() -> "DecisionAwareForecaster":
        from stakes.artifacts.estimator import restored_forecaster

        with errors_name(folder / TRAINING):
            return restored_forecaster(manifest.part(folder, TRAINING), forecast, model, trees)

    bundle = Bundle(
        forecast=forecast,
        cost_spec=words,
        layout=layout,
        about=about,
        known=known,
        restore=restore,
        **manifest.of_folder(folder, notes, (sentence.removesuffix(".") for sentence in known.alarms)),
    )
    if model is not None:
        bundle.forecaster  # noqa: B018  which refuses the factory of a model that is not needed
    return bundle


@dataclass(frozen=True)
class StoredForecast:
    """What state.json holds: a fitted forecast, and what its models are made of."""

    model: LibraryModel | Literal["own"]  # what makes each model, from the numbers of features and outcomes
    models: int  # how many models the forecast is pooled from
    baselines: int  # how many models of weight 0 there are beside them
    trees: int  # how many outcomes have trees, to whose forecasts the models add theirs; 0 for none
    device: str  # where the models are computed
    forecast: ForecastState

    def __post_init__(self) -> None:
        require_at_most("models", self.models)
        require_at_most("forecast.members", self.forecast.members, _MOST_MEMBERS)
        if self.baselines:
            require_at_most("baselines", self.baselines)
        if self.trees not in (0, len(self.forecast.target_names)):
            raise SettingError(f"trees must be 0 or one for each of the outcomes, got {self.trees}")
        if not _DEVICE.fullmatch(self.device):
            raise SettingError(f'device must be "auto" or a device of torch, got {shown(self.device)}')
        resolved_device(self.device)  # which knows them

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """From JSON."""
        require_small(values)
        return from_plain(cls, values)

    @property
    def keys(self) -> list[str]:
        """What the names of the tensors of each model begin with."""
        return [*model_keys(self.models), *model_keys(self.baselines, "baseline")]

    @property
    def tree_files(self) -> list[str]:
        """The names of the files of the trees."""
        return [f"trees-{place}.txt" for place in range(self.trees)]

    def restored(
        self,
        weights: Path,
        sha256: str,
        cost: Cost,
        own: ModelSettings | ModelFactory | None,
        trees: "TreeLocation | None",
        inputs: InputRange,
    ) -> FittedForecast:
        """The forecast as it was fitted; the weights must be those of its models, and finite."""
        models = _with_weights(self._untrained(own), self.keys, weights, sha256)
        if trees is not None:
            place_models(models, trees)
        chosen, baselines = models[: self.models], models[self.models :]
        return FittedForecast(cost, self.forecast, inputs, chosen, baselines, _present(self.device))

    def _untrained(self, own: ModelSettings | ModelFactory | None) -> nn.Module:
        """A model of the right shapes; one of the library's takes no memory until there are weights for it."""
        column = self.forecast.parameter_column
        around_trees = self.trees if not isinstance(self.model, PoolSettings) else 0  # a pool has parts around them
        features = self.forecast.features + around_trees + column.conditioned
        factory = model_factory(self.model if own is None or self.model != "own" else own)
        factory = LocatedFactory(factory) if around_trees else factory
        if self.model != "own":
            with torch.device("meta"):
                return factory(features, len(self.forecast.target_names))
        with torch.random.fork_rng(devices=[]):
            model = factory(features, len(self.forecast.target_names))
        if not isinstance(model, nn.Module) or not isinstance(model, SampleModel):
            raise SettingError(f"model must make a torch module with the methods of SampleModel, got {type(model)}")
        return model


def _with_weights(untrained: nn.Module, keys: Sequence[str], path: Path, sha256: str) -> list[nn.Module]:
    """A copy of the model for every key, with the weights that the file has for it."""
    layout = state_layout(untrained)
    if len(keys) * len(layout) * _SHORTEST_ENTRY > HEADER_LIMIT:
        raise SettingError(f"no file holds {len(keys)} models of {len(layout)} tensors")
    has_no_memory, models = any(value.is_meta for value in untrained.state_dict().values()), []
    for key, weights in zip(keys, load_models(path, sha256, keys, layout), strict=True):
        for name, tensor in weights.items():
            check_finite(tensor, f"{path}: {key}{name}", True)
        model = copy.deepcopy(untrained)
        # In place of tensors without memory; `to_empty` would import sympy, for half a second.
        model.load_state_dict({name: tensor.clone() for name, tensor in weights.items()}, assign=has_no_memory)
        models.append(model.requires_grad_(False).eval())
    return models


_FACTS = ("mean", "scale", "lower", "upper", "largest")


def _input_table(inputs: InputRange, names: Sequence[str]) -> pd.DataFrame:
    """A row for each feature, with its correlations where they are known."""
    facts = {name: getattr(inputs, name) for name in _FACTS}
    table = pd.DataFrame({"name": names, "rows": inputs.rows, **facts})
    if inputs.correlation is None:
        return table
    columns = [f"with {place}" for place in range(len(names))]
    return pd.concat([table, pd.DataFrame(inputs.correlation, columns=columns)], axis=1)


def _inputs_of(table: pd.DataFrame, names: Sequence[str]) -> InputRange:
    """What `_input_table` made a table of."""
    if "name" not in table.columns or tuple(map(str, table["name"])) != tuple(names):
        raise TableError("name must hold the features of the fit")
    facts = column_numbers(table, ["rows", *_FACTS], INPUTS)
    correlation = None
    if len(table.columns) > 2 + len(_FACTS):
        correlation = column_numbers(table, [f"with {place}" for place in range(len(names))], INPUTS)
        possible = np.isfinite(correlation).all() and np.allclose(correlation, correlation.T)
        if not possible or np.linalg.eigvalsh(correlation).min() <= 0:
            raise TableError("correlations must be finite, symmetric and positive definite")
    rows, mean, scale, lower, upper, largest = facts.T
    if not np.isfinite(facts).all() or scale.min() <= 0:
        raise TableError("facts must be finite, and scales positive")
    return InputRange(int(rows[0]), mean, scale, lower, upper, largest, correlation)


def require_small(values: object) -> None:
    """Raise where a number of the model is large, before it is made: a schedule of 10^12 steps fills the memory."""
    model = values.get("model") if isinstance(values, Mapping) else None
    if not isinstance(model, Mapping):
        return
    parts = model.get("parts")
    for part in parts if isinstance(parts, list) else ():
        require_small({"model": part})
        require_small(part)
    for name, value in model.items():
        if isinstance(value, int) and value > _LARGEST_SIZE:
            raise SettingError(f"model.{name} must be at most {_LARGEST_SIZE}, got {shown(value)}")


def require_at_most(name: str, value: int, most: int = _MOST_MODELS) -> None:
    """Raise unless the value is a whole number from 1 to `most`."""
    require_count(name, value)
    if value > most:
        raise SettingError(f"{name} must be at most {most}, got {shown(value)}")


def _present(device: str) -> str:
    """The device as torch names it, or the one of this machine where there is no such."""
    try:
        torch.empty(0, device=resolved_device(device))
    except (AssertionError, NotImplementedError, RuntimeError):
        return resolved_device("auto")
    return resolved_device(device)


def _require_same_names(layout: TableLayout, state: ForecastState) -> None:
    """Raise unless the layout is one of the forecast's features and targets."""
    pairs = {
        "targets": (layout.targets, state.target_names),
        "feature_names": (layout.feature_names, state.named_features),
    }
    for name, (names, due) in pairs.items():
        if names != due:
            raise SettingError(f"layout.{name} must be {_listed(due)} as in {STATE}, got {_listed(names)}")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(shown, names[:5])) + (f" and {len(names) - 5} more" if names[5:] else "")
