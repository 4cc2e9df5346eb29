from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses
from torch import Tensor

from reproduction.tasks.task import only_outcome, region_between
from stakes import (
    CVaRCost,
    ImbalanceCost,
    NewsvendorCost,
    PowerCurve,
    ProtectionCost,
    ScheduleCost,
    ShortfallCost,
    WindDispatchCost,
    cost_function,
    solve_action,
)
from stakes.costs import member_weights
from stakes.costs.cost import outcome_total
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.metrics import LEVELS, Assessor, tail_score
from stakes.scores.decision_score import DecisionScore
from stakes.scores.scoring_rules import energy_score

DOUBLE = torch.float64
COSTS = {
    "shortfall": ShortfallCost(4.0),
    "wind": WindDispatchCost(4.0),
    "protection": ProtectionCost(0.5, 0.4, sharpness=3.0),
    "imbalance": ImbalanceCost(3.0, 1.0, lower=-5.0, upper=5.0),
    "own": cost_function(lambda a, y: (a - y) ** 2 + 0.1 * (a - y) ** 4, lower=-2.0, upper=2.0),
}
every_cost = pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)


def draw(cases: int = 12, members: int = 9, sites: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(cases, sites, generator=generator, dtype=DOUBLE)
    noise = torch.randn(cases, members + 1, sites, generator=generator, dtype=DOUBLE)
    drawn = centre[:, None] + 0.5 * noise
    return drawn[:, :-1], drawn[:, -1]


def by_grid(cost: Any, members: list[float], steps: int = 20001) -> tuple[float, float]:
    """The best action of members on a fine grid, and its expected cost, by explicit sums."""
    levels = torch.linspace(float(cost.lower), float(cost.upper), steps, dtype=DOUBLE)[:, None]
    expected = sum(cost(levels, torch.full((steps, 1), member, dtype=DOUBLE)) for member in members) / len(members)
    best = int(torch.as_tensor(expected).argmin())
    return float(levels[best, 0]), float(torch.as_tensor(expected)[best])


@every_cost
def test_action_costs_and_regret_equal_a_search(cost: Any) -> None:
    members, outcome = draw()
    found = Assessor(cost)(members, outcome)
    for case in range(len(members)):
        action, expected = by_grid(cost, members[case, :, 0].tolist())
        seen = outcome[case, 0].item()
        _, foresight = by_grid(cost, [seen])
        assert found["action"][case] == pytest.approx(action, abs=4e-4)
        assert found["expected_cost"][case] == pytest.approx(expected, abs=1e-6)
        taken = float(cost(found["action"][case, None], torch.tensor([seen], dtype=DOUBLE)))
        assert found["cost"][case] == pytest.approx(taken, abs=1e-9)
        assert found["gap"][case] == pytest.approx(expected - taken, abs=1e-6)
        assert found["miscalibration"][case] == pytest.approx(abs(expected - taken), abs=1e-6)
        assert found["foresight_regret"][case] == pytest.approx(taken - foresight, abs=1e-4)


@every_cost
def test_gradient_equals_finite_differences(cost: Any) -> None:
    members, outcome = draw(cases=8, members=6, seed=3)
    if isinstance(cost, WindDispatchCost):  # on both sides of the rated speeds, where pulls have both signs
        members, outcome = 12 + 10 * members, 12 + 10 * outcome
    score, step = DecisionScore(cost), 1e-5
    pulls = torch.zeros(8, dtype=DOUBLE)
    for member in range(6):
        nudge = torch.zeros_like(members)
        nudge[:, member] = step
        pulls += ((score(members + nudge, outcome) - score(members - nudge, outcome)) / (2 * step)).abs()
    found = Assessor(cost)(members, outcome)
    assert (found["gradient"] > 0).any()
    torch.testing.assert_close(found["gradient"], pulls, rtol=1e-4, atol=1e-6)
    assert (found["gradient"][found["interior"] == 0] == 0).all()


def squares(action: torch.Tensor, outcome: torch.Tensor) -> torch.Tensor:
    return ((action - outcome) ** 2).sum(-1)


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.parametrize("kind", ["schedule", "averse", "function"])
def test_an_action_with_many_parts_is_interior_where_no_limit_binds(kind: str, binds: bool) -> None:
    room = 0.1 if binds else 50.0
    schedule = ScheduleCost(5.0, 1.0, 1.0, ramp=room)
    cost = {
        "schedule": schedule,
        "averse": CVaRCost(schedule, 0.4),
        "function": cost_function(squares, 0.0, 90.0, True, limits=(torch.ones(1, 3), torch.tensor([room]))),
    }[kind]
    members = torch.tensor([1.0, 3.0, 5.0]) + torch.rand(4, 20, 3, generator=torch.Generator().manual_seed(0))
    metrics = Assessor(cost)(members, members[:, 0])
    assert metrics["interior"].tolist() == 4 * [float(not binds)]
    assert metrics["interior"].bool().tolist() == solve_action(cost, members).interior.tolist()


def test_no_gradient_and_no_interior_at_a_bound() -> None:
    members = torch.full((1, 5, 1), 3.0) + torch.arange(5.0)[:, None]
    found = Assessor(ImbalanceCost(1.0, 1.0, lower=0.0, upper=2.0))(members, torch.tensor([[4.0]]))
    assert (found["action"].item(), found["interior"].item(), found["gradient"].item()) == (2.0, 0.0, 0.0)


def test_of_the_total_by_hand() -> None:
    members = torch.tensor([[[1.0], [2.0], [2.0], [4.0]]])
    found = Assessor(NewsvendorCost(1.0, 1.0, 0.0, 9.0))(members, torch.tensor([[2.0]]))
    assert found["pit"].item() == 0.5  # one below, three up to: the middle of 1/4 and 3/4
    assert found["error"].item() == 0.25
    assert found["spread"].item() == pytest.approx(np.std([1, 2, 2, 4], ddof=1))


def test_quantiles_equal_numpy() -> None:
    members, outcome = draw(members=37)
    found = Assessor(ShortfallCost(4.0))(members, outcome)["quantile"].numpy()
    wanted = np.quantile(members[..., 0].numpy(), LEVELS, axis=1, method="hazen").T
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-6)  # the levels have their rounding
    assert [level for level in (0.1, 0.3, 0.5, 0.7, 0.9) if level in LEVELS] == [0.1, 0.3, 0.5, 0.7, 0.9]
    np.testing.assert_allclose(np.diff(LEVELS), 0.04)


def test_mass_and_spread_in_regions() -> None:
    members = torch.tensor([[[0.0], [1.0], [3.0], [5.0]], [[0.0], [0.1], [0.2], [3.0]], [[0.0], [0.1], [0.2], [0.3]]])
    found = Assessor(ShortfallCost(4.0), {"high": region_between(only_outcome, lower=1.0)})(members, torch.zeros(3, 1))
    assert found["mass_high"].tolist() == [0.75, 0.25, 0.0]
    assert found["spread_high"][0].item() == pytest.approx(2.0)
    assert found["spread_high"][1:].isnan().all()


def test_several_sites() -> None:
    members, outcome = draw(sites=3)
    curve = PowerCurve()
    found = Assessor(WindDispatchCost(4.0), {"low": region_between(lambda y: curve(y).mean(-1), upper=0.5)})(
        members, outcome
    )
    total, seen = curve(members).mean(-1), curve(outcome).mean(-1)
    torch.testing.assert_close(found["error"], total.mean(-1) - seen)
    torch.testing.assert_close(found["spread"], total.std(-1))
    torch.testing.assert_close(found["mass_low"], (total < 0.5).double().mean(-1), check_dtype=False)
    assert {"variogram_score", "crps_of_total"} <= set(found)
    assert not {"tail_crps", "spread_low"} & set(found)


def test_the_total_of_a_cost_without_one_is_the_mean() -> None:
    members, outcome = draw(sites=2)
    found = Assessor(ProtectionCost(0.5, 0.4))(members, outcome)
    torch.testing.assert_close(found["error"], members.mean((1, 2)) - outcome.mean(1))


@pytest.mark.parametrize(
    ("cost", "threshold", "side"),
    [
        (ProtectionCost(-2.0, 0.4, "below"), -2.0, "below"),
        (ProtectionCost(1, 0.4), 1.0, "above"),
        (WindDispatchCost(4.0, PowerCurve(cutoff_speed=22.0, shear=0.0)), 20.0, "above"),
    ],
)
def test_tail_score(cost: Any, threshold: float, side: str) -> None:
    found = tail_score(cost)
    assert found is not None
    assert (found.threshold, found.side) == (threshold, side)


@pytest.mark.parametrize("sites", [1, 3])
def test_parts_give_the_same(monkeypatch: pytest.MonkeyPatch, sites: int) -> None:
    members, outcome = draw(sites=sites)
    assess: Callable[..., Any] = Assessor(WindDispatchCost(4.0), {"all": lambda y: y[..., 0] > -9})
    whole = assess(members, outcome)
    monkeypatch.setitem(member_weights._NUMBERS_AT_ONCE, "cpu", 5 * 9 * sites)
    parts = assess(members, outcome)
    assert whole.keys() == parts.keys()
    for name, values in whole.items():
        torch.testing.assert_close(parts[name], values, rtol=1e-12, atol=1e-12)


def test_shapes_are_checked() -> None:
    for members, outcome in (((4, 3), (4, 1)), ((4, 3, 1), (4, 2)), ((4, 3, 1), (5, 1))):
        refuses(ShapeError, "cases, members", Assessor(ShortfallCost(4.0)), torch.rand(members), torch.rand(outcome))


@pytest.mark.parametrize("sites", [1, 2])
@pytest.mark.parametrize("cost", [NewsvendorCost(3.0, 1.0, -5.0, 5.0), ProtectionCost(0.5, 0.4, sharpness=3.0)])
def test_weighted_members_are_members_that_come_several_times(cost: Any, sites: int) -> None:
    members, outcome = draw(sites=sites)
    weights = torch.tensor([2, 1, 0, 3, 1, 1, 4, 1, 2])
    found = Assessor(cost, weights=weights)(members, outcome)
    repeated = members.repeat_interleave(weights, 1)  # 15 members
    expected = Assessor(cost)(repeated, outcome)
    for name in ("action", "cost", "expected_cost", "gap", "foresight_regret", "interior", "pit", "error"):
        torch.testing.assert_close(found[name], expected[name].to(DOUBLE))
    torch.testing.assert_close(found["energy_score"], energy_score(repeated, outcome, "biased"))
    torch.testing.assert_close(found["spread"], expected["spread"] * (14 / 15) ** 0.5)
    ordered = outcome_total(cost, repeated).sort(-1).values
    places = [int(np.ceil(round(15 * level, 9))) - 1 for level in LEVELS]
    torch.testing.assert_close(found["quantile"], ordered[:, places])
    assert found.keys() == expected.keys()


def test_no_regions_of_weighted_members() -> None:
    with pytest.raises(SettingError, match="regions"):
        Assessor(COSTS["imbalance"], {"low": lambda outcome: outcome[..., 0] < 0}, torch.ones(3))
