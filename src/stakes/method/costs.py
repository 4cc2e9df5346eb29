"""What a cost is, and how a function of action and outcome becomes one.

A cost is called with members in front, action (..., A) against outcome (M, ..., D), so that parameters of the batch
shape (...) broadcast untouched. Actions are scalars, A = 1, but for those of a scenario program
(`stakes.method.program_actions`). A cost that knows its closed form has `best_action`; one whose author knows that it
is convex in the action says so by `convex = True`, on which every certificate rests.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from stakes.errors import CostError
from stakes.method.argument_checks import require_below

__all__ = [
    "ClosedFormCost",
    "Cost",
    "FunctionCost",
    "Parameter",
    "TotalCost",
    "at_bounds",
    "cost_function",
    "has_closed_form",
    "require_bounds",
    "require_cost",
    "states_convexity",
]

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

        Args:
            samples: Members (..., M, D).
        """
        ...


@runtime_checkable
class TotalCost(Cost, Protocol):
    """A cost that sees the outcomes of all sites as one number."""

    def total(self, outcome: Tensor) -> Tensor:
        """What the decision is about, (...).

        Args:
            outcome: Outcomes (..., D) of D sites.
        """
        ...


@dataclass(frozen=True)
class FunctionCost:
    """A torch function of action and outcome as a cost; see `cost_function`.

    Attributes:
        function: f(action, outcome), as in `cost_function`.
        lower: The least action that can be taken.
        upper: The largest action that can be taken.
        convex: Whether the author says that the cost is convex in the action.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    lower: Parameter
    upper: Parameter
    convex: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise CostError(f"function must be callable as f(action, outcome), got {type(self.function).__name__}")
        require_bounds(self.lower, self.upper)
        states_convexity(self)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        if outcome.shape[-1] == 1:
            return self.function(action.squeeze(-1), outcome.squeeze(-1))
        return self.function(action, outcome)


def cost_function(
    function: Callable[[Tensor, Tensor], Tensor], lower: Parameter, upper: Parameter, convex: bool = False
) -> FunctionCost:
    """Wrap any torch function f(action, outcome) as a cost on [lower, upper].

    Args:
        function: The cost of an action at an outcome, differentiable in both. For a single outcome, D = 1, both
            arguments come without their last axis and f is elementwise; for D > 1 they are action (..., 1) and outcome
            (..., D), and f returns (...).
        lower: The least action that can be taken, finite.
        upper: The largest action that can be taken, finite and above `lower`.
        convex: Whether f is convex in the action, whatever the outcome. It is your word, on which certificates then
            rest: no number of evaluations can prove it. `solve_action` and `check_cost` raise where they see that it
            does not hold. Without it no action is certified; actions and gradients are those of a search.

    >>> import torch, stakes
    >>> cost = stakes.cost_function(lambda a, y: (a - y) ** 2, lower=0.0, upper=10.0)
    >>> members = torch.tensor([[1.0], [2.0], [6.0]])  # (M, D)
    >>> stakes.optimal_action(cost, members)
    tensor([3.])
    """
    return FunctionCost(function, lower, upper, convex)


def at_bounds(cost: Cost, action: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each action, or any part of it, is at the lower and at the upper bound, (...) each, bool.

    Args:
        cost: Whose bounds these are; an upper one that is None is none.
        action: Actions (..., A).
    """
    several = action.shape[-1] > 1

    def bound(value: Parameter | None, otherwise: float) -> Parameter:
        if not isinstance(value, Tensor):
            return otherwise if value is None else value
        return value.to(action.dtype) if several else value.to(action.dtype)[..., None]

    lower, upper = bound(cost.lower, -math.inf), bound(cost.upper, math.inf)
    return (action <= lower).any(-1), (action >= upper).any(-1)


def has_closed_form(cost: Cost, samples: Tensor) -> bool:
    """Whether the cost states the best action of such members by a formula, with the parameters that it has.

    Args:
        cost: Any cost.
        samples: Members (..., M, D) of a few cases.
    """
    return isinstance(cost, ClosedFormCost) and cost.best_action(samples) is not None


def states_convexity(cost: Cost) -> bool:
    """Whether the cost says, by `convex = True`, that it is convex in the action at every outcome.

    A class that inherits this word but not the call it was said of has to say it again.

    Args:
        cost: Any cost; one that says nothing is not known to be convex.
    """
    stated = getattr(cost, "convex", False)
    if not isinstance(stated, bool):
        raise CostError(f"convex must be True or False, got {stated!r}")
    kinds = type(cost).__mro__
    calling = next((kind for kind in kinds if "__call__" in vars(kind)), object)
    stating = next((kind for kind in kinds if "convex" in vars(kind)), calling)  # else the object itself says it
    return stated and issubclass(stating, calling)


def require_cost(cost: object) -> None:
    """Raise unless the object can serve as a cost.

    Args:
        cost: What came: it must have `lower`, `upper` and be callable, and be no class.
    """
    if isinstance(cost, type):
        raise CostError(f"cost must be a cost, got the class {cost.__name__}: make one, as in {cost.__name__}(...)")
    if not (callable(cost) and hasattr(cost, "lower") and hasattr(cost, "upper")):
        raise CostError(f"cost must have lower, upper and be callable as c(action, outcome), got {type(cost).__name__}")
    if not hasattr(cost, "program"):  # which has limits of its own, and checks them
        require_bounds(cost.lower, cost.upper)


def require_bounds(lower: Parameter, upper: Parameter) -> None:
    """Raise unless the bounds of an action are finite and ordered.

    Args:
        lower: The least action, a number or a tensor.
        upper: The largest action, above `lower` in every case.
    """
    require_below("lower", lower, "upper", upper, CostError)
