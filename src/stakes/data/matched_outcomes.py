"""Which column belongs to which target, by their names: the outcome load_north to dayahead_north, and so on."""

from collections.abc import Sequence
from itertools import takewhile

from stakes.errors import TableError, listed, names_text
from stakes.label_order import label_numbers
from stakes.method.costs import Cost
from stakes.method.program_actions import part_names

__all__ = ["matched_actions", "matched_outcomes"]


def matched_outcomes(
    targets: Sequence[str], outcomes: Sequence[str], in_order: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The column of outcomes of each target, and what the user should know about it.

    Names match where what they do not share with all others of their kind is the same.

    >>> matched_outcomes(["ahead_west", "ahead_north"], ["load_north", "load_west"], in_order=False)
    (('load_west', 'load_north'), ())

    Args:
        targets: The names of the targets as the forecasts have them.
        outcomes: The names of the columns of outcomes.
        in_order: Whether the user has given the targets in an order, which tells where names do not.
    """
    if len(targets) != len(outcomes):
        raise TableError(
            f"there must be an outcome for each target of the forecasts, {names_text(targets)}, got {len(outcomes)}: "
            f"{names_text(outcomes)}"
        )
    if len(targets) == 1:
        return tuple(outcomes), ()
    if set(targets) == set(outcomes):
        return tuple(targets), ()
    if (by_name := _by_name(targets, outcomes)) is not None:
        return by_name, ()
    own, wanted = _own_parts(outcomes), _own_parts(targets)
    if set(own) & set(wanted) or not in_order:
        raise TableError(
            f"the outcomes {listed(outcomes)} must have the names of the forecasts' targets, {listed(targets)}, or "
            "names that differ from theirs in the same part alone; rename the columns, or give the targets an order "
            "with --sites"
        )
    pairs = listed([f"{outcome} of {target}" for target, outcome in zip(targets, outcomes, strict=True)])
    return tuple(outcomes), (f"names do not tell which outcome belongs to which forecast: taken in order, {pairs}",)


def matched_actions(cost: Cost, targets: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of an action in the order of its parts, where their names tell it, or as they are.

    Args:
        cost: The decision.
        targets: The names of the outcomes, in their order.
        columns: The names of the columns, one for each part.
    """
    parts = part_names(cost, targets, len(columns))
    by_name = _by_name(parts, columns) if len(parts) == len(columns) > 1 else None
    return tuple(columns) if by_name is None else by_name


def _by_name(targets: Sequence[str], columns: Sequence[str]) -> tuple[str, ...] | None:
    """The column of each target, by what they do not share with all others of their kind; None where that differs."""
    own_parts, wanted = _own_parts(columns), _own_parts(targets)
    numbers, wanted_numbers = label_numbers(columns), label_numbers(targets)
    if numbers is not None and wanted_numbers is not None:  # as of obs_00 and h0
        own_parts, wanted = ([str(number) for number in each] for each in (numbers, wanted_numbers))
    own = dict(zip(own_parts, columns, strict=True))
    if set(own) != set(wanted) or len(own) < len(columns):
        return None
    return tuple(own[part] for part in wanted)


def _own_parts(names: Sequence[str]) -> list[str]:
    """What is left of each name without the beginning and the end that all share, in small letters."""
    small = [name.casefold() for name in names]
    rest = [name[_shared(small) :] for name in small]
    end = _shared([name[::-1] for name in rest])
    return [name[: len(name) - end] for name in rest]


def _shared(names: Sequence[str]) -> int:
    """With how many letters all names begin alike."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return sum(1 for _ in alike)
