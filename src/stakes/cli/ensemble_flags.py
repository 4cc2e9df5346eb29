"""None"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.data.forecasts.members import MembersFile


@Parameter(name="*")
@dataclass(frozen=True)
class ReadingFlags:
    """How forecasts that a user already has are read, and tables beside them."""

    columns: Annotated[
        str | None,
        Parameter(help="the members in a table with a column each, names or ranges such as m1:m50; found by default"),
    ] = None
    read_as: Annotated[
        Literal["auto", "members", "quantiles", "points"],
        Parameter(help="what the columns are; points: one forecast a site"),
    ] = "auto"
    site: Annotated[
        str | None,
        Parameter(
            help="column of sites in a table with a row for each, or dimension of sites, or hours, of a NetCDF file; "
            "site, item_id, ... are found"
        ),
    ] = None
    sites: Annotated[
        str, Parameter(help="one decision about several sites together, about each, or about those that are named")
    ] = "together"
    tails: Annotated[
        Literal["exponential", "flat"], Parameter(help="what lies beyond the outermost quantiles; flat: nothing")
    ] = "exponential"
    outcome_bounds: Annotated[
        str,
        Parameter(
            help="what outcomes cannot cross, such as 0,1 or 0, with members drawn to it; or none. By default "
            "what the cost knows, or quantiles show"
        ),
    ] = "auto"
    time: flag.Time = None
    variable: Annotated[
        str | None,
        Parameter(help="variable of a NetCDF file, or several, separated by commas; or target of a hub's table"),
    ] = None
    member_dimension: Annotated[
        str | None, Parameter(help="dimension of the members in a NetCDF file; number, member, ... are found")
    ] = None
    point: Annotated[
        str | None, Parameter(help="points of a grid in a NetCDF file, LATITUDE,LONGITUDE;... the nearest are taken")
    ] = None
    unit: Annotated[
        str | None, Parameter(help="unit that is wanted of a NetCDF file that says its own, such as degC in place of K")
    ] = None
    separator: flag.Separator = None
    encoding: flag.Encoding = None

    @property
    def csv_options(self) -> dict[str, str | None]:
        """How a CSV file is read."""
        return {"separator": self.separator, "encoding": self.encoding}

    @property
    def grid_points(self) -> list[tuple[float, float]]:
        """The points of a grid that are named."""
        return _points(self.point)


@Parameter(name="*")
@dataclass(frozen=True)
class EnsembleFlags(ReadingFlags):
    """The ensemble that a user already has, if any, and how its file, those of its outcomes and tables are read."""

    members: Annotated[
        Path | None,
        Parameter(
            help="a forecast that you already have: CSV or parquet with a column a member or quantile, or NetCDF with "
            "`number`"
        ),
    ] = None

    @property
    def describes_members(self) -> bool:
        """Whether there is a flag that only an ensemble needs."""
        return replace(self, members=None, separator=None, encoding=None) != NO_ENSEMBLE

    def read(self, targets: tuple[str, ...], cost: object) -> "MembersFile":
        """The forecast that is given, for this cost; a long table may have several `targets`."""
        from stakes.data.forecasts.members import read_members
        from stakes.data.forecasts.quantiles import written_pair

        assert self.members is not None
        return read_members(
            self.members,
            time=self.time,
            site=self.site,
            variable=self.variable,
            dimension=self.member_dimension,
            points=self.grid_points,
            unit=self.unit,
            columns=flag.names(self.columns),
            targets=targets,
            read_as=self.read_as,
            sites=self.sites if self.sites in ("together", "each") else flag.names(self.sites),
            tails=self.tails,
            bounds=written_pair(self.outcome_bounds),
            cost=cost,
            separator=self.separator,
            encoding=self.encoding,
        )

    def read_these(self, targets: tuple[str, ...], cost: object) -> "MembersFile":
        """The forecast that is given, refused where it has not the `targets` that are named."""
        from stakes.data.forecasts.columns import with_ranges

        ensemble = self.read(targets, cost)
        name = repr(str(self.members))
        if targets and tuple(with_ranges(targets, ensemble.targets, name)) != ensemble.targets:
            raise SettingError(
                f"--target must name columns of values in a long table, got {', '.join(targets)}; "
                f"{name} has {', '.join(ensemble.targets)}"
            )
        return ensemble


def _points(text: str | None) -> list[tuple[float, float]]:
    """The points in "52.1,4.3;55,8"."""
    points = []
    for part in text.split(";") if text is not None else []:
        numbers = flag.numbers_of("point", part)
        if len(numbers) != 2 or not -90 <= numbers[0] <= 90 or not -180 <= numbers[1] <= 360:
            raise SettingError(f"point must be LATITUDE,LONGITUDE in degrees, got {part.strip()!r}")
        points.append((numbers[0], numbers[1]))
    return points


NO_ENSEMBLE = EnsembleFlags()
_OF_ANY_TABLE = ("separator", "encoding")
_FLAGS = [f"--{each.name.replace('_', '-')}" for each in fields(ReadingFlags) if each.name not in _OF_ANY_TABLE]
ONLY_OF_MEMBERS = (
    f"--target, {', '.join(_FLAGS[:-1])} and {_FLAGS[-1]} belong to --members; a folder knows its own columns, and "
    "that of a recalibration turns forecasts in a NetCDF file into its own unit by itself"
)
