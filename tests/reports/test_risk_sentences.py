"""What reports say of decisions that avert risk: beside the charge, what they cost by themselves."""

from dataclasses import replace

import numpy as np
import pytest
from invented_fits import invented_fit
from invented_recalibrations import invented_recalibration

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.forecasting.recalibration import judge_correction
from stakes.reports.fit_report import build_fit_report
from stakes.reports.fit_sentences import plain_cost_sentences, risk_sentences
from stakes.reports.recalibration_report import build_recalibration_report

PLAIN = stakes.NewsvendorCost(3.0, 1.0, 0.0, 150.0)


@pytest.mark.parametrize(
    ("mix", "words"),
    [
        (1.0, "the worst 20 % of what the forecast holds to be possible, and"),
        (0.5, "with a weight of 0.5, and the mean"),
    ],
)
def test_the_charge_is_told_from_the_cost(mix: float, words: str) -> None:
    fit = replace(invented_fit(cases=300), cost=stakes.CVaRCost(PLAIN, 0.8, mix))
    paid = np.full(300, 10.0) + np.tile([-1.0, 1.0], 150)
    first, second = risk_sentences(fit, paid, paid - 2.0, ("weight 0", paid - 0.5))
    assert words in first
    assert "cost 10.0 EUR per case, where 8.00 EUR was expected: a gap of -2.00 EUR" in first
    assert "Those of weight 0 cost 9.50 EUR by themselves: the difference is +0.500 EUR" in second
    assert risk_sentences(fit, paid, paid) == (risk_sentences(fit, paid, paid)[0],)


def test_other_costs_have_no_such_sentence() -> None:
    fit = invented_fit(cases=300)
    assert risk_sentences(fit, np.ones(300), np.ones(300)) == ()
    assert plain_cost_sentences(fit) == ()


def test_the_report_of_a_fit_tells_it() -> None:
    fit = invented_fit(cases=300)
    forecasts = fit.study.forecasts
    known = forecasts.assign(plain_cost=forecasts["cost"] / 2, plain_expected_cost=forecasts["expected_cost"] / 2)
    averse = replace(fit, study=replace(fit.study, forecasts=known), cost=stakes.CVaRCost(PLAIN, 0.8))
    summary = build_fit_report(averse).summary
    assert sum("charges that avert risk" in sentence for sentence in summary) == 1
    assert sum(sentence.startswith("Those of weight 0 cost") for sentence in summary) == 1


def test_the_report_of_a_recalibration_tells_it() -> None:
    generator = np.random.default_rng(0)
    outcome = generator.normal(50, 5, (200, 1))
    given = ForecastSet(outcome[:, None] + generator.normal(3, 5, (200, 20, 1)), outcomes=outcome)
    cost = stakes.CVaRCost(PLAIN, 0.7)
    judged = judge_correction(given, given.members - 3, cost)
    np.testing.assert_array_less(judged.values("plain_cost", "raw").mean(), judged.values("cost", "raw").mean())
    told = replace(invented_recalibration(), judged=judged, cost=cost)
    summary = build_recalibration_report(told).summary
    assert sum("charges that avert risk" in sentence for sentence in summary) == 1
    assert sum(sentence.startswith("Those of the raw forecast cost") for sentence in summary) == 1
