"""One capacity for several shops."""

import itertools

import numpy as np
import pytest
import torch

from reproduction.programs.bakery import BAKERY_PLANS, bakery_problem, scaled_newsvendor
from reproduction.programs.problem import QUICK
from stakes.actions.solve import optimal_action
from stakes.programs.schedules import AllocationCost


def test_newsvendors_by_brute_force() -> None:
    generator = torch.Generator().manual_seed(0)
    members = torch.randint(0, 12, (4, 9, 2), generator=generator).double()
    cost = AllocationCost(4.0, 1.0, 1000.0)
    orders = scaled_newsvendor(cost, members)
    for case, (own, order) in enumerate(zip(members, orders, strict=True)):
        for shop in range(2):
            paid = [float((4 * (own[:, shop] - a).relu() + (a - own[:, shop]).relu()).mean()) for a in range(13)]
            assert paid[round(float(order[shop]))] == pytest.approx(min(paid)), (case, shop)


def test_too_little_is_shared_out_alike_and_the_program_does_better() -> None:
    generator = torch.Generator().manual_seed(1)
    members = torch.randint(0, 12, (5, 9, 2), generator=generator).double()
    cost, plenty = AllocationCost(4.0, 1.0, 8.0), AllocationCost(4.0, 1.0, 1000.0)
    scaled, alone, best = (
        scaled_newsvendor(cost, members),
        scaled_newsvendor(plenty, members),
        optimal_action(cost, members),
    )
    torch.testing.assert_close(scaled.sum(-1), alone.sum(-1).clamp(max=8.0))
    torch.testing.assert_close(scaled[:, 0] * alone[:, 1], scaled[:, 1] * alone[:, 0])
    expected = [cost(action[:, None], members).mean(1) for action in (scaled, best)]
    assert bool((expected[1] <= expected[0] + 1e-9).all())
    shares = [share for share in itertools.product(np.arange(0, 8.5, 0.5), repeat=2) if sum(share) <= 8]
    tried = torch.tensor(np.array(shares))[:, None, None]  # of every case and member
    torch.testing.assert_close(cost(tried, members).mean(-1).amin(0), expected[1])


def test_the_capacity_binds_on_half_of_the_validation_days() -> None:
    problem = bakery_problem()
    assert isinstance(problem.cost, AllocationCost)
    assert problem.cost.budget == 5142
    spent = problem.measures["capacity_binds"](torch.tensor([[5000.0, 142.0], [5000.0, 100.0]]), torch.zeros(2, 2))
    assert spent.tolist() == [1.0, 0.0]
    (plan,) = BAKERY_PLANS
    candidates = next(source for source in plan.sources if source.name == "scaled").make(problem, 0, QUICK)
    orders = candidates["scaled ridge recent"].validation
    assert orders is not None
    assert bool((orders.sum(-1) <= 5142 * (1 + 1e-6)).all())
