"""The sentences of the report of a fit."""

import math

from stakes.cost_text.library_costs import ParameterValue
from stakes.cost_text.written_cost import CostSpec
from stakes.evaluation.calibration import calibration_sides, spread_skill
from stakes.evaluation.ladder import RungOnTest, rung_words
from stakes.evaluation.weight_frontier import LEAST_BLOCKS, too_few_to_choose
from stakes.method.parameter_range import ParameterRange
from stakes.number_text import amount_text, count_text, number_text
from stakes.reports.change_words import against_today, apart_words, between_words, doubt_words
from stakes.reports.judged_fit import JudgedFit
from stakes.reports.ladder_words import forecast_words, has_network
from stakes.reports.risk_sentences import risk_sentences

__all__ = ["calibration_sentences", "cost_words", "headroom_sentences", "quality_sentences", "seed_sentence"]
__all__ += ["today_sentence", "verdict", "weight_sentence"]


def cost_words(spec: CostSpec) -> str:
    """The name and the parameters of a cost.

    >>> cost_words(CostSpec.parse("newsvendor:underage=9,overage=1,upper=20"))
    'newsvendor (underage 9, overage 1, upper 20, lower 0)'

    Args:
        spec: The cost as it was written.
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
    """What was gained, in one plain sentence, and why that forecast was taken.

    Where a ladder was climbed that is what the forecast costs against its lowest rungs; otherwise, whether
    decision-aware training pays.

    Args:
        fit: The fit that is reported.
    """
    if fit.ladder is not None:
        return (_against_lowest_rungs(fit), fit.ladder.reason)
    said = "" if fit.frontier is None else fit.frontier.reason
    reason = (f"On the validation cases: {said[0].lower()}{said[1:]}",) if said else ()
    if not fit.weight:
        return (_kept_at_zero(fit), *reason)
    return (_judged(fit), *reason)


def _against_lowest_rungs(fit: JudgedFit) -> str:
    """What the forecast costs on the test cases, and what climatology and the linear forecast do."""
    assert fit.ladder is not None
    taken, who = fit.ladder.taken.name, forecast_words(fit.ladder)
    paid, cases = float(fit.taken.cost.mean()), count_text(fit.cases, "test case")
    costs = f"{amount_text(paid, fit.unit)} per case and {amount_text(paid * fit.cases, fit.unit)} in all"
    rivals = [rung for rung in fit.ladder.tested if rung.name in ("climatology", "linear") and rung.name != taken]
    compared = ", and ".join(_against(fit, rung) for rung in rivals)
    nothing = "Nothing was proven to be better than climatology: on" if taken == "climatology" else "On"
    return f"{nothing} the {cases} {who} costs {costs}{f': {compared}' if compared else ''}."


def _against(fit: JudgedFit, rung: RungOnTest) -> str:
    """What the forecast costs more or less than that of a rung, per case and in all.

    Climatology is the action that was best for all rows which the forecast was fitted to, as in the table of ways to
    decide; the rung knew fewer of them.
    """
    constant = fit.way("climatology") if rung.name == "climatology" else None
    change = fit.stated(rung.cost_change) if constant is None else fit.change(fit.taken, constant)
    than = rung_words(rung.name)
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
    """The decision weight that a ladder took against weight 0 on the test cases; nothing where it took none.

    Args:
        fit: The fit that is reported.
    """
    return () if fit.ladder is None or not fit.weight else (_judged(fit),)


def _judged(fit: JudgedFit) -> str:
    """The weight that was taken against weight 0 on the test cases."""
    change, cases = fit.change(fit.taken), count_text(fit.cases, "test case")
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
    """The forecast against today's action, where that is known.

    Args:
        fit: The fit that is reported.
    """
    return against_today(fit, "the forecast" if fit.weightless else f"the forecast at weight {fit.weight:g}")


def seed_sentence(fit: JudgedFit) -> tuple[str, ...]:
    """What the intervals leave out, where there are any and one model was trained.

    Args:
        fit: The fit that is reported.
    """
    if not fit.believed or fit.settings.get("ensemble", 1) != 1:
        return ()
    if fit.ladder is not None and not has_network(fit.ladder):
        return ()
    return (
        "The intervals cover the choice of test cases, not that of the training seed: trained once more with another "
        "seed, the forecast would cost somewhat more or less.",
    )


def headroom_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """What a policy trained on the cost alone says, where one was.

    Args:
        fit: The fit that is reported.
    """
    return () if fit.headroom is None else (f"Before decision-aware training: {fit.headroom.sentence}",)


def calibration_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """Whether the forecast knows what its decisions cost, and whether its members are spread as they should.

    Args:
        fit: The fit that is reported.
    """
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
    """What decisions that avert risk cost by themselves, of the forecast that was taken and of weight 0.

    Args:
        fit: The fit that is reported.
    """
    if "plain_cost" not in fit.study.forecasts:
        return ()
    paid, expected = (fit.values(name, fit.weight) for name in ("plain_cost", "plain_expected_cost"))
    rival = ("weight 0", fit.values("plain_cost", 0.0)) if fit.weight else None
    return risk_sentences(fit, paid, expected, rival)


def quality_sentences(fit: JudgedFit) -> tuple[str, ...]:
    """How many rows became cases, from when to when, and what looks odd.

    Args:
        fit: The fit that is reported.
    """
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
    taken, baseline = fit.pair(fit.taken, fit.ways[0])
    relative = abs(taken.relative_to(baseline).estimate)
    return (
        f", which is {number_text(relative, 3)} % of its cost"
        if baseline.interval().significant and math.isfinite(relative)
        else ""
    )


def _moment(text: str) -> str:
    return text.replace("T", " ").removesuffix(":00")
