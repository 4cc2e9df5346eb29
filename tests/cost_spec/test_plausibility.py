import numpy as np
import pytest
from refusals import refuses

from stakes.cost_spec.spec import CostSpec, plausibility_notes
from stakes.errors import CostError, ShapeError


def notes(text: str, seen: np.ndarray) -> list[str]:
    spec = CostSpec.parse(text)
    return plausibility_notes(spec.name, spec.parameters, spec.build(), seen)


HOURS = np.random.default_rng(0).uniform(40, 90, (30, 4))


@pytest.mark.parametrize(
    ("text", "seen", "expected"),
    [
        ("schedule:short=4,long=1,ramp=0.1", HOURS, "ramp=0.1 is next to nothing where outcomes are as large as 8"),
        ("schedule:short=4,long=1,upper=0.1", HOURS, "upper=0.1 is next to nothing"),
        ("allocation:short=4,long=1,budget=1", HOURS, "budget=1 is next to nothing where outcomes add up to 3"),
        ("storage:price=3,short=6,long=1,power=9,energy=0.1", HOURS, "is it in the unit of the outcomes?"),
        ("schedule:short=4,long=1,upper=30", HOURS, "the best action is always the same: there is nothing to decide"),
        ("schedule:short=4,long=1,ramp=9,lower=0/50/0/0,upper=9/60/90/90", HOURS, "100% of the cases there is no best"),
        ("schedule:short=4,long=1,ramp=9,lower=0/50/0/0,upper=9/60/90/90", HOURS, ": its limits contradict each other"),
        ("schedule:short=4,long=1", HOURS[:, :1], "there is one outcome, so that the cost schedule has no others"),
    ],
)
def test_what_looks_wrong_with_a_program(text: str, seen: np.ndarray, expected: str) -> None:
    assert expected in " ".join(notes(text, seen))


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
        ("schedule:short=4,long=1,ramp=9,upper=150", HOURS),
        ("allocation:short=4,long=1,budget=300", HOURS),
        ("storage:price=3,short=6,long=1,power=10,energy=40", HOURS),
        ("arbitrage:power=10,energy=40", HOURS),
    ],
)
def test_nothing_is_said_where_all_is_well(text: str, seen: np.ndarray) -> None:
    assert notes(text, seen) == []


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
        ("imbalance:short=10,long=1,upper=60", outcomes(30, 100), "best action is the upper bound 60 "),
        (
            "newsvendor:underage=1,overage=9,upper=60",
            outcomes(-90, 10),
            "in 90% of the cases",
        ),
        (
            "newsvendor:underage=4,overage=1,upper=150000",
            outcomes(30, 100),
            "use less than 1% of the range from lower=0",
        ),
    ],
)
def test_what_looks_wrong_is_said(text: str, seen: np.ndarray, expected: str) -> None:
    assert any(expected in sentence for sentence in notes(text, seen))


def test_an_own_cost_that_fails_on_the_outcomes_is_one_line(own: str) -> None:
    refuses(CostError, "fails for the outcomes of the table", notes, f"{own}:with_math:lower=0,upper=1", outcomes(0, 1))


def test_an_own_cost_has_bounds_of_its_own(own: str) -> None:
    (note,) = notes(f"{own}:profit:lower=0,upper=60", outcomes(-90, 10))
    assert "in 90% of the cases" in note


def test_a_spec_says_the_same_as_the_function() -> None:
    text, seen = "shortfall:penalty=5", outcomes(0, 250)
    assert CostSpec.parse(text).doubts(seen) == notes(text, seen)


def test_outcomes_have_cases_and_columns() -> None:
    refuses(ShapeError, "outcomes", notes, "shortfall:penalty=5", outcomes(0, 1)[:, 0])


@pytest.mark.parametrize("name", ["ws100", "u100", "wind_speed_100m", "speed, 100 m", "wind100", "site1_ws_100"])
def test_a_height_in_a_name_is_asked_about(name: str) -> None:
    text, seen = "wind_dispatch:penalty=5", outcomes(0, 25)
    (note,) = CostSpec.parse(text).doubts(seen, [name])
    assert note.startswith(f"the name of {name!r} says 100 m, while the cost takes the wind at 10 m and raises it")
    assert CostSpec.parse(f"{text},reference_height=100").doubts(seen, [name]) == []
    assert CostSpec.parse(f"{text},shear=0").doubts(seen, [name]) == []


@pytest.mark.parametrize("name", ["ws10", "speed 10m", "site60", "wind", "ws_2010", "100m/s", "ws100mean"])
def test_a_name_without_another_height_raises_no_doubt(name: str) -> None:
    assert CostSpec.parse("wind_dispatch:penalty=5").doubts(outcomes(0, 25), [name]) == []


def test_the_side_of_the_hazard_is_told_where_it_was_not_given() -> None:
    text, seen = "protection:threshold=2.5,false_alarm_ratio=0.2", outcomes(-10, 30)
    (note,) = CostSpec.parse(text).doubts(seen)
    assert note.startswith("the hazard is taken to lie above the threshold 2.5: the higher the outcome, the more")
    assert CostSpec.parse(f"{text},hazard=above").doubts(seen) == []
    assert CostSpec.parse(f"{text},hazard=below").doubts(seen) == []
