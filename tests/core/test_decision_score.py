import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import DecisionScore, ProtectionCost, ShortfallCost, WindDispatchCost, optimal_action
from stakes.errors import ShapeError


@pytest.mark.parametrize("cost", [ShortfallCost(5.0), WindDispatchCost(5.0), ProtectionCost(0.5, 0.5)])
@pytest.mark.parametrize("sites", [1, 3])
def test_plain_decision_score_is_the_realised_cost(cost: Any, sites: int) -> None:
    samples, outcome = torch.rand(5, 8, sites), torch.rand(5, sites)
    expected = cost(optimal_action(cost, samples), outcome)
    assert torch.equal(DecisionScore(cost)(samples, outcome), expected)


def test_debiased_decision_score_formula() -> None:
    plain, debiased = (DecisionScore(ShortfallCost(5.0), name) for name in ("plain", "debiased"))
    samples, outcome = torch.rand(5, 8, 1), torch.rand(5, 1)
    halves = plain(samples[:, :4], outcome) + plain(samples[:, 4:], outcome)
    torch.testing.assert_close(debiased(samples, outcome), 2 * plain(samples, outcome) - halves / 2)


@pytest.mark.parametrize("members", [1, 2, 3, 5, 7, 11])
def test_debiased_decision_score_needs_even_members(members: int) -> None:
    with pytest.raises(ShapeError, match=f"even number of members >= 4, got M = {members}"):
        DecisionScore(ShortfallCost(5.0), "debiased")(torch.rand(3, members, 1), torch.rand(3, 1))


def wind_speed(generator: torch.Generator, *shape: int) -> Tensor:
    return (10 + 4 * torch.randn(shape, generator=generator)).clamp(min=0)


def two_modes(generator: torch.Generator, *shape: int) -> Tensor:
    noise = torch.randn(shape, generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < 0.6, 0.2 * noise, 2.5 + 0.4 * noise)


def biases(cost: Any, draw_outcome: Callable[..., Tensor], sets: int = 200_000) -> tuple[float, float, float]:
    """How much the plain and debiased scores of 10 members exceed the least expected cost, and their standard error."""
    generator = torch.Generator().manual_seed(11)
    best = optimal_action(cost, draw_outcome(generator, 1, 1_000_000, 1))
    samples, outcome = draw_outcome(generator, sets, 10, 1), draw_outcome(generator, sets, 1)
    least = cost(best.expand(sets, 1), outcome)
    plain = DecisionScore(cost)(samples, outcome) - least
    debiased = DecisionScore(cost, "debiased")(samples, outcome) - least
    error = max(plain.std().item(), debiased.std().item()) / math.sqrt(sets)
    return plain.mean().item(), debiased.mean().item(), error


def test_bias_of_a_wide_wind_forecast() -> None:
    plain, debiased, error = biases(WindDispatchCost(5.0), wind_speed)
    assert plain == pytest.approx(0.065, abs=0.01)
    assert plain - 4 * error > 1.4 * (abs(debiased) + 4 * error)


def test_bias_of_protection() -> None:
    plain, debiased, error = biases(ProtectionCost(1.0, 0.5, sharpness=10.0), two_modes)
    assert plain == pytest.approx(0.035, abs=0.007)
    assert plain - 4 * error > 2 * (abs(debiased) + 4 * error)


def test_debiased_score_overshoots_where_members_are_few() -> None:
    plain, debiased, error = biases(WindDispatchCost(20.0), wind_speed)
    assert plain == pytest.approx(0.17, abs=0.03)
    assert debiased + 4 * error < 0
    assert abs(debiased) == pytest.approx(plain, rel=0.4)
