"""The action of least expected cost, its certificate and its gradient."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature

import torch
from torch import Tensor

from stakes.actions.certificates import certify, check_closed_form, check_stated_convexity, places_of, settled
from stakes.actions.implicit_gradient import solve_between_walls, solve_with_jacobian
from stakes.actions.scalar_solvers import Located, NewtonBisection, Solver, global_search
from stakes.argument_checks import check_finite, check_samples, working_precision
from stakes.costs.cost import (
    ActionSolution,
    Cost,
    closed_form_of,
    require_cost,
    requires_eager,
    states_convexity,
    vector_cost,
)
from stakes.costs.derivatives import ExpectedCost, with_gradient
from stakes.costs.member_weights import relative_weights
from stakes.errors import CostError
from stakes.programs.convex_actions import BarrierNewton
from stakes.programs.interior_point import InteriorPoint


def solve_action(
    cost: Cost,
    samples: Tensor,
    solver: Solver | InteriorPoint | BarrierNewton | None = None,
    *,
    weights: Tensor | None = None,
    check: bool | None = None,
    thorough: bool = True,
) -> ActionSolution:
    """Bayes action of each forecast, with its certificate and without gradients    (eq. optimal_action_mc).

    A cost that is known to be convex in the action gets a certificate. Any other is searched thoroughly: more than four
    hundred actions are looked at, the members among them, and the best is refined; that proves nothing, see
    `ActionSolution`.

    Args:
        cost: What the action costs at an outcome; parameters that are tensors broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How the minimum is found. None takes the cost's closed form where it has one, `NewtonBisection()` for
            another cost that is known to be convex, and the thorough search for any other.
        weights: What each member weighs, (..., M) or (M,) for all cases, not negative; only ratios matter. None where
            all count alike. A closed form that takes no `weights` is passed over for a solver.
        check: Whether to look for NaN and infinite members: True always does, False never; None does so on a CPU,
            where no captured training step could be disturbed.
        thorough: Whether a cost that is not known to be convex is searched thoroughly, and what its author states is
            spot-checked. False takes `NewtonBisection()` for it, as `optimal_action` does, which is several times
            faster and may miss the best minimum. A decision with many parts then keeps the numbers of its search where
            there is no solution, so that they spoil no mean; otherwise action and expected cost are NaN there.

    >>> import torch, stakes
    >>> power = torch.tensor([[[0.2], [0.4], [0.9]]])  # one case, three members, one site
    >>> solution = stakes.solve_action(stakes.ShortfallCost(penalty=5.0), power)
    >>> solution.action, solution.interior, solution.certified
    (tensor([[0.4500]]), tensor([True]), tensor([True]))
    """
    if requires_eager(cost):
        return torch.compiler.disable(solve_action)(
            cost, samples, solver, weights=weights, check=check, thorough=thorough
        )
    if _in_inference_mode():
        with torch.inference_mode(False):  # the certificate needs derivatives
            weights = None if weights is None else weights.clone()
            return solve_action(cost, samples.clone(), solver, weights=weights, check=check, thorough=thorough)
    with torch.no_grad(), _full_precision(samples):
        given = weights
        samples, weights = _prepare(cost, samples, weights, check)
        if (vector := vector_cost(cost)) is not None:
            if thorough:
                check_stated_convexity(cost, samples, weights)
            solution = _in_precision_of(samples, vector.solve(samples, weights, solver))
            return _answered(solution) if thorough else solution
        convex = states_convexity(cost)
        # Single precision proves nothing where prices or weights are far apart.
        exact = samples.double() if convex else samples
        exact_weights = relative_weights(given, exact)
        closed_form = _closed_form(cost, exact, exact_weights) if solver is None else None
        if closed_form is not None:
            action = closed_form[..., 0].to(samples.dtype)
            return check_closed_form(cost, exact, exact_weights, action, thorough)
        if thorough:
            check_stated_convexity(cost, samples, weights)
        chosen = solver or _default_solver(cost, samples, thorough)
        solution = solve_with_jacobian(cost, samples, weights, chosen)[0]
        if not convex:
            return solution
        return certify(cost, exact, exact_weights, solution, None if solver is None else chosen.tolerance)


def optimal_action(
    cost: Cost,
    samples: Tensor,
    solver: Solver | InteriorPoint | BarrierNewton | None = None,
    *,
    weights: Tensor | None = None,
    check: bool | None = None,
    thorough: bool = False,
) -> Tensor:
    """Bayes action (..., A) of each forecast, differentiable in the members               (eq. ift_member).

    The gradient is that of the implicit function theorem, zero at the bounds and where the search has not converged. It
    is a first derivative: the result cannot be differentiated twice.

    It is made for training: a cost without a closed form is scanned at nine actions and the best of them refined, which
    finds the best action if the expected cost is convex, and otherwise may miss it. `solve_action` searches thoroughly,
    and so does this where it is asked to.

    Args:
        cost: What the action costs at an outcome; parameters that are tensors broadcast to the cases (...).
        samples: Members (..., M, D) of each forecast, in physical units.
        solver: How the minimum is found. None takes the cost's closed form where it has one, else `NewtonBisection()`.
            `InteriorPoint(smoothing=0.01)` leaves that as it is and takes the gradient of the action between walls,
            which the bounds do not block.
        weights: What each member weighs, (..., M) or (M,) for all cases, not negative; only ratios matter, and no
            gradient goes to them. None where all count alike. A closed form that takes no `weights` is passed over for
            a solver.
        check: Whether to look for NaN and infinite members: True always does, False never; None does so on a CPU,
            where no captured training step could be disturbed.
        thorough: Whether a cost that is not known to be convex is searched as thoroughly as `solve_action` does it,
            whose action this then is. It is meant for judging decisions, where no training step waits.
    """
    if requires_eager(cost):
        eager = torch.compiler.disable(optimal_action)
        return eager(cost, samples, solver, weights=weights, check=check, thorough=thorough)
    if _in_inference_mode():
        with torch.inference_mode(False), torch.no_grad():  # the solver needs derivatives
            weights = None if weights is None else weights.clone()
            return optimal_action(cost, samples.clone(), solver, weights=weights, check=check, thorough=thorough)
    with _full_precision(samples):
        given = weights
        samples, weights = _prepare(cost, samples, weights, check)
        if (vector := vector_cost(cost)) is not None:
            return vector.best_action(samples, weights, solver).to(samples.dtype)
        if isinstance(solver, InteriorPoint) and solver.smoothing is not None:
            return _between_walls(cost, samples, weights, solver.smoothing, thorough)
        exact = samples.double() if thorough and states_convexity(cost) else samples  # as `solve_action` does it
        closed_form = _closed_form(cost, exact, relative_weights(given, exact)) if solver is None else None
        if closed_form is not None:
            return closed_form.to(samples.dtype)
        with torch.no_grad():
            members = samples.detach()
            chosen = solver or _default_solver(cost, members, thorough)
            solution, jacobian = solve_with_jacobian(cost, members, weights, chosen)
            action = solution.action[..., 0]
            if solver is None and thorough and states_convexity(cost):
                action = settled(cost, exact.detach(), relative_weights(given, exact), action)[0]
        return with_gradient(action, samples, jacobian)[..., None]


def _between_walls(cost: Cost, samples: Tensor, weights: Tensor | None, smoothing: float, thorough: bool) -> Tensor:
    """The best action with the gradient of the one between walls; its own where the search for that did not end."""
    exact = optimal_action(cost, samples, weights=weights, check=False, thorough=thorough)
    with torch.no_grad():
        solution, jacobian = solve_between_walls(cost, samples.detach(), weights, smoothing)
    smooth = with_gradient(exact[..., 0].detach(), samples, jacobian)[..., None]
    return torch.where((solution.converged & solution.interior)[..., None], smooth, exact)


def _in_precision_of(samples: Tensor, best: ActionSolution) -> ActionSolution:
    """A solution in double precision in that of the samples, certified where its expected cost is finite there."""
    names = ("action", "expected_cost", "residual", "curvature")
    rounded = replace(best, **{name: getattr(best, name).to(samples.dtype) for name in names})
    return replace(rounded, certified=best.certified & torch.isfinite(rounded.expected_cost))


def _answered(solution: ActionSolution) -> ActionSolution:
    """The solution with no numbers for what has none: they would break limits, or stand for a cost without end."""
    assert solution.infeasible is not None
    assert solution.unbounded is not None
    none = solution.infeasible | solution.unbounded
    return replace(
        solution,
        action=torch.where(none[..., None], torch.nan, solution.action),
        expected_cost=torch.where(none, torch.nan, solution.expected_cost),
        interior=solution.interior & ~none,
        gap=None if solution.gap is None else torch.where(none, torch.nan, solution.gap),
    )


def _default_solver(cost: Cost, samples: Tensor, thorough: bool) -> Solver:
    """How a cost without a closed form is solved where nothing else is asked for."""
    return _Thorough(places_of(cost, samples)) if thorough and not states_convexity(cost) else NewtonBisection()


@dataclass(frozen=True)
class _Thorough:
    """The thorough search as a solver."""

    places: Tensor  # (..., M)
    tolerance: float = NewtonBisection().tolerance

    def __call__(self, expected_cost: ExpectedCost, lower: Tensor, upper: Tensor) -> Located:
        return global_search(expected_cost, lower, upper, self.places)


def _in_inference_mode() -> bool:
    return not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()


def _prepare(cost: Cost, samples: Tensor, weights: Tensor | None, check: bool | None) -> tuple[Tensor, Tensor | None]:
    check_samples(samples)
    if vector_cost(cost) is None:
        require_cost(cost)
        _require_batch_shape(cost, samples.shape[:-2])
    check_finite(samples, "samples", check)
    samples = working_precision(samples)
    return samples, relative_weights(weights, samples)


def _require_batch_shape(cost: Cost, cases: torch.Size) -> None:
    """Raise if a tensor parameter would broadcast the cases to something else."""
    parameters = {**getattr(cost, "__dict__", {}), "lower": cost.lower, "upper": cost.upper}
    for name, value in parameters.items():
        if isinstance(value, Tensor) and not _broadcasts_to(value.shape, cases):
            raise CostError(
                f"{name} must be a number or broadcast to the cases {tuple(cases)}, got shape {tuple(value.shape)}"
            )


def _broadcasts_to(shape: torch.Size, cases: torch.Size) -> bool:
    sizes = zip(reversed(shape), reversed(cases), strict=False)
    return len(shape) <= len(cases) and all(size in (1, wanted) for size, wanted in sizes)


def _full_precision(samples: Tensor) -> AbstractContextManager[object]:
    """Autocast off: the network may run in half precision, the argmin does not."""
    device = samples.device.type if isinstance(samples, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _closed_form(cost: Cost, samples: Tensor, weights: Tensor | None) -> Tensor | None:
    formula = closed_form_of(cost)
    if formula is None or weights is None:
        return None if formula is None else formula(samples)
    return formula(samples, weights=weights) if "weights" in signature(formula).parameters else None
