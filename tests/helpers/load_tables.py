"""A table of loads as a user has it."""

import numpy as np
import pandas as pd


def load_table(rows: int = 200) -> pd.DataFrame:
    generator = np.random.default_rng(1)
    load = 10 + 3 * np.sin(np.arange(rows) / 3) + generator.normal(0, 0.5, rows)
    times = pd.date_range("2021-01-01", periods=rows, freq="12h")
    return pd.DataFrame({"time": times, "load": load.round(3), "bought": 11.0})
