"""Made-up tables of prices and of wind power, in the form of those that are not shipped."""

from pathlib import Path

import numpy as np
import pandas as pd

from reproduction.programs.battery import PRICE_TABLE
from reproduction.programs.market_battery import MARKET_TABLE, MARKETS
from reproduction.tables import GEFCOM_WIND


def made_prices(folder: Path, days: int = 20) -> pd.DataFrame:
    """Prices 30, 31, ... by hour plus the number of the day, loads of 90 GW plus the hour, a temperature a day."""
    times = pd.date_range("2011-01-03", periods=24 * days, freq="h")
    day, hour = (times.normalize() - times[0]).days, times.hour
    table = pd.DataFrame(
        {
            "time_local_eastern": times,
            "pjm_da_price": 30.0 + hour + day,
            "pjm_load_forecast": 1000.0 * (90 + hour),
            "temp_dca_F": 40.0 + day,
        }
    )
    table.to_csv(folder / PRICE_TABLE, index=False, compression="gzip")
    return table


def made_markets(folder: Path, days: int = 16) -> pd.DataFrame:
    """Prices of about 10, 20, ... by market with an evening peak; the eight forecasts err by -4 to 3 tenths."""
    times = pd.date_range("2016-01-04", periods=24 * days, freq="h")
    random = np.random.default_rng(0)
    tables = []
    for place, market in enumerate(MARKETS):
        price = 10.0 * (place + 1) * (1 + 0.3 * (times.hour >= 18)) + random.normal(size=len(times))
        models = [f"dnn_{number}" for number in range(1, 5)] + [f"lear_{days}" for days in (56, 84, 1092, 1456)]
        forecasts = {model: price + (number - 4) / 10 for number, model in enumerate(models)}
        tables.append(pd.DataFrame({"time": times, "market": market, "price": price, **forecasts}))
    table = pd.concat(tables)
    table.to_csv(folder / MARKET_TABLE, index=False, compression="gzip")
    return table


def made_wind(folder: Path, first: str = "2013-03-25", days: int = 105) -> pd.DataFrame:
    """Wind speeds of 4 to 12 m/s that last, powers that follow them, a farm that does not report for an hour."""
    times = pd.date_range(first, periods=24 * days, freq="h") + pd.Timedelta(hours=1)
    random = np.random.default_rng(0)
    columns: dict[str, object] = {"time": times}
    steps = random.normal(size=len(times)).cumsum()
    speed = 8 + 4 * np.sin(steps / 5)
    for farm in range(1, 11):
        columns[f"u100_z{farm:02d}"] = 0.6 * speed
        columns[f"v100_z{farm:02d}"] = 0.8 * speed
        columns[f"power_z{farm:02d}"] = np.clip(speed / 12 + 0.05 * random.normal(size=len(times)), 0, 1)
    table = pd.DataFrame(columns)
    table.loc[30, "power_z03"] = np.nan
    table.to_csv(folder / GEFCOM_WIND, index=False, compression="gzip")
    return table
