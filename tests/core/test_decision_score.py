import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import (
    DecisionScore,
    ParameterRange,
    ProtectionCost,
    ShortfallCost,
    WindDispatchCost,
    energy_score,
    optimal_action,
    solve_action,
)
from stakes.errors import ShapeError
from stakes.scores import decision_score
from stakes.scores.decision_score import realised_cost, realised_costs


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


@pytest.mark.parametrize("weighted", [False, True])
def test_realised_costs_in_parts(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    """Members in one piece or row after row, each case with its own cost parameter: the same actions, costs, scores."""
    generator = torch.Generator().manual_seed(0)
    members, outcome = torch.rand(11, 6, 1, generator=generator), torch.rand(11, 1, generator=generator)
    parameter = torch.linspace(2.0, 9.0, 11)
    weights = torch.arange(1.0, 7.0) if weighted else None
    cost = ShortfallCost(parameter)
    action = optimal_action(cost, members, weights=weights, thorough=True)
    monkeypatch.setitem(decision_score._NUMBERS_AT_ONCE, "cpu", 3 * 6)
    streamed = ((rows, members[rows]) for rows in (slice(0, 5), slice(5, 11)))
    for forecasts in (members, streamed):
        found = realised_costs(
            ShortfallCost(ParameterRange(1, 10)),  # type: ignore[arg-type]
            forecasts,
            outcome,
            weights=weights,
            parameter=parameter,
            score=energy_score,
        )
        torch.testing.assert_close(found.action, action, rtol=0, atol=0)
        torch.testing.assert_close(found.cost, cost(action, outcome), rtol=0, atol=0)
        torch.testing.assert_close(found.score, energy_score(members, outcome), rtol=0, atol=0)


def test_a_realised_cost_with_its_certificate() -> None:
    members, outcome = torch.rand(5, 8, 1), torch.rand(5, 1)
    cost = ShortfallCost(3.0)
    found, solution = realised_cost(cost, members, outcome, certify=True), solve_action(cost, members)
    assert found.certificate is not None
    assert found.expected_cost is not None
    torch.testing.assert_close(found.action, solution.action, rtol=0, atol=0)
    torch.testing.assert_close(found.expected_cost, solution.expected_cost, rtol=0, atol=0)
    plain = realised_cost(cost, members, outcome, expected=True)
    assert plain.expected_cost is not None
    torch.testing.assert_close(plain.expected_cost, solution.expected_cost)
