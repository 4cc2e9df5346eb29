"""The cost that is decided for, and the same with other numbers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from stakes.cost_text.library_costs import cost_names
from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.errors import StakesError
from stakes.method.costs import Cost
from stakes.serving.refusals import RefusedError
from stakes.serving.schemas import CostAnswer, ParameterAnswer

__all__ = ["PricedCost", "ServedCost"]

_PRICES = ("penalty", "short", "long", "underage", "overage", "false_alarm_ratio", "sharpness")
_ON_THE_SCALE_OF_OUTCOMES = ("shortfall", "newsvendor", "imbalance")
_BOUNDS = ("lower", "upper")
_WORDS = {
    "penalty": "price of a shortfall, squared",
    "short": "price of too little, squared",
    "long": "price of too much, squared",
    "underage": "price of each unit too little",
    "overage": "price of each unit too much",
    "threshold": "outcome where the hazard begins",
    "false_alarm_ratio": "price of a false alarm; damage costs 1",
    "sharpness": "how sharply it begins",
    "exposure_power": "how damage grows with what is left unprotected",
    "protection_power": "how protecting in vain grows with its level",
    "ramp_speed": "wind at hub height for half the power, m/s",
    "ramp_sharpness": "how steeply power rises there",
    "cutoff_speed": "storm at hub height that halves the power, m/s",
    "cutoff_sharpness": "how steeply power falls there",
    "hub_height": "in m",
    "reference_height": "of the wind that is forecast, in m",
    "shear": "exponent by which wind grows with height",
}
_TIMES = 10.0  # a price may be so many times higher or lower
_KEPT = 64  # costs with other numbers
_LARGEST = float(torch.finfo(torch.float32).max)


@dataclass(frozen=True)
class PricedCost:
    """The served cost with the numbers that a request asks for.

    Attributes:
        spec: The cost in words.
        cost: The cost itself.
    """

    spec: CostSpec
    cost: Cost

    @property
    def text(self) -> str:
        """The words of the cost, of a user's own without the folder of its file."""
        if not self.spec.is_own:
            return str(self.spec)
        return str(replace(self.spec, name=f"{self.spec.path.name}:{self.spec.function}", recorded=True))

    @contextmanager
    def naming_field(self, field: str) -> Iterator[None]:
        """What goes wrong inside is about this field of the request; where a user's own file lies is not told."""
        try:
            with naming_own_cost(self.cost):
                yield
        except StakesError as error:
            raise RefusedError(field, _said(self.spec, error)) from error


class ServedCost:
    """The cost of a bundle, or the one given in its place.

    Args:
        spec: The cost in words.
        cost: The cost itself.
        outcome_scale: By how much an outcome differs from another, in its unit; sliders reach twice as far.
    """

    def __init__(self, spec: CostSpec, cost: Cost, outcome_scale: float) -> None:
        self._spec, self._outcome_scale = spec, outcome_scale
        self._given = PricedCost(spec, cost)
        self._priced = lru_cache(_KEPT)(self._build)

    def priced(self, parameters: Mapping[str, float]) -> PricedCost:
        """The cost with these numbers in place of its own."""
        if not parameters:
            return self._given
        for name, value in parameters.items():
            if isinstance(self._spec.parameters.get(name), str):
                raise RefusedError(f"cost.{name}", f"the parameter {name} of the cost is no number")
            if abs(value) > _LARGEST:
                raise RefusedError(f"cost.{name}", f"{name} must fit into single precision, got {value:g}")
        try:
            return self._priced(tuple(sorted(parameters.items())))
        except StakesError as error:
            said = _said(self._spec, error)
            named = [name for name in parameters if f"{name!r}" in said or f" {name} " in said]
            raise RefusedError(f"cost.{(named or list(parameters))[0]}", said) from error

    @property
    def action_is_outcome(self) -> bool:
        """Whether action and outcome are on one scale."""
        return self._spec.name in _ON_THE_SCALE_OF_OUTCOMES

    def answer(self) -> CostAnswer:
        """What clients may know of it."""
        spec, cost = self._given.spec, self._given.cost
        values = {name: value for name, value in spec.parameters.items() if not isinstance(value, str)}
        return CostAnswer(
            text=self._given.text,
            about=cost_names().get(spec.name, ""),
            unit=spec.unit,
            action_unit=spec.action_unit,
            lower=float(cost.lower),
            upper=float(cost.upper),
            action_is_outcome=self.action_is_outcome,
            parameters=[self._parameter(name, float(value)) for name, value in values.items()],
        )

    def _parameter(self, name: str, value: float) -> ParameterAnswer:
        if value > 0 and (name in _PRICES or self._spec.is_own):
            low, high, scale = value / _TIMES, value * _TIMES, "log"
        else:
            reach = 2 * self._outcome_scale if name == "threshold" or not value else abs(value) / 2
            low, high, scale = value - reach, value + reach, "linear"
        about = "" if self._spec.is_own else _WORDS.get(name, "")
        known = {"name": name, "about": about, "value": value, "low": low, "high": high, "scale": scale}
        return ParameterAnswer.model_validate({**known, "slider": name not in _BOUNDS})

    def _build(self, parameters: tuple[tuple[str, float], ...]) -> PricedCost:
        spec = replace(self._spec, parameters={**self._spec.parameters, **dict(parameters)})
        return PricedCost(spec, spec.build())


def _said(spec: CostSpec, error: Exception) -> str:
    return str(error).replace(str(spec.path), spec.path.name) if spec.is_own else str(error)
