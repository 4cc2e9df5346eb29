"""ERA5 from a Zarr store in the layout of ARCO-ERA5, by default the public one of Google, which asks for no key.

Its variables have long names, its dimensions are time, latitude from 90 to -90 and longitude from 0 to 359.75, and a
chunk is one time of the whole globe: a single point of a year costs as much to read as all of them. The time axis goes
on into the future; the attributes `valid_time_start` and `valid_time_stop` say for which days there are values.
"""

import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stakes.data.era5.request import VARIABLES, Era5Request, Piece
from stakes.data.era5.standard_form import standard_dataset
from stakes.errors import Era5Error, SettingError, did_you_mean, one_line

if TYPE_CHECKING:
    from xarray import Dataset

__all__ = ["STORE", "ArcoStore"]

STORE = "gs://gcp-public-data-arco-era5/ar/full_37-1h-0p25deg-chunk-1.zarr-v3"
"""The address of the public store."""

_REMOTE = "gs://"


class ArcoStore:
    """A Zarr store of ERA5.

    Args:
        store: The path of a folder, or an address gs://...; by default the public one of Google.
    """

    most_fields = 0  # a month at a time, as every field is read whole

    def __init__(self, store: str = STORE) -> None:
        self._store = store
        self._dataset: Dataset | None = None

    @property
    def words(self) -> str:
        return f"the Zarr store {self._store}"

    def prepare(self, request: Era5Request) -> None:
        """Open the store; raise unless it has the variables and the years."""
        dataset = self._dataset = _opened(self._store)
        for name in request.variables:
            if name not in dataset.data_vars and VARIABLES[name] not in dataset.data_vars:
                hint = did_you_mean(VARIABLES[name], [str(key) for key in dataset.data_vars][:50])
                raise SettingError(f"{self.words} has no variable {VARIABLES[name]!r}; {hint}")
        for key, outside in (("valid_time_start", _begins_before), ("valid_time_stop", _ends_after)):
            if (day := dataset.attrs.get(key)) is not None and outside(request.years, str(day)):
                years = f"{request.years[0]}-{request.years[1]}"
                side = "from" if key.endswith("start") else "up to"
                raise SettingError(f"{self.words} has values {side} {day}, got the years {years}")

    def fetch(self, request: Era5Request, piece: Piece, folder: Path) -> "Dataset":
        """One piece; nothing is written."""
        assert self._dataset is not None  # `prepare` comes first
        return standard_dataset([self._dataset], request, request.times(piece), self.words)


def _opened(store: str) -> "Dataset":
    remote = store.startswith(_REMOTE)
    for name in ("zarr", "gcsfs") if remote else ("zarr",):
        try:
            import_module(name)
        except ImportError as error:
            raise SettingError(f'{store} can only be read with {name}; pip install "stakes[era5]"') from error
    if not remote and "://" not in store and not Path(store).is_dir():
        raise SettingError(f"there is no Zarr store {store!r}, expected a folder or an address such as {STORE}")
    consolidated = remote or (Path(store) / ".zmetadata").is_file()
    options: dict[str, Any] = {"storage_options": {"token": "anon"}} if remote else {}
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it logs every failed attempt with its traceback
    try:
        dataset: Dataset = import_module("xarray").open_zarr(
            store, chunks=None, decode_timedelta=False, consolidated=consolidated, **options
        )
    except Exception as error:  # those of the network and of damaged content are not documented
        raise Era5Error(f"the Zarr store {store} cannot be opened: {one_line(error)}") from error
    return dataset


def _begins_before(years: tuple[int, int], day: str) -> bool:
    return bool(np.datetime64(f"{years[0]}-01-01") < _day(day))


def _ends_after(years: tuple[int, int], day: str) -> bool:
    return bool(np.datetime64(f"{years[1]}-12-31") > _day(day))


def _day(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "D")
    except ValueError as error:
        raise Era5Error(f"the store says its values end or begin at {text!r}, expected a day") from error
