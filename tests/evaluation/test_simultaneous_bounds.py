"""Bounds that hold for several means at once."""

from typing import Any

import numpy as np
import pytest
from refusals import refuses

from stakes.errors import SettingError, ShapeError
from stakes.evaluation.intervals import upper_bounds


def noise(rows: int, cases: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, cases))


def test_one_difference_has_about_the_bound_of_student() -> None:
    values = noise(1, 400)
    error = values.std(ddof=1) / 20
    assert upper_bounds(values)[0] == pytest.approx(values.mean() + 1.97 * error, abs=0.15 * error)


def test_more_differences_have_wider_bounds_and_copies_do_not() -> None:
    one, many = noise(1, 200), noise(9, 200)
    many[0] = one
    assert upper_bounds(many)[0] > upper_bounds(one)[0]
    assert upper_bounds(np.repeat(one, 9, axis=0)) == pytest.approx(upper_bounds(one)[0])
    alone = upper_bounds(many, together=np.arange(9) == 0)
    assert alone[0] == pytest.approx(upper_bounds(one)[0])
    assert (alone < upper_bounds(many)).all()  # the others have bounds too


def test_blocks_are_what_is_resampled() -> None:
    means = noise(2, 25)
    assert upper_bounds(np.repeat(means, 7, axis=1), block=7) == pytest.approx(upper_bounds(means))
    assert np.isfinite(upper_bounds(noise(2, 101), block=10)).all()


def test_rare_losses_do_not_hide() -> None:
    """Of a difference that is rarely large the mean is too low more often than a normal one's."""
    generator = np.random.default_rng(0)
    below = [upper_bounds(generator.gamma(0.1, size=(1, 60)) - 0.1, resamples=200)[0] < 0 for _ in range(300)]
    assert np.mean(below) <= 0.08


def test_resamples_of_equal_blocks_do_not_count() -> None:
    rare = np.zeros((2, 20))
    rare[0, 3], rare[1, 5] = 1.0, -1.0
    assert np.isfinite(upper_bounds(rare)).all()


def test_bad_differences_and_blocks_are_named() -> None:
    refuses(ShapeError, r"\(K, N\), got shape \(5,\)", upper_bounds, np.zeros(5))
    refuses(ShapeError, "finite", upper_bounds, np.full((1, 5), np.nan))
    refuses(SettingError, "at least two blocks of 5 cases, got 3", upper_bounds, np.zeros((1, 5)), block=3)
