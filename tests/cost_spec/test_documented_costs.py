"""The tables of costs in docs/reference/costs.md, against the costs themselves."""

from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from stakes.actions.solve import solve_action
from stakes.cost_spec.spec import cost_names, library_cost, with_defaults
from stakes.costs.scalar_costs import PowerCurve
from stakes.programs.scenario_program import program_cost

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "costs.md"
GIVEN: dict[str, dict[str, Any]] = {
    "shortfall": {"penalty": 5.0},
    "wind_dispatch": {"penalty": 5.0},
    "protection": {"threshold": 2.0, "false_alarm_ratio": 0.4},
    "cost_loss": {"threshold": 2.0, "protection": 0.3, "loss": 2.0},
    "newsvendor": {"underage": 4.0, "overage": 1.0, "upper": 9.0},
    "imbalance": {"short": 4.0, "long": 1.0, "upper": 9.0},
    "schedule": {"short": 4.0, "long": 1.0, "quadratic": 0.5, "ramp": 2.0, "upper": 9.0},
    "allocation": {"short": 4.0, "long": 1.0, "budget": 9.0},
    "storage": {"price": 2.0, "short": 4.0, "long": 1.0, "power": 2.0, "energy": 3.0, "start": 1.0},
    "arbitrage": {"power": 2.0, "energy": 3.0, "quadratic": 0.5},
}
PROGRAMS = ("schedule", "allocation", "storage", "arbitrage")
POWERS = {  # of the units of outcome and height: what becomes of a number when each is counted in a smaller unit
    "1": (0, 0),
    "cost": (0, 0),
    "word": (0, 0),
    "outcome": (1, 0),
    "m/s": (1, 0),
    "1 / outcome": (-1, 0),
    "1 / (m/s)": (-1, 0),
    "cost / outcome": (-1, 0),
    "cost / outcome²": (-2, 0),
    "m": (0, 1),
    "quantity": (0, 0),
    "outcome / quantity": (1, 0),
}


@cache
def rows(first: str) -> list[list[str]]:
    """The cells of the table whose first column has this head."""
    lines = PAGE.read_text().splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return table


def keys(name: str) -> dict[str, Any]:
    """The keys of a cost and their defaults, MISSING where there is none."""
    cost = library_cost(name, with_defaults(name, GIVEN[name]))
    of_cost = {field.name: field.default for field in fields(cost) if field.name != "power_curve"}
    of_curve = {field.name: field.default for field in fields(PowerCurve)} if name == "wind_dispatch" else {}
    return {**of_cost, **of_curve, **with_defaults(name, {})}


@pytest.mark.parametrize("name", cost_names())
def test_every_key_is_documented_with_its_default(name: str) -> None:
    documented = {key: default for cost, key, default, *_ in rows("cost") if cost == name}
    expected = {
        key: "" if default is MISSING else f"{default:g}" if isinstance(default, float) else str(default).lower()
        for key, default in keys(name).items()
    }
    assert documented == expected


def test_no_other_cost_is_documented() -> None:
    assert [name for name, *_ in rows("name")] == list(cost_names())
    assert {cost for cost, *_ in rows("cost")} == set(cost_names())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_stays_the_same_when_all_is_counted_in_other_units(name: str) -> None:
    units = {key: unit for cost, key, _, unit, _ in rows("cost") if cost == name}
    values = {key: value for key, value in keys(name).items() if value is not MISSING} | GIVEN[name]
    before, after = (
        library_cost(name, {key: value * scale ** POWERS[units[key]][0] for key, value in values.items()})
        for scale in (1.0, 4.0)
    )
    members = 5 * torch.rand(1, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first, second = solve_action(before, members), solve_action(after, 4 * members)
    of_action, of_cost = (1.0, 4.0) if name == "arbitrage" else (4.0, 1.0)  # whose outcome is the price
    torch.testing.assert_close(second.action, of_action * first.action, atol=1e-5, rtol=0)
    torch.testing.assert_close(second.expected_cost, of_cost * first.expected_cost)


@pytest.mark.parametrize("name", sorted(cost_names().keys() - PROGRAMS))
def test_a_cost_stays_the_same_when_all_is_counted_in_other_units(name: str) -> None:
    """The units of the table are those by which numbers must change for the cost not to."""
    units = {key: unit for cost, key, _, unit, _ in rows("cost") if cost == name}
    smaller = (1.0, 1.0) if name == "shortfall" else (4.0, 8.0)  # a share of capacity is no matter of units
    values = {key: default for key, default in keys(name).items() if default is not MISSING} | GIVEN[name]
    changed = {
        key: value
        if isinstance(value, str)
        else value * smaller[0] ** POWERS[units[key]][0] * smaller[1] ** POWERS[units[key]][1]
        for key, value in values.items()
    }
    generator = torch.Generator().manual_seed(0)
    outcome = 12 * torch.rand(50, 2, generator=generator, dtype=torch.float64)
    before, after = library_cost(name, values), library_cost(name, changed)
    share = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
    first, second = (share * (cost.upper - cost.lower) + cost.lower for cost in (before, after))
    torch.testing.assert_close(after(second, smaller[0] * outcome), before(first, outcome))
    action_scale = smaller[0] if name in ("newsvendor", "imbalance") else 1.0
    torch.testing.assert_close(second, action_scale * first)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_looks_at_each_outcome_as_documented(name: str) -> None:
    assert {cost: looks for cost, looks, _ in rows("name")}[name] == "each"
    cost = program_cost(library_cost(name, GIVEN[name]))
    assert cost is not None
    assert cost.program(3).parts == (6 if name == "arbitrage" else 3)


@pytest.mark.parametrize("name", sorted(cost_names().keys() - PROGRAMS))
def test_a_cost_looks_at_the_sum_or_at_the_mean_as_documented(name: str) -> None:
    said = {cost: looks for cost, looks, _ in rows("name")}[name]
    cost = library_cost(name, with_defaults(name, GIVEN[name]))
    outcome = torch.tensor([[1.0, 4.0], [2.5, 0.5]], dtype=torch.float64)
    seen = {"of their power": PowerCurve()}
    seen |= {f"of their {what}": getattr(cost, what) for what in ("severity", "events") if hasattr(cost, what)}
    transform = next((function for words, function in seen.items() if said.endswith(words)), lambda values: values)
    assert transform is not None
    each = torch.stack([transform(outcome[:, place : place + 1]).reshape(-1) for place in (0, 1)], -1)
    expected = each.sum(-1) if said.startswith("the sum") else each.mean(-1)
    found = getattr(cost, {"protection": "severity", "cost_loss": "events"}.get(name, "total"))(outcome)
    torch.testing.assert_close(found, expected)
    assert said.split()[:2] in (["the", "sum"], ["the", "mean"])
