"""One table of decisions, whoever asks for it."""

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes
from stakes.costs import member_weights
from stakes.errors import CostError
from stakes.forecasting import decisions
from stakes.forecasting.decisions import decision_notes, decision_table, solve_decisions, uncertified_notes

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
    monkeypatch.setitem(member_weights._NUMBERS_AT_ONCE, "cpu", 3 * MEMBERS[0].numel())
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
    refuses(CostError, "the cost must be a finite number, got NaN or infinity in 7 of 7 cases", table, cost)
    assert not solve_decisions(cost, [MEMBERS], double=True).certified.any()


def test_an_action_with_several_parts() -> None:
    cost = stakes.ScheduleCost(short=1.0, long=1.0, quadratic=1.0, upper=1.0)
    means = torch.tensor([[0.2, 0.6], [-1.0, 0.5], [0.5, 2.0], [-1.0, 2.0]])
    members = means[:, None] + torch.tensor([-0.1, 0.1])[:, None]  # (4, 2, 2)
    found = decision_table(cost, members, ROWS[:4], (0.5,), outcomes=["north", "south"])
    assert list(found) == [
        *("row", "action_north", "action_south", "expected_cost", "at_lower_bound", "at_upper_bound", "certified"),
        *("gap", "status", "quantile_0.5_north", "quantile_0.5_south"),
    ]
    expected = means.clamp(0, 1)
    np.testing.assert_allclose(found[["action_north", "action_south"]], expected, rtol=1e-6)
    np.testing.assert_allclose(found[["quantile_0.5_north", "quantile_0.5_south"]], means, rtol=1e-6)
    assert list(found["at_lower_bound"]) == [False, True, False, True]  # where any part is
    assert list(found["at_upper_bound"]) == [False, False, True, True]
    double = solve_decisions(cost, [members[:1], members[1:]], double=True)
    np.testing.assert_allclose(double.action, expected, rtol=1e-6)
    assert (double.action.shape, double.expected_cost.shape) == ((4, 2), (4,))
    np.testing.assert_allclose(double.gap, 0.0)


def test_a_battery_has_what_it_charges_and_what_it_discharges() -> None:
    members = torch.tensor([[[1.0, 9.0], [3.0, 11.0]]])
    cost = stakes.ArbitrageCost(power=1.0, energy=1.0, efficiency=1.0)
    found = decision_table(cost, members, ROWS[:1], (), outcomes=["h1", "h2"])
    names = ["action_charge_h1", "action_charge_h2", "action_discharge_h1", "action_discharge_h2"]
    np.testing.assert_allclose(found.loc[0, names].astype(float), [1.0, 0.0, 0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("averse", [False, True])
def test_a_battery_that_charges_and_discharges_at_once_is_told(averse: bool) -> None:
    prices = torch.tensor([[1.0, 9.0], [3.0, 11.0]]).repeat(5, 1) - torch.tensor([0.0, 40.0])[:, None, None]
    plain = stakes.ArbitrageCost(power=1.0, energy=1.0)
    cost = stakes.CVaRCost(plain, 0.5) if averse else plain
    found = decision_table(cost, prices, ROWS[:2], (), outcomes=["h1", "h2"])
    (note,) = decision_notes(cost, found, prices)
    assert note.startswith("1 of 2 plans charge and discharge at once")
    assert decision_notes(cost, found[:1], prices[:1]) == ()
    assert decision_notes(stakes.ScheduleCost(1.0, 1.0), found, prices) == ()


def test_decisions_with_several_parts_that_are_not_certified_are_not_to_be_used() -> None:
    table = pd.DataFrame({"certified": [True, False], "gap": [0.0, 1.0], "status": ["certified", "not certified"]})
    assert "1 of 2 decisions are not certified" in uncertified_notes(table)[0]


def test_what_has_no_best_action_is_said_and_not_answered() -> None:
    sold = stakes.Quantity(cost="outcome")  # for a negative price without end
    kept = stakes.Program(
        decide={"plan": stakes.Quantity(cost=-1, upper=5)}, recourse_constraints={"need": "2 * plan >= outcome"}
    )
    sites = {"infeasible": (kept, 40.0), "unbounded": (stakes.Program(decide={"bought": sold}), -40.0)}
    for status, (cost, shift) in sites.items():
        members = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) + torch.tensor([0.0, shift, 1.0])[:, None, None]
        found = decision_table(cost, members.double(), ROWS[:3], (0.5,))
        assert list(found["status"]) == ["certified", status, "certified"]
        numbers = found[["action_1", "action_2", "expected_cost"]]
        assert list(numbers.isna().all(axis=1)) == [False, True, False]
        assert list(numbers.isna().any(axis=1)) == [False, True, False]
        assert "\n1,,,,False,False,False," in found.to_csv(index=False)
        assert uncertified_notes(found)[0].startswith(f"1 of 3 decisions are {status}, see the column status: their ")


@pytest.mark.parametrize(
    ("shift", "weights", "said"),
    [
        ([0, 9], None, "1: no action meets the recourse constraints at 1 of its 3 members; a recourse"),
        ([9, 9], None, "1: no action meets the recourse constraints at 2 of its 3 members; a recourse"),
        (
            [9, 9, 9],
            None,
            "no action meets the limits and recourse constraints of",
        ),
        ([9, 9, 9], [1.0, 0.0, 0.0], "no action meets the limits and recourse constraints of"),
        (
            [0, -3],
            None,
            "but no action meets them at all members; a recourse",
        ),
    ],
)
def test_why_the_first_case_is_infeasible_is_told(shift: list[float], weights: list[float] | None, said: str) -> None:
    exact = {"most": "plan <= outcome + 2", "least": "plan >= outcome"}
    cost = stakes.Program(decide={"plan": stakes.Quantity(cost=1, upper=9)}, recourse_constraints=exact)
    members = torch.full((3, 3, 2), 4.0, dtype=torch.float64)
    members[1:, : len(shift), 0] += torch.tensor(shift)
    found = decision_table(cost, members, ROWS[:3], (), None if weights is None else torch.tensor(weights))
    counted, reason = decision_notes(cost, found, members, weights)
    assert counted.startswith(
        "2 of 3 decisions are infeasible, see the column status: their limits and recourse constraints contra"
    )
    assert said in reason


@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 2.0, 3.0, 4.0] * 5)])
def test_the_mean_cost_stands_beside_that_of_the_worst_outcomes(weights: Tensor | None) -> None:
    members = torch.linspace(0.0, 3.0, 40, dtype=torch.float64).reshape(1, 20, 2)
    plain = stakes.ScheduleCost(short=4.0, long=1.0, ramp=0.5)
    given = None if weights is None else weights.numpy()
    averse = decision_table(stakes.CVaRCost(plain, 0.5), members, pd.RangeIndex(1), (), given)
    assert list(averse.columns[3:5]) == ["expected_cost", "plain_expected_cost"]
    action = torch.tensor(averse[["action_1", "action_2"]].to_numpy())
    expected = np.average(plain(action, members.movedim(1, 0))[:, 0], weights=given)
    assert averse["plain_expected_cost"][0] == pytest.approx(expected)
    assert averse["plain_expected_cost"][0] < averse["expected_cost"][0]
    assert "plain_expected_cost" not in decision_table(plain, members, pd.RangeIndex(1), ())


@pytest.mark.parametrize("double", [False, True])
def test_a_schedule_of_one_part_may_have_bounds_of_each_case(double: bool) -> None:
    lower, upper = torch.tensor([[0.1], [0.6]]), torch.tensor([[0.2], [0.9]])
    cost = stakes.ScheduleCost(short=1.0, long=1.0, lower=lower, upper=upper)
    members = torch.tensor([[[0.5]], [[0.5]]], dtype=torch.float64)
    decided = solve_decisions(cost, [members], double=double)
    assert decided.action.tolist() == pytest.approx([0.2, 0.6], rel=1e-6)
    assert decided.at_lower_bound.tolist() == [False, True]
    assert decided.at_upper_bound.tolist() == [True, False]


def test_a_member_without_weight_does_not_say_what_is_small() -> None:
    members = 5 * torch.rand(4, 20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    members[:, 0] = 1e9
    weights = torch.ones(20, dtype=torch.float64)
    weights[0] = 0.0
    decided = solve_decisions(stakes.ScheduleCost(short=10.0, long=1.0, ramp=100.0), [members], weights=weights)
    assert decided.interior.all()
    assert not decided.at_lower_bound.any()
