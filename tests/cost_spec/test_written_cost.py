import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from refusals import refuses

import stakes
from stakes.cost_spec.spec import CostSpec
from stakes.errors import CostError, StakesError

Refusal = Callable[[str], str]


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
    refuses(CostError, "^the cost storage: price must be one number, .* each", spec.doubts, [[1.0, 2.0], [3.0, 4.0]])


def test_units_are_kept_apart_from_parameters() -> None:
    spec = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR,action_unit=GW")
    assert (spec.unit, spec.action_unit) == ("EUR", "GW")
    assert spec.parameters == {"short": 10, "long": 1, "upper": 150, "lower": 0}
    assert CostSpec.from_record(spec.record()).unit == "EUR"
    assert str(spec) == "imbalance:short=10,long=1,upper=150,lower=0,unit=EUR,action_unit=GW"


TEXTS: dict[str, tuple[str, str]] = {
    "empty": ("", "there is no cost ''"),
    "misspelt": ("shortfal:penalty=5", "there is no cost 'shortfal', .*FILE.py:function; did you mean 'shortfall'?"),
    "unknown": (
        "quantile",
        "there are shortfall, wind_dispatch, protection, cost_loss, newsvendor, imbalance",
    ),
    "upper case": ("Shortfall:penalty=5", "did you mean 'shortfall'?"),
    "misspelt parameter": (
        "schedule:short=50,long=5,rmap=300",
        "the cost schedule has no parameter 'rmap'; did you mean 'ramp'?",
    ),
    "misspelt aversion": ("shortfall:penalty=5,cvar_levl=0.9", "no parameter 'cvar_levl'; did you mean 'cvar_level'?"),
    "unknown parameter": ("shortfall:fee=5", "the cost shortfall has no parameter 'fee'; its parameters are penalty"),
    "bound that is fixed": ("shortfall:penalty=5,upper=2", "has no parameter 'upper'; its parameters are penalty"),
    "missing parameter": ("shortfall", "the cost shortfall needs penalty, as in shortfall:penalty=5"),
    "missing upper": ("imbalance:short=1,long=1", "the cost imbalance needs upper, as in imbalance:short=10"),
    "several missing": ("newsvendor:upper=5", "needs underage and overage"),
    "no number": ("shortfall:penalty=high", "the parameter penalty of the cost shortfall must be a number, got 'high'"),
    "not finite": ("shortfall:penalty=nan", "the parameter penalty of the cost shortfall must be finite, got 'nan'"),
    "negative": ("shortfall:penalty=-5", "the cost shortfall: penalty must be positive and finite, got -5.0"),
    "decimal comma": ("shortfall:penalty=2,5", "got '5'; decimals are written with a point"),
    "no value": ("shortfall:penalty=", "must be followed by key=value, separated by commas, got 'penalty='"),
    "no key": ("shortfall:5", "must be followed by key=value"),
    "twice": ("shortfall:penalty=5,penalty=6", "the cost shortfall has the parameter 'penalty' twice"),
    "bounds reversed": ("imbalance:short=1,long=1,lower=5,upper=5", "lower must be below upper, got 5.0 and 5.0"),
    "upper below nought": ("imbalance:short=1,long=1,upper=-1", "lower must be below upper"),
    "each where one is meant": ("allocation:short=4,long=1,budget=5/6", "budget .* must be a number, got '5/6'"),
    "each in a cost of one number": ("imbalance:short=4/5,long=1,upper=9", "short .* must be a number, got '4/5'"),
    "one of each is missing": ("schedule:short=4//5,long=1", "a number, or numbers for each .* 1/2/3, got '4//5'"),
    "one of each is no number": ("schedule:short=4/five,long=1", "or numbers for each .* 1/2/3, got '4/five'"),
    "not equally many": ("schedule:short=4/5,long=1/2/3", "equally many .*, got: short has 2, long has 3"),
    "one of each is negative": ("schedule:short=4/-5,long=1", "the cost schedule: short must not be negative, got -5"),
    "missing part of a program": ("schedule:short=4", "needs long, as in schedule:short=50,long=0.5,quadratic=1,ramp"),
    "sold at a loss": ("storage:price=9,short=5,long=0,power=1,energy=1", "short must lie above price"),
    "no such hazard": ("protection:threshold=0,false_alarm_ratio=1,hazard=under", "hazard must be one of above, below"),
    "curve upside down": ("wind_dispatch:penalty=5,ramp_speed=30", "ramp_speed must be below cutoff_speed"),
    "file without function": ("costs.py", "must name a function of the file too, as in costs.py:my_cost"),
    "function left empty": ("costs.py:", "must name a function of the file, got ''"),
    "keys for a function": ("costs.py:lower=0,upper=1", "must name a function of the file, got 'lower=0,upper=1'"),
    "no such file": ("no/such/costs.py:profit", "there is no file 'no/such/costs.py' for the cost"),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS)
def test_a_text_that_is_no_cost_is_refused(refusal: Refusal, text: str, expected: str) -> None:
    assert re.search(expected, refusal(text))


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


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"name": "shortfal", "parameters": {}}, "'shortfal'"),
        ({"name": "shortfall"}, "cost.parameters"),
        (
            {"name": "shortfall", "parameters": {"penalty": "5"}},
            "penalty",
        ),
        ({"name": "protection", "parameters": {"hazard": 5.0}}, "hazard"),
        ({"name": "shortfall", "parameters": {"penalty": [5]}}, "penalty"),
        ({"name": "schedule", "parameters": {"short": ["5"]}}, r"cost.parameters.short\[0\]"),
        ({"name": "schedule", "parameters": {"short": []}}, "short"),
        ({"name": "shortfall", "parameters": {"penalty": 5.0}, "extra": 1}, "'cost.extra'"),
        ({"name": "costs.py:f", "parameters": {}}, "cost.sha256"),
    ],
)
def test_a_record_that_is_none_is_refused(record: dict[str, object], expected: str) -> None:
    refuses(StakesError, expected, CostSpec.from_record, record)


@pytest.mark.parametrize("words", ["a.toml", "a.py:cost:lower=0,upper=1"])
def test_a_pipe_is_not_waited_for(words: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / words.split(":")[0])
    refuses(CostError, "must be a regular file", lambda: CostSpec.parse(f"{tmp_path}/{words}").build())
