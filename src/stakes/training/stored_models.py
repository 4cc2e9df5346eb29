"""Tensors and trained models on disk: safetensors and JSON, every file atomic and verified, no pickle."""

import hashlib
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

import stakes
from stakes.errors import CheckpointError
from stakes.files import JSON_LIMIT, check_sha256, parse_json, read_bytes, short_ascii, write_atomically
from stakes.settings import shown

HEADER_LIMIT = 2**20  # bytes; bounds the time that parsing takes
TENSOR_LIMIT = 8 * 2**30  # bytes
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_DTYPES = _FLOATS | {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
Layout = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write named tensors as safetensors; returns the file's SHA-256."""
    content = serialised(str(path), tensors)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def serialised(source: str, tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    if "__metadata__" in tensors:
        raise CheckpointError(f"{source}: no tensor may be named '__metadata__', which safetensors keeps for itself")
    _check_dtypes(source, tensors)
    try:  # a copy of each, since safetensors takes neither shared memory nor any layout but the plain one
        plain = {name: torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu") for name, tensor in tensors.items()}
        content = safetensors.torch.save({name: plain[name].copy_(tensors[name].detach()) for name in tensors})
    except (RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: the tensors cannot be written: {short_ascii(str(error))}") from error
    _check_header(source, content)
    return content


def load_tensors(
    path: Path, sha256: str | None, expected: Layout | None = None, limit: int = TENSOR_LIMIT
) -> dict[str, Tensor]:
    """The tensors of a file, on the CPU."""
    if expected is not None:
        limit = HEADER_LIMIT + sum(dtype.itemsize * math.prod(shape) for dtype, shape in expected.values())
    content = read_bytes(path, limit)
    if sha256 is not None:
        check_sha256(str(path), content, sha256)
    _check_header(str(path), content)
    try:
        tensors = safetensors.torch.load(content)
    except Exception as error:  # which ones a hostile header can provoke is not documented
        raise CheckpointError(f"{path} is no safetensors file: {short_ascii(str(error))}") from error
    _check_dtypes(str(path), tensors)
    if expected is not None:
        check_tensors(str(path), tensors, expected)
    return tensors


def check_tensors(source: str, tensors: Mapping[str, Tensor], expected: Layout) -> None:
    """Refuse tensors whose names, types or shapes are not those expected."""
    layout = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    names = sorted(layout.keys() | expected.keys())
    pairs = [(name, expected.get(name, "absent"), layout.get(name, "absent")) for name in names]
    wrong = [f"{short_ascii(name)} must be {due}, got {came}" for name, due, came in pairs if due != came]
    if wrong:
        raise CheckpointError(f"{source} has wrong tensors: {', '.join(wrong[:5])}")


def _check_dtypes(source: str, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES:
            raise CheckpointError(
                f"{source}: {short_ascii(name)} must be of floats, integers or bool, got {tensor.dtype}"
            )


def _check_header(source: str, content: bytes) -> None:
    if (length := int.from_bytes(content[:8], "little")) > HEADER_LIMIT:
        raise CheckpointError(f"{source}: the header of tensor names has {length} bytes, more than {HEADER_LIMIT}")


def read_json_table(path: Path, sha256: str | None = None) -> dict[str, Any]:
    """The table that a JSON file holds, as `stakes.files.write_json` wrote it."""
    content = read_bytes(path, JSON_LIMIT)
    if sha256 is not None:
        check_sha256(str(path), content, sha256)
    table = parse_json(str(path), content, checked=sha256 is not None)
    if not isinstance(table, dict):
        raise CheckpointError(f"{path} must hold a table, got {shown(table)}")
    return table


def model_keys(count: int, kind: str = "model") -> list[str]:
    """What the names of the tensors of each of some models begin with."""
    return [f"{kind}.{index}." for index in range(count)]


def save_models(path: Path, models: Mapping[str, Mapping[str, Tensor]]) -> str:
    """Write the weights of models into one file; returns its SHA-256."""
    return save_tensors(path, {key + name: value for key, state in models.items() for name, value in state.items()})


def load_models(path: Path, sha256: str | None, keys: Sequence[str], layout: Layout) -> list[dict[str, Tensor]]:
    """The weights of models of one architecture, a `state_dict` for each key; the file must hold no others."""
    tensors = load_tensors(path, sha256, {key + name: shape for key in keys for name, shape in layout.items()})
    return [{name: tensors[key + name] for name in layout} for key in keys]


def state_layout(model: torch.nn.Module) -> Layout:
    """Type and shape of each tensor of a model, by its name in the `state_dict`."""
    return {name: (value.dtype, tuple(value.shape)) for name, value in model.state_dict().items()}


def versions_here() -> dict[str, str]:
    """The versions of stakes, torch and Python that a state was made with."""
    return {"stakes": stakes.__version__, "torch": torch.__version__, "python": platform.python_version()}
