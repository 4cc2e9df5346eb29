"""What a user says of forecasts that somebody else makes: the settings behind the flags, light enough for --help."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

from stakes.errors import SettingError, check_names, first_repeated

ReadAs = Literal["auto", "members", "quantiles", "points"]
"""What columns hold: members, quantiles, or one forecast of each site; "auto" tells by their names."""

TailShape = Literal["exponential", "flat"]
"""What lies beyond the outermost quantiles: exponential tails, or nothing."""

Pair = tuple[float | None, float | None]
"""The lower and the upper bound of an outcome; None where there is none."""

GridPoint = tuple[float, float]
"""Latitude and longitude, in degrees."""


@dataclass(frozen=True, kw_only=True)
class ForecastFormat:
    """How forecasts are read from a file; the text of an attribute is the help of its flag.

    Attributes:
        columns: columns of the members or quantiles, such as m1:m50; default: detected by name
        read_as: meaning of the columns; points means one forecast for each site
        site: column, or NetCDF dimension, that holds the sites; site, item_id and similar names are detected
        sites: one decision for all sites together, one for each site, or the names of the sites to use
        tails: distribution beyond the outermost quantiles; flat adds nothing
        outcome_bounds: limits of the outcome as LOWER,UPPER, either may be empty; members are clipped to them; auto
            detects them
        time: column with times, ISO 8601, UTC unless a zone is given
        variable: variables of a NetCDF file, separated by commas, or the target of a forecast hub's table
        member_dimension: NetCDF dimension of the members; number, member and similar names are detected
        point: grid points as LATITUDE,LONGITUDE, separated by semicolons; the nearest are used
        unit: unit to convert a NetCDF file to, such as degC for a file in K
    """

    columns: tuple[str, ...] = ()
    read_as: ReadAs = "auto"
    site: str | None = None
    sites: tuple[str, ...] | Literal["together", "each"] = "together"
    tails: TailShape = "exponential"
    outcome_bounds: str = "auto"
    time: str | None = None
    variable: str | None = None
    member_dimension: str | None = None
    point: tuple[GridPoint, ...] = ()
    unit: str | None = None

    def __post_init__(self) -> None:
        check_names("columns", self.columns)

    @property
    def each_site(self) -> bool:
        """Whether each of several sites is decided by itself, not all together."""
        return self.sites == "each"


@dataclass(frozen=True)
class LearnedForecasts:
    """What the forecasts that were learned from were like, by which new ones are read alike."""

    targets: tuple[str, ...]
    levels: tuple[float, ...]  # of their quantiles; none for members
    count: int  # how many members or quantiles each case had
    sizes: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # from and to, of each target
    unit: str | None = None
    bounds: tuple[Pair, ...] = ()  # what members of each target are clipped to; none where there is nothing


@dataclass(frozen=True, kw_only=True)
class ForecastLayout(ForecastFormat):
    """Which columns are what: forecasts and their outcomes share a table, unless forecasts have a file of their own.

    Features, and when a forecast was issued, stand beside the forecasts; the action of today beside the outcomes.

    Attributes:
        outcomes: column of the outcome, or one column for each target
        issued: column with the time each forecast was made; issued, init_time and similar names are detected
        lead: time from issue to outcome: a column of hours, or one duration such as 24 or 1d
        features: columns with other information known when the forecast was made
        prices: columns of the parameters of the cost of which each case has its own
        today: column with the action that was taken, for comparison; one for each part of a vector action
        own_file: whether the forecasts have a file of their own
        learned: what is known of past forecasts, where new ones are read
    """

    outcomes: tuple[str, ...] = ()
    issued: str | None = None
    lead: str | float | None = None
    features: tuple[str, ...] = ()
    prices: Mapping[str, str] = field(default_factory=dict)
    today: tuple[str, ...] = ()
    own_file: bool = False
    learned: LearnedForecasts | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("outcomes", "features", "today"):
            check_names(name, getattr(self, name))
        if not self.outcomes and not self.own_file:
            raise SettingError("outcomes must name at least one column, got none")
        if not self.columns and not self.own_file:
            raise SettingError("columns must name the forecasts in the table of the outcomes, got none")
        if isinstance(self.lead, float) and not isfinite(self.lead):
            raise SettingError(f"lead must be a finite number, got {self.lead}")
        keys = [name for name in (self.time, self.site) if name is not None]
        ahead, seen = [*self.columns, *self.known, *self.runs, *keys], [*self.outcomes, *self.today]
        for columns in (ahead, [*seen, *keys]) if self.own_file else ([*ahead, *seen],):
            if (twice := first_repeated(columns)) is not None:
                raise SettingError(f"a column has one role, but {twice!r} was given two")

    @property
    def runs(self) -> tuple[str, ...]:
        """The columns that tell the forecasts of one time apart, if any."""
        return tuple(name for name in (self.issued, self.lead) if isinstance(name, str))

    @property
    def known(self) -> tuple[str, ...]:
        """The columns of features, and those of prices, which may be features too."""
        return *self.features, *sorted({*self.prices.values()} - {*self.features})

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns beside the forecasts that are none of them, and by which no case is known."""
        return self.known if self.own_file else (*self.known, *self.outcomes, *self.today)
