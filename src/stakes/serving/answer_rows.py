"""From members to decisions and forecasts, as they are sent."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from stakes.decisions import Decisions, solve_decisions
from stakes.evaluation.judged_parts import BAND_LEVELS, binding_limits
from stakes.serving.refusals import RefusedError
from stakes.serving.schemas import Certificate, Decision, ForecastParts, ForecastRow, LimitAnswer
from stakes.serving.served_cost import PricedCost

__all__ = ["decision_rows", "forecast_rows", "parts_of_forecast", "require_finite_answer"]

Floats = NDArray[np.float64]


_REASONS = {"infeasible": "its limits contradict each other", "unbounded": "its cost falls without end"}


def decision_rows(
    priced: PricedCost, samples: Tensor, levels: Sequence[float], field: str, weights: Tensor | None = None
) -> list[Decision]:
    """The best action of every forecast, none where there is no such, and quantiles of what the decision is about.

    Args:
        priced: What is decided for.
        samples: The members (n, M, D).
        levels: Levels of the quantiles, between 0 and 1.
        field: Of the request, which is named where there is no answer.
        weights: What each member weighs, (M,); None where all count alike.
    """
    with priced.naming_field(field):
        decisions = solve_decisions(priced.cost, [samples], levels, double=True, weights=weights)
    none, plain = decisions.unanswered, decisions.plain_expected_cost
    for values in (decisions.action[~none], decisions.expected_cost[~none], decisions.quantiles):
        require_finite_answer(values, field)
    return [
        Decision(
            action=None if none[row] else decisions.action[row].tolist(),
            expected_cost=None if none[row] else float(decisions.expected_cost[row]),
            plain_expected_cost=None if plain is None or none[row] else float(plain[row]),
            quantiles=dict(zip(_names(levels), decisions.quantiles[row].tolist(), strict=True)),
            certificate=_certificate(decisions, row),
        )
        for row in range(len(samples))
    ]


def parts_of_forecast(
    priced: PricedCost,
    name: str,
    title: str,
    samples: Tensor,
    outcomes: Sequence[str],
    field: str,
    weights: Tensor | None = None,
) -> ForecastParts:
    """The decision of one case part by part.

    Args:
        priced: What is decided for.
        name: Of the forecast.
        title: What people call it.
        samples: The members (1, M, D).
        outcomes: The names of the outcomes, (D,).
        field: Of the request, which is named where there is no answer.
        weights: What each member weighs, (M,); None where all count alike.
    """
    (decision,) = decision_rows(priced, samples, BAND_LEVELS, field, weights)
    if decision.action is None:
        status = decision.certificate.status
        raise RefusedError(field, f"the decision is {status}, without any best action: {_REASONS[status]}")
    with priced.naming_field(field):
        binding = binding_limits(priced.cost, outcomes, samples[0], weights)
    limits = [LimitAnswer(kind=b.kind, place=b.place, saves=b.price, parts=list(b.parts)) for b in binding]
    return ForecastParts(forecast=name, title=title, decision=decision, binding=limits)


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
        gap=None if decisions.gap is None or not math.isfinite(decisions.gap[row]) else float(decisions.gap[row]),
        certified=certified,
        status=str(decisions.status[row]),
        converged=certified,
    )


def _quantiles(values: Floats, levels: Sequence[float]) -> Floats:
    """Over the second axis: (n, M, ...) to (Q, n, ...)."""
    quantiles: Floats = np.quantile(values, list(levels), axis=1, method="hazen")
    return quantiles


def _names(levels: Sequence[float]) -> list[str]:
    return [str(level) for level in levels]
