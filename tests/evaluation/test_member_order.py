import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st

from stakes.forecasting.copula import error_ranks, reordered, reordered_as_members, vector_ranks


def test_ranks_of_errors_in_units_of_the_spread() -> None:
    members = np.array([[[-1.0, 0.0], [1.0, 0.0]], [[-10.0, 5.0], [10.0, 7.0]], [[-1.0, 1.0], [1.0, 3.0]]])
    outcomes = np.array([[1.0, 2.0], [5.0, 6.5], [-1.0, 0.0]])  # errors (1, 2), (0.5, 0.5), (-1, -2) in units of spread
    assert error_ranks(members, outcomes).tolist() == [[1, 1], [0, 0], [2, 2]]  # the one in the middle comes first


def test_as_many_error_vectors_as_members_say_who_goes_with_whom() -> None:
    members = np.array([[[3.0, 10.0], [1.0, 30.0], [2.0, 20.0]]])
    found = reordered(members, np.array([[0, 2], [1, 1], [2, 0]]))
    assert found.tolist() == [[[1.0, 30.0], [2.0, 20.0], [3.0, 10.0]]]


@examples(40)
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


def test_of_many_error_vectors_some_are_kept_and_the_first_few_stand_for_all() -> None:
    random = np.random.default_rng(0)
    errors = random.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=1000)
    ranks = vector_ranks(errors)
    assert ranks.shape == (200, 2)
    np.testing.assert_array_equal(np.sort(ranks, 0), np.tile(np.arange(200)[:, None], 2))
    assert np.corrcoef(ranks[:25].T)[0, 1] == pytest.approx(np.corrcoef(errors.T)[0, 1], abs=0.05)


def test_quantiles_take_the_order_of_members() -> None:
    random = np.random.default_rng(0)
    members = random.normal(size=(5, 4, 2))
    quantiles = np.sort(random.normal(size=(5, 12, 2)), 1)
    found = reordered_as_members(quantiles, members)
    np.testing.assert_array_equal(np.sort(found, 1), quantiles)
    ranks = np.argsort(np.argsort(members, 1), 1)
    thirds = np.argsort(np.argsort(found, 1), 1) // 3  # each member has three quantiles that are neighbours
    np.testing.assert_array_equal(thirds, np.repeat(ranks, 3, 1))
    np.testing.assert_array_equal(reordered_as_members(quantiles[2:3], members[2:3]), found[2:3])


def test_equal_members_are_told_apart_by_chance() -> None:
    quantiles = np.broadcast_to(np.arange(200.0)[None, :, None], (1, 200, 2))
    found = reordered_as_members(quantiles, np.zeros((1, 10, 2)))[0]
    assert abs(np.corrcoef(found.T)[0, 1]) < 0.2


def test_error_vectors_are_chosen_by_their_weight() -> None:
    errors = np.stack([np.arange(1000.0), np.where(np.arange(1000) < 500, 1, -1) * np.arange(1000.0)], 1)
    weight = np.where(np.arange(1000) < 500, 1.0, 1e-12)
    ranks = vector_ranks(errors, weight)
    assert ranks.shape == (200, 2)
    np.testing.assert_array_equal(ranks[:, 0], ranks[:, 1])
