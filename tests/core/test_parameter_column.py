"""The column of features that holds the parameter of each case."""

import numpy as np
import pytest
import torch

from stakes import ParameterRange, ShortfallCost
from stakes.costs.parameter_column import ParameterColumn
from stakes.errors import SettingError

COST = ShortfallCost(ParameterRange(2, 50))
FEATURES = torch.rand(7, 3, generator=torch.Generator().manual_seed(0))


def test_without_a_range_all_stays_as_it_is() -> None:
    cost = ShortfallCost(5.0)
    column = ParameterColumn.of(cost)
    assert column.width == 0
    assert column.spread(4).shape == (4, 0)
    for same in (column.seen, column.unmoved, column.without):
        assert same(FEATURES) is FEATURES
    assert column.replaced(FEATURES, torch.empty(7, 0)) is FEATURES
    assert column.cost(cost, FEATURES) is cost
    with pytest.raises(SettingError, match="conditioned is for a cost with a range"):
        ParameterColumn.of(cost, conditioned=True)


def test_models_see_the_column_only_where_they_are_conditioned() -> None:
    column, seeing = ParameterColumn.of(COST), ParameterColumn.of(COST, conditioned=True)
    rows = torch.cat([FEATURES, column.spread(7).float()], 1)
    assert torch.equal(column.seen(rows), FEATURES)
    assert torch.equal(column.unmoved(rows), FEATURES)
    assert torch.equal(seeing.seen(rows)[:, :3], FEATURES)
    expected = COST.penalty.standardised(rows[:, 3])  # type: ignore[union-attr]
    assert torch.equal(seeing.seen(rows)[:, 3], expected)
    assert torch.equal(seeing.unmoved(rows)[:, 3], torch.zeros(7))


def test_each_case_pays_by_its_own_column() -> None:
    column = ParameterColumn.of(COST)
    rows = column.replaced(torch.cat([FEATURES, torch.ones(7, 1)], 1), torch.arange(2.0, 9.0)[:, None])
    own = column.cost(COST, rows)
    assert isinstance(own, ShortfallCost)
    assert torch.equal(own.penalty, torch.arange(2.0, 9.0))  # type: ignore[arg-type]
    number = ShortfallCost(5.0)
    assert column.cost(number, rows) is number


def test_any_stretch_of_cases_covers_the_range_evenly() -> None:
    column = ParameterColumn.of(COST)
    values = column.spread(1000)[:, 0].log().numpy()
    assert np.array_equal(values[:300], column.spread(300)[:, 0].log().numpy())
    for stretch in (values[:50], values[300:350], values[950:]):
        places = np.sort((stretch - np.log(2)) / np.log(25))
        assert np.abs(places - (np.arange(50) + 0.5) / 50).max() < 0.05
