"""Members and a cost to decisions: the one place for the estimator, the commands and the service."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.actions.check_cost import PROGRAM_MEMBERS, PROGRAM_SETS, gradient_objection
from stakes.actions.scalar_solvers import ACTIONS_LOOKED_AT
from stakes.actions.solve import solve_action
from stakes.costs.cost import (
    Cost,
    RangedParameter,
    at_bounds,
    bounds_of,
    is_program,
    outcome_total,
    part_names,
    plain_cost_of,
    ranged_parameter,
    require_finite_costs,
    risk_of,
    shown_action,
    user_cost_errors,
    vector_cost,
    with_parameter,
)
from stakes.costs.member_weights import case_parts, mean_cost, member_quantiles, relative_weights
from stakes.costs.scalar_costs import cost_of_rows
from stakes.data.case_table import neighbouring_sets
from stakes.data.tables.columns import told_labels
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.case_metrics import RECOURSE
from stakes.frames import Tabular
from stakes.text import count_text

Floats = NDArray[Any]  # of the members' precision, or double
Flags = NDArray[np.bool_]


UNANSWERED = ("infeasible", "unbounded")
"""What the status of a decision without a best action says."""

_REASONS = {  # by status
    "infeasible": "their limits and recourse constraints contradict each other, so there is no feasible action",
    "unbounded": "their cost is unbounded below, so there is no best action",
    "not certified": "do not use them: the solver hit its iteration limit, or a better action may "
    "exist because the cost is not known to be convex",
}


@dataclass(frozen=True, eq=False, repr=False)
class Decisions(Tabular):
    """The best actions of n forecasts, what they are expected to cost, and which of them are certified."""

    action: Floats  # the action of least expected cost: (n,), or (n, A) where an action has A > 1 parts
    expected_cost: Floats  # what the forecast expects it to cost, (n,)
    interior: Flags  # whether it lies strictly between the bounds, all parts of it, (n,)
    at_lower_bound: Flags  # whether it is at its lower bound, or any part of it at its own, (n,)
    at_upper_bound: Flags  # whether it is at its upper bound, or any part of it at its own, (n,)
    residual: Floats
    certified: Flags
    levels: tuple[float, ...]  # the levels of the quantiles, (Q,)
    quantiles: Floats
    gap: Floats | None = None
    plain_expected_cost: Floats | None = None
    infeasible: Flags | None = None
    unbounded: Flags | None = None  # likewise, whether the expected cost is unbounded below

    @property
    def unanswered(self) -> Flags:
        """Whether there is no best action, (n,)."""
        if self.infeasible is None or self.unbounded is None:
            return np.zeros(len(self.certified), dtype=bool)
        return self.infeasible | self.unbounded

    @property
    def status(self) -> NDArray[np.str_]:
        """What became of each decision, (n,): certified, infeasible, unbounded, or not certified."""
        words = np.where(self.certified, "certified", "not certified")
        if self.infeasible is None:
            return words
        return np.where(self.infeasible, "infeasible", np.where(self.unanswered, "unbounded", words))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The decisions of some forecasts and then of others, for the same cost and levels."""
        arrays = [field.name for field in fields(cls) if isinstance(getattr(parts[0], field.name), np.ndarray)]
        values = {name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays}
        return cls(**values, levels=parts[0].levels)

    @property
    def _headline(self) -> str:
        count, sure = len(self.certified), int(self.certified.sum())
        return f"{count_text(count, 'decision')}, {'all' if sure == count else sure} certified"

    def to_frame(
        self,
        index: "pd.Index[Any] | None" = None,
        parts: Sequence[str] | None = None,
        outcomes: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """One row per forecast, its label first; a column for each part of an action with several."""
        index = pd.RangeIndex(len(self.certified), name="case") if index is None else index
        several = self.action.ndim > 1
        actions, names = np.atleast_2d(self.action.T), ["action"]  # (A, n)
        columns: dict[str, Floats] = {}
        if several:
            names = [f"action_{name}" for name in parts or range(1, len(actions) + 1)]
        columns |= dict(zip(names, actions, strict=True))
        proof = ("at_lower_bound", "at_upper_bound", "certified", *(("gap", "status") if self.gap is not None else ()))
        plain = () if self.plain_expected_cost is None else ("plain_expected_cost",)
        columns |= {name: getattr(self, name) for name in ("expected_cost", *plain, *proof)}
        for level, values in zip(self.levels, np.moveaxis(self.quantiles, 1, 0), strict=True):
            each = values.T if several else values[None]
            own = [f"_{name}" for name in outcomes or range(1, len(each) + 1)] if several else [""]
            columns |= {f"quantile_{level:g}{name}": part for name, part in zip(own, each, strict=True)}
        return pd.DataFrame(columns, index).reset_index()


def given_parameter(parameter: RangedParameter, given: Any, rows: int) -> Tensor:
    """The parameter of each row, (n,): one number for all, one for each, or either by the parameter's name."""
    name = parameter.name
    if isinstance(given, Mapping):
        if others := [other for other in given if other != name]:
            raise SettingError(f"cost_parameters must name {name}, which has the range, got {others[0]}")
        given = given.get(name)
    if given is None:
        raise SettingError(
            f"cost_parameters must give {parameter} for each row, as in cost_parameters="
            f"{{{name!r}: {parameter.range.middle:.3g}}}"
        )
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(f"cost_parameters[{name!r}] must be numbers, got {given!r}") from None
    if values.shape not in ((), (rows,)):
        expected = f"one number, or one for each of the {rows} rows"
        raise ShapeError(f"cost_parameters[{name!r}] must be {expected}, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise SettingError(f"cost_parameters[{name!r}] must be finite numbers")
    if values.size:
        parameter.require_inside(float(values.min()), float(values.max()))
    return torch.from_numpy(np.broadcast_to(values, rows).copy())


def solve_decisions(
    cost: Cost,
    members: Iterable[Tensor],
    levels: Sequence[float] = (),
    *,
    double: bool = False,
    weights: Tensor | None = None,
) -> Decisions:
    """The best action of every forecast, with its certificate."""
    return Decisions.joined([_solved(cost, part, levels, double, weights) for part in members])


def member_parts(members: Tensor) -> Iterator[Tensor]:
    """Members (N, M, D), some rows after the other."""
    return (members[rows] for rows in case_parts(members))


def decision_table(
    cost: Cost,
    members: ArrayLike,
    index: "pd.Index[Any]",
    levels: Sequence[float],
    weights: ArrayLike | None = None,
    outcomes: Sequence[str] | None = None,
    parameter: ArrayLike | None = None,
) -> pd.DataFrame:
    """The table of decisions for members in memory, solved in bounded parts; NaN without any best action."""
    samples = torch.as_tensor(np.asarray(members))
    shared = None if weights is None else torch.as_tensor(np.asarray(weights))
    ranged = None if parameter is None else ranged_parameter(cost)
    own = None if ranged is None else torch.tensor(np.asarray(parameter)).to(samples.dtype)
    parts = []
    for rows in case_parts(samples):
        paid = cost_of_rows(cost, rows)
        paid = paid if ranged is None or own is None else with_parameter(paid, ranged.name, own[rows])
        counted = shared if shared is None or shared.dim() == 1 else shared[rows]  # or weights (N, M), of each case
        parts.append(_solved(paid, samples[rows], levels, False, counted))
    decisions = Decisions.joined(parts)
    require_finite_costs(decisions.expected_cost[~decisions.unanswered].astype(np.float64))
    names = tuple(map(str, range(1, samples.shape[2] + 1))) if outcomes is None else tuple(outcomes)
    table = decisions.to_frame(index, part_names(cost, names), names)
    if ranged is not None:
        table.insert(1, ranged.name, np.asarray(parameter))
    return table


def uncertified_notes(table: pd.DataFrame) -> tuple[str, ...]:
    """A sentence for the user where some decisions have no certificate."""
    count = int((~table["certified"]).sum())
    if "status" in table:
        counts = {word: int((table["status"] == word).sum()) for word in _REASONS}
        return tuple(
            f"{count} of {len(table)} decisions are {word}, see the column status: {_REASONS[word]}"
            for word, count in counts.items()
            if count
        )
    note = (
        f"{count} of {len(table)} decisions are not certified, see the column certified: a better one may exist; each "
        f"comes from the cost's own formula or is the best of more than {ACTIONS_LOOKED_AT} that were tried, of fewer "
        "where the cost is declared convex"
    )
    return (note,) if count else ()


def _solved(cost: Cost, samples: Tensor, levels: Sequence[float], double: bool, weights: Tensor | None) -> Decisions:
    with user_cost_errors(cost):
        exact = samples if vector_cost(cost) is None else samples.double()
        solution = solve_action(cost, exact, weights=weights)
        shown = shown_action(cost, solution.action)
        several, program = shown.shape[-1] > 1, is_program(plain_cost_of(cost))
        plain = _plain_expected_cost(cost, solution.action, exact, weights)
        quantiles = _quantiles(cost, samples, levels, double, weights, several)
    at_lower, at_upper = at_bounds(cost, solution.action, exact, weights)
    action = _within_bounds(cost, shown) if double else shown.numpy()
    dtype = torch.float64 if double else samples.dtype
    return Decisions(
        action=action if several else action[..., 0],
        expected_cost=solution.expected_cost.to(dtype).numpy(),
        interior=solution.interior.numpy(),
        at_lower_bound=(~solution.interior & at_lower).numpy(),
        at_upper_bound=(~solution.interior & at_upper).numpy(),
        residual=solution.residual.to(dtype).numpy(),
        certified=solution.certified.numpy(),
        levels=tuple(levels),
        quantiles=quantiles,
        gap=solution.gap.to(dtype).numpy() if solution.gap is not None and (several or program) else None,
        plain_expected_cost=None if plain is None else plain.to(dtype).numpy(),
        infeasible=None if solution.infeasible is None else solution.infeasible.numpy(),
        unbounded=None if solution.unbounded is None else solution.unbounded.numpy(),
    )


def _plain_expected_cost(cost: Cost, action: Tensor, samples: Tensor, weights: Tensor | None) -> Tensor | None:
    """The mean cost (n,) of risk-averse actions, without the aversion; None for any other cost."""
    if (risk := risk_of(cost)) is None:
        return None
    mean = mean_cost(risk.plain_cost, action, samples, relative_weights(weights, samples))
    return torch.where(action.isnan().any(-1), torch.nan, mean)


def _quantiles(
    cost: Cost, samples: Tensor, levels: Sequence[float], double: bool, weights: Tensor | None, several: bool
) -> Floats:
    """Quantiles (n, Q) of what the decision is about, or (n, Q, D): of weighted members their order statistics."""
    values = _numbers(samples if several else outcome_total(cost, samples), double)  # (n, M) or (n, M, D)
    if not levels:
        return np.empty((len(samples), 0, *values.shape[2:]))
    return member_quantiles(values, levels, None if weights is None else weights.numpy())


def _within_bounds(cost: Cost, action: Tensor) -> Floats:
    """Actions (n, A) in double precision: a bound that was rounded to single precision may lie on its other side."""
    lower, upper = (np.asarray(bound, dtype=np.float64) for bound in bounds_of(cost, action.shape[-1]))
    return np.clip(_numbers(action, True), lower, upper)


def _numbers(values: Tensor, double: bool) -> Floats:
    return (values.double() if double else values).numpy()


_TINY = 1e-3  # of the largest part of a plan: less is the solver's rounding


def decision_notes(
    cost: Cost, table: pd.DataFrame, members: ArrayLike, weights: ArrayLike | None = None
) -> tuple[str, ...]:
    """Sentences for the user about decisions; none where there is nothing to say."""
    return *uncertified_notes(table), *_infeasible_notes(cost, table, members, weights), *_both_ways_notes(cost, table)


def _infeasible_notes(
    cost: Cost, table: pd.DataFrame, members: ArrayLike, weights: ArrayLike | None
) -> tuple[str, ...]:
    """A sentence about the first case without any action."""
    if "status" not in table or not (infeasible := table["status"] == "infeasible").any():
        return ()
    first = int(infeasible.to_numpy().argmax())
    label = told_labels(pd.Index(table[table.columns[0]]))[first]
    return (f"the first infeasible case is {label}: {_infeasible_reason(cost, np.asarray(members)[first], weights)}",)


def _infeasible_reason(cost: Cost, members: NDArray[Any], weights: ArrayLike | None) -> str:
    """What the members (M, D) of a case say of it, each by itself: only limits are the same for all."""
    counts = np.ones(len(members), dtype=bool) if weights is None else np.asarray(weights) > 0
    alone = solve_action(plain_cost_of(cost), torch.tensor(members).double()[:, None]).infeasible
    assert alone is not None
    missed = int((alone.numpy() & counts).sum())
    if missed == counts.sum():
        return "no action meets the limits and recourse constraints of even one of its members"
    if not missed:
        return (
            "each of its members has an action that meets the recourse constraints, but no action meets them at all "
            f"members; {RECOURSE}"
        )
    return f"no action meets the recourse constraints at {missed} of its {counts.sum()} members; {RECOURSE}"


def _both_ways_notes(cost: Cost, table: pd.DataFrame) -> tuple[str, ...]:
    """A sentence where a battery charges and discharges at once."""
    vector = vector_cost(plain_cost_of(cost))
    if vector is None or vector.opposites is None:
        return ()
    charge, discharge = (table.filter(regex=f"^action_{way}_").to_numpy() for way in vector.opposites)
    most = np.maximum(charge, discharge).max(axis=1, keepdims=True)
    count = int((np.minimum(charge, discharge) > _TINY * most).any(axis=1).sum())
    if not count:
        return ()
    return (
        f"{count} of {len(table)} plans charge and discharge at once, which pays at negative prices and is free "
        "without losses, but a battery with one inverter cannot do it; carry out the difference, and expect "
        "somewhat less than expected",
    )


def untrained_decision(cost: Cost, outcomes: Floats) -> str:
    """Why no forecast of such outcomes (N, D) is trained on the decision, as `stakes check-cost` finds; else empty."""
    if ranged_parameter(cost) is not None or len(outcomes) < 2:
        return ""
    with user_cost_errors(cost):
        objection = gradient_objection(cost, neighbouring_sets(outcomes, PROGRAM_SETS, PROGRAM_MEMBERS))
    return objection and f"not trained: {objection[0].lower()}{objection[1:].removesuffix('.')}"
