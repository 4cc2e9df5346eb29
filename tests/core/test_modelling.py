"""The modelling language: expressions, quantities, matrices, and programs against costs of the library."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses, sentence
from snapshots import assert_as_kept
from torch import Tensor

import stakes
from stakes import ArbitrageCost, Program, Quantity, ScheduleCost, StorageCost, solve_action
from stakes.costs.cost import at_bounds
from stakes.errors import CostError
from stakes.programs.modelling import LinearSum, ProgramMatrices, plain_amount, read_linear, read_rows

VALUES = {"plan": torch.tensor([2.0, -1.0, 5.0]).double(), "one": torch.tensor([3.0]).double()}
NAMES = {name: LinearSum.quantity(name, len(value), each=name != "one") for name, value in VALUES.items()}


NAMES |= {"rate": LinearSum.number((1.0, 2.0, 4.0)), "fee": LinearSum.number(0.5)}


KNOWN = VALUES | {"rate": torch.tensor([1.0, 2.0, 4.0]).double(), "fee": torch.tensor([0.5]).double()}


def at_values(expression: LinearSum) -> list[float]:
    return sum((part @ VALUES[name] for name, part in expression.parts.items()), expression.constant).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plan", [2, -1, 5]),
        ("-plan + 1", [-1, 2, -4]),
        ("rate * plan - one / 2", [0.5, -3.5, 18.5]),
        ("plan * 2 / rate", [4, -1, 2.5]),
        ("sum(plan)", [6]),
        ("sum(rate * plan) + fee", [20.5]),
        ("change(plan)", [-3, 6]),
        ("so_far(plan)", [2, 1, 6]),
        ("2 * (fee + 1) * one", [9]),
        ("plan + one", [5, 2, 8]),
        ("plan - plan", [0, 0, 0]),
    ],
)
def test_an_expression_is_its_arithmetic(text: str, expected: list[float]) -> None:
    assert at_values(read_linear(text, NAMES)) == pytest.approx(expected)


TERMS = st.recursive(
    st.sampled_from(["plan", "one", "2", "0.5"]),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} - {})".format, inner, inner),
        st.builds("({} * {})".format, st.sampled_from(["rate", "fee", "3"]), inner),
        st.builds("(-{})".format, inner),
    ),
    max_leaves=8,
)


@given(TERMS)
@settings(max_examples=30, deadline=None)
def test_any_expression_is_its_arithmetic(text: str) -> None:
    expected = torch.as_tensor(eval(text, {}, KNOWN), dtype=torch.float64).reshape(-1)
    assert at_values(read_linear(text, NAMES)) == pytest.approx(expected.tolist())


def test_limits_are_expressions_that_are_not_positive() -> None:
    (row,) = read_rows("plan <= 4", NAMES)
    assert at_values(row.expression) == [-2, -5, 1]
    (row,) = read_rows("plan >= 4", NAMES)
    assert at_values(row.expression) == [2, 5, -1]
    (row,) = read_rows("sum(plan) = 6", NAMES)
    assert row.equation
    assert at_values(row.expression) == [0]
    low, high = read_rows("0 <= plan <= 4", NAMES)
    assert at_values(low.expression) == [-2, 1, -5]
    assert at_values(high.expression) == [-2, -5, 1]
    for text in ("abs(change(plan)) <= 4", "4 >= abs(change(plan))"):
        up, down = read_rows(text, NAMES)
        assert (at_values(up.expression), up.way) == ([-7, 2], "up")
        assert (at_values(down.expression), down.way) == ([-1, -10], "down")


REFUSED = [
    "plan",
    "plan < 4",
    "plan != 4",
    "plam <= 4",
    "plan * one <= 4",
    "4 / plan <= 4",
    "plan / 0 <= 4",
    "plan ** 2 <= 4",
    "abs(plan) >= 4",
    "abs(plan) = 4",
    "2 * abs(plan) <= 4",
    "sum(plan, plan) <= 4",
    "max(plan) <= 4",
    "open('x') <= 4",
    "plan.T <= 4",
    "'a' <= plan",
    "1e999 <= plan",
    "True <= plan",
    "30 plan <= 4",
    "30plan <= 4",
    "",
    "change(plan) <= rate",
    "(" * 900 + "plan <= 1",
    "plan <= 1" + "+1" * 900,
    "plan <= 1\n",
    "plan <= 1 # \x1b[2J",
    "sum(fee) <= plan",
    "so_far(one) <= 3",
    "change(2 * fee) <= plan",
]


def test_one_step_does_not_go_with_two_numbers() -> None:
    names = {"plan": LinearSum.quantity("plan", 2), "ramp": LinearSum.number((2.0, 3.0))}
    refuses(CostError, "1 .* 2", read_rows, "abs(change(plan)) <= ramp", names)
    assert len(read_rows("abs(change(plan)) <= 2", names)) == 2


def test_words_mean_the_same_of_one_outcome() -> None:
    names = {"total": LinearSum.quantity("total", 1, each=False), "price": LinearSum.number((2.0,))}
    for text in ("sum(price * total)", "sum(total * price)", "sum(total / price)"):
        assert len(read_linear(text, names)) == 1


def members(*shape: int) -> Tensor:
    return 5 * torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


SCHEDULE = Program(
    decide={"plan": Quantity(upper=4)},
    recourse={"short": Quantity(cost=[6, 5, 4, 7], square=0.5), "long": Quantity(cost="long_price", square=0.5)},
    recourse_constraints={"need": "plan + short >= outcome", "surplus": "long >= plan - outcome"},
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
    recourse_constraints={
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
        recourse_constraints={"need": "share + missing >= outcome"},
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
    actions = torch.tensor([[5.0, 3, 1], [0.5, 1, 1], [5, 4, 2]])
    at_lower, at_upper = at_bounds(program, actions, members(3, 5, 2))
    assert at_upper.tolist() == [True, False, True]
    assert at_lower.tolist() == [False, True, False]


def test_an_equation_among_what_is_decided() -> None:
    program = Program(
        decide={"plan": Quantity(lower=None)},
        recourse={"off": Quantity(cost=1)},
        recourse_constraints={"off": "abs(plan - outcome) <= off"},
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


def made(**changed: object) -> Program:
    words: dict[str, object] = {
        "decide": {"plan": Quantity(cost=1)},
        "recourse": {"missing": Quantity(cost=4)},
        "recourse_constraints": {"need": "plan + missing >= outcome"},
    }
    return Program(**words | changed)  # type: ignore[arg-type]


WRONG: list[dict[str, object]] = [
    {"decide": {}},
    {"decide": {"plan": 3}},
    {"limits": {"top": 3}},
    {"numbers": {"plan": 3}},
    {"numbers": {"outcome": 3}},
    {"numbers": {"sum": 3}},
    {"numbers": {"a b": 3}},
    {"limits": {"top": "plam <= 3"}},
    {"limits": {"top": "plan <= outcome"}},
    {"limits": {"top": "3 <= 4"}},
    {"decide": {"plan": Quantity(cost="missing")}},
    {"decide": {"plan": Quantity(upper="outcome")}},
    {"decide": {"plan": Quantity(square=-1)}},
    {"decide": {"plan": Quantity(upper=-1)}},
    {"recourse": {"missing": Quantity(lower=-1)}},
    {"recourse": {"missing": Quantity(cost=4), "idle": Quantity()}},
    {"decide": {"plan": Quantity(), "idle": Quantity()}},
    {"recourse_constraints": {"need": "plan + missing >= 3"}},
    {"numbers": {"rate": [1, 2], "price": [1, 2, 3]}},
    {"decide": {"plan": Quantity(upper=[1, 2], each=False)}},
]


TYPES: list[dict[str, Any]] = [
    {"decide": {"plan": 3.0}},
    {"decide": "hours"},
    {"decide": ["hours"]},
    {"decide": {1: Quantity()}},
    {"recourse_constraints": {1: "plan >= outcome"}},
    {"numbers": [1]},
    {"numbers": {"many": 10**400}},
    {"limits": {"most": f"sum(plan) <= {10**400}"}},
]


def test_what_makes_no_program_is_refused() -> None:
    said = [sentence(read_rows, text, NAMES) for text in REFUSED]
    said += [sentence(made, **changed) for changed in (*WRONG, *TYPES)]
    assert_as_kept(Path(__file__).with_name("modelling_sentences.txt"), "\n".join(said) + "\n")


def test_what_was_looked_at_in_inference_mode_can_be_trained_with() -> None:
    plan = Program(
        decide={"plan": Quantity(cost=1, square=0.1)},
        recourse={"bought": Quantity(cost=5), "spilled": Quantity(cost=0.3)},
        recourse_constraints={"balance": "plan + bought - spilled = outcome"},
    )
    members = torch.rand(2, 5, 3, dtype=torch.float64)
    with torch.inference_mode():
        plan(torch.ones(3, dtype=torch.float64), members[0, 0].clone())
    leaf = members.clone().requires_grad_()
    stakes.DecisionScore(plan)(leaf, members[:, 0]).sum().backward()
    assert leaf.grad is not None
    assert bool((leaf.grad != 0).any())


def test_amounts_are_plain_numbers() -> None:
    assert Quantity(cost=[1, 2], upper=np.array([3, 4])) == Quantity(cost=(1.0, 2.0), upper=(3.0, 4.0))
    assert plain_amount("cost", torch.tensor(2.5)) == 2.5
    assert plain_amount("cost", np.float32(2)) == 2.0
    assert plain_amount("cost", " 2 * price ") == "2 * price"
    assert Quantity(cost=3).amounts == {"cost": 3.0, "lower": 0.0, "upper": None, "square": 0.0}


@pytest.mark.parametrize("value", [None, True, [], [1, "2"], [[1.0]], "", " ", float("nan"), [1, float("inf")], {}])
def test_what_is_no_amount_is_refused(value: object) -> None:
    refuses(CostError, "cost", Quantity, cost=value)


def test_without_recourse_what_must_hold_holds_for_every_member() -> None:
    made = ProgramMatrices({"plan": Quantity(cost=1)}, {}, {"need": "plan >= outcome"}, {}, {}, 2).program()
    members = torch.tensor([[[1.0, 5.0], [3.0, 4.0]]]).double()
    torch.testing.assert_close(made.solve(members).action, torch.tensor([[3.0, 5.0]]).double(), rtol=0, atol=1e-6)


def test_where_rows_hold() -> None:
    def places(words: str, outcomes: str = "abc") -> list[str]:
        known = {"x": Quantity()}, {"z": Quantity()}, {"y": "z >= outcome - x"}
        program = ProgramMatrices(*known, {"k": words}, {}, len(outcomes))
        return [place for each in program.limit_rows() for place in each.places(list(outcomes))]

    assert places("x <= 3") == ["a", "b", "c"]
    assert places("abs(change(x)) <= 3") == ["a to b, up", "b to c, up", "a to b, down", "b to c, down"]
    assert places("sum(x) <= 3") == ["all"]
    assert places("change(change(x)) <= 3") == ["all"]
    assert places("change(change(x)) <= 3", "abcd") == ["1", "2"]
    assert places("change(x) <= 3", "ab") == ["a to b"]
    assert places("sum(x) <= 3", "ab") == ["all"]
    assert places("x <= 3", "a") == ["a"]
