"""Settings of runs and sweeps in TOML and JSON files, and single ones of them by their dotted names."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stakes.errors import SettingError, StakesError, nearest_hint
from stakes.settings import shown


def set_dotted(values: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy in which "a.b" leads to the value; a text on the way, short for a table, becomes its "name".

    >>> set_dotted({"task": "wind", "seed": 1}, "task.penalty", 3.0)
    {'task': {'name': 'wind', 'penalty': 3.0}, 'seed': 1}
    """
    *path, last = parts = key.split(".")
    if not all(parts):
        raise SettingError(f"a setting must be a name or names joined by dots, got {shown(key)}")
    changed = table = dict(values)
    for depth, part in enumerate(path, start=1):
        inner = table.get(part, {})
        if not isinstance(inner, (str, Mapping)):
            raise SettingError(f"{'.'.join(path[:depth])} must be a table for {key} to be set, got {shown(inner)}")
        table[part] = {"name": inner} if isinstance(inner, str) else dict(inner)
        table = table[part]
    table[last] = value
    return changed


_LARGEST_FILE = 2**20  # bytes
_DEEPEST = 50  # tables within tables of a file; far from Python's recursion limit, which would end in a traceback


def read_settings_file(path: Path) -> dict[str, Any]:
    """The table that a .toml or .json file of at most 1 MiB holds, such as the settings.json of a run folder."""
    name = repr(str(path))
    try:
        text = _read_text(path, name)
        values = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text, object_pairs_hook=_once)
    except StakesError:
        raise
    except (OSError, ValueError) as error:
        raise SettingError(f"{name} cannot be read: {error}") from error
    except RecursionError:
        raise SettingError(f"{name} is nested too deeply") from None
    if not isinstance(values, dict):
        raise SettingError(f"{name} must hold a table, got {shown(values)}")
    if values.keys() == {"sha256", "payload"} and isinstance(values["payload"], dict):
        values = values["payload"]
    if _is_deep(values):
        raise SettingError(f"{name} is nested too deeply")
    return values


def _read_text(path: Path, name: str) -> str:
    if path.is_dir():
        raise SettingError(f"{name} is a folder, expected a .toml or .json file")
    if path.suffix.lower() not in (".toml", ".json"):
        raise SettingError(f"{name} must end in .toml or .json")
    if not path.exists():
        same = sorted(path.parent.glob(f"*{path.suffix}")) if path.parent.is_dir() else []
        raise SettingError(f"there is no file {name}{nearest_hint(path.name, [other.name for other in same])}")
    if not path.is_file():
        raise SettingError(f"{name} must be a regular file")
    with path.open("rb") as stream:
        content = stream.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise SettingError(f"{name} must have at most 1 MiB")
    return content.decode("utf-8-sig")  # some editors write the mark


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of a JSON file; Python would keep the last of several values without a word."""
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"the key {shown(key)} stands twice in one table")
        table[key] = value
    return table


def _is_deep(values: dict[str, Any]) -> bool:
    level: list[Any] = [values]
    for _ in range(_DEEPEST):
        inner = [part for group in level for part in (group.values() if isinstance(group, dict) else group)]
        level = [part for part in inner if isinstance(part, (dict, list))]
    return bool(level)
