"""What was forecast, decided and paid, case by case, beside weight 0 and today's action; and all of it in short."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.data.layout import TableCases
from stakes.evaluation.forecast_table import forecast_table
from stakes.evaluation.significance import Resampling

if TYPE_CHECKING:
    from stakes.forecaster import DecisionAwareForecaster

__all__ = ["CaseMetrics", "judged"]

Floats = NDArray[np.float64]
_BESIDE = ("action", "cost", "expected_cost", "energy_score")  # of weight 0, in the table of cases


@dataclass(frozen=True, eq=False)
class CaseMetrics:
    """Metrics (N,) of a forecast on outcomes (N, D) in the order of time, and what can be set beside it."""

    outcomes: pd.DataFrame
    chosen: Mapping[str, Floats]
    members: int
    baseline: Mapping[str, Floats] | None = None  # of weight 0
    today: Mapping[str, Floats] | None = None  # action and cost, NaN where it is not known

    def table(self) -> pd.DataFrame:
        """One row a case, its time or row first."""
        columns = {name: values for name, values in self.chosen.items() if values.ndim == 1}
        columns |= {f"weight_0_{name}": self.baseline[name] for name in _BESIDE if self.baseline is not None}
        columns |= {f"today_{name}": values for name, values in (self.today or {}).items()}
        found = pd.concat([self.outcomes, pd.DataFrame(columns, self.outcomes.index)], axis=1)
        return found.reset_index()

    def summary(self, block: int) -> pd.DataFrame:
        """Metrics with 95 % intervals, with today's cost and what is paid less than today last."""
        table = forecast_table(self.chosen, self.baseline, self.members, block)
        if self.today is not None and np.isfinite(self.today["cost"]).any():
            cases = len(self.outcomes)
            resampling = Resampling(cases, block=min(block, cases))
            cost, today = resampling.pair(self.chosen["cost"][None, None], self.today["cost"][None, None])
            names = ("value", "low", "high")
            rows = {"today_cost": today.interval(), "cost_less_today": (cost - today).interval()}
            more = {name: dict(zip(names, interval, strict=True)) for name, interval in rows.items()}
            table = pd.concat([table, pd.DataFrame.from_dict(more, orient="index")]).rename_axis("metric")
        return table.reset_index()


def judged(forecaster: "DecisionAwareForecaster", cases: TableCases) -> CaseMetrics:
    """A fitted forecaster on cases with outcomes."""
    assert cases.outcomes is not None
    chosen = forecaster.assess(cases.features, cases.outcomes)
    kept = bool(forecaster.baseline_models_)
    baseline = forecaster.assess(cases.features, cases.outcomes, "baseline") if kept else None
    return CaseMetrics(cases.outcomes, chosen, int(forecaster.members), baseline, _today(forecaster, cases))


def _today(forecaster: "DecisionAwareForecaster", cases: TableCases) -> dict[str, Floats] | None:
    if cases.baseline_action is None or cases.outcomes is None:
        return None
    action, outcome = torch.tensor(cases.baseline_action), torch.tensor(cases.outcomes.to_numpy(np.float64))
    return {"action": cases.baseline_action, "cost": forecaster.cost(action[:, None], outcome).numpy()}
