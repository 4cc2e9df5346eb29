"""Saving a fitted forecaster and loading it again.

The folder is that of a run, `stakes.training.model_folder`: settings.json has the estimator's parameters, state.json
what fitting found, weights.safetensors the models and metrics.jsonl a line for the training of each. bundle.json, the
manifest, makes it a bundle: the SHA-256 of every file, the layout of the table, the cost, and what is known of the fit.
Every part is opened, hashed and parsed once.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from stakes.bundle.cost_of_bundle import checked_words, chosen_cost, same_cost, words_for
from stakes.bundle.estimator_settings import EstimatorSettings, estimator_settings, settings_from_plain
from stakes.bundle.fitted_state import FittedState, fitted_state, model_weights, restored_forecaster
from stakes.bundle.manifest import FORMAT, BundleManifest, DataFingerprint, errors_name, read_manifest
from stakes.bundle.staging import committed_at_once
from stakes.bundle.tree_files import load_trees, save_trees
from stakes.cost_text.written_cost import CostSpec
from stakes.data.layout import TableLayout
from stakes.errors import BundleError, SettingError
from stakes.evaluation.headroom import Headroom
from stakes.files import write_json
from stakes.forecaster.estimator import DecisionAwareForecaster
from stakes.json_values import json_value
from stakes.method.costs import Cost
from stakes.method.training_settings import ModelSettings
from stakes.settings import from_plain, to_plain
from stakes.training.many_weights import ModelFactory
from stakes.training.model_folder import (
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

__all__ = ["Bundle", "alarms_of", "load_bundle", "save_bundle"]

_ABOUT: dict[str, Any] = {"data": DataFingerprint, "headroom": Headroom, "alarms": tuple[str, ...]}
_DERIVED = ("created", "frontier", "versions")  # of `Bundle.about`, kept elsewhere


@dataclass(frozen=True, eq=False)
class Bundle:
    """A fitted forecaster and what is known about it.

    Attributes:
        forecaster: The forecaster, ready to forecast and decide.
        cost_spec: The cost in words; None for one that has none, as a Python function.
        layout: Which columns of a table are what; None where the forecaster was saved without.
        about: Plain values: data (file, rows, first, last, sha256), metrics, headroom and whatever else was given to
            `save_bundle`; and frontier, versions and created.
        notes: Sentences for the user, such as that the file of the cost has changed, and what its test cases say
            against the forecast.
        changed_files: A sentence for each file beside the parts, such as the report, that is not as recorded.
    """

    forecaster: DecisionAwareForecaster
    cost_spec: CostSpec | None
    layout: TableLayout | None
    about: dict[str, Any]
    notes: tuple[str, ...] = ()
    changed_files: Mapping[str, str] = field(default_factory=dict)

    def require_recorded(self, subfolder: str) -> None:
        """Raise if a file on record in that subfolder was not, when the bundle was loaded, what was recorded."""
        for name, sentence in self.changed_files.items():
            if name.startswith(f"{subfolder}/"):
                raise BundleError(sentence)


def alarms_of(about: Mapping[str, Any]) -> tuple[str, ...]:
    """What test cases say against a forecast, as notes.

    Args:
        about: What its bundle keeps, `Bundle.about`.
    """
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
        values = read_json_table(folder / STATE, manifest.files[STATE])
        state = from_plain(FittedState, manifest.completed(values))
    with errors_name(folder / MANIFEST):
        manifest = manifest.in_todays_words(state.named_features)
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
