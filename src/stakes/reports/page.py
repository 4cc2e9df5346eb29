"""A report as one HTML file that needs nothing else: text, figures, tables and claims with their verdicts.

The dataclasses hold what is said, the templates how it looks; all text is escaped.
"""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from stakes.errors import SettingError
from stakes.files import write_atomically
from stakes.reports.charts import Chart
from stakes.reports.scripts import chart_script, chart_styles, template_text
from stakes.reports.table_cells import Cell, ShownCell, shown_cells

__all__ = ["Cell", "ClaimRow", "Column", "Figure", "Report", "Section", "ShownCell", "Table", "Verdict"]
__all__ += ["render", "write_report"]

Verdict = Literal["holds", "fails", "open"]
ColumnKind = Literal["text", "number"]
_IDENTIFIER = re.compile(r"\w+(?:[.:-]\w+)*", re.ASCII)
_TAG = re.compile(r"<[^>]+>")
_NAMED_OR_REFERRED_TO = re.compile(r'(\bid="|\bhref="#|\burl\(#)')


@dataclass(frozen=True)
class Column:
    """The head of a column of a table.

    Attributes:
        name: Its name.
        unit: The unit of its numbers; empty for none.
        kind: Whether it holds text or numbers, by which it is sorted and aligned.
        help: What it holds, for readers who ask.
    """

    name: str
    unit: str = ""
    kind: ColumnKind = "text"
    help: str = ""

    def __post_init__(self) -> None:
        _check_choice(f"kind of column {self.name!r}", self.kind, get_args(ColumnKind))


@dataclass(frozen=True)
class Table:
    """Rows under columns; readers can sort them by any column.

    Attributes:
        identifier: Its name within the page.
        title: What stands above it.
        columns: The heads of its columns.
        rows: The cells of each row, one for each column.
        note: What stands below it.
    """

    identifier: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

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


@dataclass(frozen=True)
class Figure:
    """One or several drawings, and the settings they came from.

    Attributes:
        label: Its name within the page.
        title: Its title.
        caption: What it shows.
        svg: The drawing, a whole SVG document as matplotlib writes it.
        settings: The settings behind it, nested by name.
        panels: Further drawings, beside the first where there is room and below it on a narrow screen.
        charts: For each drawing the charts that stand in its place where scripts run, with values under the pointer;
            none where it stays.
    """

    label: str
    title: str
    caption: str
    svg: str
    settings: Mapping[str, Any]
    panels: tuple[str, ...] = ()
    charts: tuple[tuple[Chart, ...], ...] = ()

    def __post_init__(self) -> None:
        _check_identifier("label of a figure", self.label)
        if self.charts and len(self.charts) != len(self.names):
            drawings = len(self.names)
            raise SettingError(f"charts of figure {self.label} must be {drawings}, one tuple for each of its drawings")

    @property
    def names(self) -> list[str]:
        """What each drawing is called, the first like the figure."""
        return [self.label, *(f"{self.label}-{number}" for number in range(2, 2 + len(self.panels)))]

    def drawing(self, place: int = 0) -> Markup:
        """A drawing, the first unless another is asked for, as an element of the page."""
        return _inlined((self.svg, *self.panels)[place], f"drawing-{self.names[place]}", self.title)

    def charts_of(self, place: int) -> list[dict[str, Any]]:
        """The charts that stand in the place of a drawing, as scripts read them."""
        return [chart.plain() for chart in self.charts[place]] if self.charts else []


@dataclass(frozen=True)
class ClaimRow:
    """A claim, how it was judged, and what came out.

    Attributes:
        identifier: The name of the claim.
        statement: What it says.
        how: How it was judged.
        verdict: Whether it holds.
        effects: What was measured; the first decides.
        choice: Under which choice of settings it was judged; empty for the main one.
        note: What else is to be said.
    """

    identifier: str
    statement: str
    how: str
    verdict: Verdict
    effects: tuple[str, ...] = ()
    choice: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        _check_identifier("identifier of a claim", self.identifier)
        _check_choice(f"verdict of claim {self.identifier}", self.verdict, get_args(Verdict))


@dataclass(frozen=True)
class Section:
    """A part of the report: paragraphs of plain text, then figures, then tables.

    Attributes:
        identifier: Its name within the page.
        title: Its heading.
        text: Its paragraphs.
        figures: Its figures.
        tables: Its tables.
    """

    identifier: str
    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()

    def __post_init__(self) -> None:
        _check_identifier("identifier of a section", self.identifier)


@dataclass(frozen=True)
class Report:
    """All that the page tells.

    Attributes:
        title: Its heading.
        subtitle: What stands below the heading.
        summary: The first paragraphs, which say what came out.
        reduced: In what respect this run was smaller than a whole one; None for a whole one.
        claims: The claims and their verdicts.
        sections: The sections, in order.
        provenance: What the report was made with and from, by name.
        folded: Names that would make its heading too long, by what unfolds them.
    """

    title: str
    subtitle: str
    summary: tuple[str, ...]
    reduced: str | None = None
    claims: tuple[ClaimRow, ...] = ()
    sections: tuple[Section, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    folded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_unique("claim", (claim.identifier for claim in self.claims))
        _check_unique("section", (section.identifier for section in self.sections))
        _check_unique(
            "figure", (name for section in self.sections for figure in section.figures for name in figure.names)
        )
        _check_unique("table", (table.identifier for section in self.sections for table in section.tables))

    def tally(self) -> dict[str, int]:
        """How many claims have each verdict."""
        counts = Counter(claim.verdict for claim in self.claims)
        return {verdict: counts[verdict] for verdict in get_args(Verdict)}


def render(report: Report) -> str:
    """The report as an HTML page.

    Args:
        report: What the page tells.
    """
    has_charts = any(any(figure.charts) for section in report.sections for figure in section.figures)
    styles = "\n".join((template_text("page.css"), *([chart_styles()] if has_charts else [])))
    script = "\n".join((template_text("page.js"), *([chart_script()] if has_charts else [])))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = _environment().get_template("report.html")
    return template.render(report=report, styles=Markup(styles), script=Markup(script), script_digest=digest)


def write_report(report: Report, path: Path) -> None:
    """Write the page to the path; a crash leaves the old file or the new one, whole.

    Args:
        report: What the page tells.
        path: The HTML file; folders above it are made.
    """
    write_atomically(path, render(report).encode("utf-8", "replace"))


def _inlined(svg: str, identifier: str, label: str) -> Markup:
    """A drawing of matplotlib's as an element of the page, every id in it prefixed: drawings must not share any."""
    drawing = svg[svg.index("<svg ") :]
    own = _TAG.sub(lambda tag: _NAMED_OR_REFERRED_TO.sub(rf"\g<1>{identifier}--", tag[0]), drawing)
    return Markup(own.replace("<svg ", f'<svg id="{identifier}" role="img" aria-label="{escape(label)}" ', 1))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def _check_identifier(name: str, value: str) -> None:
    if not _IDENTIFIER.fullmatch(value):
        raise SettingError(f"{name} must be words of letters, digits and '_' joined by '.', ':' or '-', got {value!r}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SettingError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _check_unique(kind: str, identifiers: Iterable[str]) -> None:
    for identifier, count in Counter(identifiers).items():
        if count > 1:
            raise SettingError(f"every {kind} of a report must have its own name, got {identifier!r} {count} times")
