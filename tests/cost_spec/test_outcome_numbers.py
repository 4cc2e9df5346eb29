"""Which of a cost's numbers goes to which outcome."""

from pathlib import Path

import numpy as np
import pytest
from calls import called

from stakes.cost_spec.spec import CostSpec

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
