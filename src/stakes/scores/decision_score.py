"""The realised cost of acting on a forecast, and the decision score, a proper scoring rule itself (Proposition 1)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.actions.scalar_solvers import Solver
from stakes.actions.solve import expected_cost_of, optimal_action, solve_action
from stakes.argument_checks import prepared_pair, require_one_of
from stakes.costs.cost import (
    ActionSolution,
    Cost,
    at_bounds,
    ranged_parameter,
    require_cost,
    requires_eager,
    with_parameter,
)
from stakes.costs.member_weights import (
    case_parts,
    mean_cost,
    refuse_weights,
    relative_weights,
    slope_and_curvature,
    slope_of,
)
from stakes.costs.scalar_costs import cost_of_rows
from stakes.errors import ShapeError
from stakes.programs.interior_point import InteriorPoint


@dataclass(frozen=True, eq=False)
class RealisedCost:
    """The best actions for forecasts and what they cost once the outcomes are known, one of each case (...)."""

    action: Tensor  # the best action for the members, (..., A)
    cost: Tensor  # what it costs at the outcome
    expected_cost: Tensor | None = None  # its mean cost over the members; None where it is not asked for
    score: Tensor | None = None  # what the members themselves score; None where it is not asked for
    certificate: ActionSolution | None = None  # what is proven of the action; None where it is not asked for

    def cost_and_score(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both in double precision, (N,), as candidates are compared by."""
        assert self.score is not None
        return self.cost.double().numpy(), self.score.double().numpy()


def realised_cost(
    cost: Cost,
    members: Tensor,
    outcome: Tensor,
    *,
    weights: Tensor | None = None,
    solver: Solver | InteriorPoint | None = None,
    thorough: bool = True,
    expected: bool = False,
    certify: bool = False,
) -> RealisedCost:
    """Act on members (..., M, D) and pay at outcomes (..., D), with the gradient of the best action.

    A thorough search is for judging decisions, where no training step waits. `expected` asks for the expected cost;
    `certify` for the certificate and with it the expected cost, without gradient.
    """
    check = None if thorough else False
    certificate, expected_cost = None, None
    with torch.autocast(members.device.type, enabled=False):
        if certify:
            certificate = solve_action(cost, members, solver, weights=weights, check=check, thorough=thorough)
            action, expected_cost = certificate.action, certificate.expected_cost
        else:
            action = optimal_action(cost, members, solver, weights=weights, check=check, thorough=thorough)
        paid = cost(action, outcome)
    if paid.shape != members.shape[:-2]:
        raise ShapeError(
            f"the cost must return one number a case, shape {tuple(members.shape[:-2])}, got {tuple(paid.shape)}"
        )
    if expected and not certify:
        with torch.no_grad():
            expected_cost = mean_cost(cost, action, members, relative_weights(weights, members))
    return RealisedCost(action, paid, expected_cost, certificate=certificate)


@torch.no_grad()
def realised_costs(
    cost: Cost,
    forecasts: Tensor | Iterable[tuple[slice, Tensor]],
    outcome: Tensor,
    *,
    weights: Tensor | None = None,
    parameter: Tensor | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> RealisedCost:
    """`realised_cost` of N cases without gradients, in parts that memory holds, and with a score of the members.

    Forecasts are members (N, M, D), or come as some rows and their members after the other. Where a parameter of the
    cost is a range, `parameter` (N,) says what each case pays.
    """
    ranged = ranged_parameter(cost)
    actions, costs, scores = [], [], []
    for rows, members in [(slice(None), forecasts)] if isinstance(forecasts, Tensor) else forecasts:
        for some in case_parts(members):
            drawn, seen, own = members[some], outcome[rows][some], cost_of_rows(cost_of_rows(cost, rows), some)
            if ranged is not None and parameter is not None:
                own = with_parameter(cost, ranged.name, parameter[rows][some])
            decided = realised_cost(own, drawn, seen, weights=weights)
            actions.append(decided.action)
            costs.append(decided.cost)
            if score is not None:
                scores.append(score(drawn, seen))
    return RealisedCost(torch.cat(actions), torch.cat(costs), score=torch.cat(scores) if scores else None)


def foresight_costs(cost: Cost, outcome: Tensor, parameter: Tensor | None = None) -> Tensor:
    """What the best action for each outcome (N, D), known beforehand, costs, (N,)."""
    return realised_costs(cost, outcome[..., None, :], outcome, parameter=parameter).cost


def member_influence(cost: Cost, members: Tensor, outcome: Tensor) -> Tensor:
    """How far each member moves the realised cost, against the others' mean, (..., M), without gradient.

    One more member y_m of weight 1/M moves a* by -c_a(a*, y_m) / (M H), and the realised cost by c_a(a*, y) times that;
    the mean of the others is the baseline of a score-function gradient. Zero where the action is at a bound.
    """
    with torch.no_grad():
        members = members.detach()
        action = optimal_action(cost, members, check=False)
        lower, upper = at_bounds(cost, action, members)
        level, count = action[..., 0], members.shape[-2]
        _, curvature = slope_and_curvature(expected_cost_of(cost, members, None), level)

        def slopes(outcomes: Tensor, levels: Tensor) -> Tensor:
            return slope_of(lambda each: cost(each[..., None], outcomes), levels)

        of_members = slopes(members.movedim(-2, 0), level.expand(count, *level.shape)).movedim(0, -1)
        at_outcome = slopes(outcome, level)
        free = ~(lower | upper) & (curvature > 0)
        scale = torch.where(free, -at_outcome / torch.where(free, curvature, 1.0), 0.0) / count
        influence = scale[..., None] * of_members
        others = (influence.sum(-1, keepdim=True) - influence) / (count - 1)
        return influence - others


@dataclass(frozen=True)
class DecisionScore:
    """Realised cost of the action that the forecast recommends, S_c(F, y) = c(a*(F), y)   (eq. dec_loss).

    Proper for the forecast distribution F (Proposition 1), though not strictly: forecasts with the same best action
    score alike. For the M members F_M it is not proper: E c(a*(F_M), Y) exceeds E c(a*(F), Y) by O(1/M), and a
    distorted forecast can score better. "debiased" removes the leading term with the scores of both halves of the
    members,

        2 S(y_1..y_M) - (S(y_1..y_{M/2}) + S(y_{M/2+1}..y_M)) / 2,

    for even M >= 4. It is not proper either, and overcorrects unless M is well above the number of members that decide
    (docs/explanation/theory.md), so it is never the default.

    Attributes:
        cost: The cost of an action at an outcome.
        estimator: "plain" for S of all members, "debiased" for the formula above.
        solver: How to find the best action; None takes the closed form of the cost if it has one, else
            `NewtonBisection()`. `InteriorPoint(smoothing=0.01)` also smooths the gradient
            (docs/explanation/certificates.md).
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
            weights: Weight of each member, (..., M), for the estimator "plain" only; None for equal weights.
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
        return realised_cost(self.cost, samples, outcome, weights=weights, solver=self.solver, thorough=False).cost
