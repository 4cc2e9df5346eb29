"""A recourse whose every member has one more row: what its outcome is charged beyond a threshold.

With the recourse z of a member, its prices q and what the action costs by the outcome alone, s, the charge u and the
threshold t are one more part of the recourse and of the action, in units of the action, and the row says

    u + t - q'z - s'a >= k,   u >= 0.

Rows and parts of the recourse without it come first. The row borders the S of a member (`stakes.method.member_blocks`)
by b = -W Theta q and the corner c = v/mu + q'Theta q + theta_u. With y = S^-1 b, elimination leaves c - b'y of the
corner, and the inverse is that of S, plus (y, -1)(y, -1)' over what is left.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from stakes.method.member_blocks import MemberBlocks, Recourse

__all__ = ["ChargedBlocks", "ChargedRecourse"]


@dataclass(frozen=True, eq=False)
class ChargedRecourse:
    """A linear recourse with its charge; it answers as every `stakes.method.member_blocks.Recourse` does.

    Attributes:
        alone: The recourse without the charge; its Q is zero.
        prices: q, what the recourse costs, (B, 1 or M, Z), over the unit of the charge.
        slopes: s, what the action costs by the outcome, (B, 1 or M, A), over that unit.
    """

    alone: Recourse
    prices: Tensor
    slopes: Tensor
    hidden: ClassVar[int] = 1  # the threshold
    loses_digits: ClassVar[bool] = True

    @property
    def Q(self) -> Tensor:  # noqa: N802 as of every recourse
        """No curvature, zeros (Z,)."""
        return self.alone.Q

    @property
    def by_matrices(self) -> "ChargedRecourse":
        """The same with a recourse that has nothing special to it."""
        return replace(self, alone=self.alone.by_matrices)

    @property
    def factor_size(self) -> int:
        """How many numbers the factors of a member have, with what they are made from."""
        return self.alone.factor_size + 3 * (self.alone.rows + self.slopes.shape[-1])

    @property
    def rows(self) -> int:
        """R + 1, how many limits the recourse has."""
        return self.alone.rows + 1

    @property
    def parts(self) -> int:
        """Z + 1, how many parts the recourse has."""
        return self.alone.parts + 1

    def reached(self, z: Tensor) -> Tensor:
        """What the recourse does in the rows, (B, M, R + 1).

        Args:
            z: The recourse (B, M, Z + 1).
        """
        own, charge = z[..., :-1], z[..., -1:]
        return torch.cat([self.alone.reached(own), charge - (self.prices * own).sum(-1, keepdim=True)], -1)

    def priced(self, rows: Tensor) -> Tensor:
        """What the prices of the rows are to the recourse, (B, M, Z + 1).

        Args:
            rows: Prices of the rows, (B, M, R + 1).
        """
        own, charge = rows[..., :-1], rows[..., -1:]
        return torch.cat([self.alone.priced(own) - self.prices * charge, charge], -1)

    def curved(self, z: Tensor) -> Tensor:
        """No curvature, (B, M, Z + 1).

        Args:
            z: The recourse (B, M, Z + 1).
        """
        return torch.zeros_like(z)

    def moved(self, action: Tensor) -> Tensor:
        """What the action does in the rows of every member, (B, 1 or M, R + 1).

        Args:
            action: The actions and their threshold, (B, A + 1).
        """
        own = action[:, None, :-1]
        last = action[:, None, -1:] - (self.slopes * own).sum(-1, keepdim=True)
        return torch.cat([(own @ self.alone.T.mT).expand(*last.shape[:2], -1), last], -1)

    def pull(self, weights: Tensor, rows: Tensor) -> Tensor:
        """What the prices of the rows are to the action, (B, A + 1).

        Args:
            weights: w, what each member weighs, (B, M).
            rows: Prices of the rows, (B, M, R + 1).
        """
        charge = weights * rows[..., -1]
        total = charge.sum(-1, keepdim=True)
        by_outcome = (charge[:, None] @ self.slopes)[:, 0] if self.slopes.shape[1] > 1 else total * self.slopes[:, 0]
        return torch.cat([self.alone.pull(weights, rows[..., :-1]) - by_outcome, total], -1)

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "ChargedBlocks":
        """What of the members enters the linear system of a step.

        Args:
            curvature: By what Q would be multiplied in each case, (B, 1, 1).
            z_ratio: zeta / z, (B, M, Z + 1).
            v_ratio: v / mu, (B, M, R + 1).
        """
        return ChargedBlocks(self, curvature, z_ratio, v_ratio)

    def chosen(self, places: Tensor | slice) -> Self:
        """The recourse of some of the cases.

        Args:
            places: Which, (n,) or a slice.
        """
        return replace(self, prices=self.prices[places], slopes=self.slopes[places])


class ChargedBlocks(MemberBlocks):
    """Theta and the bordered S of all members at one iterate.

    Args:
        recourse: The recourse and its charge.
        curvature: By what Q would be multiplied in each case, (B, 1, 1).
        z_ratio: zeta / z, (B, M, Z + 1).
        v_ratio: v / mu, (B, M, R + 1).
    """

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
        """Theta times the parts of a recourse, (B, M, Z + 1).

        Args:
            z: (B, M, Z + 1).
        """
        return self._theta * z

    def solve(self, rows: Tensor) -> Tensor:
        """The inverse of the bordered S times one number a row, (B, M, R + 1).

        Args:
            rows: (B, M, R + 1).
        """
        own = rows[..., :-1]
        last = (rows[..., -1:] - (self.border * own).sum(-1, keepdim=True)) / self.left
        return torch.cat([self.inner.solve(own) - self.border * last, last], -1)

    def on_actions(self, weights: Tensor) -> Tensor:
        """What the members add to the curvature of the action and its threshold, (B, A + 1, A + 1).

        Args:
            weights: w, what each member weighs, (B, M).
        """
        inner = torch.nn.functional.pad(self.inner.on_actions(weights), (0, 1, 0, 1))
        moves = self.border @ self.charged.alone.T + self.charged.slopes
        moves = torch.cat([moves, -torch.ones_like(moves[..., :1])], -1)  # (B, M, A + 1)
        return inner + moves.mT @ (weights[..., None] / self.left * moves)
