"""The sentences of a report: the headline, warnings, and what its sections say."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stakes.cost_spec.spec import CostSpec, ParameterValue
from stakes.costs.cost import risk_of
from stakes.costs.parameter_range import ParameterRange
from stakes.data.tables.layout import DataQuality
from stakes.evaluation.case_metrics import LimitWorth
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling
from stakes.evaluation.selection import (
    CandidateOnTest,
    JudgedCandidate,
    ModelSelection,
    candidate_words,
    too_few_to_choose,
)
from stakes.reports.comparison import Comparison, Policy
from stakes.text import amount_text, count_text, fixed_text, number_text, shared_decimals

Floats = NDArray[np.float64]

_SERIOUS = 0.25  # of what the decisions cost more than perfect foresight: by so much it errs about its own cost
_TOO_GOOD, _TINY = 0.99, 0.05  # skill against climatology; error, as a share of the steps that outcomes take
_TOO_SURE = 0.8  # spread over error
_ROUNDING = 1e-9  # of the cost
_NO_INTERVAL = "too few cases for an interval"


class Rival(NamedTuple):
    """What the selected forecast is compared with."""

    name: str
    cost: float  # what it costs per case
    change: Difference  # what the selected forecast costs less that
    known: str = ""  # in how many cases it is known, where these are not all

    @property
    def words(self) -> str:
        """Its name, and in how many cases it is known."""
        return f"{self.name}{self.known}"


def rivals(comparison: Comparison) -> list[Rival]:
    """Climatology, the linear forecast, the reference and today's action, where they are known and not selected.

    Of a recalibration the reference, the raw forecast, comes first.
    """
    climatology = comparison.selected.name == "climatology"
    found = [] if climatology else _rival(comparison, comparison.policy("climatology"))
    selection = comparison.selection
    if selection is not None and not selection.corrects and selection.selected.name != "linear":
        linear = [each for each in selection.tested if each.name == "linear"]
        found += [Rival(candidate_words("linear"), each.cost, comparison.stated(each.cost_change)) for each in linear]
    if comparison.left_reference:
        reference = _rival(comparison, comparison.reference)
        found = [*reference, *found] if comparison.kind == "recalibration" else [*found, *reference]
    return [*found, *_rival(comparison, comparison.policy("today"))]


def _rival(comparison: Comparison, policy: Policy | None) -> list[Rival]:
    if policy is None:
        return []
    known = "" if policy.known.all() else f" (known in {count_text(int(policy.known.sum()), 'case')})"
    paid, change = float(policy.cost[policy.known].mean()), comparison.change(comparison.selected, policy)
    return [Rival(policy.name, paid, change, known)]


def headline(comparison: Comparison) -> str:
    """What to do, and what that saves against the rivals."""
    selection = comparison.selection
    alone = selection is not None and selection.selected is selection.candidates[0]
    every = [*rivals(comparison), *_simpler_rival(comparison)]
    return advice(comparison.selected.name, every, comparison.unit, alone)


def advice(who: str, every: Sequence[Rival], unit: str, alone: bool = False) -> str:
    """Whether to follow a forecast that was compared with rivals; `alone` where every other candidate was left."""
    losses = [rival for rival in every if rival.change.low > 0]
    if losses:
        worst = max(losses, key=lambda rival: rival.change.mean)
        less, interval = _sizes(worst.change, unit)
        return f"Do not follow {who} yet: {worst.words} costs {less} less per case {interval}."
    gains = [rival for rival in every if rival.change.high < 0]
    if alone:
        told = f"Keep {who}: no other candidate is expected to cost less."
        return told + (f" It saves {_savings(gains, unit)}." if gains else "")
    return f"Follow {who}: it saves {_savings(gains, unit)}." if gains else f"No significant gain from {who}."


def _simpler_rival(comparison: Comparison) -> list[Rival]:
    """The simpler candidate that cost least, where one cost less."""
    simpler, selection = _cheaper_candidate(comparison), comparison.selection
    if simpler is None or selection is None:
        return []
    tried = next(each for each in selection.candidates if each.name == simpler.name)
    name = f"a simpler candidate, {selection.forecast_words(tried)},"
    return [Rival(name, simpler.cost, comparison.stated(simpler.cost_change))]


def _savings(gains: Sequence[Rival], unit: str) -> str:
    told = []
    for place, rival in enumerate(gains):
        saved, interval = _sizes(rival.change, unit)
        told.append(f"{saved}{'' if place else ' per case'} against {rival.words} {interval}")
    return _listed(told)


def _unproven(every: Sequence[Rival], unit: str) -> str:
    """The changes that are not significant, and those that come without an interval."""
    told = ""
    for rival in every:
        change, interval = _signed(rival.change, unit)
        if not interval:
            told += f" The change from {rival.words} is {change} per case ({_NO_INTERVAL})."
        elif not rival.change.significant:
            told += f" The change from {rival.words}, {change} per case {interval}, is not significant."
    return told


def cost_sentences(comparison: Comparison) -> str:
    """What the selected forecast and its rivals cost, per case, in all and per year."""
    unit, every, paid = comparison.unit, rivals(comparison), float(comparison.selected.cost.mean())
    amounts = [paid, *(rival.cost for rival in every)]
    others = [f"{rival.name}: {amount_text(rival.cost, unit, beside=amounts)}" for rival in every]
    told = f"On the {count_text(comparison.cases, 'test case')} {comparison.selected.name} costs "
    told += f"{amount_text(paid, unit, beside=amounts)} per case"
    told += f" ({', '.join(others)})." if others else "."
    told += _unproven(every, unit)
    in_all = [
        f"{amount_text(abs(rival.change.mean) * comparison.cases, unit)} {_less(rival.change)} than {rival.name}"
        for rival in every[:2]
        if not rival.known
    ]
    told += f" In total it costs {amount_text(paid * comparison.cases, unit)}"
    told += f", {_listed(in_all)}." if in_all else "."
    if comparison.yearly is None:
        return told
    count, whole = comparison.yearly
    at = f"at {number_text(count, 3)} cases per year{'' if whole else ', if the whole year resembles the test cases'}"
    if not every:
        return f"{told} That is {amount_text(_rough(count * paid), unit)} per year {at}."
    change = Difference(*(_rough(count * value) for value in every[0].change))
    if not change.significant:
        each_year, interval = _signed(change, unit)
        return f"{told} Per year its cost differs from that of {every[0].name} by {each_year}{_after(interval)} {at}."
    saved, interval = _sizes(change, unit)
    verb = "saves" if change.mean < 0 else "costs another"
    return f"{told} Against {every[0].name} it {verb} {saved} per year {interval} {at}."


def warning_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Why not to rely on the forecast, and what to do; nothing where the test cases raise no such doubt."""
    climatology, today = comparison.policy("climatology"), comparison.policy("today")
    simpler = _cheaper_candidate(comparison)
    told = comparison.selected.name == "climatology" or (simpler is not None and simpler.name == "climatology")
    priced = comparison.cost_spec is not None and bool(comparison.cost_spec.columns)
    each = " per site" if comparison.sites is not None else " per price" if priced else ""
    return (
        *(comparison.leaks or _too_good(comparison)),
        *_underestimates(comparison),
        *(() if simpler is None else (_candidate_warning(comparison, simpler),)),
        *policy_warnings(
            comparison.selected.cost,
            None if today is None else today.cost,
            None if climatology is None or told else climatology.cost,
            comparison.resampling,
            comparison.unit,
            constant=f"one action{each} for all {'its ' if each else ''}cases",
        ),
    )


def policy_warnings(
    cost: Floats,
    today: Floats | None,
    climatology: Floats | None,
    resampling: Resampling,
    unit: str,
    where: str = "the test cases",
    constant: str = "one action for all cases",
) -> Iterator[str]:
    """That today's actions were significantly cheaper than the forecast's, or one action for all cases at all."""
    for who, rival, by_chance in (("today's actions", today, False), (constant, climatology, True)):
        if rival is None or not np.isfinite(rival).any():
            continue
        ours, theirs = resampling.pair(cost[None, None], rival[None, None])
        change = (ours - theirs).interval()
        proven = change.low > 0 and np.isfinite(rival).sum() >= LEAST_BLOCKS * resampling.block
        if proven or (by_chance and change.mean > _ROUNDING * abs(ours.estimate)):
            costs = [side.estimate for side in (ours, theirs)]
            paid, less = (amount_text(each, unit, beside=costs) for each in costs)
            yield (
                f"Warning: {who} would have cost less on {where} than those of the forecast: {less} per case "
                f"instead of {paid}{'' if proven else ', which may be chance'}. Do not use the forecast for "
                "this decision until you know why."
            )


def _too_good(comparison: Comparison) -> Iterator[str]:
    """A cost of almost perfect foresight, by errors far below the step that outcomes take from case to case."""
    climatology, foresight = comparison.policy("climatology"), comparison.policy("foresight")
    error = comparison.forecast.error
    if climatology is None or foresight is None or error is None:
        return
    regret, rival = (float((policy.cost - foresight.cost).mean()) for policy in (comparison.selected, climatology))
    steps = np.abs(np.diff(comparison.outcome))
    smooth = steps.any() and float(np.abs(error).mean()) > _TINY * float(steps[steps > 0].mean())
    if rival > 0 and regret < (1 - _TOO_GOOD) * rival and not smooth:
        what, known = "A feature", "every feature is known when the forecast is made"
        if comparison.kind == "recalibration" or not comparison.has_features:
            what = "The forecast or a feature beside it" if comparison.has_features else "The forecast"
            known = "it was made before the outcome was known"
        yield (
            f"Warning: the forecast looks too good to be true: it saves {100 * (1 - regret / rival):.2f} % of what "
            f"perfect foresight would save against climatology. {what} may contain the outcome of the target time. "
            f"If {known}, the forecast is as good as it looks."
        )


def dearer_than_expected(comparison: Comparison) -> tuple[str, ...]:
    """By how much decisions cost more than expected, where that is significant and raises no warning."""
    proven = comparison.gap(comparison.selected).high < 0 and not any(_underestimates(comparison))
    return (_gap_sentence(comparison),) if proven else ()


def _underestimates(comparison: Comparison) -> Iterator[str]:
    gap, foresight = comparison.gap(comparison.selected), comparison.policy("foresight")
    assert foresight is not None
    regret = float((comparison.selected.cost - foresight.cost).mean())
    ratio = comparison.spread_over_error(comparison.forecast)
    narrow = ratio is not None and ratio.high < 1 and ratio.mean < _TOO_SURE
    if not (gap.high < 0 and (narrow or -gap.mean >= _SERIOUS * regret)):
        return
    expected, realised = _expected_and_realised(comparison)
    sure = f" The ensemble is under-dispersed (spread/error {number_text(ratio.mean, 2)})." if ratio and narrow else ""
    remedy = "Newer rows or features that show what has changed may help."
    if comparison.settings.get("ensemble", 1) == 1:
        remedy = "Newer rows, features that show what has changed, or several models (`--ensemble 4`) may help."
    if comparison.kind == "recalibration":
        remedy = "More or newer past forecasts may help."
    yield (
        "Warning: the forecast underestimates the cost of its decisions. On the "
        f"{count_text(comparison.cases, 'test case')} it expected {expected} per case, but they cost {realised}.{sure} "
        f"Budget for the cost that was paid, not the expected one. {remedy}"
    )


def _cheaper_candidate(comparison: Comparison) -> CandidateOnTest | None:
    """The cheapest of the simpler candidates that were cheaper: significantly, or, for the simplest, at all."""
    if comparison.selection is None:
        return None
    order = [candidate.name for candidate in comparison.selection.candidates]
    selected = order.index(comparison.selection.selected.name)
    lower = [candidate for candidate in comparison.selection.tested if order.index(candidate.name) < selected]
    proven = [candidate for candidate in lower if comparison.stated(candidate.cost_change).low > 0]
    simplest = ("raw",) if comparison.kind == "recalibration" else ("climatology", "linear")
    by_chance = [candidate for candidate in lower if candidate.name in simplest and candidate.cost_change.mean > 0]
    return min(proven or by_chance, key=lambda candidate: candidate.cost, default=None)


def _candidate_warning(comparison: Comparison, candidate: CandidateOnTest) -> str:
    selection = comparison.selection
    assert selection is not None
    tried = next(each for each in selection.candidates if each.name == candidate.name)
    both = [candidate.cost, candidate.cost + candidate.cost_change.mean]
    less, paid = (amount_text(cost, comparison.unit, beside=both) for cost in both)
    chance = "" if comparison.stated(candidate.cost_change).low > 0 else ", which may be chance"
    selected, before = (
        selection.selected.cost,
        "It cost more on the validation cases, so something may have changed since.",
    )
    if tried.cost is not None and selected is not None and tried.cost <= selected:
        before = "It cost no more on the validation cases either: the selected one won there by its better score."
    return (
        f"Warning: a simpler candidate, {selection.forecast_words(tried)}, cost less on the test cases than the "
        f"selected one: {less} per case instead of {paid}{chance}. {before}{_after(_advice(selection, tried))}"
    )


def _advice(selection: ModelSelection, candidate: JudgedCandidate) -> str:
    """How to get the forecast of a candidate."""
    if selection.corrects:
        return "Follow the raw forecast until you know why." if candidate.name == "raw" else ""
    if candidate.name == "climatology":
        return "Do not use the forecast for this decision until you know why."
    flags = _flags_for(selection, candidate)
    return f"That candidate is the safer choice: run `stakes fit` with `{flags}`." if flags else ""


def _flags_for(selection: ModelSelection, candidate: JudgedCandidate) -> str:
    """What makes `stakes fit` train this candidate and select no other; empty where no flags do."""
    if selection.selected.name == "recent_errors" and candidate.name == selection.selected.below:
        return "--no-recent-errors"
    if candidate.name not in _FLAGS:
        return ""
    flags, weight = _FLAGS[candidate.name], float(candidate.parameters.get("decision weight", 0))
    for each in selection.candidates:
        starts_from = candidate.name == "decision" and each.accepted
        if each.name == "total_score" and (each is candidate or starts_from):
            flags += f"--score {each.parameters['score']} "
    return f"{flags}--decision-weight {weight:g} --no-recent-errors"


_FLAGS = {
    "linear": "--model linear ",
    "trees": "--base trees --model linear ",
    "network": "",
    "total_score": "",
    "decision": "",
}


def risk_sentences(comparison: Comparison) -> tuple[str, ...]:
    """What the costs of a risk-averse decision count, and what the decisions cost without the aversion."""
    risk, plain = risk_of(comparison.cost), comparison.forecast.plain
    if risk is None or plain is None:
        return ()
    tail = f"the worst {number_text(100 * (1 - risk.level))} % of the outcomes that the forecast considers possible"
    tail += "" if risk.mix == 1 else f" by {number_text(100 * risk.mix)} % and the mean over all of them by the rest"
    paid, expected = plain
    costs = [float(paid.mean()), float(expected.mean())]
    told, hoped = (amount_text(cost, comparison.unit, beside=costs) for cost in costs)
    sentence = (
        f"All costs here are risk-averse (CVaR): they count {tail}. Risk-neutrally, the decisions cost "
        f"{told} per case instead of the expected {hoped}: a gap of "
        f"{difference_text(comparison.mean_of(expected - paid), comparison.unit)}."
    )
    rival = comparison.forecasts[comparison.reference].plain
    if not comparison.left_reference or rival is None:
        return (sentence,)
    change = difference_text(comparison.mean_of(paid - rival[0]), comparison.unit)
    other = amount_text(float(rival[0].mean()), comparison.unit, beside=costs)
    return (sentence, f"Those of {comparison.reference.name} cost {other}, a difference of {change}.")


def range_sentences(spec: CostSpec | None) -> tuple[str, ...]:
    """How cases were judged where the cost has a range; nothing where it has none."""
    if spec is None or spec.ranged is None:
        return ()
    ends = (number_text(end, 6) for end in (spec.ranged.range.low, spec.ranged.range.high))
    return (
        f"One forecast serves all decision makers with {spec.ranged.name} from {' to '.join(ends)}. Each validation "
        "and test case is judged for one of them; they are spread evenly over the range and the same for every policy. "
        "Climatology takes the best constant action for that decision maker, interpolated between 33 values.",
    )


def interval_sentences(comparison: Comparison) -> tuple[str, ...]:
    """What intervals cover, and what not; why there are none where cases are too few."""
    if not comparison.believed:
        return (
            f"Intervals need {LEAST_BLOCKS} blocks of {comparison.block} neighbouring test cases; with only "
            f"{count_text(comparison.cases, 'test case')} there are none.",
        )
    selection = comparison.selection
    network = comparison.kind == "fit" and (selection is None or selection.has_network)
    if not network or comparison.settings.get("ensemble", 1) != 1:
        return ("Brackets are 95 % intervals.",)
    return (
        "Brackets are 95 % intervals. They account for the choice of test cases, not for the training seed: another "
        "seed would change the cost somewhat.",
    )


def selection_sentences(selection: ModelSelection) -> tuple[str, ...]:
    """Which candidate was selected and why, and how newer errors come to be seen, where recent ones weigh more."""
    recent = any(candidate.name == "recent_errors" and candidate.accepted for candidate in selection.candidates)
    if not (recent and selection.corrects):
        return (selection.reason,)
    return (
        selection.reason,
        "Recent errors weigh more, but the correction knows none after the past cases: run `stakes refit` "
        "with a longer table to include them.",
    )


def weight_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Whether decision-aware training pays, and why; nothing where no decision weight is spoken of."""
    if comparison.weight is None:
        return ()
    frontier, selection = comparison.frontier, comparison.selection
    reason = frontier.reason if frontier is not None and selection is None else ""
    return tuple(filter(None, (_weight_sentence(comparison), reason)))


def _weight_sentence(comparison: Comparison) -> str:
    frontier, unit = comparison.frontier, comparison.unit
    if not comparison.weight and frontier is None:
        return (
            "Decision weights were not tried, as weight 0 was given: whether decision-aware training pays is unknown."
        )
    if not comparison.weight and frontier is not None:
        few = too_few_to_choose(frontier.cases, frontier.block)
        none = "On the validation cases no decision weight is expected to make decisions cheaper."
        return f"{f'Too early to tell whether decision-aware training pays: {few}.' if few else none} Weight 0 is kept."
    how = "given" if frontier is None else "chosen on validation cases"
    who, change = f"weight {comparison.weight:g} ({how})", comparison.change(comparison.selected)
    if not comparison.believed:
        return (
            f"Too early to tell whether {who} pays: its cost differs from that of weight 0 by "
            f"{difference_text(change, unit)}."
        )
    if not change.significant:
        return (
            f"No significant gain: the cost of {who} differs from that of weight 0 by {difference_text(change, unit)}."
        )
    size, interval = _sizes(change, unit)
    baseline = comparison.pair(comparison.selected, comparison.reference)[1]
    relative = abs(100 * change.mean / baseline.estimate) if baseline.interval().significant else math.nan
    share = f", {number_text(relative, 3)} % of its cost" if math.isfinite(relative) else ""
    pays = "pays" if change.mean < 0 else "does not pay"
    advice = "" if change.mean < 0 else " Weight 0 is the safer choice."
    return (
        f"Decision-aware training {pays}: {who} costs {size} {_less(change)} per case than weight 0 "
        f"{interval}{share}.{advice}"
    )


def calibration_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Bias, whether the forecast knows what its decisions cost, and whether its spread is that of its errors."""
    errors = {
        policy.name: float(forecast.error.mean())
        for policy, forecast in comparison.forecasts.items()
        if forecast.error is not None
    }
    low = [
        f"the mean of {name} is {number_text(abs(error), 3)} too {'low' if error < 0 else 'high'}"
        for name, error in errors.items()
    ]
    ratios = {policy.name: comparison.spread_over_error(forecast) for policy, forecast in comparison.forecasts.items()}
    known = [
        f"{difference_text(ratio, signed=False)} for {name}" for name, ratio in ratios.items() if ratio is not None
    ]
    point = [f"A point forecast such as {name} has no spread." for name in errors if ratios[name] is None]
    return (
        *([f"Bias: {_listed(low)}."] if low else []),
        _gap_sentence(comparison),
        *([f"Spread/error is {_listed(known)}. 1 is right, below 1 the ensemble is under-dispersed."] if known else []),
        *point,
    )


def _gap_sentence(comparison: Comparison) -> str:
    gap, (expected, realised) = comparison.gap(comparison.selected), _expected_and_realised(comparison)
    trust = "The expected cost agrees with the realised one, as far as these cases tell"
    if math.isnan(gap.low):
        trust = "There are too few cases to tell whether that is chance"
    elif gap.significant:
        trust = f"Its decisions cost {'more' if gap.mean < 0 else 'less'} than it expects"
    told = difference_text(gap, comparison.unit)
    return f"Expected {expected} per case, realised {realised}: a gap of {told}. {trust}."


def limit_sentences(comparison: Comparison, limits: Sequence[LimitWorth], bounds: Sequence[str]) -> tuple[str, ...]:
    """Which limit of a vector action is worth the most."""
    joining = [limit for limit in limits if limit.kind not in bounds]
    if joining and not any(limit.share for limit in joining):
        names = " and ".join(limit.kind for limit in joining)
        return (f"No limit of {names} ever binds in these cases: every part is decided independently.",)
    dearest = max(limits, key=lambda limit: limit.saved, default=None)
    if dearest is None or not dearest.saved > 0:
        return ()
    return (
        f"One {comparison.action_unit or 'unit'} more of {dearest.kind} would save "
        f"{amount_text(dearest.saved, comparison.unit)} per case on average. It binds in {100 * dearest.share:.0f} % "
        f"of the cases, most often at {dearest.place} ({100 * dearest.place_share:.0f} %). This price holds for "
        "small changes only.",
    )


def quality_sentences(quality: DataQuality | None) -> Iterator[str]:
    """How many rows became cases, from when to when, and what looks odd."""
    if quality is None:
        return
    used = f"The {count_text(quality.rows, 'row')} of the table give {count_text(quality.used, 'case')}"
    first, last = ((text or "").replace("T", " ").removesuffix(":00") for text in (quality.first, quality.last))
    span = f", from {first} to {last}" if first and last else ""
    yield f"{used}{span}. Rows with missing values are left out, never filled."
    if quality.step_hours is not None:
        gaps = f"with {count_text(quality.gaps, 'gap')}" if quality.gaps else "without gaps"
        yield f"Rows are {quality.step_hours:g} hours apart, {gaps}."
    if quality.unsorted:
        yield f"{count_text(quality.unsorted, 'row')} came after later times and were sorted."
    if quality.constant:
        yield f"These columns are constant and tell the forecast nothing: {', '.join(quality.constant)}."


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
    if isinstance(value, str):
        return f"from the column {value[1:]}" if value.startswith("@") else value
    return number_text(value, 6)


def difference_text(change: Difference, unit: str = "", *, signed: bool = True) -> str:
    """A number with its interval where there is one.

    >>> difference_text(Difference(-1.5, -4.0, 1.0), "EUR")
    '-1.50 EUR [-4.00, +1.00]'
    """
    mean, interval = _signed(change, unit, signed)
    return f"{mean} {interval}" if interval else f"{mean} ({_NO_INTERVAL})"


def _signed(change: Difference, unit: str, signed: bool = True) -> tuple[str, str]:
    decimals = shared_decimals(change)
    mean, low, high = (fixed_text(value, decimals, signed=signed) for value in change)
    return f"{mean} {unit}".rstrip(), "" if math.isnan(change.low) else f"[{low}, {high}]"


def _sizes(change: Difference, unit: str) -> tuple[str, str]:
    """How far a proven change is from zero, and its interval."""
    sizes = Difference(abs(change.mean), *sorted(abs(value) for value in (change.low, change.high)))
    return _signed(sizes, unit, signed=False)


def _expected_and_realised(comparison: Comparison) -> tuple[str, str]:
    costs = [float(each.mean()) for each in (comparison.forecast.expected_cost, comparison.selected.cost)]
    expected, realised = (amount_text(cost, comparison.unit, beside=costs) for cost in costs)
    return expected, realised


def _listed(texts: Sequence[str]) -> str:
    """With commas and an "and"."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _less(change: Difference) -> str:
    return "less" if change.mean < 0 else "more"


def _after(text: str) -> str:
    return f" {text}" if text else ""


def _rough(value: float) -> float:
    """To three digits: more would mean nothing where a year is extrapolated from some of its cases."""
    return float(f"{value:.3g}") if math.isfinite(value) else value
