import base64
import hashlib
import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure as Drawing
from page_blocks import ROOT
from refusals import refuses
from sample_reports import drawn

from stakes.errors import SettingError
from stakes.plots import style, to_svg
from stakes.reports.page import (
    Cell,
    Chart,
    ChartBand,
    ChartLimit,
    ChartLine,
    Column,
    Figure,
    Report,
    Section,
    ShownCell,
    Table,
    chart_script,
    chart_styles,
    render,
    shown_cells,
    write_report,
)

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
    figure = Figure("f", HOSTILE, HOSTILE, (DRAWING,), {HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE, 1]}})
    columns = (Column(HOSTILE, HOSTILE, HOSTILE), Column(HOSTILE))
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


def test_ids_are_unique_and_links_lead_to_them(sample_report: Report) -> None:
    page = Page(render(sample_report))
    assert len(page.identifiers) == len(set(page.identifiers))
    targets = {href for each in page.attributes if (href := each.get("href")) and href.startswith("#")}
    assert targets <= {f"#{identifier}" for identifier in page.identifiers}
    assert {"#section-results", "#provenance"} <= targets


def test_references_of_a_drawing_lead_to_its_own_ids_which_no_other_has(sample_report: Report) -> None:
    found: list[str] = []
    for figure in sample_report.sections[0].figures:
        identifiers = re.findall(r' id="([^"]+)"', str(figure.drawing()))
        references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', str(figure.drawing())))
        assert set() < references <= set(identifiers)
        found += identifiers
    assert len(found) == len(set(found)) > 10


def test_a_drawing_is_well_formed_and_named(sample_report: Report) -> None:
    figure = replace(sample_report.sections[0].figures[0], title='"><script> url(#a)')
    root = ElementTree.fromstring(str(figure.drawing()))
    assert (root.get("role"), root.get("aria-label"), root.get("id")) == ("img", '"><script> url(#a)', "drawing-lines")


def test_text_in_a_drawing_stays_as_it_is() -> None:
    words = '<b id="b"> url(#c) href="#d"'
    drawing = Drawing()
    drawing.subplots().set_xlabel(words)
    with style():
        text = str(Figure("f", "", "", (to_svg(drawing),), {}).drawing())
    assert words in [element.text for element in ElementTree.fromstring(text).iter()]


def test_a_page_holds_its_parts_and_what_cells_are_sorted_by(sample_report: Report) -> None:
    text = render(sample_report)
    assert text == render(sample_report)
    said = Page(text).said
    assert [
        part for part in ("One seed instead of three.", "Mean over seeds.", "Three seeds.", "Adam") if part not in said
    ] == []
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


def test_write_report_makes_one_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(Report("λ \udc80", "", ()), path)
    assert "<h1>λ ?</h1>" in path.read_text("utf-8")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Section("a b", ""), "identifier"),
        (lambda: Section("a--b", ""), "identifier"),
        (lambda: Figure("", "", "", (DRAWING,), {}), "label"),
        (lambda: Table("t", "", (Column("a"),), (("x", "y"),)), "row 1 of table t"),
        (lambda: Figure("f", "", "", (DRAWING, DRAWING), {}, ((),)), "charts"),
        *((lambda cell=cell: shown_cells([cell]), type(cell).__name__) for cell in (True, [1.0], 1j)),
    ],
)
def test_wrong_parts_are_refused(make: Callable[[], Any], message: str) -> None:
    refuses(SettingError, message, make)


def test_identifiers_are_given_once(sample_report: Report) -> None:
    section, panels = sample_report.sections[0], Figure("f", "", "", ("", ""), {})
    doubled = {
        "section": (Section("a", ""), Section("a", "")),
        "figure": (replace(section, figures=section.figures[:1] * 2),),
        "'f-2'": (Section("s", "", figures=(panels, Figure("f-2", "", "", ("",), {}))),),
        "table": (section, Section("other", "", tables=section.tables)),
    }
    for named, sections in doubled.items():
        refuses(SettingError, named, replace, sample_report, sections=sections)


LINE = ChartLine("action", "orange dashed", [1.0, np.nan, 123456789012.0])


def test_places_are_times_numbers_or_names() -> None:
    times = pd.DatetimeIndex(["1970-01-01 00:00:10", "1970-01-02", "1970-01-03"])
    assert Chart("", "", times, (LINE,)).plain().items() >= {"xs": [10, 86400, 172800], "times": True}.items()
    assert Chart("", "", pd.Index([1.0, 2.5, 4.0]), (LINE,)).plain()["xs"] == [1.0, 2.5, 4.0]
    named = Chart("", "", ("north", "south", "west"), (LINE,)).plain()
    assert (named["xs"], named["names"]) == ([0, 1, 2], ["north", "south", "west"])


def test_numbers_have_nine_digits_and_what_is_not_known_is_null() -> None:
    band = ChartBand("forecast", "blue band", [1 / 3] * 3, [np.inf, 2.0, 2.0])
    told = Chart("Plan", "hour", ("a", "b", "c"), (LINE,), (band,), (ChartLimit((0, 1), "ramp"),), steps=True).plain()
    assert told["label"] == "Plan: action, forecast"
    assert told["lines"] == [
        {"name": "action", "kind": "orange dashed", "values": [1, None, 123456789000], "dots": False}
    ]
    assert (told["bands"][0]["low"][0], told["bands"][0]["high"][0]) == (0.333333333, None)
    assert told["limits"] == [{"parts": [0, 1], "text": "ramp", "line": 0}]


def test_a_report_without_charts_has_no_library() -> None:
    figure = Figure("f", "", "", (drawn(3),), {}, charts=((Chart("</script>'", "x", ("a", "b", "c"), (LINE,)),),))
    with_charts = render(Report("", "", (), sections=(Section("s", "", (), (figure,)),)))
    assert "Leon Sorokin" in with_charts  # whose licence goes with the library
    assert with_charts.count("</script>") == 1
    assert "uPlot" not in render(Report("", "", ()))


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        ([0.0, 0.3, 0.9], ["0.0", "0.3", "0.9"]),
        ([1.0, 2.0], ["1", "2"]),
        ([-0.371234, -0.4], ["-0.3712", "-0.4000"]),
        ([1234.5, 20.0], ["1,234", "20"]),
        ([100.0, 1e-9], ["100", "0"]),
        ([2024, 7], ["2,024", "7"]),
        ([math.inf, -math.inf, math.nan, None], ["∞", "-∞", "–", "–"]),
        (["text", 1.5], ["text", "1.5"]),
        ([], []),
    ],
)
def test_how_a_column_is_shown(cells: list[Cell], texts: list[str]) -> None:
    assert [shown.text for shown in shown_cells(cells)] == texts


@pytest.mark.parametrize(
    ("cell", "key"),
    [(1.5, "1.5"), (3, "3.0"), (1e300, "1e+300"), (-math.inf, "-Infinity"), (math.nan, ""), (None, ""), ("a", None)],
)
def test_what_a_cell_is_sorted_by(cell: Cell, key: str | None) -> None:
    (shown,) = shown_cells([cell])
    assert shown.sort_key == key


@pytest.mark.parametrize(
    ("low", "high", "strong"), [(-0.2, -0.05, True), (0.01, 0.2, True), (-0.2, 0.1, False), (0.0, 0.1, False)]
)
def test_intervals_that_leave_out_zero_are_strong(low: float, high: float, strong: bool) -> None:
    shown = ShownCell.interval((low + high) / 2, low, high)
    assert (shown.key, shown.strong) == ((low + high) / 2, strong)


LIBRARY = resources.files("stakes.reports").joinpath("templates", "uplot")
SHA256 = {  # of uPlot 1.6.32 as npm has it
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_the_library_is_as_it_was_published() -> None:
    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in LIBRARY.iterdir()} == SHA256


def test_the_notice_names_the_version_and_the_package_has_the_licence() -> None:
    named = re.search(r"uPlot \(v([\d.]+)\)", LIBRARY.joinpath("uPlot.iife.min.js").read_text("utf-8"))
    assert named is not None
    assert f"uPlot {named[1]}," in (ROOT / "NOTICE.md").read_text("utf-8")
    licences = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["license-files"]
    assert [path for path in licences if path.endswith("uplot/LICENSE") and (ROOT / path).is_file()]


def test_what_charts_add_to_a_page_is_small_and_has_the_licence() -> None:
    assert len(chart_script()) + len(chart_styles()) < 75_000
    assert "Copyright (c) 2022 Leon Sorokin" in chart_script()
    assert "</script" not in chart_script()


@pytest.mark.parametrize(
    ("span", "shown", "never"),
    [
        ((-0.3, 0.3), {"−0.2", "0.0", "0.2"}, {"−0.0"}),
        ((0.0, 2e6), {"0", "1,000,000", "2,000,000"}, {"1e6"}),
        ((1_000_000.0, 1_000_001.0), {"1,000,000.2"}, {"+1e6"}),
        ((0.0, 2e-5), {"0.0000000", "0.0000100", "0.0000200"}, {"1e−5"}),
    ],
)
def test_axes_have_plain_numbers(span: tuple[float, float], shown: set[str], never: set[str]) -> None:
    with style():
        figure = Drawing(figsize=(6, 4))
        figure.subplots().plot([0, 1], span)
    texts = set(re.findall(r"<text[^>]*>([^<]*)</text>", to_svg(figure)))
    assert shown <= texts
    assert not never & texts


def test_names_on_axes_stay() -> None:
    with style():
        figure = Drawing()
        figure.subplots().barh(["today", "foresight"], [1.0, 2.0])
    assert {"today", "foresight"} <= set(re.findall(r"<text[^>]*>([^<]*)</text>", to_svg(figure)))
