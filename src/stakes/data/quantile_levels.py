"""Which columns of a table are quantiles, by their names: 0.1, q10, q0.1, p10, P50, quantile_0.1, 90%, lo-80, median.

A name may begin with that of a site or a model, as in north_q10 or NHITS-lo-90, or end with it, as in
quantile_0.1_north. Quantiles are no members: they are not equally likely. Whole numbers that follow each other, as in
q1, q2, ... q50, may be either.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stakes.errors import TableError, listed
from stakes.number_text import number_text

__all__ = ["NamedQuantile", "is_point_forecast", "lone_quantile", "may_be_members", "named_quantiles"]
__all__ += ["require_certain", "require_levels"]

_NUMBER = r"(?P<number>\d+(?:\.\d+)?|\.\d+)"
_LEVEL = rf"(?:(?P<word>quantile|percentile|pctl|pct|perc|ql|q|p)[ _\-]?)?{_NUMBER}(?P<percent> ?%)?"
_INTERVAL = r"(?P<side>lo|hi)[-_](?P<width>\d+(?:\.\d+)?)"
_NAME = re.compile(rf"{_LEVEL}|{_INTERVAL}|(?P<median>median)", re.IGNORECASE)
_PREFIXED = re.compile(rf"(?P<prefix>.+?)[ _\-.](?:{_LEVEL}|{_INTERVAL}|(?P<median>median))", re.IGNORECASE)
_SUFFIXED = re.compile(rf"(?=quantile)(?:{_LEVEL}|{_INTERVAL}|(?P<median>median))[ _\-](?P<prefix>.+)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_PERCENT_WORDS = ("percentile", "pctl", "pct", "perc")
_POINTS = ("mean", "average", "predictions", "prediction", "forecast", "point", "yhat", "y_hat", "median")


@dataclass(frozen=True)
class NamedQuantile:
    """A column whose name is that of a quantile.

    Attributes:
        column: The column.
        prefix: What stands before the level, or behind it, such as a site or a model; empty where nothing does.
        level: The level, from 0 to 1 if the name is right.
        whole: The number in the name where it is a whole one after a letter or word, as 10 in q10; None for any other.
    """

    column: str
    prefix: str
    level: float
    whole: int | None = None


def named_quantiles(columns: Sequence[str], certain: bool = False) -> list[NamedQuantile]:
    """The columns whose names are those of quantiles, in their order; none where fewer than two are.

    >>> [(each.prefix, each.level) for each in named_quantiles(["time", "north_q10", "north_q90"])]
    [('north', 0.1), ('north', 0.9)]

    Args:
        columns: Names of columns.
        certain: Whether they are known to be quantiles, so that a number alone is a level, too, as in 10, 50, 90.
    """
    matches = _matches(columns, certain)
    numbers = [match["number"] for match in matches.values() if match["number"] is not None]
    if sum(match["median"] is None for match in matches.values()) < 2:
        return []
    as_decimals = all(number.isdigit() and len(number) > 1 for number in numbers) and any(
        len(number) > 2 and number.startswith("0") for number in numbers
    )
    in_percent = not as_decimals and any(_says_percent(match, certain) for match in matches.values())
    in_percent = in_percent and not _are_fractions(list(matches.values()))
    quantiles = [
        _named(column, match, in_percent and (certain or not _is_bare(match)), as_decimals)
        for column, match in matches.items()
    ]
    said = {(each.prefix, each.level) for each in quantiles if matches[each.column]["median"] is None}
    return [each for each in quantiles if matches[each.column]["median"] is None or (each.prefix, 0.5) not in said]


def lone_quantile(columns: Sequence[str]) -> str | None:
    """The one column that is named as a quantile is; None where there is none, or more than one.

    Args:
        columns: Names of columns.
    """
    named = [column for column, match in _matches(columns, certain=False).items() if match["median"] is None]
    return named[0] if len(named) == 1 else None


def may_be_members(quantiles: Sequence[NamedQuantile]) -> bool:
    """Whether the columns may as well be members, since their numbers follow each other: q1, q2, ... q50.

    Args:
        quantiles: Columns that are named as quantiles are.
    """
    whole = sorted({each.whole for each in quantiles if each.whole is not None})
    steps = [following - number for number, following in pairwise(whole)]
    return bool(steps) and all(each.whole is not None for each in quantiles) and 2 * steps.count(1) >= len(steps)


def require_certain(quantiles: Sequence[NamedQuantile], name: str) -> None:
    """Raise where the columns may as well be members.

    Args:
        quantiles: Columns that are named as quantiles are.
        name: What messages call the file.
    """
    if may_be_members(quantiles):
        named = [each.column for each in quantiles]
        columns = f"{named[0]} to {named[-1]}" if len(named) > 2 else listed(named)
        raise TableError(
            f"{name} has the columns {columns}, which may be members or quantiles; --read-as members or "
            "--read-as quantiles says which"
        )


def require_levels(quantiles: Sequence[NamedQuantile], name: str) -> None:
    """Raise where there are no two levels, one lies outside 0 to 1, or one is there twice.

    Args:
        quantiles: Columns that are named as quantiles are.
        name: What messages call the file.
    """
    if not quantiles:
        raise TableError(
            f"{name} must have at least two columns that name levels, such as q10 or 0.1, to hold quantiles"
        )
    for each in quantiles:
        if not 0 <= each.level <= 1:
            raise TableError(
                f"{name} has the column {each.column!r} beside others that name quantiles, but its level "
                f"{number_text(each.level)} does not lie between 0 and 1; --read-as members takes all as members"
            )
    for (prefix, level), count in Counter((each.prefix, each.level) for each in quantiles).items():
        if count > 1:
            twice = [each.column for each in quantiles if (each.prefix, each.level) == (prefix, level)]
            raise TableError(f"{name} has the level {number_text(level)} twice, in the columns {listed(twice)}")


def is_point_forecast(column: str, prefixes: Sequence[str]) -> bool:
    """Whether a column beside quantiles is a single number that stands for the forecast, such as its mean.

    Args:
        column: A column that names no level.
        prefixes: What stands before the levels; a column of that name alone is a model's point forecast.
    """
    return column.lower() in _POINTS or column in prefixes or column.lower().endswith(("-median", "_median", "_mean"))


def _matches(columns: Sequence[str], certain: bool) -> "dict[str, re.Match[str]]":
    matches = {column: match for column in columns if (match := _match(column)) is not None}
    if certain:
        return matches
    # 0, 1, 2 are members, and so are 0.0, 1.0, 2.0
    inside = any(_is_decimal(match) and 0 < float(match["number"]) < 1 for match in matches.values())
    is_level = lambda match: not _is_bare(match) or (inside and _is_decimal(match))
    return {column: match for column, match in matches.items() if is_level(match)}


def _match(column: str) -> "re.Match[str] | None":
    name = _DECIMAL_COMMA.sub(".", column.strip())
    return _NAME.fullmatch(name) or _SUFFIXED.fullmatch(name) or _PREFIXED.fullmatch(name)


def _is_bare(match: "re.Match[str]") -> bool:
    """Whether there is nothing but a number, which may be that of a member."""
    return match["number"] is not None and match["word"] is None and match["percent"] is None


def _is_decimal(match: "re.Match[str]") -> bool:
    return match["number"] is not None and "." in match["number"]


def _says_percent(match: "re.Match[str]", certain: bool) -> bool:
    if match["number"] is None:
        return False
    return _names_percent(match) or ((certain or not _is_bare(match)) and float(match["number"]) > 1)


def _names_percent(match: "re.Match[str]") -> bool:
    return match["percent"] is not None or (match["word"] or "").lower() in _PERCENT_WORDS


def _are_fractions(matches: "Sequence[re.Match[str]]") -> bool:
    """Whether numbers below 1 stand beside none above 50: of 0.1, 0.5 and 1.5 the last is a slip, no percent."""
    numbers = [float(match["number"]) for match in matches if match["number"] is not None]
    named = any(map(_names_percent, matches))
    return bool(numbers) and not named and min(numbers) < 1 and max(numbers) <= 50


def _named(column: str, match: "re.Match[str]", in_percent: bool, as_decimals: bool) -> NamedQuantile:
    prefix = match.groupdict().get("prefix") or ""
    if match["median"] is not None:
        return NamedQuantile(column, prefix, 0.5)
    if match["side"] is not None:
        width = float(match["width"]) / 100
        return NamedQuantile(column, prefix, round((1 - width if match["side"].lower() == "lo" else 1 + width) / 2, 12))
    number = match["number"]
    whole = int(number) if number.isdigit() and match["percent"] is None else None
    if as_decimals:
        return NamedQuantile(column, prefix, float(f"0.{number}"), whole)
    return NamedQuantile(column, prefix, round(float(number) / 100, 12) if in_percent else float(number), whole)
