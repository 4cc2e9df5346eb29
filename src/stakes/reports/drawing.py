"""Drawings as SVG, small enough to be read on a phone."""

import io
import warnings
from collections.abc import Callable
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing

from stakes.plots import WIDTH, plain_numbers, style

_METADATA = ("Creator", "Date", "Format", "Type")  # none of them


def to_svg(figure: Drawing) -> str:
    """The figure as SVG text, the same every time; its numbers plain."""
    for axes in figure.axes:
        plain_numbers(axes)
    text = io.StringIO()
    with style():
        FigureCanvasSVG(figure).print_svg(text, metadata=dict.fromkeys(_METADATA))  # `savefig` would draw it twice
    return text.getvalue()


def panel(draw: Callable[..., Any], *data: Any, rows: int = 1, height: float = 3.0, legend: int = 3) -> str:
    """A small drawing as SVG: `draw(*data, *axes)`, and below it a legend in so many columns."""
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # the reader's font has them
        figure = Drawing(figsize=(WIDTH, height))
        axes = figure.subplots(rows, 1, squeeze=False, sharex=rows > 1)[:, 0]
        draw(*data, *axes)
        entries: dict[str, Any] = {}
        for each in axes:
            for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        if legend and entries:
            look: dict[str, Any] = {"handlelength": 2.2, "columnspacing": 1.2}
            handles, labels = list(entries.values()), list(entries)
            figure.legend(handles, labels, loc="outside lower center", ncols=legend, **look)
        return to_svg(figure)
