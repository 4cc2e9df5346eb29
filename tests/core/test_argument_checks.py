"""The checks at the doors of the library: each names the argument, what came and what is expected."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from stakes.argument_checks import (
    check_finite,
    check_outcome,
    check_samples,
    known_false,
    known_on_host,
    require_below,
    require_count,
    require_counts,
    require_decision_weight,
    require_finite,
    require_one_of,
    require_positive,
    unwatched,
    whole_number,
    working_precision,
)
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError


@pytest.mark.parametrize("weight", [0, 1, 0.0, 0.3, 1.0, Fraction(1, 3), np.float32(0.5), torch.tensor([0.0, 1.0])])
def test_weights_from_zero_to_one_pass(weight: Any) -> None:
    require_decision_weight(weight)


@pytest.mark.parametrize(
    "weight",
    [-0.1, 1.1, math.nan, math.inf, True, None, "auto", [0.5], torch.tensor([0.5, 1.5]), torch.tensor(math.nan)],
)
def test_other_weights_are_refused(weight: Any) -> None:
    with pytest.raises(SettingError, match=r"^decision_weight must lie in \[0, 1\], got "):
        require_decision_weight(weight)


def test_a_refused_weight_can_have_another_name_expectation_and_error() -> None:
    with pytest.raises(CostError, match=r'^share must be "auto" or lie in \[0, 1\], got 2$'):
        require_decision_weight(2, "share", 'be "auto" or lie in [0, 1]', CostError)


# -- numbers


@pytest.mark.parametrize("value", [1, 1e-300, 3.5, torch.tensor(2.0), torch.tensor([1.0, 1e30])])
def test_positive_numbers_pass(value: Any) -> None:
    require_positive("scale", value)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, torch.tensor([1.0, 0.0]), torch.tensor(math.nan)])
def test_numbers_that_are_not_positive_are_refused(value: Any) -> None:
    with pytest.raises(SettingError, match=r"^scale must be positive and finite, got "):
        require_positive("scale", value)
    with pytest.raises(CostError, match=r"^scale must be positive and finite, got "):
        require_positive("scale", value, CostError)


@pytest.mark.parametrize("value", [0, -1e300, torch.tensor([-1.0, 0.0])])
def test_finite_numbers_pass(value: Any) -> None:
    require_finite("shift", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, torch.tensor([0.0, -math.inf])])
def test_numbers_that_are_not_finite_are_refused(value: Any) -> None:
    with pytest.raises(SettingError, match=r"^shift must be finite, got "):
        require_finite("shift", value)


@pytest.mark.parametrize("require", [require_positive, require_finite])
@pytest.mark.parametrize("value", [True, None, "1", [1.0], np.ones(2)])
def test_other_things_than_numbers_are_named_by_their_type(require: Any, value: Any) -> None:
    with pytest.raises(SettingError, match=f"^scale must be a number or a tensor, got {type(value).__name__}$"):
        require("scale", value)


@pytest.mark.parametrize(
    ("value", "other"), [(0, 1), (-2.5, torch.tensor([0.0, 1.0])), (torch.tensor([0.0, 1.0]), 2.0)]
)
def test_ordered_numbers_pass(value: Any, other: Any) -> None:
    require_below("first", value, "second", other)


@pytest.mark.parametrize(
    ("value", "other", "message"),
    [
        (1.0, 1.0, r"first must be below second, got 1.0 and 1.0"),
        (torch.tensor([0.0, 3.0]), 2.0, "first must be below second"),
        (math.nan, 1.0, "first must be finite, got nan"),
        (0.0, math.inf, "second must be finite, got inf"),
    ],
)
def test_numbers_out_of_order_are_refused(value: Any, other: Any, message: str) -> None:
    with pytest.raises(CostError, match=f"^{message}"):
        require_below("first", value, "second", other, CostError)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "2", np.int64(2), torch.tensor(2)])
def test_counts_are_whole_numbers_of_python(value: Any) -> None:
    with pytest.raises(SettingError, match=r"^epochs must be a whole number of at least 1, got "):
        require_count("epochs", value)
    with pytest.raises(SettingError, match=r"^epochs must be a whole number of at least 1, got "):
        require_counts(steps=3, epochs=value)


def test_counts_have_a_least() -> None:
    require_count("seed", 0, least=0)
    require_counts(steps=1, epochs=2)
    with pytest.raises(SettingError, match=r"^members must be a whole number of at least 4, got 3$"):
        require_count("members", 3, least=4)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_numpy_become_those_of_python(value: Any) -> None:
    assert type(whole_number("members", value)) is int
    assert whole_number("members", value) == 3


@pytest.mark.parametrize("value", [True, np.bool_(True), 2.0, np.float64(2.0), np.int64(0), None])
def test_other_whole_numbers_are_refused(value: Any) -> None:
    with pytest.raises(SettingError, match=r"^members must be a whole number of at least 1, got "):
        whole_number("members", value)


def test_choices_are_listed() -> None:
    require_one_of("side", "above", ("above", "below"))
    with pytest.raises(SettingError, match=r"^side must be one of above, below, got 'left'$"):
        require_one_of("side", "left", ("above", "below"))


# -- tensors


@pytest.mark.parametrize("shape", [(3, 1), (1, 1), (0, 3, 1), (2, 4, 3, 5)])
def test_samples_of_these_shapes_pass(shape: tuple[int, ...]) -> None:
    check_samples(torch.zeros(shape))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((3, 1)), r"members must be a torch.Tensor of shape \(..., M, D\), got ndarray"),
        (torch.zeros(3, 1, dtype=torch.int64), "members must hold floating-point numbers, got torch.int64"),
        (torch.zeros(3), r"members must have shape \(..., M, D\), members on axis -2, got \(3,\)"),
        (torch.zeros(2, 0, 1), r"members has an empty member or outcome axis: shape \(2, 0, 1\)"),
        (torch.zeros(2, 3, 0), r"members has an empty member or outcome axis: shape \(2, 3, 0\)"),
    ],
)
def test_bad_samples_are_named(samples: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=f"^{message}"):
        check_samples(samples, "members")


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ([0.0], r"seen must be a torch.Tensor of shape \(..., D\), got list"),
        (torch.zeros(4, 2, dtype=torch.bool), "seen must hold floating-point numbers, got torch.bool"),
        (torch.zeros(4), r"seen must have shape \(4, 2\) to match samples \(4, 3, 2\), got \(4,\)"),
        (torch.zeros(4, 3, 2), r"seen must have shape \(4, 2\)"),
        (torch.zeros(1, 2), r"seen must have shape \(4, 2\)"),
    ],
)
def test_bad_outcomes_are_named(outcome: Any, message: str) -> None:
    check_outcome(torch.zeros(4, 2), torch.zeros(4, 3, 2), "seen")
    with pytest.raises(ShapeError, match=f"^{message}"):
        check_outcome(outcome, torch.zeros(4, 3, 2), "seen")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_counted(bad: float) -> None:
    values = torch.tensor([0.0, bad, 1.0, bad])
    with pytest.raises(NonFiniteError, match=r"^samples must be finite, got 2 NaN or infinite values of 4$"):
        check_finite(values, "samples")
    check_finite(values, "samples", wanted=False)


def test_a_sum_that_overflows_is_finite() -> None:
    check_finite(torch.full((4,), 3e38), "samples")
    check_finite(torch.zeros(0), "samples", wanted=True)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_is_widened(given: torch.dtype, kept: torch.dtype) -> None:
    assert working_precision(torch.ones(2, dtype=given)).dtype == kept


# -- where Python should not look


def test_conditions_are_known_in_eager_code() -> None:
    assert known_on_host(torch.tensor(True)) is True
    assert known_on_host(torch.tensor(False)) is False
    assert known_false(False)
    assert known_false(torch.tensor([True, False]))
    assert not known_false(torch.tensor([True, True]))


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
        with pytest.raises(NonFiniteError):
            check_finite(bad, "samples", wanted=True)
    with pytest.raises(NonFiniteError):
        check_finite(bad, "samples")


def test_looking_comes_back_after_an_error_inside_unwatched() -> None:
    with pytest.raises(KeyError), unwatched():
        raise KeyError
    assert known_on_host(torch.tensor(True)) is True


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.tensor([[-50.0]]), "-50"),
        (torch.tensor([0.1, float("nan")], requires_grad=True), "0.1, nan"),
        (-torch.arange(6.0), "-0, -1, -2, -3, ..."),
        (-0.5, "-0.5"),
    ],
)
def test_messages_show_the_numbers_of_a_tensor(value: float | torch.Tensor, shown: str) -> None:
    with pytest.raises(SettingError, match=f"^scale must be positive and finite, got {re.escape(shown)}$"):
        require_positive("scale", value)
