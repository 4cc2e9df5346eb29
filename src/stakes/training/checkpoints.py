"""Training state on disk: tensors as safetensors, the rest as JSON, every file atomic and verified, no pickle.

A checkpoint of epoch 120 is `epoch-00000120-HASH.safetensors`, where HASH begins the file's SHA-256, and
`epoch-00000120.json`, which names it. The tensors are written first: a checkpoint exists when its JSON does, and saving
the same epoch again touches nothing that the JSON in place refers to. One process writes to a folder at a time; POSIX.
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from stakes.errors import StakesError

__all__ = ["Checkpoint", "CheckpointError", "check_tensors", "load_latest", "load_tensors", "read_json"]
__all__ += ["save_checkpoint", "save_tensors", "sync_folder", "write_atomically", "write_json"]

JSON_LIMIT = 64 * 2**20
HEADER_LIMIT = 2**20  # bounds the time that parsing takes
TENSOR_LIMIT = 8 * 2**30
_EPOCHS = 10**8
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_DTYPES = _FLOATS | {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_DOCUMENT = re.compile(rb'\{"sha256":"([0-9a-f]{64})","payload":(.*)\}\n', re.DOTALL)
_JSON_NAME = re.compile(r"epoch-[0-9]{8}\.json")
_TENSOR_NAME = re.compile(r"epoch-[0-9]{8}-[0-9a-f]{16}\.safetensors")
_TEMPORARY_NAME = re.compile(rf"\.(?:{_JSON_NAME.pattern}|{_TENSOR_NAME.pattern})\.([0-9]{{1,9}})-[0-9a-f]{{16}}\.tmp")
Layout = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


class CheckpointError(StakesError):
    """A file of training state cannot be written, or is not what was written."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The training after so many epochs: named tensors, and all else as what JSON can hold."""

    epoch: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_atomically(path: Path, content: bytes) -> None:
    """Put the content at the path, its folder made if need be: a crash leaves the old file or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(8).hex()}.tmp")
    try:
        _make_folder(path.parent)
        with open(temporary, "xb") as file:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror}; what was saved before is intact") from error
    finally:
        with suppress(OSError):  # it is no longer there when all went well
            os.unlink(temporary)


def write_json(path: Path, value: Any) -> None:
    """Write what JSON can hold, atomically and with its SHA-256: text keys, lists and no tuples, None for NaN."""
    write_atomically(path, _document(str(path), value))


def read_json(path: Path) -> Any:
    """What `write_json` wrote; anything else is refused."""
    found = _DOCUMENT.fullmatch(read_bytes(path, JSON_LIMIT))
    if not found:
        raise CheckpointError(f"{path} is damaged: it must be one JSON object of sha256 and payload")
    _check_hash(str(path), found[2], found[1].decode())
    try:
        value = json.loads(found[2].decode("ascii"))
        if _canonical(value).encode() != found[2]:
            raise ValueError("keys must be sorted and each there once, without spaces")
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} holds no JSON that stakes writes: {_short(str(error))}") from error
    return value


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write named tensors, from any device and in any layout, as safetensors; returns the file's SHA-256."""
    content = _serialised(str(path), tensors)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def load_tensors(
    path: Path, sha256: str | None, expected: Layout | None = None, limit: int = TENSOR_LIMIT
) -> dict[str, Tensor]:
    """The tensors of a file, on the CPU; one larger than `limit`, or than what is expected needs, is refused unread."""
    if expected is not None:
        limit = HEADER_LIMIT + sum(dtype.itemsize * math.prod(shape) for dtype, shape in expected.values())
    content = read_bytes(path, limit)
    if sha256 is not None:
        _check_hash(str(path), content, sha256)
    _check_header(str(path), content)
    try:
        tensors = safetensors.torch.load(content)
    except Exception as error:  # which ones a hostile header can provoke is not documented
        raise CheckpointError(f"{path} is no safetensors file: {_short(str(error))}") from error
    _check_dtypes(str(path), tensors)
    if expected is not None:
        check_tensors(str(path), tensors, expected)
    return tensors


def check_tensors(source: str, tensors: Mapping[str, Tensor], expected: Layout) -> None:
    """Refuse tensors whose names, types or shapes are not those expected; `source` begins the message."""
    found = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    names = sorted(found.keys() | expected.keys())
    pairs = [(name, expected.get(name, "absent"), found.get(name, "absent")) for name in names]
    wrong = [f"{_short(name)} must be {due}, got {came}" for name, due, came in pairs if due != came]
    if wrong:
        raise CheckpointError(f"{source} has wrong tensors: {', '.join(wrong[:5])}")


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint, then delete all others but the one before it.

    That of a later epoch goes too: the training went back behind it, and `load_latest` shall find what was saved last.
    """
    epoch = checkpoint.epoch
    if type(epoch) is not int or not 0 <= epoch < _EPOCHS:
        raise CheckpointError(f"epoch must be a whole number from 0 to {_EPOCHS - 1}, got {_short(epoch)}")
    name = f"epoch-{epoch:08d}.json"
    content = _serialised(name, checkpoint.tensors)
    entry = _entry(epoch, hashlib.sha256(content).hexdigest(), len(content), checkpoint.state)
    document = _document(name, entry)
    write_atomically(folder / entry["file"], content)
    write_atomically(folder / name, document)
    with suppress(OSError):
        _tidy(folder, epoch, entry["file"])


def load_latest(
    folder: Path, check: Callable[[Checkpoint], None] | None = None, limit: int = TENSOR_LIMIT
) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest checkpoint that can be read, and a sentence for every newer one that cannot; None if there is none.

    `check` raises a `StakesError` for a checkpoint that does not fit. If there are checkpoints and none can be read,
    that is an error: nobody shall start again from zero unawares.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return None, ()
    except OSError as error:
        raise CheckpointError(f"the folder {folder} cannot be read: {error.strerror}") from error
    reasons: list[str] = []
    for name in sorted(filter(_JSON_NAME.fullmatch, names), reverse=True):
        try:
            checkpoint = _load_checkpoint(folder / name, limit)
            if check:
                check(checkpoint)
            return checkpoint, tuple(reasons)
        except StakesError as error:
            reasons.append(f"the checkpoint of epoch {_epoch(name)} was skipped: {error}")
    if reasons:
        raise CheckpointError(f"no checkpoint in {folder} can be used; to start anew, move it: {'; '.join(reasons)}")
    return None, ()


def _entry(epoch: int, sha256: str, size: int, state: dict[str, Any]) -> dict[str, Any]:
    name = f"epoch-{epoch:08d}-{sha256[:16]}.safetensors"
    return {"version": 1, "epoch": epoch, "file": name, "sha256": sha256, "size": size, "state": state}


def _load_checkpoint(path: Path, limit: int) -> Checkpoint:
    """The checkpoint, if its JSON is the very one this module writes for that file name, hash, size and state."""
    found, kinds = read_json(path), {"sha256": str, "size": int, "state": dict}
    if not isinstance(found, dict) or any(type(found.get(field)) is not kind for field, kind in kinds.items()):
        raise CheckpointError(f"{path} must give sha256, size and state of a checkpoint, got {_short(found)}")
    right = _entry(_epoch(path.name), found["sha256"], found["size"], found["state"])
    if not _TENSOR_NAME.fullmatch(right["file"]):
        raise CheckpointError(f"{path}: sha256 must be 64 hexadecimal digits, got {_short(found['sha256'])}")
    for field in sorted(right.keys() | found.keys()):
        came, due = found.get(field, "absent"), right.get(field, "absent")
        if field not in right or _canonical(came) != _canonical(due):  # as text, since True == 1
            raise CheckpointError(f"{path}: {_short(field)} must be {_short(due)}, got {_short(came)}")
    file = path.with_name(right["file"])
    tensors = load_tensors(file, right["sha256"], limit=min(limit, right["size"]))
    if file.stat().st_size != right["size"]:
        raise CheckpointError(f"{path}: size must be {file.stat().st_size}, got {right['size']}")
    return Checkpoint(right["epoch"], tensors, right["state"])


def _epoch(name: str) -> int:
    return int(name[6:14])


def _serialised(source: str, tensors: Mapping[str, Tensor]) -> bytes:
    if "__metadata__" in tensors:
        raise CheckpointError(f"{source}: no tensor may be named '__metadata__', which safetensors keeps for itself")
    _check_dtypes(source, tensors)
    try:  # a copy of each, since safetensors takes neither shared memory nor any layout but the plain one
        plain = {name: torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu") for name, tensor in tensors.items()}
        content = safetensors.torch.save({name: plain[name].copy_(tensors[name].detach()) for name in tensors})
    except (RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: the tensors cannot be written: {_short(str(error))}") from error
    _check_header(source, content)
    return content


def _check_dtypes(source: str, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES:
            raise CheckpointError(f"{source}: {_short(name)} must be of floats, integers or bool, got {tensor.dtype}")


def _check_header(source: str, content: bytes) -> None:
    if (length := int.from_bytes(content[:8], "little")) > HEADER_LIMIT:
        raise CheckpointError(f"{source}: the header of tensor names has {length} bytes, more than {HEADER_LIMIT}")


def _check_hash(source: str, content: bytes, expected: str) -> None:
    if (found := hashlib.sha256(content).hexdigest()) != expected:
        raise CheckpointError(f"{source} is damaged: its SHA-256 is {found}, not {_short(expected)}")


def _document(source: str, value: Any) -> bytes:
    try:
        payload = _canonical(value).encode()
        if json.loads(payload) != value:
            raise ValueError("the value would come back changed, use text for keys and lists for tuples")
    except (RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: JSON cannot hold this, pass None for NaN: {_short(str(error))}") from error
    if len(payload) > JSON_LIMIT - 100:
        raise CheckpointError(f"{source}: the JSON has {len(payload)} bytes, at most {JSON_LIMIT} can be read again")
    return b'{"sha256":"%s","payload":%s}\n' % (hashlib.sha256(payload).hexdigest().encode(), payload)


def _canonical(value: Any) -> str:
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _short(value: Any) -> str:
    """The value in ASCII, cut: what a hostile file holds neither floods a message nor steers a terminal."""
    text = ascii(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def read_bytes(path: Path, limit: int) -> bytes:
    """All bytes of a regular file; links are not followed, a pipe does not block."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise CheckpointError(f"{path} must be a regular file, not a link, a folder or a pipe")
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            if (size := os.fstat(file.fileno()).st_size) > limit:
                raise CheckpointError(f"{path} has {size} bytes, at most {limit} are expected")
            return file.read(size)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """See that the names in a folder outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def _tidy(folder: Path, epoch: int, tensor_name: str) -> None:
    """Delete all checkpoints but this one and the one before, tensors without JSON, and what dead writers left."""
    names = os.listdir(folder)
    documents, tensors = (sorted(filter(pattern.fullmatch, names)) for pattern in (_JSON_NAME, _TENSOR_NAME))
    kept = {epoch, max((other for other in map(_epoch, documents) if other < epoch), default=epoch)}
    stale = [name for name in documents + tensors if _epoch(name) not in kept]  # no JSON outlives its tensors
    stale += [name for name in tensors if _epoch(name) == epoch and name != tensor_name]
    stale += [found[0] for found in map(_TEMPORARY_NAME.fullmatch, names) if found and _is_dead(int(found[1]))]
    for name in stale:
        with suppress(OSError):
            os.unlink(folder / name)


def _is_dead(process: int) -> bool:
    """Whether no other process has that number; this one, which asks, has nothing left to write."""
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return process == os.getpid()
