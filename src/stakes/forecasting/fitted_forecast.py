"""A fitted forecast: models and what they need to draw members; decisions from members, and what these were worth.

It needs neither the estimator that fitted it nor anything that trains, and is what a folder is loaded as.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from stakes.actions.climatology import climatology_actions
from stakes.argument_checks import require_count, require_decision_weight, whole_number
from stakes.costs.cost import Cost, ParameterColumn, RangedParameter, outcome_total, parameter_value, ranged_parameter
from stakes.costs.member_weights import case_parts
from stakes.data.case_table import CaseTable, as_table, as_tensor, checked_times, like_given
from stakes.data.outcome_bounds import OutcomeBounds
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.case_metrics import forecast_table, todays_cost
from stakes.evaluation.drift import SeenErrors
from stakes.evaluation.intervals import block_length
from stakes.evaluation.metrics import Assessor, Region
from stakes.evaluation.selection import JudgedCases
from stakes.forecasting.corrections import Correction, corrected
from stakes.forecasting.decisions import Decisions, given_parameter, solve_decisions
from stakes.forecasting.input_range import OUTSIDE, InputRange
from stakes.forecasting.member_answers import MemberAnswers, MemberPart
from stakes.models.sample_model import member_shares, pooled_parts
from stakes.scores.decision_score import realised_cost, realised_costs
from stakes.scores.scoring_rules import EnergyScore

CostParameters = Mapping[str, ArrayLike]
"""The value of the parameter that is a range, by its name: one for all rows, or one for each, (n,)."""

Which = Literal["chosen", "baseline"]
"""The forecast of the selected weight, or that of weight 0 beside it."""

Floats = NDArray[np.float64]
_DRAWS = 20  # of what a row lacks; each gets a share of its members
_SEEDS_APART = 1000  # the noise of one draw from that of the next: more than there are models


def parameter_values(
    column: ParameterColumn, cost: Cost, given: CostParameters | None, rows: int, *, spread: bool = False
) -> Tensor:
    """The parameter of each row, (n, width): as given, or the number that the cost has in place of the range."""
    if given is not None and not isinstance(given, Mapping):
        raise SettingError(f"cost_parameters must name the parameter, as in {{'penalty': 5}}, got {given!r}")
    parameter, own = column.parameter, ranged_parameter(cost)
    if parameter is None or own is None:
        if given:
            raise SettingError(f"cost_parameters are for a cost with a range, got {', '.join(given)}; change the cost")
        return torch.empty(rows, 0) if parameter is None else _of_cost(parameter, cost, column.conditioned, rows)
    if own != parameter:
        raise SettingError(f"the range must be that of the fit, {parameter}, got {own}")
    if spread and not given:
        return column.spread(rows)
    return given_parameter(parameter, given, rows)[:, None]


def _of_cost(parameter: RangedParameter, cost: Cost, conditioned: bool, rows: int) -> Tensor:
    """The number that a cost without a range has; any where models do not see it, as nothing depends on it then."""
    number = parameter_value(cost, parameter.name)
    if conditioned:
        if number is None:
            raise SettingError(f"the forecast depends on {parameter}, which the cost {cost} lacks")
        parameter.require_inside(number, number)
    return torch.full((rows, 1), parameter.range.middle if number is None else number, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class PooledForecast:
    """Models whose members are pooled, corrected by past errors and clipped to what outcomes cannot cross."""

    models: Sequence[nn.Module]  # none where all failed
    noise_seed: int  # what the noise is drawn from
    column: ParameterColumn  # where each row has the parameter of its cost, and whether the models see it
    bounds: OutcomeBounds | None = None
    correction: Correction | None = None
    inputs: InputRange | None = None  # what features are held against; None takes them as they come

    def drawn(
        self, features: Tensor, members: int, device: str, *, share_noise: bool = True
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and what the models draw for them, (n, M, D), part by part; the parameter is the last of the columns.

        A row that lacks features, or has some that contradict the others, gets its members from several draws of them.
        """
        draw = partial(pooled_parts, self.models, device=device, share_noise=share_noise)
        lacking = None if self.inputs is None else self.inputs.lacking(self._known(features))
        if self.inputs is None or lacking is None or not lacking.any():
            yield from draw(self.column.seen(features), members, self.noise_seed)
            return
        several = np.flatnonzero(lacking.any(1))
        known = np.where(lacking, np.nan, self._known(features))
        begun = self._with_known(features, np.where(lacking, self.inputs.mean, known))
        shares = member_shares(members, min(_DRAWS, max(1, members // max(1, len(self.models)))))  # some of each model
        for rows, part in draw(self.column.seen(begun), members, self.noise_seed):
            here = several[(several >= rows.start) & (several < rows.stop)] - rows.start
            if len(here):
                completed = self.inputs.draws(known[rows][here], len(shares))  # (k, K, F)
                own = features[rows][here]
                seen = [self.column.seen(self._with_known(own, each)) for each in completed.swapaxes(0, 1)]
                drawn = [
                    torch.cat([each for _, each in draw(known, share, self.noise_seed + _SEEDS_APART * place)])
                    for place, (known, share) in enumerate(zip(seen, shares, strict=True))
                ]
                part[here] = torch.cat(drawn, 1)
            yield rows, part

    def _known(self, features: Tensor) -> Floats:
        return self.column.without(features).double().numpy()

    def _with_known(self, features: Tensor, known: Floats) -> Tensor:
        """The features with others in place of their own, and the parameter as it is."""
        return torch.cat([torch.from_numpy(known).to(features), features[:, known.shape[1] :]], 1)

    def members(
        self, features: Tensor, members: int, device: str, *, share_noise: bool = True
    ) -> Iterator[tuple[slice, Tensor]]:
        """The same, corrected and clipped: members that decisions are made from."""
        for rows, part in self.drawn(features, members, device, share_noise=share_noise):
            if self.correction is not None:
                part = corrected(part, self.correction)
            yield rows, part if self.bounds is None else self.bounds.clip(part)


@dataclass(frozen=True)
class ForecastState:
    """All of a fitted forecast but its models and its cost, as plain values."""

    features: int  # how many features there are
    feature_names: tuple[str, ...] | None  # their names; None where the table had none
    target_names: tuple[str, ...]  # the names of the outcomes
    single_output: bool  # whether the outcomes came without a second axis
    decision_weight: float  # the selected weight
    climatology_action: float | tuple[float, ...]  # the best constant action, or one for each of some parameters
    noise_seed: int  # what the noise of the forecasts is drawn from
    members: int  # how many members a forecast has
    block: int | Literal["auto"]  # how many neighbouring rows belong together; "auto" tells by their times
    ranged: RangedParameter | None  # the parameter of the cost that was a range
    conditioned: bool  # whether the models see it
    outcome_bounds: OutcomeBounds | None  # what outcomes cannot cross
    correction: Correction | None  # how members are corrected by past errors
    baseline_correction: Correction | None  # the same for weight 0 beside them

    def __post_init__(self) -> None:
        require_count("features", self.features)
        require_count("noise_seed", self.noise_seed, least=0)
        if self.feature_names is not None and len(self.feature_names) != self.features:
            raise SettingError(f"feature_names must be {self.features} names, got {len(self.feature_names)}")
        if not self.target_names or (self.single_output and len(self.target_names) > 1):
            raise SettingError(
                f"target_names must be one or more names, one for a single output, got {len(self.target_names)}"
            )
        require_decision_weight(self.decision_weight)
        if self.outcome_bounds is not None and len(self.outcome_bounds.pairs) != len(self.target_names):
            raise SettingError(
                f"outcome_bounds must be {len(self.target_names)} pairs, got {len(self.outcome_bounds.pairs)}"
            )
        for name in ("correction", "baseline_correction"):
            correction = getattr(self, name)
            if correction is not None and correction.outcomes != len(self.target_names):
                raise SettingError(f"{name} must be of {len(self.target_names)} outcomes, got {correction.outcomes}")

    @property
    def named_features(self) -> tuple[str, ...]:
        """The names of the features, x0, x1 and so on where the table had none."""
        return self.feature_names or tuple(f"x{place}" for place in range(self.features))

    @property
    def parameter_column(self) -> ParameterColumn:
        """Where each row has the parameter of its cost, and whether the models see it."""
        return ParameterColumn(self.ranged, self.conditioned)


class ForecastAnswers(MemberAnswers):
    """What a fitted forecast answers, by itself or within the estimator that fitted it.

    Where the cost has a range, `cost_parameters` says which decision maker each row belongs to.
    """

    @property
    @abstractmethod
    def forecast(self) -> "FittedForecast":
        """The fitted forecast."""

    def _table(self, X: Any) -> Any:
        """Features (n, F), checked as the estimator does."""
        return X

    def _member_parts(self, X: Any, **beside: Any) -> Iterator[MemberPart]:
        """Members of the rows, some after the other; `cost_parameters` may stand beside them."""
        if unknown := set(beside) - {"cost_parameters"}:
            raise TypeError(f"features take no {', '.join(sorted(unknown))}, only cost_parameters")
        forecast = self.forecast
        features = forecast.features(self._table(X), beside.get("cost_parameters"))
        return ((part.numpy(), None) for _, part in forecast.drawn(features))

    @property
    def _single_output(self) -> bool:
        return self.forecast.state.single_output

    # What follows from members

    def sample(
        self, X: Any, members: int | None = None, *, cost_parameters: CostParameters | None = None
    ) -> NDArray[np.float32]:
        """Members (n, M, D) of the forecast, in the units of y.

        Args:
            X: Features (n, F) of new rows.
            members: How many members M; None for those of the forecaster.
            cost_parameters: The parameter that is a range, such as {"penalty": 5}, one value or one for each row, (n,);
                needed where the cost has a range that the models see.
        """
        forecast = self.forecast
        features = forecast.features(self._table(X), cost_parameters)
        return np.concatenate([part.numpy() for _, part in forecast.drawn(features, members=members)])

    def solve(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Decisions:
        """The action of least expected cost for each row, what it is expected to cost, and whether it is certified.

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: The parameter that is a range, such as {"penalty": 5}, one value or one for each row, (n,);
                needed where the cost has a range.
        """
        forecast = self.forecast
        features = forecast.features(self._table(X), cost_parameters, deciding=True)
        return Decisions.joined(
            [
                solve_decisions(forecast.cost_of(features[rows]), [members], double=True)
                for rows, members in forecast.drawn(features)
            ]
        )

    def decide(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Floats:
        """The action of least expected cost for each row: (n,), or (n, A) where an action has A > 1 parts.

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: As in `solve`.
        """
        return self.solve(X, cost_parameters=cost_parameters).action

    def expected_cost(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Floats:
        """What the forecast expects its best action to cost, (n,).

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: As in `solve`.
        """
        return self.solve(X, cost_parameters=cost_parameters).expected_cost

    def outside_training_range(self, X: Any) -> NDArray[np.str_]:
        """The feature of each row that was never like this in training, (n,): the worst one; empty where none is.

        One is told of that lies outside its range in training by more than a tenth of it. Where it contradicts the
        others as well, it was treated as missing, and the forecast is wider for it.

        Args:
            X: Features (n, F) of new rows.
        """
        return self.forecast.flagged(self._table(X))

    # What decisions were worth

    def score(self, X: Any, y: Any, *, cost_parameters: CostParameters | None = None) -> float:
        """The mean realised cost of the actions, negative: the higher the better.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            cost_parameters: The parameter that is a range, one value or one for each row; None spreads rows over it,
                the same every time.
        """
        paid = self.realised_cost(X, y, cost_parameters=cost_parameters)
        return -float(torch.from_numpy(paid).sum()) / len(paid)

    def assess(
        self,
        X: Any,
        y: Any,
        which: Which = "chosen",
        regions: Mapping[str, Region] | None = None,
        *,
        cost_parameters: CostParameters | None = None,
    ) -> dict[str, Floats]:
        """All metrics of `stakes.evaluation.metrics.Assessor` case by case, and what the best constant action costs.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            which: "chosen", or "baseline": weight 0, which a fit with `decision_weight` "auto" or `baseline` keeps.
            regions: Parts of the outcomes by name, of which the forecast's share is taken too.
            cost_parameters: As in `score`.
        """
        forecast = self.forecast
        return forecast.assessed(forecast.cases(self._table(X), y, None, cost_parameters), which, regions)

    def decision_makers(self, rows: int, cost_parameters: CostParameters | None = None) -> dict[str, Floats]:
        """The parameter of the cost that is a range, (n,), by its name, as rows are judged; nothing without a range.

        Args:
            rows: How many rows are judged, n.
            cost_parameters: As in `score`.
        """
        forecast = self.forecast
        ranged = ranged_parameter(forecast.cost)
        if ranged is None:
            return {}
        column = forecast.state.parameter_column
        values = parameter_values(column, forecast.cost, cost_parameters, rows, spread=True)
        return {ranged.name: values[:, 0].double().numpy()}

    def realised_cost(
        self,
        X: Any,
        y: Any,
        which: Which | Literal["climatology"] = "chosen",
        *,
        cost_parameters: CostParameters | None = None,
    ) -> Floats:
        """What the actions cost, (n,).

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            which: As in `assess`, or "climatology" for the best constant action.
            cost_parameters: As in `score`.
        """
        forecast = self.forecast
        rows = forecast.cases(self._table(X), y, None, cost_parameters)
        return forecast.climatology_cost(rows) if which == "climatology" else forecast.paid(rows, which)

    def evaluate(
        self,
        X: Any,
        y: Any,
        *,
        times: Any = None,
        baseline_action: ArrayLike | None = None,
        cost_parameters: CostParameters | None = None,
    ) -> Any:
        """Scores and costs on these rows with 95 % intervals; see `stakes.evaluation.case_metrics`.

        Where there is a forecast of weight 0 its values stand beside them, with the paired difference. For rows in a
        table of polars or Arrow it is a table of that kind, with the column `metric`; else one of pandas.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            times: When it happened (n,); None if unknown.
            baseline_action: Today's action (n,), or (n, A) of several parts, with which the last rows compare; NaN
                where it is not known.
            cost_parameters: As in `score`.
        """
        forecast = self.forecast
        rows = forecast.cases(self._table(X), y, times, cost_parameters)
        cost = forecast.cost_of(rows.features)
        today = None if baseline_action is None else todays_cost(cost, baseline_action, rows.outcome)
        chosen = forecast.assessed(rows)
        weight_0 = forecast.assessed(rows, "baseline") if forecast.baseline_models else None
        block = block_length(len(rows), rows.times, forecast.state.block)
        return like_given(forecast_table(chosen, weight_0, forecast.state.members, block, today), X)


@dataclass(frozen=True, eq=False)
class FittedForecast(ForecastAnswers):
    """Members of new rows, the decisions that follow from them, and what these were worth where outcomes are known."""

    cost: Cost
    state: ForecastState
    inputs: InputRange  # what features are held against
    models: Sequence[nn.Module]  # which members are drawn from
    baseline_models: Sequence[nn.Module] = ()  # of weight 0 beside them
    device: str = "cpu"  # where members are computed

    @property
    def forecast(self) -> "FittedForecast":
        """Itself."""
        return self

    # What goes in, and the members that come out

    def features(
        self,
        X: Any,
        given: CostParameters | None,
        *,
        deciding: bool = False,
        judging: bool = False,
        incomplete: bool = False,
    ) -> Tensor:
        """Features in single precision with the parameter of each row, (n, F + width); columns must be of the fit.

        The parameter is spread over its range where rows are only judged; `incomplete` lets NaN stand for what is
        missing.
        """
        column = self.state.parameter_column
        features = as_tensor(self.checked(X, incomplete), "X", incomplete)
        unseen = not (deciding or column.conditioned or given)  # members are the same for any
        parameter = parameter_values(column, self.cost, given, len(features), spread=judging or unseen)
        return torch.cat([features, parameter.to(features)], 1) if column.width else features

    def checked(self, X: Any, incomplete: bool = False) -> Floats:
        """Features (n, F); columns must be those of the fit."""
        table, names = as_table(X, "X"), self.state.feature_names
        columns = getattr(table, "columns", None)
        if names is not None and columns is not None and tuple(map(str, columns)) != names:
            raise ShapeError(f"X must have the columns of the fit, {', '.join(names[:5])}, got {list(columns)[:5]}")
        values = _numbers(table, "X", incomplete)
        if values.ndim != 2 or values.shape[1] != self.state.features or not len(values):
            raise ShapeError(f"X must have rows of {self.state.features} features, got shape {values.shape}")
        return values

    def outside(self, X: Any) -> dict[str, NDArray[np.str_]]:
        """`flagged` as a column by its name, where any row is; nothing else."""
        named = self.flagged(X)
        return {OUTSIDE: named} if (named != "").any() else {}

    def flagged(self, X: Any) -> NDArray[np.str_]:
        """The feature of each row that is outside the range of the training, (n,); empty where none is, or is there."""
        worst = self.inputs.outside(as_tensor(self.checked(X, incomplete=True), "X", incomplete=True).double().numpy())
        return np.array((*self.state.named_features, ""))[worst]

    def cases(self, X: Any, y: Any, times: Any = None, cost_parameters: CostParameters | None = None) -> CaseTable:
        """Features with the parameter of each row, outcomes (n, D) and times."""
        features = self.features(X, cost_parameters, deciding=True, judging=True)
        outcome, width = _numbers(as_table(y, "y"), "y"), len(self.state.target_names)
        if len(outcome) != len(features) or outcome.size != len(features) * width:
            raise ShapeError(f"y must have {len(features)} rows of {width} outcomes, got shape {outcome.shape}")
        known = as_tensor(outcome.reshape(len(features), -1), "y")
        return CaseTable(features, known, checked_times(times, len(known)))

    def cost_of(self, features: Tensor) -> Cost:
        """The cost that these rows pay."""
        return self.state.parameter_column.cost(self.cost, features)

    def drawn(
        self, features: Tensor, which: Which = "chosen", members: int | None = None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part; the parameter is the last column of the features."""
        count = whole_number("members", self.state.members if members is None else members)
        return self.pooled(which).members(features, count, self.device)

    def pooled(self, which: Which = "chosen") -> PooledForecast:
        """The models of one of the two forecasts, and what corrects their members."""
        state, chosen = self.state, which == "chosen"
        models = self.models if chosen else self.baseline_models
        correction = state.correction if chosen else state.baseline_correction
        column, bounds = state.parameter_column, state.outcome_bounds
        return PooledForecast(models, state.noise_seed, column, bounds, correction, self.inputs)

    def worth(self, rows: CaseTable, forecast: PooledForecast | None = None) -> JudgedCases:
        """What decisions cost and the energy score, row by row, of this forecast or of another candidate of its fit."""
        drawn = (forecast or self.pooled()).members(rows.features, self.state.members, self.device)
        parameter = self.state.parameter_column.parameters(rows.features)
        decided = realised_costs(self.cost, drawn, rows.outcome, parameter=parameter, score=EnergyScore("biased"))
        return JudgedCases(*decided.cost_and_score())

    def paid(self, rows: CaseTable, which: Which = "chosen") -> Floats:
        """What the actions cost, (n,)."""
        parameter, drawn = self.state.parameter_column.parameters(rows.features), self.drawn(rows.features, which)
        return realised_costs(self.cost, drawn, rows.outcome, parameter=parameter).cost.double().numpy()

    def assessed(
        self, cases: CaseTable, which: Which = "chosen", regions: Mapping[str, Region] | None = None
    ) -> dict[str, Floats]:
        """All metrics of one of the two forecasts, (n,) each."""
        if which == "baseline" and not self.baseline_models:
            raise SettingError("there is no forecast of weight 0 beside this one; fit with baseline=True")
        assessor = Assessor(self.cost, regions or {}, chosen=True)
        values = self.state.parameter_column.parameters(cases.features)
        parts = [
            assessor(members, cases.outcome[rows], None if values is None else values[rows])
            for rows, members in self.drawn(cases.features, which)
        ]
        metrics = {name: torch.cat([part[name] for part in parts]).double().numpy() for name in parts[0]}
        return metrics | {"climatology_cost": self.climatology_cost(cases)}

    @torch.no_grad()
    def errors(self, rows: CaseTable) -> SeenErrors:
        """What a monitor looks at, from members of which each row has noise of its own.

        Noise that all rows share puts all outcomes a little too high, or too low, and another fit shares another.
        """
        pooled, count, pit, excess = self.pooled(), self.state.members, [], []
        for place, drawn in pooled.members(rows.features, count, self.device, share_noise=False):
            features, outcome = rows.features[place], rows.outcome[place]
            for some in case_parts(drawn):
                members, seen = (outcome_total(self.cost, each) for each in (drawn[some], outcome[some][:, None]))
                pit.append(((members < seen).double() + (members <= seen).double()).mean(-1) / 2)
                decided = realised_cost(self.cost_of(features[some]), drawn[some], outcome[some], expected=True)
                assert decided.expected_cost is not None
                excess.append((decided.cost - decided.expected_cost).double())
        return SeenErrors(torch.cat(pit).numpy(), torch.cat(excess).numpy())

    def climatology_cost(self, rows: CaseTable) -> Floats:
        """What the best constant action costs, (n,)."""
        column = self.state.parameter_column
        constant = climatology_actions(self.state.climatology_action, column, rows.features).to(rows.outcome)
        return np.asarray(self.cost_of(rows.features)(constant, rows.outcome).double().numpy())


def _numbers(values: Any, name: str, incomplete: bool = False) -> Floats:
    """The values in double precision; what is no number, or not finite, is refused, but for NaN where it may be."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be numbers: {error}") from error
    if not (np.isfinite(numbers) | (incomplete & np.isnan(numbers))).all():
        raise NonFiniteError(f"{name} must be finite numbers, got NaN or infinity")
    return numbers
