"""The fenced blocks of the README and of the documentation, and the commands in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md"]
PAGES += [page for part in ("docs", "benchmarks", "reproduction") for page in sorted((ROOT / part).rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: ```language marks."""

    language: str
    marks: str
    text: str
    line: int
    shown: str | None  # the ```text block right after it


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text()
    found = []
    fence = re.compile(r"^```(\w+)[ ]?(.*)\n((?:.*\n)*?)```$(?:\n+```text\n((?:.*\n)*?)```$)?", re.MULTILINE)
    for match in fence.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2], match[3], line, match[4]))
    return [block for block in found if block.language in languages]


def pages_with(*languages: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, *languages)]


def commands(block: Block) -> list[str]:
    """The commands of a block, in one line each: in ```console after the prompt, in ```sh every line."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if block.language == "sh" or line.startswith("$ ")]
