import numpy as np

import stakes
from stakes.data.forecasts.quantiles import OutcomeBounds, given_bounds, weighted_quantiles, within

LEVELS = (0.1, 0.5, 0.9)


def test_what_a_cost_knows_of_its_outcomes() -> None:
    demand = np.array([[1.0, 2.0, 30.0]])
    for cost, ends_at_zero in (
        (stakes.NewsvendorCost(9.0, 1.0, 0.0, 50.0), True),
        (stakes.NewsvendorCost(9.0, 1.0, -5.0, 50.0), False),
        (stakes.ProtectionCost(2.0, 0.2), False),
    ):
        members = weighted_quantiles(LEVELS, demand, "'a.csv'", cost=cost).members
        assert members.min() == 0 if ends_at_zero else members.min() < 0
        assert members.max() > 50  # what can be ordered is bounded, the demand is not
    power = np.array([[0.1, 0.5, 0.95]])
    weighted = weighted_quantiles(LEVELS, power, "'a.csv'", cost=stakes.ShortfallCost(5.0))
    assert (weighted.members.min(), weighted.members.max()) == (0, 1)
    assert [note.partition(",")[0] for note in weighted.notes] == [
        "No member of outcome lies below 0",
        "No member of outcome lies above 1",
    ]
    beyond = weighted_quantiles(LEVELS, 2 * power, "'a.csv'", cost=stakes.ShortfallCost(5.0))
    assert (beyond.members.min(), beyond.members.max() > 1.9) == (0, True)
    below = weighted_quantiles(LEVELS, demand - 5, "'a.csv'", cost=stakes.NewsvendorCost(9.0, 1.0, 0.0, 50.0))
    assert below.members.min() < -4


def test_bounds() -> None:
    assert given_bounds("auto") is given_bounds(None) is None
    assert given_bounds((0.0, None)) == OutcomeBounds(((0.0, None),), "given")
    values = np.array([-1.0, 2.0])
    assert within(values, None) is values
    assert within(values, given_bounds((0.0, None))).tolist() == [0, 2]
    assert within(values, given_bounds((None, 1.0))).tolist() == [-1, 1]
