"""ERA5 at a point or a small patch as one NetCDF file, fetched piece by piece.

Pieces that are done lie in FILE.nc.parts beside the file; a second call fetches what is missing, joins them and removes
the folder.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stakes.data.era5.arco import STORE, ArcoStore
from stakes.data.era5.cds import ClimateDataStore
from stakes.data.era5.request import Era5Request, Piece
from stakes.data.era5.standard_form import ERA5_ATTRIBUTION, read_piece, write_dataset
from stakes.errors import CheckpointError, SettingError, StakesError
from stakes.files import locked, read_json, write_json
from stakes.settings import to_plain

if TYPE_CHECKING:
    from xarray import Dataset

__all__ = ["Fetched", "Source", "fetch_era5", "find_source"]


class Source(Protocol):
    """Where ERA5 comes from."""

    @property
    def most_fields(self) -> int:
        """How many fields, one for each variable and time, a piece may have."""
        ...

    @property
    def words(self) -> str:
        """The source in words, for messages and the file's attributes."""
        ...

    def prepare(self, request: Era5Request) -> None:
        """Raise unless the source can answer the request."""
        ...

    def fetch(self, request: Era5Request, piece: Piece, folder: Path) -> "Dataset":
        """One piece of the request, in the standard form; the folder is for what is downloaded."""
        ...


@dataclass(frozen=True)
class Fetched:
    """What was written.

    Attributes:
        out: The NetCDF file.
        request: What was asked for.
        rows: How many times it has.
        first: The first time, ISO in UTC.
        last: The last time, likewise.
        missing: How many values of each variable ERA5 does not have there, such as those of soil over sea.
    """

    out: Path
    request: Era5Request
    rows: int
    first: str
    last: str
    missing: dict[str, int]

    def record(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "out": str(self.out),
            "variables": list(self.request.variables),
            "latitudes": list(self.request.latitudes),
            "longitudes": list(self.request.longitudes),
            "rows": self.rows,
            "first": self.first,
            "last": self.last,
            "step_hours": self.request.step,
            "missing": self.missing,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Variables of which values are missing, in sentences."""
        of = self.rows * self.request.patch**2
        return tuple(f"{name}: {count} of {of} values are missing" for name, count in self.missing.items() if count)


def find_source(name: str, store: str | None = None) -> Source:
    """A source of ERA5 by its name.

    Args:
        name: "cds", the Climate Data Store, or "arco", a Zarr store.
        store: The address or path of the Zarr store; None takes the public one.
    """
    if name == "arco":
        return ArcoStore(store or STORE)
    if name != "cds":
        raise SettingError(f"source must be cds or arco, got {name!r}")
    if store is not None:
        raise SettingError("store belongs to the source arco, got it with cds")
    return ClimateDataStore()


def fetch_era5(request: Era5Request, source: Source, out: Path, say: Callable[[str], None] = lambda _: None) -> Fetched:
    """Fetch all pieces that are not there yet, and join them into one NetCDF file.

    Args:
        request: What is wanted.
        source: Where it comes from, as `find_source` gives it.
        out: The file to write; its pieces lie beside it until all are there.
        say: Told of each piece, in words.
    """
    folder = out.with_name(f"{out.name}.parts")
    source.prepare(request)
    with locked(folder):
        _require_same_request(folder, {"request": to_plain(request), "source": source.words})
        pieces = list(request.pieces(source.most_fields))
        parts = []
        for place, piece in enumerate(pieces, 1):
            part, file = None, folder / f"{piece.name}.nc"
            with suppress(StakesError):  # one that is damaged counts as missing
                part = read_piece(file, request, request.times(piece))
            origin = f"from {source.words}" if part is None else "is there already"
            say(f"{piece.name}, {place} of {len(pieces)}: {origin}")
            if part is None:
                part = source.fetch(request, piece, folder)
                write_dataset(part, file)
            parts.append(part)
        fetched = _join(parts, request, source.words, out)
        shutil.rmtree(folder, ignore_errors=True)
    return fetched


def _join(parts: list["Dataset"], request: Era5Request, words: str, out: Path) -> Fetched:
    import xarray

    whole = xarray.concat(parts, "valid_time", combine_attrs="drop_conflicts", data_vars="all")
    whole.attrs = {
        "Conventions": "CF-1.7",
        "institution": "European Centre for Medium-Range Weather Forecasts",
        "source": f"ERA5 hourly data on single levels, from {words}",
        "attribution": ERA5_ATTRIBUTION,
        "history": "selected and joined by stakes; values as in the source",
    }
    write_dataset(whole, out)
    times = whole["valid_time"].to_numpy().astype("datetime64[s]")
    missing = {name: int(np.isnan(whole[name].to_numpy()).sum()) for name in request.variables}
    return Fetched(out, request, len(times), str(times[0]), str(times[-1]), missing)


def _require_same_request(folder: Path, asked: dict[str, Any]) -> None:
    """Note what request the pieces belong to; raise where there are pieces of another."""
    file = folder / "request.json"
    if not file.exists() or not any(folder.glob("*.nc")):
        write_json(file, asked)
        return
    try:
        before = read_json(file)
    except CheckpointError as error:
        raise SettingError(
            f"{folder} holds pieces of an unknown request; delete it, or choose another --out"
        ) from error
    if before != asked:
        raise SettingError(f"{folder} holds pieces of another request; delete it, or choose another --out")
