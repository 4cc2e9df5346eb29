"""Derivatives of the expected cost, against closed forms, finite differences and torch's own transforms."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stakes.costs.member_weights import all_derivatives, slope_and_curvature, slope_and_hessian, slope_of, with_gradient

DOUBLE = torch.float64

Function = Callable[[Tensor], Tensor]
FUNCTIONS: dict[str, tuple[Function, Function, Function]] = {  # f, f' and f''
    "cubic": (lambda a: a**3 - 2 * a, lambda a: 3 * a**2 - 2, lambda a: 6 * a),
    "exponential": (lambda a: torch.exp(2 * a), lambda a: 2 * torch.exp(2 * a), lambda a: 4 * torch.exp(2 * a)),
    "sine": (torch.sin, torch.cos, lambda a: -torch.sin(a)),
    "squared excess": (lambda a: torch.relu(a) ** 2, lambda a: 2 * torch.relu(a), lambda a: 2 * (a > 0).to(a)),
    "straight": (lambda a: 3 * a + 1, lambda a: torch.full_like(a, 3.0), torch.zeros_like),
    "constant": (lambda a: torch.ones_like(a), torch.zeros_like, torch.zeros_like),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def actions(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))


def expected_cost(action: Tensor, samples: Tensor) -> Tensor:
    """(...) and (..., M, D) to (...): smooth, and without a symmetry that could hide a wrong index."""
    return (torch.exp(0.3 * action[..., None] * samples.sum(-1)) + (action[..., None] - samples[..., 0]) ** 4).mean(-1)


@every_function
def test_slope_and_curvature_equal_finite_differences(name: str) -> None:
    f, action, step = FUNCTIONS[name][0], actions(7), 1e-4
    ahead, here, behind = f(action + step), f(action), f(action - step)
    slope, curvature = slope_and_curvature(f, action)
    torch.testing.assert_close(slope, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(curvature, (ahead - 2 * here + behind) / step**2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["cubic", "constant"])
def test_no_graph_is_left_behind(name: str) -> None:
    f = FUNCTIONS[name][0]
    action = actions(4).requires_grad_()
    results = (slope_of(f, action), *slope_and_curvature(f, action))
    assert not any(each.requires_grad for each in results)
    assert action.grad is None
    with torch.no_grad():
        torch.testing.assert_close(slope_of(f, action), results[0])


def test_all_derivatives_equal_their_formulas() -> None:
    action, samples = actions(4), actions(4, 6, 2)
    value, slope, curvature, cross = all_derivatives(expected_cost, action, samples)
    total, gap = samples.sum(-1), action[:, None] - samples[..., 0]
    grown = torch.exp(0.3 * action[:, None] * total)
    torch.testing.assert_close(value, (grown + gap**4).mean(-1))
    torch.testing.assert_close(slope, (0.3 * total * grown + 4 * gap**3).mean(-1))
    torch.testing.assert_close(curvature, ((0.3 * total) ** 2 * grown + 12 * gap**2).mean(-1))
    both_sites = (0.3 + 0.09 * action[:, None] * total) * grown / 6
    torch.testing.assert_close(cross, torch.stack([both_sites - 12 * gap**2 / 6, both_sites], -1))


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
def test_all_derivatives_are_the_same_under_vmap(in_dims: tuple[int | None, int | None]) -> None:
    action, samples = actions(3, 2), actions(3, 2, 4, 1)
    given = tuple(each if place == 0 else each[0] for each, place in zip((action, samples), in_dims, strict=True))
    together = torch.func.vmap(lambda a, y: all_derivatives(expected_cost, a, y), in_dims)(*given)
    whole = tuple(
        each if place == 0 else each.expand_as(full)
        for each, full, place in zip(given, (action, samples), in_dims, strict=True)
    )
    torch.testing.assert_close(together, all_derivatives(expected_cost, *whole))


def test_what_f_does_not_depend_on_has_derivative_zero() -> None:
    action, samples = actions(3), actions(3, 4, 2)
    _, slope, curvature, cross = all_derivatives(lambda a, y: y.mean((-2, -1)), action, samples)
    for derivative in (slope, curvature, cross):
        assert torch.equal(derivative, torch.zeros_like(derivative))
    _, slope, curvature, cross = all_derivatives(lambda a, y: a**2, action, samples)
    torch.testing.assert_close((slope, curvature), (2 * action, torch.full_like(action, 2.0)))
    assert torch.equal(cross, torch.zeros_like(samples))


# -- a gradient that is stated


def test_value_is_kept_and_the_jacobian_is_the_gradient() -> None:
    members, jacobian = actions(3, 4, 2).requires_grad_(), actions(3, 4, 2).flip(0)
    value = actions(3)
    result = with_gradient(value, members, jacobian)
    assert torch.equal(result, value)
    pull = actions(3).flip(0)
    (gradient,) = torch.autograd.grad((pull * result).sum(), members)
    torch.testing.assert_close(gradient, pull[:, None, None] * jacobian)


def test_slope_and_hessian_of_many_parts() -> None:
    matrix = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    action = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]], dtype=torch.float64)

    def f(a: Tensor) -> Tensor:
        return 0.5 * (a @ matrix * a).sum(-1) + a[..., 0] ** 3

    slope, hessian = slope_and_hessian(f, action)
    cubed = torch.stack([action[:, 0], torch.zeros(3, dtype=torch.float64)], -1)
    torch.testing.assert_close(slope, action @ matrix + 3 * cubed**2)
    torch.testing.assert_close(hessian, matrix + torch.diag_embed(6 * cubed))
