"""The recourse of every member, eliminated from an interior-point step before the actions are solved for.

With the recourse min 1/2 z'Qz + q'z, W z >= h - T a, z >= 0, its surplus v = W z + T a - h, the price mu of a row and
the price zeta of z >= 0, a step says S dmu = b - T da for every member, where

    Theta = (Q + diag(zeta / z))^-1,   S = diag(v / mu) + W Theta W'.

Simple recourse, W and Q diagonal, has a diagonal S and needs no factorisation; any other is factorised member by
member, in groups of rows where it falls apart into such (`stakes.method.split_recourse`).
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

__all__ = ["RIDGE", "MemberBlocks", "Recourse"]

RIDGE = 1e-13  # what keeps a factorisation positive, as a share of the diagonal


@dataclass(frozen=True, eq=False)
class Recourse:
    """The matrices that all members share.

    Attributes:
        Q: The curvature of the recourse, positive semidefinite: (Z,) where it is diagonal, else (Z, Z).
        W: What the recourse does: (R,) where it is diagonal, with R = Z, else (R, Z).
        T: What the action does, (R, A).
        simple: Whether Q and W are diagonal.
    """

    Q: Tensor
    W: Tensor
    T: Tensor
    simple: bool = field(init=False)
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
        """W z, (..., R).

        Args:
            z: The recourse (..., Z).
        """
        return z * self.W if self.W.dim() == 1 else z @ self.W.mT

    def priced(self, rows: Tensor) -> Tensor:
        """W' mu, (..., Z).

        Args:
            rows: Prices mu of the rows, (..., R).
        """
        return rows * self.W if self.W.dim() == 1 else rows @ self.W

    def curved(self, z: Tensor) -> Tensor:
        """Q z, (..., Z).

        Args:
            z: The recourse (..., Z).
        """
        return z * self.Q if self.Q.dim() == 1 else z @ self.Q

    def moved(self, action: Tensor) -> Tensor:
        """T a, what the action does in the rows of every member, (B, 1, R).

        Args:
            action: The actions (B, A).
        """
        return (action @ self.T.mT)[:, None]

    def pull(self, weights: Tensor, rows: Tensor) -> Tensor:
        """Sum_m w_m T' mu_m, (B, A).

        Args:
            weights: w, what each member weighs, (B, M).
            rows: Prices mu of the rows, (B, M, R).
        """
        return (weights[:, None] @ rows)[:, 0] @ self.T

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "MemberBlocks":
        """What of the members enters the linear system of a step.

        Args:
            curvature: By what Q is multiplied in each case, (B, 1, 1).
            z_ratio: zeta / z, (B, M, Z).
            v_ratio: v / mu, (B, M, R).
        """
        return MemberBlocks(self, curvature, z_ratio, v_ratio)

    def to(self, device: torch.device | None) -> Self:
        """The same with its numbers elsewhere.

        Args:
            device: Where; None for where they are.
        """
        return replace(self, Q=self.Q.to(device), W=self.W.to(device), T=self.T.to(device))

    def chosen(self, places: Tensor | slice) -> Self:
        """The recourse of some of the cases: the same, as all cases share it.

        Args:
            places: Which, (n,) or a slice.
        """
        return self


class MemberBlocks:
    """Theta and S of all members at one iterate.

    Args:
        recourse: The matrices that members share.
        curvature: By what Q is multiplied in each case, (B, 1, 1), as units are scaled.
        z_ratio: zeta / z, (B, M, Z).
        v_ratio: v / mu, (B, M, R).
    """

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
        W = recourse.W if recourse.W.dim() == 2 else torch.diag(recourse.W)  # noqa: N806
        through = self._theta[..., None, :] * W if recourse.Q.dim() == 1 else W @ self._theta  # W Theta, (B, M, R, Z)
        matrix = torch.diag_embed(v_ratio) + through @ W.mT
        size = matrix.diagonal(dim1=-2, dim2=-1)
        self._factor = torch.linalg.cholesky_ex(matrix + torch.diag_embed(RIDGE * size)).L

    def theta(self, z: Tensor) -> Tensor:
        """Theta times the parts of a recourse, (B, M, Z).

        Args:
            z: (B, M, Z).
        """
        return self._theta * z if self.recourse.Q.dim() == 1 else (self._theta @ z[..., None])[..., 0]

    def solve(self, rows: Tensor) -> Tensor:
        """S^-1 times one number a row, (B, M, R).

        Args:
            rows: (B, M, R).
        """
        if self.recourse.simple:
            return self._inverse * rows
        return torch.cholesky_solve(rows[..., None], self._factor)[..., 0]

    def on_actions(self, weights: Tensor) -> Tensor:
        """What the members add to the curvature of the action, sum_m w_m T' S^-1 T, (B, A, A).

        Args:
            weights: w, what each member weighs, (B, M).
        """
        T = self.recourse.T  # noqa: N806
        if self.recourse.simple:
            row = (weights[:, None] @ self._inverse)[:, 0]  # (B, R)
            return T.mT @ (row[..., None] * T)
        solved = torch.cholesky_solve(T.expand(*self._factor.shape[:2], *T.shape), self._factor)  # (B, M, R, A)
        return T.mT @ (weights[..., None, None] * solved).sum(1)
