"""What the columns of a table with one row a case are: members or quantiles, of one target or of several sites."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stakes.data.member_columns import member_columns, such_as
from stakes.data.quantile_levels import (
    NamedQuantile,
    is_point_forecast,
    lone_quantile,
    named_quantiles,
    require_certain,
    require_levels,
)
from stakes.data.site_columns import member_sites, require_same_members
from stakes.errors import TableError, listed

__all__ = ["ForecastColumns", "ReadAs", "forecast_columns"]

ReadAs = Literal["auto", "members", "quantiles", "points"]
"""What columns hold: members, quantiles, or one forecast of each site; "auto" tells by their names."""

_VALUE = "outcome"
_SHORT_NAME = 2  # letters, of names that say nothing


@dataclass(frozen=True)
class ForecastColumns:
    """The columns of a forecast.

    Attributes:
        of_target: The columns of each target, as many of each and in one order.
        levels: The levels of the quantiles that the columns are; None where they are members.
        notes: Sentences about what the user should know.
    """

    of_target: Mapping[str, Sequence[str]]
    levels: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()


def forecast_columns(columns: Sequence[str], name: str, read_as: ReadAs, chosen: bool) -> ForecastColumns:
    """What the columns are; one that may be something else is refused.

    Args:
        columns: The columns of a table that are neither its case nor coordinates.
        name: What messages call the file.
        read_as: What they hold.
        chosen: Whether the user has named the columns, so that they all belong to the forecast.
    """
    if read_as == "points":
        return ForecastColumns({column: [column] for column in columns})
    if read_as != "members":
        quantiles = named_quantiles(columns, certain=read_as == "quantiles")
        if quantiles and read_as == "auto":
            require_certain(quantiles, name)
        if quantiles or read_as == "quantiles":
            return _quantile_columns(columns, quantiles, name)
        if (lone := lone_quantile(columns)) is not None and len(columns) > 1:
            raise TableError(
                f"{name} has one column that names a level, {lone!r}, and quantiles are two or more; --columns says "
                "which columns are meant, and --read-as members takes them as members"
            )
    if sites := member_sites(columns):
        return ForecastColumns(sites)
    members = list(columns) if chosen else _members_of_one(columns, name)
    return ForecastColumns({_VALUE: members}, notes=() if chosen or read_as == "members" else _names_told(members))


def _members_of_one(columns: Sequence[str], name: str) -> list[str]:
    """The members of one target; what is no member is a site's that another site has not, or else anything."""
    try:
        return member_columns(columns, name)
    except TableError:
        require_same_members(columns, name)
        raise


def _names_told(members: Sequence[str]) -> tuple[str, ...]:
    """A note where members have names as sites have them."""
    if len(members) < 2 or any(character.isdigit() for member in members for character in member):
        return ()
    if max(map(len, members)) <= _SHORT_NAME:
        return ()
    return (f"the columns {listed(members)} are members of one forecast; --read-as points takes each as a site's",)


def _quantile_columns(columns: Sequence[str], quantiles: Sequence[NamedQuantile], name: str) -> ForecastColumns:
    require_levels(quantiles, name)
    named = dict.fromkeys(each.column for each in quantiles)
    prefixes = list(dict.fromkeys(each.prefix for each in quantiles))
    others = [column for column in columns if column not in named]
    points = [column for column in others if quantiles and is_point_forecast(column, prefixes)]
    if unlike := [column for column in others if column not in points]:
        which = ("columns", "name") if len(unlike) > 1 else ("column", "names")
        raise TableError(
            f"{name} has the {which[0]} {listed([*map(repr, unlike)])}, which {which[1]} no level of a quantile; "
            f"outcomes are another file, and --columns says which are quantiles{such_as([*named], columns)}"
        )
    of_target: dict[str, list[str]] = {}
    levels: set[tuple[float, ...]] = set()
    for prefix in prefixes:
        ordered = sorted((each for each in quantiles if each.prefix == prefix), key=lambda each: each.level)
        of_target[prefix if len(prefixes) > 1 else _VALUE] = [each.column for each in ordered]
        levels.add(tuple(each.level for each in ordered))
    if len(levels) > 1 or (len(prefixes) > 1 and "" in prefixes):
        named_so = listed([prefix or "the columns without a site" for prefix in prefixes])
        raise TableError(
            f"{name} must have the same levels for each of {named_so}; --columns says which columns are quantiles"
        )
    notes = (f"left out beside the quantiles: {listed(points)}",) if points else ()
    return ForecastColumns(of_target, levels.pop(), notes)
