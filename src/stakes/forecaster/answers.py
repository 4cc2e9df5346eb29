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
from stakes.method.costs import Cost

__all__ = ["MemberAnswers"]

Floats = NDArray[np.float64]


class MemberAnswers(ABC):
    """Answers of a forecaster that can draw members.

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
    def _forecast(self, features: Tensor, *, members: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part; None for the forecaster's own number of members."""

    def sample(self, X: Any, members: int | None = None) -> NDArray[np.float32]:
        """Members (n, M, D) of the forecast, in the units of y.

        Args:
            X: Features (n, F) of new rows.
            members: How many members M; None for those of the forecaster.
        """
        parts = [part.numpy() for _, part in self._forecast(self._features(X), members=members)]
        return np.concatenate(parts)

    def predict(self, X: Any) -> Floats:
        """The mean of the forecast, shaped as y.

        Args:
            X: Features (n, F) of new rows.
        """
        parts = [part.double().mean(1).numpy() for _, part in self._forecast(self._features(X))]
        return self._as_outcome(np.concatenate(parts))

    def predict_quantiles(self, X: Any, q: ArrayLike) -> Floats:
        """Quantiles of the forecast: (n, Q), or (n, Q, D) for several outcomes.

        Args:
            X: Features (n, F) of new rows.
            q: Their levels (Q,), between 0 and 1.
        """
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise SettingError(f"q must be levels between 0 and 1, got {q!r}")
        parts = [
            np.quantile(part.double().numpy(), levels, axis=1, method="hazen").swapaxes(0, 1)
            for _, part in self._forecast(self._features(X))
        ]
        return self._as_outcome(np.concatenate(parts))

    def solve(self, X: Any) -> Decisions:
        """The action of least expected cost for each row, what it is expected to cost, and whether it is certified.

        Args:
            X: Features (n, F) of new rows.
        """
        members = (part for _, part in self._forecast(self._features(X)))
        return solve_decisions(self.cost, members, double=True)

    def decide(self, X: Any) -> Floats:
        """The action of least expected cost for each row, (n,).

        Args:
            X: Features (n, F) of new rows.
        """
        return self.solve(X).action

    def expected_cost(self, X: Any) -> Floats:
        """What the forecast expects its best action to cost, (n,).

        Args:
            X: Features (n, F) of new rows.
        """
        return self.solve(X).expected_cost

    def _as_outcome(self, values: Floats) -> Floats:
        return values[..., 0] if self.single_output_ else values
