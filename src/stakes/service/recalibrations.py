"""What a service of a recalibrated forecast knows: members that are sent, corrected, and what follows from them."""

import numpy as np
import torch
from torch import Tensor

import stakes
from stakes.artifacts.recalibrations import Recalibration
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.reading import forecasts_in_table
from stakes.data.tables.columns import in_utc
from stakes.evaluation.metrics import Assessor
from stakes.evaluation.selection import candidate_title
from stakes.forecasting.decisions import decision_notes, decision_table, member_parts
from stakes.json_values import json_value
from stakes.service import schemas
from stakes.service.cost import ServedCost
from stakes.service.refusals import RequestError, naming_field
from stakes.service.requests import corrected_members, posted_forecasts, posted_table, require_rows
from stakes.service.responses import (
    action_grid,
    decision_rows,
    expected_costs,
    member_density,
    outcome_grid,
    parts_of_forecast,
    require_finite_answer,
)
from stakes.service.settings import ServiceSettings
from stakes.settings import shown

_CORRECTED, _RAW = "chosen", "raw"
_LEVELS = (0.1, 0.5, 0.9)  # of the quantiles beside a curve
_MADE_OF_MEMBERS = "a recalibrated forecast is made of members; what else is known of them stands in known"


class RecalibratedService:
    """A recalibrated forecast and a cost, and what is asked of them."""

    def __init__(self, name: str, opened: Recalibration, settings: ServiceSettings) -> None:
        self._name, self._opened, self._settings = name, opened, settings
        judged = opened.judged
        scale = 1.0 if judged is None else float(judged.values("outcome").std()) or 1.0
        self._targets = opened.recalibrator.state_.targets
        self._cost = ServedCost(opened.cost_spec, opened.recalibrator.cost, scale, self._targets)

    def decide(self, request: schemas.DecideRequest) -> schemas.DecideAnswer:
        """The action of least expected cost for every row of members, corrected."""
        if request.features is not None or request.members is None:
            raise RequestError("features" if request.members else "members", _MADE_OF_MEMBERS)
        if request.member_count is not None:
            raise RequestError("member_count", "members are as many as are corrected")
        require_rows("members", len(request.members), self._settings)
        priced = self._cost.priced(request.cost)
        given = posted_forecasts(request.members, request.member_levels, request.known, self._opened, self._settings)
        members, weights = self._members(given, request.forecast)
        rows: list[schemas.Decision] = []
        for part in member_parts(members):
            rows += decision_rows(priced, part, request.quantiles, "members", weights)
        return schemas.DecideAnswer(
            forecast=request.forecast,
            member_count=members.shape[1],
            cost=priced.text,
            unit=priced.spec.unit,
            action_unit=priced.spec.action_unit,
            decisions=rows,
            notes=[*self._warnings(request.forecast), *given.notes],
        )

    def forecast(self, request: schemas.ForecastRequest) -> schemas.ForecastAnswer:
        """Nothing: what is forecast is what is sent. Decisions tell quantiles of the corrected forecast."""
        raise RequestError("features", f"{_MADE_OF_MEMBERS}; /v1/decide tells quantiles of the corrected ones")

    def curve(self, request: schemas.CurveRequest) -> schemas.CurveAnswer:
        """Decision, expected cost over the action and density of one case, corrected and as it came."""
        self._cost.require_one_number()
        priced = self._cost.priced(request.cost)
        names, forecasts = self._case(request)
        totals = [Assessor(priced.cost).total(members).double().numpy()[0] for members, _ in forecasts]
        outcomes = require_finite_answer(outcome_grid(np.concatenate(totals)[None], request.points), "members")
        actions = action_grid(priced.cost, outcomes if self._cost.action_is_outcome else None, request.points)
        curves = []
        for name, (members, weights), total in zip(names, forecasts, totals, strict=True):
            with priced.naming_field("members"):
                costs = require_finite_answer(expected_costs(priced.cost, members, actions, weights), "members")
            shares = None if weights is None else weights.numpy()
            density = require_finite_answer(member_density(total, outcomes, shares), "members")
            curves.append(
                schemas.ForecastCurve(
                    forecast=name,
                    title=self._title(name),
                    decision=decision_rows(priced, members, _LEVELS, "members", weights)[0],
                    actions=actions.tolist(),
                    expected_costs=costs[0].tolist(),
                    outcomes=outcomes.tolist(),
                    density=density.tolist(),
                )
            )
        return schemas.CurveAnswer(cost=priced.text, curves=curves)

    def parts(self, request: schemas.CaseRequest) -> schemas.PartsAnswer:
        """The decision of one case part by part, with quantiles of each outcome, corrected and as it came."""
        self._cost.require_parts()
        priced = self._cost.priced(request.cost)
        told = [
            parts_of_forecast(priced, name, self._title(name), members, self._targets, "members", weights)
            for name, (members, weights) in zip(*self._case(request), strict=True)
        ]
        return schemas.PartsAnswer(
            cost=priced.text, outcomes=list(self._targets), parts=list(self._cost.parts), forecasts=told
        )

    def _case(self, request: schemas.CaseRequest) -> tuple[list[str], list[tuple[Tensor, Tensor | None]]]:
        """The names of the forecasts of one case that are asked for, their members (1, M, D) and what these weigh."""
        if request.features is not None or request.members is None:
            raise RequestError("features" if request.members else "members", _MADE_OF_MEMBERS)
        known = None if request.known is None else [request.known]
        given = posted_forecasts([request.members], request.member_levels, known, self._opened, self._settings)
        names = list(dict.fromkeys(request.forecasts or (_CORRECTED, _RAW)))
        return names, [self._members(given, name) for name in names]

    def table(self, request: schemas.TableRequest) -> schemas.TableAnswer:
        """A decision for every forecast of a table with the columns of the past ones, as `stakes decide` does."""
        priced = self._cost.priced(request.cost)
        table = posted_table(request.csv)
        with naming_field("csv"):
            given = forecasts_in_table(self._opened.layout, table, "the table")
            require_rows("csv", len(given), self._settings)
            members, weights = self._members(given, request.forecast)
        with priced.naming_field("csv"):
            shares = None if weights is None else weights.numpy()
            decided = decision_table(
                priced.cost, members.numpy(), given.labels, request.quantiles, shares, given.targets
            )
        return schemas.TableAnswer(
            forecast=request.forecast,
            cost=priced.text,
            columns=[str(column) for column in decided.columns],
            rows=[json_value(row) for row in in_utc(decided).itertuples(index=False, name=None)],
            notes=[
                *self._warnings(request.forecast),
                *given.notes,
                *decision_notes(priced.cost, decided, members.numpy(), shares),
            ],
        )

    def model(self) -> schemas.ModelAnswer:
        """What is served."""
        opened, settings = self._opened, self._settings
        state, terms, layout = opened.recalibrator.state_, opened.recalibrator.state_.terms, opened.layout
        uses = {"time": terms.season or terms.hour_waves, "lead": terms.lead, "site": terms.sites}
        data, learned = opened.about.data[0], opened.layout.learned
        assert learned is not None
        own = [name for name in (layout.time, *layout.runs, layout.site) if name is not None]
        return schemas.ModelAnswer(
            version=stakes.__version__,
            features=[],
            targets=list(state.targets),
            cost=self._cost.answer(),
            forecasts=[
                schemas.ServedAnswer(
                    name=name,
                    title=self._title(name),
                    decision_weight=state.decision_weight if name == _CORRECTED else 0.0,
                    member_count=len(state.models[0].shape) if name == _CORRECTED and state.models else 0,
                    warnings=list(self._warnings(name)),
                )
                for name in (_CORRECTED, _RAW)
            ],
            bundles=[
                schemas.BundleAnswer(
                    name=self._name,
                    created=opened.created,
                    versions=dict(opened.versions),
                    data={"file": data.file, "rows": data.rows, "first": data.first, "last": data.last},
                    metrics={},
                    reason=opened.recalibrator.selection_.reason,
                )
            ],
            takes_tables=True,
            table_columns=[*own, *layout.columns, *layout.features],
            limits=schemas.LimitsAnswer(
                max_rows=settings.max_rows,
                max_members=settings.max_members,
                max_body_mb=settings.max_body_mb,
                timeout=settings.timeout,
            ),
            corrects=schemas.CorrectsAnswer(
                form=state.form,
                member_levels=list(learned.levels) or None,
                known=[name for name, used in uses.items() if used and state.models],
                features=list(layout.features),
            ),
        )

    def cases(self) -> schemas.CasesAnswer:
        """None: a folder keeps no forecasts of the past."""
        return schemas.CasesAnswer(cases=[], about="")

    def _members(self, given: ForecastSet, name: str) -> tuple[Tensor, Tensor | None]:
        """Members (N, K, D) of the forecast of that name, and what each weighs."""
        if name not in (_CORRECTED, _RAW):
            raise RequestError("forecast", f"there is no forecast {shown(name)}; there are {_CORRECTED}, {_RAW}")
        raw = given.members, given.weights
        members, weights = corrected_members(self._opened, given) if name == _CORRECTED else raw
        return torch.from_numpy(np.ascontiguousarray(members)), None if weights is None else torch.from_numpy(weights)

    def _warnings(self, name: str) -> tuple[str, ...]:
        """What the test cases said against the forecast of that name."""
        return self._opened.about.alarms if name == _CORRECTED else ()

    def _title(self, name: str) -> str:
        candidate = candidate_title(self._opened.recalibrator.selection_.selected.name)
        return "As it came" if name == _RAW else f"Corrected ({candidate})"
