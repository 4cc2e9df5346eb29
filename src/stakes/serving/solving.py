"""From members to decisions and forecasts, as they are sent."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from stakes.decisions import Decisions, solve_decisions
from stakes.serving.refusals import RefusedError
from stakes.serving.schemas import Certificate, Decision, ForecastRow
from stakes.serving.served_cost import PricedCost

__all__ = ["LEVELS", "finite", "forecast_rows", "solved"]

Floats = NDArray[np.float64]
LEVELS = (0.1, 0.5, 0.9)


def solved(priced: PricedCost, samples: Tensor, levels: Sequence[float], field: str) -> list[Decision]:
    """The best actions for members (n, M, D), and quantiles of what the decision is about."""
    with priced.naming(field):
        decisions = solve_decisions(priced.cost, [samples], levels, double=True)
    for values in (decisions.action, decisions.expected_cost, decisions.quantiles):
        finite(values, field)
    return [
        Decision(
            action=decisions.action[row],
            expected_cost=decisions.expected_cost[row],
            quantiles=dict(zip(_names(levels), decisions.quantiles[row].tolist(), strict=True)),
            certificate=_certificate(decisions, row),
        )
        for row in range(len(samples))
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


def _certificate(decisions: Decisions, row: int) -> Certificate:
    residual, certified = float(decisions.residual[row]), bool(decisions.certified[row])
    return Certificate(
        interior=bool(decisions.interior[row]),
        residual=residual if math.isfinite(residual) else None,
        certified=certified,
        converged=certified,
    )


def _quantiles(values: Floats, levels: Sequence[float]) -> Floats:
    """Over the second axis: (n, M, ...) to (Q, n, ...)."""
    found: Floats = np.quantile(values, list(levels), axis=1, method="hazen")
    return found


def _names(levels: Sequence[float]) -> list[str]:
    return [str(level) for level in levels]
