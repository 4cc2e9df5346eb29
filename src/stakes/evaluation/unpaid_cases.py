"""Cases of a program whose cost is infinite, since no recourse meets its covers: which they are, and what is told."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.errors import CostError
from stakes.method.costs import Cost
from stakes.method.program_actions import ProgramCost
from stakes.method.risk import plain_cost_of

__all__ = ["constant_cost", "constant_notes", "hindsight_note", "judged_cases", "unpaid_notes", "unpaid_today_notes"]

_CURE = "a recourse without an upper bound, at a high price, gives such outcomes a cost"
_PLAIN = ("plain_cost", "plain_expected_cost")  # of a cost averse to risk, whose charge may be NaN then


def judged_cases(cost: Cost, metrics: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Which cases can be judged, (N,): all but those in which a program has no recourse.

    Raises where there is no such case. NaN, and an infinite cost that is no program's, are left for others to refuse.

    Args:
        cost: What a decision costs.
        metrics: As `stakes.evaluation.metrics.Assessor` gives them.
    """
    costs = [metrics[name] for name in ("cost", "expected_cost", *_PLAIN) if name in metrics]
    infinite = np.asarray(np.isposinf(np.stack(costs)).any(axis=0) & isinstance(plain_cost_of(cost), ProgramCost))
    if infinite.all() and len(infinite):
        raise CostError(
            f"the cost must be finite in a case at least, got infinity in all {len(infinite)}: no recourse meets the "
            f"covers at their outcomes, or at one of their members; {_CURE}"
        )
    return ~infinite


def constant_cost(paid: NDArray[Any]) -> NDArray[Any]:
    """What one action for all cases costs, (N,): infinite in all where it is in one, or the mean would be of some.

    Args:
        paid: What it costs in each case, (N,).
    """
    return paid if np.isfinite(paid).all() else np.full_like(paid, np.inf)


def constant_notes(paid: NDArray[Any]) -> tuple[str, ...]:
    """A sentence where no action serves all cases.

    Args:
        paid: As `constant_cost` gives it.
    """
    infinite = "climatology_cost is infinite, and left empty: no constant action has a finite cost at all outcomes"
    return (infinite,) if np.isposinf(paid).any() else ()


def hindsight_note(each_site: bool) -> str:
    """What climatology's action is where there are no cases but those that are judged.

    Args:
        each_site: Whether each site is decided by itself.
    """
    of_site = " of each site" if each_site else ""
    return f"climatology_cost is that of the constant action{of_site} which was best for these very outcomes"


def unpaid_notes(unpaid: Sequence[str], judged: int) -> tuple[str, ...]:
    """A sentence about cases that are not judged, since their cost is infinite; none where there are none.

    Args:
        unpaid: What these cases are called.
        judged: How many others there are, which the means are of.
    """
    if not unpaid:
        return ()
    which = unpaid[0] if len(unpaid) == 1 else f"{unpaid[0]} the first of them"
    return (
        f"{len(unpaid)} of {len(unpaid) + judged} cases cost infinitely much ({which}): no recourse meets the covers "
        f"at their outcome, or at one of their members; every mean is that of the {judged} others, and {_CURE}",
    )


def unpaid_today_notes(paid: NDArray[np.float64] | None) -> tuple[str, ...]:
    """A sentence about cases in which today's action costs infinitely much, and is not compared.

    Args:
        paid: What today's action costs in each case, (N,), NaN where it is not known; None where it never is.
    """
    count = 0 if paid is None else int(np.isposinf(paid).sum())
    if paid is None or not count:
        return ()
    return (
        f"today's action costs infinitely much in {count} of {len(paid)} cases, where no recourse helps it, and is "
        "compared in the others",
    )
