"""Several sites in one table: in the names of its columns, or in a column of their own."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from stakes.data.member_columns import SERIES_COLUMNS
from stakes.data.table_columns import require_columns
from stakes.errors import TableError, names_text

__all__ = ["member_sites", "require_same_members", "site_keys", "site_labels"]

_SITE_COLUMNS = (*SERIES_COLUMNS, "station", "station_id")
_MEMBER = r"(?P<member>(?:member|number|sample|realization|ens|mem|m|s|r|e)?[_\-.]?\d+)"
_BEFORE = re.compile(rf"(?P<site>.+?)[ _\-.]{_MEMBER}", re.IGNORECASE)  # north_m1
_BEHIND = re.compile(rf"{_MEMBER}[ _\-.](?P<site>.*\D.*)", re.IGNORECASE)  # m1_north
_WORDS = ("member", "number", "sample", "realization", "ens", "ensemble", "mem", "m", "s", "r", "e")


def member_sites(columns: Sequence[str]) -> dict[str, list[str]] | None:
    """The columns of each site where every name has a site and a member, and all sites have the same members.

    >>> member_sites(["north_m1", "north_m2", "west_m1", "west_m2"])
    {'north': ['north_m1', 'north_m2'], 'west': ['west_m1', 'west_m2']}

    Args:
        columns: Names of columns; None is returned where they are not of several sites.
    """
    for sites in _named_sites(columns):
        members = [list(each) for each in sites.values()]
        if len(members[0]) > 1 and all(set(each) == set(members[0]) for each in members):
            return {site: [of_site[member] for member in members[0]] for site, of_site in sites.items()}
    return None


def require_same_members(columns: Sequence[str], name: str) -> None:
    """Raise where every name has a site and a member, but not all sites have the same members.

    Args:
        columns: Names of columns.
        name: What messages call the file.
    """
    for sites in _named_sites(columns):
        counts = Counter(frozenset(members) for members in sites.values())
        usual, _ = counts.most_common(1)[0]
        alike = [site for site, members in sites.items() if members.keys() == usual]
        for site, members in sites.items():
            if members.keys() != usual and members.keys() & usual:
                lacking = [member for member in sites[alike[0]] if member not in members]
                odd = f"no {lacking[0]}" if lacking else f"{next(key for key in members if key not in usual)} besides"
                raise TableError(
                    f"{name} must have the same members of each site, got {len(members)} of {site}, which has {odd}, "
                    f"and {len(usual)} of {names_text(alike)}; --columns says which columns are members"
                )


def _named_sites(columns: Sequence[str]) -> Iterator[dict[str, dict[str, str]]]:
    """The column of each member of each site, for each way of reading all names so, of several sites."""
    for pattern in (_BEFORE, _BEHIND):
        sites: dict[str, dict[str, str]] = {}
        for column in columns:
            match = pattern.fullmatch(column)
            if match is None or match["site"].lower() in _WORDS:
                break
            sites.setdefault(match["site"], {})[match["member"]] = column
        else:
            if len(sites) > 1:
                yield sites


def site_keys(site: str | None) -> frozenset[str]:
    """The columns, in lower case, that name sites or cases, and are no numbers: the site 01 is not the site 1.

    Args:
        site: The column of sites that the user has named; None for the usual names alone.
    """
    return frozenset([*_SITE_COLUMNS, "case", *([] if site is None else [site.lower()])])


def site_labels(table: pd.DataFrame, site: str | None) -> "pd.Series[Any] | None":
    """The site of each row, by the column of that name; None where there is none, or one site only and none was named.

    Args:
        table: The table.
        site: The column of sites; None looks for the usual names.
    """
    if site is None:
        lower = {str(column).lower(): str(column) for column in reversed(table.columns)}
        known = next((lower[name] for name in _SITE_COLUMNS if name in lower), None)
        if known is None or table[known].nunique(dropna=False) < 2:
            return None
        site = known
    require_columns(table, [site], "site")
    labels = table[site]
    if labels.isna().any():
        raise TableError(
            f"column {site!r} must hold a site in every row, but data row {labels.isna().argmax() + 1} has none"
        )
    return labels.astype("str")
