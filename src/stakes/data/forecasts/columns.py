"""Which columns of a table are members, quantiles, targets and sites; what may be either is refused."""

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from stakes.data.forecasts.layout import ReadAs
from stakes.data.tables.columns import require_columns
from stakes.errors import TableError, did_you_mean, listed, names_text
from stakes.text import number_text

RUN_COLUMNS = ("reference_date", "origin_date", "forecast_date", "cutoff", "issued", "init_time")
"""What the column may be called that says when a forecast was made."""

SERIES_COLUMNS = ("site", "unique_id", "item_id", "location", "series_id")
"""What the column may be called that says of which site or series a row is."""

AHEAD_COLUMNS = ("lead", "lead_time", "leadtime", "lead_hours", "forecast_hour", "step", "horizon")
"""What the column may be called that says how far ahead a forecast is."""

MEMBER_DIMENSIONS = ("number", "member", "realization", "realisation", "ensemble", "sample")
"""What the dimension of members may be called."""

LEVEL_DIMENSIONS = ("quantile", "quantile_level")
"""What the dimension of quantiles may be called; its coordinate holds their levels."""

_WHERE = ("latitude", "longitude", "lat", "lon", "height", "altitude", "elevation", "level")
_STATION = ("station", "station_id", "stationid", "id")
_COORDINATES = {*AHEAD_COLUMNS, *RUN_COLUMNS, "model_id", "target_name", *_WHERE, *_STATION, *SERIES_COLUMNS}
_MOMENTS = ("mean", "median", "std", "sd", "stddev", "variance", "var", "spread", "min", "max", "minimum", "maximum")
_STATISTICS = (*_MOMENTS, "ensemble_mean", "ens_mean", "ensemble_std", "ens_std")
_OUTCOMES = ("outcome", "outcomes", "observed", "observation", "observations", "obs", "actual", "truth")


def chosen_columns(wanted: Sequence[str], columns: Sequence[str], name: str) -> list[str]:
    """The columns that are named, or lie in a range FIRST:LAST.

    Where both ends name quantiles, as in q0.05:q0.95, the range goes by their levels. Where both are one name with a
    number, as in h00:h23, it goes by these numbers, in whatever order the columns stand and whatever lies between them,
    and one that is missing is told. Other ranges go by the order of the file.

    >>> chosen_columns(["control", "m1:m3"], ["time", "control", "m1", "power", "m3", "m2"], "'a.csv'")
    ['control', 'm1', 'm2', 'm3']
    >>> chosen_columns(["q0.05:q0.5"], ["q0.95", "q0.5", "q0.1", "q0.05"], "'a.csv'")
    ['q0.05', 'q0.1', 'q0.5']
    """
    chosen: list[str] = []
    places = {column: place for place, column in enumerate(columns)}
    for entry in wanted:
        first, colon, last = entry.partition(":")
        ends = [first, last] if colon and entry not in places else [entry, entry]
        for end in ends:
            if end not in places:
                raise TableError(f"columns: {name} has no column {end!r}; {did_you_mean(end, columns)}")
        start, stop = (places[end] for end in ends)
        counted = None if start == stop else _levels(first, last, columns) or _counted(first, last, columns)
        if counted is None and start > stop:
            raise TableError(f"columns must be ranges in the order of {name}, but {last!r} comes before {first!r}")
        chosen += columns[start : stop + 1] if counted is None else counted
    if twice := [column for column, count in Counter(chosen).items() if count > 1]:
        raise TableError(f"columns must name each column once, got {twice[0]!r} twice")
    return chosen


def _levels(first: str, last: str, columns: Sequence[str]) -> list[str] | None:
    """The quantiles from one level to another, in ascending order; None where the ends name none of one forecast."""
    named = {each.column: each for each in named_quantiles(columns)}
    low, high = named.get(first), named.get(last)
    if low is None or high is None or low.prefix != high.prefix or not 0 <= low.level <= high.level <= 1:
        return None
    between = [each for each in named.values() if each.prefix == low.prefix and low.level <= each.level <= high.level]
    return None if may_be_members(between) else [each.column for each in sorted(between, key=lambda each: each.level)]


def _counted(first: str, last: str, columns: Sequence[str]) -> list[str] | None:
    """The columns that count up from the first to the last in equal steps; None where these are not numbered alike."""
    start, stop = _number_in(first), _number_in(last)
    if start is None or stop is None or start[0] != stop[0]:
        return None
    (around, low), high = start, stop[1]
    numbers = {column: own[1] for column in columns if (own := _number_in(column)) is not None and own[0] == around}
    between = sorted((number, column) for column, number in numbers.items() if low <= number <= high)
    if not between:
        raise TableError(f"columns must be ranges that count up, got {first}:{last}")
    steps = [after - before for (before, _), (after, _) in pairwise(between)]
    if len(set(steps)) > 1 or 0 in steps:
        widest = steps.index(max(steps))
        before, after = (between[place][1] for place in (widest, widest + 1))
        halves = (one if one == other else f"{one}:{other}" for one, other in ((first, before), (after, last)))
        raise TableError(
            f"columns {first}:{last} do not count up evenly: {after} follows {before}; if that is intended, write "
            + ",".join(halves)
        )
    return [column for _, column in between]


def _number_in(column: str) -> tuple[tuple[str, str], int] | None:
    """What stands around the last number of a name, and that number; None where it has none."""
    match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", column)
    return None if match is None else ((match[1], match[3]), int(match[2]))


def with_ranges(names: Sequence[str], columns: Sequence[str], name: str) -> list[str]:
    """The names, with the columns of each range FIRST:LAST in its place; a name that is no range stays as it is.

    >>> with_ranges(["h1:h3", "wind"], ["h1", "h2", "h3"], "the table")
    ['h1', 'h2', 'h3', 'wind']
    """
    ranged = {entry for entry in names if ":" in entry and entry not in columns}
    return [
        column for entry in names for column in (chosen_columns([entry], columns, name) if entry in ranged else [entry])
    ]


def without_coordinates(columns: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The columns without those that say where or how far ahead a forecast is, and a note about what was left out."""
    left_out = [column for column in columns if column.lower() in _COORDINATES]
    if not left_out or len(left_out) == len(columns):
        return list(columns), ()
    kept = [column for column in columns if column.lower() not in _COORDINATES]
    return kept, (f"left out as coordinates: {listed(left_out)}",)


def member_columns(columns: Sequence[str], name: str) -> list[str]:
    """The members: columns of one stem with a number, or all where none have; outcomes and statistics are refused."""
    stems = {column: stem for column in columns if (stem := _stem(column)) is not None}
    stem, count = Counter(stems.values()).most_common(1)[0] if stems else ("", 0)
    alike = [column for column in columns if stems.get(column) == stem] if count > 1 else columns
    no_members = {*_OUTCOMES, *(_STATISTICS if len(columns) > 1 else ())}
    members = [column for column in alike if column.lower() not in no_members]
    unlike = set(columns) - set(members)
    if others := [column for column in columns if column in unlike]:
        which = ("columns", "do") if len(others) > 1 else ("column", "does")
        raise TableError(
            f"{name} has the {which[0]} {listed([*map(repr, others)])}, which {which[1]} not look like a member; give "
            f"outcomes in a file of their own, or name the members with --columns{such_as(members, columns)}"
        )
    return members


def target_columns(wanted: Sequence[str], values: Sequence[str], name: str) -> list[str]:
    """The columns of values that are meant: the wanted ones if all are there, or else the only one there is."""
    if wanted and len(values) > 1:
        return chosen_columns(wanted, values, name)
    if wanted and set(wanted) <= set(values):
        return list(wanted)
    if len(values) > 1:
        raise TableError(
            f"{name} has several columns of values, {listed(values)}; name one with --target, or several that belong "
            f"together, as in --target {values[-1]}"
        )
    return list(values)


def _stem(column: str) -> str | None:
    """What stands before the number of m1, member_03, m[4] or 0; None where a name ends in no number."""
    numbered = column[:-1] if column.endswith(("]", ")")) else column
    stem = numbered.rstrip(string.digits)
    return stem if stem != numbered else None


def such_as(members: Sequence[str], columns: Sequence[str]) -> str:
    """The end of a sentence that asks for --columns: an example of what can be typed."""
    if not members:
        return ""
    start = columns.index(members[0])
    together = len(members) > 1 and list(columns[start : start + len(members)]) == members
    return f", as in --columns {f'{members[0]}:{members[-1]}' if together else ','.join(members)}"


_SITE_COLUMNS = (*SERIES_COLUMNS, "station", "station_id")
_MEMBER = r"(?P<member>(?:member|number|sample|realization|ens|mem|m|s|r|e)?[_\-.]?\d+)"
_BEFORE = re.compile(rf"(?P<site>.+?)[ _\-.]{_MEMBER}", re.IGNORECASE)  # north_m1
_BEHIND = re.compile(rf"{_MEMBER}[ _\-.](?P<site>.*\D.*)", re.IGNORECASE)  # m1_north
_WORDS = ("member", "number", "sample", "realization", "ens", "ensemble", "mem", "m", "s", "r", "e")


def member_sites(columns: Sequence[str]) -> dict[str, list[str]] | None:
    """The columns of each site where every name has a site and a member, and all sites have the same members.

    >>> member_sites(["north_m1", "north_m2", "west_m1", "west_m2"])
    {'north': ['north_m1', 'north_m2'], 'west': ['west_m1', 'west_m2']}
    """
    for sites in _named_sites(columns):
        members = [list(each) for each in sites.values()]
        if len(members[0]) > 1 and all(set(each) == set(members[0]) for each in members):
            return {site: [of_site[member] for member in members[0]] for site, of_site in sites.items()}
    return None


def require_same_members(columns: Sequence[str], name: str) -> None:
    """Raise where every name has a site and a member, but not all sites have the same members."""
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
                    f"and {len(usual)} of {names_text(alike)}; name the columns of members with --columns"
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
    """The columns, in lower case, that name sites or cases, and are no numbers: the site 01 is not the site 1."""
    return frozenset([*_SITE_COLUMNS, "case", *([] if site is None else [site.lower()])])


def site_labels(table: pd.DataFrame, site: str | None) -> "pd.Series[Any] | None":
    """The site of each row; None where no column tells it, or one that nobody named has one site only."""
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
    """A column whose name is that of a quantile."""

    column: str  # the column
    prefix: str  # what stands before the level, or behind it, such as a site or a model; empty where nothing does
    level: float  # the level, from 0 to 1 if the name is right
    whole: int | None = None


def named_quantiles(columns: Sequence[str], certain: bool = False) -> list[NamedQuantile]:
    """The columns whose names are those of quantiles, in their order; none where fewer than two are.

    >>> [(each.prefix, each.level) for each in named_quantiles(["time", "north_q10", "north_q90"])]
    [('north', 0.1), ('north', 0.9)]
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
    """The one column that is named as a quantile is; None where there is none, or more than one."""
    named = [column for column, match in _matches(columns, certain=False).items() if match["median"] is None]
    return named[0] if len(named) == 1 else None


def may_be_members(quantiles: Sequence[NamedQuantile]) -> bool:
    """Whether the columns may as well be members, since their numbers follow each other: q1, q2, ... q50."""
    whole = sorted({each.whole for each in quantiles if each.whole is not None})
    steps = [following - number for number, following in pairwise(whole)]
    return bool(steps) and all(each.whole is not None for each in quantiles) and 2 * steps.count(1) >= len(steps)


def require_certain(quantiles: Sequence[NamedQuantile], name: str) -> None:
    """Raise where the columns may as well be members."""
    if may_be_members(quantiles):
        named = [each.column for each in quantiles]
        columns = f"{named[0]} to {named[-1]}" if len(named) > 2 else listed(named)
        raise TableError(
            f"{name} has the columns {columns}, which may be members or quantiles; give --read-as members or "
            "--read-as quantiles"
        )


def require_levels(quantiles: Sequence[NamedQuantile], name: str) -> None:
    """Raise where there are no two levels, one lies outside 0 to 1, or one is there twice."""
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
    """Whether a column beside quantiles is a single number that stands for the forecast, such as its mean."""
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


_VALUE = "outcome"
_SHORT_NAME = 2  # letters, of names that say nothing


@dataclass(frozen=True)
class ForecastColumns:
    """The columns of a forecast."""

    of_target: Mapping[str, Sequence[str]]  # the columns of each target, as many of each and in one order
    levels: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()  # sentences about what the user should know


def forecast_columns(columns: Sequence[str], name: str, read_as: ReadAs, chosen: bool) -> ForecastColumns:
    """What the columns are; one that may be something else is refused."""
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
                f"{name} has one column that names a level, {lone!r}, but quantiles need two or more; name the "
                "columns with --columns, or give --read-as members"
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
    return (f"the columns {listed(members)} are members of one forecast; give --read-as points if each is a site",)


def _quantile_columns(columns: Sequence[str], quantiles: Sequence[NamedQuantile], name: str) -> ForecastColumns:
    require_levels(quantiles, name)
    named = dict.fromkeys(each.column for each in quantiles)
    prefixes = list(dict.fromkeys(each.prefix for each in quantiles))
    others = [column for column in columns if column not in named]
    points = [column for column in others if quantiles and is_point_forecast(column, prefixes)]
    if unlike := [column for column in others if column not in points]:
        which = ("columns", "name") if len(unlike) > 1 else ("column", "names")
        raise TableError(
            f"{name} has the {which[0]} {listed([*map(repr, unlike)])}, which {which[1]} no level of a quantile; give "
            f"outcomes in a file of their own, or name the quantiles with --columns{such_as([*named], columns)}"
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
            f"{name} must have the same levels for each of {named_so}; name the columns of quantiles with --columns"
        )
    notes = (f"left out beside the quantiles: {listed(points)}",) if points else ()
    return ForecastColumns(of_target, levels.pop(), notes)
