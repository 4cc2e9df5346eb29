"""What is wanted of ERA5: variables, points of its grid of 0.25 degrees, whole years and hours, and its pieces."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from stakes.data.time_axis import Times
from stakes.errors import SettingError, did_you_mean

__all__ = ["UNITS", "VARIABLES", "Era5Request", "Piece", "variable_names", "years_of"]

VARIABLES = {
    "u10": "10m_u_component_of_wind",
    "v10": "10m_v_component_of_wind",
    "u100": "100m_u_component_of_wind",
    "v100": "100m_v_component_of_wind",
    "t2m": "2m_temperature",
    "d2m": "2m_dewpoint_temperature",
    "skt": "skin_temperature",
    "sst": "sea_surface_temperature",
    "stl1": "soil_temperature_level_1",
    "sp": "surface_pressure",
    "msl": "mean_sea_level_pressure",
    "tcc": "total_cloud_cover",
    "lcc": "low_cloud_cover",
    "mcc": "medium_cloud_cover",
    "hcc": "high_cloud_cover",
    "tcwv": "total_column_water_vapour",
    "blh": "boundary_layer_height",
    "fsr": "forecast_surface_roughness",
    "swvl1": "volumetric_soil_water_layer_1",
    "sd": "snow_depth",
    "tp": "total_precipitation",
    "sf": "snowfall",
    "ssrd": "surface_solar_radiation_downwards",
    "strd": "surface_thermal_radiation_downwards",
    "fdir": "total_sky_direct_solar_radiation_at_surface",
}
"""Short names, as files have them, and those that the stores ask for."""

UNITS = (  # of each variable
    dict.fromkeys(("u10", "v10", "u100", "v100"), "m s**-1")
    | dict.fromkeys(("t2m", "d2m", "skt", "sst", "stl1"), "K")
    | dict.fromkeys(("sp", "msl"), "Pa")
    | dict.fromkeys(("tcc", "lcc", "mcc", "hcc"), "(0 - 1)")
    | dict.fromkeys(("blh", "fsr", "tp"), "m")
    | dict.fromkeys(("sd", "sf"), "m of water equivalent")
    | dict.fromkeys(("ssrd", "strd", "fdir"), "J m**-2")
    | {"tcwv": "kg m**-2", "swvl1": "m**3 m**-3"}
)
_GRID = 0.25  # degrees
_FIRST_YEAR = 1940
_LARGEST_PATCH = 41  # points, 10 degrees
_YEARS = re.compile(r"(\d{4})(?:\s*-\s*(\d{4}))?")


@dataclass(frozen=True)
class Piece:
    """The part of a request that is fetched at once.

    Attributes:
        year: The year.
        months: Its months, 1 to 12: all of them, or one.
    """

    year: int
    months: tuple[int, ...]

    @property
    def name(self) -> str:
        """The year, or the year and month, as in 2020-03."""
        return str(self.year) if len(self.months) == 12 else f"{self.year}-{self.months[0]:02d}"


@dataclass(frozen=True)
class Era5Request:
    """What is wanted of ERA5: variables at a square patch of points, every so many hours of whole years.

    >>> request = Era5Request(("t2m",), at=(52.52, 13.4), years=(2020, 2021), patch=3, step=6)
    >>> request.latitudes, request.longitudes
    ((52.75, 52.5, 52.25), (13.25, 13.5, 13.75))

    Attributes:
        variables: The short names of the variables, keys of `VARIABLES`.
        at: The latitude and longitude in degrees; the point of the grid nearest to them is the centre.
        years: The first and the last year.
        patch: How many points the patch has in each direction, an odd number.
        step: The hours between two times, a divisor of 24.
    """

    variables: tuple[str, ...]
    at: tuple[float, float]
    years: tuple[int, int]
    patch: int = 1
    step: int = 1

    def __post_init__(self) -> None:
        _require_variables(self.variables)
        _require_point(self.at)
        _require_years(self.years)
        if self.patch not in range(1, _LARGEST_PATCH + 1, 2):
            raise SettingError(f"patch must be an odd number of points from 1 to {_LARGEST_PATCH}, got {self.patch}")
        if self.step not in range(1, 25) or 24 % self.step:
            raise SettingError(f"step must be a number of hours that divides 24, got {self.step}")
        if max(map(abs, self.latitudes)) > 90:
            raise SettingError(
                f"the patch of {self.patch} x {self.patch} points around latitude {self._centre[0]:g} reaches beyond "
                "the pole, where the grid ends; take a smaller patch or a point farther from it"
            )

    @property
    def latitudes(self) -> tuple[float, ...]:
        """From north to south, in degrees."""
        return tuple(self._centre[0] - _GRID * offset for offset in self._offsets)

    @property
    def longitudes(self) -> tuple[float, ...]:
        """From west to east, in degrees between -180 and 180 but where the patch lies across the date line."""
        return tuple(self._centre[1] + _GRID * offset for offset in self._offsets)

    @property
    def crosses_date_line(self) -> bool:
        return min(self.longitudes) < -180 or max(self.longitudes) > 180

    def pieces(self, most_fields: int) -> Iterator[Piece]:
        """The years, or months where a year has more than so many fields, one a variable and time."""
        whole = 366 * 24 // self.step * len(self.variables) <= most_fields
        for year in range(self.years[0], self.years[1] + 1):
            months = tuple(range(1, 13))
            yield from [Piece(year, months)] if whole else [Piece(year, (month,)) for month in months]

    def times(self, piece: Piece) -> Times:
        """The times of a piece."""
        first = np.datetime64(f"{piece.year}-{piece.months[0]:02d}", "M")
        start, end = (time.astype("datetime64[h]") for time in (first, first + len(piece.months)))
        return np.arange(start, end, np.timedelta64(self.step, "h")).astype("datetime64[s]")

    @property
    def _centre(self) -> tuple[float, float]:
        latitude, longitude = (round(value / _GRID) * _GRID for value in self.at)
        return latitude, (longitude + 180) % 360 - 180

    @property
    def _offsets(self) -> range:
        return range(-(self.patch // 2), self.patch // 2 + 1)


def variable_names(text: str) -> tuple[str, ...]:
    """The short names of variables that are written as a list.

    Args:
        text: Short or long names with commas between them, such as "10m_u_component_of_wind, v10".
    """
    short = {long: name for name, long in VARIABLES.items()}
    return tuple(short.get(part.strip(), part.strip()) for part in text.split(",") if part.strip())


def years_of(text: str) -> tuple[int, int]:
    """The first and the last of some years.

    Args:
        text: The years, such as "2005-2021" or "2021".
    """
    years = _YEARS.fullmatch(text.strip())
    if years is None:
        raise SettingError(f"years must be such as 2005-2021 or 2021, got {text!r}")
    return int(years[1]), int(years[2] or years[1])


def _require_variables(variables: Sequence[str]) -> None:
    if not variables:
        raise SettingError("variables must name at least one, such as u10,v10")
    for place, name in enumerate(variables):
        if name not in VARIABLES:
            known = (*VARIABLES, *VARIABLES.values())
            raise SettingError(f"ERA5 has no variable {name!r} that stakes knows; {did_you_mean(name, known)}")
        if name in variables[:place]:
            raise SettingError(f"variables must differ from each other, got {name!r} twice")


def _require_point(at: tuple[float, float]) -> None:
    latitude, longitude = at
    if not -90 <= latitude <= 90 or not -180 <= longitude <= 360:
        raise SettingError(
            "at must be a latitude from -90 to 90 and a longitude from -180 to 360, in degrees and in this order, got "
            f"{latitude:g} {longitude:g}"
        )


def _require_years(years: tuple[int, int]) -> None:
    last = datetime.now(UTC).year - 1
    if not _FIRST_YEAR <= years[0] <= years[1] <= last:
        raise SettingError(
            f"years must be whole ones from {_FIRST_YEAR} to {last}, the earlier first, got {years[0]}-{years[1]}"
        )
