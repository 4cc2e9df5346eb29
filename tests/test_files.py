import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from damaged_bytes import NOT_JSON, document, edited, edits, json_values, some_examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from stakes import files
from stakes.errors import CheckpointError, SettingError
from stakes.files import content_digest, locked, read_bytes, read_json, write_atomically, write_json


@some_examples
@given(json_values)
def test_json_comes_back(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "value.json"
    write_json(path, value)
    assert repr(read_json(path)) == repr(sorted_keys(value))


def sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("value", "message"), NOT_JSON.values(), ids=NOT_JSON)
def test_json_that_would_not_come_back_is_not_written(value: Any, message: str, tmp_path: Path) -> None:
    refuses(CheckpointError, rf"/a\.json: .*{re.escape(message)}", write_json, tmp_path / "a.json", value)
    assert list(tmp_path.iterdir()) == []


def test_json_that_was_changed_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"cost": 1})
    (tmp_path / "a.json").write_bytes((tmp_path / "a.json").read_bytes().replace(b'"cost":1', b'"cost":2'))
    refuses(CheckpointError, "SHA-256", read_json, tmp_path / "a.json")


def test_json_too_large_to_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "JSON_LIMIT", 1000)
    write_json(tmp_path / "a.json", "x" * 890)
    assert read_json(tmp_path / "a.json") == "x" * 890
    refuses(CheckpointError, r"/b\.json: the JSON has 902 bytes, at most", write_json, tmp_path / "b.json", "x" * 900)


@some_examples
@given(st.binary(max_size=40) | edits.map(lambda changes: edited(b'{"a":[1,2.5,null],"b":{"c":"\\u00fc"}}', changes)))
def test_random_json_with_its_true_hash_is_canonical_or_refused(tmp_path_factory: Any, payload: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "a.json"
    path.write_bytes(document(payload))
    try:
        value = read_json(path)
    except CheckpointError:
        return
    assert json.dumps(value, sort_keys=True, separators=(",", ":")).encode() == payload


def test_a_write_in_many_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    write_atomically(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_an_interrupted_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    write_atomically(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "fsync", interrupt)
    refuses(KeyboardInterrupt, "", write_atomically, tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_link_to_elsewhere_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"
    assert not (tmp_path / "a").is_symlink()


def test_the_digest_of_a_folder_knows_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    (folder / "c").mkdir(parents=True)
    (folder / "zarr.json").write_bytes(b"{}")
    (folder / "c" / "0").write_bytes(b"chunk")
    digests = [content_digest(folder)]
    assert content_digest(folder) == digests[0]
    (folder / "zarr.json").rename(folder / "other.json")
    digests.append(content_digest(folder))
    (folder / "other.json").write_bytes(b"[]")
    digests.append(content_digest(folder))
    assert len(set(digests)) == 3
    (tmp_path / "a.txt").write_bytes(b"abc")
    assert content_digest(tmp_path / "a.txt").startswith("ba7816bf")


def test_only_a_regular_file_of_the_right_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    refuses(CheckpointError, r"a has 5 bytes, at most 4 are expected", read_bytes, tmp_path / "a", 4)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        refuses(CheckpointError, "must be a regular file, not a link, a folder or a", read_bytes, tmp_path / name, 5)
    refuses(CheckpointError, "b ", read_bytes, tmp_path / "b", 5)


def test_a_folder_is_held_once_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    message = "another process is training in"
    with locked(folder), pytest.raises(SettingError, match=message), locked(folder, patience=0.2):
        pass
    with locked(folder):
        pass


def test_the_lock_of_a_folder_is_a_file_of_its_own(tmp_path: Path) -> None:
    """What a link of that name points to keeps its content, and a pipe of that name does not block."""
    precious, lock = tmp_path / "precious", tmp_path / "run" / ".lock"
    precious.write_text("mine")
    lock.parent.mkdir()
    message = r"\.lock must be a regular file, not a link, a folder or a pipe"
    makers = (lambda: lock.symlink_to(precious), lambda: lock.symlink_to("nowhere"), lambda: os.mkfifo(lock))
    for make in makers:
        make()
        with pytest.raises(SettingError, match=message), locked(lock.parent):
            pass
        lock.unlink()
    lock.hardlink_to(precious)
    with locked(lock.parent):
        pass
    assert precious.read_text() == "mine"
    assert not (lock.parent / "nowhere").exists()
