"""The best action of a decision with many parts: in closed form where its parts are free of each other, else solved."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from stakes.errors import SettingError
from stakes.method.argument_checks import known_on_host
from stakes.method.costs import Cost
from stakes.method.interior_point import InteriorPoint
from stakes.method.programs import ScenarioProgram
from stakes.method.schedules import FreeAction

__all__ = ["PartlyFree", "ProgramAction", "ProgramCost", "program_action"]

_BINDS = 1e-6  # the distance from a limit, relative to the action, below which it binds


@runtime_checkable
class ProgramCost(Cost, Protocol):
    """A cost whose best action is that of a scenario program."""

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        """The matrices of the program.

        Args:
            outcomes: How many outcomes a case has.
            device: Where the numbers are; None for the CPU.
        """
        ...


@runtime_checkable
class PartlyFree(ProgramCost, Protocol):
    """A program whose parts are free of each other but for some limits."""

    def free_action(self, samples: Tensor, weights: Tensor | None = None) -> FreeAction:
        """The best action without these limits.

        Args:
            samples: Members (..., M, D).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        ...


class ProgramAction(NamedTuple):
    """The best action of each case (...), and what is known of it.

    Attributes:
        action: The action, (..., A), in double precision, differentiable in the members where that was asked for.
        gap: By how much another action could cost less at most, in the cost's unit, (...).
        residual: How far it is from meeting all limits and the conditions of a minimum, in units of the case, (...).
        solved: Whether gap and residual are small, (...), bool.
        interior: Whether no limit of the action binds, (...), bool.
    """

    action: Tensor
    gap: Tensor
    residual: Tensor
    solved: Tensor
    interior: Tensor


def program_action(
    cost: ProgramCost, samples: Tensor, weights: Tensor | None, solver: object = None, *, gradient: bool = False
) -> ProgramAction:
    """The best action of each forecast.

    Args:
        cost: The decision.
        samples: Members (..., M, D).
        weights: What each member weighs, (..., M); None where all count alike.
        solver: An `InteriorPoint`; None for the default one.
        gradient: Whether actions are to be differentiable in the members.
    """
    if solver is not None and not isinstance(solver, InteriorPoint):
        raise SettingError(f"solver must be an InteriorPoint for a decision with many parts, got {solver!r}")
    program = cost.program(samples.shape[-1], samples.device)
    free = cost.free_action(samples, weights) if isinstance(cost, PartlyFree) else None
    if free is None:
        return _solved(program, samples, weights, solver, gradient)
    alone = _of_free(program, free)
    if known_on_host(free.allowed.all()):
        return alone
    if known_on_host(free.allowed.any()) is None:  # on an accelerator all are solved: nothing waits for the device
        return _chosen(free.allowed, alone, _solved(program, samples, weights, solver, gradient))
    places = (~free.allowed).flatten().nonzero()[:, 0]
    part = _solved(program, samples, weights, solver, gradient, places)
    return ProgramAction(
        *(_with_part(whole, places, each, free.allowed.shape) for whole, each in zip(alone, part, strict=True))
    )


def _solved(
    program: ScenarioProgram,
    samples: Tensor,
    weights: Tensor | None,
    solver: InteriorPoint | None,
    gradient: bool,
    places: Tensor | None = None,
) -> ProgramAction:
    """By the program, of all cases or of those at some places."""
    action, solution = program.solve(samples, weights, solver, gradient=gradient, places=places)
    shape = action.shape[:-1]
    gap, residual, solved = (each.reshape(shape) for each in (solution.gap, solution.residual, solution.solved))
    interior = program.slack(action.detach(), places, samples.shape[:-2]) > _BINDS
    return ProgramAction(action, gap, residual, solved, interior)


def _of_free(program: ScenarioProgram, free: FreeAction) -> ProgramAction:
    """An action in closed form, which needs no proof."""
    action = free.action.double()
    nothing = torch.zeros_like(action[..., 0]).detach()
    interior = program.slack(action.detach(), None, nothing.shape) > _BINDS
    return ProgramAction(action, nothing, nothing, nothing == 0, interior)


def _chosen(mask: Tensor, one: ProgramAction, two: ProgramAction) -> ProgramAction:
    """The one where the mask (...) says so, else the other."""
    parts, wide = zip(one, two, strict=True), mask[..., None]
    return ProgramAction(
        *(torch.where(wide if first.dim() > mask.dim() else mask, first, other) for first, other in parts)
    )


def _with_part(whole: Tensor, places: Tensor, part: Tensor, cases: torch.Size) -> Tensor:
    """The whole (..., A) or (...) with the cases at some places replaced."""
    own = whole.shape[len(cases) :]
    return whole.reshape(cases.numel(), *own).index_copy(0, places, part).reshape(whole.shape)
