"""The tables, on studies of invented numbers, whole and with runs that failed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from invented_studies import invented_study

from reproduction.study import AXES, Study, StudyError
from reproduction.study_collection import Studies, StudyKey
from reproduction.tables_of_results import (
    METRICS,
    PORTFOLIO_COLUMNS,
    SCORE_COLUMNS,
    chosen_weight,
    metrics_table,
    portfolio_rows,
    portfolio_table,
    portfolio_weights_table,
    regions_table,
    score_rows,
    summarise,
)
from stakes.evaluation.intervals import Difference
from stakes.reports.page import Table

COLUMNS = ["parameter", "decision_weight", "region", "by", "metric", "mean", "deviation", "difference", "low", "high"]
COLUMNS += ["untrained"]


@pytest.fixture
def summarised(make_study: Callable[..., Study]) -> Study:
    generator = np.random.default_rng(0)
    cost = generator.normal(size=(2, 1, 2, 3, 40)) - np.array([0.0, 0.5])[:, None, None]
    mass = generator.uniform(size=(2, 1, 2, 3, 40))
    return make_study(
        {"cost": cost, "gap": cost**2, "mass_high": mass, "error": cost},
        {"observed_high": np.arange(40) % 4 == 0},
        weights=(0.0, 0.9),
        parameters=(5.0, 10.0),
    )


def test_one_line_for_each_parameter_weight_region_and_metric(summarised: Study) -> None:
    table = summarise(summarised)
    assert list(table.columns) == COLUMNS
    assert len(table) == 2 * 2 * 3 * 2
    assert set(table["metric"]) == {"cost", "gap"}, "what a study has of what is averaged"
    assert {tuple(place) for place in table[["region", "by"]].to_numpy()} == {
        ("all", ""),
        ("high", "observed"),
        ("high", "forecast"),
    }
    assert not table.drop(columns=["region", "by", "metric"]).isna().any(axis=None)
    assert not {"error", "mass_high"} & set(METRICS)


def test_the_numbers_are_those_of_the_study(summarised: Study) -> None:
    table = summarise(summarised, ["cost"]).set_index(["parameter", "decision_weight", "region", "by"])
    row = table.loc[(10.0, 0.9, "high", "observed")]
    found, before = (summarised.mean("cost", weight, 10.0, "high") for weight in (0.9, 0.0))
    assert row["mean"] == found.estimate
    assert tuple(row[["difference", "low", "high"]]) == pytest.approx((found - before).interval(), rel=1e-12)
    assert row["deviation"] == pytest.approx(summarised.values("cost", 0.9, 10.0)[0][:, ::4].mean(-1).std())
    assert (table.xs(0.0, level="decision_weight")[["difference", "low", "high"]] == 0).all(axis=None)


def test_a_seed_that_failed_is_left_out(summarised: Study) -> None:
    failed = (summarised.forecasts["decision_weight"] == 0.9) & (summarised.forecasts["seed"] == 1)
    without = Study(summarised.forecasts.where(~failed), summarised.cases, summarised.about, summarised.block)
    row = summarise(without, ["cost"]).set_index(["parameter", "decision_weight", "region"]).loc[(5.0, 0.9, "all")]
    means = summarised.values("cost", 0.9, 5.0)[0, [0, 2]].mean(-1)
    assert row["mean"].item() == pytest.approx(means.mean())
    assert row["deviation"].item() == pytest.approx(means.std())
    found, before = (summarised.values("cost", weight, 5.0)[0, [0, 2]] for weight in (0.9, 0.0))
    assert row["difference"].item() == pytest.approx((found - before).mean()), "of the seeds that both have"


def test_a_weight_of_which_every_run_failed_is_nan_without_a_warning(summarised: Study) -> None:
    without = Study(
        summarised.forecasts.where(summarised.forecasts["decision_weight"] == 0), summarised.cases, summarised.about
    )
    table = summarise(without).set_index("decision_weight")
    assert table.loc[0.9, ["mean", "deviation", "difference", "low", "high"]].isna().all(axis=None)
    assert table.loc[0.0, ["mean", "deviation", "difference"]].notna().all(axis=None)


def test_without_weight_0_there_is_no_difference(make_study: Callable[..., Study]) -> None:
    table = summarise(make_study({"cost": np.ones((1, 1, 1, 2, 5))}, {}, weights=(1.0,)))
    assert table["mean"].tolist() == [1.0]
    assert table["difference"].isna().all()


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
    names.append("kept epoch 0")
    assert [column.name for column in table.columns] == names
    assert [row[:2] for row in table.rows] == [(parameter, weight) for parameter in (5.0, 10.0) for weight in WEIGHTS]
    for row in texts(table):
        assert ["[" in text for text in row[2:-2]] == [float(row[1]) > 0] * 4
        assert ("[" in row[-2], row[-1]) == (True, "0")
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


FORESIGHT = -0.7


def scored(shift: float = 0.0, weights: tuple[float, ...] = (0.0, 0.1, 0.9)) -> Study:
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
        "pointwise": scored(),
        "pointwise_total": scored(0.01),
        "pointwise_shuffled": scored(-0.02, (0.0,)),
        "energy": scored(-0.03),
    }
    by_key = {StudyKey("irish_wind", "implicit", choice): study for choice, study in by_choice.items()}
    plain = by_choice["pointwise"].forecasts[["cost"]].sel(decision_weight=[0.0]).assign_coords(decision_weight=[1.0])
    policy = replace(by_choice["pointwise"], forecasts=plain - 0.05)
    main = scored()
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


def with_validation(cost: list[float], energy_score: list[float]) -> Study:
    """Weights 0, 0.3, 0.6, 0.9 of two seeds that differ, with these means on validation data."""
    axes = {"parameter": [5.0], "group": [0.0], "decision_weight": [0.0, 0.3, 0.6, 0.9], "seed": [0, 1], "case": [0]}
    shape = tuple(len(values) for values in axes.values())
    variables = {"cost": (AXES, np.zeros(shape))}
    for name, means in (("cost", cost), ("energy_score", energy_score)):
        by_seed = np.array(means)[:, None] + np.array([-0.5, 0.5])
        variables[f"validation_{name}"] = (AXES[:4], by_seed[None, None])
    return Study(xr.Dataset(variables, axes), xr.Dataset(), {})


def test_takes_the_lowest_cost_among_the_weights_that_hardly_worsen_the_score() -> None:
    made = with_validation(cost=[1.0, 0.9, 0.8, 0.7], energy_score=[10.0, 10.05, 10.09, 10.2])
    assert chosen_weight(made, 5.0) == 0.6
    assert chosen_weight(made, 5.0, tolerance=2.5) == 0.9
    assert chosen_weight(made, 5.0, tolerance=0.7) == 0.3


def test_stays_at_weight_zero_where_nothing_else_is_better_or_allowed() -> None:
    assert chosen_weight(with_validation([1.0, 1.1, 1.2, 1.3], [10.0, 9.9, 9.8, 9.7])) == 0.0
    assert chosen_weight(with_validation([1.0, 0.5, 0.5, 0.5], [10.0, 11.0, 12.0, 13.0])) == 0.0
    assert chosen_weight(with_validation([1.0, 0.5, 0.5, 0.5], [10.0, 11.0, 12.0, 13.0]), tolerance=-1.0) == 0.0


def test_a_study_without_validation_data_is_refused() -> None:
    made = with_validation([1.0] * 4, [1.0] * 4)
    bare = Study(made.forecasts.drop_vars("validation_cost"), made.cases, made.about)
    with pytest.raises(StudyError, match="without validation data"):
        chosen_weight(bare)


def test_a_weight_of_which_every_run_failed_is_not_chosen() -> None:
    made = with_validation(cost=[1.0, 0.9, 0.8, 0.7], energy_score=[10.0, 10.05, 10.09, 10.2])
    for weight, chosen in ((0.6, 0.3), (0.0, 0.0)):
        kept = made.forecasts.where(made.forecasts["decision_weight"] != weight)
        assert chosen_weight(Study(kept, made.cases, made.about)) == chosen
