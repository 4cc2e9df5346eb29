"""A fitted forecaster judged on cases that it has not seen: the chosen weight, and weight 0 beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from stakes.data.layout import TableCases
from stakes.evaluation.case_metrics import CaseMetrics, part_by_part
from stakes.evaluation.forecast_table import todays_cost
from stakes.evaluation.headroom import resolved_block
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.judged_parts import JudgedParts, judged_parts
from stakes.evaluation.metrics import LEVELS, Assessor, Region, region_between
from stakes.evaluation.study import AXES, Study
from stakes.evaluation.worth_by_parameter import VALUES_SHOWN, WorthAtValue
from stakes.forecaster.estimator import DecisionAwareForecaster
from stakes.forecaster.fresh_errors import Which
from stakes.method.parameter_range import ranged_parameter, with_parameter

__all__ = ["ForecasterJudgement", "judge_by_parameter", "judge_forecaster"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ForecasterJudgement:
    """A fitted forecaster, and weight 0 where there is another, judged on the same cases.

    Attributes:
        forecaster: The fitted forecaster.
        cases: The cases it was judged on, with their outcomes.
        metrics: What was measured of every case.
        regions: Thirds of the outcomes by name, for the metrics of these alone.
        parts: What is shown of decisions with many parts; None where they are about one number.
    """

    forecaster: DecisionAwareForecaster
    cases: TableCases
    metrics: CaseMetrics
    regions: Mapping[str, Region]
    parts: JudgedParts | None = None

    @property
    def block(self) -> int:
        """How many neighbouring cases belong together: as the forecaster has it, or by their times."""
        return resolved_block(self.forecaster.block, len(self.cases), self.cases.times)

    def table(self, block: int | None = None) -> pd.DataFrame:
        """One row per metric; see `stakes.evaluation.forecast_table` and `CaseMetrics.summary`."""
        return self.metrics.summary(block or self.block)

    def study(self) -> Study:
        """The judgement as a study, with the lower, middle and upper third of the outcomes as its regions."""
        described = {
            "members": int(self.forecaster.members),
            "decision_weight": self.forecaster.decision_weight_,
            "targets": list(self.forecaster.target_names_),
        }
        judged = {self.forecaster.decision_weight_: self.metrics.chosen}
        if self.metrics.weight_0 is not None:
            judged[0.0] = self.metrics.weight_0
        return Study(_forecasts(judged), _cases(self), described, self.block)


def judge_forecaster(
    forecaster: DecisionAwareForecaster, cases: TableCases, cost_parameters: Mapping[str, Floats] | None = None
) -> ForecasterJudgement:
    """Judge the forecaster, that of weight 0 where there is one, and today's action, case by case.

    Args:
        forecaster: A fitted one.
        cases: With outcomes, in time order; today's action where it is known.
        cost_parameters: The parameter of each case, (N,), where the cost has a range; None spreads them over it.
    """
    regions = _thirds(Assessor(forecaster.cost), _outcome(cases))
    assert cases.outcomes is not None
    whose = forecaster.decision_makers(len(cases), cost_parameters)

    def assessed(which: Which) -> dict[str, Floats]:
        metrics = forecaster.assess(cases.features, cases.outcomes, which, regions, cost_parameters=whose or None)
        return {**whose, **part_by_part(metrics, forecaster.cost, forecaster.target_names_)}

    chosen = assessed("chosen")
    weight_0 = assessed("baseline") if forecaster.baseline_models_ else None
    today = _today(forecaster, cases, whose)
    metrics = CaseMetrics(cases.outcomes, chosen, int(forecaster.members), weight_0, today)
    return ForecasterJudgement(forecaster, cases, metrics, regions, _parts(forecaster, cases, chosen["cost"]))


def judge_by_parameter(forecaster: DecisionAwareForecaster, cases: TableCases, block: int) -> tuple[WorthAtValue, ...]:
    """What all cases cost at some values of the cost's range; nothing where it has none.

    Args:
        forecaster: A fitted one.
        cases: With outcomes, in time order.
        block: How many neighbouring cases belong together.
    """
    ranged = ranged_parameter(forecaster.cost)
    if ranged is None:
        return ()
    told = []
    for value in ranged.range.points(VALUES_SHOWN):
        costs = partial(forecaster.realised_cost, cases.features, cases.outcomes, cost_parameters={ranged.name: value})
        paid, constant = costs(), costs("climatology")
        worth = WorthAtValue(value, float(paid.mean()), float(constant.mean()))
        if forecaster.baseline_models_:
            plain = costs("baseline")
            mean, low, high = paired_difference(paid[None], plain[None], block)
            worth = replace(worth, weight_0_cost=float(plain.mean()), change=(mean, low, high))
        told.append(worth)
    return tuple(told)


def _parts(forecaster: DecisionAwareForecaster, cases: TableCases, paid: Floats) -> JudgedParts | None:
    """A few cases part by part, and what limits cost."""

    def draw(rows: NDArray[np.int64], most: int | None) -> torch.Tensor:
        count = int(forecaster.members) if most is None else min(most, int(forecaster.members))
        return torch.from_numpy(forecaster.sample(cases.features.iloc[rows], count))

    return judged_parts(forecaster.cost, forecaster.target_names_, _outcome(cases).numpy(), paid, draw)


def _today(
    forecaster: DecisionAwareForecaster, cases: TableCases, whose: Mapping[str, Floats]
) -> dict[str, Floats] | None:
    """Today's action and what it costs."""
    if cases.baseline_action is None:
        return None
    cost = forecaster.cost
    for name, values in whose.items():
        cost = with_parameter(cost, name, torch.from_numpy(values))
    paid = todays_cost(cost, cases.baseline_action, _outcome(cases))
    today = {"action": cases.baseline_action, "cost": paid}
    return part_by_part(today, forecaster.cost, forecaster.target_names_)


def _outcome(cases: TableCases) -> torch.Tensor:
    assert cases.outcomes is not None
    return torch.from_numpy(cases.outcomes.to_numpy(np.float64, copy=True))


def _thirds(assessor: Assessor, outcome: torch.Tensor) -> dict[str, Region]:
    lower, upper = np.quantile(assessor.total(outcome).numpy(), [1 / 3, 2 / 3])
    return {
        "low": region_between(assessor.total, upper=lower),
        "middle": region_between(assessor.total, lower=lower, upper=upper),
        "high": region_between(assessor.total, lower=upper),
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


def _cases(judgement: ForecasterJudgement) -> xr.Dataset:
    """What does not depend on the forecast: the outcome, the best constant action's cost, and today's action's."""
    outcome = _outcome(judgement.cases)
    columns: dict[str, NDArray[Any]] = {
        "outcome": Assessor(judgement.forecaster.cost).total(outcome).numpy(),
        "climatology_cost": judgement.metrics.chosen["climatology_cost"],
        **{f"observed_{name}": region(outcome).numpy() for name, region in judgement.regions.items()},
    }
    if judgement.cases.times is not None:
        columns["time"] = judgement.cases.times
    today = judgement.metrics.today or {}
    columns |= {f"baseline_{name}": values for name, values in today.items()}
    variables = {name: (("parameter", "group", "case"), values[None, None]) for name, values in columns.items()}
    return xr.Dataset(variables, {"parameter": [0.0], "group": [0.0], "case": np.arange(len(judgement.cases))})
