"""Members that can hardly be right are told; ordinary ones are not."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from stakes.data.forecasts.checks import ascend_like_quantiles, forecast_checks
from stakes.data.forecasts.tables import ForecastValues

Floats = NDArray[np.float64]
RANDOM = np.random.default_rng(0)
LOADS = RANDOM.normal(6000, 400, (12, 20, 3))
RAIN = np.where(RANDOM.uniform(size=(12, 20, 1)) < 0.8, 0.0, RANDOM.exponential(5.0, (12, 20, 1)))


def forecast(values: Floats, levels: tuple[float, ...] | None = None) -> ForecastValues:
    days = pd.date_range("2020-01-01", periods=len(values), name="time")
    return ForecastValues(values, days, tuple(f"b{place}" for place in range(values.shape[2])), levels)


def doubts(values: Floats, may_be_quantiles: bool = True) -> tuple[str, ...]:
    return forecast_checks(forecast(values), "'f.csv'", may_be_quantiles)


@pytest.mark.parametrize("code", [-999.0, 1e20, -99999.0, float(np.float32(-999.9))])
def test_codes_for_missing_values_are_told_with_their_case(code: float) -> None:
    spoilt = LOADS.copy()
    spoilt[2, 5, 1] = code
    (note,) = doubts(spoilt)
    assert note.startswith("'f.csv' has ")
    assert "among the members of 'b1', case 2020-01-03 00:00:00, far beyond all others; it is taken as it is" in note
    (note,) = doubts(spoilt[2:3])  # one case will do
    assert "of 'b1', case 2020-01-01 00:00:00, far" in note
    spoilt[7, :, 1] = code
    assert "case 2020-01-03 00:00:00 and 1 more, far" in doubts(spoilt)[0]
    (note,) = forecast_checks(forecast(np.sort(spoilt, axis=1), tuple(np.linspace(0.05, 0.95, 20))), "f", True)
    assert "among the quantiles of 'b1'" in note


@pytest.mark.parametrize(
    "values",
    [
        LOADS,
        RAIN,
        np.where(np.arange(20)[None, :, None] == 3, 80.0, 0.001 * RAIN),  # one member has all the rain
        np.round(RANDOM.uniform(950, 999, (12, 20, 1))),  # loads up to 999 MW
        np.array([[980.0], [985], [999]])[..., None],
        np.append(RANDOM.uniform(1002, 1030, (2, 20, 1)), np.full((1, 20, 1), 999.9), 0),  # pressure in hPa
        RANDOM.normal(20, 60, (12, 20, 1)).clip(-99, None),  # prices with a floor at -99
        np.full((12, 20, 1), 999.0),
        np.full((12, 20, 3), np.nan),
    ],
    ids=["loads", "rain", "one_wet_member", "999", "few", "pressure", "prices", "constant", "missing"],
)
def test_ordinary_members_are_not_doubted(values: Floats) -> None:
    assert doubts(values) == ()


def test_members_that_ascend_may_be_quantiles() -> None:
    ascending = np.sort(LOADS[:, :5], axis=1)
    (note,) = doubts(ascending)
    assert note.startswith("the members of every case ascend, as quantiles do; if they are quantiles, name the columns")
    assert note.endswith("if they are members, --read-as members says so")
    assert doubts(ascending, may_be_quantiles=False) == ()
    one_is_not = np.where(np.arange(12)[:, None, None] == 4, LOADS[:, :5], ascending)
    assert doubts(ascending[:, ::-1]) == doubts(one_is_not) == ()


def test_few_members_and_equal_ones_ascend_by_chance() -> None:
    assert not ascend_like_quantiles(np.sort(LOADS[:1, :5], axis=1))
    assert not ascend_like_quantiles(np.zeros((50, 9, 1)))
    dry = np.zeros((50, 9, 1))
    dry[::10, -1] = 3.0  # a little rain, in the last member each time
    assert not ascend_like_quantiles(dry)
    models = np.sort(RANDOM.normal(size=(29, 3, 1)), axis=1)  # one is lower than another for a while
    assert not ascend_like_quantiles(models)
    assert ascend_like_quantiles(np.sort(RANDOM.normal(size=(30, 3, 1)), axis=1))
    assert not ascend_like_quantiles(np.sort(RANDOM.normal(size=(90, 2, 1)), axis=1))


@pytest.mark.parametrize("factor", [1 / 1000, 1000])
def test_one_target_in_another_unit_is_told(factor: float) -> None:
    spoilt = LOADS.copy()
    spoilt[..., 2] *= factor
    (note,) = doubts(spoilt)
    assert note.startswith("'f.csv' has b2 around 6")
    assert note.endswith("and all other targets around 5,960 to 6,010: another unit?")


def test_targets_of_all_sizes_are_in_one_unit() -> None:
    assert doubts(LOADS * [1.0, 0.01, 3.0]) == ()
    assert doubts(LOADS * [1.0, 0.05, 0.0001]) == ()  # zones, and hours at dawn, are of all sizes
    night = LOADS * [1.0, 0.001, 1.0]
    night[..., 1] = 0
    assert doubts(night) == ()
    assert doubts(LOADS[..., :2] * [1.0, 0.001]) == ()  # which of two is the odd one?
