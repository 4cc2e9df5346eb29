"""What a crash, a careless user or an attacker may do to the files of a bundle."""

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import load_file
from safetensors.torch import save as safetensors_bytes
from torch import Tensor

from stakes.files import read_json, write_json


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def flipped(place: float) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        index = min(int(place * len(content)), len(content) - 1)
        return content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]

    return flip


def document(payload: bytes) -> Callable[[bytes], bytes]:
    """A payload with its true hash: an attacker can compute it, too."""
    return lambda _: b'{"sha256":"%s","payload":%s}\n' % (hashlib.sha256(payload).hexdigest().encode(), payload)


def with_value(table: Any, key: str, value: Any) -> Any:
    """A copy in which "a.b" is the value; `...` takes it out."""
    first, _, rest = key.partition(".")
    changed = {**table, first: with_value(table[first], rest, value) if rest else value}
    return {name: each for name, each in changed.items() if each is not ...}


def forged(key: str, value: Any, name: str = "bundle.json") -> Callable[[Path], None]:
    """Another value in a JSON file, all hashes made good."""

    def forge(folder: Path) -> None:
        write_json(folder / name, with_value(read_json(folder / name), key, value))
        if name != "bundle.json":
            vouch(folder, name)

    return forge


def column(name: str, value: object) -> Callable[[Path], None]:
    """Another value in a column of what is known of the features, all hashes made good."""

    def forge(folder: Path) -> None:
        pd.read_parquet(folder / "inputs.parquet").assign(**{name: value}).to_parquet(folder / "inputs.parquet")
        vouch(folder, "inputs.parquet")

    return forge


def vouch(folder: Path, name: str) -> None:
    record = read_json(folder / "bundle.json")
    record["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    write_json(folder / "bundle.json", record)


def vouched(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Another content of a file, and a bundle.json that vouches for it."""

    def replace(folder: Path) -> None:
        edit(name, change)(folder)
        vouch(folder, name)

    return replace


def tensors(change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        changed = change(load_file(folder / "weights.safetensors"))
        vouched("weights.safetensors", lambda _: safetensors_bytes(changed))(folder)

    return replace


def moved(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Something else in place of a file, which lies outside the folder now."""

    def replace(folder: Path) -> None:
        (folder / name).rename(folder.parent / "original")
        make(folder / name)

    return replace


def link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "original")


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**36)


class Bomb:
    """What a pickle of this would run makes a file."""

    def __init__(self, folder: Path) -> None:
        self.arguments = (folder / "marker", "w")

    def __reduce__(self) -> Any:
        return open, self.arguments


def pickled(name: str) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        (folder / name).write_bytes(pickle.dumps(Bomb(folder)))
        if name != "bundle.json":
            vouch(folder, name)

    return replace
