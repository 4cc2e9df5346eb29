"""The headline, and what is said against a forecast."""

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from invented_fits import changed, invented_fit, invented_selection
from invented_recalibrations import invented_recalibration

import stakes
from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.forecasting.recalibration import judge_correction
from stakes.reports.comparison import Comparison, comparison_of_correction
from stakes.reports.sentences import (
    calibration_sentences,
    cost_sentences,
    headline,
    interval_sentences,
    risk_sentences,
    rivals,
    selection_sentences,
    warning_sentences,
    weight_sentences,
)

PLAIN = stakes.NewsvendorCost(3.0, 1.0, 0.0, 150.0)
SYMMETRIC = CostSpec.parse("newsvendor:underage=1,overage=1,upper=150")


@cache
def full() -> Comparison:
    return invented_fit(cases=300, block=10)


def regret() -> float:
    foresight = full().policy("foresight")
    assert foresight is not None
    return float((full().selected.cost - foresight.cost).mean())


def accepted(selected: str, weight: float = 0.4, **more: float) -> Comparison:
    """A fit with a selection, on which candidates cost so much more than the forecast on the test cases."""
    return invented_fit(cases=300, block=10, weight=weight, selected=selected, more=more)


def test_the_headline_says_what_to_do_and_what_it_saves() -> None:
    climatology = full().policy("climatology")
    assert climatology is not None
    change = full().change(full().selected, climatology)
    assert headline(full()).startswith(
        f"Follow the decision-aware forecast (weight 0.4): it saves {-change.mean:.0f} EUR per case against "
        f"climatology [{-change.high:.0f}, {-change.low:.0f}] and "
    )
    names = [rival.name for rival in rivals(accepted("decision"))]
    assert names == ["climatology", "the linear forecast", "the forecast of weight 0", "today's action"]
    assert "from that of today's action (known in 297 cases) [" in headline(full())


@pytest.mark.parametrize(
    ("told", "start"),
    [
        (lambda: invented_recalibration(bias=0.0, correction=-3.0, today=None), "Do not follow the corrected forecast"),
        (lambda: invented_recalibration("raw", bias=0.0), "Keep the raw forecast: nothing was proven to be better."),
        (lambda: accepted("climatology", weight=0.0), "Keep climatology: nothing was proven to be better."),
        (lambda: invented_fit(cases=5, block=10), "No gain is proven for the decision-aware forecast (weight 0.4)."),
    ],
)
def test_the_headline_of_a_forecast_that_is_not_better(told: Comparison, start: str) -> None:
    assert headline(told()).startswith(start)


def test_a_gain_that_may_be_chance_is_not_praised() -> None:
    told = invented_recalibration(today=None)
    raw = told.reference.cost + np.random.default_rng(0).normal(size=300)
    selected = replace(told.selected, cost=raw)
    sentence = headline(replace(told, policies=(told.reference, selected, *told.policies[2:]), selected=selected))
    assert sentence.startswith("No gain is proven for the corrected forecast")
    assert "which may be chance" in sentence


def test_costs_are_told_per_case_in_all_and_per_year() -> None:
    told = invented_recalibration(today=None)
    raw, paid = told.reference.cost.mean(), told.selected.cost.mean()
    said = cost_sentences(told)
    assert f"costs {paid:.2f} EUR per case" in said
    assert f"the raw forecast {raw:.1f} EUR" in said
    assert f"{300 * (raw - paid):,.0f} EUR less than the raw forecast" in said
    assert f"{float(f'{365.25 * (raw - paid):.3g}'):,.0f} EUR per year [" in said
    assert said.endswith("at 365 cases per year, if the whole year is like the test cases.")
    assert "per year" not in cost_sentences(replace(told, times=None))


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, "Decision-aware training pays: weight 0.4 (chosen on validation cases) costs"),
        ({"chosen": False}, "Decision-aware training pays: weight 0.4 (given) costs"),
        ({"gain": 0.5, "spec": SYMMETRIC}, "No gain is confirmed: the cost of weight 0.4"),
        ({"gain": -1.2}, "Decision-aware training does not pay: weight 0.4"),
        ({"weight": 0.0}, "No decision weight made decisions significantly cheaper"),
        ({"weight": 0.0, "chosen": False}, "Decision weights were not tried"),
        ({"cases": 5, "block": 10}, "Too early to tell whether weight 0.4"),
    ],
)
def test_whether_decision_aware_training_pays(options: dict[str, Any], start: str) -> None:
    told = weight_sentences(invented_fit(**{"cases": 300, **options}))
    assert told[0].startswith(start)
    assert (len(told) == 2) == ("chosen" not in options)  # with the reason


def test_the_gain_of_a_weight_is_the_paired_difference() -> None:
    paid, plain = full().selected.cost, full().reference.cost
    saved = (plain - paid).mean()
    sentence = weight_sentences(full())[0]
    assert f"costs {saved:.2f} EUR less per case than weight 0 [" in sentence
    assert f"{100 * saved / plain.mean():.3g} % of its cost" in sentence
    low, high = map(float, re.findall(r"\[([\d.]+), ([\d.]+)\]", sentence)[0])
    assert 0 < low < saved < high
    frontier = invented_fit(cases=300, weight=0.0).frontier
    assert frontier is not None
    few = replace(invented_fit(cases=300, weight=0.0), frontier=replace(frontier, cases=40))
    assert "40 cases in blocks of 7 are too few to choose" in weight_sentences(few)[0]


def test_a_candidate_without_a_weight_speaks_of_none() -> None:
    told = accepted("linear", weight=0.0)
    assert weight_sentences(told) == ()
    assert headline(told).startswith("Follow the linear forecast: it saves")
    every = [headline(told), cost_sentences(told), *calibration_sentences(told), *interval_sentences(told)]
    assert "weight 0" not in " ".join(every)


def test_intervals_leave_out_the_training_seed() -> None:
    assert "not the training seed" in interval_sentences(full())[0]
    for told in (replace(full(), settings={"ensemble": 5}), accepted("linear", weight=0.0), invented_recalibration()):
        assert "seed" not in interval_sentences(told)[0]
    assert interval_sentences(invented_fit(cases=5, block=10))[0].startswith("There are no intervals")


def test_a_forecast_that_knows_its_cost_raises_no_warning() -> None:
    assert warning_sentences(full()) == ()
    assert warning_sentences(invented_recalibration()) == ()
    assert warning_sentences(changed(invented_fit(cases=5, block=10), expected_cost=-1e3)) == ()


def test_a_forecast_that_expects_to_pay_far_less_is_told() -> None:
    assert warning_sentences(changed(full(), expected_cost=-0.1 * regret())) == ()
    assert warning_sentences(changed(full(), expected_cost=+0.6 * regret())) == ()  # it is paid less than expected
    wrong = changed(full(), expected_cost=-0.6 * regret())
    (sentence,) = warning_sentences(wrong)
    assert sentence.startswith("Take care: the forecast underestimates the cost of its decisions. On the 300 test")
    assert "under-dispersed" not in sentence
    assert "--ensemble 4" in sentence
    (pooled,) = warning_sentences(replace(wrong, settings={**wrong.settings, "ensemble": 4}))
    assert "--ensemble" not in pooled


def test_an_under_dispersed_ensemble_is_told_with_it() -> None:
    wrong = changed(full(), expected_cost=-0.6 * regret(), spread=0.3)
    assert "under-dispersed (spread/error 0." in warning_sentences(wrong)[0]
    (sentence,) = warning_sentences(invented_recalibration(spread=0.2))
    assert "underestimates the cost of its decisions" in sentence
    assert "under-dispersed (spread/error 0.2" in sentence


def test_a_forecast_that_is_too_good_to_be_true_is_told_unless_outcomes_hardly_move() -> None:
    (sentence,) = warning_sentences(changed(full(), error=1e-3, regret=1e-3))
    assert sentence.startswith("Take care: the forecast is too good to be true: it saves 99.9")
    assert warning_sentences(changed(full(), error=1.0, regret=1e-3)) == ()  # a step is as small as the error
    assert warning_sentences(changed(full(), error=1e-3, regret=0.5)) == ()
    leaky = replace(changed(full(), error=1e-3, regret=1e-3), leaks=("Take care: 'copy' ...",))
    assert warning_sentences(leaky) == leaky.leaks


@pytest.mark.parametrize(("who", "words"), [("climatology", "one action for all cases"), ("today", "today's actions")])
def test_simple_policies_that_are_cheaper_are_told(who: str, words: str) -> None:
    dear = changed(full(), cost=1000.0, expected_cost=1000.0)
    (sentence,) = (each for each in warning_sentences(dear) if words in each)
    assert "may be chance" not in sentence
    rival = full().policy(who)
    assert rival is not None
    less = float((rival.cost - full().selected.cost)[rival.known].mean())
    found = [each for each in warning_sentences(changed(full(), cost=less + 1e-6, expected_cost=less)) if words in each]
    assert len(found) == (who == "climatology")  # the action of today needs proof
    assert all("which may be chance" in each for each in found)


def test_lower_candidates_that_were_more_expensive_raise_no_warning() -> None:
    assert warning_sentences(accepted("decision")) == ()
    told = warning_sentences(accepted("linear", weight=0.0, network=-3.0, decision=-3.0))  # not selected
    assert [sentence for sentence in told if "candidate" in sentence] == []


@pytest.mark.parametrize(
    ("candidate", "words", "flags"),
    [
        ("climatology", "climatology", "before you know why"),
        ("linear", "the linear forecast", "with --model linear --no-recent-errors --decision-weight 0 fits"),
        ("network", "the network", "with --no-recent-errors --decision-weight 0 fits"),
        ("recent_errors", "the network corrected by recent errors", "with --decision-weight 0 fits"),
    ],
)
def test_a_lower_candidate_that_was_significantly_cheaper_is_told(candidate: str, words: str, flags: str) -> None:
    (sentence,) = warning_sentences(accepted("decision", **{candidate: -3.0}))
    assert sentence.startswith(f"Take care: a simpler candidate, {words}, was cheaper on the test cases")
    assert "may be chance" not in sentence
    assert flags in sentence


@pytest.mark.parametrize(
    ("below", "advice"), [("climatology", "before you know why"), ("linear", "--model linear --d")]
)
def test_a_corrected_candidate_is_had_by_what_was_corrected(below: str, advice: str) -> None:
    told = accepted("decision", recent_errors=-3.0)
    assert told.selection is not None
    candidates = tuple(
        replace(candidate, below=below) if candidate.name == "recent_errors" else candidate
        for candidate in told.selection.candidates
    )
    (sentence,) = warning_sentences(replace(told, selection=replace(told.selection, candidates=candidates)))
    assert advice in sentence


def test_the_simplest_candidates_are_told_without_proof() -> None:
    for candidate, count in (("climatology", 1), ("linear", 1), ("network", 0), ("recent_errors", 0)):
        found = warning_sentences(accepted("decision", **{candidate: -0.05}))
        assert len(found) == count
        assert all("which may be chance" in sentence for sentence in found)
    few = invented_fit(cases=40, block=10)
    (sentence,) = warning_sentences(replace(few, selection=invented_selection(few, "decision", {"linear": -3.0})))
    assert "which may be chance" in sentence  # where there are too few cases for an interval


def test_climatology_that_was_selected_is_not_blamed_for_being_it() -> None:
    dear = changed(accepted("climatology", weight=0.0), cost=1000.0, expected_cost=1000.0)
    assert [sentence for sentence in warning_sentences(dear) if "one action for all" in sentence] == []


def test_a_correction_that_costs_more_is_told() -> None:
    told = warning_sentences(invented_recalibration(bias=0.0, correction=-3.0, today=None))
    assert told[-1].startswith("Take care: a simpler candidate, the raw forecast, was cheaper on the test cases")
    assert "may be chance" not in told[-1]
    today = invented_recalibration(bias=-3.0, correction=2.0, spread=0.5, today=12.0)
    assert any("today's actions would have been cheaper" in sentence for sentence in warning_sentences(today))
    assert headline(today).startswith("Do not follow the corrected forecast (linear) yet: today's action costs")


def test_calibration_is_told_of_every_forecast() -> None:
    assert "too few cases for an interval" in calibration_sentences(invented_fit(cases=5, block=10))[1]
    told = calibration_sentences(invented_recalibration())
    assert re.fullmatch(r"Bias: the mean of the raw forecast is [\d.]+ too low and .* too (low|high)\.", told[0])
    assert "corrected" not in " ".join(calibration_sentences(invented_recalibration("raw", bias=0.0)))
    points = calibration_sentences(invented_recalibration(form="points"))
    assert points[-1] == "A point forecast such as the raw forecast has no spread."


def test_newer_errors_that_count_more_need_a_refit_to_be_seen() -> None:
    selection = invented_recalibration("linear").selection
    assert selection is not None
    assert selection_sentences(selection) == (selection.reason,)
    fresh = replace(selection.candidates[1], name="recent_errors")
    assert "`stakes refit`" in selection_sentences(replace(selection, candidates=(selection.candidates[0], fresh)))[1]


@pytest.mark.parametrize(
    ("mix", "words"),
    [
        (1.0, "the worst 20 % of what the forecast holds possible."),
        (0.5, "with a weight of 0.5, and the mean of all with the rest."),
    ],
)
def test_a_risk_averse_charge_is_told_from_the_cost(mix: float, words: str) -> None:
    paid = np.full(300, 10.0) + np.tile([-1.0, 1.0], 150)
    plain = {full().reference: (paid - 0.5, paid), full().selected: (paid, paid - 2.0)}
    policies = [
        replace(policy, forecast=replace(forecast, plain=plain[policy]))
        for policy, forecast in full().forecasts.items()
    ]
    told = replace(full(), policies=tuple(policies), selected=policies[1], cost=stakes.CVaRCost(PLAIN, 0.8, mix))
    first, second = risk_sentences(told)
    assert words in first
    assert "cost 10.0 EUR per case, where 8.00 EUR was expected: a gap of -2.00 EUR" in first
    assert "Those of the forecast of weight 0 cost 9.50 EUR without it: the difference is +0.500 EUR" in second
    assert len(risk_sentences(replace(told, policies=tuple(policies[1:])))) == 1
    assert risk_sentences(full()) == ()  # of another cost


def test_a_risk_averse_recalibration_is_told() -> None:
    generator = np.random.default_rng(0)
    outcome = generator.normal(50, 5, (200, 1))
    given = ForecastSet(outcome[:, None] + generator.normal(3, 5, (200, 20, 1)), outcomes=outcome)
    cost = stakes.CVaRCost(PLAIN, 0.7)
    judged = judge_correction(given, given.members - 3, cost)
    np.testing.assert_array_less(judged.values("plain_cost", "raw").mean(), judged.values("cost", "raw").mean())
    selection = invented_recalibration().selection
    assert selection is not None
    told = comparison_of_correction(judged, selection, "members", ("y",), cost, None)
    assert risk_sentences(told)[1].startswith("Those of the raw forecast cost")
