"""A forecaster whose decision is averse to risk: the threshold is hidden, the plain cost is told."""

import numpy as np

import stakes


def test_decisions_are_one_number_and_the_plain_cost_stands_beside_the_charge() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(40, 1))
    outcome = features[:, 0] + 0.3 * random.normal(size=40)
    cost = stakes.CVaRCost(stakes.ImbalanceCost(5.0, 1.0, -9.0, 9.0), level=0.5)
    forecaster = stakes.DecisionAwareForecaster(cost, decision_weight=0.5, epochs=1, members=10, ensemble=1)
    forecaster.fit(features, outcome)
    decisions = forecaster.solve(features)
    assert decisions.action.shape == (40,)
    assert decisions.certified.all()
    table = forecaster.evaluate(features, outcome)
    assert table.loc["plain_cost", "value"] < table.loc["cost", "value"]
    assert forecaster.score(features, outcome) == -table.loc["cost", "value"]
