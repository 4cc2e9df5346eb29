"""What a forecaster, or an ensemble, was worth where the outcomes are known, as `stakes evaluate` tells it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.case_labels import case_labels, in_utc
from stakes.data.members import MembersFile
from stakes.data.quality import left_out_notes
from stakes.data.table_columns import zone_notes
from stakes.evaluation.case_metrics import CaseMetrics
from stakes.evaluation.forecast_table import todays_cost
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.metrics import Assessor
from stakes.fitting.notes import part_of_the_fit, unlike_the_fit
from stakes.method.actions import optimal_action
from stakes.method.costs import Cost

__all__ = ["Evaluation", "evaluate_folder", "evaluate_members"]

_HINDSIGHT = "climatology_cost is that of the constant action which was best for these very outcomes"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics with their 95 % intervals, and every case."""

    table: pd.DataFrame
    cases: pd.DataFrame
    cost: CostSpec | None
    block: int
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the table is of."""
        unit = f", cost in {self.cost.unit}" if self.cost is not None and self.cost.unit else ""
        drawn = f"blocks of {self.block} neighbours" if self.block > 1 else "single cases"
        return f"{len(self.cases)} cases, 95 % intervals from {drawn}{unit}"

    def record(self) -> dict[str, Any]:
        """The table for machines."""
        return {
            "cost": None if self.cost is None else str(self.cost),
            "unit": self.cost.unit if self.cost is not None else "",
            "cases": len(self.cases),
            "block": self.block,
            "notes": self.notes,
            "metrics": self.table,
        }


def evaluate_folder(
    folder: Path,
    table: pd.DataFrame,
    cost: str | None,
    block: int | None = None,
    sha256: str | None = None,
    baseline_action: str | None = None,
) -> Evaluation:
    """A fitted forecaster on a table with outcomes; weight 0 and today's action beside it where they are known.

    `sha256` is that of the table's file, by which the table of the fit itself is known. `baseline_action` names the
    column of today's action, by default that of the fit.
    """
    from stakes.bundle.open_fit import layout_of, open_folder
    from stakes.fitting.judgement import judge_fit  # not needed where there are members already

    bundle = open_folder(folder, cost)
    layout = layout_of(bundle, folder)
    layout = replace(layout, baseline_action=baseline_action or layout.baseline_action)
    cases = layout.cases(table)
    with naming_own_cost(bundle.forecaster.cost):
        found = judge_fit(bundle.forecaster, cases)
    block = block or found.block
    notes = (
        *bundle.notes,
        *zone_notes(table, layout.time),
        *left_out_notes(cases.quality),
        *part_of_the_fit(bundle.about, cases, sha256),
        *unlike_the_fit(bundle.about, layout, cases.quality),
    )
    return Evaluation(found.table(block), in_utc(found.metrics.table()), bundle.cost_spec, block, notes)


def evaluate_members(
    found: MembersFile,
    outcomes: pd.DataFrame,
    spec: CostSpec,
    block: int | None = None,
    baseline_action: NDArray[np.float64] | None = None,
) -> Evaluation:
    """An ensemble of at least two members on the outcomes of its cases, of which some are known.

    `baseline_action` (N,) is today's action, NaN where it is not known.
    """
    known = ~outcomes.isna().any(axis=1).to_numpy()
    missing = () if known.all() else (f"{(~known).sum()} of {len(known)} cases have no outcome and are left out",)
    order = np.flatnonzero(known)[np.argsort(found.index[known], kind="stable")]
    index, values = case_labels(found.index[order]), outcomes.to_numpy()[order]
    doubts = spec.doubts(values)
    cost = spec.build()
    with naming_own_cost(cost):
        metrics = _metrics(cost, found.members[order], values)
        today = None
        if baseline_action is not None:
            action = baseline_action[order]
            today = {"action": action, "cost": todays_cost(cost, action, torch.from_numpy(values))}
    named = pd.DataFrame(values, index, outcomes.columns)
    judged_cases = CaseMetrics(named, metrics, found.members.shape[1], today=today)
    block = block or automatic_block(index.to_numpy() if isinstance(index, pd.DatetimeIndex) else len(index))
    notes = (*found.notes, *missing, *doubts, _HINDSIGHT)
    return Evaluation(judged_cases.summary(block), in_utc(judged_cases.table()), spec, block, notes)


def _metrics(cost: Cost, members: ArrayLike, outcomes: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Metrics by name, each (N,); the constant action is the best one in hindsight."""
    samples, outcome = (torch.as_tensor(np.asarray(values, dtype=np.float64)) for values in (members, outcomes))
    constant = optimal_action(cost, outcome[None]).expand(len(outcome), 1)
    found = {**Assessor(cost)(samples, outcome), "climatology_cost": cost(constant, outcome)}
    return {name: values.double().numpy() for name, values in found.items() if values.dim() == 1}
