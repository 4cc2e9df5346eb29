"""`stakes evaluate`: what a forecaster, or an ensemble, was worth where the outcomes are known."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.actions import optimal_action
from stakes.checks import require_count
from stakes.commands.cases import CaseMetrics, judged
from stakes.commands.reading import blaming, case_labels, layout_of, left_out, open_folder
from stakes.cost_specs import CostSpec
from stakes.costs import Cost
from stakes.data.members import read_members, read_outcomes
from stakes.data.tables import TableError, read_table
from stakes.errors import SettingError
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.metrics import Assessor

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
    members: Path | None,
    outcomes: Path | None,
    cost: str | None,
    *,
    block: int | None = None,
    target: tuple[str, ...] = (),
    time: str | None = None,
    variable: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> Evaluation:
    """Either of the two below, by what is given."""
    if block is not None:
        require_count("block", block)
    if members is None:
        if folder is None or data is None:
            raise SettingError("evaluate needs FOLDER and DATA, or --members, --outcomes and --cost")
        if outcomes is not None or target or time is not None or variable is not None:
            raise SettingError("--outcomes, --target, --time and --variable belong to --members, not to a folder")
        return evaluate_folder(folder, read_table(data, separator=separator, encoding=encoding), cost, block)
    if folder is not None:
        raise SettingError(f"evaluate takes --members or a folder, not both; got {str(folder)!r} besides --members")
    if outcomes is None or cost is None:
        raise SettingError(f"--members needs {'--outcomes' if outcomes is None else '--cost'} too")
    return evaluate_members(members, outcomes, CostSpec.parse(cost), block, target, time, variable)


def evaluate_folder(folder: Path, table: pd.DataFrame, cost: str | None, block: int | None = None) -> Evaluation:
    """A fitted forecaster on a table with outcomes; weight 0 and today's action beside it where they are known."""
    bundle = open_folder(folder, cost)
    cases = layout_of(bundle, folder).cases(table)
    with blaming(bundle.forecaster.cost):
        found = judged(bundle.forecaster, cases)
    block = block or automatic_block(len(cases) if cases.times is None else cases.times)
    notes = (*bundle.notes, *left_out(cases.quality))
    return Evaluation(found.summary(block), found.table(), bundle.cost_spec, block, notes)


def evaluate_members(
    members: Path,
    outcomes: Path,
    spec: CostSpec,
    block: int | None = None,
    target: tuple[str, ...] = (),
    time: str | None = None,
    variable: str | None = None,
) -> Evaluation:
    """An ensemble on the outcomes of its cases, matched by their time or label."""
    found = read_members(members, time=time, variable=variable)
    if found.members.shape[1] < 2:
        raise TableError(f"{str(members)!r} has one member a case; the scores and the spread need at least two")
    seen = read_outcomes(outcomes, found, time=time, targets=target or None)
    known = ~seen.isna().any(axis=1).to_numpy()
    if not known.any():
        raise TableError(f"{str(outcomes)!r} has no outcome of the members' cases that is not missing")
    missing = () if known.all() else (f"{(~known).sum()} of {len(known)} cases have no outcome and are left out",)
    order = np.flatnonzero(known)[np.argsort(found.index[known], kind="stable")]
    index, values = case_labels(found.index[order]), seen.to_numpy()[order]
    doubts = spec.doubts(values)
    cost = spec.build()
    with blaming(cost):
        metrics = _metrics(cost, found.members[order], values)
    judged_cases = CaseMetrics(pd.DataFrame(values, index, seen.columns), metrics, found.members.shape[1])
    block = block or automatic_block(index.to_numpy() if isinstance(index, pd.DatetimeIndex) else len(index))
    notes = (*found.notes, *missing, *doubts, _HINDSIGHT)
    return Evaluation(judged_cases.summary(block), judged_cases.table(), spec, block, notes)


def _metrics(cost: Cost, members: ArrayLike, outcomes: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Metrics by name, each (N,); the constant action is the best one in hindsight."""
    samples, outcome = (torch.as_tensor(np.asarray(values, dtype=np.float64)) for values in (members, outcomes))
    constant = optimal_action(cost, outcome[None]).expand(len(outcome), 1)
    found = {**Assessor(cost)(samples, outcome), "climatology_cost": cost(constant, outcome)}
    return {name: values.double().numpy() for name, values in found.items() if values.dim() == 1}
