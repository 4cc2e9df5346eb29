"""Each decision maker of a range counts alike in training."""

from collections.abc import Callable

import pytest
import torch

from stakes import CVaRCost, ImbalanceCost, ParameterRange, ShortfallCost, optimal_action
from stakes.costs.cost import Cost
from stakes.costs.parameter_column import ParameterColumn
from stakes.costs.parameter_range import ranged_parameter, with_parameter
from stakes.data.case_table import CaseTable
from stakes.training.replicas import ParameterScales, StackedCases

CPU = torch.device("cpu")
RANGE = ParameterRange(1, 50)


def scales(cost: Cost, *cases: CaseTable) -> ParameterScales:
    stacked = StackedCases(cases, torch.float32, CPU)
    return ParameterScales.of(ParameterColumn.of(cost), [cost] * len(cases), stacked)


@pytest.mark.parametrize(
    "cost",
    [ShortfallCost(RANGE), ImbalanceCost(RANGE, 1.0, 0.0, 3.0), CVaRCost(ShortfallCost(RANGE), level=0.5)],
    ids=lambda cost: type(cost).__name__,
)
def test_what_climatology_pays_counts_as_much_at_every_value(cost: Cost, make_cases: Callable[..., CaseTable]) -> None:
    cases = make_cases(200)
    weigh = scales(cost, cases)
    ranged = ranged_parameter(cost)
    assert ranged is not None
    values = torch.tensor(ranged.range.points(17)).float()
    paid = []
    for value in values.tolist():
        own = with_parameter(cost, ranged.name, value)
        action = optimal_action(own, cases.outcome)
        paid.append(own(action.expand(len(cases), -1), cases.outcome).abs().mean())
    weighed = torch.stack(paid) * weigh(torch.stack([torch.zeros(17), values], 1)[None])[0]
    torch.testing.assert_close(weighed, weighed[8].expand(17), rtol=1e-4, atol=0)
    assert weigh(torch.tensor([[[0.0, ranged.range.middle]]])).item() == pytest.approx(1, rel=1e-4)


def test_between_and_at_the_ends_weights_go_on_smoothly(make_cases: Callable[..., CaseTable]) -> None:
    weigh = scales(ImbalanceCost(RANGE, 1.0, 0.0, 3.0), make_cases(200))
    values = RANGE.at(torch.linspace(0, 1, 500))
    weights = weigh(values[None, :, None])[0]
    assert (weights.diff() < 0).all()  # the dearer, the less
    assert weights.diff().abs().max() < 0.02 * weights.max()
    beyond = weigh(torch.tensor([[[1.0], [1 - 1e-6], [50.0], [50 + 1e-4]]]))[0]
    assert beyond[1] == beyond[0]
    assert beyond[3] == beyond[2]


def test_each_replica_has_the_weights_of_its_own_outcomes(make_cases: Callable[..., CaseTable]) -> None:
    one, other = make_cases(200), make_cases(200, 1)
    cost = ShortfallCost(RANGE)
    both = scales(cost, one, other, one).weights
    assert torch.equal(both[0], both[2])
    assert not torch.equal(both[0], both[1])
    assert torch.equal(both[1], scales(cost, other).weights[0])
