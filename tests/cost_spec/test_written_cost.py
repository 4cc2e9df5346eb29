"""Costs in words: of the library, with units, ranges, an aversion to risk, and on record."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses

import stakes
from stakes import ParameterRange
from stakes.artifacts.folder import words_for
from stakes.cost_spec.spec import _KINDS, CostSpec, cost_again, cost_names, library_cost, with_defaults, without_risk
from stakes.errors import CostError, SettingError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shortfall:penalty=5", stakes.ShortfallCost(5.0)),
        ("wind_dispatch:penalty=5", stakes.WindDispatchCost(5.0)),
        (
            "wind_dispatch:penalty=5,cutoff_speed=25,shear=0",
            stakes.WindDispatchCost(5.0, stakes.PowerCurve(cutoff_speed=25.0, shear=0.0)),
        ),
        ("protection:threshold=-1.5,false_alarm_ratio=2e-1,hazard=below", stakes.ProtectionCost(-1.5, 0.2, "below")),
        ("newsvendor:underage=4,overage=1,upper=500", stakes.NewsvendorCost(4.0, 1.0, 0.0, 500.0)),
        (" imbalance : short = 10, long=1 ,lower=-5,upper=150,", stakes.ImbalanceCost(10.0, 1.0, -5.0, 150.0)),
        ("schedule:short=50,long=0.5,ramp=0.4", stakes.ScheduleCost(50.0, 0.5, ramp=0.4)),
        ("allocation:short=4,long=1,budget=500", stakes.AllocationCost(4.0, 1.0, 500.0)),
        (
            "storage:price=30,short=60,long=5,power=10,energy=40,start=2",
            stakes.StorageCost(30.0, 60.0, 5.0, 10.0, 40.0, start=2.0),
        ),
        ("arbitrage:power=10,energy=40,efficiency=0.8", stakes.ArbitrageCost(10.0, 40.0, 0.8)),
        ("imbalance:short=2..20,long=1,upper=9", stakes.ImbalanceCost(ParameterRange(2, 20), 1.0, 0.0, 9.0)),
        (
            "protection:threshold=-5..5:linear,false_alarm_ratio=0.2,hazard=below",
            stakes.ProtectionCost(ParameterRange(-5, 5, log=False), 0.2, "below"),
        ),
        (
            "schedule:short=4,long=1,ramp=0.5,cvar_level=0.9,cvar_mix=0.5",
            stakes.CVaRCost(stakes.ScheduleCost(4.0, 1.0, ramp=0.5), 0.9, 0.5),
        ),
        ("shortfall:penalty=5,cvar_level=0.8", stakes.CVaRCost(stakes.ShortfallCost(5.0), 0.8)),
    ],
)
def test_costs_of_the_library(text: str, expected: stakes.Cost) -> None:
    spec = CostSpec.parse(text)
    assert spec.build() == expected
    assert not spec.is_own
    assert CostSpec.parse(str(spec)) == spec
    record = json.loads(json.dumps(spec.record()))
    assert CostSpec.from_record(record).build() == expected
    assert CostSpec.from_record(record).record() == record


def test_a_number_for_each_outcome() -> None:
    spec = CostSpec.parse("storage:price=30/35.5/50,short=60 / 70 / 80,long=0,power=1,energy=2")
    assert spec.parameters["short"] == (60, 70, 80)
    assert str(spec) == "storage:price=30/35.5/50,short=60/70/80,long=0,power=1,energy=2,efficiency=0.9"
    assert CostSpec.parse(str(spec)) == spec
    record = json.loads(json.dumps(spec.record()))
    assert record["parameters"]["price"] == [30.0, 35.5, 50.0]
    assert CostSpec.from_record(record).record() == record
    cost = spec.build()
    assert isinstance(cost, stakes.StorageCost)
    assert torch.equal(torch.as_tensor(cost.price), torch.tensor([30, 35.5, 50], dtype=torch.float64))
    refuses(CostError, "^the cost storage: price ", spec.doubts, [[1.0, 2.0], [3.0, 4.0]])


def test_units_are_kept_apart_from_parameters() -> None:
    spec = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR,action_unit=GW")
    assert (spec.unit, spec.action_unit) == ("EUR", "GW")
    assert spec.parameters == {"short": 10, "long": 1, "upper": 150, "lower": 0}
    assert CostSpec.from_record(spec.record()).unit == "EUR"
    assert str(spec) == "imbalance:short=10,long=1,upper=150,lower=0,unit=EUR,action_unit=GW"


def test_an_own_cost_is_recorded_by_reference(own: str) -> None:
    spec = CostSpec.parse(f"{own}:priced:price=3,lower=0,upper=1,unit=EUR")
    record = spec.record()
    assert record["name"] == "costs.py:priced"
    assert str(Path(own).parent) not in json.dumps(record)
    assert record["sha256"] == spec.sha256
    found = CostSpec.from_record(record)
    assert found.is_own
    assert found.record() == record
    refuses(CostError, r"as in --cost PATH/costs\.py:priced:price=3,lower=0,upper=1,unit=EUR$", found.build)


def test_one_of_its_decision_makers_has_a_cost_of_numbers() -> None:
    spec = CostSpec.parse("imbalance:short=2..20,long=1,upper=9,unit=EUR")
    assert spec.ranged is not None
    assert (spec.ranged.name, spec.ranged.range) == ("short", ParameterRange(2, 20))
    assert str(spec.at(5)) == "imbalance:short=5,long=1,upper=9,lower=0,unit=EUR"
    assert spec.at().parameters["short"] == pytest.approx(40**0.5)
    assert spec.at(5).at() == spec.at(5)
    assert spec.doubts(np.array([[4000.0], [5000.0]]))  # an upper bound of 9 decides everything


def test_an_averse_cost_in_python_has_words() -> None:
    averse = stakes.CVaRCost(stakes.ShortfallCost(5.0), 0.8)
    words = words_for(averse)
    assert words is not None
    assert words.build() == averse
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


def test_every_cost_has_a_line_and_its_example_is_a_cost() -> None:
    assert list(cost_names()) == list(_KINDS)
    for kind in _KINDS.values():
        CostSpec.parse(kind.example).build()


def test_defaults_come_last_and_replace_nothing() -> None:
    assert list(with_defaults("imbalance", {"upper": 9.0})) == ["upper", "lower"]
    assert with_defaults("imbalance", {"lower": -1.0}) == {"lower": -1.0}
    assert with_defaults("costs.py:own", {}) == {}
    refuses(CostError, "'wind'", library_cost, "wind", {"penalty": 5.0})


# A cost that is given again for a fit

KEPT = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR").kept()


def test_a_cost_of_the_library_given_again_takes_the_units_on_record() -> None:
    assert cost_again(KEPT, None) is KEPT
    assert cost_again(KEPT, "imbalance:short=10,long=1,upper=150").unit == "EUR"
    for other in ("imbalance:short=9,long=1,upper=150", "imbalance:short=10,long=1,upper=150,unit=USD"):
        refuses(SettingError, "--cost", cost_again, KEPT, other)


def test_an_own_cost_must_be_given_again_and_be_the_same(own: str) -> None:
    given = f"{own}:ready"
    kept = CostSpec.parse(given).kept()
    refuses(CostError, r"--cost PATH/costs\.py:ready", cost_again, kept, None)
    assert cost_again(kept, given).path == Path(own)
    refuses(SettingError, r"--cost PATH/costs\.py:ready, got", cost_again, kept, "shortfall:penalty=5")
    Path(own).write_text("ready = 5", encoding="utf-8")
    refuses(SettingError, r"'costs\.py:ready' has changed", cost_again, kept, given)
