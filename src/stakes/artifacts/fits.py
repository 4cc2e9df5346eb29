"""A fitted forecaster in a folder: JSON and safetensors, checked when read, with nothing in it that is executed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stakes.artifacts.cost import checked_words, chosen_cost, same_cost, words_for
from stakes.artifacts.fitted_state import (
    EstimatorSettings,
    FittedState,
    estimator_settings,
    fitted_state,
    load_trees,
    model_weights,
    restored_forecaster,
    save_trees,
    settings_from_plain,
)
from stakes.artifacts.manifest import (
    FORMAT,
    BundleManifest,
    DataFingerprint,
    committed_at_once,
    errors_name,
    read_manifest,
)
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost
from stakes.data.tables.layout import DataQuality, TableLayout
from stakes.errors import BundleError, SettingError
from stakes.evaluation.case_metrics import WorthAtValue
from stakes.evaluation.selection import Headroom
from stakes.evaluation.vector_cases import JudgedParts
from stakes.files import write_json
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.json_values import json_value
from stakes.settings import from_plain, shown, to_plain
from stakes.training.settings import ModelFactory, ModelSettings
from stakes.training.stored_models import (
    MANIFEST,
    METRICS,
    PARTS,
    SETTINGS,
    STATE,
    WEIGHTS,
    read_json_table,
    read_lines,
    save_models,
    write_lines,
)


@dataclass(frozen=True)
class FittedSpan:
    """Which cases a forecaster was fitted on."""

    cases: int  # how many there are
    first: str | None = None  # the time of the first one, ISO in UTC; None without times
    last: str | None = None  # the time of the last one, likewise

    def __post_init__(self) -> None:
        if (self.first is None) != (self.last is None):
            raise SettingError(f"first and last must both be times or none, got {self.first!r} and {self.last!r}")
        for name, value in (("first", self.first), ("last", self.last)):
            try:
                np.datetime64(value or "NaT", "s")
            except ValueError as error:
                raise SettingError(f"{name} must be an ISO time, got {shown(value)}") from error


@dataclass(frozen=True)
class AboutFit:
    """What is known of a fit, each part checked; a bundle that was saved from Python need not have any."""

    data: DataFingerprint | None = None  # the table
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    headroom: Headroom | None = None  # what a policy trained on the cost alone gains; None where none was trained
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
        """From `stakes.artifacts.fits.Bundle.about`; what does not fit is refused by its name."""
        settings = about.get("settings", {})
        if not isinstance(settings, Mapping):
            raise SettingError(f"about.settings must be a table, got {shown(settings)}")
        names = {each.name for each in fields(cls)} - {"settings"}
        typed = {name: value for name, value in about.items() if name in names}
        return replace(from_plain(cls, typed, "about"), settings=dict(settings))


_ABOUT: dict[str, Any] = {"data": DataFingerprint, "headroom": Headroom, "alarms": tuple[str, ...]}
_DERIVED = ("created", "frontier", "versions")  # of `Bundle.about`, kept elsewhere


@dataclass(frozen=True, eq=False)
class Bundle:
    """A fitted forecaster and what is known about it."""

    forecaster: DecisionAwareForecaster  # the forecaster, ready to forecast and decide
    cost_spec: CostSpec | None  # the cost in words; None for one that has none, as a Python function
    layout: TableLayout | None  # which columns of a table are what; None where the forecaster was saved without
    about: dict[str, Any]
    notes: tuple[str, ...] = ()
    changed_files: Mapping[str, str] = field(default_factory=dict)

    def require_recorded(self, subfolder: str) -> None:
        """Raise if a file on record in that subfolder was not, when the bundle was loaded, what was recorded."""
        for name, sentence in self.changed_files.items():
            if name.startswith(f"{subfolder}/"):
                raise BundleError(sentence)


def alarms_of(about: Mapping[str, Any]) -> tuple[str, ...]:
    """What test cases say against a forecast, as notes."""
    return tuple(sentence.removesuffix(".") for sentence in about.get("alarms") or ())


def save_bundle(
    folder: Path,
    forecaster: DecisionAwareForecaster,
    *,
    cost_spec: CostSpec | None = None,
    layout: TableLayout | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted forecaster; what was in the folder before is kept until all is written.

    Args:
        folder: Where to; made if need be. One that holds something else than a bundle is refused.
        forecaster: The fitted forecaster.
        cost_spec: Its cost in words. A cost of the library needs none; any other that has none must be given again to
            `load_bundle`.
        layout: Which columns of the table are what, for those who will bring tables; None saves none.
        about: Whatever else is known of the fit, in values that JSON can hold: see `Bundle`.
    """
    check_is_fitted(forecaster)
    folder = Path(folder)
    state = fitted_state(forecaster)
    words = words_for(forecaster.cost) if cost_spec is None else cost_spec
    if not (words is None or words.is_own or same_cost(words.build(), forecaster.cost)):
        raise SettingError(f"cost_spec must be that of the forecaster's cost {forecaster.cost}, got {words}")
    known = json_value({name: value for name, value in (about or {}).items() if name not in _DERIVED})
    with committed_at_once(folder) as stage:
        write_json(stage / SETTINGS, to_plain(estimator_settings(forecaster)))
        write_json(stage / STATE, to_plain(state))
        save_models(stage / WEIGHTS, model_weights(forecaster))
        write_lines(stage / METRICS, map(json_value, forecaster.training_))
        names = (*PARTS, *save_trees(stage, forecaster.trees_))
        manifest = BundleManifest(
            format=FORMAT,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            files={name: hashlib.sha256((stage / name).read_bytes()).hexdigest() for name in names},
            layout=layout,
            cost=None if words is None else checked_words(words).record(),
            about=_checked_about(known),
        )
        manifest.require_names(state.named_features, state.target_names)
        write_json(stage / MANIFEST, to_plain(manifest))
    return folder


def load_bundle(
    folder: Path, *, cost: Cost | CostSpec | None = None, model: ModelSettings | ModelFactory | None = None
) -> Bundle:
    """Read a bundle. What came from the user's own code is not in it, and must be given.

    Args:
        folder: Where it was saved.
        cost: The user's own cost, again; or any other than the one on record: the decisions are then taken for it.
        model: The factory of the user's own model, again; None for a model of the library.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    with errors_name(folder / MANIFEST):
        decided_for, words, notes = chosen_cost(manifest.cost, cost)
        about = _checked_about(manifest.about)
    with errors_name(folder / SETTINGS):
        settings = settings_from_plain(read_json_table(folder / SETTINGS, manifest.files[SETTINGS]))
        _require_factory(settings, model)
    with errors_name(folder / STATE):
        state = from_plain(FittedState, read_json_table(folder / STATE, manifest.files[STATE]))
    with errors_name(folder / MANIFEST):
        manifest.require_names(state.named_features, state.target_names)
        trees = load_trees(folder, manifest.files, state)
    with errors_name(folder / WEIGHTS):
        sha256 = manifest.files[WEIGHTS]
        forecaster = restored_forecaster(settings, state, folder / WEIGHTS, sha256, decided_for, model, trees)
    with errors_name(folder / METRICS):
        forecaster.training_ = read_lines(folder / METRICS, manifest.files[METRICS])
    if forecaster.device != settings.device:
        notes += (f"there is no device {settings.device} here; the forecast is computed on another",)
    about |= {"frontier": to_plain(state.frontier), "versions": state.versions, "created": manifest.created}
    changed = manifest.changed_files(folder)
    notes = (*notes, *changed.values(), *alarms_of(about))
    return Bundle(forecaster, words, manifest.layout, about, notes, changed)


def _require_factory(settings: EstimatorSettings, model: object) -> None:
    if settings.model == "own" and model is None:
        raise SettingError("the model is the user's own and is not in the bundle; pass its factory as model=")
    if settings.model != "own" and model is not None:
        raise SettingError(f"the bundle holds its {settings.model.name} model; model= is for one of the user's own")


def _checked_about(about: dict[str, Any]) -> dict[str, Any]:
    for name, kind in _ABOUT.items():
        if about.get(name) is not None:
            from_plain(kind, about[name], f"about.{name}")
    return about


def open_folder(folder: Path, cost: str | CostSpec | None) -> Bundle:
    """The fitted forecaster in the folder; its cost must be given again where it is a user's own."""
    return load_bundle(folder, cost=None if cost is None else CostSpec.given(cost))


def layout_of(bundle: Bundle, folder: Path) -> TableLayout:
    """What the columns of its table are; a forecaster saved from Python may have none."""
    if bundle.layout is None:
        raise SettingError(f"{folder} was saved without the layout of its table; use its forecaster from Python")
    return bundle.layout
