"""Whether a cost depends on the order of outcomes, and what is said about it."""

from pathlib import Path

import pytest

from stakes.cost_spec.spec import CostSpec, depends_on_order, order_notes

STORE = """[decide.charge]
upper = 1
cost = "outcome"
[limits]
room = "{words}"
"""


@pytest.mark.parametrize(
    ("words", "depends"),
    [
        ("schedule:short=5,long=1", False),
        ("schedule:short=5,long=1,ramp=2", True),
        ("schedule:short=5,long=1,ramp=2,cvar_level=0.9", True),
        ("allocation:short=5,long=1,budget=9", False),
        ("arbitrage:power=1,energy=4", True),
        ("storage:price=1,short=3,long=0,power=1,energy=2", True),
        ("imbalance:short=5,long=1,upper=9", False),
    ],
)
def test_ramps_and_batteries_depend_on_the_order(words: str, depends: bool) -> None:
    assert depends_on_order(CostSpec.parse(words).build()) == depends


@pytest.mark.parametrize(
    ("words", "depends"),
    [("0 <= so_far(charge) <= 5", True), ("abs(change(charge)) <= 1", True), ("sum(charge) <= 5", False)],
)
def test_programs_depend_on_it_by_their_words(tmp_path: Path, words: str, depends: bool) -> None:
    path = tmp_path / "store.toml"
    path.write_text(STORE.format(words=words))
    assert depends_on_order(CostSpec.parse(str(path)).build()) == depends


def test_the_order_is_told_where_numbers_do_not_tell_it() -> None:
    ramp = CostSpec.parse("schedule:short=5,long=1,ramp=2").build()
    assert order_notes(ramp, ["b00", "b04", "b08"]) == order_notes(ramp, ["y"]) == order_notes(ramp, ()) == []
    assert order_notes(ramp, ["b20", "b16", "b12"]) == [
        "the cost may depend on the order of outcomes, which is taken as given, and is not that of their numbers: "
        "b20, b16, b12"
    ]
    assert order_notes(ramp, ["22", "23", "0"])[0].endswith("not that of their numbers: 22, 23, 0")
    assert order_notes(ramp, ["night", "day"]) == [
        "the cost may depend on the order of outcomes, which is taken as given: night, day"
    ]
    assert order_notes(CostSpec.parse("schedule:short=5,long=1").build(), ["b20", "b16"]) == []
