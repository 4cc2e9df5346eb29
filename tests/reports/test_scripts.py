"""The library that draws charts is the one that was published, and goes nowhere without its licence."""

import hashlib
import re
import tomllib
from importlib import resources

from page_blocks import ROOT

from stakes.reports.page import chart_script, chart_styles

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
