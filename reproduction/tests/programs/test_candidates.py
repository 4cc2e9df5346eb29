"""Ridge regression and networks as candidates of a small problem."""

from dataclasses import replace
from functools import partial
from statistics import NormalDist

import numpy as np
import pytest
import torch
from small_programs import EFFORT, small_problem

from reproduction.programs.candidates import (
    RIDGE_CANDIDATES,
    SCORES,
    FineTuning,
    drawn_members,
    finetuned_candidates,
    fitted_ridge,
    halves,
    mended_members,
    recent_vectors,
    ridge_candidates,
    trained_candidates,
    trained_model,
)
from reproduction.programs.point_networks import POINT_NETWORKS, PointNetwork, point_network_candidates
from reproduction.programs.problem import Forecast, Problem, RunEffort
from reproduction.programs.run import judge
from stakes.data.case_table import CaseTable
from stakes.errors import StakesError
from stakes.scores.scoring_rules import ScoreMixture


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


def test_every_weight_has_its_candidate_and_starts_from_the_score() -> None:
    problem = small_problem(test=10)
    tuning = FineTuning(weights=(0.3, 0.8), members=10, batch=32, epochs=1)
    make = partial(finetuned_candidates, problem, 1, EFFORT, name="own", members=12)
    tuned = make(tuning=tuning)
    assert list(tuned) == ["own 0", "own 0.3", "own 0.8"]
    plain = make()
    assert list(plain) == ["own 0"]
    for name, each in tuned.items():
        assert isinstance(each, Forecast)
        assert each.test.shape == (10, 12, 3), name
    assert isinstance(plain["own 0"], Forecast)
    torch.testing.assert_close(plain["own 0"].test, tuned["own 0"].test)
    assert not torch.equal(tuned["own 0.3"].test, tuned["own 0.8"].test)


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("linear", [False, True])
def test_training_keeps_the_weights_of_the_least_validation_score(score: str, linear: bool) -> None:
    problem = small_problem(test=10)
    rule = SCORES[score]
    values = []
    for epochs in (1, 12):
        model = trained_model(problem, 0, RunEffort(epochs=epochs, patience=epochs), score=score, linear=linear)
        outcome = model.outcome_scaling.standardise(problem.validation.outcome)
        if isinstance(rule, ScoreMixture):
            rule = rule.standardised(model.outcome_scaling.standardise(problem.train.outcome))
        members = drawn_members(model, problem.validation, 200, 0)
        values.append(float(rule(model.outcome_scaling.standardise(members), outcome).mean()))
    assert values[1] <= values[0] + 0.02 * abs(values[0])


def test_a_seed_gives_the_same_forecast() -> None:
    problem = small_problem(test=5)
    first, second, other = (
        drawn_members(trained_model(problem, seed, EFFORT, score="pointwise", linear=False), problem.test, 4, seed)
        for seed in (3, 3, 4)
    )
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert not torch.equal(first, other)


def with_outcome(problem: Problem, outcome: torch.Tensor) -> Problem:
    return replace(problem, validation=CaseTable(problem.validation.features, outcome))


def test_error_vectors_by_hand() -> None:
    problem = small_problem(validation=5)
    points = Forecast(problem.validation.outcome[:, None] - 1.0, problem.test.outcome[:, None])
    moved = with_outcome(problem, problem.validation.outcome + torch.arange(5.0)[:, None])  # errors 1, 2, 3, 4, 5
    recent = recent_vectors(moved, points, RunEffort(members=100))
    assert recent.validation is not None
    assert points.validation is not None
    of_test = recent.test - points.test
    of_validation = recent.validation - points.validation
    torch.testing.assert_close(of_test[0, :, 0], torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    torch.testing.assert_close(of_validation[0, :, 0], torch.tensor([3.0, 5.0]))  # of the other half, two of three
    torch.testing.assert_close(of_validation[4, :, 0], torch.tensor([1.0, 2.0]))
    assert halves(5) == (slice(0, 2), slice(2, 5))


def test_no_more_vectors_than_wanted() -> None:
    problem = small_problem()
    points = Forecast(problem.validation.outcome[:, None], problem.test.outcome[:, None])
    assert recent_vectors(problem, points, EFFORT).test.shape == (40, EFFORT.members, 3)


def test_bias_and_spread_are_mended_by_the_other_half() -> None:
    problem = small_problem()
    generator = torch.Generator().manual_seed(0)

    def members(cases: CaseTable) -> torch.Tensor:
        return cases.outcome[:, None] - 2 + 0.1 * torch.randn(len(cases), 20, 3, generator=generator)

    forecast = Forecast(members(problem.validation), members(problem.test))
    corrected = mended_members(problem, forecast)
    assert corrected.validation is not None
    assert abs(float((corrected.test.mean(1) - problem.test.outcome).mean())) < 0.05
    assert abs(float((corrected.validation.mean(1) - problem.validation.outcome).mean())) < 0.05
    first, second = halves(len(problem.validation))
    outcome = problem.validation.outcome.clone()
    outcome[first] += 5.0  # what the first half errs by moves the second half alone
    moved = mended_members(with_outcome(problem, outcome), forecast).validation
    assert moved is not None
    torch.testing.assert_close(moved[first], corrected.validation[first])
    assert float((moved[second] - corrected.validation[second]).mean()) > 4
