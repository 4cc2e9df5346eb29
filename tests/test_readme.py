import json
import re
import runpy
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from matplotlib import pyplot

from reproduction.runs.sweep import read_sweep

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GALLERY = re.findall(r"\.\./examples/(\w+)\.py", (ROOT / "docs" / "index.md").read_text())
SETTINGS = sorted((ROOT / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.name)
def test_settings_of_the_examples_are_valid(path: Path) -> None:
    expected = {"paper_real.toml": 708, "paper_synthetic.toml": 99, "run.toml": 1, "sweep.toml": 8}
    assert len(read_sweep(tomllib.loads(path.read_text())).points) == expected[path.name]


def test_there_are_examples() -> None:
    assert EXAMPLES
    assert SETTINGS


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path: Path) -> None:
    """In this process: most of the time of another one would go into importing torch."""
    runpy.run_path(str(path), run_name="__main__")
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    pyplot.close("all")
    assert [bool(figure.axes[0].get_title()) for figure in figures] == [True] * (path.stem in GALLERY)


def test_every_example_but_two_is_in_the_gallery() -> None:
    assert len(GALLERY) == 10
    assert {path.stem for path in EXAMPLES} == {*GALLERY, "distributed", "own_program"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 700


def test_the_readme_needs_no_extra_but_what_make_install_installs() -> None:
    assert ".venv/bin/stakes serve" in (ROOT / "README.md").read_text()
    install = (ROOT / "Makefile").read_text().partition("$(INSTALLED):")[2].partition("touch")[0]
    assert '--editable ".[serve]"' in install


def test_the_page_about_the_paper_counts_the_claims_as_the_results_do() -> None:
    claims = json.loads((ROOT / "reproduction" / "pages" / "results.json").read_text())["claims"]
    verdicts = Counter(next(iter(claim["choices"].values()))["verdict"] for claim in claims.values())
    page = " ".join((ROOT / "docs" / "explanation" / "the_paper.md").read_text().split())
    assert (
        f"{len(claims)} claims, {verdicts['holds']} hold on our data, {verdicts['fails']} fail and "
        f"{verdicts['open']} are open"
    ) in page
