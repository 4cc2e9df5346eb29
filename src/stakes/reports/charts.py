"""Charts that readers can point at: what a drawing shows, once more as numbers, for pages whose scripts run.

`templates/charts.js` draws them; where it does not run, and on paper, the drawing stands in their place.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

__all__ = ["Chart", "ChartBand", "ChartLimit", "ChartLine"]


@dataclass(frozen=True)
class ChartLine:
    """Values from place to place.

    Attributes:
        name: What it is.
        look: CSS classes of `charts.css`, such as "orange dashed".
        values: The values, (K,); NaN where there is none.
        dots: Whether every value is marked.
    """

    name: str
    look: str
    values: ArrayLike
    dots: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "kind": self.look, "values": _numbers(self.values), "dots": self.dots}


@dataclass(frozen=True)
class ChartBand:
    """The space between two lines.

    Attributes:
        name: What it is.
        look: CSS classes of `charts.css`, such as "blue band".
        low: The lower line, (K,).
        high: The upper line, (K,).
    """

    name: str
    look: str
    low: ArrayLike
    high: ArrayLike

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "kind": self.look, "low": _numbers(self.low), "high": _numbers(self.high)}


@dataclass(frozen=True)
class ChartLimit:
    """A limit that binds a line of a chart.

    Attributes:
        parts: The places that it is about, counted from 0.
        text: What it is, and what it costs.
        line: Which line it binds, counted from 0.
    """

    parts: tuple[int, ...]
    text: str
    line: int = 0

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"parts": list(self.parts), "text": self.text, "line": self.line}


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        title: What stands above it.
        x: What runs to the right.
        places: Where the values are, (K,) in increasing order: numbers, times, or names.
        lines: Its lines.
        bands: Its bands, which lie behind the lines.
        limits: The limits that bind.
        steps: Whether a value holds from place to place, as in a schedule, or changes in between.
        group: Charts of one group share their pointer; empty for none.
    """

    title: str
    x: str
    places: Sequence[str] | pd.Index
    lines: tuple[ChartLine, ...]
    bands: tuple[ChartBand, ...] = ()
    limits: tuple[ChartLimit, ...] = ()
    steps: bool = False
    group: str = ""

    def plain(self) -> dict[str, Any]:
        """As `drawChart` of `charts.js` takes it."""
        shown = [line.name for line in self.lines] + [band.name for band in self.bands]
        return {
            "title": self.title,
            "label": f"{self.title}: {', '.join(shown)}",
            "x": self.x,
            **self._where(),
            "steps": self.steps,
            "lines": [line.plain() for line in self.lines],
            "bands": [band.plain() for band in self.bands],
            "limits": [limit.plain() for limit in self.limits],
            "together": self.group or None,
        }

    def _where(self) -> dict[str, Any]:
        if isinstance(self.places, pd.DatetimeIndex):
            seconds = self.places.to_numpy().astype("datetime64[s]").astype(np.int64)
            return {"xs": seconds.tolist(), "times": True}
        if isinstance(self.places, pd.Index):
            return {"xs": _numbers(self.places.to_numpy())}
        return {"xs": list(range(len(self.places))), "names": list(self.places)}


def _numbers(values: ArrayLike) -> list[float | None]:
    """With nine digits, which is more than is shown; null where there is no number."""
    numbers = np.asarray(values, np.float64).tolist()
    return [float(f"{number:.9g}") if math.isfinite(number) else None for number in numbers]
