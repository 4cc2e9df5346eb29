"""The order of labels that differ by a number, such as h0, h1, ... h23, which a sorted file has as h0, h1, h10, ..."""

import re
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["label_numbers", "number_order", "past_midnight", "shortened"]

_PLAIN = re.compile(r"[+-]?\d+(?:\.\d+)?")
_NUMBERS = re.compile(r"(\d+(?:\.\d+)?)")
_DAYS = (24, 48, 96)  # hours, halves and quarters of hours in a day
_IN_FULL = 8  # of a list; of longer ones the first three and the last are shown


def label_numbers(labels: Sequence[str]) -> list[float] | None:
    """The numbers of labels that differ by a number alone, each by another; None where they differ otherwise.

    >>> label_numbers(["h0", "h10", "h2"]), label_numbers(["-1", "0.5"]), label_numbers(["north", "west"])
    ([0.0, 10.0, 2.0], [-1.0, 0.5], None)

    Args:
        labels: The names of outcomes.
    """
    if all(_PLAIN.fullmatch(label) for label in labels):
        numbers = [float(label) for label in labels]
    else:
        split = [_NUMBERS.split(label) for label in labels]
        if len({tuple(parts[::2]) for parts in split}) != 1:
            return None
        places = zip(*([float(part) for part in parts[1::2]] for parts in split), strict=True)
        unlike = [list(place) for place in places if len(set(place)) > 1]
        if len(unlike) != 1:
            return None
        numbers = unlike[0]
    return numbers if len(set(numbers)) == len(numbers) > 1 else None


def number_order(labels: Sequence[str]) -> list[int] | None:
    """The places of labels in the order of their numbers; None where they have that order, or none by numbers.

    Hours that go on past midnight, such as 22, 23, 0, 1, are in their order.

    >>> number_order(["h0", "h10", "h2"]), number_order(["h22", "h23", "h0"]), number_order(["b", "a"])
    ([0, 2, 1], None, None)

    Args:
        labels: The names of outcomes, as a file has them.
    """
    numbers = label_numbers(labels)
    if numbers is None or past_midnight(numbers):
        return None
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return None if order == [*range(len(numbers))] else order


def past_midnight(numbers: Sequence[float]) -> bool:
    """Whether numbers count up in equal steps, but begin anew once, as the hours of a clock do at midnight.

    Args:
        numbers: The numbers of labels, in their order.
    """
    steps = [after - before for before, after in pairwise(numbers)]
    up, down = {step for step in steps if step > 0}, [step for step in steps if step < 0]
    return len(up) == len(down) == 1 and up.pop() - down[0] in _DAYS


def shortened(names: Sequence[str]) -> str:
    """The names with commas between them; of more than eight, the first three and the last.

    >>> shortened(["h0", "h1"]), shortened([f"h{hour}" for hour in range(24)])
    ('h0, h1', 'h0, h1, h2, ... h23')

    Args:
        names: Names as a message shows them.
    """
    return ", ".join(names if len(names) <= _IN_FULL else [*names[:3], f"... {names[-1]}"])
