"""The interior-point method: against Clarabel, step by step, in every unit, and where costs are unbounded."""

from dataclasses import replace

import pytest
import torch
from core.random_programs import clarabel, random_programs, whole_program
from refusals import refuses
from torch import Tensor

from stakes.errors import SettingError
from stakes.programs.interior_point import (
    InteriorPoint,
    Iterate,
    Products,
    ProgramSolution,
    Residuals,
    ScenarioData,
    StepSystem,
    beside,
    limited,
    residuals_of,
    scaled,
    steepest_way,
    stepped,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:cvxpy")  # that a verdict is inaccurate


def verdicts(solution: ProgramSolution) -> list[str]:
    flags = zip(*(flag.tolist() for flag in (solution.solved, solution.infeasible, solution.unbounded)), strict=True)
    names = ("optimal", "infeasible", "unbounded")
    return [next((name for name, flag in zip(names, of_case, strict=True) if flag), "unknown") for of_case in flags]


@pytest.mark.parametrize("kind", ["solvable", "infeasible", "unlimited", "unbounded"])
def test_objective_and_verdict_are_those_of_clarabel(kind: str) -> None:
    generator = torch.Generator().manual_seed(7)
    for _ in range(4):
        data = random_programs(generator, kind)
        solution = InteriorPoint().solve(data)
        for case, verdict in enumerate(verdicts(solution)):
            objective, expected = clarabel(data, case)
            assert verdict == expected
            if expected == "optimal":
                assert float(solution.objective[case]) == pytest.approx(objective, rel=1e-7, abs=1e-7)


def test_gap_bounds_what_a_better_action_could_save() -> None:
    data = random_programs(torch.Generator().manual_seed(1), "solvable")
    rough, exact = InteriorPoint(iterations=4, tolerance=1e-15).solve(data), InteriorPoint().solve(data)
    assert (rough.gap > 1e-6).all()
    assert (rough.objective - exact.objective <= rough.gap + 1e-3 * rough.residual).all()


def test_a_search_that_breaks_down_late_keeps_its_best_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding may end a search that has all but arrived; by then most of its companions have left."""
    data = random_programs(torch.Generator().manual_seed(2), "solvable")
    whole = InteriorPoint().solve(data)
    taken: list[int] = []

    def breaking(data: ScenarioData, x: Iterate, residuals: Residuals) -> Iterate:
        step = stepped(data, x, residuals)
        taken.append(len(data.p))
        lost = torch.zeros_like(data.p[:, 0], dtype=torch.bool)
        lost[-1] = len(taken) > whole.iterations - 3
        return Iterate(*(torch.where(beside(lost, part), torch.nan, part) for part in step))

    monkeypatch.setattr("stakes.programs.interior_point.stepped", breaking)
    broken = InteriorPoint().solve(data)
    torch.testing.assert_close(broken.objective, whole.objective, rtol=1e-2, atol=1e-2)


def test_on_an_accelerator_the_number_of_steps_is_fixed_and_the_answer_the_same() -> None:
    from stakes.argument_checks import unwatched

    data = random_programs(torch.Generator().manual_seed(5), "solvable")
    with unwatched():
        fixed = InteriorPoint().solve(data)
    assert fixed.iterations == InteriorPoint().fixed_iterations
    eager = InteriorPoint().solve(data)
    assert eager.iterations < fixed.iterations
    torch.testing.assert_close(fixed.iterate.a, eager.iterate.a, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["solvable", "unlimited"])
def test_chunks_change_nothing(kind: str) -> None:
    data = random_programs(torch.Generator().manual_seed(6), kind)
    whole, chunked = InteriorPoint().solve(data), InteriorPoint(memory=1).solve(data)
    assert chunked.iterations == whole.iterations
    assert torch.equal(chunked.solved, whole.solved)
    torch.testing.assert_close(chunked.objective, whole.objective, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(chunked.iterate.a, whole.iterate.a, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("wrong", [{"memory": 0}, {"fixed_iterations": 0}, {"iterations": 0}, {"tolerance": 0.0}])
def test_wrong_settings(wrong: dict[str, float]) -> None:
    refuses(SettingError, next(iter(wrong)), InteriorPoint, **wrong)


def some_iterate(data: ScenarioData) -> Iterate:
    """Positive slacks and prices, drawn at random."""
    generator = torch.Generator().manual_seed(1)

    def positive(like: Tensor) -> Tensor:
        return torch.rand(like.shape, generator=generator, dtype=torch.float64) + 0.2

    z = torch.zeros(*data.h.shape[:2], data.recourse.parts)
    parts = Iterate(data.p, data.d, data.d, data.e, z, data.h, data.h, z)
    x = Iterate(*map(positive, parts))
    return x._replace(price=limited(data, x.price))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["solvable", "unlimited"])
def test_a_step_solves_its_equations(seed: int, kind: str) -> None:
    data, _ = scaled(random_programs(torch.Generator().manual_seed(seed), kind))
    x = some_iterate(data)
    residuals, products = residuals_of(data, x), Products(x.s * x.price, x.v * x.mu, x.z * x.zeta)
    step = StepSystem(data, x).step(residuals, products)
    linear = replace(data, p=0 * data.p, d=torch.where(torch.isfinite(data.d), 0.0, torch.inf), e=0 * data.e)
    moved = residuals_of(replace(linear, q=0 * data.q, h=0 * data.h), step)
    for left, expected in zip(moved, residuals, strict=True):
        torch.testing.assert_close(left, -expected, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(x.s * step.price + x.price * step.s, -products.s, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(x.v * step.mu + x.mu * step.v, -products.v, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(x.z * step.zeta + x.zeta * step.z, -products.z, rtol=0.0, atol=1e-9)


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
