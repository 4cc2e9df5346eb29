"""The cost of a folder: as text in its manifest, unless it is code; and the one to decide for when it is loaded."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from stakes.actions.cvar import risk_of
from stakes.cost_spec.files import spec_of_file
from stakes.cost_spec.library import RISK_KEYS, cost_names
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, require_cost
from stakes.errors import SettingError, StakesError
from stakes.programs.modelling import Program
from stakes.settings import shown

_CONSTANT = ", and the constant action it is compared with is still that of the former"


def chosen_cost(
    record: Mapping[str, Any] | None, given: Cost | CostSpec | None, beside: str = _CONSTANT
) -> tuple[Cost, CostSpec | None, tuple[str, ...]]:
    """The cost to decide for, its words where there are any, and what the user should know about it."""
    kept = None if record is None else checked_words(CostSpec.from_record(record))
    if given is None:
        if kept is None:
            raise SettingError("the cost is the user's own and is not in the bundle; pass it as cost=")
        return kept.build(), kept, ()
    words = given if isinstance(given, CostSpec) else words_for(given)
    cost = given.build() if isinstance(given, CostSpec) else given
    require_cost(cost)
    if kept is None or words is None:
        return cost, kept if kept is not None and kept.is_own else words, ()
    if words.name.endswith(kept.name):  # the units that it was fitted with
        words = replace(words, unit=words.unit or kept.unit, action_unit=words.action_unit or kept.action_unit)
    return cost, words, _differences(kept, words, beside)


def words_for(cost: Cost) -> CostSpec | None:
    """The words for a cost of the library, a program, or a cost from a user's file; None for any other."""
    if (spec := spec_of_file(cost)) is not None:
        return spec
    if (risk := risk_of(cost)) is not None:
        plain = words_for(risk.cost)
        keys = {key: float(getattr(risk, field)) for key, field in RISK_KEYS.items()}
        return None if plain is None or plain.is_own else replace(plain, parameters={**plain.parameters, **keys})
    if isinstance(cost, Program):
        return CostSpec("program.toml", {}, program=cost)
    classes = {f"{name.title().replace('_', '')}Cost": name for name in cost_names()}
    name = classes.get(type(cost).__name__)
    if name is None or not is_dataclass(cost):
        return None
    values = _plain_fields(cost)
    try:
        words = CostSpec(name, values)
    except StakesError:  # parameters that are tensors
        return None
    made = words.build()
    return words if type(made) is type(cost) and _plain_fields(made) == values else None


def same_cost(one: Cost, other: Cost) -> bool:
    """Whether two costs are of one kind and have the same numbers, also where there is one for each outcome."""
    return type(one) is type(other) and _numbers(one) == _numbers(other)


def _numbers(value: Any) -> Any:
    """The same with lists in place of tensors, of which `==` would make no single answer."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _numbers(each) for key, each in value.items()}
    if is_dataclass(value):
        return {field.name: _numbers(getattr(value, field.name)) for field in fields(value) if field.compare}
    return value


def _plain_fields(cost: Any) -> dict[str, Any]:
    """The parameters of a cost and of its power curve as words have them: numbers for each outcome are a tuple."""
    values = {field.name: getattr(cost, field.name) for field in fields(cost)}
    curve = values.pop("power_curve", None)
    values |= {} if curve is None else {field.name: getattr(curve, field.name) for field in fields(curve)}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.dim() > 1:
        return value
    return tuple(value.tolist()) if value.dim() else value.item()


def checked_words(words: CostSpec) -> CostSpec:
    """The words for a cost, which are shown to the user, on one line and without control characters."""
    if not str(words).isprintable():
        raise SettingError(f"cost must be printable text, got {shown(str(words))}")
    return words


def _one_in_range(kept: CostSpec, given: CostSpec) -> CostSpec:
    """The cost on record for the decision maker that is given, where it has a range which that one is in."""
    ranged = kept.ranged
    value = None if ranged is None else given.parameters.get(ranged.name)
    if ranged is None or not isinstance(value, float | int) or not ranged.range.low <= value <= ranged.range.high:
        return kept
    return kept.at(value)


def _differences(kept: CostSpec, given: CostSpec, beside: str) -> tuple[str, ...]:
    before, now = kept.record(), given.record()
    if now == before or now == _one_in_range(kept, given).record():
        return ()
    if now | {"sha256": ""} == before | {"sha256": ""}:
        return (f"the file of the cost {shown(kept.name)} has changed since the forecaster was fitted",)
    return (f"the forecaster was fitted for the cost {shown(str(kept))}; it now decides for {given}{beside}",)
