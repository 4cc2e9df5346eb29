"""From what a request holds to arrays, or a refusal that names the field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.csv_files import parse_delimited
from stakes.data.member_doubts import ascend_like_quantiles
from stakes.data.weighted_quantiles import weighted_quantiles
from stakes.errors import did_you_mean
from stakes.method.costs import Cost
from stakes.method.program_actions import PartlyFree
from stakes.serving.refusals import RefusedError, naming_field
from stakes.serving.settings import ServiceSettings
from stakes.settings import shown

__all__ = ["GivenMembers", "PostedMembers", "feature_row", "given_members", "member_array", "posted_table"]
__all__ += ["require_either", "require_nothing_known", "require_rows"]

Floats = NDArray[np.float64]
PostedMembers = Sequence[float] | Sequence[Sequence[float]]
"""The members of one row: numbers, or lists of one number per outcome."""

_LONGEST_HEADER = 100_000  # characters: many more take too long to read


def require_either(features: object, members: object) -> None:
    """Raise unless one of both is given.

    Args:
        features: Of the request, or None.
        members: Of the request, or None.
    """
    if (features is None) == (members is None):
        came = "none" if features is None else "both"
        raise RefusedError("features", f"a request has either features or members, got {came}")


def require_nothing_known(known: object) -> None:
    """Raise where something is told of members that only a recalibrated forecast could use.

    Args:
        known: Of the request, or None.
    """
    if known is not None:
        raise RefusedError("known", "known belongs to a recalibrated forecast; a fit decides from members as they are")


def require_rows(field: str, rows: int, settings: ServiceSettings) -> None:
    """Raise unless there are some rows, and not too many.

    Args:
        field: The field of the request that has them.
        rows: How many there are.
        settings: How many there may be.
    """
    if not 1 <= rows <= settings.max_rows:
        raise RefusedError(field, f"{field} must have between 1 and {settings.max_rows} rows, got {rows}")


def posted_table(csv: str) -> pd.DataFrame:
    """The table of a request, with at least one row.

    Args:
        csv: Its text.
    """
    if len(csv.partition("\n")[0]) > _LONGEST_HEADER:
        raise RefusedError("csv", f"the names of the columns must have at most {_LONGEST_HEADER} characters in all")
    with naming_field("csv"):
        table = parse_delimited(csv.encode("utf-8", "replace"), "the table")
    if not len(table):
        raise RefusedError("csv", "the table has no rows below its line of column names")
    return table


def feature_row(row: Mapping[str, float] | Sequence[float], names: Sequence[str], where: str) -> Sequence[float]:
    """The features of one case, in the order of the fit.

    Args:
        row: Numbers by column name, or in the order of the fit.
        names: The columns of the fit, in its order.
        where: The field of the request that has the row, dotted.
    """
    return _by_name(row, names, where) if isinstance(row, Mapping) else _in_order(row, names, where)


@dataclass(frozen=True, eq=False)
class GivenMembers:
    """The members of a request.

    Attributes:
        members: Members (N, M, D).
        weights: What each of them weighs, (M,), where they were made of quantiles; None where all count alike.
        notes: Sentences for the user.
    """

    members: Tensor
    weights: Tensor | None = None
    notes: tuple[str, ...] = ()


def given_members(
    rows: Sequence[PostedMembers],
    levels: Sequence[float] | None,
    cost: Cost,
    settings: ServiceSettings,
    outcomes: int,
) -> GivenMembers:
    """The members of a request, or weighted ones made of its quantiles.

    Args:
        rows: Each a list of members: numbers, or lists of one number per outcome.
        levels: The levels of the quantiles that the members are; None where they are members.
        cost: What is decided for.
        settings: How many members a row may have.
        outcomes: How many outcomes the fit has, D.
    """
    array = member_array(rows, settings, outcomes)
    if levels is None:
        return GivenMembers(torch.from_numpy(array), notes=_look_like_quantiles(array))
    if outcomes > 1 and not isinstance(cost, PartlyFree):
        raise RefusedError(
            "member_levels", f"quantiles of {outcomes} outcomes do not say how these move together; send members"
        )
    if len(levels) != array.shape[1]:
        raise RefusedError("member_levels", f"there must be a level for each of {array.shape[1]}, got {len(levels)}")
    with naming_field("member_levels"):
        each = [weighted_quantiles(levels, array[..., place], "the request", cost=cost) for place in range(outcomes)]
    members, weights = np.stack([one.members for one in each], -1), each[0].weights
    notes = dict.fromkeys(note for one in each for note in one.notes)
    return GivenMembers(torch.from_numpy(members), torch.from_numpy(weights), tuple(notes))


def _look_like_quantiles(array: Floats) -> tuple[str, ...]:
    """A note where members ascend in every row, which is hardly by chance."""
    if not ascend_like_quantiles(array):
        return ()
    return ("the members of every row ascend, as quantiles do; if they are quantiles, give their member_levels",)


def member_array(rows: Sequence[PostedMembers], settings: ServiceSettings, outcomes: int) -> Floats:
    """Members (N, M, D), as many for each row.

    Args:
        rows: Each a list of members: numbers, or lists of one number per outcome.
        settings: How many members a row may have.
        outcomes: How many outcomes there are, D.
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
