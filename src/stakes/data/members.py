"""An ensemble that the user already has, and the outcomes that belong to it.

A wide table has one row per case and one column per member; a long one has a column `number`, a column of the case and
one column per target (`stakes.data.member_columns` says which columns are taken). A NetCDF file has a variable with the
dimension `number`, one dimension of cases and, for several sites, `site`. A case is known by its time or by the column
`case`; without either, by its place in the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.member_columns import chosen_columns, member_columns, target_columns, without_coordinates
from stakes.data.table_columns import column_numbers, column_times, numeric_columns, require_columns, zone_notes
from stakes.data.tables import read_table
from stakes.data.xarray_files import open_dataset
from stakes.errors import TableError, did_you_mean, one_line

if TYPE_CHECKING:  # importing it for real takes a second, which only a NetCDF file needs
    from xarray import DataArray, Dataset

__all__ = ["MembersFile", "read_members", "read_outcomes"]

Floats = NDArray[np.float64]
_NUMBER = ("number", "member", "realization", "realisation")
_TIME = ("time", "valid_time", "datetime", "date")
_CASE, _SITE, _ROW, _VALUE = "case", "site", "row", "outcome"
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
            ensemble = _from_dataset(dataset, name, variable)
    else:
        table = read_table(path, separator=separator, encoding=encoding)
        number = next((column for column in _NUMBER if column in table.columns and not columns), None)
        ensemble = _wide(table, name, time, columns) if number is None else _long(table, name, time, number, targets)
    return _complete(ensemble, name)


def read_outcomes(
    path: Path,
    members: MembersFile,
    *,
    time: str | None = None,
    targets: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """The outcomes (N, D) of the cases of an ensemble, in their order; missing values stay NaN.

    Args:
        path: A CSV or parquet file; it may have more cases, unless they are known only by their place.
        members: The ensemble.
        time: The column of times; None looks for the usual names and for a column `case`.
        targets: The columns of the outcomes; None takes those called as the members' targets are, or a single column.
        separator: The character between the fields of a text file; None finds it out.
        encoding: The encoding of a text file; None finds it out.
    """
    table = read_table(Path(path), separator=separator, encoding=encoding)
    name = repr(str(path))
    index = _case_index(table, time)
    if index is None and members.index.name != _ROW:
        raise TableError(f"{name} has no column of times or cases, which its {len(table)} outcomes are matched by")
    columns = _outcome_columns(table, name, members, index, targets)
    values = pd.DataFrame(column_numbers(table, columns, name), columns=pd.Index(members.targets))
    if index is None or members.index.name == _ROW:
        cases = len(members.index) if members.cases is None else members.cases
        if len(table) != cases:
            raise TableError(
                f"{name} has {len(table)} rows, but the members have {cases} cases; without times or labels for both "
                "there must be as many"
            )
        return values.set_axis(pd.RangeIndex(len(table), name=_ROW)).loc[members.index]
    _require_once(index, name)
    _require_one_kind(index, members.index, name)
    if len(absent := members.index.difference(index)):
        raise TableError(f"{name} has no outcome for {absent[0]}, a case of the members ({len(absent)} such)")
    return values.set_axis(index).loc[members.index]


# Tables


def _wide(table: pd.DataFrame, name: str, time: str | None, wanted: Sequence[str]) -> MembersFile:
    index = _case_index(table, time)
    others = [str(column) for column in table.columns if index is None or column != index.name]
    if not others:
        raise TableError(f"{name} has no column of members")
    columns, notes = (chosen_columns(wanted, others, name), ()) if wanted else without_coordinates(others)
    numeric = set(numeric_columns(table))
    text = next((column for column in columns if column not in numeric and _is_text(table[column])), None)
    if text is not None:
        raise TableError(
            f"{name} has text in the column {text!r}; columns of members hold numbers, and the column of the case "
            "is called time or case"
        )
    columns = columns if wanted else member_columns(columns, name)
    values = column_numbers(table, columns, name)
    notes += zone_notes(table, index.name if isinstance(index, pd.DatetimeIndex) else None)
    index = pd.RangeIndex(len(table), name=_ROW) if index is None else index
    _require_once(index, name)
    return MembersFile(values[:, :, None], index, (_VALUE,), notes=notes)


def _long(table: pd.DataFrame, name: str, time: str | None, number: str, wanted: Sequence[str]) -> MembersFile:
    index = _case_index(table, time)
    if index is None:
        raise TableError(f"{name} has the column {number!r} but none of the case; it is called time or case")
    numeric = [column for column in numeric_columns(table) if column not in (index.name, number)]
    if not numeric:
        raise TableError(f"{name} has no column of numbers besides {number!r} and {index.name!r}")
    values, notes = (numeric, ()) if wanted and set(wanted) <= set(numeric) else without_coordinates(numeric)
    targets = target_columns(wanted, values, name)
    keys = pd.MultiIndex.from_arrays([index, column_numbers(table, [number], name)[:, 0]])
    if keys.get_level_values(1).hasnans:
        raise TableError(f"{name} must have a member in the column {number!r} of every row")
    if len(twice := np.flatnonzero(keys.duplicated())):
        case, member = keys[twice[0]]
        raise TableError(f"{name} has member {member:g} of case {case} more than once")
    wide = pd.DataFrame(column_numbers(table, targets, name), keys).unstack().sort_index()
    members = wide.to_numpy(np.float64).reshape(len(wide), len(targets), -1).swapaxes(1, 2)
    notes += zone_notes(table, index.name if isinstance(index, pd.DatetimeIndex) else None)
    return MembersFile(members, wide.index.set_names(index.name), tuple(targets), notes=notes)


def _case_index(table: pd.DataFrame, time: str | None) -> "pd.Index[Any] | None":
    """The times, or the labels in the column `case`, of the rows; None where there are neither."""
    if time is None:
        lower = {str(column).lower(): str(column) for column in reversed(table.columns)}
        time = next((lower[known] for known in (*_TIME, _CASE) if known in lower), None)
    if time is None:
        return None
    if time.lower() != _CASE:
        return pd.DatetimeIndex(column_times(table, time, unique=False), name=time)
    require_columns(table, [time], "case")
    if len(missing := np.flatnonzero(table[time].isna().to_numpy())):
        raise TableError(f"column {time!r} must hold a label in every row, but data row {missing[0] + 1} has none")
    return pd.Index(table[time].astype("str"), name=time)


def _outcome_columns(
    table: pd.DataFrame, name: str, members: MembersFile, index: "pd.Index[Any] | None", targets: Sequence[str] | None
) -> list[str]:
    if targets is not None:
        require_columns(table, targets, name)
        if len(targets) != len(members.targets):
            raise TableError(f"targets must be {len(members.targets)}, as the members have, got {', '.join(targets)}")
        return list(targets)
    if set(members.targets) <= set(table.columns):
        return list(members.targets)
    others = [str(column) for column in table.columns if index is None or column != index.name]
    numeric, _ = without_coordinates(
        [column for column in numeric_columns(table) if index is None or column != index.name]
    )
    if len(members.targets) == 1 and len(numeric) == 1:
        return numeric
    lacking = next(target for target in members.targets if target not in table.columns)
    raise TableError(f"{name} has no column {lacking!r}; {did_you_mean(lacking, others)}, or say which with targets")


# NetCDF


def _from_dataset(dataset: "Dataset", name: str, variable: str | None) -> MembersFile:
    array = _members_variable(dataset, name, variable)
    number = next(str(dim) for dim in array.dims if dim in _NUMBER)
    array = array.squeeze([dim for dim in array.dims if array.sizes[dim] == 1 and dim != number])
    others = [str(dim) for dim in array.dims if dim not in (number, _SITE)]
    if len(others) > 1:
        sizes = ", ".join(f"{dim} ({array.sizes[dim]})" for dim in others)
        raise TableError(
            f"variable {array.name!r} of {name} must have one dimension of cases besides {number!r} and {_SITE!r}, got "
            f"{sizes}; choose one point or lead time first"
        )
    case = others[0] if others else _CASE
    array = array if others else array.expand_dims(_CASE)
    array = array if _SITE in array.dims else array.expand_dims(_SITE)
    try:
        members = array.transpose(case, number, _SITE).to_numpy().astype(np.float64)
    except Exception as error:  # which ones damaged content can provoke is not documented
        raise TableError(f"variable {array.name!r} of {name} cannot be read: {one_line(error)}") from error
    if np.isinf(members).any():
        raise TableError(f"variable {array.name!r} of {name} must be finite or missing, got infinite values")
    index = _dataset_index(array, case)
    _require_once(index, name)
    sites = (
        [f"{array.name}[{label}]" for label in array[_SITE].values.tolist()] if members.shape[2] > 1 else [array.name]
    )
    return MembersFile(members, index, tuple(map(str, sites)))


def _members_variable(dataset: "Dataset", name: str, wanted: str | None) -> "DataArray":
    numeric = {str(key): array for key, array in dataset.data_vars.items() if array.dtype.kind in "fiu"}
    suited = [key for key, array in numeric.items() if set(array.dims) & set(_NUMBER)]
    if wanted is not None and wanted not in suited:
        hint = did_you_mean(wanted, suited) if suited else "there is none"
        raise TableError(f"{name} has no variable {wanted!r} with the dimension 'number'; {hint}")
    if not suited:
        raise TableError(f"{name} has no variable with the dimension 'number'; it holds {', '.join(numeric) or 'none'}")
    if wanted is None and len(suited) > 1:
        raise TableError(
            f"{name} has several variables with the dimension 'number', {', '.join(suited)}; name one as variable"
        )
    return numeric[wanted or suited[0]]


def _dataset_index(array: "DataArray", case: str) -> "pd.Index[Any]":
    """The valid times along the cases where there are some, or else the labels of the dimension."""
    for known in ("valid_time", case):
        if known in array.coords and array[known].dims == (case,):
            labels = array[known].to_numpy()
            if labels.dtype.kind == "M":
                return pd.DatetimeIndex(labels.astype("datetime64[s]"), name="time")
            return pd.Index([str(label) for label in labels.tolist()], name=_CASE)
    return pd.RangeIndex(array.sizes[case], name=_ROW)


# Both


def _complete(ensemble: MembersFile, name: str) -> MembersFile:
    """Without the cases that have missing members, and with notes about what is there."""
    if 0 in ensemble.members.shape:
        cases, members, _ = ensemble.members.shape
        raise TableError(f"{name} has {cases} cases of {members} members, expected at least one each")
    complete = ~np.isnan(ensemble.members.sum((1, 2)))  # the numbers are finite or missing
    if not complete.any():
        raise TableError(f"{name} has no case without missing members, of {len(complete)}")
    notes = list(ensemble.notes)
    if missing := int((~complete).sum()):
        notes.append(f"{missing} of {len(complete)} cases have missing members and are left out")
    if ensemble.members.shape[1] == 1:
        notes.append("there is one member a case, a point forecast: its action knows of no uncertainty")
    kept = replace(ensemble, members=np.ascontiguousarray(ensemble.members[complete]), index=ensemble.index[complete])
    return replace(kept, notes=(str(kept), *notes), cases=len(complete))


def _is_text(column: "pd.Series[Any]") -> bool:
    """Whether most of a column is text, not a number misspelt."""
    present = column.dropna().astype("str")
    return bool(pd.to_numeric(present, errors="coerce").isna().mean() > 0.5)


def _require_once(index: "pd.Index[Any]", name: str) -> None:
    if not index.is_unique:
        twice = index[index.duplicated()]
        raise TableError(f"{name} has the {index.name} {twice[0]} more than once ({len(twice)} such)")


def _require_one_kind(index: "pd.Index[Any]", wanted: "pd.Index[Any]", name: str) -> None:
    if isinstance(index, pd.DatetimeIndex) != isinstance(wanted, pd.DatetimeIndex):
        words = ["times" if isinstance(each, pd.DatetimeIndex) else "labels" for each in (index, wanted)]
        raise TableError(f"{name} has {words[0]} in the column {index.name!r}, but the members have {words[1]}")
