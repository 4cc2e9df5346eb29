"""`stakes evaluate`: what a forecaster, or an ensemble, was worth where the outcomes are known."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.commands.arguments import Files
from stakes.commands.member_files import members_of
from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.case_labels import case_labels, in_utc
from stakes.data.members import MembersFile, read_outcomes
from stakes.data.quality import left_out_notes
from stakes.data.table_columns import zone_notes
from stakes.data.tables import read_table
from stakes.errors import SettingError, TableError
from stakes.evaluation.case_metrics import CaseMetrics
from stakes.evaluation.forecast_table import todays_cost
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.metrics import Assessor
from stakes.files import content_digest
from stakes.fitting.notes import part_of_the_fit, unlike_the_fit
from stakes.method.actions import optimal_action
from stakes.method.argument_checks import require_count
from stakes.method.costs import Cost

__all__ = ["Evaluation", "evaluate", "evaluate_folder", "evaluate_members"]

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


def evaluate(
    folder: Path | None,
    data: Path | None,
    files: Files,
    outcomes: Path | None,
    cost: str | None,
    target: tuple[str, ...] = (),
    *,
    baseline_action: str | None = None,
    block: int | None = None,
) -> Evaluation:
    """Either of the two below, by what is given."""
    if block is not None:
        require_count("block", block)
    if files.members is None:
        if folder is None or data is None:
            raise SettingError("evaluate needs FOLDER and DATA, or --members, --outcomes and --cost")
        if outcomes is not None or target or files.describes_members:
            raise SettingError(
                "--outcomes, --target, --columns, --time and --variable belong to --members, not to a folder"
            )
        table = read_table(data, **files.text)
        return evaluate_folder(folder, table, cost, block, content_digest(data), baseline_action)
    if folder is not None:
        raise SettingError(f"evaluate takes --members or a folder, not both; got {str(folder)!r} besides --members")
    if outcomes is None or cost is None:
        raise SettingError(f"--members needs {'--outcomes' if outcomes is None else '--cost'} too")
    spec = CostSpec.parse(cost)
    found = members_of(files, target)
    if found.members.shape[1] < 2:
        raise TableError(f"{str(files.members)!r} has one member a case; the scores and the spread need at least two")
    named = None if target in ((), found.targets) else target
    seen = read_outcomes(outcomes, found, targets=named, time=files.time, **files.text)
    if seen.isna().any(axis=1).all():
        raise TableError(f"{str(outcomes)!r} has no outcome of the members' cases that is not missing")
    action = None
    if baseline_action is not None:  # a column of the outcomes, found as these are
        wanted = replace(found, targets=(baseline_action,))
        column = read_outcomes(outcomes, wanted, targets=wanted.targets, time=files.time, **files.text)
        action = column[baseline_action].to_numpy()
    return evaluate_members(found, seen, spec, block, action)


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
    from stakes.bundle.open_fit import layout_of, open_folder  # not needed where there are members already
    from stakes.fitting.judgement import judge_fit

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
