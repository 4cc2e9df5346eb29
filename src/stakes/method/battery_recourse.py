"""The recourse of a battery, eliminated hour by hour: what it holds is all that one hour has to do with the others.

A member charges c, discharges d and buys u in each of T hours; its rows are the balance -c + d + u, what the battery
holds, h = L (efficiency c - d) with L the sum so far, from below and from above, and the most that is charged and
discharged. With D = diag(v / mu) and Theta of `stakes.method.member_blocks`, S mu = b says

    D mu + W z = b,   z = Theta W'mu.

In every hour c, d, u and the prices of balance and power follow from lambda, the price of what is held, which leaves

    h_t = h_{t-1} + w_t lambda_t + f_t,   lambda_t = m_t - g_t h_t + lambda_{t+1},   h_0 = lambda_{T+1} = 0,

the best control of one number, with lambda_t = q_t - P_t h_t by Riccati's recursion

    P_t = g_t + alpha_{t+1} P_{t+1},   alpha_t = 1 / (1 + w_t P_t),
    q_t = m_t + alpha_{t+1} (q_{t+1} - P_{t+1} f_{t+1}).

All of w, g and P are sums of positive numbers, so that nothing cancels, however unequal these become. It takes T steps
for all members at once, where a factorisation of S takes (5 T)^3 / 3 multiplications for each.
"""

import torch
from torch import Tensor

from stakes.method.member_blocks import RIDGE, MemberBlocks, Recourse

__all__ = ["BatteryBlocks", "BatteryRecourse"]

_ROWS = 5  # of every hour


class BatteryRecourse(Recourse):
    """The recourse of `StorageCost`, rows and parts in its order; Q is diagonal."""

    @property
    def hours(self) -> int:
        """T, how many hours there are."""
        return self.W.shape[0] // _ROWS

    @property
    def efficiency(self) -> Tensor:
        """The share of what is charged that the battery holds, ()."""
        return self.W[self.hours, 0]

    @property
    def by_matrices(self) -> Recourse:
        """The same without the recursion, which rounding breaks down in a few cases of a thousand."""
        return Recourse(self.Q, self.W, self.T)

    @property
    def loses_digits(self) -> bool:
        """The recursion loses none."""
        return False

    @property
    def factor_size(self) -> int:
        """How many numbers the recursion of a member keeps, with what they are made from."""
        return 40 * self.hours

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "BatteryBlocks":
        """What of the members enters the linear system of a step.

        Args:
            curvature: By what Q is multiplied in each case, (B, 1, 1).
            z_ratio: zeta / z, (B, M, 3 T).
            v_ratio: v / mu, (B, M, 5 T).
        """
        return BatteryBlocks(self, curvature, z_ratio, v_ratio)


class BatteryBlocks(MemberBlocks):
    """Theta and S of all members at one iterate, S by its recursion.

    Args:
        recourse: The matrices that members share.
        curvature: By what Q is multiplied in each case, (B, 1, 1).
        z_ratio: zeta / z, (B, M, 3 T).
        v_ratio: v / mu, (B, M, 5 T).
    """

    def __init__(self, recourse: BatteryRecourse, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> None:
        self.recourse, self.hours, self.efficiency = recourse, recourse.hours, recourse.efficiency
        own = curvature * recourse.Q + z_ratio
        self._theta = 1 / own
        self.charge, self.discharge, bought = own.split(self.hours, -1)  # (B, M, T) each
        ratio = v_ratio + RIDGE * (v_ratio + self._through())
        balance, self.least, self.most, charge_room, discharge_room = ratio.split(self.hours, -1)
        # How much of what a price asks for is not charged, or discharged, for want of power.
        self.charge_held = 1 / (1 + self.charge * charge_room)
        self.discharge_held = 1 / (1 + self.discharge * discharge_room)
        charged, discharged = self.charge_held * charge_room, self.discharge_held * discharge_room
        rest = balance + 1 / bought
        self.balance = rest + charged + discharged
        self.moved = self.efficiency * charged + discharged
        lost = (1 - self.efficiency) ** 2 * charged * discharged
        w = (lost + (self.efficiency**2 * charged + discharged) * rest) / self.balance
        self.w, self.g = _by_hour(w), _by_hour(1 / self.least + 1 / self.most)
        self.P, self.alpha = self._riccati()

    def solve(self, rows: Tensor) -> Tensor:
        """S^-1 times one number a row, (B, M, 5 T).

        Args:
            rows: (B, M, 5 T).
        """
        balance, least, most, charge, discharge = rows.split(self.hours, -1)
        charged, discharged = self.charge_held * charge, self.discharge_held * discharge
        asked = balance - charged + discharged
        held, value = self._path(
            least / self.least - most / self.most,
            discharged - self.efficiency * charged - self.moved * asked / self.balance,
        )
        empty, full, value = self._prices_of_held(least, most, held, value)
        price = (asked + self.moved * value) / self.balance
        parts = [
            price,
            empty,
            full,
            self.charge_held * (self.charge * charge + self.efficiency * value - price),
            self.discharge_held * (self.discharge * discharge + price - value),
        ]
        return torch.cat(parts, -1)

    def on_actions(self, weights: Tensor) -> Tensor:
        """What the members add to the curvature of the action, sum_m w_m T' S^-1 T, (B, A, A).

        Of S^-1 only the rows of the balance count, diag(1 / balance) + k M k with k = moved / balance and M the
        inverse of a matrix of three diagonals: M_ss = 1 / (w_s + 1 / P_s + F_{s-1}), with F what P is, from the other
        side, and M_ts = M_{t-1,s} alpha_t P_t / P_{t-1} for t > s.

        Args:
            weights: w, what each member weighs, (B, M).
        """
        share = _by_hour(self.moved / self.balance)
        before, row, rows = torch.zeros_like(self.w[0]), torch.zeros_like(self.moved), []
        for t, (w, g, P) in enumerate(zip(self.w, self.g, self.P, strict=True)):  # noqa: N806
            ahead = w + before
            own = share[t] / (ahead + 1 / P)
            if t:
                row = row * (self.alpha[t] * P / self.P[t - 1])[..., None]
            row = torch.cat([row[..., :t], own[..., None], row[..., t + 1 :]], -1)
            rows.append(((weights * share[t])[:, None] @ row)[:, 0])  # (B, T)
            before = ahead / (1 + g * ahead)
        lower = torch.stack(rows, 1)
        alone = (weights[:, None] @ (1 / self.balance))[:, 0]
        inverse = torch.diag_embed(alone) + lower + lower.tril(-1).mT
        T = self.recourse.T[: self.hours]  # noqa: N806 the other rows know nothing of the action
        return T.mT @ inverse @ T

    def _through(self) -> Tensor:
        """The diagonal of W Theta W', (B, M, 5 T)."""
        charge, discharge, bought = self._theta.split(self.hours, -1)
        held = (self.efficiency**2 * charge + discharge).cumsum(-1)
        return torch.cat([charge + discharge + bought, held, held, charge, discharge], -1)

    def _riccati(self) -> tuple[list[Tensor], list[Tensor]]:
        """P and alpha of every hour, (B, M) each."""
        P, alpha = [], []  # noqa: N806
        later = torch.zeros_like(self.g[0])  # alpha P of the hour that follows
        for w, g in zip(reversed(self.w), reversed(self.g), strict=True):
            P.append(g + later)
            alpha.append(1 / (1 + w * P[-1]))
            later = alpha[-1] * P[-1]
        return P[::-1], alpha[::-1]

    def _path(self, m: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        """What the battery holds after each hour, and the price of it, (B, M, T) each."""
        pushes, moves = _by_hour(m), _by_hour(f)
        later, q = torch.zeros_like(pushes[0]), []
        for push, move, P, alpha in zip(*map(reversed, (pushes, moves, self.P, self.alpha)), strict=True):  # noqa: N806
            q.append(push + later)
            later = alpha * (q[-1] - P * move)
        now, held, value = torch.zeros_like(later), [], []
        for move, w, P, alpha, own in zip(moves, self.w, self.P, self.alpha, reversed(q), strict=True):  # noqa: N806
            reached = now + move
            value.append(alpha * (own - P * reached))
            now = alpha * (reached + w * own)
            held.append(now)
        return torch.stack(held, -1), torch.stack(value, -1)

    def _prices_of_held(
        self, least: Tensor, most: Tensor, held: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The prices of the battery's being empty and full, and of what it holds as they add it up, (B, M, T) each.

        Where the battery is about empty, or full, what is left over a small v / mu would lose its digits: that price is
        known from what the price of what is held falls by, and elsewhere that fall from the prices.
        """
        empty, full = (least - held) / self.least, (most + held) / self.most
        at_empty = (self.least < 1) & (self.least < self.most)
        at_full = (self.most < 1) & (self.most <= self.least)
        value = self._added_up(value, empty - full, at_empty | at_full)
        fall = value - torch.cat([value[..., 1:], torch.zeros_like(value[..., :1])], -1)
        return torch.where(at_empty, fall + full, empty), torch.where(at_full, empty - fall, full), value

    def _added_up(self, value: Tensor, fall: Tensor, tight: Tensor) -> Tensor:
        """The price of what is held where it falls as given after every hour that is not tight, (B, M, T).

        Between two tight hours it is as far from the price that came as its falls leave open, by the mean over these
        hours, each of which knows it as well as it moves the battery for it, w; after the last tight hour it is 0.
        """
        nothing = torch.zeros_like(self.w[0])
        ahead, moves, known, until_end = nothing, nothing, nothing, torch.ones_like(nothing, dtype=torch.bool)
        hours = []
        for own, w, drop, stop in zip(
            *map(reversed, (_by_hour(value), self.w, _by_hour(fall), _by_hour(tight))), strict=True
        ):
            ahead = torch.where(stop, 0.0, ahead + drop)
            moves = torch.where(stop, 0.0, moves) + w
            known = torch.where(stop, 0.0, known) + w * (own - ahead)
            until_end = until_end & ~stop
            hours.append((ahead, torch.where(until_end, 0.0, known / moves)))
        base, before, values = nothing, torch.ones_like(until_end), []
        for (ahead, level), stop in zip(reversed(hours), _by_hour(tight), strict=True):
            base = torch.where(before, level, base)
            values.append(base + ahead)
            before = stop
        return torch.stack(values, -1)


def _by_hour(values: Tensor) -> list[Tensor]:
    """Values (B, M, T) of each hour, (B, M) and contiguous."""
    return list(values.movedim(-1, 0).contiguous().unbind(0))
