"""What is computed is kept, and taken again only where nothing has changed."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from small_programs import EFFORT, known, shifted, small_plan, small_problem

from reproduction.programs.problem import Candidates, CandidateSource, Plan, Problem, RunEffort
from reproduction.programs.run import read_results, run_problem
from stakes.errors import CheckpointError, StakesError


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
    with pytest.raises(CheckpointError, match="holds no results"):
        read_results(file)
    run_problem(plan, problem, tmp_path, EFFORT)
    assert set(read_results(file)) == {(name, part) for name in ("near", "far") for part in ("validation", "test")}


def test_a_source_must_make_what_it_says(tmp_path: Path) -> None:
    plan = small_plan()
    wrong = replace(plan, sources=(plan.sources[0], CandidateSource("known", known, ("known", "more"), seeded=False)))
    with pytest.raises(StakesError, match="known must make"):
        run_problem(wrong, small_problem(), tmp_path, EFFORT)
