"""What the estimator is given, where scikit-learn does not check it: xarray objects, times, and names of targets."""

import sys
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.time_axis import Times, to_utc
from stakes.errors import NonFiniteError, ShapeError

__all__ = ["Rows", "alternate_blocks", "as_table", "as_tensor", "checked_times", "outcome_names"]


class Rows(NamedTuple):
    """Checked rows of an estimator, in the order of time.

    Attributes:
        features: Features (n, F).
        outcome: Outcomes (n, D).
        times: When these happened (n,); None where it is not known.
    """

    features: Tensor
    outcome: Tensor
    times: Times | None

    def part(self, rows: slice) -> Self:
        """Some of them.

        Args:
            rows: Which ones.
        """
        times = None if self.times is None else self.times[rows]
        return self._replace(features=self.features[rows], outcome=self.outcome[rows], times=times)


def as_table(values: Any, name: str) -> Any:
    """A DataArray (case, feature) or a Dataset of variables along one dimension as a DataFrame; all else as it is.

    Args:
        values: What the user gave as features or outcomes.
        name: What messages call it.
    """
    xarray = sys.modules.get("xarray")  # who passes its objects has imported it
    if xarray is None or not isinstance(values, xarray.DataArray | xarray.Dataset):
        return values
    if isinstance(values, xarray.Dataset):
        dims = {each.dims for each in values.data_vars.values()}
        if len(dims) != 1 or len(values.dims) != 1:
            raise ShapeError(f"{name} must have variables along one dimension of cases, got {dict(values.sizes)}")
        return pd.DataFrame({key: each.values for key, each in values.data_vars.items()})
    if values.ndim == 1:
        return pd.Series(values.values, name=values.name)
    if values.ndim != 2:
        raise ShapeError(f"{name} must have the dimensions case and column, got {list(values.dims)}")
    columns = values.dims[1]
    if columns not in values.indexes:
        return values.values
    return pd.DataFrame(values.values, columns=values.indexes[columns])


def as_tensor(values: NDArray[np.float64], name: str) -> Tensor:
    """The numbers in single precision, or an error where they exceed it.

    Args:
        values: Finite numbers of any shape.
        name: What messages call them.
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if not np.isfinite(single).all():
        raise NonFiniteError(f"{name} must hold numbers that single precision can, got {np.abs(values).max():.3g}")
    return torch.from_numpy(single)


def outcome_names(values: Any, count: int) -> tuple[str, ...]:
    """The names of the columns of a table or of the one column; else y, or y0, y1 and so on.

    Args:
        values: The outcomes as the user gave them.
        count: How many outcomes a case has.
    """
    if isinstance(values, pd.DataFrame):
        return tuple(map(str, values.columns))
    if isinstance(values, pd.Series) and values.name is not None:
        return (str(values.name),)
    return ("y",) if count == 1 else tuple(f"y{place}" for place in range(count))


def checked_times(times: Any, rows: int) -> Times | None:
    """The times in UTC, or an error unless there is one for each row and none lies before the one above it.

    Args:
        times: Times of numpy, pandas or Python, or ISO texts; None where there are none.
        rows: How many rows the features have.
    """
    if times is None:
        return None
    in_utc = to_utc(times, "times")
    if len(in_utc) != rows:
        raise ShapeError(f"times must be one for each of the {rows} rows, got {len(in_utc)}")
    if len(backward := np.flatnonzero(np.diff(in_utc).astype(np.int64) < 0)):
        raise ShapeError(f"the rows must be in the order of time, but row {backward[0] + 1} comes before the one above")
    return in_utc


def alternate_blocks(rows: int, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of even and of odd blocks of neighbouring rows.

    Blocks of k whole days, as `automatic_block` has them, show both parts every hour, and every weekday as often within
    14 k days: the parts take turns after 2 k days, which for k below 7 have no factor in common with the week. Blocks
    of part of a day would not: with 12 hours one part has all mornings.

    >>> [part.tolist() for part in alternate_blocks(7, 2)]
    [[0, 1, 4, 5], [2, 3, 6]]

    Args:
        rows: How many rows there are.
        block: How many neighbours a block has; fewer where the rows would make one block only.
    """
    block = min(block, -(-rows // 2))
    odd = np.arange(rows) // block % 2 == 1
    return np.flatnonzero(~odd), np.flatnonzero(odd)
