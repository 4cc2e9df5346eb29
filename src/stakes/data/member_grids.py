"""The members in a NetCDF file: a variable with the dimension `number`."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from stakes.data.case_index import ROW, require_once
from stakes.data.forecast_values import ForecastValues
from stakes.errors import TableError, did_you_mean, one_line

if TYPE_CHECKING:  # importing it for real takes a second, which only a NetCDF file needs
    from xarray import DataArray, Dataset

__all__ = ["dataset_forecast"]

_NUMBER = ("number", "member", "realization", "realisation")
_CASE, _SITE = "case", "site"


def dataset_forecast(dataset: "Dataset", name: str, variable: str | None) -> ForecastValues:
    """The members in a dataset.

    Args:
        dataset: The dataset.
        name: What messages call the file.
        variable: The variable; None takes the only one with members.
    """
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
    require_once(index, name)
    sites = (
        [f"{array.name}[{label}]" for label in array[_SITE].values.tolist()] if members.shape[2] > 1 else [array.name]
    )
    return ForecastValues(members, index, tuple(map(str, sites)))


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
    return pd.RangeIndex(array.sizes[case], name=ROW)
