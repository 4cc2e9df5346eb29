"""An ensemble that the user already has.

A wide table has one row per case and one column per member; a long one has a column `number`, a column of the case and
one column per target (`stakes.data.member_columns` says which columns are taken). A NetCDF file has a variable with the
dimension `number`, one dimension of cases and, for several sites, `site`. A case is known by its time or by the column
`case`; without either, by its place in the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.forecast_values import ForecastValues
from stakes.data.member_grids import dataset_forecast
from stakes.data.member_tables import table_forecast
from stakes.data.tables import read_table
from stakes.data.xarray_files import open_dataset
from stakes.errors import TableError

__all__ = ["MembersFile", "read_members"]

Floats = NDArray[np.float64]
_NETCDF = (".nc", ".nc4", ".netcdf", ".cdf")


@dataclass(frozen=True, eq=False)
class MembersFile:
    """An ensemble as a file has it, without the cases that lack a member.

    Attributes:
        members: Members (N, M, D).
        index: The N cases: their times, their labels, or their places in the file, counted from 0 in an index "row".
        targets: The names of the D targets.
        notes: Sentences about what the user should know.
        cases: How many cases the file has, those that lack a member too; None for as many as `index`.
    """

    members: Floats
    index: "pd.Index[Any]"
    targets: tuple[str, ...]
    notes: tuple[str, ...] = ()
    cases: int | None = None

    def __str__(self) -> str:
        cases, members, _ = self.members.shape
        return f"{cases} cases of {members} members, targets {', '.join(self.targets)}"

    def __repr__(self) -> str:
        return f"MembersFile({self})"


def read_members(
    path: Path,
    *,
    time: str | None = None,
    variable: str | None = None,
    columns: Sequence[str] = (),
    targets: Sequence[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
) -> MembersFile:
    """The ensemble in a CSV, parquet or NetCDF file, in the forms that the module describes.

    A case with a missing member is left out; the notes say so, and what was found.

    Args:
        path: The file.
        time: The column of times; None looks for the usual names and for a column `case`.
        variable: The variable of a NetCDF file; None takes the only one with members.
        columns: The members of a wide table, also as ranges such as m1:m50; none for all that look like members.
        targets: The columns of values of a long table; none for the only one.
        separator: The character between the fields of a text file; None finds it out.
        encoding: The encoding of a text file; None finds it out.
    """
    path = Path(path)
    name = repr(str(path))
    if path.suffix.lower() in _NETCDF:
        if columns:
            raise TableError(f"columns choose the members of a table, but {name} is a NetCDF file")
        with open_dataset(str(path)) as dataset:
            found = dataset_forecast(dataset, name, variable)
    else:
        table = read_table(path, separator=separator, encoding=encoding)
        found = table_forecast(table, name, time, columns, targets)
    return _complete(found, name)


def _complete(found: ForecastValues, name: str) -> MembersFile:
    """Without the cases that have missing members, and with notes about what is there."""
    if 0 in found.values.shape:
        cases, members, _ = found.values.shape
        raise TableError(f"{name} has {cases} cases of {members} members, expected at least one each")
    complete = ~np.isnan(found.values.sum((1, 2)))  # the numbers are finite or missing
    if not complete.any():
        raise TableError(f"{name} has no case without missing members, of {len(complete)}")
    notes = list(found.notes)
    if missing := int((~complete).sum()):
        notes.append(f"{missing} of {len(complete)} cases have missing members and are left out")
    if found.values.shape[1] == 1:
        notes.append("there is one member a case, a point forecast: its action knows of no uncertainty")
    members = np.ascontiguousarray(found.values[complete])
    kept = MembersFile(members, found.index[complete], found.targets, cases=len(complete))
    return replace(kept, notes=(str(kept), *notes))
