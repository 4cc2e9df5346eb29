from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from stakes.errors import StakesError
from stakes.files import content_digest
from stakes.workflows.missing_features import FEATURE_MOMENTS, FeatureMoments, load_moments, save_moments

NAMES = ("a", "b", "c")
COVARIANCE = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, 0.3], [0.0, 0.3, 2.0]])
MEAN = np.array([10.0, -3.0, 0.5])


def features(rows: int = 4000) -> pd.DataFrame:
    values = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, rows)
    return pd.DataFrame(values, columns=NAMES)


def moments(rows: int = 4000) -> FeatureMoments:
    return FeatureMoments.of(features(rows))


@pytest.mark.parametrize("missing", [[1], [0], [0, 2], [1, 2]])
def test_what_is_missing_is_drawn_from_its_conditional_distribution(missing: list[int]) -> None:
    known = [place for place in range(3) if place not in missing]
    row = MEAN + np.array([1.5, 0.8, -1.0])
    given = row.copy()
    given[missing] = np.nan
    drawn = moments().draws(given[None], 400)[0]
    np.testing.assert_array_equal(drawn[:, known], np.tile(row[known], (400, 1)))
    slopes = np.linalg.solve(COVARIANCE[np.ix_(known, known)], COVARIANCE[np.ix_(known, missing)])
    mean = MEAN[missing] + (row - MEAN)[known] @ slopes
    covariance = COVARIANCE[np.ix_(missing, missing)] - COVARIANCE[np.ix_(missing, known)] @ slopes
    np.testing.assert_allclose(drawn[:, missing].mean(0), mean, atol=0.1)
    np.testing.assert_allclose(np.cov(drawn[:, missing].T).reshape(covariance.shape), covariance, atol=0.2)


def test_few_draws_have_the_spread_of_many() -> None:
    row = np.array([[np.nan, -3.0, np.nan]])
    few, many = (moments().draws(row, count)[0][:, [0, 2]] for count in (25, 20_000))
    np.testing.assert_allclose(np.cov(few.T, bias=True), np.cov(many.T, bias=True), atol=0.02)
    wide = FeatureMoments.of(pd.DataFrame(np.random.default_rng(0).normal(size=(400, 60))).add_prefix("x"))
    drawn = wide.draws(np.full((1, 60), np.nan), 25)[0]  # more features than draws
    assert np.mean(drawn.var(0) / wide.scale**2) == pytest.approx(1, rel=0.03)


def test_every_row_is_drawn_by_itself_and_the_same_way_again() -> None:
    rows = features(6).to_numpy().copy()
    rows[0, 1] = rows[2, 0] = rows[2, 2] = rows[5, 1] = np.nan
    draws = moments().draws(rows, 10)
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(draws[[1, 3, 4]], np.repeat(rows[[1, 3, 4], None], 10, 1))
    for place in range(6):
        np.testing.assert_allclose(moments().draws(rows[place : place + 1], 10)[0], draws[place], rtol=1e-12)


def test_draws_stay_within_what_the_fit_saw() -> None:
    known = features().assign(b=lambda table: table["b"].clip(-3.2, -2.9))
    moments = FeatureMoments.of(known)
    drawn = moments.draws(np.array([[18.0, np.nan, 0.0]]), 25)[0, :, 1]
    assert drawn.min() >= -3.2
    assert drawn.max() <= -2.9


def test_copies_and_constants_are_no_trouble() -> None:
    table = features(500).assign(copy=lambda rows: rows["a"], flat=3.0)
    moments = FeatureMoments.of(table)
    assert moments is not None
    row = table.to_numpy()[:1].copy()
    truth = row[0, 0]
    row[0, [0, 4]] = np.nan
    drawn = moments.draws(row, 25)[0]
    assert np.abs(drawn[:, 0] - truth).max() < 0.2  # its copy is known
    assert (drawn[:, 4] == 3.0).all()


@pytest.mark.parametrize(("rows", "columns"), [(29, 1), (150, 31), (2200, 1001)])
def test_too_few_rows_or_too_many_features_have_none(rows: int, columns: int, tmp_path: Path) -> None:
    table = pd.DataFrame(np.zeros((rows, columns))).add_prefix("x")
    assert FeatureMoments.of(table) is None
    save_moments(tmp_path, table)
    assert not (tmp_path / FEATURE_MOMENTS).exists()
    assert load_moments(tmp_path, tuple(table.columns), "0" * 64) is None


def test_they_are_kept_as_they_were(tmp_path: Path) -> None:
    save_moments(tmp_path, features())
    sha256 = content_digest(tmp_path / FEATURE_MOMENTS)
    loaded = load_moments(tmp_path, NAMES, sha256)
    rows = np.array([[np.nan, -2.0, np.nan]])
    np.testing.assert_array_equal(loaded.draws(rows, 5), moments().draws(rows, 5))
    refuses(StakesError, "must be of the features of the fit", load_moments, tmp_path, ("a", "b", "d"), sha256)
    refuses(StakesError, FEATURE_MOMENTS, load_moments, tmp_path, NAMES, "0" * 64)


@pytest.mark.parametrize(
    ("column", "value"), [("mean", np.nan), ("with 1", 7.0), ("with 1", 1.0), ("scale", "wide"), ("rows", 2.0)]
)
def test_wrong_numbers_are_refused(column: str, value: object, tmp_path: Path) -> None:
    save_moments(tmp_path, features(50))
    path = tmp_path / FEATURE_MOMENTS
    table = pd.read_parquet(path)
    table[column] = value
    table.to_parquet(path)
    refuses(StakesError, FEATURE_MOMENTS, load_moments, tmp_path, NAMES, content_digest(path))
