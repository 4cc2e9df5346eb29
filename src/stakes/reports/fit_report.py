"""The report of a fit, one page: what is each candidate worth, and can the forecast be trusted?"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stakes.costs.parameter_column import ranged_parameter
from stakes.evaluation.intervals import LEAST_BLOCKS
from stakes.evaluation.selection import Frontier, candidate_words
from stakes.evaluation.study import Study
from stakes.reports.comparison import JudgedFit
from stakes.reports.figures import decisions_figure, selection_figure
from stakes.reports.fit_figures import (
    calibration_figure,
    case_groups,
    case_groups_figure,
    frontier_figure,
    money_figure,
)
from stakes.reports.fit_sentences import (
    alarm_sentences,
    calibration_sentences,
    cost_words,
    headroom_sentences,
    plain_cost_sentences,
    quality_sentences,
    seed_sentence,
    today_sentence,
    verdict,
    weight_sentence,
)
from stakes.reports.fit_tables import (
    calibration_table,
    case_groups_table,
    columns_table,
    frontier_table,
    left_out_table,
    money_table,
    selection_table,
    settings_table,
)
from stakes.reports.page import Report, Section, write_report
from stakes.reports.sections import cost_section, decision_makers_section, parts_section, spread_sentence
from stakes.text import count_text

if TYPE_CHECKING:
    from stakes.artifacts.fits import Bundle


_MOST_NAMED = 3


def targets_text(names: Sequence[str], what: str = "target") -> str:
    """The names of a few targets, or how many there are.

    >>> targets_text(["north", "south"]), targets_text([f"farm {place}" for place in range(60)], "site")
    ('north, south', '60 sites')
    """
    return count_text(len(names), what) if len(names) > _MOST_NAMED else ", ".join(names)


def folded_names(names: Sequence[str], what: str = "target") -> dict[str, tuple[str, ...]]:
    """The names of all, under what unfolds them, where `targets_text` leaves them out."""
    return {f"The {targets_text(names, what)}": tuple(names)} if len(names) > _MOST_NAMED else {}


REPORT = "report.html"
_EVALUATION = "evaluation"


def build_fit_report(fit: JudgedFit) -> Report:
    """Everything on one page, what speaks against the forecast first, then the answer."""
    answer, *why = verdict(fit)
    cost = f"Cost: {cost_words(fit.cost_spec)}. " if fit.cost_spec else ""
    return Report(
        title=f"Decisions on {targets_text(fit.targets) or 'the outcome'}",
        subtitle=f"{cost}Judged on {count_text(fit.cases, 'test case')}{_span(fit)} that training has not seen.",
        summary=(
            *alarm_sentences(fit),
            answer,
            *plain_cost_sentences(fit),
            *spread_sentence(fit.cost_spec),
            *today_sentence(fit),
            *seed_sentence(fit),
        ),
        sections=tuple(_sections(fit, why)),
        provenance=fit.provenance,
        folded=folded_names(fit.targets),
    )


def write_fit_report(fit: JudgedFit, folder: Path, out: Path | None = None) -> Path:
    """Write the report of a fit to FOLDER/report.html, recorded with its bundle, or to another file; returns where."""
    from stakes.artifacts.folder import record_file

    write_report(build_fit_report(fit), out or folder / REPORT)
    if out is None:
        record_file(folder, REPORT)
    return out or folder / REPORT


def judged_fit_of(bundle: "Bundle", folder: Path) -> JudgedFit:
    """What the report tells of, from a bundle and the evaluation beside it."""
    from stakes.artifacts.folder import errors_name

    bundle.require_recorded(_EVALUATION)
    study, forecaster = Study.load(folder / _EVALUATION), bundle.forecaster
    with errors_name(folder / "bundle.json"):
        return JudgedFit.from_about(
            study, forecaster.cost, bundle.cost_spec, forecaster.frontier_, bundle.about, forecaster.selection_
        )


def _span(fit: JudgedFit) -> str:
    times = fit.times
    return "" if times is None else f" from {_day(times[0])} to {_day(times[-1])}"


def _sections(fit: JudgedFit, why: list[str]) -> Iterator[Section]:
    if fit.selection is not None:
        figure, table = selection_figure(fit, fit.selection), selection_table(fit.selection, fit.unit)
        yield Section("selection", "What is each step worth?", tuple(why), (figure,), (table,))
        why = []
    yield Section(
        "verdict",
        "What each way to decide costs" if fit.weightless else "Does decision-aware training pay here?",
        (*why, *weight_sentence(fit), *headroom_sentences(fit), *_doubts(fit)),
        (money_figure(fit),),
        (money_table(fit),),
    )
    ranged = ranged_parameter(fit.cost)
    if fit.by_parameter and ranged is not None:
        yield decision_makers_section(fit, ranged)
    if fit.frontier is not None and len(fit.frontier.points) > 1:  # else every weight forecasts the same
        yield _weights_section(fit, fit.frontier)
    yield Section(
        "calibration",
        "Does the forecast know what its decisions cost?",
        calibration_sentences(fit),
        (calibration_figure(fit),),
        (calibration_table(fit),),
    )
    if fit.judged_parts is not None:
        yield parts_section(fit, fit.judged_parts)
    figure = decisions_figure(fit)
    yield Section("decisions", figure.title, figures=(figure,))
    if groups := case_groups(fit):
        figure, table = case_groups_figure(fit, groups), case_groups_table(fit, groups)
        yield Section("parts", "Where it is cheap and where expensive", (), (figure,), (table,))
    yield cost_section(fit.cost, fit.outcomes, fit.cost_spec, fit.settings, fit.targets)
    if fit.quality is not None:
        tables = (left_out_table(fit.quality),) if fit.quality.left_out else ()
        yield Section("data", "Data", quality_sentences(fit), (), (*tables, columns_table(fit.quality)))
    if fit.settings:
        yield Section("settings", "Settings", (), (), (settings_table(fit.settings),))


def _weights_section(fit: JudgedFit, frontier: Frontier) -> Section:
    """What each decision weight costs against weight 0, or against the candidate that was selected before them."""
    tried = (
        [candidate for candidate in fit.selection.candidates if candidate.name == "decision"]
        if fit.selection is not None
        else []
    )
    base = "" if not tried or tried[0].below is None else candidate_words(tried[0].below)
    harmless = "" if frontier.tolerance is None else "that hardly harm the score and "
    held = f"0 stands for the candidate selected before, {base}" if base else "0 trains the score alone"
    text = (
        f"A decision weight trades the forecast's score for the cost of its decisions: {held}. Among the "
        f"weights {harmless}whose cost is below that of {base or 'weight 0'} beyond doubt, the cheapest is selected, "
        "or the smallest that is about as cheap. The intervals shown are those of each weight alone; the test is of "
        "all weights at once and stricter, since the more weights are tried, the more seem cheaper by chance."
    )
    figure = frontier_figure(frontier, fit.unit, fit.settings, base)
    return Section("weights", "What each weight costs", (text,), (figure,), (frontier_table(frontier, fit.unit, base),))


def _doubts(fit: JudgedFit) -> tuple[str, ...]:
    if fit.believed:
        return ()
    return (
        f"Neighbouring cases are kept together in blocks of {fit.study.block}: {count_text(fit.cases, 'test case')} "
        f"are too few for intervals, which need {LEAST_BLOCKS} blocks, so none are given.",
    )


def _day(time: np.datetime64) -> str:
    return str(np.datetime_as_string(time, "D"))
