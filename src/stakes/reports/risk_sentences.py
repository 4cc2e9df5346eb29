"""Decisions that avert risk: what a report calls their cost is a charge, so it says what they cost without it."""

from stakes.method.risk import risk_of
from stakes.number_text import amount_text, number_text
from stakes.reports.change_words import between_words, doubt_words
from stakes.reports.judged_ways import Floats, JudgedWays

__all__ = ["risk_sentences"]


def risk_sentences(
    fit: JudgedWays, paid: Floats, expected: Floats, rival: tuple[str, Floats] | None = None
) -> tuple[str, ...]:
    """What the cost of a report counts, and what the decisions cost by themselves; nothing where no risk is averted.

    Args:
        fit: What is reported.
        paid: What the decisions of the forecast that was taken cost without the aversion, (N,).
        expected: What was expected of that, (N,).
        rival: What the plain forecast is called, and what its decisions cost, (N,); None where it is the one taken.
    """
    if (risk := risk_of(fit.cost)) is None:
        return ()
    tail = f"the worst {number_text(100 * (1 - risk.level))} % of what the forecast holds to be possible"
    share = "" if risk.mix == 1 else f" with a weight of {risk.mix:g}, and the mean of all with the rest"
    costs = [float(paid.mean()), float(expected.mean())]
    told, hoped = (amount_text(cost, fit.unit, beside=costs) for cost in costs)
    gap = fit.mean_of(expected - paid)
    sentence = (
        f"All costs here are charges that avert risk: they count {tail}{share}, and what comes beyond it. By "
        f"themselves the decisions cost {told} per case, where {hoped} was expected: a gap of "
        f"{between_words(gap, fit.unit)}{doubt_words(gap)}."
    )
    if rival is None:
        return (sentence,)
    name, other = rival
    change = fit.mean_of(paid - other)
    return (
        sentence,
        f"Those of {name} cost {amount_text(float(other.mean()), fit.unit, beside=costs)} by themselves: the "
        f"difference is {between_words(change, fit.unit)}{doubt_words(change)}.",
    )
