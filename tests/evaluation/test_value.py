"""What forecasts are worth over a cost parameter, against the package `scores`, which is written by others."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scores.continuous
import xarray as xr
from refusals import refuses

import stakes
from stakes import CostLossCost, ParameterRange, ShortfallCost, value_curve
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError

PENALTIES = ShortfallCost(ParameterRange(1, 50))


def drawn(cases: int, members: int = 20, seed: int = 0) -> tuple[Any, Any, Any]:
    """Members of two forecasts, the second less sharp, and outcomes."""
    random = np.random.default_rng(seed)
    known = random.uniform(0.2, 0.8, size=(cases, 1))
    guessed = known + 0.1 * random.normal(size=(cases, 1))
    sharp, blunt = (base + 0.1 * random.normal(size=(cases, members)) for base in (known, guessed))
    return sharp, blunt, known[:, 0] + 0.1 * random.normal(size=cases)


def test_relative_economic_value() -> None:
    members, _, outcomes = drawn(500, 51)
    ratios = np.linspace(0.05, 0.9, 18)  # with 51 members no share is one of them
    for event in ("above", "below"):
        cost = CostLossCost(0.5, ParameterRange(0.01, 0.99, log=False), event=event)  # type: ignore[arg-type]
        curve = value_curve(members, outcomes, cost, ratios)
        happens = (lambda y: y > 0.5) if event == "above" else (lambda y: y < 0.5)
        wanted = [
            scores.continuous.relative_economic_value(
                xr.DataArray((happens(members).mean(1) > ratio).astype(float), dims="case"),
                xr.DataArray(happens(outcomes).astype(float), dims="case"),
                cost_loss_ratios=[ratio],
            ).item()
            for ratio in ratios
        ]
        np.testing.assert_allclose(curve.value[0], wanted, atol=1e-12)
        expected = np.minimum(happens(outcomes).mean(), ratios)  # always protect, or never
        np.testing.assert_allclose(curve.climatology_cost, expected, atol=1e-12)


@pytest.mark.parametrize("level", [0.25, 0.8])
def test_murphy_diagram_of_a_quantile(level: float) -> None:
    members, _, outcomes = drawn(400, 51)
    thresholds = np.linspace(0.1, 0.9, 33)
    cost = CostLossCost(ParameterRange(0, 1, log=False), 1 - level)
    curve = value_curve(members, outcomes, cost, thresholds)
    quantile = np.quantile(members, level, axis=1, method="inverted_cdf")
    murphy = scores.continuous.murphy_score(
        *(xr.DataArray(each, dims="case") for each in (quantile, outcomes)),
        thresholds,
        functional="quantile",
        alpha=level,
    )
    np.testing.assert_allclose(curve.cost[0] - curve.foresight_cost, murphy["total"].values, atol=1e-12)
    points = value_curve(quantile, outcomes, cost, thresholds)
    np.testing.assert_allclose(points.cost, curve.cost, atol=1e-12)


def test_murphy_diagram_of_the_mean_by_a_function_that_makes_costs() -> None:
    members, _, outcomes = drawn(300)
    mean, prices = members.mean(1), np.linspace(0.3, 0.7, 9)

    def option(price: float) -> stakes.Cost:
        """Buy for the price what is worth the outcome, or not."""
        return stakes.cost_function(lambda a, y: (price - y) * a, lower=0.0, upper=1.0)

    curve = value_curve(mean, outcomes, option, prices)
    assert curve.parameter == "price"
    murphy = scores.continuous.murphy_score(
        *(xr.DataArray(each, dims="case") for each in (mean, outcomes)), prices, functional="expectile", alpha=0.5
    )
    np.testing.assert_allclose(curve.cost[0] - curve.foresight_cost, 2 * murphy["total"].values, atol=1e-9)


def test_climatology_is_0_and_perfect_foresight_1() -> None:
    _, _, outcomes = drawn(300)
    everything = np.broadcast_to(np.sort(outcomes), (300, 300))
    curve = value_curve({"known": outcomes, "climatology": everything}, outcomes, PENALTIES, [1, 5, 50])
    np.testing.assert_allclose(curve.value, [[1, 1, 1], [0, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(curve.saved, curve.climatology_cost - curve.foresight_cost, atol=1e-9)


def test_climatology_of_the_past_is_dearer_than_that_in_hindsight() -> None:
    members, _, outcomes = drawn(300)
    hindsight, learned = (
        value_curve(members, outcomes, PENALTIES, [5, 20], past=past) for past in (None, 0.5 * outcomes)
    )
    assert (learned.climatology_cost > hindsight.climatology_cost).all()
    assert (learned.value > hindsight.value).all()


def test_a_forecast_set_with_weights_is_as_its_members_several_times() -> None:
    members, _, outcomes = drawn(50, 3)
    weighted = ForecastSet(members[..., None], np.array([1.0, 2.0, 3.0]))
    first, second = (
        value_curve(each, outcomes, PENALTIES, [2, 9]) for each in (weighted, members[:, [0, 1, 1, 2, 2, 2]])
    )
    np.testing.assert_allclose(first.cost, second.cost)


def test_bands_hold_at_all_values_at_once() -> None:
    """Truth from 60,000 cases; 400 cases in blocks of 8."""
    sharp, blunt, outcomes = drawn(60_000, 10)
    values = np.geomspace(1, 50, 8)
    truth = value_curve({"sharp": sharp, "blunt": blunt}, outcomes, PENALTIES, values, block=1000)
    held = []
    for run in range(150):
        rows = slice(run * 400, (run + 1) * 400)
        curve = value_curve({"sharp": sharp[rows], "blunt": blunt[rows]}, outcomes[rows], PENALTIES, values, block=8)
        held.append(
            (
                ((curve.value_low <= truth.value) & (truth.value <= curve.value_high)).all(),
                ((curve.saved_low <= truth.saved) & (truth.saved <= curve.saved_high)).all(),
            )
        )
    assert (np.mean(held, axis=0) >= 0.91).all()  # 0.95 less two standard errors of 150 runs
    assert (np.mean(held, axis=0) < 1).all()


def test_the_sentence_tells_where_it_is_worth_buying_and_where_a_loss() -> None:
    random = np.random.default_rng(1)
    sharp, blunt, outcomes = drawn(3000)
    times = np.arange("2020", "2029", dtype="datetime64[D]")[:3000]
    both = {"new": sharp, "old": blunt}
    curve = value_curve(both, outcomes, PENALTIES, times=times, unit="EUR")
    assert curve.worth_buying == ((1.0, 50.0),)
    assert curve.sentence.startswith("New is worth buying instead of old for penalty from 1 to 50: at 7.36 it saves ")
    assert "EUR per year [" in curve.sentence
    assert curve.saved_at(7.36).mean == pytest.approx(curve.saved[25])
    assert value_curve({"old": blunt, "new": sharp}, outcomes, PENALTIES).a_loss == ((1.0, 50.0),)
    noise = random.uniform(size=sharp.shape)
    useless = value_curve({"noise": noise, "more": random.uniform(size=sharp.shape)}, outcomes, PENALTIES)
    assert useless.sentence.startswith("Noise is not proven to save anything instead of more for penalty from 1 to 50.")
    assert "Against climatology it is a loss for penalty" in useless.sentence


def test_few_cases_have_no_bands_and_nothing_to_gain_has_no_value() -> None:
    members, _, outcomes = drawn(6)
    curve = value_curve(members, outcomes, PENALTIES, [1, 5], block=2)
    assert np.isnan(curve.saved_low).all()
    assert np.isfinite(curve.value).all()
    assert "too few" in curve.sentence
    assert curve.worth_buying == ()
    never = value_curve(members, outcomes, CostLossCost(99.0, ParameterRange(0.1, 0.9)), [0.2, 0.4])
    assert np.isnan(never.value).all()
    assert (never.saved == 0).all()


def test_refusals() -> None:
    members, _, outcomes = drawn(20)
    refuses(CostError, "range.*shortfall:penalty=1..50", value_curve, members, outcomes, ShortfallCost(5.0))
    refuses(CostError, "penalty", value_curve, members, outcomes, PENALTIES, [0.5])
    refuses(SettingError, "values", value_curve, members, outcomes, PENALTIES, [np.nan])
    refuses(SettingError, "values", value_curve, members, outcomes, ShortfallCost.__call__)
    refuses(SettingError, "at least one forecast", value_curve, {}, outcomes, PENALTIES)
    refuses(ShapeError, "'a'", value_curve, {"a": members[1:]}, outcomes, PENALTIES)
    refuses(NonFiniteError, "outcomes", value_curve, members, outcomes * np.nan, PENALTIES)
    table = pd.DataFrame(members, index=range(1, 21))
    refuses(ShapeError, "same index", value_curve, table, pd.Series(outcomes), PENALTIES)
