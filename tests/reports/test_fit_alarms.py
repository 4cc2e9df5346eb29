"""What is said against a forecast before anything is said for it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from invented_fits import invented_fit

from stakes.reports import fit_report
from stakes.reports.fit_alarms import alarm_sentences
from stakes.reports.fit_report import build_fit_report
from stakes.reports.judged_fit import JudgedFit


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
    regret = float(told.taken.cost.mean() - told.way("foresight").cost.mean())
    assert alarm_sentences(changed(told, expected_cost=-0.1 * regret)) == ()
    assert alarm_sentences(changed(told, expected_cost=+0.6 * regret)) == ()  # it is paid less than expected
    wrong = changed(told, expected_cost=-0.6 * regret)
    (sentence,) = alarm_sentences(wrong)
    assert sentence.startswith(
        "Take care: the forecast does not know what its decisions cost. On the 300 test cases it"
    )
    monkeypatch.setattr(fit_report, "_sections", lambda fit, why: iter(()))  # the figures are not looked at here
    assert build_fit_report(wrong).summary[0] == sentence
    assert "too close together" not in sentence


def test_members_that_are_too_close_together_are_told_with_it() -> None:
    told = full()
    regret = float(told.taken.cost.mean() - told.way("foresight").cost.mean())
    narrow = told.study.forecasts["spread"] * 0.3
    wrong = changed(told, expected_cost=-0.6 * regret)
    wrong = replace(wrong, study=replace(wrong.study, forecasts=wrong.study.forecasts.assign(spread=narrow)))
    assert "Its members are too close together: 0." in alarm_sentences(wrong)[0]


def test_too_few_cases_raise_no_alarm() -> None:
    assert alarm_sentences(changed(invented_fit(cases=5, block=10), expected_cost=-1e3)) == ()


@pytest.mark.parametrize(("who", "words"), [("climatology", "one action for all cases"), ("today", "today's actions")])
def test_simple_ways_that_are_cheaper_are_told(who: str, words: str) -> None:
    told = full()
    below = float((told.taken.cost - told.way(who).cost)[np.isfinite(told.way(who).cost)].mean())
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
        less = float((told.way(who).cost - told.taken.cost)[known].mean())
        even = changed(told, cost=less + 1e-6, expected_cost=less + 1e-6, foresight_regret=less + 1e-6)
        word = "one action" if who == "climatology" else "today"
        found = [sentence for sentence in alarm_sentences(even) if word in sentence]
        assert len(found) == count
        assert all("which may be chance" in sentence for sentence in found)
