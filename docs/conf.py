"""The documentation site: `make docs` builds it, offline and without warnings."""

import re
from typing import Any

from sphinx.application import Sphinx

import stakes

project = "stakes"
author = "the stakes authors"
project_copyright = "the stakes authors. MIT licence"
version = release = stakes.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "stakes"
html_show_sphinx = False
html_show_sourcelink = html_copy_source = False
smartquotes = False
html_static_path = ["static"]
html_css_files = ["site.css"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"
napoleon_use_ivar = True  # fields as a list; the docstring would else escape the underscores of their directives
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 110
toc_object_entries = False

# Pages of the repository's root that the site has as pages of its own.
_PAGES = {"CONTRIBUTING.md": "/project/contributing.md", "CHANGELOG.md": "/project/changelog.md"}

_BESIDE = r"(?:\.\./)*(?:reproduction|benchmarks|tests)/[^)]*\)"


def _adapt_page(_: Sphinx, name: str, source: list[str]) -> None:
    """What reads well in the repository as it is, made to fit the site."""
    for outside, inside in _PAGES.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{outside}\)", f"]({inside})", source[0])
    # what is beside the site keeps its words, without the link
    source[0] = re.sub(rf"!?\[([^][]*)\]\({_BESIDE}", r"\1", source[0])
    source[0] = re.sub(rf"\]\({_BESIDE}", "]", source[0])


def _plain_docstring(_: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with `names` and indented formulas; this writes them as reStructuredText."""
    text = "\n".join(lines).strip("\n")
    lines[:] = "\n\n".join(_paragraph(each) for each in re.split(r"\n\s*\n", text)).split("\n")


def _paragraph(text: str) -> str:
    if text.startswith(">>>"):
        return text
    if text.startswith("    "):
        return "::\n\n" + text
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_|])", r"\\\1", part) for part in parts[::2]]
    return "``".join(parts)


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _adapt_page)
    app.connect("autodoc-process-docstring", _plain_docstring)
