"""Tests of a correction that is trained further on the decision."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.forecasting.corrections import CorrectionPlan
from stakes.forecasting.recalibration import DecisionTraining, learned, ordered_crps, trained_on_decision

COST = stakes.ImbalanceCost(short=10.0, long=1.0, lower=-30.0, upper=30.0)
SHARP = stakes.NewsvendorCost(underage=19.0, overage=1.0, lower=-30.0, upper=30.0)


def past(width: int, cases: int = 120) -> ForecastSet:
    """Forecasts whose errors are skewed, which a normal distribution does not know."""
    random = np.random.default_rng(0)
    known = random.normal(size=(cases, 1, width))
    members = known + 0.5 * random.normal(size=(cases, 6, width))
    return ForecastSet(members, outcomes=known[:, 0] + random.exponential(size=(cases, width)) - 1)


def state_of(given: ForecastSet, bounds: tuple = (None, None), dependence: str = "members") -> stakes.Correction:
    plan = CorrectionPlan("bias_and_spread", "bias_and_spread", dependence)
    return learned(given, plan, (bounds,) * given.members.shape[2], COST)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("dependence", ["members", "errors"])
def test_gradients_are_those_of_finite_differences(width, dependence):
    given = past(width, cases=60)
    training = DecisionTraining(state_of(given, dependence=dependence), given, COST, 0.5, np.linspace(1, 2, 60))
    moved = 0.1 * torch.randn(training.start().shape, dtype=torch.float64, generator=torch.manual_seed(0))
    assert torch.autograd.gradcheck(training.loss, moved.requires_grad_(), eps=1e-7, atol=1e-4)


def test_members_are_those_of_the_state_that_moved():
    given = past(2)
    state = state_of(given, bounds=(-3.0, None))
    training = DecisionTraining(state, given, COST, 0.5, np.ones(120))
    np.testing.assert_allclose(training.members(training.start()).numpy(), state.corrected(given).members, rtol=1e-12)
    moved = 0.2 * torch.randn(training.start().shape, dtype=torch.float64, generator=torch.manual_seed(1))
    found = training.state(moved).corrected(given).members
    np.testing.assert_allclose(training.members(moved).numpy(), found, rtol=1e-9, atol=1e-12)


def test_training_lowers_the_cost_that_it_is_told():
    given = past(1, cases=200)
    state = state_of(given)
    normal = replace(state, models=tuple(replace(m, shape=tuple(np.linspace(-2, 2, 100))) for m in state.models))

    def paid(which: stakes.Correction) -> float:
        members = torch.from_numpy(which.corrected(given).members)
        return float(SHARP(stakes.optimal_action(SHARP, members), torch.from_numpy(given.outcomes)).mean())

    trained = trained_on_decision(normal, given, SHARP, 0.8, np.ones(200))
    assert trained.decision_weight == 0.8
    assert paid(trained) < 0.97 * paid(normal)


def test_weight_counts_cases():
    given = past(1, cases=200)
    state, half = state_of(given), np.arange(200) < 100
    spoiled = replace(given, outcomes=np.where(half[:, None], given.outcomes, 50.0))
    trained = [trained_on_decision(state, each, COST, 0.5, half.astype(float)) for each in (given, spoiled)]
    assert trained[0] == trained[1]
    assert trained[0].models != state.models


def test_crps_of_ordered_members_is_the_plain_one():
    random = torch.manual_seed(0)
    members = torch.randn(20, 7, 3, generator=random, dtype=torch.float64).clip(min=-0.5).sort(1).values
    outcome = torch.randn(20, 3, generator=random, dtype=torch.float64).clip(min=-0.5)
    expected = stakes.PointwiseCRPS("biased")(members, outcome)
    torch.testing.assert_close(ordered_crps(members, outcome), expected)


@pytest.mark.parametrize(
    ("cost", "members"),
    [
        (SHARP, 200),
        (stakes.ScheduleCost(5.0, 1.0, ramp=1.0, lower=-30.0), 50),
        (stakes.StorageCost(1.0, 3.0, 0.1, 1.0, 1.0), 50),
        (stakes.CVaRCost(stakes.StorageCost(1.0, 3.0, 0.1, 1.0, 1.0), 0.95), 100),
    ],
)
def test_vector_actions_are_learned_from_fewer_members(cost: stakes.Cost, members: int) -> None:
    given = past(2, cases=40)
    state = state_of(given, dependence="errors")
    training = DecisionTraining(state, given, cost, 0.5, np.ones(40))
    found, every = training.members(training.start()).numpy(), state.corrected(given).members
    assert found.shape == (40, members, 2)
    levels = (np.arange(members) + 0.5) / members  # each outcome keeps its distribution
    expected = np.quantile(every, levels, axis=1, method="hazen").swapaxes(0, 1)
    np.testing.assert_allclose(np.sort(found, 1), expected, rtol=1e-9)
