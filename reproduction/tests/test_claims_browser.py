"""Claims in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsers import SIZES, click_all, emulate, requests, resize, shown
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from reproduction.claims_part import ClaimRow, claims_part
from stakes.reports.page import Report, render, write_report

HOSTILE = """<b>"'&</b>"""
CLAIMS = (
    ClaimRow("S2", "Actions track the optimum.", "Distance to it.", "holds", ("-0.04 [-0.05, -0.03]",), "9 runs."),
    ClaimRow("S10", "The cost falls.", "Paired difference.", "fails", ("+0.4 %", "+0.1 %"), "", "One seed only."),
    ClaimRow("W1", "Spread stays.", "Ratio of spreads.", "open"),
    ClaimRow("F1", "Calibration gains.", "Signed gap.", "holds", ("-0.01",)),
)


def report(*claims: ClaimRow) -> Report:
    return Report("Claims", "", (), own=(claims_part(claims),))


def test_claims_are_counted_and_told() -> None:
    text = render(report(*CLAIMS))
    assert '<a href="#claims">Claims</a>' in text
    assert all(part in text for each in CLAIMS for part in (each.statement, each.how, each.note, *each.effects))
    said = " ".join(re.sub(r"<[^>]+>", " ", text.split('class="tally"')[1]).split())
    assert "Of 4 claims, 2 hold , 1 fails and 1 is open" in said


def test_text_of_claims_is_escaped() -> None:
    text = render(report(ClaimRow("c", HOSTILE, HOSTILE, "open", (HOSTILE,), HOSTILE, HOSTILE)))
    assert "<b>" not in text
    assert text.count("&lt;b&gt;") == 5


@pytest.fixture
def browser(chrome: webdriver.Chrome, tmp_path: Path) -> Iterator[webdriver.Chrome]:
    write_report(report(*CLAIMS), tmp_path / "report.html")
    resize(chrome, 1280, 900)
    chrome.get((tmp_path / "report.html").as_uri())
    yield chrome
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def one(browser: webdriver.Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def sort(browser: webdriver.Chrome, column: int) -> None:
    one(browser, f".claims thead th:nth-child({column}) button").click()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_claims_are_no_wider_than_the_page(browser: webdriver.Chrome, width: int, height: int) -> None:
    resize(browser, width, height)
    page = one(browser, "html")
    assert int(page.get_property("scrollWidth")) == int(page.get_property("clientWidth"))
    assert shown(browser, ".claims tbody th") == ["S2", "S10", "W1", "F1"]


def test_the_page_complains_about_nothing_and_prints_no_filters(browser: webdriver.Chrome) -> None:
    requests(browser)
    for buttons in ("summary", "thead button, [data-filter]"):  # a filter hides what could be unfolded
        click_all(browser, buttons)
    assert requests(browser) <= {"data", "blob"}
    assert browser.get_log("browser") == []
    emulate(browser, media="print")
    assert shown(browser, "[data-filters]") == []


def test_claims_are_filtered_by_verdict(browser: webdriver.Chrome) -> None:
    rows, everything = ".claims tbody th", ["S2", "S10", "W1", "F1"]
    assert shown(browser, rows) == everything
    for verdict, expected in {"holds": ["S2", "F1"], "fails": ["S10"], "open": ["W1"], "": everything}.items():
        button = one(browser, f"[data-filter='{verdict}']")
        button.click()
        assert shown(browser, rows) == expected
        assert shown(browser, "[data-filter][aria-pressed=true]") == [button.text]


def test_claims_are_sorted_by_name_and_verdict(browser: webdriver.Chrome) -> None:
    sort(browser, 1)
    assert shown(browser, ".claims tbody th") == ["F1", "S2", "S10", "W1"]
    sort(browser, 3)
    assert shown(browser, ".claims tbody .verdict") == ["holds", "holds", "fails", "open"]


def test_the_rest_of_the_effects_unfolds(browser: webdriver.Chrome) -> None:
    before = shown(browser, "#claim-S10 .effects li")
    one(browser, "#claim-S10 .effects summary").click()
    assert (before, len(shown(browser, "#claim-S10 .effects li"))) == ([], 1)
