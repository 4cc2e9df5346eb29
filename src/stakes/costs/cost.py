"""What a cost is, what is known of its best action, and what may be asked of every cost."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.argument_checks import require_below
from stakes.costs.parameter_range import ParameterRange
from stakes.errors import CostError, SettingError, StakesError
from stakes.frames import DataFrame, Tabular, frame_of_cases
from stakes.text import count_text

Parameter = float | Tensor
"""A number, or a tensor of the batch shape (...) that gives each case its own decision maker."""


@runtime_checkable
class Cost(Protocol):
    """The cost c(a, y) of action a in [lower, upper] once outcome y is known.

    A cost of one number may have more: `best_action(samples)`, its best action (..., 1) in closed form, differentiable
    in the members, or None if these parameters have none (for weighted members it also takes `weights`, (..., M) or
    None); `total(outcome)`, the number (...) that it uses of all sites; `convex = True` if it is convex in the action;
    `outcome_bounds`, the limits of the outcomes.
    """

    @property
    def lower(self) -> Parameter:
        """The least action that can be taken."""
        ...

    @property
    def upper(self) -> Parameter:
        """The largest action that can be taken."""
        ...

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost (...) of each action at its outcome.

        Args:
            action: Actions (..., A) within the bounds.
            outcome: Outcomes (..., D) that broadcast against the actions.
        """
        ...


@dataclass(frozen=True, repr=False)
class ActionSolution(Tabular):
    """Best actions with their certificates, one for each case of a batch (...).

    With f the expected cost as a function of the action, two things are said of every action:

    - `certified`: no action has a lower expected cost, up to the solver's tolerance and rounding. That is proven, and
      only for a cost that is convex in the action: those of this library are, and of another cost its author can say
      so (`cost_function(..., convex=True)`, or `convex = True` in a class). The proof is then that the slope of f
      changes its sign at the action, or pushes it against a bound.
    - `converged`: a minimum was reached, the best of the actions that were looked at, and they show no other one. For
      a cost that is not known to be convex this is all there is to be had: a minimum between them is not seen.

    Attributes:
        action: The best action that was found, (..., A).
        expected_cost: Its expected cost f(a*), the mean over the members, (...).
        interior: Whether the action lies strictly between the bounds, (...), bool.
        residual: |f'|/H, the length of the next Newton step, in units of the action, (...), or the bound of the
            certificate, if smaller. It is 0 at a bound that the slope pushes against.
        converged: Whether the action is certified, or else a strict minimum, or at a bound that the slope pushes
            against, and nothing that was looked at speaks against it, (...), bool. False for a case whose f is not
            known to be convex and is flat or falls again after it has risen, or whose minimum was not reached.
            `optimal_action` gives a gradient only where its own search, that of nine actions, finds curvature.
        curvature: H = f''(a*), (...).
        certified: Whether it is proven that no action has a lower expected cost, (...), bool. Always False for a cost
            that is not known to be convex in the action.
        gap: For a vector action, the most by which a better one could lower the expected cost, (...), up to the
            residual; None for one number, and NaN for a cost that is not known to be convex in the action.
        infeasible: For a vector action, whether it is proven that no action meets all limits, (...), bool; action,
            expected cost and gap are then NaN. None for one number.
        unbounded: For a vector action, whether it is proven that the expected cost is unbounded below. A case that is
            neither unbounded, infeasible nor converged hit the iteration limit.

    For an action of many parts, A > 1, `interior` says that no limit of any part binds, `residual` how far limits and
    the conditions of a minimum are violated, in units of the case, and `curvature` is the least of the action's own
    cost in any direction. A function of your own is then searched from one place: without your word that it is convex,
    `converged` says that a minimum was reached, and another one may be better.
    """

    action: Tensor
    expected_cost: Tensor
    interior: Tensor
    residual: Tensor
    converged: Tensor
    curvature: Tensor
    certified: Tensor
    gap: Tensor | None = None
    infeasible: Tensor | None = None
    unbounded: Tensor | None = None

    def to_frame(self) -> DataFrame:
        """A row of a pandas frame for each case, a column for each field, and for each part of an action.

        >>> import stakes
        >>> members = torch.tensor([[[0.2], [0.4], [0.9]], [[0.5], [0.6], [0.7]]], dtype=torch.float64)
        >>> frame = stakes.solve_action(stakes.ShortfallCost(penalty=5.0), members).to_frame()
        >>> frame[["action", "certified"]].round(2).values.tolist()
        [[0.45, True], [0.7, True]]
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        known = {name: value for name, value in values.items() if value is not None}
        return frame_of_cases(known, tuple(self.expected_cost.shape))

    @property
    def _headline(self) -> str:
        count, sure = self.certified.numel(), int(self.certified.sum())
        return f"{count_text(count, 'best action')}, {'all' if sure == count else sure} certified"


class VectorCost:
    """A cost of an action with several parts, (..., A): what a class does not say of itself is as it stands here."""

    hidden_parts: ClassVar[int] = 0  # how many parts of an action, the last ones, only the charge needs
    separable: ClassVar[bool] = False  # whether only limits join the outcomes, and no action takes a solver
    action_is_outcome: ClassVar[bool] = False  # whether there is a part for each outcome, on its scale
    has_parameters_of_cases: ClassVar[bool] = False  # whether a parameter may have a number for each case
    opposites: ClassVar[tuple[str, str] | None] = None  # what the names of parts begin with that undo each other
    convex_by_word: ClassVar[bool] = False  # whether its author's word is all that convexity rests on
    is_program: ClassVar[bool] = False  # whether the best action is that of a scenario program

    if TYPE_CHECKING:

        @property
        def lower(self) -> Any: ...

        @property
        def upper(self) -> Any: ...

        def __call__(self, action: Tensor, outcome: Tensor) -> Tensor: ...

    @property
    def plain(self) -> Any:
        """The same decision without its aversion to risk."""
        return self

    @property
    def risk(self) -> Any:
        """The aversion to risk, a `CVaRCost`; None without any."""
        return None

    def solve(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> ActionSolution:
        """The best action of each forecast with its certificate, in double precision and without gradient."""
        raise NotImplementedError

    def best_action(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> Tensor:
        """The best action of each forecast, (..., A), differentiable in the members."""
        raise NotImplementedError

    def part_count(self, outcomes: int) -> int:
        """How many parts an action has, but for hidden ones."""
        raise NotImplementedError

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """What these parts are called."""
        return tuple(outcomes)

    def part_bounds(self, parts: int) -> tuple[Parameter, Parameter]:
        """What each part does not fall below, and not exceed: numbers, or tensors (..., A or 1)."""
        lower, upper = (
            bound[..., None] if isinstance(bound, Tensor) and not bound.dim() else bound
            for bound in (self.lower, self.upper)
        )
        return -math.inf if lower is None else lower, math.inf if upper is None else upper

    def unit(self, samples: Tensor, weights: Tensor | None = None) -> Tensor | None:
        """How large an action is that matters in each case, (...): what is small beside it is nothing."""
        return None

    def violates_convexity(self, samples: Tensor, weights: Tensor | None) -> Tensor | None:
        """Whether the expected cost of a forecast is seen not to be convex, (...); None where matrices prove it."""
        return None

    @property
    def depends_on_order(self) -> bool:
        """Whether the action may be another one where the outcomes come in another order."""
        return True


class WrappedCost:
    """A cost that is another one in all it says of itself, as one from a user's file is."""

    cost: Cost
    name: str  # what its user calls it


def unwrapped(cost: Any) -> Any:
    """The cost itself."""
    return cost.cost if isinstance(cost, WrappedCost) else cost


def vector_cost(cost: object) -> VectorCost | None:
    """What the cost says of its action with several parts; None where that is one number."""
    inner = unwrapped(cost)
    return inner if isinstance(inner, VectorCost) else None


def risk_of(cost: object) -> Any:
    """The `CVaRCost` that a cost is, or has inside, as one from a user's file may; None without aversion to risk."""
    vector = vector_cost(cost)
    return None if vector is None else vector.risk


def is_program(cost: object) -> bool:
    """Whether the best action is that of a scenario program."""
    vector = vector_cost(cost)
    return vector is not None and vector.is_program


def is_separable(cost: object) -> bool:
    """Whether the cost has several parts that only limits join, so that quantiles of each outcome say all it needs."""
    vector = vector_cost(cost)
    return vector is not None and vector.separable


def stated(cost: object, name: str, otherwise: Any = None) -> Any:
    """What a cost says of itself beyond the protocol, such as its `total`."""
    return getattr(unwrapped(cost), name, otherwise)


def total_of(cost: object) -> Callable[[Tensor], Tensor] | None:
    """What the cost makes of the outcomes of all sites, the one number that it sees; None where it says nothing."""
    total: Callable[[Tensor], Tensor] | None = stated(cost, "total")
    return total


def outcome_total(cost: object, outcomes: Tensor) -> Tensor:
    """Outcomes (..., D) to the one number of each case that is plotted and ranked, (...): the total, or the mean."""
    total = total_of(cost)
    return total(outcomes) if total is not None and outcomes.shape[-1] > 1 else outcomes.mean(-1)


def closed_form_of(cost: object) -> Callable[..., Tensor | None] | None:
    """The formula of a cost of one number for its best action; None where it has none."""
    formula: Callable[..., Tensor | None] | None = stated(cost, "best_action")
    return formula


def plain_cost_of(cost: Any) -> Any:
    """The same decision without its aversion to risk."""
    vector = vector_cost(cost)
    return cost if vector is None else vector.plain


def action_is_outcome(cost: Any) -> bool:
    """Whether an action, or each part of it, is on the scale of an outcome, as a stock is on that of the demand."""
    return bool(stated(plain_cost_of(cost), "action_is_outcome", False))


def part_names(cost: Cost, outcomes: Sequence[str]) -> tuple[str, ...]:
    """What the parts of an action are called."""
    vector = vector_cost(cost)
    names = () if vector is None else vector.part_names(outcomes)
    return names if len(names) > 1 else ("action",)


def has_part_of_each(cost: Cost, outcomes: int) -> bool:
    """Whether an action has one part for each of several outcomes, in their order."""
    names = tuple(map(str, range(outcomes)))
    return part_names(cost, names) == names


def action_parts(cost: Cost, outcomes: int) -> int:
    """How many parts an action has, but for those that only the charge needs."""
    vector = vector_cost(cost)
    return 1 if vector is None else vector.part_count(outcomes)


def shown_action(cost: Cost, action: Tensor) -> Tensor:
    """What of an action is to be carried out, (..., A): all but the parts that only the charge needs."""
    vector = vector_cost(cost)
    return action if vector is None else action[..., : action.shape[-1] - vector.hidden_parts]


def bounds_of(cost: Cost, parts: int) -> tuple[Parameter, Parameter]:
    """The least and the largest action, infinite for none: numbers, or tensors (..., A), or (..., 1) for all parts."""
    vector = vector_cost(cost)
    if vector is not None:
        return vector.part_bounds(parts)
    lower, upper = (bound[..., None] if isinstance(bound, Tensor) else bound for bound in (cost.lower, cost.upper))
    return lower, upper


def at_bounds(cost: Cost, action: Tensor, samples: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Whether each action for some samples, or any part of it, is at the lower and at the upper bound, (...) each."""
    vector, action = vector_cost(cost), shown_action(cost, action)
    unit = None if vector is None else vector.unit(samples, weights)
    # A program's action comes near to a bound that it is at, as to any limit (`BINDS` of scenario programs).
    size = action.abs().amax(-1, keepdim=True)
    size = size if unit is None else size.maximum(unit[..., None].to(size))
    near = 1e-6 * size if unit is not None or action.shape[-1] > 1 else 0.0
    bounds = bounds_of(cost, action.shape[-1])
    lower, upper = (bound.to(action) if isinstance(bound, Tensor) else bound for bound in bounds)
    return (action - near <= lower).any(-1), (action + near >= upper).any(-1)


def requires_eager(cost: Cost) -> bool:
    """Whether code that is being compiled must leave a decision alone: one with many parts has solvers of its own."""
    return vector_cost(cost) is not None and torch.compiler.is_compiling()


def has_closed_form(cost: Cost, samples: Tensor) -> bool:
    """Whether the cost states the best action of such members by a formula, with the parameters that it has."""
    formula = closed_form_of(cost)
    return formula is not None and formula(samples) is not None


def states_convexity(cost: Cost) -> bool:
    """Whether the cost says, by `convex = True`, that it is convex in the action at every outcome.

    A class that inherits this word but not the call it was said of has to say it again.
    """
    convex = stated(cost, "convex", False)
    if not isinstance(convex, bool):
        raise CostError(f"convex must be True or False, got {convex!r}")
    kinds = type(unwrapped(cost)).__mro__
    calling = next((kind for kind in kinds if "__call__" in vars(kind)), object)
    stating = next((kind for kind in kinds if "convex" in vars(kind)), calling)  # else the object itself says it
    return convex and issubclass(stating, calling)


# What torch says where Python asks for the truth of a tensor; the second is said inside torch.func.vmap.
_BRANCHES = ("Boolean value of Tensor", "data-dependent control flow")


def explain_failure(error: Exception, name: str = "the function of the cost") -> None:
    """Raise in plain words where a cost fails because it calls numpy or branches on values."""
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _BRANCHES):
        raise CostError(
            f"{name} branches on the values of a tensor (if, and, or, min, max): use torch's functions, such as "
            "torch.where for if"
        ) from error
    if isinstance(error, RuntimeError | TypeError) and "numpy" in str(error):
        raise CostError(
            f"{name} calls numpy, which has no derivatives: use torch's functions, such as torch.maximum for np.maximum"
        ) from error


def error_words(error: BaseException) -> str:
    """The type of an error and what it says, in one line."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    words = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return " ".join(words.split())


@contextmanager
def user_cost_errors(cost: object) -> Iterator[None]:
    """Turn whatever a user's own cost raises in this block into one sentence that names the cost."""
    try:
        yield
    except StakesError:
        raise
    except Exception as error:
        if not isinstance(cost, WrappedCost):
            raise
        explain_failure(error, f"the cost {cost.name}")
        raise CostError(f"the cost {cost.name} fails: {error_words(error)}") from error


def require_cost(cost: object) -> None:
    """Raise unless the object can serve as a cost."""
    if isinstance(cost, type):
        raise CostError(f"cost must be a cost, got the class {cost.__name__}: make one, as in {cost.__name__}(...)")
    if not isinstance(cost, Cost):
        raise CostError(f"cost must have lower, upper and be callable as c(action, outcome), got {type(cost).__name__}")
    if vector_cost(cost) is None:  # which has limits of its own, and checks them
        require_bounds(cost.lower, cost.upper)


def require_bounds(lower: Parameter, upper: Parameter) -> None:
    """Raise unless the bounds of an action are finite and ordered."""
    require_below("lower", lower, "upper", upper, CostError)


@dataclass(frozen=True)
class RangedParameter:
    """The parameter of a cost that is a range."""

    name: str  # what the cost calls it
    range: ParameterRange  # its values

    def __str__(self) -> str:
        return f"{self.name} {self.range}"

    def require_inside(self, least: float, most: float) -> None:
        """Raise unless all values lie in the range."""
        for value in (least, most):
            if not self.range.low <= value <= self.range.high:
                raise CostError(
                    f"{self.name} must lie in {self.range.low:g} to {self.range.high:g}, for which the forecast is "
                    f"trained, got {value:g}"
                )


def ranged_parameter(cost: object) -> RangedParameter | None:
    """The parameter of the cost that is a range; None where all are numbers."""
    own = _ranges(plain_cost_of(cost))
    return own[0] if own else None


def refuse_range(cost: object) -> None:
    """Raise where a parameter of the cost is a range, and all cases belong to one decision maker."""
    if (ranged := ranged_parameter(cost)) is not None:
        ranged.range.refuse()


def parameter_value(cost: object, name: str) -> float | None:
    """The number that the cost has for a parameter; None where it has none of that name."""
    values = (getattr(each, name, None) for each in (cost, plain_cost_of(cost)))
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def with_parameter(cost: Cost, name: str, value: Parameter) -> Cost:
    """The cost with a value in place of its range."""
    if _ranges(cost):
        return cast(Cost, replace(cast(Any, cost), **{name: value}))
    inner = with_parameter(cast(Any, cost).cost, name, value)
    return cast(Cost, replace(cast(Any, cost), cost=inner))


def checked_at_both_ends(cost: object) -> bool:
    """Whether a parameter of the cost is a range, at both ends of which the cost is then checked."""
    ranges = _ranges(cost)
    if len(ranges) > 1:
        raise CostError(f"one parameter of a cost may be a range, got {' and '.join(map(str, ranges))}")
    for each in ranges:
        if each.name in ("lower", "upper"):
            raise CostError(f"{each.name} cannot be a range, got {each.range}: it is the same for all decision makers")
        for end in (each.range.low, each.range.high):
            replace(cast(Any, cost), **{each.name: end})
    return bool(ranges)


def _ranges(cost: object) -> list[RangedParameter]:
    if not is_dataclass(cost):
        return []
    values = {field.name: getattr(cost, field.name) for field in fields(cost)}
    return [RangedParameter(name, value) for name, value in values.items() if isinstance(value, ParameterRange)]


_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class ParameterColumn:
    """The column of features that holds the parameter of each case; there is none where no parameter is a range."""

    parameter: RangedParameter | None = None
    conditioned: bool = False  # whether models see it, as a feature standardised over the range

    def __post_init__(self) -> None:
        if self.conditioned and self.parameter is None:
            raise SettingError(
                "conditioned is for a cost with a range, such as shortfall:penalty=1..50, got one without: fit anew, "
                "without it, for one decision maker"
            )

    @classmethod
    def of(cls, cost: Cost, conditioned: bool = False) -> "ParameterColumn":
        """The column of the cases that a cost with a range is paid for."""
        return cls(ranged_parameter(cost), conditioned)

    @property
    def width(self) -> int:
        """How many columns there are, 0 or 1."""
        return 0 if self.parameter is None else 1

    def spread(self, cases: int) -> Tensor:
        """A value for each case, (N, width), the same every time: any stretch of cases covers the range evenly."""
        shares = ((torch.arange(cases, dtype=torch.float64) + 0.5) * _GOLDEN) % 1
        return self.at(shares[:, None].expand(cases, self.width))

    def at(self, shares: Tensor) -> Tensor:
        """Values (..., width) at shares of the way through the range."""
        return shares if self.parameter is None else self.parameter.range.at(shares)

    def values(self, features: Tensor) -> Tensor:
        """The column itself, (...), of features that have it."""
        return features[..., -1]

    def parameters(self, features: Tensor) -> Tensor | None:
        """The column of features (N, F + width) that have it, (N,); None where there is none."""
        return None if self.parameter is None else self.values(features)

    def replaced(self, features: Tensor, values: Tensor) -> Tensor:
        """The features with other values in the column."""
        return features if self.parameter is None else torch.cat([features[..., :-1], values.to(features)], -1)

    def without(self, features: Tensor) -> Tensor:
        """The features (..., F) alone."""
        return features if self.parameter is None else features[..., :-1]

    def seen(self, features: Tensor) -> Tensor:
        """What a model sees: features and parameter where it is conditioned, (..., F + 1), else features alone."""
        if self.parameter is None or not self.conditioned:
            return self.without(features)
        return torch.cat([features[..., :-1], self.parameter.range.standardised(features[..., -1:])], -1)

    def unmoved(self, features: Tensor) -> Tensor:
        """What a model is scaled by: as `seen`, with 0, the middle of the range, for every parameter."""
        if not self.conditioned:
            return self.without(features)
        return torch.cat([features[..., :-1], torch.zeros_like(features[..., -1:])], -1)

    def cost(self, cost: Cost, features: Tensor) -> Cost:
        """The cost that each of these cases pays: as it is where it has no range."""
        own = ranged_parameter(cost)
        return cost if own is None else with_parameter(cost, own.name, self.values(features))


def require_finite_costs(costs: NDArray[np.float64]) -> None:
    """Raise CostError where the cost of a case is not a number: nothing can be decided by it."""
    if bad := int((~np.isfinite(costs)).sum()):
        cure = "; a program that has no recourse for an outcome needs one, at a high price"
        raise CostError(
            f"the cost must be a finite number, got NaN or infinity in {bad} of {len(costs)} cases"
            + (cure if np.isposinf(costs).any() else "")
        )
