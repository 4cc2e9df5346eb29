"""Pack the source tables into the records that ship with the package.

    python -m benchmarks.build_records SOURCE_FOLDER [--out FOLDER]

SOURCE_FOLDER holds the gzipped CSV tables named in `RECIPES`, time in UTC in the first column; a long table, with
several rows a time, is made a wide one first. Written are NAME.npz for each record and `manifest.json`, by default over
the shipped ones; the same tables give the same bytes. Every number must be a whole multiple of 1 / divisor
and every time must lie on a regular axis, or nothing is written.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.records import MISSING_INTEGER, records_folder
from stakes.errors import RecordError

__all__ = ["RECIPES", "Recipe", "build_records", "main"]

_ERA5 = (
    "Contains modified Copernicus Climate Change Service information (ERA5, Hersbach et al. 2020, "
    "doi:10.1002/qj.3803). Neither the European Commission nor ECMWF is responsible for any use of it."
)
_MERRA2 = (
    "MERRA-2: NASA Global Modeling and Assimilation Office (Gelaro et al. 2017, doi:10.1175/JCLI-D-16-0758.1), "
    "as packaged by OpenOA."
)
_LOAD = "RTE, eCO2mix regional data, via ODRE (Reseaux Energies), Licence Ouverte 2.0."
_REGIONS = ("ARA", "BFC", "BRE", "CVL", "GES", "HDF", "IDF", "NOR", "NAQ", "OCC", "PDL", "PAC")
_SHOPS = (2, 3, 4, 17, 19, 20, 21, *range(24, 32), *range(33, 39), 40, 41, *range(43, 51), 70, 71)
_WEATHER_SHOPS = (2, 20, 25, 37, 38, 40)  # one of each place: 3-19, 21-36 as 2; 22, 70, 71 as 20; 41-50 as 40
_PRODUCTS = (101, 109, 110)
_PROMOTIONS = ("currentweek", "lastweek")
_STATIONS = ("RPT", "VAL", "ROS", "KIL", "SHA", "BIR", "DUB", "CLA", "MUL", "CLO", "BEL", "MAL")


@dataclass(frozen=True)
class Recipe:
    """What of a source table becomes a record; each column is (name, unit, divisor).

    In a long table `varies_by` has, for each of its quantities, the key columns by which it varies within one time; the
    quantity demand by shop 2 and product 101 is then the column demand_2_101.
    """

    name: str
    title: str
    table: str
    columns: tuple[tuple[str, str, int], ...]
    attribution: str
    source: str
    varies_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


RECIPES = (
    Recipe(
        name="wind_north_sea",
        title="Reanalysis wind at 58.0 N 1.5 W, northern North Sea, 3-hourly (ws_hub: hub height not stated)",
        table="wind_ore_58.0N_1.5W_3hourly_1980_2023.csv.gz",
        columns=(("ws10", "m/s", 100), ("ws_hub", "m/s", 100)),
        attribution=_ERA5,
        source="PyPI wombat 0.13.5 (Apache-2.0); ERA5 by its grid and columns",
    ),
    Recipe(
        name="wind_nora10",
        title="NORA10 hindcast wind at an offshore Norwegian point (position masked at source), 3-hourly",
        table="wind_nora10_norway_3hourly_1958_1979.csv.gz",
        columns=(("W10", "m/s", 10), ("W100", "m/s", 10)),
        attribution="NORA10: Norwegian Meteorological Institute.",
        source="PyPI metocean_stats 1.2.0 (MIT); MET Norway open data",
    ),
    Recipe(
        name="frost_merra2",
        title="MERRA-2 at La Haute Borne, France, 48.45 N 5.59 E, hourly means every 6 hours at hh:30",
        table="frost_merra2_hauteborne_6hourly_1997_2019.csv.gz",
        columns=(
            *((name, "degC", 100) for name in ("t2m", "skt", "t10m", "t850")),
            ("sp", "hPa", 100),
            *((name, "m/s", 100) for name in ("u10", "v10", "u850", "v850")),
        ),
        attribution=_MERRA2,
        source="PyPI openoa 3.2 (BSD-3), la_haute_borne.zip",
    ),
    Recipe(
        name="frost_era5",
        title="ERA5 at La Haute Borne, France, 48.45 N 5.59 E, 6-hourly",
        table="frost_era5_hauteborne_6hourly_1999_2020.csv.gz",
        columns=(("t2m", "degC", 100), ("sp", "hPa", 100), ("u100", "m/s", 100), ("v100", "m/s", 100)),
        attribution=_ERA5,
        source="PyPI openoa 3.2 (BSD-3), la_haute_borne.zip",
    ),
    Recipe(
        name="load_france",
        title="Electricity load and MERRA-2 temperature of the 12 regions of mainland France, 6-hourly",
        table="load_france_12regions_6hourly_2014_2021.csv.gz",
        columns=(
            *((f"load_{region}", "MW", 2) for region in _REGIONS),
            *((f"temp_{region}", "degC", 100) for region in _REGIONS),
        ),
        attribution=f"{_LOAD} {_MERRA2.split(', as packaged')[0]}.",
        source="PyPI ml4climate 25.0.1; load data under Licence Ouverte 2.0 from the open-data portal ODRE",
    ),
    Recipe(
        name="wind_irish",
        title="Observed daily mean wind speed at 12 Irish weather stations",
        table="wind_irish_12stations_daily_1961_1978.csv.gz",
        columns=tuple((station, "knot", 100) for station in _STATIONS),
        attribution=(
            "Irish wind: Haslett and Raftery (1989), Applied Statistics 38, 1-50, data of the Irish Meteorological "
            "Service, via StatLib."
        ),
        source="Debian r-cran-gstat, data set wind, first published at StatLib",
    ),
    Recipe(
        name="demand_bakery",
        title=(
            "Daily demand of 33 bakery shops for 3 products (demand_SHOP_PRODUCT, 0 on closed days), promotions, "
            "holidays, and the weather of six shops that stand for their places"
        ),
        table="bakery_demand_stores_products_daily_2016_2019.csv.gz",
        columns=(
            *((f"demand_{shop}_{product}", "piece", 1000) for product in _PRODUCTS for shop in _SHOPS),
            *((f"promotion_{week}_{product}", "0 or 1", 1) for week in _PROMOTIONS for product in _PRODUCTS),
            ("is_holiday", "0 or 1", 1),
            ("is_holiday_next2days", "0 or 1", 1),
            *((f"is_schoolholiday_{shop}", "0 or 1", 1) for shop in (2, 40)),
            *((f"rain_{shop}", "mm", 10) for shop in _WEATHER_SHOPS),
            *((f"temperature_{shop}", "degC", 10) for shop in _WEATHER_SHOPS),
        ),
        attribution="Bakery demand: data of ddop, copyright (c) 2007-2020 the ddop developers, BSD 3-Clause.",
        source="PyPI ddop 0.7.6 (BSD-3)",
        varies_by={
            "demand": ("store", "product"),
            **{f"promotion_{week}": ("product",) for week in _PROMOTIONS},
            "is_holiday": (),
            "is_holiday_next2days": (),
            **dict.fromkeys(("is_schoolholiday", "rain", "temperature"), ("store",)),
        },
    ),
)


def build_records(source: Path, out: Path) -> dict[str, int]:
    """Pack the tables of folder `source` into folder `out`; the size in bytes of each file written, by its name."""
    contents: dict[str, bytes] = {}
    manifest: dict[str, dict[str, Any]] = {}
    for recipe in RECIPES:
        packed, manifest[recipe.name] = _pack(recipe, source / recipe.table)
        contents[f"{recipe.name}.npz"] = packed
    contents["manifest.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    out.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (out / name).write_bytes(content)
    return {name: len(content) for name, content in contents.items()}


def _pack(recipe: Recipe, path: Path) -> tuple[bytes, dict[str, Any]]:
    content = path.read_bytes()
    header, *rows = csv.reader(io.StringIO(gzip.decompress(content).decode()))
    if recipe.varies_by:
        header, rows = _widened(header, rows, recipe)
    if absent := [name for name, _, _ in recipe.columns if name not in header]:
        raise RecordError(f"{recipe.table} must have a column {absent[0]!r}, got {', '.join(header)}")
    integers = np.stack(
        [_integers(rows, header.index(name), recipe.table, name, divisor) for name, _, divisor in recipe.columns]
    )
    start, step = _time_axis(rows, recipe.table)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, integers=integers)
    packed = buffer.getvalue()
    names, units, divisors = zip(*recipe.columns, strict=True)
    return packed, {
        "title": recipe.title,
        "sha256": hashlib.sha256(packed).hexdigest(),
        "start": str(start),
        "step_seconds": step,
        "rows": len(rows),
        "columns": names,
        "units": units,
        "divisors": divisors,
        "attribution": recipe.attribution,
        "source": recipe.source,
        "table": recipe.table,
        "table_sha256": hashlib.sha256(content).hexdigest(),
    }


def _widened(header: list[str], rows: list[list[str]], recipe: Recipe) -> tuple[list[str], list[list[str]]]:
    """A long table as one with a row a time; refused where a quantity also varies by something else."""
    cells: dict[str, dict[str, str]] = {}  # by time and column
    places = [
        (quantity, header.index(quantity), [header.index(key) for key in keys])
        for quantity, keys in recipe.varies_by.items()
    ]
    for row in rows:
        if len(row) != len(header):
            raise RecordError(f"{recipe.table} must have {len(header)} cells a row, got {len(row)} at {row[0]}")
        at_time = cells.setdefault(row[0], {})
        for quantity, place, keys in places:
            column = "_".join([quantity, *[row[key] for key in keys]])
            if at_time.setdefault(column, row[place]) != row[place]:
                raise RecordError(
                    f"{recipe.table} must have one {column!r} a time, got {at_time[column]} and {row[place]} "
                    f"at {row[0]}"
                )
    columns = list(dict.fromkeys(column for at_time in cells.values() for column in at_time))
    wide = [[time, *(at_time.get(column, "") for column in columns)] for time, at_time in cells.items()]
    return [header[0], *columns], wide


def _integers(rows: list[list[str]], place: int, table: str, column: str, divisor: int) -> NDArray[np.int32]:
    """Column `place` times the divisor, refused unless dividing gives back every printed number exactly."""
    values = np.array([float(row[place] or "nan") for row in rows])
    scaled = np.where(np.isnan(values), MISSING_INTEGER, np.round(values * divisor))
    wrong = np.flatnonzero(~np.isnan(values) & ((scaled / divisor != values) | (np.abs(scaled) >= -MISSING_INTEGER)))
    if len(wrong):
        raise RecordError(
            f"column {column!r} of {table} must hold multiples of 1/{divisor}, got {rows[wrong[0]][place]} "
            f"at {rows[wrong[0]][0]}"
        )
    return scaled.astype(np.int32)


def _time_axis(rows: list[list[str]], table: str) -> tuple[np.datetime64, int]:
    times = np.array([row[0] for row in rows], dtype="datetime64[s]")
    if len(times) < 2:
        raise RecordError(f"{table} must have at least 2 rows, got {len(times)}")
    steps = np.diff(times).astype(int)
    wrong = np.flatnonzero((steps != steps[0]) | (steps <= 0))
    if len(wrong):
        raise RecordError(f"the times of {table} must be regular, but the step changes at {times[wrong[0] + 1]}")
    return times[0], int(steps[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; exit code 2 and one line where the tables cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.build_records", description="Pack the source tables.")
    parser.add_argument("source", type=Path, metavar="SOURCE_FOLDER", help="folder of the gzipped CSV tables")
    parser.add_argument("--out", type=Path, default=Path(str(records_folder())), help="default: the package's folder")
    options = parser.parse_args(arguments)
    try:
        sizes = build_records(options.source, options.out)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for name, size in sizes.items():
        sys.stdout.write(f"{size:>9,} bytes  {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
