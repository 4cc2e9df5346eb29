"""What looks wrong with a cost for the outcomes at hand: another unit, bounds that decide everything."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.cost_text.library_costs import ParameterValue
from stakes.cost_text.own_cost_file import OwnCost, type_and_text
from stakes.errors import CostError, ShapeError, StakesError
from stakes.method.actions import ActionSolution, solve_action
from stakes.method.costs import Cost
from stakes.method.named_costs import WindDispatchCost
from stakes.method.program_actions import ProgramCost
from stakes.method.risk import CVaRCost
from stakes.number_text import number_text
from stakes.settings import shown

__all__ = ["plausibility_notes"]

Parameters = Mapping[str, ParameterValue]

_MOST_CASES, _MOST_PROGRAMS = 1000, 100  # enough to see where actions land
_ABOVE_CAPACITY = 1.5  # beyond any fraction of capacity that is measured
_STORM = 75.0  # m/s, beyond any mean wind
_COLDEST, _WARMEST, _KELVIN = -100.0, 70.0, 180.0  # degC, degC, K
_LITTLE = 0.01  # share of the range between the bounds
_LIMITS = {"schedule": ("ramp", "upper"), "allocation": ("budget",), "storage": ("power", "energy")}
_TINY = 1 / 300  # of the largest outcome: a limit in another unit, rather than a tight one
_METRES = re.compile(r"(?<![\d.])(\d{1,3})[ _]?m(?![a-z\d/])", re.IGNORECASE)  # wind_speed_100m, "speed, 80 m"
_WIND_AT = re.compile(
    r"(?:^|[\W_])(?:ws|wspd|ff|fg|si|[uv]|wind|(?:wind[_ ]?)?speed)[_ ]?(\d{2,3})(?!\w)", re.IGNORECASE
)


def plausibility_notes(
    name: str, parameters: Parameters, cost: Cost, outcomes: ArrayLike, columns: Sequence[str] = ()
) -> list[str]:
    """Sentences about what looks wrong with a cost for some outcomes; none where nothing does.

    Args:
        name: The name under which the cost is written, such as "shortfall".
        parameters: The parameters it was written with.
        cost: The cost itself.
        outcomes: Outcomes (N, D); rows with a missing value are passed over.
        columns: The names of the D outcomes; none where they are not known.
    """
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim != 2:
        raise ShapeError(f"outcomes must be cases by columns, got shape {values.shape}")
    values = values[np.isfinite(values).all(1)]
    if not len(values):
        return []
    plain = cost.cost if isinstance(cost, OwnCost) else cost
    cost = plain.cost if isinstance(plain, CVaRCost) else cost
    bounds_are_given = "upper" in parameters or isinstance(cost, OwnCost)
    notes = (
        [_limit_note(name, parameters, values), _program_note(name, cost, values)]
        if isinstance(cost, ProgramCost)
        else [
            _unit_note(name, parameters, values),
            _height_note(cost, columns),
            _bounds_note(name, cost, bounds_are_given, values),
        ]
    )
    return [note for note in notes if note]


def _unit_note(name: str, parameters: Parameters, values: NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    seen = f"the outcomes run from {_text(low)} to {_text(high)}"
    if name == "shortfall" and not (low >= 0 and high <= _ABOVE_CAPACITY):
        return f"{seen}, which does not look like a fraction of capacity (0 to 1), as the cost shortfall expects"
    if name == "wind_dispatch" and not (low >= 0 and 1 < high <= _STORM):
        hint = "; for a fraction of capacity there is the cost shortfall" if low >= 0 and high <= 1 else ""
        return f"{seen}, which does not look like a wind speed in m/s, as the cost wind_dispatch expects{hint}"
    if name == "protection":
        threshold = _number(parameters["threshold"])
        if low > _KELVIN and _COLDEST <= threshold <= _WARMEST:
            return f"{seen}, which looks like kelvin, while the threshold {_text(threshold)} looks like degC"
        if not low <= threshold <= high:
            return f"{seen} and never cross the threshold {_text(threshold)}: is it in the unit of the outcomes?"
    return ""


def _height_note(cost: Cost, columns: Sequence[str]) -> str:
    """Where the name of a column tells another height than that at which the cost takes the wind."""
    if not isinstance(cost, WindDispatchCost) or not cost.power_curve.shear:
        return ""
    curve = cost.power_curve
    for column in columns:
        match = _METRES.search(column) or _WIND_AT.search(column)
        if match and float(match[1]) != curve.reference_height:
            return (
                f"the name of {shown(column)} says {match[1]} m, while the cost takes the wind at "
                f"{_text(curve.reference_height)} m and raises it to the hub at {_text(curve.hub_height)} m: write "
                f"reference_height={match[1]}, or shear=0 for wind at the hub"
            )
    return ""


def _bounds_note(name: str, cost: Cost, bounds_are_given: bool, values: NDArray[np.float64]) -> str:
    """Where the best actions land: with every outcome known beforehand, and one for all without any forecast."""
    every = -(-len(values) // _MOST_CASES)
    cases = torch.from_numpy(values[::every].copy())  # (N, D)
    known = _actions(name, cost, cases[:, None])  # (N,)
    blind = float(_actions(name, cost, cases[None])[0])
    lower, upper = float(cost.lower), float(cost.upper)
    for side, bound in (("lower", lower), ("upper", upper)):
        share, at = float((known == bound).double().mean()), f"the {side} bound {_text(bound)}"
        if share == 1:
            return (
                f"even where the outcome is known beforehand, the best action is always {at}: "
                "there is nothing to decide, or the cost is in another unit than the outcomes"
            )
        if blind == bound and bounds_are_given:
            return (
                f"without a forecast the best action is {at}, and it is in {share:.0%} of the "
                f"cases where the outcome is known beforehand: is {side} in the unit of the outcomes?"
            )
    if bounds_are_given and float(known.max() - known.min()) < _LITTLE * (upper - lower):
        return (
            f"the best actions of all outcomes, {_text(known.min().item())} to "
            f"{_text(known.max().item())}, use less than "
            f"{_LITTLE:.0%} of the range from lower={lower:g} to upper={upper:g}: are the bounds in the unit of the "
            "outcomes?"
        )
    return ""


def _limit_note(name: str, parameters: Parameters, values: NDArray[np.float64]) -> str:
    """Where a limit in the unit of the outcomes is next to nothing beside them."""
    largest = float(np.abs(values).sum(1).max() if name == "allocation" else np.abs(values).max())
    for key in _LIMITS.get(name, ()):
        if key in parameters and _number(parameters[key]) < _TINY * largest:
            about = "add up to" if name == "allocation" else "are as large as"
            return (
                f"{key}={_text(_number(parameters[key]))} is next to nothing where outcomes {about} {_text(largest)}: "
                "is it in the unit of the outcomes?"
            )
    return ""


def _why_none(known: ActionSolution) -> str:
    """Why some decisions have no best action."""
    reasons = {"its limits contradict each other": known.infeasible, "the cost falls for ever": known.unbounded}
    told = [reason for reason, cases in reasons.items() if cases is not None and bool(cases.any())]
    return ", or ".join(told) or "the search for it did not end"


def _program_note(name: str, cost: ProgramCost, values: NDArray[np.float64]) -> str:
    """Whether the decision has many parts that move, or there is nothing to decide."""
    every = -(-len(values) // _MOST_PROGRAMS)
    cases = torch.from_numpy(values[::every].copy())
    known = _solved(name, cost, cases[:, None])  # with every outcome known beforehand
    if not known.converged.all():
        share = float((~known.converged).double().mean())
        return (
            f"in {share:.0%} of the cases there is no best action, even where the outcome is known "
            f"beforehand: {_why_none(known)}"
        )
    if values.shape[1] == 1 and name in _LIMITS:
        return (
            f"there is one outcome, so that the cost {name} has no others to join it with: name a target for each part "
            "of the decision, such as a column for each hour"
        )
    spread = known.action.amax(0) - known.action.amin(0)
    if len(cases) > 1 and values.std(0).any() and float(spread.max()) <= 1e-6 * float(known.action.abs().max()):
        return (
            "even where the outcome is known beforehand, the best action is always the same: there is nothing to "
            "decide, or the cost is in another unit than the outcomes"
        )
    return ""


def _actions(name: str, cost: Cost, samples: torch.Tensor) -> torch.Tensor:
    return _solved(name, cost, samples).action[..., 0]


def _solved(name: str, cost: Cost, samples: torch.Tensor) -> ActionSolution:
    try:
        return solve_action(cost, samples)
    except ShapeError as error:  # of numbers for each outcome, and how many these are
        raise CostError(f"the cost {name}: {error}") from error
    except StakesError:
        raise
    except Exception as error:  # a user's own function may raise anything
        raise CostError(f"the cost {name} fails for the outcomes of the table: {type_and_text(error)}") from error


def _number(value: ParameterValue) -> float:
    """A parameter as one number, the largest where each outcome has its own."""
    return max(value) if isinstance(value, tuple) else float(value)


def _text(value: float) -> str:
    return number_text(value, digits=6)
