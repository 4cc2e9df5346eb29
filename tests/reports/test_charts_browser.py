"""Charts in a report, in a real browser: values under the pointer, and drawings where scripts do not run."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from browsers import emulate, key, painted, requests, resize, shown
from sample_reports import drawn
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from stakes.reports.page import Chart, ChartBand, ChartLimit, ChartLine, Figure, Report, Section, write_report
from stakes.text import number_text, tick_texts

TIMES = pd.DatetimeIndex(["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-04"])
NAMES = tuple(f"a long name, <b>{place}</b>" for place in range(60))
HEIGHTS = np.array([1000.0, 2500.0, np.nan, 12345.6])
STEPS = np.linspace(2000.0, 1000.0, 60)
LIMITS = (
    ChartLimit((0, 1), "ramp, 3 EUR"),
    ChartLimit((59,), "lower, 1 EUR"),
    ChartLimit(tuple(range(60)), "budget, 2 EUR"),
)


@pytest.fixture(scope="module")
def page(chrome: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A report with one drawing that has charts, and one that has none."""
    over_time = (
        Chart("Outcome", "time (UTC)", TIMES, (ChartLine("outcome", "ink", HEIGHTS, dots=True),), group="both"),
        Chart("Action", "time (UTC)", TIMES, (ChartLine("action", "blue", -HEIGHTS),), steps=True, group="both"),
    )
    band = ChartBand("forecast", "blue band", STEPS - 100, STEPS + 100)
    schedule = Chart("A plan", "part", NAMES, (ChartLine("action", "orange", STEPS),), (band,), LIMITS, steps=True)
    figure = Figure("pointed", "Pointed at.", "", [drawn(4)] * 3, {}, (over_time, (schedule,), ()))
    path = tmp_path_factory.mktemp("charts") / "report.html"
    folded = {"The 60 sites": NAMES}
    write_report(Report("60 sites", "", (), sections=(Section("one", "One", (), (figure,)),), folded=folded), path)
    resize(chrome, 1280, 900)
    requests(chrome)
    chrome.get(path.as_uri())
    yield chrome
    emulate(chrome)


def plots(page: webdriver.Chrome) -> list[WebElement]:
    return page.find_elements(By.CSS_SELECTOR, ".plot")


def keys(page: webdriver.Chrome, place: int) -> dict[str, str]:
    page.execute_script("document.querySelectorAll('.key').forEach((each, place) => each.id = `key-${place}`)")
    return key(page, f"#key-{place}")


def test_charts_stand_in_the_place_of_drawings_and_ask_for_nothing(page: webdriver.Chrome) -> None:
    assert requests(page) == {"file"}
    assert page.get_log("browser") == []
    assert len(plots(page)) == 3
    assert shown(page, ".chart-title") == ["Outcome", "Action", "A plan"]
    assert [each.is_displayed() for each in page.find_elements(By.CSS_SELECTOR, ".canvas svg")] == [False, False, True]
    assert [each.accessible_name for each in plots(page)][2] == "A plan: action, forecast"


def test_the_pointer_reads_every_chart_of_its_group(page: webdriver.Chrome) -> None:
    over = page.find_element(By.CSS_SELECTOR, ".u-over")
    across = over.rect["width"]
    ActionChains(page).move_to_element_with_offset(over, int(across / 2) - 2, 0).perform()
    assert keys(page, 0) == {"time (UTC)": "2024-03-04", "outcome": "12,346"}
    assert keys(page, 1) == {"time (UTC)": "2024-03-04", "action": "−12,346"}
    ActionChains(page).move_to_element_with_offset(over, int(-across / 2) + 2, 0).perform()
    assert keys(page, 1) == {"time (UTC)": "2024-02-28", "action": "−1,000"}
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    assert keys(page, 0) == {"time (UTC)": "", "outcome": ""}


def test_the_keyboard_reads_a_schedule_and_its_limits(page: webdriver.Chrome) -> None:
    plan = plots(page)[2]
    plan.send_keys(Keys.HOME)
    first = {"part": NAMES[0], "action": "2,000", "forecast": "1,900 to 2,100"}
    assert keys(page, 2) == {**first, "limits that bind": "ramp, 3 EUR; budget, 2 EUR"}
    plan.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert (keys(page, 2)["part"], keys(page, 2)["limits that bind"]) == (NAMES[2], "budget, 2 EUR")
    plan.send_keys(Keys.END)
    assert keys(page, 2)["limits that bind"] == "lower, 1 EUR; budget, 2 EUR"
    assert plan.get_attribute("aria-valuenow") == plan.get_attribute("aria-valuemax") == "59"
    plan.send_keys(Keys.ARROW_RIGHT)
    assert plan.get_attribute("aria-valuenow") == "59"
    plan.send_keys(Keys.PAGE_DOWN)
    assert plan.get_attribute("aria-valuenow") == "53"
    assert len(page.find_elements(By.CSS_SELECTOR, ".plot .limit")) == 2
    plots(page)[0].send_keys(Keys.TAB)
    assert page.switch_to.active_element == plots(page)[1]
    assert keys(page, 2)["part"] == ""


def test_what_is_not_known_has_no_value(page: webdriver.Chrome) -> None:
    plots(page)[0].send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert keys(page, 0) == {"time (UTC)": "2024-03-01", "outcome": "–"}


def test_charts_change_colours_with_the_page_and_paper_has_drawings(page: webdriver.Chrome) -> None:
    for scheme, ink in {"light": (31, 35, 40), "dark": (228, 226, 221), "": (31, 35, 40)}.items():
        emulate(page, scheme=scheme)
        WebDriverWait(page, 5).until(lambda _, ink=ink: ink in painted(page, ".plot canvas"))
    emulate(page, media="print")
    assert [each.is_displayed() for each in page.find_elements(By.CSS_SELECTOR, ".canvas svg")] == [True, True, True]
    assert shown(page, ".live") == []
    emulate(page)


def test_a_phone_shows_all_of_it(page: webdriver.Chrome) -> None:
    resize(page, 360, 800)
    page.execute_script("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    root = page.find_element(By.TAG_NAME, "html")
    assert int(root.get_property("scrollWidth")) == int(root.get_property("clientWidth")) <= 360
    for canvas in page.find_elements(By.CSS_SELECTOR, ".plot canvas"):
        assert 270 < canvas.rect["width"] < 360
    resize(page, 1280, 900)


def test_sixty_names_are_counted_and_unfold(page: webdriver.Chrome) -> None:
    assert shown(page, "h1") == ["60 sites"]
    names = page.find_element(By.CSS_SELECTOR, ".names ul")
    assert not names.is_displayed()
    page.find_element(By.CSS_SELECTOR, ".names summary").send_keys(Keys.ENTER)
    assert names.text.split("\n") == list(NAMES)


def test_without_scripts_there_are_drawings(page: webdriver.Chrome) -> None:
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.refresh()
    assert [each.is_displayed() for each in page.find_elements(By.CSS_SELECTOR, ".canvas svg")] == [True, True, True]
    assert shown(page, ".live, .plot") == []
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    page.refresh()


def test_numbers_are_those_of_number_text(page: webdriver.Chrome) -> None:
    sizes = [0.0, 1e-13, 2.5e-7, 1.2e-5, 0.00012345, 0.25, 0.99996, 1, 2.675, 12.5, 999.4, 999.6, 12345.6, 1e6, 1.5e15]
    values = [sign * size for sign in (1, -1) for size in sizes]
    written = page.execute_script("return arguments[0].map((value) => numberText(value))", values)
    assert written == [number_text(value).replace("-", "−") for value in values]
    missing = page.execute_script("return [null, undefined, NaN, -Infinity].map((value) => numberText(value))")
    assert missing == [*[number_text(math.nan)] * 3, number_text(-math.inf).replace("-", "−")]
    for step in (0.25, 1.0, 2.5, 5e4, 1e-4):
        ticks = [step * place for place in (-2, -1, 0, 1, 2)]
        on_axis = page.execute_script("return tickTexts(arguments[0], arguments[1])", ticks, step)
        assert on_axis == [text.replace("-", "−") for text in tick_texts(ticks)]


def test_rounding_does_not_fill_a_chart(page: webdriver.Chrome) -> None:
    low, high = page.execute_script("return spanOf([36.6666667, 36.6666669, null])")
    assert (low, high) == pytest.approx((36.6666667 * 0.95, 36.6666669 * 1.05), rel=1e-6)
    assert page.execute_script("return [spanOf([0, 10]), spanOf([0]), spanOf([null])]") == [
        [-0.5, 10.5],
        [-0.05, 0.05],
        [0, 1],
    ]
