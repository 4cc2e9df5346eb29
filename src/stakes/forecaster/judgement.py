# ruff: noqa: N803 X is the name that scikit-learn prescribes
"""How a fitted forecaster did on rows whose outcomes are known."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from stakes.data.estimator_input import Rows
from stakes.errors import SettingError
from stakes.evaluation.forecast_table import forecast_table, todays_cost
from stakes.evaluation.headroom import resolved_block
from stakes.evaluation.metrics import Assessor, Region
from stakes.forecaster.answers import MemberAnswers
from stakes.forecaster.decision_makers import CostParameters, climatology_actions, parameter_values
from stakes.forecaster.fresh_errors import Which
from stakes.method.actions import optimal_action
from stakes.method.parameter_column import ParameterColumn
from stakes.method.parameter_range import ranged_parameter

__all__ = ["JudgedAnswers"]

Floats = NDArray[np.float64]


class JudgedAnswers(MemberAnswers):
    """Answers of a forecaster that may keep a forecast of weight 0 beside its own, and how good they were.

    Where the cost has a range and `cost_parameters` does not say which decision maker each row belongs to, they are
    spread evenly over the range, the same every time.

    Attributes:
        members: How many members a forecast has.
        block: How many neighbouring rows belong together; "auto" tells by their times.
        baseline_models_: The models of weight 0; none where there is no such forecast.
        climatology_action_: The constant action that was best for the rows of the fit, a number for each of its parts
            where it has several, or one for each of some values of a parameter that is a range.
    """

    members: int
    block: int | Literal["auto"]
    baseline_models_: list[nn.Module]
    climatology_action_: float | tuple[float, ...]

    @property
    @abstractmethod
    def parameter_column(self) -> ParameterColumn:
        """Where each row has the parameter of its cost, and whether the models see it."""

    @abstractmethod
    def _validated(
        self, X: Any, y: Any, times: Any, cost_parameters: CostParameters | None = None, fitting: bool = False
    ) -> Rows:
        """Features, with the parameter of the cost where that is a range, outcomes and times, checked."""

    @abstractmethod
    def _forecast(
        self, features: Tensor, which: Which = "chosen", members: int | None = None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part."""

    def score(self, X: Any, y: Any, *, cost_parameters: CostParameters | None = None) -> float:
        """The mean realised cost of the actions, negative: the higher the better.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            cost_parameters: The parameter that is a range, one value or one for each row; None spreads rows over it.
        """
        features, outcome, _ = self._validated(X, y, None, cost_parameters)
        total = 0.0
        for rows, members in self._forecast(features):
            cost = self._cost_of(features[rows])
            action = optimal_action(cost, members, thorough=True)
            total += float(cost(action, outcome[rows]).double().sum())
        return -total / len(outcome)

    def assess(
        self,
        X: Any,
        y: Any,
        which: Which = "chosen",
        regions: Mapping[str, Region] | None = None,
        *,
        cost_parameters: CostParameters | None = None,
    ) -> dict[str, Floats]:
        """All metrics of `stakes.evaluation.metrics.Assessor` case by case, and what the best constant action costs.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            which: "chosen", or "baseline": weight 0, which a fit with `decision_weight` "auto" or `baseline` keeps.
            regions: Parts of the outcomes by name, of which the forecast's share is taken too.
            cost_parameters: As in `score`.
        """
        features, outcome, _ = self._validated(X, y, None, cost_parameters)
        return self._assessed(features, outcome, which, regions)

    def decision_makers(self, rows: int, cost_parameters: CostParameters | None = None) -> dict[str, Floats]:
        """The parameter of the cost that is a range, (n,), by its name, as rows are judged; nothing without a range.

        Args:
            rows: How many rows are judged, n.
            cost_parameters: As in `score`.
        """
        column, ranged = self.parameter_column, ranged_parameter(self.cost)
        if ranged is None:
            return {}
        values = parameter_values(column, self.cost, cost_parameters, rows, spread=True)
        return {ranged.name: values[:, 0].double().numpy()}

    def realised_cost(
        self,
        X: Any,
        y: Any,
        which: Which | Literal["climatology"] = "chosen",
        *,
        cost_parameters: CostParameters | None = None,
    ) -> Floats:
        """What the actions cost, (n,).

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            which: As in `assess`, or "climatology" for the best constant action.
            cost_parameters: As in `score`.
        """
        features, outcome, _ = self._validated(X, y, None, cost_parameters)
        if which == "climatology":
            return self._climatology_cost(features, outcome)
        paid = []
        for rows, members in self._forecast(features, which):
            cost = self._cost_of(features[rows])
            paid.append(cost(optimal_action(cost, members, thorough=True), outcome[rows]))
        return np.asarray(torch.cat(paid).double().numpy())

    def evaluate(
        self,
        X: Any,
        y: Any,
        *,
        times: Any = None,
        baseline_action: ArrayLike | None = None,
        cost_parameters: CostParameters | None = None,
    ) -> pd.DataFrame:
        """Scores and costs on these rows with 95 % intervals; see `stakes.evaluation.forecast_table`.

        Where there is a forecast of weight 0 its values stand beside them, with the paired difference.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            times: When it happened (n,); None if it is not known.
            baseline_action: Today's action (n,), or (n, A) of several parts, with which the last rows compare; NaN
                where it is not known.
            cost_parameters: As in `score`.
        """
        features, outcome, when = self._validated(X, y, times, cost_parameters)
        cost = self._cost_of(features)
        today = None if baseline_action is None else todays_cost(cost, baseline_action, outcome)
        chosen = self._assessed(features, outcome, "chosen")
        weight_0 = self._assessed(features, outcome, "baseline") if self.baseline_models_ else None
        block = resolved_block(self.block, len(outcome), when)
        return forecast_table(chosen, weight_0, int(self.members), block, today)

    def _assessed(
        self, features: Tensor, outcome: Tensor, which: Which, regions: Mapping[str, Region] | None = None
    ) -> dict[str, Floats]:
        if which == "baseline" and not self.baseline_models_:
            raise SettingError("there is no forecast of weight 0 beside this one; fit with baseline=True")
        assessor, column = Assessor(self.cost, regions or {}), self.parameter_column
        values = column.values(features) if column.width else None
        parts = [
            assessor(members, outcome[rows], None if values is None else values[rows])
            for rows, members in self._forecast(features, which)
        ]
        metrics = {name: torch.cat([part[name] for part in parts]).double().numpy() for name in parts[0]}
        return metrics | {"climatology_cost": self._climatology_cost(features, outcome)}

    def _climatology_cost(self, features: Tensor, outcome: Tensor) -> Floats:
        constant = climatology_actions(self.climatology_action_, self.parameter_column, features).to(outcome)
        return np.asarray(self._cost_of(features)(constant, outcome).double().numpy())
