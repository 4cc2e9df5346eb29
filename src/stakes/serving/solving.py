"""From members to decisions and forecasts, as they are sent."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from stakes.evaluation.metrics import Assessor
from stakes.method.actions import solve_action
from stakes.serving.refusals import RefusedError
from stakes.serving.schemas import Certificate, Decision, ForecastRow
from stakes.serving.served_cost import PricedCost

__all__ = ["LEVELS", "finite", "forecast_rows", "solved"]

Floats = NDArray[np.float64]
LEVELS = (0.1, 0.5, 0.9)


def solved(priced: PricedCost, samples: Tensor, levels: Sequence[float], field: str) -> list[Decision]:
    """The best actions for members (n, M, D), and quantiles of what the decision is about."""
    cost = priced.cost
    with priced.naming(field):
        solution = solve_action(cost, samples)
        total = Assessor(cost).total(samples).double().numpy()
    action = np.clip(solution.action[..., 0].double().numpy(), float(cost.lower), float(cost.upper))
    action, expected = finite(action, field), finite(solution.expected_cost.double().numpy(), field)
    quantiles = finite(_quantiles(total, levels), field)
    residual = [value if np.isfinite(value) else None for value in solution.residual.double().tolist()]
    certificates = zip(solution.interior.tolist(), residual, solution.converged.tolist(), strict=True)
    return [
        Decision(
            action=action[row],
            expected_cost=expected[row],
            quantiles=dict(zip(_names(levels), quantiles[:, row].tolist(), strict=True)),
            certificate=Certificate(interior=interior, residual=distance, converged=converged),
        )
        for row, (interior, distance, converged) in enumerate(certificates)
    ]


def forecast_rows(
    samples: Tensor, targets: Sequence[str], levels: Sequence[float], with_members: bool
) -> list[ForecastRow]:
    """Members (n, M, D) in short, target by target."""
    members = finite(samples.double().numpy(), "features")
    mean, quantiles = members.mean(1), _quantiles(members, levels)  # (n, D), (Q, n, D)
    return [
        ForecastRow(
            mean=dict(zip(targets, mean[row].tolist(), strict=True)),
            quantiles={
                target: dict(zip(_names(levels), quantiles[:, row, place].tolist(), strict=True))
                for place, target in enumerate(targets)
            },
            members=members[row].tolist() if with_members else None,
        )
        for row in range(len(members))
    ]


def finite(values: Floats, field: str) -> Floats:
    """The values, or a refusal: JSON has no word for infinity."""
    if not np.isfinite(values).all():
        raise RefusedError(field, "the numbers are too large for an answer that is finite")
    return values


def _quantiles(values: Floats, levels: Sequence[float]) -> Floats:
    """Over the second axis: (n, M, ...) to (Q, n, ...)."""
    found: Floats = np.quantile(values, list(levels), axis=1, method="hazen")
    return found


def _names(levels: Sequence[float]) -> list[str]:
    return [str(level) for level in levels]
