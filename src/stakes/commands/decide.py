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
from stakes.data.table_columns import zone_notes
from stakes.data.tables import read_table
from stakes.decisions import decision_table, uncertified_notes
from stakes.errors import SettingError
from stakes.fitting.notes import unlike_the_fit

__all__ = ["DecidedCases", "decide", "decide_folder"]


@dataclass(frozen=True, eq=False)
class DecidedCases:
    """The decisions of a run of `stakes decide`.

    Attributes:
        table: One row per case, its time or row first; see `stakes.decisions.decision_table`.
        cost: The cost that is decided for, in words; None where the fit kept none.
        notes: Sentences for the user about the data and the decisions.
    """

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
) -> DecidedCases:
    """Decide for new data with a fitted forecaster, or for an ensemble from a file, by what is given.

    Args:
        folder: Of a fit; None with members.
        data: The table of what is known now, for the fit; None with members.
        files: How text files are read, and the file of members with its columns; its `members` is None with a folder.
        cost: The cost in words; with a folder None takes that of the fit.
        levels: Levels of the quantiles in the table, between 0 and 1.
        target: Which columns of a file of members are outcomes; () takes the only one there is.
    """
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
    ensemble = members_of(files, target)
    require_targets(ensemble, target, files.members)
    return _decide_members(ensemble, spec, levels)


def decide_folder(folder: Path, table: pd.DataFrame, cost: str | None, levels: Sequence[float]) -> DecidedCases:
    """The actions of a fitted forecaster for every row, or target time, whose features are there.

    Args:
        folder: Of the fit.
        table: What is known now, with the columns of the fit.
        cost: The cost in words; None takes that of the fit.
        levels: Levels of the quantiles in the table, between 0 and 1.
    """
    from stakes.bundle.open_fit import layout_of, open_folder  # not needed where there are members already

    bundle = open_folder(folder, cost)
    layout = layout_of(bundle, folder)
    inputs = layout.inputs(table)
    forecaster = bundle.forecaster
    decided = decision_table(forecaster.cost, forecaster.sample(inputs.features), inputs.features.index, levels)
    notes = (
        *bundle.notes,
        *zone_notes(table, layout.time),
        *left_out_notes(inputs.quality),
        *unlike_the_fit(bundle.about, layout, inputs.quality),
        *uncertified_notes(decided),
    )
    return DecidedCases(in_utc(decided), bundle.cost_spec, notes)


def _decide_members(ensemble: MembersFile, spec: CostSpec, levels: Sequence[float]) -> DecidedCases:
    """The actions of least expected cost over the members, without any fitting."""
    doubts = spec.doubts(ensemble.members.reshape(-1, ensemble.members.shape[2]))
    decided = decision_table(spec.build(), ensemble.members, case_labels(ensemble.index), levels)
    return DecidedCases(in_utc(decided), spec, (*ensemble.notes, *doubts, *uncertified_notes(decided)))
