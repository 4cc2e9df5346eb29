"""The section of a report that shows what its cost rewards."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.cost_text.written_cost import CostSpec
from stakes.errors import StakesError
from stakes.method.costs import Cost
from stakes.method.parameter_range import ranged_parameter, with_parameter
from stakes.number_text import number_text
from stakes.reports.cost_figure import cost_figure
from stakes.reports.page import Section

__all__ = ["cost_section"]

_ABOUT_COST = (
    "The cost c(a, y) is what is paid for action a when the outcome is y. Whether these curves are what you pay is "
    "worth a look: everything in this report follows from them.",
)


def cost_section(
    cost: Cost,
    outcomes: NDArray[np.float64],
    spec: CostSpec | None,
    settings: Mapping[str, Any],
    targets: Sequence[str] = (),
) -> Section:
    """What the cost is at some outcomes; why not, where it cannot be drawn; and which of its numbers goes to which.

    Args:
        cost: What a decision costs.
        outcomes: Some of the outcomes, (N, D).
        spec: The cost as it was written, with its units; None for one given in Python.
        settings: The settings of what is reported, which stand below the figure.
        targets: The names of the D outcomes; none where the report tells elsewhere what each of them costs.
    """
    title, units = "What the cost function rewards", ("", "") if spec is None else (spec.unit, spec.action_unit)
    about: tuple[str, ...] = _ABOUT_COST
    ranged = ranged_parameter(cost)
    if ranged is not None:
        middle = ranged.range.middle
        cost = with_parameter(cost, ranged.name, middle)
        about = (*about, f"They are drawn for {ranged.name} {number_text(middle, 3)}, the middle of its range.")
    try:
        figure = cost_figure(cost, outcomes, *units)
    except StakesError as error:
        return Section("cost", title, (f"The figure was left out: {error}.", *_by_outcome(cost, spec, targets)))
    return Section("cost", title, (*about, *_by_outcome(cost, spec, targets)), (replace(figure, settings=settings),))


def _by_outcome(cost: Cost, spec: CostSpec | None, targets: Sequence[str]) -> tuple[str, ...]:
    """What the user was told of the order of outcomes, and of numbers that each of them has."""
    return () if spec is None else tuple(spec.outcome_notes(cost, targets))
