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
from stakes.forecaster.fresh_errors import Which
from stakes.method.actions import optimal_action

__all__ = ["JudgedAnswers"]

Floats = NDArray[np.float64]


class JudgedAnswers(MemberAnswers):
    """Answers of a forecaster that may keep a forecast of weight 0 beside its own, and how good they were.

    Attributes:
        members: How many members a forecast has.
        block: How many neighbouring rows belong together; "auto" tells by their times.
        baseline_models_: The models of weight 0; none where there is no such forecast.
        climatology_action_: The constant action that was best for the rows of the fit, a number for each of its parts
            where it has several.
    """

    members: int
    block: int | Literal["auto"]
    baseline_models_: list[nn.Module]
    climatology_action_: float | tuple[float, ...]

    @abstractmethod
    def _validated(self, X: Any, y: Any, times: Any, fitting: bool = False) -> Rows:
        """Features, outcomes and times, checked."""

    @abstractmethod
    def _forecast(
        self, features: Tensor, which: Which = "chosen", members: int | None = None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part."""

    def score(self, X: Any, y: Any) -> float:
        """The mean realised cost of the actions, negative: the higher the better.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
        """
        features, outcome, _ = self._validated(X, y, None)
        total = 0.0
        for rows, members in self._forecast(features):
            action = optimal_action(self.cost, members, thorough=True)
            total += float(self.cost(action, outcome[rows]).double().sum())
        return -total / len(outcome)

    def assess(
        self, X: Any, y: Any, which: Which = "chosen", regions: Mapping[str, Region] | None = None
    ) -> dict[str, Floats]:
        """All metrics of `stakes.evaluation.metrics.Assessor` case by case, and what the best constant action costs.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            which: "chosen", or "baseline": weight 0, which a fit with `decision_weight` "auto" or `baseline` keeps.
            regions: Parts of the outcomes by name, of which the forecast's share is taken too.
        """
        features, outcome, _ = self._validated(X, y, None)
        return self._assessed(features, outcome, which, regions)

    def evaluate(self, X: Any, y: Any, *, times: Any = None, baseline_action: ArrayLike | None = None) -> pd.DataFrame:
        """Scores and costs on these rows with 95 % intervals; see `stakes.evaluation.forecast_table`.

        Where there is a forecast of weight 0 its values stand beside them, with the paired difference.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            times: When it happened (n,); None if it is not known.
            baseline_action: Today's action (n,), with which the last rows compare; NaN where it is not known.
        """
        features, outcome, when = self._validated(X, y, times)
        today = None if baseline_action is None else todays_cost(self.cost, baseline_action, outcome)
        chosen = self._assessed(features, outcome, "chosen")
        weight_0 = self._assessed(features, outcome, "baseline") if self.baseline_models_ else None
        block = resolved_block(self.block, len(outcome), when)
        return forecast_table(chosen, weight_0, int(self.members), block, today)

    def _assessed(
        self, features: Tensor, outcome: Tensor, which: Which, regions: Mapping[str, Region] | None = None
    ) -> dict[str, Floats]:
        if which == "baseline" and not self.baseline_models_:
            raise SettingError("there is no forecast of weight 0 beside this one; fit with baseline=True")
        assessor = Assessor(self.cost, regions or {})
        parts = [assessor(members, outcome[rows]) for rows, members in self._forecast(features, which)]
        metrics = {name: torch.cat([part[name] for part in parts]).double().numpy() for name in parts[0]}
        numbers = torch.tensor(self.climatology_action_, dtype=outcome.dtype, device=outcome.device)
        constant = numbers.expand(len(outcome), max(1, numbers.numel()))
        return metrics | {"climatology_cost": self.cost(constant, outcome).double().numpy()}
