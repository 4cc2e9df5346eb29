"""Whether new forecasts are like those that were learned from."""

import numpy as np
import pandas as pd
import pytest

from stakes.data.forecasts.checks import LearnedForecasts
from stakes.data.forecasts.tables import ForecastValues
from stakes.errors import TableError

RAIN = np.random.default_rng(0).gamma(0.3, 8, (400, 11, 1))
RAIN[:80] = 0  # dry days


def forecasts(values: np.ndarray, unit: str | None = None, targets: tuple[str, ...] = ("rain",)) -> ForecastValues:
    return ForecastValues(values, pd.RangeIndex(len(values), name="row"), targets, unit=unit)


LEARNED = LearnedForecasts.of(forecasts(RAIN, "mm"))


@pytest.mark.parametrize("cases", [slice(None), slice(0, 80), slice(100, 101), slice(200, 260)])
def test_what_was_learned_from_leaves_no_doubt(cases: slice) -> None:
    assert LEARNED.doubts(forecasts(RAIN[cases])) == ()


@pytest.mark.parametrize("cases", [slice(None), slice(100, 101), slice(200, 260)])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_another_unit_is_noticed_in_many_cases_and_in_one(cases: slice, factor: float) -> None:
    for target in ("rain", "outcome"):
        (doubt,) = LEARNED.doubts(forecasts(factor * RAIN[cases], targets=(target,)))
        assert doubt.startswith("forecasts reach ")
        assert doubt.endswith(": another unit?")


def test_each_of_several_targets_is_looked_at() -> None:
    both = np.concatenate([RAIN, 1000 * RAIN], -1)
    learned = LearnedForecasts.of(forecasts(both, targets=("rain", "flow")))
    assert learned.doubts(forecasts(both, targets=("rain", "flow"))) == ()
    (doubt,) = learned.doubts(forecasts(np.concatenate([RAIN, RAIN], -1), targets=("rain", "flow")))
    assert doubt.startswith("forecasts of flow reach ")
    (doubt,) = learned.doubts(forecasts(1e-6 * both, targets=("rain", "flow")))  # one line for all of them
    assert doubt.startswith("forecasts of rain, flow, those of rain reach ")


def test_an_offset_is_another_unit_and_missing_values_are_none() -> None:
    warm = np.random.default_rng(1).normal(12, 6, (300, 5, 1))
    learned = LearnedForecasts.of(forecasts(warm))
    assert "another unit?" in learned.doubts(forecasts(warm + 273.15))[0]
    assert "another unit?" in LearnedForecasts.of(forecasts(warm + 273.15)).doubts(forecasts(warm))[0]
    assert learned.doubts(forecasts(np.where(warm > 12, np.nan, warm))) == ()
    assert LearnedForecasts.of(forecasts(0 * warm)).doubts(forecasts(warm)) == ()


def test_fewer_members_are_told() -> None:
    (doubt,) = LEARNED.doubts(forecasts(RAIN[100:101, :3] + 1))
    assert doubt == "each forecast has 3 members, and the past ones had 11: the correction was learned for 11"


def test_a_known_unit_is_turned_into_the_one_that_was_learned() -> None:
    turned = LEARNED.in_its_unit(forecasts(RAIN / 1000, "m"), "'new.nc'")
    np.testing.assert_allclose(turned.values, RAIN, rtol=1e-12)
    assert turned.notes == ("the forecasts in 'new.nc' are turned from m into mm, the unit of the past ones",)
    same = forecasts(RAIN, "mm")
    assert LEARNED.in_its_unit(same, "'new.nc'") is same
    silent = LEARNED.in_its_unit(forecasts(RAIN), "'new.nc'")
    assert silent.notes == ("'new.nc' does not say its unit and is taken to be in mm, as the past forecasts",)
    with pytest.raises(TableError, match="values in 'K' cannot be turned into 'mm'"):
        LEARNED.in_its_unit(forecasts(RAIN, "K"), "'new.nc'")
