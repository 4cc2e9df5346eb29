"""Whether new forecasts are like those that were learned from."""

import numpy as np
import pandas as pd
import pytest

from stakes.data.forecasts.checks import in_learned_unit, learned_forecasts, unlike_learned
from stakes.data.forecasts.tables import ForecastValues
from stakes.errors import TableError

RAIN = np.random.default_rng(0).gamma(0.3, 8, (400, 11, 1))
RAIN[:80] = 0  # dry days


def forecasts(values: np.ndarray, unit: str | None = None, targets: tuple[str, ...] = ("rain",)) -> ForecastValues:
    return ForecastValues(values, pd.RangeIndex(len(values), name="row"), targets, unit=unit)


LEARNED = learned_forecasts(forecasts(RAIN, "mm"))


@pytest.mark.parametrize("cases", [slice(None), slice(0, 80), slice(100, 101), slice(200, 260)])
def test_what_was_learned_from_leaves_no_doubt(cases: slice) -> None:
    assert unlike_learned(LEARNED, forecasts(RAIN[cases])) == ()


@pytest.mark.parametrize("cases", [slice(None), slice(100, 101), slice(200, 260)])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_another_unit_is_noticed_in_many_cases_and_in_one(cases: slice, factor: float) -> None:
    for target in ("rain", "outcome"):
        (doubt,) = unlike_learned(LEARNED, forecasts(factor * RAIN[cases], targets=(target,)))
        assert doubt.startswith("forecasts reach ")
        assert doubt.endswith(": another unit?")


def test_each_of_several_targets_is_looked_at() -> None:
    both = np.concatenate([RAIN, 1000 * RAIN], -1)
    learned = learned_forecasts(forecasts(both, targets=("rain", "flow")))
    assert unlike_learned(learned, forecasts(both, targets=("rain", "flow"))) == ()
    (doubt,) = unlike_learned(learned, forecasts(np.concatenate([RAIN, RAIN], -1), targets=("rain", "flow")))
    assert doubt.startswith("forecasts of flow reach ")
    (doubt,) = unlike_learned(learned, forecasts(1e-6 * both, targets=("rain", "flow")))  # one line for all of them
    assert doubt.startswith("forecasts of rain, flow, those of rain reach ")


def test_an_offset_is_another_unit_and_missing_values_are_none() -> None:
    warm = np.random.default_rng(1).normal(12, 6, (300, 5, 1))
    learned = learned_forecasts(forecasts(warm))
    assert "another unit?" in unlike_learned(learned, forecasts(warm + 273.15))[0]
    assert "another unit?" in unlike_learned(learned_forecasts(forecasts(warm + 273.15)), forecasts(warm))[0]
    assert unlike_learned(learned, forecasts(np.where(warm > 12, np.nan, warm))) == ()
    assert unlike_learned(learned_forecasts(forecasts(0 * warm)), forecasts(warm)) == ()


def test_fewer_members_are_told() -> None:
    (doubt,) = unlike_learned(LEARNED, forecasts(RAIN[100:101, :3] + 1))
    assert doubt == "each forecast has 3 members, and the past ones had 11: the correction was learned for 11"


def test_a_known_unit_is_turned_into_the_one_that_was_learned() -> None:
    turned = in_learned_unit(LEARNED, forecasts(RAIN / 1000, "m"), "'new.nc'")
    np.testing.assert_allclose(turned.values, RAIN, rtol=1e-12)
    assert turned.notes == ("the forecasts in 'new.nc' are turned from m into mm, the unit of the past ones",)
    same = forecasts(RAIN, "mm")
    assert in_learned_unit(LEARNED, same, "'new.nc'") is same
    silent = in_learned_unit(LEARNED, forecasts(RAIN), "'new.nc'")
    assert silent.notes == ("'new.nc' does not say its unit and is taken to be in mm, as the past forecasts",)
    with pytest.raises(TableError, match="values in 'K' cannot be turned into 'mm'"):
        in_learned_unit(LEARNED, forecasts(RAIN, "K"), "'new.nc'")
