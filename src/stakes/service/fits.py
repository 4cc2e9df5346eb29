"""What the service knows of a fit: requests in, answers out, without a word of HTTP."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import stakes
from stakes.artifacts.fits import Bundle
from stakes.costs.cost import Cost
from stakes.data.tables.columns import in_utc
from stakes.data.tables.layout import TableLayout
from stakes.errors import SettingError
from stakes.evaluation.metrics import Assessor
from stakes.forecasting.decisions import decision_notes, decision_table, member_parts
from stakes.json_values import json_value
from stakes.service import schemas
from stakes.service.cost import PricedCost, ServedCost
from stakes.service.forecasts import ServedFits, ServedForecast
from stakes.service.refusals import RequestError, naming_field
from stakes.service.requests import (
    GivenMembers,
    feature_row,
    given_members,
    posted_table,
    require_either,
    require_nothing_known,
    require_rows,
)
from stakes.service.responses import (
    action_grid,
    decision_rows,
    expected_costs,
    forecast_rows,
    member_density,
    outcome_grid,
    parts_of_forecast,
    require_finite_answer,
)
from stakes.service.settings import ServiceSettings
from stakes.settings import shown
from stakes.workflows.decide import table_notes


def model_answer(
    fits: ServedFits, cost: schemas.CostAnswer, counts: Mapping[str, int], settings: ServiceSettings
) -> schemas.ModelAnswer:
    """All that is known of the service but the cases."""
    features = zip(fits.features, fits.typical, strict=True)
    return schemas.ModelAnswer(
        version=stakes.__version__,
        features=[schemas.FeatureAnswer(name=name, typical=value) for name, value in features],
        targets=list(fits.forecaster.target_names_),
        cost=cost,
        forecasts=[
            schemas.ServedAnswer(
                name=each.name,
                title=each.title,
                decision_weight=each.decision_weight,
                member_count=counts[each.name],
                warnings=list(each.warnings),
            )
            for each in fits.forecasts.values()
        ],
        bundles=[_bundle(name, bundle) for name, bundle in fits.bundles.items()],
        takes_tables=fits.first.layout is not None,
        table_columns=_table_columns(fits.first.layout),
        limits=schemas.LimitsAnswer(
            max_rows=settings.max_rows,
            max_members=settings.max_members,
            max_body_mb=settings.max_body_mb,
            timeout=settings.timeout,
        ),
        corrects=None,
    )


def cases_answer(fits: ServedFits) -> schemas.CasesAnswer:
    """The cases that were kept with the first fit."""
    kept, forecaster = fits.cases, fits.forecaster
    if kept is None:
        return schemas.CasesAnswer(cases=[], about="")
    assert kept.index is not None
    totals = Assessor(forecaster.cost).total(kept.outcome).tolist()
    return schemas.CasesAnswer(
        about=_SEEN[fits.seen],
        cases=[
            schemas.CaseAnswer(
                label=label,
                features=dict(zip(fits.features, features.tolist(), strict=True)),
                outcome=dict(zip(forecaster.target_names_, outcome.tolist(), strict=True)),
                total=total,
            )
            for label, features, outcome, total in zip(kept.index, kept.features, kept.outcome, totals, strict=True)
        ],
    )


_SEEN: dict[bool | None, str] = {
    None: "",
    True: "The forecast shown here was trained on these cases after its test. Its decisions may look better than those "
    "that were judged: all test figures are of a forecast that had not seen them.",
    False: "The forecast shown here has not seen these cases: its decisions are those that were judged.",
}


def _table_columns(layout: TableLayout | None) -> list[str]:
    if layout is None:
        return []
    return [*([] if layout.time is None else [layout.time]), *dict.fromkeys((*layout.features, *layout.known))]


def _bundle(name: str, bundle: Bundle) -> schemas.BundleAnswer:
    about = bundle.about
    return schemas.BundleAnswer(
        name=name,
        created=bundle.created,
        versions=dict(bundle.versions),
        data=json_value(about.get("data")),
        metrics=json_value(about.get("metrics") or {}),
        reason=str(about.get("reason") or ""),
    )


_MOST_NUMBERS = 1_000_000  # of members in one answer
_LEVELS = (0.1, 0.5, 0.9)  # of the quantiles beside a curve
_CASES_KEPT = 32  # whose members the next move of a slider finds again


class Service:
    """Forecasts and a cost, and what is asked of them."""

    def __init__(self, fits: ServedFits, settings: ServiceSettings) -> None:
        spec = fits.first.cost_spec
        if spec is None:
            raise SettingError("the cost has no words; give it as NAME:key=value,... or FILE.py:function")
        self._fits, self._settings = fits, settings
        self._targets = fits.forecaster.target_names_
        self._cost = ServedCost(spec, fits.forecaster.cost, fits.outcome_scale, self._targets)
        self._case_members = lru_cache(_CASES_KEPT)(self._sample_case)

    def decide(self, request: schemas.DecideRequest) -> schemas.DecideAnswer:
        """The action of least expected cost for every row."""
        require_either(request.features, request.members)
        require_nothing_known(request.known)
        priced = self._cost.priced(request.cost, len(request.features or request.members or ()))
        field = "features" if request.members is None else "members"
        rows: list[schemas.Decision] = []
        given = self._given(request.members, request.member_levels, priced.cost)
        count, parts = self._parts(request, given, priced)
        for part in parts:
            own = priced.of(slice(len(rows), len(rows) + len(part)), part.dtype)
            rows += decision_rows(own, part, request.quantiles, field, given.weights if given else None)
        return schemas.DecideAnswer(
            forecast=request.forecast if request.members is None else "members",
            member_count=count,
            cost=priced.text,
            unit=priced.spec.unit,
            action_unit=priced.spec.action_unit,
            decisions=rows,
            notes=list(given.notes if given else self._forecast(request.forecast).warnings),
        )

    def forecast(self, request: schemas.ForecastRequest) -> schemas.ForecastAnswer:
        """Mean and quantiles of every target, row by row."""
        forecast = self._forecast(request.forecast)
        count = self._count(forecast, request.member_count)
        features, targets = self._features(request.features), self._fits.forecaster.target_names_
        if request.with_members and len(features) * count * len(targets) > _MOST_NUMBERS:
            raise RequestError(
                "with_members", f"at most {_MOST_NUMBERS} members are sent at once; ask for fewer rows or members"
            )
        rows: list[schemas.ForecastRow] = []
        parameter = self._forecast_parameter(forecast, request.cost, len(features))
        for part in forecast.sample(features, count, parameter=parameter):
            rows += forecast_rows(part, targets, request.quantiles, request.with_members)
        return schemas.ForecastAnswer(forecast=forecast.name, member_count=count, targets=list(targets), forecasts=rows)

    def curve(self, request: schemas.CurveRequest) -> schemas.CurveAnswer:
        """Decision, expected cost over the action and density of one case, for one forecast or several."""
        self._cost.require_one_number()
        require_either(request.features, request.members)
        require_nothing_known(request.known)
        priced = self._cost.priced(request.cost)
        field = "features" if request.members is None else "members"
        rows = None if request.members is None else [request.members]
        given = self._given(rows, request.member_levels, priced.cost)
        titles, samples = self._case(request, given, priced)  # (forecasts, M, D)
        weights = given.weights if given else None
        totals = Assessor(priced.cost).total(samples).double().numpy()
        outcomes = require_finite_answer(outcome_grid(totals, request.points), field)
        actions = action_grid(priced.cost, outcomes if self._cost.action_is_outcome else None, request.points)
        decisions = decision_rows(priced, samples, _LEVELS, field, weights)
        shares = None if weights is None else weights.numpy()
        with priced.naming_field(field):
            costs = require_finite_answer(expected_costs(priced.cost, samples, actions, weights), field)
        curves = [
            schemas.ForecastCurve(
                forecast=name,
                title=title,
                decision=decisions[place],
                actions=actions.tolist(),
                expected_costs=costs[place].tolist(),
                outcomes=outcomes.tolist(),
                density=require_finite_answer(member_density(totals[place], outcomes, shares), field).tolist(),
            )
            for place, (name, title) in enumerate(titles.items())
        ]
        return schemas.CurveAnswer(cost=priced.text, curves=curves)

    def parts(self, request: schemas.CaseRequest) -> schemas.PartsAnswer:
        """The decision of one case part by part, with quantiles of each outcome, for one forecast or several."""
        self._cost.require_parts()
        require_either(request.features, request.members)
        require_nothing_known(request.known)
        priced = self._cost.priced(request.cost)
        field = "features" if request.members is None else "members"
        given = self._given(None if request.members is None else [request.members], request.member_levels, priced.cost)
        titles, samples = self._case(request, given, priced)  # (forecasts, M, D)
        weights = given.weights if given else None
        forecasts = [
            parts_of_forecast(priced, name, title, samples[place : place + 1], self._targets, field, weights)
            for place, (name, title) in enumerate(titles.items())
        ]
        return schemas.PartsAnswer(
            cost=priced.text, outcomes=list(self._targets), parts=list(self._cost.parts), forecasts=forecasts
        )

    def table(self, request: schemas.TableRequest) -> schemas.TableAnswer:
        """A decision for every row, or target time, of a table whose features are there, as `stakes decide` does."""
        layout = self._fits.first.layout
        if layout is None:
            raise RequestError("csv", "the fit was saved without the layout of its table; send features instead")
        priced, forecast = self._cost.priced(request.cost), self._forecast(request.forecast)
        given = posted_table(request.csv)
        with naming_field("csv"):
            inputs = layout.inputs(given)
        require_rows("csv", len(inputs), self._settings)
        features, count = inputs.features.numpy(), self._count(forecast, None)
        members = torch.cat(list(forecast.sample(features, count, "csv", self._seen(forecast, priced)))).numpy()
        with priced.naming_field("csv"):
            decided = decision_table(
                priced.cost, members, inputs.feature_table.index, request.quantiles, outcomes=layout.targets
            )
            notes = decision_notes(priced.cost, decided, members)
        return schemas.TableAnswer(
            forecast=forecast.name,
            cost=priced.text,
            columns=[str(column) for column in decided.columns],
            rows=[json_value(row) for row in in_utc(decided).itertuples(index=False, name=None)],
            notes=[
                *forecast.warnings,
                *table_notes(self._fits.first.known, layout, given, inputs.quality),
                *notes,
            ],
        )

    def model(self) -> schemas.ModelAnswer:
        """What is served."""
        counts = {name: self._count(each, None) for name, each in self._fits.forecasts.items()}
        return model_answer(self._fits, self._cost.answer(), counts, self._settings)

    def cases(self) -> schemas.CasesAnswer:
        """Cases that the forecaster was judged by, to look at."""
        return cases_answer(self._fits)

    def _given(self, rows: Sequence[Any] | None, levels: Sequence[float] | None, cost: Cost) -> GivenMembers | None:
        """The members that came with the request, if any did."""
        if rows is None:
            if levels is not None:
                raise RequestError("member_levels", "member_levels belong to members, of which there are none")
            return None
        require_rows("members", len(rows), self._settings)
        return given_members(rows, levels, cost, self._settings, self._fits.forecaster.n_outputs_)

    def _seen(self, forecast: ServedForecast, priced: PricedCost) -> float | tuple[float, ...] | None:
        """The parameter of the cost that a forecast depends on; None where it depends on none."""
        return None if forecast.depends_on is None else priced.parameter(forecast.depends_on.name)

    def _forecast_parameter(
        self, forecast: ServedForecast, cost: schemas.Costs, rows: int
    ) -> float | tuple[float, ...] | None:
        """The same of a request that decides nothing, and needs no cost unless the forecast depends on it."""
        if forecast.depends_on is not None:
            return self._seen(forecast, self._cost.priced(cost, rows))
        if cost:
            raise RequestError("cost", f"the forecast {forecast.name} does not depend on the cost; leave it out")
        return None

    def _parts(
        self, request: schemas.DecideRequest, given: GivenMembers | None, priced: PricedCost
    ) -> tuple[int, Iterator[Tensor]]:
        """The number of members, and members (n, M, D) of some rows after the other."""
        if given is not None:
            if request.member_count is not None:
                raise RequestError("member_count", "member_count belongs to features; members are as many as are sent")
            members = given.members
            return members.shape[1], member_parts(members)
        forecast = self._forecast(request.forecast)
        count = self._count(forecast, request.member_count)
        features = self._features(request.features or [])
        return count, forecast.sample(features, count, parameter=self._seen(forecast, priced))

    def _case(
        self, request: schemas.CaseRequest, given: GivenMembers | None, priced: PricedCost
    ) -> tuple[dict[str, str], Tensor]:
        """Titles of the forecasts by name, and their members (forecasts, M, D), as many of each."""
        if given is not None:
            return {"members": "Members"}, given.members
        names = list(self._fits.forecasts) if request.forecasts is None else request.forecasts
        forecasts = [self._forecast(name) for name in dict.fromkeys(names)]
        features = np.array(feature_row(request.features or [], self._fits.features, "features"))
        count = min(self._count(each, request.member_count) for each in forecasts)
        members = [
            self._case_members(each.name, features.tobytes(), count, self._seen(each, priced)) for each in forecasts
        ]
        return {each.name: each.title for each in forecasts}, torch.stack(members)

    def _sample_case(self, name: str, features: bytes, count: int, parameter: float | None) -> Tensor:
        (members,) = self._fits.forecasts[name].sample(np.frombuffer(features)[None], count, parameter=parameter)
        return members[0]

    def _features(self, rows: Sequence[Any]) -> NDArray[np.float64]:
        require_rows("features", len(rows), self._settings)
        names = self._fits.features
        return np.array([feature_row(row, names, f"features.{place}") for place, row in enumerate(rows)])

    def _forecast(self, name: str) -> ServedForecast:
        if name not in self._fits.forecasts:
            raise RequestError(
                "forecast", f"there is no forecast {shown(name)}; there are {', '.join(self._fits.forecasts)}"
            )
        return self._fits.forecasts[name]

    def _count(self, forecast: ServedForecast, asked: int | None) -> int:
        if asked is None:
            return min(int(forecast.forecaster.members), self._settings.max_members)
        if asked > self._settings.max_members:
            raise RequestError(
                "member_count", f"member_count must be at most {self._settings.max_members}, got {asked}"
            )
        return asked
