import re
import xml.etree.ElementTree as ElementTree

import pytest

from stakes.errors import SettingError
from stakes.reports.page import Report
from stakes.reports.svg import inline_svg

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 1 1"'


def inlined(content: str, attributes: str = "") -> str:
    return str(inline_svg(f"{HEAD} {attributes}>{content}</svg>", "own", "label"))


def test_every_reference_of_a_drawing_leads_to_its_own_ids(sample_report: Report) -> None:
    for figure in sample_report.sections[0].figures:
        text = str(figure.drawing())
        identifiers = set(re.findall(r' id="([^"]+)"', text))
        references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
        assert references
        assert references <= identifiers
        assert all(identifier.startswith(f"drawing-{figure.label}") for identifier in identifiers)


def test_drawings_share_no_ids(sample_report: Report) -> None:
    drawings = [str(figure.drawing()) for figure in sample_report.sections[0].figures]
    identifiers = [identifier for text in drawings for identifier in re.findall(r' id="([^"]+)"', text)]
    assert len(identifiers) == len(set(identifiers))


def test_the_drawing_is_well_formed_and_named(sample_report: Report) -> None:
    figure = sample_report.sections[0].figures[0]
    root = ElementTree.fromstring(str(figure.drawing()))
    assert (root.get("role"), root.get("aria-label"), root.get("id")) == ("img", "Cost by weight.", "drawing-lines")
    assert not list(root.iter("{http://www.w3.org/2000/svg}metadata"))


@pytest.mark.parametrize(
    "content",
    [
        "<script>alert(1)</script>",
        "<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'>bad</p></foreignObject>",
        "<iframe src='x'/>",
        "<set attributeName='href' to='javascript:bad'/>",
        "<rect onload='alert(1)' ONCLICK='alert(1)'/>",
        "<image href='https://example.org/bad.png'/>",
        "<use xlink:href='https://example.org/bad.svg#x'/>",
        "<a xlink:href='javascript:alert(1)'/>",
        "<rect fill='url(https://example.org/bad)'/>",
        '<rect style="fill: url( &quot;https://example.org/bad&quot; )"/>',
        "<style>@import 'https://example.org/bad'; rect{fill: url(https://example.org/bad)}</style>",
        "<p xmlns='http://www.w3.org/1999/xhtml'>bad</p>",
    ],
)
def test_what_is_no_drawing_is_left_out(content: str) -> None:
    assert not re.search(r"script|alert|example\.org|bad", inlined(content))


def test_what_a_link_holds_stays() -> None:
    assert "<g><rect /></g>" in inlined("<a xlink:href='https://example.org'><rect/></a>")


def test_embedded_images_stay_without_blanks() -> None:
    assert 'xlink:href="data:image/png;base64,AAAA"' in inlined("<image xlink:href='data:image/png;base64,\nAA AA'/>")


def test_style_rules_reach_their_own_drawing_only() -> None:
    text = inlined("<style>/* all */ *{stroke: red} #a, .b{fill: url('#c')}</style>")
    rules = ':where([id="own"]) :is(*){stroke: red}:where([id="own"]) :is([id="own--a"], .b){fill: url(#own--c)}'
    assert f"<style>{rules}</style>" in text


def test_text_and_label_stay_text() -> None:
    text = str(inline_svg(f"{HEAD}><text>&lt;/svg>&lt;b></text></svg>", "own", '"><script>'))
    assert "<text>&lt;/svg&gt;&lt;b&gt;</text>" in text
    assert 'aria-label="&quot;&gt;&lt;script&gt;"' in text


@pytest.mark.parametrize(
    ("svg", "message"),
    [
        ("no drawing", "must be well-formed XML"),
        ("<svg viewBox='0 0 1 1'>", "must be well-formed XML"),
        ("<html/>", "must be an <svg> with a viewBox, got <html>"),
        ("<svg xmlns='http://www.w3.org/2000/svg'/>", "must be an <svg> with a viewBox"),
        ("<!DOCTYPE svg [<!ENTITY a 'b'>]><svg viewBox='0 0 1 1'/>", "must not define entities"),
    ],
)
def test_other_documents_are_refused(svg: str, message: str) -> None:
    with pytest.raises(SettingError, match=f"the SVG of own {message}"):
        inline_svg(svg, "own", "label")
