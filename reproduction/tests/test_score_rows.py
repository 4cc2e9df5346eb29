"""Rows by base and method, on studies of invented numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from invented_studies import invented_study

from reproduction.figures.portfolio import draw_base_scores
from reproduction.study_collection import Studies, StudyKey
from reproduction.tables_of_results import SCORE_COLUMNS, chosen_weight, portfolio_rows, score_rows, scores_table
from stakes.evaluation.study import Study
from stakes.reports.drawing import style

FORESIGHT = -0.7


def invented(shift: float = 0.0, weights: tuple[float, ...] = (0.0, 0.1, 0.9)) -> Study:
    """Invented forecasts, always the same but for a cost that is higher by so much, with what a row asks for."""
    key = StudyKey("irish_wind", "implicit", "pointwise")
    study = invented_study(key, (0.0, 0.1, 0.9), (20.0,), seeds=3, cases=70)
    study = replace(study, forecasts=study.forecasts.sel(decision_weight=list(weights)))
    cost = study.forecasts["cost"] + shift
    sites = study.forecasts["energy_score"] / 3
    forecasts = study.forecasts.assign(cost=cost, foresight_regret=cost - FORESIGHT, crps_of_sites=sites)
    return replace(study, forecasts=forecasts)


@pytest.fixture(scope="module")
def studies() -> Studies:
    by_choice = {
        "pointwise": invented(),
        "pointwise_total": invented(0.01),
        "pointwise_shuffled": invented(-0.02, (0.0,)),
        "energy": invented(-0.03),
    }
    by_key = {StudyKey("irish_wind", "implicit", choice): study for choice, study in by_choice.items()}
    plain = by_choice["pointwise"].forecasts[["cost"]].sel(decision_weight=[0.0]).assign_coords(decision_weight=[1.0])
    policy = replace(by_choice["pointwise"], forecasts=plain - 0.05)
    main = invented()
    return Studies(
        by_key | {StudyKey("irish_wind", "policy", "pointwise"): policy, StudyKey("irish_wind", "implicit"): main}
    )


@pytest.fixture(scope="module")
def rows(studies: Studies) -> pd.DataFrame:
    return score_rows(studies)


def test_one_row_per_method_and_weight(studies: Studies, rows: pd.DataFrame) -> None:
    assert tuple(rows.columns) == SCORE_COLUMNS
    places = [(row.base, row.method, row.weight) for row in rows.fillna({"weight": -1.0}).itertuples()]
    assert places == [
        *(("pointwise", method, weight) for method in ("decision", "total") for weight in (0.0, 0.1, 0.9)),
        ("pointwise", "shuffled", -1.0),
        *(("energy", "decision", weight) for weight in (0.0, 0.1, 0.9)),
        ("pointwise", "policy", -1.0),
    ]
    for method in ("decision", "total"):
        own = rows[(rows["base"] == "pointwise") & (rows["method"] == method)]
        chosen = chosen_weight(studies.find("irish_wind", "implicit", "pointwise"), 20.0)
        assert own[own["chosen"].astype(bool)]["weight"].tolist() == [chosen]


def test_differences_are_those_of_the_means(studies: Studies, rows: pd.DataFrame) -> None:
    plain = studies.find("irish_wind", "implicit", "pointwise")
    at_0, at_9 = (plain.values("cost", weight, 20.0).mean() for weight in (0.0, 0.9))
    row = rows.set_index(["base", "method", "weight"]).loc[("pointwise", "decision", 0.9)]
    assert row["cost"] == pytest.approx(at_9)
    assert row["cost_change"].mean == pytest.approx(at_9 - at_0)
    assert row["above_foresight"] == pytest.approx(at_9 - FORESIGHT)
    assert row["above_foresight_change"].mean == pytest.approx(100 * (at_9 - at_0) / (at_0 - FORESIGHT))
    assert row["crps_of_sites_change"].mean == pytest.approx(row["energy_score_change"].mean)
    assert row["less_shuffled"].mean == pytest.approx(at_9 - at_0 + 0.02)
    rival = studies.find("irish_wind", "implicit", "pointwise_total")
    of_rival = rival.values("cost", chosen_weight(rival, 20.0), 20.0).mean()
    assert row["less_total"].mean == pytest.approx(at_9 - of_rival)


def test_rivals_stand_beside_weight_0_of_their_base(rows: pd.DataFrame) -> None:
    shuffled, policy = (rows[rows["method"] == method].iloc[0] for method in ("shuffled", "policy"))
    assert shuffled["cost_change"] == pytest.approx((-0.02, -0.02, -0.02), abs=1e-6)
    assert policy["cost_change"] == pytest.approx((-0.05, -0.05, -0.05), abs=1e-6)
    assert policy["above_foresight_change"].mean < 0
    energy = rows[(rows["base"] == "energy") & (rows["weight"] == 0)].iloc[0]
    assert energy["cost_change"] == (0.0, 0.0, 0.0)
    assert np.isnan(energy["less_shuffled"]), "which was not evaluated for this base"


def test_the_table_and_the_figure_show_them_apart_from_the_other_portfolios(
    studies: Studies, rows: pd.DataFrame
) -> None:
    shown = [[cell.text for cell in row] for row in scores_table(rows).shown_rows()]
    assert len(shown) == len(rows)
    assert not [text for row in shown for text in row if "nan" in text or "None" in text]
    assert {row[3] for row in shown} >= {"decision", "members shuffled by past errors, a rival"}
    others = Studies({key: study for key, study in studies.items() if key.choice != "main"})
    assert portfolio_rows(others).empty
    with style():
        (axes,) = draw_base_scores(rows).figure.axes
    assert next(tick.get_text() for tick in axes.get_yticklabels()) == "point by point"
    white = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert white[0].get_xdata()[0] == pytest.approx(100)
