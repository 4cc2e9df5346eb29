"""Members and a cost to one table of decisions, the same for every way of asking."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.evaluation.case_metrics import require_finite_costs
from stakes.evaluation.metrics import Assessor
from stakes.method.actions import solve_action
from stakes.method.costs import Cost

__all__ = ["decisions", "uncertified"]

_NUMBERS_AT_ONCE = 1 << 21


def uncertified(table: pd.DataFrame) -> tuple[str, ...]:
    """A note where some decisions of a table have no certificate."""
    count = int((~table["certified"]).sum())
    known = f"{count} of {len(table)} decisions are not certified: they may not be the best, see the column certified"
    return (known,) if count else ()


def decisions(cost: Cost, members: ArrayLike, index: "pd.Index[Any]", levels: Sequence[float]) -> pd.DataFrame:
    """Members (N, M, D) to a table: action, expected cost, certificate, and quantiles of what the decision is about."""
    samples = torch.as_tensor(np.asarray(members))
    size = max(1, _NUMBERS_AT_ONCE // (samples.shape[1] * samples.shape[2]))
    with naming_own_cost(cost):
        parts = [_part(cost, part, levels) for part in samples.split(size)]
    return pd.concat(parts, ignore_index=True).set_axis(index).reset_index()


def _part(cost: Cost, samples: torch.Tensor, levels: Sequence[float]) -> pd.DataFrame:
    solution = solve_action(cost, samples)
    require_finite_costs(solution.expected_cost.double().numpy())
    action = solution.action[..., 0]
    low, high = (torch.as_tensor(bound).to(action) for bound in (cost.lower, cost.upper))
    columns = {
        "action": action,
        "expected_cost": solution.expected_cost,
        "at_lower_bound": ~solution.interior & (action <= low),
        "at_upper_bound": ~solution.interior & (action >= high),
        "certified": solution.converged,
    }
    total = Assessor(cost).total(samples).numpy()
    quantiles = np.quantile(total, levels, axis=1, method="hazen") if levels else np.empty((0, len(total)))
    columns |= {f"quantile_{level:g}": values for level, values in zip(levels, quantiles, strict=True)}
    return pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})
