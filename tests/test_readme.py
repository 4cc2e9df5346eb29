import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stakes.reporting.markdown import claims_markdown, portfolios_markdown
from stakes.training.sweep import read_sweep

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SETTINGS = sorted((ROOT / "examples").glob("*.toml"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def test_readme_and_training_page_have_examples() -> None:
    assert blocks(ROOT / "README.md", "python")
    assert blocks(ROOT / "docs" / "training.md", "python")
    assert blocks(ROOT / "docs" / "training.md", "toml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_one_after_the_other(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And print what the block of text right after them shows."""
    names = {"__name__": "__page__"}
    found = re.findall(
        r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", page.read_text(), re.DOTALL | re.MULTILINE
    )
    for number, (block, shown) in enumerate(found, 1):
        exec(compile(block, f"{page.name}, python block {number}", "exec"), names)
        printed = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
        assert not shown or printed == shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_of_a_page_are_valid(page: Path) -> None:
    for block in blocks(page, "toml"):
        assert read_sweep(tomllib.loads(block)).points


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.name)
def test_settings_of_the_examples_are_valid(path: Path) -> None:
    expected = {"paper_real.toml": 288, "paper_synthetic.toml": 99, "run.toml": 1, "sweep.toml": 8}
    assert len(read_sweep(tomllib.loads(path.read_text())).points) == expected[path.name]


def test_there_are_examples() -> None:
    assert EXAMPLES
    assert SETTINGS


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path: Path) -> None:
    result = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def test_the_claims_of_the_readme_are_those_of_the_reproduction() -> None:
    """And those are what the results say."""
    folder = ROOT / "docs" / "reproduction"
    results = json.loads((folder / "results.json").read_text())
    published = claims_markdown(results["claims"])
    assert (folder / "claims.md").read_text() == published
    assert (folder / "portfolios.md").read_text() == portfolios_markdown(results["portfolios"])
    readme = (ROOT / "README.md").read_text()
    for line in published.splitlines()[2:]:
        assert line.rsplit(" | ", 1)[0] in readme
    for label in results["figures"]:
        assert (folder / "figures" / f"{label}.svg").exists()
