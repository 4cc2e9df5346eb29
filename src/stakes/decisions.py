"""Members and a cost to decisions: the one place for the estimator, `stakes decide` and the service."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.evaluation.case_metrics import require_finite_costs
from stakes.evaluation.metrics import Assessor
from stakes.method.actions import solve_action
from stakes.method.costs import Cost, at_bounds
from stakes.method.thorough_search import ACTIONS_LOOKED_AT

__all__ = ["Decisions", "decision_table", "solve_decisions", "uncertified_notes"]

Floats = NDArray[Any]  # of the members' precision, or double
Flags = NDArray[np.bool_]
_NUMBERS_AT_ONCE = 1 << 21  # members of all outcomes


@dataclass(frozen=True, eq=False)
class Decisions:
    """The best actions of n forecasts, what they are expected to cost, and which of them are certified.

    Attributes:
        action: The action of least expected cost: (n,), or (n, A) where an action has A > 1 parts.
        expected_cost: What the forecast expects it to cost, (n,).
        interior: Whether it lies strictly between the bounds, all parts of it, (n,).
        at_lower_bound: Whether it is at its lower bound, or any part of it at its own, (n,).
        at_upper_bound: Whether it is at its upper bound, or any part of it at its own, (n,).
        residual: How far a further step of the solver would go, in the action's unit, (n,); see `ActionSolution`.
        certified: Whether it is proven that no action is expected to cost less, (n,): only for a cost that is known to
            be convex in the action, as all of this library are. An action that is not certified is the best of those
            that were looked at, or that of a formula; a better one may exist. See `stakes.ActionSolution`.
        levels: The levels of the quantiles, (Q,).
        quantiles: Quantiles of what the decision is about, the outcome or the cost's total of several: (n, Q).
    """

    action: Floats
    expected_cost: Floats
    interior: Flags
    at_lower_bound: Flags
    at_upper_bound: Flags
    residual: Floats
    certified: Flags
    levels: tuple[float, ...]
    quantiles: Floats

    @property
    def converged(self) -> Flags:
        """Deprecated: the former name of `certified`."""
        return self.certified

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The decisions of some forecasts and then of others, for the same cost and levels."""
        arrays = [field.name for field in fields(cls) if field.name != "levels"]
        values = {name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays}
        return cls(**values, levels=parts[0].levels)

    def table(self, index: "pd.Index[Any]") -> pd.DataFrame:
        """One row per forecast, its label in the index (n,) first; a column for each part of an action with several."""
        parts = np.atleast_2d(self.action.T)  # (A, n)
        names = ["action"] if len(parts) == 1 else [f"action_{place}" for place in range(1, len(parts) + 1)]
        columns = dict(zip(names, parts, strict=True))
        flags = ("at_lower_bound", "at_upper_bound", "certified")
        columns |= {name: getattr(self, name) for name in ("expected_cost", *flags)}
        columns |= {f"quantile_{level:g}": values for level, values in zip(self.levels, self.quantiles.T, strict=True)}
        return pd.DataFrame(columns, index).reset_index()


def solve_decisions(
    cost: Cost,
    members: Iterable[Tensor],
    levels: Sequence[float] = (),
    *,
    double: bool = False,
    weights: Tensor | None = None,
) -> Decisions:
    """The best action of every forecast, with its certificate.

    Args:
        cost: What is paid for an action when the outcome is known.
        members: The members (n, M, D) of some forecasts after the other, at least one part: only one is held at a time.
        levels: Levels of quantiles, between 0 and 1.
        double: Whether all numbers are in double precision, with actions exactly within their bounds, as programs
            expect them; otherwise in that of the members, with no more digits than there are.
        weights: What each member weighs, (M,) for all forecasts; None where all count alike.
    """
    return Decisions.joined([_solved(cost, part, levels, double, weights) for part in members])


def decision_table(
    cost: Cost,
    members: ArrayLike,
    index: "pd.Index[Any]",
    levels: Sequence[float],
    weights: ArrayLike | None = None,
) -> pd.DataFrame:
    """The table of decisions for members in memory, solved in bounded parts.

    Its columns are those of the index, `action` (`action_1`, `action_2`, ... where an action has several parts),
    `expected_cost`, `at_lower_bound`, `at_upper_bound`, `certified` and `quantile_LEVEL`; see `Decisions`.

    Args:
        cost: What is paid for an action when the outcome is known; raises where it is no finite number.
        members: The members (n, M, D) of all forecasts.
        index: What the forecasts are called, (n,).
        levels: Levels of quantiles, between 0 and 1.
        weights: What each member weighs, (M,) for all forecasts; None where all count alike.
    """
    samples = torch.as_tensor(np.asarray(members))
    size = max(1, _NUMBERS_AT_ONCE // (samples.shape[1] * samples.shape[2]))
    shared = None if weights is None else torch.as_tensor(np.asarray(weights))
    decisions = solve_decisions(cost, samples.split(size), levels, weights=shared)
    require_finite_costs(decisions.expected_cost.astype(np.float64))
    return decisions.table(index)


def uncertified_notes(table: pd.DataFrame) -> tuple[str, ...]:
    """A sentence for the user where some decisions have no certificate.

    Args:
        table: As `decision_table` makes it.
    """
    count = int((~table["certified"]).sum())
    note = (
        f"{count} of {len(table)} decisions are not certified, see the column certified: a better one may exist; each "
        f"is that of the cost's own formula or the best of those that were looked at, more than {ACTIONS_LOOKED_AT} "
        "unless the cost is stated to be convex"
    )
    return (note,) if count else ()


def _solved(cost: Cost, samples: Tensor, levels: Sequence[float], double: bool, weights: Tensor | None) -> Decisions:
    with naming_own_cost(cost):
        solution = solve_action(cost, samples, weights=weights)
        quantiles = _quantiles(cost, samples, levels, double, weights)
    action = solution.action[..., 0] if solution.action.shape[-1] == 1 else solution.action
    at_lower, at_upper = at_bounds(cost, solution.action)
    return Decisions(
        action=_within_bounds(cost, action) if double else action.numpy(),
        expected_cost=_numbers(solution.expected_cost, double),
        interior=solution.interior.numpy(),
        at_lower_bound=(~solution.interior & at_lower).numpy(),
        at_upper_bound=(~solution.interior & at_upper).numpy(),
        residual=_numbers(solution.residual, double),
        certified=solution.certified.numpy(),
        levels=tuple(levels),
        quantiles=quantiles,
    )


def _quantiles(cost: Cost, samples: Tensor, levels: Sequence[float], double: bool, weights: Tensor | None) -> Floats:
    """Quantiles (n, Q) of what the decision is about: of weighted members their order statistics."""
    if not levels:
        return np.empty((len(samples), 0))
    total = _numbers(Assessor(cost).total(samples), double)
    if weights is None:
        return np.quantile(total, list(levels), axis=1, method="hazen").T
    shares = np.broadcast_to(weights.numpy(), total.shape)
    return np.quantile(total, list(levels), axis=1, method="inverted_cdf", weights=shares).T


def _within_bounds(cost: Cost, action: Tensor) -> Floats:
    """In double precision, where a bound that was rounded to single precision may lie on its other side."""
    given = (cost.lower, cost.upper)
    lower, upper = (None if bound is None else np.asarray(bound, dtype=np.float64) for bound in given)
    return np.clip(_numbers(action, True), lower, upper)


def _numbers(values: Tensor, double: bool) -> Floats:
    return (values.double() if double else values).numpy()
