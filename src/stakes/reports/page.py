"""A report as one HTML file that needs nothing else: text, figures, charts, and tables with what they are sorted by."""

import base64
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from stakes.errors import SettingError
from stakes.files import write_atomically
from stakes.text import MISSING, column_texts, interval_text

_INTERVAL = re.compile(r"\[([-+\d.,]+), ([-+\d.,]+)\]")  # which no end of a line may part
_CODE = re.compile(r"`([^`]+)`")
_LIBRARY = "uplot"  # as it was published; tests/reports/test_page.py has its checksums


def template_text(name: str) -> str:
    """A template of the reports."""
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


@dataclass(frozen=True)
class ShownCell:
    """A cell of a table as readers see it."""

    text: str  # what is shown
    key: float | str | None = None
    strong: bool = False  # whether it is shown in bold

    @classmethod
    def interval(
        cls, mean: float, low: float, high: float, decimals: int | None = None, right: float = 0.0
    ) -> "ShownCell":
        """A mean with its interval, sorted by the mean, strong where the interval leaves out what is right.

        >>> ShownCell.interval(-0.12, -0.2, -0.05, 2)
        ShownCell(text='-0.12 [-0.20, -0.05]', key=-0.12, strong=True)
        """
        return cls(interval_text(mean, low, high, decimals), mean, strong=low > right or high < right)

    @property
    def sort_key(self) -> str | None:
        """The key as JavaScript reads it; empty for what comes last, None for what is sorted by its text."""
        if not isinstance(self.key, float | int):
            return self.key
        if math.isnan(self.key):
            return ""
        return repr(float(self.key)).replace("inf", "Infinity")


Cell = str | float | int | None | ShownCell


def shown_cells(column: Sequence[Cell]) -> list[ShownCell]:
    """How the cells of one column are shown; its decimal numbers share one number of decimals.

    >>> [cell.text for cell in shown_cells([12.5, 0.25, 3, None])]
    ['12.50', '0.25', '3', '–']
    """
    numbers = [float(cell) for cell in column if isinstance(cell, float)]
    texts = iter(column_texts(numbers))
    return [ShownCell(next(texts), _key(cell)) if isinstance(cell, float) else _shown(cell) for cell in column]


def _key(value: float) -> float | str:
    return "" if math.isnan(value) else value


def _shown(cell: str | int | ShownCell | None) -> ShownCell:
    if isinstance(cell, ShownCell):
        return cell
    if isinstance(cell, str):
        return ShownCell(cell)
    if cell is None:
        return ShownCell(MISSING, "")
    if isinstance(cell, int) and not isinstance(cell, bool):
        return ShownCell(f"{cell:,}", cell)
    raise SettingError(f"a cell must be text, a number, None or ShownCell, got {cell!r} of type {type(cell).__name__}")


@dataclass(frozen=True)
class ChartLine:
    """Values from place to place."""

    name: str  # what it is
    look: str  # CSS classes of `charts.css`, such as "orange dashed"
    values: ArrayLike  # the values, (K,); NaN where there is none
    dots: bool = False  # whether every value is marked

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "kind": self.look, "values": _numbers(self.values), "dots": self.dots}


@dataclass(frozen=True)
class ChartBand:
    """The space between two lines."""

    name: str  # what it is
    look: str  # CSS classes of `charts.css`, such as "blue band"
    low: ArrayLike  # the lower line, (K,)
    high: ArrayLike  # the upper line, (K,)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "kind": self.look, "low": _numbers(self.low), "high": _numbers(self.high)}


@dataclass(frozen=True)
class ChartLimit:
    """A limit that binds a line of a chart."""

    parts: tuple[int, ...]  # the places that it is about, counted from 0
    text: str  # what it is, and what it costs
    line: int = 0  # which line it binds, counted from 0

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"parts": list(self.parts), "text": self.text, "line": self.line}


@dataclass(frozen=True)
class Chart:
    """A chart."""

    title: str  # what stands above it
    x: str  # what runs to the right
    places: Sequence[str] | pd.Index  # where the values are, (K,) in increasing order: numbers, times, or names
    lines: tuple[ChartLine, ...]  # its lines
    bands: tuple[ChartBand, ...] = ()  # its bands, which lie behind the lines
    limits: tuple[ChartLimit, ...] = ()  # the limits that bind
    steps: bool = False  # whether a value holds from place to place, as in a schedule, or changes in between
    group: str = ""  # charts of one group share their pointer; empty for none

    def plain(self) -> dict[str, Any]:
        """As `drawChart` of `charts.js` takes it."""
        shown = [line.name for line in self.lines] + [band.name for band in self.bands]
        return {
            "title": self.title,
            "label": f"{self.title}: {', '.join(shown)}",
            "x": self.x,
            **self._where(),
            "steps": self.steps,
            "lines": [line.plain() for line in self.lines],
            "bands": [band.plain() for band in self.bands],
            "limits": [limit.plain() for limit in self.limits],
            "together": self.group or None,
        }

    def _where(self) -> dict[str, Any]:
        if isinstance(self.places, pd.DatetimeIndex):
            seconds = self.places.to_numpy().astype("datetime64[s]").astype(np.int64)
            return {"xs": seconds.tolist(), "times": True}
        if isinstance(self.places, pd.Index):
            return {"xs": _numbers(self.places.to_numpy())}
        return {"xs": list(range(len(self.places))), "names": list(self.places)}


def _numbers(values: ArrayLike) -> list[float | None]:
    """With nine digits, which is more than is shown; null where there is no number."""
    numbers = np.asarray(values, np.float64).tolist()
    return [float(f"{number:.9g}") if math.isfinite(number) else None for number in numbers]


_IDENTIFIER = re.compile(r"\w+(?:[.:-]\w+)*", re.ASCII)
_TAG = re.compile(r"<[^>]+>")
_NAMED_OR_REFERRED_TO = re.compile(r'(\bid="|\bhref="#|\burl\(#)')


@dataclass(frozen=True)
class Column:
    """The head of a column of a table."""

    name: str  # its name
    unit: str = ""  # the unit of its numbers; empty for none
    help: str = ""  # what it holds, for readers who ask


@dataclass(frozen=True)
class Table:
    """Rows under columns; readers can sort them by any column."""

    identifier: str  # its name within the page
    title: str  # what stands above it
    columns: tuple[Column, ...]  # the heads of its columns
    rows: tuple[tuple[Cell, ...], ...]  # the cells of each row, one for each column
    note: str = ""  # what stands below it

    def __post_init__(self) -> None:
        _check_identifier("identifier of a table", self.identifier)
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise SettingError(
                    f"row {number} of table {self.identifier} must have {len(self.columns)} cells, got {len(row)}"
                )

    def shown_rows(self) -> list[tuple[ShownCell, ...]]:
        """The rows as they are shown."""
        columns = [shown_cells([row[index] for row in self.rows]) for index in range(len(self.columns))]
        return list(zip(*columns, strict=True))

    def kinds(self) -> list[str]:
        """Whether each column holds a "number", by which it is sorted and aligned, or "text"."""
        columns = zip(*self.shown_rows(), strict=True) if self.rows else [()] * len(self.columns)
        return ["number" if any(isinstance(c.key, float | int) for c in cells) else "text" for cells in columns]


@dataclass(frozen=True)
class Figure:
    """One or several drawings, and the settings they came from."""

    label: str  # its name within the page
    title: str  # its title
    caption: str  # what it shows
    drawings: Sequence[str]  # whole SVG documents, as matplotlib writes them
    settings: Mapping[str, Any]  # the settings behind it, nested by name
    charts: Sequence[tuple[Chart, ...]] = ()  # those that stand in the place of each drawing where scripts run

    def __post_init__(self) -> None:
        _check_identifier("label of a figure", self.label)
        if self.charts and len(self.charts) != len(self.drawings):
            raise SettingError(
                f"charts of figure {self.label} must be {len(self.drawings)}, one tuple for each drawing"
            )

    @property
    def names(self) -> list[str]:
        """What each drawing is called, the first like the figure."""
        return [self.label, *(f"{self.label}-{number}" for number in range(2, 1 + len(self.drawings)))]

    def drawing(self, place: int = 0) -> Markup:
        """A drawing, the first unless another is asked for, as an element of the page."""
        return _inlined(self.drawings[place], f"drawing-{self.names[place]}", self.title)

    def charts_of(self, place: int) -> list[dict[str, Any]]:
        """The charts that stand in the place of a drawing, as scripts read them."""
        return [chart.plain() for chart in self.charts[place]] if self.charts else []


@dataclass(frozen=True)
class Section:
    """A part of the report: paragraphs of plain text, then figures, then tables."""

    identifier: str  # its name within the page
    title: str  # its heading
    text: tuple[str, ...] = ()  # its paragraphs
    figures: tuple[Figure, ...] = ()  # its figures
    tables: tuple[Table, ...] = ()  # its tables

    def __post_init__(self) -> None:
        _check_identifier("identifier of a section", self.identifier)


@dataclass(frozen=True)
class OwnPart:
    """A part of the report with a look of its own, before the sections."""

    identifier: str  # its name within the page
    title: str  # its heading
    html: Markup  # what it holds, which is taken as it is
    styles: str = ""  # CSS, beside that of the page
    script: str = ""  # JavaScript, after that of the page


@dataclass(frozen=True)
class Report:
    """All that the page tells."""

    title: str  # its heading
    subtitle: str  # what stands below the heading
    summary: tuple[str, ...]  # the first paragraphs, which say what came out
    reduced: str | None = None  # in what respect this run was smaller than a whole one; None for a whole one
    own: tuple[OwnPart, ...] = ()  # parts with a look of their own
    sections: tuple[Section, ...] = ()  # the sections, in order
    provenance: Mapping[str, str] = field(default_factory=dict)  # what the report was made with and from, by name
    folded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headline: str = ""  # what to do, in a sentence above the first paragraphs
    warnings: tuple[str, ...] = ()  # what speaks against that

    def __post_init__(self) -> None:
        parts = [part.identifier for part in self.own] + [section.identifier for section in self.sections]
        _check_unique("section", parts)
        _check_unique(
            "figure", (name for section in self.sections for figure in section.figures for name in figure.names)
        )
        _check_unique("table", (table.identifier for section in self.sections for table in section.tables))


def render(report: Report) -> str:
    """The report as an HTML page."""
    has_charts = any(any(figure.charts) for section in report.sections for figure in section.figures)
    own_styles, own_scripts = (part.styles for part in report.own), (part.script for part in report.own)
    styles = "\n".join((template_text("page.css"), *([chart_styles()] if has_charts else []), *own_styles))
    script = "\n".join((template_text("page.js"), *([chart_script()] if has_charts else []), *own_scripts))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = _environment().get_template("report.html")
    return template.render(report=report, styles=Markup(styles), script=Markup(script), script_digest=digest)


def write_report(report: Report, path: Path) -> None:
    """Write the page to the path; a crash leaves the old file or the new one, whole."""
    write_atomically(path, render(report).encode("utf-8", "replace"))


def _inlined(svg: str, identifier: str, label: str) -> Markup:
    """A drawing of matplotlib's as an element of the page, every id in it prefixed: drawings must not share any."""
    drawing = svg[svg.index("<svg ") :]
    own = _TAG.sub(lambda tag: _NAMED_OR_REFERRED_TO.sub(rf"\g<1>{identifier}--", tag[0]), drawing)
    return Markup(own.replace("<svg ", f'<svg id="{identifier}" role="img" aria-label="{escape(label)}" ', 1))


def _prose(text: str) -> Markup:
    """A sentence, with whole intervals, and commands as code."""
    unbroken = _INTERVAL.sub("[\\1,\N{NO-BREAK SPACE}\\2]", str(escape(text)))
    return Markup(_CODE.sub("<code>\\1</code>", unbroken))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def _check_identifier(name: str, value: str) -> None:
    if not _IDENTIFIER.fullmatch(value):
        raise SettingError(f"{name} must be words of letters, digits and '_' joined by '.', ':' or '-', got {value!r}")


def _check_unique(kind: str, identifiers: Iterable[str]) -> None:
    for identifier, count in Counter(identifiers).items():
        if count > 1:
            raise SettingError(f"every {kind} of a report must have its own name, got {identifier!r} {count} times")
