"""What was forecast, decided and paid, case by case, beside weight 0 and today's action; and all of it in short."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.errors import CostError
from stakes.evaluation.forecast_table import forecast_table

__all__ = ["CaseMetrics", "require_finite_costs", "summary_table"]

Floats = NDArray[np.float64]
_BESIDE = ("action", "cost", "expected_cost", "energy_score")  # of weight 0, in the table of cases
_OF_REGIONS = ("mass_", "spread_")  # of no use without the regions
_METRICS: tuple[str, ...] = ("energy_score", "cost", "expected_cost", "gap", "foresight_regret", "climatology_cost")
_METRICS += ("spread_skill", "climatology_skill", "today_cases", "today_cost", "cost_beside_today", "cost_less_today")
_COLUMNS = ("value", "low", "high", "baseline", "difference", "difference_low", "difference_high")


@dataclass(frozen=True, eq=False)
class CaseMetrics:
    """Metrics (N,) of a forecast on outcomes (N, D) in the order of time, and what can be set beside it."""

    outcomes: pd.DataFrame
    chosen: Mapping[str, Floats]
    members: int
    baseline: Mapping[str, Floats] | None = None  # of weight 0
    today: Mapping[str, Floats] | None = None  # action and cost, NaN where it is not known

    def __post_init__(self) -> None:
        for each in (self.chosen, self.baseline):
            if each is not None:
                require_finite_costs(each["cost"])
                require_finite_costs(each["expected_cost"])

    def table(self) -> pd.DataFrame:
        """One row a case, its time or row first."""
        kept = (name for name, values in self.chosen.items() if values.ndim == 1 and not name.startswith(_OF_REGIONS))
        columns = {name: self.chosen[name] for name in kept}
        columns |= {f"weight_0_{name}": self.baseline[name] for name in _BESIDE if self.baseline is not None}
        columns |= {f"today_{name}": values for name, values in (self.today or {}).items()}
        found = pd.concat([self.outcomes, pd.DataFrame(columns, self.outcomes.index)], axis=1)
        return found.reset_index()

    def summary(self, block: int) -> pd.DataFrame:
        """Metrics with 95 % intervals, those of today's action last; see `stakes.evaluation.forecast_table`."""
        today = None if self.today is None else self.today["cost"]
        return forecast_table(self.chosen, self.baseline, self.members, block, today).reset_index()


def summary_table(metrics: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """A summary from its rows by name, as a record without any order has them."""
    rows = [{"metric": name, **metrics[name]} for name in _METRICS if name in metrics]
    columns = [name for name in _COLUMNS if any(name in row for row in rows)]
    return pd.DataFrame(rows, columns=["metric", *columns] if rows else [])


def require_finite_costs(costs: Floats) -> None:
    """Raise where the cost (N,) is no number: nothing can be decided by it."""
    if bad := int((~np.isfinite(costs)).sum()):
        raise CostError(f"the cost must be a finite number, got NaN or infinity in {bad} of {len(costs)} cases")
