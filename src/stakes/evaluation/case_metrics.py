"""What was forecast, decided and paid, case by case and as a table with intervals; infeasible cases are named."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.actions.climatology import climatology_action
from stakes.actions.solve import optimal_action, solve_action
from stakes.costs.cost import (
    Cost,
    action_parts,
    is_program,
    part_names,
    plain_cost_of,
    require_finite_costs,
    risk_of,
    shown_action,
)
from stakes.costs.member_weights import case_parts
from stakes.costs.scalar_costs import cost_of_rows, own_prices
from stakes.errors import CostError, NonFiniteError, ShapeError
from stakes.evaluation.intervals import Difference, Resampling, Sampled
from stakes.evaluation.metrics import Assessor, Region
from stakes.programs.scenario_program import BINDS, LimitPrices, limit_prices, program_cost

RECOURSE = "a recourse without an upper bound, at a high price, makes the cost of every outcome finite"
_PLAIN = ("plain_cost", "plain_expected_cost")  # of a risk-averse cost, whose charge may be NaN then


def judged_cases(cost: Cost, metrics: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Which cases can be judged, (N,): all but those in which a program has no recourse.

    Raises where there is no such case. NaN, and an infinite cost that is no program's, are left for others to refuse.
    """
    costs = [metrics[name] for name in ("cost", "expected_cost", *_PLAIN) if name in metrics]
    infinite = np.asarray(np.isposinf(np.stack(costs)).any(axis=0) & is_program(plain_cost_of(cost)))
    if infinite.all() and len(infinite):
        raise CostError(
            f"cost must be finite in at least one case, got infinity in all {len(infinite)}: no recourse meets the "
            f"recourse constraints at their outcomes, or at one of their members; {RECOURSE}"
        )
    return ~infinite


def constant_notes(paid: NDArray[Any]) -> tuple[str, ...]:
    """A sentence where no action serves all cases."""
    infinite = "climatology_cost is left empty, because no constant action has a finite cost for every outcome"
    return (infinite,) if np.isposinf(paid).any() else ()


def hindsight_note(each_site: bool, priced: bool = False) -> str:
    """What climatology's action is where there are no cases but those that are judged."""
    whose = [*(["site"] if each_site else []), *(["price"] if priced else [])]
    of_each = f" of each {' and '.join(whose)}" if whose else ""
    return f"climatology_cost is that of the best constant action{of_each} in hindsight, for these very outcomes"


def infeasible_notes(infeasible: Sequence[str], judged: int) -> tuple[str, ...]:
    """A sentence about cases that are not judged, since their cost is infinite; none where there are none."""
    if not infeasible:
        return ()
    which = infeasible[0] if len(infeasible) == 1 else f"{infeasible[0]} the first of them"
    return (
        f"{len(infeasible)} of {len(infeasible) + judged} cases have an infinite cost ({which}): no recourse meets "
        f"the recourse constraints at their outcome or at one of their members; means are over the {judged} others, "
        f"and {RECOURSE}",
    )


def infeasible_today_notes(paid: NDArray[np.float64] | None) -> tuple[str, ...]:
    """A sentence about cases in which today's action costs infinitely much, and is not compared."""
    count = 0 if paid is None else int(np.isposinf(paid).sum())
    if paid is None or not count:
        return ()
    return (
        f"today's action has an infinite cost in {count} of {len(paid)} cases, where no recourse is feasible; it is "
        "compared in the others",
    )


Floats = NDArray[np.float64]
Arrays = Mapping[str, Floats]
_MEANS = ("energy_score", "cost", "expected_cost", "gap", "foresight_regret", "climatology_cost")
_OF_PLAIN_COST = ("plain_cost", "plain_expected_cost", "plain_gap")  # where a decision is risk-averse


def forecast_table(
    chosen: Arrays, weight_0: Arrays | None, members: int, block: int, today: Floats | None = None
) -> pd.DataFrame:
    """One row per metric: `value` with its 95 % interval `low` to `high`.

    `spread_skill` is sqrt((M + 1) / M mean variance / mean squared error), 1 where the spread is right, and
    `climatology_skill` is 1 - regret / regret of the best constant action, 1 with perfect foresight. For a `CVaRCost`,
    whose cost is the charge, there are the `plain_cost`, what was expected of it and the gap. Beside a forecast of
    weight 0 there are its values, as `baseline`, and the paired `difference` from it. Last, over the `today_cases`
    in which today's action is known: `today_cost`, `cost_beside_today` of the forecast's actions in the same cases, and
    their difference `cost_less_today`.
    """
    cases = len(chosen["cost"])
    resampling = Resampling(cases, block=min(block, cases))
    statistics = _statistics(chosen, members, resampling)
    rivals = None if weight_0 is None else _statistics(weight_0, members, resampling)
    rows = {name: _row(value, None if rivals is None else rivals[name]) for name, value in statistics.items()}
    skill = rows["climatology_skill"]
    skill["high"] = float(np.minimum(skill["high"], 1.0))  # no forecast beats foresight
    if today is not None and np.isfinite(today).any():
        rows |= _beside_today(chosen["cost"], today, resampling)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")


def todays_cost(cost: Cost, action: ArrayLike, outcome: Tensor) -> Floats:
    """What today's action costs in each case, (N,); NaN where the action is not known.

    For a `CVaRCost` it is the charge, with the one threshold for all cases that makes it least: nobody else knows one.
    """
    given = np.asarray(action, dtype=np.float64)
    parts = action_parts(cost, outcome.shape[1])
    if parts > 1 and given.shape != (len(outcome), parts):
        raise ShapeError(
            f"baseline_action must have the {parts} parts of the decision for each of the {len(outcome)} rows, got "
            f"shape {given.shape}"
        )
    if parts == 1 and given.shape != (len(outcome),):
        raise ShapeError(f"baseline_action must be one for each of the {len(outcome)} rows, got shape {given.shape}")
    if np.isinf(given).any():
        raise NonFiniteError("baseline_action must be finite, or NaN where it is not known, got infinity")
    actions = given.reshape(len(outcome), parts)
    known = ~np.isnan(actions.sum(1))
    if not known.any():
        return np.full(len(outcome), np.nan)
    taken = torch.from_numpy(np.where(known[:, None], actions, 0.0))
    if (risk := risk_of(cost)) is not None:
        plain = risk.cost(taken, outcome.double()).numpy()[known]
        threshold = np.quantile(plain, risk.level, method="inverted_cdf")
        taken = torch.nn.functional.pad(taken, (0, 1), value=float(threshold))
    return np.where(known, cost(taken, outcome.double()).numpy(), np.nan)


def todays_notes(cost: Cost, action: ArrayLike | None, outcomes: int) -> tuple[str, ...]:
    """A sentence where today's action breaks limits that a decision with several parts has."""
    program = program_cost(plain_cost_of(cost))
    if action is None or program is None or action_parts(cost, outcomes) == 1:
        return ()
    given = torch.as_tensor(np.asarray(action, dtype=np.float64))
    given = given[~given.isnan().any(-1)]
    unknown = given.new_zeros(len(given), 1, outcomes)
    broken = int((program.program(outcomes).slack(given, unknown) < -BINDS).any(-1).sum())
    if not broken:
        return ()
    return (
        f"today's action breaks a limit of the decision in {broken} of {len(given)} cases; no action within "
        "the limits could have that cost",
    )


def _beside_today(cost: Floats, today: Floats, resampling: Resampling) -> dict[str, dict[str, float]]:
    ours, todays = resampling.pair(cost[None, None], today[None, None])
    costs = {"today_cost": todays, "cost_beside_today": ours, "cost_less_today": ours - todays}
    count = {"today_cases": {"value": float(np.isfinite(today).sum())}}
    return count | {name: _row(value, None) for name, value in costs.items()}


def _statistics(arrays: Arrays, members: int, resampling: Resampling) -> dict[str, Sampled]:
    regret_of_climatology = arrays["foresight_regret"] - arrays["cost"] + arrays["climatology_cost"]
    squares = (arrays["spread"] ** 2 * (members + 1) / members, arrays["error"] ** 2)
    names = (*_MEANS, *(name for name in _OF_PLAIN_COST if name in arrays))
    values = np.stack([*(arrays[name] for name in names), *squares, regret_of_climatology])
    *means, variance, error, climatology = resampling.means(values[:, None, None])
    statistics = dict(zip(names, means, strict=True))
    return statistics | {
        "spread_skill": (variance / error).applied(np.sqrt),
        "climatology_skill": -(statistics["foresight_regret"] / climatology) + 1.0,
    }


def _row(value: Sampled, baseline: Sampled | None) -> dict[str, float]:
    row = dict(zip(("value", "low", "high"), value.interval(), strict=True))
    if baseline is None:
        return row
    names = ("difference", "difference_low", "difference_high")
    return row | {"baseline": baseline.estimate} | dict(zip(names, (value - baseline).interval(), strict=True))


_BESIDE = ("cost", "expected_cost", "energy_score")  # of weight 0, in the table of cases, and its action
_OF_TODAY = ("today_cases", "today_cost", "cost_beside_today", "cost_less_today")
_METRICS = (*_MEANS, *_OF_PLAIN_COST, "spread_skill", "climatology_skill", *_OF_TODAY)
_COLUMNS = ("value", "low", "high", "baseline", "difference", "difference_low", "difference_high")


def ensemble_metrics(
    members: NDArray[Any],
    outcomes: NDArray[Any],
    cost: Cost,
    regions: Mapping[str, Region] | None = None,
    weights: NDArray[Any] | None = None,
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """All metrics of `stakes.evaluation.metrics.Assessor` of the cases without a missing value, and which those are."""
    complete = ~(np.isnan(members).any((1, 2)) | np.isnan(outcomes).any(1))
    if not complete.any():
        raise ShapeError(f"members and outcome must have a case without missing values, got none of {len(complete)}")
    own = cost_of_rows(cost, torch.from_numpy(complete))
    assessor = Assessor(own, regions or {}, None if weights is None else torch.from_numpy(weights))
    assessed = assessor(torch.from_numpy(members[complete]), torch.from_numpy(outcomes[complete]))
    return {name: values.numpy() for name, values in assessed.items()}, complete


def part_by_part(metrics: Mapping[str, NDArray[Any]], cost: Cost, outcomes: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The metrics with `action_PART` (N,) for each part of an action with several."""
    action = metrics["action"]
    if action.ndim == 1:
        return dict(metrics)
    named = zip(part_names(cost, outcomes), action.T, strict=True)
    return {**{f"action_{name}": part for name, part in named}, **{k: v for k, v in metrics.items() if k != "action"}}


@dataclass(frozen=True, eq=False)
class CaseMetrics:
    """The metrics of a forecast case by case, in the order of time, and what can be set beside it."""

    outcomes: pd.DataFrame  # the outcomes (N, D), with the time or the name of each case as their index
    chosen: Mapping[str, Floats]
    members: int  # how many members the forecast has
    weight_0: Mapping[str, Floats] | None = None
    today: Mapping[str, Floats] | None = None
    infeasible: "pd.Series[bool]" = field(default_factory=lambda: pd.Series(dtype=bool))

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
        very outcomes. Cases in which a program costs infinitely much are `infeasible`, and left out.
        """
        seen = outcomes.to_numpy(np.float64)
        metrics, complete = ensemble_metrics(np.asarray(members, dtype=np.float64), seen, cost, weights=weights)
        judged = judged_cases(cost, metrics)
        metrics = {name: values[judged] for name, values in metrics.items()}
        infeasible = pd.Series(~judged, outcomes.index[complete])
        complete[complete] = judged
        outcome, cost = torch.from_numpy(seen[complete]), cost_of_rows(cost, torch.from_numpy(complete))
        metrics["climatology_cost"] = climatology_cost(cost, outcome, None if sites is None else sites[complete])
        metrics = part_by_part(metrics, cost, [str(name) for name in outcomes])
        chosen = {name: values.astype(np.float64) for name, values in metrics.items() if values.ndim == 1}
        today = None
        if todays_action is not None:
            action = todays_action[complete]
            paid = todays_cost(cost, action, outcome)
            today = part_by_part({"action": action, "cost": paid}, cost, [str(name) for name in outcomes])
        return cls(outcomes[complete], chosen, members.shape[1], today=today, infeasible=infeasible)

    def table(self) -> pd.DataFrame:
        """One row per case, its time or name first."""
        columns = {name: values for name, values in self.chosen.items() if values.ndim == 1}
        beside = self.weight_0 or {}
        actions = [name for name in beside if name == "action" or name.startswith("action_")]
        columns |= {f"weight_0_{name}": beside[name] for name in (*actions, *_BESIDE) if name in beside}
        columns |= {f"today_{name}": values for name, values in (self.today or {}).items()}
        return pd.concat([self.outcomes, pd.DataFrame(columns, self.outcomes.index)], axis=1).reset_index()

    def summary(self, block: int) -> pd.DataFrame:
        """Metrics with 95 % intervals, those of today's action last; see `stakes.evaluation.case_metrics`."""
        today = None if self.today is None else self.today["cost"]
        return forecast_table(self.chosen, self.weight_0, self.members, block, today).reset_index()


def summary_table(metrics: Mapping[str, Mapping[str, float | None]]) -> pd.DataFrame:
    """The table of `CaseMetrics.summary` again, from a record that has lost the order of its rows and columns."""
    rows = [{"metric": name, **metrics[name]} for name in _METRICS if name in metrics]
    columns = [name for name in _COLUMNS if any(name in row for row in rows)]
    return pd.DataFrame(rows, columns=["metric", *columns] if rows else []).astype(dict.fromkeys(columns, np.float64))


def climatology_cost(
    cost: Cost,
    outcome: torch.Tensor,
    sites: NDArray[Any] | None,
    learned: tuple[torch.Tensor, NDArray[Any] | None] | None = None,
) -> Floats:
    """What the constant action that is best for past outcomes, or else for these (N, D), costs, (N,).

    Each site and each price has one of its own, a site that was not learned from that of all.
    """
    past, past_sites = learned or (outcome, sites)
    paid = np.empty(len(outcome))
    for site in [None] if sites is None else np.unique(sites):
        cases = np.full(len(outcome), True) if sites is None else sites == site
        known = np.full(len(past), True) if past_sites is None else past_sites == site
        own, seen = cost_of_rows(cost, torch.from_numpy(cases)), outcome[torch.from_numpy(cases)]
        action = _constant_actions(own, past[torch.from_numpy(known if known.any() else ~known)])
        paid[cases] = own(action.expand(len(seen), -1), seen).numpy()
    return paid if np.isfinite(paid).all() else np.full_like(paid, np.inf)  # or the mean would be of some cases


def _constant_actions(cost: Cost, past: Tensor) -> Tensor:
    """The constant action that is best for these outcomes (N, D), (A,), or that of the prices of each case, (n, A)."""
    prices = own_prices(cost)
    if not prices:
        return climatology_action(cost, past)
    each, places = torch.unique(torch.stack([*prices.values()]), dim=1, return_inverse=True)
    own: Cost = replace(cast(Any, cost), **dict(zip(prices, each, strict=True)))
    outcomes = past.expand(each.shape[1], -1, -1)
    actions = [optimal_action(cost_of_rows(own, rows), outcomes[rows]) for rows in case_parts(outcomes)]
    return torch.cat(actions)[places]


VALUES_SHOWN = 5
"""At how many values of a range a forecast is judged, both ends among them."""


@dataclass(frozen=True)
class WorthAtValue:
    """What all cases cost a decision maker with this parameter."""

    value: float  # the value of the parameter
    cost: float  # the mean realised cost of the selected forecast
    climatology_cost: float  # that of the constant action which was best for this decision maker in training
    weight_0_cost: float | None = None  # that of the forecast of weight 0; None where there is none beside it
    change: tuple[float, float, float] | None = None

    @property
    def difference(self) -> Difference | None:
        """The change, as tables show it."""
        return None if self.change is None else Difference(*self.change)


# Vector actions, case by case

Draw = Callable[[NDArray[np.int64], int | None], Tensor]

BAND_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The levels of the quantiles that stand for the ensemble behind a schedule."""

_MOST_CASES, _MOST_MEMBERS = 200, 100  # whose limits are priced


@dataclass(frozen=True)
class BindingLimit:
    """A limit that an action is at."""

    kind: str  # the parameter that it is of, such as "ramp"
    place: str  # where it holds, such as "h06 to h07, up"
    price: float  # what one unit more would save, in the cost's unit per unit of the action
    parts: tuple[int, ...]  # which parts of the action it is about, counted from 0


@dataclass(frozen=True)
class ShownCase:
    """What was forecast, decided and seen of one case."""

    name: str  # what is special about it, such as "the dearest case"
    case: int  # its place among the cases
    quantiles: tuple[tuple[float, ...], ...]  # of the forecast of each outcome, at `BAND_LEVELS`, (5, D)
    action: tuple[float, ...]  # what was decided, (A,)
    outcome: tuple[float, ...]  # what happened, (D,); none where it is not known yet
    binding: tuple[BindingLimit, ...]  # the limits that bind, the dearest first


@dataclass(frozen=True)
class LimitWorth:
    """What the limits of one parameter are worth, over many cases."""

    kind: str  # the parameter, such as "ramp"
    share: float  # the share of the cases in which at least one of them binds
    saved: float  # what one unit more, allowed everywhere at once, would save a case in the mean
    place: str  # where it binds most often; empty where it never does
    place_share: float  # in which share of the cases it binds there


@dataclass(frozen=True)
class JudgedParts:
    """Decisions with many parts, on test cases."""

    outcomes: tuple[str, ...]  # the names of the D outcomes
    parts: tuple[str, ...]  # the names of the A parts of an action
    shown: tuple[ShownCase, ...]  # a few cases, part by part
    limits: tuple[LimitWorth, ...]  # what the limits of each parameter are worth
    cases: int  # over how many cases that was found


def judged_parts(
    cost: Cost,
    outcomes: Sequence[str],
    outcome: Floats,
    paid: Floats,
    draw: Draw,
    weights: Tensor | None = None,
) -> JudgedParts | None:
    """What a report shows of decisions with many parts; None for decisions about one number.

    The cases that are shown are the last one, the one of median cost and the dearest. Limits are priced over at most
    200 cases and 100 members.
    """
    count = action_parts(cost, len(outcomes))
    if count == 1:
        return None
    order, last = np.argsort(paid, kind="stable"), len(paid) - 1
    chosen = {"the last case": last, "a case of median cost": order[last // 2], "the dearest case": order[last]}
    every = np.linspace(0, last, min(len(paid), _MOST_CASES)).round().astype(np.int64)
    limits: tuple[LimitWorth, ...] = ()
    if is_program(cost):
        limits = _worth(limit_prices(cost, draw(every, _MOST_MEMBERS), outcomes, weights=weights))
    rows = np.array([*chosen.values()], dtype=np.int64)
    members = draw(rows, None)
    shown = tuple(
        shown_case(cost, outcomes, members[place], outcome[row], name, int(row), weights)
        for place, (name, row) in enumerate(chosen.items())
    )
    return JudgedParts(tuple(outcomes), part_names(cost, outcomes), shown, limits, len(every))


def shown_case(
    cost: Cost,
    outcomes: Sequence[str],
    members: Tensor,
    outcome: Floats | None = None,
    name: str = "",
    case: int = 0,
    weights: Tensor | None = None,
) -> ShownCase:
    """One case part by part."""
    action = shown_action(cost, solve_action(cost, members, weights=weights).action)
    return ShownCase(
        name,
        case,
        quantile_bands(members, weights),
        tuple(action.tolist()),
        () if outcome is None else tuple(float(value) for value in outcome),
        binding_limits(cost, outcomes, members, weights),
    )


def binding_limits(
    cost: Cost, outcomes: Sequence[str], members: Tensor, weights: Tensor | None = None
) -> tuple[BindingLimit, ...]:
    """The limits that the best action of one case is at, the dearest first; none are known of a risk-averse cost."""
    if not is_program(cost):
        return ()
    prices = limit_prices(cost, members, outcomes, weights=weights)
    binding = [
        BindingLimit(prices.kinds[row], prices.places[row], float(prices.price[row]), prices.parts[row])
        for row in prices.binds.nonzero()[:, 0].tolist()
    ]
    return tuple(sorted(binding, key=lambda limit: -limit.price))


def quantile_bands(members: Tensor, weights: Tensor | None = None) -> tuple[tuple[float, ...], ...]:
    """Quantiles of the forecast of each outcome, at `BAND_LEVELS`, (5, D)."""
    values = members.double().numpy()  # (M, D)
    shares = np.ones(len(values)) if weights is None else weights.double().numpy()
    spread = np.broadcast_to(shares[:, None], values.shape)
    return tuple(map(tuple, np.quantile(values, BAND_LEVELS, axis=0, method="inverted_cdf", weights=spread).tolist()))


def _worth(prices: LimitPrices) -> tuple[LimitWorth, ...]:
    saved, limits = prices.saved_by(), []
    for kind, each in saved.items():
        which = torch.tensor([own == kind for own in prices.kinds])
        binds = prices.binds[:, which].double()
        often = binds.mean(0)
        place = int(often.argmax())
        names = [name for name, own in zip(prices.places, prices.kinds, strict=True) if own == kind]
        worth = float(each.nanmean())
        share, highest = float(binds.amax(-1).mean()), float(often[place])
        limits.append(LimitWorth(kind, share, worth, names[place] if share else "", highest))
    return tuple(limits)
