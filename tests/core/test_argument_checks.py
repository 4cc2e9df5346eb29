"""The checks at the doors of the library: each names the argument, what came and what is expected."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses

from stakes.argument_checks import (
    check_finite,
    known_false,
    known_on_host,
    require_decision_weight,
    require_positive,
    unwatched,
    whole_number,
)
from stakes.errors import NonFiniteError

# -- numbers


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_numpy_become_those_of_python(value: Any) -> None:
    assert type(whole_number("members", value)) is int
    assert whole_number("members", value) == 3


# -- tensors


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_counted(bad: float) -> None:
    values = torch.tensor([0.0, bad, 1.0, bad])
    refuses(NonFiniteError, "^samples", check_finite, values, "samples")
    check_finite(values, "samples", wanted=False)


def test_a_sum_that_overflows_is_finite() -> None:
    check_finite(torch.full((4,), 3e38), "samples")
    check_finite(torch.zeros(0), "samples", wanted=True)


# -- where Python should not look


def test_nothing_is_known_on_another_device() -> None:
    elsewhere = torch.zeros(2, device="meta")
    assert known_on_host(elsewhere.any()) is None
    assert not known_false(elsewhere > 0)
    check_finite(elsewhere, "samples")
    require_decision_weight(elsewhere)


def test_nothing_is_known_under_vmap() -> None:
    def look(value: torch.Tensor) -> torch.Tensor:
        assert known_on_host(value > 0) is None
        assert not known_false(value > 0)
        require_positive("scale", value)
        return value

    torch.func.vmap(look)(torch.tensor([-1.0, 1.0]))


def test_nothing_is_looked_at_inside_unwatched() -> None:
    bad = torch.tensor([math.nan])
    with unwatched():
        assert known_on_host(torch.tensor(False)) is None
        check_finite(bad, "samples")
        require_positive("scale", bad)
        refuses(NonFiniteError, "", check_finite, bad, "samples", wanted=True)
    refuses(NonFiniteError, "", check_finite, bad, "samples")


def test_looking_comes_back_after_an_error_inside_unwatched() -> None:
    with pytest.raises(KeyError), unwatched():
        raise KeyError
    assert known_on_host(torch.tensor(True)) is True
