"""The minimum of convex functions within limits: by hand, against projections, and where nothing is convex."""

import pytest
import torch
from torch import Tensor

from stakes.argument_checks import unwatched
from stakes.errors import SettingError
from stakes.programs.convex_actions import BarrierNewton, BarrierSystem, LinearLimits

BOX = torch.cat([torch.eye(2), -torch.eye(2)]).double()
CENTRES = torch.tensor([[0.2, 0.3], [3.0, 0.4], [3.0, -5.0]], dtype=torch.float64)
WIDTH = torch.ones(3, 2, dtype=torch.float64)


def limits(equation: bool = False) -> LinearLimits:
    """The unit square, or the part of it where both are alike."""
    allowed = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64).expand(3, -1)
    rows = torch.tensor([[1.0, -1.0]], dtype=torch.float64) if equation else BOX[:0]
    return LinearLimits(BOX, allowed, rows, torch.zeros(3, len(rows), dtype=torch.float64), torch.ones_like(allowed))


def squares(x: Tensor) -> Tensor:
    return (x - CENTRES).square().sum(-1)


def test_squares_are_projected() -> None:
    found = BarrierNewton()(squares, limits(), 0.5 * WIDTH, WIDTH)
    torch.testing.assert_close(found.x, CENTRES.clamp(0, 1), rtol=0.0, atol=1e-6)
    assert float(found.error.max()) < 1e-12
    pushed = 2 * (CENTRES - CENTRES.clamp(0, 1))  # what a bound pays for
    torch.testing.assert_close(found.price[:, :2] - found.price[:, 2:], pushed, rtol=0.0, atol=1e-6)


def test_equations_hold() -> None:
    found = BarrierNewton()(squares, limits(equation=True), 0.5 * WIDTH, WIDTH)
    means = CENTRES.mean(-1, keepdim=True).clamp(0, 1).expand(-1, 2)
    torch.testing.assert_close(found.x, means, rtol=0.0, atol=1e-6)


def test_a_case_does_not_depend_on_the_others_nor_on_who_looks() -> None:
    together = BarrierNewton()(squares, limits(), 0.5 * WIDTH, WIDTH).x
    alone = BarrierNewton()(
        lambda x: (x - CENTRES[1]).square().sum(-1), LinearLimits(*(
            part if part.dim() == 2 and part.shape[0] != 3 else part[1] for part in limits()
        )), 0.5 * WIDTH[1], WIDTH[1]
    )  # fmt: skip
    torch.testing.assert_close(alone.x, together[1], rtol=0.0, atol=1e-14)
    with unwatched():
        blind = BarrierNewton(iterations=15)(squares, limits(), 0.5 * WIDTH, WIDTH)
    torch.testing.assert_close(blind.x, together, rtol=0.0, atol=1e-12)


def test_a_hill_leads_to_a_corner() -> None:
    found = BarrierNewton(iterations=10)(lambda x: -squares(x), limits(), 0.5 * WIDTH, WIDTH)
    torch.testing.assert_close(found.x, found.x.round(), rtol=0.0, atol=1e-9)


def test_the_linear_system() -> None:
    hessian = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64).expand(3, 2, 2)
    ratio = torch.rand(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own = limits(equation=True)
    x, nu = BarrierSystem(hessian, ratio, own).solve(CENTRES, own.e + 0.3)
    matrix = hessian + BOX.mT @ (ratio[..., None] * BOX)
    torch.testing.assert_close((matrix @ x[..., None])[..., 0] + nu @ own.E, CENTRES)
    torch.testing.assert_close(x @ own.E.mT, own.e + 0.3)


def test_wrong_settings() -> None:
    with pytest.raises(SettingError, match="tolerance"):
        BarrierNewton(tolerance=0.0)
    with pytest.raises(SettingError, match="iterations"):
        BarrierNewton(iterations=0)
