import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stakes.evaluation.member_order import error_ranks, reordered


def test_ranks_of_errors_in_units_of_the_spread() -> None:
    members = np.array([[[-1.0, 0.0], [1.0, 0.0]], [[-10.0, 5.0], [10.0, 7.0]], [[-1.0, 1.0], [1.0, 3.0]]])
    outcomes = np.array([[1.0, 2.0], [5.0, 6.5], [-1.0, 0.0]])  # errors (1, 2), (0.5, 0.5), (-1, -2) in units of spread
    assert error_ranks(members, outcomes).tolist() == [[2, 2], [1, 1], [0, 0]]


def test_as_many_error_vectors_as_members_say_who_goes_with_whom() -> None:
    members = np.array([[[3.0, 10.0], [1.0, 30.0], [2.0, 20.0]]])
    found = reordered(members, np.array([[0, 2], [1, 1], [2, 0]]))
    assert found.tolist() == [[[1.0, 30.0], [2.0, 20.0], [3.0, 10.0]]]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 30), st.integers(1, 4))
def test_members_of_each_outcome_stay_what_they_are(seed: int, count: int, vectors: int, width: int) -> None:
    random = np.random.default_rng(seed)
    members = random.integers(0, 5, size=(3, count, width)).astype(float)  # ties
    ranks = error_ranks(random.normal(size=(vectors, 4, width)), random.normal(size=(vectors, width)))
    found = reordered(members, ranks)
    np.testing.assert_array_equal(np.sort(found, 1), np.sort(members, 1))
    np.testing.assert_array_equal(reordered(found, ranks), found)


@pytest.mark.parametrize("count", [100, 200, 500])
def test_members_correlate_as_errors_do(count: int) -> None:
    random = np.random.default_rng(0)
    past = random.normal(size=(400, 50, 2))
    errors = random.multivariate_normal([0, 0], [[1, -0.8], [-0.8, 1]], size=400)
    found = reordered(random.normal(size=(20, count, 2)), error_ranks(past, past.mean(1) + errors))
    correlation = np.mean([np.corrcoef(case.T)[0, 1] for case in found])
    assert correlation == pytest.approx(-0.8, abs=0.1)


def test_of_many_error_vectors_some_are_kept() -> None:
    random = np.random.default_rng(0)
    ranks = error_ranks(random.normal(size=(1000, 3, 2)), random.normal(size=(1000, 2)))
    assert ranks.shape == (200, 2)
    np.testing.assert_array_equal(np.sort(ranks, 0), np.tile(np.arange(200)[:, None], 2))
