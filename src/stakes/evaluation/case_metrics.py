"""What was forecast, decided and paid, case by case, beside weight 0 and today's action; and all of it in short."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.errors import CostError, ShapeError
from stakes.evaluation.forecast_table import forecast_table, todays_cost
from stakes.evaluation.metrics import Assessor, Region
from stakes.evaluation.unpaid_cases import constant_cost, judged_cases
from stakes.method.actions import optimal_action
from stakes.method.costs import Cost
from stakes.method.program_actions import part_names

__all__ = ["CaseMetrics", "ensemble_metrics", "part_by_part", "require_finite_costs", "summary_table"]

Floats = NDArray[np.float64]
_BESIDE = ("cost", "expected_cost", "energy_score")  # of weight 0, in the table of cases, and its action
_OF_REGIONS = ("mass_", "spread_")  # of no use without the regions
_METRICS: tuple[str, ...] = ("energy_score", "cost", "expected_cost", "gap", "foresight_regret", "climatology_cost")
_METRICS += ("plain_cost", "plain_expected_cost", "plain_gap")
_METRICS += ("spread_skill", "climatology_skill", "today_cases", "today_cost", "cost_beside_today", "cost_less_today")
_COLUMNS = ("value", "low", "high", "baseline", "difference", "difference_low", "difference_high")


def ensemble_metrics(
    members: NDArray[Any],
    outcomes: NDArray[Any],
    cost: Cost,
    regions: Mapping[str, Region] | None = None,
    weights: NDArray[Any] | None = None,
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """All metrics of `stakes.evaluation.metrics.Assessor` of the cases without a missing value, and which those are.

    Args:
        members: Forecasts (N, M, D), NaN where a value is missing.
        outcomes: Outcomes (N, D), NaN where a value is missing.
        cost: What a decision costs.
        regions: Parts of the outcomes by name, of which the members' share is taken too; None for no such parts.
        weights: What each member weighs, (M,) for all cases; None where all count alike.
    """
    complete = ~(np.isnan(members).any((1, 2)) | np.isnan(outcomes).any(1))
    if not complete.any():
        raise ShapeError(f"members and outcome must have a case without missing values, got {len(complete)} cases")
    assessor = Assessor(cost, regions or {}, None if weights is None else torch.from_numpy(weights))
    assessed = assessor(torch.from_numpy(members[complete]), torch.from_numpy(outcomes[complete]))
    return {name: values.numpy() for name, values in assessed.items()}, complete


def part_by_part(metrics: Mapping[str, NDArray[Any]], cost: Cost, outcomes: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The metrics with `action_PART` (N,) for each part of an action with several.

    Args:
        metrics: As `stakes.evaluation.metrics.Assessor` gives them.
        cost: What a decision costs.
        outcomes: The names of the D outcomes.
    """
    action = metrics["action"]
    if action.ndim == 1:
        return dict(metrics)
    named = zip(part_names(cost, outcomes, action.shape[1]), action.T, strict=True)
    return {**{f"action_{name}": part for name, part in named}, **{k: v for k, v in metrics.items() if k != "action"}}


@dataclass(frozen=True, eq=False)
class CaseMetrics:
    """The metrics of a forecast case by case, in the order of time, and what can be set beside it.

    Attributes:
        outcomes: The outcomes (N, D), with the time or the name of each case as their index.
        chosen: The metrics (N,) of the forecast by name, its action part by part (`part_by_part`); those with another
            shape are left out of tables.
        members: How many members the forecast has.
        weight_0: The same metrics of the forecast trained on its score alone; None where there is none besides.
        today: `action` and `cost` (N,) of today's action, NaN where it is not known; None where it never is. It has the
            parts of the forecast's.
        unpaid: Whether each case, by its time or name, is left out of all this, because a program has no recourse
            there and costs infinitely much; empty where none is.
    """

    outcomes: pd.DataFrame
    chosen: Mapping[str, Floats]
    members: int
    weight_0: Mapping[str, Floats] | None = None
    today: Mapping[str, Floats] | None = None
    unpaid: "pd.Series[bool]" = field(default_factory=lambda: pd.Series(dtype=bool))

    def __post_init__(self) -> None:
        for each in (self.chosen, self.weight_0):
            if each is not None:
                require_finite_costs(each["cost"])
                require_finite_costs(each["expected_cost"])

    @classmethod
    def of_ensemble(
        cls,
        members: NDArray[Any],
        outcomes: pd.DataFrame,
        cost: Cost,
        todays_action: Floats | None = None,
        weights: Floats | None = None,
        sites: NDArray[Any] | None = None,
    ) -> Self:
        """Of an ensemble that somebody else made, over its cases without a missing value.

        `climatology_cost` is that of the constant action, of each site where there are several, which is best for these
        very outcomes. Cases in which a program costs infinitely much are `unpaid`, and left out.

        Args:
            members: Forecasts (N, M, D) in the order of time.
            outcomes: Outcomes (N, D) of the same cases.
            cost: What a decision costs.
            todays_action: Today's action (N,), or (N, A) of several parts, NaN where it is not known; None where it
                never is.
            weights: What each member weighs, (M,) for all cases; None where all count alike.
            sites: The site of each case, (N,), where each is decided by itself; None where there is but one.
        """
        seen = outcomes.to_numpy(np.float64)
        metrics, complete = ensemble_metrics(np.asarray(members, dtype=np.float64), seen, cost, weights=weights)
        judged = judged_cases(cost, metrics)
        metrics = {name: values[judged] for name, values in metrics.items()}
        unpaid = pd.Series(~judged, outcomes.index[complete])
        complete[complete] = judged
        outcome = torch.from_numpy(seen[complete])
        metrics["climatology_cost"] = _climatology_cost(cost, outcome, None if sites is None else sites[complete])
        metrics = part_by_part(metrics, cost, [str(name) for name in outcomes])
        chosen = {name: values.astype(np.float64) for name, values in metrics.items() if values.ndim == 1}
        today = None
        if todays_action is not None:
            action = todays_action[complete]
            paid = todays_cost(cost, action, outcome)
            today = part_by_part({"action": action, "cost": paid}, cost, [str(name) for name in outcomes])
        return cls(outcomes[complete], chosen, members.shape[1], today=today, unpaid=unpaid)

    def table(self) -> pd.DataFrame:
        """One row per case, its time or name first."""
        kept = (name for name, values in self.chosen.items() if values.ndim == 1 and not name.startswith(_OF_REGIONS))
        columns = {name: self.chosen[name] for name in kept}
        beside = self.weight_0 or {}
        actions = [name for name in beside if name == "action" or name.startswith("action_")]
        columns |= {f"weight_0_{name}": beside[name] for name in (*actions, *_BESIDE) if name in beside}
        columns |= {f"today_{name}": values for name, values in (self.today or {}).items()}
        return pd.concat([self.outcomes, pd.DataFrame(columns, self.outcomes.index)], axis=1).reset_index()

    def summary(self, block: int) -> pd.DataFrame:
        """Metrics with 95 % intervals, those of today's action last; see `stakes.evaluation.forecast_table`.

        Args:
            block: How many neighbouring cases depend on each other.
        """
        today = None if self.today is None else self.today["cost"]
        return forecast_table(self.chosen, self.weight_0, self.members, block, today).reset_index()


def summary_table(metrics: Mapping[str, Mapping[str, float | None]]) -> pd.DataFrame:
    """The table of `CaseMetrics.summary` again, from a record that has lost the order of its rows and columns.

    Args:
        metrics: The columns of each row, by the name of its metric.
    """
    rows = [{"metric": name, **metrics[name]} for name in _METRICS if name in metrics]
    columns = [name for name in _COLUMNS if any(name in row for row in rows)]
    return pd.DataFrame(rows, columns=["metric", *columns] if rows else []).astype(dict.fromkeys(columns, np.float64))


def _climatology_cost(cost: Cost, outcome: torch.Tensor, sites: NDArray[Any] | None) -> Floats:
    """What the constant action that is best for these outcomes (N, D) costs, (N,), each site with one of its own."""
    paid = np.empty(len(outcome))
    of_site = np.zeros(len(outcome), np.int64) if sites is None else np.unique(sites, return_inverse=True)[1]
    for site in np.unique(of_site):
        cases = of_site == site
        seen = outcome[torch.from_numpy(cases)]
        constant = optimal_action(cost, seen[None], thorough=True).expand(len(seen), -1)
        paid[cases] = cost(constant, seen).numpy()
    return constant_cost(paid)


def require_finite_costs(costs: Floats) -> None:
    """Raise CostError where the cost of a case is not a number: nothing can be decided by it.

    Args:
        costs: What the action of each case costs, (N,).
    """
    if bad := int((~np.isfinite(costs)).sum()):
        cure = "; a program that has no recourse for an outcome needs one, at a high price"
        raise CostError(
            f"the cost must be a finite number, got NaN or infinity in {bad} of {len(costs)} cases"
            + (cure if np.isposinf(costs).any() else "")
        )
