import os
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refuses

from stakes.errors import SettingError
from stakes.settings import read_settings_file


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
    ("name", "content", "expected"),
    [
        (
            "run.toml",
            "a = 1\nb 2",
            "cannot be read: Expected '=' after a key in a key/value pair (at line 2, column 3)",
        ),
        ("run.toml", "a = 1\na = 2", "cannot be read: Cannot overwrite a value (at "),
        ("run.toml", f"a = {'9' * 5000}", "cannot be read: Exceeds the limit"),
        ("run.toml", b"a = '\xff'", "cannot be read: 'utf-8' codec can't decode byte 0xff in position 5"),
        ("run.toml", "a = " + "[" * 100_000, "is nested too deeply"),
        ("run.toml", "a = " + "[" * 60 + "]" * 60, "is nested too deeply"),
        ("run.toml", "a." * 2000 + "a = 1", "is nested too deeply"),
        ("run.toml", b"#" * (2**20 + 1), "must have at most 1 MiB"),
        ("run.json", '{"a": 1,\n}', "cannot be read: Expecting property name enclosed in double quotes: line 2"),
        ("run.json", '{"a": 1, "a": 2}', "cannot be read: the key 'a' stands twice in one table"),
        ("run.json", "[" * 100_000, "is nested too deeply"),
        ("run.json", "[1]", "must hold a table, got a list of 1"),
        ("run.json", "", "cannot be read: Expecting value: line 1"),
        ("run.yaml", "a: 1", "must end in .toml or .json"),
        ("run", "a = 1", "must end in .toml or .json"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "bytes",
)
def test_a_file_that_cannot_be_read_says_why(
    write: Callable[..., Path], name: str, content: str | bytes, expected: str
) -> None:
    assert refusal(write(content, name)).startswith(f"'{name}' {expected}")


def test_a_file_of_the_largest_size_is_read(write: Callable[..., Path]) -> None:
    assert read_settings_file(write(b"#" * 2**20)) == {}


def test_a_missing_file_is_looked_for_among_its_neighbours(write: Callable[..., Path], tmp_path: Path) -> None:
    write("", "wind.toml")
    write("", "winds.json")
    assert refusal(tmp_path / "wnid.toml") == "there is no file 'wnid.toml'; did you mean 'wind.toml'?"
    assert refusal(tmp_path / "nothing_like_it.toml") == "there is no file 'nothing_like_it.toml'"
    assert refusal(tmp_path / "absent" / "wind.toml") == "there is no file 'wind.toml'"


def test_a_folder_a_pipe_and_a_name_too_long_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    assert refusal(tmp_path / "folder.toml") == "'folder.toml' is a folder, expected a .toml or .json file"
    os.mkfifo(tmp_path / "pipe.toml")
    assert refusal(tmp_path / "pipe.toml") == "'pipe.toml' must be a regular file"
    refuses(SettingError, "cannot be read", read_settings_file, tmp_path / f"{'x' * 3000}.toml")
    refuses(SettingError, "there is no file", read_settings_file, tmp_path / "a\0.toml")
