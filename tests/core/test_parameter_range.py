"""A parameter that is a range: its words, its values, the column of features that holds it, and refusals."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refuses

import stakes
from stakes import CVaRCost, ImbalanceCost, NewsvendorCost, ParameterRange, ProtectionCost, ShortfallCost
from stakes.costs.cost import (
    ParameterColumn,
    parameter_value,
    ranged_parameter,
    refuse_range,
    with_parameter,
)
from stakes.errors import CostError, SettingError

RANGE = ParameterRange(1, 50)
SHARES = torch.linspace(0, 1, 1001, dtype=torch.float64)


@pytest.mark.parametrize("text", ["1..50", "0.05..0.2", "-5..5:linear", "1..50:linear", "1e-06..1000000"])
def test_words_are_read_and_written(text: str) -> None:
    read = ParameterRange.parse(text)
    assert ParameterRange.parse(str(read)) == read
    assert read.log == (not text.endswith("linear"))


@pytest.mark.parametrize("text", ["1..", "..5", "1.5", "a..b", "1..2..3", ""])
def test_what_is_no_range_is_refused(text: str) -> None:
    refuses(CostError, r"LOW\.\.HIGH", ParameterRange.parse, text)


@pytest.mark.parametrize(
    ("low", "high", "log", "said"),
    [
        (5, 5, True, "5..5"),
        (6, 5, False, "6..5"),
        (0, 5, True, "positive"),
        (-1, 5, True, "0..5|-1..5:linear"),
        (math.nan, 5, True, "finite"),
        (1, math.inf, True, "finite"),
        (True, 5, True, "finite number"),
        ("1", 5, True, "finite number"),
    ],
)
def test_ends_that_make_no_range_are_refused(low: float, high: float, log: bool, said: str) -> None:
    refuses(CostError, said, ParameterRange, low, high, log)


@pytest.mark.parametrize("log", [True, False])
def test_values_go_from_end_to_end_evenly(log: bool) -> None:
    spread = replace(RANGE, log=log)
    values = spread.at(SHARES)
    assert values[[0, -1]].tolist() == pytest.approx([1, 50], rel=1e-15)
    assert 1 <= values.min() <= values.max() <= 50
    steps = (values.log() if log else values).diff()
    torch.testing.assert_close(steps, steps.mean().expand(1000), rtol=1e-9, atol=0)
    assert values[500] == pytest.approx(spread.middle)
    assert spread.points(3) == pytest.approx((1, spread.middle, 50))
    assert spread.points(2) == (1, 50)


@pytest.mark.parametrize("log", [True, False])
def test_what_a_model_sees_has_mean_0_and_scale_1_over_the_range(log: bool) -> None:
    spread = replace(RANGE, log=log)
    seen = spread.standardised(spread.at((SHARES[:-1] + SHARES[1:]) / 2))
    assert seen.mean() == pytest.approx(0, abs=1e-9)
    assert seen.std(correction=0) == pytest.approx(1, abs=1e-5)
    assert (seen.diff() > 0).all()


@pytest.mark.parametrize(
    "reckon",
    [
        lambda cost: cost(torch.rand(3, 1), torch.rand(3, 2)),
        lambda cost: stakes.optimal_action(cost, torch.rand(3, 5, 2)),
        lambda cost: stakes.solve_action(cost, torch.rand(3, 5, 2)),
        lambda cost: stakes.DecisionScore(cost)(torch.rand(3, 5, 2), torch.rand(3, 2)),
        lambda cost: stakes.check_cost(cost, torch.rand(3, 5, 2)),
    ],
)
@pytest.mark.parametrize(
    "cost",
    [
        ShortfallCost(RANGE),
        stakes.WindDispatchCost(RANGE),
        ProtectionCost(0.5, RANGE),
        ProtectionCost(ParameterRange(-1, 1, log=False), 0.5),
        ProtectionCost(0.5, 0.5, sharpness=RANGE),
        stakes.CostLossCost(0.5, RANGE),
        stakes.CostLossCost(RANGE, 0.5),
        NewsvendorCost(RANGE, 1.0, 0.0, 2.0),
        NewsvendorCost(1.0, RANGE, 0.0, 2.0),
        ImbalanceCost(RANGE, 1.0, 0.0, 2.0),
        ImbalanceCost(1.0, RANGE, 0.0, 2.0),
    ],
)
def test_nothing_is_decided_or_paid_with_a_range(cost: stakes.Cost, reckon: Callable[[stakes.Cost], object]) -> None:
    refuses(CostError, "range 1..50|range -1..1", reckon, cost)


def test_nor_with_one_inside_an_aversion_to_risk() -> None:
    cost = CVaRCost(ShortfallCost(RANGE), level=0.5)
    refuses(CostError, "range 1..50|range -1..1", stakes.optimal_action, cost, torch.rand(3, 50, 2))
    refuses(CostError, "range 1..50|range -1..1", cost, torch.rand(3, 2), torch.rand(3, 2))


def test_where_all_cases_belong_to_one_decision_maker_a_range_is_refused_at_once() -> None:
    members, outcome = np.random.default_rng(0).uniform(size=(2, 60, 20, 1))
    refuses(CostError, "range 1..50|range -1..1", stakes.Recalibrator(ShortfallCost(RANGE)).fit, members, outcome[:, 0])
    refuse_range(ShortfallCost(5.0))


def test_a_cost_must_be_one_at_both_ends() -> None:
    refuses(CostError, "penalty", ShortfallCost, ParameterRange(-1, 5, log=False))
    refuses(CostError, "lower", NewsvendorCost, RANGE, 1.0, 2.0, 1.0)
    refuses(CostError, "short 1..50 and long 1..50", ImbalanceCost, RANGE, RANGE, 0.0, 1.0)
    for bounds in ((RANGE, 99.0), (0.0, RANGE)):
        refuses(CostError, "er ", NewsvendorCost, 3.0, 1.0, *bounds)


@pytest.mark.parametrize(
    "make", [lambda: stakes.ScheduleCost(RANGE, 1.0), lambda: stakes.AllocationCost(RANGE, 1.0, budget=3.0)]
)
def test_programs_take_none(make: Callable[[], object]) -> None:
    refuses(CostError, "ParameterRange", make)


@pytest.mark.parametrize(
    ("cost", "name"),
    [
        (ShortfallCost(RANGE), "penalty"),
        (ProtectionCost(0.5, RANGE), "false_alarm_ratio"),
        (NewsvendorCost(2.0, RANGE, 0.0, 2.0), "overage"),
        (ImbalanceCost(RANGE, 1.0, 0.0, 2.0), "short"),
        (CVaRCost(ShortfallCost(RANGE), level=0.5), "penalty"),
    ],
)
def test_a_value_for_each_case_is_the_loop_over_the_cases(cost: stakes.Cost, name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    members = torch.rand(6, 40, 2, generator=generator, dtype=torch.float64)
    outcome = torch.rand(6, 2, generator=generator, dtype=torch.float64)
    values = RANGE.at(torch.rand(6, generator=generator, dtype=torch.float64))
    assert ranged_parameter(cost) is not None
    together = with_parameter(cost, name, values)
    action = stakes.optimal_action(together, members)
    paid = together(action, outcome)
    for place, value in enumerate(values.tolist()):
        alone = with_parameter(cost, name, value)
        assert parameter_value(alone, name) == value
        own = stakes.optimal_action(alone, members[place : place + 1])
        torch.testing.assert_close(action[place : place + 1], own, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(paid[place : place + 1], alone(own, outcome[place : place + 1]), rtol=1e-8, atol=0)


def test_values_beyond_the_range_are_named() -> None:
    ranged = ranged_parameter(ShortfallCost(RANGE))
    assert ranged is not None
    assert str(ranged) == "penalty 1..50"
    ranged.require_inside(1, 50)
    for least, most, named in ((0.5, 3, "0.5"), (3, np.nextafter(50.0, 51), "50"), (math.nan, 2, "nan")):
        refuses(CostError, f"^penalty .* {named}$", ranged.require_inside, least, most)


COST = ShortfallCost(ParameterRange(2, 50))
FEATURES = torch.rand(7, 3, generator=torch.Generator().manual_seed(0))


def test_without_a_range_all_stays_as_it_is() -> None:
    cost = ShortfallCost(5.0)
    column = ParameterColumn.of(cost)
    assert column.width == 0
    assert column.spread(4).shape == (4, 0)
    for same in (column.seen, column.unmoved, column.without):
        assert same(FEATURES) is FEATURES
    assert column.replaced(FEATURES, torch.empty(7, 0)) is FEATURES
    assert column.cost(cost, FEATURES) is cost
    refuses(SettingError, "conditioned", ParameterColumn.of, cost, conditioned=True)


def test_models_see_the_column_only_where_they_are_conditioned() -> None:
    column, seeing = ParameterColumn.of(COST), ParameterColumn.of(COST, conditioned=True)
    rows = torch.cat([FEATURES, column.spread(7).float()], 1)
    assert torch.equal(column.seen(rows), FEATURES)
    assert torch.equal(column.unmoved(rows), FEATURES)
    assert torch.equal(seeing.seen(rows)[:, :3], FEATURES)
    expected = COST.penalty.standardised(rows[:, 3])  # type: ignore[union-attr]
    assert torch.equal(seeing.seen(rows)[:, 3], expected)
    assert torch.equal(seeing.unmoved(rows)[:, 3], torch.zeros(7))


def test_each_case_pays_by_its_own_column() -> None:
    column = ParameterColumn.of(COST)
    rows = column.replaced(torch.cat([FEATURES, torch.ones(7, 1)], 1), torch.arange(2.0, 9.0)[:, None])
    own = column.cost(COST, rows)
    assert isinstance(own, ShortfallCost)
    assert torch.equal(own.penalty, torch.arange(2.0, 9.0))  # type: ignore[arg-type]
    number = ShortfallCost(5.0)
    assert column.cost(number, rows) is number


def test_any_stretch_of_cases_covers_the_range_evenly() -> None:
    column = ParameterColumn.of(COST)
    values = column.spread(1000)[:, 0].log().numpy()
    assert np.array_equal(values[:300], column.spread(300)[:, 0].log().numpy())
    for stretch in (values[:50], values[300:350], values[950:]):
        places = np.sort((stretch - np.log(2)) / np.log(25))
        assert np.abs(places - (np.arange(50) + 0.5) / 50).max() < 0.05
