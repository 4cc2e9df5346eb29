"""The page of a decision with sixty parts, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browsers import key, painted, resize, shown
from live_services import listening
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

import stakes
from stakes.artifacts.fits import save_bundle
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.layout import TableLayout
from stakes.service.app import create_app
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source

SHOPS = [f"shop in street {number}" for number in range(60)]
SPEC = CostSpec.parse("allocation:short=5,long=1,budget=150000,unit=EUR,action_unit=loaves")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    features = pd.DataFrame({"sun": generator.normal(size=80)})
    sold = 3000 + 500 * features.to_numpy() + 300 * generator.normal(size=(80, 60))
    forecaster = stakes.DecisionAwareForecaster(
        SPEC.build(), model="linear", base="none", decision_weight=0.0, members=20, random_state=0
    ).fit(features, pd.DataFrame(sold, columns=SHOPS))
    layout = TableLayout(tuple(SHOPS), ("sun",))
    return save_bundle(tmp_path_factory.mktemp("shops") / "shops", forecaster, cost_spec=SPEC, layout=layout)


@pytest.fixture(scope="module")
def page(chrome: webdriver.Chrome, folder: Path) -> Iterator[webdriver.Chrome]:
    settings = ServiceSettings(workers=1)
    resize(chrome, 1280, 900)
    with listening(create_app(open_source(folder, None, settings)), settings) as address:
        chrome.get(address)
        WebDriverWait(chrome, 30, 0.05).until(lambda _: chrome.find_elements(By.CSS_SELECTOR, ".plot .uplot"))
        yield chrome
        chrome.get("about:blank")


def test_sixty_names_are_counted_and_unfold(page: webdriver.Chrome) -> None:
    assert shown(page, "h1") == ["Decisions on 60 targets"]
    names = page.find_element(By.CSS_SELECTOR, "#targets ul")
    assert not names.is_displayed()
    page.find_element(By.CSS_SELECTOR, "#targets summary").send_keys(Keys.ENTER)
    assert names.text.split("\n") == SHOPS
    page.find_element(By.CSS_SELECTOR, "#targets summary").click()


def test_a_schedule_is_drawn_as_one_and_read_part_by_part(page: webdriver.Chrome) -> None:
    over = page.find_element(By.CSS_SELECTOR, ".plot .u-over")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    width = over.rect["width"]
    for place in (0, 29, 59):  # the middle of a step, and just inside its end
        for within in (0.5, 0.9):
            offset = int((place + within) / 60 * width - width / 2)
            ActionChains(page).move_to_element_with_offset(over, offset, 0).perform()
            told = key(page, ".chart .key")
            assert told["part"] == SHOPS[place]
    assert list(told) == ["part", "action", "5 to 95 %", "25 to 75 %", "limits that bind"]
    assert told["limits that bind"].startswith("budget ")
    assert (31, 35, 40) in painted(page, ".plot canvas")


def test_nothing_is_wider_than_a_phone(page: webdriver.Chrome) -> None:
    resize(page, 360, 800)
    root = page.find_element(By.TAG_NAME, "html")
    fits = "return arguments[0].scrollWidth === arguments[0].clientWidth"
    WebDriverWait(page, 10, 0.05).until(lambda _: page.execute_script(fits, root))
    assert page.find_element(By.CSS_SELECTOR, ".plot canvas").rect["width"] > 270
    assert page.get_log("browser") == []
