"""Whether a cost is fit for training, and where it will act."""

from dataclasses import dataclass

import torch
from torch import Tensor

from stakes.errors import CostError, SettingError, ShapeError
from stakes.method.actions import check_stated_convexity, optimal_action, solve_action
from stakes.method.argument_checks import check_finite, check_samples
from stakes.method.certificates import slope_with_rounding
from stakes.method.costs import Cost, has_closed_form, require_cost, states_convexity
from stakes.method.derivatives import slope_and_curvature
from stakes.method.expected_costs import case_bounds, expected_cost_of
from stakes.method.program_actions import PartsCost, ProgramCost
from stakes.number_text import number_text

__all__ = ["CostCheck", "GradientMass", "check_cost"]

_DERIVATIVE_TOLERANCE = 1e-4
_MISSED = 1e-4  # of the mean |expected cost|
_STEP, _ASIDE = 1.25e-5, 1e-2  # of the members' standard deviation: a finite difference, and a step away from ties
_KINK = 1e-4  # of the largest derivative: how far the derivatives ahead and back may differ
_BESIDE = 2e-5  # of the action, or of the bounds' distance: how far beside an action its slopes are looked at
_JUMP = 8.0  # a slope that changes by more than that many times what the curvature explains jumps
_NUMBERS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class GradientMass:
    """Where the decision gradient acts: for bins of the members' value, the share of members and of |d a*/d y_m|.

    A bin whose `gradient_share` is near zero gets no help from the decision term, whatever the weight.

    Attributes:
        edges: Edges (bins + 1,) of the bins, in the outcome's unit; a member counts by its mean over the sites.
        member_share: Share (bins,) of the members that lie in each bin.
        gradient_share: Share (bins,) of the sum of |d a*/d y_m| that falls on them.
    """

    edges: Tensor
    member_share: Tensor
    gradient_share: Tensor


@dataclass(frozen=True)
class CostCheck:
    """What `check_cost` saw in the sets of members it was given; `str()` is a table of it.

    It is a survey of these sets and no proof: another forecast may meet a bound, a flat place or a second minimum that
    none of them did. `ActionSolution` says what it means that an action converged or is certified.

    Attributes:
        sets: How many sets of members were solved.
        members: How many members each set has.
        at_lower: Share of the sets, from 0 to 1, whose action lies at the lower bound.
        at_upper: Share of the sets whose action lies at the upper bound.
        interior: Share of the sets whose action lies strictly between the bounds.
        flagged: Share of the sets whose action is at no kink and did not converge, or has no curvature and no formula:
            the expected cost is flat, falls again after it has risen at the actions that were looked at, or its minimum
            was not reached.
        curved: Share of the interior sets with curvature H > 0 and no kink at the action; 1 if there are none.
        least_curvature: Smallest H at an interior solution; NaN if there are none.
        derivative_error: Largest difference of d a*/d y from finite differences, relative to the largest derivative,
            corners left out.
        kinked: Share of the compared sets that were left out because the action turns a corner there.
        closed_form: Whether the cost states its best action for these members.
        gradient_mass: Where the members lie, and where the gradient acts.
        certified: Share of the sets whose action is proven to be the best: 0 for a cost that is not known to be convex
            in the action.
        missed: Share of the sets in which the quick search of training stops at a worse action than the thorough one
            of decisions; 0 for a cost that is known to be convex.
        at_kink: Share of the interior sets whose action is at a kink: the slope of the expected cost jumps there, and
            only a formula for the action gives a gradient; 0 if there are none.
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

    @property
    def derivatives_differ(self) -> bool:
        """Whether derivatives are known not to agree with finite differences."""
        return self.derivative_error > _DERIVATIVE_TOLERANCE

    @property
    def fit_for_training(self) -> bool:
        """Some sets have an interior solution, every search converged to the best minimum, the derivatives agree."""
        curvature_holds = self.curved == 1 or self.closed_form
        return (
            self.interior > 0
            and self.flagged == 0
            and self.missed == 0
            and curvature_holds
            and self.derivative_error <= _DERIVATIVE_TOLERANCE
        )

    def __str__(self) -> str:
        mass = self.gradient_mass
        lines = [
            f"{'fit for training' if self.fit_for_training else 'NOT fit for training as it is'}: "
            f"{self.sets} sets of {self.members} members",
            f"  interior solutions       {self.interior:8.2%}   H > 0 in {self.curved:.2%}, least H "
            f"{number_text(self.least_curvature, 3)}" + (f", at a kink {self.at_kink:.2%}" if self.at_kink else ""),
            f"  pinned at the lower bound{self.at_lower:8.2%}   no decision gradient",
            f"  pinned at the upper bound{self.at_upper:8.2%}   no decision gradient",
            f"  flagged                  {self.flagged:8.2%}   flat, several minima, or not converged",
            f"  missed in training       {self.missed:8.2%}   another minimum is better than the one that is found",
            f"  certified                {self.certified:8.2%}   proven to be the best, where the cost is convex",
            f"  derivative error         {number_text(self.derivative_error, 2):>8}   against finite differences, "
            f"corners left out: {self.kinked:.2%}",
            "  member value             members   gradient",
        ]
        for low, high, members, gradient in zip(
            mass.edges[:-1].tolist(),
            mass.edges[1:].tolist(),
            mass.member_share.tolist(),
            mass.gradient_share.tolist(),
            strict=True,
        ):
            bar = "#" * round(40 * gradient)
            values = f"{number_text(low, 3):>10} ..{number_text(high, 3):>10}"
            lines.append(f"  {values} {members:8.1%}   {gradient:8.1%}  {bar}")
        return "\n".join(lines)


def check_cost(cost: Cost, samples: Tensor, bins: int = 12, compared_sets: int = 256) -> CostCheck:
    """Solve every set of members and report bounds, curvature, derivatives and where the gradient acts.

    It raises if the cost is no finite number, or is stated to be convex in the action and is seen not to be. For a cost
    of which that is not known it searches thoroughly, and says where it saw several minima; that it saw none proves
    nothing.

    Args:
        cost: The cost of one decision maker: its parameters are numbers, not tensors.
        samples: Sets of members (..., M, D) such as the model will make, in physical units.
        bins: How many bins of the members' value the gradient is counted in.
        compared_sets: How many of the sets have their derivatives compared with finite differences, in float64.

    >>> import torch, stakes
    >>> members = torch.randn(1000, 50, 1, generator=torch.Generator().manual_seed(0))
    >>> check = stakes.check_cost(stakes.ProtectionCost(threshold=0.0, false_alarm_ratio=0.5), members)
    >>> check.fit_for_training
    True
    """
    check_samples(samples)
    check_finite(samples, "samples", True)
    require_cost(cost)
    if isinstance(cost, ProgramCost | PartsCost):
        raise CostError(f"a decision with many parts is checked by check_program, got {type(cost).__name__}")
    if samples.numel() == 0:
        raise ShapeError(f"check_cost needs at least one set of members, got samples of shape {tuple(samples.shape)}")
    parameters = (*getattr(cost, "__dict__", {}).values(), cost.lower, cost.upper)
    if any(isinstance(value, Tensor) and value.numel() > 1 for value in parameters):
        raise CostError("check_cost looks at one decision maker: give the cost numbers as parameters, not tensors")
    if bins < 1 or compared_sets < 1:
        raise SettingError(f"bins and compared_sets must be at least 1, got {bins} and {compared_sets}")
    members, dimensions = samples.shape[-2:]
    rows = samples.detach().reshape(-1, members, dimensions)
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
    closed_form = has_closed_form(cost, rows[:1])
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
    gradients = torch.cat([_jacobian(cost, chunk).abs().sum(-1).reshape(-1) for chunk in chunks]).double().cpu()
    low, high = values.min(), values.max()
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    place = torch.bucketize(values, edges[1:-1], right=True)
    count, mass = torch.zeros(2, bins, dtype=torch.float64)
    count.index_add_(0, place, torch.ones_like(values))
    mass.index_add_(0, place, gradients)
    return GradientMass(edges, count / count.sum(), mass / mass.sum().clamp(min=torch.finfo(torch.float64).tiny))


def _jacobian(cost: Cost, samples: Tensor) -> Tensor:
    """D a*/d y_m, (N, M, D): rows are independent, so the gradient of the sum of actions holds every row's own."""
    leaf = samples.detach().requires_grad_()
    action = optimal_action(cost, leaf, check=False)
    if not action.requires_grad:
        return torch.zeros_like(leaf)
    return torch.autograd.grad(action.sum(), leaf, materialize_grads=True)[0]


def _derivative_error(cost: Cost, samples: Tensor) -> tuple[float, float]:
    """Largest difference of a* moved along a random direction from its derivative, relative to the largest move.

    Tied members, as those of rounded data are, leave no derivative to compare with: every set is first moved a little,
    to where a forecast without ties would be. Where the steps ahead and back disagree there is a kink even so, and the
    set is left out; the second number is the share of these.
    """
    samples = samples.double()
    generator = torch.Generator(samples.device).manual_seed(0)
    aside, direction = torch.randn((2, *samples.shape), dtype=samples.dtype, generator=generator, device=samples.device)
    spread = samples.std(correction=0).clamp(min=1e-6)
    samples, step = samples + _ASIDE * spread * aside, _STEP * spread
    ahead, here, behind = (
        solve_action(cost, samples + sign * step * direction, check=False, thorough=False).action[:, 0]
        for sign in (1.0, 0.0, -1.0)
    )
    moved = (ahead - behind) / (2 * step)
    analytic = (_jacobian(cost, samples) * direction).sum((-2, -1))
    scale = moved.abs().max().clamp(min=torch.finfo(samples.dtype).tiny)
    smooth = (ahead - 2 * here + behind).abs() <= _KINK * step * scale
    if not smooth.any():
        return float("nan"), 1.0
    return ((analytic - moved).abs() / scale)[smooth].max().item(), _share(~smooth)


def _share(flags: Tensor) -> float:
    return flags.double().mean().item()
