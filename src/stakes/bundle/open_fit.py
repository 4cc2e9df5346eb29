"""The folder of a fit, opened for a command or the service: the cost comes as words, the layout must be there."""

from pathlib import Path

from stakes.bundle.bundle import Bundle, load_bundle
from stakes.cost_text.written_cost import CostSpec
from stakes.data.layout import TableLayout
from stakes.errors import SettingError

__all__ = ["layout_of", "open_folder"]


def open_folder(folder: Path, cost: str | CostSpec | None) -> Bundle:
    """The fitted forecaster in the folder; its cost must be given again where it is a user's own.

    Args:
        folder: Where the fit was saved.
        cost: The cost in words, as in --cost, or as a record has it; None takes the one on record.
    """
    return load_bundle(folder, cost=None if cost is None else CostSpec.given(cost))


def layout_of(bundle: Bundle, folder: Path) -> TableLayout:
    """What the columns of its table are; a forecaster saved from Python may have none.

    Args:
        bundle: The fitted forecaster.
        folder: Where it was read from, for the message.
    """
    if bundle.layout is None:
        raise SettingError(f"{folder} was saved without the layout of its table; use its forecaster from Python")
    return bundle.layout
