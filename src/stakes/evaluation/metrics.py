"""What a forecast of members is worth, case by case: scores, costs, regrets, and what the decision saw of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from stakes.actions.scalar_solvers import Solver
from stakes.actions.solve import solve_action
from stakes.argument_checks import check_finite, check_outcome, check_samples, working_precision
from stakes.costs.cost import (
    Cost,
    at_bounds,
    outcome_total,
    plain_cost_of,
    ranged_parameter,
    risk_of,
    shown_action,
    vector_cost,
    with_parameter,
)
from stakes.costs.member_weights import case_parts, in_order, mean_cost, mean_of_members, relative_weights, sort_members
from stakes.costs.scalar_costs import cost_of_rows, scalar_cost
from stakes.errors import SettingError, ShapeError
from stakes.programs.scenario_program import program_cost
from stakes.scores.decision_score import realised_cost
from stakes.scores.scoring_rules import EnergyScore, ThresholdWeightedCRPS, VariogramScore

Metrics = dict[str, Tensor]
Region = Callable[[Tensor], Tensor]  # outcomes (..., D) to bool (...)

LEVELS = tuple((torch.arange(2, 100, 4).double() / 100).tolist())
"""Equally likely quantile levels, 0.02 to 0.98, with 0.1, 0.3, 0.5, 0.7 and 0.9 among them: a forecast in short."""


def tail_score(cost: Cost) -> ThresholdWeightedCRPS | None:
    """The threshold-weighted CRPS of where the cost is highest; None for a cost without a threshold."""
    known = scalar_cost(cost)
    return None if known is None or known.tail is None else ThresholdWeightedCRPS(*known.tail)


@dataclass(frozen=True)
class Assessor:
    """All metrics of forecasts of one decision problem.

    The total is what is plotted and ranked: for D = 1 the outcome itself, else the cost's `total`, or the mean where it
    has none.
    """

    cost: Cost  # what a decision costs
    regions: Mapping[str, Region] = field(default_factory=dict)
    weights: Tensor | None = None
    solver: Solver | None = None  # of the best actions; None takes the cost's closed form, else an exact one
    chosen: bool = False  # whether members are chosen to stand for many, which a fair score would flatter

    def __post_init__(self) -> None:
        if self.weights is not None and self.regions:
            raise SettingError("regions must be none where members have weights")

    def __call__(self, members: Tensor, outcome: Tensor, parameter: Tensor | None = None) -> Metrics:
        """Metrics (N,) by name, and `quantile` (N, 25) of the total; `action` is (N, A) where it has several parts."""
        if members.dim() != 3 or outcome.shape != (members.shape[0], members.shape[2]):
            raise ShapeError(
                f"members must be (cases, members, sites) and outcome (cases, sites), got {tuple(members.shape)} and "
                f"{tuple(outcome.shape)}"
            )
        with torch.no_grad():
            parts = [
                self._priced(parameter, rows)._assess(members[rows], outcome[rows]) for rows in case_parts(members)
            ]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _priced(self, parameter: Tensor | None, rows: slice) -> "Assessor":
        """The same for the cost that each of these cases pays."""
        ranged = ranged_parameter(self.cost)
        if parameter is None or ranged is None:
            return replace(self, cost=cost_of_rows(self.cost, rows))
        return replace(self, cost=with_parameter(self.cost, ranged.name, parameter[rows]))

    def _assess(self, members: Tensor, outcome: Tensor) -> Metrics:
        return {
            **self._scores(members, outcome),
            **self._decision(members, outcome),
            **self._of_total(members, outcome),
            **self._of_regions(members),
        }

    def _scores(self, members: Tensor, outcome: Tensor) -> Metrics:
        score = EnergyScore("biased" if self.chosen or self.weights is not None else "fair")
        scores = {"energy_score": score(members, outcome, weights=self.weights)}
        if members.shape[-1] > 1:
            totals, total = (outcome_total(self.cost, values)[..., None] for values in (members, outcome))
            scores["variogram_score"] = VariogramScore()(members, outcome, weights=self.weights)
            scores["crps_of_total"] = score(totals, total, weights=self.weights)
        elif tail := tail_score(self.cost):
            scores["tail_crps"] = replace(tail, estimator=score.estimator)(members, outcome, weights=self.weights)
        return scores

    def _decision(self, members: Tensor, outcome: Tensor) -> Metrics:
        """The action that is recommended, what it costs and was expected to cost, and how it pulls at the members."""
        watched = members.clone().requires_grad_()
        with torch.enable_grad():
            decided = realised_cost(
                self.cost, watched, outcome, weights=self.weights, solver=self.solver, expected=True
            )
            (pull,) = torch.autograd.grad(decided.cost.sum(), watched)
        action, cost, expected = decided.action.detach(), decided.cost.detach(), decided.expected_cost
        assert expected is not None
        foresight = realised_cost(self.cost, outcome[..., None, :], outcome).cost
        told = shown_action(self.cost, action)
        return {
            **self._plain(action, members, outcome),
            "action": told[..., 0] if told.shape[-1] == 1 else told,
            "cost": cost,
            "expected_cost": expected,
            "gap": expected - cost,
            "miscalibration": (expected - cost).abs(),
            "foresight_regret": cost - foresight,
            "interior": self._interior(told, members).to(cost.dtype),
            "gradient": pull.abs().sum((-2, -1)),
        }

    def _plain(self, action: Tensor, members: Tensor, outcome: Tensor) -> Metrics:
        """What the actions of a risk-averse decision maker cost without the aversion; nothing for other costs."""
        if (risk := risk_of(self.cost)) is None:
            return {}
        cost = risk.plain_cost(action, outcome)
        expected = mean_cost(risk.plain_cost, action, members, relative_weights(self.weights, members))
        return {"plain_cost": cost, "plain_expected_cost": expected, "plain_gap": expected - cost}

    def _interior(self, action: Tensor, members: Tensor) -> Tensor:
        """Whether no bound, and no limit of several parts, binds, (N,)."""
        plain = plain_cost_of(self.cost)
        if (stated := program_cost(plain)) is not None:
            program = stated.program(members.shape[-1], action.device)
            return program.is_interior(action.double(), members, self.weights)
        if vector_cost(plain) is not None:  # a function, whose limits only its solver knows
            return solve_action(plain, members, weights=self.weights).interior
        at_lower, at_upper = at_bounds(plain, action, members, self.weights)
        return ~at_lower & ~at_upper

    def _of_total(self, members: Tensor, outcome: Tensor) -> Metrics:
        total, observed = outcome_total(self.cost, members), outcome_total(self.cost, outcome)
        if self.weights is not None:
            return self._of_weighted_total(total, observed)
        # The probability integral transform of the empirical distribution, the middle of its jump where members tie.
        below, up_to = ((compare(total, observed[:, None])).sum(-1) for compare in (torch.lt, torch.le))
        return {
            "pit": (below + up_to) / (2 * total.shape[-1]),
            "error": total.mean(-1) - observed,
            "spread": total.std(-1),
            "quantile": _quantiles(sort_members(total)),
        }

    def _of_weighted_total(self, total: Tensor, observed: Tensor) -> Metrics:
        weights = cast(Tensor, relative_weights(self.weights, total[..., None]))
        below, up_to = (
            mean_of_members(compare(total, observed[:, None]), weights, -1) for compare in (torch.lt, torch.le)
        )
        mean = mean_of_members(total, weights, -1)
        squares = mean_of_members((total - mean[:, None]) ** 2, weights, -1)
        ordered, counts, _ = in_order(total, weights)
        levels = torch.tensor(LEVELS, dtype=total.dtype).expand(len(total), -1) * total.shape[-1]
        places = torch.searchsorted(counts, levels.contiguous()).clamp(max=total.shape[-1] - 1)
        return {
            "pit": (below + up_to) / 2,
            "error": mean - observed,
            "spread": squares.sqrt(),
            "quantile": ordered.gather(-1, places),
        }

    def _of_regions(self, members: Tensor) -> Metrics:
        metrics = {}
        for name, region in self.regions.items():
            inside = region(members)  # (N, M)
            count = inside.sum(-1)
            metrics[f"mass_{name}"] = count / members.shape[-2]
            if members.shape[-1] == 1:
                values = torch.where(inside, members[..., 0], 0.0)
                mean = values.sum(-1) / count
                squares = torch.where(inside, members[..., 0] - mean[:, None], 0.0).square().sum(-1)
                metrics[f"spread_{name}"] = torch.where(count > 1, (squares / (count - 1)).sqrt(), torch.nan)
        return metrics


def _quantiles(ordered: Tensor) -> Tensor:
    """The quantiles at `LEVELS` of sorted values (N, M), between the order statistics: (N, 25)."""
    members = ordered.shape[-1]
    place = torch.tensor(LEVELS, dtype=ordered.dtype, device=ordered.device) * members - 0.5
    place = place.clamp(0, members - 1)
    lower = place.floor().long()
    upper = (lower + 1).clamp(max=members - 1)
    return torch.lerp(ordered[:, lower], ordered[:, upper], place - lower)


class DecisionTerms(NamedTuple):
    """Numbers of each case, (...)."""

    cost: Tensor  # what the best action for the members costs at the outcome
    expected_cost: Tensor  # what it costs on average over the members
    squared_error: Tensor
    variance: Tensor  # the variance of the members around their mean, of the same


def decision_terms(cost: Cost, members: Tensor, outcome: Tensor) -> DecisionTerms:
    """The terms of each case, without gradients."""
    check_samples(members, "members")
    check_outcome(outcome, members)
    if members.shape[-2] < 2:
        raise ShapeError(
            f"members must be at least two, on axis -2 of (..., M, D), to have a spread, got {tuple(members.shape)}"
        )
    check_finite(members, "members", wanted=True)
    check_finite(outcome, "outcome", wanted=True)
    members = working_precision(members.detach())
    outcome = outcome.detach().to(members.dtype)
    decided = realised_cost(cost, members, outcome, certify=True)
    assert decided.expected_cost is not None
    forecast, observed = outcome_total(cost, members), outcome_total(cost, outcome)
    mean = forecast.mean(-1)
    return DecisionTerms(
        cost=decided.cost,
        expected_cost=decided.expected_cost,
        squared_error=(mean - observed).square(),
        variance=(forecast - mean[..., None]).square().sum(-1) / (members.shape[-2] - 1),  # of no case too
    )
