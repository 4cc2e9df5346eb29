"""One battery for every built-in cost; the oracle bisects slopes written here, in float64, without the library."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import (
    Cost,
    ImbalanceCost,
    NewsvendorCost,
    NewtonBisection,
    ProtectionCost,
    ShortfallCost,
    WindDispatchCost,
    optimal_action,
    solve_action,
)

DOUBLE = torch.float64
CASES = 6


@dataclass(frozen=True)
class Family:
    """A cost with one parameter left open, members that suit it, and its slope f'(a) written independently."""

    make: Callable[[Any], Cost]
    parameters: tuple[float, float]
    members: Callable[[torch.Generator, tuple[int, ...]], Tensor]
    slope: Callable[[Tensor, Tensor, Any], Tensor]  # a (...), y (..., M, D), parameter (..., 1) -> per member (..., M)
    pinned: tuple[tuple[float, float], ...]  # a value of all members, and the bound it leads to
    curved: bool = True
    closed_form: bool = True
    sites: int = 1


@dataclass(frozen=True)
class Setting:
    """A family with its parameter fixed: a number, or a tensor of the batch shape (CASES,)."""

    family: Family
    parameter: float | tuple[float, float]

    def values(self, dtype: torch.dtype) -> Any:
        if isinstance(self.parameter, float):
            return self.parameter
        return torch.linspace(*self.parameter, CASES, dtype=dtype)

    def cost(self, dtype: torch.dtype) -> Cost:
        return self.family.make(self.values(dtype))

    def members(self, dtype: torch.dtype, members: int = 9, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return self.family.members(generator, (CASES, members, self.family.sites)).to(dtype)

    def oracle(self, samples: Tensor) -> Tensor:
        """The best actions (..., CASES) of samples (..., CASES, M, D), where f' in float64 changes its sign."""
        samples = samples.detach().double()
        parameter = self.values(DOUBLE)
        parameter = parameter[:, None] if isinstance(parameter, Tensor) else parameter

        def slope(action: Tensor) -> Tensor:
            return self.family.slope(action[..., None], samples, parameter).mean(-1)

        cost = self.cost(DOUBLE)
        zeros = torch.zeros(samples.shape[:-2], dtype=DOUBLE)
        ends = zeros + cost.lower, zeros + cost.upper
        low, high = ends
        shares = (torch.arange(33, dtype=DOUBLE) / 32).reshape(-1, *[1] * zeros.ndim)
        for _ in range(10):  # five halvings each
            places = low + shares * (high - low)  # (33, ..., CASES)
            falling = (slope(places[1:-1]) < 0).sum(0, keepdim=True)
            low, high = places.gather(0, falling)[0], places.gather(0, falling + 1)[0]
        at_lower, at_upper = slope(ends[0]) >= 0, slope(ends[1]) <= 0
        return torch.where(at_lower, ends[0], torch.where(at_upper, ends[1], (low + high) / 2))


def shortfall_slope(action: Tensor, power: Tensor, penalty: Any) -> Tensor:
    return 2 * penalty * torch.relu(action - power.mean(-1)) - 1


def wind_slope(action: Tensor, speed: Tensor, penalty: Any) -> Tensor:
    hub = speed * 10**0.143
    power = 1 / (1 + torch.exp(-0.8 * (hub - 9))) / (1 + torch.exp(2 * (hub - 22)))
    return shortfall_slope(action, power, penalty)


def protection_slope(
    sign: float, threshold: float, sharpness: float, exposure: float = 2.0, protection: float = 1.0
) -> Callable[[Tensor, Tensor, Any], Tensor]:
    def slope(action: Tensor, outcome: Tensor, ratio: Any) -> Tensor:
        severity = torch.special.expit(sign * sharpness * (outcome - threshold)).mean(-1)
        exposed = -exposure * severity * (1 - action) ** (exposure - 1)
        return exposed + protection * ratio * (1 - severity) * action ** (protection - 1)

    return slope


def newsvendor_slope(action: Tensor, outcome: Tensor, underage: Any) -> Tensor:
    return torch.where(outcome.sum(-1) > action, -underage, torch.ones_like(action))


def imbalance_slope(action: Tensor, outcome: Tensor, short: Any) -> Tensor:
    gap = action - outcome.sum(-1)
    return 2 * torch.relu(gap) - 2 * short * torch.relu(-gap)


def uniform(generator: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.rand(shape, generator=generator)


def normal(generator: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=generator)


def wind_speed(generator: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    return (10 + 4 * torch.randn(shape, generator=generator)).clamp(min=0)


def two_modes(generator: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    second = torch.rand(shape, generator=generator) < 0.6
    noise = torch.randn(shape, generator=generator)
    return torch.where(second, 2.5 + 0.4 * noise, 0.2 * noise)


def near_threshold(generator: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    return 1 + 0.3 * torch.randn(shape, generator=generator)


def protection(
    sharpness: float = 10.0,
    exposure: float = 2.0,
    protect: float = 1.0,
    sites: int = 1,
    members: Callable[[torch.Generator, tuple[int, ...]], Tensor] = two_modes,
) -> Family:
    return Family(
        make=lambda ratio: ProtectionCost(1.0, ratio, "above", sharpness, exposure, protect),
        parameters=(0.5, 1.5),
        members=members,
        slope=protection_slope(1.0, 1.0, sharpness, exposure, protect),
        pinned=((-1000.0, 0.0), (1000.0, 1.0)),
        closed_form=(exposure, protect) == (2.0, 1.0),
        sites=sites,
    )


def shortfall(sites: int) -> Family:
    return Family(ShortfallCost, (5.0, 20.0), uniform, shortfall_slope, ((1.0, 1.0),), sites=sites)


def wind(sites: int) -> Family:
    return Family(WindDispatchCost, (5.0, 20.0), wind_speed, wind_slope, ((12.0, 1.0),), sites=sites)


def newsvendor(sites: int) -> Family:
    return Family(
        make=lambda underage: NewsvendorCost(underage, 1.0, -5.0, 5.0),
        parameters=(0.37, 4.3),
        members=normal,
        slope=newsvendor_slope,
        pinned=((-100.0, -5.0), (100.0, 5.0)),
        curved=False,
        sites=sites,
    )


def imbalance(sites: int) -> Family:
    return Family(
        make=lambda short: ImbalanceCost(short, 1.0, -5.0, 5.0),
        parameters=(0.1, 10.0),
        members=normal,
        slope=imbalance_slope,
        pinned=((-100.0, -5.0), (100.0, 5.0)),
        sites=sites,
    )


FAMILIES = {
    "shortfall": shortfall(1),
    "shortfall_sites": shortfall(3),
    "wind": wind(1),
    "wind_sites": wind(3),
    "protection": protection(),
    "protection_near": protection(members=near_threshold),
    "protection_sites": protection(sites=3),
    "protection_below": Family(
        make=lambda ratio: ProtectionCost(0.0, ratio, "below", 2.0),
        parameters=(0.2, 0.5),
        members=normal,
        slope=protection_slope(-1.0, 0.0, 2.0),
        pinned=((1000.0, 0.0), (-1000.0, 1.0)),
    ),
    "protection_squares": protection(exposure=2.0, protect=2.0),
    "protection_cube": protection(exposure=3.0, protect=1.0),
    "protection_steep": protection(sharpness=2.0, exposure=2.0, protect=1.5),
    "protection_blunt": protection(sharpness=2.0, exposure=1.5, protect=1.0),
    "newsvendor": newsvendor(1),
    "newsvendor_sites": newsvendor(3),
    "imbalance": imbalance(1),
    "imbalance_sites": imbalance(3),
}
SETTINGS = {
    f"{name}-{label}": Setting(family, parameter)
    for name, family in FAMILIES.items()
    for label, parameter in (
        ("first", family.parameters[0]),
        ("second", family.parameters[1]),
        ("tensor", family.parameters),
    )
}
TOLERANCE = {torch.float32: 2e-6, DOUBLE: 1e-10}
every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def expected_cost(cost: Cost, action: Tensor, samples: Tensor) -> Tensor:
    """The mean (..., CASES) over members of samples (CASES, M, D) for actions (..., CASES, 1)."""
    outcome = samples.movedim(-2, 0)  # (M, CASES, D)
    return cost(action, outcome.reshape(len(outcome), *[1] * (action.ndim - 2), *outcome.shape[1:])).mean(0)


def assert_near(values: Tensor, expected: Tensor, dtype: torch.dtype, scale: float = 1.0) -> None:
    atol = TOLERANCE[dtype] * scale
    torch.testing.assert_close(values.double(), expected, rtol=0.0, atol=atol, msg=lambda text: f"{dtype}: {text}")


@every_setting
def test_action_equals_brute_force(setting: Setting) -> None:
    for dtype, members in itertools.product(TOLERANCE, (1, 2, 9, 50)):
        samples = setting.members(dtype, members, seed=members)
        action = optimal_action(setting.cost(dtype), samples)
        assert action.shape == (CASES, 1)
        assert action.dtype == dtype
        assert_near(action[:, 0], setting.oracle(samples), dtype)


@every_setting
def test_closed_form_equals_newton(setting: Setting) -> None:
    if not setting.family.curved:
        pytest.skip("the expected cost has no curvature")
    for dtype in TOLERANCE:
        samples, cost = setting.members(dtype, seed=1), setting.cost(dtype)
        solution = solve_action(cost, samples, NewtonBisection())
        assert solution.converged.all()
        assert_near(solution.action[:, 0], setting.oracle(samples), dtype)
        assert_near(solution.action[:, 0], optimal_action(cost, samples)[:, 0].double(), dtype)


@every_setting
def test_certificate(setting: Setting) -> None:
    for dtype in TOLERANCE:
        samples, cost = setting.members(dtype, seed=2), setting.cost(dtype)
        solution = solve_action(cost, samples)
        assert solution.converged.all()
        assert solution.certified.all()
        assert torch.equal(
            solution.interior, (solution.action[:, 0] > cost.lower) & (solution.action[:, 0] < cost.upper)
        )
        torch.testing.assert_close(solution.expected_cost, expected_cost(cost, solution.action, samples))
        assert torch.equal(solution.action, optimal_action(cost, samples, thorough=True))
        assert not solution.action.requires_grad
        if setting.family.curved:
            assert (solution.curvature > 0).all()


@every_setting
def test_no_grid_action_is_better(setting: Setting) -> None:
    for dtype in TOLERANCE:
        samples, cost = setting.members(dtype, seed=3), setting.cost(dtype)
        action = optimal_action(cost, samples)
        assert ((action >= cost.lower) & (action <= cost.upper)).all()
        cost, samples = setting.cost(DOUBLE), samples.double()
        least = expected_cost(cost, action.double(), samples)
        grid = cost.lower + torch.linspace(0, 1, 200, dtype=DOUBLE) * (cost.upper - cost.lower)
        others = grid[:, None, None].expand(-1, CASES, 1)
        assert (least <= expected_cost(cost, others, samples) + 10 * TOLERANCE[dtype]).all()


@every_setting
def test_order_of_members_does_not_matter(setting: Setting) -> None:
    samples, cost = setting.members(DOUBLE, seed=4), setting.cost(DOUBLE)
    order = torch.randperm(samples.shape[-2], generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(
        optimal_action(cost, samples[:, order]), optimal_action(cost, samples), rtol=1e-12, atol=1e-12
    )


@every_setting
@pytest.mark.parametrize(("members", "times"), [(3, 4), (1, 10)], ids=["tied", "alike"])
def test_members_that_repeat_each_other(setting: Setting, members: int, times: int) -> None:
    for dtype in TOLERANCE:
        samples = setting.members(dtype, members, seed=5).repeat_interleave(times, -2).requires_grad_()
        action = optimal_action(setting.cost(dtype), samples)
        assert_near(action[:, 0], setting.oracle(samples), dtype)
        (gradient,) = torch.autograd.grad(action.sum(), samples)
        assert gradient.isfinite().all()


@every_setting
def test_gradcheck(setting: Setting) -> None:
    samples, cost = setting.members(DOUBLE, 5, seed=7), setting.cost(DOUBLE)
    move = torch.zeros(samples.shape[1:], dtype=DOUBLE, requires_grad=True)  # of a member in all cases, each an output
    assert torch.autograd.gradcheck(lambda move: optimal_action(cost, samples + move), move)


@every_setting
def test_gradient_equals_differences_of_brute_force(setting: Setting) -> None:
    for dtype in TOLERANCE:
        samples = setting.members(dtype, 7, seed=8).requires_grad_()
        (gradient,) = torch.autograd.grad(optimal_action(setting.cost(dtype), samples).sum(), samples)
        step = 1e-6
        moves = step * torch.eye(samples[0].numel(), dtype=DOUBLE).reshape(-1, 1, *samples.shape[1:])  # (M D, 1, M, D)
        ahead, behind = (setting.oracle(samples.double() + sign * moves) for sign in (1, -1))  # (M D, CASES)
        differences = ((ahead - behind) / (2 * step)).T.reshape(samples.shape)
        scale = differences.abs().max().item()
        assert scale > 0
        torch.testing.assert_close(gradient.double(), differences, rtol=1e-5, atol=1e-5 * scale)


@every_setting
def test_no_gradient_at_the_bounds(setting: Setting) -> None:
    solvers = (None, NewtonBisection()) if setting.family.curved else (None,)
    for dtype, solver, (value, bound) in itertools.product(TOLERANCE, solvers, setting.family.pinned):
        samples = torch.full((CASES, 4, setting.family.sites), value, dtype=dtype, requires_grad=True)
        cost = setting.cost(dtype)
        action = optimal_action(cost, samples, solver)
        assert torch.equal(action, torch.full_like(action, bound))
        solution = solve_action(cost, samples, solver)
        assert solution.converged.all()
        assert not solution.interior.any()
        if action.requires_grad:
            (gradient,) = torch.autograd.grad(action.sum(), samples, allow_unused=True, materialize_grads=True)
            assert torch.equal(gradient, torch.zeros_like(gradient))


@every_family
@pytest.mark.parametrize(
    ("members", "axis", "solver"), [(9, 0, None), (9, 0, NewtonBisection(iterations=12)), (9, 2, None), (1000, 0, None)]
)
def test_vmap_over_samples(family: Family, members: int, axis: int, solver: NewtonBisection | None) -> None:
    setting = Setting(family, family.parameters[1])
    samples, cost = setting.members(DOUBLE, members, seed=9), setting.cost(DOUBLE)
    mapped = torch.func.vmap(lambda y: optimal_action(cost, y, solver), in_dims=axis)(samples.movedim(0, axis))
    torch.testing.assert_close(mapped, optimal_action(cost, samples, solver), rtol=1e-9, atol=1e-9)


@every_family
@pytest.mark.parametrize("shared_samples", [False, True])
def test_vmap_over_parameters(family: Family, shared_samples: bool) -> None:
    setting = Setting(family, family.parameters)
    samples, values = setting.members(DOUBLE, seed=10), setting.values(DOUBLE)
    if shared_samples:
        samples = samples[:1].expand_as(samples)
        mapped = torch.func.vmap(lambda p: optimal_action(family.make(p), samples[0]))(values)
    else:
        mapped = torch.func.vmap(lambda p, y: optimal_action(family.make(p), y))(values, samples)
    torch.testing.assert_close(mapped, optimal_action(setting.cost(DOUBLE), samples), rtol=1e-9, atol=1e-9)


@every_family
def test_functional_gradients(family: Family) -> None:
    setting = Setting(family, family.parameters[0])
    samples, cost = setting.members(DOUBLE, seed=11).requires_grad_(), setting.cost(DOUBLE)
    (expected,) = torch.autograd.grad(optimal_action(cost, samples).sum(), samples)

    def total(y: Tensor) -> Tensor:
        return optimal_action(cost, y).sum()

    samples = samples.detach()
    torch.testing.assert_close(torch.func.grad(total)(samples), expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(total))(samples), expected, rtol=1e-8, atol=1e-8)


COMPILED = ("shortfall", "wind", "protection", "protection_squares", "newsvendor", "imbalance")  # others: their graphs


@pytest.mark.filterwarnings(  # raised inside torch._dynamo
    "ignore:<class 'torch.autograd.function.Function'> should not be instantiated:DeprecationWarning"
)
@pytest.mark.parametrize("name", COMPILED)
def test_compiles_as_one_graph(name: str) -> None:
    setting = SETTINGS[f"{name}-tensor"]
    solver = None if setting.family.closed_form else NewtonBisection(iterations=2, intervals=2)
    cost = setting.cost(DOUBLE)

    def total(y: Tensor) -> Tensor:
        return optimal_action(cost, y, solver).sum()

    samples = setting.members(DOUBLE, seed=12).requires_grad_()
    torch.compiler.reset()
    compiled = torch.compile(total, backend="aot_eager", fullgraph=True)(samples)
    eager = total(samples)
    torch.testing.assert_close(compiled, eager)
    torch.testing.assert_close(torch.autograd.grad(compiled, samples), torch.autograd.grad(eager, samples))


@every_family
@pytest.mark.parametrize("solver", [None, NewtonBisection(iterations=12)], ids=["default", "newton"])
def test_autocast_solves_in_float32(family: Family, solver: NewtonBisection | None) -> None:
    setting = Setting(family, family.parameters[0])
    samples, cost = setting.members(torch.bfloat16, seed=13), setting.cost(torch.float32)
    expected = optimal_action(cost, samples.float(), solver)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        action = optimal_action(cost, samples, solver)
    assert action.dtype == torch.float32
    assert torch.equal(action, expected)


@every_setting
def test_large_magnitudes_stay_finite(setting: Setting) -> None:
    for dtype, scale in itertools.product(TOLERANCE, (1e4, 1e8)):
        samples = (setting.members(dtype, seed=14) * scale).requires_grad_()
        cost = setting.cost(dtype)
        action = optimal_action(cost, samples)
        assert action.isfinite().all()
        assert ((action >= cost.lower) & (action <= cost.upper)).all()
        assert_near(action[:, 0], setting.oracle(samples), dtype)
        if action.requires_grad:
            (gradient,) = torch.autograd.grad(action.sum(), samples, allow_unused=True, materialize_grads=True)
            assert gradient.isfinite().all()


@pytest.mark.parametrize("make", [NewsvendorCost, ImbalanceCost])
@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1e5), (49_990.0, 50_010.0)])
def test_physical_units_keep_their_digits(make: Callable[..., Cost], lower: float, upper: float) -> None:
    cost = make(10.0, 1.0, lower, upper)
    samples = 50_000 + torch.randn(8, 50, 1, generator=torch.Generator().manual_seed(15))
    solution = solve_action(cost, samples)
    exact = optimal_action(cost, samples.double())
    torch.testing.assert_close(solution.action.double(), exact, rtol=0.0, atol=0.004)
    assert solution.converged.all()


@every_setting
def test_empty_batch(setting: Setting) -> None:
    if isinstance(setting.parameter, tuple):
        pytest.skip("a tensor of parameters has the batch shape")
    assert optimal_action(setting.cost(DOUBLE), setting.members(DOUBLE)[:0]).shape == (0, 1)


@every_setting
def test_nan_members_are_never_converged(setting: Setting) -> None:
    samples = setting.members(DOUBLE, seed=16)
    samples[1, 3] = math.nan
    solution = solve_action(setting.cost(DOUBLE), samples, check=False)
    assert solution.converged.tolist() == [True, False, True, True, True, True]
