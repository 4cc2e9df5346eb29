"""Public tables that may not be shipped: wind power and loads of many places, read where the user has put them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stakes.data.time_series import TimeSeries
from stakes.errors import TableError

if TYPE_CHECKING:  # imported where a table is read: a machine that only trains may lack it
    import pandas as pd

__all__ = [
    "EUROPEAN_CAPACITY",
    "EUROPEAN_POWER",
    "GEFCOM_WIND",
    "NEW_YORK_LOAD",
    "read_reference_table",
    "table_series",
]

EUROPEAN_POWER = "wind_europe_21series_6hourly_2017_2020.csv.gz"
EUROPEAN_CAPACITY = "wind_europe_capacity.csv"
GEFCOM_WIND = "wind_gefcom2014_10zones_hourly_2012_2013.csv.gz"
NEW_YORK_LOAD = "load_nyiso_11zones_dayahead_hourly_2018_2019.csv.gz"


def read_reference_table(name: str, folder: str | None, time: str = "time") -> "pd.DataFrame":
    """A table by the name of its file, its times as such in the column "time".

    Args:
        name: The name of the file.
        folder: The folder that holds it; None is the current one.
        time: The column of the times, in UTC; a table without it is taken as it is.
    """
    import pandas as pd

    path = Path(folder or ".").expanduser() / name
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:  # among which are an absent file, a damaged one and an empty one
        raise TableError(
            f"{name} must be a table in {str(path.parent.absolute())!r}, but cannot be read: {error}"
        ) from None
    if time in table:
        table = table.rename(columns={time: "time"}).assign(time=pd.to_datetime(table[time]))
    return table


def table_series(table: "pd.DataFrame", columns: tuple[str, ...]) -> TimeSeries:
    """Some columns of a table as a series.

    Args:
        table: A table with a column "time".
        columns: The names of the columns.
    """
    return TimeSeries(table["time"].to_numpy("datetime64[s]"), table[list(columns)].to_numpy(np.float64), columns)
