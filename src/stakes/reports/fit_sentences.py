"""The sentences of the report of a fit, and first what the test cases say against a forecast."""

import math
from collections.abc import Iterator

import numpy as np

from stakes.actions.cvar import risk_of
from stakes.cost_spec.library import ParameterValue
from stakes.cost_spec.spec import CostSpec
from stakes.costs.parameter_range import ParameterRange
from stakes.evaluation.calibration import calibration_sides, spread_skill
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Sampled
from stakes.evaluation.selection import CANDIDATES, JudgedCandidate, TestedCandidate, candidate_words, too_few_to_choose
from stakes.reports.comparison import Floats, JudgedFit, PolicyComparison
from stakes.reports.selection_text import forecast_words, has_network
from stakes.text import amount_text, count_text, fixed_text, number_text, shared_decimals


def against_today(fit: PolicyComparison, forecast: str) -> tuple[str, ...]:
    """A sentence about the selected forecast against today's action, where that is known."""
    today = fit.way("today")
    if today is None:
        return ()
    known = count_text(int((today.cost == today.cost).sum()), "test case")
    change = fit.change(fit.selected, today)
    said = f"Against today's action, known in {known}, {forecast}"
    if not change.significant:
        return (f"{said} changes the cost by {between_words(change, fit.unit)} per case{doubt_words(change)}.",)
    less = "less" if change.mean < 0 else "more"
    return (f"{said} costs {apart_words(change, fit.unit)} {less} per case.",)


def apart_words(change: Difference, unit: str, of: str = "") -> str:
    """How far from zero, with what that is of, and the interval.

    >>> apart_words(Difference(-12.3, -16.2, -8.1), "EUR", " less per case")
    '12.3 EUR less per case (95 % interval 8.1 to 16.2)'
    """
    sizes = sorted(abs(value) for value in (change.low, change.high))
    decimals = shared_decimals(change)
    mean, low, high = (fixed_text(size, decimals) for size in (abs(change.mean), *sizes))
    return f"{mean}{f' {unit}' if unit else ''}{of} (95 % interval {low} to {high})"


def between_words(change: Difference, unit: str = "", signed: bool = True) -> str:
    """A change that may have either sign, with its interval where there is one.

    >>> between_words(Difference(-1.5, -4.0, 1.0), "EUR")
    '-1.50 EUR (95 % interval -4.00 to +1.00)'
    """
    decimals = shared_decimals(change)
    mean, low, high = (fixed_text(value, decimals, signed=signed) for value in change)
    interval = "" if math.isnan(change.low) else f" (95 % interval {low} to {high})"
    return f"{mean}{f' {unit}' if unit else ''}{interval}"


def cheaper_sentence(who: str, where: str, sides: tuple[Sampled, Sampled], unit: str, significant: bool) -> str:
    """The alarm that a simple way to decide would have been cheaper than the forecast."""
    costs = [side.estimate for side in sides]
    paid, less = (amount_text(cost, unit, beside=costs) for cost in costs)
    doubt = "" if significant else ", which may be chance"
    return (
        f"Take care: {who} would have been cheaper on {where} than those of the forecast, {less} per case against "
        f"{paid}{doubt}. Do not use the forecast for this decision before you know why."
    )


def doubt_words(change: Difference) -> str:
    """What is said of a change without an interval; nothing of others."""
    return ", too few test cases for an interval" if math.isnan(change.low) else ""


def risk_sentences(
    fit: PolicyComparison, paid: Floats, expected: Floats, rival: tuple[str, Floats] | None = None
) -> tuple[str, ...]:
    """What the cost of a report counts, and what the decisions cost by themselves; nothing where no risk is averted."""
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


_SERIOUS = 0.25  # of what the decisions cost more than perfect foresight: by so much it errs about its own cost
_TOO_GOOD, _TINY = 0.99, 0.05  # skill against climatology; error, as a share of the steps that outcomes take
_TOO_SURE = 0.8  # spread over error


def alarm_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """Why not to rely on the forecast, and what to do; nothing where the test cases raise no such doubt.

    Told are features that reproduce the outcome, a forecast that is too good to be true, one whose decisions cost
    beyond doubt more than it expects, by a quarter or more of what lies above perfect foresight, and one whose
    decisions were more expensive than those of a simpler candidate or than today's, beyond doubt, or than those of
    climatology, the linear forecast or one action for all cases.
    """
    return (*(fit.leaks or _too_good(fit)), *_ignorant(fit), *_beaten_by_candidate(fit), *_beaten(fit))


def _too_good(fit: JudgedFit) -> Iterator[str]:
    """A cost of almost perfect foresight, by errors far below the step that outcomes take from case to case."""
    climatology, foresight = fit.way("climatology"), fit.way("foresight")
    outcome = fit.of_cases("outcome")
    if climatology is None or foresight is None:
        return
    regret, rival = (float((way.cost - foresight.cost).mean()) for way in (fit.selected, climatology))
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
    regret = float((fit.selected.cost - foresight.cost).mean())
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


def _cheaper_candidate(fit: JudgedFit) -> TestedCandidate | None:
    """The cheapest of the simpler candidates that were cheaper: with a proof, or, for the two lowest, even without."""
    if fit.selection is None:
        return None
    place = CANDIDATES.index(fit.selection.selected.name)
    lower = [candidate for candidate in fit.selection.tested if CANDIDATES.index(candidate.name) < place]
    proven = [candidate for candidate in lower if fit.stated(candidate.cost_change).low > 0]
    simple = [
        candidate
        for candidate in lower
        if candidate.name in ("climatology", "linear") and candidate.cost_change.mean > 0
    ]
    return min(proven or simple, key=lambda candidate: candidate.cost, default=None)


def _beaten_by_candidate(fit: JudgedFit) -> Iterator[str]:
    if fit.selection is None or (candidate := _cheaper_candidate(fit)) is None:
        return
    tried = next(each for each in fit.selection.candidates if each.name == candidate.name)
    both = [candidate.cost, candidate.cost + candidate.cost_change.mean]
    less, paid = (amount_text(cost, fit.unit, beside=both) for cost in both)
    doubt = "beyond doubt" if fit.stated(candidate.cost_change).low > 0 else "which may be chance"
    yield (
        f"Take care: a simpler candidate, {forecast_words(fit.selection, tried)}, was cheaper on the test cases "
        f"than what was selected, {less} per case against {paid}, {doubt}. Validation cases said otherwise: something "
        f"may have changed between them and the test cases. {_advice(tried)}"
    )


def _advice(candidate: JudgedCandidate) -> str:
    """How to get the forecast of a candidate."""
    model = candidate.below if candidate.name == "recent_errors" else candidate.name
    if model == "climatology":
        return "Do not use the forecast for this decision before you know why."
    flags = ["--model linear"] if model == "linear" else []
    flags += [f"--score {candidate.parameters['score']}"] if candidate.name == "total_score" else []
    flags += ["--no-recent-errors"] if candidate.name in ("linear", "network") else []
    return f"`stakes fit` with {' '.join([*flags, '--decision-weight 0'])} fits that candidate, the safer choice."


def _beaten(fit: JudgedFit) -> Iterator[str]:
    """By simple ways to decide: today's with a proof, one action for all cases even without."""
    for short, who, proven in (("today", "today's actions", True), ("climatology", "one action for all cases", False)):
        if (way := fit.way(short)) is None:
            continue
        if short == "climatology" and _told_as_candidate(fit):
            continue
        change = fit.change(fit.selected, way)
        if change.mean > 0 and (change.significant or not proven):
            sides = fit.pair(fit.selected, way)
            yield cheaper_sentence(who, "the test cases", sides, fit.unit, change.significant)


def _told_as_candidate(fit: JudgedFit) -> bool:
    """Whether climatology was selected, or told of already."""
    candidate = _cheaper_candidate(fit)
    selected = fit.selection is not None and fit.selection.selected.name == "climatology"
    return selected or (candidate is not None and candidate.name == "climatology")


def cost_words(spec: CostSpec) -> str:
    """The name and the parameters of a cost.

    >>> cost_words(CostSpec.parse("newsvendor:underage=9,overage=1,upper=20"))
    'newsvendor (underage 9, overage 1, upper 20, lower 0)'
    """
    values = [f"{name} {_value_words(value)}" for name, value in spec.parameters.items()]
    return f"{spec.name} ({', '.join(values)})" if values else spec.name


def _value_words(value: ParameterValue) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_value_words, value))
    if isinstance(value, ParameterRange):
        return f"{number_text(value.low, 6)} to {number_text(value.high, 6)}"
    return value if isinstance(value, str) else number_text(value, 6)


def verdict(fit: JudgedFit) -> tuple[str, ...]:
    """What was gained, in one plain sentence, and why that forecast was selected.

    Where a selection was accepted that is what the forecast costs against its lowest candidates; otherwise, whether
    decision-aware training pays.
    """
    if fit.selection is not None:
        return (_against_lowest_candidates(fit), fit.selection.reason)
    said = "" if fit.frontier is None else fit.frontier.reason
    reason = (f"On the validation cases: {said[0].lower()}{said[1:]}",) if said else ()
    if not fit.weight:
        return (_kept_at_zero(fit), *reason)
    return (_judged(fit), *reason)


def _against_lowest_candidates(fit: JudgedFit) -> str:
    """What the forecast costs on the test cases, and what climatology and the linear forecast do."""
    assert fit.selection is not None
    selected, who = fit.selection.selected.name, forecast_words(fit.selection)
    paid, cases = float(fit.selected.cost.mean()), count_text(fit.cases, "test case")
    costs = f"{amount_text(paid, fit.unit)} per case and {amount_text(paid * fit.cases, fit.unit)} in all"
    rivals = [
        candidate
        for candidate in fit.selection.tested
        if candidate.name in ("climatology", "linear") and candidate.name != selected
    ]
    compared = ", and ".join(_against(fit, candidate) for candidate in rivals)
    nothing = "Nothing was proven to be better than climatology: on" if selected == "climatology" else "On"
    return f"{nothing} the {cases} {who} costs {costs}{f': {compared}' if compared else ''}."


def _against(fit: JudgedFit, candidate: TestedCandidate) -> str:
    """What the forecast costs more or less than that of a candidate, per case and in all.

    Climatology is the action that was best for all rows which the forecast was fitted to, as in the table of ways to
    decide; the candidate knew fewer of them.
    """
    constant = fit.way("climatology") if candidate.name == "climatology" else None
    change = fit.stated(candidate.cost_change) if constant is None else fit.change(fit.selected, constant)
    than = candidate_words(candidate.name)
    total = amount_text(abs(change.mean) * fit.cases, fit.unit)
    less = "less" if change.mean < 0 else "more"
    if change.significant:
        return f"{apart_words(change, fit.unit, f' {less} per case than {than}')}, {total} in all"
    doubt = doubt_words(change) or ", which may be chance"
    return f"{between_words(change, fit.unit)} per case against {than}{doubt}"


def _kept_at_zero(fit: JudgedFit) -> str:
    if fit.frontier is None:
        return (
            "Not tried: the forecast was trained on its score alone (weight 0 was given), so this report cannot say "
            "whether decision-aware training would pay."
        )
    if few := too_few_to_choose(fit.frontier.cases, fit.frontier.block):
        return f"Too early to tell: {few}, so the forecast is the one trained on its score alone (weight 0)."
    return (
        "No gain was shown: on the validation cases no decision weight made decisions cheaper beyond doubt without "
        "harming the score, so the forecast is the one trained on its score alone (weight 0)."
    )


def weight_sentence(fit: JudgedFit) -> tuple[str, ...]:
    """The decision weight that a selection took against weight 0 on the test cases; nothing where it took none."""
    return () if fit.selection is None or not fit.weight else (_judged(fit),)


def _judged(fit: JudgedFit) -> str:
    """The selected weight against weight 0 on the test cases."""
    change, cases = fit.change(fit.selected), count_text(fit.cases, "test case")
    how = "given" if fit.frontier is None else "chosen on validation cases"
    who = f"the decision-aware forecast (weight {fit.weight:g}, {how})"
    if not fit.believed:
        return (
            f"Too early to tell whether {who} pays: at least {LEAST_BLOCKS} blocks of {fit.study.block} test cases "
            f"are needed, and there are {fit.cases:,} cases; on these its cost differs from that of weight 0 by "
            f"{between_words(change, fit.unit)} per case."
        )
    if max(change.mean, change.high) < 0:
        total = amount_text(-change.mean * fit.cases, fit.unit)
        return (
            f"Yes: on the {cases} {who} costs {apart_words(change, fit.unit)} less per case than the one trained on "
            f"its score alone{_percent(fit)}; {total} in all."
        )
    if min(change.mean, change.low) > 0:
        return (
            f"No: on the {cases} {who} costs {apart_words(change, fit.unit)} more per case than the one trained on its "
            f"score alone{_percent(fit)}. Weight 0 is the safer choice."
        )
    return (
        f"Not confirmed: on the {cases} the cost of {who} differs from that of weight 0 by "
        f"{between_words(change, fit.unit)} per case. The interval holds zero, so do not count on a gain."
    )


def today_sentence(fit: JudgedFit) -> tuple[str, ...]:
    """The forecast against today's action, where that is known."""
    return against_today(fit, "the forecast" if fit.weightless else f"the forecast at weight {fit.weight:g}")


def seed_sentence(fit: JudgedFit) -> tuple[str, ...]:
    """What the intervals leave out, where there are any and one model was trained."""
    if not fit.believed or fit.settings.get("ensemble", 1) != 1:
        return ()
    if fit.selection is not None and not has_network(fit.selection):
        return ()
    return (
        "The intervals cover the choice of test cases, not that of the training seed: trained once more with another "
        "seed, the forecast would cost somewhat more or less.",
    )


def headroom_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """What a policy trained on the cost alone says, where one was."""
    return () if fit.headroom is None else (f"Before decision-aware training: {fit.headroom.sentence}",)


def calibration_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """Whether the forecast knows what its decisions cost, and whether its members are spread as they should."""
    sides = calibration_sides(fit.study, fit.weight)
    gap, ratio = fit.stated(sides.gap), fit.stated(spread_skill(fit.study, fit.weight))
    costs = [side.estimate for side in sides]
    predicted, realised = (amount_text(cost, fit.unit, beside=costs) for cost in costs)
    trust = "it knows what its decisions cost, as far as these cases tell"
    if math.isnan(gap.low):
        trust = "far the test cases are too few to tell whether that is chance"
    elif gap.significant:
        trust = f"its decisions turn out {'more expensive' if gap.mean < 0 else 'cheaper'} than it thinks"
    spread = "narrower than" if ratio.mean < 1 else "wider than"
    if math.isnan(ratio.low) or ratio.low <= 1 <= ratio.high:
        spread = "in keeping with"
    who = "The forecast" if fit.weightless else f"At weight {fit.weight:g} the forecast"
    return (
        f"{who} expects its decisions to cost {predicted} per case, and they cost "
        f"{realised}: a gap of {between_words(gap, fit.unit)}{doubt_words(gap)}. So {trust}.",
        f"The spread of its members is {spread} their error: their ratio is {between_words(ratio, signed=False)}, "
        "where 1 is right and less is too sure of itself.",
    )


def plain_cost_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """What decisions that avert risk cost by themselves, of the selected forecast and of weight 0."""
    if "plain_cost" not in fit.study.forecasts:
        return ()
    paid, expected = (fit.values(name, fit.weight) for name in ("plain_cost", "plain_expected_cost"))
    rival = ("weight 0", fit.values("plain_cost", 0.0)) if fit.weight else None
    return risk_sentences(fit, paid, expected, rival)


def quality_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """How many rows became cases, from when to when, and what looks odd."""
    quality = fit.quality
    if quality is None:
        return ()
    used = f"Of {count_text(quality.rows, 'row')} of the table, {count_text(quality.used, 'case')} were made"
    span = f", from {_moment(quality.first)} to {_moment(quality.last)}" if quality.first and quality.last else ""
    sentences = [f"{used}{span}. Rows with missing values are left out, never filled."]
    if quality.step_hours is not None:
        gaps = f"with {count_text(quality.gaps, 'gap')}" if quality.gaps else "without a gap"
        sentences.append(f"Rows are {quality.step_hours:g} hours apart, {gaps}.")
    if quality.unsorted:
        sentences.append(f"{count_text(quality.unsorted, 'row')} stood before an earlier time and were put in order.")
    if quality.constant:
        names = ", ".join(quality.constant)
        sentences.append(f"These columns never change and teach the forecast nothing: {names}.")
    return tuple(sentences)


def _percent(fit: JudgedFit) -> str:
    """The change in per cent of weight 0's cost, where that is not a cost near zero."""
    selected, baseline = fit.pair(fit.selected, fit.ways[0])
    relative = abs(selected.relative_to(baseline).estimate)
    return (
        f", which is {number_text(relative, 3)} % of its cost"
        if baseline.interval().significant and math.isfinite(relative)
        else ""
    )


def _moment(text: str) -> str:
    return text.replace("T", " ").removesuffix(":00")
