"""A small fit for a range of decision makers, for the tests of what is done with its folder."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd

from stakes.data.tables.layout import TableLayout
from stakes.reports.tables import Result
from stakes.training.execution import Execution
from stakes.workflows.fit import run_fit
from stakes.workflows.inputs import FitRequest

__all__ = ["COST", "LAYOUT", "ranged_fit", "table"]

COST = "shortfall:penalty=1..50,unit=EUR"
LAYOUT = TableLayout(("north", "south"), features=("wind", "sun"))


def table(rows: int = 260) -> pd.DataFrame:
    """Power of two sites, with the penalty that each row's customer pays."""
    random = np.random.default_rng(0)
    features = random.uniform(size=(rows, 2))
    power = (features + 0.15 * random.normal(size=(rows, 1)) + 0.1 * random.normal(size=(rows, 2))).clip(0.001, 0.999)
    penalty = np.exp(random.uniform(0, np.log(50), rows))
    columns = {"wind": features[:, 0], "sun": features[:, 1], "north": power[:, 0], "south": power[:, 1]}
    return pd.DataFrame({**columns, "theirs": penalty})


@cache
def ranged_fit(conditioned: bool) -> tuple[Path, Result]:
    """The folder, which is to be read only, and what the fit said."""
    home = Path(mkdtemp(prefix="stakes-ranged-"))
    table().to_csv(home / "power.csv", index=False)
    request = FitRequest(
        str(home / "power.csv"),
        COST,
        LAYOUT,
        conditioned=conditioned,
        decision_weight=0.4,
        epochs=2,
        members=30,
        recent_errors=False,
    )
    return home / "fit", run_fit(request, home / "fit", Execution("cpu", 1, True))
