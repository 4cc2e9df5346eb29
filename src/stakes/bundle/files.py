"""The folder of a bundle: `bundle.json`, written last, says what the other files are and what their SHA-256 is.

All files are written into a folder beside their place first; then the old `bundle.json` goes, the files are renamed,
and the new `bundle.json` comes last. A crash leaves the old bundle, none, or the new one. One process writes to a
folder at a time; POSIX.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stakes.data.layout import TableLayout
from stakes.errors import BundleError, CheckpointError, SettingError, StakesError
from stakes.files import read_bytes, read_json, sync_folder, write_json
from stakes.method.argument_checks import require_count
from stakes.settings import from_plain, shown, to_plain

__all__ = ["FORMAT", "METRICS", "PARTS", "RECORD", "SETTINGS", "STATE", "WEIGHTS", "BundleRecord"]
__all__ += [
    "DataFingerprint",
    "bundle_files",
    "changed_files",
    "is_bundle",
    "naming",
    "read_part",
    "read_record",
    "record_file",
    "require_recorded",
]
__all__ += ["staged", "verified"]

FORMAT = 1
RECORD = "bundle.json"
SETTINGS, STATE, WEIGHTS, METRICS = PARTS = ("settings.json", "state.json", "weights.safetensors", "metrics.jsonl")
_LIMITS = {RECORD: 2**24, SETTINGS: 2**20, STATE: 2**24, METRICS: 2**28}  # bytes
_LARGEST_FILE = 2**28  # bytes, of what was added
_STAGE = ".saving-"
_NAME = re.compile(r"(?:\w[\w. -]{0,99}/){0,4}\w[\w. -]{0,99}", re.ASCII)  # no part begins with a dot
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class DataFingerprint:
    """The table that a forecaster was fitted on."""

    file: str
    rows: int
    sha256: str
    first: str | None = None  # time
    last: str | None = None

    def __post_init__(self) -> None:
        require_count("rows", self.rows)
        _require_sha256("sha256", self.sha256)


@dataclass(frozen=True)
class BundleRecord:
    """What bundle.json holds; `cost` is the record of a `CostSpec`, `about` any plain values."""

    format: int
    created: str  # UTC
    versions: dict[str, str]
    features: tuple[str, ...]
    targets: tuple[str, ...]
    files: dict[str, str]  # name within the folder -> SHA-256
    layout: TableLayout | None = None
    cost: dict[str, Any] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, sha256 in self.files.items():
            _require_name(name)
            _require_sha256(f"files.{name}", sha256)
        if missing := [name for name in PARTS if name not in self.files]:
            raise SettingError(f"files must name {missing[0]}")
        if self.layout is not None:
            _require_same("layout.targets", self.layout.targets, self.targets)
            _require_same("layout.feature_names", self.layout.feature_names, self.features)

    def require(self, features: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Raise unless the forecaster's features and targets are those on record."""
        _require_same("features", features, self.features)
        _require_same("targets", targets, self.targets)


def is_bundle(path: Path) -> bool:
    """Whether there is a bundle in the folder; whether it can be read is for `load_bundle` to say."""
    return (path / RECORD).is_file()


def read_record(folder: Path) -> BundleRecord:
    """What bundle.json says, the files it names not yet looked at."""
    path = folder / RECORD
    if not os.path.lexists(path):
        raise BundleError(f"{folder} holds no bundle: there is no {RECORD}, or its saving was interrupted")
    values = read_part(folder, RECORD)
    version = values.get("format")
    if type(version) is int and version > FORMAT:
        raise BundleError(
            f"{path} was made by a newer version of stakes: it has format {shown(version)}, this one reads {FORMAT}"
        )
    if type(version) is not int or version != FORMAT:
        raise BundleError(f"{path}: format must be {FORMAT}, got {shown(version)}")
    free = {"cost": values.pop("cost", None), "about": values.pop("about", {})}
    with naming(path):
        for name, value in free.items():
            if not isinstance(value, dict) and (value is not None or name == "about"):
                raise SettingError(f"{name} must be a table, got {shown(value)}")
        return replace(from_plain(BundleRecord, values), **free)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors inside name the file."""
    try:
        yield
    except (BundleError, CheckpointError):  # which do
        raise
    except StakesError as error:
        raise BundleError(f"{path}: {error}") from error


def read_part(folder: Path, name: str) -> dict[str, Any]:
    """The table that a JSON file of the folder holds."""
    read_bytes(folder / name, _LIMITS[name])  # not too large to be parsed
    value = read_json(folder / name)
    if not isinstance(value, dict):
        raise BundleError(f"{folder / name} must hold a table, got {shown(value)}")
    return value


def verified(folder: Path, record: BundleRecord, name: str) -> Path:
    """The path of a part whose SHA-256 is the one on record."""
    path = folder / name
    found = hashlib.sha256(read_bytes(path, _LIMITS[name])).hexdigest()
    if found != record.files[name]:
        raise BundleError(f"{path} is damaged or of another bundle: its SHA-256 is {found}, not {record.files[name]}")
    return path


def changed_files(folder: Path, record: BundleRecord) -> tuple[str, ...]:
    """A sentence for every file beside the parts that is not what was recorded; the forecaster needs none of them."""
    found = (_trouble(folder, name, sha256) for name, sha256 in record.files.items() if name not in PARTS)
    return tuple(filter(None, found))


def require_recorded(folder: Path, under: str) -> None:
    """Raise if a file on record in that part of the folder is not what was recorded."""
    for name, sha256 in read_record(folder).files.items():
        if name.startswith(f"{under}/") and (trouble := _trouble(folder, name, sha256)):
            raise BundleError(trouble)


def bundle_files(folder: Path) -> dict[str, str]:
    """The files that belong to the bundle, with their SHA-256."""
    return dict(read_record(folder).files)


def record_file(folder: Path, name: str) -> None:
    """Note a file of the folder, such as "report.html" or "evaluation/metrics.csv", as a part of the bundle."""
    record = read_record(folder)
    _require_name(name)
    if name in PARTS:
        raise SettingError(f"{name} was recorded when the bundle was saved; save the forecaster again to change it")
    changed = replace(record, files={**record.files, name: _sha256(folder, name)})
    write_json(folder / RECORD, to_plain(changed))


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A folder to write the five files to; when the block ends, they are the bundle; on an error nothing changes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_own(folder)
        left = list(folder.glob(f"{_STAGE}*"))  # by writers that were killed
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=folder))
    except OSError as error:
        raise BundleError(f"the folder {folder} cannot be written: {error.strerror}") from error
    try:
        yield stage
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    _commit(stage, folder)
    for each in (*left, stage):
        shutil.rmtree(each, ignore_errors=True)


def _commit(stage: Path, folder: Path) -> None:
    try:
        (folder / RECORD).unlink(missing_ok=True)
        for name in PARTS:
            os.replace(stage / name, folder / name)
        sync_folder(folder)
        os.replace(stage / RECORD, folder / RECORD)
        sync_folder(folder)
    except OSError as error:
        raise BundleError(f"{folder} holds no bundle now, save it again: {error}") from error


def _require_own(folder: Path) -> None:
    """Refuse a folder with files of these names that belong to something else, such as a training run."""
    if is_bundle(folder) or any(folder.glob(f"{_STAGE}*")):
        return
    for name in PARTS:
        if os.path.lexists(folder / name):
            raise BundleError(f"{folder} holds {name} of something else than a bundle; choose another folder")


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == RECORD:
        raise SettingError(f"files must be named by plain relative paths within the folder, got {shown(name)}")


def _require_sha256(where: str, value: str) -> None:
    if not _SHA256.fullmatch(value):
        raise SettingError(f"{where} must be 64 hexadecimal digits, got {shown(value)}")


def _require_same(name: str, found: tuple[str, ...], due: tuple[str, ...]) -> None:
    if found != due:
        raise SettingError(f"{name} must be {_listed(due)}, got {_listed(found)}")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(shown, names[:5])) + (f" and {len(names) - 5} more" if names[5:] else "")


def _sha256(folder: Path, name: str) -> str:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{path} leads out of the folder of the bundle")
    return hashlib.sha256(read_bytes(path, _LARGEST_FILE)).hexdigest()


def _trouble(folder: Path, name: str, sha256: str) -> str:
    try:
        same = _sha256(folder, name) == sha256
    except StakesError as error:
        return str(error)
    return "" if same else f"{folder / name} is not the file that was recorded with the bundle"
