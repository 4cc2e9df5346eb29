"""What follows from members: mean, quantiles, actions, and how a fitted forecaster did where outcomes are known."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from stakes.costs.cost import Cost
from stakes.costs.parameter_column import ParameterColumn, ranged_parameter
from stakes.data.case_table import CaseTable
from stakes.errors import SettingError
from stakes.evaluation.case_metrics import forecast_table, todays_cost
from stakes.evaluation.intervals import block_length
from stakes.evaluation.metrics import Assessor, Region
from stakes.forecasting.corrections import ORIGINS, Correction, rolling_forecasts
from stakes.forecasting.decisions import Decisions, solve_decisions
from stakes.forecasting.fitted_forecast import CostParameters, Floats, Which, parameter_values
from stakes.forecasting.plan import ForecasterParameters
from stakes.scores.decision_score import climatology_actions, realised_costs


def require_one_decision_maker(cost: Cost) -> None:
    """Raise where a parameter of the cost is a range, since headroom is that of one decision maker."""
    if (ranged := ranged_parameter(cost)) is not None:
        raise SettingError(f"headroom is that of one decision maker, got a cost with {ranged}; take one of its values")


class MemberAnswers(ForecasterParameters, ABC):
    """Answers of a forecaster that can draw members.

    Where the cost has a range, `cost_parameters` says which decision maker each row belongs to.

    Attributes:
        single_output_: Whether outcomes come without a second axis.
    """

    single_output_: bool

    @abstractmethod
    def _features(self, X: Any) -> Tensor:
        """Features (n, F), checked."""

    @abstractmethod
    def _with_parameter(self, features: Tensor, given: CostParameters | None, *, deciding: bool) -> Tensor:
        """Features (n, F) with the parameter of each row, where the cost has a range."""

    @abstractmethod
    def _cost_of(self, features: Tensor) -> Cost:
        """The cost that rows with these features pay."""

    @abstractmethod
    def _forecast(self, features: Tensor, *, members: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part; None for the forecaster's own number of members."""

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
        features = self._with_parameter(self._features(X), cost_parameters, deciding=False)
        parts = [part.numpy() for _, part in self._forecast(features, members=members)]
        return np.concatenate(parts)

    def predict(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Floats:
        """The mean of the forecast, shaped as y.

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: As in `sample`.
        """
        features = self._with_parameter(self._features(X), cost_parameters, deciding=False)
        parts = [part.double().mean(1).numpy() for _, part in self._forecast(features)]
        return self._as_outcome(np.concatenate(parts))

    def predict_quantiles(self, X: Any, q: ArrayLike, *, cost_parameters: CostParameters | None = None) -> Floats:
        """Quantiles of the forecast: (n, Q), or (n, Q, D) for several outcomes.

        Args:
            X: Features (n, F) of new rows.
            q: Their levels (Q,), between 0 and 1.
            cost_parameters: As in `sample`.
        """
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise SettingError(f"q must be levels between 0 and 1, got {q!r}")
        features = self._with_parameter(self._features(X), cost_parameters, deciding=False)
        parts = [
            np.quantile(part.double().numpy(), levels, axis=1, method="hazen").swapaxes(0, 1)
            for _, part in self._forecast(features)
        ]
        return self._as_outcome(np.concatenate(parts))

    def solve(self, X: Any, *, cost_parameters: CostParameters | None = None) -> Decisions:
        """The action of least expected cost for each row, what it is expected to cost, and whether it is certified.

        Args:
            X: Features (n, F) of new rows.
            cost_parameters: The parameter that is a range, such as {"penalty": 5}, one value or one for each row, (n,);
                needed where the cost has a range.
        """
        features = self._with_parameter(self._features(X), cost_parameters, deciding=True)
        drawn = self._forecast(features)
        return Decisions.joined(
            [solve_decisions(self._cost_of(features[rows]), [members], double=True) for rows, members in drawn]
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

    def _as_outcome(self, values: Floats) -> Floats:
        return values[..., 0] if self.single_output_ else values


DrawMembers = Callable[[Tensor], dict[Which, Tensor]]
"""Draws members (n, M, D) of features (n, F)."""

Judge = Callable[[Tensor, Tensor], Correction | None]
"""The correction of members (n, M, D) with these outcomes (n, D), or None where none is proven."""


class NewestRows(NamedTuple):
    """Which rows of a fit have errors.

    Attributes:
        features: Of all rows, (N, F), in the order of time.
        outcome: Their outcomes (N, D).
        first: The first row that was forecast by models that had seen none within its lead time.
        lead: How many rows the lead time has.
    """

    features: Tensor
    outcome: Tensor
    first: int
    lead: int


def recent_corrections(
    rows: NewestRows, searched: DrawMembers, refitted: Callable[[slice], DrawMembers] | None, judge: Judge
) -> Mapping[Which, Correction | None]:
    """What corrects each forecast; None where nothing is proven to."""
    features, outcome, first, lead = rows
    if first >= len(outcome):
        return {}
    drawn = searched(features[first:])
    corrections = {which: judge(members, outcome[first:]) for which, members in drawn.items()}
    if refitted is None or not any(corrections.values()):
        return corrections
    second = first + -(-(len(outcome) - first) // ORIGINS)
    later = rolling_forecasts(
        lambda known: _Stacked(refitted(known)), features, lead=lead, origins=ORIGINS - 1, first=second
    )
    rolling = torch.from_numpy(later.members)
    return {
        which: correction and judge(torch.cat([drawn[which][: second - first], rolling[:, place]]), outcome[first:])
        for place, (which, correction) in enumerate(corrections.items())
    }


class _Stacked(NamedTuple):
    """All forecasts of a row side by side, so that they are trained and drawn together."""

    drawn: DrawMembers

    def sample(self, X: Tensor, /) -> Tensor:
        """Members (n, K, M, D) of K forecasts."""
        return torch.stack(list(self.drawn(X).values()), 1)


class JudgedAnswers(MemberAnswers):
    """Answers of a forecaster that may keep a forecast of weight 0 beside its own, and how good they were.

    Where the cost has a range and `cost_parameters` does not say which decision maker each row belongs to, they are
    spread evenly over the range, the same every time.

    Attributes:
        baseline_models_: The models of weight 0; none where there is no such forecast.
        climatology_action_: The constant action that was best for the rows of the fit, a number for each of its parts
            where it has several, or one for each of some values of a parameter that is a range.
    """

    baseline_models_: list[nn.Module]
    climatology_action_: float | tuple[float, ...]

    @property
    @abstractmethod
    def parameter_column(self) -> ParameterColumn:
        """Where each row has the parameter of its cost, and whether the models see it."""

    @abstractmethod
    def _validated(
        self, X: Any, y: Any, times: Any, cost_parameters: CostParameters | None = None, fitting: bool = False
    ) -> CaseTable:
        """Features, with the parameter of the cost where that is a range, outcomes and times, checked."""

    @abstractmethod
    def _forecast(
        self, features: Tensor, which: Which = "chosen", members: int | None = None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their members (n, M, D), part by part."""

    def score(self, X: Any, y: Any, *, cost_parameters: CostParameters | None = None) -> float:
        """The mean realised cost of the actions, negative: the higher the better.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            cost_parameters: The parameter that is a range, one value or one for each row; None spreads rows over it.
        """
        cases = self._validated(X, y, None, cost_parameters)
        return -float(self._paid(cases.features, cases.outcome).sum()) / len(cases)

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
        cases = self._validated(X, y, None, cost_parameters)
        features, outcome = cases.features, cases.outcome
        return self._assessed(features, outcome, which, regions)

    def decision_makers(self, rows: int, cost_parameters: CostParameters | None = None) -> dict[str, Floats]:
        """The parameter of the cost that is a range, (n,), by its name, as rows are judged; nothing without a range.

        Args:
            rows: How many rows are judged, n.
            cost_parameters: As in `score`.
        """
        column, ranged = self.parameter_column, ranged_parameter(self.cost)
        if ranged is None:
            return {}
        values = parameter_values(column, self.cost, cost_parameters, rows, spread=True)
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
        cases = self._validated(X, y, None, cost_parameters)
        features, outcome = cases.features, cases.outcome
        if which == "climatology":
            return self._climatology_cost(features, outcome)
        return np.asarray(self._paid(features, outcome, which).numpy())

    def _paid(self, features: Tensor, outcome: Tensor, which: Which = "chosen") -> Tensor:
        parameter = self.parameter_column.parameters(features)
        decided = realised_costs(self.cost, self._forecast(features, which), outcome, parameter=parameter)
        return decided.cost.double()

    def evaluate(
        self,
        X: Any,
        y: Any,
        *,
        times: Any = None,
        baseline_action: ArrayLike | None = None,
        cost_parameters: CostParameters | None = None,
    ) -> pd.DataFrame:
        """Scores and costs on these rows with 95 % intervals; see `stakes.evaluation.case_metrics`.

        Where there is a forecast of weight 0 its values stand beside them, with the paired difference.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            times: When it happened (n,); None if it is not known.
            baseline_action: Today's action (n,), or (n, A) of several parts, with which the last rows compare; NaN
                where it is not known.
            cost_parameters: As in `score`.
        """
        cases = self._validated(X, y, times, cost_parameters)
        features, outcome = cases.features, cases.outcome
        cost = self._cost_of(features)
        today = None if baseline_action is None else todays_cost(cost, baseline_action, outcome)
        chosen = self._assessed(features, outcome, "chosen")
        weight_0 = self._assessed(features, outcome, "baseline") if self.baseline_models_ else None
        block = block_length(len(cases), cases.times, self.block)
        return forecast_table(chosen, weight_0, int(self.members), block, today)

    def _assessed(
        self, features: Tensor, outcome: Tensor, which: Which, regions: Mapping[str, Region] | None = None
    ) -> dict[str, Floats]:
        if which == "baseline" and not self.baseline_models_:
            raise SettingError("there is no forecast of weight 0 beside this one; fit with baseline=True")
        assessor, values = Assessor(self.cost, regions or {}), self.parameter_column.parameters(features)
        parts = [
            assessor(members, outcome[rows], None if values is None else values[rows])
            for rows, members in self._forecast(features, which)
        ]
        metrics = {name: torch.cat([part[name] for part in parts]).double().numpy() for name in parts[0]}
        return metrics | {"climatology_cost": self._climatology_cost(features, outcome)}

    def _climatology_cost(self, features: Tensor, outcome: Tensor) -> Floats:
        constant = climatology_actions(self.climatology_action_, self.parameter_column, features).to(outcome)
        return np.asarray(self._cost_of(features)(constant, outcome).double().numpy())
