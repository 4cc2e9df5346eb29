"""Packages that plugins are for: missing, too old, or fit."""

import sys
from importlib import import_module
from types import ModuleType

import pytest
from refusals import refuses

from stakes.errors import SettingError
from stakes.integrations import require_package


@pytest.mark.parametrize(("plugin", "package"), [("neuralforecast", "neuralforecast"), ("darts", "darts")])
def test_a_plugin_says_which_extra_it_needs(plugin: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails
    monkeypatch.delitem(sys.modules, f"stakes.integrations.{plugin}", raising=False)
    expected = rf'^stakes.integrations.{plugin} needs the package {package}: pip install "stakes\[{plugin}\]"$'
    refuses(SettingError, expected, import_module, f"stakes.integrations.{plugin}")


@pytest.mark.parametrize(("version", "fits"), [("3.3.0", True), ("10.0", True), ("3.3rc1", True), ("3.2.9", False)])
def test_versions(version: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("invented")
    package.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "invented", package)
    if fits:
        require_package("invented", least="3.3", extra="extra")
        return
    with pytest.raises(SettingError, match=r"needs invented 3.3 or newer, got 3.2.9: pip install \"stakes\[extra\]\""):
        require_package("invented", least="3.3", extra="extra")
