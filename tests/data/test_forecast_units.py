import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from stakes.data.forecasts.checks import require_one_unit, unit_of_outcomes_doubts
from stakes.data.forecasts.tables import ForecastValues
from stakes.errors import TableError


def unit_doubts(
    values: NDArray[np.float64], outcomes: NDArray[np.float64], targets: tuple[str, ...]
) -> tuple[str, ...]:
    forecast = ForecastValues(values, pd.RangeIndex(len(values), name="row"), targets)
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
    with pytest.raises(TableError, match=r"'f' has a member that cannot be .* member 4 lies around"):
        require_one_unit(mixed, "'f'")


@pytest.mark.parametrize("unit", CONVERTED)
def test_outcomes_in_another_unit(unit: str) -> None:
    outcomes = CONVERTED[unit][0](members()[:, 0])
    (doubt,) = unit_doubts(members(), outcomes, ("north", "south"))
    assert doubt.startswith("'f' cannot be in the unit of its outcomes: north is forecast around ")
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


def test_members_of_two_clusters_are_in_one_unit() -> None:
    members = np.where(np.arange(20) < 7, 62, 81) + np.random.default_rng(0).normal(0, 0.5, (20, 20))
    require_one_unit(members[..., None], "the file")


def test_a_spell_of_dry_weather_or_other_prices_is_no_other_unit() -> None:
    generator = np.random.default_rng(2)
    dry = np.zeros((12, 1))
    dry[3] = 0.01
    wet = generator.exponential(2.0, (12, 11, 1))
    assert unit_doubts(wet, dry, ("rain",)) == ()
    dear = generator.normal(94, 1, (12, 20, 1))
    assert unit_doubts(dear, generator.normal(45, 1, (12, 1)), ("price",)) == ()
    (doubt,) = unit_doubts(members(12), members(12)[:, 0] * 1000, ("north", "south"))
    assert doubt.startswith("'f' cannot be in the unit of its outcomes: north is forecast around")


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
