"""Files of forecasts, and how they are read."""

from pathlib import Path
from typing import Any

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.forecasts.reading import read_members


def written(folder: Path, content: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def read(path: Path, seen: Path | None = None, *, cost: Any = None, **said: Any) -> ForecastSet:
    """The forecasts in a file, with the outcomes in another."""
    csv: Any = {name: said.pop(name) for name in ("separator", "encoding") if name in said}
    return read_members(ForecastLayout(own_file=True, **said), path, seen, cost=cost, **csv)
