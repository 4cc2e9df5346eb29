"""ERA5 from the Climate Data Store of Copernicus, through `cdsapi` and with the user's own key."""

import logging
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stakes.data.era5.request import VARIABLES, Era5Request, Piece
from stakes.data.era5.standard_form import standard_dataset
from stakes.data.xarray_files import open_dataset
from stakes.errors import Era5Error, SettingError, one_line

if TYPE_CHECKING:
    from xarray import Dataset

__all__ = ["ClimateDataStore", "cds_request"]

_DATASET = "reanalysis-era5-single-levels"
_SITE = "https://cds.climate.copernicus.eu"
_MOST_BYTES = 1 << 30  # unpacked, far above any piece
_KEPT = "the pieces that are done are kept, and the same command goes on from there"
_FAULTS = (
    (
        ("configuration file",),
        f"the Climate Data Store needs your key: register at {_SITE}, and copy the two lines url and key that {_SITE}"
        "/how-to-api shows you into the file .cdsapirc in your home folder",
    ),
    (
        ("connection", "timed out", "timeout", "resolve", "proxy", "network is unreachable"),
        f"the Climate Data Store cannot be reached; {_KEPT}",
    ),
    (
        ("licence", "license", "terms and conditions"),
        f"the licence of ERA5 is not accepted yet: log in at {_SITE}/datasets/{_DATASET}?tab=download and accept it at "
        "the end of that page, once",
    ),
    (
        ("cost limits exceeded", "too large"),
        "the Climate Data Store calls the request too large; ask for fewer variables at once or a larger step",
    ),
    (
        ("401 client", "unauthorized", "authentication", "403 client"),
        f"the Climate Data Store refuses the key in .cdsapirc; compare it with the one that {_SITE}/profile shows you",
    ),
)


class ClimateDataStore:
    """The Climate Data Store, asked with the user's own key.

    Args:
        client: An object with the method `retrieve` of a client of `cdsapi`; None makes one.
    """

    most_fields = 5000  # of one request, far below what the store allows; it converts NetCDF slowly
    words = f"the Climate Data Store ({_DATASET}, doi:10.24381/cds.adbb2d47)"

    def __init__(self, client: Any = None) -> None:
        self._client = client

    def prepare(self, request: Era5Request) -> None:
        """Raise unless the request can be sent."""
        if request.crosses_date_line:
            raise SettingError(
                "the patch lies across the date line, longitude 180, which one request to the Climate Data Store "
                "cannot; take a smaller patch, another point or --source arco"
            )
        if self._client is None:
            self._client = _client()

    def fetch(self, request: Era5Request, piece: Piece, folder: Path) -> "Dataset":
        """One piece; the folder is for what is downloaded."""
        download = folder / f"{piece.name}.download"
        try:
            self._client.retrieve(_DATASET, cds_request(request, piece), str(download))
        except Exception as error:  # those of cdsapi, of requests, and of the store in words alone
            raise _fault(error) from error
        source = f"what the Climate Data Store sent for {piece.name}"
        with _opened(download, source) as datasets:
            return standard_dataset(datasets, request, request.times(piece), source)


def cds_request(request: Era5Request, piece: Piece) -> dict[str, Any]:
    """What is sent to the store for a piece; the area is north, west, south, east.

    Args:
        request: What is wanted.
        piece: The months of a year that are asked for at once.
    """
    return {
        "product_type": ["reanalysis"],
        "variable": [VARIABLES[name] for name in request.variables],
        "year": [str(piece.year)],
        "month": [f"{month:02d}" for month in piece.months],
        "day": [f"{day:02d}" for day in range(1, 32)],
        "time": [f"{hour:02d}:00" for hour in range(0, 24, request.step)],
        "area": [request.latitudes[0], request.longitudes[0], request.latitudes[-1], request.longitudes[-1]],
        "data_format": "netcdf",
        "download_format": "unarchived",
    }


def _client() -> Any:
    try:
        cdsapi = import_module("cdsapi")
    except ImportError as error:
        raise SettingError('the Climate Data Store is reached through cdsapi; pip install "stakes[era5]"') from error
    logging.getLogger("multiurl").setLevel(logging.ERROR)  # it logs every attempt
    try:
        with warnings.catch_warnings():  # that the store's news cannot be read; what else fails is said later
            warnings.simplefilter("ignore")
            return cdsapi.Client(quiet=True, progress=False, retry_max=3, sleep_max=30)
    except Exception as error:  # a bare one where there is no key
        raise _fault(error) from error


def _fault(error: Exception) -> Era5Error:
    """One line that says what to do; the store explains itself in words."""
    said = f"{type(error).__name__}: {one_line(error)}"
    known = next((sentence for signs, sentence in _FAULTS if any(sign in said.lower() for sign in signs)), None)
    return Era5Error(known or f"the Climate Data Store did not answer the request: {said}; {_KEPT}")


@contextmanager
def _opened(download: Path, source: str) -> Iterator[Sequence["Dataset"]]:
    """The data of a download: a NetCDF file, or a ZIP file of several, as for variables of different kinds."""
    try:
        with ExitStack() as stack:
            files = _unpacked(download, source) if zipfile.is_zipfile(download) else [download]
            stack.callback(_remove, files)
            yield [stack.enter_context(open_dataset(str(file))) for file in files]
    finally:
        _remove([download])


def _unpacked(download: Path, source: str) -> list[Path]:
    """The NetCDF files of a ZIP file, each beside it under a name of our own."""
    try:
        with zipfile.ZipFile(download) as archive:
            members = [member for member in archive.infolist() if member.filename.lower().endswith(".nc")]
            if sum(member.file_size for member in members) > _MOST_BYTES:
                raise Era5Error(f"{source} is a ZIP file of more than {_MOST_BYTES >> 20} MiB, which is refused")
            files = [download.with_name(f"{download.name}.{place}.nc") for place in range(len(members))]
            for member, file in zip(members, files, strict=True):
                file.write_bytes(archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise Era5Error(f"{source} is a damaged ZIP file: {one_line(error)}") from error
    if not files:
        raise Era5Error(f"{source} is a ZIP file without NetCDF")
    return files


def _remove(files: Sequence[Path]) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink()
