"""The report of a recalibration, one page: what was following the forecast worth, and what is correcting it?"""

from collections.abc import Iterator

import numpy as np

from stakes.evaluation.weight_frontier import LEAST_BLOCKS
from stakes.number_text import count_text
from stakes.reports.cost_section import cost_section
from stakes.reports.decisions_figure import decisions_figure
from stakes.reports.fit_figures import money_figure
from stakes.reports.fit_sentences import cost_words
from stakes.reports.fit_tables import interval_cell, ladder_table, money_table, settings_table
from stakes.reports.judged_recalibration import JudgedRecalibration
from stakes.reports.ladder_figure import ladder_figure
from stakes.reports.page import Cell, Column, Report, Section, Table
from stakes.reports.recalibration_figures import reliability_figure
from stakes.reports.recalibration_sentences import (
    recalibration_alarms,
    reliability_sentences,
    spread_and_error_ratio,
    today_words,
    worth_sentence,
)

__all__ = ["build_recalibration_report"]

_TARGETS_NAMED = 3  # in the title


def build_recalibration_report(fit: JudgedRecalibration) -> Report:
    """Everything on one page, what speaks against the correction first, then what it is worth.

    Args:
        fit: The recalibration that is reported.
    """
    named, more = fit.targets[:_TARGETS_NAMED], len(fit.targets) - _TARGETS_NAMED
    targets = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    cost = f"Cost: {cost_words(fit.cost_spec)}. " if fit.cost_spec else ""
    return Report(
        title=f"Decisions on {targets} from a forecast that exists",
        subtitle=f"{cost}Judged on {count_text(fit.cases, 'test case')}{_span(fit)} that taught nothing.",
        summary=(*recalibration_alarms(fit), worth_sentence(fit), *today_words(fit)),
        sections=tuple(_sections(fit)),
        provenance=fit.provenance,
    )


def _sections(fit: JudgedRecalibration) -> Iterator[Section]:
    if fit.ladder.tested:
        figure, table = ladder_figure(fit, fit.ladder, refitted=False), ladder_table(fit.ladder, fit.unit)
        yield Section("ladder", "What is each step worth?", (fit.ladder.reason,), (figure,), (table,))
    yield Section("ways", "What each way to decide costs", _doubts(fit), (money_figure(fit),), (money_table(fit),))
    reliability = reliability_figure(fit)
    yield Section(
        "reliability", reliability.title, reliability_sentences(fit), (reliability,), (_reliability_table(fit),)
    )
    figure = decisions_figure(fit)
    yield Section("decisions", figure.title, figures=(figure,))
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
