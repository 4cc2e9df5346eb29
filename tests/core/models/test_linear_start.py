"""The linear start, against scikit-learn, a known truth, and cross-validation written out row by row."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.models.linear import climatology_start, fit_linear_start, residual_factors, time_blocks

DOUBLE = torch.float64


def table(rows: int, features: int = 3, outcomes: int = 2, noise: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Outcomes that are linear in the features, with noise that the outcomes share in part."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=generator, dtype=DOUBLE)
    weight = torch.randn(outcomes, features, generator=generator, dtype=DOUBLE)
    mix = torch.eye(outcomes, dtype=DOUBLE) + 0.5
    z = torch.randn(rows, outcomes, generator=generator, dtype=DOUBLE)
    return x, x @ weight.mT + 0.7 + noise * z @ mix


@pytest.mark.parametrize(("rows", "features"), [(200, 3), (40, 60), (12, 1)])
def test_the_coefficients_are_those_of_scikit_learn(rows: int, features: int) -> None:
    x, y = table(rows, features)
    found = fit_linear_start(x + 3, y)
    ridge = Ridge(alpha=found.penalty).fit(x + 3, y)
    np.testing.assert_allclose(found.weight, ridge.coef_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.bias, ridge.intercept_, rtol=1e-6, atol=1e-7)


def test_many_more_features_than_rows_take_no_longer_than_rows_ask() -> None:
    """The gram matrix of 20,000 features would have 3 GB, and its decomposition would take hours."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(12, 20_000, generator=generator, dtype=torch.float64)
    start = fit_linear_start(features, features[:, :1])
    dual = Ridge(alpha=start.penalty, solver="svd").fit(features.numpy(), features[:, 0].numpy())
    np.testing.assert_allclose(start.weight[0].numpy(), dual.coef_.reshape(-1), atol=1e-10)


@pytest.mark.parametrize("gap", [0, 1, 7])
def test_residuals_are_out_of_fold_with_a_gap(gap: int) -> None:
    x, y = table(83)
    found = fit_linear_start(x, y, gap)
    share = found.penalty / 83
    starts = [place * 83 // 10 for place in range(11)]
    for first, end in pairwise(starts):
        kept = [row for row in range(83) if row < first - gap or row >= end + gap]
        ridge = Ridge(alpha=share * len(kept)).fit(x[kept], y[kept])
        expected = y[first:end].numpy() - ridge.predict(x[first:end])
        np.testing.assert_allclose(found.residuals[first:end], expected, atol=1e-8)


def test_the_penalty_is_the_best_of_all_out_of_fold() -> None:
    x, y = table(60, features=30, noise=3.0)
    found = fit_linear_start(x, y, gap=2)
    errors = {}
    for share in np.logspace(-6, 2, 17):
        residuals = []
        for block, left_out in time_blocks(60, 2):
            kept = np.setdiff1d(np.arange(60), np.arange(60)[left_out])
            ridge = Ridge(alpha=share * len(kept)).fit(x[kept], y[kept])
            residuals.append(y[block].numpy() - ridge.predict(x[block]))
        errors[share * 60] = float(np.square(np.concatenate(residuals)).mean())
    best = min(errors, key=lambda penalty: errors[penalty])
    assert found.penalty == pytest.approx(best)
    assert float(found.residuals.square().mean()) == pytest.approx(errors[best])
    assert 1e-5 < best / 60 < 1e2  # inside the grid: the errors have a minimum


def test_a_known_truth_is_found() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(20_000, 4, generator=generator, dtype=DOUBLE)
    weight, root = torch.tensor([[1.0, -2, 0, 0.5], [0, 1, 1, 0]], dtype=DOUBLE), torch.tensor([[1.0, 0.8], [0, 0.6]])
    y = x @ weight.mT + 3 + torch.randn(20_000, 2, generator=generator, dtype=DOUBLE) @ root.double()
    found = fit_linear_start(x, y)
    torch.testing.assert_close(found.weight, weight, atol=0.03, rtol=0)
    torch.testing.assert_close(found.bias, torch.full((2,), 3.0, dtype=DOUBLE), atol=0.03, rtol=0)
    factors, diagonal = residual_factors(found.residuals)
    assert diagonal is None
    torch.testing.assert_close(factors, root.double(), atol=0.03, rtol=0)


def test_residuals_of_rows_that_were_fitted_would_be_too_small() -> None:
    x, y = table(60, features=20)
    found = fit_linear_start(x, y)
    fitted = y - x @ found.weight.mT - found.bias
    assert found.residuals.square().mean() > 1.3 * fitted.square().mean()


def test_single_precision_and_float64_agree() -> None:
    x, y = table(300)
    once, twice = fit_linear_start(x.float(), y.float()), fit_linear_start(x, y)
    assert once.weight.dtype == once.residuals.dtype == DOUBLE
    torch.testing.assert_close(once.weight, twice.weight, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("rows", "gap"), [(1, 0), (1, 3), (2, 0), (3, 100), (9, 4), (10, 0)])
def test_few_rows_and_large_gaps(rows: int, gap: int) -> None:
    x, y = table(rows)
    found = fit_linear_start(x, y, gap)
    assert found.residuals.shape == y.shape
    for values in (found.weight, found.bias, found.residuals, residual_factors(found.residuals)[0]):
        assert values.isfinite().all()


def test_one_row_is_forecast_as_the_mean() -> None:
    found = fit_linear_start(torch.tensor([[2.0]]), torch.tensor([[5.0]]))
    assert (found.weight.item(), found.bias.item(), found.residuals.item()) == (0.0, 5.0, 5.0)


def test_constant_and_equal_columns() -> None:
    x, y = table(100)
    x = torch.cat([x, x[:, :1], torch.ones(100, 1)], 1)
    y[:, 1] = 4.0
    found = fit_linear_start(x, y)
    torch.testing.assert_close(found.weight[0, 0], found.weight[0, 3])
    torch.testing.assert_close(found.weight[1], torch.zeros(5, dtype=DOUBLE), atol=1e-9, rtol=0)
    factors, _ = residual_factors(found.residuals)
    assert factors.isfinite().all()
    assert factors[:, 1].norm() == pytest.approx(1e-3, rel=1e-3)  # nobody is surer of anything


@pytest.mark.parametrize("rows", [1, 2, 9, 10, 11, 101])
@pytest.mark.parametrize("gap", [0, 3])
def test_blocks_of_time_cover_every_row_once(rows: int, gap: int) -> None:
    blocks = list(time_blocks(rows, gap))
    assert [row for block, _ in blocks for row in range(rows)[block]] == list(range(rows))
    assert max(block.stop - block.start for block, _ in blocks) <= rows // 10 + 1
    for block, left_out in blocks:
        away = set(range(rows)) - set(range(rows)[left_out])
        near = min(gap, rows // 4)
        assert all(row < block.start - near or row >= block.stop + near for row in away)
        assert len(away) >= 0.35 * rows or rows < 3


@pytest.mark.parametrize("outcomes", [1, 5, 64])
def test_up_to_64_outcomes_the_covariance_is_kept(outcomes: int) -> None:
    _, y = table(300, outcomes=outcomes)
    factors, diagonal = residual_factors(y)
    assert diagonal is None
    assert factors.shape == (outcomes, outcomes)
    torch.testing.assert_close(factors.mT @ factors, y.mT @ y / 300, atol=1e-5, rtol=1e-5)


def test_more_outcomes_have_factors_and_a_diagonal() -> None:
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(500, 3, generator=generator, dtype=DOUBLE) @ torch.randn(3, 80, generator=generator).double()
    residuals = common + 0.1 * torch.randn(500, 80, generator=generator, dtype=DOUBLE)
    factors, diagonal = residual_factors(residuals)
    assert diagonal is not None
    assert (factors.shape, diagonal.shape) == ((32, 80), (80,))
    covariance = factors.mT @ factors + diagonal.square().diag()
    moments = residuals.mT @ residuals / 500
    torch.testing.assert_close(covariance.diag(), moments.diag(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(covariance, moments, atol=0.01, rtol=0)


def test_what_cannot_be_fitted_is_named() -> None:
    x, y = table(9)
    with pytest.raises(ShapeError, match=r"features \(N, F\) and outcomes \(N, D\), got \(9, 3\) and \(8, 2\)"):
        fit_linear_start(x, y[1:])
    with pytest.raises(ShapeError, match=r"got \(0, 3\) and \(0, 2\)"):
        fit_linear_start(x[:0], y[:0])
    with pytest.raises(SettingError, match="gap must be a whole number of at least 0, got -1"):
        fit_linear_start(x, y, gap=-1)
    with pytest.raises(NonFiniteError, match="outcomes of the linear start must be finite"):
        fit_linear_start(x, y * torch.nan)


def test_climatology_is_the_mean_and_what_lies_around_it() -> None:
    start = climatology_start(torch.rand(20, 3), outcome := torch.rand(20, 2))
    assert not start.weight.any()
    torch.testing.assert_close(start.bias + start.residuals, outcome.double())
    torch.testing.assert_close(start.residuals.mean(0), torch.zeros(2, dtype=torch.float64))
