"""The templates of pages, and their charts: the library that draws them, with its licence, and what is our own."""

from functools import cache
from importlib import resources

__all__ = ["chart_script", "chart_styles", "template_text"]

_LIBRARY = "uplot"  # as it was published; tests/reports/test_scripts.py has its checksums


def template_text(name: str) -> str:
    """A template of the reports.

    Args:
        name: Its path within the templates.
    """
    return resources.files("stakes.reports").joinpath("templates", name).read_text("utf-8")


@cache
def chart_script() -> str:
    """All that draws charts: `drawChart`, and the numbers beside it."""
    licence = f"/*\n{template_text(f'{_LIBRARY}/LICENSE')}\n*/"
    own = (template_text(name) for name in ("numbers.js", "charts.js"))
    return "\n".join((licence, template_text(f"{_LIBRARY}/uPlot.iife.min.js"), *own))


@cache
def chart_styles() -> str:
    """How charts look."""
    return "\n".join((template_text(f"{_LIBRARY}/uPlot.min.css"), template_text("charts.css")))
