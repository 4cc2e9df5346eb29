"""A forecast as a file has it, before anything is made of its numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["ForecastValues"]


@dataclass(frozen=True, eq=False)
class ForecastValues:
    """The numbers of a file of forecasts, NaN where one is missing.

    Attributes:
        values: What is forecast, (N, M, D): cases, members and targets.
        index: The N cases: their times, their labels, or their places in the file, counted from 0 in an index "row".
        targets: The names of the D targets.
        notes: Sentences about what the user should know.
    """

    values: NDArray[np.float64]
    index: "pd.Index[Any]"
    targets: tuple[str, ...]
    notes: tuple[str, ...] = ()
