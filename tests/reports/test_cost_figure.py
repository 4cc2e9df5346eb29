"""The figure of what a cost rewards."""

import pytest
import torch
from invented_fits import invented_outcomes

from stakes.actions.function_costs import cost_function
from stakes.actions.solve import optimal_action
from stakes.costs.scalar_costs import ImbalanceCost
from stakes.errors import ShapeError
from stakes.reports.figures import cost_figure


def test_the_cost_figure_marks_the_best_action() -> None:
    outcomes = invented_outcomes(200)
    cost = ImbalanceCost(10.0, 1.0, 0.0, 150.0)
    best = optimal_action(cost, torch.from_numpy(outcomes)).item()
    figure = cost_figure(cost, outcomes, "EUR", "GW")
    assert f"best action {best:.1f} GW" in figure.panels[0]
    assert "between the bounds in 100 % of them. Members between" in figure.caption
    with pytest.raises(ShapeError, match="outcomes must be cases by targets"):
        cost_figure(cost, outcomes[:, 0], "", "")


def test_a_cost_without_a_decision_is_told() -> None:
    figure = cost_figure(cost_function(lambda action, y: y - action, 0.0, 1.0), [[1.0], [2.0]], "", "")
    assert "in 0 % of them; it lies in 100 % at the upper bound" in figure.caption
    assert "no weight can change this forecast" in figure.caption
