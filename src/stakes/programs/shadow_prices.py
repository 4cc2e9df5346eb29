"""Shadow prices: which limits of a vector decision bind, and what one more unit would save."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.argument_checks import check_samples
from stakes.costs.cost import Cost, part_names
from stakes.costs.member_weights import relative_weights
from stakes.errors import CostError, ShapeError
from stakes.programs.interior_point import InteriorPoint
from stakes.programs.scenario_program import BINDS, program_cost


class LimitPrices(NamedTuple):
    """The L limits of the best action of each case (...).

    Attributes:
        kinds: The parameter that each limit is of, such as "ramp", "budget", "upper" or "lower", (L,).
        places: Where it holds, such as the name of a part, (L,).
        parts: Which parts of the action it is about, counted from 0, (L,).
        binds: Whether the best action is at the limit, (..., L), bool.
        price: By how much the expected cost would fall if the limit allowed one unit more, in the cost's unit per unit
            of the action, (..., L): 0 where it does not bind, NaN where the program was not solved.
    """

    kinds: tuple[str, ...]
    places: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...]
    binds: Tensor
    price: Tensor

    def saved_by(self) -> dict[str, Tensor]:
        """What one unit more of each parameter, allowed everywhere at once, would save, (...), by its name."""
        chosen = {kind: [own == kind for own in self.kinds] for kind in dict.fromkeys(self.kinds)}
        return {kind: self.price[..., torch.tensor(which)].sum(-1) for kind, which in chosen.items()}


def limit_prices(
    cost: Cost,
    samples: Tensor,
    outcomes: Sequence[str] | None = None,
    *,
    weights: Tensor | None = None,
    solver: InteriorPoint | None = None,
) -> LimitPrices:
    """Which limits of the best action bind, and what each of them costs: its shadow price.

    A price holds for small changes: it is the slope of the expected cost, and falls as the limit is eased.

    >>> import torch, stakes
    >>> members = torch.tensor([[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]])  # one case, three members, D = 2
    >>> limits = limit_prices(stakes.AllocationCost(short=3.0, long=1.0, budget=6.5), members, ["north", "south"])
    >>> limits.kinds[0], limits.binds[0, 0].item(), round(limits.price[0, 0].item(), 3)
    ('budget', True, 1.667)

    Args:
        cost: A decision with many parts, such as `ScheduleCost`.
        samples: Members (..., M, D) of each forecast.
        outcomes: The names of the D outcomes; None numbers them.
        weights: What each member weighs, (..., M) or (M,); None where all count alike.
        solver: How the program is solved; None for `InteriorPoint()`.
    """
    if (stated := program_cost(cost)) is None:
        raise CostError(
            f"limits have prices where a decision has many parts and no aversion to risk, got {type(cost).__name__}"
        )
    check_samples(samples)
    names = [str(place) for place in range(1, samples.shape[-1] + 1)] if outcomes is None else list(outcomes)
    if len(names) != samples.shape[-1]:
        raise ShapeError(f"outcomes must name each of {samples.shape[-1]} outcomes, got {len(names)} names")
    program = stated.program(samples.shape[-1], samples.device)
    with torch.no_grad():
        shares = relative_weights(weights, samples)
        action, solution = program.solve(samples, shares, solver)
        left = program.slack(action, samples, shares)
    binds = left <= BINDS
    price = solution.iterate.price.reshape(left.shape) / program.limit_sizes
    solved = solution.solved.reshape(left.shape[:-1])[..., None]
    price = torch.where(solved, torch.where(binds, price, 0.0), torch.nan)
    limits = list(stated.limit_names(names))
    for kind, bound in (("upper", program.upper), ("lower", program.lower)):
        limits += [] if bound is None else [(kind, part) for part in part_names(cost, names)]
    kinds, places = tuple(kind for kind, _ in limits), tuple(place for _, place in limits)
    about = tuple(tuple(row.nonzero()[:, 0].tolist()) for row in program.limit_rows)
    return LimitPrices(kinds, places, about, binds & solved, price)
