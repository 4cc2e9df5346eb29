"""The report of a recalibration says what the numbers say, and what speaks against it first."""

from dataclasses import replace
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from invented_recalibrations import invented_recalibration

from stakes.reports.comparison import JudgedRecalibration
from stakes.reports.figures import decisions_figure
from stakes.reports.fit_sentences import against_today
from stakes.reports.page import Report, render
from stakes.reports.recalibration_report import (
    build_recalibration_report,
    pit_shares,
    recalibration_alarms,
    reliability_figure,
    reliability_sentences,
    selected_sentences,
    spread_and_error_ratio,
    worth_sentence,
)

pytestmark = pytest.mark.usefixtures("unarranged_figures")

KINDS: dict[str, dict[str, Any]] = {
    "corrected": {},
    "raw": {"selected": "raw", "bias": 0.0},
    "points": {"form": "points", "today": None},
    "raw points": {"selected": "raw", "form": "points", "today": None},
    "few": {"cases": 40, "times": False},
}


@lru_cache
def recalibration(kind: str = "corrected") -> JudgedRecalibration:
    return invented_recalibration(**KINDS[kind])


@lru_cache
def report(kind: str) -> Report:
    return build_recalibration_report(recalibration(kind))


@pytest.mark.parametrize("kind", ["corrected", "raw points", "few"])
def test_every_kind_makes_a_page(kind: str) -> None:
    page, found = render(report(kind)), report(kind)
    names = [section.identifier for section in found.sections]
    assert names == ["selection", "ways", "reliability", "decisions", "cost", "notes", "settings"]
    for figure in (figure for section in found.sections for figure in section.figures):
        for svg in (figure.svg, *figure.panels):
            ElementTree.fromstring(svg)
    assert "bread" in page
    assert "nan" not in " ".join((*found.summary, *(line for section in found.sections for line in section.text)))


def test_the_first_line_tells_the_worth_per_case_and_per_year() -> None:
    told = recalibration()
    raw, corrected = (told.judged.values("cost", version).mean() for version in ("raw", "corrected"))
    sentence = worth_sentence(told)
    assert report("corrected").summary == (sentence, *against_today(told, "the corrected forecast"))
    assert sentence.startswith(
        f"On the 300 test cases following the raw forecast cost {raw:.1f} EUR per case; corrected"
    )
    assert f"it costs {corrected:.2f} EUR: {raw - corrected:.1f} EUR less per case (95 % interval " in sentence
    yearly = float(f"{365.25 * (raw - corrected):.3g}")
    assert f", {yearly:,.0f} EUR (" in sentence
    assert sentence.endswith(") a year at 365 cases a year, were all of the year like them.")


def test_a_year_of_cases_is_like_a_year() -> None:
    whole = recalibration().judged.cases
    whole = whole.assign(time=whole["time"] + np.arange(len(whole)) * np.timedelta64(1, "D"))
    told = recalibration()
    spaced = replace(told, judged=replace(told.judged, cases=whole))
    assert spaced.yearly is not None
    assert spaced.yearly.whole
    assert spaced.yearly.cases == pytest.approx(182.6, abs=0.1)
    assert worth_sentence(spaced).endswith("a year at 183 cases a year.")


def test_without_times_or_cases_enough_less_is_told() -> None:
    sentence = worth_sentence(recalibration("few"))
    assert "a year" not in sentence
    assert sentence.endswith("EUR per case, too few test cases for an interval.")
    assert "are too few for intervals" in report("few").sections[1].text[0]


def test_a_raw_forecast_that_is_kept_is_told_so() -> None:
    assert worth_sentence(recalibration("raw")).startswith("Nothing was proven to be better than the raw forecast: on")
    assert "corrected" not in " ".join(reliability_sentences(recalibration("raw")))
    assert [way.short for way in recalibration("raw").ways] == ["raw", "today", "foresight"]


def test_a_gain_that_may_be_chance_is_not_praised() -> None:
    told = recalibration()
    chance = told.judged.values("cost", "raw") + np.random.default_rng(0).normal(size=300)
    cases = told.judged.cases.assign(corrected_cost=chance)
    sentence = worth_sentence(replace(told, judged=replace(told.judged, cases=cases)))
    assert "a change of" in sentence
    assert sentence.endswith("The interval holds zero, so do not count on a gain.")


def test_a_correction_that_costs_more_is_told_first() -> None:
    told = invented_recalibration(bias=0.0, correction=-3.0, today=None)
    first = recalibration_alarms(told)[0]
    assert first.startswith("Take care: the raw forecast was cheaper on the test cases than the corrected one, ")
    assert " EUR, beyond doubt. " in first


def test_actions_of_today_that_cost_less_are_told_first() -> None:
    told = invented_recalibration(bias=-3.0, correction=2.0, spread=0.5, today=12.0)
    assert any("today's actions were cheaper" in alarm for alarm in recalibration_alarms(told))
    assert "more per case" in against_today(told, "the corrected forecast")[0]


def test_a_forecast_that_does_not_know_its_cost_is_told_first() -> None:
    told = invented_recalibration(spread=0.2)
    alarm = next(line for line in recalibration_alarms(told) if "underestimates the cost of its decisions" in line)
    assert "under-dispersed (spread/error 0.2" in alarm
    assert not any("underestimates" in line for line in recalibration_alarms(recalibration()))


def test_spread_over_error_is_1_where_members_are_right() -> None:
    ratio = spread_and_error_ratio(recalibration(), "corrected")
    assert ratio.low < 1.15 < ratio.high + 0.15  # the members are a little wider than the errors
    assert spread_and_error_ratio(recalibration(), "raw").high < 0.5
    assert "A point forecast has no spread" in reliability_sentences(recalibration("points"))[-1]


def test_quantiles_have_levels_in_the_place_of_ranks() -> None:
    assert "PIT: the level of the outcome" in reliability_figure(invented_recalibration("raw", "quantiles")).svg


def test_shares_of_a_pit_are_spread_over_where_it_may_lie() -> None:
    shares = pit_shares(np.array([0.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.5]), 4)
    assert shares == pytest.approx([1 / 12, 1 / 12, 5 / 12, 5 / 12])
    assert shares.sum() == pytest.approx(1.0)


def test_a_time_with_several_cases_is_drawn_once() -> None:
    told = recalibration()
    halves = told.judged.cases.assign(time=told.judged.cases["time"].to_numpy().repeat(2)[:300])
    twice = replace(told, judged=replace(told.judged, cases=halves))
    assert len(twice.case_table) == 150
    assert "A time with several cases is shown by their mean." in decisions_figure(twice).caption


def test_newer_errors_that_count_more_need_a_refit_to_be_seen() -> None:
    selection = invented_recalibration("linear").selection
    assert selected_sentences(selection) == (selection.reason,)
    fresh = replace(
        selection, candidates=(selection.candidates[0], replace(selection.candidates[1], name="recent_errors"))
    )
    assert "`stakes refit`" in selected_sentences(fresh)[1]
