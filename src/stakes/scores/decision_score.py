"""The decision score: the cost of acting on a forecast, a proper scoring rule itself (Proposition 1)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from stakes.actions.scalar_solvers import Solver
from stakes.actions.solve import optimal_action
from stakes.argument_checks import prepared_pair, require_one_of
from stakes.costs.cost import Cost, require_cost
from stakes.costs.member_weights import refuse_weights
from stakes.errors import ShapeError
from stakes.programs.interior_point import InteriorPoint
from stakes.programs.vector_actions import requires_eager


@dataclass(frozen=True)
class DecisionScore:
    """Realised cost of the action that the forecast recommends, S_c(F, y) = c(a*(F), y)   (eq. dec_loss).

    Proper for the forecast distribution F (Proposition 1), not strictly: forecasts with one best action score alike.
    For the M members F_M it is not proper: E c(a*(F_M), Y) exceeds E c(a*(F), Y) by O(1/M), and a forecast can lower
    it by bending. "debiased" removes the leading term with the scores of the two halves of the members,

        2 S(y_1..y_M) - (S(y_1..y_{M/2}) + S(y_{M/2+1}..y_M)) / 2,

    for even M >= 4. It is not proper either, and overshoots where M is not well above the number of members that
    decide (docs/theory.md): an option, never a silent default.

    Attributes:
        cost: What an action costs at an outcome.
        estimator: "plain" for S of all members, "debiased" for the formula above.
        solver: How the best action is found; None takes the cost's closed form, else `NewtonBisection()`.
            `InteriorPoint(smoothing=0.01)` also smooths its gradient (docs/programs.md).
    """

    cost: Cost
    estimator: Literal["plain", "debiased"] = "plain"
    solver: Solver | InteriorPoint | None = None

    def __post_init__(self) -> None:
        require_cost(self.cost)
        require_one_of("estimator", self.estimator, ("plain", "debiased"))

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The realised cost of each case, (...), with the gradient of its best action.

        Args:
            samples: Members (..., M, D).
            outcome: Outcomes (..., D).
            weights: What each member weighs, (..., M), for the estimator "plain" only; None where all count alike.
        """
        if requires_eager(self.cost):
            return torch.compiler.disable(DecisionScore.__call__)(self, samples, outcome, weights=weights)
        samples, outcome = prepared_pair(samples, outcome)
        if self.estimator == "plain":
            return self._score(samples, outcome, weights)
        refuse_weights(weights, self.estimator, "plain")
        members = samples.shape[-2]
        if members < 4 or members % 2:
            raise ShapeError(f"the debiased decision score needs an even number of members >= 4, got M = {members}")
        first, second = samples.split(members // 2, dim=-2)
        halves = self._score(first, outcome) + self._score(second, outcome)
        return 2 * self._score(samples, outcome) - halves / 2

    def _score(self, samples: Tensor, outcome: Tensor, weights: Tensor | None = None) -> Tensor:
        with torch.autocast(samples.device.type, enabled=False):
            action = optimal_action(self.cost, samples, self.solver, weights=weights, check=False)
            score = self.cost(action, outcome)
        if score.shape != samples.shape[:-2]:
            raise ShapeError(
                f"the cost must return one number a case, shape {tuple(samples.shape[:-2])}, got {tuple(score.shape)}"
            )
        return score
