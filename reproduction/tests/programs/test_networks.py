"""Ridge regression and networks as candidates of a small problem."""

import pytest
import torch
from small_programs import EFFORT, small_problem

from reproduction.programs.candidates import (
    RIDGE_CANDIDATES,
    fitted_ridge,
    ridge_candidates,
    trained_candidates,
)
from reproduction.programs.problem import Forecast
from reproduction.programs.run import judge
from stakes.errors import StakesError


def test_ridge_regression_and_its_errors() -> None:
    problem = small_problem()
    candidates = ridge_candidates(problem, 0, EFFORT)
    assert tuple(candidates) == RIDGE_CANDIDATES
    ridge, recent, refit, train = (candidates[name] for name in RIDGE_CANDIDATES)
    assert ridge.validation is None
    assert recent.validation is not None
    spreads = [float(each.test.std(1).mean()) for each in (ridge, recent, train)]
    assert 0.13 < spreads[0] < 0.19  # of all cases before the test, in part 0.1 and in part 0.2
    assert 0.17 < spreads[1] < 0.23  # of validation cases, all 0.2
    assert 0.08 < spreads[2] < 0.13  # of training cases, all 0.1
    torch.testing.assert_close(refit.test - refit.test.mean(1, keepdim=True), recent.test - recent.test.mean(1, True))
    whole = fitted_ridge(problem.before_test, problem.gap)
    assert float((whole.sample(problem.test.features, 500).mean(1) - ridge.test.mean(1)).abs().max()) < 0.1


def test_networks_at_their_weights() -> None:
    problem = small_problem()
    candidates = trained_candidates(problem, 0, EFFORT, weights=(0.0, 0.5), settings={"batch": 32})
    assert list(candidates) == ["energy 0", "energy 0 recent", "energy 0.5", "energy 0.5 recent"]
    for candidate in candidates.values():
        assert isinstance(candidate, Forecast)
        assert candidate.validation is not None
        assert candidate.validation.shape == (120, EFFORT.network_members, 3)
        assert candidate.test.shape == (40, EFFORT.network_members, 3)
    again = trained_candidates(problem, 0, EFFORT, weights=(0.0,), settings={"batch": 32})
    assert torch.equal(again["energy 0"].test, candidates["energy 0"].test)
    plain, recent = (
        float(judge(problem, candidates[name], "test")["cost"].mean()) for name in ("energy 0", "energy 0 recent")
    )
    assert recent < plain * 1.2  # the noise of training cases is half of what comes


def test_a_network_that_fails_is_named() -> None:
    problem = small_problem()
    with pytest.raises(StakesError, match="a network of weight 0 failed: "):
        trained_candidates(problem, 0, EFFORT, weights=(0.0,), settings={"learning_rate": 1e30, "batch": 32})
