"""What a forecast and its decisions are worth, as one table with intervals, beside the forecast of weight 0."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.errors import NonFiniteError, ShapeError
from stakes.evaluation.intervals import Resampling, Sampled
from stakes.method.costs import Cost
from stakes.method.program_actions import BINDS, ProgramCost, action_parts
from stakes.method.risk import plain_cost_of, risk_of

__all__ = ["forecast_table", "todays_cost", "todays_notes"]

Floats = NDArray[np.float64]
Arrays = Mapping[str, Floats]
_MEANS = ("energy_score", "cost", "expected_cost", "gap", "foresight_regret", "climatology_cost")
_OF_PLAIN_COST = ("plain_cost", "plain_expected_cost", "plain_gap")  # where a decision is averse to risk


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

    Args:
        chosen: The metrics (N,) of the forecast by name, in the order of time.
        weight_0: The same of the forecast trained on its score alone; None where there is none besides.
        members: How many members M the forecast has.
        block: How many neighbouring cases depend on each other.
        today: What today's action costs (N,), NaN where it is not known; None where it never is.
    """
    cases = len(chosen["cost"])
    resampling = Resampling(cases, block=min(block, cases))
    statistics = _statistics(chosen, members, resampling)
    rivals = None if weight_0 is None else _statistics(weight_0, members, resampling)
    rows = {name: _row(value, None if rivals is None else rivals[name]) for name, value in statistics.items()}
    if today is not None and np.isfinite(today).any():
        rows |= _beside_today(chosen["cost"], today, resampling)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")


def todays_cost(cost: Cost, action: ArrayLike, outcome: Tensor) -> Floats:
    """What today's action costs in each case, (N,); NaN where the action is not known.

    For a `CVaRCost` it is the charge, with the one threshold for all cases that makes it least: nobody else knows one.

    Args:
        cost: What a decision costs.
        action: Today's action (N,), or (N, A) where it has A > 1 parts, NaN where it is not known.
        outcome: What happened, (N, D).
    """
    given = np.array(action, dtype=np.float64)
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
    """A sentence where today's action breaks limits that a decision with several parts has.

    Args:
        cost: What a decision costs.
        action: Today's action (N, A), NaN where it is not known; None where it never is.
        outcomes: How many outcomes a case has.
    """
    plain = plain_cost_of(cost)
    if action is None or not isinstance(plain, ProgramCost) or action_parts(plain, outcomes) == 1:
        return ()
    given = torch.as_tensor(np.asarray(action, dtype=np.float64))
    given = given[~given.isnan().any(-1)]
    unknown = given.new_zeros(len(given), 1, outcomes)
    broken = int((plain.program(outcomes).slack(given, unknown) < -BINDS).sum())
    if not broken:
        return ()
    return (
        f"today's action breaks a limit of the decision in {broken} of {len(given)} cases: what it cost there "
        "could not be had within the limits",
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
