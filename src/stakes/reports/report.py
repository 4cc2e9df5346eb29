"""The report of a fit, a recalibration or a backtest, one page: what to do, what speaks against it, and why."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from stakes.artifacts.folder import open_as_judged, record_file
from stakes.costs.cost import ranged_parameter, user_cost_errors, with_parameter
from stakes.errors import SettingError, StakesError
from stakes.evaluation.case_metrics import JudgedParts
from stakes.evaluation.selection import Frontier, candidate_words
from stakes.reports.comparison import Comparison, Floats, comparison_of_folder
from stakes.reports.cost_figures import cost_figure, parts_figure
from stakes.reports.figures import (
    calibration_figure,
    decisions_figure,
    frontier_figure,
    groups_figure,
    origins_figure,
    policies_figure,
    selection_figure,
)
from stakes.reports.page import Report, Section, write_report
from stakes.reports.sentences import (
    calibration_sentences,
    cost_sentences,
    cost_words,
    headline,
    interval_sentences,
    limit_sentences,
    quality_sentences,
    range_sentences,
    risk_sentences,
    selection_sentences,
    warning_sentences,
    weight_sentences,
)
from stakes.reports.tables import (
    calibration_table,
    columns_table,
    decision_makers_table,
    frontier_table,
    groups_table,
    left_out_table,
    limits_table,
    origins_table,
    policies_table,
    selection_table,
    settings_table,
)
from stakes.reports.value import regret_section
from stakes.text import count_text, number_text

REPORT = "report.html"
_MOST_NAMED = 3
_BOUNDS = ("upper", "lower")
_RIVALS = {"weight_0": "weight 0", "climatology": "climatology", "today": "today"}
_ABOUT_ORIGINS = (
    "Each origin is a moment in the past: the forecast was fitted on the cases known by then and judged on those up to "
    "the next origin."
)
_ABOUT_COST = (
    "The cost c(a, y) is what is paid for action a when the outcome is y. Check that these curves show what you pay: "
    "everything in this report follows from them."
)


def write_comparison(comparison: Comparison, folder: Path, out: Path | None = None) -> Path:
    """Write FOLDER/report.html, recorded with what the folder holds, or another file; returns where it is."""
    write_report(build_report(comparison), out or folder / REPORT)
    if out is None and comparison.kind != "backtest":
        record_file(folder, REPORT)
    return out or folder / REPORT


def build_report(comparison: Comparison) -> Report:
    """Everything on one page: the headline, what speaks against it, then the sections."""
    cost = f"Cost: {cost_words(comparison.cost_spec)}. " if comparison.cost_spec else ""
    fits = 0 if comparison.origins is None else len(comparison.origins) - 1
    how = f"Fitted {count_text(fits, 'time')} and judged" if fits else "Judged"
    span = ""
    if comparison.times is not None:
        first, last = (np.datetime_as_string(end(comparison.times), "D") for end in (np.min, np.max))
        span = f" from {first} to {last}"
    targets = comparison.targets
    many = count_text(len(targets), "target") if len(targets) > _MOST_NAMED else ", ".join(targets) or "the outcome"
    raw_or_not = "recalibrated" if comparison.left_reference else "raw"
    title = {"recalibration": f" with a {raw_or_not} forecast", "backtest": ": a backtest"}.get(comparison.kind, "")
    return Report(
        title=f"Decisions on {many}{title}",
        subtitle=f"{cost}{how} on {count_text(comparison.cases, 'test case')}{span} that training has not seen.",
        headline=headline(comparison),
        warnings=warning_sentences(comparison),
        summary=(
            cost_sentences(comparison),
            *risk_sentences(comparison),
            *range_sentences(comparison.cost_spec),
            *interval_sentences(comparison),
        ),
        sections=tuple(_sections(comparison)),
        provenance=dict(sorted(comparison.provenance.items())),
        folded={f"The {many}": targets} if len(targets) > _MOST_NAMED else {},
    )


def _sections(comparison: Comparison) -> Iterator[Section]:
    unit, selection, frontier = comparison.unit, comparison.selection, comparison.frontier
    if selection is not None and selection.tested:
        figure, table = selection_figure(comparison, selection), selection_table(selection, unit)
        yield Section("selection", "What each candidate costs", selection_sentences(selection), (figure,), (table,))
    if comparison.origins is not None:
        yield _origins_section(comparison)
    yield Section(
        "policies",
        "What each policy costs" if comparison.weight is None else "Does decision-aware training pay here?",
        weight_sentences(comparison),
        (policies_figure(comparison),),
        (policies_table(comparison),),
    )
    ranged = ranged_parameter(comparison.cost)
    if comparison.by_parameter and ranged is not None:
        table = decision_makers_table(comparison, ranged)
        yield Section("decision-makers", "What is it worth to each decision maker?", (), (), (table,))
    if frontier is not None and len(frontier.points) > 1:  # else every weight forecasts the same
        yield _weights_section(comparison, frontier)
    drawn = any(forecast.pit is not None for forecast in comparison.forecasts.values())
    yield Section(
        "calibration",
        "Is the expected cost right?",
        calibration_sentences(comparison),
        (calibration_figure(comparison),) if drawn else (),
        (calibration_table(comparison),),
    )
    if comparison.parts is not None:
        yield _parts_section(comparison, comparison.parts)
    figure = decisions_figure(comparison)
    yield Section("decisions", figure.title, figures=(figure,))
    if comparison.regret is not None:
        yield regret_section(comparison.regret)
    if comparison.groups:
        figure, table = groups_figure(comparison), groups_table(comparison)
        title = "Where the money went" if comparison.regret is None else "Regret in groups of cases"
        yield Section("groups", title, (), (figure,), (table,))
    if comparison.outcomes is not None:
        yield _cost_section(comparison, comparison.outcomes)
    quality = comparison.quality
    if quality is not None or comparison.notes:
        tables = () if quality is None else (columns_table(quality),)
        tables = (left_out_table(quality), *tables) if quality is not None and quality.left_out else tables
        yield Section("data", "Data", (*quality_sentences(quality), *comparison.notes), (), tables)
    if comparison.settings:
        table = settings_table(comparison.settings, comparison.kind)
        yield Section("settings", "Settings", (), (), (table,))


def _origins_section(comparison: Comparison) -> Section:
    """How a backtest went, origin by origin, beside the rivals that are known."""
    assert comparison.origins is not None
    *_, overall = comparison.origins.to_dict("records")
    each = comparison.origins.iloc[:-1]
    known = {name: words for name, words in _RIVALS.items() if overall.get(f"{name}_cases")}
    differing = {name: words for name, words in known.items() if each[f"{name}_change"].any()}
    figures = (origins_figure(comparison, each, differing),) if differing else ()
    table = origins_table(comparison.origins, known, comparison.unit)
    return Section("origins", "Origin by origin", (_ABOUT_ORIGINS,), figures, (table,))


def _weights_section(comparison: Comparison, frontier: Frontier) -> Section:
    """What each decision weight costs against weight 0, or against the candidate that was selected before them."""
    tried = (
        [each for each in comparison.selection.candidates if each.name == "decision"] if comparison.selection else []
    )
    base = candidate_words(tried[0].below) if tried and tried[0].below is not None else "weight 0"
    held = f"0 means {base}" if tried and comparison.kind != "fit" else "0 trains the score alone"
    harmless = "" if frontier.tolerance is None else " that hardly harm the score"
    text = (
        f"A decision weight trades the forecast's score for the cost of its decisions: {held}. Of the weights"
        f"{harmless} the one with the lowest expected cost is selected. Each interval is for one weight alone. Whether "
        "a weight is proven cheaper is tested for all of them together: the more are tried, the more look cheaper by "
        "chance."
    )
    figure = frontier_figure(frontier, comparison.unit, comparison.settings, base)
    table = frontier_table(frontier, comparison.unit, base)
    return Section("weights", "What each weight costs", (text,), (figure,), (table,))


def _parts_section(comparison: Comparison, parts: JudgedParts) -> Section:
    """A few vector actions over their parts, the limits that bind, and what those cost."""
    known = [limit for limit in parts.limits if limit.share or limit.kind not in _BOUNDS]
    return Section(
        "parts-of-decisions",
        "Decisions part by part",
        limit_sentences(comparison, known, _BOUNDS),
        (parts_figure(comparison, parts),),
        (limits_table(comparison, known, parts.cases),) if known else (),
    )


def _cost_section(comparison: Comparison, outcomes: Floats) -> Section:
    """What the cost is at some outcomes; why not, where it cannot be drawn; and which of its numbers goes to which."""
    title, cost, spec, about = "What the cost function rewards", comparison.cost, comparison.cost_spec, [_ABOUT_COST]
    by_outcome = () if spec is None else spec.outcome_notes(cost, comparison.targets)
    ranged = ranged_parameter(cost)
    if spec is not None and spec.columns:
        names = " and ".join(spec.columns)
        about.append(f"They are drawn for {names} 1: each case has its own, in a column of the table.")
    if ranged is not None:
        cost = with_parameter(cost, ranged.name, ranged.range.middle)
        middle = number_text(ranged.range.middle, 3)
        about.append(f"They are drawn for {ranged.name} {middle}, the middle of its range.")
    try:
        figure = cost_figure(cost, outcomes, comparison.unit, comparison.action_unit)
    except StakesError as error:
        return Section("cost", title, (f"The figure was left out: {error}.", *by_outcome))
    return Section("cost", title, (*about, *by_outcome), (replace(figure, settings=comparison.settings),))


def report_of(folder: Path, cost: str | None, out: Path | None = None, series: str | None = None) -> Path:
    """Write FOLDER/report.html again, or, where asked, another file in its place; returns where it is.

    Of a fit of many series, `series` asks for the page of one of them.
    """
    opened = open_as_judged(folder, cost)
    if opened.kind == "panel":
        from stakes.reports.panel import report_of_panel, report_of_series

        if series is None:
            return report_of_panel(opened, folder, out)
        if out is None:
            raise SettingError("the page of one series is another file: name it with --out")
        return report_of_series(opened, folder, series, out)
    if series is not None:
        raise SettingError(f"--series is for a fit of many series, which {folder} is not")
    with user_cost_errors(opened.forecast.cost if opened.kind == "fit" else opened.cost):
        return write_comparison(comparison_of_folder(opened, folder), folder, out)
