"""The flags by which a user gives an ensemble that exists already, and reads it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from stakes.commands import flags as flag
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.data.members import MembersFile

__all__ = ["NO_ENSEMBLE", "EnsembleFlags"]


@Parameter(name="*")
@dataclass(frozen=True)
class EnsembleFlags:
    """The ensemble that a user already has, if any, and how its file, those of its outcomes and tables are read."""

    members: Annotated[
        Path | None,
        Parameter(
            help="an ensemble that you already have: CSV or parquet with a column a member, or NetCDF with `number`"
        ),
    ] = None
    columns: Annotated[
        str | None,
        Parameter(help="the members in a table with a column each, names or ranges such as m1:m50; found by default"),
    ] = None
    time: flag.Time = None
    variable: Annotated[str | None, Parameter(help="variable of a NetCDF file")] = None
    separator: flag.Separator = None
    encoding: flag.Encoding = None

    @property
    def csv_options(self) -> dict[str, str | None]:
        """How a CSV file is read."""
        return {"separator": self.separator, "encoding": self.encoding}

    @property
    def describes_members(self) -> bool:
        """Whether there is a flag that only an ensemble needs."""
        return any(given is not None for given in (self.columns, self.time, self.variable))

    def read(self, targets: tuple[str, ...]) -> "MembersFile":
        """The ensemble that is given; a long table may have several `targets`."""
        from stakes.data.members import read_members

        assert self.members is not None
        where = {"time": self.time, "variable": self.variable, **self.csv_options}
        return read_members(self.members, columns=flag.names(self.columns), targets=targets, **where)

    def read_these(self, targets: tuple[str, ...]) -> "MembersFile":
        """The ensemble that is given, refused where it has not the `targets` that are named."""
        ensemble = self.read(targets)
        if targets and targets != ensemble.targets:
            raise SettingError(
                f"--target must name columns of values in a long table, got {', '.join(targets)}; "
                f"{str(self.members)!r} has {', '.join(ensemble.targets)}"
            )
        return ensemble


NO_ENSEMBLE = EnsembleFlags()
