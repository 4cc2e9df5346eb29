"""What the commands read: the folder of a fit, and which cases there are."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from stakes.cost_text.written_cost import CostSpec
from stakes.data.layout import DataQuality, TableLayout
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.bundle import Bundle

__all__ = ["case_labels", "cost_again", "in_utc", "layout_of", "left_out"]
__all__ += ["open_folder"]


def open_folder(folder: Path, cost: str | None) -> "Bundle":
    """The fitted forecaster in the folder; its cost must be given again where it is a user's own."""
    from stakes.bundle import load_bundle  # not needed where there are members already

    return load_bundle(folder, cost=None if cost is None else CostSpec.parse(cost))


def cost_again(kept: CostSpec, given: str | None) -> CostSpec:
    """The cost on record; a user's own must be given again and be the same, and none may take its place."""
    if given is None:
        kept.build()  # which refuses a user's own, and says how it is given
        return kept
    spec = CostSpec.parse(given)
    spec = replace(spec, unit=spec.unit or kept.unit, action_unit=spec.action_unit or kept.action_unit)
    now, before = spec.record(), kept.record()
    if now == before:
        return spec
    if now | {"sha256": ""} == before | {"sha256": ""}:
        raise SettingError(f"the file of the cost {kept.name!r} has changed since the fit: its SHA-256 is another")
    example = f"PATH/{kept}" if kept.is_own else str(kept)
    raise SettingError(f"the cost must be that of the fit, as in --cost {example}, got {given!r}")


def layout_of(bundle: "Bundle", folder: Path) -> TableLayout:
    """What the columns of its table are; a forecaster saved from Python may have none."""
    if bundle.layout is None:
        raise SettingError(f"{folder} was saved without the layout of its table; use its forecaster from Python")
    return bundle.layout


def left_out(quality: DataQuality) -> tuple[str, ...]:
    """Sentences about rows that gave no case."""
    return tuple(f"{count} of {quality.rows} rows left out: {reason}" for reason, count in quality.left_out.items())


def case_labels(index: "pd.Index[Any]") -> "pd.Index[Any]":
    """Times and names as they are, rows counted from 1 as a reader of the file does."""
    return index + 1 if index.name == "row" else index


def in_utc(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its cases' times, in the first column where there are some, marked as UTC."""
    first = table.columns[0]
    if not pd.api.types.is_datetime64_dtype(table[first].dtype):
        return table
    return table.assign(**{first: table[first].dt.tz_localize("UTC")})
