"""The report of a fit in a real browser, on a desk and on a phone."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from browsers import SIZES, click_all, emulate, requests, resize, shown
from invented_fits import invented_fit
from selenium import webdriver
from selenium.webdriver.common.by import By

from stakes.reports.page import write_report
from stakes.reports.report import build_report


@pytest.fixture(scope="module")
def page(chrome: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    path = tmp_path_factory.mktemp("fit") / "report.html"
    write_report(build_report(invented_fit(cases=300, selected="decision")), path)
    requests(chrome)
    chrome.get(path.as_uri())
    yield chrome
    emulate(chrome)


def test_the_page_asks_for_nothing_and_complains_about_nothing(page: webdriver.Chrome) -> None:
    resize(page, 1280, 900)
    assert requests(page) == {"file"}
    click_all(page, "thead button, summary")
    assert requests(page) <= {"data", "blob"}
    assert page.get_log("browser") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_panel_is_seen(page: webdriver.Chrome, width: int, height: int, scheme: str) -> None:
    resize(page, width, height)
    emulate(page, scheme=scheme)
    root = page.find_element(By.TAG_NAME, "html")
    room = int(root.get_property("clientWidth"))
    assert int(root.get_property("scrollWidth")) == room
    panels = page.find_elements(By.CSS_SELECTOR, ".canvas > svg, .live")
    boxes = [drawing.rect for drawing in panels if drawing.is_displayed()]
    assert len(boxes) == 19
    for box in boxes:
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= room
        assert box["width"] > (0.8 * room if width < 500 else 350)  # as wide as a phone, or as drawn
    below = [second["y"] > first["y"] + 50 for first, second in pairwise(boxes)]
    assert all(below) == (width < 500)
    assert shown(page, "#section-policies h2") == ["Does decision-aware training pay here?"]
