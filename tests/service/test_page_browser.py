"""The page of the service in a real browser; as those of the reports."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browsers import emulate, key, painted, resize
from golden.make_bundle import table
from live_services import golden_service, listening
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from stakes.data.forecasts.layout import ForecastLayout
from stakes.service.app import create_app
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source
from stakes.workflows.recalibrate import RecalibrateRequest, run_recalibrate

ACTION = ".forecast:first-child .answers div:first-child dd"


@pytest.fixture
def browser(chrome: webdriver.Chrome, address: str) -> webdriver.Chrome:
    """A browser on a wide screen with the page open and its charts drawn."""
    resize(chrome, 1280, 900)
    hosts(chrome)  # what other tests asked in it
    chrome.get(address)
    wait(chrome, lambda: len(every(chrome, ".chart .uplot")) == 4)
    return chrome


def one(browser: webdriver.Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def every(browser: webdriver.Chrome, selector: str) -> list[WebElement]:
    return browser.find_elements(By.CSS_SELECTOR, selector)


def wait(browser: webdriver.Chrome, until: object) -> None:
    assert callable(until)
    WebDriverWait(browser, 30, 0.05).until(lambda _: until())


def text(browser: webdriver.Chrome, selector: str) -> str:
    """What an element says now, also while it is being drawn anew."""
    script = "return document.querySelector(arguments[0])?.textContent ?? ''"
    return str(browser.execute_script(script, selector))


def marks(browser: webdriver.Chrome) -> list[str]:
    """Where the lines of the best action stand, chart by chart."""
    script = "return [...document.querySelectorAll('.plot .across.ink')].map((line) => line.style.left)"
    return list(browser.execute_script(script))


def outcome(browser: webdriver.Chrome) -> str:
    """What came, as the key of the first chart tells it."""
    return key(browser, ".chart .key").get("outcome", "")


def hosts(browser: webdriver.Chrome) -> set[str]:
    """The origins of all requests since this was last asked."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return {"/".join(url.split("/")[:3]) for url in sent if url.startswith(("http", "ws"))}


def test_a_slider_moves_the_actions_of_both_forecasts_in_all_charts(browser: webdriver.Chrome) -> None:
    before, action = marks(browser), text(browser, ACTION)
    assert len(before) == 4
    slider = one(browser, "#slider-short")
    slider.send_keys(Keys.END)
    wait(browser, lambda: text(browser, ACTION) != action)
    wait(browser, lambda: all(new != old for new, old in zip(marks(browser), before, strict=True)))
    assert float(text(browser, ACTION).split()[0]) > float(action.split()[0])
    assert one(browser, "input[aria-label='short, exactly']").get_property("value") == "40"
    assert slider.get_attribute("aria-valuetext") == "40"
    one(browser, "#reset").click()
    wait(browser, lambda: text(browser, ACTION) == action)


def test_the_pointer_reads_both_forecasts_at_the_same_action(browser: webdriver.Chrome) -> None:
    plots = every(browser, ".forecast .chart:last-child .plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plots[0])
    ActionChains(browser).move_to_element_with_offset(plots[0], 60, 0).perform()
    left, right = (key(browser, f".forecast:nth-child({place}) .chart:last-child .key") for place in (1, 2))
    assert left["action"] == right["action"] != ""
    assert left["expected cost"] != right["expected cost"]
    assert float(left["expected cost"]) >= float(text(browser, ".forecast .answers div:nth-child(2) dd").split()[0])
    ActionChains(browser).move_to_element(one(browser, "#section-decision h2")).perform()
    assert key(browser, ".forecast .chart:last-child .key")["expected cost"] == ""


def test_arrow_keys_read_a_chart_from_the_best_action_on(browser: webdriver.Chrome) -> None:
    plot, best = one(browser, ".chart:last-child .plot"), float(text(browser, ACTION).split()[0])
    plot.send_keys(Keys.ARROW_RIGHT)
    first = key(browser, ".chart:last-child .key")
    assert float(first["action"]) == pytest.approx(best, rel=0.02)
    plot.send_keys(Keys.ARROW_RIGHT)
    second = key(browser, ".chart:last-child .key")
    assert float(second["action"]) > float(first["action"])
    assert plot.get_attribute("aria-valuetext") == "; ".join(f"{name}: {value}" for name, value in second.items())
    browser.execute_script("takeCase(state.place - 1)")
    wait(browser, lambda: text(browser, ACTION).split()[0] != str(best))
    wait(browser, lambda: key(browser, ".chart:last-child .key")["action"] not in ("", second["action"]))
    assert browser.switch_to.active_element == plot
    plot.send_keys(Keys.HOME)
    assert plot.get_attribute("aria-valuenow") == "0"
    plot.send_keys(Keys.ESCAPE)
    assert key(browser, ".chart:last-child .key")["action"] == ""


def test_charts_are_painted_in_the_colours_of_the_page(browser: webdriver.Chrome) -> None:
    emulate(browser, scheme="light")
    wait(browser, lambda: (0, 103, 163) in painted(browser, ".plot canvas"))
    one(browser, "[data-theme-toggle]").click()
    wait(browser, lambda: (109, 184, 234) in painted(browser, ".plot canvas"))
    one(browser, "[data-theme-toggle]").click()
    wait(browser, lambda: (0, 103, 163) in painted(browser, ".plot canvas"))
    emulate(browser)


def test_a_case_can_be_chosen_and_its_outcome_is_shown(browser: webdriver.Chrome) -> None:
    load = table(20)["load"]
    assert outcome(browser) == f"{load[19]:.4g}"
    action = text(browser, ACTION)
    one(browser, "#previous").send_keys(Keys.ENTER)
    wait(browser, lambda: outcome(browser) == f"{load[18]:.4g}")
    assert text(browser, ACTION) != action
    assert one(browser, "#next").is_enabled()


def test_after_typing_the_cases_go_on_where_they_were(browser: webdriver.Chrome) -> None:
    chosen = "#case option:checked"
    one(browser, "#previous").click()
    wait(browser, lambda: text(browser, chosen) == "row 19")
    one(browser, "#typed summary").click()
    one(browser, "#features input[name=wind]").send_keys("1")
    wait(browser, lambda: text(browser, chosen) == "features as typed")
    one(browser, "#previous").click()
    wait(browser, lambda: text(browser, chosen) == "row 18")
    load = table(20)["load"]
    wait(browser, lambda: outcome(browser) == f"{load[17]:.4g}")
    assert browser.get_log("browser") == []


def test_a_number_that_cannot_be_is_marked_and_what_was_drawn_fades(browser: webdriver.Chrome) -> None:
    field = one(browser, "input[aria-label='short, exactly']")
    field.clear()
    field.send_keys("-4")
    wait(browser, lambda: "short must be positive" in text(browser, "#trouble"))
    assert field.get_attribute("aria-invalid") == "true"
    assert one(browser, "#forecasts").get_attribute("class") == "forecasts stale"
    assert one(browser, "input[aria-label='long, exactly']").get_attribute("aria-invalid") == "false"
    one(browser, "#reset").click()
    wait(browser, lambda: not one(browser, "#trouble").is_displayed())
    assert one(browser, "#forecasts").get_attribute("class") == "forecasts"
    assert browser.get_log("browser")  # the browser's own note of the status; not of the next test


def test_every_step_of_a_slider_is_another_value(browser: webdriver.Chrome) -> None:
    script = "return new Set(Array.from({length: 201}, (_, step) => valueAt(arguments[0], step / 200))).size"
    kelvin = {"low": 271.15, "high": 275.15, "scale": "linear"}
    for parameter in (kelvin, {"low": 0.1, "high": 10, "scale": "log"}, {"low": -1, "high": 1, "scale": "linear"}):
        assert browser.execute_script(script, parameter) >= 195


def test_forecasts_are_compared_or_not(browser: webdriver.Chrome) -> None:
    assert [each.text for each in every(browser, ".forecast h3")] == ["Weight 0.9", "Weight 0"]
    left, right = (each.rect for each in every(browser, ".forecast"))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    one(browser, "#compare").send_keys(Keys.SPACE)
    wait(browser, lambda: len(every(browser, ".forecast")) == 1)


def test_a_table_is_decided_and_saved(browser: webdriver.Chrome, tmp_path: Path) -> None:
    file = tmp_path / "coming.csv"
    table(7).drop(columns="load").to_csv(file, index=False)
    one(browser, "#file").send_keys(str(file))
    wait(browser, lambda: len(every(browser, "#decisions tbody tr")) == 7)
    assert "7 decisions for imbalance" in text(browser, "#table-note")
    shown = every(browser, "#decisions tbody tr:first-child td")[1].text
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    one(browser, "#download").click()
    saved = tmp_path / "decisions.csv"
    wait(browser, lambda: saved.exists() and saved.read_text().count("\n") == 8)
    head, first, *_ = saved.read_text().splitlines()
    assert head.startswith("row,action,expected_cost")
    assert f"{float(first.split(',')[1]):.4g}" == shown
    one(browser, "#decided .plot").send_keys(Keys.HOME)
    assert key(browser, "#decided .key")["action"] == shown
    heads = [each.text for each in every(browser, "#decisions th")]
    assert heads[:3] == ["row", "action, MW", "expected cost, EUR"]
    one(browser, "#slider-short").send_keys(Keys.END)
    wait(browser, lambda: "short=40" in text(browser, "#table-note"))


def test_a_table_that_cannot_be_read_is_complained_about(browser: webdriver.Chrome, tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    file.write_text("a,b\n1,2\n")
    one(browser, "#file").send_keys(str(file))
    wait(browser, lambda: "no column 'wind'" in text(browser, "#table-note"))
    one(browser, "#previous").click()  # what goes well elsewhere does not take the complaint away
    wait(browser, lambda: text(browser, "#case option:checked") == "row 19")
    assert one(browser, "#table-note").get_attribute("class") == "note trouble"
    assert not one(browser, "#download").is_displayed()
    file.write_text("wind,sun,price\n" + "1,2,3\n" * 20_000)
    browser.execute_script("document.getElementById('file').dispatchEvent(new Event('click'))")
    one(browser, "#file").send_keys(str(file))  # the same again, with other contents
    wait(browser, lambda: text(browser, "#table-note") == "other.csv is too large: the service takes 0.1 MiB at once.")
    assert browser.get_log("browser")  # the browser's own note of the status; not of the next test


def test_each_row_of_a_table_has_its_own_price(chrome: webdriver.Chrome, tmp_path: Path) -> None:
    random, count = np.random.default_rng(0), 200
    forecast = random.normal(100, 10, count)
    past = pd.DataFrame({"time": pd.date_range("2025-01-01", periods=count, freq="h"), "forecast": forecast})
    past["load"] = forecast + random.normal(0, 5, count)
    past["margin"] = np.where(np.arange(count) % 2, 9.0, 1.0)
    past.to_csv(tmp_path / "past.csv", index=False)
    past.assign(forecast=100.0).tail(2).drop(columns="load").to_csv(tmp_path / "new.csv", index=False)
    layout = ForecastLayout(columns=("forecast",), outcomes=("load",))
    request = RecalibrateRequest(tmp_path / "past.csv", "newsvendor:underage=@margin,overage=1", layout)
    run_recalibrate(request, tmp_path / "priced", quiet=True)
    settings = ServiceSettings()
    with listening(create_app(open_source(tmp_path / "priced", None, settings)), settings) as address:
        chrome.get(address)
        wait(chrome, lambda: "column margin" in text(chrome, "label[for=slider-underage]"))
        one(chrome, "#file").send_keys(str(tmp_path / "new.csv"))
        wait(chrome, lambda: "2 decisions" in text(chrome, "#table-note"))
        cheap, dear = (
            float(row.find_elements(By.TAG_NAME, "td")[1].text) for row in every(chrome, "#decisions tbody tr")
        )
        assert dear > cheap + 3
        one(chrome, "#slider-overage").send_keys(Keys.END)
        wait(chrome, lambda: "overage=10" in text(chrome, "#table-note"))
    assert chrome.get_log("browser") == []


def test_nobody_else_is_asked_and_nothing_complained_about(browser: webdriver.Chrome, address: str) -> None:
    one(browser, "#slider-long").send_keys(Keys.ARROW_LEFT * 5)
    one(browser, "[data-theme-toggle]").click()
    one(browser, "#previous").click()
    wait(browser, lambda: text(browser, "#case option:checked") == "row 19")
    assert hosts(browser) == {address}
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(browser: webdriver.Chrome, tmp_path: Path, width: int) -> None:
    file = tmp_path / "coming.csv"
    table(3).to_csv(file, index=False)
    one(browser, "#file").send_keys(str(file))
    wait(browser, lambda: len(every(browser, "#decisions tbody tr")) == 3)
    resize(browser, width, 800)
    one(browser, "#typed summary").click()
    page = one(browser, "html")
    wait(browser, lambda: int(page.get_property("scrollWidth")) == int(page.get_property("clientWidth")))
    canvases = ".chart canvas"
    wait(browser, lambda: all(each.rect["x"] + each.rect["width"] <= width for each in every(browser, canvases)))
    assert every(browser, canvases)[0].rect["width"] > width / 4


def test_everything_that_can_be_set_has_a_name(browser: webdriver.Chrome) -> None:
    one(browser, "#typed summary").click()
    for each in every(browser, "input, select, button, [role=slider]"):
        assert each.accessible_name or not each.is_displayed()


def test_a_service_that_has_gone_is_said_so(chrome: webdriver.Chrome, fit: Path) -> None:
    settings = ServiceSettings()
    with listening(golden_service(fit, settings), settings) as address:
        chrome.get(address)
        wait(chrome, lambda: len(every(chrome, ".chart .uplot")) == 4)
    one(chrome, "#previous").click()
    wait(chrome, lambda: "The service does not answer" in text(chrome, "#trouble"))
    assert one(chrome, "#forecasts").get_attribute("class") == "forecasts stale"
    chrome.get_log("browser")


def test_a_service_with_a_token_asks_for_it(chrome: webdriver.Chrome, fit: Path) -> None:
    settings = ServiceSettings(token="open sesame")
    with listening(golden_service(fit, settings), settings) as address:
        chrome.get(address)
        wait(chrome, lambda: one(chrome, "#token").is_displayed())
        assert not one(chrome, "#section-decision").is_displayed()
        assert not one(chrome, "nav").is_displayed()
        one(chrome, "#token").send_keys("open", Keys.ENTER)
        wait(chrome, lambda: text(chrome, "#trouble") == "This token is not the right one.")
        one(chrome, "#token").clear()
        one(chrome, "#token").send_keys("open sesame", Keys.ENTER)
        wait(chrome, lambda: len(every(chrome, ".chart .uplot")) == 4)
        assert not one(chrome, "#token").is_displayed()
        chrome.get("about:blank")
    chrome.get_log("browser")


def test_a_forecast_that_is_typed_is_corrected(chrome: webdriver.Chrome, recalibrated: Path) -> None:
    resize(chrome, 1280, 900)
    settings = ServiceSettings(workers=1)
    with listening(create_app(open_source(recalibrated, None, settings)), settings) as found:
        chrome.get(found)
        wait(chrome, lambda: len(every(chrome, "textarea[name=members]")) == 1)
        one(chrome, "textarea[name=members]").send_keys("8, 9, 8.5, 9.5, 9, 9, 8, 9.2")
        wait(chrome, lambda: len(every(chrome, ".chart .uplot")) == 4)
        titles = [text(chrome, f".forecast:nth-child({place}) h3") for place in (1, 2)]
        assert titles[0].startswith("Corrected (")
        assert titles[1] == "Raw"
        actions = [float(text(chrome, f".forecast:nth-child({place}) .answers dd")) for place in (1, 2)]
        assert actions[0] > actions[1] == 9.5
        assert text(chrome, "#trouble") == ""
        assert one(chrome, "#link-case").is_displayed()
        assert not one(chrome, "#untyped").is_displayed()
        chrome.execute_script("state.model.targets = ['north', 'south']; showAbout()")
        for hidden in ("#section-case", "#link-case", "#section-decision", "#link-decision"):
            assert not one(chrome, hidden).is_displayed()
        assert text(chrome, "#untyped").startswith("A forecast of several targets")
