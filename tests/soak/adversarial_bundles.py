"""Bundles as a crash, a careless user or an attacker may leave them, for the soak of the commands."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for scripts

from adversarial_inputs import flipped_bytes
from artifacts.damage import edit, link, moved, pickled, sparse, vouch, vouched

from stakes.files import read_json, write_json

__all__ = ["bundle_changes"]

Change = Callable[[Path], object]


def bundle_changes(folder: Path, seed: int) -> Iterator[tuple[str, Change]]:
    """Changes of a copy of a bundle, or of the folder of a fit: the same bytes damaged, and well-formed lies.

    Every file is cut, emptied, flipped, taken away, and made a link, a pipe, a folder, very large; every value of every
    JSON file becomes something else with all hashes made good.
    """
    chance = random.Random(seed)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    for name in files:
        yield from ((f"{name}: {kind}", change) for kind, change in _file_changes(chance, name).items())
        if name.endswith(".json"):
            yield from _json_changes(chance, folder, name)


def _file_changes(chance: random.Random, name: str) -> dict[str, Change]:
    """What may become of one file; where a manifest vouches for it, also with its new hash."""
    cut, flip = chance.random(), partial(flipped_bytes, random.Random(chance.random()))
    changes: dict[str, Change] = {
        "missing": lambda folder: (folder / name).unlink(),
        "empty": edit(name, lambda content: b""),
        "cut": edit(name, lambda content: content[: int(cut * len(content))]),
        "flipped": edit(name, flip),
        "a pipe": moved(name, os.mkfifo),
        "a link": moved(name, link),
        "a link to nothing": moved(name, lambda path: path.symlink_to("/nowhere/at/all")),
        "a link to a device": moved(name, lambda path: path.symlink_to("/dev/zero")),
        "a folder": moved(name, Path.mkdir),
        "very large": moved(name, sparse),
        "deep": edit(name, lambda content: b"[" * 10**5 + b"]" * 10**5),
        "no text": edit(name, lambda content: b"\xff\xfe\x00" * 1000),
        "longer": edit(name, lambda content: content + content),
    }
    if name != "bundle.json":
        changes |= {
            "flipped and vouched for": _vouched(name, flip),
            "cut and vouched for": _vouched(name, lambda content: content[: int(cut * len(content))]),
            "empty and vouched for": _vouched(name, lambda content: b""),
            "backward and vouched for": _vouched(name, lambda content: content[::-1]),
            "a pickle": lambda folder: pickled(name)(folder) if _is_vouched(folder, name) else None,
        }
    return changes


def _is_vouched(folder: Path, name: str) -> bool:
    manifest = folder / "bundle.json"
    return manifest.is_file() and name in read_json(manifest)["files"]


def _vouched(name: str, change: Callable[[bytes], bytes]) -> Change:
    """The change, with its hash in the manifest if there is one."""
    return lambda folder: (vouched if _is_vouched(folder, name) else edit)(name, change)(folder)


_VALUES: tuple[Any, ...] = (None, True, -1, 0, 1, 10**400, 1e308, -1e-320, "", "a", "\x1b[2J\n", "9999-12-31", [], {})
_VALUES += ([[[[[[]]]]]], [1.5] * 3, ["a", "a"], {"a": {"b": 1}}, "../../etc/passwd", "1" * 5000, [None], 2**63, 0.5)


def _json_changes(chance: random.Random, folder: Path, name: str) -> Iterator[tuple[str, Change]]:
    """Two other values for every value of a JSON file, and every one taken away, all hashes made good."""
    try:
        record = read_json(folder / name)
    except ValueError:  # a JSON file without its digest
        return
    for path in _paths(record):
        label = ".".join(map(str, path))
        for value in (..., *chance.sample(_VALUES, 2)):
            shown = "missing" if value is ... else repr(value)[:20]
            yield f"{name}: {label} {shown}", partial(_forge, name, path, value)


def _paths(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of all values within a JSON value; of long lists, those of the first two."""
    children = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, child in children:
        yield (*above, key)
        yield from _paths(child, (*above, key))


def _forge(name: str, path: tuple[str | int, ...], value: Any, folder: Path) -> None:
    vouches = _is_vouched(folder, name)
    record = read_json(folder / name)
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    write_json(folder / name, record)
    if vouches:
        vouch(folder, name)
