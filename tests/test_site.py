"""The documentation names everything public and every page; once built, it asks nothing of the network."""

import pkgutil
import re
from pathlib import Path

import pytest

import stakes
from stakes.plots import __all__ as PLOTS  # noqa: N812

DOCS = Path(__file__).parent.parent / "docs"
SITE = DOCS.parent / "build" / "docs"
SOURCES = [path.relative_to(DOCS) for suffix in ("md", "rst") for path in DOCS.rglob(f"*.{suffix}")]
SOURCES = [path for path in SOURCES if path.parts[0] != "gallery"]  # which `make docs` writes


@pytest.mark.site
def test_the_site_is_whole_and_needs_no_network() -> None:
    """Of what `make docs` has built without a warning."""
    assert missing_pages(SITE) == []
    assert missing_names(SITE) == []
    assert loads_from_the_network(SITE) == []


def test_the_reference_names_everything_public_and_nothing_else() -> None:
    pages = "".join(path.read_text() for path in (DOCS / "reference" / "api").glob("*.rst"))
    named = set(re.findall(r"^\.\. auto(?:class|function|data|exception|module):: ([\w.]+)", pages, re.MULTILINE))
    plots = {f"stakes.plots.{name}" for name in PLOTS}
    assert named == {f"stakes.{name}" for name in stakes.__all__} | {"stakes.errors"} | plots
    for name in named:
        pkgutil.resolve_name(name)


def test_every_page_is_in_the_contents() -> None:
    contents = r"(?:^```\{toctree\}|^\.\. toctree::)\n((?: *:.*\n)*\n(?:.+\n)+)"
    listed = {Path("index")}
    for source in SOURCES:
        for entries in re.findall(contents, (DOCS / source).read_text(), re.MULTILINE):
            names = re.findall(r"^ *(?:.*<)?([\w/]+)>?$", entries, re.MULTILINE)
            listed |= {source.parent / name for name in names}
    assert {source.with_suffix("") for source in SOURCES} == listed - {Path("gallery/index")}


def test_the_architecture_names_every_package_and_only_files_that_exist() -> None:
    package, page = Path(stakes.__file__).parent, (DOCS / "project" / "architecture.md").read_text()
    named = set(re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", page))
    assert [
        name
        for name in named
        if not (package / name).exists() and name not in ("src/stakes", "src/", "reproduction/", "tests/")
    ] == []
    rooms = {path.name if path.suffix else f"{path.name}/" for path in package.iterdir() if path.name[0] != "_"}
    assert rooms - named == {"py.typed"}


def missing_pages(site: Path) -> list[Path]:
    examples = re.findall(r"\.\./examples/(\w+)\.py", (DOCS / "index.md").read_text())
    pages = [*SOURCES, Path("gallery/index"), *(Path("gallery", name) for name in examples)]
    return [page for page in pages if not (site / page.with_suffix(".html")).exists()]


def missing_names(site: Path) -> list[str]:
    reference = "".join(page.read_text() for page in (site / "reference" / "api").glob("*.html"))
    return [name for name in stakes.__all__ if f'id="stakes.{name}"' not in reference]


def loads_from_the_network(site: Path) -> list[str]:
    """Links that a reader may follow are another thing."""
    loading = {
        "html": re.compile(r'<(?:script|img|iframe|source)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//'),
        "css": re.compile(r"(?:url\(|@import)\W*https?:"),
    }
    pages = {page: sought for suffix, sought in loading.items() for page in site.rglob(f"*.{suffix}")}
    return sorted(page.name for page, sought in pages.items() if sought.search(page.read_text()))
