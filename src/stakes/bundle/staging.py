"""All files of a bundle at once: written beside their place first, then renamed, the manifest last.

The old manifest goes, the parts are renamed, and the new manifest comes last: a crash leaves the old bundle, none, or
the new one. One process writes to a folder at a time; POSIX.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stakes.errors import BundleError
from stakes.files import sync_folder
from stakes.training.model_folder import MANIFEST, PARTS

__all__ = ["committed_at_once"]

_STAGE = ".saving-"


@contextmanager
def committed_at_once(
    folder: Path, manifest: str = MANIFEST, parts: Sequence[str] = PARTS, what: str = "bundle"
) -> Iterator[Path]:
    """A folder to write the parts and the manifest to: a bundle when the block ends; on an error nothing changes.

    Args:
        folder: Where the bundle shall be; made if need be.
        manifest: The file by which such a folder is known.
        parts: The files that may not be there already where it is not.
        what: What the folder holds, for the messages.
    """
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
