"""The sentences of the report of a recalibration: what it was worth, and first what speaks against it."""

import math
from collections.abc import Iterator

import numpy as np

from stakes.evaluation.intervals import Difference
from stakes.evaluation.ladder import Ladder, RungOnTest
from stakes.number_text import amount_text, count_text, fixed_text, number_text, shared_decimals
from stakes.reports.change_words import against_today, apart_words, between_words, doubt_words
from stakes.reports.judged_recalibration import JudgedRecalibration
from stakes.reports.judged_ways import WayToDecide
from stakes.reports.ladder_words import correction_words
from stakes.reports.risk_sentences import risk_sentences

__all__ = ["recalibration_alarms", "reliability_sentences", "spread_and_error_ratio", "summary_sentences"]
__all__ += ["taken_sentences", "worth_sentence"]

_SERIOUS = 0.25  # of what the decisions cost more than perfect foresight: by so much it errs about its own cost
_TOO_SURE = 0.8  # spread over error


def summary_sentences(fit: JudgedRecalibration) -> tuple[str, ...]:
    """What speaks against the correction, what it was worth, and how that compares with today's action.

    Args:
        fit: The recalibration that is reported.
    """
    today = against_today(fit, fit.who_saves[0])
    return (*recalibration_alarms(fit), worth_sentence(fit), *_plain_cost_sentences(fit), *today)


def _plain_cost_sentences(fit: JudgedRecalibration) -> tuple[str, ...]:
    """What decisions that avert risk cost by themselves, corrected and raw."""
    if "raw_plain_cost" not in fit.judged.cases:
        return ()
    paid, expected = (fit.judged.values(name, fit.version) for name in ("plain_cost", "plain_expected_cost"))
    rival = ("the raw forecast", fit.judged.values("plain_cost", "raw")) if fit.has_left_plain else None
    return risk_sentences(fit, paid, expected, rival)


def worth_sentence(fit: JudgedRecalibration) -> str:
    """What following the raw forecast cost, what the corrected one costs, and the difference, in a sentence.

    Args:
        fit: The recalibration that is reported.
    """
    cases = count_text(fit.cases, "test case")
    raw, ours = (float(way.cost.mean()) for way in (fit.ways[0], fit.taken))
    paid, now = (amount_text(cost, fit.unit, beside=[raw, ours]) for cost in (raw, ours))
    if not fit.has_left_plain:
        return (
            f"Nothing was proven to be better than the raw forecast: on the {cases} following it cost {paid} "
            f"per case{_in_a_year(fit, raw)}."
        )
    return (
        f"On the {cases} following the raw forecast cost {paid} per case; {correction_words(fit.ladder)}, it costs "
        f"{now}: {_difference(fit, fit.change(fit.taken))}."
    )


def _difference(fit: JudgedRecalibration, change: Difference) -> str:
    """Per case and per year, with its interval, and whether that can be counted on."""
    yearly = fit.yearly
    if change.significant:
        less = "less" if change.mean < 0 else "more"
        words = apart_words(change, fit.unit, f" {less} per case")
        return words if yearly is None else f"{words}, {_yearly_sizes(fit, change, yearly.cases)}{_at(fit)}"
    words = f"{between_words(change, fit.unit)} per case{doubt_words(change)}"
    if yearly is not None:
        each_year = Difference(*(_rough(yearly.cases * value) for value in change))
        words += f", {between_words(each_year, fit.unit)} a year{_at(fit)}"
    doubt = "" if math.isnan(change.low) else ". The interval holds zero, so do not count on a gain"
    return f"a change of {words}{doubt}"


def _yearly_sizes(fit: JudgedRecalibration, change: Difference, count: float) -> str:
    mean, *ends = (_rough(count * abs(value)) for value in change)
    decimals = shared_decimals([mean, *ends])
    shown, low, high = (fixed_text(value, decimals) for value in (mean, *sorted(ends)))
    return f"{shown}{f' {fit.unit}' if fit.unit else ''} ({low} to {high}) a year"


def _in_a_year(fit: JudgedRecalibration, cost: float) -> str:
    yearly = fit.yearly
    return "" if yearly is None else f", {amount_text(_rough(yearly.cases * cost), fit.unit)} a year{_at(fit)}"


def _rough(value: float) -> float:
    """To three digits: more of a year that is reckoned from some of its cases would mean nothing."""
    return float(f"{value:.3g}")


def _at(fit: JudgedRecalibration) -> str:
    """At how many cases a year."""
    yearly = fit.yearly
    assert yearly is not None
    alike = "" if yearly.whole else ", were all of the year like them"
    return f" at {number_text(yearly.cases, 3)} cases a year{alike}"


def taken_sentences(ladder: Ladder) -> tuple[str, ...]:
    """Which rung was taken and why, and what has to be done for newer errors to be seen, where these count more.

    Args:
        ladder: The rungs that were tried.
    """
    if not any(rung.name == "fresh_errors" and rung.climbed for rung in ladder.rungs):
        return (ladder.reason,)
    return (
        ladder.reason,
        "Newer errors count more, but the correction knows none after the past cases: `stakes refit` with a longer "
        "table lets it see them.",
    )


def recalibration_alarms(fit: JudgedRecalibration) -> tuple[str, ...]:
    """Why not to rely on the correction, and what to do; nothing where the test cases raise no such doubt.

    Told are a corrected forecast that was more expensive than the one that came, even if that may be chance, or beyond
    doubt than a lower rung or today's actions, and one whose decisions cost beyond doubt more than it expects, by a
    quarter or more of what lies above perfect foresight.

    Args:
        fit: The recalibration that is reported.
    """
    return (*_dearer(fit), *_ignorant(fit))


def _dearer(fit: JudgedRecalibration) -> Iterator[str]:
    if fit.has_left_plain and (change := fit.change(fit.taken)).mean > 0:
        doubt = "beyond doubt" if change.significant else "which may be chance"
        yield (
            f"Take care: the raw forecast was cheaper on the test cases than the corrected one, "
            f"{_costs(fit, fit.ways[0])}, {doubt}. {_on_past_cases(fit, fit.ladder.rungs[0].cost)} Follow the raw "
            "forecast before you know more."
        )
    elif (rung := _cheaper_rung(fit)) is not None:
        paid = rung.cost + rung.cost_change.mean
        less, more = (amount_text(cost, fit.unit, beside=[rung.cost, paid]) for cost in (rung.cost, paid))
        past = next(each.cost for each in fit.ladder.rungs if each.name == rung.name)
        yield (
            f"Take care: a lower rung of the ladder, {fit.ladder.words(rung.name)}, was cheaper on the test cases than "
            f"what was taken, {less} per case against {more}, beyond doubt. {_on_past_cases(fit, past)}"
        )
    today = fit.way("today")
    if today is not None and fit.change(fit.taken, today).low > 0:
        yield (
            f"Take care: today's actions were cheaper on the test cases than those of the forecast, "
            f"{_costs(fit, today)}, beyond doubt. Do not change how you decide before you know why."
        )


def _on_past_cases(fit: JudgedRecalibration, cost: float | None) -> str:
    """What past cases said of something that cost so much there and was cheaper on the test cases."""
    taken = fit.ladder.taken.cost
    if cost is not None and taken is not None and cost <= taken:
        return "It was so on past cases, too: what was taken has the better score, at hardly more cost there."
    return "Past cases said otherwise: something may have changed."


def _costs(fit: JudgedRecalibration, way: WayToDecide) -> str:
    """What a way costs, and what the forecast that was taken does."""
    ours, others = (sampled.estimate for sampled in fit.pair(fit.taken, way))
    paid, less = (amount_text(cost, fit.unit, beside=[ours, others]) for cost in (ours, others))
    return f"{less} per case against {paid}"


def _cheaper_rung(fit: JudgedRecalibration) -> RungOnTest | None:
    """The cheapest of the lower rungs that were cheaper beyond doubt."""
    names = [rung.name for rung in fit.ladder.rungs]
    place = names.index(fit.ladder.taken.name)
    lower = [rung for rung in fit.ladder.tested if names.index(rung.name) < place]
    proven = [rung for rung in lower if fit.stated(rung.cost_change).low > 0]
    return min(proven, key=lambda rung: rung.cost, default=None)


def _ignorant(fit: JudgedRecalibration) -> Iterator[str]:
    expected, foresight = fit.judged.values("expected_cost", fit.version), fit.judged.values("foresight_cost")
    gap, regret = fit.mean_of(expected - fit.taken.cost), float((fit.taken.cost - foresight).mean())
    if not (gap.high < 0 and -gap.mean >= _SERIOUS * regret):
        return
    costs = [float(expected.mean()), float(fit.taken.cost.mean())]
    hoped, paid = (amount_text(cost, fit.unit, beside=costs) for cost in costs)
    ratio = spread_and_error_ratio(fit, fit.version)
    narrow = f" The ensemble is under-dispersed (spread/error {number_text(ratio.mean, 2)})."
    yield (
        "Take care: the forecast underestimates the cost of its decisions. On the "
        f"{count_text(fit.cases, 'test case')} it expected {hoped} per case, and they cost {paid}."
        f"{narrow if ratio.high < 1 and ratio.mean < _TOO_SURE else ''} Budget for the cost that was paid, not the "
        "expected one. More, or newer, past forecasts may help."
    )


def reliability_sentences(fit: JudgedRecalibration) -> tuple[str, ...]:
    """Whether the forecast knows what its decisions cost, and how spread and error compare, before and after.

    Args:
        fit: The recalibration that is reported.
    """
    expected = fit.judged.values("expected_cost", fit.version)
    gap = fit.mean_of(expected - fit.taken.cost)
    costs = [float(expected.mean()), float(fit.taken.cost.mean())]
    hoped, paid = (amount_text(cost, fit.unit, beside=costs) for cost in costs)
    errors = [float(fit.judged.values("error", version).mean()) for version in fit.versions]
    bias = [f"{number_text(abs(error), 3)} too {'low' if error < 0 else 'high'}" for error in errors]
    return (
        f"The mean of the raw forecast lay {bias[0]}{f', corrected {bias[1]}' if fit.has_left_plain else ''}.",
        f"{'Corrected, the' if fit.has_left_plain else 'The'} forecast expects its decisions to cost {hoped} per case, "
        f"and they cost {paid}: a gap of {between_words(gap, fit.unit)}{doubt_words(gap)}.",
        *_ratio_sentence(fit),
    )


def _ratio_sentence(fit: JudgedRecalibration) -> tuple[str, ...]:
    told = [version for version in fit.versions if version == "corrected" or fit.form != "points"]
    if not told:
        return ("A point forecast has no spread: it does not know how unsure it is.",)
    ratios = [between_words(spread_and_error_ratio(fit, version), signed=False) for version in told]
    before = "A point forecast has no spread as it comes; corrected it" if fit.form == "points" else "The spread"
    after = f", and corrected {ratios[1]}" if len(ratios) > 1 else ""
    return (f"{before} is {ratios[0]} of the error{after}, where 1 is right and less is too sure of itself.",)


def spread_and_error_ratio(fit: JudgedRecalibration, version: str) -> Difference:
    """The root mean square of the spread over that of the error: 1 where the spread is right.

    Args:
        fit: The recalibration that is reported.
        version: Of the raw forecast or of the corrected one.
    """
    spread, error = (fit.judged.cases[f"{version}_{name}"].to_numpy() for name in ("spread", "error"))
    squares = fit.resampling.means([(values**2)[None, None] for values in (spread, error)])
    return fit.stated((squares[0] / squares[1]).applied(np.sqrt))
