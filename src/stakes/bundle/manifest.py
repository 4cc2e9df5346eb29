"""The manifest of a bundle, bundle.json: what belongs together, with the SHA-256 of every file."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from stakes.bundle.recorded_files import (
    changed_files,
    file_digest,
    require_file_name,
    require_recordable,
    require_sha256,
)
from stakes.data.layout import TableLayout
from stakes.errors import BundleError, CheckpointError, SettingError, StakesError
from stakes.files import write_json
from stakes.method.argument_checks import require_count
from stakes.settings import from_plain, shown, to_plain
from stakes.training.model_folder import MANIFEST, PARTS, STATE, read_json_table

__all__ = [
    "FORMAT",
    "BundleManifest",
    "DataFingerprint",
    "bundle_files",
    "errors_name",
    "is_bundle",
    "read_manifest",
    "record_file",
]

FORMAT = 2


@dataclass(frozen=True)
class DataFingerprint:
    """The table that a forecaster was fitted on.

    Attributes:
        file: The name of its file, without the folder.
        rows: How many rows it has.
        sha256: The SHA-256 of the file.
        first: The time of the first row, as ISO text; None without times.
        last: The time of the last row, as ISO text; None without times.
    """

    file: str
    rows: int
    sha256: str
    first: str | None = None
    last: str | None = None

    def __post_init__(self) -> None:
        require_count("rows", self.rows)
        require_sha256("sha256", self.sha256)


@dataclass(frozen=True)
class BundleManifest:
    """What bundle.json holds.

    Attributes:
        format: Which format the bundle has.
        created: When it was saved, as ISO text in UTC.
        files: The SHA-256 of every file by its name within the folder, the parts among them.
        layout: Which columns of a table are what; None where the forecaster was saved without.
        cost: The record of a `CostSpec`; None for a cost without words.
        about: Any plain values.
    """

    format: int
    created: str
    files: dict[str, str]
    layout: TableLayout | None = None
    cost: dict[str, Any] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_recordable(self.files, MANIFEST)
        if missing := [name for name in PARTS if name not in self.files]:
            raise SettingError(f"files must name {missing[0]}")

    def completed(self, state: dict[str, Any]) -> dict[str, Any]:
        """What state.json says, as bundles of the present format have it."""
        return state

    def in_todays_words(self, features: tuple[str, ...]) -> Self:
        """With the layout as it is written today: in earlier bundles `weekday` was a wave, as their features tell."""
        if self.layout is None:
            return self
        calendar = tuple("weekday_wave" if name == "weekday" else name for name in self.layout.calendar)
        earlier = replace(self.layout, calendar=calendar)
        return replace(self, layout=earlier) if earlier.feature_names == features else self

    def require_names(self, features: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Raise unless the layout is one of the forecaster's features and targets."""
        if self.layout is not None:
            _require_same("layout.targets", self.layout.targets, targets)
            _require_same("layout.feature_names", self.layout.feature_names, features)

    def changed_files(self, folder: Path) -> dict[str, str]:
        """A sentence for every file beside the parts that is not what was recorded; the forecaster needs none of it."""
        return changed_files(folder, {name: sha256 for name, sha256 in self.files.items() if name not in PARTS})


@dataclass(frozen=True)
class _Format1(BundleManifest):
    """The manifest of bundles before format 2, with what their state.json now says."""

    versions: dict[str, str] = field(kw_only=True)
    features: tuple[str, ...] = field(kw_only=True)
    targets: tuple[str, ...] = field(kw_only=True)

    def completed(self, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "versions": self.versions}

    def require_names(self, features: tuple[str, ...], targets: tuple[str, ...]) -> None:
        _require_same("features", self.features, features)
        _require_same("targets", self.targets, targets)
        super().require_names(features, targets)


_MANIFESTS: Mapping[int, type[BundleManifest]] = {1: _Format1, FORMAT: BundleManifest}


def is_bundle(path: Path) -> bool:
    """Whether there is a bundle in the folder; whether it can be read is for `load_bundle` to say.

    Args:
        path: The folder.
    """
    return (path / MANIFEST).is_file()


def read_manifest(folder: Path) -> BundleManifest:
    """What bundle.json says, the files it names not yet looked at.

    Args:
        folder: The folder of the bundle.
    """
    path = folder / MANIFEST
    if not os.path.lexists(path):
        raise BundleError(_why_there_is_none(folder))
    with errors_name(path):
        values = read_json_table(path)
        kind = _kind_of(path, values.get("format"))
        free = {"cost": values.pop("cost", None), "about": values.pop("about", {})}
        for name, value in free.items():
            if not isinstance(value, dict) and (value is not None or name == "about"):
                raise SettingError(f"{name} must be a table, got {shown(value)}")
        return replace(from_plain(kind, values), **free)


def _why_there_is_none(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder} with a fit"
    if (folder / "fit.json").is_file():
        return f"the fit in {folder} has not finished; `stakes resume {folder}` goes on with it"
    return f"{folder} holds no bundle: there is no {MANIFEST}, or its saving was interrupted"


def bundle_files(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that belongs to the bundle, by its name within the folder.

    Args:
        folder: The folder of the bundle.
    """
    return dict(read_manifest(folder).files)


def record_file(folder: Path, *names: str) -> None:
    """Note files of the folder as parts of the bundle, with their SHA-256.

    Args:
        folder: The folder of the bundle.
        names: Paths within the folder, such as "report.html" or "evaluation/metrics.csv".
    """
    manifest = read_manifest(folder)
    for name in names:
        require_file_name(name, MANIFEST)
        if name in PARTS:
            raise SettingError(f"{name} was recorded when the bundle was saved; save the forecaster again to change it")
    files = {**manifest.files, **{name: file_digest(folder, name) for name in names}}
    write_json(folder / MANIFEST, to_plain(replace(manifest, files=files)))


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Whatever is refused inside is a `BundleError` that names the file.

    Args:
        path: The file.
    """
    try:
        yield
    except BundleError:
        raise
    except CheckpointError as error:  # which names it
        raise BundleError(str(error)) from error
    except StakesError as error:
        raise BundleError(f"{path}: {error}") from error


def _kind_of(path: Path, version: object) -> type[BundleManifest]:
    if type(version) is int and version > FORMAT:
        raise BundleError(
            f"{path} was made by a newer version of stakes: it has format {shown(version)}, this one reads {FORMAT}"
        )
    if type(version) is not int or version not in _MANIFESTS:
        raise BundleError(f"{path}: format must be {' or '.join(map(str, _MANIFESTS))}, got {shown(version)}")
    return _MANIFESTS[version]


def _require_same(name: str, names: tuple[str, ...], due: tuple[str, ...]) -> None:
    if names != due:
        raise SettingError(f"{name} must be {_listed(due)} as in {STATE}, got {_listed(names)}")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(shown, names[:5])) + (f" and {len(names) - 5} more" if names[5:] else "")
