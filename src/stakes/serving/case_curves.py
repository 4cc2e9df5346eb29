"""What the page draws of a case: the density of the members, and the expected cost over the action."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.method.costs import Cost
from stakes.method.member_weights import mean_of_members
from stakes.method.risk import CVaRCost, plain_cost_of, risk_of
from stakes.serving.refusals import RefusedError

__all__ = ["action_grid", "expected_costs", "member_density", "outcome_grid"]

Floats = NDArray[np.float64]
_MARGIN = 0.25  # of the members' range, beyond it


def outcome_grid(totals: Floats, points: int) -> Floats:
    """Equally spaced outcomes around the members, (G,).

    Args:
        totals: Members, of any shape: what the decision is about.
        points: How many outcomes, G.
    """
    low, high = float(totals.min()), float(totals.max())
    margin = _MARGIN * (high - low) or max(1.0, abs(high)) * _MARGIN
    return np.linspace(low - margin, high + margin, points)


def action_grid(cost: Cost, outcomes: Floats | None, points: int) -> Floats:
    """Equally spaced actions between the bounds, (G,).

    Args:
        cost: What is decided for, with its bounds.
        outcomes: Where actions are on the scale of outcomes, those that are drawn: only actions among them are of
            interest. None otherwise.
        points: How many actions, G.
    """
    bounds = cost.lower, cost.upper  # of which a program of one part may have none
    lower, upper = (
        far if bound is None else float(bound) for bound, far in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    if outcomes is not None and max(lower, outcomes[0]) < min(upper, outcomes[-1]):
        lower, upper = max(lower, float(outcomes[0])), min(upper, float(outcomes[-1]))
    if not np.isfinite([lower, upper]).all():
        raise RefusedError("", "the action has no bounds between which a curve could be drawn")
    return np.linspace(lower, upper, points)


def member_density(total: Floats, grid: Floats, weights: Floats | None = None) -> Floats:
    """A kernel estimate of the members' density, (G,): Gaussian, with the bandwidth of Silverman's rule.

    Args:
        total: Members (M,).
        grid: Outcomes (G,), equally spaced, where the density is wanted.
        weights: What each member weighs, (M,); None where all count alike.
    """
    if weights is None:
        spread, quartiles = float(total.std()), np.quantile(total, [0.25, 0.75])
    else:
        spread = float(np.sqrt(np.average((total - np.average(total, weights=weights)) ** 2, weights=weights)))
        quartiles = np.quantile(total, [0.25, 0.75], weights=weights, method="inverted_cdf")
    spread = min(spread, float(quartiles[1] - quartiles[0]) / 1.34) or spread
    width = max(0.9 * spread * len(total) ** -0.2, (grid[1] - grid[0]) / 2)
    distance = (grid[:, None] - total[None, :]) / width
    kernels = np.exp(-0.5 * distance**2)  # (G, M)
    mean: Floats = kernels.mean(1) if weights is None else np.average(kernels, axis=1, weights=weights)
    return mean / (width * np.sqrt(2 * np.pi))


def expected_costs(cost: Cost, members: Tensor, actions: Floats, weights: Tensor | None = None) -> Floats:
    """What forecasts expect actions to cost, (F, G).

    Args:
        cost: What is decided for.
        members: The members (F, M, D) of F forecasts of one case.
        actions: The actions (G,).
        weights: What each member weighs, (M,); None where all count alike.
    """
    action = torch.from_numpy(actions).to(members.dtype)[:, None]
    outcome = members.movedim(1, 0)[:, :, None, :].expand(-1, -1, len(actions), -1)  # (M, F, G, D)
    plain, risk = plain_cost_of(cost), risk_of(cost)
    with torch.no_grad():
        costs = plain(action.expand(len(members), -1, -1), outcome).double()  # (M, F, G)
        relative = None if weights is None else (weights / weights.mean())[:, None, None]
        if risk is not None:
            costs = _charges(risk, costs, weights)
        return mean_of_members(costs, relative, 0).numpy()


def _charges(cost: CVaRCost, costs: Tensor, weights: Tensor | None) -> Tensor:
    """What each member is charged of its plain cost, (M, ...), with the best threshold: the level's quantile."""
    ordered, order = costs.sort(0)
    each = torch.ones(len(costs)) if weights is None else weights
    reached = each.double()[order].cumsum(0) >= cost.level * float(each.sum()) * (1 - 1e-12)
    threshold = ordered.gather(0, reached.int().argmax(0, keepdim=True))
    charge = threshold + torch.relu(costs - threshold) / (1 - cost.level)
    return cost.mix * charge + (1 - cost.mix) * costs
