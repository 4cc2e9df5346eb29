"""A battery beside a forecast: commitments that it can repair, and schedules against prices."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor

from stakes.argument_checks import known_false, require_finite, require_positive, shown_numbers
from stakes.costs.cost import Parameter
from stakes.errors import CostError
from stakes.programs.part_costs import joined, parameter_parts, take_lists
from stakes.programs.recourse import RIDGE, MemberBlocks, Recourse
from stakes.programs.scenario_program import ProgramCost, ScenarioProgram
from stakes.programs.schedules import require_not_negative

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
        return False

    @property
    def factor_size(self) -> int:
        return 40 * self.hours

    def blocks(self, curvature: Tensor, z_ratio: Tensor, v_ratio: Tensor) -> "BatteryBlocks":
        return BatteryBlocks(self, curvature, z_ratio, v_ratio)


class BatteryBlocks(MemberBlocks):
    """Theta and S of all members at one iterate, S by its recursion."""

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
        """
        share = _by_hour(self.moved / self.balance)
        before, row, rows = torch.zeros_like(self.w[0]), torch.zeros_like(self.moved), []
        for t, (w, g, P) in enumerate(zip(self.w, self.g, self.P, strict=True)):
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
        T = self.recourse.T[: self.hours]
        return T.mT @ inverse @ T

    def _through(self) -> Tensor:
        """The diagonal of W Theta W', (B, M, 5 T)."""
        charge, discharge, bought = self._theta.split(self.hours, -1)
        held = (self.efficiency**2 * charge + discharge).cumsum(-1)
        return torch.cat([charge + discharge + bought, held, held, charge, discharge], -1)

    def _riccati(self) -> tuple[list[Tensor], list[Tensor]]:
        """P and alpha of every hour, (B, M) each."""
        P, alpha = [], []
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
        for push, move, P, alpha in zip(*map(reversed, (pushes, moves, self.P, self.alpha)), strict=True):
            q.append(push + later)
            later = alpha * (q[-1] - P * move)
        now, held, value = torch.zeros_like(later), [], []
        for move, w, P, alpha, own in zip(moves, self.w, self.P, self.alpha, reversed(q), strict=True):
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


_ROUNDING = 1e-6  # of what a battery may hold


@dataclass(frozen=True)
class StorageCost(ProgramCost):
    """Sell a_t ahead for every t of T, produce y_t, and let a battery shift surplus to times of shortage:

    c(a, y) = sum_t -price a_t + min sum_t short u_t + long o_t,   y_t + discharge_t - charge_t + u_t - o_t = a_t,

    with u bought, o spilled, and a battery of limited power and energy, whose final charge is worth nothing. The cost
    is that of a battery operated with knowledge of the whole day; `causal_cost`, for one that only knows the current
    hour, is never lower. Parameters are numbers, lists, or tensors or arrays whose last axis is T or 1 after the cases
    (...); efficiency is a number.

    Attributes:
        price: The revenue per committed unit.
        short: The cost per missing unit; above the price, or committing more would always pay.
        long: The cost per spilled unit, not negative.
        power: The largest charge or discharge in one t, positive.
        energy: The capacity of the battery, positive.
        efficiency: The share of the charged energy that can be discharged, above 0 and at most 1.
        start: The initial charge, a number or (..., 1).

    >>> import torch, stakes
    >>> made = torch.tensor([[[4.0, 0.0], [4.0, 0.0]]])  # one case, two members, T = 2
    >>> cost = stakes.StorageCost(price=1.0, short=3.0, long=0.0, power=2.0, energy=2.0, efficiency=1.0)
    >>> stakes.optimal_action(cost, made).sum().round(decimals=4)
    tensor(4.)
    """

    price: Parameter
    short: Parameter
    long: Parameter
    power: Parameter
    energy: Parameter
    efficiency: float = 0.9
    start: Parameter = 0.0
    lower: ClassVar[float] = 0.0
    upper: ClassVar[None] = None  # what is missing is bought
    action_is_outcome: ClassVar[bool] = True
    has_parameters_of_cases: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        require_finite("price", self.price, CostError)
        require_finite("short", self.short, CostError)
        require_not_negative("long", self.long)
        _require_battery(self)
        short, price = (torch.as_tensor(number, dtype=torch.float64) for number in (self.short, self.price))
        if known_false(short > price):
            raise CostError("short must exceed price, or committing more would always pay")

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        return (parameter_parts(self, "long", outcome.shape[-1], outcome.device) * outcome).sum(-1)

    def causal_cost(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each day, (...), if the battery absorbs every surplus and covers every shortfall as they come.

        It is infinite if the capacity falls below the charge and the battery lacks the power to discharge the excess.

        Args:
            action: Commitments (..., T).
            outcome: Production (..., T) that broadcasts against them.
        """
        surplus = outcome - action
        names = ("power", "energy", "start", "price", "short", "long")
        parts = {name: parameter_parts(self, name, surplus.shape[-1], surplus.device) for name in names}
        power, energy = parts["power"], parts["energy"]
        held = parts["start"][..., 0].expand(surplus.shape[:-1])
        paid = -(parts["price"] * action).sum(-1)
        for t, left in enumerate(surplus.unbind(-1)):
            room = (energy[..., t] - held) / self.efficiency
            charged = torch.minimum(torch.minimum(left, power[..., t]), room).clamp(min=0.0)
            asked = torch.maximum(-left, held - energy[..., t]).clamp(min=0.0)  # what no longer fits has to go, too
            discharged = torch.minimum(torch.minimum(asked, power[..., t]), held)
            held = held + self.efficiency * charged - discharged
            too_much = held - energy[..., t] > _ROUNDING * energy[..., t]
            paid = torch.where(too_much, torch.inf, paid)
            off = left - charged + discharged
            paid = paid + parts["short"][..., t] * (-off).clamp(min=0.0) + parts["long"][..., t] * off.clamp(min=0.0)
        return paid.to(torch.promote_types(action.dtype, outcome.dtype))

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program; its recourse is what is charged, discharged and bought."""
        eye = torch.eye(outcomes, dtype=torch.float64, device=device)
        nothing, so_far = torch.zeros_like(eye), torch.tril(torch.ones_like(eye))
        blocks = [
            [-eye, eye, eye],
            [self.efficiency * so_far, -so_far, nothing],
            [-self.efficiency * so_far, so_far, nothing],
            [-eye, nothing, nothing],
            [nothing, -eye, nothing],
        ]
        names = ("price", "short", "long", "power", "energy", "start")
        price, short, long, power, energy, start = (parameter_parts(self, name, outcomes, device) for name in names)
        return _BatteryProgram(
            T=torch.cat([-eye, *[nothing] * 4]),
            W=torch.cat([torch.cat(row, 1) for row in blocks]),
            h_y=torch.cat([-eye, *[nothing] * 4]),
            h=joined(torch.zeros_like(eye[0]), -start, start - energy, -power, -power),
            q=joined(-long, long, short + long),
            p=-(price + long),
            lower=torch.zeros_like(eye[0]),
        )


@dataclass(frozen=True)
class ArbitrageCost(ProgramCost):
    """Charge and discharge a battery at prices y_t that are not known yet, with wear:

    c(a, y) = sum_t y_t (charge_t - discharge_t) + 1/2 quadratic (charge_t^2 + discharge_t^2).

    The action has 2 T parts, the charge at every t and then the discharge, each between 0 and the power. The battery
    starts empty and holds at most its energy. Power and energy are numbers, or tensors whose last axis is T or 1 after
    the cases (...).

    Attributes:
        power: The largest charge or discharge in one t, positive.
        energy: The capacity of the battery, positive.
        efficiency: The share of the charged energy that can be discharged, above 0 and at most 1.
        quadratic: Twice the wear per squared unit of power, not negative, a number.

    >>> import torch, stakes
    >>> prices = torch.tensor([[[1.0, 9.0], [3.0, 11.0]]])  # one case, two members, T = 2
    >>> battery = stakes.ArbitrageCost(power=1.0, energy=1.0, efficiency=1.0, quadratic=0.0)
    >>> stakes.optimal_action(battery, prices).round(decimals=4).abs()
    tensor([[1., 0., 0., 1.]])
    """

    power: Parameter
    energy: Parameter
    efficiency: float = 0.9
    quadratic: float = 0.0
    lower: ClassVar[float] = 0.0
    opposites: ClassVar[tuple[str, str]] = ("charge", "discharge")
    has_parameters_of_cases: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        require_not_negative("quadratic", self.quadratic)
        if torch.as_tensor(self.quadratic).numel() > 1:
            raise CostError(f"quadratic must be one number, got {shown_numbers(self.quadratic)}")
        if isinstance(self.quadratic, Tensor):
            object.__setattr__(self, "quadratic", self.quadratic.reshape(()))
        _require_battery(self)

    @property
    def upper(self) -> Parameter:
        """The largest charge or discharge in one t."""
        power = self.power
        return torch.cat([power, power], -1) if isinstance(power, Tensor) and power.shape[-1:].numel() > 1 else power

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        charged, discharged = action.split(outcome.shape[-1], -1)
        return (outcome * (charged - discharged)).sum(-1) + 0.5 * self.quadratic * (action**2).sum(-1)

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{way}_{name}" for way in self.opposites for name in outcomes)

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The energy that the battery holds after every t at most, and then at least."""
        return tuple((kind, f"after {name}") for kind in ("energy", "empty") for name in outcomes)

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        return torch.zeros_like(outcome[..., 0])

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program, without recourse but for a row that asks nothing."""
        eye = torch.eye(outcomes, dtype=torch.float64, device=device)
        power, energy = (parameter_parts(self, name, outcomes, device) for name in ("power", "energy"))
        so_far = torch.tril(torch.ones_like(eye))
        held = torch.cat([self.efficiency * so_far, -so_far], 1)  # what the battery holds after each t
        both = torch.cat([eye, -eye])
        return ScenarioProgram(
            T=both.new_zeros(1, 2 * outcomes),
            W=both.new_ones(1),
            h_y=both.new_zeros(1, outcomes),
            q=both.new_ones(1),
            p_y=both,
            P=self.quadratic * torch.eye(2 * outcomes, dtype=torch.float64, device=device),
            G=torch.cat([held, -held]),
            g=joined(energy, torch.zeros_like(eye[0])),
            lower=both.new_zeros(2 * outcomes),
            upper=joined(power, power),
        )


class _BatteryProgram(ScenarioProgram):
    """A scenario program that knows its recourse to be a battery's."""

    @cached_property
    def recourse(self) -> BatteryRecourse:
        """Q, W and T."""
        return BatteryRecourse(self.T.new_zeros(self.W.shape[-1]), self.W, self.T)


def _require_battery(cost: Any) -> None:
    require_positive("power", cost.power, CostError)
    require_positive("energy", cost.energy, CostError)
    if not isinstance(cost.efficiency, Real) or not 0 < float(cost.efficiency) <= 1:
        raise CostError(f"efficiency must be a number above 0 and at most 1, got {cost.efficiency!r}")
    require_finite("start", getattr(cost, "start", 0.0), CostError)
    start, energy = (torch.as_tensor(each) for each in (getattr(cost, "start", 0.0), cost.energy))
    if start.shape[-1:].numel() != 1:
        raise CostError(f"start must be one number, the initial charge, got {shown_numbers(start)}")
    if known_false((start >= 0) & (start <= (energy[..., :1] if energy.dim() else energy))):
        raise CostError("start must lie between 0 and the energy of the first t")
