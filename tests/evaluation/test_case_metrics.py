"""What was decided and paid, case by case."""

import numpy as np
import pandas as pd
import torch

import stakes
from stakes import cost_function
from stakes.evaluation.case_metrics import CaseMetrics
from stakes.forecasting.decisions import decision_table


def test_costs_are_those_of_the_actions_that_decide_recommends() -> None:
    """Of a cost that is not convex, a quick search finds other actions than a thorough one."""
    cost = cost_function(lambda action, outcome: 1 - torch.exp(-((action - outcome) ** 2) / 8), 0.0, 100.0)
    chance = np.random.default_rng(0)
    centres = chance.uniform(5, 95, (40, 2))
    members = chance.normal(centres[:, [0] * 12 + [1] * 8], 1.0)[..., None]
    outcomes = pd.DataFrame({"outcome": members[:, 0, 0]})
    decided = decision_table(cost, members, outcomes.index, ())
    judged = CaseMetrics.of_ensemble(members, outcomes, cost)
    paid = cost(torch.tensor(decided[["action"]].to_numpy()), torch.tensor(outcomes.to_numpy()))
    np.testing.assert_allclose(judged.chosen["action"], decided["action"], atol=1e-9)
    np.testing.assert_allclose(judged.chosen["cost"], paid, atol=1e-9)
    np.testing.assert_allclose(judged.chosen["expected_cost"], decided["expected_cost"], atol=1e-9)
    assert (judged.chosen["foresight_regret"] > -1e-9).all()


def test_an_action_of_several_parts_has_a_column_for_each() -> None:
    cost = stakes.AllocationCost(3.0, 1.0, budget=4.0)
    members = np.random.default_rng(0).normal(3, 1, (10, 8, 2))
    outcomes = pd.DataFrame(members[:, 0], columns=["north", "south"])
    today = np.where(np.arange(10)[:, None] == 3, np.nan, np.full((10, 2), 2.0))
    judged = CaseMetrics.of_ensemble(members, outcomes, cost, today)
    table = judged.table()
    assert "action" not in table
    assert (table["action_north"] + table["action_south"] <= 4 + 1e-9).all()
    assert table["today_cost"].isna().tolist() == [place == 3 for place in range(10)]
    seen = torch.tensor(outcomes.to_numpy())
    paid = cost(torch.full((10, 2), 2.0), seen)
    np.testing.assert_allclose(table["today_cost"].drop(3), paid.numpy()[np.arange(10) != 3])
    expected = cost(stakes.optimal_action(cost, seen), seen)
    np.testing.assert_allclose(judged.chosen["climatology_cost"], expected)
    assert set(judged.chosen["interior"]) == {0.0}  # the budget is always spent


def test_climatology_has_an_action_for_each_site() -> None:
    """Sites of very different sizes: one action for both makes any forecast look good."""
    cost = stakes.NewsvendorCost(3.0, 1.0, 0.0, 2000.0)
    sites = np.array(["harbour", "kiosk"] * 40)
    outcomes = np.random.default_rng(0).normal(np.where(sites == "harbour", 1000.0, 10.0), 1.0)
    members = outcomes[:, None, None] + np.random.default_rng(1).normal(0, 1, (80, 9, 1))
    judged = CaseMetrics.of_ensemble(members, pd.DataFrame({"sold": outcomes}), cost, sites=sites)
    paid = judged.chosen["climatology_cost"]
    for site in ("harbour", "kiosk"):
        seen = outcomes[sites == site]
        stock = np.quantile(seen, 0.75, method="inverted_cdf")
        np.testing.assert_allclose(paid[sites == site], np.where(seen > stock, 3 * (seen - stock), stock - seen))
    together = CaseMetrics.of_ensemble(members, pd.DataFrame({"sold": outcomes}), cost)
    assert paid.mean() < 0.01 * together.chosen["climatology_cost"].mean()
