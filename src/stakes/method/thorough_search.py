"""The search for the least expected cost where nothing is known about it: many actions, the members' own among them.

A cost that is not convex has minima near the members, and between them and beside them. f is evaluated at equally
spaced actions and at the members; the deepest valleys of these values are narrowed down; the best place is refined by
Newton's method. A valley that lies between all of these actions is missed: the result is the best of what was looked
at, and no proof. `spot_check_convexity` is the other way round: it looks for what contradicts an author's word.
"""

import torch
from torch import Tensor

from stakes.errors import CostError
from stakes.method.argument_checks import known_false, known_on_host
from stakes.method.derivatives import ExpectedCost
from stakes.method.solvers import Located, NewtonBisection

__all__ = ["ACTIONS_LOOKED_AT", "spot_check_convexity", "thorough_search"]

_INTERVALS = 256
_MEMBERS = 128  # at most; of more, evenly spaced order statistics
_VALLEYS, _ROUNDS, _PARTS = 8, 3, 8  # each round leaves two of the parts of each valley
_CHECKED_INTERVALS, _CHECK_TOLERANCE = 32, 1e-6

ACTIONS_LOOKED_AT = _INTERVALS + 1 + _VALLEYS * _ROUNDS * (_PARTS - 1)
"""How many actions `thorough_search` evaluates for each row, its members not counted."""


def thorough_search(f: ExpectedCost, lower: Tensor, upper: Tensor, places: Tensor) -> Located:
    """The best action of many, refined, row by row; `sound` says that all of them together show one valley.

    Args:
        f: Expected costs (...) of actions (...), each row its own function.
        lower: Lower bounds (...).
        upper: Upper bounds (...).
        places: Where minima are likely, (..., M): the members, in the action's unit.
    """
    grid, values = _values_on_grid(f, lower, upper, places)
    width = upper - lower
    action = _deepest(f, grid, values)
    # Rounding may have led the values a little beside the minimum, where its slope still shows the way.
    low, high = (torch.clamp(action + share * width, lower, upper) for share in (-1 / _INTERVALS, 1 / _INTERVALS))
    refined = NewtonBisection().refine(f, (low, action, high), width)
    noise = 8 * torch.finfo(values.dtype).eps * values.abs().amax(0)
    action = torch.where(f(refined) <= f(action) + noise, refined, action)
    left, right = (torch.clamp(action + share * width, lower, upper) for share in (-0.125, 0.125))
    rise = torch.maximum(f(left), f(right)) - f(action)
    sound = (values.amax(0) - values.amin(0) > noise) & (_valley_depth(values) <= noise)
    return Located(action, sound, rise / (right - left) ** 2)


def _valley_depth(values: Tensor) -> Tensor:
    """How high the largest rise is that lies between two lower places, (...): 0 where there is only one valley.

    The values (P, ...) are those of f along ascending actions.
    """
    before = torch.cummin(values, 0).values
    after = torch.cummin(values.flip(0), 0).values.flip(0)
    return (values - torch.maximum(before, after)).amax(0)


def spot_check_convexity(f: ExpectedCost, lower: Tensor, upper: Tensor) -> None:
    """Raise where f, evaluated at a few equally spaced actions, is seen not to be convex; that it is, is not proven.

    It does not look in compiled or vmapped code, nor on an accelerator.

    Args:
        f: Expected costs (...) of actions (...), in double precision.
        lower: Lower bounds (...).
        upper: Upper bounds (...).
    """
    grid = _equally_spaced(lower, upper, _CHECKED_INTERVALS)
    values = torch.stack([f(action) for action in grid])
    bend = values[:-2] - 2 * values[1:-1] + values[2:]
    holds = ~(bend < -_CHECK_TOLERANCE * values.abs().amax(0))
    if known_false(holds):
        place = grid[1:-1][~holds][0].item()
        raise CostError(
            f"the cost is stated to be convex in the action, but around the action {place:g} the expected cost is not: "
            "leave out convex=True"
        )


def _equally_spaced(lower: Tensor, upper: Tensor, intervals: int) -> Tensor:
    shares = torch.linspace(0, 1, intervals + 1, dtype=lower.dtype, device=lower.device)
    return torch.stack([torch.lerp(lower, upper, share) for share in shares])


def _values_on_grid(f: ExpectedCost, lower: Tensor, upper: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending actions between the bounds, and f at them, (P, ...) each."""
    ordered = places.sort(-1).values
    if (count := ordered.shape[-1]) > _MEMBERS:
        chosen = torch.linspace(0, count - 1, _MEMBERS, device=places.device).round().long()
        ordered = ordered[..., chosen]
    members = ordered.movedim(-1, 0).clamp(lower, upper)
    grid = torch.cat([_equally_spaced(lower, upper, _INTERVALS), members]).sort(0).values
    return grid, torch.stack([f(action) for action in grid])


def _deepest(f: ExpectedCost, grid: Tensor, values: Tensor) -> Tensor:
    """The lowest place of the deepest valleys, (...), after they have been narrowed down."""
    beyond = torch.full_like(values[:1], torch.inf)
    padded = torch.cat([beyond, values, beyond])
    lowest = (values < padded[:-2]) & (values <= padded[2:])  # of equal values the first
    floors, valleys = torch.where(lowest, values, torch.inf).topk(_VALLEYS, 0, largest=False)
    best = torch.stack([grid[0], grid[0], grid[0], beyond[0]])  # lower end, place, upper end, value
    for floor, valley in zip(floors, valleys, strict=True):
        if known_on_host((floor == torch.inf).all()):  # no row has so many
            break
        near = [(valley + offset).clamp(0, len(grid) - 1)[None] for offset in (-1, 0, 1)]
        bracket = torch.stack([*(grid.gather(0, index)[0] for index in near), values.gather(0, near[1])[0]])
        for _ in range(_ROUNDS):
            bracket = _narrower(f, *bracket)
        best = torch.where(bracket[3] < best[3], bracket, best)
    return best[1]


def _narrower(f: ExpectedCost, low: Tensor, action: Tensor, high: Tensor, value: Tensor) -> Tensor:
    """The best of the given action and of those that part the bracket, between its neighbours, and its value."""
    inner = _equally_spaced(low, high, _PARTS)[1:-1]
    values = torch.cat([torch.stack([f(each) for each in inner]), value[None]])
    least, index = values.min(0)
    chosen = torch.cat([inner, action[None]]).gather(0, index[None])[0]
    step = (high - low) / _PARTS
    return torch.stack([torch.maximum(chosen - step, low), chosen, torch.minimum(chosen + step, high), least])
