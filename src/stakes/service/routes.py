"""What requests are answered with: decisions, forecasts and curves of a forecast source, without a word of HTTP."""

import math
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from torch import Tensor

import stakes
from stakes.actions.cvar import CVaRCost
from stakes.costs.cost import Cost, outcome_total, plain_cost_of, risk_of
from stakes.costs.member_weights import mean_of_members
from stakes.costs.parameter_range import ParameterRange
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.tables.columns import in_utc
from stakes.data.tables.time_axis import to_utc
from stakes.evaluation.case_metrics import BAND_LEVELS, binding_limits
from stakes.evaluation.value import curve_at
from stakes.forecasting.decisions import Decisions, decision_notes, decision_table, solve_decisions
from stakes.forecasting.input_range import OUTSIDE
from stakes.json_values import json_value
from stakes.service import schemas
from stakes.service.cost import PricedCost, ServedCost
from stakes.service.schemas import RequestError, against_schema, naming_field, refused_response
from stakes.service.sources import Drawn, ForecastSource
from stakes.service.workers import Reply

Floats = NDArray[np.float64]
_LEVELS = (0.1, 0.5, 0.9)  # of the quantiles beside a curve


class Service:
    """A forecast source and a cost, and what is asked of them."""

    def __init__(self, source: ForecastSource) -> None:
        self._source = source
        self._cost = ServedCost(source.cost_spec, source.cost, source.outcome_scale, source.targets)

    def decide(self, request: schemas.DecideRequest) -> schemas.DecideAnswer:
        """The action of least expected cost for every row."""
        self._source.require_asked(request)
        priced = self._cost.priced(request.cost, len(request.features or request.members or ()))
        drawn = self._source.rows(request, priced)
        rows: list[schemas.Decision] = []
        for part in drawn.parts:
            own = priced.of(slice(len(rows), len(rows) + len(part)), part.dtype)
            beside = {name: values[len(rows) :] for name, values in (drawn.beside or {}).items()}
            rows += decision_rows(own, part, request.quantiles, drawn.field, drawn.weights, beside)
        return schemas.DecideAnswer(
            forecast=drawn.forecast,
            member_count=drawn.count,
            cost=priced.text,
            unit=priced.spec.unit,
            action_unit=priced.spec.action_unit,
            decisions=rows,
            notes=list(drawn.notes),
        )

    def value(self, request: schemas.ValueRequest) -> schemas.ValueAnswer:
        """What a forecast is worth over a parameter of the cost, where outcomes are known."""
        source, name = self._source, request.parameter
        source.require_asked(request)
        if source.sees_cost:
            raise RequestError("forecast", "the forecast depends on the cost, so no single curve shows its value")
        with naming_field("low"):
            values = ParameterRange(request.low, request.high, request.log).points(request.points)
        costs = [self._cost.priced({**request.cost, name: value}) for value in values]
        outcomes = np.array([row if isinstance(row, list) else [row] for row in request.outcomes], dtype=object)
        if outcomes.shape[1:] != (len(source.targets),):
            raise RequestError("outcomes", f"outcomes must have {len(source.targets)} numbers a row")
        if request.against == request.forecast:
            raise RequestError("against", f"against must differ from the forecast, {request.forecast}")
        asked = [request.forecast, *([] if request.against is None else [request.against])]
        drawn = [source.rows(request.model_copy(update={"forecast": each}), costs[0]) for each in asked]
        if len({each.forecast for each in drawn}) < len(drawn):
            raise RequestError(
                "against", "against is for features only, because members that are sent are one forecast"
            )
        sets = {
            each.forecast: ForecastSet(
                each.members.double().numpy(), None if each.weights is None else each.weights.double().numpy()
            )
            for each in drawn
        }
        with costs[0].naming_field("outcomes"):
            times = None if request.times is None else to_utc(request.times, "times")
            curve = curve_at(
                name, values, [each.cost for each in costs], sets, outcomes.astype(np.float64), times=times
            )
        told = {key: json_value(getattr(curve, key)) for key in schemas.ValueAnswer.model_fields if key != "forecasts"}
        rows = zip(curve.forecasts, curve.cost, curve.value, curve.value_low, curve.value_high, strict=True)
        keys = ("forecast", "cost", "value", "low", "high")
        forecasts = [dict(zip(keys, map(json_value, row), strict=True)) for row in rows]
        return schemas.ValueAnswer.model_validate({**told, "forecasts": forecasts, "unit": costs[0].spec.unit})

    def forecast(self, request: schemas.ForecastRequest) -> schemas.ForecastAnswer:
        """Mean and quantiles of every target, row by row."""
        drawn, targets = self._source.forecasts(request, self._cost.priced), self._source.targets
        rows: list[schemas.ForecastRow] = []
        for part in drawn.parts:
            rows += forecast_rows(part, targets, request.quantiles, request.with_members)
        return schemas.ForecastAnswer(
            forecast=drawn.forecast, member_count=drawn.count, targets=list(targets), forecasts=rows
        )

    def curve(self, request: schemas.CurveRequest) -> schemas.CurveAnswer:
        """Decision, expected cost over the action and density of one case, for one forecast or several."""
        self._cost.require_one_number()
        self._source.require_asked(request)
        priced = self._cost.priced(request.cost)
        drawn = self._source.case(request, priced)
        totals = [outcome_total(priced.cost, each.members).double().numpy()[0] for each in drawn]
        outcomes = require_finite_answer(outcome_grid(np.concatenate(totals), request.points), drawn[0].field)
        actions = action_grid(priced.cost, outcomes if self._cost.action_is_outcome else None, request.points)
        curves = [_curve(priced, each, total, actions, outcomes) for each, total in zip(drawn, totals, strict=True)]
        return schemas.CurveAnswer(cost=priced.text, curves=curves)

    def parts(self, request: schemas.CaseRequest) -> schemas.PartsAnswer:
        """The decision of one case part by part, with quantiles of each outcome, for one forecast or several."""
        self._cost.require_parts()
        self._source.require_asked(request)
        priced = self._cost.priced(request.cost)
        outcomes = list(self._source.targets)
        forecasts = [parts_of_forecast(priced, each, outcomes) for each in self._source.case(request, priced)]
        return schemas.PartsAnswer(
            cost=priced.text, outcomes=outcomes, parts=list(self._cost.parts), forecasts=forecasts
        )

    def table(self, request: schemas.TableRequest) -> schemas.TableAnswer:
        """A decision for every row, or target time, of a table, as `stakes decide` makes it."""
        priced = self._cost.of_table(request.cost)
        drawn = self._source.table(request, priced)
        cost = priced.cost if drawn.cost is None else drawn.cost
        members, weights = drawn.members.numpy(), None if drawn.weights is None else drawn.weights.numpy()
        with priced.naming_field("csv"):
            decided = decision_table(cost, members, drawn.index, request.quantiles, weights, drawn.targets)
            notes = decision_notes(cost, decided, members, weights)
        decided = decided.assign(**drawn.beside or {})
        return schemas.TableAnswer(
            forecast=drawn.forecast,
            cost=priced.text,
            columns=[str(column) for column in decided.columns],
            rows=[json_value(row) for row in in_utc(decided).itertuples(index=False, name=None)],
            notes=[*drawn.notes, *notes],
        )

    def series(self, request: schemas.SeriesRequest) -> schemas.TableAnswer:
        """The decisions of one of many series, by its key, from its newest rows and those that are sent."""
        return self._source.series(request)

    def model(self) -> schemas.ModelAnswer:
        """Features, targets, cost, forecasts and fits that are served."""
        settings = self._source.settings
        limits = schemas.LimitsAnswer(
            max_rows=settings.max_rows,
            max_members=settings.max_members,
            max_body_mb=settings.max_body_mb,
            timeout=settings.timeout,
        )
        return schemas.ModelAnswer(
            version=stakes.__version__,
            targets=list(self._source.targets),
            cost=self._cost.answer(),
            limits=limits,
            **self._source.model(),
        )

    def cases(self) -> schemas.CasesAnswer:
        """Cases that the forecaster was judged by, where the fit kept some."""
        return self._source.cases()


ROUTES = {
    each.__name__: each
    for each in (
        Service.decide,
        Service.value,
        Service.forecast,
        Service.curve,
        Service.parts,
        Service.table,
        Service.series,
    )
}
"""What a worker answers, by name."""


class Answers:
    """Replies to questions, in a worker."""

    def __init__(self, source: ForecastSource) -> None:
        torch.set_num_threads(1)  # this process is forked, which threads would not survive
        self._threads, service = source.settings.threads_each, Service(source)
        self._asked = {
            name: (get_type_hints(handler)["request"], partial(handler, service)) for name, handler in ROUTES.items()
        }

    def __call__(self, name: str, content: bytes) -> Reply:
        """The answer, or a refusal that names the field."""
        torch.set_num_threads(self._threads)
        form, handler = self._asked[name]
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused
                answer: BaseModel = handler(form.model_validate_json(content))
            return Reply(200, answer.model_dump_json().encode())
        except ValidationError as error:
            return _refused(against_schema(error))
        except RequestError as error:
            return _refused(error)
        except Exception:
            return Reply(500, b"", traceback.format_exc())


def _refused(error: RequestError) -> Reply:
    response = refused_response(error)
    return Reply(response.status_code, bytes(response.body))


def _curve(priced: PricedCost, drawn: Drawn, total: Floats, actions: Floats, outcomes: Floats) -> schemas.ForecastCurve:
    """The curves of one forecast."""
    members, weights, field = drawn.members, drawn.weights, drawn.field
    with priced.naming_field(field):
        costs = require_finite_answer(expected_costs(priced.cost, members, actions, weights), field)
    density = member_density(total, outcomes, None if weights is None else weights.numpy())
    return schemas.ForecastCurve(
        forecast=drawn.forecast,
        title=drawn.title,
        decision=decision_rows(priced, members, _LEVELS, field, weights, drawn.beside)[0],
        actions=actions.tolist(),
        expected_costs=costs[0].tolist(),
        outcomes=outcomes.tolist(),
        density=require_finite_answer(density, field).tolist(),
    )


_REASONS = {"infeasible": "its limits contradict each other", "unbounded": "its cost is unbounded below"}


def decision_rows(
    priced: PricedCost,
    samples: Tensor,
    levels: Sequence[float],
    field: str,
    weights: Tensor | None = None,
    beside: Mapping[str, NDArray[Any]] | None = None,
) -> list[schemas.Decision]:
    """The best action of every forecast, none where there is no such, and quantiles of what the decision is about."""
    with priced.naming_field(field):
        decisions = solve_decisions(priced.cost, [samples], levels, double=True, weights=weights)
    outside = (beside or {}).get(OUTSIDE)
    none, plain = decisions.unanswered, decisions.plain_expected_cost
    for values in (decisions.action[~none], decisions.expected_cost[~none], decisions.quantiles):
        require_finite_answer(values, field)
    return [
        schemas.Decision(
            action=None if none[row] else decisions.action[row].tolist(),
            expected_cost=None if none[row] else float(decisions.expected_cost[row]),
            plain_expected_cost=None if plain is None or none[row] else float(plain[row]),
            quantiles=dict(zip(_names(levels), decisions.quantiles[row].tolist(), strict=True)),
            certificate=_certificate(decisions, row),
            outside_training_range="" if outside is None else str(outside[row]),
        )
        for row in range(len(samples))
    ]


def parts_of_forecast(priced: PricedCost, drawn: Drawn, outcomes: Sequence[str]) -> schemas.ForecastParts:
    """The decision of one case part by part."""
    members, weights, field = drawn.members, drawn.weights, drawn.field
    (decision,) = decision_rows(priced, members, BAND_LEVELS, field, weights, drawn.beside)
    if decision.action is None:
        status = decision.certificate.status
        raise RequestError(field, f"the decision is {status} and has no best action: {_REASONS[status]}")
    with priced.naming_field(field):
        binding = binding_limits(priced.cost, outcomes, members[0], weights)
    limits = [schemas.LimitAnswer(kind=b.kind, place=b.place, saves=b.price, parts=list(b.parts)) for b in binding]
    return schemas.ForecastParts(forecast=drawn.forecast, title=drawn.title, decision=decision, binding=limits)


def forecast_rows(
    samples: Tensor, targets: Sequence[str], levels: Sequence[float], with_members: bool
) -> list[schemas.ForecastRow]:
    """Mean and quantiles of every forecast, target by target."""
    members = require_finite_answer(samples.double().numpy(), "features")
    mean, quantiles = members.mean(1), _quantiles(members, levels)  # (n, D), (Q, n, D)
    return [
        schemas.ForecastRow(
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
        raise RequestError(field, "the numbers are too large for a finite answer")
    return values


def _certificate(decisions: Decisions, row: int) -> schemas.Certificate:
    residual, certified = float(decisions.residual[row]), bool(decisions.certified[row])
    return schemas.Certificate(
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
        raise RequestError("", "the action has no bounds to draw a curve between")
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
