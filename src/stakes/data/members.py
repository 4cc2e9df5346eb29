"""A forecast that the user already has, as members: an ensemble, or weighted members made of quantiles.

A wide table has one row per case and one column per member or quantile (`stakes.data.forecast_columns` says which is
which); a long one has one row per member or quantile (`stakes.data.long_tables`). Several sites stand in the names of
columns, or in a column of their own. A NetCDF file or a Zarr store has a variable with the dimension `number`, one
dimension of cases and, for several sites, `site`, or a grid of points (`stakes.data.member_grids`). A case is known by
its time or by the column `case`; without either, by its place in the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.forecast_columns import ReadAs
from stakes.data.forecast_units import require_one_unit
from stakes.data.forecast_values import ForecastValues
from stakes.data.long_tables import of_target
from stakes.data.member_doubts import member_doubts
from stakes.data.member_grids import GridPoint, array_forecast, forecast_array, require_parts, site_dimension
from stakes.data.member_tables import table_forecast
from stakes.data.missing_codes import without_codes
from stakes.data.outcome_bounds import Pair
from stakes.data.quantile_members import TailShape
from stakes.data.site_columns import site_keys
from stakes.data.tables import read_table
from stakes.data.weighted_quantiles import given_bounds, weighted_quantiles, within
from stakes.data.xarray_files import is_dataset, open_dataset
from stakes.errors import SettingError, TableError, did_you_mean, listed, names_text
from stakes.method.argument_checks import require_one_of
from stakes.method.program_actions import PartlyFree
from stakes.number_text import number_text

__all__ = ["MembersFile", "read_members"]

Floats = NDArray[np.float64]
_OR_MEMBERS = "; --read-as members takes the columns as members that count alike"
_EACH_ALONE = (
    "quantiles do not say how targets move together: what the decision costs at each depends on that one alone, so "
    "that it need not be known; scores of all targets at once take them to rise and fall together"
)
_EQUAL_MEMBERS = 100  # that stand for weighted ones where nothing else will do


@dataclass(frozen=True, eq=False)
class MembersFile:
    """A forecast as a file has it, without the cases that lack a member or a quantile.

    Attributes:
        members: Members (N, M, D).
        index: The N cases: their times, their labels, or their places in the file, counted from 0 in an index "row";
            with each site by itself the site is a second level.
        targets: The names of the D targets.
        notes: Sentences about what the user should know.
        cases: How many cases the file has, those that lack a member too; None for as many as `index`.
        weights: What each member weighs, (M,), where they were made of quantiles; None where all count alike.
        levels: The levels of the quantiles that the members were made of; None where the file has members.
        ordered: Whether the user has named the targets one by one, and so given their order.
        sites: The names of all sites of the file, where each is a case by itself; none otherwise.
        horizon: How far ahead each case is, (N,), as a hub's table counts it; None where it is not known.
    """

    members: Floats
    index: "pd.Index[Any]"
    targets: tuple[str, ...]
    notes: tuple[str, ...] = ()
    cases: int | None = None
    weights: Floats | None = None
    levels: tuple[float, ...] | None = None
    ordered: bool = False
    sites: tuple[str, ...] = ()
    horizon: NDArray[Any] | None = None

    def __str__(self) -> str:
        cases, members, _ = self.members.shape
        what = f"{members} members"
        if self.levels is not None:
            what = (
                f"{len(self.levels)} quantiles, levels {number_text(self.levels[0])} to {number_text(self.levels[-1])}"
            )
        return f"{cases} cases of {what}, targets {names_text(self.targets)}"

    def __repr__(self) -> str:
        return f"MembersFile({self})"

    @property
    def site_of_case(self) -> NDArray[Any] | None:
        """The site of each case, (N,), where each is a case by itself; None otherwise."""
        return self.index.get_level_values(-1).to_numpy() if self.sites else None

    @property
    def equal_members(self) -> Floats:
        """Members (N, M, D) that count alike: those of the file, or 100 equally likely ones made of weighted ones."""
        if self.weights is None:
            return self.members
        levels = (np.arange(_EQUAL_MEMBERS) + 0.5) / _EQUAL_MEMBERS
        chosen = np.searchsorted(np.cumsum(self.weights), levels)  # weighted members are ordered
        return self.members[:, chosen]


def read_members(
    path: Path,
    *,
    time: str | None = None,
    site: str | None = None,
    variable: str | None = None,
    dimension: str | None = None,
    points: Sequence[GridPoint] = (),
    unit: str | None = None,
    columns: Sequence[str] = (),
    targets: Sequence[str] = (),
    read_as: ReadAs = "auto",
    sites: str | Sequence[str] = "together",
    tails: TailShape = "exponential",
    bounds: Pair | Literal["auto"] | None = "auto",
    cost: object = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> MembersFile:
    """The forecast in a CSV, parquet, NetCDF or GRIB file or a Zarr store, in the forms that the module describes.

    A case with a missing member is left out; the notes say so, and what was found.

    Args:
        path: The file.
        time: The column of times; None looks for the usual names and for a column `case`.
        site: The column of sites in a table with a row for each, or the dimension of the sites, or hours, of a NetCDF
            file; None looks for the usual names.
        variable: The variable of a NetCDF file, or several, separated by commas, or the target of a hub's table; None
            takes the only one with members.
        dimension: The dimension of the members in a NetCDF file; None looks for `number`, `member` and the like.
        points: Latitudes and longitudes of the points of a grid that are wanted; none where there is no grid.
        unit: The unit that is wanted of a NetCDF file that says its own; None takes it as it is.
        columns: The members or quantiles of a wide table, also as ranges such as m1:m50; none for all that look so.
        targets: The columns of values of a long table; none for the only one.
        read_as: Whether the columns of a wide table are "members", "quantiles", or "points", one forecast a site, or
            which rows of a hub's table are meant; "auto" tells by the names, and refuses what may be either.
        sites: Where there are several sites or targets: "together" for one decision about all of them, "each" for one
            about each, or the names of those that are meant.
        tails: What lies beyond the outermost quantiles: "exponential" tails, or nothing, "flat".
        bounds: What outcomes cannot cross; members beyond are drawn to it. "auto" takes, for the tails of quantiles,
            what the cost knows, or 0 and a maximum at which many quantiles lie exactly. None for none.
        cost: The cost whose `outcome_bounds` are known; None for no cost.
        separator: The character between the fields of a text file; None finds it out.
        encoding: The encoding of a text file; None finds it out.
    """
    path = Path(path)
    name = repr(str(path))
    require_one_of("read_as", read_as, ("auto", "members", "quantiles", "points"))
    if is_dataset(path):
        if columns:
            raise TableError(f"columns choose the members of a table, but {name} is a NetCDF file or like one")
        with open_dataset(str(path)) as dataset:
            array, number = forecast_array(dataset, name, variable, dimension, points, unit)
            if site_dimension(array, number, name, site) is None and sites != "each":
                require_parts(array, number, name, cost)
            forecast = array_forecast(array, number, name, site, bool(points))
    else:
        if dimension is not None or points or unit is not None:
            raise TableError(f"a dimension of members, points and a unit are of NetCDF files, but {name} is a table")
        table = read_table(path, site_keys(site), separator=separator, encoding=encoding)
        table = of_target(table, name, variable)
        forecast = table_forecast(table, name, time=time, site=site, columns=columns, targets=targets, read_as=read_as)
    chosen = _of_sites(forecast, sites, name, cost)
    kept = _complete(chosen, name)
    if chosen.targets != forecast.targets and sites == "each":
        kept = replace(kept, sites=forecast.targets)
    kept = replace(kept, notes=(*kept.notes, *member_doubts(chosen, name, read_as == "auto")))
    if kept.levels is not None:
        return _weighted(kept, name, forecast.named, tails, bounds, cost)
    return replace(kept, members=within(kept.members, given_bounds(bounds)))


def _of_sites(forecast: ForecastValues, sites: str | Sequence[str], name: str, cost: object) -> ForecastValues:
    """The forecast for the sites that are meant, together or each by itself."""
    if sites == "each":
        return forecast.each_by_itself() if len(forecast.targets) > 1 else forecast
    if sites != "together":
        wanted = [sites] if isinstance(sites, str) else list(sites)
        for site in wanted:
            if site not in forecast.targets:
                raise TableError(f"{name} has no site {site!r}; {did_you_mean(site, forecast.targets)}")
        forecast = replace(forecast.only(wanted), ordered=True)
    else:
        forecast = forecast.by_number()
    if len(forecast.targets) == 1:
        return forecast
    if forecast.levels is not None and isinstance(cost, PartlyFree):
        return replace(forecast, notes=(*forecast.notes, _EACH_ALONE))
    if forecast.levels is not None:
        raise TableError(
            f"{name} has quantiles of {len(forecast.targets)} sites, {listed(forecast.targets)}: they do not say how "
            "sites move together, which one decision about all of them depends on, as members that belong together do; "
            f"--sites each decides for each by itself, --sites {forecast.targets[0]} for one"
        )
    note = (
        f"{len(forecast.targets)} sites, {names_text(forecast.targets)}, are one decision about all of them, and a "
        "member of one site belongs to the same member of the others; --sites each decides for each by itself"
    )
    return replace(forecast, notes=(*forecast.notes, note)) if forecast.sited else forecast


def _complete(forecast: ForecastValues, name: str) -> MembersFile:
    """Without the cases that have missing members, and with notes about what is there."""
    what = "members" if forecast.levels is None else "quantiles"
    if 0 in forecast.values.shape:
        cases, members, _ = forecast.values.shape
        raise TableError(f"{name} has {cases} cases of {members} {what}, expected at least one each")
    complete = ~np.isnan(forecast.values.sum((1, 2)))  # the numbers are finite or missing
    if not complete.any():
        raise TableError(f"{name} has no case without missing {what}, of {len(complete)}")
    notes = list(forecast.notes)
    if missing := int((~complete).sum()):
        notes.append(f"{missing} of {len(complete)} cases have missing {what} and are left out")
    if forecast.values.shape[1] == 1:
        notes.append("there is one member a case, a point forecast: its action knows of no uncertainty")
    members = np.ascontiguousarray(forecast.values[complete])
    if forecast.levels is None:
        plain = without_codes(members)
        require_one_unit(plain[~np.isnan(plain).any((1, 2))], name)
    kept = MembersFile(members, forecast.index[complete], forecast.targets, cases=len(complete), levels=forecast.levels)
    horizon = None if forecast.horizon is None else forecast.horizon[complete]
    return replace(kept, notes=(str(kept), *notes), ordered=forecast.ordered, horizon=horizon)


def _weighted(
    kept: MembersFile,
    name: str,
    named: bool,
    tails: TailShape,
    bounds: Pair | Literal["auto"] | None,
    cost: object,
) -> MembersFile:
    """The weighted members of the quantiles of each target."""
    levels, each = kept.levels or (), zip(kept.targets, np.moveaxis(kept.members, 2, 0), strict=True)
    try:
        weighted = [
            weighted_quantiles(levels, quantiles, name, tails=tails, bounds=bounds, cost=cost, target=target)
            for target, quantiles in each
        ]
    except SettingError as error:
        raise TableError(f"{name}: {error}{_OR_MEMBERS if named else ''}") from error
    beyond = "exponential tails beyond" if tails == "exponential" else "nothing beyond"
    read = f"read as quantiles, with lines between the levels and {beyond}{_OR_MEMBERS if named else ''}"
    notes = dict.fromkeys((kept.notes[0], read, *kept.notes[1:], *(note for one in weighted for note in one.notes)))
    members = np.stack([one.members for one in weighted], -1)
    return replace(kept, members=members, weights=weighted[0].weights, notes=tuple(notes))
