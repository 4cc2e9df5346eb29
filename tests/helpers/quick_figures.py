"""Figures for tests that do not look at them: arranging and rendering takes most of the time of a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG

from stakes import plots as style

BLANK = '<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt" viewBox="0 0 1 1" version="1.1"></svg>\n'
_print_svg = FigureCanvasSVG.print_svg


@pytest.fixture(scope="module")
def unarranged_figures() -> Iterator[None]:
    """Figures of a module that are rendered as they are: nothing moves to make room for its neighbours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(style._SETTINGS, "figure.constrained_layout.use", False)
        yield


@pytest.fixture(scope="module")
def blank_figures() -> Iterator[None]:
    """Figures of a module that are made as always and come out as an empty page."""
    with figures_left_blank():
        yield


@pytest.fixture
def drawn_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of a test in a module of blank ones, rendered after all."""
    monkeypatch.setitem(style._SETTINGS, "figure.constrained_layout.use", False)
    monkeypatch.setattr(FigureCanvasSVG, "print_svg", _print_svg)


@contextmanager
def figures_left_blank() -> Iterator[None]:
    """The same within."""

    def print_blank(canvas: FigureCanvasSVG, file: TextIO, **options: Any) -> None:
        file.write(BLANK)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FigureCanvasSVG, "print_svg", print_blank)
        yield
