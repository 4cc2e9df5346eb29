"""The members' blocks: diagonal ones against the same in full."""

import pytest
import torch
from torch import Tensor

from stakes.programs.recourse import MemberBlocks, Recourse


def positive(*shape: int, seed: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def full(values: Tensor) -> Tensor:
    return torch.diag(values) if values.dim() == 1 else values


@pytest.mark.parametrize("curved", ["diagonal", "full"])
@pytest.mark.parametrize("reach", ["diagonal", "full"])
def test_blocks_are_those_of_their_formulas(curved: str, reach: str) -> None:
    Q, W = positive(3, seed=0), positive(3, seed=1)  # noqa: N806
    Q = Q if curved == "diagonal" else torch.diag(Q) + 0.05  # noqa: N806
    W = W if reach == "diagonal" else positive(3, 3, seed=1)  # noqa: N806
    recourse = Recourse(Q, W, positive(3, 2, seed=2))
    z, v = positive(4, 5, 3, seed=3), positive(4, 5, 3, seed=4)
    curvature = positive(4, 1, 1, seed=5)
    blocks = MemberBlocks(recourse, curvature, z, v)
    theta = torch.linalg.inv(curvature[..., None] * full(Q) + torch.diag_embed(z))
    s = torch.diag_embed(v) + full(W) @ theta @ full(W).mT
    rows, weights = positive(4, 5, 3, seed=6), positive(4, 5, seed=7)
    torch.testing.assert_close(blocks.theta(rows), (theta @ rows[..., None])[..., 0])
    torch.testing.assert_close(blocks.solve(rows), torch.linalg.solve(s, rows[..., None])[..., 0])
    whole = (weights[..., None, None] * (recourse.T.mT @ torch.linalg.solve(s, recourse.T.expand(4, 5, 3, 2)))).sum(1)
    torch.testing.assert_close(blocks.on_actions(weights), whole)
    assert recourse.simple == (curved == reach == "diagonal")
    torch.testing.assert_close(recourse.reached(rows), rows @ full(W).mT)
    torch.testing.assert_close(recourse.priced(rows), rows @ full(W))
    torch.testing.assert_close(recourse.curved(rows), rows @ full(Q))
    torch.testing.assert_close(recourse.moved(rows[:, 0, :2])[:, 0], rows[:, 0, :2] @ recourse.T.mT)
    torch.testing.assert_close(recourse.pull(weights, rows), (weights[..., None] * rows).sum(1) @ recourse.T)
