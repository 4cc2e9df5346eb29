from dataclasses import replace
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor

from reproduction.policy import Policy, PolicySettings, train_policy
from stakes import ImbalanceCost, NewsvendorCost, ProtectionCost, ShortfallCost, cost_function, optimal_action
from stakes.data.case_table import CaseTable
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError, StakesError

SETTINGS = PolicySettings(hidden=8, layers=2, epochs=60, batch=500, learning_rate=0.02, patience=10)


def noise_cases(count: int, seed: int, sites: int = 1) -> CaseTable:
    """Outcomes between 0 and 1 that do not depend on the features."""
    generator = torch.Generator().manual_seed(seed)
    return CaseTable(torch.randn(count, 2, generator=generator), torch.rand(count, sites, generator=generator))


def known_cases(count: int, seed: int) -> CaseTable:
    """Outcomes that are a function of the features, which are far from standardised."""
    features = 500 + 20 * torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
    return CaseTable(features, 3 + torch.tanh((features[:, :1] - features[:, 1:]) / 20))


@pytest.mark.parametrize(
    ("cost", "sites", "tolerance"),
    [
        (ShortfallCost(5.0), 1, 0.03),
        (ShortfallCost(5.0), 3, 0.03),
        (NewsvendorCost(3.0, 1.0, 0.0, 2.0), 1, 0.06),
        (ImbalanceCost(3.0, 1.0, -1.0, 4.0), 3, 0.1),
        (ProtectionCost(0.6, 0.5), 1, 0.06),
    ],
    ids=lambda value: type(value).__name__,
)
def test_where_features_say_nothing_the_action_is_the_best_constant(cost: Any, sites: int, tolerance: float) -> None:
    train = noise_cases(4000, 0, sites)
    policy = train_policy(cost, train, noise_cases(2000, 1, sites), SETTINGS)
    action = policy(noise_cases(500, 2, sites).features)
    assert action.shape == (500, 1)
    best = optimal_action(cost, train.outcome)
    assert (action - best).abs().mean() < tolerance
    middle = (cost.lower + cost.upper) / 2
    assert abs(best - middle) > tolerance, "a policy that learns nothing would pass"


def test_where_features_say_all_the_action_follows_them() -> None:
    cost = ImbalanceCost(2.0, 2.0, 0.0, 10.0)
    policy = train_policy(cost, known_cases(1000, 0), known_cases(300, 1), replace(SETTINGS, batch=125))
    test = known_cases(300, 2)
    error = (policy(test.features) - test.outcome).abs().mean()
    assert error < 0.1 * (test.outcome - test.outcome.mean()).abs().mean()


def test_actions_stay_within_the_bounds() -> None:
    policy = Policy(2, -3.0, 5.0, 4, 1)
    action = policy(1e3 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0)))
    assert action.shape == (200, 1)
    assert -3 <= action.min() < action.max() <= 5


def weights(policy: Policy) -> Tensor:
    return torch.cat([value.flatten() for value in policy.state_dict().values()])


def test_the_seed_decides_and_the_global_generator_is_left_alone() -> None:
    cost, cases, quick = ShortfallCost(5.0), noise_cases(300, 0), replace(SETTINGS, epochs=3)
    before = torch.get_rng_state()
    first = train_policy(cost, cases, cases, quick, seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert torch.equal(weights(first), weights(train_policy(cost, cases, cases, quick, seed=4)))
    assert not torch.equal(weights(first), weights(train_policy(cost, cases, cases, quick, seed=5)))
    assert not any(parameter.requires_grad for parameter in first.parameters())


def test_the_weights_of_the_lowest_validation_cost_are_restored() -> None:
    """Validation cases that training only makes worse: what it started from stays."""
    cost = ImbalanceCost(2.0, 2.0, 0.0, 2.0)
    train, validation = (CaseTable(torch.zeros(64, 2), torch.full((64, 1), level)) for level in (1.9, 0.1))
    restored = train_policy(cost, train, validation, replace(SETTINGS, epochs=20))
    assert restored(train.features).mean() == pytest.approx(1.0, abs=0.3), "the middle of the bounds"
    assert train_policy(cost, train, train, replace(SETTINGS, epochs=20))(train.features).mean() > 1.5


def test_training_stops_after_so_many_epochs_without_a_lower_cost() -> None:
    calls = []

    def counted(action: Tensor, outcome: Tensor) -> Tensor:
        calls.append(len(action))
        return 0 * action  # never any better

    cases = noise_cases(50, 0)
    train_policy(cost_function(counted, 0.0, 1.0), cases, cases, replace(SETTINGS, batch=20, patience=3))
    assert calls == 3 * [50, 20, 20] + [50], "batches are full"


class Unbounded:
    """A cost as a user may write it."""

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = lower, upper

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        return ((action - outcome) ** 2).mean(-1)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (-float("inf"), 1.0, "^lower must be finite, got -inf"),
        (0.0, float("inf"), "^upper must be finite, got inf"),
        (torch.zeros(2), 1.0, r"^lower of a policy's cost must be one number, got shape \(2,\)"),
    ],
)
def test_bounds_are_two_finite_numbers(lower: Any, upper: Any, message: str) -> None:
    cases = noise_cases(20, 0)
    refuses(CostError, message, train_policy, Unbounded(lower, upper), cases, cases, SETTINGS)


def test_other_bad_inputs_are_named() -> None:
    cost, cases, quick = ShortfallCost(5.0), noise_cases(20, 0), replace(SETTINGS, epochs=1)
    other = CaseTable(torch.rand(20, 3), torch.rand(20, 1))
    refuses(ShapeError, "must have the same features, got 2 and 3 of them", train_policy, cost, cases, other, quick)
    refuses(SettingError, r"^seed must be a whole number", train_policy, cost, cases, cases, quick, seed=-1)
    wide = cost_function(lambda action, outcome: action[:, None] - outcome, 0.0, 1.0)
    refuses(ShapeError, r"one number a case, shape \(20,\), got \(20, 20\)", train_policy, wide, cases, cases, quick)
    sick = cost_function(lambda action, outcome: action / 0 - outcome / 0, 0.0, 1.0)
    refuses(NonFiniteError, "never finite", train_policy, sick, cases, cases, quick)
    with pytest.raises(StakesError, match="cost must have lower"):
        train_policy(None, cases, cases, quick)  # type: ignore[arg-type]
