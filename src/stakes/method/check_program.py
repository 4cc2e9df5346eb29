"""Whether a decision with many parts is fit for training: convex, solvable for every outcome, with a gradient."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.errors import CostError, ShapeError
from stakes.method.actions import optimal_action, solve_action
from stakes.method.argument_checks import check_finite, check_samples
from stakes.method.convex_actions import ConvexCost
from stakes.method.costs import Cost, require_cost, shown_action, states_convexity
from stakes.method.limit_prices import limit_prices
from stakes.method.program_actions import PartsCost, ProgramCost
from stakes.method.programs import ScenarioProgram
from stakes.method.risk import plain_cost_of
from stakes.method.schedules import AllocationCost, ScheduleCost
from stakes.method.storage import ArbitrageCost, StorageCost
from stakes.number_text import number_text

__all__ = ["CheckedLimit", "ProgramCheck", "check_program", "lacks_gradient"]

_DERIVATIVE_TOLERANCE = 1e-3  # of the largest derivative
_AGREEMENT = 1e-5  # of the mean |cost|: by how much the cost and its program may differ
_STEP, _ASIDE = 1e-4, 1e-2  # of the members' standard deviation: a finite difference, and a step away from ties
_MOVES = 1e-4  # of the largest part: what an action moves by at least where all members move by their spread
_NOTHING = 1e-6  # an action that is zero but for the solver's tolerance
_ELSEWHERE = 8  # outcomes of other sets that each action is tried with
_BEYOND = 0.5  # of the range of the outcomes: how far beyond all of them an action is tried too
_WITH_CASES = ScheduleCost | AllocationCost | StorageCost | ArbitrageCost  # whose parameters may be those of each case
_OTHER_DERIVATIVES = (
    "In most sets the derivatives of the action do not agree with finite differences: several actions are equally "
    "good, or it sits at a kink."
)
_CURVED = -1e-9  # of the largest eigenvalue: what is no curvature downwards but rounding


class CheckedLimit(NamedTuple):
    """The limits of one parameter, such as all ramps of a day.

    Attributes:
        kind: The parameter.
        share: Share of the sets, from 0 to 1, in which one of them binds.
        saved: What one unit more of it, allowed everywhere, would save on average, in the cost's unit.
    """

    kind: str
    share: float
    saved: float


@dataclass(frozen=True)
class ProgramCheck:
    """What `check_program` saw in the sets of members it was given; `str()` is a table of it.

    It is a survey of these sets and no proof, but for convexity, which is read off the matrices; that of a function of
    your own is your word.

    Attributes:
        sets: How many sets of members were solved.
        members: How many members each set has.
        parts: How many parts an action has.
        convex: Whether the cost is convex in the action at every outcome; None where nobody says so and nothing that
            was looked at speaks against it.
        certified: Share of the sets, from 0 to 1, whose action is proven to be the best.
        infeasible: Share of the sets in which limits and covers contradict each other.
        unbounded: Share of the sets in which the cost falls without end.
        without_recourse: Share of outcomes, those of other sets and some beyond all of them, for which an action had no
            recourse, so that its cost is infinite.
        disagreement: Largest difference between what the cost charges and what its program does, of the mean cost.
        interior: Share of the sets in which no limit binds.
        limits: Where limits bind, by parameter.
        moving: Share of the sets whose action moves with the members, so that there is a gradient.
        derivative_error: Median difference of the derivative from finite differences, relative to the largest
            derivative; NaN where no action moves.
        differing: Share of the compared sets in which they differ: at a kink, or where several actions are equally good
            and the derivative is that of no particular choice.
        convex_by_word: Whether its author's word is all that `convex` rests on, as for a function.
    """

    sets: int
    members: int
    parts: int
    convex: bool | None
    certified: float
    infeasible: float
    unbounded: float
    without_recourse: float
    disagreement: float
    interior: float
    limits: tuple[CheckedLimit, ...]
    moving: float
    derivative_error: float
    differing: float
    convex_by_word: bool = False

    @property
    def fit_for_training(self) -> bool:
        """Convex, solved in every set, with recourse for every outcome, and a gradient that is right."""
        return not self.objections

    @property
    def objections(self) -> tuple[str, ...]:
        """Sentences about what speaks against training with it, the most important first."""
        sentences = {
            "The cost is not convex in the action.": self.convex is False,
            "It is not known whether the cost is convex in the action: say so if it is (convex=True).": (
                self.convex is None
            ),
            "In some sets limits and covers contradict each other.": self.infeasible > 0,
            "In some sets the cost falls without end.": self.unbounded > 0,
            "In some sets no best action was found.": bool(self.convex) and self.certified < 1,
            "For some outcomes an action has no recourse: its cost is infinite.": self.without_recourse > 0,
            "The cost is another than that of its program.": self.disagreement > _AGREEMENT,
            "The best action moves with no member: there is nothing to learn from the decision.": self.moving == 0,
            _OTHER_DERIVATIVES: self.derivative_error > _DERIVATIVE_TOLERANCE,
        }
        return tuple(sentence for sentence, holds in sentences.items() if holds)

    @property
    def _convex(self) -> str:
        known = {True: "yes", False: "no", None: "unknown"}[self.convex]
        return f"{known:>8}   on your word" if self.convex and self.convex_by_word else known

    def __str__(self) -> str:
        lines = [
            f"{'fit for training' if self.fit_for_training else 'NOT fit for training as it is'}: {self.sets} sets of "
            f"{self.members} members, {self.parts} parts",
            f"  convex                   {self._convex:>8}",
            f"  certified                {self.certified:8.2%}   proven to be the best",
            f"  infeasible, unbounded    {self.infeasible:8.2%}   {self.unbounded:.2%}",
            f"  without recourse         {self.without_recourse:8.2%}   of outcomes, some beyond all members",
            f"  no limit binds           {self.interior:8.2%}",
            f"  with a gradient          {self.moving:8.2%}",
            f"  derivative error         {self.derivative_error:8.1e}   against finite differences, the median; they "
            f"differ in {self.differing:.2%}",
        ]
        if self.limits:
            lines.append("  limit                    binds      one unit more saves")
        rows = [f"  {kind:<24.24} {share:8.1%}   {number_text(saved, 3):>10}" for kind, share, saved in self.limits]
        return "\n".join([*lines, *rows])


def check_program(cost: Cost, samples: Tensor, compared_sets: int = 16) -> ProgramCheck:
    """Solve every set of members and report convexity, feasibility, the limits that bind, and derivatives.

    Args:
        cost: A decision with many parts, such as `ScheduleCost` or `Program`, of one decision maker.
        samples: Sets of members (..., M, D) such as the model will make, in physical units.
        compared_sets: How many of the sets have their derivatives compared with finite differences.

    >>> import torch, stakes
    >>> members = torch.randn(20, 10, 3, generator=torch.Generator().manual_seed(0)).double() + 5
    >>> stakes.check_program(stakes.ScheduleCost(short=4.0, long=1.0, ramp=0.5), members).fit_for_training
    True
    """
    check_samples(samples)
    check_finite(samples, "samples", True)
    require_cost(cost)
    if not isinstance(cost, ProgramCost | PartsCost):
        raise CostError(f"a decision of one number is checked by check_cost, got {type(cost).__name__}")
    _require_one_maker(cost)
    if samples.numel() == 0 or compared_sets < 1:
        raise ShapeError("check_program needs at least one set of members, and one to compare")
    flat = samples.detach().double().reshape(-1, *samples.shape[-2:])
    solution = solve_action(cost, flat, check=False)
    program = cost.program(flat.shape[-1], flat.device) if isinstance(cost, ProgramCost) else None
    solved = solution.converged
    error, differing = _derivative_error(cost, flat[:: max(1, len(flat) // compared_sets)][:compared_sets])
    return ProgramCheck(
        sets=len(flat),
        members=flat.shape[-2],
        parts=shown_action(cost, solution.action).shape[-1],
        convex=_is_convex(program) if program is not None else _said_convex(cost, flat),
        certified=_share(solution.certified),
        infeasible=_share(solution.infeasible),
        unbounded=_share(solution.unbounded),
        without_recourse=_without_recourse(cost, solution.action[solved], flat),
        disagreement=0.0 if program is None else _disagreement(cost, program, solution.action[solved], flat[solved]),
        interior=_share(solution.interior & solved),
        limits=_binding(cost, flat),
        moving=_share(_moves(cost, solution.action, flat)),
        derivative_error=error,
        differing=differing,
        convex_by_word=isinstance(cost, ConvexCost),
    )


def lacks_gradient(cost: Cost, samples: Tensor) -> bool:
    """Whether the best action of a decision with many parts moves with no member, so that training learns nothing.

    That of one number is not looked at: False.

    Args:
        cost: Of one decision maker.
        samples: Sets of members (N, M, D), as a forecast would have them.
    """
    if not isinstance(cost, ProgramCost | PartsCost):
        return False
    flat = samples.detach().double()
    return not bool(_moves(cost, solve_action(cost, flat, check=False).action, flat).any())


def _require_one_maker(cost: Cost) -> None:
    """Raise where a parameter has cases of its own: those that are looked at are others."""
    plain = plain_cost_of(cost)
    for name, value in vars(plain).items():
        if isinstance(plain, _WITH_CASES) and isinstance(value, Tensor) and value.shape[:-1].numel() > 1:
            raise CostError(
                f"check_program takes the decision of one decision maker, got {name} of the shape {tuple(value.shape)}"
            )


def _said_convex(cost: Cost, samples: Tensor) -> bool | None:
    """Whether a cost without matrices is convex, by its author's word; False where it is seen not to be."""
    if isinstance(cost, ConvexCost) and not cost.convex:
        return False if bool(cost.seen_bent(samples, None).any()) else None
    return states_convexity(cost)


def _is_convex(program: ScenarioProgram) -> bool:
    """Whether no eigenvalue of P or Q is negative, but for rounding."""
    for matrix in (program.P, program.Q):
        if matrix is not None:
            square = matrix if matrix.dim() > 1 else torch.diag(matrix)
            values = torch.linalg.eigvalsh((square + square.mT) / 2)
            if bool((values < _CURVED * values.abs().max()).any()):
                return False
    return True


def _without_recourse(cost: Cost, action: Tensor, samples: Tensor) -> float:
    """The share of outcomes, those of other sets and corners beyond all, at which an action costs no finite number."""
    if not len(action):
        return 0.0
    pool = samples.flatten(0, 1)
    chosen = torch.randint(len(pool), (_ELSEWHERE, len(action)), generator=torch.Generator().manual_seed(0))
    low, high = pool.amin(0), pool.amax(0)
    corners = torch.stack([low, high, low - _BEYOND * (high - low), high + _BEYOND * (high - low)])
    outcomes = torch.cat([pool[chosen], corners[:, None].expand(-1, len(action), -1)])  # (tries, n, D)
    with torch.no_grad():
        return _share(~torch.isfinite(cost(action, outcomes)))


def _disagreement(cost: Cost, program: ScenarioProgram, action: Tensor, samples: Tensor) -> float:
    """By how much what one action costs more than another differs between the cost and its program."""
    if len(action) < 2:
        return 0.0
    other, outcome = action.roll(1, 0), samples[:, 0]
    with torch.no_grad():
        said = [cost(each, outcome) for each in (action, other)]
        made = [program.own_cost(each, outcome) + program.recourse_cost(each, outcome) for each in (action, other)]
        difference = (said[0] - said[1]) - (made[0] - made[1])
        size = torch.stack([*said, *made]).abs().mean().clamp(min=torch.finfo(torch.float64).tiny)
    known = torch.isfinite(difference)
    return float((difference[known] / size).abs().max()) if bool(known.any()) else 0.0


def _binding(cost: Cost, samples: Tensor) -> tuple[CheckedLimit, ...]:
    if not isinstance(cost, ProgramCost):
        return ()
    prices = limit_prices(cost, samples)
    saved = prices.saved_by()
    chosen = {kind: torch.tensor([own == kind for own in prices.kinds]) for kind in saved}
    return tuple(
        CheckedLimit(kind, _share(prices.binds[:, which].any(-1)), float(saved[kind].nanmean()))
        for kind, which in chosen.items()
    )


def _moves(cost: Cost, action: Tensor, samples: Tensor) -> Tensor:
    """Whether the action of each set moves with its members, (N,): more than the rounding of a corner does."""
    mixed = torch.randn(action.shape, dtype=action.dtype, generator=torch.Generator().manual_seed(0))
    reach = _pulled(cost, samples, mixed).abs().sum((-2, -1)) * samples.std(correction=0)
    return reach > _MOVES * action.abs().nan_to_num().max().clamp(min=_NOTHING)


def _pulled(cost: Cost, samples: Tensor, direction: Tensor) -> Tensor:
    """The gradient by the members of the product of each action with a direction (N, A)."""
    leaf = samples.detach().requires_grad_()
    action = optimal_action(cost, leaf, check=False)
    if not action.requires_grad:
        return torch.zeros_like(leaf)
    return torch.autograd.grad((action * direction).sum(), leaf, materialize_grads=True)[0]


def _derivative_error(cost: Cost, samples: Tensor) -> tuple[float, float]:
    """Median difference of a* moved along a random direction from its derivative; the share of sets that differ.

    All parts are compared at once, by their product with random numbers. As in `check_cost` every set is first moved
    aside, to where a forecast without ties would be.
    """
    generator = torch.Generator().manual_seed(0)
    aside, direction = torch.randn((2, *samples.shape), dtype=samples.dtype, generator=generator)
    spread = samples.std(correction=0).clamp(min=1e-6)
    samples, step = samples + _ASIDE * spread * aside, _STEP * spread
    ahead, behind = (
        solve_action(cost, samples + sign * step * direction, check=False, thorough=False).action
        for sign in (1.0, -1.0)
    )
    mixed = torch.randn(ahead.shape, dtype=samples.dtype, generator=generator)
    moved = ((ahead - behind) * mixed).sum(-1) / (2 * step)
    scale = moved.abs().max()
    if not bool(scale * spread > _MOVES * ahead.abs().max().clamp(min=_NOTHING)):
        return float("nan"), 0.0
    analytic = (_pulled(cost, samples, mixed) * direction).sum((-2, -1))
    error = (analytic - moved).abs() / scale
    return error.median().item(), _share(error > _DERIVATIVE_TOLERANCE)


def _share(flags: Tensor | None) -> float:
    return 0.0 if flags is None else flags.double().mean().item()
