"""The row of a charge: products and blocks against the same with all matrices in full."""

import pytest
import torch
from torch import Tensor

from stakes.programs.recourse import ChargedBlocks, ChargedRecourse, Recourse

CASES, MEMBERS, ROWS, PARTS = 2, 4, 3, 2


def positive(*shape: int, seed: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def wide(values: Tensor) -> Tensor:
    return values.expand(CASES, MEMBERS, *values.shape[-2:])


@pytest.fixture(params=[(False, False), (False, True), (True, False), (True, True)])
def recourse(request: pytest.FixtureRequest) -> ChargedRecourse:
    """With W diagonal or in full, and prices and slopes of all members or of each."""
    full, each = request.param
    reach = positive(ROWS, ROWS, seed=1) if full else positive(ROWS, seed=1)
    own = MEMBERS if each else 1
    alone = Recourse(torch.zeros(ROWS, dtype=torch.float64), reach, positive(ROWS, PARTS, seed=2))
    return ChargedRecourse(alone, positive(CASES, own, ROWS, seed=3), positive(CASES, own, PARTS, seed=4))


def matrices(recourse: ChargedRecourse) -> tuple[Tensor, Tensor]:
    """W and T of every member with the last row, (B, M, R + 1, Z + 1) and (B, M, R + 1, A + 1)."""
    alone = recourse.alone
    reach = wide(torch.diag(alone.W) if alone.W.dim() == 1 else alone.W)
    nothing = torch.zeros(CASES, MEMBERS, ROWS, 1, dtype=torch.float64)
    one = torch.ones(CASES, MEMBERS, 1, 1, dtype=torch.float64)
    prices, slopes = (each.expand(CASES, MEMBERS, -1)[:, :, None] for each in (recourse.prices, recourse.slopes))
    first = torch.cat([torch.cat([reach, nothing], -1), torch.cat([-prices, one], -1)], -2)
    return first, torch.cat([torch.cat([wide(alone.T), nothing], -1), torch.cat([-slopes, one], -1)], -2)


def test_products_are_those_of_the_matrices(recourse: ChargedRecourse) -> None:
    reach, moves = matrices(recourse)
    rows, action = positive(CASES, MEMBERS, ROWS + 1, seed=5), positive(CASES, PARTS + 1, seed=6)
    weights = positive(CASES, MEMBERS, seed=7)
    torch.testing.assert_close(recourse.reached(rows), (reach @ rows[..., None])[..., 0])
    torch.testing.assert_close(recourse.priced(rows), (reach.mT @ rows[..., None])[..., 0])
    torch.testing.assert_close(
        recourse.moved(action).expand(-1, MEMBERS, -1), (moves @ action[:, None, :, None])[..., 0]
    )
    pulled = (weights[..., None] * (moves.mT @ rows[..., None])[..., 0]).sum(1)
    torch.testing.assert_close(recourse.pull(weights, rows), pulled)
    assert (recourse.rows, recourse.parts) == (ROWS + 1, ROWS + 1)
    assert float(recourse.curved(rows).abs().max()) == 0.0


def test_blocks_are_those_of_their_formulas(recourse: ChargedRecourse) -> None:
    reach, moves = matrices(recourse)
    z, v = positive(CASES, MEMBERS, ROWS + 1, seed=8), positive(CASES, MEMBERS, ROWS + 1, seed=9)
    blocks = recourse.blocks(torch.ones(CASES, 1, 1, dtype=torch.float64), z, v)
    assert isinstance(blocks, ChargedBlocks)
    s = torch.diag_embed(v) + reach @ torch.diag_embed(1 / z) @ reach.mT
    rows, weights = positive(CASES, MEMBERS, ROWS + 1, seed=10), positive(CASES, MEMBERS, seed=11)
    torch.testing.assert_close(blocks.theta(rows), rows / z)
    torch.testing.assert_close(blocks.solve(rows), torch.linalg.solve(s, rows[..., None])[..., 0])
    whole = (weights[..., None, None] * (moves.mT @ torch.linalg.solve(s, moves))).sum(1)
    torch.testing.assert_close(blocks.on_actions(weights), whole)


def test_some_of_the_cases(recourse: ChargedRecourse) -> None:
    rows = positive(CASES, MEMBERS, ROWS + 1, seed=12)
    second = recourse.chosen(torch.tensor([1]))
    assert torch.equal(second.reached(rows[1:]), recourse.reached(rows)[1:])
