"""What was decided and paid, case by case."""

import numpy as np
import pandas as pd
import torch

from stakes import cost_function
from stakes.decisions import decision_table
from stakes.evaluation.case_metrics import CaseMetrics


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
