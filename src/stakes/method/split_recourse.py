"""A recourse that falls apart into groups of rows and parts with nothing in common, such as those of each outcome.

The S of a member (`stakes.method.member_blocks`) falls apart with it. Groups of a few rows are factorised entry by
entry, all cases, members and groups of one shape at once: LAPACK would be called for every small matrix by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, Self

import torch
from torch import Tensor

from stakes.method.member_blocks import RIDGE, MemberBlocks, Recourse

__all__ = ["RowGroups", "SplitBlocks", "SplitRecourse", "split"]

_FEW = 8  # rows of a group that is factorised entry by entry


class RowGroups(NamedTuple):
    """Groups of one shape, r rows and z parts each; a single one where it has many rows.

    Attributes:
        W: What the recourse does in each, (n, r, z).
        rows: Which rows of the recourse they have, (n r,), group after group.
        parts: Which of its parts, (n z,).
    """

    W: Tensor
    rows: Tensor
    parts: Tensor


def split(recourse: Recourse) -> Recourse:
    """The recourse in groups, where it falls apart and its numbers may be looked at; else as it is.

    Args:
        recourse: Any recourse.
    """
    if recourse.W.dim() == 1 or recourse.Q.dim() == 2 or recourse.W.device.type != "cpu":
        return recourse
    groups = sorted(_groups(recourse.W), key=_shape)
    if len(groups) <= 1:
        return recourse
    alike = (list(same) for _, same in groupby(groups, key=_shape))
    bundles = (chunk for same in alike for chunk in ([same] if _shape(same[0])[0] <= _FEW else [[one] for one in same]))
    joined = (RowGroups(*(torch.cat(each) for each in zip(*chunk, strict=True))) for chunk in bundles)
    return SplitRecourse(recourse.Q, recourse.W, recourse.T, tuple(joined))


def _groups(W: Tensor) -> list[RowGroups]:  # noqa: N803
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
        groups.append(RowGroups(W[rows][:, parts][None], rows, parts))
    return groups


def _shape(groups: RowGroups) -> tuple[int, int]:
    return len(groups.rows), len(groups.parts)


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
        self.pieces = [self._piece(group, recourse, curvature, z_ratio, v_ratio) for group in self.groups]

    def solve(self, rows: Tensor) -> Tensor:
        """S^-1 times one number a row, (B, M, R).

        Args:
            rows: (B, M, R).
        """
        solved = [
            piece.solve(rows.index_select(-1, group.rows))
            for piece, group in zip(self.pieces, self.groups, strict=True)
        ]
        return torch.cat(solved, -1).index_select(-1, self.place)

    def on_actions(self, weights: Tensor) -> Tensor:
        """What the members add to the curvature of the action, sum_m w_m T' S^-1 T, (B, A, A).

        Args:
            weights: w, what each member weighs, (B, M).
        """
        return torch.stack([piece.on_actions(weights) for piece in self.pieces]).sum(0)

    def _piece(
        self, group: RowGroups, recourse: Recourse, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor
    ) -> "MemberBlocks | _SmallGroups":
        T, own = recourse.T[group.rows], v_ratio.index_select(-1, group.rows)  # noqa: N806
        if group.W.shape[1] <= _FEW:
            return _SmallGroups(group.W, T, self._theta.index_select(-1, group.parts), own)
        return Recourse(recourse.Q[group.parts], group.W[0], T).blocks(
            curvature, z_ratio.index_select(-1, group.parts), own
        )


class _SmallGroups:
    """S of n groups of r rows, as L diag(pivots) L' with ones on the diagonal of L; each entry is a tensor (n, B M)."""

    def __init__(self, W: Tensor, T: Tensor, theta: Tensor, v_ratio: Tensor) -> None:  # noqa: N803
        self.T, self.shape = T, W.shape[:2]  # (n r, A), n and r
        first, second = torch.tril_indices(self.shape[1], self.shape[1], device=W.device)
        entries = (W[:, first] * W[:, second]) @ _by_group(theta, W.shape[::2])  # (n, r (r + 1) / 2, B M)
        each, room = iter(entries.unbind(1)), _by_group(v_ratio, self.shape).unbind(1)
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
        """S^-1 times one number a row, (B, M, n r)."""
        x = self._solved(_by_group(rows, self.shape).unbind(1))
        return torch.stack(x, 1).reshape(rows.shape[-1], -1).mT.reshape(rows.shape)

    def on_actions(self, weights: Tensor) -> Tensor:
        """Sum_m w_m T' S^-1 T, (B, A, A): the inverses are summed before T has a part in it."""
        count, size = self.shape
        none = torch.zeros_like(self.pivots[0])
        inverse = [[none] * size for _ in range(size)]  # (n, B) each, when all are summed
        for j in range(size):
            for i, each in enumerate(self._solved([none + 1, *[none] * (size - 1 - j)]), j):
                inverse[i][j] = inverse[j][i] = (weights * each.reshape(count, *weights.shape)).sum(-1)
        summed = torch.stack([torch.stack(row, -1) for row in inverse], -2).movedim(1, 0)  # (B, n, r, r)
        T = self.T.reshape(count, size, self.T.shape[1])  # noqa: N806
        return self.T.mT @ (summed @ T).reshape(len(weights), *self.T.shape)

    def _solved(self, asked: Sequence[Tensor]) -> list[Tensor]:
        """The last parts of S^-1 times numbers of as many last rows, where the rows before are asked for nothing."""
        first, x = self.shape[1] - len(asked), list[Tensor]()
        for i, own in enumerate(asked, first):
            x.append(_less(own, self.lower[i][first:], x))
        for i in reversed(range(len(x))):
            column = [self.lower[first + k][first + i] for k in range(i + 1, len(x))]
            x[i] = _less(x[i] / self.pivots[first + i], column, x[i + 1 :])
        return x


def _by_group(values: Tensor, shape: torch.Size) -> Tensor:
    """Values (B, M, n size) of n groups, (n, size, B M)."""
    cases = values.shape[:-1].numel()
    return values.reshape(cases, shape.numel()).mT.reshape(*shape, cases)


def _less(start: Tensor, ones: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
    """What is left when the products of both are taken away."""
    for one, other in zip(ones, others, strict=True):
        start = torch.addcmul(start, one, other, value=-1.0)
    return start
