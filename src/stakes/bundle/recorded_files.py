"""The files that the manifest of a folder names, each with its SHA-256: plain names, read within the folder alone."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from stakes.errors import BundleError, SettingError, StakesError
from stakes.files import read_bytes
from stakes.settings import shown

__all__ = ["changed_files", "file_digest", "require_file_name", "require_recordable", "require_sha256"]

_LARGEST_FILE = 2**28  # bytes, of what was added
_NAME = re.compile(r"(?:\w[\w. -]{0,99}/){0,4}\w[\w. -]{0,99}", re.ASCII)  # no part begins with a dot
_SHA256 = re.compile(r"[0-9a-f]{64}")


def require_recordable(files: Mapping[str, str], manifest: str) -> None:
    """Raise unless all names are plain relative paths, and all digests SHA-256.

    Args:
        files: The SHA-256 of each file by its name within the folder.
        manifest: The name of the manifest itself, which is not among them.
    """
    for name, sha256 in files.items():
        require_file_name(name, manifest)
        require_sha256(f"files.{name}", sha256)


def require_file_name(name: str, manifest: str) -> None:
    """Raise unless a name is a plain relative path.

    Args:
        name: The name.
        manifest: The name of the manifest itself, which is none.
    """
    if not _NAME.fullmatch(name) or name == manifest:
        raise SettingError(f"files must be named by plain relative paths within the folder, got {shown(name)}")


def require_sha256(where: str, value: str) -> None:
    """Raise unless a value is a SHA-256.

    Args:
        where: What the message calls it.
        value: The value.
    """
    if not _SHA256.fullmatch(value):
        raise SettingError(f"{where} must be 64 hexadecimal digits, got {shown(value)}")


def file_digest(folder: Path, name: str) -> str:
    """The SHA-256 of a file within the folder.

    Args:
        folder: The folder.
        name: The name of the file within it.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{path} leads out of the folder of the bundle")
    return hashlib.sha256(read_bytes(path, _LARGEST_FILE)).hexdigest()


def changed_files(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """A sentence for every file that is not what was recorded.

    Args:
        folder: The folder.
        files: The SHA-256 of each file by its name within the folder.
    """
    sentences = {name: _trouble(folder, name, sha256) for name, sha256 in files.items()}
    return {name: sentence for name, sentence in sentences.items() if sentence}


def _trouble(folder: Path, name: str, sha256: str) -> str:
    try:
        same = file_digest(folder, name) == sha256
    except StakesError as error:
        return str(error)
    return "" if same else f"{folder / name} is not the file that was recorded with the bundle"
