import json
import re
import runpy
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.markdown import claims_markdown, figures_markdown, portfolios_markdown, scores_markdown
from reproduction.runs.sweep import read_sweep

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
    """In this process: most of the time of another one would go into importing torch."""
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 900


def test_the_readme_needs_no_extra_but_what_make_install_installs() -> None:
    assert ".venv/bin/stakes serve" in (ROOT / "README.md").read_text()
    install = (ROOT / "Makefile").read_text().partition("$(INSTALLED):")[2].partition("touch")[0]
    assert '--editable ".[serve]"' in install


def test_the_published_reproduction_is_what_its_results_say() -> None:
    folder = ROOT / "reproduction" / "pages"
    results = json.loads((folder / "results.json").read_text())
    assert (folder / "claims.md").read_text() == claims_markdown(results["claims"])
    assert (folder / "portfolios.md").read_text() == portfolios_markdown(results["portfolios"])
    assert (folder / "base_scores.md").read_text() == scores_markdown(results["scores"])
    assert (folder / "figures.md").read_text() == figures_markdown(results["figures"])
    for label in results["figures"]:
        assert (folder / "figures" / f"{label}.svg").exists()


def test_the_page_about_the_paper_counts_the_claims_as_the_results_do() -> None:
    claims = json.loads((ROOT / "reproduction" / "pages" / "results.json").read_text())["claims"]
    verdicts = Counter(next(iter(claim["choices"].values()))["verdict"] for claim in claims.values())
    page = " ".join((ROOT / "docs" / "paper_and_us.md").read_text().split())
    assert (
        f"of its {len(claims)} claims {verdicts['holds']} hold on our data, {verdicts['fails']} fail and "
        f"{verdicts['open']} are open"
    ) in page


def test_the_figures_page_shows_every_figure() -> None:
    pages = ROOT / "reproduction" / "pages"
    shown = re.findall(r"\]\((figures/\w+\.svg)\)", (pages / "figures.md").read_text())
    assert sorted(shown) == sorted(f"figures/{path.name}" for path in pages.glob("figures/*.svg"))
