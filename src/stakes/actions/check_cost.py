"""Whether a cost is fit for training and where its gradient acts; whether a vector decision can be solved."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.actions.scalar_solvers import ACTIONS_LOOKED_AT
from stakes.actions.solve import (
    case_bounds,
    check_stated_convexity,
    expected_cost_of,
    optimal_action,
    slope_with_rounding,
    solve_action,
)
from stakes.argument_checks import check_finite, check_samples
from stakes.costs.cost import (
    Cost,
    closed_form_of,
    is_program,
    plain_cost_of,
    require_cost,
    shown_action,
    states_convexity,
    vector_cost,
)
from stakes.costs.member_weights import slope_and_curvature
from stakes.errors import CostError, SettingError, ShapeError
from stakes.programs.scenario_program import ScenarioProgram, limit_prices, program_cost
from stakes.text import count_text, number_text

_DERIVATIVE_TOLERANCE = 1e-4
_MISSED = 1e-4  # of the mean |expected cost|
_STEP, _ASIDE = 1.25e-5, 1e-2  # of the members' standard deviation: a finite difference, and a step away from ties
_KINK = 1e-4  # of the largest derivative: how far the derivatives ahead and back may differ
_BESIDE = 2e-5  # of the action, or of the bounds' distance: how far beside an action its slopes are looked at
_JUMP = 8.0  # a slope that changes by more than that many times what the curvature explains jumps
_NUMBERS_AT_ONCE = 1 << 21

_NEVER_MOVES = "The best action does not depend on the members, so the decision has no gradient."
_ALWAYS_AT_A_BOUND = "The best action is at a bound in every set, so the decision has no gradient."
_AT_A_KINK = "In some sets the best action is at a kink of the expected cost, where a search finds no gradient."
_NOT_CURVED = "The expected cost is not curved at some of the best actions, so the decision has no gradient there."
_OTHER_DERIVATIVES = "The derivatives of the action do not agree with finite differences."
_OTHER_DERIVATIVES_IN_MANY = (
    "In many sets the derivatives of the action do not agree with finite differences, because several actions are "
    "equally good or it sits at a kink."
)
_ABOUT_THE_GRADIENT = (_ALWAYS_AT_A_BOUND, _AT_A_KINK, _NOT_CURVED, _OTHER_DERIVATIVES)


@dataclass(frozen=True)
class GradientMass:
    """Where the decision gradient acts: the share of members and of |d a*/d y_m| in each bin of member values.

    A bin with a `gradient_share` near zero gets no help from the decision term, whatever its weight.
    """

    edges: Tensor  # edges (bins + 1,) of the bins, in the outcome's unit; a member counts by its mean over the sites
    member_share: Tensor  # share (bins,) of the members that lie in each bin
    gradient_share: Tensor  # share (bins,) of the sum of |d a*/d y_m| that falls on them

    @property
    def sentence(self) -> str:
        """The narrowest range of bins with most of the gradient, in words."""
        gradient, members, edges = self.gradient_share.tolist(), self.member_share.tolist(), self.edges.tolist()
        if sum(gradient) < 0.5:
            return "The decision gradient is zero everywhere."
        ranges = [(end - start, start, end) for start in range(len(gradient)) for end in range(start + 1, len(edges))]
        _, start, end = min(each for each in ranges if sum(gradient[each[1] : each[2]]) >= _MUCH - 1e-9)
        low, high = (number_text(edges[place], 3) for place in (start, end))
        return (
            f"Members from {low} to {high}, {sum(members[start:end]):.0%} of all, get "
            f"{sum(gradient[start:end]):.0%} of the gradient."
        )

    @property
    def rows(self) -> list[str]:
        """A header, and a line for each bin."""
        edges = self.edges.tolist()
        bins = zip(edges[:-1], edges[1:], self.member_share.tolist(), self.gradient_share.tolist(), strict=True)
        return ["  member value             members   gradient"] + [
            f"  {number_text(low, 3):>10} ..{number_text(high, 3):>10} {members:8.1%}   {gradient:8.1%}  "
            f"{'#' * round(40 * gradient)}".rstrip()
            for low, high, members, gradient in bins
        ]


_MUCH = 0.8  # of the gradient


class _Check:
    """A survey of sets of members, with objections to training on a cost."""

    @property
    def fit_for_training(self) -> bool:
        """Whether there is no objection to training on it."""
        return not self.objections

    @property
    def objections(self) -> tuple[str, ...]:
        """Objections to training on it, the most important first."""
        return tuple(sentence for sentence, holds in self._doubts().items() if holds)

    def _doubts(self) -> dict[str, bool]:
        raise NotImplementedError

    @property
    def _verdict(self) -> list[str]:
        if self.fit_for_training:
            return ["Fit for training: yes."]
        return [f"Fit for training: NO. {self.objections[0]}", *self.objections[1:]]


@dataclass(frozen=True)
class CostCheck(_Check):
    """Result of `check_cost` for the given sets of members; `str()` prints it.

    It is a survey and proves nothing: another forecast may meet a bound, a flat stretch or a second minimum.
    `ActionSolution` defines converged and certified.

    Attributes:
        sets: How many sets of members were solved.
        members: How many members each set has.
        at_lower: Share of the sets, from 0 to 1, whose action lies at the lower bound.
        at_upper: Share of the sets whose action lies at the upper bound.
        interior: Share of the sets whose action lies strictly between the bounds.
        flagged: Share of the sets whose action is not at a kink and did not converge, or has neither curvature nor a
            closed form: the expected cost is flat, falls again after it has risen, or its minimum was not reached.
        curved: Share of the interior sets with curvature H > 0 and no kink at the action; 1 if there are none.
        least_curvature: Smallest H at an interior solution; NaN if there are none.
        derivative_error: Largest difference of d a*/d y from finite differences, relative to the largest derivative,
            kinks left out.
        kinked: Share of the compared sets that were left out because the derivative jumps there.
        closed_form: Whether the cost has a closed form for these members.
        gradient_mass: Where the members lie, and where the gradient acts.
        certified: Share of the sets whose action is proven to be the best; 0 if the cost is not known to be convex.
        missed: Share of the sets in which the quick search of training finds a worse action than the thorough search;
            0 for a convex cost.
        at_kink: Share of the interior sets whose action is at a kink of the expected cost, where only a closed form
            gives a gradient; 0 if there are none.
        convex: Whether the cost is declared convex in the action.
    """

    sets: int
    members: int
    at_lower: float
    at_upper: float
    interior: float
    flagged: float
    curved: float
    least_curvature: float
    derivative_error: float
    kinked: float
    closed_form: bool
    gradient_mass: GradientMass
    certified: float
    missed: float
    at_kink: float = 0.0
    convex: bool = False

    @property
    def derivatives_differ(self) -> bool:
        """Whether derivatives are known not to agree with finite differences."""
        return self.derivative_error > _DERIVATIVE_TOLERANCE

    def _doubts(self) -> dict[str, bool]:
        return {
            _ALWAYS_AT_A_BOUND: self.interior == 0,
            "The expected cost has several minima, and the search in training misses the best of them.": (
                self.missed > 0
            ),
            _AT_A_KINK: self.at_kink > 0 and not self.closed_form,
            "The expected cost is flat, has several minima, or its minimum is not reached in some sets.": (
                self.flagged > 0
            ),
            _NOT_CURVED: self.curved < 1 and not self.at_kink and not self.closed_form,
            _OTHER_DERIVATIVES: not self.derivative_error <= _DERIVATIVE_TOLERANCE,
        }

    def __str__(self) -> str:
        how = "by a formula" if self.closed_form else "by a search"
        lines = [
            *self._verdict,
            f"The best action is found {how}. It is inside the bounds in {self.interior:.1%} of {self.sets} sets of "
            f"{count_text(self.members, 'member')}, at the lower bound in {self.at_lower:.1%}, at the upper in "
            f"{self.at_upper:.1%}; at a bound there is no decision gradient.",
            *([self._curvature] if self.interior else []),
            *self._certificate,
        ]
        agree = "differ from finite differences by" if self.derivatives_differ else "agree with finite differences to"
        lines.append(
            f"Derivatives {agree} {self.derivative_error:.1e}; {self.kinked:.1%} of the sets were left out, because "
            "their action has a kink."
        )
        return "\n".join([*lines, self.gradient_mass.sentence, "", *self.gradient_mass.rows])

    @property
    def _curvature(self) -> str:
        """Where the gradient of an action inside the bounds comes from."""
        curved = (
            f"Inside the bounds the expected cost is curved in {self.curved:.1%}; the least curvature is "
            f"{number_text(self.least_curvature, 3)}."
        )
        if not self.at_kink:
            return curved
        source = (
            "the formula gives the gradient there"
            if self.closed_form
            else "there is no gradient there; make the cost smooth, or give it a formula (`best_action`)"
        )
        kinks = f"Inside the bounds the best action is at a kink in {self.at_kink:.1%}: {source}."
        return kinks if self.at_kink == 1 else f"{kinks} {curved}"

    @property
    def _certificate(self) -> list[str]:
        """What is proven, and what speaks against the actions that were found."""
        lines = []
        if self.missed:
            lines.append(
                f"In {self.missed:.1%} of the sets another minimum is better than the one that training would find: "
                "this cost is not convex in the action."
            )
        lines.append(
            f"In {self.flagged:.1%} of the sets the expected cost is flat, has several minima, or its minimum is not "
            "reached; training gives them no gradient where it sees that."
        )
        if self.convex:
            return [*lines, f"The action is proven to be the best in {self.certified:.1%}: the cost is convex in it."]
        return [
            *lines,
            "No action is proven to be the best, because the cost is not known to be convex in the action: each is the "
            f"best of more than {ACTIONS_LOOKED_AT} that were looked at. If it is convex, say so (convex=yes).",
        ]


def check_cost(cost: Cost, samples: Tensor, bins: int = 12, compared_sets: int = 256) -> CostCheck:
    """Solve every set of members and report bounds, curvature, derivatives and where the gradient acts.

    It raises if the cost is not finite, or is declared convex in the action but is not. If convexity is not known, it
    searches thoroughly and reports several minima; finding none proves nothing.

    Args:
        cost: The cost of one decision maker, with numbers as parameters, not tensors.
        samples: Sets of members (..., M, D) like those the model will produce, in physical units.
        bins: The number of bins of member values that the gradient is counted in.
        compared_sets: For how many sets to compare derivatives with finite differences, in float64.

    >>> import torch, stakes
    >>> members = torch.randn(1000, 50, 1, generator=torch.Generator().manual_seed(0))
    >>> check = stakes.check_cost(stakes.ProtectionCost(threshold=0.0, false_alarm_ratio=0.5), members)
    >>> check.fit_for_training
    True
    """
    check_samples(samples)
    check_finite(samples, "samples", True)
    require_cost(cost)
    if vector_cost(cost) is not None:
        raise CostError(f"cost must have a scalar action (else use check_program), got {type(cost).__name__}")
    if samples.numel() == 0:
        raise ShapeError(f"check_cost needs at least one set of members, got samples of shape {tuple(samples.shape)}")
    parameters = (*getattr(cost, "__dict__", {}).values(), cost.lower, cost.upper)
    if any(isinstance(value, Tensor) and value.numel() > 1 for value in parameters):
        raise CostError("cost must be that of one decision maker, with numbers as parameters, not tensors")
    if bins < 1 or compared_sets < 1:
        raise SettingError(f"bins and compared_sets must be at least 1, got {bins} and {compared_sets}")
    return _checked_cost(cost, samples.detach().reshape(-1, *samples.shape[-2:]), bins, compared_sets)


def _checked_cost(cost: Cost, rows: Tensor, bins: int = 12, compared_sets: int = 256) -> CostCheck:
    members, dimensions = rows.shape[1:]
    compared = rows[:: max(1, len(rows) // compared_sets)][:compared_sets]
    check_stated_convexity(cost, compared)
    chunks = rows.split(max(1, _NUMBERS_AT_ONCE // (members * dimensions)))
    solutions = [solve_action(cost, chunk, check=False) for chunk in chunks]
    action, expected, interior, curvature, converged, certified = (
        torch.cat([getattr(solution, name) for solution in solutions])
        for name in ("action", "expected_cost", "interior", "curvature", "converged", "certified")
    )
    check_finite(expected, "the expected cost of an action", True)
    middle = (torch.as_tensor(cost.lower) + torch.as_tensor(cost.upper)).to(action) / 2
    low_side = ~interior & (action[..., 0] < middle)
    kinks = interior & torch.cat(
        [_at_kink(cost, *each) for each in zip(chunks, action.split([len(chunk) for chunk in chunks]), strict=True)]
    )
    formula = closed_form_of(cost)
    closed_form = formula is not None and formula(rows[:1]) is not None
    flat = interior & ~(curvature > 0) & (not closed_form)
    inner_curvature, inner_kinks = curvature[interior], kinks[interior]
    error, kinked = _derivative_error(cost, compared)
    return CostCheck(
        sets=len(rows),
        members=members,
        at_lower=_share(low_side),
        at_upper=_share(~interior & ~low_side),
        interior=_share(interior),
        flagged=_share((~converged | flat) & ~kinks),
        curved=_share((inner_curvature > 0) & ~inner_kinks) if len(inner_curvature) else 1.0,
        least_curvature=inner_curvature.min().item() if len(inner_curvature) else float("nan"),
        derivative_error=error,
        kinked=kinked,
        closed_form=closed_form,
        gradient_mass=_gradient_mass(cost, chunks, bins),
        certified=_share(certified),
        missed=_missed(cost, chunks, expected),
        at_kink=_share(inner_kinks) if len(inner_kinks) else 0.0,
        convex=states_convexity(cost),
    )


def _at_kink(cost: Cost, samples: Tensor, action: Tensor) -> Tensor:
    """Whether the slope of the expected cost jumps from falling to rising at the actions (N, 1), (N,), bool."""
    samples, action = samples.double(), action[..., 0].double()
    lower, upper = case_bounds(cost, samples)
    f, slope = expected_cost_of(cost, samples, None), slope_with_rounding(cost, samples, None)
    distance = _BESIDE * torch.minimum(upper - lower, action.abs())
    sides = (action - distance).clamp(min=lower), (action + distance).clamp(max=upper)
    (before, rounding), (after, more_rounding) = slope(sides[0]), slope(sides[1])
    curvature = torch.stack([slope_and_curvature(f, place)[1] for place in (*sides, action)]).amax(0)
    explained = _JUMP * curvature.clamp(min=0) * (sides[1] - sides[0])
    return (before <= rounding) & (after >= -more_rounding) & (after - before > explained + rounding + more_rounding)


def _missed(cost: Cost, chunks: tuple[Tensor, ...], expected: Tensor) -> float:
    """The share of the sets whose quick solution is expected to cost more than the thorough one, which costs (N,)."""
    if states_convexity(cost):
        return 0.0
    quick = torch.cat([solve_action(cost, chunk, check=False, thorough=False).expected_cost for chunk in chunks])
    return _share(quick - expected > _MISSED * expected.abs().mean())


def _gradient_mass(cost: Cost, chunks: tuple[Tensor, ...], bins: int) -> GradientMass:
    values = torch.cat([chunk.mean(-1).reshape(-1) for chunk in chunks]).double().cpu()
    gradients = torch.cat([_pulled(cost, chunk).abs().sum(-1).reshape(-1) for chunk in chunks]).double().cpu()
    low, high = values.min(), values.max()
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    place = torch.bucketize(values, edges[1:-1], right=True)
    count, mass = torch.zeros(2, bins, dtype=torch.float64)
    count.index_add_(0, place, torch.ones_like(values))
    mass.index_add_(0, place, gradients)
    return GradientMass(edges, count / count.sum(), mass / mass.sum().clamp(min=torch.finfo(torch.float64).tiny))


def _pulled(cost: Cost, samples: Tensor, direction: Tensor | float = 1.0) -> Tensor:
    """The gradient by the members of the product of each action with a direction (N, A), (N, M, D)."""
    leaf = samples.detach().requires_grad_()
    action = optimal_action(cost, leaf, check=False)
    if not action.requires_grad:
        return torch.zeros_like(leaf)
    return torch.autograd.grad((action * direction).sum(), leaf, materialize_grads=True)[0]


def _aside(samples: Tensor) -> tuple[Tensor, Tensor, Tensor, torch.Generator]:
    """The sets moved a little aside, a random direction, the spread of all members, and the generator of both."""
    generator = torch.Generator(samples.device).manual_seed(0)
    both = torch.randn((2, *samples.shape), dtype=samples.dtype, generator=generator, device=samples.device)
    spread = samples.std(correction=0).clamp(min=1e-6)
    return samples + _ASIDE * spread * both[0], both[1], spread, generator


def _derivative_error(cost: Cost, samples: Tensor) -> tuple[float, float]:
    """Largest relative difference of d a* along a random direction from finite differences; the share left out.

    Tied members, as in rounded data, have no derivative, so every set is first perturbed a little. Sets in which
    forward and backward differences still disagree are at a kink and left out.
    """
    samples, direction, spread, _ = _aside(samples.double())
    step = _STEP * spread
    ahead, here, behind = (
        solve_action(cost, samples + sign * step * direction, check=False, thorough=False).action[:, 0]
        for sign in (1.0, 0.0, -1.0)
    )
    moved = (ahead - behind) / (2 * step)
    analytic = (_pulled(cost, samples) * direction).sum((-2, -1))
    scale = moved.abs().max().clamp(min=torch.finfo(samples.dtype).tiny)
    smooth = (ahead - 2 * here + behind).abs() <= _KINK * step * scale
    if not smooth.any():
        return float("nan"), 1.0
    return ((analytic - moved).abs() / scale)[smooth].max().item(), _share(~smooth)


def _share(flags: Tensor | None) -> float:
    return 0.0 if flags is None else flags.double().mean().item()


PROGRAM_SETS, PROGRAM_MEMBERS = 24, 25  # a survey of a program, so that it takes seconds
_PROGRAM_TOLERANCE = 1e-3  # of the largest derivative
_DIFFERING = 0.25  # of the sets: schedules and allocations differ in at most 6 %, linear storage in up to all
_AGREEMENT = 1e-5  # of the mean |cost|: by how much the cost and its program may differ
_PROGRAM_STEP = 1e-4  # of the members' standard deviation: a finite difference
_MOVES = 1e-4  # of the largest part: what an action moves by at least where all members move by their spread
_ELSEWHERE = 8  # outcomes of other sets that each action is tried with
_BEYOND = 0.5  # of the range of the outcomes: how far beyond all of them an action is tried too
_CURVED = -1e-9  # of the largest eigenvalue: what is no curvature downwards but rounding


class CheckedLimit(NamedTuple):
    """The limits of one parameter, such as all ramps of a day."""

    kind: str  # the parameter
    share: float  # share of the sets, from 0 to 1, in which one of them binds
    saved: float  # what one unit more of it, allowed everywhere, would save on average, in the cost's unit


@dataclass(frozen=True)
class ProgramCheck(_Check):
    """Result of `check_program` for the given sets of members; `str()` prints it.

    It is a survey: only convexity is proven, by the matrices, or declared by the author of a function.

    Attributes:
        sets: How many sets of members were solved.
        members: How many members each set has.
        parts: How many parts an action has.
        convex: Whether the cost is convex in the action at every outcome; None if it is not declared, and no evaluation
            contradicts it.
        certified: Share of the sets, from 0 to 1, whose action is proven to be the best.
        infeasible: Share of the sets in which limits and recourse constraints contradict each other.
        unbounded: Share of the sets in which the cost is unbounded below.
        without_recourse: Share of tested outcomes, from other sets and beyond all of them, for which an action had no
            recourse, so that its cost is infinite.
        disagreement: Largest difference between the cost and its program, relative to the mean cost.
        interior: Share of the sets in which no limit binds.
        limits: Where limits bind, by parameter.
        moving: Share of the sets whose action depends on the members, so that there is a gradient.
        derivative_error: Median difference of the derivative from finite differences, relative to the largest
            derivative; NaN if no action moves.
        differing: Share of the compared sets in which they differ: at a kink, or where several actions are equally
            good.
        convex_by_word: Whether `convex` rests on the author's declaration alone, as for a function.
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

    def _doubts(self) -> dict[str, bool]:
        return {
            "The cost is not convex in the action.": self.convex is False,
            "It is not known whether the cost is convex in the action: say so if it is (convex=True).": (
                self.convex is None
            ),
            "In some sets limits and recourse constraints contradict each other.": self.infeasible > 0,
            "In some sets the cost is unbounded below.": self.unbounded > 0,
            "In some sets no best action was found.": bool(self.convex) and self.certified < 1,
            "For some outcomes an action has no recourse: its cost is infinite.": self.without_recourse > 0,
            "The cost is another than that of its program.": self.disagreement > _AGREEMENT,
            _NEVER_MOVES: self.moving == 0,
            _OTHER_DERIVATIVES_IN_MANY: self.differing > _DIFFERING,
        }

    def __str__(self) -> str:
        known = {True: "yes, by its matrices", False: "NO", None: "not known"}[self.convex]
        known = "yes, as declared" if self.convex and self.convex_by_word else known
        sets = f"{count_text(self.sets, 'set')} of {count_text(self.members, 'member')}"
        lines = [
            *self._verdict,
            f"The decision has {count_text(self.parts, 'part')}, and is convex: {known}.",
            f"Over {sets}, the action is proven to be the best in {self.certified:.1%}; limits contradict each other "
            f"in {self.infeasible:.1%}, and the cost is unbounded below in {self.unbounded:.1%}.",
            f"Recourse was missing for {self.without_recourse:.1%} of the outcomes that actions were tried with: "
            "those of other sets and some beyond all of them.",
            f"No limit binds in {self.interior:.1%}; the action moves with the members, so that there is a gradient, "
            f"in {self.moving:.1%}.",
        ]
        if not self.limits and self.interior < 1:
            lines.append(
                "Which limits bind in the others, and what one unit more would save, is told of programs without "
                "aversion to risk."
            )
        if self.derivative_error == self.derivative_error:
            lines.append(
                f"Derivatives and finite differences are {self.derivative_error:.1e} apart in the median set; they "
                f"differ in {self.differing:.1%}, at a kink or where several actions are equally good."
            )
        rows = [f"  {kind:<22.22} {share:7.1%}   {number_text(saved, 3)}" for kind, share, saved in self.limits]
        head = ["", "  limit                    binds   one unit more saves"] if rows else []
        return "\n".join([*lines, *head, *rows])


def check_program(cost: Cost, samples: Tensor, compared_sets: int = PROGRAM_SETS) -> ProgramCheck:
    """Solve every set of members and report convexity, feasibility, the limits that bind, and derivatives.

    Args:
        cost: A vector cost of one decision maker, such as `ScheduleCost` or `Program`.
        samples: Sets of members (..., M, D) like those the model will produce, in physical units.
        compared_sets: For how many sets to compare derivatives with finite differences.

    >>> import torch, stakes
    >>> members = torch.randn(20, 10, 3, generator=torch.Generator().manual_seed(0)).double() + 5
    >>> stakes.check_program(stakes.ScheduleCost(short=4.0, long=1.0, ramp=0.5), members).fit_for_training
    True
    """
    check_samples(samples)
    check_finite(samples, "samples", True)
    require_cost(cost)
    if (vector := vector_cost(cost)) is None:
        raise CostError(f"cost must have a vector action (else use check_cost), got {type(cost).__name__}")
    _require_one_maker(cost)
    if samples.numel() == 0 or compared_sets < 1:
        raise ShapeError("check_program needs at least one set of members, and compared_sets of at least 1")
    flat = samples.detach().double().reshape(-1, *samples.shape[-2:])
    solution = solve_action(cost, flat, check=False)
    stated = program_cost(cost)
    program = None if stated is None else stated.program(flat.shape[-1], flat.device)
    solved = solution.converged
    error, differing = _compared_derivatives(cost, flat, compared_sets)
    convex: bool | None = states_convexity(cost) if program is None else _is_convex(program)
    if program is None and not convex:  # False only where evaluations contradict it
        bent = vector.violates_convexity(flat, None)
        convex = False if bent is not None and bool(bent.any()) else None
    return ProgramCheck(
        sets=len(flat),
        members=flat.shape[-2],
        parts=shown_action(cost, solution.action).shape[-1],
        convex=convex,
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
        convex_by_word=vector.convex_by_word,
    )


def gradient_objection(cost: Cost, samples: Tensor) -> str:
    """Why the decision gives no gradient for sets of members (N, M, D), as `stakes check-cost` says it; else empty."""
    flat = samples.detach().double()
    if vector_cost(cost) is None:
        return next((each for each in _checked_cost(cost, flat).objections if each in _ABOUT_THE_GRADIENT), "")
    if not bool(_moves(cost, solve_action(cost, flat, check=False).action, flat).any()):
        return _NEVER_MOVES
    return _OTHER_DERIVATIVES_IN_MANY if _compared_derivatives(cost, flat)[1] > _DIFFERING else ""


def _require_one_maker(cost: Cost) -> None:
    """Raise where a parameter has cases of its own: those that are looked at are others."""
    plain = vector_cost(plain_cost_of(cost))
    if plain is None or not plain.has_parameters_of_cases:
        return
    for name, value in vars(plain).items():
        if isinstance(value, Tensor) and value.shape[:-1].numel() > 1:
            raise CostError(f"cost must be that of one decision maker, got {name} of shape {tuple(value.shape)}")


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
    if not is_program(cost):
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
    size = action.abs().nan_to_num().max()
    return (reach > _MOVES * size) & (size > 0)  # actions that are 0 in every set are held there


def _compared_derivatives(cost: Cost, samples: Tensor, compared_sets: int = PROGRAM_SETS) -> tuple[float, float]:
    """Median relative difference of derivatives along a random direction from finite ones; the share that differ.

    All parts are compared at once, by their product with random numbers, in perturbed sets as in `check_cost`.
    """
    samples = samples[:: max(1, len(samples) // compared_sets)][:compared_sets]
    samples, direction, spread, generator = _aside(samples)
    step = _PROGRAM_STEP * spread
    ahead, behind = (
        solve_action(cost, samples + sign * step * direction, check=False, thorough=False).action
        for sign in (1.0, -1.0)
    )
    mixed = torch.randn(ahead.shape, dtype=samples.dtype, generator=generator)
    moved = ((ahead - behind) * mixed).sum(-1) / (2 * step)
    scale = moved.abs().max()
    if not bool(scale * spread > _MOVES * ahead.abs().max()):
        return float("nan"), 0.0
    analytic = (_pulled(cost, samples, mixed) * direction).sum((-2, -1))
    error = (analytic - moved).abs() / scale
    return error.median().item(), _share(error > _PROGRAM_TOLERANCE)
