"""What a forecaster, or an ensemble, was worth where the outcomes are known, as `stakes evaluate` tells it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.case_labels import case_labels, in_utc, told_labels
from stakes.data.members import MembersFile
from stakes.data.quality import left_out_notes
from stakes.data.table_columns import zone_notes
from stakes.evaluation.case_metrics import CaseMetrics
from stakes.evaluation.forecast_table import todays_notes
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.intervals import Resampling
from stakes.evaluation.unpaid_cases import constant_notes, hindsight_note, unpaid_notes, unpaid_today_notes
from stakes.evaluation.weight_frontier import LEAST_BLOCKS
from stakes.fitting.notes_on_cases import part_of_fit_notes, unlike_fit_notes
from stakes.reports.change_words import cheaper_sentence

__all__ = ["Evaluation", "alarms_of", "evaluate_folder", "evaluate_members"]

_ROUNDING = 1e-9  # of the cost


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics with their 95 % intervals, and every case.

    Attributes:
        table: One row per metric.
        cases: One row per case.
        cost: The cost in words; None where the fit kept none.
        block: How many neighbouring cases depend on each other.
        notes: Sentences for the user about the cases and the cost.
        subject: What was judged, where its folder alone does not say it; empty otherwise.
        unpaid: The times or names of cases that are not judged, because their cost is infinite.
        alarms: Sentences about simple ways to decide that would have been cheaper.
    """

    table: pd.DataFrame
    cases: pd.DataFrame
    cost: CostSpec | None
    block: int
    notes: tuple[str, ...] = ()
    subject: str = ""
    unpaid: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the table is of."""
        unit = f", cost in {self.cost.unit}" if self.cost is not None and self.cost.unit else ""
        drawn = f"blocks of {self.block} neighbours" if self.block > 1 else "single cases"
        subject = f"{self.subject}: " if self.subject else ""
        judged = f"{len(self.cases)} case{'s' if len(self.cases) > 1 else ''}"
        if self.unpaid:
            judged = f"means of the {len(self.cases)} of {len(self.cases) + len(self.unpaid)} cases of finite cost"
        intervals = f"95 % intervals from {drawn}" if len(self.cases) > 1 else "too few for intervals"
        return f"{subject}{judged}, {intervals}{unit}"

    def record(self) -> dict[str, Any]:
        """The table for machines."""
        return {
            "subject": self.subject,
            "cost": None if self.cost is None else str(self.cost),
            "unit": self.cost.unit if self.cost is not None else "",
            "cases": len(self.cases),
            "unpaid_cases": self.unpaid,
            "block": self.block,
            "notes": self.notes,
            "alarms": self.alarms,
            "metrics": self.table,
        }


def alarms_of(cases: CaseMetrics, block: int, spec: CostSpec | None, each_site: bool = False) -> tuple[str, ...]:
    """Why not to follow the forecast: climatology was cheaper, even if by chance, or today's actions beyond doubt.

    Args:
        cases: What was measured of every case.
        block: How many neighbouring cases depend on each other.
        spec: The cost in words; None where it is not known.
        each_site: Whether each site has a constant action of its own.
    """
    cost, unit = cases.chosen["cost"], "" if spec is None else spec.unit
    resampling = Resampling(len(cost), block=min(block, len(cost)))
    constant = "one action per site for all its cases" if each_site else "one action for all cases"
    rivals = {"today's actions": None if cases.today is None else cases.today["cost"]}
    rivals[constant] = cases.chosen["climatology_cost"]
    said = []
    for who, rival in rivals.items():
        if rival is None or not np.isfinite(rival).any():
            continue
        ours, theirs = sides = resampling.pair(cost[None, None], rival[None, None])
        change = (ours - theirs).interval()
        proven = change.low > 0 and np.isfinite(rival).sum() >= LEAST_BLOCKS * resampling.block
        if proven or (who == constant and change.mean > _ROUNDING * abs(ours.estimate)):
            said.append(cheaper_sentence(who, "these cases", sides, unit, bool(proven)))
    return tuple(said)


def evaluate_folder(
    folder: Path,
    table: pd.DataFrame,
    cost: str | None,
    block: int | None = None,
    sha256: str | None = None,
    baseline_action: str | None = None,
    cost_parameter: str | None = None,
) -> Evaluation:
    """A fitted forecaster on a table with outcomes; weight 0 and today's action beside it where they are known.

    Args:
        folder: Of the fit.
        table: With the columns of the fit, and the outcomes.
        cost: The cost in words; None takes that of the fit.
        block: How many neighbouring cases depend on each other; None tells by their times.
        sha256: Of the table's file, by which the table of the fit itself is known.
        baseline_action: The column of today's action; None takes that of the fit.
        cost_parameter: Which decision maker each case belongs to, where the cost has a range: "penalty=5", or
            "penalty=COLUMN"; None spreads the cases over the range.
    """
    from stakes.bundle.open_fit import layout_of, open_folder
    from stakes.fitting.case_parameters import case_parameters, spread_note
    from stakes.fitting.judge_forecaster import judge_forecaster  # not needed where there are members already

    bundle = open_folder(folder, cost)
    layout = layout_of(bundle, folder)
    layout = replace(layout, baseline_action=baseline_action or layout.baseline_action)
    cases = layout.cases(table)
    cost_of_fit = bundle.forecaster.cost
    given = case_parameters(cost_of_fit, cost_parameter, table, layout, cases.features.index, needed=False)
    with naming_own_cost(cost_of_fit):
        judgement = judge_forecaster(bundle.forecaster, cases, given)
    block = block or judgement.block
    told = bundle.cost_spec.outcome_notes(cost_of_fit, layout.targets) if cost and bundle.cost_spec else ()
    notes = (
        *bundle.notes,
        *told,
        *(spread_note(cost_of_fit) if given is None else ()),
        *zone_notes(table, layout.time),
        *left_out_notes(cases.quality),
        *part_of_fit_notes(bundle.about, cases, sha256),
        *unlike_fit_notes(bundle.about, layout, cases.quality),
        *todays_notes(cost_of_fit, cases.baseline_action, len(layout.targets)),
    )
    metrics = judgement.metrics
    alarms = alarms_of(metrics, block, bundle.cost_spec)
    return Evaluation(judgement.table(block), in_utc(metrics.table()), bundle.cost_spec, block, notes, alarms=alarms)


def evaluate_members(
    ensemble: MembersFile,
    outcomes: pd.DataFrame,
    spec: CostSpec,
    block: int | None = None,
    baseline_action: NDArray[np.float64] | None = None,
) -> Evaluation:
    """An ensemble of at least two members on the outcomes of its cases, of which some are known.

    Args:
        ensemble: The members of each case.
        outcomes: The outcomes of the same cases, NaN where they are not known.
        spec: The cost.
        block: How many neighbouring cases depend on each other; None for as many as depend on each other.
        baseline_action: Today's action (N,), NaN where it is not known; None where it never is.
    """
    order = np.argsort(ensemble.index.get_level_values(0), kind="stable")
    sites = None if ensemble.site_of_case is None else ensemble.site_of_case[order]
    seen = pd.DataFrame(outcomes.to_numpy()[order], case_labels(ensemble.index[order]), outcomes.columns)
    action = None if baseline_action is None else baseline_action[order]
    cost = spec.build()
    with naming_own_cost(cost):
        cases = CaseMetrics.of_ensemble(ensemble.members[order], seen, cost, action, ensemble.weights, sites)
    index = cases.outcomes.index
    unpaid = told_labels(cases.unpaid.index[cases.unpaid])
    left_out = len(order) - len(cases.unpaid)
    missing = (f"{left_out} of {len(order)} cases have no outcome and are left out",) if left_out else ()
    moments = index.get_level_values(0)
    block = block or automatic_block(moments.to_numpy() if isinstance(moments, pd.DatetimeIndex) else len(index))
    notes = (
        *ensemble.notes,
        *missing,
        *unpaid_notes(unpaid, len(index)),
        *spec.doubts(cases.outcomes.to_numpy(), list(cases.outcomes.columns)),
        *todays_notes(cost, action, len(outcomes.columns)),
        *unpaid_today_notes(None if cases.today is None else cases.today["cost"]),
        *(constant_notes(cases.chosen["climatology_cost"]) or (hindsight_note(sites is not None),)),
    )
    alarms = alarms_of(cases, block, spec, sites is not None)
    return Evaluation(cases.summary(block), in_utc(cases.table()), spec, block, notes, unpaid=unpaid, alarms=alarms)
