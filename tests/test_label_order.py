"""Labels that differ by a number alone, and their order."""

import pytest

from stakes.text import label_numbers, number_order, shortened


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["h0", "h1", "h10", "h11", "h2"], [0, 1, 4, 2, 3]),
        (["2", "1", "0"], [2, 1, 0]),
        (["0.0", "10.0", "2.5"], [0, 2, 1]),
        (["3", "-1"], [1, 0]),
        (["t2m[10]", "t2m[9]"], [1, 0]),
        (["10:00", "9:00"], [1, 0]),
        (["m1_b12", "m1_b04"], [1, 0]),
        ([f"p{month}" for month in (10, 11, 12, 1, 2, 3)], [3, 4, 5, 0, 1, 2]),  # as a table sorts p10_m1 and p1_m1
    ],
)
def test_labels_that_differ_by_a_number_have_its_order(labels: list[str], order: list[int]) -> None:
    assert number_order(labels) == order


@pytest.mark.parametrize(
    "labels",
    [
        ["b00", "b04", "b08"],
        ["north", "west"],
        ["h1", "x0"],
        ["h1", "h01"],
        ["52 4", "51 5"],
        ["outcome"],
        ["7"],
        ["a", "1"],
        ["22", "23", "0", "1"],
        ["b20", "b00", "b04"],
    ],
)
def test_others_keep_theirs(labels: list[str]) -> None:
    assert number_order(labels) is None


def test_only_labels_of_one_form_have_numbers() -> None:
    assert label_numbers(["b16", "b20"]) == [16, 20]
    assert label_numbers(["b16", "b20", "all"]) is None
    assert label_numbers(["9" * 400, "8" * 400]) is None


def test_long_lists_are_shortened() -> None:
    assert shortened([*"abcdefgh"]) == "a, b, c, d, e, f, g, h"
    assert shortened([*"abcdefghi"]) == "a, b, c, ... i"
