import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from refusals import refuses

from reproduction.runs.settings_files import read_settings_file, set_dotted
from stakes.errors import SettingError


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, name: str = "run.toml") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refusal(path: Path) -> str:
    with pytest.raises(SettingError) as caught:
        read_settings_file(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(path.name) == 1
    return str(caught.value).replace(str(path), path.name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.toml", 'seed = 1\n[task]\nname = "wind"\n'),
        ("RUN.TOML", '\ufeffseed = 1\r\n[task]\r\nname = "wind"\r\n'),
        ("run.json", '{"seed": 1, "task": {"name": "wind"}}'),
        ("run.json", '\ufeff{"seed": 1, "task": {"name": "wind"}}'),
    ],
)
def test_files_are_read(write: Callable[..., Path], name: str, content: str) -> None:
    assert read_settings_file(write(content, name)) == {"seed": 1, "task": {"name": "wind"}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.toml", "a = 1\nb 2"),
        ("run.toml", f"a = {'9' * 5000}"),
        ("run.toml", b"a = '\xff'"),
        *(("run.toml", deep) for deep in ("a = " + "[" * 100_000, "a = " + "[" * 60 + "]" * 60, "a." * 2000 + "a = 1")),
        ("run.toml", b"#" * (2**20 + 1)),
        ("run.json", '{"a": 1,\n}'),
        ("run.json", '{"a": 1, "a": 2}'),
        ("run.json", "[" * 100_000),
        ("run.json", "[1]"),
        ("run.json", ""),
        ("run.yaml", "a: 1"),
        ("run", "a = 1"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "bytes",
)
def test_a_file_that_cannot_be_read_is_named(write: Callable[..., Path], name: str, content: str | bytes) -> None:
    assert refusal(write(content, name)).startswith(f"'{name}' ")


def test_a_file_of_the_largest_size_is_read(write: Callable[..., Path]) -> None:
    assert read_settings_file(write(b"#" * 2**20)) == {}


def test_a_missing_file_is_looked_for_among_its_neighbours(write: Callable[..., Path], tmp_path: Path) -> None:
    write("", "wind.toml")
    write("", "winds.json")
    assert "did you mean 'wind.toml'" in refusal(tmp_path / "wnid.toml")
    assert "did you mean" not in refusal(tmp_path / "nothing_like_it.toml")
    assert "did you mean" not in refusal(tmp_path / "absent" / "wind.toml")


def test_a_folder_a_pipe_and_a_name_too_long_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    assert "'folder.toml' is a folder" in refusal(tmp_path / "folder.toml")
    os.mkfifo(tmp_path / "pipe.toml")
    assert "'pipe.toml'" in refusal(tmp_path / "pipe.toml")
    refuses(SettingError, "cannot be read", read_settings_file, tmp_path / f"{'x' * 3000}.toml")
    refuses(SettingError, "there is no file", read_settings_file, tmp_path / "a\0.toml")


def test_set_dotted_copies_and_sets() -> None:
    values = {"a": {"b": {"c": 1}, "d": 2}, "e": [1]}
    before = deepcopy(values)
    assert set_dotted(values, "a.b.c", 5) == {"a": {"b": {"c": 5}, "d": 2}, "e": [1]}
    assert set_dotted(values, "x.y", 5) == {**before, "x": {"y": 5}}
    assert set_dotted(values, "a", 5) == {"a": 5, "e": [1]}
    assert values == before


def test_set_dotted_opens_a_bare_name() -> None:
    assert set_dotted({"task": "wind"}, "task.penalty", 5) == {"task": {"name": "wind", "penalty": 5}}
    assert set_dotted({"task": "wind"}, "task.name", "nothing") == {"task": {"name": "nothing"}}


@pytest.mark.parametrize("key", ["a.b.c", "list.x", "", "a..b", ".a"])
def test_set_dotted_refuses(key: str) -> None:
    refuses(SettingError, key, set_dotted, {"a": {"b": 1}, "list": [1]}, key, 5)
