"""The cost that is decided for, and the same with other numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from stakes.cost_spec.spec import CostSpec, cost_names, parameter_words
from stakes.costs.cost import (
    Cost,
    action_is_outcome,
    action_parts,
    parameter_value,
    part_names,
    user_cost_errors,
    with_parameter,
)
from stakes.costs.scalar_costs import cost_of_rows
from stakes.errors import StakesError, did_you_mean
from stakes.service.schemas import CostAnswer, ParameterAnswer, RequestError, naming_field

_PRICES: tuple[str, ...] = ("penalty", "short", "long", "underage", "overage", "false_alarm_ratio", "sharpness")
_PRICES += ("protection", "loss")
_PRICES += ("price", "quadratic", "ramp", "budget", "power", "energy")  # limits too are of interest on a wide range
_BOUNDS = ("lower", "upper")
_RANGES = {"efficiency": (0.05, 1.0), "cvar_level": (0.05, 0.99), "cvar_mix": (0.05, 1.0)}
_TIMES = 10.0  # a price may be so many times higher or lower
_KEPT = 64  # costs with other numbers
_LARGEST = float(torch.finfo(torch.float32).max)
Asked = Mapping[str, float | Sequence[float] | None]
"""The numbers of a request by parameter; None for no such number."""


@dataclass(frozen=True)
class PricedCost:
    """The served cost with the numbers that a request asks for."""

    spec: CostSpec  # the cost in words
    cost: Cost  # the cost itself
    values: tuple[float, ...] = ()

    def of(self, rows: slice, dtype: torch.dtype) -> "PricedCost":
        """The cost that some rows of the request pay."""
        ranged = self.spec.ranged
        if not self.values or ranged is None:
            return replace(self, cost=cost_of_rows(self.cost, rows))
        values = self.values[rows]
        own = with_parameter(self.cost, ranged.name, torch.tensor(values, dtype=dtype))
        return replace(self, cost=own, values=values)

    def parameter(self, name: str) -> float | tuple[float, ...] | None:
        """What the request says of a parameter: one number, or one for each row; None where the cost has none such."""
        return self.values or parameter_value(self.cost, name)

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
            with user_cost_errors(self.cost):
                yield
        except StakesError as error:
            raise RequestError(field, _said(self.spec, error)) from error


class ServedCost:
    """The cost of a bundle, or the one given in its place."""

    def __init__(self, spec: CostSpec, cost: Cost, outcome_scale: float, outcomes: Sequence[str]) -> None:
        self._spec, self._outcome_scale = spec, outcome_scale
        count = action_parts(cost, len(outcomes))
        self.parts = () if count == 1 else part_names(cost, outcomes)
        self._given = PricedCost(spec, cost)
        self._priced = lru_cache(_KEPT)(self._build)

    def priced(self, parameters: Asked, rows: int | None = None) -> PricedCost:
        """The cost with these numbers in place of its own, or numbers for each outcome; None for no such number."""
        if self._spec.columns:
            return self._of_prices(parameters, rows)
        each, ranged = self._of_range(parameters, rows), self._spec.ranged
        if not each or ranged is None:
            return self.priced_for_all(parameters)
        others = {name: value for name, value in parameters.items() if name != ranged.name}
        return replace(self.priced_for_all(others), values=each)

    def of_table(self, parameters: Asked) -> PricedCost:
        """The cost for a table, whose columns may have the prices of its rows."""
        for name, column in self._spec.columns.items():
            if name in parameters:
                raise RequestError(f"cost.{name}", f"{name} is the column {column} of the table; leave it out")
        return self.priced_for_all(parameters) if self._spec.columns else self.priced(parameters)

    def _of_prices(self, parameters: Asked, rows: int | None) -> PricedCost:
        """The cost at the prices that a request tells by their names, one for all rows or one for each."""
        columns = self._spec.columns
        priced = self.priced_for_all({name: value for name, value in parameters.items() if name not in columns})
        own = {}
        for name, column in columns.items():
            value = _asked(parameters, name, rows, f"each case has its own {name}, the column {column} of a table")
            if odd := [number for number in _numbers(value) if not 0 <= number <= _LARGEST]:
                raise RequestError(
                    f"cost.{name}", f"{name} must be at least 0 and within single precision, got {odd[0]:g}"
                )
            own[name] = value
        with priced.naming_field("cost"):
            each = {name: _of_each(value, rows or 1) for name, value in own.items()}
            if any(isinstance(value, Sequence) for value in own.values()):
                return replace(priced, cost=priced.spec.of_cases(each))
            spec = priced.spec.of_rows({name: float(value[0]) for name, value in each.items()})
            return PricedCost(spec, spec.build())

    def _of_range(self, parameters: Asked, rows: int | None) -> tuple[float, ...]:
        """The value of each row, where the request lists them; one beyond the range, or none at all, is refused."""
        if (ranged := self._spec.ranged) is None:
            return ()
        known = self._spec.at().parameters
        for name in parameters:
            if name not in known and not self._spec.is_own:
                raise RequestError(
                    f"cost.{name}", f"the cost has no parameter {name!r}; {did_you_mean(name, tuple(known))}"
                )
        span = f"{ranged.range.low:g} to {ranged.range.high:g}, such as {ranged.range.middle:.3g}"
        value = _asked(parameters, ranged.name, rows, f"the cost has {ranged.name} from {span}")
        numbers = _numbers(value)
        with naming_field(f"cost.{ranged.name}"):
            ranged.require_inside(min(numbers), max(numbers))
        return tuple(numbers) if isinstance(value, Sequence) else ()

    def priced_for_all(self, parameters: Asked) -> PricedCost:
        """The cost with these numbers in place of its own, the same for all rows."""
        if not parameters:
            return self._given
        for name, value in parameters.items():
            if isinstance(self._spec.parameters.get(name), str):
                raise RequestError(
                    f"cost.{name}", f"the parameter {name} of the cost is text, which a request cannot change"
                )
            if isinstance(value, Sequence) and self._spec.is_own:
                raise RequestError(f"cost.{name}", f"{name} must be a number for a cost of your own, got a list")
            for number in _numbers(value):
                if abs(number) > _LARGEST:
                    raise RequestError(f"cost.{name}", f"{name} must be within single precision, got {number:g}")
        try:
            return self._priced(tuple((name, _hashable(parameters[name])) for name in sorted(parameters)))
        except StakesError as error:
            said = _said(self._spec, error)
            named = [
                name for name in parameters if any(words in said for words in (f"{name!r}", f" {name} ", f" {name},"))
            ]
            raise RequestError(f"cost.{(named or list(parameters))[0]}", said) from error

    @property
    def action_is_outcome(self) -> bool:
        """Whether action and outcome are on one scale."""
        return action_is_outcome(self._given.cost)

    def require_one_number(self) -> None:
        """Raise where an action has several parts, of which no curve can be drawn."""
        if self.parts:
            raise RequestError("", f"the action has {len(self.parts)} parts and no curve; ask /v1/parts for them")

    def require_parts(self) -> None:
        """Raise where an action is one number."""
        if not self.parts:
            raise RequestError("", "the action is one number without parts; ask /v1/curve for its curve")

    def answer(self) -> CostAnswer:
        """What clients may know of it."""
        spec, cost = self._given.spec, self._given.cost
        values = {name: value for name, value in spec.at().level_prices.parameters.items() if isinstance(value, float)}
        return CostAnswer(
            text=self._given.text,
            about=cost_names().get(spec.name, ""),
            unit=spec.unit,
            action_unit=spec.action_unit,
            lower=_number(cost.lower),
            upper=_number(cost.upper),
            parts=list(self.parts),
            action_is_outcome=self.action_is_outcome,
            parameters=[self._parameter(name, float(value)) for name, value in values.items()],
        )

    def _parameter(self, name: str, value: float) -> ParameterAnswer:
        ranged = self._spec.ranged
        if ranged is not None and ranged.name == name:
            low, high, scale = ranged.range.low, ranged.range.high, "log" if ranged.range.log else "linear"
            value = min(max(float(f"{value:.3g}"), low), high)  # to begin with
        elif value > 0 and (name in _PRICES or self._spec.is_own):
            low, high, scale = value / _TIMES, value * _TIMES, "log"
        else:
            reach = 2 * self._outcome_scale if name == "threshold" or not value else abs(value) / 2
            low, high, scale = value - reach, value + reach, "linear"
            least, most = _RANGES.get(name, (0.0 if self.parts else -math.inf, math.inf))  # of parts none is negative
            low, high = max(low, least), min(high, most)
        about = parameter_words(self._spec.name).get(name, "")
        known = {"name": name, "about": about, "value": value, "low": low, "high": high, "scale": scale}
        column = self._spec.columns.get(name, "")
        return ParameterAnswer.model_validate({**known, "slider": name not in _BOUNDS, "column": column})

    def _build(self, parameters: tuple[tuple[str, float | tuple[float, ...] | None], ...]) -> PricedCost:
        given = {**self._spec.parameters, **dict(parameters)}
        spec = replace(self._spec, parameters={name: value for name, value in given.items() if value is not None})
        return PricedCost(spec, spec.level_prices.build())


def _asked(parameters: Asked, name: str, rows: int | None, told: str) -> float | Sequence[float]:
    """The value that a request must give for a parameter: one number, or one for each row."""
    field, value = f"cost.{name}", parameters.get(name)
    wanted = "one number" if rows is None else f"one number, or one for each of the {rows} rows"
    if value is None:
        raise RequestError(field, f"{told}: give {wanted}")
    if isinstance(value, Sequence) and len(value) != rows:
        raise RequestError(field, f"{name} must be {wanted}, got {len(value)}")
    return value


def _numbers(value: float | Sequence[float] | None) -> Sequence[float]:
    return () if value is None else value if isinstance(value, Sequence) else (value,)


def _of_each(value: float | Sequence[float], rows: int) -> torch.Tensor:
    return torch.tensor(value if isinstance(value, Sequence) else [value] * rows, dtype=torch.float64)


def _hashable(value: float | Sequence[float] | None) -> float | tuple[float, ...] | None:
    return tuple(value) if isinstance(value, Sequence) else value


def _number(bound: object) -> float | None:
    """A bound that is one number; None for any other."""
    return float(bound) if isinstance(bound, int | float) else None


def _said(spec: CostSpec, error: Exception) -> str:
    return str(error).replace(str(spec.path), spec.path.name) if spec.is_own else str(error)
