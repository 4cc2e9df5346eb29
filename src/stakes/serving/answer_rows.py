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

__all__ = ["decision_rows", "forecast_rows", "require_finite_answer"]

Floats = NDArray[np.float64]


def decision_rows(
    priced: PricedCost, samples: Tensor, levels: Sequence[float], field: str, weights: Tensor | None = None
) -> list[Decision]:
    """The best action of every forecast, and quantiles of what the decision is about.

    Args:
        priced: What is decided for.
        samples: The members (n, M, D).
        levels: Levels of the quantiles, between 0 and 1.
        field: Of the request, which is named where there is no answer.
        weights: What each member weighs, (M,); None where all count alike.
    """
    with priced.naming_field(field):
        decisions = solve_decisions(priced.cost, [samples], levels, double=True, weights=weights)
    for values in (decisions.action, decisions.expected_cost, decisions.quantiles):
        require_finite_answer(values, field)
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
    """Mean and quantiles of every forecast, target by target.

    Args:
        samples: The members (n, M, D).
        targets: The names of the outcomes, (D,).
        levels: Levels of the quantiles, between 0 and 1.
        with_members: Whether the members are told too.
    """
    members = require_finite_answer(samples.double().numpy(), "features")
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


def require_finite_answer(values: Floats, field: str) -> Floats:
    """The values, or a refusal: JSON has no word for infinity.

    Args:
        values: Numbers of an answer, of any shape.
        field: Of the request, which the refusal names.
    """
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
    quantiles: Floats = np.quantile(values, list(levels), axis=1, method="hazen")
    return quantiles


def _names(levels: Sequence[float]) -> list[str]:
    return [str(level) for level in levels]
