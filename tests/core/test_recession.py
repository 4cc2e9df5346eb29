"""Ways along which costs fall for ever, against Clarabel."""

from dataclasses import replace

import pytest
import torch
from core.random_programs import random_programs, whole_program

from stakes.programs.interior_point import InteriorPoint, steepest_way


@pytest.mark.parametrize("seed", range(3))
def test_the_steepest_way_is_zero_unless_the_cost_has_no_lower_bound(seed: int) -> None:
    data = random_programs(torch.Generator().manual_seed(seed), "unlimited")
    linear = replace(data, P=0 * data.P, recourse=replace(data.recourse, Q=0 * data.recourse.Q))
    ways = steepest_way(linear)
    assert ways is not None
    solution = InteriorPoint().solve(ways)
    assert bool(solution.solved.all())
    for case in range(3):
        falls = float(solution.objective[case]) < -1e-6
        assert falls == (whole_program(linear, case).clarabel().verdict == "unbounded")
        assert falls == whole_program(linear, case).proves_unbounded(
            torch.cat([solution.iterate.a[case], solution.iterate.z[case].flatten()]).numpy()
        )


def test_a_cost_without_a_lower_bound_is_called_so_where_the_search_runs_off() -> None:
    """In this one the search ends far away along a way that costs nothing."""
    generator = torch.Generator().manual_seed(4)
    kinds = ("solvable", "infeasible", "unlimited", "unbounded")
    data = [random_programs(generator, kinds[number % 4], 4) for number in range(7)][-1]
    assert bool(InteriorPoint().solve(data).unbounded.all())


def test_a_search_that_runs_off_along_a_way_that_costs_nothing_is_taken_up_again() -> None:
    generator = torch.Generator().manual_seed(16)
    kinds = ("solvable", "infeasible", "unlimited", "unbounded")
    data = [random_programs(generator, kinds[number % 4], 4) for number in range(19)][-1]
    solution = InteriorPoint().solve(data)
    assert solution.solved.tolist() == [False, False, True, False]
    assert solution.unbounded.tolist() == [True, True, False, True]
    expected = whole_program(data, 2).clarabel().objective
    assert float(solution.objective[2]) == pytest.approx(expected, rel=1e-7)


def test_none_of_quadratic_programs() -> None:
    data = random_programs(torch.Generator().manual_seed(0), "solvable")
    assert steepest_way(replace(data, P=torch.eye(data.p.shape[1]).double()[None])) is None
