"""Makes the fit whose decisions must stay what they are: `python tests/golden/make_bundle.py`.

It is made again when the format of folders changes; the decisions must then be those of before.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from stakes.artifacts.fits import save_bundle
from stakes.artifacts.folder import DataFingerprint
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.layout import TableLayout
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.training.settings import ImplicitSettings, TrainingSettings

FOLDER = Path(__file__).parent
SPEC = CostSpec.parse("imbalance:short=4,long=1,upper=9,unit=EUR,action_unit=MW")
LAYOUT = TableLayout(("load",), features=("wind", "sun", "price"))


def table(rows: int = 400) -> pd.DataFrame:
    """Made-up values that need no random numbers."""
    row = np.arange(rows)
    wind, sun, price = (np.sin(row * speed) for speed in (0.7, 1.3, 2.1))
    load = 3 + wind + 0.5 * sun * price + 0.3 * np.cos(row * 3.7)
    return pd.DataFrame({"wind": wind, "sun": sun, "price": price, "load": load})


def decisions(forecaster: DecisionAwareForecaster) -> dict[str, Any]:
    """What the forecaster says about the first rows."""
    features = table(6)[list(LAYOUT.features)]
    return {
        "actions": forecaster.decide(features).tolist(),
        "members": forecaster.sample(features[:2], members=3).tolist(),
        "quantiles": forecaster.predict_quantiles(features, [0.1, 0.5, 0.9]).tolist(),
    }


def main() -> None:
    torch.set_num_threads(1)
    cases = LAYOUT.cases(table())
    forecaster = DecisionAwareForecaster(
        SPEC.build(),
        model=ImplicitSettings(noise=2, hidden=8, layers=2),
        base="none",
        outcome_bounds=None,
        weights=(0.0, 0.9),
        members=50,
        ensemble=2,
        epochs=30,
        training=TrainingSettings(batch=32, validation_members=8, learning_rate=0.01),
        refit_on_all_rows=False,
        model_selection=False,
        recent_errors=False,
        tolerance=200.0,
        block=1,
        device="cpu",
        random_state=1,
    )
    forecaster.fit(cases.feature_table, cases.outcome_table["load"])
    data = DataFingerprint("load.csv", len(table()), "0" * 64)
    save_bundle(FOLDER / "fit", forecaster, cost_spec=SPEC, layout=LAYOUT, about={"data": data})
    expected = json.dumps(decisions(forecaster), indent=1) + "\n"
    (FOLDER / "decisions.json").write_text(expected)


if __name__ == "__main__":
    main()
