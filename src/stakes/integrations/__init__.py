"""The decision inside other people's training tools; one file for each, which nothing here imports."""

import re
from importlib import import_module

from stakes.errors import SettingError


def require_package(package: str, least: str, extra: str) -> None:
    """Raise unless a package can be imported in a version that its plugin knows."""
    how = f'pip install "stakes[{extra}]"'
    try:
        version = str(import_module(package).__version__)
    except ImportError as error:
        raise SettingError(f"stakes.integrations.{extra} needs the package {package}: {how}") from error
    if _numbers(version) < _numbers(least):
        raise SettingError(f"stakes.integrations.{extra} needs {package} {least} or newer, got {version}: {how}")


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, as in (3, 3, 0) of 3.3.0rc1."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
