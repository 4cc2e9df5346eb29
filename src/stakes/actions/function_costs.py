"""How a function of action and outcome becomes a cost."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from stakes.costs.cost import Parameter, refuse_numpy, require_bounds, states_convexity
from stakes.errors import CostError
from stakes.programs.convex_actions import ConvexCost, Limits


@dataclass(frozen=True)
class FunctionCost:
    """A torch function of action and outcome as a cost; see `cost_function`."""

    function: Callable[[Tensor, Tensor], Tensor]  # f(action, outcome), as in `cost_function`
    lower: Parameter  # the least action that can be taken
    upper: Parameter  # the largest action that can be taken
    convex: bool = False  # whether the author says that the cost is convex in the action

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise CostError(f"function must be callable as f(action, outcome), got {type(self.function).__name__}")
        require_bounds(self.lower, self.upper)
        states_convexity(self)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        if outcome.shape[-1] == 1:
            action, outcome = action.squeeze(-1), outcome.squeeze(-1)
        try:
            return self.function(action, outcome)
        except (RuntimeError, TypeError) as error:
            refuse_numpy(error)
            raise


def cost_function(
    function: Callable[[Tensor, Tensor], Tensor],
    lower: Parameter,
    upper: Parameter,
    convex: bool = False,
    *,
    limits: Limits | None = None,
    parts: int | None = None,
) -> FunctionCost | ConvexCost:
    """Wrap any torch function f(action, outcome) as a cost on [lower, upper].

    An action with many parts, A > 1, comes with `limits` or `parts`. Then f is to be convex in the action and twice
    differentiable: it is searched from the middle of the limits, and where f is not convex another minimum may be
    better. Where the curvature at the action is negative in any direction there is no gradient.

    Args:
        function: The cost of an action at an outcome, differentiable in both. For a single outcome, D = 1, both
            arguments come without their last axis and f is elementwise; for D > 1 they are action (..., 1) and outcome
            (..., D), and f returns (...). With many parts they are always action (..., A) and outcome (..., D).
        lower: The least action that can be taken, finite; with many parts a number, or a tensor whose last axis is A
            or 1.
        upper: The largest action that can be taken, finite and above `lower`; likewise.
        convex: Whether f is convex in the action, whatever the outcome. It is your word, on which certificates then
            rest: no number of evaluations can prove it. `solve_action`, `check_cost` and `check_program` raise where
            they see that it does not hold. Without it no action is certified; actions and gradients are those of a
            search.
        limits: (G, g) for G a <= g, or (G, g, E, e) with E a = e besides: matrices (K, A) and (J, A), and what they
            allow, (..., K) and (..., J); None for bounds alone.
        parts: A; None for the columns of G, or for one number where there are no limits.

    >>> import torch, stakes
    >>> cost = stakes.cost_function(lambda a, y: (a - y) ** 2, lower=0.0, upper=10.0)
    >>> members = torch.tensor([[1.0], [2.0], [6.0]])  # (M, D)
    >>> stakes.optimal_action(cost, members)
    tensor([3.])
    >>> budget = torch.ones(1, 2), torch.tensor([4.0])  # a_1 + a_2 <= 4
    >>> cost = stakes.cost_function(lambda a, y: ((a - y) ** 2).sum(-1), 0.0, 10.0, limits=budget)
    >>> stakes.optimal_action(cost, torch.tensor([[1.0, 4.0], [3.0, 2.0]])).round(decimals=4)
    tensor([1.5000, 2.5000])
    """
    if limits is None and parts is None:
        return FunctionCost(function, lower, upper, convex)
    if parts is None:
        shape = limits[0].shape if isinstance(limits, tuple) and limits and isinstance(limits[0], Tensor) else ()
        if len(shape) != 2:
            raise CostError("limits must be (G, g) with a matrix G, (K, A), for G a <= g")
        parts = int(shape[1])
    return ConvexCost(function, lower, upper, parts, limits, convex)
