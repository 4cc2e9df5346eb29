"""The folder of a fit or a recalibration: parts and a manifest with the SHA-256 of every file, written all at once."""

import hashlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from pyarrow.lib import ArrowException
from pyarrow.parquet import ParquetFile
from torch import Tensor

from stakes.argument_checks import require_count
from stakes.cost_spec.files import RISK_KEYS, spec_of_file
from stakes.cost_spec.spec import CostSpec, cost_again, library_name
from stakes.costs.cost import Cost, require_cost, risk_of
from stakes.data.case_table import CaseTable, Category
from stakes.data.tables.columns import column_numbers
from stakes.data.tables.files import write_table
from stakes.errors import BundleError, CheckpointError, SettingError, StakesError, TableError
from stakes.files import check_sha256, content_digest, read_bytes, short_ascii, sync_folder, write_json
from stakes.json_values import json_value
from stakes.programs.modelling import Program
from stakes.settings import from_plain, shown, to_plain
from stakes.training.stored_models import read_json_table, versions_here

if TYPE_CHECKING:
    from stakes.artifacts.fits import Bundle
    from stakes.artifacts.panels import PanelFit
    from stakes.artifacts.recalibrations import Recalibration


MANIFEST = "bundle.json"
STATE, SELECTION, TRAINING, WEIGHTS = "state.json", "selection.json", "training.json", "weights.safetensors"
INPUTS = "inputs.parquet"
Kind = Literal["fit", "recalibration", "panel"]

_FORMAT = 3
_PARTS: Mapping[Kind, tuple[str, ...]] = {
    "fit": (STATE, TRAINING, WEIGHTS, INPUTS),
    "recalibration": (STATE, SELECTION),
    "panel": (STATE, WEIGHTS),
}
_FREE = ("layout", "cost", "about")  # tables that each kind reads by itself
_LARGEST_FILE = 2**28  # bytes, of what was added
_NAME = re.compile(r"(?:\w[\w. -]{0,99}/){0,4}\w[\w. -]{0,99}", re.ASCII)  # no part begins with a dot
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STAGE = ".saving-"


@dataclass(frozen=True)
class DataFingerprint:
    """The table that was learned from."""

    file: str  # the name of its file, without the folder
    rows: int  # how many rows it has
    sha256: str  # the SHA-256 of the file
    first: str | None = None  # the time of the first row, as ISO text; None without times
    last: str | None = None  # the time of the last row, as ISO text; None without times

    def __post_init__(self) -> None:
        require_count("rows", self.rows)
        _require_sha256("sha256", self.sha256)


@dataclass(frozen=True)
class FittedSpan:
    """Which cases were learned from."""

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
class Manifest:
    """What bundle.json holds."""

    format: int  # which format the folder has
    kind: Kind  # what was saved in it
    created: str  # when, as ISO text in UTC
    versions: dict[str, str]  # the versions of stakes, torch and Python that made it
    files: dict[str, str]  # the SHA-256 of every file by its name within the folder, the parts among them
    layout: dict[str, Any] | None = None  # what the columns of the user's tables are
    cost: dict[str, Any] | None = None  # the record of a `CostSpec`; None for a cost without words
    about: dict[str, Any] | None = None  # what else is known

    def __post_init__(self) -> None:
        for name, sha256 in self.files.items():
            _require_file_name(name)
            _require_sha256(f"files.{name}", sha256)
        if missing := [name for name in _PARTS[self.kind] if name not in self.files]:
            raise SettingError(f"files must name {missing[0]}")

    def part(self, folder: Path, name: str) -> dict[str, Any]:
        """The table that a JSON part holds, if it is the one that was saved."""
        return read_json_table(folder / name, self.files[name])

    def tree_texts(self, folder: Path, names: Iterable[str]) -> tuple[str, ...]:
        """The texts of boosted trees in these files, if they are the ones that were saved."""
        texts = []
        for name in names:
            if name not in self.files:
                raise SettingError(f"files must name {name}")
            content = read_bytes(folder / name, _LARGEST_FILE)
            check_sha256(str(folder / name), content, self.files[name])
            try:
                texts.append(content.decode())
            except UnicodeDecodeError as error:
                raise SettingError(f"{name} must be text, got {shown(str(error))}") from error
        return tuple(texts)

    def of_folder(self, folder: Path, notes: Iterable[str], alarms: Iterable[str] = ()) -> dict[str, Any]:
        """The fields of a `SavedFolder`; files that have changed are told, as no decision needs one of them."""
        others = {name: sha256 for name, sha256 in self.files.items() if name not in _PARTS[self.kind]}
        sentences = {name: _trouble(folder, name, sha256) for name, sha256 in others.items()}
        changed = {name: sentence for name, sentence in sentences.items() if sentence}
        known = {"created": self.created, "versions": self.versions, "files": self.files, "changed_files": changed}
        return known | {"notes": (*notes, *changed.values(), *alarms)}


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedFolder:
    """What every folder says of itself."""

    created: str = ""  # when it was made, as ISO text in UTC
    versions: Mapping[str, str] = field(default_factory=dict)  # the versions of stakes, torch and Python that made it
    notes: tuple[str, ...] = ()  # sentences for the user from when it was loaded, such as that its cost is another
    files: Mapping[str, str] = field(default_factory=dict)  # the SHA-256 of every file on record, by name
    changed_files: Mapping[str, str] = field(default_factory=dict)  # a sentence for each that has changed, by name

    def require_recorded(self, subfolder: str) -> None:
        """Raise if a file on record in that subfolder was not, when the folder was loaded, what was recorded."""
        for name, sentence in self.changed_files.items():
            if name.startswith(f"{subfolder}/"):
                raise BundleError(sentence)


def is_saved(folder: Path) -> bool:
    """Whether a fit or a recalibration was saved in the folder; whether it can be read is for `open_folder` to say."""
    return (folder / MANIFEST).is_file()


def open_folder(folder: Path, cost: "str | CostSpec | None" = None) -> "Bundle | Recalibration | PanelFit":
    """What was saved in a folder; its cost must be given again where it is a user's own."""
    words = None if cost is None else CostSpec.given(cost)
    kind = read_manifest(folder).kind
    if kind == "fit":
        from stakes.artifacts.fits import load_bundle

        return load_bundle(folder, cost=words)
    if kind == "panel":
        from stakes.artifacts.panels import load_panel

        return load_panel(folder, words)
    from stakes.artifacts.recalibrations import load_recalibration

    return load_recalibration(folder, words)


def open_as_judged(folder: Path, cost: str | None) -> "Bundle | Recalibration | PanelFit":
    """The same with the cost that it was judged with, which may be given again, but be no other."""
    record = read_manifest(folder).cost
    if record is None:
        raise SettingError(f"{folder} was not made by `stakes fit`: it does not say what its cost is")
    with errors_name(folder / MANIFEST):
        kept = CostSpec.from_record(record)
    return open_folder(folder, cost_again(kept, cost))


def read_manifest(folder: Path, kind: Kind | None = None) -> Manifest:
    """What bundle.json says, the files it names not yet looked at."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise BundleError(f"there is no folder {folder} with a fit")
    if not os.path.lexists(path) and (folder / "fit.json").is_file():
        raise BundleError(f"the fit in {folder} has not finished; the same `stakes fit` command continues it")
    if not os.path.lexists(path):
        why = f"there is no {MANIFEST}, or saving was interrupted"
        raise BundleError(f"{folder} holds neither a fit nor a recalibration: {why}")
    with errors_name(path):
        values = read_json_table(path)
        _require_format(path, values.get("format"))
        free = {name: values.pop(name, None) for name in _FREE}
        for name, value in free.items():
            if not (value is None or isinstance(value, dict)):
                raise SettingError(f"{name} must be a table, got {shown(value)}")
        manifest = replace(from_plain(Manifest, values), **free)
    if kind not in (None, manifest.kind):
        raise BundleError(f"{folder} holds a {manifest.kind}, where a {kind} is expected")
    return manifest


def _require_format(path: Path, version: object) -> None:
    if type(version) is int and version > _FORMAT:
        raise BundleError(
            f"{path} was made by a newer version of stakes: it has format {shown(version)}, this one reads {_FORMAT}"
        )
    if type(version) is not int or version != _FORMAT:
        raise BundleError(f"{path}: format must be {_FORMAT}, got {shown(version)}")


def record_file(folder: Path, *names: str) -> None:
    """Note files of the folder, such as its report, in the manifest with their SHA-256."""
    manifest = read_manifest(folder)
    for name in names:
        _require_file_name(name)
        if name in _PARTS[manifest.kind]:
            raise SettingError(f"{name} was recorded when the folder was saved; save it again to change it")
    files = {**manifest.files, **{name: _file_digest(folder, name) for name in names}}
    write_json(folder / MANIFEST, to_plain(replace(manifest, files=files)))


@contextmanager
def saved_at_once(
    folder: Path,
    kind: Kind,
    cost: Mapping[str, Any] | None,
    layout: object,
    about: object,
) -> Iterator[Path]:
    """A folder to write parts to, which take their place at the end, with a manifest; on an error nothing changes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_own(folder, kind)
        left = list(folder.glob(f"{_STAGE}*"))  # by writers that were killed
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=folder))
    except OSError as error:
        raise BundleError(f"the folder {folder} cannot be written: {error.strerror}") from error
    try:
        yield stage
        manifest = Manifest(
            format=_FORMAT,
            kind=kind,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=versions_here(),
            files={part.name: content_digest(part) for part in stage.iterdir()},
            layout=json_value(layout),
            cost=None if cost is None else dict(cost),
            about=json_value(about),
        )
        write_json(stage / MANIFEST, to_plain(manifest))
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    _commit(stage, folder)
    for each in (*left, stage):
        shutil.rmtree(each, ignore_errors=True)


def _commit(stage: Path, folder: Path) -> None:
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
        for part in sorted(stage.iterdir()):
            if part.name != MANIFEST:
                os.replace(part, folder / part.name)
        sync_folder(folder)
        os.replace(stage / MANIFEST, folder / MANIFEST)
        sync_folder(folder)
    except OSError as error:
        raise BundleError(f"{folder} holds nothing complete now; save it again: {error}") from error


def _require_own(folder: Path, kind: Kind) -> None:
    """Refuse a folder with parts of something else, such as a training run, or of the other kind."""
    if is_saved(folder):
        try:
            found = read_manifest(folder).kind
        except StakesError:  # damaged, which saving mends
            return
        if found != kind:
            raise BundleError(f"{folder} holds a {found}; choose another folder for the {kind}")
    elif not any(folder.glob(f"{_STAGE}*")):
        for name in ("settings.json", *_PARTS[kind]):  # the first is of a run of `reproduction`
            if os.path.lexists(folder / name):
                raise BundleError(f"{folder} holds a {name} that is not of a {kind}; choose another folder")


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Whatever is refused inside is a `BundleError` that names the file."""
    try:
        yield
    except BundleError:
        raise
    except CheckpointError as error:  # which names it
        raise BundleError(str(error)) from error
    except StakesError as error:
        raise BundleError(f"{path}: {error}") from error


def _require_file_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == MANIFEST:
        raise SettingError(f"files must be named by plain relative paths within the folder, got {shown(name)}")


def _require_sha256(where: str, value: str) -> None:
    if not _SHA256.fullmatch(value):
        raise SettingError(f"{where} must be 64 hexadecimal digits, got {shown(value)}")


def _file_digest(folder: Path, name: str) -> str:
    """The SHA-256 of a file within the folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{path} leads out of its folder")
    return hashlib.sha256(read_bytes(path, _LARGEST_FILE)).hexdigest()


def _trouble(folder: Path, name: str, sha256: str) -> str:
    try:
        same = _file_digest(folder, name) == sha256
    except StakesError as error:
        return str(error)
    return "" if same else f"{folder / name} is not the file that was recorded when it was saved"


# The cost in a folder

_CONSTANT = ", and the constant action it is compared with is still that of the former"


def chosen_cost(
    record: Mapping[str, Any] | None, given: Cost | CostSpec | None, beside: str = _CONSTANT, priced: bool = False
) -> tuple[Cost, CostSpec | None, tuple[str, ...]]:
    """The cost to decide for, at a price of 1 where it may be `priced`; its words, if any; and notes about it."""
    kept = None if record is None else checked_words(CostSpec.from_record(record))
    if given is None:
        if kept is None:
            raise SettingError("the cost is the user's own and is not in the bundle; pass it as cost=")
        return (kept.level_prices if priced else kept).build(), kept, ()
    words = given if isinstance(given, CostSpec) else words_for(given)
    own = given.level_prices if priced and isinstance(given, CostSpec) else given
    cost = own.build() if isinstance(own, CostSpec) else own
    require_cost(cost)
    if kept is None or words is None:
        return cost, kept if kept is not None and kept.is_own else words, ()
    if words.name.endswith(kept.name):  # the units that it was fitted with
        words = replace(words, unit=words.unit or kept.unit, action_unit=words.action_unit or kept.action_unit)
    return cost, words, _differences(kept, words, beside)


def words_for(cost: Cost) -> CostSpec | None:
    """The words for a cost of the library, a program, or a cost from a user's file; None for any other."""
    if (spec := spec_of_file(cost)) is not None:
        return spec
    if (risk := risk_of(cost)) is not None:
        plain = words_for(risk.cost)
        keys = {key: float(getattr(risk, field)) for key, field in RISK_KEYS.items()}
        return None if plain is None or plain.is_own else replace(plain, parameters={**plain.parameters, **keys})
    if isinstance(cost, Program):
        return CostSpec("program.toml", {}, program=cost)
    if (name := library_name(cost)) is None:
        return None
    values = _plain_fields(cost)
    try:
        words = CostSpec(name, values)
    except StakesError:  # parameters that are tensors
        return None
    return words if _plain_fields(words.build()) == values else None


def same_cost(one: Cost, other: Cost) -> bool:
    """Whether two costs are of one kind and have the same numbers, also where there is one for each outcome."""
    return type(one) is type(other) and _numbers(one) == _numbers(other)


def _numbers(value: Any) -> Any:
    """The same with lists in place of tensors, of which `==` would make no single answer."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _numbers(each) for key, each in value.items()}
    if is_dataclass(value):
        return {field.name: _numbers(getattr(value, field.name)) for field in fields(value) if field.compare}
    return value


def _plain_fields(cost: Any) -> dict[str, Any]:
    """The parameters of a cost and of its power curve as words have them: numbers for each outcome are a tuple."""
    values = {field.name: getattr(cost, field.name) for field in fields(cost)}
    curve = values.pop("power_curve", None)
    values |= {} if curve is None else {field.name: getattr(curve, field.name) for field in fields(curve)}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.dim() > 1:
        return value
    return tuple(value.tolist()) if value.dim() else value.item()


def checked_words(words: CostSpec) -> CostSpec:
    """The words for a cost, which are shown to the user, on one line and without control characters."""
    if not str(words).isprintable():
        raise SettingError(f"cost must be printable text, got {shown(str(words))}")
    return words


def _one_in_range(kept: CostSpec, given: CostSpec) -> CostSpec:
    """The cost on record for the decision maker that is given, where it has a range which that one is in."""
    ranged = kept.ranged
    value = None if ranged is None else given.parameters.get(ranged.name)
    if ranged is None or not isinstance(value, float | int) or not ranged.range.low <= value <= ranged.range.high:
        return kept
    return kept.at(value)


def _differences(kept: CostSpec, given: CostSpec, beside: str) -> tuple[str, ...]:
    before, now = kept.record(), given.record()
    if now == before or now == _one_in_range(kept, given).record():
        return ()
    if now | {"sha256": ""} == before | {"sha256": ""}:
        return (f"the file of the cost {shown(kept.name)} has changed since the forecaster was fitted",)
    return (f"the forecaster was fitted for the cost {shown(str(kept))}; it now decides for {given}{beside}",)


# Tables in the folder of a fit: its test cases as they were judged, and the features of the last of them

JUDGED_CASES = Path("evaluation", "cases.parquet")
REGRET = "regret_of_"  # likewise of those with the part of the regret that is due to an outcome, or to members
WATCHED = "watched_"  # how the names of its columns begin that `stakes monitor` holds new cases against
STORED_CASES = Path("evaluation", "features.parquet")

_KEPT = 200
_MOST_BYTES = 2**26  # of the file of these, and of what it holds
_LARGEST_JUDGED = 2**30


_LABEL, _CATEGORY, _FEATURE, _OUTCOME = "label", "category ", "feature ", "outcome "  # how names of columns begin


def save_cases(folder: Path, cases: CaseTable) -> None:
    """Write the last 200 cases into the folder of a fit."""
    last = cases.rows(slice(-_KEPT, None))
    features, outcomes = last.feature_table, last.outcome_table
    row = "row " if features.index.name == "row" else ""
    labels = [f"{row}{label.isoformat() if isinstance(label, pd.Timestamp) else label}" for label in features.index]
    words = pd.DataFrame({f"{_CATEGORY}{name}": category.words for name, category in last.categories.items()})
    parts = [words, features.add_prefix(_FEATURE), outcomes.add_prefix(_OUTCOME)]
    table = pd.concat([part.reset_index(drop=True) for part in parts], axis=1)
    table.insert(0, _LABEL, labels)
    (folder / STORED_CASES).parent.mkdir(parents=True, exist_ok=True)
    write_table(table, folder / STORED_CASES)


def load_cases(
    folder: Path, features: tuple[str, ...], targets: tuple[str, ...], sha256: str | None = None
) -> CaseTable | None:
    """The cases that `save_cases` wrote, called by their time or row; None where it did not."""
    path = folder / STORED_CASES
    if not os.path.lexists(path):
        return None
    table = read_kept(path, sha256, _KEPT)
    if _LABEL not in table.columns:
        raise TableError(f"{str(path)!r} has no column {_LABEL!r}")
    wanted = ([f"{_FEATURE}{name}" for name in features], [f"{_OUTCOME}{name}" for name in targets])
    numbers, outcomes = (column_numbers(table, columns, str(path)) for columns in wanted)
    if np.isnan(numbers).any() or np.isnan(outcomes).any():
        raise TableError(f"{str(path)!r} has missing values")
    words = [str(column) for column in table.columns if str(column).startswith(_CATEGORY)]
    return CaseTable(
        torch.from_numpy(numbers),
        torch.from_numpy(outcomes),
        feature_names=features,
        outcome_names=targets,
        index=pd.Index([str(label) for label in table[_LABEL]], name=_LABEL),
        categories={column.removeprefix(_CATEGORY): Category.of(table[column].tolist()) for column in words},
    )


def read_kept(
    path: Path, sha256: str | None = None, most_rows: int | None = None, most_bytes: int = _MOST_BYTES
) -> pd.DataFrame:
    """The table of a parquet file, if it is no larger than it can be: a small file may hold many rows."""
    content = read_bytes(path, most_bytes)
    if sha256 is not None:
        check_sha256(str(path), content, sha256)
    try:
        file = ParquetFile(io.BytesIO(content))
        rows, groups = file.metadata.num_rows, range(file.metadata.num_row_groups)
        size = sum(file.metadata.row_group(place).total_byte_size for place in groups)
        if size > most_bytes or (most_rows is not None and rows > most_rows):
            limit = f"{most_bytes} bytes" if most_rows is None else f"at most {most_rows} cases in {most_bytes} bytes"
            raise TableError(f"{str(path)!r} must hold {limit}, got {rows} in {size}")
        return file.read().to_pandas()
    except (ArrowException, OSError, ValueError) as error:
        raise TableError(f"{str(path)!r} is not a valid parquet file: {short_ascii(str(error))}") from error


def read_judged(folder: Path) -> pd.DataFrame:
    """The test cases of a fit, as they were judged."""
    return read_kept(folder / JUDGED_CASES, most_bytes=_LARGEST_JUDGED)
