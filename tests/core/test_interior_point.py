"""The interior-point method against Clarabel, and by the conditions of a minimum."""

from dataclasses import replace

import pytest
import torch
from core.random_programs import clarabel, random_programs

from stakes.errors import SettingError
from stakes.programs.interior_point import (
    InteriorPoint,
    Iterate,
    ProgramSolution,
    Residuals,
    ScenarioData,
    beside,
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


def test_a_case_does_not_depend_on_its_companions() -> None:
    data = random_programs(torch.Generator().manual_seed(2), "solvable")
    together = InteriorPoint().solve(data)
    for case in range(3):
        alone = InteriorPoint().solve(data.rows(torch.tensor([case])))
        torch.testing.assert_close(alone.iterate.a[0], together.iterate.a[case], rtol=1e-6, atol=1e-9)


def test_the_units_do_not_matter() -> None:
    data = random_programs(torch.Generator().manual_seed(3), "solvable")
    plain = InteriorPoint().solve(data)
    large = InteriorPoint().solve(_in_units(data, 1e9, 1e-6))
    assert bool(large.solved.all())
    torch.testing.assert_close(large.iterate.a / 1e9, plain.iterate.a, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(large.objective / 1e3, plain.objective, rtol=1e-6, atol=1e-7)


def _in_units(data: ScenarioData, action: float, cost: float) -> ScenarioData:
    """The same programs with actions and outcomes in one unit, and prices in another."""
    ratio = cost / action
    own = {"P": ratio * data.P, "p": cost * data.p, "q": cost * data.q, "curvature": ratio * data.curvature}
    return replace(data, d=action * data.d, e=action * data.e, h=action * data.h, **own)


def test_cases_without_a_number_do_not_spoil_others() -> None:
    data = random_programs(torch.Generator().manual_seed(4), "solvable")
    spoilt = replace(data, p=torch.cat([data.p[:1] * torch.nan, data.p[1:]]))
    solution, plain = InteriorPoint().solve(spoilt), InteriorPoint().solve(data)
    assert solution.solved.tolist() == [False, True, True]
    assert verdicts(solution)[0] == "unknown"
    torch.testing.assert_close(solution.iterate.a[1:], plain.iterate.a[1:], rtol=1e-6, atol=1e-9)


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
    with pytest.raises(SettingError, match=next(iter(wrong))):
        InteriorPoint(**wrong)  # type: ignore[arg-type]
