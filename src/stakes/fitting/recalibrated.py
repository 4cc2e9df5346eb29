"""What a recalibrated forecast decides for new forecasts, and what that was worth where outcomes are known."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.bundle.recalibration_folder import Recalibration, load_recalibration, recorded_cost
from stakes.cost_text.cost_on_record import cost_again
from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.case_labels import case_labels, in_utc, newest_cases, told_labels
from stakes.data.given_forecasts import GivenForecasts
from stakes.data.past_forecasts import read_new, with_todays_parts
from stakes.decision_notes import decision_notes
from stakes.decisions import decision_table
from stakes.evaluation.case_metrics import CaseMetrics, ensemble_metrics, part_by_part
from stakes.evaluation.headroom import resolved_block
from stakes.evaluation.unpaid_cases import constant_notes, hindsight_note, unpaid_notes
from stakes.files import content_digest
from stakes.fitting.decide import DecidedCases
from stakes.fitting.evaluate import Evaluation, alarms_of
from stakes.fitting.notes_on_cases import overlap_notes

__all__ = ["decide_recalibrated", "evaluate_recalibrated", "opened_for_its_cost", "report_recalibrated"]

Floats = NDArray[np.float64]


def decide_recalibrated(
    folder: Path,
    forecasts: Path,
    cost: str | None,
    levels: Sequence[float],
    last: bool = False,
    *,
    separator: str | None = None,
    encoding: str | None = None,
) -> DecidedCases:
    """The actions for new forecasts, corrected by what was learned from past ones.

    Args:
        folder: Of the recalibration.
        forecasts: The file of the new forecasts, as those of the past were given.
        cost: The cost in words; None takes that of the recalibration.
        levels: Levels of the quantiles in the table, between 0 and 1.
        last: Whether only the newest time, or the last row, is decided for.
        separator: The character between the fields of text files; None finds it out.
        encoding: The encoding of text files; None finds it out.
    """
    opened = _opened(folder, cost)
    given = read_new(opened.layout, forecasts, separator=separator, encoding=encoding)
    given = given.rows(newest_cases(given.index)) if last and given.index is not None else given
    assert given.index is not None
    members, weights = opened.recalibrator.state_.apply(given)
    decided = decision_table(
        opened.recalibrator.cost, members, case_labels(given.index), levels, weights, given.targets
    )
    if given.horizon is not None and "horizon" not in decided:
        decided.insert(given.index.nlevels, "horizon", given.horizon)
    told = () if cost is None else opened.cost_spec.outcome_notes(opened.recalibrator.cost, given.targets)
    notes = (*opened.notes, *given.notes, *told, *decision_notes(opened.recalibrator.cost, decided, members, weights))
    return DecidedCases(in_utc(decided), opened.cost_spec, notes)


def evaluate_recalibrated(
    folder: Path,
    forecasts: Path,
    outcomes: Path | None,
    cost: str | None,
    block: int | None = None,
    baseline_action: str | None = None,
    *,
    separator: str | None = None,
    encoding: str | None = None,
) -> Evaluation:
    """What the corrected forecasts were worth, the forecasts as they came and today's action beside them.

    Args:
        folder: Of the recalibration.
        forecasts: The file of the forecasts, and of their outcomes where they share a table.
        outcomes: The table of the outcomes where forecasts have a file of their own; None otherwise.
        cost: The cost in words; None takes that of the recalibration.
        block: How many neighbouring cases depend on each other; None tells by their times.
        baseline_action: The column of today's action; None takes that of the recalibration.
        separator: The character between the fields of text files; None finds it out.
        encoding: The encoding of text files; None finds it out.
    """
    opened = _opened(folder, cost)
    layout = replace(opened.layout, today=baseline_action or opened.layout.today)
    layout = with_todays_parts(layout, opened.recalibrator.cost, layout.targets)
    given = read_new(layout, forecasts, outcomes, judged=True, separator=separator, encoding=encoding)
    metrics = _metrics(opened, given)
    block = block or resolved_block(opened.settings.block, len(given), given.times)
    known = {each.sha256 for each in opened.data}
    same = any(content_digest(path) in known for path in (forecasts, outcomes) if path is not None)
    told = () if cost is None else opened.cost_spec.outcome_notes(opened.recalibrator.cost, given.targets)
    notes = (*opened.notes, *given.notes, *told, *overlap_notes(opened.fitted, given.times, len(given), same))
    unpaid = told_labels(metrics.unpaid.index[metrics.unpaid])
    notes = (*notes, *unpaid_notes(unpaid, len(metrics.outcomes)), _baseline_note(given.sites is not None))
    notes = (*notes, *constant_notes(metrics.chosen["climatology_cost"]))
    cases = metrics.table().rename(columns=lambda name: str(name).replace("weight_0_", "raw_"))
    alarms = alarms_of(metrics, block, opened.cost_spec, given.sites is not None)
    return Evaluation(
        metrics.summary(block), in_utc(cases), opened.cost_spec, block, notes, unpaid=unpaid, alarms=alarms
    )


def report_recalibrated(folder: Path, cost: str | None, out: Path | None = None) -> Path:
    """Write the report of a recalibration again; returns where it is.

    Args:
        folder: Of the recalibration.
        cost: The user's own cost, again, and no other; None takes the one on record.
        out: Another file than FOLDER/report.html; None for that.
    """
    from stakes.reports.recalibration_report import write_recalibration_report

    opened = opened_for_its_cost(folder, cost)
    with naming_own_cost(opened.recalibrator.cost):
        return write_recalibration_report(opened, folder, out)


def opened_for_its_cost(folder: Path, cost: str | None) -> Recalibration:
    """A recalibration with the cost that it was judged with.

    Args:
        folder: Of the recalibration.
        cost: The user's own cost, again, and no other; None takes the one on record.
    """
    return load_recalibration(folder, cost_again(recorded_cost(folder), cost))


def _baseline_note(each_site: bool) -> str:
    return f"baseline is the forecast as it came; {hindsight_note(each_site)}"


def _opened(folder: Path, cost: str | None) -> Recalibration:
    return load_recalibration(folder, None if cost is None else CostSpec.parse(cost))


def _metrics(opened: Recalibration, given: GivenForecasts) -> CaseMetrics:
    """Of the corrected forecasts, with those as they came in the place of weight 0."""
    assert given.index is not None
    assert given.outcomes is not None
    cost = opened.recalibrator.cost
    seen = pd.DataFrame(given.outcomes, case_labels(given.index), list(given.targets))
    members, weights = opened.recalibrator.state_.apply(given)
    raw_weights = np.ones(1) if given.is_point else given.weights
    with naming_own_cost(cost):
        corrected = CaseMetrics.of_ensemble(
            members, seen, cost, given.today, _weights_of(members, weights), given.sites
        )
        raw, _ = ensemble_metrics(given.members, given.outcomes, cost, weights=raw_weights)
    raw = {name: values[~corrected.unpaid.to_numpy()] for name, values in raw.items()}
    ratio = np.sqrt((1 + 1 / given.members.shape[1]) / (1 + 1 / members.shape[1]))  # comparable with so many members
    beside = {"climatology_cost": corrected.chosen["climatology_cost"], "spread": ratio * raw["spread"]}
    return replace(corrected, weight_0=part_by_part(raw, cost, given.targets) | beside)


def _weights_of(members: Floats, weights: Floats | None) -> Floats | None:
    """Those of the members; a single one, of which nothing else has a score, weighs all."""
    return np.ones(1) if weights is None and members.shape[1] == 1 else weights
