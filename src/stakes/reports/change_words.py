"""Changes with their intervals, in words."""

import math

from stakes.evaluation.intervals import Difference, Sampled
from stakes.number_text import amount_text, count_text, fixed_text, shared_decimals
from stakes.reports.judged_ways import JudgedWays

__all__ = ["against_today", "apart_words", "between_words", "cheaper_sentence", "doubt_words"]


def against_today(fit: JudgedWays, forecast: str) -> tuple[str, ...]:
    """A sentence about the forecast that was taken against today's action, where that is known.

    Args:
        fit: What is reported.
        forecast: What the forecast is called.
    """
    today = fit.way("today")
    if today is None:
        return ()
    known = count_text(int((today.cost == today.cost).sum()), "test case")
    change = fit.change(fit.taken, today)
    said = f"Against today's action, known in {known}, {forecast}"
    if not change.significant:
        return (f"{said} changes the cost by {between_words(change, fit.unit)} per case{doubt_words(change)}.",)
    less = "less" if change.mean < 0 else "more"
    return (f"{said} costs {apart_words(change, fit.unit)} {less} per case.",)


def apart_words(change: Difference, unit: str, of: str = "") -> str:
    """How far from zero, with what that is of, and the interval.

    >>> apart_words(Difference(-12.3, -16.2, -8.1), "EUR", " less per case")
    '12.3 EUR less per case (95 % interval 8.1 to 16.2)'

    Args:
        change: The change, with an interval that leaves out zero.
        unit: Its unit; empty where it has none.
        of: What stands between the change and its interval.
    """
    sizes = sorted(abs(value) for value in (change.low, change.high))
    decimals = shared_decimals(change)
    mean, low, high = (fixed_text(size, decimals) for size in (abs(change.mean), *sizes))
    return f"{mean}{f' {unit}' if unit else ''}{of} (95 % interval {low} to {high})"


def between_words(change: Difference, unit: str = "", signed: bool = True) -> str:
    """A change that may have either sign, with its interval where there is one.

    >>> between_words(Difference(-1.5, -4.0, 1.0), "EUR")
    '-1.50 EUR (95 % interval -4.00 to +1.00)'

    Args:
        change: The change.
        unit: Its unit; empty where it has none.
        signed: Whether positive numbers have a plus sign.
    """
    decimals = shared_decimals(change)
    mean, low, high = (fixed_text(value, decimals, signed=signed) for value in change)
    interval = "" if math.isnan(change.low) else f" (95 % interval {low} to {high})"
    return f"{mean}{f' {unit}' if unit else ''}{interval}"


def cheaper_sentence(who: str, where: str, sides: tuple[Sampled, Sampled], unit: str, significant: bool) -> str:
    """The alarm that a simple way to decide would have been cheaper than the forecast.

    Args:
        who: The actions of that way.
        where: The cases.
        sides: The mean costs of the forecast's actions and of those.
        unit: The unit of the cost; empty where it is not known.
        significant: Whether that can hardly be chance.
    """
    costs = [side.estimate for side in sides]
    paid, less = (amount_text(cost, unit, beside=costs) for cost in costs)
    doubt = "" if significant else ", which may be chance"
    return (
        f"Take care: {who} would have been cheaper on {where} than those of the forecast, {less} per case against "
        f"{paid}{doubt}. Do not use the forecast for this decision before you know why."
    )


def doubt_words(change: Difference) -> str:
    """What is said of a change without an interval; nothing of others.

    Args:
        change: The change.
    """
    return ", too few test cases for an interval" if math.isnan(change.low) else ""
