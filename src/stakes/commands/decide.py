"""`stakes decide`: new data and a fitted forecaster, or an ensemble and a cost, to the action of every case."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from stakes.commands.arguments import Files
from stakes.commands.member_files import members_of, require_targets
from stakes.cost_text.written_cost import CostSpec
from stakes.data.case_labels import case_labels, in_utc
from stakes.data.members import MembersFile
from stakes.data.quality import left_out_notes
from stakes.data.tables import read_table, zone_notes
from stakes.decisions import decisions, uncertified
from stakes.errors import SettingError
from stakes.fitting.notes import unlike_the_fit

__all__ = ["Decisions", "decide", "decide_folder", "decide_members"]


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
    from stakes.bundle.open_fit import layout_of, open_folder  # not needed where there are members already

    bundle = open_folder(folder, cost)
    layout = layout_of(bundle, folder)
    inputs = layout.inputs(table)
    forecaster = bundle.forecaster
    found = decisions(forecaster.cost, forecaster.sample(inputs.features), inputs.features.index, levels)
    notes = (
        *bundle.notes,
        *zone_notes(table, layout.time),
        *left_out_notes(inputs.quality),
        *unlike_the_fit(bundle.about, layout, inputs.quality),
        *uncertified(found),
    )
    return Decisions(in_utc(found), bundle.cost_spec, notes)


def decide_members(found: MembersFile, spec: CostSpec, levels: Sequence[float]) -> Decisions:
    """The actions of least expected cost over the members, without any fitting."""
    doubts = spec.doubts(found.members.reshape(-1, found.members.shape[2]))
    table = decisions(spec.build(), found.members, case_labels(found.index), levels)
    return Decisions(in_utc(table), spec, (*found.notes, *doubts, *uncertified(table)))
