"""What a user should know of a table of decisions: which are not certified, and plans that cannot be carried out."""

import numpy as np
import pandas as pd

from stakes.decisions import uncertified_notes
from stakes.method.costs import Cost
from stakes.method.risk import plain_cost_of
from stakes.method.storage import ArbitrageCost

__all__ = ["decision_notes"]

_TINY = 1e-3  # of the largest part of a plan: less is the solver's rounding


def decision_notes(cost: Cost, table: pd.DataFrame) -> tuple[str, ...]:
    """Sentences for the user about decisions; none where there is nothing to say.

    Args:
        cost: What was decided for.
        table: As `stakes.decisions.decision_table` makes it.
    """
    return *uncertified_notes(table), *_both_ways_notes(cost, table)


def _both_ways_notes(cost: Cost, table: pd.DataFrame) -> tuple[str, ...]:
    """A sentence where a battery charges and discharges at once."""
    if not isinstance(plain_cost_of(cost), ArbitrageCost):
        return ()
    charge, discharge = (table.filter(regex=f"^action_{way}_").to_numpy() for way in ("charge", "discharge"))
    most = np.maximum(charge, discharge).max(axis=1, keepdims=True)
    count = int((np.minimum(charge, discharge) > _TINY * most).any(axis=1).sum())
    if not count:
        return ()
    return (
        f"{count} of {len(table)} plans charge and discharge at once, which pays where prices are expected to be "
        "negative, costs nothing where nothing is lost, and is beyond a battery with one inverter: carry out the "
        "difference, and reckon with somewhat less than was expected",
    )
