import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import hypothesis
import pytest
from example_counts import examples
from hypothesis import strategies
from refusals import refuses

from reproduction.runs.settings_files import read_settings_file, set_dotted
from stakes.errors import SettingError, StakesError


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


words = ["true", "null", "nan", "inf", "NaN", "\\u", "0x", "2020-01-01", "a"]
pieces = strategies.sampled_from([*"[]{}\"'=.,:\\#\n\r\t 019eE+-_", *words])
scraps = strategies.lists(pieces, max_size=40).map("".join) | strategies.text(max_size=40)
contents = strategies.binary(max_size=40) | scraps.map(lambda text: text.encode("utf-8", "surrogatepass"))


@examples(150)
@hypothesis.given(contents, strategies.sampled_from([".toml", ".json"]))
def test_whatever_a_file_holds_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"scrap{suffix}"
    path.write_bytes(content)
    try:
        values = read_settings_file(path)
    except StakesError:
        return
    assert type(values) is dict


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


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.b.c", "a.b must be a table for a.b.c to be set, got 1"),
        ("list.x", "list must be a table for list.x to be set, got a list of 1"),
        ("", "a setting must be a name or names joined by dots, got ''"),
        ("a..b", "a setting must be a name or names joined by dots, got 'a..b'"),
        (".a", "a setting must be a name or names joined by dots, got '.a'"),
    ],
)
def test_set_dotted_refuses(key: str, expected: str) -> None:
    assert refuses(SettingError, "", set_dotted, {"a": {"b": 1}, "list": [1]}, key, 5) == expected
