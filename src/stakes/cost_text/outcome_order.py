"""What a user should know of the order of outcomes: that a cost depends on it, and as what it is taken."""

import re
from collections.abc import Sequence
from itertools import pairwise

from stakes.cost_text.own_cost_file import OwnCost
from stakes.label_order import label_numbers, shortened
from stakes.method.costs import Cost
from stakes.method.program_actions import PartsCost, ProgramCost
from stakes.method.program_words import Program
from stakes.method.risk import plain_cost_of
from stakes.method.schedules import AllocationCost, ScheduleCost

__all__ = ["depends_on_order", "order_notes"]

_FROM_ONE_TO_THE_NEXT = re.compile(r"\b(change|so_far)\b")


def order_notes(cost: Cost, outcomes: Sequence[str]) -> list[str]:
    """A sentence about the order of outcomes where the cost may depend on it, and their numbers do not tell it.

    Args:
        cost: The cost.
        outcomes: The names of the outcomes, in their order.
    """
    if len(outcomes) < 2 or not depends_on_order(cost):
        return []
    numbers = label_numbers(outcomes)
    if numbers is None:
        return [f"the cost may depend on the order of outcomes, which is taken as given: {shortened(outcomes)}"]
    if all(before < after for before, after in pairwise(numbers)):
        return []
    return [
        "the cost may depend on the order of outcomes, which is taken as given, and is not that of their numbers: "
        + shortened(outcomes)
    ]


def depends_on_order(cost: Cost) -> bool:
    """Whether the action may be another one where outcomes come in another order; of a user's own code, that it may.

    Args:
        cost: The cost; only one about many parts can depend on it.
    """
    plain = plain_cost_of(cost.cost if isinstance(cost, OwnCost) else cost)
    if isinstance(plain, ScheduleCost):
        return plain.ramp is not None
    if isinstance(plain, Program):
        return any(_FROM_ONE_TO_THE_NEXT.search(words) for words in (*plain.limits.values(), *plain.covers.values()))
    return isinstance(plain, ProgramCost | PartsCost) and not isinstance(plain, AllocationCost)
