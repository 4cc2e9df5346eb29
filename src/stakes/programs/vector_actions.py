"""The best vector action: in closed form where its parts are free of each other, else by the solver that fits."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from stakes.argument_checks import known_on_host
from stakes.costs.cost import Cost
from stakes.errors import SettingError
from stakes.programs.interior_point import InteriorPoint
from stakes.programs.scenario_program import ScenarioProgram
from stakes.programs.schedules import FreeAction, JoinedAction, ScheduleCost
from stakes.programs.vector_cost import redone

BINDS = 1e-6
"""The distance from a limit, relative to the action, up to which it binds."""

_PROVEN = 1e-9  # the largest residual of an exact action whose proof holds


@runtime_checkable
class ProgramCost(Cost, Protocol):
    """A cost whose best action is that of a scenario program."""

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        """The matrices of the program."""
        ...


@runtime_checkable
class PartlyFree(ProgramCost, Protocol):
    """A program whose parts are free of each other but for some limits, and that is solved exactly without a solver."""

    def free_action(self, samples: Tensor, weights: Tensor | None = None) -> FreeAction:
        """The best action without these limits."""
        ...

    def joined_action(self, samples: Tensor, weights: Tensor | None = None) -> JoinedAction:
        """The best action with these limits."""
        ...


@runtime_checkable
class NamedParts(Cost, Protocol):
    """A decision whose actions have other parts than one for each outcome."""

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """What the A parts are called."""
        ...


def part_names(cost: Cost, outcomes: Sequence[str], parts: int) -> tuple[str, ...]:
    """What the parts of an action are called: as the outcomes are, where there is one for each of them."""
    if parts == 1:
        return ("action",)
    if isinstance(cost, NamedParts):
        return cost.part_names(outcomes)
    return tuple(outcomes) if parts == len(outcomes) else tuple(map(str, range(1, parts + 1)))


def has_part_of_each(cost: Cost, outcomes: int, parts: int) -> bool:
    """Whether an action has one part for each outcome, in their order."""
    names = tuple(map(str, range(outcomes)))
    return parts == outcomes and part_names(cost, names, parts) == names


def action_parts(cost: Cost, outcomes: int) -> int:
    """How many parts an action has, but for those that only the charge needs."""
    if isinstance(cost, ProgramCost):
        return cost.program(outcomes).parts
    if not isinstance(cost, VectorCost):
        return 1
    if isinstance(parts := getattr(cost, "parts", None), int):
        return parts
    plain = getattr(cost, "cost", None)  # one that averts risk, or comes from a user's file
    return 1 if plain is None else action_parts(plain, outcomes)


def action_unit(cost: Cost, samples: Tensor, weights: Tensor | None = None) -> Tensor | None:
    """How large an action is that matters in each case, (...): what is small beside it is nothing; None
    for one number.
    """
    if isinstance(cost, ProgramCost):
        return cost.program(samples.shape[-1], samples.device).unit(samples, weights)
    inner = getattr(cost, "cost", None)
    return None if inner is None else action_unit(inner, samples, weights)


def requires_eager(cost: Cost) -> bool:
    """Whether code that is being compiled must leave a decision alone: one with many parts has solvers of its own."""
    many = hasattr(cost, "program") or hasattr(cost, "find_action")  # compiled code does not know protocols
    return many and torch.compiler.is_compiling()


class ProgramAction(NamedTuple):
    """The best action of each case (...), and what is known of it."""

    action: Tensor
    gap: Tensor  # by how much another action could cost less at most, in the cost's unit, (...)
    residual: Tensor
    solved: Tensor  # whether gap and residual are small, (...), bool
    interior: Tensor
    curvature: Tensor  # the least of the action's own cost in any direction, (...); likewise NaN
    infeasible: Tensor  # whether it is proven that no action meets all limits, (...), bool
    unbounded: Tensor  # whether it is proven that the cost has no lower bound, (...), bool
    objective: Tensor | None = None


@runtime_checkable
class VectorCost(Cost, Protocol):
    """A cost that finds its own best action of many parts."""

    def find_action(
        self, samples: Tensor, weights: Tensor | None, solver: object = None, *, gradient: bool = False
    ) -> ProgramAction:
        """The best action of each forecast."""
        ...


def parts_action(
    cost: ProgramCost | VectorCost,
    samples: Tensor,
    weights: Tensor | None,
    solver: object = None,
    *,
    gradient: bool = False,
) -> ProgramAction:
    """The best action of each forecast for a decision with many parts."""
    if isinstance(cost, VectorCost):
        return cost.find_action(samples, weights, solver, gradient=gradient)
    return program_action(cost, samples, weights, solver, gradient=gradient)


def program_action(
    cost: ProgramCost, samples: Tensor, weights: Tensor | None, solver: object = None, *, gradient: bool = False
) -> ProgramAction:
    """The best action of each forecast."""
    if solver is not None and not isinstance(solver, InteriorPoint):
        raise SettingError(f"solver must be an InteriorPoint for a decision with many parts, got {solver!r}")
    program = cost.program(samples.shape[-1], samples.device)
    if not isinstance(cost, PartlyFree):
        found, objective = _solved(program, samples, weights, solver, gradient)
        return found._replace(objective=objective)
    known = torch.isfinite(samples.detach()).all(-1).all(-1)
    if solver is None or solver.smoothing is not None:
        exact = _of_joined(program, cost.joined_action(samples, weights), samples, weights, known, gradient)
        if not gradient:
            return _with_reasons(exact, program, samples, weights, known)
        if solver is None:
            return exact
        smooth = _solved(program, samples, weights, solver, gradient)[0].action
        return exact._replace(action=exact.action.detach() + (smooth - smooth.detach()))
    return _free_or_solved(cost, samples, weights, solver, known, gradient)


def _free_or_solved(
    cost: PartlyFree, samples: Tensor, weights: Tensor | None, solver: InteriorPoint, known: Tensor, gradient: bool
) -> ProgramAction:
    """In closed form where that meets all limits, else by the program."""
    program, cases = cost.program(samples.shape[-1], samples.device), samples.shape[:-2]
    near, members, middle = cost.centred(samples, weights) if isinstance(cost, ScheduleCost) else (cost, samples, 0)
    nearby = near.program(samples.shape[-1], samples.device)
    free = near.free_action(members, weights)
    alone = _of_free(nearby, free, members, weights, known, gradient)

    def solve(places: Tensor | None) -> tuple[Tensor, ...]:
        return _in_one_axis(
            _solved(nearby, members, weights, solver, gradient, places)[0], 1 if places is not None else len(cases)
        )

    parts = redone(free.allowed.flatten(), _in_one_axis(alone, len(cases)), solve)
    found = ProgramAction(*(part.reshape(*cases, *part.shape[1:]) for part in parts))
    action = found.action + middle
    return found._replace(action=action, interior=is_interior(program, action, samples, weights, gradient))


def _in_one_axis(actions: ProgramAction, axes: int) -> tuple[Tensor, ...]:
    """All that is known of them, with the cases in one axis."""
    return tuple(each.reshape(-1, *each.shape[axes:]) for each in actions if each is not None)


def _solved(
    program: ScenarioProgram,
    samples: Tensor,
    weights: Tensor | None,
    solver: InteriorPoint | None,
    gradient: bool,
    places: Tensor | None = None,
) -> tuple[ProgramAction, Tensor]:
    """By the program, of all cases or of those at some places, and its objective."""
    action, solution = program.solve(samples, weights, solver, gradient=gradient, places=places)
    shape = action.shape[:-1]
    names = ("gap", "residual", "solved", "infeasible", "unbounded")
    gap, residual, solved, infeasible, unbounded = (getattr(solution, name).reshape(shape) for name in names)
    interior = is_interior(program, action, samples, weights, gradient, places)
    curvature = least_curvature(program, samples.shape[:-2], gradient, places)
    found = ProgramAction(action, gap, residual, solved, interior, curvature, infeasible, unbounded)
    return found, solution.objective.reshape(shape)


def _with_reasons(
    exact: ProgramAction, program: ScenarioProgram, samples: Tensor, weights: Tensor | None, known: Tensor
) -> ProgramAction:
    """The exact action, found without a solver, and why where it has no proof: the solver knows."""
    left = (known & ~exact.solved).flatten()
    if not known_on_host(left.any()):
        return exact
    places = left.nonzero()[:, 0]
    again = program.solve(samples, weights, places=places).solution
    infeasible, unbounded = (
        torch.zeros_like(left).index_copy(0, places, proven).reshape(known.shape)
        for proven in (again.infeasible, again.unbounded)
    )
    return exact._replace(infeasible=infeasible, unbounded=unbounded)


def _of_free(
    program: ScenarioProgram,
    free: FreeAction,
    samples: Tensor,
    weights: Tensor | None,
    known: Tensor,
    gradient: bool,
) -> ProgramAction:
    """An action in closed form, which needs no proof where its members are known, (...)."""
    action = free.action.double()
    nothing = torch.zeros_like(action[..., 0]).detach()
    interior = is_interior(program, action, samples, weights, gradient)
    curvature = least_curvature(program, nothing.shape, gradient)
    no = torch.zeros_like(known)
    return ProgramAction(action, nothing, nothing, known, interior, curvature, no, no)


def is_interior(
    program: ScenarioProgram,
    action: Tensor,
    samples: Tensor,
    weights: Tensor | None,
    gradient: bool,
    places: Tensor | None = None,
) -> Tensor:
    """Whether no limit of an action binds, (...), or (n,) of some cases."""
    if gradient:
        return torch.zeros_like(action[..., 0], dtype=torch.bool)
    return program.slack(action, samples, weights, places) > BINDS


def least_curvature(
    program: ScenarioProgram, cases: torch.Size, gradient: bool, places: Tensor | None = None
) -> Tensor:
    """The least curvature of the action's own cost in any direction, (...), or (n,) of some cases."""
    least = program.T.new_full((), torch.nan) if gradient else program.least_curvature
    return least.expand(cases) if places is None else least.expand(cases).flatten()[places]


def _of_joined(
    program: ScenarioProgram,
    joined: JoinedAction,
    samples: Tensor,
    weights: Tensor | None,
    known: Tensor,
    gradient: bool,
) -> ProgramAction:
    """An exact action, with its proof; without one it has no gradient."""
    action, gap, residual = joined
    solved = known & (residual <= _PROVEN) & torch.isfinite(gap)
    interior = is_interior(program, action, samples, weights, gradient)
    shown = torch.where(solved[..., None], action, action.detach())
    curvature, no = least_curvature(program, gap.shape, gradient), torch.zeros_like(solved)
    return ProgramAction(shown, gap, residual, solved, interior, curvature, no, no)
