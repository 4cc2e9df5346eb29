"""Linear expressions in words, against the same arithmetic with numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stakes.errors import CostError
from stakes.programs.modelling import LinearSum, is_name, read_linear, read_rows

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


REFUSED = {
    "plan": "it must say <=, >= or = between two sides, got 'plan'",
    "plan < 4": "it must say <=, >= or =",
    "plan != 4": "it must say <=, >= or =",
    "plam <= 4": "there is no 'plam' here; did you mean 'plan'?",
    "plan * one <= 4": "multiplied with numbers and divided by them only, got 'plan * one'",
    "4 / plan <= 4": "divided by them only, got '4 / plan'",
    "plan / 0 <= 4": "divided by them only, got 'plan / 0'",
    "plan ** 2 <= 4": "got 'plan ** 2'",
    "abs(plan) >= 4": "abs(...) may only be the whole smaller side",
    "abs(plan) = 4": "abs(...) may only be the whole smaller side",
    "2 * abs(plan) <= 4": "abs(...) may only be the whole smaller side",
    "sum(plan, plan) <= 4": "a function takes one expression, got 'sum(plan, plan)'",
    "max(plan) <= 4": "numbers, names, + - * / and sum, change, so_far only, got 'max(plan)'",
    "open('x') <= 4": "only, got \"open('x')\"",
    "plan.T <= 4": "only, got 'plan.T'",
    "'a' <= plan": "only, got \"'a'\"",
    "1e999 <= plan": "only, got '1e309'",
    "True <= plan": "only, got 'True'",
    "30 plan <= 4": "it must be written like 2 * hours + missing >= outcome, got '30 plan <= 4'",
    "30plan <= 4": "it must be written like",
    "": "it must be written like",
    "change(plan) <= rate": "2 numbers and 3 do not go together",
    "(" * 900 + "plan <= 1": "it must be written like",
    "plan <= 1" + "+1" * 900: "it must be one line of at most 1000 characters, got 'plan <= 1+1",
    "plan <= 1\n": "it must be one line",
    "plan <= 1 # \x1b[2J": "it must be one line",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_linear_limit_is_refused(text: str) -> None:
    with pytest.raises(CostError) as refusal:
        read_rows(text, NAMES)
    assert REFUSED[text] in str(refusal.value)


def test_names() -> None:
    assert all(map(is_name, ["plan", "Plan_2", "x"]))
    assert not any(map(is_name, ["", "2x", "a b", "sum", "abs", "none", "_x", "a-b", "x" * 81, "a\n"]))


@pytest.mark.parametrize("text", ["sum(fee) <= plan", "so_far(one) <= 3", "change(2 * fee) <= plan"])
def test_a_function_of_one_number_for_all_outcomes_is_refused(text: str) -> None:
    with pytest.raises(CostError, match="one number for each outcome"):
        read_rows(text, NAMES)


def test_one_step_does_not_go_with_two_numbers() -> None:
    names = {"plan": LinearSum.quantity("plan", 2), "ramp": LinearSum.number((2.0, 3.0))}
    with pytest.raises(CostError, match="1 numbers and 2 do not go together"):
        read_rows("abs(change(plan)) <= ramp", names)
    assert len(read_rows("abs(change(plan)) <= 2", names)) == 2


def test_words_mean_the_same_of_one_outcome() -> None:
    names = {"total": LinearSum.quantity("total", 1, each=False), "price": LinearSum.number((2.0,))}
    for text in ("sum(price * total)", "sum(total * price)", "sum(total / price)"):
        assert len(read_linear(text, names)) == 1
