"""What test cases say against a forecast, told before anything that speaks for it."""

from collections.abc import Iterator

from stakes.evaluation.calibration import calibration_sides, spread_skill
from stakes.evaluation.ladder import RUNGS, Rung, RungOnTest
from stakes.number_text import amount_text, count_text, number_text
from stakes.reports.judged_fit import JudgedFit, WayToDecide
from stakes.reports.ladder_words import forecast_words

__all__ = ["alarm_sentences"]

_SERIOUS = 0.25  # of what the decisions cost more than perfect foresight: by so much it errs about its own cost
_TOO_SURE = 0.8  # spread over error


def alarm_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """Why not to rely on the forecast, and what to do; nothing where the test cases raise no such doubt.

    Told are a forecast whose decisions cost beyond doubt more than it expects, by a quarter or more of what lies above
    perfect foresight, and one whose decisions were more expensive than those of a lower rung or than today's, beyond
    doubt, or than those of the linear forecast or one action for all cases.

    Args:
        fit: The fit that is reported.
    """
    return (*_ignorant(fit), *_beaten_by_rungs(fit), *_beaten(fit))


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
    sure = f" Its members are too close together: {number_text(ratio.mean, 2)} of their error." if narrow else ""
    yield (
        f"Take care: the forecast does not know what its decisions cost. On the {count_text(fit.cases, 'test case')} "
        f"it expected {expected} per case, and they cost {realised}.{sure} Reckon with the cost that was paid, not "
        "with the expected one. Newer rows, features that tell what has changed, or several models (--ensemble 4) may "
        "help."
    )


def _beaten_by_rungs(fit: JudgedFit) -> Iterator[str]:
    """By the lower rung that was cheapest: with a proof, or, for the linear forecast, even without."""
    if fit.ladder is None:
        return
    place = RUNGS.index(fit.ladder.taken.name)
    lower = [rung for rung in fit.ladder.tested if RUNGS.index(rung.name) < place]
    cheaper = [rung for rung in lower if fit.stated(rung.cost_change).low > 0 or _simple_and_cheaper(rung)]
    if not cheaper:
        return
    best = min(cheaper, key=lambda rung: (not fit.stated(rung.cost_change).low > 0, rung.cost))
    tried = next(rung for rung in fit.ladder.rungs if rung.name == best.name)
    paid = best.cost + best.cost_change.mean
    costs, others = (amount_text(cost, fit.unit, beside=[paid, best.cost]) for cost in (paid, best.cost))
    doubt = "beyond doubt" if fit.stated(best.cost_change).low > 0 else "which may be chance"
    yield (
        f"Take care: a lower rung of the ladder, {forecast_words(fit.ladder, tried).rstrip(',')}, was cheaper on the "
        f"test cases than what was taken, {others} per case against {costs}, {doubt}. Validation cases said otherwise: "
        f"something may have changed between them and the test cases. {_advice(tried)}"
    )


def _simple_and_cheaper(rung: RungOnTest) -> bool:
    return rung.name == "linear" and rung.cost_change.mean > 0


def _advice(rung: Rung) -> str:
    """How to get the forecast of a rung."""
    if rung.name == "climatology":
        return "Do not use the forecast for this decision before you know why."
    simple = "linear" in (rung.name, rung.below if rung.name == "fresh_errors" else None)
    flags = ["--model linear"] if simple else []
    flags += [f"--score {rung.parameters['score']}"] if rung.name == "total_score" else []
    flags += ["--no-fresh-errors"] if rung.name in ("linear", "network") else []
    return f"`stakes fit` with {' '.join([*flags, '--decision-weight 0'])} fits that rung, the safer choice."


def _beaten(fit: JudgedFit) -> Iterator[str]:
    """By simple ways to decide: today's with a proof, one action for all cases even without."""
    for short, who, proven in (("today", "today's actions", True), ("climatology", "one action for all cases", False)):
        if (way := fit.way(short)) is None:
            continue
        if short == "climatology" and fit.ladder is not None and fit.ladder.taken.name == "climatology":
            continue  # which is what it is
        change = fit.change(fit.taken, way)
        if change.mean > 0 and (change.significant or not proven):
            yield _cheaper(fit, way, who, change.significant)


def _cheaper(fit: JudgedFit, way: WayToDecide, who: str, significant: bool) -> str:
    ours, others = (sampled.estimate for sampled in fit.pair(fit.taken, way))
    paid, less = (amount_text(cost, fit.unit, beside=[ours, others]) for cost in (ours, others))
    doubt = "" if significant else ", which may be chance"
    return (
        f"Take care: {who} would have been cheaper on the test cases than those of the forecast, {less} per case "
        f"against {paid}{doubt}. Do not use the forecast for this decision before you know why."
    )
