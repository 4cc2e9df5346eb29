"""The trees that a forecast is based on, in a bundle: a file for each outcome, in LightGBM's own text format."""

from collections.abc import Mapping
from pathlib import Path

from stakes.bundle.fitted_state import FittedState
from stakes.errors import SettingError
from stakes.files import check_sha256, read_bytes, write_atomically
from stakes.forecaster.trees import TreeLocation
from stakes.settings import shown

__all__ = ["load_trees", "save_trees"]

_LARGEST = 2**28  # bytes, of a file


def save_trees(folder: Path, trees: TreeLocation | None) -> tuple[str, ...]:
    """Write the trees of each outcome; returns the names of the files.

    Args:
        folder: Where to.
        trees: The trees; None writes nothing.
    """
    texts = () if trees is None else trees.texts
    names = _names(len(texts))
    for name, text in zip(names, texts, strict=True):
        write_atomically(folder / name, text.encode())
    return names


def load_trees(folder: Path, files: Mapping[str, str], state: FittedState) -> TreeLocation | None:
    """The trees of a bundle, or None where its forecast has another base.

    Args:
        folder: The folder of the bundle.
        files: The SHA-256 of every file by its name, as the manifest has them.
        state: What fitting found, which says how many there are.
    """
    if not state.trees:
        return None
    texts = []
    for name in _names(state.trees):
        if name not in files:
            raise SettingError(f"files must name {name}")
        content = read_bytes(folder / name, _LARGEST)
        check_sha256(str(folder / name), content, files[name])
        texts.append(_decoded(name, content))
    trees = TreeLocation(tuple(texts))
    trees.require_widths(state.features, len(state.target_names))
    return trees


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"trees-{index}.txt" for index in range(count))


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SettingError(f"{name} must be text, got {shown(str(error))}") from error
