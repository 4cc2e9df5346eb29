"""The manifest of a folder: what belongs together, with the SHA-256 of every file, written all at once."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stakes.argument_checks import require_count
from stakes.data.tables.layout import TableLayout
from stakes.errors import BundleError, CheckpointError, SettingError, StakesError
from stakes.files import read_bytes, sync_folder, write_json
from stakes.settings import from_plain, shown, to_plain
from stakes.training.stored_models import MANIFEST, PARTS, STATE, read_json_table

_LARGEST_FILE = 2**28  # bytes, of what was added
_NAME = re.compile(r"(?:\w[\w. -]{0,99}/){0,4}\w[\w. -]{0,99}", re.ASCII)  # no part begins with a dot
_SHA256 = re.compile(r"[0-9a-f]{64}")


def require_recordable(files: Mapping[str, str], manifest: str) -> None:
    """Raise unless all names are plain relative paths, and all digests SHA-256."""
    for name, sha256 in files.items():
        require_file_name(name, manifest)
        require_sha256(f"files.{name}", sha256)


def require_file_name(name: str, manifest: str) -> None:
    """Raise unless a name is a plain relative path."""
    if not _NAME.fullmatch(name) or name == manifest:
        raise SettingError(f"files must be named by plain relative paths within the folder, got {shown(name)}")


def require_sha256(where: str, value: str) -> None:
    """Raise unless a value is a SHA-256."""
    if not _SHA256.fullmatch(value):
        raise SettingError(f"{where} must be 64 hexadecimal digits, got {shown(value)}")


def file_digest(folder: Path, name: str) -> str:
    """The SHA-256 of a file within the folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{path} leads out of the folder of the bundle")
    return hashlib.sha256(read_bytes(path, _LARGEST_FILE)).hexdigest()


def changed_files(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """A sentence for every file that is not what was recorded."""
    sentences = {name: _trouble(folder, name, sha256) for name, sha256 in files.items()}
    return {name: sentence for name, sentence in sentences.items() if sentence}


def _trouble(folder: Path, name: str, sha256: str) -> str:
    try:
        same = file_digest(folder, name) == sha256
    except StakesError as error:
        return str(error)
    return "" if same else f"{folder / name} is not the file that was recorded with the bundle"


RECALIBRATION = "recalibration.json"
"""The file by which the folder of a recalibrated forecast is known."""


def is_recalibration(folder: Path) -> bool:
    """Whether the folder holds a recalibrated forecast; whether it can be read is for `load_recalibration` to say."""
    return (folder / RECALIBRATION).is_file()


_STAGE = ".saving-"


@contextmanager
def committed_at_once(
    folder: Path, manifest: str = MANIFEST, parts: Sequence[str] = PARTS, what: str = "bundle"
) -> Iterator[Path]:
    """A folder to write the parts and the manifest to: a bundle when the block ends; on an error nothing changes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_own(folder, manifest, parts, what)
        left = list(folder.glob(f"{_STAGE}*"))  # by writers that were killed
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=folder))
    except OSError as error:
        raise BundleError(f"the folder {folder} cannot be written: {error.strerror}") from error
    try:
        yield stage
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    _commit(stage, folder, manifest, what)
    for each in (*left, stage):
        shutil.rmtree(each, ignore_errors=True)


def _commit(stage: Path, folder: Path, manifest: str, what: str) -> None:
    try:
        (folder / manifest).unlink(missing_ok=True)
        for part in sorted(stage.iterdir()):
            if part.name != manifest:
                os.replace(part, folder / part.name)
        sync_folder(folder)
        os.replace(stage / manifest, folder / manifest)
        sync_folder(folder)
    except OSError as error:
        raise BundleError(f"{folder} holds no {what} now, save it again: {error}") from error


def _require_own(folder: Path, manifest: str, parts: Sequence[str], what: str) -> None:
    """Refuse a folder with files of these names that belong to something else, such as a training run."""
    if (folder / manifest).is_file() or any(folder.glob(f"{_STAGE}*")):
        return
    for name in parts:
        if os.path.lexists(folder / name):
            raise BundleError(f"{folder} holds {name} of something else than a {what}; choose another folder")


FORMAT = 2


@dataclass(frozen=True)
class DataFingerprint:
    """The table that a forecaster was fitted on."""

    file: str  # the name of its file, without the folder
    rows: int  # how many rows it has
    sha256: str  # the SHA-256 of the file
    first: str | None = None  # the time of the first row, as ISO text; None without times
    last: str | None = None  # the time of the last row, as ISO text; None without times

    def __post_init__(self) -> None:
        require_count("rows", self.rows)
        require_sha256("sha256", self.sha256)


@dataclass(frozen=True)
class BundleManifest:
    """What bundle.json holds."""

    format: int  # which format the bundle has
    created: str  # when it was saved, as ISO text in UTC
    files: dict[str, str]  # the SHA-256 of every file by its name within the folder, the parts among them
    layout: TableLayout | None = None
    cost: dict[str, Any] | None = None  # the record of a `CostSpec`; None for a cost without words
    about: dict[str, Any] = field(default_factory=dict)  # any plain values

    def __post_init__(self) -> None:
        require_recordable(self.files, MANIFEST)
        if missing := [name for name in PARTS if name not in self.files]:
            raise SettingError(f"files must name {missing[0]}")

    def require_names(self, features: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Raise unless the layout is one of the forecaster's features and targets."""
        if self.layout is not None:
            _require_same("layout.targets", self.layout.targets, targets)
            _require_same("layout.feature_names", self.layout.feature_names, features)

    def changed_files(self, folder: Path) -> dict[str, str]:
        """A sentence for every file beside the parts that is not what was recorded; the forecaster needs none of it."""
        return changed_files(folder, {name: sha256 for name, sha256 in self.files.items() if name not in PARTS})


def is_bundle(path: Path) -> bool:
    """Whether there is a bundle in the folder; whether it can be read is for `load_bundle` to say."""
    return (path / MANIFEST).is_file()


def read_manifest(folder: Path) -> BundleManifest:
    """What bundle.json says, the files it names not yet looked at."""
    path = folder / MANIFEST
    if not os.path.lexists(path):
        raise BundleError(_why_there_is_none(folder))
    with errors_name(path):
        values = read_json_table(path)
        _require_format(path, values.get("format"))
        free = {"cost": values.pop("cost", None), "about": values.pop("about", {})}
        for name, value in free.items():
            if not isinstance(value, dict) and (value is not None or name == "about"):
                raise SettingError(f"{name} must be a table, got {shown(value)}")
        return replace(from_plain(BundleManifest, values), **free)


def _why_there_is_none(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder} with a fit"
    if (folder / "fit.json").is_file():
        return f"the fit in {folder} has not finished; `stakes resume {folder}` goes on with it"
    return f"{folder} holds no bundle: there is no {MANIFEST}, or its saving was interrupted"


def bundle_files(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that belongs to the bundle, by its name within the folder."""
    return dict(read_manifest(folder).files)


def record_file(folder: Path, *names: str) -> None:
    """Note files of the folder as parts of the bundle, with their SHA-256."""
    manifest = read_manifest(folder)
    for name in names:
        require_file_name(name, MANIFEST)
        if name in PARTS:
            raise SettingError(f"{name} was recorded when the bundle was saved; save the forecaster again to change it")
    files = {**manifest.files, **{name: file_digest(folder, name) for name in names}}
    write_json(folder / MANIFEST, to_plain(replace(manifest, files=files)))


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


def _require_format(path: Path, version: object) -> None:
    if type(version) is int and version > FORMAT:
        raise BundleError(
            f"{path} was made by a newer version of stakes: it has format {shown(version)}, this one reads {FORMAT}"
        )
    if type(version) is not int or version != FORMAT:
        raise BundleError(f"{path}: format must be {FORMAT}, got {shown(version)}")


def _require_same(name: str, names: tuple[str, ...], due: tuple[str, ...]) -> None:
    if names != due:
        raise SettingError(f"{name} must be {_listed(due)} as in {STATE}, got {_listed(names)}")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(shown, names[:5])) + (f" and {len(names) - 5} more" if names[5:] else "")
