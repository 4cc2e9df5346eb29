"""What looks wrong with a cost for some outcomes; `make snapshots` renews the sentences."""

from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from snapshots import assert_as_kept

from stakes.cost_spec.spec import CostSpec, plausibility_notes
from stakes.errors import CostError, ShapeError

HOURS = np.random.default_rng(0).uniform(40, 90, (30, 4))
WIND, FROST = "wind_dispatch:penalty=5", "protection:threshold=0,false_alarm_ratio=0.2,hazard=below"


def outcomes(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 50)[:, None]


def notes(text: str, seen: np.ndarray) -> list[str]:
    spec = CostSpec.parse(text)
    return plausibility_notes(spec.name, spec.parameters, spec.build(), seen)


WRONG = [
    ("schedule:short=4,long=1,ramp=0.1", HOURS),
    ("schedule:short=4,long=1,ramp=0.1,cvar_level=0.9", HOURS),
    ("schedule:short=4,long=1,upper=0.1", HOURS),
    ("allocation:short=4,long=1,budget=1", HOURS),
    ("storage:price=3,short=6,long=1,power=9,energy=0.1", HOURS),
    ("schedule:short=4,long=1,upper=30", HOURS),
    ("schedule:short=4,long=1,ramp=9,lower=0/50/0/0,upper=9/60/90/90", HOURS),
    ("schedule:short=4,long=1", HOURS[:, :1]),
    ("shortfall:penalty=5", outcomes(0, 250)),
    ("shortfall:penalty=5", outcomes(-2, 0.5)),
    ("shortfall:penalty=5,cvar_level=0.5", outcomes(0, 250)),
    (WIND, outcomes(0, 0.9)),
    (WIND, outcomes(0, 180)),
    (FROST, outcomes(260, 300)),
    ("protection:threshold=35,false_alarm_ratio=0.2,hazard=above", outcomes(-5, 20)),
    ("protection:threshold=2.5,false_alarm_ratio=0.2", outcomes(-10, 30)),
    ("imbalance:short=10,long=1,upper=15", outcomes(30, 100)),
    ("imbalance:short=10,long=1,upper=60", outcomes(30, 100)),
    ("newsvendor:underage=1,overage=9,upper=60", outcomes(-90, 10)),
    ("newsvendor:underage=4,overage=1,upper=150000", outcomes(30, 100)),
]


def test_what_looks_wrong_is_said() -> None:
    said = [CostSpec.parse(text).doubts(seen) for text, seen in WRONG]
    assert all(said)
    said.append(CostSpec.parse(WIND).doubts(outcomes(0, 25), ["ws100"]))
    lines = [f"{text}: {note}" for (text, _), notes in zip([*WRONG, (WIND, None)], said, strict=True) for note in notes]
    assert_as_kept(Path(__file__).with_name("notes.txt"), "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("shortfall:penalty=5", outcomes(0, 1.02)),
        (WIND, outcomes(0, 25)),
        (FROST, outcomes(-10, 30)),
        (FROST.replace("below", "above"), outcomes(-10, 30)),
        ("newsvendor:underage=4,overage=1,upper=150", outcomes(20, 120)),
        ("imbalance:short=10,long=1,upper=150", outcomes(30, 100)),
        ("imbalance:short=10,long=1,upper=300", np.repeat(outcomes(30, 100), 2, axis=1)),
        ("shortfall:penalty=5", np.full((3, 1), np.nan)),
        ("schedule:short=4,long=1,ramp=9,upper=150", HOURS),
        ("allocation:short=4,long=1,budget=300", HOURS),
        ("storage:price=3,short=6,long=1,power=10,energy=40", HOURS),
        ("arbitrage:power=10,energy=40", HOURS),
    ],
)
def test_nothing_is_said_where_all_is_well(text: str, seen: np.ndarray) -> None:
    assert notes(text, seen) == CostSpec.parse(text).doubts(seen) == []


def test_own_costs(own: str) -> None:
    refuses(CostError, "with_math", notes, f"{own}:with_math:lower=0,upper=1", outcomes(0, 1))
    (note,) = notes(f"{own}:profit:lower=0,upper=60", outcomes(-90, 10))
    assert "90%" in note


def test_outcomes_have_cases_and_columns() -> None:
    refuses(ShapeError, "outcomes", notes, "shortfall:penalty=5", outcomes(0, 1)[:, 0])


@pytest.mark.parametrize("name", ["ws100", "u100", "wind_speed_100m", "speed, 100 m", "wind100", "site1_ws_100"])
def test_a_height_in_a_name_is_asked_about(name: str) -> None:
    (note,) = CostSpec.parse(WIND).doubts(outcomes(0, 25), [name])
    assert "reference_height=100" in note
    for known in ("reference_height=100", "shear=0"):
        assert CostSpec.parse(f"{WIND},{known}").doubts(outcomes(0, 25), [name]) == []


@pytest.mark.parametrize("name", ["ws10", "speed 10m", "site60", "wind", "ws_2010", "100m/s", "ws100mean"])
def test_a_name_without_another_height_raises_no_doubt(name: str) -> None:
    assert CostSpec.parse(WIND).doubts(outcomes(0, 25), [name]) == []
