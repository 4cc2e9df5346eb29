"""Problems and how much is done about them."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from made_days import made_markets, made_prices, made_wind
from refusals import refuses
from small_programs import EFFORT, known, made_loads, shifted, small_plan, small_problem
from torch import Tensor

import stakes
from reproduction.programs.battery import PRICE_TABLE, price_days
from reproduction.programs.generation import LOAD_TABLE, load_days
from reproduction.programs.market_battery import MARKET_TABLE, market_days
from reproduction.programs.problem import (
    Actions,
    Candidates,
    CandidateSource,
    Forecast,
    Method,
    Plan,
    Problem,
    RunEffort,
)
from reproduction.programs.report import build_programs_report, chosen_candidates, compared, problem_figure
from reproduction.programs.run import judge, read_results, run_problem
from reproduction.programs.wind_battery import wind_days
from reproduction.tables import GEFCOM_WIND
from stakes.data.case_table import CaseTable
from stakes.errors import CheckpointError, SettingError, StakesError, TableError
from stakes.evaluation.intervals import paired_difference
from stakes.programs.schedules import ScheduleCost
from stakes.reports.page import render


def test_parts_that_do_not_belong_together() -> None:
    problem = small_problem()
    wider = CaseTable(torch.zeros(5, 3), torch.zeros(5, 3))
    with pytest.raises(SettingError, match="the parts of small must have the same features and outcomes"):
        replace(problem, test=wider)


def test_the_digest_changes_with_numbers_and_cost() -> None:
    problem = small_problem()
    other: Any = ScheduleCost(8.0, 1.0)
    moved = CaseTable(problem.test.features, problem.test.outcome + 1e-3)
    digests = {
        problem.digest,
        replace(problem, test=moved).digest,
        replace(problem, cost=other).digest,
        replace(problem, gap=2).digest,
    }
    assert len(digests) == 4
    assert small_problem().digest == problem.digest


def test_a_candidate_that_nobody_makes_or_two_do() -> None:
    plan = small_plan()
    with pytest.raises(SettingError, match="every candidate of small must be made once"):
        replace(plan, methods=(*plan.methods, Method("other", "another", ("nowhere",))))
    with pytest.raises(SettingError, match="every candidate of small must be made once"):
        replace(plan, sources=(*plan.sources, CandidateSource("again", known, ("known",))))


def test_a_reference_or_a_pair_that_is_not_there() -> None:
    plan = small_plan()
    with pytest.raises(SettingError, match="small has no method 'best'"):
        replace(plan, reference="best")
    with pytest.raises(SettingError, match="small has no method 'best'"):
        replace(plan, pairs=(("near", "best"),))
    assert plan.method("chosen").candidates == ("near", "far")


def test_a_forecast_is_judged_by_its_best_actions() -> None:
    problem = small_problem()
    members = problem.test.outcome[:, None] + torch.tensor([-0.5, 0.0, 0.5])[:, None]
    judged = judge(problem, Forecast(None, members), "test")
    solution = stakes.solve_action(problem.cost, members)
    np.testing.assert_allclose(judged["cost"], problem.cost(solution.action, problem.test.outcome), rtol=1e-6)
    np.testing.assert_allclose(judged["expected_cost"], solution.expected_cost, rtol=1e-6)
    np.testing.assert_allclose(judged["energy_score"], stakes.energy_score(members, problem.test.outcome), rtol=1e-6)
    assert judged["certified"].all()


def test_validation_cases_are_not_scored_and_what_is_not_there_is_not_judged() -> None:
    problem = small_problem()
    forecast = Forecast(problem.validation.outcome[:, None], problem.test.outcome[:, None])
    assert np.isnan(judge(problem, forecast, "validation")["energy_score"]).all()
    assert judge(problem, Forecast(None, forecast.test), "validation") == {}


def test_actions_are_paid_as_they_are() -> None:
    def largest(action: Tensor, outcome: Tensor) -> Tensor:
        return action.amax(-1)

    problem = replace(small_problem(), measures={"largest": largest})
    action = problem.test.outcome + 1.0
    judged = judge(problem, Actions(None, action), "test")
    np.testing.assert_allclose(judged["cost"], 3.0, rtol=1e-5)  # three hours, one unit long each
    np.testing.assert_allclose(judged["largest"], action.amax(-1), rtol=1e-6)
    assert np.isnan(judged["expected_cost"]).all()
    assert np.isnan(judged["energy_score"]).all()


def counted(plan: Plan, calls: list[int]) -> Plan:
    def make(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
        calls.append(seed)
        return shifted(problem, seed, effort)

    first, *others = plan.sources
    return replace(plan, sources=(replace(first, make=make), *others))


def test_a_second_start_computes_what_is_missing(tmp_path: Path) -> None:
    calls: list[int] = []
    plan, problem = counted(small_plan(), calls), small_problem()
    results = run_problem(plan, problem, tmp_path, EFFORT)
    assert calls == [0, 1]
    again = run_problem(plan, problem, tmp_path, EFFORT)
    assert calls == [0, 1]
    np.testing.assert_array_equal(results.values("near", "test", "cost"), again.values("near", "test", "cost"))
    assert results.values("near", "test", "cost").shape == (2, 40)
    assert (results.values("known", "test", "cost")[0] == results.values("known", "test", "cost")[1]).all()
    run_problem(plan, problem, tmp_path, replace(EFFORT, seeds=3))
    assert calls == [0, 1, 2]  # another seed is another computation
    run_problem(plan, problem, tmp_path, replace(EFFORT, steps=4))
    assert calls == [0, 1, 2, 0, 1]
    run_problem(plan, replace(problem, gap=2), tmp_path, replace(EFFORT, steps=4))
    assert calls[5:] == [0, 1]


def noted(problem: Problem, seed: int, effort: RunEffort, *, calls: Path, rate: float) -> Candidates:
    calls.write_text(f"{calls.read_text() if calls.exists() else ''}{rate} ")
    return shifted(problem, seed, effort)


def test_other_settings_of_a_source_are_another_computation(tmp_path: Path) -> None:
    problem, calls = small_problem(), tmp_path / "calls"
    for rate in (0.1, 0.1, 0.2):
        first, *others = small_plan().sources
        source = replace(first, make=partial(noted, calls=calls, rate=rate))
        run_problem(replace(small_plan(), sources=(source, *others)), problem, tmp_path, replace(EFFORT, seeds=1))
    assert calls.read_text() == "0.1 0.2 "


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    plan, problem = small_plan(), small_problem()
    run_problem(plan, problem, tmp_path, EFFORT)
    file = tmp_path / "kept" / "small" / "shifted-1.npz"
    file.write_bytes(file.read_bytes()[:-30])
    refuses(CheckpointError, "", read_results, file)
    run_problem(plan, problem, tmp_path, EFFORT)
    assert set(read_results(file)) == {(name, part) for name in ("near", "far") for part in ("validation", "test")}


def test_a_source_must_make_what_it_says(tmp_path: Path) -> None:
    plan = small_plan()
    wrong = replace(plan, sources=(plan.sources[0], CandidateSource("known", known, ("known", "more"), seeded=False)))
    with pytest.raises(StakesError, match="known must make"):
        run_problem(wrong, small_problem(), tmp_path, EFFORT)


def test_rows_by_hand(tmp_path: Path) -> None:
    plan, problem = small_plan(), small_problem()
    results = run_problem(plan, problem, tmp_path, EFFORT)
    assert chosen_candidates(results, plan.method("chosen")) == ["near", "near"]  # though "far" is better afterwards
    about = compared(results)
    rows = {row["name"]: row for row in about["methods"]}
    assert about["cases"] == {"train": 90, "validation": 120, "test": 40}
    assert about["from"]["test"] == "2020-07-29"
    assert rows["foresight"]["cost"] == pytest.approx(about["foresight_cost"])
    assert rows["near"]["less_reference"] == pytest.approx([0.0, 0.0, 0.0])
    assert rows["chosen"]["cost"] == rows["near"]["cost"]
    assert rows["chosen"]["taken"] == {"near": 2, "far": 0}
    expected = paired_difference(
        results.values("known", "test", "cost"), results.values("near", "test", "cost"), problem.block
    )
    assert rows["foresight"]["less_reference"] == pytest.approx(list(expected))
    gap = results.values("near", "test", "expected_cost") - results.values("near", "test", "cost")
    assert rows["near"]["gap"][0] == pytest.approx(gap.mean())
    assert about["pairs"][0]["cost"][0] == pytest.approx(-expected.mean)
    assert rows["near"]["certified"] == 1.0


READERS: dict[str, tuple[Callable[[Path], pd.DataFrame], Callable[[str], object], slice]] = {
    LOAD_TABLE: (made_loads, load_days, slice(20, None)),  # no day of so many hours is left
    PRICE_TABLE: (made_prices, price_days, slice(50, 51)),
    MARKET_TABLE: (made_markets, market_days, slice(50, 51)),
    GEFCOM_WIND: (made_wind, wind_days, slice(3, 4)),
}


@pytest.mark.parametrize("name", READERS)
def test_tables_without_a_column_or_whole_days_are_refused(name: str, tmp_path: Path) -> None:
    make, read, hours = READERS[name]
    table = make(tmp_path)
    lost = table.columns[-1]
    broken = {lost: table.drop(columns=lost), "days": table.drop(index=table.index[hours])}
    for named, each in broken.items():
        each.to_csv(tmp_path / name, index=False, compression="gzip")
        refuses(TableError, named, read, str(tmp_path))
    (tmp_path / name).unlink()
    refuses(TableError, re.escape(name), read, str(tmp_path))


pytestmark = pytest.mark.usefixtures("unarranged_figures")


def test_what_the_page_tells(tmp_path: Path) -> None:
    problem = replace(small_problem(), measures={"late_hours": lambda action, outcome: action[..., -1]})
    problems = {"small": compared(run_problem(small_plan(), problem, tmp_path, EFFORT))}
    figures = {"small": problem_figure("small", problems["small"])}
    report = build_programs_report(problems, figures, "few seeds", ["something was left out."], {"command": "x"})
    (section,) = report.sections
    methods, pairs = section.tables
    assert [column.name for column in methods.columns][4] == "late hours"
    assert methods.rows[1][2] == "the reference"
    assert methods.rows[2][-1] == "near: 2"
    assert pairs.rows[0][:2] == ("by validation", "what happens")
    page = render(report)
    assert "something was left out." in page
    assert "90 cases to learn from, 120 to choose by, 40 to judge from 2020-07-29 on." in page
