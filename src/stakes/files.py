"""Files that outlive a crash: atomic writes, JSON with its digest, careful reads, and locks on folders."""

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from stakes.errors import CheckpointError, SettingError

JSON_LIMIT = 64 * 2**20
"""How many bytes a JSON file may have."""

_BLOCK = 1 << 20  # bytes read at once
_UNPACKED, _PACKED_TIMES = 1 << 28, 20  # bytes that any file may unpack to, and how many times its own size
_NOT_REGULAR = "must be a regular file, not a link, a folder or a pipe"
_DOCUMENT = re.compile(rb'\{"sha256":"([0-9a-f]{64})","payload":(.*)\}\n', re.DOTALL)


def write_atomically(path: Path, content: bytes) -> None:
    """Put the content at the path: a crash leaves the old file or the new one, whole."""
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
    """Write a JSON file, atomically and with its SHA-256."""
    write_atomically(path, json_document(str(path), value))


def read_json(path: Path) -> Any:
    """What `write_json` wrote; anything else is refused."""
    return parse_json(str(path), read_bytes(path, JSON_LIMIT))


def parse_json(source: str, content: bytes, checked: bool = False) -> Any:
    """The value in the bytes that `write_json` wrote; anything else is refused."""
    document = _DOCUMENT.fullmatch(content)
    if not document:
        raise CheckpointError(f"{source} is damaged: it must be one JSON object of sha256 and payload")
    sha256, payload = document.groups()
    if not checked:
        check_sha256(source, payload, sha256.decode())
    try:
        value = json.loads(payload.decode("ascii"))
        if canonical_json(value).encode() != payload:
            raise ValueError("keys must be sorted and each there once, without spaces")
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source} holds no JSON that stakes writes: {short_ascii(str(error))}") from error
    return value


def read_bytes(path: Path, limit: int) -> bytes:
    """All bytes of a regular file; links are not followed, a pipe does not block."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise CheckpointError(f"{path} {_NOT_REGULAR}")
        with open(path, "rb", opener=_open_warily) as file:
            if (size := os.fstat(file.fileno()).st_size) > limit:
                raise CheckpointError(f"{path} has {size} bytes, at most {limit} are expected")
            return file.read(size)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def is_pipe_or_device(path: str | Path) -> bool:
    """Whether what is there is neither a file nor a folder: a pipe is waited for, and a device may have no end."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def unpacked_limit(packed: int) -> int:
    """How many bytes a packed file may unpack to; a table takes a few times its size, a bomb a thousand times."""
    return max(_UNPACKED, _PACKED_TIMES * packed)


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a folder so that no second process trains in it; the system lets go of it when the process ends."""
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    with _lock_file(folder) as file:
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() >= until:
                    raise SettingError(f"another process is training in {folder}") from error
                time.sleep(0.1)
        yield


def sync_folder(folder: Path) -> None:
    """See that the names in a folder outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def content_digest(path: Path) -> str:
    """The SHA-256 of a file, or of the names and contents of all files in a folder."""
    digest = hashlib.sha256()
    folder = path.is_dir()
    for file in sorted(path.rglob("*")) if folder else [path]:
        if folder and not file.is_file():
            continue
        if folder:
            digest.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def check_sha256(source: str, content: bytes, expected: str) -> None:
    """Raise if the content has another SHA-256."""
    if (sha256 := hashlib.sha256(content).hexdigest()) != expected:
        raise CheckpointError(f"{source} is damaged: its SHA-256 is {sha256}, not {short_ascii(expected)}")


def json_document(source: str, value: Any) -> bytes:
    """The bytes that `write_json` writes."""
    try:
        payload = canonical_json(value).encode()
        if json.loads(payload) != value:
            raise ValueError("the value would come back changed, use text for keys and lists for tuples")
    except (RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{source}: JSON cannot hold this, pass None for NaN: {short_ascii(str(error))}"
        ) from error
    if len(payload) > JSON_LIMIT - 100:
        raise CheckpointError(f"{source}: the JSON has {len(payload)} bytes, at most {JSON_LIMIT} can be read again")
    return b'{"sha256":"%s","payload":%s}\n' % (hashlib.sha256(payload).hexdigest().encode(), payload)


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))


def short_ascii(value: Any) -> str:
    """The value in ASCII, cut: what a hostile file holds neither floods a message nor steers a terminal."""
    text = ascii(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _lock_file(folder: Path) -> IO[bytes]:
    """The file that stands for the folder, made if need be; whatever else has its name is left as it is."""
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise SettingError(f"{path} {_NOT_REGULAR}")
        return open(path, "ab", opener=_open_warily)
    except OSError as error:
        raise SettingError(f"{folder} cannot be used as a folder: {error.strerror}") from error


def _open_warily(name: str, flags: int) -> int:
    """Open neither what a link points to, nor a pipe that has to be waited for."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
