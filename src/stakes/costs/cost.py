"""The cost protocol, the best action and its certificate, and what can be asked of any cost."""

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
"""A number, or a tensor of the batch shape (...) with one value per case."""


@runtime_checkable
class Cost(Protocol):
    """The cost c(a, y) of action a in [lower, upper] once outcome y is known.

    A cost with a scalar action may offer more: `best_action(samples)`, a closed form for the best action (..., 1),
    differentiable in the members, or None where these parameters have none (it takes `weights`, (..., M) or None, if it
    supports weighted members); `total(outcome)`, the one number (...) it sees of the outcomes of all sites;
    `convex = True` to declare it convex in the action; and `outcome_bounds`, the physical range of outcomes.
    """

    @property
    def lower(self) -> Parameter:
        """The smallest feasible action."""
        ...

    @property
    def upper(self) -> Parameter:
        """The largest feasible action."""
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

    With f the expected cost as a function of the action, two things are reported for every action:

    - `certified`: no action has a lower expected cost, up to the solver's tolerance and rounding. This is a proof, and
      exists only for costs convex in the action: all costs of this library, and any other that its author declares
      convex (`cost_function(..., convex=True)`, or `convex = True` in a class). For a scalar action the proof is that
      the slope of f changes sign at the action, or pushes it against a bound.
    - `converged`: a minimum was reached, it is the best of all actions that were evaluated, and they show no other
      minimum. A cost not known to be convex gets no more than this: a minimum between those actions goes unseen.

    Attributes:
        action: The best action found, (..., A).
        expected_cost: Its expected cost f(a*), the mean over the members, (...).
        interior: Whether the action lies strictly between the bounds, (...), bool; for a vector action, whether no
            limit binds.
        residual: |f'|/H, the length of the next Newton step in units of the action, (...), or the tolerance of the
            certificate if that is smaller; 0 at a bound that the slope pushes against. For a vector action, the largest
            violation of limits and optimality conditions, in units of the case.
        converged: Whether the action is certified, or a strict minimum, or at a bound that the slope pushes against,
            and no evaluated action contradicts it, (...), bool. False where f is not known to be convex and is flat,
            falls again after it has risen, or its minimum was not reached. A vector action that is not certified may
            be a local minimum: its search has one starting point.
        curvature: H = f''(a*), (...); for a vector action, the smallest curvature of its own cost in any direction.
        certified: Whether it is proven that no action has a lower expected cost, (...), bool.
        gap: For a vector action, an upper bound on how far its expected cost lies above the minimum, (...), up to the
            residual; NaN if the cost is not known to be convex, and None for a scalar action.
        infeasible: For a vector action, whether it is proven that no action meets all limits, (...), bool; action,
            expected cost and gap are then NaN. None for a scalar action.
        unbounded: For a vector action, whether it is proven that the expected cost is unbounded below, (...), bool. A
            case that is neither converged, infeasible nor unbounded hit the iteration limit.
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
        """A pandas frame with a row for each case and a column for each field, and for each part of the action.

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
    """A cost of a vector action (..., A); a subclass overrides what differs from these defaults."""

    hidden_parts: ClassVar[int] = 0  # how many parts of an action, the last ones, are auxiliary and not carried out
    separable: ClassVar[bool] = False  # whether only limits couple the outcomes, so that no solver is needed
    action_is_outcome: ClassVar[bool] = False  # whether there is one part per outcome, on its scale
    has_parameters_of_cases: ClassVar[bool] = False  # whether parameters may differ between cases
    opposites: ClassVar[tuple[str, str] | None] = None  # prefixes of the names of parts that undo each other
    convex_by_word: ClassVar[bool] = False  # whether convexity rests on its author's declaration alone
    is_program: ClassVar[bool] = False  # whether the best action is that of a scenario program

    if TYPE_CHECKING:

        @property
        def lower(self) -> Any: ...

        @property
        def upper(self) -> Any: ...

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each action at its outcome, (...).

        Args:
            action: Actions (..., A).
            outcome: Outcomes (..., D) that broadcast against the actions.
        """
        raise NotImplementedError

    @property
    def plain(self) -> Any:
        """The same decision without risk aversion."""
        return self

    @property
    def risk(self) -> Any:
        """The `CVaRCost` that makes it risk-averse; None if it is not."""
        return None

    def solve(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> ActionSolution:
        """The best action of each forecast with its certificate, in double precision and without gradient."""
        raise NotImplementedError

    def best_action(self, samples: Tensor, weights: Tensor | None, solver: object = None) -> Tensor:
        """The best action of each forecast, (..., A), differentiable in the members."""
        raise NotImplementedError

    def part_count(self, outcomes: int) -> int:
        """How many parts an action has, hidden ones excluded."""
        raise NotImplementedError

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """The names of these parts."""
        return tuple(outcomes)

    def part_bounds(self, parts: int) -> tuple[Parameter, Parameter]:
        """The lower and upper bounds of the parts: numbers, or tensors (..., A or 1)."""
        lower, upper = (
            bound[..., None] if isinstance(bound, Tensor) and not bound.dim() else bound
            for bound in (self.lower, self.upper)
        )
        return -math.inf if lower is None else lower, math.inf if upper is None else upper

    def unit(self, samples: Tensor, weights: Tensor | None = None) -> Tensor | None:
        """The scale of the actions in each case, (...): anything tiny beside it counts as zero."""
        return None

    def violates_convexity(self, samples: Tensor, weights: Tensor | None) -> Tensor | None:
        """Whether evaluations show that the expected cost is not convex, (...); None if matrices prove convexity."""
        return None

    @property
    def depends_on_order(self) -> bool:
        """Whether the order of the outcomes may change the action."""
        return True


class WrappedCost:
    """A cost that delegates everything to another one, such as a cost from a user's file."""

    cost: Cost
    name: str  # how its user refers to it


def unwrapped(cost: Any) -> Any:
    """The cost inside a wrapper, or the cost itself."""
    return cost.cost if isinstance(cost, WrappedCost) else cost


def vector_cost(cost: object) -> VectorCost | None:
    """The cost as one of a vector action; None for a scalar action."""
    inner = unwrapped(cost)
    return inner if isinstance(inner, VectorCost) else None


def risk_of(cost: object) -> Any:
    """The `CVaRCost` that a cost is or wraps; None for a risk-neutral cost."""
    vector = vector_cost(cost)
    return None if vector is None else vector.risk


def is_program(cost: object) -> bool:
    """Whether the best action is that of a scenario program."""
    vector = vector_cost(cost)
    return vector is not None and vector.is_program


def is_separable(cost: object) -> bool:
    """Whether only limits couple the parts, so that the marginal quantiles of the outcomes suffice."""
    vector = vector_cost(cost)
    return vector is not None and vector.separable


def stated(cost: object, name: str, otherwise: Any = None) -> Any:
    """An optional attribute of a cost beyond the protocol, such as its `total`."""
    return getattr(unwrapped(cost), name, otherwise)


def total_of(cost: object) -> Callable[[Tensor], Tensor] | None:
    """The function from the outcomes of all sites to the one number the cost sees; None if it has none."""
    total: Callable[[Tensor], Tensor] | None = stated(cost, "total")
    return total


def outcome_total(cost: object, outcomes: Tensor) -> Tensor:
    """The one number of each case that is plotted and ranked, (...): the total of outcomes (..., D), or their mean."""
    total = total_of(cost)
    return total(outcomes) if total is not None and outcomes.shape[-1] > 1 else outcomes.mean(-1)


def closed_form_of(cost: object) -> Callable[..., Tensor | None] | None:
    """The closed form of the best scalar action; None if there is none."""
    formula: Callable[..., Tensor | None] | None = stated(cost, "best_action")
    return formula


def plain_cost_of(cost: Any) -> Any:
    """The same decision without risk aversion."""
    vector = vector_cost(cost)
    return cost if vector is None else vector.plain


def action_is_outcome(cost: Any) -> bool:
    """Whether an action, or each part of it, has the scale of an outcome, as a stock has that of the demand."""
    return bool(stated(plain_cost_of(cost), "action_is_outcome", False))


def part_names(cost: Cost, outcomes: Sequence[str]) -> tuple[str, ...]:
    """The names of the parts of an action."""
    vector = vector_cost(cost)
    names = () if vector is None else vector.part_names(outcomes)
    return names if len(names) > 1 else ("action",)


def has_part_of_each(cost: Cost, outcomes: int) -> bool:
    """Whether an action has one part per outcome, in their order, and there are several."""
    names = tuple(map(str, range(outcomes)))
    return part_names(cost, names) == names


def action_parts(cost: Cost, outcomes: int) -> int:
    """How many parts an action has, hidden ones excluded."""
    vector = vector_cost(cost)
    return 1 if vector is None else vector.part_count(outcomes)


def shown_action(cost: Cost, action: Tensor) -> Tensor:
    """The part of an action that is carried out, (..., A), without hidden parts."""
    vector = vector_cost(cost)
    return action if vector is None else action[..., : action.shape[-1] - vector.hidden_parts]


def bounds_of(cost: Cost, parts: int) -> tuple[Parameter, Parameter]:
    """Lower and upper bounds, infinite for none: numbers, or tensors (..., A), or (..., 1) for all parts."""
    vector = vector_cost(cost)
    if vector is not None:
        return vector.part_bounds(parts)
    lower, upper = (bound[..., None] if isinstance(bound, Tensor) else bound for bound in (cost.lower, cost.upper))
    return lower, upper


def at_bounds(cost: Cost, action: Tensor, samples: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Whether each action, or any part of it, is at the lower and at the upper bound, (...) each."""
    vector, action = vector_cost(cost), shown_action(cost, action)
    unit = None if vector is None else vector.unit(samples, weights)
    # An interior-point solution only comes close to a bound that binds (`BINDS` of scenario programs).
    size = action.abs().amax(-1, keepdim=True)
    size = size if unit is None else size.maximum(unit[..., None].to(size))
    near = 1e-6 * size if unit is not None or action.shape[-1] > 1 else 0.0
    bounds = bounds_of(cost, action.shape[-1])
    lower, upper = (bound.to(action) if isinstance(bound, Tensor) else bound for bound in bounds)
    return (action - near <= lower).any(-1), (action + near >= upper).any(-1)


def requires_eager(cost: Cost) -> bool:
    """Whether compiled code must fall back to eager mode: solvers of vector actions are not compiled."""
    return vector_cost(cost) is not None and torch.compiler.is_compiling()


def states_convexity(cost: Cost) -> bool:
    """Whether the cost declares, by `convex = True`, that it is convex in the action at every outcome.

    A class that inherits the declaration but overrides `__call__` has to repeat it.
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
    """Raise a helpful error if a cost failed because it calls numpy or branches on values."""
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _BRANCHES):
        raise CostError(
            f"{name} branches on the values of a tensor (if, and, or, min, max): use torch, such as torch.where for if"
        ) from error
    if isinstance(error, RuntimeError | TypeError) and "numpy" in str(error):
        raise CostError(
            f"{name} calls numpy, which has no derivatives: use torch, such as torch.maximum for np.maximum"
        ) from error


def error_words(error: BaseException) -> str:
    """The type and the message of an error, in one line."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    words = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return " ".join(words.split())


@contextmanager
def user_cost_errors(cost: object) -> Iterator[None]:
    """Turn any exception of a user's own cost into one sentence that names the cost."""
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
        raise CostError(f"cost must be an instance, got the class {cost.__name__}: write {cost.__name__}(...)")
    if not isinstance(cost, Cost):
        raise CostError(
            f"cost must have lower and upper and be callable as c(action, outcome), got {type(cost).__name__}"
        )
    if vector_cost(cost) is None:  # a vector cost checks its own bounds
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

    @property
    def in_words(self) -> str:
        return f"{self.name} from {self.range.low:g} to {self.range.high:g}"

    def require_inside(self, least: float, most: float) -> None:
        """Raise unless all values lie in the range."""
        for value in (least, most):
            if not self.range.low <= value <= self.range.high:
                raise CostError(
                    f"{self.name} must lie between {self.range.low:g} and {self.range.high:g}, the range that the "
                    f"forecast was trained for, got {value:g}"
                )


def ranged_parameter(cost: object) -> RangedParameter | None:
    """The parameter of the cost that is a range; None if all are numbers."""
    own = _ranges(plain_cost_of(cost))
    return own[0] if own else None


def refuse_range(cost: object) -> None:
    """Raise if a parameter of the cost is a range, where all cases belong to one decision maker."""
    if (ranged := ranged_parameter(cost)) is not None:
        ranged.range.refuse()


def parameter_value(cost: object, name: str) -> float | None:
    """The number that a parameter of the cost is; None if it has no such number."""
    values = (getattr(each, name, None) for each in (cost, plain_cost_of(cost)))
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def with_parameter(cost: Cost, name: str, value: Parameter) -> Cost:
    """The cost with a value in place of its range."""
    if _ranges(cost):
        return cast(Cost, replace(cast(Any, cost), **{name: value}))
    inner = with_parameter(cast(Any, cost).cost, name, value)
    return cast(Cost, replace(cast(Any, cost), cost=inner))


def checked_at_both_ends(cost: object) -> bool:
    """Whether a parameter of the cost is a range; the cost is then validated at both ends."""
    ranges = _ranges(cost)
    if len(ranges) > 1:
        raise CostError(f"only one parameter of a cost may be a range, got {' and '.join(map(str, ranges))}")
    for each in ranges:
        if each.name in ("lower", "upper"):
            raise CostError(f"{each.name} must be the same for all decision makers, got the range {each.range}")
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
    """The feature column that holds the parameter of each case; absent unless a parameter is a range."""

    parameter: RangedParameter | None = None
    conditioned: bool = False  # whether models see it, as a feature standardised over the range

    def __post_init__(self) -> None:
        if self.conditioned and self.parameter is None:
            raise SettingError(
                "conditioned needs a cost with a range, such as shortfall:penalty=1..50; without one, fit without "
                "conditioned"
            )

    @classmethod
    def of(cls, cost: Cost, conditioned: bool = False) -> "ParameterColumn":
        """The column for a cost, which may have a range."""
        return cls(ranged_parameter(cost), conditioned)

    @property
    def width(self) -> int:
        """How many columns there are, 0 or 1."""
        return 0 if self.parameter is None else 1

    def spread(self, cases: int) -> Tensor:
        """A value for each case, (N, width), deterministic: any stretch of cases covers the range evenly."""
        shares = ((torch.arange(cases, dtype=torch.float64) + 0.5) * _GOLDEN) % 1
        return self.at(shares[:, None].expand(cases, self.width))

    def at(self, shares: Tensor) -> Tensor:
        """Values (..., width) at fractions of the range."""
        return shares if self.parameter is None else self.parameter.range.at(shares)

    def values(self, features: Tensor) -> Tensor:
        """The column itself, (...)."""
        return features[..., -1]

    def parameters(self, features: Tensor) -> Tensor | None:
        """The column of features (N, F + width), (N,); None if there is none."""
        return None if self.parameter is None else self.values(features)

    def replaced(self, features: Tensor, values: Tensor) -> Tensor:
        """The features with other values in the column."""
        return features if self.parameter is None else torch.cat([features[..., :-1], values.to(features)], -1)

    def without(self, features: Tensor) -> Tensor:
        """The features (..., F) alone."""
        return features if self.parameter is None else features[..., :-1]

    def seen(self, features: Tensor) -> Tensor:
        """What a model sees: the features, and the standardised parameter if it is conditioned, (..., F + 1)."""
        if self.parameter is None or not self.conditioned:
            return self.without(features)
        return torch.cat([features[..., :-1], self.parameter.range.standardised(features[..., -1:])], -1)

    def unmoved(self, features: Tensor) -> Tensor:
        """What a model is scaled by: as `seen`, with 0, the middle of the range, as every parameter."""
        if not self.conditioned:
            return self.without(features)
        return torch.cat([features[..., :-1], torch.zeros_like(features[..., -1:])], -1)

    def cost(self, cost: Cost, features: Tensor) -> Cost:
        """The cost with the parameter of each of these cases."""
        own = ranged_parameter(cost)
        return cost if own is None else with_parameter(cost, own.name, self.values(features))


def require_finite_costs(costs: NDArray[np.float64]) -> None:
    """Raise CostError unless the cost of every case is finite."""
    if bad := int((~np.isfinite(costs)).sum()):
        cure = "; if a program has no recourse for some outcome, add one at a high price"
        raise CostError(
            f"the cost must be a finite number, got NaN or infinity in {bad} of {len(costs)} cases"
            + (cure if np.isposinf(costs).any() else "")
        )
