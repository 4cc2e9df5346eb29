"""The real records shipped inside the package: weather, wind and electricity load, as found at their sources."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from stakes.errors import RecordError, SettingError, did_you_mean, find_columns

MISSING_INTEGER = int(np.iinfo(np.int32).min)
"""The integer that stands for a missing value in the file of a record."""

_KNOT = 1852 / 3600  # m/s, by definition
_METRES_PER_SECOND = {"m/s": 1.0, "knot": _KNOT}
_ENTRY = {"title", "sha256", "start", "step_seconds", "rows", "columns", "units", "divisors", "attribution", "source"}


@dataclass(frozen=True, eq=False)
class Record:
    """One real series at regular times."""

    name: str  # the name of the record, or the path of a user's own file
    title: str  # what it is, in words
    times: NDArray[np.datetime64]  # the times (T,), datetime64[s] in UTC
    values: NDArray[np.float64]  # the values (T, C), NaN where the source has none
    columns: tuple[str, ...]  # the names of the C columns
    units: tuple[str, ...]  # the unit of each column
    attribution: str  # what its licence asks to be said
    source: str  # where it comes from

    def __repr__(self) -> str:
        span = f"{self.times[0]}..{self.times[-1]}" if len(self.times) else "no times"
        return f"Record({self.name!r}, {span}, {len(self.times)} rows, columns {', '.join(self.columns)})"

    def select(self, *columns: str) -> "Record":
        """The record with some columns only."""
        places = find_columns(columns, self.columns)
        units = tuple(self.units[place] for place in places)
        return replace(self, values=self.values[:, places], columns=columns, units=units)

    def every(self, hours: int) -> "Record":
        """The record thinned to one row in so many hours, beginning with the first; nothing is averaged."""
        step = np.diff(self.times[:2]).astype("timedelta64[s]").astype(int)
        if hours < 1 or len(step) == 0 or hours * 3600 % step[0]:
            raise SettingError(f"hours must be a multiple of the step of record {self.name!r}, got {hours}")
        stride = hours * 3600 // step[0]
        return replace(self, times=self.times[::stride], values=self.values[::stride])

    def in_metres_per_second(self) -> "Record":
        """The record with every speed in m/s; one knot is 1852 m an hour, 0.5144 m/s."""
        for column, unit in zip(self.columns, self.units, strict=True):
            if unit not in _METRES_PER_SECOND:
                raise RecordError(f"column {column!r} of record {self.name!r} is in {unit}, which is not a speed")
        factors = np.array([_METRES_PER_SECOND[unit] for unit in self.units])
        return replace(self, values=self.values * factors, units=("m/s",) * len(self.columns))


def records_folder() -> Traversable:
    """Where the shipped records lie."""
    return files("stakes.data") / "records"


def record_names(folder: Traversable | None = None) -> tuple[str, ...]:
    """The names that `load_record` knows."""
    return tuple(_manifest(folder or records_folder()))


def load_record(name: str, folder: Traversable | None = None) -> Record:
    """Read a record and verify its checksum.

    >>> load_record("wind_irish").every(24 * 7).select("DUB", "MAL")
    Record('wind_irish', 1961-01-01T00:00:00..1978-12-31T00:00:00, 940 rows, columns DUB, MAL)

    Args:
        name: One of `record_names`.
        folder: A folder that `build_records` wrote; None for the records of the package.
    """
    folder = folder or records_folder()
    manifest = _manifest(folder)
    if name not in manifest:
        raise RecordError(f"there is no record {name!r}; {did_you_mean(name, tuple(manifest))}")
    entry = manifest[name]
    values = _values(_verified_bytes(folder, name, entry["sha256"]), name, entry)
    start, step = np.datetime64(entry["start"], "s"), np.timedelta64(entry["step_seconds"], "s")
    return Record(
        name=name,
        title=entry["title"],
        times=start + step * np.arange(entry["rows"]),
        values=values,
        columns=tuple(entry["columns"]),
        units=tuple(entry["units"]),
        attribution=entry["attribution"],
        source=entry["source"],
    )


def _manifest(folder: Traversable) -> dict[str, dict[str, Any]]:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"the manifest of the records in {folder} cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise RecordError(f"the manifest of the records in {folder} must be a JSON object of records by name")
    for name, entry in manifest.items():
        if not isinstance(entry, dict) or not entry.keys() >= _ENTRY:
            raise RecordError(f"the manifest of the records in {folder} must give {sorted(_ENTRY)} for record {name!r}")
    return manifest


def _verified_bytes(folder: Traversable, name: str, expected: str) -> bytes:
    try:
        content = (folder / f"{name}.npz").read_bytes()
    except OSError as error:
        raise RecordError(f"the file of record {name!r} cannot be read: {error}") from error
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != expected:
        raise RecordError(
            f"the file of record {name!r} is damaged: its SHA-256 is {sha256}, the manifest says {expected}; "
            "install stakes anew"
        )
    return content


def _values(content: bytes, name: str, entry: Mapping[str, Any]) -> NDArray[np.float64]:
    expected = (len(entry["columns"]), entry["rows"])
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            integers = archive["integers"]
    except (BadZipFile, KeyError, ValueError) as error:
        raise RecordError(f"the file of record {name!r} is no archive of integers: {error}") from error
    if integers.shape != expected or integers.dtype != np.int32:
        raise RecordError(f"record {name!r} must be int32 {expected}, got {integers.dtype} {integers.shape}")
    values = integers / np.array(entry["divisors"], dtype=np.float64)[:, None]
    values[integers == MISSING_INTEGER] = np.nan
    return np.ascontiguousarray(values.T)
