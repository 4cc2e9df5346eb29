"""A fitted forecaster judged on cases that it has not seen: the chosen weight, and weight 0 beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from stakes.data.layout import TableCases
from stakes.evaluation.forecast_table import forecast_table
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.metrics import LEVELS, Assessor, Region
from stakes.evaluation.study import AXES, Study
from stakes.forecaster import DecisionAwareForecaster
from stakes.tasks.regions import band

__all__ = ["FittedJudgement", "judge_fit"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FittedJudgement:
    """The metrics (N,) of the chosen weight, and of weight 0 where there is another, on the same cases, by weight."""

    forecaster: DecisionAwareForecaster
    cases: TableCases
    judged: Mapping[float, Mapping[str, Floats]]
    regions: Mapping[str, Region]

    @property
    def block(self) -> int:
        """How many neighbouring cases belong together."""
        return automatic_block(len(self.cases) if self.cases.times is None else self.cases.times)

    def table(self) -> pd.DataFrame:
        """One row a metric; see `stakes.evaluation.forecast_table`."""
        weight = self.forecaster.decision_weight_
        baseline = self.judged.get(0.0) if weight else None
        return forecast_table(self.judged[weight], baseline, int(self.forecaster.members), self.block).reset_index()

    def study(self, about: Mapping[str, Any]) -> Study:
        """The same as a study, with the lower, middle and upper third of the outcomes as its regions."""
        described = {
            "members": int(self.forecaster.members),
            "decision_weight": self.forecaster.decision_weight_,
            "targets": list(self.forecaster.target_names_),
            **about,
        }
        return Study(_forecasts(self.judged), _cases(self), described, self.block)


def judge_fit(forecaster: DecisionAwareForecaster, cases: TableCases) -> FittedJudgement:
    """Judge the forecaster, and that of weight 0 where there is one, case by case."""
    regions = _thirds(Assessor(forecaster.cost), _outcome(cases))
    judged = {forecaster.decision_weight_: forecaster.assess(cases.features, cases.outcomes, regions=regions)}
    if forecaster.baseline_models_:
        judged[0.0] = forecaster.assess(cases.features, cases.outcomes, "baseline", regions=regions)
    return FittedJudgement(forecaster, cases, judged, regions)


def _outcome(cases: TableCases) -> torch.Tensor:
    assert cases.outcomes is not None
    return torch.from_numpy(cases.outcomes.to_numpy(np.float64, copy=True))


def _thirds(assessor: Assessor, outcome: torch.Tensor) -> dict[str, Region]:
    lower, upper = np.quantile(assessor.total(outcome).numpy(), [1 / 3, 2 / 3])
    return {
        "low": band(assessor.total, upper=lower),
        "middle": band(assessor.total, lower=lower, upper=upper),
        "high": band(assessor.total, lower=upper),
    }


def _forecasts(judged: Mapping[float, Mapping[str, Floats]]) -> xr.Dataset:
    weights = sorted(judged)
    first = judged[weights[0]]
    variables = {}
    for name in first:
        if name == "climatology_cost":
            continue
        values = np.stack([judged[weight][name] for weight in weights])[None, None, :, None]
        variables[name] = ((*AXES, "level") if name == "quantile" else AXES, values.astype(np.float32))
    coordinates = {"parameter": [0.0], "group": [0.0], "decision_weight": weights, "seed": [0.0]}
    return xr.Dataset(variables, {**coordinates, "case": np.arange(len(first["cost"])), "level": list(LEVELS)})


def _cases(judgement: FittedJudgement) -> xr.Dataset:
    """What does not depend on the forecast: the outcome, the best constant action's cost, and today's action's."""
    cost, cases, outcome = judgement.forecaster.cost, judgement.cases, _outcome(judgement.cases)
    found: dict[str, NDArray[Any]] = {
        "outcome": Assessor(cost).total(outcome).numpy(),
        "climatology_cost": next(iter(judgement.judged.values()))["climatology_cost"],
        **{f"observed_{name}": region(outcome).numpy() for name, region in judgement.regions.items()},
    }
    if cases.times is not None:
        found["time"] = cases.times
    if cases.baseline_action is not None:
        action = torch.from_numpy(cases.baseline_action.copy())
        found |= {"baseline_action": cases.baseline_action, "baseline_cost": cost(action[:, None], outcome).numpy()}
    variables = {name: (("parameter", "group", "case"), values[None, None]) for name, values in found.items()}
    return xr.Dataset(variables, {"parameter": [0.0], "group": [0.0], "case": np.arange(len(cases))})
