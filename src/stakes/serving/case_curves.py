"""What the page draws of a case: the density of the members, and the expected cost over the action."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.method.costs import Cost

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
    lower, upper = float(cost.lower), float(cost.upper)
    if outcomes is not None and max(lower, outcomes[0]) < min(upper, outcomes[-1]):
        lower, upper = max(lower, float(outcomes[0])), min(upper, float(outcomes[-1]))
    return np.linspace(lower, upper, points)


def member_density(total: Floats, grid: Floats) -> Floats:
    """A kernel estimate of the members' density, (G,): Gaussian, with the bandwidth of Silverman's rule.

    Args:
        total: Members (M,).
        grid: Outcomes (G,), equally spaced, where the density is wanted.
    """
    spread = float(total.std())
    quartiles = np.quantile(total, [0.25, 0.75])
    spread = min(spread, float(quartiles[1] - quartiles[0]) / 1.34) or spread
    width = max(0.9 * spread * len(total) ** -0.2, (grid[1] - grid[0]) / 2)
    distance = (grid[:, None] - total[None, :]) / width
    density: Floats = np.exp(-0.5 * distance**2).mean(1) / (width * np.sqrt(2 * np.pi))
    return density


def expected_costs(cost: Cost, members: Tensor, actions: Floats) -> Floats:
    """What forecasts expect actions to cost, (F, G).

    Args:
        cost: What is decided for.
        members: The members (F, M, D) of F forecasts of one case.
        actions: The actions (G,).
    """
    action = torch.from_numpy(actions).to(members.dtype)[:, None]
    outcome = members.movedim(1, 0)[:, :, None, :].expand(-1, -1, len(actions), -1)  # (M, F, G, D)
    with torch.no_grad():
        return cost(action.expand(len(members), -1, -1), outcome).double().mean(0).numpy()
