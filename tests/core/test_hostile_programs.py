"""Programs that mean harm: refused, flagged or right, and never a harm to other cases."""

from collections.abc import Callable

import pytest
import torch
from example_counts import examples
from hostile_programs import WAYS, spoilt
from hypothesis import given
from hypothesis import strategies as st

from stakes import AllocationCost, ArbitrageCost, Cost, ScheduleCost, StorageCost, optimal_action, solve_action
from stakes.errors import CostError, NonFiniteError

COSTS = {
    "schedule": ScheduleCost(4.0, 1.0, ramp=0.3),
    "quadratic schedule": ScheduleCost(4.0, 1.0, quadratic=0.5, ramp=0.3),
    "allocation": AllocationCost(4.0, 1.0, budget=2.0),
    "storage": StorageCost(1.0, 3.0, 0.1, power=0.8, energy=1.5),
    "arbitrage": ArbitrageCost(power=0.5, energy=1.2, quadratic=0.1),
}
MEMBERS = 2 + torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@given(st.sampled_from(sorted(WAYS)), st.integers(0, 10_000), st.sampled_from([None, 0.01]))
@examples(16)
def test_a_spoilt_case_is_refused_flagged_or_right(way: str, seed: int, smoothing: float | None) -> None:
    spoilt(way, seed, smoothing)


@pytest.mark.parametrize("value", [torch.nan, 1e200])
@pytest.mark.parametrize("kind", COSTS)
def test_a_case_without_numbers_is_not_certified_and_spoils_no_other(kind: str, value: float) -> None:
    members = MEMBERS.clone()
    members[1, 0, 0] = value
    leaf = members.requires_grad_()
    solution, plain = (solve_action(COSTS[kind], each, check=False) for each in (leaf.detach(), MEMBERS))
    kept = torch.tensor([0, 2])
    assert solution.certified[kept].all()
    assert bool(torch.isfinite(solution.action[solution.certified]).all())
    torch.testing.assert_close(solution.action[kept], plain.action[kept], rtol=0.0, atol=1e-6)
    (gradient,) = torch.autograd.grad(optimal_action(COSTS[kind], leaf, check=False)[kept].sum(), leaf)
    assert bool(torch.isfinite(gradient[kept]).all())


@pytest.mark.parametrize("kind", COSTS)
def test_members_without_numbers_are_refused(kind: str) -> None:
    with pytest.raises(NonFiniteError, match="samples must be finite"):
        solve_action(COSTS[kind], torch.full_like(MEMBERS, torch.nan))


@pytest.mark.parametrize("size", [1e-9, 1e9])
@pytest.mark.parametrize(
    "cost",
    [
        lambda size: ScheduleCost(4.0, 1.0, ramp=0.3 * size),
        lambda size: AllocationCost(4.0, 1.0, budget=2.0 * size),
        lambda size: StorageCost(1.0, 3.0, 0.1, power=0.8 * size, energy=1.5 * size),
        lambda size: ArbitrageCost(power=0.5, energy=1.2, quadratic=0.1 * max(size, 1e-3)),
    ],
)
def test_the_unit_does_not_matter(cost: Callable[[float], Cost], size: float) -> None:
    size = max(size, 1e-3) if isinstance(cost(size), ArbitrageCost) else size  # its prices are beside one of 1
    own, plain = (solve_action(cost(each), each * MEMBERS) for each in (size, 1.0))
    assert bool(own.certified.all())
    torch.testing.assert_close(own.expected_cost / size, plain.expected_cost, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", COSTS)
def test_one_member_one_hour_equal_members_and_many_cases_alike(kind: str) -> None:
    cost = COSTS[kind]
    for members in (MEMBERS[:, :1], MEMBERS[..., :1], MEMBERS[:, :1, :1], MEMBERS[:, :1].expand(3, 4, 3)):
        assert bool(solve_action(cost, members).certified.all())
    alike = optimal_action(cost, MEMBERS[:1].expand(200, 4, 3))
    torch.testing.assert_close(alike, alike[:1].expand_as(alike), rtol=0.0, atol=1e-12)


def test_a_schedule_between_bounds_that_meet_stays_there() -> None:
    cost = ScheduleCost(4.0, 1.0, ramp=0.5, lower=torch.tensor([1.0, 1.0, 0.0]), upper=torch.tensor([1.0, 3.0, 3.0]))
    solution = solve_action(cost, MEMBERS)
    assert bool(solution.certified.all())
    assert solution.action[:, 0].tolist() == pytest.approx([1.0] * 3)


def test_bounds_that_a_ramp_cannot_follow_are_flagged_in_their_case_alone() -> None:
    lower = torch.zeros(3, 3)
    lower[1, 2] = 5.0
    upper = torch.full((3, 3), 9.0)
    upper[1, 1] = 1.0
    solution = solve_action(ScheduleCost(4.0, 1.0, ramp=0.5, lower=lower, upper=upper), MEMBERS)
    assert solution.certified.tolist() == [True, False, True]


def test_a_bound_that_is_no_number_is_refused() -> None:
    with pytest.raises(CostError, match=r"lower must not lie above upper, got 0[.]0 and nan"):
        ScheduleCost(4.0, 1.0, upper=torch.nan)
