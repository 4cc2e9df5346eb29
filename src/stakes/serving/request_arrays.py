"""From what a request holds to arrays, or a refusal that names the field."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stakes.errors import did_you_mean
from stakes.serving.refusals import RefusedError
from stakes.serving.settings import ServiceSettings
from stakes.settings import shown

__all__ = ["feature_row", "member_array", "require_either", "require_rows"]

Floats = NDArray[np.float64]


def require_either(features: object, members: object) -> None:
    """Raise unless one of both is given.

    Args:
        features: Of the request, or None.
        members: Of the request, or None.
    """
    if (features is None) == (members is None):
        came = "none" if features is None else "both"
        raise RefusedError("features", f"a request has either features or members, got {came}")


def require_rows(field: str, rows: int, settings: ServiceSettings) -> None:
    """Raise unless there are some rows, and not too many.

    Args:
        field: The field of the request that has them.
        rows: How many there are.
        settings: How many there may be.
    """
    if not 1 <= rows <= settings.max_rows:
        raise RefusedError(field, f"{field} must have between 1 and {settings.max_rows} rows, got {rows}")


def feature_row(row: Mapping[str, float] | Sequence[float], names: Sequence[str], where: str) -> Sequence[float]:
    """The features of one case, in the order of the fit.

    Args:
        row: Numbers by column name, or in the order of the fit.
        names: The columns of the fit, in its order.
        where: The field of the request that has the row, dotted.
    """
    return _by_name(row, names, where) if isinstance(row, Mapping) else _in_order(row, names, where)


def member_array(
    rows: Sequence[Sequence[float] | Sequence[Sequence[float]]], settings: ServiceSettings, outcomes: int
) -> Floats:
    """Members (N, M, D), as many for each row.

    Args:
        rows: Each a list of members: numbers, or lists of one number per outcome.
        settings: How many members a row may have.
        outcomes: How many outcomes the fit has, D.
    """
    count = len(rows[0])
    if count > settings.max_members:
        raise RefusedError("members", f"members must be at most {settings.max_members} a row, got {count}")
    members = np.empty((len(rows), count, outcomes))
    for place, row in enumerate(rows):
        if len(row) != count:
            raise RefusedError(f"members.{place}", f"rows must have as many members each, got {count} and {len(row)}")
        widths = {len(member) if isinstance(member, list) else 1 for member in row}
        if widths != {outcomes}:
            came = next(iter(widths - {outcomes}))
            raise RefusedError(f"members.{place}", f"members must have {outcomes} outcomes each, got {came}")
        members[place] = np.asarray(row).reshape(count, outcomes)
    return members


def _by_name(row: Mapping[str, float], names: Sequence[str], where: str) -> list[float]:
    if unknown := row.keys() - set(names):
        name = next(name for name in row if name in unknown)
        raise RefusedError(f"{where}.{name}", f"there is no feature {shown(name)}; {did_you_mean(name, names)}")
    for name in names:
        if name not in row:
            raise RefusedError(f"{where}.{name}", f"the feature {shown(name)} is missing")
    return [row[name] for name in names]


def _in_order(row: Sequence[float], names: Sequence[str], where: str) -> Sequence[float]:
    if len(row) != len(names):
        raise RefusedError(where, f"a row must have the {len(names)} features of the fit, got {len(row)}")
    return row
