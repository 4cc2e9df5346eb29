"""What a policy pays beside a forecast's actions, and how many neighbours belong together."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refuses

import stakes
from reproduction.policy import PolicySettings, headroom, train_policy
from stakes.data.case_table import CaseTable, alternate_blocks
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, block_length, paired_difference, upper_bounds

COST = stakes.ShortfallCost(5.0)
FEW = PolicySettings(hidden=16, layers=2, epochs=30, patience=30)


def cases(count: int, seed: int) -> CaseTable:
    """Power that follows the feature, and some noise."""
    features = torch.rand(count, 1, generator=torch.Generator().manual_seed(seed))
    noise = torch.randn(count, 1, generator=torch.Generator().manual_seed(100 + seed))
    return CaseTable(features, (features + 0.1 * noise).clamp(0, 1))


TRAIN, STOPPING, JUDGED = (cases(count, seed) for seed, count in enumerate((600, 200, 200)))


def foresight() -> Any:
    return COST(COST.best_action(JUDGED.outcome[:, None]), JUDGED.outcome)


def test_the_numbers_are_those_of_the_policy_and_its_neighbours() -> None:
    paid = np.zeros(200)
    found = headroom(COST, TRAIN, STOPPING, JUDGED, paid, block=5, settings=FEW)
    policy = train_policy(COST, TRAIN, STOPPING, FEW)
    by_policy = COST(policy(JUDGED.features), JUDGED.outcome)
    assert found.cases == 200
    assert found.forecast_cost == 0.0
    assert found.policy_cost == pytest.approx(by_policy.mean().item())
    assert found.gain == pytest.approx(paired_difference(by_policy[None], paid[None], 5))
    action = COST.best_action(TRAIN.outcome)
    assert found.climatology_cost == pytest.approx(COST(action.expand(200, 1), JUDGED.outcome).mean().item())
    assert found.foresight_cost == pytest.approx(foresight().mean().item())
    assert found.foresight_cost < found.policy_cost < found.climatology_cost < 0


def test_says_whether_there_is_something_to_gain() -> None:
    bad = headroom(COST, TRAIN, STOPPING, JUDGED, np.zeros(200), settings=FEW)
    assert bad.gain.high < 0
    assert "pays less" in bad.sentence
    assert bad.sentence.endswith(
        "over 200 cases): the features know something that the forecast misses and the cost asks for, so "
        "decision-aware training may pay."
    )
    perfect = headroom(COST, TRAIN, STOPPING, JUDGED, foresight(), settings=FEW)
    assert perfect.gain.low > 0
    assert "pays more" in perfect.sentence
    even = replace(perfect, gain=Difference(0.0, -0.1, 0.1))
    assert "(0, 95 % interval -0.1 to +0.1, over 200 cases)" in even.sentence
    for found in (perfect, even):
        assert "only the decision weights themselves, compared on held-out cases, can tell" in found.sentence


def test_the_seed_and_the_settings_are_those_given() -> None:
    first, again, other = (
        headroom(COST, TRAIN, STOPPING, JUDGED, np.zeros(200), seed=seed, settings=FEW) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.policy_cost != other.policy_cost
    longer = headroom(COST, TRAIN, STOPPING, JUDGED, np.zeros(200), seed=1, settings=replace(FEW, hidden=8))
    assert longer.policy_cost != first.policy_cost


def test_bad_costs_are_named() -> None:
    refuses(ShapeError, "plug_in must", headroom, COST, TRAIN, STOPPING, JUDGED, np.zeros(199), settings=FEW)
    refuses(NonFiniteError, "plug_in must", headroom, COST, TRAIN, STOPPING, JUDGED, np.full(200, np.nan), settings=FEW)
    refuses(SettingError, "block must", headroom, COST, TRAIN, STOPPING, JUDGED, np.zeros(200), block=0, settings=FEW)


@pytest.mark.parametrize(
    ("step", "count", "block"),
    [
        ("1h", 20_000, 168),
        ("6h", 3000, 28),
        ("15min", 20_000, 672),
        ("1D", 300, 7),
        ("30D", 300, 1),
        ("1h", 20 * 168, 168),
        ("1h", 20 * 168 - 1, 6 * 24),  # whole days, so that there are 20 of them
        ("1h", 2000, 4 * 24),
        ("6h", 250, 3 * 4),
        ("1h", 100, 3 * 24),  # but never less than three days
        ("1h", 1000, 3 * 24),
        ("1h", 40, 40),
        ("12h", 30, 6),
        ("1D", 139, 6),
        ("1D", 30, 3),
        ("2D", 12, 2),
        ("3D", 12, 2),
        ("1h", 5, 5),
        ("1h", 1, 1),
    ],
)
def test_a_block_of_times_is_a_week(step: str, count: int, block: int) -> None:
    times = pd.date_range("2020-01-01", periods=count, freq=step)
    assert block_length(len(times), times) == block
    assert block_length(len(times), times.to_numpy()) == block


@pytest.mark.parametrize(("step", "count"), [("1h", 40), ("1h", 719), ("15min", 900), ("1D", 29), ("6h", 119)])
def test_few_cases_are_seen_to_be_few(step: str, count: int) -> None:
    block = block_length(count, pd.date_range("2020-01-01", periods=count, freq=step))
    assert count < LEAST_BLOCKS * block


def test_errors_that_last_for_days_are_seldom_taken_for_a_gain() -> None:
    """Of 60 days of hours alternate blocks judge nine weights, none of them cheaper; errors last about two days."""
    kept, days, draws = np.exp(-1 / 48), 60, 400
    noise = np.random.default_rng(0).normal(size=(24 * days, draws, 9))
    for step in range(1, len(noise)):
        noise[step] = kept * noise[step - 1] + np.sqrt(1 - kept**2) * noise[step]
    automatic = block_length(24 * days, pd.date_range("2020-01-01", periods=24 * days, freq="1h"))
    left = {}
    for block in (24, automatic):
        judged = noise[alternate_blocks(24 * days, block)[1]]
        bounds = [upper_bounds(judged[:, draw].T, block=block, resamples=500) for draw in range(draws)]
        left[block] = np.mean(np.min(bounds, axis=1) < 0)
    assert left[24] > 0.1
    assert left[automatic] < 0.05


def test_a_given_block_is_taken_up_to_all_rows() -> None:
    hours = pd.date_range("2020-01-01", periods=5000, freq="1h")
    assert block_length(5000, hours, "auto") == 168
    assert block_length(1000, None, "auto") == 10
    assert block_length(5000, hours, 48) == 48
    assert block_length(40, None, np.int64(48)) == 40  # type: ignore[arg-type]
    refuses(SettingError, "block must", block_length, 40, None, 0)


def test_cases_of_one_moment_belong_together() -> None:
    hours = pd.date_range("2020-01-01", periods=5000, freq="1h")
    assert block_length(15000, hours.repeat(3)) == 3 * 168
    assert block_length(7, hours[:1].repeat(7)) == 7


def test_a_block_of_a_count_is_its_cube_root() -> None:
    assert [block_length(count) for count in (1, 8, 9, 27, 28, 1000, 1001)] == [1, 2, 3, 3, 4, 10, 11]
