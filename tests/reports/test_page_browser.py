"""The page in a real browser."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browsers import SIZES, click_all, emulate, requests, resize, shown
from invented_fits import invented_fit
from matplotlib.figure import Figure as Drawing
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from stakes.plots import to_svg
from stakes.reports.page import Column, Figure, Report, Section, Table, write_report
from stakes.reports.report import build_report

HOSTILE = """</script><script>window.broken = 1</script><img src="https://example.org/x" onerror="window.broken = 1">"""


@pytest.fixture(scope="module")
def address(sample_report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(sample_report, path)
    return path.as_uri()


@pytest.fixture
def browser(chrome: webdriver.Chrome, address: str) -> Iterator[webdriver.Chrome]:
    """A browser on a wide screen, with the sample report open; what a test emulates ends with it."""
    resize(chrome, 1280, 900)
    chrome.get(address)
    yield chrome
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def one(browser: webdriver.Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def head(browser: webdriver.Chrome, column: int, table: str = "#table-costs") -> WebElement:
    return one(browser, f"{table} thead th:nth-child({column})")


def background(browser: webdriver.Chrome, selector: str) -> str:
    return one(browser, selector).value_of_css_property("background-color")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_figures_are_seen_and_nothing_is_wider_than_the_page(
    browser: webdriver.Chrome, width: int, height: int
) -> None:
    resize(browser, width, height)
    page = one(browser, "html")
    room = int(page.get_property("clientWidth"))  # beside the scroll bar
    assert int(page.get_property("scrollWidth")) == room
    for drawing in browser.find_elements(By.CSS_SELECTOR, ".canvas svg"):
        box: dict[str, Any] = drawing.rect
        assert drawing.is_displayed()
        assert box["width"] > width / 3
        assert box["height"] > 40
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= room
    assert len(shown(browser, "nav a")) == 3


def test_a_wide_table_scrolls_in_its_own_box(browser: webdriver.Chrome) -> None:
    resize(browser, 360, 800)
    box = one(browser, "#table-costs .scroll")
    assert int(box.get_property("scrollWidth")) > int(box.get_property("clientWidth"))
    assert shown(browser, "#table-costs tbody th") == ["run 10", "run 9", "run 2", "run 1"]


def test_every_panel_of_a_fit_is_as_wide_as_a_phone_or_as_drawn(browser: webdriver.Chrome, tmp_path: Path) -> None:
    write_report(build_report(invented_fit(cases=300, selected="decision")), tmp_path / "report.html")
    requests(browser)
    browser.get((tmp_path / "report.html").as_uri())
    for width, height in SIZES:
        resize(browser, width, height)
        room = int(one(browser, "html").get_property("clientWidth"))
        assert int(one(browser, "html").get_property("scrollWidth")) == room
        panels = browser.find_elements(By.CSS_SELECTOR, ".canvas > svg, .live")
        boxes = [drawing.rect for drawing in panels if drawing.is_displayed()]
        assert len(boxes) == 19
        for box in boxes:
            assert 0 <= box["x"] <= room - box["width"]
            assert box["width"] > (0.8 * room if width < 500 else 350)
        below = [second["y"] > first["y"] + 50 for first, second in pairwise(boxes)]
        assert all(below) == (width < 500)
    assert requests(browser) == {"file"}
    assert browser.get_log("browser") == []


def test_the_page_asks_for_nothing_and_complains_about_nothing(browser: webdriver.Chrome) -> None:
    assert requests(browser) >= {"file"}
    for buttons in ("summary", "thead button"):
        click_all(browser, buttons)
    assert requests(browser) <= {"data", "blob"}
    assert browser.get_log("browser") == []


def test_hostile_text_and_drawings_do_nothing(browser: webdriver.Chrome, tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.subplots().set_title(HOSTILE)
    figure = Figure("hostile", HOSTILE, HOSTILE, (to_svg(drawing),), {HOSTILE: HOSTILE})
    section = Section("hostile", HOSTILE, (HOSTILE,), (figure,))
    write_report(Report(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, (), (section,), {HOSTILE: HOSTILE}), tmp_path / "x.html")
    requests(browser)
    browser.get((tmp_path / "x.html").as_uri())
    assert browser.execute_script("return window.broken") is None
    assert requests(browser) <= {"file", "data"}
    assert browser.get_log("browser") == []
    assert one(browser, "h1").text == HOSTILE


def test_numbers_sort_as_numbers_and_what_is_missing_comes_last(browser: webdriver.Chrome) -> None:
    button = one(browser, "#table-costs thead th:nth-child(2) button")
    button.click()
    assert shown(browser, "#table-costs tbody td:nth-child(2)") == ["-2.00", "9.25", "10.50", "–"]
    assert head(browser, 2).get_attribute("aria-sort") == "ascending"
    button.click()
    assert shown(browser, "#table-costs tbody td:nth-child(2)") == ["10.50", "9.25", "-2.00", "–"]
    assert head(browser, 2).get_attribute("aria-sort") == "descending"
    one(browser, "#table-costs thead th:nth-child(3) button").click()  # intervals, by their means
    means = [float(text.split()[0]) for text in shown(browser, "#table-costs tbody td:nth-child(3)")]
    assert means == [-1.5, -0.12, 0.02, 0.3]


def test_a_long_table_is_searched(browser: webdriver.Chrome, tmp_path: Path) -> None:
    rows = tuple((f"shop {place}", place) for place in range(50))
    table = Table("all", "All shops", (Column("series"), Column("cases")), rows)
    write_report(Report("Shops", "", (), sections=(Section("all", "All", tables=(table,)),)), tmp_path / "page.html")
    browser.get((tmp_path / "page.html").as_uri())
    one(browser, "input[type=search]").send_keys("SHOP 4")
    seen = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#table-all tbody tr") if row.is_displayed()]
    assert [text.rpartition(" ")[0] for text in seen] == ["shop 4", *(f"shop 4{place}" for place in range(10))]


def test_the_keyboard_sorts_too(browser: webdriver.Chrome) -> None:
    head(browser, 2).find_element(By.TAG_NAME, "button").click()
    button = head(browser, 1).find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    assert shown(browser, "#table-costs tbody th") == ["run 1", "run 2", "run 9", "run 10"]
    button.send_keys(Keys.SPACE)
    assert shown(browser, "#table-costs tbody th") == ["run 10", "run 9", "run 2", "run 1"]
    assert [head(browser, column).get_attribute("aria-sort") for column in (1, 2)] == ["descending", None]


def test_the_reader_chooses_light_or_dark(browser: webdriver.Chrome) -> None:
    emulate(browser, scheme="light")
    light, button = background(browser, "body"), one(browser, "[data-theme-toggle]")
    WebDriverWait(browser, 10).until(lambda _: button.text == "Dark colours")
    button.click()
    dark = background(browser, "body")
    assert dark != light
    assert button.text == "Light colours"
    drawing = one(browser, ".canvas svg")
    assert background(browser, ".canvas") == "rgba(29, 32, 37, 1)"
    assert drawing.value_of_css_property("filter") == "invert(1) hue-rotate(180deg)"  # black on white, the other way
    button.click()
    assert background(browser, "body") == light
    assert background(browser, ".canvas") == "rgba(255, 255, 255, 1)"
    assert drawing.value_of_css_property("filter") == "none"
    browser.refresh()
    emulate(browser, scheme="dark")
    assert background(browser, "body") == dark
    WebDriverWait(browser, 10).until(lambda driver: one(driver, "[data-theme-toggle]").text == "Light colours")


def test_settings_unfold(browser: webdriver.Chrome) -> None:
    assert shown(browser, "#figure-lines dd") == []
    one(browser, "#figure-lines summary").click()
    assert "0.0, 0.3, 0.9" in shown(browser, "#figure-lines dd")


def test_print_shows_what_is_folded_and_no_controls(browser: webdriver.Chrome) -> None:
    one(browser, "[data-theme-toggle]").click()
    emulate(browser, media="print")
    WebDriverWait(browser, 10).until(lambda driver: "Adam" in shown(driver, "#figure-lines dd"))
    assert shown(browser, "#table-costs details dd") == ["Mean realised cost."]
    assert shown(browser, "nav, [data-theme-toggle], [data-download]") == []
    assert background(browser, "body") == "rgba(255, 255, 255, 1)"
    emulate(browser)
    WebDriverWait(browser, 10).until(lambda driver: shown(driver, "#figure-lines dd") == [])


def test_everything_is_there_without_scripts(browser: webdriver.Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.refresh()
    assert shown(browser, "#table-costs tbody th") == ["run 10", "run 9", "run 2", "run 1"]
    assert shown(browser, "button, [data-download]") == []
    folded = "return document.querySelector('#figure-lines dd').checkVisibility()"
    assert not browser.execute_script(folded)
    emulate(browser, media="print")
    assert browser.execute_script(folded)


def test_a_drawing_can_be_saved(browser: webdriver.Chrome, tmp_path: Path) -> None:
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    one(browser, "#figure-image [data-download]").click()
    WebDriverWait(browser, 10).until(lambda _: (tmp_path / "image.svg").exists())
    root = ElementTree.parse(tmp_path / "image.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    links = [element.get("{http://www.w3.org/1999/xlink}href") or "" for element in root.iter()]
    assert any(link.startswith("data:image/png;base64,") for link in links)


def test_the_contents_mark_what_is_read(browser: webdriver.Chrome) -> None:
    assert shown(browser, "nav [aria-current=true]") == []
    one(browser, "nav a[href='#section-results']").click()
    WebDriverWait(browser, 10).until(lambda driver: shown(driver, "nav [aria-current=true]") == ["Results"])
