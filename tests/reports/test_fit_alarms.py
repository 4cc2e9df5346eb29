"""What is said against a forecast before anything is said for it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from invented_fits import invented_fit, invented_selection

from stakes.reports import fit_report
from stakes.reports.comparison import JudgedFit
from stakes.reports.fit_report import build_fit_report
from stakes.reports.fit_sentences import alarm_sentences


@cache
def full() -> JudgedFit:
    return invented_fit(cases=300, block=10)


def changed(told: JudgedFit, **more: float) -> JudgedFit:
    """The fit with something added to metrics of all its forecasts."""
    forecasts = told.study.forecasts
    return replace(
        told, study=replace(told.study, forecasts=forecasts.assign({k: forecasts[k] + v for k, v in more.items()}))
    )


def test_a_forecast_that_knows_its_cost_raises_no_alarm() -> None:
    assert alarm_sentences(full()) == ()


def test_a_forecast_that_expects_to_pay_far_less_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    told = full()
    regret = float(told.selected.cost.mean() - told.way("foresight").cost.mean())
    assert alarm_sentences(changed(told, expected_cost=-0.1 * regret)) == ()
    assert alarm_sentences(changed(told, expected_cost=+0.6 * regret)) == ()  # it is paid less than expected
    wrong = changed(told, expected_cost=-0.6 * regret)
    (sentence,) = alarm_sentences(wrong)
    assert sentence.startswith(
        "Take care: the forecast underestimates the cost of its decisions. On the 300 test cases it"
    )
    monkeypatch.setattr(fit_report, "_sections", lambda fit, why: iter(()))  # the figures are not looked at here
    assert build_fit_report(wrong).summary[0] == sentence
    assert "under-dispersed" not in sentence
    assert "--ensemble 4" in sentence
    (pooled,) = alarm_sentences(replace(wrong, settings={**wrong.settings, "ensemble": 4}))
    assert "--ensemble" not in pooled


def scaled(told: JudgedFit, error: float, regret: float) -> JudgedFit:
    """The fit with errors, and costs above those of perfect foresight, so many times as large."""
    forecasts = told.study.forecasts
    excess = (1 - regret) * forecasts["foresight_regret"]
    columns = {"cost": forecasts["cost"] - excess, "expected_cost": forecasts["expected_cost"] - excess}
    columns |= {"foresight_regret": regret * forecasts["foresight_regret"], "error": error * forecasts["error"]}
    return replace(told, study=replace(told.study, forecasts=forecasts.assign(columns)))


def test_a_forecast_that_is_too_good_to_be_true_is_told_unless_outcomes_hardly_move() -> None:
    (sentence,) = alarm_sentences(scaled(full(), error=1e-3, regret=1e-3))
    assert sentence.startswith("Take care: the forecast is too good to be true: it saves 99.9")
    assert alarm_sentences(scaled(full(), error=1.0, regret=1e-3)) == ()  # smooth: a step is as small as the error
    assert alarm_sentences(scaled(full(), error=1e-3, regret=0.5)) == ()
    leaky = replace(scaled(full(), error=1e-3, regret=1e-3), leaks=("Take care: 'copy' ...",))
    assert alarm_sentences(leaky) == leaky.leaks


def test_members_that_are_too_close_together_are_told_with_it() -> None:
    told = full()
    regret = float(told.selected.cost.mean() - told.way("foresight").cost.mean())
    narrow = told.study.forecasts["spread"] * 0.3
    wrong = changed(told, expected_cost=-0.6 * regret)
    wrong = replace(wrong, study=replace(wrong.study, forecasts=wrong.study.forecasts.assign(spread=narrow)))
    assert "The ensemble is under-dispersed (spread/error 0." in alarm_sentences(wrong)[0]


def test_too_few_cases_raise_no_alarm() -> None:
    assert alarm_sentences(changed(invented_fit(cases=5, block=10), expected_cost=-1e3)) == ()


@pytest.mark.parametrize(("who", "words"), [("climatology", "one action for all cases"), ("today", "today's actions")])
def test_simple_ways_that_are_cheaper_are_told(who: str, words: str) -> None:
    told = full()
    below = float((told.selected.cost - told.way(who).cost)[np.isfinite(told.way(who).cost)].mean())
    assert below < 0
    dear = changed(told, cost=1000.0, expected_cost=1000.0, foresight_regret=1000.0)
    sentences = [sentence for sentence in alarm_sentences(dear) if words in sentence]
    assert len(sentences) == 1
    assert "would have been cheaper on the test cases than those of the forecast" in sentences[0]
    assert "may be chance" not in sentences[0]


def test_one_action_for_all_is_told_without_proof_and_todays_is_not() -> None:
    told = full()
    for who, count in (("climatology", 1), ("today", 0)):
        known = np.isfinite(told.way(who).cost)
        less = float((told.way(who).cost - told.selected.cost)[known].mean())
        even = changed(told, cost=less + 1e-6, expected_cost=less + 1e-6, foresight_regret=less + 1e-6)
        word = "one action" if who == "climatology" else "today"
        found = [sentence for sentence in alarm_sentences(even) if word in sentence]
        assert len(found) == count
        assert all("which may be chance" in sentence for sentence in found)


def accepted(selected: str, weight: float = 0.4, **more: float) -> JudgedFit:
    """A fit with a selection, on which candidates cost so much more than the forecast on the test cases."""
    told = full() if weight else invented_fit(cases=300, block=10, weight=0.0)
    return replace(told, selection=invented_selection(told, selected, more))


def test_a_selection_whose_lower_candidates_were_more_expensive_raises_no_alarm() -> None:
    assert alarm_sentences(accepted("decision")) == ()
    told = alarm_sentences(
        accepted("linear", weight=0.0, network=-3.0, decision=-3.0)
    )  # higher candidates, not selected
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
def test_a_lower_candidate_that_was_cheaper_beyond_doubt_is_told_first(
    monkeypatch: pytest.MonkeyPatch, candidate: str, words: str, flags: str
) -> None:
    beaten = accepted("decision", **{candidate: -3.0})
    (sentence,) = alarm_sentences(beaten)
    assert sentence.startswith(f"Take care: a simpler candidate, {words}, was cheaper on the test cases")
    assert "beyond doubt" in sentence
    assert flags in sentence
    monkeypatch.setattr(fit_report, "_sections", lambda fit, why: iter(()))
    assert build_fit_report(beaten).summary[0] == sentence


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
    (sentence,) = alarm_sentences(replace(told, selection=replace(told.selection, candidates=candidates)))
    assert advice in sentence


def test_the_lowest_candidates_are_told_without_proof() -> None:
    for candidate, count in (("climatology", 1), ("linear", 1), ("network", 0), ("recent_errors", 0)):
        found = alarm_sentences(accepted("decision", **{candidate: -0.05}))
        assert len(found) == count
        assert all("which may be chance" in sentence for sentence in found)
    few = invented_fit(cases=40, block=10)
    (sentence,) = alarm_sentences(replace(few, selection=invented_selection(few, "decision", {"linear": -3.0})))
    assert "which may be chance" in sentence  # where there are too few cases for an interval


def test_climatology_that_was_selected_is_not_blamed_for_being_it() -> None:
    told = accepted("climatology", weight=0.0)
    dear = changed(told, cost=1000.0, expected_cost=1000.0, foresight_regret=1000.0)
    assert [sentence for sentence in alarm_sentences(dear) if "one action for all" in sentence] == []
