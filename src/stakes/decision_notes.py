"""What a user should know of a table of decisions: which have no proof or no action, and what cannot be carried out."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.cost_text.own_cost_file import OwnCost
from stakes.data.case_labels import told_labels
from stakes.decisions import uncertified_notes
from stakes.method.actions import solve_action
from stakes.method.costs import Cost
from stakes.method.risk import plain_cost_of
from stakes.method.storage import ArbitrageCost

__all__ = ["decision_notes"]

_CURE = "a recourse without an upper bound, at a high price, meets every outcome"
_TINY = 1e-3  # of the largest part of a plan: less is the solver's rounding


def decision_notes(
    cost: Cost, table: pd.DataFrame, members: ArrayLike, weights: ArrayLike | None = None
) -> tuple[str, ...]:
    """Sentences for the user about decisions; none where there is nothing to say.

    Args:
        cost: What was decided for.
        table: As `stakes.decisions.decision_table` makes it.
        members: The members (n, M, D) that were decided from.
        weights: What each member weighs, (M,) for all forecasts; None where all count alike.
    """
    return *uncertified_notes(table), *_infeasible_notes(cost, table, members, weights), *_both_ways_notes(cost, table)


def _infeasible_notes(
    cost: Cost, table: pd.DataFrame, members: ArrayLike, weights: ArrayLike | None
) -> tuple[str, ...]:
    """A sentence about the first case without any action."""
    if "status" not in table or not (infeasible := table["status"] == "infeasible").any():
        return ()
    first = int(infeasible.to_numpy().argmax())
    label = told_labels(pd.Index(table[table.columns[0]]))[first]
    return (f"the first infeasible case is {label}: {_infeasible_reason(cost, np.asarray(members)[first], weights)}",)


def _infeasible_reason(cost: Cost, members: NDArray[Any], weights: ArrayLike | None) -> str:
    """What the members (M, D) of a case say of it, each by itself: limits are the same for all, covers are not."""
    counts = np.ones(len(members), dtype=bool) if weights is None else np.asarray(weights) > 0
    alone = solve_action(plain_cost_of(cost), torch.tensor(members).double()[:, None]).infeasible
    assert alone is not None
    missed = int((alone.numpy() & counts).sum())
    if missed == counts.sum():
        return "no action meets the limits and covers at any of its members, even at one alone"
    if not missed:
        return f"an action meets the covers at each of its members, but none at all of them; {_CURE}"
    return f"no action meets the covers at {missed} of its {counts.sum()} members; {_CURE}"


def _both_ways_notes(cost: Cost, table: pd.DataFrame) -> tuple[str, ...]:
    """A sentence where a battery charges and discharges at once."""
    if not isinstance(plain_cost_of(cost.cost if isinstance(cost, OwnCost) else cost), ArbitrageCost):
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
