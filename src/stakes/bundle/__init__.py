"""A fitted forecaster in a folder: JSON and safetensors, checked when read, with nothing in it that is executed.

settings.json has the estimator's parameters, state.json what fitting found, weights.safetensors the models,
metrics.jsonl the lines of their training, and bundle.json what belongs together: features, targets, layout of the
table, cost, data, versions and the SHA-256 of every file.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

import stakes
from stakes.bundle.files import (
    FORMAT,
    METRICS,
    PARTS,
    RECORD,
    SETTINGS,
    STATE,
    WEIGHTS,
    BundleRecord,
    DataFingerprint,
    bundle_files,
    changed_files,
    is_bundle,
    naming,
    read_part,
    read_record,
    record_file,
    staged,
    verified,
)
from stakes.bundle.state import (
    EstimatorSettings,
    FittedState,
    restored,
    settings_from_plain,
    settings_of,
    state_of,
    tensors_of,
)
from stakes.cost_text.library_costs import cost_names
from stakes.cost_text.own_cost_file import OwnCost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.layout import TableLayout
from stakes.errors import BundleError, SettingError, StakesError
from stakes.evaluation.headroom import Headroom
from stakes.files import write_atomically, write_json
from stakes.forecaster import DecisionAwareForecaster
from stakes.json_values import json_value
from stakes.method.costs import Cost, require_cost
from stakes.method.training_settings import ModelSettings
from stakes.settings import from_plain, shown, to_plain
from stakes.training.many_weights import ModelFactory
from stakes.training.tensor_files import save_tensors

__all__ = ["FORMAT", "Bundle", "BundleError", "DataFingerprint", "bundle_files", "is_bundle", "load_bundle"]
__all__ += ["record_file", "save_bundle"]

_ABOUT = {"data": DataFingerprint, "headroom": Headroom}
_DERIVED = ("created", "frontier", "versions")  # of `Bundle.about`, kept elsewhere


@dataclass(frozen=True, eq=False)
class Bundle:
    """A fitted forecaster and what is known about it.

    `about` is plain: data (file, rows, first, last, sha256), metrics, headroom and what else was given, frontier,
    versions and created. `notes` are sentences for the user, such as that the file of the cost has changed.
    """

    forecaster: DecisionAwareForecaster
    cost_spec: CostSpec | None
    layout: TableLayout | None
    about: dict[str, Any]
    notes: tuple[str, ...] = ()


def save_bundle(
    folder: Path,
    forecaster: DecisionAwareForecaster,
    *,
    cost_spec: CostSpec | None = None,
    layout: TableLayout | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted forecaster; what was in the folder before is kept until all is written.

    A cost of the library needs no `cost_spec`; any other that has none must be given again to `load_bundle`.
    """
    check_is_fitted(forecaster)
    folder = Path(folder)
    state, known = state_of(forecaster), about or {}
    spec = _spec_of(forecaster.cost) if cost_spec is None else cost_spec
    if not (spec is None or spec.is_own or spec.build() == forecaster.cost):
        raise SettingError(f"cost_spec must be that of the forecaster's cost {forecaster.cost}, got {spec}")
    with staged(folder) as stage:
        write_json(stage / SETTINGS, to_plain(settings_of(forecaster)))
        write_json(stage / STATE, to_plain(state))
        save_tensors(stage / WEIGHTS, tensors_of(forecaster))
        lines = [json.dumps(json_value(line), allow_nan=False) + "\n" for line in forecaster.training_]
        write_atomically(stage / METRICS, "".join(lines).encode())
        record = BundleRecord(
            format=FORMAT,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions={"stakes": stakes.__version__, "torch": torch.__version__, "python": platform.python_version()},
            features=_features(state),
            targets=state.target_names,
            files={name: hashlib.sha256((stage / name).read_bytes()).hexdigest() for name in PARTS},
            cost=None if spec is None else _printable(spec).record(),
            layout=layout,
            about=_checked_about(json_value({key: value for key, value in known.items() if key not in _DERIVED})),
        )
        write_json(stage / RECORD, to_plain(record))
    return folder


def load_bundle(
    folder: Path, *, cost: Cost | CostSpec | None = None, model: ModelSettings | ModelFactory | None = None
) -> Bundle:
    """Read a bundle. What came from the user's own code is not in it: pass such a cost, and such a model's factory.

    Any other cost than the one on record may be given, too: the decisions are then taken for it.
    """
    folder = Path(folder)
    record = read_record(folder)
    with naming(folder / RECORD):
        found, spec, notes = _cost(record, cost)
        about = _checked_about(record.about)
    with naming(verified(folder, record, SETTINGS)):
        settings = settings_from_plain(read_part(folder, SETTINGS))
        _require_factory(settings, model)
    with naming(verified(folder, record, STATE)):
        state = from_plain(FittedState, read_part(folder, STATE))
        record.require(_features(state), state.target_names)
    with naming(folder / WEIGHTS):
        forecaster = restored(settings, state, folder / WEIGHTS, record.files[WEIGHTS], found, model)
    if forecaster.device != settings.device:
        notes += (f"there is no device {settings.device} here; the forecast is computed on another",)
    forecaster.training_ = _read_lines(verified(folder, record, METRICS))
    about |= {"frontier": to_plain(state.frontier), "versions": record.versions, "created": record.created}
    return Bundle(forecaster, spec, record.layout, about, (*notes, *changed_files(folder, record)))


def _cost(record: BundleRecord, given: Cost | CostSpec | None) -> tuple[Cost, CostSpec | None, tuple[str, ...]]:
    """The cost to decide for, its words where there are any, and what the user should know about it."""
    kept = None if record.cost is None else _printable(CostSpec.from_record(record.cost))
    if given is None:
        if kept is None:
            raise SettingError("the cost is the user's own and is not in the bundle; pass it as cost=")
        return kept.build(), kept, ()
    words = given if isinstance(given, CostSpec) else _spec_of(given)
    cost = given.build() if isinstance(given, CostSpec) else given
    require_cost(cost)
    if kept is None or words is None:
        return cost, kept if kept is not None and kept.is_own else words, ()
    if words.name.endswith(kept.name):  # the units that it was fitted with
        words = replace(words, unit=words.unit or kept.unit, action_unit=words.action_unit or kept.action_unit)
    return cost, words, _differences(kept, words)


def _differences(kept: CostSpec, given: CostSpec) -> tuple[str, ...]:
    before, now = kept.record(), given.record()
    if now == before:
        return ()
    if now | {"sha256": ""} == before | {"sha256": ""}:
        return (f"the file of the cost {shown(kept.name)} has changed since the forecaster was fitted",)
    return (
        f"the forecaster was fitted for the cost {shown(str(kept))}; it now decides for {given}, and the constant "
        "action it is compared with is still that of the former",
    )


def _printable(spec: CostSpec) -> CostSpec:
    """The words for a cost, which are shown to the user, on one line and without control characters."""
    if not str(spec).isprintable():
        raise SettingError(f"cost must be printable text, got {shown(str(spec))}")
    return spec


def _require_factory(settings: EstimatorSettings, model: object) -> None:
    if settings.model == "own" and model is None:
        raise SettingError("the model is the user's own and is not in the bundle; pass its factory as model=")
    if settings.model != "own" and model is not None:
        raise SettingError(f"the bundle holds its {settings.model.name} model; model= is for one of the user's own")


def _spec_of(cost: Cost) -> CostSpec | None:
    """The words for a cost of the library, or from a user's file; None for any other."""
    if isinstance(cost, OwnCost):
        return cost.spec if isinstance(cost.spec, CostSpec) else None
    classes = {f"{name.title().replace('_', '')}Cost": name for name in cost_names()}
    name = classes.get(type(cost).__name__)
    if name is None or not is_dataclass(cost):
        return None
    values = {field.name: getattr(cost, field.name) for field in fields(cost)}
    curve = values.pop("power_curve", None)
    values |= {} if curve is None else {field.name: getattr(curve, field.name) for field in fields(curve)}
    try:
        spec = CostSpec(name, values)
    except StakesError:  # parameters that are tensors
        return None
    return spec if spec.build() == cost else None


def _checked_about(about: dict[str, Any]) -> dict[str, Any]:
    for name, kind in _ABOUT.items():
        if about.get(name) is not None:
            from_plain(kind, about[name], f"about.{name}")
    return about


def _features(state: FittedState) -> tuple[str, ...]:
    return state.feature_names or tuple(f"x{index}" for index in range(state.features))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of training, one table a model."""
    try:
        lines = [json.loads(line, parse_constant=_refused) for line in path.read_text("utf-8").split("\n")[:-1]]
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is damaged: {error}") from error
    for line in lines:
        if not isinstance(line, dict):
            raise BundleError(f"{path} is damaged: a line must be a table, got {shown(line)}")
    return lines


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number")
