"""The report of a recalibration, one page: what was following the forecast worth, and what is correcting it?"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stakes.errors import SettingError
from stakes.evaluation.weight_frontier import LEAST_BLOCKS
from stakes.number_text import count_text
from stakes.reports.cost_section import cost_section
from stakes.reports.decisions_figure import decisions_figure
from stakes.reports.fit_figures import money_figure
from stakes.reports.fit_report import REPORT
from stakes.reports.fit_sentences import cost_words
from stakes.reports.fit_tables import interval_cell, ladder_table, money_table, settings_table
from stakes.reports.judged_recalibration import JudgedRecalibration
from stakes.reports.ladder_figure import ladder_figure
from stakes.reports.page import Cell, Column, Report, Section, Table, write_report
from stakes.reports.parts_section import parts_section
from stakes.reports.recalibration_figures import reliability_figure
from stakes.reports.recalibration_sentences import (
    reliability_sentences,
    spread_and_error_ratio,
    summary_sentences,
    taken_sentences,
)
from stakes.reports.target_names import folded_names, targets_text
from stakes.settings import to_plain
from stakes.training.model_folder import versions_here

if TYPE_CHECKING:
    from stakes.bundle.recalibration_folder import Recalibration

__all__ = ["build_recalibration_report", "judged_recalibration_of", "write_recalibration_report"]


def build_recalibration_report(fit: JudgedRecalibration) -> Report:
    """Everything on one page, what speaks against the correction first, then what it is worth.

    Args:
        fit: The recalibration that is reported.
    """
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
    """Write the report of a recalibration to FOLDER/report.html, recorded there, or to another file; returns where.

    Args:
        recalibration: The recalibration, with test cases.
        folder: Where it was saved.
        out: The other file; None for the folder's own.
    """
    from stakes.bundle.recalibration_folder import record_in_recalibration

    write_report(build_recalibration_report(judged_recalibration_of(recalibration)), out or folder / REPORT)
    if out is None:
        record_in_recalibration(folder, REPORT)
    return out or folder / REPORT


def judged_recalibration_of(recalibration: "Recalibration") -> JudgedRecalibration:
    """What the report tells of.

    Args:
        recalibration: The recalibration, with test cases.
    """
    if recalibration.judged is None:
        raise SettingError("there are no test cases to report of; recalibrate with more past cases")
    recalibrator, files = recalibration.recalibrator, ", ".join(each.file for each in recalibration.data)
    settings = {"layout": to_plain(recalibration.layout), **to_plain(recalibration.settings)}
    provenance = {
        "made": recalibration.created,
        "data": files,
        "learned from": _learned_from(recalibration),
        **(recalibration.versions or versions_here()),
    }
    return JudgedRecalibration(
        recalibration.judged,
        recalibrator.ladder_,
        recalibrator.state_.form,
        recalibrator.state_.targets,
        recalibrator.cost,
        recalibration.cost_spec,
        settings,
        {name: text for name, text in provenance.items() if text},
        recalibration.said,
    )


def _learned_from(recalibration: "Recalibration") -> str:
    span = recalibration.fitted
    when = "" if span.first is None else f" from {span.first} to {span.last}"
    return f"{count_text(span.cases, 'case')}{when}"


def _sections(fit: JudgedRecalibration) -> Iterator[Section]:
    if fit.ladder.tested:
        figure, table = (
            ladder_figure(fit, fit.ladder, refitted=False),
            ladder_table(fit.ladder, fit.unit, refitted=False),
        )
        yield Section("ladder", "What is each step worth?", taken_sentences(fit.ladder), (figure,), (table,))
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
