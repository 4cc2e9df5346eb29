"""The section of a report about decisions with many parts."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from quick_figures import figures_left_blank

import stakes
from stakes.errors import StakesWarning
from stakes.evaluation.vector_cases import JudgedParts, judged_parts
from stakes.reports.sections import parts_section

MEMBERS = torch.tensor([[[1.0, 1.0, 4.0], [2.0, 1.0, 5.0], [3.0, 1.0, 6.0]]])
NAMES = ("north", "south", "a very long name, $")


def section_of(cost: Any, unit: str = "EUR") -> Any:
    def draw(rows: NDArray[np.int64], most: int | None) -> torch.Tensor:
        return MEMBERS[rows]

    parts = judged_parts(cost, NAMES, np.ones((1, 3)), np.ones(1), draw)
    assert isinstance(parts, JudgedParts)
    fit: Any = SimpleNamespace(cost=cost, unit=unit, action_unit="MW" if unit else "", times=None, settings={})
    with figures_left_blank():
        return parts_section(fit, parts)


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (stakes.ScheduleCost(4.0, 1.0, ramp=1.0), "One MW more of ramp would save"),
        (stakes.AllocationCost(4.0, 1.0, budget=5.0), "One MW more of budget would save"),
        (stakes.ScheduleCost(4.0, 1.0, ramp=99.0), "no limit of ramp ever binds: every part is decided by itself"),
        (stakes.ArbitrageCost(power=1.0, energy=1.0), "would save"),
    ],
)
def test_what_limits_cost_is_said(cost: Any, said: str) -> None:
    section = section_of(cost)
    assert said in section.text[0]
    (table,) = section.tables
    assert {row[0] for row in table.rows} <= {"ramp", "budget", "energy", "empty", "upper", "lower"}
    assert len(section.figures) == 1


def test_without_units_and_without_limits() -> None:
    section = section_of(stakes.ScheduleCost(4.0, 1.0), unit="")
    assert section.tables == ()
    assert section.text == ()


def test_charts_have_the_schedule_and_the_limits_that_bind() -> None:
    (figure,) = section_of(stakes.ScheduleCost(4.0, 1.0, ramp=1.0)).figures
    plan = figure.charts[0][0].plain()
    assert plan["title"] == "The last case: case 1, in MW"
    assert (plan["names"], plan["steps"]) == (list(NAMES), True)
    action = plan["lines"][0]["values"]
    at_the_ramp = np.flatnonzero(np.isclose(np.abs(np.diff(action)), 1.0)).tolist()
    assert sorted(limit["parts"] for limit in plan["limits"]) == [[place, place + 1] for place in at_the_ramp] != []
    assert plan["limits"][0]["text"].startswith("ramp ")


def test_a_battery_is_drawn_over_its_hours() -> None:
    (figure,) = section_of(stakes.ArbitrageCost(power=1.0, energy=1.0)).figures
    outcomes, plan = (chart.plain() for chart in figure.charts[0])
    assert outcomes["names"] == plan["names"] == list(NAMES)
    assert [line["name"] for line in plan["lines"]] == ["charge", "discharge"]
    assert {limit["line"] for limit in plan["limits"]} <= {0, 1}
    for limit in plan["limits"]:  # the bounds of a quantity are drawn on its own line
        kind = limit["text"].split()[1].split("_")[0]
        assert kind not in ("charge", "discharge") or plan["lines"][limit["line"]]["name"] == kind


def test_parts_that_are_no_outcomes_are_drawn_by_themselves() -> None:
    bakery = stakes.Program(
        decide={"hours": stakes.Quantity(cost=1, upper=9)},
        recourse={"missing": stakes.Quantity(cost=3)},
        recourse_constraints={"demand": "2 * hours + missing >= outcome"},
    )
    (figure,) = section_of(bakery).figures
    _, plan = (chart.plain() for chart in figure.charts[0])
    assert (plan["names"], [line["name"] for line in plan["lines"]]) == (list(NAMES), ["action"])
    averse = stakes.CVaRCost(stakes.ScheduleCost(4.0, 1.0, ramp=1.0), level=0.5)
    with pytest.warns(StakesWarning, match="holds 1.5 of 3 members"):
        assert len(section_of(averse).figures[0].charts[0]) == 1
