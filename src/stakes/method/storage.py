"""A battery beside a forecast: commitments that it can repair, and schedules against prices."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from stakes.errors import CostError
from stakes.method.argument_checks import known_false, require_finite, require_positive, shown_numbers
from stakes.method.battery_recourse import BatteryRecourse
from stakes.method.costs import Parameter
from stakes.method.part_costs import parameter_parts, take_lists
from stakes.method.programs import ScenarioProgram
from stakes.method.schedules import require_not_negative

__all__ = ["ArbitrageCost", "StorageCost"]

_ROUNDING = 1e-6  # of what a battery may hold


@dataclass(frozen=True)
class StorageCost:
    """Sell a_t ahead for every t of T, produce y_t, and let a battery move what is too much to where it is missing:

    c(a, y) = sum_t -price a_t + min sum_t short u_t + long o_t,   y_t + discharge_t - charge_t + u_t - o_t = a_t,

    with u what has to be bought, o what is spilled, and a battery of limited power and energy, whose final charge is
    worth nothing. The least cost is that of a battery which knows the whole day: `causal_cost` is that of one which
    knows the hour alone, and never lies below it. A parameter is a number, a list, or a tensor or array whose last
    axis is T or 1, with the cases (...) before it; efficiency is a number.

    Attributes:
        price: What a committed unit earns.
        short: What a missing unit costs; above the price, or committing would pay without end.
        long: What a spilled unit costs, not negative.
        power: The most that is charged or discharged in one t, positive.
        energy: The most that the battery holds, positive.
        efficiency: The share of what is charged that can be discharged, above 0 and at most 1.
        start: What the battery holds at the beginning, a number or (..., 1).

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

    def __post_init__(self) -> None:
        take_lists(self)
        require_finite("price", self.price, CostError)
        require_finite("short", self.short, CostError)
        require_not_negative("long", self.long)
        _require_battery(self)
        short, price = (torch.as_tensor(number, dtype=torch.float64) for number in (self.short, self.price))
        if known_false(short > price):
            raise CostError("short must lie above price, or committing more would pay without end")

    @property
    def lower(self) -> float:
        """The least commitment, 0."""
        return 0.0

    @property
    def upper(self) -> None:
        """No largest commitment: what is missing is bought."""
        return

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each day, (...), with the best use of the battery.

        Args:
            action: Commitments (..., T).
            outcome: Production (..., T) that broadcasts against them.
        """
        program = self.program(outcome.shape[-1], outcome.device)
        cost = program.own_cost(action, outcome) + program.recourse_cost(action, outcome) + self.fixed_cost(outcome)
        return cost.to(torch.promote_types(action.dtype, outcome.dtype))

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        """What no action changes of the cost, beside that of the program, (...).

        Args:
            outcome: Production (..., T).
        """
        return (parameter_parts(self, "long", outcome.shape[-1], outcome.device) * outcome).sum(-1)

    def causal_cost(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each day, (...), where the battery takes every surplus and covers every lack as they come.

        It is infinite where the battery holds more than it may in the next hour and has not the power to get rid of it.

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
        """The decision as a scenario program; its recourse is what is charged, discharged and bought.

        Args:
            outcomes: T.
            device: Where its numbers are; None for the CPU.
        """
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
            h=_joined(torch.zeros_like(eye[0]), -start, start - energy, -power, -power),
            q=_joined(-long, long, short + long),
            p=-(price + long),
            lower=torch.zeros_like(eye[0]),
        )


@dataclass(frozen=True)
class ArbitrageCost:
    """Charge and discharge a battery against prices y_t that are not known yet, with wear:

    c(a, y) = sum_t y_t (charge_t - discharge_t) + 1/2 quadratic (charge_t^2 + discharge_t^2).

    The action has 2 T parts, what is charged at every t and then what is discharged, each between 0 and the power; the
    battery is empty at first, and holds between 0 and its energy. Power and energy are numbers, or tensors whose last
    axis is T or 1, with the cases (...) before it.

    Attributes:
        power: The most that is charged or discharged in one t, positive.
        energy: The most that the battery holds, positive.
        efficiency: The share of what is charged that can be discharged, above 0 and at most 1.
        quadratic: Twice what the square of the power wears off, not negative, a number.

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

    def __post_init__(self) -> None:
        take_lists(self)
        require_not_negative("quadratic", self.quadratic)
        if torch.as_tensor(self.quadratic).numel() > 1:
            raise CostError(f"quadratic must be one number, got {shown_numbers(self.quadratic)}")
        if isinstance(self.quadratic, Tensor):
            object.__setattr__(self, "quadratic", self.quadratic.reshape(()))
        _require_battery(self)

    @property
    def lower(self) -> float:
        """The least that is charged or discharged, 0."""
        return 0.0

    @property
    def upper(self) -> Parameter:
        """The most that is charged or discharged in one t."""
        power = self.power
        return torch.cat([power, power], -1) if isinstance(power, Tensor) and power.shape[-1:].numel() > 1 else power

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each schedule, (...).

        Args:
            action: What is charged and discharged, (..., 2 T).
            outcome: Prices (..., T) that broadcast against it.
        """
        charged, discharged = action.split(outcome.shape[-1], -1)
        return (outcome * (charged - discharged)).sum(-1) + 0.5 * self.quadratic * (action**2).sum(-1)

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """What is charged at every t, and then what is discharged.

        Args:
            outcomes: The names of the T prices.
        """
        return tuple(f"{way}_{name}" for way in ("charge", "discharge") for name in outcomes)

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The energy that the battery holds after every t at most, and then at least.

        Args:
            outcomes: The names of the T prices.
        """
        return tuple((kind, f"after {name}") for kind in ("energy", "empty") for name in outcomes)

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        """Nothing: all of the cost depends on the action, (...).

        Args:
            outcome: Prices (..., T).
        """
        return torch.zeros_like(outcome[..., 0])

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        """The decision as a scenario program, without recourse but for a row that asks nothing.

        Args:
            outcomes: T.
            device: Where its numbers are; None for the CPU.
        """
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
            g=_joined(energy, torch.zeros_like(eye[0])),
            lower=both.new_zeros(2 * outcomes),
            upper=_joined(power, power),
        )


class _BatteryProgram(ScenarioProgram):
    """A scenario program that knows its recourse to be a battery's."""

    @cached_property
    def recourse(self) -> BatteryRecourse:
        """Q, W and T."""
        return BatteryRecourse(self.T.new_zeros(self.W.shape[-1]), self.W, self.T)


def _joined(*vectors: Tensor) -> Tensor:
    """Vectors (..., n) after each other, each for all cases that another has."""
    cases = torch.broadcast_shapes(*(vector.shape[:-1] for vector in vectors))
    return torch.cat([vector.expand(*cases, vector.shape[-1]) for vector in vectors], -1)


def _require_battery(cost: Any) -> None:
    require_positive("power", cost.power, CostError)
    require_positive("energy", cost.energy, CostError)
    if not isinstance(cost.efficiency, Real) or not 0 < float(cost.efficiency) <= 1:
        raise CostError(f"efficiency must be a number above 0 and at most 1, got {cost.efficiency!r}")
    require_finite("start", getattr(cost, "start", 0.0), CostError)
    start, energy = (torch.as_tensor(each) for each in (getattr(cost, "start", 0.0), cost.energy))
    if start.shape[-1:].numel() != 1:
        raise CostError(f"start must be one number, what the battery holds at first, got {shown_numbers(start)}")
    if known_false((start >= 0) & (start <= (energy[..., :1] if energy.dim() else energy))):
        raise CostError("start must lie between 0 and energy, that of the first t where each has its own")
