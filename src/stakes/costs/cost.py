"""What a cost is."""

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor

from stakes.argument_checks import require_below
from stakes.errors import CostError

Parameter = float | Tensor
"""A number, or a tensor of the batch shape (...) that gives each case its own decision maker."""


@runtime_checkable
class Cost(Protocol):
    """What a decision maker pays, c(a, y), for taking action a in [lower, upper] and then seeing outcome y."""

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


@runtime_checkable
class ClosedFormCost(Cost, Protocol):
    """A cost that can state its best action."""

    def best_action(self, samples: Tensor) -> Tensor | None:
        """Bayes action (..., A), differentiable in the members, with no gradient at the bounds.

        None where these parameters have no formula. A formula for members that do not count alike has a second
        argument `weights`, (..., M) or None, as those of this library have.
        """
        ...


@runtime_checkable
class TotalCost(Cost, Protocol):
    """A cost that sees the outcomes of all sites as one number."""

    def total(self, outcome: Tensor) -> Tensor:
        """What the decision is about, (...)."""
        ...


def at_bounds(cost: Cost, action: Tensor, unit: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Whether each action, or any part of it, is at the lower and at the upper bound, (...) each, bool."""
    action = shown_action(cost, action)
    # A program's action comes near to a bound that it is at, as to any limit (`stakes.programs.vector_actions.BINDS`).
    size = action.abs().amax(-1, keepdim=True)
    size = size if unit is None else size.maximum(unit[..., None].to(size))
    near = 1e-6 * size if unit is not None or action.shape[-1] > 1 else 0.0
    bounds = bounds_of(cost, action.shape[-1])
    lower, upper = (bound.to(action) if isinstance(bound, Tensor) else bound for bound in bounds)
    return (action - near <= lower).any(-1), (action + near >= upper).any(-1)


def bounds_of(cost: Cost, parts: int) -> tuple[Parameter, Parameter]:
    """The least and the largest action, infinite for none: numbers, or tensors (..., A), or (..., 1) for all parts."""
    own: Callable[[int], tuple[Tensor, Tensor]] | None = getattr(cost, "part_bounds", None)
    if own is not None:
        return own(parts)
    by_part = parts > 1 or _has_program(cost)

    def bound(value: Parameter | None, otherwise: float) -> Parameter:
        if not isinstance(value, Tensor):
            return otherwise if value is None else value
        return value if by_part and value.dim() else value[..., None]

    return bound(cost.lower, -math.inf), bound(cost.upper, math.inf)


def _has_program(cost: object) -> bool:
    """Whether a cost is a program, or has one inside, as one that averts risk or comes from a user's file."""
    return cost is not None and (hasattr(cost, "program") or _has_program(getattr(cost, "cost", None)))


def shown_action(cost: Cost, action: Tensor) -> Tensor:
    """What of an action is to be carried out, (..., A): all but the parts that only the charge needs."""
    return action[..., : action.shape[-1] - getattr(cost, "hidden_parts", 0)]


def has_closed_form(cost: Cost, samples: Tensor) -> bool:
    """Whether the cost states the best action of such members by a formula, with the parameters that it has."""
    return isinstance(cost, ClosedFormCost) and cost.best_action(samples) is not None


def states_convexity(cost: Cost) -> bool:
    """Whether the cost says, by `convex = True`, that it is convex in the action at every outcome.

    A class that inherits this word but not the call it was said of has to say it again.
    """
    stated = getattr(cost, "convex", False)
    if not isinstance(stated, bool):
        raise CostError(f"convex must be True or False, got {stated!r}")
    kinds = type(cost).__mro__
    calling = next((kind for kind in kinds if "__call__" in vars(kind)), object)
    stating = next((kind for kind in kinds if "convex" in vars(kind)), calling)  # else the object itself says it
    return stated and issubclass(stating, calling)


def refuse_numpy(error: Exception, name: str = "the function of the cost") -> None:
    """Raise in plain words where a cost fails because it calls numpy."""
    if isinstance(error, RuntimeError | TypeError) and "numpy" in str(error):
        raise CostError(
            f"{name} calls numpy, which has no derivatives: use torch's functions, such as torch.maximum for np.maximum"
        ) from error


def require_cost(cost: object) -> None:
    """Raise unless the object can serve as a cost."""
    if isinstance(cost, type):
        raise CostError(f"cost must be a cost, got the class {cost.__name__}: make one, as in {cost.__name__}(...)")
    if not (callable(cost) and hasattr(cost, "lower") and hasattr(cost, "upper")):
        raise CostError(f"cost must have lower, upper and be callable as c(action, outcome), got {type(cost).__name__}")
    if not (hasattr(cost, "program") or hasattr(cost, "find_action")):  # which have limits of their own, and check them
        require_bounds(cost.lower, cost.upper)


def require_bounds(lower: Parameter, upper: Parameter) -> None:
    """Raise unless the bounds of an action are finite and ordered."""
    require_below("lower", lower, "upper", upper, CostError)
