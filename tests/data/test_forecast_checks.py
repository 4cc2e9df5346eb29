"""What looks wrong with forecasts and outcomes is told or refused; ordinary ones are not."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from refusals import refuses

from stakes.data.forecasts.checks import (
    ascend_like_quantiles,
    forecast_checks,
    in_learned_unit,
    in_unit,
    learned_forecasts,
    missing_code_notes,
    require_one_unit,
    unit_of_outcomes_doubts,
    unlike_learned,
)
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import TableError

RAIN = np.array([0.0, 2.0, 0.5, 31.0])
AHEAD = np.array([[1.0, 3.0], [0.0, 4.0], [0.2, 40.0], [5.0, np.nan]])


@pytest.mark.parametrize("code", [-999.0, -99.0, 9999.0, 1e20, float(np.float32(-999.9))])
def test_a_code_is_told_with_its_place(code: float) -> None:
    rain = np.append(RAIN, [np.nan, code, code])
    (note,) = missing_code_notes(rain, AHEAD, "rain", rain, "'seen.csv'")
    assert "in 'rain', data row 6 and 1 row more, beyond all other outcomes and forecasts" in note
    assert note.endswith("leave the field empty")


@pytest.mark.parametrize(
    "rain",
    [
        RAIN,
        np.append(RAIN, 300.0),  # much, but rain may
        np.append(RAIN, [999.0, 500.0, 1000.0]),  # among others
        np.full(3, -99.0),  # nothing else to hold it against
        np.full(3, np.nan),
        np.append(RAIN + 980, 999.0),  # as large as the others
        np.append(RAIN + 1001, 999.9),
    ],
)
def test_other_numbers_are_not(rain: np.ndarray) -> None:
    forecasts = np.full((3, 1), np.nan) if (rain == -99).all() else AHEAD + (rain[0] if rain[0] > 900 else 0)
    assert missing_code_notes(rain, forecasts, "rain", rain, "'seen.csv'") == ()


Floats = NDArray[np.float64]
RANDOM = np.random.default_rng(0)
LOADS = RANDOM.normal(6000, 400, (12, 20, 3))
RAIN_OF_DAYS = np.where(RANDOM.uniform(size=(12, 20, 1)) < 0.8, 0.0, RANDOM.exponential(5.0, (12, 20, 1)))


def forecast(values: Floats, levels: tuple[float, ...] | None = None) -> ForecastSet:
    days = pd.date_range("2020-01-01", periods=len(values), name="time")
    targets = tuple(f"b{place}" for place in range(values.shape[2]))
    return ForecastSet(values, targets=targets, index=days, levels=levels, incomplete=True)


def doubts(values: Floats, may_be_quantiles: bool = True) -> tuple[str, ...]:
    return forecast_checks(forecast(values), "'f.csv'", may_be_quantiles)


@pytest.mark.parametrize("code", [-999.0, 1e20, -99999.0, float(np.float32(-999.9))])
def test_codes_for_missing_values_are_told_with_their_case(code: float) -> None:
    spoilt = LOADS.copy()
    spoilt[2, 5, 1] = code
    (note,) = doubts(spoilt)
    assert note.startswith("'f.csv' has ")
    assert "among the members of 'b1', case 2020-01-03 00:00:00, " in note
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
        RAIN_OF_DAYS,
        np.where(np.arange(20)[None, :, None] == 3, 80.0, 0.001 * RAIN_OF_DAYS),  # one member has all the rain
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
    assert note.startswith("the members of every case are in ascending order")
    assert note.endswith("--read-as members")
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
    assert "around 5,960 to 6,010" in note
    assert "unit" in note


def test_targets_of_all_sizes_are_in_one_unit() -> None:
    assert doubts(LOADS * [1.0, 0.01, 3.0]) == ()
    assert doubts(LOADS * [1.0, 0.05, 0.0001]) == ()  # zones, and hours at dawn, are of all sizes
    night = LOADS * [1.0, 0.001, 1.0]
    night[..., 1] = 0
    assert doubts(night) == ()
    assert doubts(LOADS[..., :2] * [1.0, 0.001]) == ()  # which of two is the odd one?


def unit_doubts(
    values: NDArray[np.float64], outcomes: NDArray[np.float64], targets: tuple[str, ...]
) -> tuple[str, ...]:
    forecast = ForecastSet(values, targets=targets, index=pd.RangeIndex(len(values), name="row"), incomplete=True)
    return unit_of_outcomes_doubts(forecast, outcomes, "'f'")


def members(cases: int = 40) -> NDArray[np.float64]:
    """Temperatures in degC."""
    generator = np.random.default_rng(0)
    return 8 + 6 * generator.normal(size=(cases, 1, 2)) + generator.normal(size=(cases, 5, 2))


CONVERTED = {
    "kelvin": (lambda celsius: celsius + 273.15, "282"),
    "percent": (lambda share: 100 * share, "8"),
    "thousandths": (lambda large: large / 1000, "0.008"),
}


@pytest.mark.parametrize("unit", CONVERTED)
def test_one_member_in_another_unit(unit: str) -> None:
    mixed = members()
    mixed[:, 3, 1] = CONVERTED[unit][0](mixed[:, 3, 1])
    refuses(TableError, "'f'", require_one_unit, mixed, "'f'")


@pytest.mark.parametrize("unit", CONVERTED)
def test_outcomes_in_another_unit(unit: str) -> None:
    outcomes = CONVERTED[unit][0](members()[:, 0])
    (doubt,) = unit_doubts(members(), outcomes, ("north", "south"))
    assert doubt.startswith("'f' ")
    assert "unit" in doubt
    assert "of north" in doubt
    assert f" around {CONVERTED[unit][1]}" in doubt


def test_bad_forecasts_are_no_other_unit() -> None:
    generator = np.random.default_rng(1)
    bad = members() - 9  # as cold as a model in the mountains
    bad[:, 0] = 8 + generator.normal(size=(40, 2)) * 0.5  # a member that hardly varies
    bad[:, 1] = 30 * generator.normal(size=(40, 2))  # one that is noise
    require_one_unit(bad, "f")
    assert unit_doubts(bad, members()[:, 0], ("a", "b")) == ()


def test_dry_members_and_few_cases_tell_nothing() -> None:
    rain = np.zeros((30, 4, 1))
    rain[7, 2] = 12.0
    require_one_unit(rain, "f")
    assert unit_doubts(rain, np.zeros((30, 1)), ("rain",)) == ()
    few = members(9)
    few[:, 0] += 273.15
    require_one_unit(few, "f")
    assert unit_doubts(few, few[:, 1] + 273.15, ("a", "b")) == ()


def test_a_spell_of_dry_weather_or_other_prices_is_no_other_unit() -> None:
    generator = np.random.default_rng(2)
    dry = np.zeros((12, 1))
    dry[3] = 0.01
    wet = generator.exponential(2.0, (12, 11, 1))
    assert unit_doubts(wet, dry, ("rain",)) == ()
    dear = generator.normal(94, 1, (12, 20, 1))
    assert unit_doubts(dear, generator.normal(45, 1, (12, 1)), ("price",)) == ()
    (doubt,) = unit_doubts(members(12), members(12)[:, 0] * 1000, ("north", "south"))
    assert doubt.startswith("'f' ")
    assert "unit" in doubt
    assert "of north" in doubt


@pytest.mark.parametrize("slip", [-999.0, 1e5])
def test_one_slip_among_many_outcomes_or_members_is_no_other_unit_and_hides_none(slip: float) -> None:
    many, outcomes = members(300), members(300)[:, 0].copy()
    outcomes[149, 1] = slip
    assert unit_doubts(many + 12, outcomes, ("a", "b")) == ()
    assert len(unit_doubts(many[..., 1:] + 273.15, outcomes[:, 1:], ("b",))) == 1
    many[149, 2] = slip
    require_one_unit(many, "f")


def test_rare_spikes_that_a_forecast_only_suspects_are_no_other_unit() -> None:
    generator = np.random.default_rng(3)
    risk = generator.beta(0.5, 10, 400)
    prices = generator.normal(0, 0.1, (400, 1)) + 50 * (generator.uniform(size=(400, 1)) < risk[:, None])
    expected = 50 * risk[:, None, None] + generator.normal(0, 0.1, (400, 5, 1))
    assert unit_doubts(expected, prices, ("price",)) == ()


PAST_RAIN = np.random.default_rng(0).gamma(0.3, 8, (400, 11, 1))
PAST_RAIN[:80] = 0  # dry days


def forecasts(values: np.ndarray, unit: str | None = None, targets: tuple[str, ...] = ("rain",)) -> ForecastSet:
    rows = pd.RangeIndex(len(values), name="row")
    return ForecastSet(values, targets=targets, index=rows, unit=unit, incomplete=True)


LEARNED = learned_forecasts(forecasts(PAST_RAIN, "mm"))


@pytest.mark.parametrize("cases", [slice(None), slice(0, 80), slice(100, 101), slice(200, 260)])
def test_what_was_learned_from_leaves_no_doubt(cases: slice) -> None:
    assert unlike_learned(LEARNED, forecasts(PAST_RAIN[cases])) == ()


@pytest.mark.parametrize("cases", [slice(None), slice(100, 101), slice(200, 260)])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_another_unit_is_noticed_in_many_cases_and_in_one(cases: slice, factor: float) -> None:
    for target in ("rain", "outcome"):
        (doubt,) = unlike_learned(LEARNED, forecasts(factor * PAST_RAIN[cases], targets=(target,)))
        assert doubt.startswith("forecasts reach ")
        assert doubt.endswith(" unit")


def test_each_of_several_targets_is_looked_at() -> None:
    both = np.concatenate([PAST_RAIN, 1000 * PAST_RAIN], -1)
    learned = learned_forecasts(forecasts(both, targets=("rain", "flow")))
    assert unlike_learned(learned, forecasts(both, targets=("rain", "flow"))) == ()
    (doubt,) = unlike_learned(learned, forecasts(np.concatenate([PAST_RAIN, PAST_RAIN], -1), targets=("rain", "flow")))
    assert doubt.startswith("forecasts of flow reach ")
    (doubt,) = unlike_learned(learned, forecasts(1e-6 * both, targets=("rain", "flow")))  # one line for all of them
    assert doubt.startswith("forecasts of rain, flow, those of rain reach ")


def test_an_offset_is_another_unit_and_missing_values_are_none() -> None:
    warm = np.random.default_rng(1).normal(12, 6, (300, 5, 1))
    learned = learned_forecasts(forecasts(warm))
    assert " unit" in unlike_learned(learned, forecasts(warm + 273.15))[0]
    assert " unit" in unlike_learned(learned_forecasts(forecasts(warm + 273.15)), forecasts(warm))[0]
    assert unlike_learned(learned, forecasts(np.where(warm > 12, np.nan, warm))) == ()
    assert unlike_learned(learned_forecasts(forecasts(0 * warm)), forecasts(warm)) == ()


def test_a_known_unit_is_turned_into_the_one_that_was_learned() -> None:
    turned = in_learned_unit(LEARNED, forecasts(PAST_RAIN / 1000, "m"), "'new.nc'")
    np.testing.assert_allclose(turned.members, PAST_RAIN, rtol=1e-12)
    assert len(turned.notes) == 1
    assert "'new.nc' are converted from m to mm" in turned.notes[0]
    same = forecasts(PAST_RAIN, "mm")
    assert in_learned_unit(LEARNED, same, "'new.nc'") is same
    silent = in_learned_unit(LEARNED, forecasts(PAST_RAIN), "'new.nc'")
    assert len(silent.notes) == 1
    assert "'new.nc'" in silent.notes[0]
    assert " mm" in silent.notes[0]
    refuses(TableError, "'K'", in_learned_unit, LEARNED, forecasts(PAST_RAIN, "K"), "'new.nc'")


@pytest.mark.parametrize(
    ("value", "given", "wanted", "expected"),
    [
        (273.15, "K", "degC", 0.0),
        (20.0, "degC", "kelvin", 293.15),
        (212.0, "degF", "°C", 100.0),
        (10.0, "m s**-1", "km/h", 36.0),
        (3.6, "km/h", "m/s", 1.0),
        (0.002, "m", "mm", 2.0),
        (2.0, "kg m**-2", "mm", 2.0),
        (101325.0, "Pa", "hPa", 1013.25),
        (2.5, "GW", "MW", 2500.0),
        (40.0, "%", "1", 0.4),
        (7.0, "bananas", "bananas", 7.0),
    ],
)
def test_values_in_another_unit(value: float, given: str, wanted: str, expected: float) -> None:
    assert in_unit(np.array([value]), given, wanted) == pytest.approx(expected)


@pytest.mark.parametrize(("given", "wanted"), [("K", "mm"), ("bananas", "degC"), ("K", "bananas")])
def test_units_of_another_kind_are_refused(given: str, wanted: str) -> None:
    with pytest.raises(TableError, match=f"'{given}' .* '{wanted}'"):
        in_unit(np.array([1.0]), given, wanted)
