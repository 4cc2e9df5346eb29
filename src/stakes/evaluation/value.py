"""What a forecast is worth for every value of a cost parameter: relative economic value, for any cost."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.costs.cost import (
    Cost,
    ranged_parameter,
    require_cost,
    require_finite_costs,
    user_cost_errors,
    with_parameter,
)
from stakes.data.case_table import checked_times
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError
from stakes.evaluation.case_metrics import climatology_cost
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, YearlyCases, block_length, upper_bounds
from stakes.frames import Tabular
from stakes.scores.decision_score import realised_costs
from stakes.text import amount_text, fixed_text, number_text, shared_decimals

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
POINTS = 50
"""At how many values of a range a forecast is judged."""

_NOTHING = 1e-9  # of the size of the costs: where climatology costs no more than foresight, there is nothing to gain
CLIMATOLOGY = "climatology"


@dataclass(frozen=True, eq=False, repr=False)
class ValueCurve(Tabular):
    """What forecasts are worth at each of K values of a cost parameter, on the same cases.

    Bands hold at all values, and for all forecasts, at once, with 95 %; they are NaN where there are too few cases.

    Attributes:
        parameter: The name of the parameter.
        values: Its values, (K,), ascending.
        forecasts: The names of the F forecasts.
        cost: The mean cost of a case where decisions follow each forecast, (F, K).
        climatology_cost: That of the constant action which is best at each value, (K,).
        foresight_cost: That of the best action for each outcome, (K,).
        value: (climatology - forecast) / (climatology - foresight), (F, K): 1 is perfect foresight, 0 climatology; NaN
            where nothing can be gained.
        value_low: The lower end of its band, (F, K).
        value_high: The upper end.
        saved: What the first forecast saves a case against the second, or against climatology if it is alone, (K,).
        saved_low: The lower end of its band, (K,).
        saved_high: The upper end.
        cases: How many cases there are.
        block: How many neighbouring cases depend on each other.
        yearly: Cases in a year; None without times.
        unit: The unit of the cost; empty if unknown.
    """

    parameter: str
    values: Floats
    forecasts: tuple[str, ...]
    cost: Floats
    climatology_cost: Floats
    foresight_cost: Floats
    value: Floats
    value_low: Floats
    value_high: Floats
    saved: Floats
    saved_low: Floats
    saved_high: Floats
    cases: int
    block: int
    yearly: YearlyCases | None = None
    unit: str = ""

    @property
    def rival(self) -> str:
        """What the first forecast is compared with: the second, or climatology."""
        return self.forecasts[1] if len(self.forecasts) > 1 else CLIMATOLOGY

    @property
    def worth_buying(self) -> tuple[tuple[float, float], ...]:
        """Between which values of the parameter the first forecast is proven to save something."""
        return self._stretches(self.saved_low > 0)

    @property
    def a_loss(self) -> tuple[tuple[float, float], ...]:
        """Between which values it is proven to cost more than what it is compared with."""
        return self._stretches(self.saved_high < 0)

    def saved_at(self, value: float) -> Difference:
        """What the first forecast saves a case at the value of the curve that is nearest, with its band.

        Args:
            value: A value of the parameter.
        """
        place = int(np.abs(self.values - value).argmin())
        return Difference(*(float(each[place]) for each in (self.saved, self.saved_low, self.saved_high)))

    @property
    def sentence(self) -> str:
        """For which values the forecast is worth buying, and what it is worth at one of them."""
        first, stretches, losses = self.forecasts[0], self.worth_buying, self.a_loss
        beside = f" instead of {self.rival}" if len(self.forecasts) > 1 else ""
        whole = self._from_to(((float(self.values[0]), float(self.values[-1])),))
        if np.isnan(self.saved_low).all():
            return f"{self.cases} cases, in blocks of {self.block}, are too few to say whether {first} is worth buying."
        if not stretches:
            told = f"{first} is not proven to save anything{beside or ' against climatology'} for {whole}."
        else:
            widest = max(
                stretches, key=lambda ends: np.searchsorted(self.values, ends[1]) - self.values.searchsorted(ends[0])
            )
            inside = self.values[(self.values >= widest[0]) & (self.values <= widest[1])]
            at = float(inside[len(inside) // 2])
            told = (
                f"{first} is worth buying{beside} for {self._from_to(stretches)}: at {number_text(at, 3)} it saves "
                f"{self.amount(self.saved_at(at))}, so do not pay more for it."
            )
        told += f" It costs more than {self.rival} for {self._from_to(losses)}." if losses else ""
        if len(self.forecasts) > 1 and (below := self._stretches(self.value_high[0] < 0)):
            told += f" Against climatology it is a loss for {self._from_to(below)}."
        return f"{told[0].upper()}{told[1:]}"

    def amount(self, saved: Difference) -> str:
        """What is saved a case, in words: a year's worth where cases have times.

        Args:
            saved: What is saved a case.
        """
        many = 1.0 if self.yearly is None else self.yearly.cases
        mean, low, high = (many * each for each in saved)
        decimals = shared_decimals([mean, low, high])
        band = f" [{fixed_text(low, decimals)}, {fixed_text(high, decimals)}]" if np.isfinite(low) else ""
        return f"{amount_text(mean, self.unit)} per {'case' if self.yearly is None else 'year'}{band}"

    @property
    def _headline(self) -> str:
        return self.sentence

    def to_frame(self) -> "pd.DataFrame":
        """One row a value of the parameter, each number in a column of its own."""
        import pandas as pd

        columns: dict[str, Floats] = {self.parameter: self.values}
        for place, name in enumerate(self.forecasts):
            columns |= {f"cost {name}": self.cost[place], f"value {name}": self.value[place]}
            columns |= {f"value_low {name}": self.value_low[place], f"value_high {name}": self.value_high[place]}
        names = ("climatology_cost", "foresight_cost", "saved", "saved_low", "saved_high")
        return pd.DataFrame(columns | {name: getattr(self, name) for name in names})

    def _stretches(self, holds: NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
        """The first and the last of neighbouring values where it holds."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(int)))
        pairs = zip(edges[::2], edges[1::2] - 1, strict=True)
        return tuple((float(self.values[first]), float(self.values[last])) for first, last in pairs)

    def _from_to(self, stretches: Sequence[tuple[float, float]]) -> str:
        ends = [[number_text(end, 3) for end in each] for each in stretches]
        return f"{self.parameter} " + " and ".join(f"{a}" if a == b else f"from {a} to {b}" for a, b in ends)


def value_curve(
    forecasts: Any,
    outcomes: Any,
    cost: Cost | Callable[[float], Cost],
    values: ArrayLike | None = None,
    *,
    past: ArrayLike | None = None,
    times: Any = None,
    sites: ArrayLike | None = None,
    block: int | Literal["auto"] = "auto",
    unit: str = "",
) -> ValueCurve:
    """What forecasts are worth for each value of a cost parameter, between climatology (0) and perfect foresight (1).

    With a `CostLossCost` over `protection` the value is the relative economic value of verification; over `threshold`
    `cost - foresight_cost` is the Murphy diagram of a quantile.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> known = random.uniform(0.2, 0.8, size=(2000, 1))
    >>> outcomes = known[:, 0] + 0.1 * random.normal(size=2000)
    >>> members = {"sharp": known + 0.1 * random.normal(size=(2000, 30)), "wide": random.normal(0.5, 0.2, (2000, 30))}
    >>> curve = stakes.value_curve(members, outcomes, stakes.ShortfallCost(stakes.ParameterRange(1, 50)))
    >>> curve.forecasts, curve.worth_buying, curve.value.shape
    (('sharp', 'wide'), ((1.0, 50.0),), (2, 50))

    Args:
        forecasts: Members (N, M) or (N, M, D), points (N,), or a `ForecastSet`; or several by name, and the first is
            compared with the second.
        outcomes: What happened, (N,) or (N, D), in the order of time.
        cost: A cost one of whose parameters is a range, or a function that makes a cost of a number.
        values: The values of the parameter, in any order; None takes 50 along the range.
        past: Earlier outcomes (N', ...), whose best constant action is climatology; None uses `outcomes` themselves, in
            hindsight, which flatters climatology and never the forecasts.
        times: When the outcomes happened, (N,); None if unknown.
        sites: Site of each case, (N,), if climatology has an action for each; None for one site.
        block: How many neighbouring cases depend on each other; "auto" derives it from their times.
        unit: The unit of the cost, for sentences.
    """
    if isinstance(forecasts, Mapping) and not forecasts:
        raise SettingError("forecasts must hold at least one forecast, got none")
    given = forecasts if isinstance(forecasts, Mapping) else {"the forecast": forecasts}
    name, numbers, costs = _costs(cost, values)
    return curve_at(name, numbers, costs, given, outcomes, past=past, times=times, sites=sites, block=block, unit=unit)


def curve_at(
    name: str,
    values: ArrayLike,
    costs: Sequence[Cost],
    forecasts: Mapping[str, Any],
    outcomes: Any,
    *,
    past: ArrayLike | None = None,
    times: Any = None,
    sites: ArrayLike | None = None,
    block: int | Literal["auto"] = "auto",
    unit: str = "",
) -> ValueCurve:
    """The curve over ascending values of a parameter, at each of which there is a cost."""
    numbers = np.asarray(values, dtype=np.float64)
    seen = given_outcomes(outcomes, "outcomes")
    sets = {str(key): given_forecast(str(key), each, outcomes, seen) for key, each in forecasts.items()}
    moments = checked_times(times, len(seen))
    where = None if sites is None else np.asarray(sites)
    learned = None if past is None else (given_outcomes(past, "past"), None)
    paid = np.stack([_paid(each, sets, seen, where, learned) for each in costs], axis=1)  # (F + 2, K, N)
    size = block_length(len(seen), moments, block)
    means = paid.mean(-1)
    *own, constant, foresight = means
    with np.errstate(divide="ignore", invalid="ignore"):
        nothing = constant - foresight <= _NOTHING * np.abs(means).max()
        gain = np.where(nothing, np.nan, constant - foresight)  # (K,)
        value = (constant - np.stack(own)) / gain
        # To first order the error of the ratio is the mean of these, and climatology's own choice does not count.
        apart = paid[-2] - paid[:-2] - value[..., None] * (paid[-2] - paid[-1])  # (F, K, N)
        apart = apart / gain[:, None]
    saved = paid[1 if len(sets) > 1 else -2] - paid[0]  # (K, N)
    reach = _bands(np.concatenate([*apart, saved]), size, len(own) * len(numbers))
    of_value, of_saved = reach[:, : -len(numbers)].reshape(2, *value.shape), reach[:, -len(numbers) :]
    return ValueCurve(
        parameter=name,
        values=numbers,
        forecasts=tuple(sets),
        cost=np.stack(own),
        climatology_cost=constant,
        foresight_cost=foresight,
        value=value,
        value_low=value + of_value[0],
        value_high=value + of_value[1],
        saved=saved.mean(-1),
        saved_low=of_saved[0],
        saved_high=of_saved[1],
        cases=len(seen),
        block=size,
        yearly=None if moments is None else YearlyCases.of(moments),
        unit=unit,
    )


def _bands(values: Floats, block: int, first: int) -> Floats:
    """Bounds (2, K) between which the means of values (K, N) lie, the first ones at once, and the others at once."""
    bounds = np.full((2, len(values)), np.nan)
    known = np.isfinite(values.sum(1))
    if values.shape[1] < LEAST_BLOCKS * block:
        return bounds
    for part in (slice(None, first), slice(first, None)):
        chosen = np.flatnonzero(known[part]) + (part.start or 0)
        if len(chosen):
            some = values[chosen]
            bounds[:, chosen] = -upper_bounds(-some, block=block), upper_bounds(some, block=block)
    return bounds


def _paid(cost: Cost, sets: Mapping[str, ForecastSet], outcome: torch.Tensor, sites: Any, learned: Any) -> Floats:
    """What each forecast, climatology and foresight cost in each case, (F + 2, N)."""
    with user_cost_errors(cost):
        rows = [
            realised_costs(
                cost,
                torch.from_numpy(each.members),
                outcome,
                weights=None if each.weights is None else torch.from_numpy(each.weights),
            ).cost
            for each in sets.values()
        ]
        constant = climatology_cost(cost, outcome, sites, learned)
        foresight = realised_costs(cost, outcome[:, None], outcome).cost
    paid = np.stack([*(each.double().numpy() for each in rows), constant, foresight.double().numpy()])
    require_finite_costs(paid.reshape(-1))
    return paid


def _costs(cost: Any, values: ArrayLike | None) -> tuple[str, Floats, list[Cost]]:
    """The name of the parameter, its values in ascending order, and the cost at each of them."""
    if values is not None:
        numbers = np.unique(np.asarray(values, dtype=np.float64))
        if not numbers.size or not np.isfinite(numbers).all():
            raise SettingError(f"values must be finite numbers, got {values!r}")
    if callable(cost) and not isinstance(cost, Cost | type):
        if values is None:
            raise SettingError("values must be given where cost is a function of the parameter")
        name = next(iter(inspect.signature(cost).parameters), "parameter")
        made = [cost(value) for value in numbers.tolist()]
    else:
        require_cost(cost)
        if (ranged := ranged_parameter(cost)) is None:
            raise CostError(
                f"cost must have a parameter that is a range, as in ShortfallCost(ParameterRange(1, 50)) or, in words, "
                f"shortfall:penalty=1..50, got {cost}"
            )
        name, numbers = ranged.name, np.array(ranged.range.points(POINTS)) if values is None else numbers
        ranged.require_inside(float(numbers[0]), float(numbers[-1]))
        made = [with_parameter(cost, name, value) for value in numbers.tolist()]
    for each in made:
        require_cost(each)
    return name, numbers, made


def given_outcomes(values: Any, name: str) -> torch.Tensor:
    """What happened, (N, D)."""
    given = np.asarray(values, dtype=np.float64)
    if given.ndim not in (1, 2) or not given.size:
        raise ShapeError(f"{name} must have the shape (cases,) or (cases, outcomes), got {given.shape}")
    if unusable := int((~np.isfinite(given)).sum()):
        raise NonFiniteError(f"{name} must be finite, got {unusable} of {given.size} that are not")
    return torch.from_numpy(given.reshape(len(given), -1).copy())


def given_forecast(name: str, forecast: Any, outcomes: Any, seen: torch.Tensor, weights: Any = None) -> ForecastSet:
    """The forecasts of the cases, by their place; tables must have the labels of the outcomes."""
    labels: list[Any] = [getattr(each, "index", None) for each in (forecast, outcomes)]
    if all(hasattr(each, "equals") for each in labels) and not labels[0].equals(labels[1]):
        raise ShapeError(f"forecast {name!r} must have the same index as the outcomes")
    if isinstance(forecast, ForecastSet):
        given = forecast
    else:
        members = np.asarray(forecast)
        members = members[:, None] if members.ndim == 1 else members
        given = ForecastSet(members[..., None] if members.ndim == 2 else members, weights)
    if (given.members.shape[0], given.members.shape[2]) != tuple(seen.shape):
        raise ShapeError(
            f"forecast {name!r} must have {seen.shape[0]} cases and {seen.shape[1]} outcomes, got "
            f"{given.members.shape[0]} and {given.members.shape[2]}"
        )
    return given
