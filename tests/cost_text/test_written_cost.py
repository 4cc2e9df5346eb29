import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import stakes
from stakes.cost_text.written_cost import CostSpec, cost_names
from stakes.errors import CostError, StakesError
from stakes.method.costs import TotalCost

OWN = """
from dataclasses import dataclass
import stakes

def profit(action, outcome):
    return (action - outcome) ** 2

def priced(action, outcome, price, kind="linear"):
    return price * (action - outcome) ** 2

ready = stakes.NewsvendorCost(4.0, 1.0, 0.0, 50.0)
hidden = stakes.cost_function(lambda a, y: (a - y) ** 2, 0.0, 5.0)

def factory(penalty, upper=9.0):
    return stakes.ImbalanceCost(penalty, 1.0, 0.0, upper)

@dataclass(frozen=True)
class Tracking:
    weight: float
    lower: float = 0.0
    upper: float = 3.0

    def __call__(self, action, outcome):
        return self.weight * (action - outcome).squeeze(-1) ** 2

def nothing():
    return 5

def wrong(penalty):
    raise KeyError("no such\\nplace")

number = 5

def with_math(action, outcome):
    import math
    return math.exp(action)
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "costs.py").write_text(OWN, encoding="utf-8")
    return str(tmp_path / "costs.py")


def one_line(text: str) -> str:
    """What is said about a text that makes no cost."""
    with pytest.raises(StakesError) as caught:
        CostSpec.parse(text).build()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


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


def test_every_cost_has_a_line_and_its_example_is_a_cost() -> None:
    from stakes.cost_text.written_cost import _KINDS

    assert list(cost_names()) == list(_KINDS)
    for kind in _KINDS.values():
        CostSpec.parse(kind.example).build()


def test_names_come_without_torch() -> None:
    code = (
        "import sys; from stakes.cost_text.written_cost import cost_names; cost_names(); print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


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
def test_a_text_that_is_no_cost_is_refused(text: str, expected: str) -> None:
    assert re.search(expected, one_line(text))


OWN_ERRORS: dict[str, tuple[str, str]] = {
    "no such function": ("profits", "the file 'costs.py' has no function 'profits'; did you mean 'profit'?"),
    "no bounds": (
        "profit",
        "'profit' of 'costs.py' needs the bounds of its action, lower and upper, as in costs.py:pro",
    ),
    "one bound": ("profit:lower=0", "needs the bounds of its action, upper"),
    "bounds reversed": ("profit:lower=3,upper=1", "'profit' of 'costs.py': lower must be below upper, got 3.0 and 1.0"),
    "bound no number": ("profit:lower=a,upper=1", "the parameter lower of the cost"),
    "parameter not taken": (
        "profit:price=3,lower=0,upper=1",
        "must take price, lower, upper and return a cost, or be f(",
    ),
    "parameter missing": (
        "priced:lower=0,upper=1",
        "must take lower, upper and return a cost, or be f(action, outcome)",
    ),
    "object with parameters": ("ready:penalty=3", "'ready' is an object that takes no parameters, got penalty"),
    "class without parameters": ("Tracking", "'Tracking' of 'costs.py' must take no parameters and return a cost"),
    "returns no cost": ("nothing", "'nothing' of 'costs.py' is no cost: cost must have lower, upper"),
    "factory fails": ("wrong:penalty=3", "'wrong' of 'costs.py' fails: KeyError: 'no such\\nplace'"),
    "a number": ("number", "'number' of 'costs.py' must be a cost, got int"),
    "a module": ("stakes", "'stakes' of 'costs.py' must be a cost, got module"),
}


@pytest.mark.parametrize(("reference", "expected"), OWN_ERRORS.values(), ids=OWN_ERRORS)
def test_an_own_cost_that_is_none_is_refused(own: str, reference: str, expected: str) -> None:
    assert expected.replace("\n", "\\n") in one_line(f"{own}:{reference}")


FILES: dict[str, tuple[str, str]] = {
    "does not parse": ("x = 1\ndef f(:\n", "the cost's file 'costs.py' fails in line 2: SyntaxError: "),
    "fails": ("x = 1\n\nundefined\n", "fails in line 3: NameError: name 'undefined' is not defined"),
    "lacks a module": ("import no_such_module\n", "fails in line 1: ModuleNotFoundError: No module named"),
    "exits": ("raise SystemExit(3)\n", "fails in line 1: SystemExit: 3"),
    "fails in a library": ("import json\njson.loads('{')\n", "fails in line 2: JSONDecodeError"),
    "is no text": ("x = 1\0\n", "the cost's file 'costs.py' fails: SyntaxError"),
}


@pytest.mark.parametrize(("content", "expected"), FILES.values(), ids=FILES)
def test_a_file_that_fails_is_one_line(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "costs.py").write_text(content, encoding="utf-8")
    assert expected in one_line(f"{tmp_path}/costs.py:f")


def test_a_folder_and_a_near_name(own: str) -> None:
    folder = Path(own).parent
    assert "did you mean 'costs.py'?" in one_line(f"{folder}/cost.py:f")
    (folder / "b.py").mkdir()
    assert "is a folder, expected a Python file" in one_line(f"{folder}/b.py:f")


def test_own_costs_of_every_kind(own: str) -> None:
    action, outcome = torch.tensor([[1.0]]), torch.tensor([[3.0]])
    expected = {
        "profit:lower=0,upper=10": (0, 10, 4),
        "priced:price=3,lower=-1,upper=1": (-1, 1, 12),
        "priced:price=3,kind=square,lower=-1,upper=1": (-1, 1, 12),
        "ready": (0, 50, 8),
        "hidden": (0, 5, 4),
        "factory:penalty=2": (0, 9, 8),
        "factory:penalty=2,upper=4": (0, 4, 8),
        "Tracking:weight=0.5": (0, 3, 2),
    }
    for reference, (lower, upper, value) in expected.items():
        spec = CostSpec.parse(f"{own}:{reference}")
        assert spec.is_own
        cost = spec.build()
        assert (cost.lower, cost.upper, cost(action, outcome).item()) == (lower, upper, value)
        for copied in (pickle.loads(pickle.dumps(cost)), copy.deepcopy(cost)):
            assert copied(action, outcome).item() == value


def test_an_own_cost_keeps_what_it_knows(own: str) -> None:
    ready, profit = (CostSpec.parse(f"{own}:{name}").build() for name in ("ready", "profit:lower=0,upper=10"))
    assert isinstance(ready, TotalCost)
    assert not isinstance(profit, TotalCost)
    assert not hasattr(profit, "best_action")
    members = torch.tensor([[1.0], [2.0], [6.0]])
    assert stakes.optimal_action(ready, members).item() == 6
    assert stakes.optimal_action(profit, members).item() == pytest.approx(3)


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


def test_a_file_that_changed_is_not_executed(own: str) -> None:
    spec = CostSpec.parse(f"{own}:ready")
    Path(own).write_text("raise SystemExit", encoding="utf-8")
    with pytest.raises(CostError, match="has changed since it was named"):
        spec.build()


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


def outcomes(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 50)[:, None]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("shortfall:penalty=5", outcomes(0, 1.02)),
        ("wind_dispatch:penalty=5", outcomes(0, 25)),
        ("protection:threshold=0,false_alarm_ratio=0.2,hazard=below", outcomes(-10, 30)),
        ("newsvendor:underage=4,overage=1,upper=150", outcomes(20, 120)),
        ("imbalance:short=10,long=1,upper=150", outcomes(30, 100)),
        ("imbalance:short=10,long=1,upper=300", np.repeat(outcomes(30, 100), 2, axis=1)),
        ("shortfall:penalty=5", np.full((3, 1), np.nan)),
    ],
)
def test_no_doubts_where_all_is_well(text: str, seen: np.ndarray) -> None:
    assert CostSpec.parse(text).doubts(seen) == []


@pytest.mark.parametrize(
    ("text", "seen", "expected"),
    [
        (
            "shortfall:penalty=5",
            outcomes(0, 250),
            "outcomes run from 0 to 250, which does not look like a fraction of cap",
        ),
        ("shortfall:penalty=5", outcomes(-2, 0.5), "does not look like a fraction of capacity"),
        ("wind_dispatch:penalty=5", outcomes(0, 0.9), "for a fraction of capacity there is the cost shortfall"),
        ("wind_dispatch:penalty=5", outcomes(0, 180), "does not look like a wind speed in m/s"),
        (
            "protection:threshold=0,false_alarm_ratio=0.2,hazard=below",
            outcomes(260, 300),
            "kelvin, while the threshold 0",
        ),
        ("protection:threshold=35,false_alarm_ratio=0.2", outcomes(-5, 20), "never cross the threshold 35"),
        (
            "imbalance:short=10,long=1,upper=15",
            outcomes(30, 100),
            "always the upper bound 15: there is nothing to decide",
        ),
        ("imbalance:short=10,long=1,upper=60", outcomes(30, 100), "best action is the upper bound 60, and it is in 5"),
        (
            "newsvendor:underage=1,overage=9,upper=60",
            outcomes(-90, 10),
            "the lower bound 0, and it is in 90% of the cases",
        ),
        (
            "newsvendor:underage=4,overage=1,upper=150000",
            outcomes(30, 100),
            "use less than 1% of the range from lower=0",
        ),
    ],
)
def test_doubts_are_said(text: str, seen: np.ndarray, expected: str) -> None:
    assert any(expected in sentence for sentence in CostSpec.parse(text).doubts(seen))


def test_an_own_cost_that_fails_on_the_outcomes_is_one_line(own: str) -> None:
    spec = CostSpec.parse(f"{own}:with_math:lower=0,upper=1")
    with pytest.raises(CostError, match="fails for the outcomes of the table") as caught:
        spec.doubts(outcomes(0, 1))
    assert len(str(caught.value).splitlines()) == 1
