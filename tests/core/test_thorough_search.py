"""The search where nothing is known about the cost: against a fine grid, its flag, and an author's word."""

import pytest
import torch
from torch import Tensor

from stakes.actions.scalar_solvers import ACTIONS_LOOKED_AT, global_search, spot_check_convexity
from stakes.errors import CostError

ROWS = 40
LOWER, UPPER = torch.zeros(ROWS, dtype=torch.float64), torch.full((ROWS,), 3.0, dtype=torch.float64)
MEMBERS = 3 * torch.rand(ROWS, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def rugged(action: Tensor) -> Tensor:
    """Smooth holes at the members of each row, each narrower than the grid can be sure to see."""
    distance = (action[..., None] - MEMBERS) / 0.0005
    return 0.1 * (action - 1.5) ** 2 - torch.exp(-0.5 * distance**2).sum(-1)


def bowl(action: Tensor) -> Tensor:
    return ((action[..., None] - MEMBERS) ** 2).mean(-1)


def test_narrow_holes_at_the_members_are_seen() -> None:
    fine = torch.linspace(0.0, 3.0, 30_001, dtype=torch.float64)
    least = torch.stack([rugged(action.expand(ROWS)) for action in fine]).amin(0)
    located = global_search(rugged, LOWER, UPPER, MEMBERS)
    assert bool((rugged(located.action) <= least + 1e-9).all())
    assert not bool(located.sound.any())


def test_without_members_there_is_only_the_grid() -> None:
    hidden = torch.full_like(MEMBERS, 3.0)
    seen, unseen = (rugged(global_search(rugged, LOWER, UPPER, places).action) for places in (MEMBERS, hidden))
    assert bool((unseen >= seen - 1e-9).all())
    assert bool((unseen > seen + 0.1).any())


def test_one_valley_is_sound_and_refined() -> None:
    located = global_search(bowl, LOWER, UPPER, MEMBERS)
    torch.testing.assert_close(located.action, MEMBERS.mean(-1), rtol=0.0, atol=1e-9)
    assert bool(located.sound.all())


def test_a_flat_cost_is_not_sound() -> None:
    assert not bool(global_search(lambda action: 0 * action, LOWER, UPPER, MEMBERS).sound.any())


@pytest.mark.parametrize(("slope", "end"), [(1.0, LOWER), (-1.0, UPPER)])
def test_the_best_action_may_lie_at_a_bound(slope: float, end: Tensor) -> None:
    located = global_search(lambda action: slope * action, LOWER, UPPER, MEMBERS)
    torch.testing.assert_close(located.action, end)


def test_it_looks_at_as_many_actions_as_it_says() -> None:
    looked_at = 0

    def counted(action: Tensor) -> Tensor:
        nonlocal looked_at
        looked_at += 1
        return rugged(action)

    global_search(counted, LOWER, UPPER, MEMBERS)
    assert ACTIONS_LOOKED_AT <= looked_at + MEMBERS.shape[-1] <= 2 * ACTIONS_LOOKED_AT


def test_a_word_that_is_seen_to_be_wrong() -> None:
    spot_check_convexity(bowl, LOWER, UPPER)
    with pytest.raises(CostError, match=r"stated to be convex.*leave out convex=True"):
        spot_check_convexity(lambda action: -bowl(action), LOWER, UPPER)
