"""The headline, and what is said against a forecast."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from invented_fits import changed, invented_fit, invented_selection
from invented_recalibrations import invented_recalibration
from snapshots import assert_as_kept

import stakes
from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.evaluation.selection import CANDIDATES, JudgedCandidate, JudgedCases, ModelSelection, candidate_on_test
from stakes.forecasting.recalibration import judge_correction
from stakes.reports.comparison import Comparison, comparison_of_correction
from stakes.reports.sentences import (
    calibration_sentences,
    cost_sentences,
    dearer_than_expected,
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
    assert "today's action (known in 297 cases), " in cost_sentences(full())


def test_the_gain_of_a_weight_is_the_paired_difference() -> None:
    paid, plain = full().selected.cost, full().reference.cost
    saved = (plain - paid).mean()
    sentence = weight_sentences(full())[0]
    assert f"costs {saved:.2f} EUR less per case than weight 0 [" in sentence
    assert f"{100 * saved / plain.mean():.3g} % of its cost" in sentence
    low, high = map(float, re.findall(r"\[([\d.]+), ([\d.]+)\]", sentence)[0])
    assert 0 < low < saved < high


def test_a_forecast_that_knows_its_cost_raises_no_warning() -> None:
    assert warning_sentences(full()) == ()
    assert warning_sentences(invented_recalibration()) == ()
    assert warning_sentences(changed(invented_fit(cases=5, block=10), expected_cost=-1e3)) == ()


def test_a_forecast_that_expects_to_pay_far_less_is_told() -> None:
    assert warning_sentences(changed(full(), expected_cost=-0.1 * regret())) == ()
    assert warning_sentences(changed(full(), expected_cost=+0.6 * regret())) == ()  # it is paid less than expected
    wrong = changed(full(), expected_cost=-0.6 * regret())
    (sentence,) = warning_sentences(wrong)
    assert "underestimates" in sentence
    assert "under-dispersed" not in sentence
    assert "--ensemble 4" in sentence
    (pooled,) = warning_sentences(replace(wrong, settings={**wrong.settings, "ensemble": 4}))
    assert "--ensemble" not in pooled


def _expecting(told: Comparison, less: float) -> Comparison:
    """A fit that expects what it pays, and so much beside."""
    forecast = replace(told.forecast, expected_cost=told.selected.cost + less)
    selected = replace(told.selected, forecast=forecast)
    policies = tuple(selected if policy is told.selected else policy for policy in told.policies)
    return replace(told, policies=policies, selected=selected)


def test_a_small_gap_is_told_and_warned_of_where_the_spread_is_too_small_as_well() -> None:
    small = _expecting(full(), -0.1 * regret())
    (sentence,) = dearer_than_expected(small)
    assert sentence.startswith("Expected ")
    assert sentence.endswith("Its decisions cost more than it expects.")
    assert warning_sentences(small) == dearer_than_expected(full()) == ()
    sure = _expecting(changed(full(), spread=0.3), -0.1 * regret())
    (warning,) = warning_sentences(sure)
    assert "underestimates" in warning
    assert "under-dispersed" in warning
    assert dearer_than_expected(sure) == ()


def test_a_forecast_that_is_too_good_to_be_true_is_told_unless_outcomes_hardly_move() -> None:
    (sentence,) = warning_sentences(changed(full(), error=1e-3, regret=1e-3))
    assert "99.9" in sentence
    assert warning_sentences(changed(full(), error=1.0, regret=1e-3)) == ()  # a step is as small as the error
    assert warning_sentences(changed(full(), error=1e-3, regret=0.5)) == ()
    assert "A feature may contain" in sentence
    for kind in ("fit", "recalibration"):  # where there are no features, none is spoken of
        alone = replace(changed(full(), error=1e-3, regret=1e-3), kind=kind, has_features=False)
        (told,) = warning_sentences(alone)
        assert "feature" not in told
    leaky = replace(changed(full(), error=1e-3, regret=1e-3), leaks=("Warning: 'copy' ...",))
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


def test_the_simplest_candidates_are_told_without_proof() -> None:
    for candidate, count in (("climatology", 1), ("linear", 1), ("network", 0), ("recent_errors", 0)):
        found = warning_sentences(accepted("decision", **{candidate: -0.05}))
        assert len(found) == count
        assert all("which may be chance" in sentence for sentence in found)
    few = invented_fit(cases=40, block=10)
    (sentence,) = warning_sentences(replace(few, selection=invented_selection(few, "decision", {"linear": -3.0})))
    assert "which may be chance" in sentence  # where there are too few cases for an interval


ALONE = "--decision-weight 0 --no-recent-errors"


@pytest.mark.parametrize(
    ("cheaper", "selected", "below", "flags"),
    [
        ("linear", "network", "linear", f"--model linear {ALONE}"),
        ("trees", "network", "linear", f"--base trees --model linear {ALONE}"),
        ("network", "pool", "decision", ALONE),
        ("total_score", "pool", "decision", f"--score energy=1,total=1 {ALONE}"),
        ("decision", "pool", "decision", "--score energy=1,total=1 --decision-weight 0.3 --no-recent-errors"),
        ("pool", "recent_errors", "pool", "--no-recent-errors"),
        ("pool", "recent_errors", "decision", ""),  # no flags give a pool that was not selected
        ("my own", "pool", "decision", ""),  # nor a model of the user's
    ],
)
def test_the_flags_that_are_advised_give_that_candidate_alone(
    cheaper: str, selected: str, below: str, flags: str
) -> None:
    names = [*CANDIDATES[:3], "my own", *CANDIDATES[3:]]
    parameters: dict[str, dict[str, str | float]] = {
        "total_score": {"score": "energy=1,total=1"},
        "decision": {"decision weight": 0.3},
    }
    paid = JudgedCases(full().selected.cost, np.ones(300))
    candidates = tuple(
        JudgedCandidate(
            name,
            below if name == selected else None,
            parameters.get(name, {}),
            accepted=name in ("climatology", "total_score", below, selected),
            why="",
        )
        for name in names[: 1 + names.index(selected)]
    )
    tested = (candidate_on_test(cheaper, JudgedCases(paid.cost - 3.0, paid.score), paid, 10),)
    told = replace(full(), selection=ModelSelection(candidates, 300, 10, tested))
    (sentence,) = warning_sentences(told)
    _, _, advised = sentence.partition("--")
    assert advised.rstrip("`.") == flags.removeprefix("--")


def test_climatology_that_was_selected_is_not_blamed_for_being_it() -> None:
    dear = changed(accepted("climatology", weight=0.0), cost=1000.0, expected_cost=1000.0)
    assert [sentence for sentence in warning_sentences(dear) if "one action for all" in sentence] == []


# Scenes, with what is said in them


def perhaps_chance() -> Comparison:
    told = invented_recalibration(today=None)
    raw = told.reference.cost + np.random.default_rng(0).normal(size=300)
    selected = replace(told.selected, cost=raw)
    return replace(told, policies=(told.reference, selected, *told.policies[2:]), selected=selected)


def few_cases_of_the_frontier() -> Comparison:
    told = invented_fit(cases=300, weight=0.0)
    assert told.frontier is not None
    return replace(told, frontier=replace(told.frontier, cases=40))


def newer_errors() -> Comparison:
    told = invented_recalibration("linear")
    assert told.selection is not None
    fresh = replace(told.selection.candidates[1], name="recent_errors")
    return replace(told, selection=replace(told.selection, candidates=(told.selection.candidates[0], fresh), tested=()))


def averse(mix: float) -> Comparison:
    """Of whose costs the mean is 10, 9.5 for weight 0, and 8 was expected."""
    paid = np.full(300, 10.0) + np.tile([-1.0, 1.0], 150)
    plain = {full().reference: (paid - 0.5, paid), full().selected: (paid, paid - 2.0)}
    policies = [
        replace(policy, forecast=replace(forecast, plain=plain[policy]))
        for policy, forecast in full().forecasts.items()
    ]
    return replace(
        full(), policies=(*policies, *full().policies[2:]), selected=policies[1], cost=stakes.CVaRCost(PLAIN, 0.8, mix)
    )


def averse_correction() -> Comparison:
    generator = np.random.default_rng(0)
    outcome = generator.normal(50, 5, (200, 1))
    given = ForecastSet(outcome[:, None] + generator.normal(3, 5, (200, 20, 1)), outcomes=outcome)
    cost = stakes.CVaRCost(PLAIN, 0.7)
    judged = judge_correction(given, given.members - 3, cost)
    np.testing.assert_array_less(judged.values("plain_cost", "raw").mean(), judged.values("cost", "raw").mean())
    selection = invented_recalibration().selection
    assert selection is not None
    return comparison_of_correction(judged, selection, "members", ("y",), cost, None)


SCENES: dict[str, Callable[[], Comparison]] = {
    "a weight that was chosen": full,
    "a weight that was given": lambda: invented_fit(cases=300, chosen=False),
    "an ensemble": lambda: replace(full(), settings={"ensemble": 5}),
    "no gain is confirmed": lambda: invented_fit(cases=300, gain=0.5, spec=SYMMETRIC),
    "training does not pay": lambda: invented_fit(cases=300, gain=-1.2),
    "no weight was cheaper": lambda: invented_fit(cases=300, weight=0.0),
    "no weight was tried": lambda: invented_fit(cases=300, weight=0.0, chosen=False),
    "five cases": lambda: invented_fit(cases=5, block=10),
    "too few cases to choose": few_cases_of_the_frontier,
    "under-dispersed": lambda: changed(full(), expected_cost=-0.6 * regret(), spread=0.3),
    "climatology is kept": lambda: accepted("climatology", weight=0.0),
    "a linear forecast": lambda: accepted("linear", weight=0.0),
    "climatology was cheaper": lambda: accepted("decision", climatology=-3.0),
    "linear was cheaper": lambda: accepted("decision", linear=-3.0),
    "the network was cheaper": lambda: accepted("decision", network=-3.0),
    "a correction": invented_recalibration,
    "a correction of newer errors": newer_errors,
    "an under-dispersed correction": lambda: invented_recalibration(spread=0.2),
    "a correction of points": lambda: invented_recalibration(form="points"),
    "a correction that may be chance": perhaps_chance,
    "a correction that costs more": lambda: invented_recalibration(bias=0.0, correction=-3.0, today=None),
    "a correction that costs more than today": lambda: invented_recalibration(
        bias=-3.0, correction=2.0, spread=0.5, today=12.0
    ),
    "nothing to correct": lambda: invented_recalibration("raw", bias=0.0),
    "averse to risk": lambda: averse(1.0),
    "averse to risk in part": lambda: averse(0.5),
    "a correction that is averse to risk": averse_correction,
}


def said_in(scene: str) -> str:
    told = SCENES[scene]()
    lines = [f"# {scene}", headline(told), cost_sentences(told)]
    for kind in (weight_sentences, calibration_sentences, interval_sentences, risk_sentences, warning_sentences):
        lines += kind(told)
    return "\n".join([*lines, *(() if told.selection is None else selection_sentences(told.selection))])


def test_what_is_said_in_every_scene() -> None:
    assert_as_kept(Path(__file__).with_name("scenes.txt"), "\n\n".join(map(said_in, SCENES)) + "\n")
