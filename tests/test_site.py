"""The documentation site builds without a warning, names everything public, and asks nothing of the network."""

import gc
import re
import warnings
from pathlib import Path

from forked_processes import forked

import stakes

DOCS = Path(__file__).parent.parent / "docs"


def test_the_site_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    options = ["--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", str(tmp_path / "doctrees")]
    sphinx = forked(lambda: built([*options, str(DOCS), str(tmp_path / "site")]))
    _, errors = sphinx.communicate()
    assert sphinx.returncode == 0, errors
    assert missing_pages(tmp_path / "site") == []
    assert missing_names(tmp_path / "site") == []
    assert loads_from_the_network(tmp_path / "site") == []


def test_the_architecture_names_every_room_and_only_files_that_exist() -> None:
    package, page = Path(stakes.__file__).parent, (DOCS / "architecture.md").read_text()
    named = set(re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", page))
    assert [name for name in named if not (package / name).exists() and name not in ("src/stakes", "tests/")] == []
    rooms = {path.name if path.suffix else f"{path.name}/" for path in package.iterdir() if path.name[0] != "_"}
    assert rooms - named == {"py.typed"}


def test_the_figures_page_shows_every_figure() -> None:
    shown = re.findall(r"\]\((figures/\w+\.svg)\)", (DOCS / "reproduction" / "figures.md").read_text())
    assert sorted(shown) == sorted(f"figures/{path.name}" for path in DOCS.glob("reproduction/figures/*.svg"))


def built(words: list[str]) -> int:
    """What `sphinx-build` does with these words, in a process of its own."""
    from sphinx.cmd.build import main

    gc.disable()  # a fifth of the time
    warnings.simplefilter("ignore")  # those of Python; Sphinx has its own
    return main(words)


def missing_pages(site: Path) -> list[Path]:
    sources = [path.relative_to(DOCS) for suffix in ("md", "rst") for path in DOCS.rglob(f"*.{suffix}")]
    return [source for source in sources if not (site / source.with_suffix(".html")).exists()]


def missing_names(site: Path) -> list[str]:
    reference = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    return [name for name in stakes.__all__ if f'id="stakes.{name}"' not in reference]


def loads_from_the_network(site: Path) -> list[str]:
    """Links that a reader may follow are another thing."""
    loading = {
        "html": re.compile(r'<(?:script|img|iframe|source)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//'),
        "css": re.compile(r"(?:url\(|@import)\W*https?:"),
    }
    pages = {page: sought for suffix, sought in loading.items() for page in site.rglob(f"*.{suffix}")}
    return sorted(page.name for page, sought in pages.items() if sought.search(page.read_text()))
