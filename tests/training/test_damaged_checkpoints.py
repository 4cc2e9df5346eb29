import hashlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from damaged_bytes import document, edited, edits, json_values, some_examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from safetensors.torch import save as safetensors_bytes
from small_checkpoints import LAYOUT, assert_same, checkpoint
from training.bounded_loads import BoundedLoads

from stakes.errors import CheckpointError, ShapeError
from stakes.files import read_json, write_json
from stakes.training.stored_models import check_tensors, load_tensors, save_tensors
from stakes.training.trainer import Checkpoint, load_latest, save_checkpoint

JSON = "epoch-00000002.json"


def tensor_file(folder: Path) -> Path:
    (path,) = folder.glob("epoch-00000002-*.safetensors")
    return path


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def flipped(place: float) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        index = min(int(place * len(content)), len(content) - 1)
        return content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]

    return flip


def forged(**changes: Any) -> Callable[[Path], None]:
    """Other fields in the JSON, its hash made good."""

    def forge(folder: Path) -> None:
        entry = read_json(folder / JSON) | changes
        write_json(folder / JSON, {field: value for field, value in entry.items() if value is not ...})

    return forge


def with_tensors(content: bytes) -> Callable[[Path], None]:
    """Other content in the tensor file, and a JSON that vouches for it."""

    def replace(folder: Path) -> None:
        tensor_file(folder).unlink()
        sha256 = hashlib.sha256(content).hexdigest()
        name = f"epoch-00000002-{sha256[:16]}.safetensors"
        (folder / name).write_bytes(content)
        forged(file=name, sha256=sha256, size=len(content))(folder)

    return replace


def with_header(header: Any, data: bytes = b"", length: int | None = None) -> Callable[[Path], None]:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return with_tensors((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def with_tensor(dtype: str, shape: list[int], start: int, end: int, data: bytes) -> Callable[[Path], None]:
    return with_header({"weights": {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}}, data)


def with_payload(payload: bytes) -> Callable[[Path], None]:
    return lambda folder: edit(folder / JSON, lambda _: document(payload))


def many_keys(folder: Path) -> None:
    with_payload(b"{%s}" % b",".join(b'"%08d":0' % index for index in range(200_000)))(folder)


def many_tensors(folder: Path) -> None:
    with_tensors(safetensors_bytes({f"{index}": torch.zeros(0) for index in range(10_000)}))(folder)


def entry_text(folder: Path) -> bytes:
    return json.dumps(read_json(folder / JSON), sort_keys=True, separators=(",", ":")).encode()


def json_as(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: edit(folder / JSON, change)


def tensors_as(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: edit(tensor_file(folder), change)


def payload_as(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: with_payload(change(entry_text(folder)))(folder)


def replaced(make: Callable[[Path], None], what: Callable[[Path], Path]) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        path = what(folder)
        path.rename(folder.parent / "original")
        make(path)

    return replace


def json_file(folder: Path) -> Path:
    return folder / JSON


class Bomb:
    """What a pickle of this would run makes a file."""

    def __init__(self, folder: Path) -> None:
        self.arguments = (folder.parent / "marker", "w")

    def __reduce__(self) -> Any:
        return open, self.arguments


def link_to_original(path: Path) -> None:
    path.symlink_to(path.parent.parent / "original")


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


def sparse_tensors_with_their_size(folder: Path) -> None:
    os.truncate(tensor_file(folder), 2**40)
    forged(size=2**40)(folder)


def renamed_from_the_first(folder: Path) -> None:
    shutil.copy(folder / "epoch-00000001.json", folder / JSON)


def tensors_of_the_first(folder: Path) -> None:
    (first,) = folder.glob("epoch-00000001-*.safetensors")
    shutil.copy(first, tensor_file(folder))


def forged_name(name: str) -> Callable[[Path], None]:
    """The tensor file lies where a name that leaves the folder says."""

    def forge(folder: Path) -> None:
        if "\0" not in name:
            shutil.copy(tensor_file(folder), folder / name)
        forged(file=name)(folder)

    return forge


def forged_hash_that_leaves_the_folder(folder: Path) -> None:
    sha256 = "/../../original" + "0" * 49
    forged(sha256=sha256, file=f"epoch-00000002-{sha256[:16]}.safetensors")(folder)


def absolute_name(folder: Path) -> None:
    forged_name(str(folder.parent / "elsewhere"))(folder)


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb(path.parent)))


def zipped(path: Path) -> None:
    torch.save({"weights": torch.ones(2, 3), "bomb": Bomb(path.parent)}, path)


def vouched(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """A tensor file that the JSON vouches for."""

    def replace(folder: Path) -> None:
        make(folder / "content")
        content = (folder / "content").read_bytes()
        (folder / "content").unlink()
        with_tensors(content)(folder)

    return replace


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
CASES: dict[str, Callable[[Path], None]] = {
    "json: a pickle": replaced(pickled, json_file),
    "json: a zip of torch.save": replaced(zipped, json_file),
    "json: empty": json_as(lambda content: b""),
    "json: cut in the middle": json_as(lambda content: content[: len(content) // 2]),
    "json: cut by one byte": json_as(lambda content: content[:-1]),
    "json: bytes appended": json_as(lambda content: content + b" "),
    "json: bit flipped in the payload": json_as(flipped(0.6)),
    "json: no hash": json_as(lambda content: content[content.index(b"payload") + 9 : -2]),
    "json: byte order mark": json_as(lambda content: b"\xef\xbb\xbf" + content),
    "json: utf-16": json_as(lambda content: content.decode().encode("utf-16")),
    "json: invalid utf-8": payload_as(lambda payload: payload.replace(b"loss", b"\xff\xfe")),
    "json: duplicate key": payload_as(lambda payload: payload.replace(b'{"epoch":2', b'{"epoch":2,"epoch":2')),
    "json: keys in another order": payload_as(lambda payload: b'{"version":1,' + payload[1:-13] + b"}"),
    "json: NaN": payload_as(lambda payload: payload.replace(b"null", b"NaN")),
    "json: infinity": payload_as(lambda payload: payload.replace(b"null", b"1e999")),
    "json: a number of 5000 digits": payload_as(lambda payload: payload.replace(b"null", b"9" * 5000)),
    "json: lists in lists": with_payload(b"[" * 10**6 + b"]" * 10**6),
    "json: objects in objects": with_payload(b'{"":' * 10**6),
    "json: many keys": many_keys,
    "json: a list": with_payload(b"[]"),
    "json: an empty object": with_payload(b"{}"),
    "json: a megabyte for a field": forged(sha256="0" * 2**20),
    "json: over the limit": replaced(sparse(2**36), json_file),
    "json: a pipe": replaced(os.mkfifo, json_file),
    "json: a folder": replaced(os.mkdir, json_file),
    "json: a symbolic link": replaced(link_to_original, json_file),
    "json: a link to /dev/zero": replaced(link_to_zeros, json_file),
    "json: that of another epoch": renamed_from_the_first,
    "json: epoch huge": forged(epoch=10**400),
    "json: version missing": forged(version=...),
    "json: state missing": forged(state=...),
    "json: state a list": forged(state=[]),
    "json: size too small": forged(size=1),
    "json: hash of something else": forged(sha256="0" * 64),
    "json: hash that leaves the folder": forged_hash_that_leaves_the_folder,
    "name: above the folder": forged_name("../x"),
    "name: absolute": absolute_name,
    "name: with NUL": forged_name("epoch-00000002-0123456789abcdef.safetensors\0"),
    "name: with a backslash": forged_name("..\\x"),
    "name: with a terminal's escape": forged_name("\x1b[2J"),
    "tensors: missing": lambda folder: tensor_file(folder).unlink(),
    "tensors: a pickle": replaced(pickled, tensor_file),
    "tensors: a pickle that is vouched for": vouched(pickled),
    "tensors: a zip of torch.save": replaced(zipped, tensor_file),
    "tensors: a zip of torch.save that is vouched for": vouched(zipped),
    "tensors: empty": tensors_as(lambda content: b""),
    "tensors: cut in the header": tensors_as(lambda content: content[:50]),
    "tensors: cut in the data": tensors_as(lambda content: content[:-10]),
    "tensors: bytes appended": tensors_as(lambda content: content + b"\0"),
    "tensors: bit flipped in the data": tensors_as(flipped(1.0)),
    "tensors: those of another epoch": tensors_of_the_first,
    "tensors: over the size": replaced(sparse(2**40), tensor_file),
    "tensors: over the limit": sparse_tensors_with_their_size,
    "tensors: a pipe": replaced(os.mkfifo, tensor_file),
    "tensors: a folder": replaced(os.mkdir, tensor_file),
    "tensors: a symbolic link": replaced(link_to_original, tensor_file),
    "tensors: a link to /dev/zero": replaced(link_to_zeros, tensor_file),
    "header: empty file": with_tensors(b""),
    "header: only a length": with_header(b""),
    "header: length 2**63": with_header({}, length=2**63),
    "header: length 2**64 - 1": with_header({}, length=2**64 - 1),
    "header: length 1 MiB": with_header({}, length=2**20),
    "header: 2 MiB of spaces": with_header(b"{" + b" " * 2**21 + b"}"),
    "header: no JSON": with_header(b"{weights}"),
    "header: a list": with_header([]),
    "header: invalid utf-8": with_header(b'{"\xff": 1}'),
    "header: lists in lists": with_header(b'{"weights":' + b"[" * 10**6),
    "header: metadata in metadata": with_header(b'{"__metadata__":' * 60_000),
    "header: overlapping tensors": with_header({"bias": ONE, "weights": ONE}, bytes(4)),
    "header: a gap": with_header({"bias": ONE, "weights": ONE | {"data_offsets": [8, 12]}}, bytes(12)),
    "header: offsets out of range": with_tensor("F32", [1], 4, 8, bytes(4)),
    "header: offsets backwards": with_tensor("F32", [1], 4, 0, bytes(4)),
    "header: negative offsets": with_tensor("F32", [1], -4, 0, bytes(4)),
    "header: shape against data": with_tensor("F32", [2], 0, 4, bytes(4)),
    "header: negative shape": with_tensor("F32", [-1], 0, 4, bytes(4)),
    "header: huge shape, little data": with_tensor("F32", [2**40], 0, 2**42, bytes(4)),
    "header: shape that overflows": with_tensor("F32", [2**32, 2**32], 0, 0, b""),
    "header: shape beyond torch": with_tensor("F32", [2**63, 0], 0, 0, b""),
    "header: unknown type": with_tensor("F99", [1], 0, 4, bytes(4)),
    "header: type that torch lacks": with_tensor("F4", [8], 0, 4, bytes(4)),
    "header: complex": with_tensor("C64", [1], 0, 8, bytes(8)),
    "header: data that no tensor has": with_header({"weights": ONE}, bytes(400)),
    "fit: wrong type": with_tensors(safetensors_bytes(checkpoint(2).tensors | {"bias": torch.zeros(3)})),
    "fit: wrong shape": with_tensors(safetensors_bytes(checkpoint(2).tensors | {"weights": torch.zeros(3, 2)})),
    "fit: missing tensor": with_tensors(safetensors_bytes({"weights": torch.zeros(2, 3)})),
    "fit: another tensor": with_tensors(safetensors_bytes(checkpoint(2).tensors | {"\x1b[2J": torch.zeros(1)})),
    "fit: no tensors": with_tensors(safetensors_bytes({})),
    "fit: 10000 other tensors": many_tensors,
}


def fits(found: Checkpoint) -> None:
    check_tensors(JSON if found.epoch == 2 else "the first", found.tensors, LAYOUT)


@pytest.fixture(scope="module")
def bounded_load() -> Iterator[Callable[[Path], int]]:
    """How the load of a folder ends that is given little CPU time and memory, 0 where all goes well."""
    loads = BoundedLoads()
    yield loads
    loads.end()


@pytest.mark.parametrize("case", CASES)
def test_hostile_and_damaged_files_are_refused(case: str, folder: Path, bounded_load: Callable[[Path], int]) -> None:
    CASES[case](folder)
    assert bounded_load(folder) == 0
    found, reasons = load_latest(folder, fits)
    assert_same(found, checkpoint(1))
    (reason,) = reasons
    assert re.match(r"the checkpoint of epoch 2 was skipped: (.*/)?epoch-00000002", reason)
    assert len(reason) < 600
    assert reason.isascii()
    assert reason.isprintable()

    for path in folder.glob("epoch-00000001*"):
        path.unlink()
    told = refuses(CheckpointError, "", load_latest, folder, fits)
    assert str(folder) in told
    assert reason[:70] in told
    assert not (folder.parent / "marker").exists()


def test_a_load_that_takes_much_would_be_seen(folder: Path, bounded_load: Callable[[Path], int]) -> None:
    with_payload(b"[%s]" % b",".join([b"[]"] * 8_000_000))(folder)
    assert bounded_load(folder) != 0


def test_a_pickle_of_the_bomb_would_make_the_marker(folder: Path) -> None:
    pickled(folder / "x")
    pickle.loads((folder / "x").read_bytes()).close()
    assert (folder.parent / "marker").exists()


def test_two_checkpoints_that_exchanged_their_tensors_are_both_refused(folder: Path) -> None:
    (first,) = folder.glob("epoch-00000001-*.safetensors")
    second = tensor_file(folder)
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    refuses(CheckpointError, rf"{second.name} is damaged.*{first.name} is damaged", load_latest, folder)


def test_a_checkpoint_that_does_not_fit_is_skipped(folder: Path) -> None:
    def check(found: Checkpoint) -> None:
        if found.epoch == 2:
            raise ShapeError("weights must be (2, 4)")

    found, reasons = load_latest(folder, check)
    assert_same(found, checkpoint(1))
    assert reasons == ("the checkpoint of epoch 2 was skipped: weights must be (2, 4)",)


def test_an_error_of_the_check_itself_is_not_hidden(folder: Path) -> None:
    refuses(ZeroDivisionError, "", load_latest, folder, lambda found: print(1 // 0))  # noqa: T201


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (LAYOUT | {"bias": (torch.float32, (3,))}, r"'bias' must be \(torch.float32, \(3,\)\), got \(torch.float64"),
        (LAYOUT | {"weights": (torch.float32, (3, 2))}, r"'weights' must be .*\(3, 2\)\), got .*\(2, 3\)\)"),
        (LAYOUT | {"more": (torch.float32, (1,))}, r"'more' must be \(torch.float32, \(1,\)\), got absent"),
        ({"bias": LAYOUT["bias"]}, r"'weights' must be absent, got \(torch.float32, \(2, 3\)\)"),
    ],
    ids=["type", "shape", "missing", "unknown"],
)
def test_tensors_other_than_expected_are_named(expected: Any, message: str, tmp_path: Path) -> None:
    save_tensors(tmp_path / "a.safetensors", checkpoint(1).tensors)
    with pytest.raises(CheckpointError, match=rf"/a\.safetensors has wrong tensors: {message}"):
        load_tensors(tmp_path / "a.safetensors", None, expected)


def test_a_file_larger_than_expected_is_refused_unread(tmp_path: Path) -> None:
    sparse(2**20 + 49)(tmp_path / "a.safetensors")
    refuses(CheckpointError, r"/a\.safetensors has 1048625", load_tensors, tmp_path / "a.safetensors", None, LAYOUT)
    refuses(CheckpointError, "at most 100 are expected", load_tensors, tmp_path / "a.safetensors", None, limit=100)


def test_a_wrong_hash_is_refused(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a.safetensors", {})
    refuses(CheckpointError, r"/a\.safetensors is damaged: its", load_tensors, tmp_path / "a.safetensors", "0" * 64)


# Random damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("saved")
    save_checkpoint(folder, checkpoint(2))
    return folder, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@some_examples
@given(changes=edits)
def test_random_damage_never_loads_something_else(saved: Any, suffix: str, changes: Any) -> None:
    folder, files = saved
    for name, content in files.items():
        (folder / name).write_bytes(edited(content, changes) if name.endswith(suffix) else content)
    try:
        found, _ = load_latest(folder)
    except CheckpointError:
        return
    assert_same(found, checkpoint(2))


@some_examples
@given(changes=edits)
def test_random_damage_without_a_hash_raises_nothing_else(tmp_path_factory: Any, changes: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "a.safetensors"
    path.write_bytes(edited(safetensors_bytes(checkpoint(2).tensors), changes))
    try:
        found = load_tensors(path, None, LAYOUT)
    except CheckpointError:
        return
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in found.items()} == LAYOUT


@some_examples
@given(field=st.sampled_from(["version", "epoch", "file", "sha256", "size", "extra"]), value=json_values)
def test_a_random_field_with_its_true_hash_is_refused(saved: Any, field: str, value: Any) -> None:
    folder, files = saved
    for name, content in files.items():
        (folder / name).write_bytes(content)
    right = read_json(folder / JSON)
    payload = json.dumps(right | {field: value}, sort_keys=True, separators=(",", ":")).encode()
    (folder / JSON).write_bytes(document(payload))
    if payload == json.dumps(right, sort_keys=True, separators=(",", ":")).encode():
        return
    refuses(CheckpointError, "epoch-00000002", load_latest, folder)
