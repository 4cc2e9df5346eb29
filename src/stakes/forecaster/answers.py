# ruff: noqa: N803 X is the name that scikit-learn prescribes
"""What follows from members, however they were made: mean, quantiles, and the action of least expected cost."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.decisions import Decisions, solve_decisions
from stakes.errors import SettingError
from stakes.forecaster.decision_makers import CostParameters
from stakes.method.costs import Cost

__all__ = ["MemberAnswers"]

Floats = NDArray[np.float64]


class MemberAnswers(ABC):
    """Answers of a forecaster that can draw members.

    Where the cost has a range, `cost_parameters` says which decision maker each row belongs to.

    Attributes:
        cost: What a decision costs.
        single_output_: Whether outcomes come without a second axis.
    """

    cost: Cost
    single_output_: bool

    @abstractmethod
    def _features(self, X: Any) -> Tensor:
        """Features (n, F), checked."""

    @abstractmethod
    def _with_parameter(self, features: Tensor, given: CostParameters | None, *, deciding: bool) -> Tensor:
        """Features (n, F) with the parameter of each row, where the cost has a range."""

    @abstractmethod
    def _cost_of(self, features: Tensor) -> Cost:
        """The cost that rows with these features pay."""

    @abstractmethod
    def _forecast(self, features: Tensor, *, members: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part; None for the forecaster's own number of members."""

    def sample(
        self, X: Any, members: int | None = None, *, cost_parameters: CostParameters | None = None
    ) -> NDArray[np.float32]:
        """Members (n, M, D) of the forecast, in the units of y.

        Args:
            X: Features (n, F) of new rows.
            members: How many members M; None for those of the forecaster.
            cost_parameters: The parameter that is a range, such as {"penalty": 5}, one value or one for each row, (n,);
                needed where the cost has a range that the models see.
        """
        features = self._with_parameter(self._features(X), cost_parameters, deciding=False)
        parts = [part.numpy() for _, part in self._forecast(features, members=members)]
        return np.concatenate(parts)

    def predict(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Floats:
        """The mean of the forecast, shaped as y.

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: As in `sample`.
        """
        features = self._with_parameter(self._features(X), cost_parameters, deciding=False)
        parts = [part.double().mean(1).numpy() for _, part in self._forecast(features)]
        return self._as_outcome(np.concatenate(parts))

    def predict_quantiles(self, X: Any, q: ArrayLike, *, cost_parameters: CostParameters | None = None) -> Floats:
        """Quantiles of the forecast: (n, Q), or (n, Q, D) for several outcomes.

        Args:
            X: Features (n, F) of new rows.
            q: Their levels (Q,), between 0 and 1.
            cost_parameters: As in `sample`.
        """
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise SettingError(f"q must be levels between 0 and 1, got {q!r}")
        features = self._with_parameter(self._features(X), cost_parameters, deciding=False)
        parts = [
            np.quantile(part.double().numpy(), levels, axis=1, method="hazen").swapaxes(0, 1)
            for _, part in self._forecast(features)
        ]
        return self._as_outcome(np.concatenate(parts))

    def solve(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Decisions:
        """The action of least expected cost for each row, what it is expected to cost, and whether it is certified.

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: The parameter that is a range, such as {"penalty": 5}, one value or one for each row, (n,);
                needed where the cost has a range.
        """
        features = self._with_parameter(self._features(X), cost_parameters, deciding=True)
        drawn = self._forecast(features)
        return Decisions.joined(
            [solve_decisions(self._cost_of(features[rows]), [members], double=True) for rows, members in drawn]
        )

    def decide(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Floats:
        """The action of least expected cost for each row: (n,), or (n, A) where an action has A > 1 parts.

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: As in `solve`.
        """
        return self.solve(X, cost_parameters=cost_parameters).action

    def expected_cost(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Floats:
        """What the forecast expects its best action to cost, (n,).

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: As in `solve`.
        """
        return self.solve(X, cost_parameters=cost_parameters).expected_cost

    def _as_outcome(self, values: Floats) -> Floats:
        return values[..., 0] if self.single_output_ else values
