"""The schedule of the literature, on made-up loads."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from small_programs import made_loads

from reproduction.programs.generation import (
    GENERATION_PLANS,
    LOAD_TABLE,
    binding_ramp,
    generation_problem,
    load_days,
    summer_time,
)
from reproduction.programs.point_networks import POINT_NETWORKS
from reproduction.programs.problem import chronological_cases
from stakes.actions.solve import optimal_action
from stakes.data.case_table import CaseTable


def test_a_ramp_that_binds() -> None:
    loads = torch.zeros(3, 24)
    loads[0, 5], loads[1, 5], loads[2, 5] = 1.0, 2.0, 6.0  # largest changes 1, 2 and 6
    assert binding_ramp(CaseTable(torch.zeros(3, 1), loads)) == 1.0


def test_both_problems_share_their_cases(tmp_path: Path) -> None:
    made_loads(tmp_path, days=60)
    free, bound = (generation_problem(str(tmp_path), binding) for binding in (False, True))
    limits = [vars(each.cost)["ramp"] for each in (free, bound)]
    assert limits[0] == 0.4
    assert limits[1] == pytest.approx(0.005, rel=1e-3)  # loads climb by a hundredth an hour
    assert free.test is bound.test
    assert "half of the hours" in bound.text
    action = optimal_action(bound.cost, bound.test.outcome[:, None])
    share = bound.measures["ramp_binds"](action, bound.test.outcome)
    expected = (np.abs(np.diff(action.numpy())) > 0.00499).mean(1)
    np.testing.assert_allclose(share, expected)
    assert not bool(free.measures["ramp_binds"](action, free.test.outcome).any())


def test_the_plans_compare_what_the_literature_has() -> None:
    free, bound = GENERATION_PLANS
    assert {candidate for method in free.methods for candidate in method.candidates} >= set(POINT_NETWORKS)
    assert free.method("decision").candidates == ("energy 0", "energy 0.1", "energy 0.5", "energy 0.9")
    assert bound.method("through").candidates == ("through 0.5",)


def test_features_by_hand(tmp_path: Path) -> None:
    made_loads(tmp_path)
    days = load_days(str(tmp_path))
    assert days.features.shape == (11, 6 * 24 + 5)
    assert days.days[0] == np.datetime64("2010-03-11")
    saturday = list(days.days).index(np.datetime64("2010-03-13"))  # the third day after the first
    row = days.features[saturday]
    np.testing.assert_allclose(days.loads[saturday], 1.3 + np.arange(24) / 100)
    np.testing.assert_allclose(row[:24], 1.2 + np.arange(24) / 100)  # the day before
    np.testing.assert_allclose(row[24:144:24], [48, 48**2, 47, 47**2, 47**3])
    angle = 2 * np.pi * 72 / 365  # the 72nd day of the year
    np.testing.assert_allclose(row[144:], [1, 0, 0, np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose(days.features[saturday + 2, 144:147], [0, 0, 1])  # Monday, in summer time


def test_holidays_are_known(tmp_path: Path) -> None:
    made_loads(tmp_path, first="2015-07-01")
    days = load_days(str(tmp_path))
    assert days.days[days.features[:, 145] == 1].tolist() == [
        np.datetime64("2015-07-03").item()
    ]  # the fourth, observed


def test_days_with_missing_hours(tmp_path: Path) -> None:
    table = made_loads(tmp_path)
    lost = [24 * 2 + 2, *range(24 * 5, 24 * 5 + 4), 24 * 8 + 23]  # one hour, four hours, and the last hour of a day
    table.drop(index=lost).to_csv(tmp_path / LOAD_TABLE, index=False, compression="gzip")
    days = load_days(str(tmp_path))
    third = list(days.days).index(np.datetime64("2010-03-12"))
    assert days.loads[third, 2] == days.loads[third, 3] == pytest.approx(1.23)  # the next hour's
    ninth = list(days.days).index(np.datetime64("2010-03-18"))
    assert days.loads[ninth, 23] == days.loads[ninth, 22]
    gone = {np.datetime64("2010-03-15"), np.datetime64("2010-03-16")}  # the sixth day, and the one that follows it
    assert not gone & set(days.days)
    assert len(days.days) == 9


def test_parts_are_in_the_order_of_time(tmp_path: Path) -> None:
    made_loads(tmp_path, days=51)
    train, validation, test = chronological_cases(*load_days(str(tmp_path)))
    assert (len(train), len(validation), len(test)) == (32, 8, 10)
    assert train.times is not None
    assert validation.times is not None
    assert test.times is not None
    assert train.times[-1] < validation.times[0]
    assert validation.times[-1] < test.times[0]


def test_summer_time_over_years() -> None:
    days = np.arange("2008-01-01", "2017-01-01", dtype="datetime64[D]")
    local = pd.DatetimeIndex(days).tz_localize("America/New_York")
    expected = np.array([bool(moment.dst()) for moment in local])
    np.testing.assert_array_equal(summer_time(days), expected)
