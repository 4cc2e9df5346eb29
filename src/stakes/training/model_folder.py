"""The files that trained models are kept in: one format for a run and for a fitted forecaster.

`settings.json` says what was asked for and `state.json` what came of it: JSON with its own SHA-256, as
`stakes.files.write_json` writes it. `weights.safetensors` has the models by number, the first one as "model.0.KEY",
and `metrics.jsonl` a line for every step on the way. A fitted forecaster has a manifest, too, `bundle.json`, with the
SHA-256 of each file: passed to what reads the file, so that it is opened, hashed and parsed once.
"""

import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import stakes
from stakes.errors import CheckpointError
from stakes.files import parse_json, read_bytes, write_atomically
from stakes.settings import shown
from stakes.training.tensor_files import HEADER_LIMIT, Layout, check_tensors, load_tensors, save_tensors

__all__ = [
    "MANIFEST",
    "METRICS",
    "PARTS",
    "SETTINGS",
    "STATE",
    "WEIGHTS",
    "load_model_weights",
    "load_models",
    "model_keys",
    "read_json_table",
    "read_lines",
    "save_models",
    "state_layout",
    "versions_here",
    "write_lines",
]

SETTINGS, STATE, WEIGHTS, METRICS = PARTS = ("settings.json", "state.json", "weights.safetensors", "metrics.jsonl")
MANIFEST = "bundle.json"
_MOST_BYTES = {SETTINGS: 2**20, STATE: 2**24, METRICS: 2**28, MANIFEST: 2**24}


def read_json_table(path: Path, sha256: str | None = None) -> dict[str, Any]:
    """The table that a JSON file holds, as `stakes.files.write_json` wrote it.

    Args:
        path: The file, one of those above: its name says how large it may be.
        sha256: What the file as a whole must hash to; None where nothing else vouches for it.
    """
    table = parse_json(str(path), _content(path, sha256), checked=sha256 is not None)
    if not isinstance(table, dict):
        raise CheckpointError(f"{path} must hold a table, got {shown(table)}")
    return table


def read_lines(path: Path, sha256: str | None = None) -> list[dict[str, Any]]:
    """The tables of a file with one a line, up to its last whole line.

    Args:
        path: The file.
        sha256: What the file as a whole must hash to; None where nothing else vouches for it.
    """
    try:
        texts = [line.decode() for line in _content(path, sha256).split(b"\n")[:-1]]
        lines = [json.loads(text, parse_constant=_refused) for text in texts]
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    for line in lines:
        if not isinstance(line, dict):
            raise CheckpointError(f"{path} is damaged: a line must be a table, got {shown(line)}")
    return lines


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write tables that JSON can hold, one a line, in place of what was in the file.

    Args:
        path: The file.
        lines: The tables, with None for numbers that are not finite.
    """
    write_atomically(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())


def model_keys(count: int, kind: str = "model") -> list[str]:
    """What the names of the tensors of each of some models begin with.

    Args:
        count: How many models there are.
        kind: "model", or what tells other models in the same file from these.
    """
    return [f"{kind}.{index}." for index in range(count)]


def save_models(path: Path, models: Mapping[str, Mapping[str, Tensor]]) -> str:
    """Write the weights of models into one file; returns its SHA-256.

    Args:
        path: The file.
        models: The `state_dict` of each model by its key, one of `model_keys`.
    """
    return save_tensors(path, {key + name: value for key, state in models.items() for name, value in state.items()})


def load_models(path: Path, sha256: str | None, keys: Sequence[str], layout: Layout) -> list[dict[str, Tensor]]:
    """The weights of models of one architecture, a `state_dict` for each key; the file must hold no others.

    Args:
        path: The file.
        sha256: What the file must hash to; None where nothing vouches for it.
        keys: The key of each model, of `model_keys`.
        layout: Type and shape of each tensor of one model, by its name in the `state_dict`.
    """
    tensors = load_tensors(path, sha256, {key + name: shape for key in keys for name, shape in layout.items()})
    return [{name: tensors[key + name] for name in layout} for key in keys]


def load_model_weights(path: Path, sha256: str | None, layout: Layout) -> dict[str, Tensor]:
    """The weights of the only model of a file; those of older runs have no number in their names.

    Args:
        path: The file.
        sha256: What the file must hash to; None where nothing vouches for it.
        layout: Type and shape of each tensor, by its name in the model's `state_dict`.
    """
    (key,) = model_keys(1)
    size = sum(dtype.itemsize * math.prod(shape) for dtype, shape in layout.values())
    tensors = load_tensors(path, sha256, limit=HEADER_LIMIT + size)
    weights = {name.removeprefix(key): tensor for name, tensor in tensors.items()}
    check_tensors(str(path), weights, layout)
    return weights


def state_layout(model: torch.nn.Module) -> Layout:
    """Type and shape of each tensor of a model, by its name in the `state_dict`.

    Args:
        model: The model, trained or not.
    """
    return {name: (value.dtype, tuple(value.shape)) for name, value in model.state_dict().items()}


def versions_here() -> dict[str, str]:
    """The versions of stakes, torch and Python that a state was made with."""
    return {"stakes": stakes.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _content(path: Path, sha256: str | None) -> bytes:
    content = read_bytes(path, _MOST_BYTES[path.name])
    if sha256 is not None and (actual := hashlib.sha256(content).hexdigest()) != sha256:
        raise CheckpointError(f"{path} is damaged or of another bundle: its SHA-256 is {actual}, not {sha256}")
    return content


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number")
