import json
from pathlib import Path

import pytest
from refusals import refuses

import stakes
from stakes.artifacts.folder import words_for
from stakes.cost_spec.spec import CostSpec, without_risk
from stakes.errors import CostError

AVERSE = "schedule:short=4,long=1,ramp=0.5,cvar_level=0.9,cvar_mix=0.5"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AVERSE, stakes.CVaRCost(stakes.ScheduleCost(4.0, 1.0, ramp=0.5), 0.9, 0.5)),
        ("shortfall:penalty=5,cvar_level=0.8", stakes.CVaRCost(stakes.ShortfallCost(5.0), 0.8)),
    ],
)
def test_any_cost_may_be_averse_to_risk(text: str, expected: stakes.Cost) -> None:
    spec = CostSpec.parse(text)
    assert spec.build() == expected
    assert CostSpec.parse(str(spec)) == spec
    record = json.loads(json.dumps(spec.record()))
    assert CostSpec.from_record(record).build() == expected
    words = words_for(expected)
    assert words is not None
    assert words.build() == expected
    assert not without_risk({"cvar_level": 0.9, "cvar_mix": 1.0})


def test_a_program_may_be_averse_to_risk(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    words = '[decide.plan]\ncost = 1\n[recourse.missing]\ncost = "fee"\n[recourse_constraints]\n'
    words += 'need = "plan + missing >= outcome"\n'
    path.write_text(f"{words}[numbers]\nfee = 3\n")
    spec = CostSpec.parse(f"{path}:fee=4,cvar_level=0.9")
    cost = spec.build()
    assert isinstance(cost, stakes.CVaRCost)
    assert isinstance(cost.cost, stakes.Program)
    assert (cost.level, cost.mix, cost.cost.numbers) == (0.9, 1.0, {"fee": 4})
    record = spec.record()
    path.unlink()
    assert CostSpec.from_record(record).build() == cost
    assert spec.doubts([[1.0, 2.0], [3.0, 5.0]]) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shortfall:penalty=5,cvar_level=1", "the cost shortfall: cvar_level must be a number above 0 and below 1"),
        ("shortfall:penalty=5,cvar_level=0.9,cvar_mix=0", "the cost shortfall: cvar_mix must be a number above 0"),
        ("shortfall:penalty=5,cvar_mix=0.5", "has cvar_mix without cvar_level, as in cvar_level=0.9"),
        ("shortfall:penalty=5,cvar_level=high", "the parameter cvar_level of the cost shortfall must be a number"),
        ("shortfall:penalty=5,cvar_level=0.5..0.9", "cvar_level of the cost shortfall must be a number, got 0.5..0.9"),
        ("shortfall:penalty=5,cvar=0.9", "the cost shortfall has no parameter 'cvar'"),
    ],
)
def test_what_is_no_aversion_is_refused(text: str, said: str) -> None:
    assert said in refuses(CostError, "", CostSpec.parse, text)


def test_doubts_are_those_of_the_cost_itself() -> None:
    outcomes = [[250.0, 3.0], [100.0, 2.0], [20.0, 9.0]]
    assert "next to nothing" in CostSpec.parse("schedule:short=4,long=1,ramp=0.1,cvar_level=0.9").doubts(outcomes)[0]
    assert "fraction of capacity" in CostSpec.parse("shortfall:penalty=5,cvar_level=0.5").doubts(outcomes)[0]
