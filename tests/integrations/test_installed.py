"""Packages that plugins are for: missing, too old, or fit."""

import sys
from importlib import import_module
from types import ModuleType

import pytest
from refusals import refuses

from stakes.errors import SettingError
from stakes.integrations import require_package


@pytest.mark.parametrize("plugin", ["neuralforecast", "darts", "anemoi"])
def test_a_plugin_says_which_extra_it_needs(plugin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, plugin, None)  # importing it fails
    monkeypatch.delitem(sys.modules, f"stakes.integrations.{plugin}", raising=False)
    refuses(SettingError, rf"{plugin}.*stakes\[{plugin}\]", import_module, f"stakes.integrations.{plugin}")


@pytest.mark.parametrize(("version", "fits"), [("3.3.0", True), ("10.0", True), ("3.3rc1", True), ("3.2.9", False)])
def test_versions(version: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("invented")
    package.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "invented", package)
    if fits:
        require_package("invented", least="3.3", extra="extra")
        return
    refuses(SettingError, "3.2.9", require_package, "invented", least="3.3", extra="extra")
