"""Model selection in words and in a table for a terminal."""

from dataclasses import replace

import pytest
from invented_fits import invented_fit, invented_selection

from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import CANDIDATES, CORRECTION_CANDIDATES, FrontierPoint, ModelSelection
from stakes.reports.fit_tables import selection_table
from stakes.reports.page import ShownCell
from stakes.reports.selection_text import (
    candidate_standing,
    candidate_title,
    candidate_with_parameters,
    forecast_words,
    has_network,
    shown_selection,
    weight_label,
)


@pytest.fixture(scope="module")
def selection() -> ModelSelection:
    return invented_selection(invented_fit(cases=100), "decision")


def test_every_candidate_has_a_title() -> None:
    every = {*CANDIDATES, *CORRECTION_CANDIDATES}
    assert len({candidate_title(name) for name in every}) == len(every)


def test_what_was_selected_is_named(selection: ModelSelection) -> None:
    assert forecast_words(selection) == "the decision-aware forecast (weight 0.4)"
    climatology, linear, network, fresh, _ = selection.candidates
    assert forecast_words(selection, linear) == "the linear forecast"
    assert forecast_words(selection, fresh) == "the network corrected by recent errors"
    assert candidate_with_parameters(selection.selected) == "decision (decision weight 0.4)"
    assert candidate_with_parameters(climatology) == "climatology"
    assert [candidate_standing(selection, candidate) for candidate in (network, fresh, selection.selected)] == [
        "accepted",
        "it is not proven to be cheaper",
        "selected",
    ]


@pytest.mark.parametrize(("below", "trained"), [("climatology", False), ("linear", False), ("network", True)])
def test_a_corrected_forecast_is_a_network_where_that_was_corrected(
    selection: ModelSelection, below: str, trained: bool
) -> None:
    corrected = replace(selection.candidates[3], below=below, accepted=True)
    assert has_network(replace(selection, candidates=(*selection.candidates[:3], corrected))) == trained


def test_a_line_for_each_candidate(selection: ModelSelection) -> None:
    table = shown_selection(selection, "EUR")
    assert list(table["candidate"]) == [
        "climatology",
        "linear",
        "network",
        "recent errors",
        "decision (decision weight 0.4)",
    ]
    assert list(table.columns[1:3]) == ["validation cost (EUR)", "change (EUR)"]
    assert table["change (EUR)"].isna().tolist() == [True, False, False, False, False]
    assert table["change (EUR)"].iloc[1] == "-2.00 [-3.00, -0.50]"  # to the bound of all steps together
    assert table["score (%)"].iloc[3] == "+0.1"
    assert table["test cost (EUR)"].tolist() == [candidate.cost for candidate in selection.tested]
    assert table["result"].iloc[-1] == "selected"


def test_the_forecast_fitted_again_has_a_line_of_its_own(selection: ModelSelection) -> None:
    last = shown_selection(selection, refitted=True).iloc[-1]
    assert (last["candidate"], last["test cost"]) == ("decision, fitted again", selection.test_cost)
    row = selection_table(selection, "").rows[-1]
    assert (row[0], row[-1]) == ("decision, fitted again", selection.test_cost)
    assert (
        len(selection_table(selection, "", refitted=False).rows)
        == len(shown_selection(selection))
        == len(selection.candidates)
    )


def test_the_interval_that_decided_is_shown(selection: ModelSelection) -> None:
    change = Difference(-305.0, -509.0, -101.0)
    for bound, shown in ((12.0, "-305 [-509, 12]"), (-150.0, "-305 [-509, -101]"), (None, "-305 [-509, -101]")):
        candidate = replace(selection.candidates[1], cost=5000.0, cost_change=change, cost_bound=bound)
        told = replace(selection, candidates=(selection.candidates[0], candidate))
        assert shown_selection(told)["change"].iloc[1] == shown
        cell = selection_table(told, "").rows[1][3]
        assert isinstance(cell, ShownCell)
        assert (cell.text, cell.strong) == (shown, bound != 12.0)


def test_columns_without_a_value_are_left_out(selection: ModelSelection) -> None:
    alone = shown_selection(replace(selection, candidates=selection.candidates[:1], tested=()))
    assert list(alone.columns) == ["candidate", "validation cost", "result"]


def test_weights_that_forecast_the_same_are_one() -> None:
    point = FrontierPoint(0.1, 1.0, 1.0, None, None, allowed=True, failed=False, also=(0.2, 0.3))
    assert weight_label(point) == "0.1 (also 0.2, 0.3)"
    base = replace(point, weight=0.0, also=())
    assert (weight_label(base), weight_label(base, "the network")) == ("0", "the network")
