"""The tables, on studies of invented numbers, whole and with runs that failed."""

from collections.abc import Sequence

import pytest
import xarray as xr
from invented_studies import invented_study

from reproduction.study_collection import Studies, StudyKey
from reproduction.tables_of_results import (
    PORTFOLIO_COLUMNS,
    metrics_table,
    portfolio_rows,
    portfolio_table,
    portfolio_weights_table,
    regions_table,
    summarise,
)
from stakes.evaluation.intervals import Difference
from stakes.evaluation.study import Study
from stakes.reports.page import Table

WIND = StudyKey("wind", "implicit")
SIMULATED = StudyKey("simulated_portfolio", "implicit", sites=60)
WEIGHTS = (0.0, 0.3, 0.9)


def invented(key: StudyKey, parameters: Sequence[float] = (5.0,)) -> Study:
    """Also with what the tables ask of climatology and foresight."""
    found = invented_study(key, WEIGHTS, parameters, seeds=2, cases=80)
    forecasts = found.forecasts.assign(foresight_regret=found.forecasts["cost"] * 0 + 0.3)
    cases = found.cases.assign(climatology_cost=found.cases["outcome"] * 0 - 0.2)
    return Study(forecasts, cases, found.about, found.block)


def with_failures(study: Study, weight: float, seeds: Sequence[int]) -> Study:
    """The study without the runs of a weight and these seeds."""
    failed = (study.forecasts["decision_weight"] == weight) & study.forecasts["seed"].isin(seeds)
    return Study(study.forecasts.where(~failed), study.cases, study.about, study.block)


def policy(parameters: Sequence[float] = (5.0, 10.0)) -> Study:
    plain = invented(SIMULATED, parameters)
    chosen = plain.forecasts[["cost", "regret"]].sel(decision_weight=[0.0]).assign_coords(decision_weight=[1.0])
    return Study(chosen - 0.05, plain.cases, {**plain.about, "model": "policy"}, plain.block)


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.shown_rows()]


def test_metrics_by_weight() -> None:
    study = invented(WIND, (5.0, 10.0))
    table = metrics_table(WIND, study, summarise(study))
    names = ["penalty", "weight", "energy score", "realised cost", "signed gap", "miscalibration", "economic value"]
    assert [column.name for column in table.columns] == names
    assert [row[:2] for row in table.rows] == [(parameter, weight) for parameter in (5.0, 10.0) for weight in WEIGHTS]
    for row in texts(table):
        assert ["[" in text for text in row[2:-1]] == [float(row[1]) > 0] * 4
        assert "[" in row[-1]
    mean = study.mean("cost", 0.3, 10.0)
    low, high = (mean - study.mean("cost", 0.0, 10.0)).interval()[1:]
    (cell,) = (row[3] for row in table.shown_rows() if (row[0].key, row[1].key) == (10.0, 0.3))
    assert cell.key == mean.estimate
    assert cell.text.startswith(f"{mean.estimate:.4g} (")
    assert cell.strong == (low > 0 or high < 0)


def test_differences_by_region() -> None:
    study = invented(WIND)
    table = regions_table(WIND, study, summarise(study))
    places = {(row[0], row[1]) for row in table.rows}
    assert places == {(region, by) for region in ("ramp", "rated", "cut-off") for by in ("observed", "forecast")}
    assert len(table.rows) == 6 * 2
    assert all("[" in text for row in texts(table) for text in row[4:])


@pytest.mark.parametrize(("weight", "seeds"), [(0.3, [0]), (0.3, [0, 1]), (0.0, [1])])
def test_runs_that_failed_leave_no_nan(weight: float, seeds: list[int]) -> None:
    study = with_failures(invented(WIND), weight, seeds)
    summary = summarise(study)
    for table in (metrics_table(WIND, study, summary), regions_table(WIND, study, summary)):
        shown = texts(table)
        assert not [text for row in shown for text in row if "nan" in text or "None" in text]
        gone = [row for row in shown if "–" in row]
        assert len(gone) == (len(shown) // (3 if table.rows[0][1] in WEIGHTS else 2) if len(seeds) == 2 else 0)


def test_a_region_without_cases_is_a_dash() -> None:
    study = invented(WIND)
    empty = xr.zeros_like(study.cases["observed_rated"])
    study = Study(study.forecasts, study.cases.assign(observed_rated=empty), study.about, study.block)
    table = regions_table(WIND, study, summarise(study))
    for row in texts(table):
        assert [text == "–" for text in row[4:]] == [row[0] == "rated"] * 4


def test_portfolios_at_the_weight_that_validation_chooses() -> None:
    rival = StudyKey("simulated_portfolio", "implicit", "variogram", 60)
    studies = Studies(
        {
            SIMULATED: invented(SIMULATED, (5.0, 10.0)),
            rival: invented(rival, (5.0, 10.0)),
            StudyKey("irish_wind", "diffusion"): invented(StudyKey("irish_wind", "diffusion")),
            StudyKey("simulated_portfolio", "policy", sites=60): policy(),
            WIND: invented(WIND),
        }
    )
    rows = portfolio_rows(studies)
    assert list(rows.columns) == list(PORTFOLIO_COLUMNS)
    chosen = rows[rows["chosen"].astype(bool)]
    assert chosen[["portfolio", "parameter", "method"]].to_numpy().tolist() == [
        ["simulated, 60 sites", 5.0, "implicit"],
        ["simulated, 60 sites", 10.0, "implicit"],
        ["simulated, 60 sites", 5.0, "implicit, energy score + variogram score, a rival"],
        ["simulated, 60 sites", 10.0, "implicit, energy score + variogram score, a rival"],
        ["irish wind", 5.0, "diffusion"],
        ["simulated, 60 sites", 5.0, "direct policy a(x), no forecast"],
        ["simulated, 60 sites", 10.0, "direct policy a(x), no forecast"],
    ]
    assert all(isinstance(value, Difference) for value in rows["cost_change"])
    assert rows["weight"].dropna().isin(WEIGHTS).all()
    assert len(rows) == 5 * len(WEIGHTS) + 2
    assert [isinstance(value, Difference) for value in chosen["regret_change"]] == [True] * 4 + [False] + [True] * 2
    shown = texts(portfolio_table(rows))
    assert not [text for row in shown for text in row if "nan" in text or "None" in text]
    names = [name for name in PORTFOLIO_COLUMNS if name != "chosen"]
    every = texts(portfolio_weights_table(rows))
    assert len(every) == 5 * len(WEIGHTS)
    assert {row[names.index("cost_change")] == "0" for row in every if float(row[names.index("weight")]) == 0} == {True}
    for row in shown[-2:]:
        assert [row[names.index(name)] for name in ("weight", "energy_score_change", "gap", "spread")] == ["–"] * 4
        assert "[" in row[names.index("cost_change")]
    assert shown[4][names.index("regret_change")] == "–"
