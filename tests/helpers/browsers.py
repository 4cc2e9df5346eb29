"""A real browser; needs Chromium and its driver, as Debian's chromium and chromium-driver install them."""

import json
import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --force-prefers-reduced-motion"
)
SIZES = [(360, 800), (1280, 900)]


def _installed(*names: str) -> str:
    paths = [path for name in names if (path := shutil.which(name))]
    if not paths:
        pytest.skip(f"no {names[0]} on PATH: install Chromium and its driver (Debian: chromium, chromium-driver)")
    return paths[0]


@pytest.fixture(scope="session")
def started_chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = _installed(*_BROWSERS)
    for flag in (*_FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_installed("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def chrome(started_chrome: webdriver.Chrome) -> webdriver.Chrome:
    """One browser for all, which takes seconds to start, with nothing left of what another module did in it."""
    started_chrome.get("about:blank")
    started_chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    emulate(started_chrome)
    for log in ("browser", "performance"):
        started_chrome.get_log(log)
    return started_chrome


def resize(browser: webdriver.Chrome, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def emulate(browser: webdriver.Chrome, media: str = "", scheme: str = "") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def shown(browser: webdriver.Chrome, selector: str) -> list[str]:
    """The texts of the elements that can be seen."""
    return [each.text for each in browser.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]


def click_all(browser: webdriver.Chrome, selector: str) -> None:
    browser.execute_script("for (const each of document.querySelectorAll(arguments[0])) each.click()", selector)


def key(browser: webdriver.Chrome, selector: str) -> dict[str, str]:
    """What the key of a chart tells of each thing in it, the first that is found; nothing where there is none."""
    script = """const entries = document.querySelector(arguments[0])?.children ?? [];
        return [...entries].map((entry) => [...entry.children].map((each) => each.textContent))"""
    return dict(browser.execute_script(script, selector))


def painted(browser: webdriver.Chrome, selector: str) -> set[tuple[int, ...]]:
    """The colours of the pixels of a canvas that hide what is behind them."""
    script = """const canvas = document.querySelector(arguments[0]);
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
        const colours = new Set();
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] === 255) colours.add(data.slice(at, at + 3).join());
        return [...colours]"""
    return {tuple(map(int, colour.split(","))) for colour in browser.execute_script(script, selector)}


def requests(browser: webdriver.Chrome) -> set[str]:
    """The schemes of all requests since this was last asked."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return {url.partition(":")[0] for url in sent}
