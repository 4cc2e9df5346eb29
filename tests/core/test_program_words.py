"""A program in words, against the same decision as a cost of the library."""

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

import stakes
from stakes import ArbitrageCost, Program, Quantity, ScheduleCost, StorageCost, solve_action
from stakes.costs.cost import at_bounds
from stakes.errors import CostError, ShapeError


def members(*shape: int) -> Tensor:
    return 5 * torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


SCHEDULE = Program(
    decide={"plan": Quantity(upper=4)},
    recourse={"short": Quantity(cost=[6, 5, 4, 7], square=0.5), "long": Quantity(cost="long_price", square=0.5)},
    covers={"need": "plan + short >= outcome", "surplus": "long >= plan - outcome"},
    limits={"ramp": "abs(change(plan)) <= ramp"},
    numbers={"ramp": 0.6, "long_price": 1},
)
STORAGE = Program(
    decide={"sold": Quantity(cost="-price")},
    recourse={
        "charged": Quantity(upper=1.5),
        "discharged": Quantity(upper=1.5),
        "bought": Quantity(cost=9),
        "spilled": Quantity(cost=1),
    },
    covers={
        "balance": "outcome + discharged + bought = sold + charged + spilled",
        "battery": "0 <= 0.5 + 0.8 * so_far(charged) - so_far(discharged) <= 2",
    },
    numbers={"price": 4},
)
ARBITRAGE = Program(
    decide={
        "charge": Quantity(cost="outcome", upper=1.5, square=0.1),
        "discharge": Quantity(cost="-outcome", upper=1.5, square=0.1),
    },
    limits={"energy": "so_far(0.8 * charge - discharge) <= 2", "empty": "so_far(0.8 * charge - discharge) >= 0"},
)
PAIRS = {
    "schedule": (SCHEDULE, ScheduleCost(torch.tensor([6.0, 5, 4, 7]), 1.0, 1.0, ramp=0.6, upper=4.0)),
    "storage": (STORAGE, StorageCost(4.0, 9.0, 1.0, power=1.5, energy=2.0, efficiency=0.8, start=0.5)),
    "arbitrage": (ARBITRAGE, ArbitrageCost(power=1.5, energy=2.0, efficiency=0.8, quadratic=0.2)),
}


@pytest.mark.parametrize(("words", "cost"), PAIRS.values(), ids=PAIRS)
def test_words_decide_as_the_cost_of_the_library(words: Program, cost: stakes.Cost) -> None:
    samples = members(1, 3, 4)
    found, expected = solve_action(words, samples), solve_action(cost, samples)
    assert found.certified.all()
    torch.testing.assert_close(found.expected_cost, expected.expected_cost, rtol=1e-6, atol=1e-6)
    if cost is not PAIRS["storage"][1]:  # which has many best actions
        torch.testing.assert_close(found.action, expected.action, rtol=0, atol=1e-4)
    paid = words(expected.action, samples[:, 0])
    torch.testing.assert_close(paid, cost(expected.action, samples[:, 0]), rtol=1e-6, atol=1e-6)


def test_recourse_with_a_row_for_each_part_is_simple() -> None:
    assert SCHEDULE.program(4).recourse.simple
    assert not STORAGE.program(4).recourse.simple


def test_parts_and_limits_have_names() -> None:
    hours = ["h0", "h1", "h2", "h3"]
    assert SCHEDULE.part_names(hours) == tuple(hours)
    assert ARBITRAGE.part_names(["a", "b"]) == ("charge_a", "charge_b", "discharge_a", "discharge_b")
    assert SCHEDULE.limit_names(hours)[2:5] == (
        ("ramp", "h2 to h3, up"),
        ("ramp", "h0 to h1, down"),
        ("ramp", "h1 to h2, down"),
    )
    found = stakes.limit_prices(SCHEDULE, members(2, 6, 4), hours)
    assert len(found.kinds) == found.binds.shape[-1]
    assert found.saved_by()["ramp"].max() > 0


def test_quantities_for_each_outcome_and_single_ones() -> None:
    program = Program(
        decide={"plant": Quantity(cost=1, lower=0.5, upper=20, each=False), "share": Quantity(upper=[3, 4])},
        recourse={"missing": Quantity(cost=4)},
        covers={"need": "share + missing >= outcome"},
        limits={"built": "sum(share) <= plant", "bound": "plant <= 30"},
    )
    assert program.part_names(["a", "b"]) == ("plant", "share_a", "share_b")
    assert program.limit_names(["a", "b"]) == (("built", "all"), ("bound", "all"))
    solution = solve_action(program, members(2, 5, 2))
    assert torch.allclose(solution.action[:, 0], solution.action[:, 1:].sum(-1), atol=1e-5)
    lower, upper = program.part_bounds(3)
    assert lower.tolist() == [0.5, 0, 0]
    assert upper.tolist() == [20, 3, 4]
    assert (program.lower, program.upper) == (0, 20)
    at_lower, at_upper = at_bounds(program, torch.tensor([[5.0, 3, 1], [0.5, 1, 1], [5, 4, 2]]))
    assert at_upper.tolist() == [True, False, True]
    assert at_lower.tolist() == [False, True, False]


def test_an_equation_among_what_is_decided() -> None:
    program = Program(
        decide={"plan": Quantity(lower=None)},
        recourse={"off": Quantity(cost=1)},
        covers={"off": "abs(plan - outcome) <= off"},
        limits={"total": "sum(plan) = 6"},
    )
    assert (program.lower, program.upper) == (-torch.inf, None)
    assert torch.allclose(stakes.optimal_action(program, members(2, 5, 3)).sum(-1), torch.tensor(6.0).double())


def test_gradients_are_those_of_finite_differences() -> None:
    samples, step = members(2, 4, 4).requires_grad_(), 1e-5
    (pulled,) = torch.autograd.grad(stakes.optimal_action(SCHEDULE, samples).sum(), samples)
    direction = members(2, 4, 4).flip(1) - 2.5
    ahead, behind = (stakes.optimal_action(SCHEDULE, samples + sign * step * direction).sum() for sign in (1, -1))
    torch.testing.assert_close((pulled * direction).sum(), (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-4)
    assert pulled.abs().sum() > 0


def test_a_copy_is_the_same_program() -> None:
    copy = pickle.loads(pickle.dumps(SCHEDULE))
    assert copy == SCHEDULE
    assert hash(copy) == hash(SCHEDULE)
    assert repr(copy) == repr(SCHEDULE)
    assert copy != STORAGE


def made(**changed: object) -> Program:
    words: dict[str, object] = {
        "decide": {"plan": Quantity(cost=1)},
        "recourse": {"missing": Quantity(cost=4)},
        "covers": {"need": "plan + missing >= outcome"},
    }
    return Program(**words | changed)  # type: ignore[arg-type]


WRONG = {
    "nothing to decide": ({"decide": {}}, "decide must name at least one quantity"),
    "no quantity": ({"decide": {"plan": 3}}, "decide.plan must be a Quantity, got int"),
    "no text": ({"limits": {"top": 3}}, "limits.top must be a str, got int"),
    "name of two things": ({"numbers": {"plan": 3}}, "numbers.plan: the name 'plan' stands for something else"),
    "name of the outcome": ({"numbers": {"outcome": 3}}, "numbers.outcome: the name 'outcome' stands for"),
    "name of a function": ({"numbers": {"sum": 3}}, "numbers.sum: a name must be one word"),
    "name with a space": ({"numbers": {"a b": 3}}, "numbers.a b: a name must be one word"),
    "misspelt": ({"limits": {"top": "plam <= 3"}}, "limits.top: there is no 'plam' here; did you mean 'plan'?"),
    "limit about the outcome": (
        {"limits": {"top": "plan <= outcome"}},
        "limits.top: it must be about what is decided, got 'outcome'; make it a cover",
    ),
    "no quantity in it": ({"limits": {"top": "3 <= 4"}}, "limits.top: it must be about some quantity, got '3 <= 4'"),
    "cost by a quantity": (
        {"decide": {"plan": Quantity(cost="missing")}},
        "decide.plan.cost: it may be about numbers and outcome, got 'missing'",
    ),
    "bound by the outcome": (
        {"decide": {"plan": Quantity(upper="outcome")}},
        "decide.plan.upper: it may be about numbers, got 'outcome'",
    ),
    "negative square": ({"decide": {"plan": Quantity(square=-1)}}, "decide.plan.square must not be negative, got -1"),
    "bounds reversed": ({"decide": {"plan": Quantity(upper=-1)}}, "decide.plan: lower must not lie above upper"),
    "negative recourse": (
        {"recourse": {"missing": Quantity(lower=-1)}},
        "recourse.missing.lower must be 0: recourse is never negative",
    ),
    "recourse without cover": (
        {"recourse": {"missing": Quantity(cost=4), "idle": Quantity()}},
        "recourse.idle is in no cover: it would do nothing",
    ),
    "without any use": (
        {"decide": {"plan": Quantity(), "idle": Quantity()}},
        "decide.idle has neither cost, limit nor cover",
    ),
    "without the outcome": ({"covers": {"need": "plan + missing >= 3"}}, "the outcome is in no cover and no cost"),
    "not equally many": (
        {"numbers": {"rate": [1, 2], "price": [1, 2, 3]}},
        "must be equally many, got: numbers.rate has 2, numbers.price has 3",
    ),
    "many for a single one": (
        {"decide": {"plan": Quantity(upper=[1, 2], each=False)}},
        "decide.plan.upper: there are 1 of it, and 2 numbers",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), WRONG.values(), ids=WRONG)
def test_what_makes_no_program_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(CostError) as refusal:
        made(**changed)
    assert said in str(refusal.value)


def test_as_many_outcomes_as_there_are_numbers() -> None:
    with pytest.raises(ShapeError, match=r"short.cost must be one number, or one for each of 3 outcomes, got 4"):
        solve_action(SCHEDULE, members(1, 4, 3))


def test_limits_that_contradict_each_other_are_flagged() -> None:
    solution = solve_action(made(limits={"low": "sum(plan) <= 1", "high": "sum(plan) >= 2"}), members(1, 4, 2))
    assert not solution.certified.any()
    assert solution.infeasible is not None
    assert bool(solution.infeasible.all())
    assert bool(solution.action.isnan().all())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"decide": "hours"}, "decide must be a mapping"),
        ({"decide": ["hours"]}, "decide must be a mapping"),
        ({"decide": {1: Quantity()}}, "decide must be a mapping from names"),
        ({"covers": {1: "hours >= outcome"}}, "covers must be a mapping from names"),
        ({"numbers": [1]}, "numbers must be a mapping"),
        ({"numbers": {"many": 10**400}}, "numbers.many must be a finite number, .* got one beyond 1e308"),
        ({"limits": {"most": f"sum(hours) <= {10**400}"}}, "limits.most: it may have numbers, .* only"),
    ],
)
def test_words_of_another_type(wrong: dict[str, Any], said: str) -> None:
    right: dict[str, Any] = {"decide": {"hours": Quantity()}, "recourse": {"missing": Quantity(cost=2)}}
    right["covers"] = {"demand": "hours + missing >= outcome"}
    with pytest.raises(CostError, match=said):
        Program(**right | wrong)


def test_what_was_looked_at_in_inference_mode_can_be_trained_with() -> None:
    plan = Program(
        decide={"plan": Quantity(cost=1, square=0.1)},
        recourse={"bought": Quantity(cost=5), "spilled": Quantity(cost=0.3)},
        covers={"balance": "plan + bought - spilled = outcome"},
    )
    members = torch.rand(2, 5, 3, dtype=torch.float64)
    with torch.inference_mode():
        plan(torch.ones(3, dtype=torch.float64), members[0, 0].clone())
    leaf = members.clone().requires_grad_()
    stakes.DecisionScore(plan)(leaf, members[:, 0]).sum().backward()
    assert leaf.grad is not None
    assert bool((leaf.grad != 0).any())
