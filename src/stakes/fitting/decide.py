"""From new data and a fitted forecaster, or an ensemble and a cost, to the action of every case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.case_labels import case_labels, in_utc, newest_cases
from stakes.data.layout import TableLayout
from stakes.data.member_grids import GridPoint
from stakes.data.members import MembersFile
from stakes.data.outcome_bounds import Pair
from stakes.data.quality import DataQuality, left_out_notes
from stakes.data.quantile_members import TailShape
from stakes.data.table_columns import zone_notes
from stakes.data.xarray_files import open_dataset
from stakes.decision_notes import decision_notes
from stakes.decisions import UNANSWERED, decision_table
from stakes.errors import CostError

if TYPE_CHECKING:  # importing it for real takes a second, which only a gridded file needs
    from xarray import Dataset

__all__ = ["DecidedCases", "decide_folder", "decide_grid", "decide_members", "table_notes"]


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

    def require_an_answer(self) -> None:
        """Raise where no case at all has a best action."""
        status = self.table["status"] if "status" in self.table else pd.Series(dtype=object)
        counts = status[status.isin(UNANSWERED)].value_counts()
        if len(status) and counts.sum() == len(status):
            words = " and ".join(f"{count} {word}" for word, count in counts.items())
            raise CostError(f"none of {len(status)} decisions has a best action, see the column status: {words}")

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


def decide_folder(
    folder: Path,
    table: pd.DataFrame,
    cost: str | None,
    levels: Sequence[float],
    last: bool = False,
    cost_parameter: str | None = None,
) -> DecidedCases:
    """The actions of a fitted forecaster for every row, or target time, whose features are there or can be drawn.

    Args:
        folder: Of the fit.
        table: What is known now, with the columns of the fit.
        cost: The cost in words; None takes that of the fit.
        levels: Levels of the quantiles in the table, between 0 and 1.
        last: Whether only the newest time, or the last row, is decided for.
        cost_parameter: Which decision maker each case belongs to, where the cost has a range: "penalty=5", or
            "penalty=COLUMN"; None where it has none.
    """
    from stakes.bundle.open_fit import layout_of, open_folder  # not needed where there are members already
    from stakes.fitting.case_parameters import case_parameters
    from stakes.fitting.missing_features import decidable_rows

    bundle = open_folder(folder, cost)
    layout = layout_of(bundle, folder)
    rows = decidable_rows(folder, bundle, layout, table, last)
    forecaster, index = bundle.forecaster, rows.features.index
    given = case_parameters(forecaster.cost, cost_parameter, table, layout, index, needed=True)
    (parameter,) = given.values() if given else (None,)
    members = rows.sample(forecaster, given)
    decided = decision_table(forecaster.cost, members, index, levels, outcomes=layout.targets, parameter=parameter)
    if rows.moments is not None:
        decided["missing_features"] = rows.missing
    told = bundle.cost_spec.outcome_notes(forecaster.cost, layout.targets) if cost and bundle.cost_spec else ()
    notes = (
        *told,
        *table_notes(bundle.about, layout, table, rows.quality),
        *decision_notes(forecaster.cost, decided, members),
    )
    return DecidedCases(in_utc(decided), bundle.cost_spec, (*bundle.notes, *rows.notes, *notes))


def table_notes(
    about: Mapping[str, Any], layout: TableLayout, table: pd.DataFrame, quality: DataQuality
) -> tuple[str, ...]:
    """Sentences for the user about a table that a fit has decided for: its zone, its rows, its values.

    Args:
        about: What the bundle of the fit keeps, `stakes.bundle.Bundle.about`.
        layout: What the columns of the table are.
        table: The table as it was given.
        quality: What was left out of the table, and the range of each of its columns.
    """
    from stakes.fitting.notes_on_cases import unlike_fit_notes  # not needed where there are members already

    return (
        *zone_notes(table, layout.time),
        *left_out_notes(quality),
        *unlike_fit_notes(about, layout, quality),
    )


def decide_grid(
    path: Path,
    spec: CostSpec,
    levels: Sequence[float],
    *,
    variable: str | None = None,
    dimension: str | None = None,
    points: Sequence[GridPoint] = (),
    unit: str | None = None,
    site: str | None = None,
    together: bool = True,
    tails: TailShape = "exponential",
    bounds: Pair | Literal["auto"] | None = "auto",
) -> "tuple[Dataset, tuple[str, ...]]":
    """The actions for every time and place of a gridded file, on its own dimensions, and sentences for the user.

    Args:
        path: A NetCDF or GRIB file or a Zarr store.
        spec: The cost in words.
        levels: Levels of the quantiles, between 0 and 1.
        variable: The variable, or several, separated by commas; None takes the only one with members.
        dimension: The dimension of the members; None looks for the usual names.
        points: The points of a grid that are wanted, each the nearest to it; none for the whole grid.
        unit: The unit that is wanted; None takes that of the file.
        site: The dimension of the sites, or hours, that one decision is about; None looks for the usual names.
        together: Whether one decision is about all sites; otherwise each site has one of its own.
        tails: What lies beyond the outermost quantiles.
        bounds: What outcomes cannot cross, for the tails of quantiles.
    """
    from stakes.array_decisions import decide_array
    from stakes.data.member_grids import forecast_array, require_parts, site_dimension, sites_by_number

    with open_dataset(str(path)) as dataset:
        name, cost = repr(str(path)), spec.build()
        array, member = forecast_array(dataset, name, variable, dimension, points, unit)
        along = site_dimension(array, member, name, site) if together else None
        if along is None and together:
            require_parts(array, member, name, cost)
        notes: tuple[str, ...] = ()
        if along is not None:
            array, sites, notes = sites_by_number(array, along, name, site, bool(points))
            notes += tuple(spec.outcome_notes(cost, sites))
        with naming_own_cost(cost):
            decided = decide_array(array.load(), cost, levels, member=member, site=along, tails=tails, bounds=bounds)
        return decided, notes


def decide_members(ensemble: MembersFile, spec: CostSpec, levels: Sequence[float], last: bool = False) -> DecidedCases:
    """The actions of least expected cost over the members, without any fitting.

    Args:
        ensemble: The members of every case.
        spec: The cost in words.
        levels: Levels of the quantiles in the table, between 0 and 1.
        last: Whether only the newest time, or the last row, is decided for.
    """
    doubts = spec.doubts(ensemble.equal_members.reshape(-1, ensemble.members.shape[2]), ensemble.targets)
    rows = newest_cases(ensemble.index) if last else slice(None)
    labels = case_labels(ensemble.index)[rows]
    cost = spec.build()
    members = ensemble.members[rows]
    decided = decision_table(cost, members, labels, levels, ensemble.weights, ensemble.targets)
    if ensemble.horizon is not None:
        decided.insert(labels.nlevels, "horizon", ensemble.horizon[rows])
    notes = decision_notes(cost, decided, members, ensemble.weights)
    return DecidedCases(in_utc(decided), spec, (*ensemble.notes, *doubts, *notes))
