"""Recourse of members, in blocks and in groups of rows, against the same in full."""

from dataclasses import fields

import pytest
import torch
from core.random_programs import random_programs
from torch import Tensor

import stakes
from stakes.programs.interior_point import InteriorPoint
from stakes.programs.recourse import MemberBlocks, Recourse, SplitRecourse, split


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


SHAPES = [(1, 1), (3, 4), (1, 0), (3, 4), (10, 6), (2, 1), (7, 2), (0, 1)]  # rows and parts of each group


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def recourse() -> Recourse:
    """Groups of many shapes, their rows and parts in any order."""
    blocks = [drawn(*shape, seed=number) for number, shape in enumerate(SHAPES)]
    W = torch.block_diag(*(block.reshape(shape) for block, shape in zip(blocks, SHAPES, strict=True)))  # noqa: N806
    rows, parts = (torch.randperm(size, generator=torch.Generator().manual_seed(size)) for size in W.shape)
    return Recourse(drawn(W.shape[1], seed=20).abs(), W[rows][:, parts], drawn(len(W), 5, seed=21))


@pytest.mark.parametrize("decades", [0.0, 3.0])
def test_blocks_are_those_of_one_piece(recourse: Recourse, decades: float) -> None:
    found, curvature = split(recourse), drawn(2, 1, 1, seed=1).abs()
    z, v = (torch.exp(decades * drawn(2, 3, size, seed=size)) for size in (recourse.parts, recourse.rows))
    blocks, whole = found.blocks(curvature, z, v), MemberBlocks(recourse, curvature, z, v)
    rows, weights = drawn(2, 3, recourse.rows, seed=2), drawn(2, 3, seed=3).abs()
    for ours, theirs in (
        (blocks.solve(rows), whole.solve(rows)),
        (blocks.theta(z), whole.theta(z)),
        (blocks.on_actions(weights), whole.on_actions(weights)),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10 * float(theirs.abs().max()))


def market() -> stakes.Program:
    """For each hour three ways to mend a plan, one of them limited, and one for the whole day."""
    return stakes.Program(
        decide={"plan": stakes.Quantity(cost=1.0, square=0.01)},
        recourse={
            "bought": stakes.Quantity(cost=5.0),
            "urgent": stakes.Quantity(cost=3.0, upper=0.5),
            "spilled": stakes.Quantity(cost=0.3),
            "late": stakes.Quantity(cost=0.2, each=False),
        },
        recourse_constraints={
            "balance": "plan + bought + urgent - spilled = outcome",
            "day": "sum(plan) + late >= sum(outcome)",
        },
        limits={"budget": "sum(plan) <= 12"},
    )


def test_actions_gradients_and_costs_are_those_of_one_piece() -> None:
    program = market().program(4)
    recourse = program.recourse
    assert isinstance(recourse, SplitRecourse)
    whole = stakes.ScenarioProgram(**{each.name: getattr(program, each.name) for each in fields(program)})
    vars(whole)["recourse"] = Recourse(recourse.Q, recourse.W, recourse.T)
    members = 3 + drawn(6, 15, 4, seed=5)
    results = []
    for each in (program, whole):
        moved = members.clone().requires_grad_()
        solved = each.solve(moved, solver=InteriorPoint(), gradient=True)
        assert bool(solved.solution.solved.all())
        (slope,) = torch.autograd.grad((solved.action * drawn(4, seed=6)).sum(), moved)
        paid = each.recourse_cost(solved.action.detach(), members.movedim(1, 0))
        results.append((solved.action, solved.solution.objective, slope, paid))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert bool((results[0][2] != 0).any())


def test_groups_are_kept_where_numbers_may_not_be_looked_at() -> None:
    moved = market().program(4, torch.device("meta")).recourse
    assert isinstance(moved, SplitRecourse)
    assert all(each.device.type == "meta" for group in moved.groups for each in group)
    assert len(moved.groups) == 2


def test_opposite_rows_cancel_no_digits() -> None:
    """A linear program with equations and without bounds, whose inverses would cancel each other."""
    generator, kinds = torch.Generator().manual_seed(1), ("solvable", "infeasible", "unlimited", "unbounded")
    data = [random_programs(generator, kinds[number % 4], 4, in_groups=True) for number in range(23)][-1]
    solution = InteriorPoint().solve(data)
    assert bool(solution.solved.all())
    assert solution.iterations < 30
