import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import stakes
from stakes.cost_text.written_cost import CostSpec
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
        (
            "protection:threshold=-1.5,false_alarm_ratio=2e-1,hazard=below",
            stakes.ProtectionCost(-1.5, 0.2, "below"),
        ),
        ("newsvendor:underage=4,overage=1,upper=500", stakes.NewsvendorCost(4.0, 1.0, 0.0, 500.0)),
        (" imbalance : short = 10, long=1 ,lower=-5,upper=150,", stakes.ImbalanceCost(10.0, 1.0, -5.0, 150.0)),
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


def test_units_are_kept_apart_from_parameters() -> None:
    spec = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR,action_unit=GW")
    assert (spec.unit, spec.action_unit) == ("EUR", "GW")
    assert spec.parameters == {"short": 10, "long": 1, "upper": 150, "lower": 0}
    assert CostSpec.from_record(spec.record()).unit == "EUR"
    assert str(spec) == "imbalance:short=10,long=1,upper=150,lower=0,unit=EUR,action_unit=GW"


TEXTS: dict[str, tuple[str, str]] = {
    "empty": ("", "there is no cost ''"),
    "misspelt": ("shortfal:penalty=5", "there is no cost 'shortfal', .*FILE.py:function; did you mean 'shortfall'?"),
    "unknown": ("quantile", "there are shortfall, wind_dispatch, protection, newsvendor, imbalance"),
    "upper case": ("Shortfall:penalty=5", "did you mean 'shortfall'?"),
    "unknown parameter": (
        "shortfall:penalti=5",
        "the cost shortfall has no parameter 'penalti'; its parameters are pen",
    ),
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
    with pytest.raises(CostError, match=r"as in --cost PATH/costs\.py:priced:price=3,lower=0,upper=1,unit=EUR$"):
        found.build()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"name": "shortfal", "parameters": {}}, "there is no cost 'shortfal'"),
        ({"name": "shortfall"}, "cost.parameters must be given"),
        (
            {"name": "shortfall", "parameters": {"penalty": "5"}},
            "penalty of the cost shortfall must be a number, got '5'",
        ),
        ({"name": "protection", "parameters": {"hazard": 5.0}}, "hazard of the cost protection must be text"),
        ({"name": "shortfall", "parameters": {"penalty": [5]}}, "cost.parameters.penalty must be a number or text"),
        ({"name": "shortfall", "parameters": {"penalty": 5.0}, "extra": 1}, "there is no setting 'cost.extra'"),
        ({"name": "costs.py:f", "parameters": {}}, "cost.sha256 must be 64 hexadecimal digits, got ''"),
    ],
)
def test_a_record_that_is_none_is_refused(record: dict[str, object], expected: str) -> None:
    with pytest.raises(StakesError, match=expected):
        CostSpec.from_record(record)
