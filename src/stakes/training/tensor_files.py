"""Named tensors on disk as safetensors, verified and bounded; no pickle."""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from stakes.errors import CheckpointError
from stakes.files import check_sha256, read_bytes, short_ascii, write_atomically

__all__ = ["HEADER_LIMIT", "TENSOR_LIMIT", "check_tensors", "load_tensors", "save_tensors", "serialised"]

HEADER_LIMIT = 2**20  # bytes; bounds the time that parsing takes
TENSOR_LIMIT = 8 * 2**30  # bytes
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_DTYPES = _FLOATS | {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
Layout = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write named tensors as safetensors; returns the file's SHA-256.

    Args:
        path: The file.
        tensors: Of floats, integers or bool, from any device and in any layout.
    """
    content = serialised(str(path), tensors)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def serialised(source: str, tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file with these tensors.

    Args:
        source: What the message of an error begins with.
        tensors: Of floats, integers or bool, from any device and in any layout.
    """
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
    """The tensors of a file, on the CPU.

    Args:
        path: A safetensors file.
        sha256: What the SHA-256 of the file must be; None takes any.
        expected: Type and shape of every tensor; None takes any.
        limit: The bytes above which a file is refused unread; with `expected` that is what those tensors need.
    """
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
    """Refuse tensors whose names, types or shapes are not those expected.

    Args:
        source: What the message of the error begins with.
        tensors: What came.
        expected: Type and shape of every tensor.
    """
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
