"""Numbers as people read them, labels in the order of the numbers in them, and what docstrings say of fields."""

import math
import re
from collections.abc import Iterable, Sequence
from inspect import cleandoc
from itertools import pairwise

from stakes.errors import SettingError

MISSING = "–"
_PLAIN_DIGITS = 1e15  # above, and with more than _MOST_DECIMALS, a power of ten is easier to read
_MOST_DECIMALS = 9
_DECIMALS_FOR_SMALL = 6  # in a column, for numbers much smaller than its largest
_ZERO = 1e-12  # in any unit
_ZERO_BESIDE = 1e-6  # of the largest number that a number stands beside


def number_text(value: float, digits: int = 4, *, signed: bool = False) -> str:
    """A single number with a few digits, without zeros at its end.

    >>> number_text(0.123456), number_text(12345.6), number_text(0.0000123), number_text(1.61e-37)
    ('0.1235', '12,346', '0.0000123', '0')
    """
    shown = _without_noise(value)
    decimals, few = (_decimals_for(abs(shown), count) for count in (digits, 4))
    text = fixed_text(shown, decimals if _is_plain(shown, min(decimals, few)) else None, signed=signed)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def fixed_text(value: float, decimals: int | None, *, signed: bool = False) -> str:
    """A number with so many decimals.

    >>> fixed_text(12345.678, 1), fixed_text(-0.001, 2), fixed_text(0.25, 2, signed=True), fixed_text(1.2e-11, None)
    ('12,345.7', '0.00', '+0.25', '1.2e-11')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return ("+" if signed and value > 0 else "-" if value < 0 else "") + "∞"
    text = f"{_without_noise(value):z.3g}" if decimals is None else f"{value:z,.{decimals}f}"
    return f"+{text}" if signed and float(text.replace(",", "")) > 0 else text


def shared_decimals(values: Iterable[float], digits: int = 3) -> int | None:
    """So many decimals that the largest of some numbers has this many digits; None where that takes too many.

    >>> shared_decimals([0.5, -12.3]), shared_decimals([1e-5]), shared_decimals([1e-11])
    (1, 7, None)
    """
    largest = _without_noise(_largest(values))
    decimals = _decimals_for(largest, digits)
    return decimals if _is_plain(largest, decimals) else None


def amount_text(value: float, unit: str = "", *, beside: Iterable[float] = ()) -> str:
    """A measured amount of three digits or more, with its unit.

    >>> amount_text(12345.678, "EUR"), amount_text(-0.12), amount_text(2e-6, "EUR", beside=[12.5])
    ('12,346 EUR', '-0.120', '0 EUR')
    """
    shown = _without_noise(value, beside)
    return f"{fixed_text(shown, shared_decimals([shown]))} {unit}".rstrip()


def interval_text(mean: float, low: float, high: float, decimals: int | None = None) -> str:
    """A mean and its interval with the same number of decimals.

    >>> interval_text(-0.12, -0.2, -0.05), interval_text(-0.12, -0.2, 0.0, decimals=2)
    ('-0.120 [-0.200, -0.050]', '-0.12 [-0.20, 0.00]')
    """
    shared = shared_decimals([mean, low, high]) if decimals is None else decimals
    texts = [fixed_text(value, shared) for value in (mean, low, high)]
    return texts[0] if math.isnan(low) else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def signed_interval_text(change: tuple[float, float, float], digits: int = 3, *, beside: Iterable[float] = ()) -> str:
    """A change with its interval in a table, each with a sign and a few digits.

    >>> signed_interval_text((-2738.2, -3889.0, 0.0)), signed_interval_text((0.1234, 0.1, 0.15), digits=2)
    ('-2,738 [-3,889, 0]', '+0.12 [+0.1, +0.15]')
    >>> signed_interval_text((2e-9, -1e-9, 5e-9), beside=[12.5])
    '0 [0, 0]'
    """
    mean, low, high = _signed(change, digits, beside)
    return mean if math.isnan(change[1]) else f"{mean} [{low}, {high}]"


def change_text(change: tuple[float, float, float]) -> str:
    """A change with its 95 % interval, in a sentence.

    >>> change_text((-2738.2, -3889.0, -0.5))
    '-2,738, 95 % interval -3,889 to -0.5'
    """
    mean, low, high = _signed(change, 3)
    return (
        f"{mean}, too few cases for an interval" if math.isnan(change[1]) else f"{mean}, 95 % interval {low} to {high}"
    )


def count_text(count: int, what: str) -> str:
    """So many of something.

    >>> count_text(1200, "case"), count_text(1, "case")
    ('1,200 cases', '1 case')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def column_texts(values: Sequence[float]) -> list[str]:
    """The numbers of a column of a table, with the same number of decimals.

    The largest has four digits and the smallest two, less zeros that end all of them.

    >>> column_texts([12.5, 0.25]), column_texts([12345.6, 20.0, 1e-9])
    (['12.50', '0.25'], ['12,346', '20', '0'])
    """
    numbers = [_without_noise(value, values) for value in values]
    decimals = shared_decimals(numbers, digits=4)
    if decimals is None:
        return [fixed_text(value, None if value else 0) for value in numbers]
    sizes = [abs(value) for value in numbers if math.isfinite(value) and value]
    decimals = max(decimals, min(_decimals_for(min(sizes, default=1.0), 2), _DECIMALS_FOR_SMALL))
    fractions = [fixed_text(value, decimals).partition(".")[2] for value in numbers]
    decimals = max((len(fraction.rstrip("0")) for fraction in fractions), default=0)
    return [fixed_text(value, decimals) for value in numbers]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The ticks of an axis, with as many decimals as tell them apart.

    >>> tick_texts([-1e-17, 0.25, 0.5]), tick_texts([100000.0, 100002.5])
    (['0.00', '0.25', '0.50'], ['100,000.0', '100,002.5'])
    """
    step = min((right - left for left, right in pairwise(ticks)), default=_largest(ticks))
    numbers = [0.0 if abs(tick) < _ZERO_BESIDE * step else float(tick) for tick in ticks]
    enough = (
        decimals
        for decimals in range(_MOST_DECIMALS + 1)
        if all(abs(round(tick, decimals) - tick) <= step / 1000 for tick in numbers)
    )
    decimals = next(enough, None) if _largest(numbers) < _PLAIN_DIGITS else None
    return [fixed_text(tick, decimals) for tick in numbers]


def _signed(change: tuple[float, float, float], digits: int, beside: Iterable[float] = ()) -> list[str]:
    others = (*change, *beside)
    return [number_text(_without_noise(value, others), digits, signed=True) for value in change]


def _largest(values: Iterable[float]) -> float:
    """The largest size of what is finite."""
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0)


def _decimals_for(size: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(size))) if 0 < size < math.inf else 0


def _is_plain(size: float, decimals: int) -> bool:
    return abs(size) < _PLAIN_DIGITS and decimals <= _MOST_DECIMALS


def _without_noise(value: float, beside: Iterable[float] = ()) -> float:
    return 0.0 if abs(value) < max(_ZERO, _ZERO_BESIDE * _largest(beside)) else value


_PLAIN = re.compile(r"[+-]?\d+(?:\.\d+)?")
_NUMBERS = re.compile(r"(\d+(?:\.\d+)?)")
_DAYS = (24, 48, 96)  # hours, halves and quarters of hours in a day
_IN_FULL = 8  # of a list; of longer ones the first three and the last are shown


def label_numbers(labels: Sequence[str]) -> list[float] | None:
    """The numbers of labels that differ by a number alone, each by another; None where they differ otherwise.

    >>> label_numbers(["h0", "h10", "h2"]), label_numbers(["-1", "0.5"]), label_numbers(["north", "west"])
    ([0.0, 10.0, 2.0], [-1.0, 0.5], None)
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
    """
    numbers = label_numbers(labels)
    if numbers is None or past_midnight(numbers):
        return None
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return None if order == [*range(len(numbers))] else order


def past_midnight(numbers: Sequence[float]) -> bool:
    """Whether numbers count up in equal steps, but begin anew once, as the hours of a clock do at midnight."""
    steps = [after - before for before, after in pairwise(numbers)]
    up, down = {step for step in steps if step > 0}, [step for step in steps if step < 0]
    return len(up) == len(down) == 1 and up.pop() - down[0] in _DAYS


def shortened(names: Sequence[str]) -> str:
    """The names with commas between them; of more than eight, the first three and the last.

    >>> shortened(["h0", "h1"]), shortened([f"h{hour}" for hour in range(24)])
    ('h0, h1', 'h0, h1, h2, ... h23')
    """
    return ", ".join(names if len(names) <= _IN_FULL else [*names[:3], f"... {names[-1]}"])


_DURATION = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(min|h|d|w)?", re.IGNORECASE)
_HOURS_OF = {"min": 1 / 60, "h": 1.0, "d": 24.0, "w": 168.0}


def duration_hours(field: str, text: str, expected: str = "hours, or a duration such as 6d, 12h, 1w") -> float:
    """The hours that a duration such as 30min, 12h, 6d or 1w is; a plain number is of hours.

    >>> duration_hours("lead", "6d"), duration_hours("lead", "1w"), duration_hours("lead", "1.5")
    (144.0, 168.0, 1.5)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise SettingError(f"{field} must be {expected}, got {text!r}")
    return float(match[1]) * _HOURS_OF[(match[2] or "h").lower()]


def attribute_texts(kind: type) -> dict[str, str]:
    """The text of each field in the docstrings of a class and of what it inherits from."""
    texts: dict[str, str] = {}
    for base in kind.__mro__:
        _, _, attributes = cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for match in re.finditer(r"^    (\w+): (.*(?:\n {5,}.*)*)", attributes, re.MULTILINE):
            texts.setdefault(match[1], " ".join(match[2].split()))
    return texts
