"""Every member's recourse, eliminated from an interior-point step: dense, in groups, or with the row of a CVaR."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

RIDGE = 1e-13  # what keeps a factorisation positive, as a share of the diagonal


@dataclass(frozen=True, eq=False)
class Recourse:
    """The matrices that all members share."""

    Q: Tensor  # the curvature of the recourse, positive semidefinite: (Z,) where it is diagonal, else (Z, Z)
    W: Tensor  # what the recourse does: (R,) where it is diagonal, with R = Z, else (R, Z)
    T: Tensor  # what the action does, (R, A)
    simple: bool = field(init=False)  # whether Q and W are diagonal
    hidden: ClassVar[int] = 0  # how many parts of the action, the last ones, are a charge's and not the decision's

    def __post_init__(self) -> None:
        object.__setattr__(self, "simple", self.W.dim() == 1 and self.Q.dim() == 1)

    @property
    def rows(self) -> int:
        """R, how many limits the recourse has."""
        return self.W.shape[0]

    @property
    def parts(self) -> int:
        """Z, how many parts the recourse has."""
        return self.W.shape[-1]

    @property
    def by_matrices(self) -> "Recourse":
        """The same as any other recourse, for cases in which what is special to it has broken down."""
        return self

    @property
    def loses_digits(self) -> bool:
        """Whether a member's factors may have lost the digits that its small pivots need, so that steps are refined."""
        return not self.simple

    @property
    def factor_size(self) -> int:
        """How many numbers the factors of a member have, with what they are made from."""
        return 0 if self.simple else self.rows * (3 * self.rows + 2 * self.parts + 2 * self.T.shape[1])

    @property
    def idle(self) -> Self:
        """The same beside an action of one part that does nothing."""
        return replace(self, T=torch.zeros_like(self.T[:, :1]))

    def reached(self, z: Tensor) -> Tensor:
        """W z, (..., R)."""
        return z * self.W if self.W.dim() == 1 else z @ self.W.mT

    def priced(self, rows: Tensor) -> Tensor:
        """W' mu, (..., Z)."""
        return rows * self.W if self.W.dim() == 1 else rows @ self.W

    def curved(self, z: Tensor) -> Tensor:
        """Q z, (..., Z)."""
        return z * self.Q if self.Q.dim() == 1 else z @ self.Q

    def moved(self, action: Tensor) -> Tensor:
        """T a, what the action does in the rows of every member, (B, 1, R)."""
        return (action @ self.T.mT)[:, None]

    def pull(self, weights: Tensor, rows: Tensor) -> Tensor:
        """Sum_m w_m T' mu_m, (B, A)."""
        return (weights[:, None] @ rows)[:, 0] @ self.T

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "MemberBlocks":
        """What of the members enters the linear system of a step."""
        return MemberBlocks(self, curvature, z_ratio, v_ratio)

    def to(self, device: torch.device | None) -> Self:
        """The same with its numbers elsewhere."""
        return replace(self, Q=self.Q.to(device), W=self.W.to(device), T=self.T.to(device))

    def chosen(self, places: Tensor | slice) -> Self:
        """The recourse of some of the cases: the same, as all cases share it."""
        return self


class MemberBlocks:
    """Theta and S of all members at one iterate."""

    def __init__(self, recourse: Recourse, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> None:
        self.recourse = recourse
        if recourse.Q.dim() == 1:
            self._theta = 1 / (curvature * recourse.Q + z_ratio)
        else:
            matrix = curvature[..., None] * recourse.Q + torch.diag_embed(z_ratio)
            self._theta = torch.cholesky_inverse(torch.linalg.cholesky_ex(matrix).L)
        if recourse.simple:
            self._inverse = 1 / (v_ratio + recourse.W**2 * self._theta)
            return
        W = recourse.W if recourse.W.dim() == 2 else torch.diag(recourse.W)
        through = self._theta[..., None, :] * W if recourse.Q.dim() == 1 else W @ self._theta  # W Theta, (B, M, R, Z)
        matrix = torch.diag_embed(v_ratio) + through @ W.mT
        size = matrix.diagonal(dim1=-2, dim2=-1)
        self._factor = torch.linalg.cholesky_ex(matrix + torch.diag_embed(RIDGE * size)).L

    def theta(self, z: Tensor) -> Tensor:
        """Theta times the parts of a recourse, (B, M, Z)."""
        return self._theta * z if self.recourse.Q.dim() == 1 else (self._theta @ z[..., None])[..., 0]

    def solve(self, rows: Tensor) -> Tensor:
        """S^-1 times one number a row, (B, M, R)."""
        if self.recourse.simple:
            return self._inverse * rows
        return torch.cholesky_solve(rows[..., None], self._factor)[..., 0]

    def on_actions(self, weights: Tensor) -> Tensor:
        """What the members add to the curvature of the action, sum_m w_m T' S^-1 T, (B, A, A)."""
        T = self.recourse.T
        if self.recourse.simple:
            row = (weights[:, None] @ self._inverse)[:, 0]  # (B, R)
            return T.mT @ (row[..., None] * T)
        solved = torch.cholesky_solve(T.expand(*self._factor.shape[:2], *T.shape), self._factor)  # (B, M, R, A)
        return T.mT @ (weights[..., None, None] * solved).sum(1)


_RANK = 1e-12  # a singular value that small, beside the largest, is rounding
_FEW = 12  # rows of a group at most: entry by entry, larger ones would take too many operations


class RowGroups(NamedTuple):
    """Groups of one shape, r rows and z parts each, in which an action can do k different things."""

    W: Tensor  # what the recourse does in each, (n, r, z)
    rows: Tensor  # which rows of the recourse they have, (n r,), group after group
    parts: Tensor  # which of its parts, (n z,)
    moves: Tensor  # what these k things do in the rows, (n, r, k)
    ways: Tensor  # how much an action does of each, (n, k, A): T of the group is moves times ways


def split(recourse: Recourse) -> Recourse:
    """The recourse in groups, where it falls apart into small ones and its numbers may be looked at; else as it is."""
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
    """A recourse in groups; Q is diagonal."""

    groups: tuple[RowGroups, ...]  # all rows of W, and all parts that do anything in them, once each

    @property
    def factor_size(self) -> int:
        return sum(4 * len(group.rows) * sum(group.W.shape[1:]) for group in self.groups)

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "SplitBlocks":
        return SplitBlocks(self, curvature, z_ratio, v_ratio)

    @property
    def idle(self) -> Self:
        groups = tuple(group._replace(moves=group.moves[..., :0], ways=group.ways[:, :0, :1]) for group in self.groups)
        return replace(super().idle, groups=groups)

    def to(self, device: torch.device | None) -> Self:
        groups = tuple(RowGroups(*(each.to(device) for each in group)) for group in self.groups)
        return replace(super().to(device), groups=groups)


class SplitBlocks(MemberBlocks):
    """Theta and S of all members at one iterate, S by its groups."""

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
        asked = _in_rows(rows)
        solved = [
            piece.solve(asked.index_select(0, group.rows))
            for piece, group in zip(self.pieces, self.groups, strict=True)
        ]
        return torch.cat(solved).index_select(0, self.place).mT.reshape(rows.shape)

    def on_actions(self, weights: Tensor) -> Tensor:
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
        """Sum_m w_m moves' S^-1 moves, (B, n, k, k), as a sum of squares: opposite rows do not cancel digits."""
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


@dataclass(frozen=True, eq=False)
class ChargedRecourse:
    """A linear recourse with its charge; it answers as every `stakes.programs.recourse.Recourse` does."""

    alone: Recourse  # the recourse without the charge; its Q is zero
    prices: Tensor  # q, what the recourse costs, (B, 1 or M, Z), over the unit of the charge
    slopes: Tensor  # s, what the action costs by the outcome, (B, 1 or M, A), over that unit
    hidden: ClassVar[int] = 1  # the threshold
    loses_digits: ClassVar[bool] = True

    @property
    def Q(self) -> Tensor:  # noqa: N802 as of every recourse
        return self.alone.Q

    @property
    def by_matrices(self) -> "ChargedRecourse":
        return replace(self, alone=self.alone.by_matrices)

    @property
    def factor_size(self) -> int:
        return self.alone.factor_size + 3 * (self.alone.rows + self.slopes.shape[-1])

    @property
    def rows(self) -> int:
        return self.alone.rows + 1

    @property
    def parts(self) -> int:
        return self.alone.parts + 1

    def reached(self, z: Tensor) -> Tensor:
        own, charge = z[..., :-1], z[..., -1:]
        return torch.cat([self.alone.reached(own), charge - (self.prices * own).sum(-1, keepdim=True)], -1)

    def priced(self, rows: Tensor) -> Tensor:
        own, charge = rows[..., :-1], rows[..., -1:]
        return torch.cat([self.alone.priced(own) - self.prices * charge, charge], -1)

    def curved(self, z: Tensor) -> Tensor:
        return torch.zeros_like(z)

    def moved(self, action: Tensor) -> Tensor:
        own = action[:, None, :-1]
        last = action[:, None, -1:] - (self.slopes * own).sum(-1, keepdim=True)
        return torch.cat([(own @ self.alone.T.mT).expand(*last.shape[:2], -1), last], -1)

    def pull(self, weights: Tensor, rows: Tensor) -> Tensor:
        charge = weights * rows[..., -1]
        total = charge.sum(-1, keepdim=True)
        by_outcome = (charge[:, None] @ self.slopes)[:, 0] if self.slopes.shape[1] > 1 else total * self.slopes[:, 0]
        return torch.cat([self.alone.pull(weights, rows[..., :-1]) - by_outcome, total], -1)

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "ChargedBlocks":
        return ChargedBlocks(self, curvature, z_ratio, v_ratio)

    def chosen(self, places: Tensor | slice) -> Self:
        return replace(self, prices=self.prices[places], slopes=self.slopes[places])


class ChargedBlocks(MemberBlocks):
    """Theta and the bordered S of all members at one iterate."""

    def __init__(self, recourse: ChargedRecourse, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> None:
        self.charged, self._theta = recourse, 1 / z_ratio
        alone, own = recourse.alone, v_ratio[..., :-1]
        self.inner = alone.blocks(curvature, z_ratio[..., :-1], own)
        through = self._theta[..., :-1] * recourse.prices  # Theta q, (B, M, Z)
        self.border = self.inner.solve(-alone.reached(through))  # y, (B, M, R)
        # q'(Theta - Theta W'S^-1 W Theta) q, without the difference where S is diagonal
        share = own * self.inner.solve(torch.ones_like(own)) if alone.simple else 1.0
        left = (share * through * recourse.prices).sum(-1, keepdim=True)
        if not alone.simple:
            left = left - (self.border * -alone.reached(through)).sum(-1, keepdim=True)
        self.left = v_ratio[..., -1:] + self._theta[..., -1:] + left.clamp(min=0.0)

    def theta(self, z: Tensor) -> Tensor:
        return self._theta * z

    def solve(self, rows: Tensor) -> Tensor:
        own = rows[..., :-1]
        last = (rows[..., -1:] - (self.border * own).sum(-1, keepdim=True)) / self.left
        return torch.cat([self.inner.solve(own) - self.border * last, last], -1)

    def on_actions(self, weights: Tensor) -> Tensor:
        inner = torch.nn.functional.pad(self.inner.on_actions(weights), (0, 1, 0, 1))
        moves = self.border @ self.charged.alone.T + self.charged.slopes
        moves = torch.cat([moves, -torch.ones_like(moves[..., :1])], -1)  # (B, M, A + 1)
        return inner + moves.mT @ (weights[..., None] / self.left * moves)
