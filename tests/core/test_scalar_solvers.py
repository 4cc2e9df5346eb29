"""The solvers alone, on functions of a scalar action: Newton, bisection, projected gradient and the global search."""

import math
from collections.abc import Callable

import hypothesis
import pytest
import torch
from example_counts import examples
from hypothesis import strategies
from refusals import refuses
from torch import Tensor

from stakes import NewtonBisection, ProjectedGradient, Solver
from stakes.actions.scalar_solvers import Located, global_search, spot_check_convexity
from stakes.errors import CostError, SettingError

DOUBLE = torch.float64
SOLVERS: dict[str, Solver] = {"newton": NewtonBisection(), "projected": ProjectedGradient(steps=400, step_size=0.1)}
every_solver = pytest.mark.parametrize("name", SOLVERS)


def solve(solver: Solver, f: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor) -> Located:
    with torch.no_grad():
        return solver(f, lower, upper)


def bounds(rows: int, lower: float = 0.0, upper: float = 1.0, dtype: torch.dtype = DOUBLE) -> tuple[Tensor, Tensor]:
    return torch.full((rows,), lower, dtype=dtype), torch.full((rows,), upper, dtype=dtype)


# -- where the minimum is known


@every_solver
def test_every_row_has_a_parabola_of_its_own(name: str) -> None:
    lowest, steepness = torch.linspace(-0.5, 1.5, 21, dtype=DOUBLE), torch.linspace(0.5, 4.0, 21, dtype=DOUBLE)
    located = solve(SOLVERS[name], lambda a: steepness * (a - lowest) ** 2, *bounds(21))
    torch.testing.assert_close(located.action, lowest.clamp(0, 1), rtol=0.0, atol=1e-9)
    assert located.sound.all()


@every_solver
def test_typical_curvature_is_in_proportion_to_that_of_a_parabola(name: str) -> None:
    """An eighth of it: the rise to the scanned neighbours over the square of the distance between them."""
    steepness = torch.tensor([1.0, 3.0], dtype=DOUBLE)
    located = solve(SOLVERS[name], lambda a: steepness * (a - 0.5) ** 2 / 2, *bounds(2))
    torch.testing.assert_close(located.typical_curvature, steepness / 8)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_newton_is_exact_to_rounding_for_smooth_functions(dtype: torch.dtype) -> None:
    rate = torch.linspace(1.0, 8.0, 30, dtype=dtype)
    located = solve(NewtonBisection(), lambda a: torch.exp(rate * a) - 10 * a, *bounds(30, -2, 5, dtype))
    exact = (torch.log(10 / rate.double()) / rate.double()).to(dtype)
    torch.testing.assert_close(located.action, exact, rtol=0.0, atol=16 * torch.finfo(dtype).eps)


def test_newton_bisects_where_there_is_no_curvature_to_go_by() -> None:
    lowest = torch.tensor([0.3, 0.61, 0.875], dtype=DOUBLE)
    located = solve(NewtonBisection(iterations=60), lambda a: (a - lowest).abs(), *bounds(3))
    torch.testing.assert_close(located.action, lowest, rtol=0.0, atol=1e-12)


@examples(80)
@hypothesis.given(
    lowest=strategies.floats(-2.0, 3.0),
    centre=strategies.floats(-1e3, 1e3),
    width=strategies.floats(1e-3, 1e3),
    steepness=strategies.floats(1e-3, 1e3),
)
def test_newton_scales_with_the_bounds(lowest: float, centre: float, width: float, steepness: float) -> None:
    """A convex function, shifted and stretched in action and cost: the relative place of its minimum stays."""

    def f(action: Tensor) -> Tensor:
        place = (action - centre) / width - lowest
        return steepness * (torch.cosh(place) + 0.1 * place**2)

    located = solve(NewtonBisection(), f, *bounds(1, centre, centre + width))
    place = (located.action.item() - centre) / width
    assert place == pytest.approx(min(max(lowest, 0.0), 1.0), abs=1e-6)
    assert located.sound.all()


@every_solver
def test_minimum_at_a_bound(name: str) -> None:
    slope = torch.tensor([3.0, -3.0], dtype=DOUBLE)
    located = solve(SOLVERS[name], lambda a: slope * a, *bounds(2))
    assert located.action.tolist() == [0.0, 1.0]
    assert located.sound.all()


# -- what a scan sees, and what it does not


def dip(place: float, width: float) -> Callable[[Tensor], Tensor]:
    """A parabola with its minimum at 0.25, and a narrow dip below it."""
    return lambda a: (a - 0.25) ** 2 - 2 * torch.exp(-(((a - place) / width) ** 2))


@every_solver
def test_a_function_that_rises_and_falls_again_is_not_sound(name: str) -> None:
    two_valleys = solve(SOLVERS[name], lambda a: torch.cos(4 * math.pi * a), *bounds(1))
    assert not two_valleys.sound.any()
    assert not solve(SOLVERS[name], dip(0.75, 0.02), *bounds(1)).sound.any()  # at one of the nine actions


@every_solver
@pytest.mark.parametrize("flat", [torch.zeros_like, lambda a: torch.full_like(a, 1e6), lambda a: 1e6 + 1e-11 * a])
def test_a_flat_function_is_not_sound(name: str, flat: Callable[[Tensor], Tensor]) -> None:
    assert not solve(SOLVERS[name], flat, *bounds(3)).sound.any()


@every_solver
def test_a_dip_between_two_scanned_actions_goes_unseen(name: str) -> None:
    """Which is why the certificate of a cost that is not convex says less than that of one that is."""
    located = solve(SOLVERS[name], dip(0.8125, 0.005), *bounds(1))
    assert located.sound.all()
    assert located.action.item() == pytest.approx(0.25, abs=1e-6)


def test_a_finer_scan_sees_narrower_dips() -> None:
    located = solve(NewtonBisection(intervals=64), dip(0.8125, 0.005), *bounds(1))
    assert not located.sound.any()
    assert located.action.item() == pytest.approx(0.8125, abs=1e-3)


# -- settings


def test_projected_gradient_diverges_beyond_the_largest_step() -> None:
    located = solve(ProjectedGradient(steps=51, step_size=1.1), lambda a: (a - 0.4) ** 2, *bounds(1))
    assert located.action.item() in (0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: NewtonBisection(iterations=0), "iterations"),
        (lambda: NewtonBisection(intervals=1), "intervals"),
        (lambda: NewtonBisection(tolerance=0.0), "tolerance"),
        (lambda: NewtonBisection(tolerance=math.nan), "tolerance"),
        (lambda: ProjectedGradient(steps=0), "steps"),
        (lambda: ProjectedGradient(step_size=-1.0), "step_size"),
        (lambda: ProjectedGradient(tolerance=math.inf), "tolerance"),
    ],
)
def test_bad_solver_settings_are_named(make: Callable[[], Solver], field: str) -> None:
    refuses(SettingError, field, make)


ROWS = 40
LOWER, UPPER = torch.zeros(ROWS, dtype=torch.float64), torch.full((ROWS,), 3.0, dtype=torch.float64)
MEMBERS = 3 * torch.rand(ROWS, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def rugged(action: Tensor) -> Tensor:
    """Smooth holes at the members of each row, each narrower than the grid can be sure to see."""
    distance = (action[..., None] - MEMBERS) / 0.0005
    return 0.1 * (action - 1.5) ** 2 - torch.exp(-0.5 * distance**2).sum(-1)


def bowl(action: Tensor) -> Tensor:
    return ((action[..., None] - MEMBERS) ** 2).mean(-1)


def test_narrow_holes_at_the_members_are_seen() -> None:
    fine = torch.linspace(0.0, 3.0, 30_001, dtype=torch.float64)
    least = torch.cat([rugged(part[:, None].expand(-1, ROWS)) for part in fine.split(1000)]).amin(0)
    located = global_search(rugged, LOWER, UPPER, MEMBERS)
    assert bool((rugged(located.action) <= least + 1e-9).all())
    assert not bool(located.sound.any())


def test_without_members_there_is_only_the_grid() -> None:
    hidden = torch.full_like(MEMBERS, 3.0)
    seen, unseen = (rugged(global_search(rugged, LOWER, UPPER, places).action) for places in (MEMBERS, hidden))
    assert bool((unseen >= seen - 1e-9).all())
    assert bool((unseen > seen + 0.1).any())


def test_one_valley_is_sound_and_refined() -> None:
    located = global_search(bowl, LOWER, UPPER, MEMBERS)
    torch.testing.assert_close(located.action, MEMBERS.mean(-1), rtol=0.0, atol=1e-9)
    assert bool(located.sound.all())


@pytest.mark.parametrize(("slope", "end"), [(1.0, LOWER), (-1.0, UPPER)])
def test_the_best_action_may_lie_at_a_bound(slope: float, end: Tensor) -> None:
    located = global_search(lambda action: slope * action, LOWER, UPPER, MEMBERS)
    torch.testing.assert_close(located.action, end)


def test_a_word_that_is_seen_to_be_wrong() -> None:
    spot_check_convexity(bowl, LOWER, UPPER)
    refuses(CostError, "convex=True", spot_check_convexity, lambda action: -bowl(action), LOWER, UPPER)
