"""One table of decisions, whoever asks for it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import stakes
from stakes import decisions
from stakes.decisions import Decisions, decision_table, solve_decisions, uncertified_notes
from stakes.errors import CostError

MEMBERS = torch.from_numpy(np.random.default_rng(0).normal(3, 0.4, size=(7, 9, 1)))
COST = stakes.ImbalanceCost(4.0, 1.0, lower=2.9, upper=3.3)
ROWS = pd.RangeIndex(len(MEMBERS), name="row")


def table(cost: stakes.Cost = COST, members: Tensor = MEMBERS, levels: tuple[float, ...] = ()) -> pd.DataFrame:
    return decision_table(cost, members, pd.RangeIndex(len(members), name="row"), levels)


def test_a_decision_is_what_the_solver_says() -> None:
    expected = stakes.solve_action(COST, MEMBERS)
    for found in (solve_decisions(COST, [MEMBERS]), solve_decisions(COST, [MEMBERS], double=True)):
        np.testing.assert_array_equal(found.action, expected.action[:, 0])
        np.testing.assert_array_equal(found.expected_cost, expected.expected_cost)
        np.testing.assert_array_equal(found.interior, expected.interior)
        np.testing.assert_array_equal(found.residual, expected.residual)
        np.testing.assert_array_equal(found.certified, expected.certified)
        assert found.converged is found.certified  # its former name
        np.testing.assert_array_equal(found.interior, ~(found.at_lower_bound | found.at_upper_bound))
        assert (found.levels, found.quantiles.shape) == ((), (7, 0))


def test_the_table() -> None:
    found = table(levels=(0.25, 0.5))
    flags = ["at_lower_bound", "at_upper_bound", "certified"]
    assert list(found) == ["row", "action", "expected_cost", *flags, "quantile_0.25", "quantile_0.5"]
    decided = solve_decisions(COST, [MEMBERS], (0.25, 0.5))
    np.testing.assert_array_equal(found["action"], decided.action)
    np.testing.assert_array_equal(found["at_upper_bound"], decided.action == 3.3)
    expected = np.quantile(MEMBERS[..., 0], [0.25, 0.5], axis=1, method="hazen").T
    np.testing.assert_array_equal(found[["quantile_0.25", "quantile_0.5"]], expected)
    assert list(table()) == ["row", "action", "expected_cost", *flags]


def test_the_index_names_the_rows() -> None:
    index = pd.MultiIndex.from_product([["a"], range(7)], names=["site", "day"])
    assert list(decision_table(COST, MEMBERS, index, ()))[:3] == ["site", "day", "action"]


def test_weighted_members_are_decided_as_members_that_come_several_times() -> None:
    weights = [3, 0, 1, 2, 1, 1, 1, 4, 2]
    found = decision_table(COST, MEMBERS, ROWS, (0.25, 0.5), weights)
    repeated = MEMBERS.repeat_interleave(torch.tensor(weights), 1)
    expected = table(members=repeated)
    for column in ("action", "expected_cost", "certified"):
        np.testing.assert_allclose(found[column], expected[column], rtol=1e-12)
    order = np.sort(repeated[..., 0], axis=1)  # of 15 members
    np.testing.assert_array_equal(found["quantile_0.25"], order[:, 3])
    np.testing.assert_array_equal(found["quantile_0.5"], order[:, 7])


def test_parts_of_the_members_make_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(levels=(0.1, 0.9))
    sizes: list[int] = []
    solve = decisions.solve_action

    def watched(cost: stakes.Cost, samples: Tensor, weights: Tensor | None) -> stakes.ActionSolution:
        sizes.append(len(samples))
        return solve(cost, samples)

    monkeypatch.setattr(decisions, "solve_action", watched)
    monkeypatch.setattr(decisions, "_NUMBERS_AT_ONCE", 3 * MEMBERS[0].numel())
    pd.testing.assert_frame_equal(table(levels=(0.1, 0.9)), whole, check_exact=True)
    assert sizes == [3, 3, 1]


def test_single_precision_stays_so_unless_double_is_asked_for() -> None:
    members = MEMBERS.float()
    assert {str(kind) for kind in table(members=members)[["action", "expected_cost"]].dtypes} == {"float32"}
    cost = stakes.ImbalanceCost(4.0, 1.0, lower=0.0, upper=3.2)
    single, double = (solve_decisions(cost, [members], (0.5,), double=double) for double in (False, True))
    assert float(single.action.max()) > 3.2  # 3.2 in single precision
    assert double.action.max() == 3.2
    np.testing.assert_array_equal(single.at_upper_bound, double.at_upper_bound)
    for values in (double.action, double.expected_cost, double.residual, double.quantiles):
        assert values.dtype == np.float64


@pytest.mark.parametrize("bound", [0.1, 0.3, 0.7, 99.9])  # none a number of single precision, which rounds 0.7 down
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bound_of_any_precision_is_seen(bound: float, double: bool, dtype: torch.dtype) -> None:
    members = torch.tensor([[-500.0], [500.0]], dtype=dtype)[:, None].expand(2, 3, 1)
    below, above = (stakes.ImbalanceCost(4.0, 1.0, *bounds) for bounds in ((bound, 200.0), (-200.0, bound)))
    at_lower, at_upper = (solve_decisions(cost, [members], double=double) for cost in (below, above))
    assert at_lower.at_lower_bound.tolist() == [True, False] == at_upper.at_lower_bound.tolist()
    assert at_upper.at_upper_bound.tolist() == [False, True] == at_lower.at_upper_bound.tolist()


def test_without_a_certificate_there_is_a_note() -> None:
    def two_minima(action: Tensor, outcome: Tensor) -> Tensor:
        return (action**2 - 1) ** 2 + 0.01 * action * outcome

    found = table(stakes.cost_function(two_minima, -1.5, 1.5))
    assert not found["certified"].any()
    (note,) = uncertified_notes(found)
    assert note.startswith("7 of 7 decisions are not certified")
    assert uncertified_notes(table()) == ()


def test_a_cost_that_is_no_number_is_refused_in_a_table_and_flagged_otherwise() -> None:
    def broken(action: Tensor, outcome: Tensor) -> Tensor:
        return (action - outcome) ** 2 / (outcome > 3)

    cost = stakes.cost_function(broken, 0.0, 9.0)
    with pytest.raises(CostError, match="the cost must be a finite number, got NaN or infinity in 7 of 7 cases"):
        table(cost)
    assert not solve_decisions(cost, [MEMBERS], double=True).certified.any()


@dataclass(frozen=True)
class TwoSites:
    """An action with a part for each of two outcomes: meet each of them; the best one is their mean within bounds."""

    lower: float = 0.0
    upper: float = 1.0

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        return (action - outcome).square().sum(-1)

    def best_action(self, samples: Tensor) -> Tensor:
        return samples.mean(-2).clamp(self.lower, self.upper)


def solve_two_sites(cost: TwoSites, samples: Tensor, weights: Tensor | None) -> stakes.ActionSolution:
    action = cost.best_action(samples)
    interior = ((action > cost.lower) & (action < cost.upper)).all(-1)
    expected = cost(action, samples.movedim(-2, 0)).mean(0)
    none = torch.zeros_like(expected)
    certified = torch.ones_like(interior)
    return stakes.ActionSolution(action, expected, interior, none, certified, none, certified)


def test_an_action_with_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "solve_action", solve_two_sites)
    means = torch.tensor([[0.2, 0.6], [-1.0, 0.5], [0.5, 2.0], [-1.0, 2.0]])
    members = means[:, None] + torch.tensor([-0.1, 0.1])[:, None]  # (4, 2, 2)
    found = table(TwoSites(), members)
    assert list(found)[:4] == ["row", "action_1", "action_2", "expected_cost"]
    expected = means.clamp(0, 1)
    np.testing.assert_allclose(found[["action_1", "action_2"]], expected, rtol=1e-6)
    assert list(found["at_lower_bound"]) == [False, True, False, True]  # where any part is
    assert list(found["at_upper_bound"]) == [False, False, True, True]
    double = solve_decisions(TwoSites(), [members[:1], members[1:]], double=True)
    np.testing.assert_allclose(double.action, expected, rtol=1e-6)
    assert (double.action.shape, double.expected_cost.shape) == ((4, 2), (4,))


def test_joined_parts() -> None:
    whole, parts = solve_decisions(COST, [MEMBERS], (0.5,)), MEMBERS.split(3)
    joined = Decisions.joined([solve_decisions(COST, [part], (0.5,)) for part in parts])
    pd.testing.assert_frame_equal(joined.table(ROWS), whole.table(ROWS), check_exact=True)
