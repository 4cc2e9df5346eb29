"""Where a training stands, on disk: its newest checkpoints, every file atomic and verified, no pickle."""

import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from stakes.errors import CheckpointError, StakesError
from stakes.files import (
    canonical_json,
    json_document,
    read_json,
    short_ascii,
    write_atomically,
)
from stakes.training.stored_models import TENSOR_LIMIT, load_tensors, serialised

_EPOCHS = 10**8
_JSON_NAME = re.compile(r"epoch-[0-9]{8}\.json")
_TENSOR_NAME = re.compile(r"epoch-[0-9]{8}-[0-9a-f]{16}\.safetensors")
_TEMPORARY_NAME = re.compile(rf"\.(?:{_JSON_NAME.pattern}|{_TENSOR_NAME.pattern})\.([0-9]{{1,9}})-[0-9a-f]{{16}}\.tmp")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a training stands."""

    epoch: int  # the epochs that are over, those of pre-training counted in
    tensors: dict[str, Tensor]  # named tensors, on any device
    state: dict[str, Any]  # all else, in what JSON can hold


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint, then delete all others but the one before it.

    That of a later epoch goes too: the training went back behind it, and `load_latest` shall find what was saved last.
    """
    epoch = checkpoint.epoch
    if type(epoch) is not int or not 0 <= epoch < _EPOCHS:
        raise CheckpointError(f"epoch must be a whole number from 0 to {_EPOCHS - 1}, got {short_ascii(epoch)}")
    name = f"epoch-{epoch:08d}.json"
    content = serialised(name, checkpoint.tensors)
    entry = _entry(epoch, hashlib.sha256(content).hexdigest(), len(content), checkpoint.state)
    document = json_document(name, entry)
    write_atomically(folder / entry["file"], content)
    write_atomically(folder / name, document)
    with suppress(OSError):
        _tidy(folder, epoch, entry["file"])


def load_latest(
    folder: Path, check: Callable[[Checkpoint], None] | None = None, limit: int = TENSOR_LIMIT
) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest checkpoint that can be read, and a sentence for every newer one that cannot; None if there is none.

    If there are checkpoints and none can be read, that is an error: nobody shall start again from zero unawares.
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
    entry, kinds = read_json(path), {"sha256": str, "size": int, "state": dict}
    if not isinstance(entry, dict) or any(type(entry.get(field)) is not kind for field, kind in kinds.items()):
        raise CheckpointError(f"{path} must give sha256, size and state of a checkpoint, got {short_ascii(entry)}")
    right = _entry(_epoch(path.name), entry["sha256"], entry["size"], entry["state"])
    if not _TENSOR_NAME.fullmatch(right["file"]):
        raise CheckpointError(f"{path}: sha256 must be 64 hexadecimal digits, got {short_ascii(entry['sha256'])}")
    for field in sorted(right.keys() | entry.keys()):
        came, due = entry.get(field, "absent"), right.get(field, "absent")
        if field not in right or canonical_json(came) != canonical_json(due):  # as text, since True == 1
            raise CheckpointError(f"{path}: {short_ascii(field)} must be {short_ascii(due)}, got {short_ascii(came)}")
    file = path.with_name(right["file"])
    tensors = load_tensors(file, right["sha256"], limit=min(limit, right["size"]))
    if file.stat().st_size != right["size"]:
        raise CheckpointError(f"{path}: size must be {file.stat().st_size}, got {right['size']}")
    return Checkpoint(right["epoch"], tensors, right["state"])


def _epoch(name: str) -> int:
    return int(name[6:14])


def _tidy(folder: Path, epoch: int, tensor_name: str) -> None:
    """Delete all checkpoints but this one and the one before, tensors without JSON, and what dead writers left."""
    names = os.listdir(folder)
    documents, tensors = (sorted(filter(pattern.fullmatch, names)) for pattern in (_JSON_NAME, _TENSOR_NAME))
    kept = {epoch, max((other for other in map(_epoch, documents) if other < epoch), default=epoch)}
    stale = [name for name in documents + tensors if _epoch(name) not in kept]  # no JSON outlives its tensors
    stale += [name for name in tensors if _epoch(name) == epoch and name != tensor_name]
    stale += [match[0] for match in map(_TEMPORARY_NAME.fullmatch, names) if match and _is_dead(int(match[1]))]
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
