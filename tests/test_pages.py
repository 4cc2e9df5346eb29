"""Every example of the README and of the documentation runs, prints what the page shows, and names real commands."""

import random
import re
import shlex
import tomllib
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import torch
from page_blocks import ROOT, Block, blocks, commands, pages_with

from reproduction.__main__ import app as reproduction
from reproduction.runs.sweep import read_sweep
from stakes.cli import app
from stakes.cost_spec.files import program_of

NO_RUN = re.compile(r"no-run \(.+\)")  # ```python no-run (the reason)
SHORTER = {"epochs=20": "epochs=2", "epochs=12": "epochs=2", "epochs=5": "epochs=1", "[-1000:]": "[-600:]"}
"""Training that a page shows and that is shorter here, as far as nothing is said about what it prints."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```python\nprint(1)\n```\n```text\n1\n```\n\n```python no-run (no GPU)\n1 / 0\n```\n\n"
        "```console\n$ stakes fit \\\n    a.csv\nsaid\n```\n"
    )
    first, second = blocks(page, "python")
    assert (first.text, first.shown, first.line) == ("print(1)\n", "1\n", 3)
    assert (second.marks, second.shown) == ("no-run (no GPU)", None)
    (console,) = blocks(page, "console")
    assert commands(console) == ["stakes fit      a.csv"]


def test_the_pages_that_must_have_examples_have_some() -> None:
    names = {name_of(page) for page in pages_with("python")}
    assert {"README.md", "docs/guides/evaluation.md", "docs/guides/write_a_cost.md"} <= names
    assert ROOT / "reproduction" / "TRAINING.md" in pages_with("toml")


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_python_blocks_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder, from fixed seeds, and print what the block of text right after them shows."""
    monkeypatch.chdir(tmp_path)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    names = {"__name__": "__page__"}
    for block in blocks(page, "python"):
        if block.marks:
            assert NO_RUN.fullmatch(block.marks), f"{page.name}, line {block.line}: a mark is `no-run (the reason)`"
            continue
        exec(compile("\n" * block.line + shorter(block), str(page), "exec"), names)
        printed = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
        assert block.shown is None or printed == block.shown, f"{page.name}, line {block.line}"


def shorter(block: Block) -> str:
    text = block.text
    for words, fewer in SHORTER.items() if block.shown is None else ():
        text = text.replace(words, fewer)
    return text


@pytest.mark.parametrize("page", pages_with("toml"), ids=name_of)
def test_settings_of_a_page_are_valid(page: Path) -> None:
    for block in blocks(page, "toml"):
        table = tomllib.loads(block.text)
        if "project" in table:
            assert table["project"]["entry-points"].keys() == {"stakes.costs"}
        elif "decide" in table:
            units = ("unit", "action_unit")
            assert program_of({key: value for key, value in table.items() if key not in units}).decide
        else:
            assert read_sweep(table).points


@pytest.mark.parametrize("page", pages_with("console", "sh"), ids=name_of)
def test_commands_of_a_page_exist_and_take_these_arguments(page: Path) -> None:
    for block in blocks(page, "console", "sh"):
        for line in commands(block):
            words = list(takewhile(lambda word: word not in (">", "|", "&&"), shlex.split(line, comments=True)))
            if words and Path(words[0]).name == "stakes":
                app.parse_args(words[1:], exit_on_error=False, print_error=False)
            elif words[1:3] == ["-m", "reproduction"]:
                reproduction.parse_args(words[3:], exit_on_error=False, print_error=False)
