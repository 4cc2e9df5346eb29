import numpy as np
import pytest

import stakes
from stakes.data.forecasts.quantiles import OutcomeBounds, given_bounds, quantile_members, weighted_quantiles, within
from stakes.errors import SettingError

LEVELS = (0.1, 0.5, 0.9)


def test_members_are_those_of_the_quantiles_in_order() -> None:
    weighted = weighted_quantiles(LEVELS, np.array([[1.0, 3.0, 2.0], [4.0, 5.0, 9.0]]), "'a.csv'")
    members, weights = quantile_members(LEVELS, [[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])
    np.testing.assert_array_equal(weighted.members, members)
    np.testing.assert_array_equal(weighted.weights, weights)
    assert weighted.notes == ("1 of 2 cases have quantiles that cross, and were sorted (by up to 1)",)


def test_tails_end_at_bounds_given_known_or_none() -> None:
    quantiles = np.array([[1.0, 2.0, 3.0]])
    free = weighted_quantiles(LEVELS, quantiles, "'a.csv'")
    assert (free.members.min() < 0, free.notes) == (True, ())
    given = weighted_quantiles(LEVELS, quantiles, "'a.csv'", bounds=(0.5, 3.5))
    assert (given.members.min(), given.members.max(), given.notes) == (0.5, 3.5, ())
    known = weighted_quantiles(LEVELS, quantiles, "'a.csv'", cost=stakes.WindDispatchCost(5.0), target="wind")
    assert known.members.min() == 0
    assert known.notes == ("No member of wind lies below 0, as the cost says (outcome_bounds).",)
    assert weighted_quantiles(LEVELS, quantiles, "'a.csv'", tails="flat").members.max() == 3


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


def test_levels_are_checked() -> None:
    with pytest.raises(SettingError, match="both sides of the median"):
        weighted_quantiles((0.1, 0.2), np.ones((1, 2)), "'a.csv'")


def test_bounds() -> None:
    assert given_bounds("auto") is given_bounds(None) is None
    assert given_bounds((0.0, None)) == OutcomeBounds(((0.0, None),), "given")
    values = np.array([-1.0, 2.0])
    assert within(values, None) is values
    assert within(values, given_bounds((0.0, None))).tolist() == [0, 2]
    assert within(values, given_bounds((None, 1.0))).tolist() == [-1, 1]
