import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure as Drawing
from refusals import refuses

from stakes.errors import SettingError
from stakes.plots import style
from stakes.reports.drawing import to_svg
from stakes.reports.page import Column, Figure, Report, Section, ShownCell, Table, render, write_report

HOSTILE = "</script><script>alert('x')</script> \"quoted\" {{ 7 * 7 }} <b> & λ 日本 😀 ]]> --> </style>"
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect/></svg>'


class Page(HTMLParser):
    """The elements of a page, its ids, and what it says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] not in (["style"], ["script"]):
            self.said += data

    @property
    def identifiers(self) -> list[str]:
        return [value for each in self.attributes if (value := each.get("id"))]


def hostile_report() -> Report:
    figure = Figure("f", HOSTILE, HOSTILE, DRAWING, {HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE, 1]}})
    columns = (Column(HOSTILE, HOSTILE, "text", HOSTILE), Column(HOSTILE, kind="number"))
    table = Table("t", HOSTILE, columns, ((HOSTILE, ShownCell(HOSTILE, HOSTILE)),), HOSTILE)
    section = Section("s", HOSTILE, (HOSTILE,), (figure,), (table,))
    return Report(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, (), (section,), {HOSTILE: HOSTILE})


def test_all_text_is_escaped() -> None:
    text = render(hostile_report())
    page = Page(text)
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert "b" not in page.tags
    assert "49" not in page.said
    assert page.said.count(HOSTILE) == 25


def test_everything_is_told(sample_report: Report) -> None:
    said = Page(render(sample_report)).said
    for text in ("This is a reduced run.", "One seed instead of three.", "Mean over seeds.", "Three seeds.", "Adam"):
        assert text in said


def test_ids_are_unique_and_links_lead_to_them(sample_report: Report) -> None:
    page = Page(render(sample_report))
    assert len(page.identifiers) == len(set(page.identifiers))
    targets = {href for each in page.attributes if (href := each.get("href")) and href.startswith("#")}
    assert targets <= {f"#{identifier}" for identifier in page.identifiers}
    assert {"#section-results", "#provenance"} <= targets


def drawings(report: Report) -> list[str]:
    return [str(figure.drawing()) for figure in report.sections[0].figures]


def test_every_reference_of_a_drawing_leads_to_its_own_ids(sample_report: Report) -> None:
    for text in drawings(sample_report):
        identifiers = set(re.findall(r' id="([^"]+)"', text))
        references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
        assert references
        assert references <= identifiers


def test_drawings_share_no_ids(sample_report: Report) -> None:
    identifiers = [name for text in drawings(sample_report) for name in re.findall(r' id="([^"]+)"', text)]
    assert len(identifiers) == len(set(identifiers)) > 10


def test_a_drawing_is_well_formed_and_named(sample_report: Report) -> None:
    figure = replace(sample_report.sections[0].figures[0], title='"><script> url(#a)')
    root = ElementTree.fromstring(str(figure.drawing()))
    assert (root.get("role"), root.get("aria-label"), root.get("id")) == ("img", '"><script> url(#a)', "drawing-lines")


def test_text_in_a_drawing_stays_as_it_is() -> None:
    words = '<b id="b"> url(#c) href="#d"'
    drawing = Drawing()
    drawing.subplots().set_xlabel(words)
    with style():
        text = str(Figure("f", "", "", to_svg(drawing), {}).drawing())
    assert words in [element.text for element in ElementTree.fromstring(text).iter()]


def test_cells_carry_what_they_are_sorted_by(sample_report: Report) -> None:
    text = render(sample_report)
    assert '<td class="number" data-key="-0.12"><strong>-0.120 [-0.200, -0.050]</strong></td>' in text
    assert '<td class="number" data-key="">–</td>' in text
    assert '<th scope="row" class="text">run 10</th>' in text


def test_only_the_own_script_may_run(sample_report: Report) -> None:
    text = render(sample_report)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:;"
    assert policy in text


def test_a_bare_report_has_no_empty_parts() -> None:
    page = Page(render(Report("Title", "", ())))
    assert not {"table", "section", "figure", "dl"} & set(page.tags)
    assert "reduced" not in page.said


def test_the_same_report_gives_the_same_page(sample_report: Report) -> None:
    assert render(sample_report) == render(sample_report)


def test_write_report_makes_one_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(Report("λ \udc80", "", ()), path)
    assert "<h1>λ ?</h1>" in path.read_text("utf-8")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Column("c", kind="date"), "'c'"),
        (lambda: Section("a b", ""), "identifier"),
        (lambda: Section("a--b", ""), "identifier"),
        (lambda: Figure("", "", "", DRAWING, {}), "label"),
        (lambda: Table("t", "", (Column("a"),), (("x", "y"),)), "row 1 of table t must have 1 cells, got 2"),
    ],
)
def test_wrong_parts_are_refused(make: Callable[[], Any], message: str) -> None:
    refuses(SettingError, message, make)


@pytest.mark.parametrize("kind", ["section", "figure", "table"])
def test_identifiers_are_given_once(sample_report: Report, kind: str) -> None:
    section = sample_report.sections[0]
    doubled = {
        "section": {"sections": (Section("a", ""), Section("a", ""))},
        "figure": {"sections": (replace(section, figures=section.figures[:1] * 2),)},
        "table": {"sections": (section, Section("other", "", tables=section.tables))},
    }[kind]
    refuses(SettingError, f"every {kind} of a report must have its own name", replace, sample_report, **doubled)
