"""Costs in words: which are the same, also with a number for each outcome, and that they come back."""

from pathlib import Path

import pytest
import torch
from artifacts.forecasters import FEATURES, fitted
from golden.make_bundle import table

from stakes import AllocationCost, CVaRCost, ScheduleCost, ShortfallCost, optimal_action
from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.artifacts.folder import same_cost
from stakes.cost_spec.spec import CostSpec

FOR_EACH = "allocation:short=4/5,long=1,budget=90"


def test_the_same_cost() -> None:
    prices = AllocationCost(short=[4.0, 5.0], long=1.0, budget=90.0)
    assert same_cost(prices, CostSpec.parse(FOR_EACH).build())
    assert same_cost(CVaRCost(prices, 0.9), CostSpec.parse(f"{FOR_EACH},cvar_level=0.9").build())
    assert not same_cost(prices, AllocationCost(short=[4.0, 6.0], long=1.0, budget=90.0))
    assert not same_cost(prices, AllocationCost(short=4.0, long=1.0, budget=90.0))
    assert not same_cost(ScheduleCost(short=4.0, long=1.0), ShortfallCost(penalty=4.0))


def test_a_program_that_was_used_is_the_same_cost(tmp_path: Path) -> None:
    file = tmp_path / "bakery.toml"
    file.write_text(
        "[decide.hours]\ncost = 1\n[recourse.missing]\ncost = 3\n"
        '[recourse_constraints]\nall = "hours + missing >= outcome"\n'
    )
    used, fresh = (CostSpec.parse(str(file)).build() for _ in range(2))
    optimal_action(used, torch.rand(1, 4, 2))
    assert same_cost(used, fresh)


@pytest.mark.parametrize(
    "text",
    [FOR_EACH, "schedule:short=4/5,long=1/2,quadratic=0/1,ramp=3", "schedule:short=4,long=1,lower=0/1,upper=80/90"],
)
def test_a_number_for_each_outcome_is_kept(text: str, tmp_path: Path) -> None:
    words = CostSpec.parse(text)
    forecaster = fitted("outcomes", words.build())
    save_bundle(tmp_path, forecaster, cost_spec=words)
    again = load_bundle(tmp_path)
    assert same_cost(again.forecaster.cost, words.build())
    rows = table(3)[FEATURES]
    assert again.forecaster.decide(rows).tolist() == forecaster.decide(rows).tolist()
