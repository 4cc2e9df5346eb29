"""Networks with constant Gaussian errors."""

from statistics import NormalDist

import numpy as np
import pytest
import torch
from small_programs import EFFORT, small_problem

from reproduction.programs.point_networks import POINT_NETWORKS, PointNetwork, point_network_candidates
from reproduction.programs.problem import Forecast


def fresh_network(seed: int = 0) -> PointNetwork:
    problem = small_problem()
    torch.manual_seed(seed)
    return PointNetwork(problem.train.features, problem.train.outcome).eval()


def test_it_starts_from_least_squares() -> None:
    problem, network = small_problem(), fresh_network()
    with torch.no_grad():
        for parameter in network.network[-1].parameters():
            parameter.zero_()
    known = np.column_stack([problem.train.features, np.ones(90)])
    solution = np.linalg.lstsq(known, problem.train.outcome.numpy(), rcond=None)[0]
    np.testing.assert_allclose(network(problem.train.features).detach(), known @ solution, atol=1e-4)
    network.take_deviation(problem.train.features, problem.train.outcome)
    errors = problem.train.outcome.numpy() - known @ solution
    np.testing.assert_allclose(network.deviation.detach(), np.sqrt((errors**2).mean(0)), atol=1e-4)


def test_members_are_gaussian_quantiles() -> None:
    problem, network = small_problem(), fresh_network()
    with torch.no_grad():
        network.deviation.copy_(torch.tensor([1.0, 2.0, 0.5]))
        members = network.members(problem.test.features, 4)
        apart = network.independent_members(problem.test.features, 4, torch.Generator().manual_seed(0))
    expected = np.array([NormalDist().inv_cdf(level) for level in (0.125, 0.375, 0.625, 0.875)])[:, None] * [
        1.0,
        2.0,
        0.5,
    ]
    spread = members - network(problem.test.features).detach()[:, None]
    np.testing.assert_allclose(spread[0], expected, atol=1e-5)
    torch.testing.assert_close(apart.sort(1).values, members.sort(1).values)
    assert not torch.equal(apart, members)


def test_three_networks_of_a_seed() -> None:
    problem = small_problem()
    before = torch.random.get_rng_state()
    candidates = point_network_candidates(problem, 3, EFFORT)
    assert torch.equal(torch.random.get_rng_state(), before)
    again = point_network_candidates(problem, 3, EFFORT)
    assert tuple(candidates) == POINT_NETWORKS
    for name, candidate in candidates.items():
        assert isinstance(candidate, Forecast)
        assert candidate.validation is None
        assert candidate.test.shape == (40, EFFORT.members, 3)
        assert torch.equal(candidate.test, again[name].test)
    assert float((candidates["squared error"].test.mean(1) - problem.test.outcome).abs().mean()) == pytest.approx(
        0.2, abs=0.15
    )
