"""A battery against made-up prices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_days import made_prices
from small_programs import EFFORT

from reproduction.programs.battery import BATTERY_PLANS, battery_problem
from reproduction.programs.report import compared
from reproduction.programs.run import run_problem


@pytest.mark.parametrize("averse", [False, True])
def test_all_methods_end_to_end(averse: bool, tmp_path: Path) -> None:
    table = made_prices(tmp_path, 640)  # halves of the validation days have 50, which a tail of a tenth needs
    random = np.random.default_rng(0)
    table["pjm_da_price"] += 5 * random.normal(size=len(table))
    table.to_csv(tmp_path / "donti_pjm_price_load_hourly_2008_2016.csv.gz", index=False, compression="gzip")
    problem = battery_problem(str(tmp_path), averse=averse)
    problem = replace(problem, train=problem.train.rows(np.arange(60)), test=problem.test.rows(np.arange(8)))
    effort = replace(EFFORT, seeds=1, members=50, epochs=1, decision_members=50)
    about = compared(run_problem(BATTERY_PLANS[averse], problem, tmp_path, effort))
    rows = {row["name"]: row for row in about["methods"]}
    assert list(rows) == ["mean", "ridge", "ridge_train", "ridge_recent", "linear", "decision"]
    for row in rows.values():
        assert row["cost"] >= about["foresight_cost"] - 1e-6
    assert about["measures"] == (["plain_cost", "worst_tenth"] if averse else [])
    if averse:
        assert all(row["worst_tenth"] >= row["plain_cost"] for row in rows.values())
    else:  # which the mean of the prices alone decides
        assert rows["mean"]["cost"] == pytest.approx(rows["ridge"]["cost"], rel=1e-5)
