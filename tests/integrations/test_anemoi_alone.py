"""Without anemoi-training its plugin says what is missing."""

import importlib
import importlib.util

import pytest

from stakes.errors import SettingError


@pytest.mark.skipif(importlib.util.find_spec("anemoi") is not None, reason="anemoi is installed")
def test_the_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(SettingError, match=r'needs the package anemoi\.training: pip install "stakes\[anemoi\]"'):
        importlib.import_module("stakes.integrations.anemoi")
