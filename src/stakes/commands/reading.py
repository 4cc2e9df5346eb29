"""What the commands read: the folder of a fit, and which cases there are."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from stakes.cost_specs import CostSpec
from stakes.costs import Cost
from stakes.data.layout import DataQuality, TableLayout
from stakes.errors import CostError, SettingError, StakesError
from stakes.own_costs import OwnCost

if TYPE_CHECKING:
    from stakes.bundle import Bundle

__all__ = ["blaming", "case_labels", "layout_of", "left_out", "open_folder"]


def open_folder(folder: Path, cost: str | None) -> "Bundle":
    """The fitted forecaster in the folder; its cost must be given again where it is a user's own."""
    from stakes.bundle import load_bundle  # not needed where there are members already

    return load_bundle(folder, cost=None if cost is None else CostSpec.parse(cost))


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


@contextmanager
def blaming(cost: Cost) -> Iterator[None]:
    """Whatever a user's own cost raises, in one sentence that names it."""
    try:
        yield
    except StakesError:
        raise
    except Exception as error:
        if not isinstance(cost, OwnCost):
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise CostError(f"the cost {cost.spec.name} fails: {said}") from error
