"""The examples of docs/guides/serve.md: every request gets the answer that the page shows."""

import json
import shlex
from typing import Any

import httpx
import pytest
from page_blocks import ROOT, Block, blocks, commands

EXAMPLES = [block for block in blocks(ROOT / "docs" / "guides" / "serve.md", "console") if block.shown]


def requested(command: str, client: httpx.Client) -> httpx.Response:
    """What curl would do."""
    words = shlex.split(command)
    assert words[:2] == ["curl", "-s"]
    path = words[2].removeprefix("localhost:8000")
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options.keys() == {"-H", "-d"}
    name, _, value = options["-H"].partition(": ")
    return client.post(path, content=options["-d"], headers={name: value})


def alike(shown: Any, found: Any) -> Any:
    """What was found, with the numbers as they are shown where they differ in digits that are not."""
    if isinstance(shown, dict):
        return {key: alike(shown.get(key), value) for key, value in found.items()}
    if isinstance(shown, list):
        return [alike(first, second) for first, second in zip(shown, found, strict=True)]
    if isinstance(shown, float):
        return shown if found == pytest.approx(shown, rel=1e-3, abs=1e-4) else found
    return found


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: f"line {block.line}")
def test_the_answers_are_those_of_the_page(client: httpx.Client, block: Block) -> None:
    (command,) = commands(block)
    assert block.shown is not None
    shown = json.loads(block.shown)
    assert alike(shown, requested(command, client).json()) == shown


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 3
