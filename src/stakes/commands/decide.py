"""`stakes decide`: new data and a fitted forecaster, or an ensemble and a cost, to the action of every case."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from stakes.commands.arguments import Files
from stakes.commands.fit_notes import unlike_the_fit
from stakes.commands.reading import (
    blaming,
    case_labels,
    in_utc,
    layout_of,
    left_out,
    members_of,
    open_folder,
    require_targets,
)
from stakes.cost_specs import CostSpec
from stakes.data.members import MembersFile
from stakes.data.tables import read_table, zone_notes
from stakes.errors import SettingError
from stakes.evaluation.case_metrics import require_finite_costs
from stakes.evaluation.metrics import Assessor
from stakes.method.actions import solve_action
from stakes.method.costs import Cost

__all__ = ["Decisions", "decide", "decide_folder", "decide_members", "decisions", "uncertified"]

_NUMBERS_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class Decisions:
    """One row a case, its time or row first, and what is good to know about them."""

    table: pd.DataFrame
    cost: CostSpec | None
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        unit, action_unit = (self.cost.unit, self.cost.action_unit) if self.cost else ("", "")
        return {
            "cost": None if self.cost is None else str(self.cost),
            "unit": unit,
            "action_unit": action_unit,
            "cases": len(self.table),
            "uncertified": int((~self.table["certified"]).sum()),
            "notes": self.notes,
            "rows": self.table,
        }


def decide(
    folder: Path | None,
    data: Path | None,
    files: Files,
    cost: str | None,
    levels: Sequence[float],
    target: tuple[str, ...] = (),
) -> Decisions:
    """Either of the two below, by what is given."""
    for level in levels:
        if not 0 < level < 1:
            raise SettingError(f"quantiles must lie between 0 and 1, got {level:g}")
    if files.members is None:
        if folder is None or data is None:
            raise SettingError("decide needs FOLDER and NEWDATA, or --members and --cost")
        if target or files.describes_members:
            raise SettingError(
                "--target, --columns, --time and --variable belong to --members; the folder knows its own columns"
            )
        return decide_folder(folder, read_table(data, **files.text), cost, levels)
    if folder is not None:
        raise SettingError(f"decide takes --members or a folder, not both; got {str(folder)!r} besides --members")
    if cost is None:
        raise SettingError("--members needs --cost, as in --cost imbalance:short=10,long=1,upper=150")
    spec = CostSpec.parse(cost)
    found = members_of(files, target)
    require_targets(found, target, files.members)
    return decide_members(found, spec, levels)


def decide_folder(folder: Path, table: pd.DataFrame, cost: str | None, levels: Sequence[float]) -> Decisions:
    """The actions of a fitted forecaster for every row, or target time, whose features are there."""
    bundle = open_folder(folder, cost)
    layout = layout_of(bundle, folder)
    inputs = layout.inputs(table)
    forecaster = bundle.forecaster
    found = decisions(forecaster.cost, forecaster.sample(inputs.features), inputs.features.index, levels)
    notes = (
        *bundle.notes,
        *zone_notes(table, layout.time),
        *left_out(inputs.quality),
        *unlike_the_fit(bundle.about, layout, inputs.quality),
        *uncertified(found),
    )
    return Decisions(in_utc(found), bundle.cost_spec, notes)


def decide_members(found: MembersFile, spec: CostSpec, levels: Sequence[float]) -> Decisions:
    """The actions of least expected cost over the members, without any fitting."""
    doubts = spec.doubts(found.members.reshape(-1, found.members.shape[2]))
    table = decisions(spec.build(), found.members, case_labels(found.index), levels)
    return Decisions(in_utc(table), spec, (*found.notes, *doubts, *uncertified(table)))


def uncertified(table: pd.DataFrame) -> tuple[str, ...]:
    """A note where some decisions of a table have no certificate."""
    count = int((~table["certified"]).sum())
    known = f"{count} of {len(table)} decisions are not certified: they may not be the best, see the column certified"
    return (known,) if count else ()


def decisions(cost: Cost, members: ArrayLike, index: "pd.Index[Any]", levels: Sequence[float]) -> pd.DataFrame:
    """Members (N, M, D) to a table: action, expected cost, certificate, and quantiles of what the decision is about."""
    samples = torch.as_tensor(np.asarray(members))
    size = max(1, _NUMBERS_AT_ONCE // (samples.shape[1] * samples.shape[2]))
    with blaming(cost):
        parts = [_part(cost, part, levels) for part in samples.split(size)]
    return pd.concat(parts, ignore_index=True).set_axis(index).reset_index()


def _part(cost: Cost, samples: torch.Tensor, levels: Sequence[float]) -> pd.DataFrame:
    solution = solve_action(cost, samples)
    require_finite_costs(solution.expected_cost.double().numpy())
    action = solution.action[..., 0]
    low, high = (torch.as_tensor(bound).to(action) for bound in (cost.lower, cost.upper))
    columns = {
        "action": action,
        "expected_cost": solution.expected_cost,
        "at_lower_bound": ~solution.interior & (action <= low),
        "at_upper_bound": ~solution.interior & (action >= high),
        "certified": solution.converged,
    }
    total = Assessor(cost).total(samples).numpy()
    quantiles = np.quantile(total, levels, axis=1, method="hazen") if levels else np.empty((0, len(total)))
    columns |= {f"quantile_{level:g}": values for level, values in zip(levels, quantiles, strict=True)}
    return pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})
