"""The ladder in words and in a table for a terminal."""

from dataclasses import replace

import pytest
from invented_fits import invented_fit, invented_ladder

from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import GIVEN_RUNGS, RUNGS, FrontierPoint, Ladder
from stakes.reports.fit_tables import ladder_table
from stakes.reports.page import ShownCell
from stakes.reports.selection_text import (
    forecast_words,
    has_network,
    rung_standing,
    rung_title,
    rung_with_parameters,
    shown_ladder,
    weight_label,
)


@pytest.fixture(scope="module")
def ladder() -> Ladder:
    return invented_ladder(invented_fit(cases=100), "decision")


def test_every_rung_has_a_title() -> None:
    every = {*RUNGS, *GIVEN_RUNGS}
    assert len({rung_title(name) for name in every}) == len(every)


def test_what_was_taken_is_named(ladder: Ladder) -> None:
    assert forecast_words(ladder) == "the decision-aware forecast (weight 0.4)"
    climatology, linear, network, fresh, _ = ladder.rungs
    assert forecast_words(ladder, linear) == "the linear forecast"
    assert forecast_words(ladder, fresh) == "the network corrected by fresh errors"
    assert rung_with_parameters(ladder.taken) == "decision (decision weight 0.4)"
    assert rung_with_parameters(climatology) == "climatology"
    assert [rung_standing(ladder, rung) for rung in (network, fresh, ladder.taken)] == [
        "climbed",
        "it is not proven to be cheaper",
        "taken",
    ]


@pytest.mark.parametrize(("below", "trained"), [("climatology", False), ("linear", False), ("network", True)])
def test_a_corrected_forecast_is_a_network_where_that_was_corrected(ladder: Ladder, below: str, trained: bool) -> None:
    corrected = replace(ladder.rungs[3], below=below, climbed=True)
    assert has_network(replace(ladder, rungs=(*ladder.rungs[:3], corrected))) == trained


def test_a_line_for_each_rung(ladder: Ladder) -> None:
    table = shown_ladder(ladder, "EUR")
    assert list(table["rung"]) == ["climatology", "linear", "network", "fresh errors", "decision (decision weight 0.4)"]
    assert list(table.columns[1:3]) == ["validation cost (EUR)", "change (EUR)"]
    assert table["change (EUR)"].isna().tolist() == [True, False, False, False, False]
    assert table["change (EUR)"].iloc[1] == "-2.00 [-3.00, -0.50]"  # to the bound of all steps together
    assert table["score (%)"].iloc[3] == "+0.1"
    assert table["test cost (EUR)"].tolist() == [rung.cost for rung in ladder.tested]
    assert table["result"].iloc[-1] == "taken"


def test_the_forecast_fitted_again_has_a_line_of_its_own(ladder: Ladder) -> None:
    last = shown_ladder(ladder, refitted=True).iloc[-1]
    assert (last["rung"], last["test cost"]) == ("decision, fitted again", ladder.test_cost)
    row = ladder_table(ladder, "").rows[-1]
    assert (row[0], row[-1]) == ("decision, fitted again", ladder.test_cost)
    assert len(ladder_table(ladder, "", refitted=False).rows) == len(shown_ladder(ladder)) == len(ladder.rungs)


def test_the_interval_that_decided_is_shown(ladder: Ladder) -> None:
    change = Difference(-305.0, -509.0, -101.0)
    for bound, shown in ((12.0, "-305 [-509, 12]"), (-150.0, "-305 [-509, -101]"), (None, "-305 [-509, -101]")):
        rung = replace(ladder.rungs[1], cost=5000.0, cost_change=change, cost_bound=bound)
        told = replace(ladder, rungs=(ladder.rungs[0], rung))
        assert shown_ladder(told)["change"].iloc[1] == shown
        cell = ladder_table(told, "").rows[1][3]
        assert isinstance(cell, ShownCell)
        assert (cell.text, cell.strong) == (shown, bound != 12.0)


def test_columns_without_a_value_are_left_out(ladder: Ladder) -> None:
    alone = shown_ladder(replace(ladder, rungs=ladder.rungs[:1], tested=()))
    assert list(alone.columns) == ["rung", "validation cost", "result"]


def test_weights_that_forecast_the_same_are_one() -> None:
    point = FrontierPoint(0.1, 1.0, 1.0, None, None, allowed=True, failed=False, also=(0.2, 0.3))
    assert weight_label(point) == "0.1 (also 0.2, 0.3)"
    base = replace(point, weight=0.0, also=())
    assert (weight_label(base), weight_label(base, "the network")) == ("0", "the network")
