"""What test cases say against a forecast, told before anything that speaks for it."""

from collections.abc import Iterator

import numpy as np

from stakes.evaluation.calibration import calibration_sides, spread_skill
from stakes.evaluation.ladder import RUNGS, Rung, RungOnTest
from stakes.number_text import amount_text, count_text, number_text
from stakes.reports.change_words import cheaper_sentence
from stakes.reports.judged_fit import JudgedFit
from stakes.reports.ladder_words import forecast_words

__all__ = ["alarm_sentences"]

_SERIOUS = 0.25  # of what the decisions cost more than perfect foresight: by so much it errs about its own cost
_TOO_GOOD, _TINY = 0.99, 0.05  # skill against climatology; error, as a share of the steps that outcomes take
_TOO_SURE = 0.8  # spread over error


def alarm_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """Why not to rely on the forecast, and what to do; nothing where the test cases raise no such doubt.

    Told are features that reproduce the outcome, a forecast that is too good to be true, one whose decisions cost
    beyond doubt more than it expects, by a quarter or more of what lies above perfect foresight, and one whose
    decisions were more expensive than those of a lower rung or than today's, beyond doubt, or than those of
    climatology, the linear forecast or one action for all cases.

    Args:
        fit: The fit that is reported.
    """
    return (*(fit.leaks or _too_good(fit)), *_ignorant(fit), *_beaten_by_rung(fit), *_beaten(fit))


def _too_good(fit: JudgedFit) -> Iterator[str]:
    """A cost of almost perfect foresight, by errors far below the step that outcomes take from case to case."""
    climatology, foresight = fit.way("climatology"), fit.way("foresight")
    outcome = fit.of_cases("outcome")
    if climatology is None or foresight is None:
        return
    regret, rival = (float((way.cost - foresight.cost).mean()) for way in (fit.taken, climatology))
    steps = np.abs(np.diff(outcome)) if outcome is not None else np.zeros(0)
    error = float(np.abs(fit.values("error", fit.weight)).mean())
    smooth = steps.any() and error > _TINY * float(steps[steps > 0].mean())
    if rival > 0 and regret < (1 - _TOO_GOOD) * rival and not smooth:
        yield (
            f"Take care: the forecast is too good to be true: it saves {100 * (1 - regret / rival):.2f} % of what "
            "perfect foresight would save against one action for all cases. Its features may hold the outcome of the "
            "target time; if all of them are known when the forecast is made, it is as good as it looks."
        )


def _ignorant(fit: JudgedFit) -> Iterator[str]:
    sides = calibration_sides(fit.study, fit.weight)
    gap = fit.stated(sides.gap)
    foresight = fit.way("foresight")
    assert foresight is not None
    regret = float((fit.taken.cost - foresight.cost).mean())
    if not (gap.high < 0 and -gap.mean >= _SERIOUS * regret):
        return
    costs = [side.estimate for side in sides]
    expected, realised = (amount_text(cost, fit.unit, beside=costs) for cost in costs)
    ratio = fit.stated(spread_skill(fit.study, fit.weight))
    narrow = ratio.high < 1 and ratio.mean < _TOO_SURE
    sure = f" The ensemble is under-dispersed (spread/error {number_text(ratio.mean, 2)})." if narrow else ""
    several = ", or several models (--ensemble 4)," if fit.settings.get("ensemble", 1) == 1 else ""
    yield (
        "Take care: the forecast underestimates the cost of its decisions. On the "
        f"{count_text(fit.cases, 'test case')} it expected {expected} per case, and they cost {realised}.{sure} "
        f"Budget for the cost that was paid, not the expected one. Newer rows or features that tell what has changed"
        f"{several} may help."
    )


def _cheaper_rung(fit: JudgedFit) -> RungOnTest | None:
    """The cheapest of the lower rungs that were cheaper: with a proof, or, for the two lowest, even without."""
    if fit.ladder is None:
        return None
    place = RUNGS.index(fit.ladder.taken.name)
    lower = [rung for rung in fit.ladder.tested if RUNGS.index(rung.name) < place]
    proven = [rung for rung in lower if fit.stated(rung.cost_change).low > 0]
    simple = [rung for rung in lower if rung.name in ("climatology", "linear") and rung.cost_change.mean > 0]
    return min(proven or simple, key=lambda rung: rung.cost, default=None)


def _beaten_by_rung(fit: JudgedFit) -> Iterator[str]:
    if fit.ladder is None or (rung := _cheaper_rung(fit)) is None:
        return
    tried = next(each for each in fit.ladder.rungs if each.name == rung.name)
    both = [rung.cost, rung.cost + rung.cost_change.mean]
    less, paid = (amount_text(cost, fit.unit, beside=both) for cost in both)
    doubt = "beyond doubt" if fit.stated(rung.cost_change).low > 0 else "which may be chance"
    yield (
        f"Take care: a lower rung of the ladder, {forecast_words(fit.ladder, tried)}, was cheaper on the test cases "
        f"than what was taken, {less} per case against {paid}, {doubt}. Validation cases said otherwise: something may "
        f"have changed between them and the test cases. {_advice(tried)}"
    )


def _advice(rung: Rung) -> str:
    """How to get the forecast of a rung."""
    model = rung.below if rung.name == "fresh_errors" else rung.name
    if model == "climatology":
        return "Do not use the forecast for this decision before you know why."
    flags = ["--model linear"] if model == "linear" else []
    flags += [f"--score {rung.parameters['score']}"] if rung.name == "total_score" else []
    flags += ["--no-fresh-errors"] if rung.name in ("linear", "network") else []
    return f"`stakes fit` with {' '.join([*flags, '--decision-weight 0'])} fits that rung, the safer choice."


def _beaten(fit: JudgedFit) -> Iterator[str]:
    """By simple ways to decide: today's with a proof, one action for all cases even without."""
    for short, who, proven in (("today", "today's actions", True), ("climatology", "one action for all cases", False)):
        if (way := fit.way(short)) is None:
            continue
        if short == "climatology" and _told_as_rung(fit):
            continue
        change = fit.change(fit.taken, way)
        if change.mean > 0 and (change.significant or not proven):
            sides = fit.pair(fit.taken, way)
            yield cheaper_sentence(who, "the test cases", sides, fit.unit, change.significant)


def _told_as_rung(fit: JudgedFit) -> bool:
    """Whether climatology is what was taken, or told of already."""
    rung = _cheaper_rung(fit)
    taken = fit.ladder is not None and fit.ladder.taken.name == "climatology"
    return taken or (rung is not None and rung.name == "climatology")
