"""The tables of a report, and model selection for a terminal."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from invented_fits import invented_fit
from invented_recalibrations import invented_recalibration

from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import CANDIDATES, CORRECTION_CANDIDATES, ModelSelection, candidate_title
from stakes.reports.comparison import Comparison
from stakes.reports.page import ShownCell, Table
from stakes.reports.tables import (
    calibration_table,
    frontier_table,
    groups_table,
    origins_table,
    policies_table,
    selection_table,
    settings_table,
    shown_selection,
)


@pytest.fixture(scope="module")
def fit() -> Comparison:
    return invented_fit(cases=300, block=10)


@pytest.fixture(scope="module")
def selection() -> ModelSelection:
    selection = invented_fit(cases=100, selected="decision").selection
    assert selection is not None
    return selection


def cells(table: Table, column: int) -> list[str]:
    return [row[column].text for row in table.shown_rows()]


def test_policies_cost_what_was_paid(fit: Comparison) -> None:
    table = policies_table(fit)
    names = ["forecast of weight 0", "decision-aware forecast (weight 0.4)", "today's action", "climatology"]
    assert cells(table, 0) == [*names, "perfect foresight"]
    assert cells(table, 1) == ["300", "300", "297", "300", "300"]
    means = [float(row[2].sort_key or "nan") for row in table.shown_rows()]
    totals = [float(row[3].sort_key or "nan") for row in table.shown_rows()]
    assert means[0] == pytest.approx(fit.reference.cost.mean())
    assert totals[1] == pytest.approx(fit.selected.cost.sum())
    assert means[2] == pytest.approx(np.nanmean(fit.policies[2].cost))
    assert means[4] == pytest.approx(0.0, abs=1e-6)
    assert cells(table, 5)[3:] == ["0.0", "100.0"]
    assert table.columns[2].unit == "EUR"
    few = policies_table(invented_fit(cases=5, block=10))
    assert not any(isinstance(cell, ShownCell) and cell.strong for row in few.rows for cell in row)


def test_tables_of_weights_calibration_groups_and_settings(fit: Comparison) -> None:
    assert fit.frontier is not None
    table = frontier_table(fit.frontier, "EUR", "weight 0")
    assert [row[0].strong for row in table.shown_rows()] == [
        point.weight == fit.frontier.chosen for point in fit.frontier.points
    ]
    assert cells(table, 5)[-1] == "failed"
    assert [row[4].strong for row in calibration_table(fit).shown_rows()] == [True, False]
    assert len(groups_table(fit).columns) == 7
    assert len(groups_table(invented_fit(cases=40, weight=0.0)).columns) == 6
    assert cells(settings_table(fit.settings, "fit"), 0)[:3] == ["members", "model.hidden", "model.name"]


def test_a_point_forecast_has_no_spread() -> None:
    points = calibration_table(invented_recalibration(form="points"))
    assert (cells(points, 0), cells(points, 5)[0]) == (["raw", "corrected"], "–")


def test_every_candidate_has_a_title() -> None:
    every = {*CANDIDATES, *CORRECTION_CANDIDATES}
    assert len({candidate_title(name) for name in every}) == len(every)


@pytest.mark.parametrize(("below", "trained"), [("climatology", False), ("linear", False), ("network", True)])
def test_a_corrected_forecast_is_a_network_where_that_was_corrected(
    selection: ModelSelection, below: str, trained: bool
) -> None:
    corrected = replace(selection.candidates[3], below=below, accepted=True)
    assert replace(selection, candidates=(*selection.candidates[:3], corrected)).has_network == trained


def test_a_line_for_each_candidate(selection: ModelSelection) -> None:
    table = shown_selection(selection, "EUR")[1]
    again = "decision, fitted again"
    titles = ["climatology", "linear", "network", "recent errors", "decision (decision weight 0.4)", again]
    assert list(table["candidate"]) == titles
    assert list(table.columns[1:3]) == ["validation cost (EUR)", "change (EUR)"]
    assert table["change (EUR)"].isna().tolist() == [True, False, False, False, False, True]
    assert table["change (EUR)"].iloc[1] == "-2.00 [-3.00, -0.50]"  # to the bound of all steps together
    assert table["score (%)"].iloc[3] == "+0.1"
    assert table["test cost (EUR)"].tolist() == [*(each.cost for each in selection.tested), selection.test_cost]
    results = ["selected before"] * 3 + ["it is not proven to be cheaper", "selected"]
    assert table["result"].tolist()[:-1] == results
    page = selection_table(selection, "EUR")
    assert (cells(page, 0), cells(page, 1)) == (titles, table["result"].tolist())
    assert (page.rows[-1][0], page.rows[-1][2]) == (again, selection.test_cost)


def test_the_interval_that_decided_is_shown(selection: ModelSelection) -> None:
    change = Difference(-305.0, -509.0, -101.0)
    for bound, shown in ((12.0, "-305 [-509, 12]"), (-150.0, "-305 [-509, -101]"), (None, "-305 [-509, -101]")):
        candidate = replace(selection.candidates[1], cost=5000.0, cost_change=change, cost_bound=bound)
        told = replace(selection, candidates=(selection.candidates[0], candidate))
        assert shown_selection(told)[1]["change"].iloc[1] == shown
        cell = selection_table(told, "").rows[1][4]
        assert isinstance(cell, ShownCell)
        assert (cell.text, cell.strong) == (shown, bound != 12.0)


def test_origins_have_a_column_for_each_rival() -> None:
    facts = {"origin": "all", "first": "2021-01-01", "last": "2021-02-01", "fitted_cases": None, "cases": 20}
    change = {"climatology_change": -3.0, "climatology_low": -4.0, "climatology_high": -2.0}
    origins = pd.DataFrame([{**facts, "decision_weight": float("nan"), "cost": 2.5, **change}])
    table = origins_table(origins, {"climatology": "climatology"}, "EUR")
    assert [cell.text for cell in table.shown_rows()[0][3:]] == ["20", "2.5", "-3 [-4, -2]", "varies", "–"]
    assert table.columns[5].name == "change against climatology"
