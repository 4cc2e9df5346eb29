import json
import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Literal, Optional, Protocol, Union

import hypothesis
import pytest
from example_counts import examples
from hypothesis import strategies
from refusals import refuses
from snapshots import assert_as_kept

from stakes.errors import CostError, SettingError, StakesError
from stakes.settings import canonical_text, from_plain, to_plain

some_examples = examples(150)


class Task(Protocol):
    name: ClassVar[str]


@dataclass(frozen=True)
class Wind:
    name: ClassVar[str] = "wind"
    penalty: float = 2.0
    months: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.penalty < 0:
            raise CostError(f"penalty must not be negative, got {self.penalty}")


@dataclass(frozen=True)
class Heating:
    name: ClassVar[str] = "heating"
    threshold: float
    twice: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.threshold)


@dataclass(frozen=True)
class Nothing:
    name: ClassVar[str] = "nothing"


@dataclass(frozen=True)
class Training:
    epochs: int
    rate: float = 1e-3
    clip: float | None = None
    schedule: Literal["constant", "cosine"] = "constant"
    verbose: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    title: str = "untitled"
    training: Training
    task: Task
    source: "Wind | Heating | None" = None
    fallback: Union["Later", str, int] = 0
    width: float | tuple[float, float] = 1.0
    size: float | int = 1
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    parts: tuple[Training, ...] = ()
    pair: tuple[str, int] = ("a", 1)
    tags: dict[str, str | None] = field(default_factory=dict)
    folder: Path = Path("runs")


@dataclass(frozen=True)
class Later:
    value: "int | None" = None


def tasks() -> Mapping[str, type]:
    return {"wind": Wind, "heating": Heating, "nothing": Nothing}


REGISTRY: dict[type, Callable[[], Mapping[str, type]]] = {Task: tasks}


def read(kind: Any, value: object, where: str = "") -> Any:
    return from_plain(kind, value, where, REGISTRY)


def message(kind: Any, value: object, where: str = "") -> str:
    return refuses(StakesError, "", read, kind, value, where)


FULL = Settings(
    title="ä \ud800 '\"\n",
    training=Training(3, 0.5, 1.0, "cosine", True),
    task=Wind(3.0, (1, 12)),
    source=Heating(15.0),
    fallback=Later(4),
    width=(1.0, 2.0),
    size=2,
    grid={"task.penalty": (1.0, 2.5), "": ()},
    parts=(Training(1), Training(2)),
    pair=("b", 2),
    tags={"x": None, "y": "z"},
    folder=Path("some/where"),
)
FULL_PLAIN = {
    "title": "ä \ud800 '\"\n",
    "training": {"epochs": 3, "rate": 0.5, "clip": 1.0, "schedule": "cosine", "verbose": True},
    "task": {"name": "wind", "penalty": 3.0, "months": [1, 12]},
    "source": {"name": "heating", "threshold": 15.0},
    "fallback": {"value": 4},
    "width": [1.0, 2.0],
    "size": 2,
    "grid": {"task.penalty": [1.0, 2.5], "": []},
    "parts": [
        {"epochs": 1, "rate": 1e-3, "clip": None, "schedule": "constant", "verbose": False},
        {"epochs": 2, "rate": 1e-3, "clip": None, "schedule": "constant", "verbose": False},
    ],
    "pair": ["b", 2],
    "tags": {"x": None, "y": "z"},
    "folder": "some/where",
}


# Both ways


def test_a_nested_dataclass_goes_out_and_comes_back() -> None:
    assert to_plain(FULL) == FULL_PLAIN
    assert read(Settings, FULL_PLAIN) == FULL
    assert read(Settings, json.loads(json.dumps(to_plain(FULL)))) == FULL


def test_a_field_called_name_is_no_kind() -> None:
    @dataclass(frozen=True)
    class Person:
        name: str = "nobody"

    assert to_plain(Person("x")) == {"name": "x"}
    assert read(Person, {"name": "x"}) == Person("x")
    assert read(Person, {}) == Person()


VALUES = [
    (int, 3, 3),
    (int, 2**64 - 1, 2**64 - 1),
    (float, 0.5, 0.5),
    (float, 3, 3.0),
    (str, "text", "text"),
    (bool, True, True),
    (None, None, None),
    (type(None), None, None),
    (Path, "a/b", Path("a/b")),
    (Literal["a", 1, None], "a", "a"),
    (Literal["a", 1, None], None, None),
    (int | None, None, None),
    (int | None, 3, 3),
    (Optional[int], 3, 3),  # noqa: UP045 - the older spelling is another type
    (int | str, "3", "3"),
    (float | int, 3, 3),
    (bool | int, True, True),
    (Literal["auto"] | float, 1, 1.0),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, str], (1, "a"), (1, "a")),
    (tuple[()], [], ()),
    (tuple[tuple[float, float], ...], [[1, 2]], ((1.0, 2.0),)),
    (tuple[str, ...] | tuple[float, ...], [1, 2], (1.0, 2.0)),
    (Mapping[str, int], {"a": 1}, {"a": 1}),
    (dict[str, tuple[int, ...]], {"a": [1]}, {"a": (1,)}),
    (Training, {"epochs": 2}, Training(2)),
    (Wind, {}, Wind()),
    (Wind, "wind", Wind()),
    (Wind | None, {"penalty": 1}, Wind(1.0)),
    (Wind | Nothing, "nothing", Nothing()),
    (Wind | Nothing | str, "nothing", "nothing"),
    (Wind | Nothing | Literal["none"] | int, "none", "none"),
    (Wind | Nothing | Literal["none"] | int, "wind", Wind()),
    (Training | bool, {"epochs": 1}, Training(1)),
    (Task, "wind", Wind()),
    (Task, {"name": "heating", "threshold": 1}, Heating(1.0)),
    (Task | None, "nothing", Nothing()),
    (tuple[Task, ...], ["wind", {"name": "nothing"}], (Wind(), Nothing())),
    (Mapping[str, Task], {"a": "wind"}, {"a": Wind()}),
]


@pytest.mark.parametrize(("kind", "plain", "expected"), VALUES)
def test_every_annotation_both_ways(kind: Any, plain: object, expected: object) -> None:
    found = read(type(None) if kind is None else kind, plain)
    assert (found, type(found)) == (expected, type(expected))
    again = read(type(None) if kind is None else kind, json.loads(json.dumps(to_plain(found))))
    assert (again, type(again)) == (found, type(found))


def test_fields_that_init_does_not_take_are_left_out_and_refused() -> None:
    assert to_plain(Heating(1.0)) == {"name": "heating", "threshold": 1.0}
    assert message(Heating, {"threshold": 1, "twice": 2}) == "there is no setting 'twice'; there are threshold"


def test_what_is_no_setting_cannot_be_written() -> None:
    refuses(SettingError, "^a date cannot be written as a setting", to_plain, {"a": date(2020, 1, 1)})
    refuses(SettingError, r"^a mapping must have texts as keys, got 1$", to_plain, {1: 2})
    refuses(SettingError, "a type cannot be written", to_plain, Wind)


# Messages

WRONG = [
    (int, "many"),
    (int, True),
    (int, 3.0),
    (int, 2**64),
    (int, "x" * 100),
    (float, False),
    (float, math.nan),
    (float, 1 << 20000),
    (str, 1),
    (bool, 1),
    (type(None), 0),
    (Literal["cold", "warm"], "warn"),
    (Literal["cold", "warm"], "hot!!"),
    (Literal[0, 1], True),
    (int | None, "x"),
    (Literal["auto"] | float, "x"),
    (float | tuple[float, float], "x"),
    (float | tuple[float, float], [1, "x"]),
    (float | tuple[float, float], [1]),
    (tuple[str, ...] | tuple[int, ...], [1, "x"]),
    (Training | bool, {"epochs": "x"}),
    (tuple[int, ...], [1, 2.5]),
    (tuple[int, str], [1, "a", 2]),
    (Mapping[str, int], [1]),
    (Mapping[str, int], {"a": "b"}),
    (Mapping[str, int], {"a.b\n": "b"}),
    (Mapping[str, int], {1: 1}),
    (Training, {1: 1}),
    (Training, {}),
    (Training, {"epoch": 1}),
    (Nothing, {"x": 1}),
    (Wind, "wnd"),
    (Wind | Nothing, {}),
    (Wind | Nothing, {"name": 3}),
    (Wind | Nothing, 3),
    (Wind | Nothing | int, 3.5),
    (Wind | Heating, {"name": "wind", "penalti": 1}),
    (Task, "nothin"),
]


def test_a_wrong_value_is_named_with_its_place() -> None:
    """The sentences stand in a file: one for each wrong value."""
    said = [message(kind, plain, "epochs") for kind, plain in WRONG]
    assert [sentence for sentence in said if "epochs" not in sentence] == []
    assert_as_kept(Path(__file__).with_name("settings_sentences.txt"), "\n".join(said) + "\n")


def test_places_are_dotted_all_the_way_down() -> None:
    assert message(Settings, {**FULL_PLAIN, "parts": [{"epochs": 1}, {"epochs": None}]}) == (
        "parts[1].epochs must be a whole number, got None"
    )
    assert message(Settings, {**FULL_PLAIN, "task": {"name": "wind", "penalti": 1}}) == (
        "there is no setting 'task.penalti'; did you mean 'penalty'?"
    )
    assert message(Settings, {**FULL_PLAIN, "task": {"name": "wind", "months": [1, "may"]}}, "run") == (
        "run.task.months[1] must be a whole number, got 'may'"
    )


def test_without_a_place_the_value_itself_is_named() -> None:
    assert message(int, "x") == "the value must be a whole number, got 'x'"
    assert message(Wind | Nothing, {}) == "name must be given, one of 'wind', 'nothing'"


def test_every_missing_setting_is_named() -> None:
    assert message(Settings, {}) == "training and task must be given"


def test_an_error_of_the_dataclass_itself_keeps_its_kind_and_gets_the_place() -> None:
    refuses(CostError, "^task.penalty", read, Task, {"name": "wind", "penalty": -1}, "task")
    refuses(CostError, "^penalty", read, Task, {"name": "wind", "penalty": -1})


@pytest.mark.parametrize("error", [TypeError("no good"), ValueError("no good"), OverflowError("no good")])
def test_other_errors_of_the_dataclass_become_setting_errors(error: Exception) -> None:
    @dataclass(frozen=True)
    class Fragile:
        value: int = 0

        def __post_init__(self) -> None:
            raise error

    with pytest.raises(SettingError, match=r"^a.b: no good$") as caught:
        read(Fragile, {}, "a.b")
    assert caught.value.__cause__ is error
    assert message(Fragile, {}) == "no good"


@pytest.mark.parametrize(
    "kind", [list[int], tuple, dict[int, int], Any, object, Training | Later, Wind | dict[str, int]]
)
def test_an_annotation_beyond_reading_is_the_programmers_error(kind: Any) -> None:
    refuses(TypeError, r"^a .*(cannot be read|apart)", read, kind, {}, "a")


def test_a_protocol_without_registry_is_the_programmers_error() -> None:
    refuses(TypeError, "cannot be read from plain values", from_plain, Settings, FULL_PLAIN)


# Property tests

names = strategies.text(max_size=8)
finite = strategies.floats(allow_nan=False, allow_infinity=False)
whole = strategies.integers(-(2**64) + 1, 2**64 - 1)
trainings = strategies.builds(
    Training,
    epochs=whole,
    rate=finite,
    clip=strategies.none() | finite,
    schedule=strategies.sampled_from(["constant", "cosine"]),
    verbose=strategies.booleans(),
)
winds = strategies.builds(
    Wind, penalty=strategies.floats(0, 1e300), months=strategies.lists(whole, max_size=3).map(tuple)
)
heatings = strategies.builds(Heating, threshold=finite)
all_settings = strategies.builds(
    Settings,
    title=names,
    training=trainings,
    task=winds | heatings | strategies.just(Nothing()),
    source=strategies.none() | winds | heatings,
    fallback=names | whole | strategies.builds(Later, strategies.none() | whole),
    width=finite | strategies.tuples(finite, finite),
    size=finite | whole,
    grid=strategies.dictionaries(names, strategies.lists(finite, max_size=3).map(tuple), max_size=3),
    parts=strategies.lists(trainings, max_size=2).map(tuple),
    pair=strategies.tuples(names, whole),
    tags=strategies.dictionaries(names, strategies.none() | names, max_size=3),
    folder=names.map(Path),
)
garbage = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.just(20000).map(lambda bits: 1 << bits)  # more digits than Python prints
    | strategies.floats()
    | strategies.sampled_from(["wind", "heating", "cosine", "name", date(2020, 1, 1), ...])
    | names,
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(names | strategies.sampled_from(["name", "epochs", "value", 3]), inner, max_size=3)
    ),
    max_leaves=8,
)


@some_examples
@hypothesis.given(all_settings)
def test_whatever_settings_go_out_and_come_back(settings: Settings) -> None:
    plain = to_plain(settings)
    assert read(Settings, plain) == settings
    assert read(Settings, json.loads(json.dumps(plain))) == settings
    assert canonical_text(read(Settings, plain)) == canonical_text(settings)


@some_examples
@hypothesis.given(all_settings, strategies.data())
def test_a_damaged_tree_is_read_well_or_refused(settings: Settings, data: strategies.DataObject) -> None:
    plain = to_plain(settings)
    for _ in range(data.draw(strategies.integers(1, 3))):
        plain = damaged(plain, data)
    assert_well_read(plain)


@some_examples
@hypothesis.given(garbage)
def test_garbage_is_refused(plain: object) -> None:
    assert_well_read(plain)


def damaged(plain: object, data: strategies.DataObject) -> object:
    """A copy in which one node is replaced or removed, or has garbage added."""
    tree: Any = [deepcopy(plain)]
    holder, place = tree, 0
    while isinstance(holder[place], (dict, list)) and holder[place] and data.draw(strategies.booleans()):
        holder = holder[place]
        place = data.draw(strategies.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
    node, action = holder[place], data.draw(strategies.sampled_from(["replace", "remove", "add"]))
    if action == "add" and isinstance(node, dict):
        node[data.draw(names | strategies.sampled_from(["name", "epochs", 3]))] = data.draw(garbage)
    elif action == "add" and isinstance(node, list):
        node.append(data.draw(garbage))
    elif action == "remove" and holder is not tree:
        del holder[place]
    else:
        holder[place] = data.draw(garbage)
    return tree[0]


def assert_well_read(plain: object) -> None:
    try:
        found = read(Settings, plain)
    except StakesError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
        return
    assert type(found) is Settings
    assert_well_typed(found)
    assert read(Settings, to_plain(found)) == found


def assert_well_typed(found: Settings) -> None:
    """Every field has the type of its annotation, told apart from what reads them."""
    is_whole = lambda value: type(value) is int
    is_number = lambda value: type(value) is float and math.isfinite(value)
    is_training = lambda value: (
        type(value) is Training
        and is_whole(value.epochs)
        and is_number(value.rate)
        and (value.clip is None or is_number(value.clip))
        and value.schedule in ("constant", "cosine")
        and type(value.verbose) is bool
    )
    assert type(found.title) is str
    assert is_training(found.training)
    for task in (found.task, found.source):
        if isinstance(task, Wind):
            assert is_number(task.penalty)
            assert type(task.months) is tuple
            assert all(map(is_whole, task.months))
        elif isinstance(task, Heating):
            assert is_number(task.threshold)
        else:
            assert task == (Nothing() if task is found.task else None)
    assert isinstance(found.fallback, Later) or type(found.fallback) in (str, int)
    assert not isinstance(found.fallback, Later) or found.fallback.value is None or is_whole(found.fallback.value)
    assert is_number(found.width) or (len(found.width) == 2 and all(map(is_number, found.width)))
    assert is_number(found.size) or is_whole(found.size)
    assert all(type(key) is str and all(map(is_number, values)) for key, values in found.grid.items())
    assert all(map(is_training, found.parts))
    assert [type(part) for part in found.pair] == [str, int]
    assert all(type(key) is str and (value is None or type(value) is str) for key, value in found.tags.items())
    assert isinstance(found.folder, Path)


# The text to be hashed


def test_canonical_text_is_the_same_for_equal_settings() -> None:
    assert canonical_text({"b": 1.0, "a": (1, 2.5, -0.0), "c": "ä"}) == '{"a":[1,2.5,0],"b":1,"c":"\\u00e4"}'
    assert canonical_text(Wind(2)) == canonical_text(Wind(2.0)) == '{"months":[],"name":"wind","penalty":2}'
    assert canonical_text(Wind(2.5)) != canonical_text(Wind(2.0))
    assert canonical_text(Training(2**63 + 1)) != canonical_text(Training(2**63))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_canonical_text_refuses_numbers_that_json_does_not_have(number: float) -> None:
    refuses(SettingError, r"^settings to be hashed must hold finite numbers only", canonical_text, Wind(number))


def test_canonical_text_names_what_is_no_setting() -> None:
    refuses(SettingError, r"^a date cannot be written as a setting", canonical_text, [date(2020, 1, 1)])
