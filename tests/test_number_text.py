"""Numbers for people: large, tiny and zero ones, and none with a needless power of ten or minus zero."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stakes.text import (
    MISSING,
    amount_text,
    change_text,
    column_texts,
    interval_text,
    number_text,
    shared_decimals,
    signed_interval_text,
    tick_texts,
)

ORDINARY = st.floats(-1e12, 1e12).filter(lambda value: not value or abs(value) > 1e-5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (11_730.0, "11,730"),
        (999.7, "999.7"),
        (999.97, "1,000"),
        (99.996, "100"),
        (0.5, "0.5"),
        (1.23456e-5, "0.00001235"),
        (1.2e-9, "1.2e-09"),
        (-1.61e-37, "0"),
        (-0.0, "0"),
        (2.5e20, "2.5e+20"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, MISSING),
    ],
)
def test_a_single_number(value: float, text: str) -> None:
    assert number_text(value) == text


@given(ORDINARY, st.integers(1, 6))
@example(6.103515625e-05, 6)
@example(999.5, 5)
@example(12_345.67, 6)
def test_the_text_is_the_number_to_its_digits(value: float, digits: int) -> None:
    text = number_text(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))
    assert number_text(value, digits, signed=True).lstrip("+") == text


def test_a_cost_is_zero_beside_much_larger_ones() -> None:
    costs = [117_300.0, 250.0, 1.61e-37, -0.004]
    assert [amount_text(cost, "EUR", beside=costs) for cost in costs] == ["117,300 EUR", "250 EUR", "0 EUR", "0 EUR"]
    assert [amount_text(cost, beside=[2e-5]) for cost in (1e-5, 2e-5, 1e-12)] == ["0.0000100", "0.0000200", "0"]


def test_intervals_without_minus_zero() -> None:
    assert interval_text(-0.001, -0.2, 0.1, 2) == "0.00 [-0.20, 0.10]"
    assert interval_text(1.5, math.nan, math.nan) == "1.50"
    assert signed_interval_text((-12_345.6, -2e4, 1e-9)) == "-12,346 [-20,000, 0]"
    assert change_text((0.0, -1.0, 1.0)) == "0, 95 % interval -1 to +1"
    assert signed_interval_text((1.5, math.nan, math.nan)) == "+1.5"
    assert change_text((1.5, math.nan, math.nan)) == "+1.5, too few cases for an interval"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1e5, 1e-5, 0.0], ["100,000", "0", "0"]),
        ([2e-5, 1e-5, -0.0], ["0.00002", "0.00001", "0.00000"]),
        ([1.0, 2e-6], ["1.000000", "0.000002"]),
        ([1e-11, 2e-11, 0.0], ["1e-11", "2e-11", "0"]),
        ([1.61e-37, 0.0], ["0", "0"]),
    ],
)
def test_a_column(values: list[float], texts: list[str]) -> None:
    assert column_texts(values) == texts


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([-0.2, -0.1, -1.4e-17, 0.1], ["-0.2", "-0.1", "0.0", "0.1"]),
        ([0.0, 1e5, 2e5], ["0", "100,000", "200,000"]),
        ([0.0, 1e-5, 2e-5], ["0.00000", "0.00001", "0.00002"]),
        ([0.0, 1e-11], ["0", "1e-11"]),
        ([0.0, 1e300], ["0", "1e+300"]),
        ([3.0], ["3"]),
        ([0.0], ["0"]),
        ([], []),
    ],
)
def test_the_ticks_of_an_axis(ticks: list[float], texts: list[str]) -> None:
    assert tick_texts(ticks) == texts


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5))
def test_any_numbers_have_texts(values: list[float]) -> None:
    for texts in (column_texts(values), tick_texts(sorted(value for value in values if math.isfinite(value)))):
        assert not {"-0", "-0.0", "-0.00", "+0", "nan", "inf"} & set(texts)
    assert shared_decimals(values) in {*range(10), None}
