"""Decisions with many parts as a report shows them."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.evaluation.case_metrics import JudgedParts, judged_parts, shown_case, todays_cost, todays_notes
from stakes.forecasting.recalibration import judge_correction
from stakes.settings import from_plain, to_plain

COST = stakes.ScheduleCost(short=4.0, long=1.0, ramp=1.0)
RISING = torch.tensor([[1.0, 1.0, 4.0], [2.0, 1.0, 5.0], [3.0, 1.0, 6.0]])
NAMES = ("a", "b", "c")


def test_a_case_part_by_part() -> None:
    case = shown_case(COST, NAMES, RISING, np.array([1.0, 2.0, 3.0]), "the last case", 7)
    assert case.action == pytest.approx((3.0, 4.0, 5.0))
    assert case.quantiles[2] == (2.0, 1.0, 5.0)  # the medians
    assert case.outcome == (1.0, 2.0, 3.0)
    assert {limit.place: limit.parts for limit in case.binding} == {"a to b, up": (0, 1), "b to c, up": (1, 2)}
    prices = [limit.price for limit in case.binding]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] > 0


def test_weights_of_members_count() -> None:
    weighted = shown_case(COST, NAMES, RISING, weights=torch.tensor([0.0, 0.0, 1.0]))
    alone = shown_case(COST, NAMES, RISING[2:])
    assert weighted.quantiles == alone.quantiles
    assert weighted.action == pytest.approx(alone.action)


def test_the_last_the_median_and_the_dearest_case_are_shown_and_limits_priced_over_all() -> None:
    members = torch.stack([RISING, torch.ones(3, 3), RISING, torch.ones(3, 3)])
    asked: list[tuple[int, int | None]] = []

    def draw(rows: NDArray[np.int64], most: int | None) -> torch.Tensor:
        asked.append((len(rows), most))
        return members[rows]

    parts = judged_parts(COST, NAMES, np.zeros((4, 3)), np.array([9.0, 1.0, 5.0, 2.0]), draw)
    assert parts is not None
    assert [(case.name, case.case) for case in parts.shown] == [
        ("the last case", 3),
        ("a case of median cost", 3),
        ("the dearest case", 0),
    ]
    assert asked == [(4, 100), (3, None)]
    ramp, lower = parts.limits
    assert (ramp.kind, ramp.share, ramp.place_share, ramp.place) == ("ramp", 0.5, 0.5, "a to b, up")
    assert ramp.saved > 0
    assert (lower.kind, lower.share, lower.place) == ("lower", 0.0, "")
    assert (parts.outcomes, parts.parts, parts.cases) == (NAMES, NAMES, 4)
    assert from_plain(JudgedParts, to_plain(parts)) == parts


def test_a_function_of_many_parts_has_them_and_no_prices_of_limits() -> None:
    cost = stakes.cost_function(lambda a, y: ((a - y) ** 2).sum(-1), 0.0, 9.0, convex=True, parts=3)
    outcome, members = np.ones((4, 3)), torch.stack([RISING] * 4)
    parts = judged_parts(cost, NAMES, outcome, np.arange(4.0), lambda rows, most: members[rows])
    assert parts is not None
    assert (parts.parts, parts.limits) == (NAMES, ())
    assert parts.shown[0].action == pytest.approx((2.0, 1.0, 5.0))
    today = todays_cost(cost, 2 * outcome, torch.from_numpy(outcome))
    assert today.tolist() == [3.0] * 4


def test_a_decision_about_one_number_has_no_parts() -> None:
    def draw(rows: NDArray[np.int64], most: int | None) -> torch.Tensor:
        raise AssertionError

    assert judged_parts(stakes.ShortfallCost(5.0), ["y"], np.zeros((4, 1)), np.zeros(4), draw) is None


def test_corrected_forecasts_are_judged_part_by_part() -> None:
    generator = np.random.default_rng(0)
    members = 3 + generator.normal(size=(12, 8, 2))
    today = np.full((12, 2), 4.0)
    given = ForecastSet(members - 1, outcomes=members[:, 0], targets=("north", "south"), today=today)
    judged = judge_correction(given, members, stakes.AllocationCost(3.0, 1.0, budget=6.0))
    assert {"raw_action_north", "raw_action_south", "corrected_action_south"} < set(judged.cases)
    assert (judged.values("action_north", "corrected") + judged.values("action_south", "corrected")).max() <= 6 + 1e-6
    assert judged.values("today_action_south").tolist() == [4.0] * 12
    off = 4 - members[:, 0]
    np.testing.assert_allclose(judged.values("today_cost"), np.where(off > 0, off, -3 * off).sum(1))
    assert judged.parts is not None
    assert judged.parts.limits[0].kind == "budget"
    assert judged.parts.limits[0].share > 0.5


def test_todays_action_may_break_limits() -> None:
    cost = stakes.AllocationCost(3.0, 1.0, budget=6.0)
    actions = np.array([[4.0, 4.0], [3.0, 3.0], [np.nan, 1.0]])
    (note,) = todays_notes(cost, actions, 2)
    assert "breaks a limit of the decision in 1 of 2 cases" in note
    assert todays_notes(cost, actions[1:], 2) == ()
    assert todays_notes(stakes.ShortfallCost(5.0), np.zeros(3), 1) == ()


@pytest.mark.parametrize("sites", [1, 2, 3])
def test_todays_action_of_a_risk_averse_decision_has_the_threshold_that_suits_it_best(sites: int) -> None:
    outcome = torch.rand(40, sites, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    action = np.full((40, sites), 0.4)
    action[3] = np.nan
    plain = stakes.ScheduleCost(10.0, 1.0) if sites > 1 else stakes.NewsvendorCost(10.0, 1.0, 0.0, 1.0)
    given = action if sites > 1 else action[:, 0]
    paid = todays_cost(plain, given, outcome)
    charged = todays_cost(stakes.CVaRCost(plain, 0.8), given, outcome)
    assert np.isnan(charged[3])
    known = np.sort(paid[~np.isnan(paid)])  # 39 cases: of the worst fifth, 7.8, the last counts in part
    worst = (known[-7:].sum() + 0.8 * known[-8]) / 7.8
    assert np.nanmean(charged) == pytest.approx(worst)
    assert np.isnan(todays_cost(stakes.CVaRCost(plain, 0.8), given * np.nan, outcome)).all()


def test_limits_that_today_breaks_are_told_of_risk_averse_decisions_too() -> None:
    averse = stakes.CVaRCost(stakes.AllocationCost(3.0, 1.0, budget=6.0), 0.5)
    (note,) = todays_notes(averse, np.array([[4.0, 4.0], [3.0, 3.0]]), 2)
    assert "in 1 of 2 cases" in note
