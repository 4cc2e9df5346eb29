"""What is compared: policies on the same cases, their changes, and groups of cases."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from invented_fits import invented_about, invented_cases, invented_fit
from invented_recalibrations import invented_recalibration

from stakes.errors import SettingError
from stakes.reports.comparison import BY_FORECAST, BY_OUTCOME, HOUR, MONTH, SITE, Comparison, comparison_of_fit


@pytest.fixture(scope="module")
def fit() -> Comparison:
    return invented_fit(cases=300, block=10)


@pytest.fixture(scope="module")
def recalibration() -> Comparison:
    return invented_recalibration()


def test_a_fit_is_compared_with_weight_0_today_climatology_and_foresight(fit: Comparison) -> None:
    assert [policy.label for policy in fit.policies] == ["weight 0", "weight 0.4", "today", "climatology", "foresight"]
    assert fit.selected is fit.policies[1]
    kept = invented_fit(cases=60, weight=0.0, baseline=False, selected="linear")
    assert [policy.name for policy in kept.policies] == ["the linear forecast", "climatology", "perfect foresight"]


def test_a_raw_forecast_that_is_kept_is_the_reference() -> None:
    kept = invented_recalibration("raw", bias=0.0)
    assert [policy.label for policy in kept.policies] == ["raw", "today", "foresight"]
    assert kept.selected is kept.reference


def test_a_fit_keeps_an_outcome_of_each_target() -> None:
    (cases, state), about = invented_cases(cases=60, targets=2), invented_about(60, targets=3)
    with pytest.raises(SettingError, match=r"about\.outcomes"):
        comparison_of_fit(cases, state, about, invented_fit(cases=60).cost, None, None, None)


def test_an_interval_needs_many_blocks_of_the_cases_that_are_known(fit: Comparison) -> None:
    today = fit.policy("today")
    assert today is not None
    few = replace(today, cost=np.where(np.arange(300) < 60, today.cost, np.nan))
    assert math.isfinite(fit.change(today).low)
    assert math.isnan(fit.change(few).low)


def test_one_block_of_cases_proves_nothing() -> None:
    told = invented_fit(cases=5, block=10)
    ours, baseline = told.pair(told.selected, told.reference)
    assert (ours - baseline).degrees_of_freedom == 1
    assert not told.believed
    assert math.isnan(told.change(told.selected).low)
    assert math.isnan(told.gap(told.selected).low)


def test_groups_are_the_cases_they_are_called(fit: Comparison) -> None:
    groups = fit.groups
    for kind in (BY_OUTCOME, BY_FORECAST, MONTH, HOUR):
        chosen = [group for group in groups if group.kind == kind]
        assert kind == BY_FORECAST or sum(group.cases for group in chosen) == 300
    january = next(group for group in groups if group.name == "Jan")
    paid = fit.selected.cost[pd.DatetimeIndex(fit.times).month == 1]
    assert (january.cases, january.cost) == (124, pytest.approx(paid.mean()))
    foresight = fit.policy("foresight")
    assert foresight is not None
    regret = fit.selected.cost - foresight.cost
    of_january = regret[pd.DatetimeIndex(fit.times).month == 1]
    assert (january.regret, january.share) == pytest.approx((of_january.mean(), of_january.sum() / regret.sum()))
    assert january.reference_regret - january.regret == pytest.approx(-january.change.mean)
    for kind in (BY_OUTCOME, MONTH, HOUR):
        assert sum(group.share for group in groups if group.kind == kind) == pytest.approx(1)
    march = next(group for group in groups if group.name == "Mar")
    assert math.isfinite(january.change.low)
    assert march.cases < 70
    assert math.isnan(march.change.low)
    assert {group.kind for group in invented_fit(cases=40, times=False).groups} == {BY_OUTCOME, BY_FORECAST}


def test_sites_are_groups(recalibration: Comparison) -> None:
    sites = np.array(["north", "south"] * 150)
    north, south = (group for group in replace(recalibration, sites=sites).groups if group.kind == SITE)
    assert (north.name, south.name, north.cases, south.cases) == ("north", "south", 150, 150)
    assert south.cost == pytest.approx(recalibration.selected.cost[1::2].mean())
    assert not [group for group in recalibration.groups if group.kind == SITE]


def test_spread_over_error_is_1_where_members_are_right(recalibration: Comparison) -> None:
    raw, corrected = (recalibration.spread_over_error(each) for each in recalibration.forecasts.values())
    assert raw is not None
    assert corrected is not None
    assert corrected.low < 1.15 < corrected.high + 0.15  # the members are a little wider than the errors
    assert raw.high < 0.5
    points = invented_recalibration(form="points")
    assert points.spread_over_error(points.forecasts[points.reference]) is None


def test_a_time_with_several_cases_is_drawn_once(recalibration: Comparison) -> None:
    assert recalibration.times is not None
    twice = replace(recalibration, times=recalibration.times.repeat(2)[:300])
    assert len(twice.case_table) == 150
    assert set(twice.case_table) == {"outcome", "plain", "selected", "today", "low", "high"}


def test_a_year_of_cases_is_like_a_year(recalibration: Comparison) -> None:
    assert recalibration.times is not None
    assert recalibration.yearly is not None
    assert not recalibration.yearly.whole
    spaced = replace(recalibration, times=recalibration.times + np.arange(300) * np.timedelta64(1, "D"))
    assert spaced.yearly is not None
    assert spaced.yearly.whole
    assert spaced.yearly.cases == pytest.approx(182.6, abs=0.1)
    assert replace(recalibration, times=None).yearly is None
