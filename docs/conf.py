"""The documentation site: `make docs` builds it, offline and without warnings."""

import pkgutil
import re
from collections.abc import Iterator
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.argument import Argument
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import matplotlib_scraper

import stakes

project = "stakes"
author = "the stakes authors"
project_copyright = "the stakes authors. MIT licence"
version = release = stakes.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
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

# The examples in the order of the front page.
_GALLERY = re.findall(r"\.\./examples/(\w+)\.py", Path(__file__).with_name("index.md").read_text("utf-8"))
_EXAMPLES = Path(__file__).parent.parent / "examples"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/mentions",
    "filename_pattern": "/",
    "ignore_pattern": "distributed|own_program",
    "image_scrapers": (partial(matplotlib_scraper, format="svg"),),  # sharp at any width
    "within_subsection_order": [f"{name}.py" for name in _GALLERY].index,
    "minigallery_sort_order": [str(_EXAMPLES / f"{name}.py") for name in _GALLERY].index,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "run_stale_examples": True,  # the library may have changed
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

# Pages of the repository's root that the site has as pages of its own.
_PAGES = {"CONTRIBUTING.md": "/project/contributing.md", "CHANGELOG.md": "/project/changelog.md"}

_BESIDE = r"(?:\.\./)*(?:reproduction|benchmarks|tests)/[^)]*\)"


def _adapt_page(_: Sphinx, name: str, source: list[str]) -> None:
    """What reads well in the repository as it is, made to fit the site."""
    source[0] = re.sub(r"^Options: `stakes (\S+) --help`\.$", _help_of, source[0], flags=re.MULTILINE)
    for outside, inside in _PAGES.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{outside}\)", f"]({inside})", source[0])
    # what is beside the site keeps its words, without the link
    source[0] = re.sub(rf"!?\[([^][]*)\]\({_BESIDE}", r"\1", source[0])
    source[0] = re.sub(rf"\]\({_BESIDE}", "]", source[0])


def _help_of(match: re.Match[str]) -> str:
    """The examples and options of a command, as its help has them."""
    app = pkgutil.resolve_name(f"stakes.cli.{match[1].replace('-', '_')}:app")
    parts = [app] if app.default_command else [app[name] for name in ("list", "export")]
    return "\n\n".join(text for part in parts for text in _options(part))


def _options(app: App) -> Iterator[str]:
    if "```" in (examples := app.help_epilogue or ""):
        lines = re.sub(r"^(?=\S)", "$ ", examples.split("```")[1].strip(), flags=re.MULTILINE)
        yield f"```console\n{lines}\n```"
    shown = [each for each in app.assemble_argument_collection() if each.show]
    for title in dict.fromkeys(str(group.name) for each in shown for group in each.parameter.group or ()):
        rows = [f"| {title} | | default |", "|---|---|---|"]
        rows += [_row(each) for each in shown if title in [group.name for group in each.parameter.group or ()]]
        yield "\n".join(rows)


def _row(option: Argument) -> str:
    default, choices = option.field_info.default, option.get_choices()
    names = ", ".join(f"`{name}`" for name in option.names)
    text = str(option.parameter.help) + (f" ({', '.join(choices)})" if choices else "")
    without = default is None or default is False or default is Parameter.empty
    return f"| {names} | {text} | {'required' if option.required else '' if without else f'`{default}`'} |"


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
