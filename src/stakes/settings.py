"""Frozen dataclasses from plain values, as JSON and TOML files hold them, and back; the annotations are the schema."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from stakes.errors import SettingError, StakesError, did_you_mean, nearest_hint
from stakes.files import canonical_json

T = TypeVar("T")
Registry = Mapping[type, Callable[[], Mapping[str, type]]]
"""For a protocol or base class, what gives the dataclasses that may stand for it, by name."""

_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none"}
_WORDS |= {str: "text", Path: "text"}


def to_plain(value: object) -> Any:
    """Settings as JSON and TOML hold them: dicts, lists, texts, numbers, None; `from_plain` reads them back."""
    if is_dataclass(value) and not isinstance(value, type):
        name = _name_of(type(value))
        given = {field.name: to_plain(getattr(value, field.name)) for field in fields(value) if field.init}
        return given if name is None else {"name": name, **given}
    if isinstance(value, Mapping):
        return {key: to_plain(inner) for key, inner in _table(value, "a mapping").items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(inner) for inner in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise SettingError(f"a {type(value).__name__} cannot be written as a setting: {shown(value)}")


def from_plain(kind: type[T], value: object, where: str = "", registry: Registry | None = None) -> T:
    """Build a dataclass, or a value of any supported annotation, and refuse whatever does not fit it.

    >>> @dataclass(frozen=True)
    ... class Training:
    ...     epochs: int
    ...     rate: float = 0.1
    >>> from_plain(Training, {"epochs": 3, "rate": 1})
    Training(epochs=3, rate=1.0)
    >>> from_plain(Training, {"epochs": "many"}, "training")
    Traceback (most recent call last):
    stakes.errors.SettingError: training.epochs must be a whole number, got 'many'
    """
    return _Reader(registry or {}).read(kind, value, where)


class JsonText:
    """A dataclass that is kept as JSON text."""

    def to_json(self) -> str:
        """All of it as JSON text."""
        return canonical_json(to_plain(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote; anything else is refused."""
        try:
            values = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise SettingError(f"{cls.__name__} must be JSON text: {error}") from error
        return from_plain(cls, values)


def canonical_text(value: object) -> str:
    """JSON that is the same for equal settings, to be hashed: sorted keys, no spaces, 2.0 and -0.0 as 2 and 0."""
    plain = to_plain(value)
    try:
        text = json.dumps(plain, allow_nan=False)
    except ValueError as error:
        raise SettingError(f"settings to be hashed must hold finite numbers only: {error}") from error
    return json.dumps(json.loads(text, parse_float=_canonical_number), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class _Reader:
    registry: Registry

    def read(self, kind: Any, value: object, where: str) -> Any:
        """The value as the annotation `kind` has it; an annotation beyond reading is a TypeError, the programmer's."""
        origin = get_origin(kind)
        if origin in (Union, UnionType):
            return self._alternative(get_args(kind), value, where)
        if kind in self.registry:
            return self._named(self.registry[kind](), value, where)
        if is_dataclass(kind):
            return self._dataclass(kind, value, where)
        if origin is Literal:
            return _choice(get_args(kind), value, where)
        if origin is tuple:
            return self._tuple(get_args(kind), value, where)
        if isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple:  # with names
            return kind(*self._tuple(tuple(get_type_hints(kind).values()), value, where))
        if origin in (dict, Mapping) and get_args(kind)[0] is str:
            inner = get_args(kind)[1]
            return {key: self.read(inner, part, _join(where, key)) for key, part in _table(value, where).items()}
        if kind in _WORDS:
            return _scalar(kind, value, where)
        raise TypeError(f"{_place(where)} is annotated with {kind}, which cannot be read from plain values")

    def _alternative(self, kinds: tuple[Any, ...], value: object, where: str) -> Any:
        if value is None and NoneType in kinds:
            return None
        kinds = tuple(kind for kind in kinds if kind is not NoneType)
        if len(kinds) == 1:
            return self.read(kinds[0], value, where)
        named = {name: each for kind in kinds for name, each in self._by_name(kind).items()}
        others = [kind for kind in kinds if not self._by_name(kind)]
        if sum(_shape(kind) == "a table" for kind in others) + bool(named) > 1:
            raise TypeError(f"{_place(where)} needs names to tell {' and '.join(map(str, kinds))} apart")
        suited = [kind for kind in others if _shape(kind) == _shape(type(value))]
        if len(suited) == 1 and _shape(suited[0]):  # its own message names the place inside
            return self.read(suited[0], value, where)
        for kind in sorted(suited, key=lambda kind: kind is float):  # float last: it would take the whole numbers too
            try:
                return self.read(kind, value, where)
            except StakesError:
                continue
        if named and isinstance(value, (str, Mapping)):
            return self._named(named, value, where)
        expected = dict.fromkeys([_expected(kind) for kind in others] + ["a table"] * bool(named))  # each once
        raise SettingError(f"{_place(where)} must be {' or '.join(expected)}, got {shown(value)}")

    def _by_name(self, kind: Any) -> Mapping[str, Any]:
        """The dataclasses that may stand for a kind, by name; none where it is read without a name."""
        if kind in self.registry:
            return self.registry[kind]()
        name = _name_of(kind)
        return {} if name is None else {name: kind}

    def _named(self, kinds: Mapping[str, Any], value: object, where: str) -> Any:
        table = {"name": value} if isinstance(value, str) else dict(_table(value, where))
        place = where if isinstance(value, str) else _join(where, "name")
        if "name" not in table:
            raise SettingError(f"{place} must be given, one of {_listed(kinds)}")
        name = _choice(tuple(kinds), table.pop("name"), place)
        return self._filled(kinds[name], table, where)

    def _dataclass(self, kind: Any, value: object, where: str) -> Any:
        """One dataclass, whose name may be left out: there is no other."""
        name = _name_of(kind)
        if name is None:
            return self._filled(kind, _table(value, where), where)
        return self._named({name: kind}, {"name": name, **value} if isinstance(value, Mapping) else value, where)

    def _filled(self, kind: Any, table: Mapping[str, object], where: str) -> Any:
        known = {field.name: field for field in fields(kind) if field.init}
        for key in table:
            if key not in known:
                hint = did_you_mean(key, tuple(known)) if known else f"{_place(where)} has none"
                raise SettingError(f"there is no setting '{_join(where, key)}'; {hint}")
        required = [key for key, field in known.items() if field.default is field.default_factory is MISSING]
        if missing := [_join(where, key) for key in required if key not in table]:
            raise SettingError(f"{' and '.join(missing)} must be given")
        hints = _hints(kind)
        arguments = {key: self.read(hints[key], value, _join(where, key)) for key, value in table.items()}
        try:
            return kind(**arguments)
        except StakesError as error:
            error.args = (_with_place(str(error), where, known),)
            raise
        except (TypeError, ValueError, ArithmeticError) as error:
            raise SettingError(_with_place(str(error), where, known)) from error

    def _tuple(self, kinds: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise SettingError(f"{_place(where)} must be a list, got {shown(value)}")
        if kinds[1:] == (...,):
            kinds = kinds[:1] * len(value)
        if len(kinds) != len(value):
            raise SettingError(f"{_place(where)} must be a list of {len(kinds)}, got {shown(value)}")
        if all(kind is float for kind in kinds) and all(type(part) is float and isfinite(part) for part in value):
            return tuple(value)  # at once: of a fit 100,000 numbers are kept
        pairs = enumerate(zip(kinds, value, strict=True))
        return tuple(self.read(kind, part, f"{where}[{index}]") for index, (kind, part) in pairs)


def _scalar(kind: Any, value: object, where: str) -> Any:
    if isinstance(value, bool):  # which Python counts among the whole numbers
        fits = kind is bool
    elif kind is int:
        fits = isinstance(value, int) and value.bit_length() <= 64  # larger ones overflow wherever they are used
    elif kind is float:
        fits = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max  # neither infinite nor NaN
    else:
        fits = isinstance(value, str if kind is Path else kind)
    if not fits:
        raise SettingError(f"{_place(where)} must be {_WORDS[kind]}, got {shown(value)}")
    return None if value is None else kind(value)


def _choice(choices: tuple[Any, ...], value: object, where: str) -> Any:
    if any(type(choice) is type(value) and choice == value for choice in choices):  # True is not 1 here
        return value
    texts = [choice for choice in choices if isinstance(choice, str)]
    hint = nearest_hint(value, texts) if isinstance(value, str) else ""
    raise SettingError(f"{_place(where)} must be one of {_listed(choices)}, got {shown(value)}{hint}")


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingError(f"{_place(where)} must be a table, got {shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise SettingError(f"{_place(where)} must have texts as keys, got {shown(key)}")
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _name_of(kind: Any) -> str | None:
    """The name of a dataclass that has one for all its instances."""
    name = getattr(kind, "name", None) if is_dataclass(kind) else None
    return name if isinstance(name, str) and all(field.name != "name" for field in fields(kind)) else None


def _shape(kind: Any) -> str:
    """What holds values of this annotation or type in a file; empty for a single value."""
    origin = get_origin(kind) or kind
    if is_dataclass(origin) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "a table"
    return "a list" if isinstance(origin, type) and issubclass(origin, (list, tuple)) else ""


def _expected(kind: Any) -> str:
    return _WORDS.get(kind) or _shape(kind) or f"one of {_listed(get_args(kind))}"


def _listed(choices: Iterable[Any]) -> str:
    return ", ".join(map(repr, choices))


def shown(value: object) -> str:
    """The value on one short line; containers and endless numbers by their size, since repr may fail on them."""
    if isinstance(value, (Mapping, list, tuple)):
        return f"a {'table' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 80 else f"{text[:77]}..."


def _place(where: str) -> str:
    return where or "the value"


def _join(where: str, key: str) -> str:
    part = key if re.fullmatch(r"[\w-]{1,80}", key) else shown(key)
    return f"{where}.{part}" if where else part


def _with_place(message: str, where: str, names: Iterable[str]) -> str:
    """A message that begins with the name of a field, as all messages do, with the place in front."""
    if not where:
        return message
    return f"{where}.{message}" if re.split(r"\W", message, maxsplit=1)[0] in names else f"{where}: {message}"


def _canonical_number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number
