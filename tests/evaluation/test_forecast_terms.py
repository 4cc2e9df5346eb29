"""Tests of the terms that a forecast's error may depend on."""

import numpy as np
import pandas as pd
import pytest

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import SettingError
from stakes.forecasting.error_model import ForecastNumbers, ForecastTerms, StandardTerms

HOURS = np.datetime64("2023-01-01T00") + np.arange(0, 24 * 400, 6).astype("timedelta64[h]")


def cases(count: int = len(HOURS), **beside: object) -> ForecastSet:
    return ForecastSet(np.random.default_rng(0).normal(size=(count, 3, 1)), **beside)


def numbers(count: int) -> ForecastNumbers:
    return ForecastNumbers(np.linspace(-1, 1, count), np.linspace(0, 2, count))


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
    np.testing.assert_array_equal(terms.values(given, numbers(60))["feature wind"], np.arange(60))
    with pytest.raises(SettingError, match="features must be given"):
        terms.values(cases(60), numbers(60))
    with pytest.raises(SettingError, match="'wind' is missing"):
        terms.values(cases(60, features=pd.DataFrame({"rain": np.arange(60)})), numbers(60))


def test_few_members_are_told_apart_in_the_linear_correction():
    few, many = (ForecastSet(np.ones((60, count, 1))) for count in (12, 13))
    assert ForecastTerms.for_cases(few, linear=True).members == 12
    assert ForecastTerms.for_cases(few, linear=False).members == 0
    assert ForecastTerms.for_cases(many, linear=True).members == 0
    weighted = ForecastSet(np.ones((60, 3, 1)), weights=np.ones(3))
    assert ForecastTerms.for_cases(weighted, linear=True).members == 0
    said = numbers(60)._replace(members=np.arange(120.0).reshape(60, 2), total=np.arange(60.0))
    values = ForecastTerms(numbers=True, members=2).values(cases(60), said)
    np.testing.assert_array_equal(values["member 2"], np.arange(1, 120, 2))
    np.testing.assert_array_equal(values["mean of all outcomes"], np.arange(60))


def test_values_of_all_terms():
    sites = np.where(np.arange(len(HOURS)) % 2, "p", "q")
    given = cases(times=HOURS, leads=np.tile([0.0, 24.0], len(HOURS) // 2), sites=sites)
    terms = ForecastTerms(season=True, hour_waves=2, lead=True, sites=("p", "q"), numbers=True)
    said = numbers(len(HOURS))._replace(quantiles=np.ones((len(HOURS), 3)), at_bound=np.zeros(len(HOURS)))
    values = terms.values(given, said)
    assert list(values)[:3] == ["constant", "mean", "log spread"]
    day = (HOURS - HOURS.astype("datetime64[D]")) / np.timedelta64(1, "D")
    np.testing.assert_allclose(values["hour sin 1"], np.sin(2 * np.pi * day), atol=1e-12)
    np.testing.assert_allclose(values["hour cos 2"], np.cos(4 * np.pi * day), atol=1e-12)
    np.testing.assert_allclose(values["season sin 2"][0], 0.0, atol=1e-12)
    np.testing.assert_allclose(values["lead times mean"], given.leads / 24 * said.mean)
    np.testing.assert_array_equal(values["mean at site p"], np.where(sites == "p", said.mean, 0.0))
    np.testing.assert_allclose(values["season cos 1 times mean"], values["season cos 1"] * said.mean)
    assert {"quantile 0.5", "share at bound", "root of lead"} <= set(values)
    with pytest.raises(SettingError, match="times must be given"):
        terms.values(cases(), said)


def test_standard_terms_have_the_coefficients_of_those_as_they_are():
    random = np.random.default_rng(1)
    terms = {"constant": np.ones(50), "mean": random.normal(3, 2, 50), "lead": 1e6 + random.normal(size=50)}
    terms["feature x"] = np.full(50, 7.0)  # never changes
    standard = StandardTerms.of(terms)
    np.testing.assert_allclose(standard.columns[:, 1:3].std(0), 1.0)
    np.testing.assert_array_equal(standard.columns[:, 3], 0.0)
    np.testing.assert_array_equal(standard.pull(5.0), [0.0, 1.0, 5.0, 5.0])
    found = np.array([1.0, 2.0, 3.0, 4.0])
    as_they_are = standard.coefficients(found.copy())
    again = sum(as_they_are[name] * column for name, column in terms.items())
    np.testing.assert_allclose(again, standard.columns @ found, rtol=1e-6)
