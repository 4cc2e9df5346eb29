"""The report of a recalibration, one page: what was following the forecast worth, and what is correcting it?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from stakes.errors import SettingError
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference
from stakes.evaluation.selection import ModelSelection, TestedCandidate
from stakes.forecasting.recalibration import Version
from stakes.reports.comparison import JudgedRecalibration, Policy
from stakes.reports.drawing import (
    LOOKS,
    axis_label,
    binned_means,
    crosses,
    diagonal,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    new_panel,
)
from stakes.reports.figures import decisions_figure, selection_figure
from stakes.reports.fit_figures import money_figure
from stakes.reports.fit_report import REPORT, folded_names, targets_text
from stakes.reports.fit_sentences import (
    against_today,
    apart_words,
    between_words,
    cost_words,
    doubt_words,
    risk_sentences,
)
from stakes.reports.fit_tables import interval_cell, money_table, selection_table, settings_table
from stakes.reports.page import Cell, Column, Figure, Report, Section, Table, write_report
from stakes.reports.sections import cost_section, parts_section
from stakes.reports.selection_text import correction_words
from stakes.settings import to_plain
from stakes.text import amount_text, count_text, fixed_text, number_text, shared_decimals
from stakes.training.stored_models import versions_here

if TYPE_CHECKING:
    from stakes.artifacts.recalibrations import Recalibration


Floats = NDArray[np.float64]
Sides = list[list[Difference]]  # of both axes

_TICKS = 5  # on axes whose numbers may be long
_NO_WIDTH = 1e-9  # of a PIT that is known exactly


def reliability_figure(fit: JudgedRecalibration) -> Figure:
    """Where outcomes lie among the members, spread and error, expected and realised cost, before and after.

    Not of a point forecast as it came, which knows of no uncertainty.
    """
    versions = [version for version in fit.versions if version == "corrected" or fit.form != "points"]
    bins = max(2, min(10, fit.cases // 20))
    point = " A point forecast has none of this as it comes." if fit.form == "points" else ""
    with drawing_style():
        panels = [_draw_ranks(fit, versions), _draw_spread(fit, versions, bins), _draw_costs(fit, versions, bins)]
        caption = (
            f"On {count_text(fit.cases, 'test case')}. First: how often the outcome has each place among the members, "
            "flat for a forecast that is right; a slope is a bias, a valley says that members lie too close together, "
            "a hill that they lie too far apart. The grey band is where 95 % of the bars of a right forecast would "
            "lie, were cases independent. Second: root mean squared error of the members' mean against their spread, "
            f"in {bins} bins of the spread; above the diagonal the forecast is too sure of itself. Third: mean "
            f"realised against mean expected cost, in {bins} bins of the expected cost; above the diagonal decisions "
            f"turn out more expensive than expected. Bars are 95 % intervals.{point}"
        )
        return figure_of_panels("reliability", "Reliability", caption, panels, fit.settings)


def pit_shares(lower: Floats, upper: Floats, bins: int) -> Floats:
    """The share of outcomes in each bin of the PIT, each spread evenly over where its PIT may lie.

    >>> pit_shares(np.array([0.0, 0.5]), np.array([0.5, 1.0]), 4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    first = np.minimum(lower, 1 - _NO_WIDTH)
    width = np.maximum(upper - first, _NO_WIDTH)
    edges = np.linspace(0.0, 1.0, bins + 1)[:, None]
    return np.diff(np.clip((edges - first) / width, 0.0, 1.0).mean(-1))


def _draw_ranks(fit: JudgedRecalibration, versions: Sequence[Version]) -> Drawing:
    """A histogram for each, since one may dwarf the other."""
    panel, rows = new_panel(len(versions), height=1.6 + 1.2 * len(versions), sharex=True)
    bins = max(4, min(20, fit.cases // 10))
    even = 1 / bins
    reach = 196 * np.sqrt(even * (1 - even) / fit.cases)
    for axes, version in zip(rows, versions, strict=True):
        lower, upper = (fit.judged.values(name, version) for name in ("pit_from", "pit_to"))
        shares, edges = 100 * pit_shares(lower, upper, bins), np.linspace(0.0, 1.0, bins + 1)
        axes.axhspan(max(0.0, 100 * even - reach), 100 * even + reach, color="#DDDDDD", linewidth=0, zorder=0)
        axes.stairs(shares, edges, color=_look(fit, version)["color"], linewidth=1.4)
        axes.set(ylim=(0, None), ylabel=f"{version} (%)")
    place = "rank of the outcome among the members" if fit.form == "members" else "PIT: the level of the outcome"
    rows[-1].set_xlabel(f"{place} (–)")
    return panel


def _draw_spread(fit: JudgedRecalibration, versions: Sequence[Version], bins: int) -> Drawing:
    sides = {}
    for version in versions:
        spread, error = (fit.judged.values(name, version) for name in ("spread", "error"))
        squares = binned_means(fit.resampling, spread, (spread**2, error**2), bins)
        sides[version] = [[fit.stated(each.applied(np.sqrt)) for each in means] for means in squares]
    return _draw_sides(fit, sides, "spread", "error of the mean")


def _draw_costs(fit: JudgedRecalibration, versions: Sequence[Version], bins: int) -> Drawing:
    sides = {}
    for version in versions:
        expected, realised = (fit.judged.values(name, version) for name in ("expected_cost", "cost"))
        means = binned_means(fit.resampling, expected, (expected, realised), bins)
        sides[version] = [[fit.stated(each) for each in side] for side in means]
    return _draw_sides(fit, sides, *(axis_label(f"{name} cost", fit.unit) for name in ("expected", "realised")))


def _draw_sides(fit: JudgedRecalibration, sides: Mapping[Version, Sides], x: str, y: str) -> Drawing:
    """Two sides that should be equal; an interval that is much longer than the axes is cut off."""
    panel, (axes,) = new_panel(height=3.0)
    for version, both in sides.items():
        crosses(axes, *both, **_look(fit, version))
    means = [each.mean for both in sides.values() for side in both for each in side]
    span = max(means) - min(means) or 1.0
    lowest = max(min(means) - 0.2 * span, -0.05 * span if min(means) >= 0 else -math.inf)
    ends = lowest, max(means) + 0.2 * span
    axes.set(xlim=ends, ylim=ends, xlabel=x, ylabel=y)
    diagonal(axes)
    axes.locator_params(axis="x", nbins=_TICKS)
    legend_below_panel(panel)
    return panel


def _look(fit: JudgedRecalibration, version: Version) -> dict[str, Any]:
    name = "plain" if version == "raw" else "selected"
    return {**LOOKS[name], "label": fit.labels[name]}


_SERIOUS = 0.25  # of what the decisions cost more than perfect foresight: by so much it errs about its own cost
_TOO_SURE = 0.8  # spread over error


def summary_sentences(fit: JudgedRecalibration) -> tuple[str, ...]:
    """What speaks against the correction, what it was worth, and how that compares with today's action."""
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
    """What following the raw forecast cost, what the corrected one costs, and the difference, in a sentence."""
    cases = count_text(fit.cases, "test case")
    raw, ours = (float(way.cost.mean()) for way in (fit.ways[0], fit.selected))
    paid, now = (amount_text(cost, fit.unit, beside=[raw, ours]) for cost in (raw, ours))
    if not fit.has_left_plain:
        return (
            f"Nothing was proven to be better than the raw forecast: on the {cases} following it cost {paid} "
            f"per case{_in_a_year(fit, raw)}."
        )
    return (
        f"On the {cases} following the raw forecast cost {paid} per case; {correction_words(fit.selection)}, it costs "
        f"{now}: {_difference(fit, fit.change(fit.selected))}."
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


def selected_sentences(selection: ModelSelection) -> tuple[str, ...]:
    """Which candidate was selected and why, and how newer errors come to be seen, where these count more."""
    if not any(candidate.name == "recent_errors" and candidate.accepted for candidate in selection.candidates):
        return (selection.reason,)
    return (
        selection.reason,
        "Newer errors count more, but the correction knows none after the past cases: `stakes refit` with a longer "
        "table lets it see them.",
    )


def recalibration_alarms(fit: JudgedRecalibration) -> tuple[str, ...]:
    """Why not to rely on the correction, and what to do; nothing where the test cases raise no such doubt.

    Told are a corrected forecast that was more expensive than the one that came, even if that may be chance, or beyond
    doubt than a simpler candidate or today's actions, and one whose decisions cost beyond doubt more than it expects,
    by a quarter or more of what lies above perfect foresight.
    """
    return (*_dearer(fit), *_ignorant(fit))


def _dearer(fit: JudgedRecalibration) -> Iterator[str]:
    if fit.has_left_plain and (change := fit.change(fit.selected)).mean > 0:
        doubt = "beyond doubt" if change.significant else "which may be chance"
        yield (
            f"Take care: the raw forecast was cheaper on the test cases than the corrected one, "
            f"{_costs(fit, fit.ways[0])}, {doubt}. {_on_past_cases(fit, fit.selection.candidates[0].cost)} "
            "Follow the raw forecast before you know more."
        )
    elif (candidate := _cheaper_candidate(fit)) is not None:
        paid = candidate.cost + candidate.cost_change.mean
        less, more = (amount_text(cost, fit.unit, beside=[candidate.cost, paid]) for cost in (candidate.cost, paid))
        past = next(each.cost for each in fit.selection.candidates if each.name == candidate.name)
        yield (
            f"Take care: a simpler candidate, {fit.selection.words(candidate.name)}, was cheaper on the test cases "
            f"than what was selected, {less} per case against {more}, beyond doubt. {_on_past_cases(fit, past)}"
        )
    today = fit.way("today")
    if today is not None and fit.change(fit.selected, today).low > 0:
        yield (
            f"Take care: today's actions were cheaper on the test cases than those of the forecast, "
            f"{_costs(fit, today)}, beyond doubt. Do not change how you decide before you know why."
        )


def _on_past_cases(fit: JudgedRecalibration, cost: float | None) -> str:
    """What past cases said of something that cost so much there and was cheaper on the test cases."""
    selected = fit.selection.selected.cost
    if cost is not None and selected is not None and cost <= selected:
        return "It was so on past cases, too: what was selected has the better score, at hardly more cost there."
    return "Past cases said otherwise: something may have changed."


def _costs(fit: JudgedRecalibration, way: Policy) -> str:
    """What a way costs, and what the selected forecast does."""
    ours, others = (sampled.estimate for sampled in fit.pair(fit.selected, way))
    paid, less = (amount_text(cost, fit.unit, beside=[ours, others]) for cost in (ours, others))
    return f"{less} per case against {paid}"


def _cheaper_candidate(fit: JudgedRecalibration) -> TestedCandidate | None:
    """The cheapest of the simpler candidates that were cheaper beyond doubt."""
    names = [candidate.name for candidate in fit.selection.candidates]
    place = names.index(fit.selection.selected.name)
    lower = [candidate for candidate in fit.selection.tested if names.index(candidate.name) < place]
    proven = [candidate for candidate in lower if fit.stated(candidate.cost_change).low > 0]
    return min(proven, key=lambda candidate: candidate.cost, default=None)


def _ignorant(fit: JudgedRecalibration) -> Iterator[str]:
    expected, foresight = fit.judged.values("expected_cost", fit.version), fit.judged.values("foresight_cost")
    gap, regret = fit.mean_of(expected - fit.selected.cost), float((fit.selected.cost - foresight).mean())
    if not (gap.high < 0 and -gap.mean >= _SERIOUS * regret):
        return
    costs = [float(expected.mean()), float(fit.selected.cost.mean())]
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
    """Whether the forecast knows what its decisions cost, and how spread and error compare, before and after."""
    expected = fit.judged.values("expected_cost", fit.version)
    gap = fit.mean_of(expected - fit.selected.cost)
    costs = [float(expected.mean()), float(fit.selected.cost.mean())]
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
    """The root mean square of the spread over that of the error: 1 where the spread is right."""
    spread, error = (fit.judged.cases[f"{version}_{name}"].to_numpy() for name in ("spread", "error"))
    squares = fit.resampling.means([(values**2)[None, None] for values in (spread, error)])
    return fit.stated((squares[0] / squares[1]).applied(np.sqrt))


def build_recalibration_report(fit: JudgedRecalibration) -> Report:
    """Everything on one page, what speaks against the correction first, then what it is worth."""
    cost = f"Cost: {cost_words(fit.cost_spec)}. " if fit.cost_spec else ""
    return Report(
        title=f"Decisions on {targets_text(fit.targets, 'site')} with a "
        f"{'recalibrated' if fit.has_left_plain else 'raw'} forecast",
        subtitle=f"{cost}Judged on {count_text(fit.cases, 'test case')}{_span(fit)} that taught nothing.",
        summary=summary_sentences(fit),
        sections=tuple(_sections(fit)),
        provenance=fit.provenance,
        folded=folded_names(fit.targets, "site"),
    )


def write_recalibration_report(recalibration: "Recalibration", folder: Path, out: Path | None = None) -> Path:
    """Write the report of a recalibration to FOLDER/report.html, recorded there, or to another file; returns where."""
    from stakes.artifacts.folder import record_file

    write_report(build_recalibration_report(judged_recalibration_of(recalibration)), out or folder / REPORT)
    if out is None:
        record_file(folder, REPORT)
    return out or folder / REPORT


def judged_recalibration_of(recalibration: "Recalibration") -> JudgedRecalibration:
    """What the report tells of."""
    if recalibration.judged is None:
        raise SettingError("there are no test cases to report of; recalibrate with more past cases")
    recalibrator, files = recalibration.recalibrator, ", ".join(each.file for each in recalibration.about.data)
    settings = {"layout": to_plain(recalibration.layout), **to_plain(recalibration.about.settings)}
    provenance = {
        "made": recalibration.created,
        "data": files,
        "learned from": _learned_from(recalibration),
        **(recalibration.versions or versions_here()),
    }
    return JudgedRecalibration(
        recalibration.judged,
        recalibrator.selection_,
        recalibrator.state_.form,
        recalibrator.state_.targets,
        recalibrator.cost,
        recalibration.cost_spec,
        settings,
        {name: text for name, text in provenance.items() if text},
        recalibration.about.said,
    )


def _learned_from(recalibration: "Recalibration") -> str:
    span = recalibration.about.fitted
    when = "" if span.first is None else f" from {span.first} to {span.last}"
    return f"{count_text(span.cases, 'case')}{when}"


def _sections(fit: JudgedRecalibration) -> Iterator[Section]:
    if fit.selection.tested:
        figure, table = (
            selection_figure(fit, fit.selection, refitted=False),
            selection_table(fit.selection, fit.unit, refitted=False),
        )
        yield Section("selection", "What is each step worth?", selected_sentences(fit.selection), (figure,), (table,))
    yield Section("ways", "What each way to decide costs", _doubts(fit), (money_figure(fit),), (money_table(fit),))
    figures = (reliability_figure(fit),) if fit.has_left_plain or fit.form != "points" else ()
    title = "Reliability before and after" if fit.has_left_plain else "Reliability of the raw forecast"
    yield Section("reliability", title, reliability_sentences(fit), figures, (_reliability_table(fit),))
    if fit.judged_parts is not None:
        yield parts_section(fit, fit.judged_parts)
    figure = decisions_figure(fit)
    yield Section("decisions", figure.title, figures=(figure,))
    if fit.outcomes is not None:
        yield cost_section(fit.cost, fit.outcomes, fit.cost_spec, fit.settings)
    if fit.notes:
        yield Section("notes", "About the past forecasts", fit.notes)
    if fit.settings:
        yield Section("settings", "Settings", (), (), (settings_table(fit.settings, "recalibration"),))


def _reliability_table(fit: JudgedRecalibration) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for version in fit.versions:
        score, expected, cost = (fit.judged.values(name, version) for name in ("energy_score", "expected_cost", "cost"))
        gap, ratio = fit.mean_of(expected - cost), spread_and_error_ratio(fit, version)
        rows.append(
            (
                version,
                float(score.mean()),
                float(expected.mean()),
                float(cost.mean()),
                interval_cell(gap),
                None if version == "raw" and fit.form == "points" else interval_cell(ratio, 1.0),
            )
        )
    name = "CRPS" if len(fit.targets) == 1 else "energy score"
    columns = (
        Column("forecast"),
        Column(name, kind="number", help="lower is better"),
        Column("expected cost", fit.unit, "number", "mean cost that the forecast expects of its own action"),
        Column("realised cost", fit.unit, "number", "mean cost at the outcome"),
        Column("gap", fit.unit, "number", "expected less realised; 0 is right"),
        Column("spread / error", kind="number", help="1 is right; below 1 the members lie too close together"),
    )
    note = "Intervals are 95 % ones, bold where they leave out what is right."
    return Table("reliability", "Reliability on the test cases", columns, tuple(rows), note)


def _doubts(fit: JudgedRecalibration) -> tuple[str, ...]:
    if fit.believed:
        return ()
    return (
        f"Neighbouring cases are kept together in blocks of {fit.judged.block}: {count_text(fit.cases, 'test case')} "
        f"are too few for intervals, which need {LEAST_BLOCKS} blocks, so none are given.",
    )


def _span(fit: JudgedRecalibration) -> str:
    if fit.times is None:
        return ""
    first, last = (str(np.datetime_as_string(moment, "D")) for moment in (fit.times.min(), fit.times.max()))
    return f" from {first} to {last}"
