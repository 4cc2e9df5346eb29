"""Where a user keeps forecasts, what is known beside them, and their outcomes: in one table, or in two files."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pandas as pd

from stakes.data.case_index import case_index, time_level
from stakes.data.columns import check_names, first_repeated
from stakes.data.forecast_columns import ReadAs
from stakes.data.learned_forecasts import LearnedForecasts
from stakes.data.member_columns import AHEAD_COLUMNS, RUN_COLUMNS, chosen_columns
from stakes.data.member_grids import GridPoint
from stakes.data.outcome_bounds import Pair
from stakes.data.quantile_members import TailShape
from stakes.data.site_columns import site_labels
from stakes.data.table_columns import column_numbers, column_times, require_columns
from stakes.errors import SettingError, StakesError
from stakes.method.argument_checks import require_finite

__all__ = ["ForecastLayout"]


@dataclass(frozen=True)
class ForecastLayout:
    """Which columns are what: forecasts and their outcomes share a table, unless forecasts have a file of their own.

    Features, and when a forecast was issued, stand beside the forecasts; the action of today beside the outcomes.

    Attributes:
        outcomes: The columns of the outcomes, one for each target; one where a column of sites tells targets apart.
        columns: The columns of the forecasts, also as ranges such as m1:m50; none for those that look so in a file of
            their own.
        own_file: Whether the forecasts have a file of their own.
        time: The column of the times at which outcomes happen; None looks for the usual names.
        issued: The column of the times at which forecasts were made; None where there is none.
        lead: The column of the hours from then to the outcome; None where there is none.
        lead_hours: The same number of hours for all forecasts; None where it is not known.
        site: The column of sites in a table with a row for each; None looks for the usual names.
        features: Columns of whatever else was known when a forecast was made.
        today: The column of the action that was taken, or those of its parts, separated by commas; None where it is not
            known.
        read_as: What the columns of the forecasts hold.
        each_site: Whether each of several sites is decided by itself, not all together.
        targets: The sites or targets that are meant, by the names that the forecasts have; none for all.
        tails: What lies beyond the outermost quantiles.
        levels: The levels of the quantiles, once they are known; none where there are members, or nobody has looked.
        bounds: What outcomes cannot cross, a pair for each target; none where nothing is drawn to bounds.
        variable: The variable of a NetCDF file, or the target of a hub's table; None takes the only one with members.
        member_dimension: The dimension of the members in a NetCDF file; None looks for the usual names.
        points: Latitudes and longitudes of the points of a grid that are wanted.
        unit: The unit that is wanted of a NetCDF file that says its own; None takes it as it is.
        learned: What the forecasts of the past were like, once they are known; None where nobody has looked.
    """

    outcomes: tuple[str, ...]
    columns: tuple[str, ...] = ()
    own_file: bool = False
    time: str | None = None
    issued: str | None = None
    lead: str | None = None
    lead_hours: float | None = None
    site: str | None = None
    features: tuple[str, ...] = ()
    today: str | None = None
    read_as: ReadAs = "auto"
    each_site: bool = False
    targets: tuple[str, ...] = ()
    tails: TailShape = "exponential"
    levels: tuple[float, ...] = ()
    bounds: tuple[Pair, ...] = ()
    variable: str | None = None
    member_dimension: str | None = None
    points: tuple[GridPoint, ...] = ()
    unit: str | None = None
    learned: LearnedForecasts | None = field(default=None, metadata={"later": True})

    def __post_init__(self) -> None:
        for name in ("outcomes", "columns", "features", "targets"):
            check_names(name, getattr(self, name))
        if not self.outcomes:
            raise SettingError("outcomes must name at least one column, got none")
        if not self.columns and not self.own_file:
            raise SettingError("columns must name the forecasts in the table of the outcomes, got none")
        if self.lead is not None and self.lead_hours is not None:
            raise SettingError(f"lead is a column or a number of hours, got {self.lead!r} and {self.lead_hours:g}")
        if self.lead_hours is not None:
            require_finite("lead", self.lead_hours)
        if (twice := first_repeated(self._roles)) is not None:
            raise SettingError(f"a column has one role, but {twice!r} was given two")

    @property
    def _roles(self) -> list[str]:
        single = (self.time, self.issued, self.lead, self.site)
        named = [name for name in single if name is not None]
        return [*self.outcomes, *self.columns, *self.features, *named, *self.today_columns]

    @property
    def today_columns(self) -> tuple[str, ...]:
        """The column of the action that was taken, or those of its parts; none where it is not known."""
        return () if self.today is None else tuple(name.strip() for name in self.today.split(","))

    @property
    def runs(self) -> tuple[str, ...]:
        """The column that tells the forecasts of one time apart, if any."""
        return tuple(name for name in (self.issued, self.lead) if name is not None)

    @property
    def in_grid(self) -> tuple[str | None, str | None, tuple[GridPoint, ...], str | None]:
        """What is wanted of a gridded file, as `stakes.data.member_grids.forecast_array` takes it."""
        return self.variable, self.member_dimension, self.points, self.unit

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns beside the forecasts that are none of them, and by which no case is known."""
        shared = () if self.own_file else (*self.outcomes, *self.today_columns)
        return (*self.features, *shared)

    def named_in(self, table: pd.DataFrame, name: str) -> tuple[Self, tuple[str, ...]]:
        """With the columns of a table of forecasts by their names, in place of ranges and of what is to be found.

        The second is what the user should know about it.

        Args:
            table: The table of the forecasts.
            name: What messages call its file.
        """
        there = [str(column) for column in table.columns]
        require_columns(table, self.features, "features")
        if self.lead is not None:
            column_numbers(table, [self.lead], name)
        columns = tuple(chosen_columns(self.columns, there, name)) if self.columns else ()
        outcomes = self.outcomes if self.own_file else tuple(chosen_columns(self.outcomes, there, name))
        time = self.time or time_level(case_index(table, None))
        labels = site_labels(table, self.site)
        site = self.site if labels is None else str(labels.name)
        named = replace(self, columns=columns, outcomes=outcomes, time=time, site=site)
        if self.runs or self.lead_hours is not None:
            return named, ()
        used = set(named._roles)
        issued = _named_like(RUN_COLUMNS, table, used)
        if issued is not None and _holds_times(table, issued):
            return replace(named, issued=issued), (
                f"the column {issued!r} is taken to say when each forecast was made",
            )
        ahead = _named_like(AHEAD_COLUMNS, table, used)
        hint = f", as --lead {ahead} does if {ahead} is in hours" if ahead else ""
        return named, (
            "nothing says how long before its outcome a forecast was made, so that errors are taken to be known at "
            f"once; --lead HOURS says so{hint}",
        )


def _named_like(known: Sequence[str], table: pd.DataFrame, used: set[str]) -> str | None:
    lower = {str(column).lower(): str(column) for column in reversed(table.columns) if column not in used}
    return next((lower[name] for name in known if name in lower), None)


def _holds_times(table: pd.DataFrame, column: str) -> bool:
    if np.issubdtype(table[column].to_numpy().dtype, np.number):
        return False
    try:
        column_times(table, column, unique=False)
    except StakesError:
        return False
    return True
