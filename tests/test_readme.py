import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from benchmarks.markdown import claims_markdown, figures_markdown, portfolios_markdown

from stakes.training.sweep import read_sweep

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SETTINGS = sorted((ROOT / "examples").glob("*.toml"))


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
    assert (folder / "figures.md").read_text() == figures_markdown(results["figures"])
    readme = (ROOT / "README.md").read_text()
    for line in published.splitlines()[2:]:
        assert line.rsplit(" | ", 1)[0] in readme
    for label in results["figures"]:
        assert (folder / "figures" / f"{label}.svg").exists()
