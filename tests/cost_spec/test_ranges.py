"""A range in the words of a cost."""

import numpy as np
import pytest
from refusals import refuses

from stakes import ImbalanceCost, ParameterRange, ProtectionCost
from stakes.cost_spec.spec import CostSpec
from stakes.errors import CostError


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("imbalance:short=2..20,long=1,upper=9", ImbalanceCost(ParameterRange(2, 20), 1.0, 0.0, 9.0)),
        (
            "protection:threshold=-5..5:linear,false_alarm_ratio=0.2,hazard=below",
            ProtectionCost(ParameterRange(-5, 5, log=False), 0.2, "below"),
        ),
    ],
)
def test_words_make_a_cost_with_a_range(text: str, cost: object) -> None:
    spec = CostSpec.parse(text)
    assert spec.build() == cost
    assert CostSpec.parse(str(spec)) == spec
    assert CostSpec.from_record(spec.record()).build() == cost


def test_one_of_its_decision_makers_has_a_cost_of_numbers() -> None:
    spec = CostSpec.parse("imbalance:short=2..20,long=1,upper=9,unit=EUR")
    assert spec.ranged is not None
    assert (spec.ranged.name, spec.ranged.range) == ("short", ParameterRange(2, 20))
    assert str(spec.at(5)) == "imbalance:short=5,long=1,upper=9,lower=0,unit=EUR"
    assert spec.at().parameters["short"] == pytest.approx(40**0.5)
    assert spec.at(5).at() == spec.at(5)
    assert spec.doubts(np.array([[4000.0], [5000.0]]))  # an upper bound of 9 decides everything


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shortfall:penalty=50..1", "larger one, got 50..1"),
        ("shortfall:penalty=0..5", "must be positive, got 0..5; write 0..5:linear"),
        ("shortfall:penalty=-1..5:linear", "penalty must be positive and finite, got -1"),
        ("shortfall:penalty=1..many", "written LOW..HIGH"),
        ("imbalance:short=1..2,long=1..2,upper=9", "one parameter of a cost may be a range"),
        ("imbalance:short=1,long=1,upper=5..9", "the parameter upper of the cost imbalance cannot be a range"),
        ("schedule:short=1..50,long=1", "the parameter short of the cost schedule cannot be a range; those that can"),
        ("wind_dispatch:penalty=5,cutoff_speed=20..30", "the parameter cutoff_speed of the cost wind_dispatch cannot"),
        ("protection:threshold=0,false_alarm_ratio=0.2,hazard=a..b", "hazard must be one of"),
        ("shortfall:penalty=5,cvar_level=0.5..0.9", "cvar_level"),
    ],
)
def test_what_makes_no_range_is_refused(text: str, said: str) -> None:
    refuses(CostError, said.replace(".", r"\."), CostSpec.parse, text)
