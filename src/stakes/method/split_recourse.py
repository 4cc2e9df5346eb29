"""A recourse that falls apart into groups of rows and parts with nothing in common, such as those of each outcome.

The S of a member (`stakes.method.member_blocks`) falls apart with it. It is factorised entry by entry, all cases,
members and groups of one shape at once: LAPACK would be called for every small matrix by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, Self

import torch
from torch import Tensor

from stakes.method.member_blocks import RIDGE, MemberBlocks, Recourse

__all__ = ["RowGroups", "SplitBlocks", "SplitRecourse", "split"]

_RANK = 1e-12  # a singular value that small, beside the largest, is rounding
_FEW = 12  # rows of a group at most: entry by entry, larger ones would take too many operations


class RowGroups(NamedTuple):
    """Groups of one shape, r rows and z parts each, in which an action can do k different things.

    Attributes:
        W: What the recourse does in each, (n, r, z).
        rows: Which rows of the recourse they have, (n r,), group after group.
        parts: Which of its parts, (n z,).
        moves: What these k things do in the rows, (n, r, k).
        ways: How much an action does of each, (n, k, A): T of the group is moves times ways.
    """

    W: Tensor
    rows: Tensor
    parts: Tensor
    moves: Tensor
    ways: Tensor


def split(recourse: Recourse) -> Recourse:
    """The recourse in groups, where it falls apart into small ones and its numbers may be looked at; else as it is.

    Args:
        recourse: Any recourse.
    """
    if recourse.W.dim() == 1 or recourse.Q.dim() == 2 or recourse.W.device.type != "cpu":
        return recourse
    groups = sorted(_groups(recourse.W, recourse.T), key=_shape)
    if len(groups) <= 1 or len(groups[-1].rows) > _FEW:
        return recourse
    alike = (zip(*same, strict=True) for _, same in groupby(groups, key=_shape))
    joined = tuple(RowGroups(*map(torch.cat, same)) for same in alike)
    return SplitRecourse(recourse.Q, recourse.W, recourse.T, joined)


def _groups(W: Tensor, T: Tensor) -> list[RowGroups]:  # noqa: N803
    """The groups one by one: rows that share a part, or one with a row that does, and so on."""
    does = (W != 0).to(W.dtype)
    linked = ((does @ does.mT) > 0) | torch.eye(len(W), dtype=torch.bool)
    for _ in range(len(W).bit_length()):  # each time twice as far
        linked = linked.to(W.dtype) @ linked.to(W.dtype) > 0
    first = linked.int().argmax(1)  # row of the group that each belongs to
    groups = []
    for one in first.unique():
        rows = (first == one).nonzero()[:, 0]
        parts = does[rows].any(0).nonzero()[:, 0]
        groups.append(RowGroups(W[rows][:, parts][None], rows, parts, *_factors(T[rows])))
    return groups


def _factors(T: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
    """Matrices (1, r, k) and (1, k, A) whose product T (r, A) is, with k its rank."""
    left, sizes, right = torch.linalg.svd(T, full_matrices=False)
    rank = int((sizes > _RANK * sizes.amax()).sum()) if len(sizes) else 0
    return (left * sizes)[None, :, :rank], right[None, :rank]


def _shape(groups: RowGroups) -> tuple[int, ...]:
    return len(groups.rows), len(groups.parts), groups.moves.shape[-1]


@dataclass(frozen=True, eq=False)
class SplitRecourse(Recourse):
    """A recourse in groups; Q is diagonal.

    Attributes:
        Q: The curvature of the recourse, (Z,).
        W: What the recourse does, (R, Z).
        T: What the action does, (R, A).
        groups: All rows of W, and all parts that do anything in them, once each.
    """

    groups: tuple[RowGroups, ...]

    @property
    def factor_size(self) -> int:
        """How many numbers the factors of a member have, with what they are made from."""
        return sum(4 * len(group.rows) * sum(group.W.shape[1:]) for group in self.groups)

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "SplitBlocks":
        """What of the members enters the linear system of a step.

        Args:
            curvature: By what Q is multiplied in each case, (B, 1, 1).
            z_ratio: zeta / z, (B, M, Z).
            v_ratio: v / mu, (B, M, R).
        """
        return SplitBlocks(self, curvature, z_ratio, v_ratio)

    @property
    def idle(self) -> Self:
        """The same beside an action of one part that does nothing."""
        groups = tuple(group._replace(moves=group.moves[..., :0], ways=group.ways[:, :0, :1]) for group in self.groups)
        return replace(super().idle, groups=groups)

    def to(self, device: torch.device | None) -> Self:
        """The same with its numbers elsewhere.

        Args:
            device: Where; None for where they are.
        """
        groups = tuple(RowGroups(*(each.to(device) for each in group)) for group in self.groups)
        return replace(super().to(device), groups=groups)


class SplitBlocks(MemberBlocks):
    """Theta and S of all members at one iterate, S by its groups.

    Args:
        recourse: The matrices that members share.
        curvature: By what Q is multiplied in each case, (B, 1, 1).
        z_ratio: zeta / z, (B, M, Z).
        v_ratio: v / mu, (B, M, R).
    """

    def __init__(self, recourse: SplitRecourse, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> None:
        self.recourse = recourse
        self._theta = 1 / (curvature * recourse.Q + z_ratio)
        self.groups = recourse.groups
        self.place = torch.cat([group.rows for group in self.groups]).argsort()
        theta, ratio = _in_rows(self._theta), _in_rows(v_ratio)
        self.pieces = [
            _Factors(group.W, theta.index_select(0, group.parts), ratio.index_select(0, group.rows))
            for group in self.groups
        ]

    def solve(self, rows: Tensor) -> Tensor:
        """S^-1 times one number a row, (B, M, R).

        Args:
            rows: (B, M, R).
        """
        asked = _in_rows(rows)
        solved = [
            piece.solve(asked.index_select(0, group.rows))
            for piece, group in zip(self.pieces, self.groups, strict=True)
        ]
        return torch.cat(solved).index_select(0, self.place).mT.reshape(rows.shape)

    def on_actions(self, weights: Tensor) -> Tensor:
        """What the members add to the curvature of the action, sum_m w_m T' S^-1 T, (B, A, A).

        Args:
            weights: w, what each member weighs, (B, M).
        """
        each = []
        for piece, group in zip(self.pieces, self.groups, strict=True):
            through = piece.curvature(group.moves, weights) @ group.ways  # (B, n, k, A)
            each.append(group.ways.flatten(0, 1).mT @ through.flatten(1, 2))
        return torch.stack(each).sum(0)


class _Factors:
    """S of n groups of r rows, as L diag(pivots) L' with ones on the diagonal of L; each entry is a tensor (n, B M)."""

    def __init__(self, W: Tensor, theta: Tensor, v_ratio: Tensor) -> None:  # noqa: N803
        self.shape = W.shape[:2]  # n and r
        first, second = torch.tril_indices(self.shape[1], self.shape[1], device=W.device)
        entries = (W[:, first] * W[:, second]) @ theta.reshape(*W.shape[::2], theta.shape[1])
        each, room = iter(entries.unbind(1)), v_ratio.reshape(*self.shape, v_ratio.shape[1]).unbind(1)
        self.lower: list[list[Tensor]] = []
        self.pivots: list[Tensor] = []
        for i, left in enumerate(room):
            row: list[Tensor] = []  # of L, times the pivots
            for j in range(i):
                row.append(_less(next(each), row[:j], self.lower[j]))
            own = (next(each) + left) * (1 + RIDGE)
            self.lower.append([entry / pivot for entry, pivot in zip(row, self.pivots, strict=True)])
            self.pivots.append(_less(own, row, self.lower[i]))

    def solve(self, rows: Tensor) -> Tensor:
        """S^-1 times one number a row, (n r, B M)."""
        x = self._forward(rows.reshape(*self.shape, rows.shape[1]).unbind(1))
        for i in reversed(range(len(x))):
            column = [row[i] for row in self.lower[i + 1 :]]
            x[i] = _less(x[i] / self.pivots[i], column, x[i + 1 :])
        return torch.stack(x, 1).reshape(rows.shape)

    def curvature(self, moves: Tensor, weights: Tensor) -> Tensor:
        """Sum_m w_m moves' S^-1 moves, (B, n, k, k), as a sum of squares: opposite rows do not cancel digits.

        Args:
            moves: (n, r, k).
            weights: (B, M).
        """
        columns = [self._forward([each[:, None] for each in column.unbind(1)]) for column in moves.unbind(-1)]
        shares = [weights.flatten() / pivot for pivot in self.pivots]
        rows = [
            [_product(one, other, shares).reshape(len(moves), *weights.shape).sum(-1) for other in columns]
            for one in columns
        ]
        empty = moves.new_zeros(len(weights), *moves.shape[::2], moves.shape[2])
        return torch.stack([torch.stack(row, -1) for row in rows], -2).movedim(1, 0) if rows else empty

    def _forward(self, asked: Sequence[Tensor]) -> list[Tensor]:
        """L^-1 times one number a row."""
        x: list[Tensor] = []
        for own, row in zip(asked, self.lower, strict=True):
            x.append(_less(own, row, x))
        return x


def _in_rows(values: Tensor) -> Tensor:
    """Values (B, M, n) of each member, (n, B M)."""
    return values.reshape(values.shape[:-1].numel(), values.shape[-1]).mT


def _product(ones: Sequence[Tensor], others: Sequence[Tensor], shares: Sequence[Tensor]) -> Tensor:
    """The sum of the products of both, each times its share."""
    products = [share * one * other for one, other, share in zip(ones, others, shares, strict=True)]
    return sum(products[1:], products[0])


def _less(start: Tensor, ones: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
    """What is left when the products of both are taken away."""
    for one, other in zip(ones, others, strict=True):
        start = torch.addcmul(start, one, other, value=-1.0)
    return start
