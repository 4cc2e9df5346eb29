"""What reproduces the outcome is told; what is merely near to it, as persistence is, is not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.leaks import forecast_leaks, leaks

Floats = NDArray[np.float64]
RANDOM = np.random.default_rng(0)
NOISE = RANDOM.normal(size=600)
DEMAND = np.where(RANDOM.uniform(size=600) < 0.1, RANDOM.poisson(5, 600) + 1.0, 0.0)
SERIES: dict[str, Floats] = {
    "noise": NOISE,
    "walk": 500 + NOISE.cumsum(),
    "smooth": NOISE.cumsum().cumsum(),
    "counts": RANDOM.poisson(3.0, 600).astype(float),
    "meter": 100 * np.arange(600) + NOISE.cumsum(),
    "rare_demand": DEMAND,
    "events": (RANDOM.uniform(size=600) < 0.3).astype(float),
}
COPIES: dict[str, Callable[[Floats], Floats]] = {
    "itself": lambda outcome: outcome,
    "another_unit": lambda outcome: 273.15 - 1000 * outcome,
    "single_precision": lambda outcome: outcome.astype(np.float32).astype(float),
    "a_few_codes": lambda outcome: np.where(np.arange(600) % 100 == 7, -999.0, outcome),
    "a_little_noise": lambda outcome: outcome + 0.01 * np.std(np.diff(outcome)) * RANDOM.normal(size=600),
}
HARMLESS: dict[str, Callable[[Floats], Floats]] = {
    "the_step_before": lambda outcome: np.append(outcome[:1], outcome[:-1]),
    "a_constant": np.zeros_like,
    "other_noise": lambda outcome: RANDOM.normal(size=600),
    "a_good_forecast": lambda outcome: outcome + 0.3 * np.std(np.diff(outcome)) * RANDOM.normal(size=600),
    "whether_there_is_any": lambda outcome: (outcome > np.median(outcome)) + 0.3 * RANDOM.normal(size=600),
}


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_the_outcome_is_named(series: str, copy: str) -> None:
    outcome = SERIES[series]
    features = np.stack([RANDOM.normal(size=600), COPIES[copy](outcome)], -1)
    (note,) = leaks(features, ["wind", "copy[0h]"], outcome[:, None], ["load"])
    assert "'copy[0h]' reproduces the outcome 'load'" in note
    assert "wind" not in note


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("harmless", HARMLESS)
def test_what_can_be_known_in_time_is_not(series: str, harmless: str) -> None:
    outcome = SERIES[series]
    assert leaks(HARMLESS[harmless](outcome)[:, None], ["known"], outcome[:, None], ["load"]) == ()


def test_few_or_constant_outcomes_tell_nothing() -> None:
    for outcome in (NOISE[:20], np.ones(600), np.where(np.arange(600) == 300, 1.0, 0.0)):
        assert leaks(outcome[:, None], ["copy"], outcome[:, None], ["load"]) == ()


def test_sites_and_leads_are_compared_with_themselves() -> None:
    """Persistence of two sites of very different size, at two leads, and then one of them a copy."""
    days = np.arange(200)
    small, large = (size * (100 + NOISE[part].cumsum()) for size, part in ((1, slice(200)), (1000, slice(200, 400))))
    outcomes = np.concatenate([small, large, small, large])
    forecasts = np.concatenate([np.append(each[:lead], each[:-lead]) for lead in (1, 2) for each in (small, large)])
    given = ForecastSet(
        forecasts[:, None, None],
        times=np.tile(np.datetime64("2020-01-01") + days, 4),
        leads=np.repeat([24.0, 48.0], 400),
        sites=np.tile(np.repeat(["small", "large"], 200), 2),
        outcomes=outcomes[:, None],
        targets=("load",),
    )
    assert forecast_leaks(given) == ()
    copied = replace(given, members=outcomes[:, None, None]).rows(np.random.default_rng(1).permutation(800))
    (note,) = forecast_leaks(copied)
    assert "the forecast reproduces the outcome 'load'" in note
    assert "feature" not in note
