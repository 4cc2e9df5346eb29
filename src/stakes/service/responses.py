"""From members to decisions, forecasts and curves, as they are sent."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.actions.cvar import CVaRCost, risk_of
from stakes.costs.cost import Cost, plain_cost_of
from stakes.costs.member_weights import mean_of_members
from stakes.evaluation.vector_cases import BAND_LEVELS, binding_limits
from stakes.forecasting.decisions import Decisions, solve_decisions
from stakes.service.cost import PricedCost
from stakes.service.refusals import RequestError
from stakes.service.schemas import Certificate, Decision, ForecastParts, ForecastRow, LimitAnswer

Floats = NDArray[np.float64]


_REASONS = {"infeasible": "its limits contradict each other", "unbounded": "its cost falls without end"}


def decision_rows(
    priced: PricedCost, samples: Tensor, levels: Sequence[float], field: str, weights: Tensor | None = None
) -> list[Decision]:
    """The best action of every forecast, none where there is no such, and quantiles of what the decision is about."""
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
    """The decision of one case part by part."""
    (decision,) = decision_rows(priced, samples, BAND_LEVELS, field, weights)
    if decision.action is None:
        status = decision.certificate.status
        raise RequestError(field, f"the decision is {status}, without any best action: {_REASONS[status]}")
    with priced.naming_field(field):
        binding = binding_limits(priced.cost, outcomes, samples[0], weights)
    limits = [LimitAnswer(kind=b.kind, place=b.place, saves=b.price, parts=list(b.parts)) for b in binding]
    return ForecastParts(forecast=name, title=title, decision=decision, binding=limits)


def forecast_rows(
    samples: Tensor, targets: Sequence[str], levels: Sequence[float], with_members: bool
) -> list[ForecastRow]:
    """Mean and quantiles of every forecast, target by target."""
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
    """The values, or a refusal: JSON has no word for infinity."""
    if not np.isfinite(values).all():
        raise RequestError(field, "the numbers are too large for an answer that is finite")
    return values


def _certificate(decisions: Decisions, row: int) -> Certificate:
    residual, certified = float(decisions.residual[row]), bool(decisions.certified[row])
    return Certificate(
        interior=bool(decisions.interior[row]),
        residual=residual if math.isfinite(residual) else None,
        gap=None if decisions.gap is None or not math.isfinite(decisions.gap[row]) else float(decisions.gap[row]),
        certified=certified,
        status=str(decisions.status[row]),
    )


def _quantiles(values: Floats, levels: Sequence[float]) -> Floats:
    """Over the second axis: (n, M, ...) to (Q, n, ...)."""
    quantiles: Floats = np.quantile(values, list(levels), axis=1, method="hazen")
    return quantiles


def _names(levels: Sequence[float]) -> list[str]:
    return [str(level) for level in levels]


_MARGIN = 0.25  # of the members' range, beyond it


def outcome_grid(totals: Floats, points: int) -> Floats:
    """Equally spaced outcomes around the members, (G,)."""
    low, high = float(totals.min()), float(totals.max())
    margin = _MARGIN * (high - low) or max(1.0, abs(high)) * _MARGIN
    return np.linspace(low - margin, high + margin, points)


def action_grid(cost: Cost, outcomes: Floats | None, points: int) -> Floats:
    """Equally spaced actions between the bounds, (G,)."""
    bounds = cost.lower, cost.upper  # of which a program of one part may have none
    lower, upper = (
        far if bound is None else float(bound) for bound, far in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    if outcomes is not None and max(lower, outcomes[0]) < min(upper, outcomes[-1]):
        lower, upper = max(lower, float(outcomes[0])), min(upper, float(outcomes[-1]))
    if not np.isfinite([lower, upper]).all():
        raise RequestError("", "the action has no bounds between which a curve could be drawn")
    return np.linspace(lower, upper, points)


def member_density(total: Floats, grid: Floats, weights: Floats | None = None) -> Floats:
    """A kernel estimate of the members' density, (G,): Gaussian, with the bandwidth of Silverman's rule."""
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
    """What forecasts expect actions to cost, (F, G)."""
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
