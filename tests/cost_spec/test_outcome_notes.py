"""Which of a cost's numbers goes to which outcome, and whether the order of outcomes matters."""

from pathlib import Path

import numpy as np
import pytest
from calls import called

from stakes.cost_spec.spec import CostSpec, depends_on_order, order_notes

PROGRAM = """[decide.plan]
cost = "dayahead"
upper = [9, 8, 7]
[recourse.bought]
cost = 60
[recourse_constraints]
balance = "plan + bought >= other * outcome"
[numbers]
dayahead = [30, 25, 40.5]
other = [1, 1, 1]
"""
DAYS = ["2020-01-01", "2020-01-02"]


def test_each_outcome_is_named_with_its_number() -> None:
    spec = CostSpec.parse("schedule:short=50/50/60,long=1,upper=9/9/9")
    outcomes = np.random.default_rng(0).uniform(2, 8, (20, 3))
    assert spec.doubts(outcomes, ["b00", "b04", "b08"]) == ["short: b00 50, b04 50, b08 60"]
    assert spec.doubts(outcomes) == []


def test_many_outcomes_are_shortened() -> None:
    prices = "/".join(map(str, range(30, 54)))
    spec = CostSpec.parse(f"schedule:short={prices},long=1")
    (note,) = spec.outcome_notes(spec.build(), [f"h{hour}" for hour in range(24)])
    assert note == "short: h0 30, h1 31, h2 32, ... h23 53"


def test_programs_tell_their_numbers_and_those_of_quantities(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(PROGRAM)
    for words in (str(path), f"{path}:cvar_level=0.5"):
        spec = CostSpec.parse(words)
        assert spec.outcome_notes(spec.build(), ["b00", "b04", "b08"]) == [
            "dayahead: b00 30, b04 25, b08 40.5",
            "upper of plan: b00 9, b04 8, b08 7",
        ]
    changed = CostSpec.parse(f"{path}:dayahead=1/2/3")
    assert changed.outcome_notes(changed.build(), ["a", "b", "c"])[0] == "dayahead: a 1, b 2, c 3"


def test_commands_tell_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(PROGRAM)
    columns = [f"b{block}_m{member}" for block in ("08", "00", "04") for member in (1, 2)]
    rows = [f"{day},{','.join(str(2 + place % 5) for place in range(6))}" for day in DAYS]
    Path("members.csv").write_text("\n".join([f"time,{','.join(columns)}", *rows]))
    Path("seen.csv").write_text("\n".join(["time,b08,b04,b00", *(f"{day},3,4,5" for day in DAYS)]))
    note = "dayahead: b00 30, b04 25, b08 40.5\n"
    words = ("--members", "members.csv", "--cost", "own.toml")
    assert f"note: {note}" in called("decide", *words)[2]
    assert f"note: {note}" in called("evaluate", *words, "--outcomes", "seen.csv")[2]
    assert note in called("check-cost", *words)[1]


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
    for names in (["b20", "b16", "b12"], ["22", "23", "0"], ["night", "day"]):
        (note,) = order_notes(ramp, names)
        assert note.endswith(f": {', '.join(names)}")
    assert order_notes(CostSpec.parse("schedule:short=5,long=1").build(), ["b20", "b16"]) == []
