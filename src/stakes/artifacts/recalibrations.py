"""A recalibrated forecast in a folder: JSON and parquet, checked when read, with nothing in it that is executed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from stakes.argument_checks import require_count
from stakes.artifacts.cost import checked_words, chosen_cost
from stakes.artifacts.fits import FittedSpan
from stakes.artifacts.manifest import (
    RECALIBRATION,
    DataFingerprint,
    changed_files,
    committed_at_once,
    errors_name,
    file_digest,
    require_file_name,
    require_recordable,
)
from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.forecast_set import ForecastLayout
from stakes.data.forecasts.quantiles import Pair
from stakes.data.stored_cases import read_kept
from stakes.data.tables.files import write_table
from stakes.errors import BundleError, SettingError
from stakes.evaluation.selection import ModelSelection
from stakes.evaluation.vector_cases import JudgedParts
from stakes.files import JSON_LIMIT, check_sha256, parse_json, read_bytes, write_json
from stakes.forecasting.recalibration import JudgedCorrection, RecalibratorState
from stakes.forecasting.recalibrator import Recalibrator
from stakes.json_values import json_value
from stakes.settings import from_plain, shown, to_plain
from stakes.training.stored_models import versions_here

_STATE, _SELECTION, _JUDGED = "state.json", "selection.json", "judged.parquet"
_FORMAT = 1
_MOST_JUDGED = 10**6
_TIME = "time"


@dataclass(frozen=True)
class RecalibratorSettings:
    """The parameters of `stakes.Recalibrator`, but its cost."""

    outcome_bounds: Pair | Literal["auto"] | None = "auto"  # what the outcomes cannot cross; "auto" found it out
    decision_weights: tuple[float, ...] = (0.2, 0.5, 0.8)  # which decision weights were tried
    tolerance: float | None = None
    test_fraction: float = 0.25  # the share of the cases, the last ones, that chose nothing
    gap: int = 0  # how many cases before a forecast have outcomes that were not known yet when it was issued
    block: int | Literal["auto"] = "auto"

    def recalibrator(self, cost: Any) -> Recalibrator:
        """One that has learned nothing yet."""
        return Recalibrator(cost, **{each.name: getattr(self, each.name) for each in fields(self)})


@dataclass(frozen=True)
class _Manifest:
    """What recalibration.json holds; see `Recalibration`."""

    format: int
    created: str
    files: dict[str, str]
    layout: ForecastLayout
    settings: RecalibratorSettings
    data: tuple[DataFingerprint, ...]
    fitted: FittedSpan
    versions: dict[str, str]
    block: int = 1
    said: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    parts: JudgedParts | None = None
    cost: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_recordable(self.files, RECALIBRATION)
        require_count("block", self.block)
        if missing := [name for name in (_STATE, _SELECTION) if name not in self.files]:
            raise SettingError(f"files must name {missing[0]}")


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A recalibrated forecast and what is known about it."""

    recalibrator: Recalibrator  # what corrects forecasts and decides
    cost_spec: CostSpec  # its cost in words
    layout: ForecastLayout  # where new forecasts, and their outcomes, are found in a user's files
    settings: RecalibratorSettings  # what was asked of it
    data: tuple[DataFingerprint, ...]
    fitted: FittedSpan  # which cases it learned from
    judged: JudgedCorrection | None
    created: str = ""  # when it was made, as ISO text in UTC
    versions: Mapping[str, str] = field(default_factory=dict)  # the versions of stakes, torch and Python that made it
    said: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # sentences for the user from when it was loaded, such as that its cost is another
    changed_files: Mapping[str, str] = field(default_factory=dict)
    alarms: tuple[str, ...] = ()  # sentences on what the test cases say against it


def save_recalibration(folder: Path, recalibration: Recalibration) -> Path:
    """Write a recalibrated forecast; what was in the folder before is kept until all is written."""
    recalibrator = recalibration.recalibrator
    with committed_at_once(folder, RECALIBRATION, (_STATE, _SELECTION, _JUDGED), "recalibration") as stage:
        write_json(stage / _STATE, json_value(to_plain(recalibrator.state_)))
        write_json(stage / _SELECTION, json_value(to_plain(recalibrator.selection_)))
        names = [_STATE, _SELECTION]
        if recalibration.judged is not None:
            write_table(_table_of(recalibration.judged), stage / _JUDGED)
            names.append(_JUDGED)
        manifest = _Manifest(
            format=_FORMAT,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            files={name: file_digest(stage, name) for name in names},
            layout=recalibration.layout,
            settings=recalibration.settings,
            data=recalibration.data,
            fitted=recalibration.fitted,
            versions=versions_here(),
            block=1 if recalibration.judged is None else recalibration.judged.block,
            parts=None if recalibration.judged is None else recalibration.judged.parts,
            said=recalibration.said,
            alarms=recalibration.alarms,
            cost=checked_words(recalibration.cost_spec).record(),
        )
        write_json(stage / RECALIBRATION, json_value(to_plain(manifest)))
    return folder


def recorded_cost(folder: Path) -> CostSpec:
    """The cost that a recalibration was made and judged with, in words."""
    manifest = _manifest(folder)
    with errors_name(folder / RECALIBRATION):
        return checked_words(CostSpec.from_record(manifest.cost))


def load_recalibration(folder: Path, cost: CostSpec | None = None) -> Recalibration:
    """Read a recalibrated forecast."""
    folder = Path(folder)
    manifest = _manifest(folder)
    with errors_name(folder / RECALIBRATION):
        decided_for, words, notes = chosen_cost(manifest.cost, cost, beside="")
    assert words is not None
    recalibrator = manifest.settings.recalibrator(decided_for)
    with errors_name(folder / _STATE):
        recalibrator.state_ = from_plain(RecalibratorState, _json(folder, _STATE, manifest))
    with errors_name(folder / _SELECTION):
        recalibrator.selection_ = from_plain(ModelSelection, _json(folder, _SELECTION, manifest))
    with errors_name(folder / _JUDGED):
        judged = _judged(folder, manifest)
    others = {name: sha256 for name, sha256 in manifest.files.items() if name not in (_STATE, _SELECTION, _JUDGED)}
    changed = changed_files(folder, others)
    return Recalibration(
        recalibrator,
        words,
        manifest.layout,
        manifest.settings,
        manifest.data,
        manifest.fitted,
        judged,
        manifest.created,
        manifest.versions,
        manifest.said,
        (*notes, *changed.values(), *manifest.alarms),
        changed,
        manifest.alarms,
    )


def record_in_recalibration(folder: Path, *names: str) -> None:
    """Note files of the folder, such as the report, in its manifest with their SHA-256."""
    manifest = _manifest(folder)
    for name in names:
        require_file_name(name, RECALIBRATION)
    files = {**manifest.files, **{name: file_digest(folder, name) for name in names}}
    write_json(folder / RECALIBRATION, json_value(to_plain(replace(manifest, files=files))))


def _manifest(folder: Path) -> _Manifest:
    path = folder / RECALIBRATION
    if not os.path.lexists(path):
        raise BundleError(f"{folder} holds no recalibrated forecast: there is no {RECALIBRATION}")
    with errors_name(path):
        values = parse_json(str(path), read_bytes(path, JSON_LIMIT))
        if not isinstance(values, dict):
            raise SettingError(f"the manifest must be a table, got {shown(values)}")
        version = values.get("format")
        if type(version) is int and version > _FORMAT:
            raise BundleError(
                f"{path} was made by a newer version of stakes: it has format {version}, this one reads {_FORMAT}"
            )
        cost = values.pop("cost", None)
        if version != _FORMAT or not isinstance(cost, dict):
            raise SettingError(f"format must be {_FORMAT}, and cost a table, got {shown(version)} and {shown(cost)}")
        return replace(from_plain(_Manifest, values), cost=cost)


def _json(folder: Path, name: str, manifest: _Manifest) -> Any:
    content = read_bytes(folder / name, JSON_LIMIT)
    check_sha256(str(folder / name), content, manifest.files[name])
    return parse_json(str(folder / name), content, checked=True)


def _table_of(judged: JudgedCorrection) -> pd.DataFrame:
    """The test cases, what they are called first; levels without a name would be lost."""
    names = [f"case {place}" if name is None else str(name) for place, name in enumerate(judged.cases.index.names)]
    labels = judged.cases.index.to_frame(index=False)
    labels.columns = [f"{_LABEL}{name}" for name in names]
    return pd.concat([labels, judged.cases.reset_index(drop=True)], axis=1)


_LABEL = "label "  # how the names of the columns begin that tell what a case is called


def _judged(folder: Path, manifest: _Manifest) -> JudgedCorrection | None:
    if _JUDGED not in manifest.files:
        return None
    table = read_kept(folder / _JUDGED, manifest.files[_JUDGED], _MOST_JUDGED)
    labels = [column for column in table.columns if column.startswith(_LABEL)]
    if not labels:
        raise SettingError(f"there must be a column that begins with {_LABEL!r}")
    index = pd.MultiIndex.from_frame(table[labels]) if len(labels) > 1 else pd.Index(table[labels[0]])
    index = index.set_names([label.removeprefix(_LABEL) for label in labels])
    cases = table.drop(columns=labels).set_axis(index)
    if _TIME in cases:
        cases[_TIME] = cases[_TIME].to_numpy().astype("datetime64[s]")
    others = [name for name in cases if name in (_TIME, "site") or str(name).startswith("today_")]
    numbers = cases.drop(columns=others)
    if not np.isfinite(numbers.to_numpy(np.float64)).all():
        raise SettingError("the judged cases must be finite numbers")
    return JudgedCorrection(cases, manifest.block, manifest.parts)
