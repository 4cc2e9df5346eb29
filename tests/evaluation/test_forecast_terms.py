"""Tests of the terms that a forecast's error may depend on."""

import numpy as np
import pandas as pd
from refusals import refuses

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import SettingError
from stakes.forecasting.error_model import ErrorModel, ForecastTerms

HOURS = np.datetime64("2023-01-01T00") + np.arange(0, 24 * 400, 6).astype("timedelta64[h]")


def cases(count: int = len(HOURS), **beside: object) -> ForecastSet:
    return ForecastSet(np.random.default_rng(0).normal(size=(count, 3, 1)), **beside)


def values(given: ForecastSet, terms: ForecastTerms, bounds: tuple = (None, None)) -> dict[str, np.ndarray]:
    model = ErrorModel("normal", 1.0, bounds, 0.0, 1.0, 0.0, {}, {}, (-np.inf, np.inf), ())
    return model.term_values(given, 0, terms)


def test_every_month_has_its_season():
    months = np.arange("2019-12", "2021-12", dtype="datetime64[M]")
    winter_to_autumn = np.repeat(months, 25)  # 150 cases of each season
    assert ForecastTerms.for_cases(cases(600, times=winter_to_autumn)).season
    without = winter_to_autumn[winter_to_autumn.astype("datetime64[M]").astype(int) % 12 // 3 != 0]
    assert ForecastTerms.for_cases(cases(len(without), times=without)).season == (150 - 100 >= 50)  # Decembers are left


def test_only_what_is_asked_for_is_a_term():
    given = cases(times=HOURS, leads=np.tile([24.0, 48.0], len(HOURS) // 2))
    assert ForecastTerms.for_cases(given, ()) == ForecastTerms(forecast=False)
    assert ForecastTerms.for_cases(given, ("hour", "lead")) == ForecastTerms(forecast=False, hour_waves=2, lead=True)
    assert list(values(given, ForecastTerms.for_cases(given, ()))) == ["constant"]


def test_terms_are_those_there_are_enough_cases_of():
    assert ForecastTerms.for_cases(cases(times=HOURS), linear=False) == ForecastTerms(season=True, hour_waves=2)
    winter = cases(200, times=HOURS[:200])
    assert ForecastTerms.for_cases(winter, linear=False) == ForecastTerms(hour_waves=2)
    assert ForecastTerms.for_cases(cases(), linear=False) == ForecastTerms()
    assert ForecastTerms.for_cases(cases(leads=np.full(len(HOURS), 24.0)), linear=False) == ForecastTerms()
    leads = np.tile([24.0, 48.0], len(HOURS) // 2)
    assert ForecastTerms.for_cases(cases(leads=leads), linear=False).lead
    sites = np.where(np.arange(120) < 49, "a", np.where(np.arange(120) < 70, "b", "c"))
    assert ForecastTerms.for_cases(cases(120, sites=sites), linear=False).sites == ()
    assert ForecastTerms.for_cases(cases(240, sites=np.tile(sites, 2)), linear=False).sites == ("a", "c")


def test_features_are_terms_of_the_linear_correction_only():
    given = cases(60, features=pd.DataFrame({"wind": np.arange(60)}))
    assert ForecastTerms.for_cases(given, linear=False).features == ()
    terms = ForecastTerms.for_cases(given, linear=True)
    assert terms.features == ("wind",)
    np.testing.assert_array_equal(values(given, terms)["feature wind"], np.arange(60))
    refuses(SettingError, "features", values, cases(60), terms)
    refuses(SettingError, "'wind'", values, cases(60, features=pd.DataFrame({"rain": np.arange(60)})), terms)


def test_few_members_are_told_apart_in_the_linear_correction():
    few, many = (ForecastSet(np.ones((60, count, 1))) for count in (12, 13))
    assert ForecastTerms.for_cases(few, linear=True).members == 12
    assert ForecastTerms.for_cases(few, linear=False).members == 0
    assert ForecastTerms.for_cases(many, linear=True).members == 0
    weighted = ForecastSet(np.ones((60, 3, 1)), weights=np.ones(3))
    assert ForecastTerms.for_cases(weighted, linear=True).members == 0
    members = np.random.default_rng(1).normal(size=(60, 2, 3))
    found = values(ForecastSet(members), ForecastTerms(numbers=True, members=2))
    np.testing.assert_allclose(found["member 2"], members[:, 1, 0] - members[..., 0].mean(1))
    np.testing.assert_allclose(found["mean of all outcomes"], members.mean((1, 2)))


def test_values_of_all_terms():
    sites = np.where(np.arange(len(HOURS)) % 2, "p", "q")
    members = np.random.default_rng(0).normal(size=(len(HOURS), 5, 1))
    given = ForecastSet(members, times=HOURS, leads=np.tile([0.0, 24.0], len(HOURS) // 2), sites=sites)
    terms = ForecastTerms(season=True, hour_waves=2, lead=True, sites=("p", "q"), numbers=True)
    found, mean = values(given, terms, bounds=(-9.0, None)), members.mean(1)[:, 0]
    assert list(found)[:3] == ["constant", "mean", "log spread"]
    np.testing.assert_allclose(found["mean"], mean)
    np.testing.assert_allclose(found["log spread"], np.log(members.std(1))[:, 0])
    day = (HOURS - HOURS.astype("datetime64[D]")) / np.timedelta64(1, "D")
    np.testing.assert_allclose(found["hour sin 1"], np.sin(2 * np.pi * day), atol=1e-12)
    np.testing.assert_allclose(found["hour cos 2"], np.cos(4 * np.pi * day), atol=1e-12)
    np.testing.assert_allclose(found["season sin 2"][0], 0.0, atol=1e-12)
    np.testing.assert_allclose(found["lead times mean"], given.leads / 24 * mean)
    np.testing.assert_allclose(found["mean at site p"], np.where(sites == "p", mean, 0.0))
    np.testing.assert_allclose(found["season cos 1 times mean"], found["season cos 1"] * mean)
    np.testing.assert_allclose(found["quantile 0.5"], np.median(members[..., 0], 1) - mean)
    np.testing.assert_array_equal(found["share at bound"], 0.0)
    assert "root of lead" in found
    refuses(SettingError, "times", values, cases(), terms)
