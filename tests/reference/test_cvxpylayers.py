"""The wind layer against cvxpylayers, which knows nothing of sorting, prefix sums or closed forms."""

from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import NewtonBisection, PowerCurve, ShortfallCost, WindDispatchCost, optimal_action

pytestmark = pytest.mark.filterwarnings(  # raised inside the solvers behind cvxpylayers
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"
)

MEMBERS, CASES = 10, 20
ACTION_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4


@pytest.fixture(scope="module", params=[5.0, 20.0])
def penalty(request: pytest.FixtureRequest) -> float:
    return request.param


@pytest.fixture(scope="module")
def layer(penalty: float) -> Any:
    """minimise -a + penalty mean(s^2) subject to s >= a - p, s >= 0, 0 <= a <= 1."""
    import cvxpy  # here, since it takes a second
    from cvxpylayers.torch import CvxpyLayer

    power, action = cvxpy.Parameter(MEMBERS), cvxpy.Variable(1)
    missing = cvxpy.Variable(MEMBERS, nonneg=True)
    expected_cost = -cvxpy.sum(action) + penalty / MEMBERS * cvxpy.sum_squares(missing)
    bounds = [missing >= action - power, action >= ShortfallCost.lower, action <= ShortfallCost.upper]
    return CvxpyLayer(cvxpy.Problem(cvxpy.Minimize(expected_cost), bounds), parameters=[power], variables=[action])


def solve(layer: Any, power: Tensor) -> Tensor:
    return layer(power, solver_args={"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 100_000})[0]


def members(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 10 + 4 * torch.randn(CASES, MEMBERS, 1, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("solver", [None, NewtonBisection()], ids=["closed_form", "newton"])
def test_shortfall_action_and_gradient(layer: Any, penalty: float, solver: NewtonBisection | None) -> None:
    power = PowerCurve()(members(1)).requires_grad_()
    action, reference = optimal_action(ShortfallCost(penalty), power, solver), solve(layer, power[..., 0])
    torch.testing.assert_close(action, reference, rtol=0.0, atol=ACTION_TOLERANCE)
    assert_same_gradients(action, reference, power)


def test_wind_action_and_gradient(layer: Any, penalty: float) -> None:
    speed, cost = members(2).requires_grad_(), WindDispatchCost(penalty)
    action, reference = optimal_action(cost, speed), solve(layer, cost.power_curve(speed)[..., 0])
    torch.testing.assert_close(action, reference, rtol=0.0, atol=ACTION_TOLERANCE)
    assert_same_gradients(action, reference, speed)


def assert_same_gradients(action: Tensor, reference: Tensor, inputs: Tensor) -> None:
    weights = torch.linspace(1, 2, len(action), dtype=torch.float64)[:, None]
    (found,) = torch.autograd.grad((weights * action).sum(), inputs)
    (expected,) = torch.autograd.grad((weights * reference).sum(), inputs)
    assert found.abs().sum() > 0
    torch.testing.assert_close(found, expected, rtol=0.0, atol=GRADIENT_TOLERANCE)
