"""The power curve: its formula, its shape and what it refuses."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stakes import PowerCurve
from stakes.errors import CostError

DOUBLE = torch.float64


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_power_curve_formula() -> None:
    curve = PowerCurve()
    hub = 7.0 * 10**0.143
    expected = sigmoid(0.8 * (hub - 9)) * sigmoid(-2 * (hub - 22))
    assert curve(torch.tensor(7.0, dtype=DOUBLE)).item() == pytest.approx(expected, rel=1e-14)


def test_power_curve_has_ramp_plateau_and_cutoff() -> None:
    curve = PowerCurve(shear=0.0)
    ramp = curve(torch.linspace(0, 15, 100, dtype=DOUBLE))
    plateau = curve(torch.linspace(15, 19, 50, dtype=DOUBLE))
    cutoff = curve(torch.linspace(19, 40, 100, dtype=DOUBLE))
    assert (ramp.diff() > 0).all()
    assert ramp[0] < 1e-3
    assert (plateau > 0.99).all()
    assert (cutoff.diff() < 0).all()
    assert cutoff[-1] < 1e-12
    assert curve(torch.tensor(9.0)).item() == pytest.approx(0.5, abs=1e-6)
    assert curve(torch.tensor(22.0)).item() == pytest.approx(0.5, abs=1e-4)


def test_power_curve_keeps_the_shape() -> None:
    assert PowerCurve()(torch.rand(2, 3, 4)).shape == (2, 3, 4)


def test_hub_factor() -> None:
    assert PowerCurve().hub_factor == pytest.approx(10**0.143)
    assert PowerCurve(shear=0.0).hub_factor == 1.0
    assert PowerCurve(hub_height=80.0, reference_height=20.0, shear=0.5).hub_factor == pytest.approx(2.0)
    assert PowerCurve(shear=1.0).hub_speed(torch.tensor(3.0)).item() == pytest.approx(30.0)


def test_gradient_keeps_its_digits_where_the_curve_is_all_but_flat() -> None:
    speed = torch.tensor([-40.0, 0.0, 9.0, 16.0, 22.0, 60.0], dtype=DOUBLE, requires_grad=True)
    curve = PowerCurve(shear=0.0)
    (slope,) = torch.autograd.grad(curve(speed).sum(), speed)
    up, down = 0.8 * (speed - 9), -2 * (speed - 22)
    power = torch.sigmoid(up) * torch.sigmoid(down)
    expected = power * (0.8 * torch.sigmoid(-up) - 2 * torch.sigmoid(-down))
    torch.testing.assert_close(slope, expected.detach(), rtol=1e-9, atol=0.0)


NOT_POSITIVE = (0.0, -1.0, math.nan, math.inf)
NOT_FINITE = (math.nan, math.inf, -math.inf)
BAD: list[tuple[str, Callable[[Any], PowerCurve], float]] = [
    *(("ramp_sharpness", lambda bad: PowerCurve(ramp_sharpness=bad), bad) for bad in NOT_POSITIVE),
    *(("cutoff_sharpness", lambda bad: PowerCurve(cutoff_sharpness=bad), bad) for bad in NOT_POSITIVE),
    *(("hub_height", lambda bad: PowerCurve(hub_height=bad), bad) for bad in NOT_POSITIVE),
    *(("reference_height", lambda bad: PowerCurve(reference_height=bad), bad) for bad in NOT_POSITIVE),
    *(("shear", lambda bad: PowerCurve(shear=bad), bad) for bad in NOT_FINITE),
    *(("ramp_speed", lambda bad: PowerCurve(ramp_speed=bad), bad) for bad in (*NOT_FINITE, 22.0, 30.0)),
    *(("cutoff_speed", lambda bad: PowerCurve(cutoff_speed=bad), bad) for bad in (*NOT_FINITE, 9.0, 3.0)),
]


@pytest.mark.parametrize(("field", "make", "bad"), BAD)
def test_bad_parameter_is_named(field: str, make: Callable[[Any], Any], bad: Any) -> None:
    with pytest.raises(CostError, match=rf"\b{field}\b"):
        make(bad)
