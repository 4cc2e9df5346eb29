"""Linear models: alone, beside a network, and as its start."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from refusals import refuses
from sklearn.linear_model import Ridge
from torch import Tensor

from stakes import LinearModel, energy_score
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.models.implicit import LinearPart
from stakes.models.linear import fit_linear_start, residual_factors, time_blocks
from stakes.models.support_points import energy_distance, herding_order


def table(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two outcomes with opposite errors, in odd units."""
    generator = torch.Generator().manual_seed(seed)
    x = 50 + 10 * torch.randn(rows, 3, generator=generator)
    error = torch.randn(rows, 1, generator=generator).exp() - 1.65
    return x, torch.cat([x[:, :1] + error, 1000 - 3 * x[:, 1:2] - 10 * error], 1)


def fitted(rows: int = 300, residuals: int = 300, gap: int = 0) -> LinearModel:
    model = LinearModel(3, 2, residuals, gap)
    model.fit_scaling(*table(rows))
    return model


def test_members_are_the_ridge_forecast_and_whole_residual_vectors() -> None:
    x, y = table(300)
    model = fitted(gap=5)
    inputs, target = model.feature_scaling.standardise(x), model.outcome_scaling.standardise(y)
    start = fit_linear_start(inputs, target, gap=5)
    members = model.sample(x[:4], 6, torch.Generator().manual_seed(1))
    location = inputs[:4].double() @ start.weight.mT + start.bias
    errors = model.outcome_scaling.standardise(members) - location[:, None]
    distance = torch.cdist(errors.double(), start.residuals.expand(4, -1, -1))
    assert distance.min(-1).values.max() < 1e-5
    assert len(distance.argmin(-1).unique()) > 6  # every case draws for itself


def test_shared_noise_uses_every_residual_before_any_comes_again() -> None:
    model = fitted(residuals=300)
    members = model.sample(table(2)[0], 650, torch.Generator().manual_seed(0), share_noise=True)
    vectors, counts = members[0].unique(dim=0, return_counts=True)
    assert len(vectors) == 300
    assert sorted(counts.unique().tolist()) == [2, 3]


def test_residuals_beat_a_constant_spread_where_they_are_skewed() -> None:
    model, (x, y) = fitted(), table(400, seed=1)
    members = model.sample(x, 100, torch.Generator().manual_seed(0))
    mean, spread = members.mean(1, keepdim=True), members.std((0, 1), correction=0)
    gaussian = mean + spread * torch.randn(members.shape, generator=torch.Generator().manual_seed(0))
    assert energy_score(members, y).mean() < 0.95 * energy_score(gaussian, y).mean()


def two_features(rows: int, outcomes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, generator=generator)
    noise = torch.randn(rows, 1, generator=generator) + 0.5 * torch.randn(rows, outcomes, generator=generator)
    return x, x[:, :1] + noise


@pytest.mark.parametrize(("outcomes", "noise", "seen"), [(1, 1, 1), (5, 5, 5), (64, 64, 64), (70, 102, 32)])
def test_it_starts_at_ridge_regression_with_the_covariance_of_its_errors(outcomes: int, noise: int, seen: int) -> None:
    x, y = two_features(400, outcomes)
    part = LinearPart(3, outcomes, gap=3)
    assert (part.noise, part.seen) == (noise, seen)
    part.fit(x, y)
    start = fit_linear_start(x, y, gap=3)
    z = torch.randn(7, 9, noise, generator=torch.Generator().manual_seed(1))
    factors, diagonal = residual_factors(start.residuals)
    expected = (x[:7].double() @ start.weight.mT + start.bias)[:, None] + z[..., :seen].double() @ factors
    if diagonal is not None:
        expected = expected + z[..., seen:] * diagonal
    torch.testing.assert_close(part(x[:7], z), expected.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("outcomes", [2, 70])
def test_before_it_is_fitted_it_is_standard_normal(outcomes: int) -> None:
    part = LinearPart(3, outcomes)
    members = part(torch.randn(1, 3), torch.randn(1, 5000, part.noise, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(members[0].mT.cov(), torch.eye(outcomes), atol=0.1, rtol=0)


def test_it_learns_at_a_tenth_of_the_rate_and_decays_to_its_start() -> None:
    x, y = two_features(50, 2)
    part = LinearPart(3, 2)
    part.fit(x, y)
    z = torch.randn(50, 4, 2)
    before = part(x, z)
    optimiser = torch.optim.AdamW(part.parameters(), 0.01, weight_decay=0.5)
    (part(x, z) - 5).square().mean().backward()
    optimiser.step()
    for name in ("weight", "bias", "factors"):
        moved = part._now(name) - part.get_buffer(name)
        torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.001), atol=1e-6, rtol=1e-3)
    optimiser.zero_grad()
    for parameter in part.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.param_groups[0]["betas"] = (0.0, 0.999)
    optimiser.param_groups[0]["lr"] = 1.0
    for _ in range(30):
        optimiser.step()
    torch.testing.assert_close(part(x, z), before, atol=1e-5, rtol=1e-5)


DOUBLE = torch.float64


def regression(
    rows: int, features: int = 3, outcomes: int = 2, noise: float = 1.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Outcomes that are linear in the features, with noise that the outcomes share in part."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=generator, dtype=DOUBLE)
    weight = torch.randn(outcomes, features, generator=generator, dtype=DOUBLE)
    mix = torch.eye(outcomes, dtype=DOUBLE) + 0.5
    z = torch.randn(rows, outcomes, generator=generator, dtype=DOUBLE)
    return x, x @ weight.mT + 0.7 + noise * z @ mix


@pytest.mark.parametrize(("rows", "features"), [(200, 3), (40, 60), (12, 1)])
def test_the_coefficients_are_those_of_scikit_learn(rows: int, features: int) -> None:
    x, y = regression(rows, features)
    found = fit_linear_start(x + 3, y)
    ridge = Ridge(alpha=found.penalty).fit(x + 3, y)
    np.testing.assert_allclose(found.weight, ridge.coef_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.bias, ridge.intercept_, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("gap", [0, 1, 7])
def test_residuals_are_out_of_fold_with_a_gap(gap: int) -> None:
    x, y = regression(83)
    found = fit_linear_start(x, y, gap)
    share = found.penalty / 83
    starts = [place * 83 // 10 for place in range(11)]
    for first, end in pairwise(starts):
        kept = [row for row in range(83) if row < first - gap or row >= end + gap]
        ridge = Ridge(alpha=share * len(kept)).fit(x[kept], y[kept])
        expected = y[first:end].numpy() - ridge.predict(x[first:end])
        np.testing.assert_allclose(found.residuals[first:end], expected, atol=1e-8)


def test_the_penalty_is_the_best_of_all_out_of_fold() -> None:
    x, y = regression(60, features=30, noise=3.0)
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


def test_constant_and_equal_columns() -> None:
    x, y = regression(100)
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
    _, y = regression(300, outcomes=outcomes)
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


def test_the_first_residuals_in_order_stand_for_all() -> None:
    generator = torch.Generator().manual_seed(0)
    residuals = torch.randn(1000, 4, generator=generator, dtype=DOUBLE).exp()
    order = herding_order(residuals, 1000)
    assert sorted(order.tolist()) == list(range(1000))
    for count in (10, 50, 200):
        drawn = [residuals[torch.randperm(1000, generator=generator)[:count]] for _ in range(20)]
        far = [energy_distance(residuals, points).item() for points in drawn]
        assert energy_distance(residuals, residuals[order[:count]]).item() < 0.5 * sum(far) / len(far)


def test_of_one_outcome_the_residuals_are_quantiles() -> None:
    model = LinearModel(1, 1, residuals=300, constant=True)
    outcome = torch.randn(300, 1, generator=torch.Generator().manual_seed(0)).exp()
    model.fit_scaling(torch.zeros(300, 1), outcome)
    members = model.sample(torch.zeros(1, 1), 50, share_noise=True)[0, :, 0]
    torch.testing.assert_close(members, outcome[:, 0].sort().values[3::6])


def test_another_unit_chooses_the_same_residuals() -> None:
    model, scaled = LinearModel(3, 2, 40), LinearModel(3, 2, 40)
    x, y = table(300)
    y = y.round(decimals=1)  # with ties
    model.fit_scaling(x, y)
    scaled.fit_scaling(x, 1000 * y)
    torch.testing.assert_close(
        scaled.sample(x[:2], 40, share_noise=True), 1000 * model.sample(x[:2], 40, share_noise=True)
    )


def test_equal_residuals_and_fewer_than_are_kept_are_no_trouble() -> None:
    assert herding_order(torch.ones(5, 2), 7).tolist() == [0, 1, 2, 3, 4, 0, 1]
    weights = torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0])
    assert herding_order(torch.arange(5.0)[:, None], 2, weights).tolist() == [2, 4]
    assert sorted(herding_order(torch.eye(5), 2, weights).tolist()) == [2, 4]


def test_what_cannot_be_made_or_fitted_is_named() -> None:
    for name in ("features", "outcomes", "residuals"):
        refuses(SettingError, name, LinearModel, **{"features": 1, "outcomes": 1} | {name: 0})
    refuses(SettingError, "outcomes", LinearPart, 1, 0)
    refuses(SettingError, "gap ", LinearModel, 1, 1, gap=-1)
    refuses(SettingError, "gap ", LinearPart, 1, 1, gap=1.5)
    x, y = regression(9)
    refuses(SettingError, "gap ", fit_linear_start, x, y, gap=-1)
    refuses(ShapeError, r"\(9, 3\) and \(8, 2\)", fit_linear_start, x, y[1:])
    refuses(ShapeError, r"\(0, 3\) and \(0, 2\)", fit_linear_start, x[:0], y[:0])
    refuses(NonFiniteError, "outcomes", fit_linear_start, x, y * torch.nan)
