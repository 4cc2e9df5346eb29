from collections.abc import Callable

import numpy as np
import pytest

from reproduction.tables_of_results import METRICS, summarise
from stakes.evaluation.study import Study

COLUMNS = ["parameter", "decision_weight", "region", "by", "metric", "mean", "deviation", "difference", "low", "high"]


@pytest.fixture
def study(make_study: Callable[..., Study]) -> Study:
    generator = np.random.default_rng(0)
    cost = generator.normal(size=(2, 1, 2, 3, 40)) - np.array([0.0, 0.5])[:, None, None]
    mass = generator.uniform(size=(2, 1, 2, 3, 40))
    return make_study(
        {"cost": cost, "gap": cost**2, "mass_high": mass, "error": cost},
        {"observed_high": np.arange(40) % 4 == 0},
        weights=(0.0, 0.9),
        parameters=(5.0, 10.0),
    )


def test_one_line_for_each_parameter_weight_region_and_metric(study: Study) -> None:
    table = summarise(study)
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


def test_the_numbers_are_those_of_the_study(study: Study) -> None:
    table = summarise(study, ["cost"]).set_index(["parameter", "decision_weight", "region", "by"])
    row = table.loc[(10.0, 0.9, "high", "observed")]
    found, before = (study.mean("cost", weight, 10.0, "high") for weight in (0.9, 0.0))
    assert row["mean"] == found.estimate
    assert tuple(row[["difference", "low", "high"]]) == pytest.approx((found - before).interval(), rel=1e-12)
    assert row["deviation"] == pytest.approx(study.values("cost", 0.9, 10.0)[0][:, ::4].mean(-1).std())
    assert (table.xs(0.0, level="decision_weight")[["difference", "low", "high"]] == 0).all(axis=None)


def test_a_seed_that_failed_is_left_out(study: Study) -> None:
    failed = (study.forecasts["decision_weight"] == 0.9) & (study.forecasts["seed"] == 1)
    without = Study(study.forecasts.where(~failed), study.cases, study.about, study.block)
    row = summarise(without, ["cost"]).set_index(["parameter", "decision_weight", "region"]).loc[(5.0, 0.9, "all")]
    means = study.values("cost", 0.9, 5.0)[0, [0, 2]].mean(-1)
    assert row["mean"].item() == pytest.approx(means.mean())
    assert row["deviation"].item() == pytest.approx(means.std())
    found, before = (study.values("cost", weight, 5.0)[0, [0, 2]] for weight in (0.9, 0.0))
    assert row["difference"].item() == pytest.approx((found - before).mean()), "of the seeds that both have"


def test_a_weight_of_which_every_run_failed_is_nan_without_a_warning(study: Study) -> None:
    without = Study(study.forecasts.where(study.forecasts["decision_weight"] == 0), study.cases, study.about)
    table = summarise(without).set_index("decision_weight")
    assert table.loc[0.9, ["mean", "deviation", "difference", "low", "high"]].isna().all(axis=None)
    assert table.loc[0.0, ["mean", "deviation", "difference"]].notna().all(axis=None)


def test_without_weight_0_there_is_no_difference(make_study: Callable[..., Study]) -> None:
    table = summarise(make_study({"cost": np.ones((1, 1, 1, 2, 5))}, {}, weights=(1.0,)))
    assert table["mean"].tolist() == [1.0]
    assert table["difference"].isna().all()
