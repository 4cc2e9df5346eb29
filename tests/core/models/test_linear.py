"""The linear model: what it computes, against its formula; the template of all models tests the rest."""

import pytest
import torch
from torch import Tensor

from stakes import LinearModel, energy_score
from stakes.errors import SettingError
from stakes.models.linear import fit_linear_start


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


def test_dependence_between_outcomes_is_kept() -> None:
    members = fitted().sample(table(1)[0], 300)[0]
    assert torch.corrcoef(members.mT)[0, 1] < -0.99


def test_shared_noise_uses_every_residual_before_any_comes_again() -> None:
    model = fitted(residuals=300)
    members = model.sample(table(2)[0], 650, torch.Generator().manual_seed(0), share_noise=True)
    vectors, counts = members[0].unique(dim=0, return_counts=True)
    assert len(vectors) == 300
    assert sorted(counts.unique().tolist()) == [2, 3]


@pytest.mark.parametrize(("rows", "residuals"), [(40, 100), (400, 100)])
def test_few_and_many_rows(rows: int, residuals: int) -> None:
    model = fitted(rows, residuals)
    _, counts = model.residuals.unique(dim=0, return_counts=True)
    assert counts.sum() == residuals
    assert (counts.min(), counts.max()) == ((2, 3) if rows == 40 else (1, 1))


def test_the_choice_of_residuals_is_the_same_every_time() -> None:
    torch.manual_seed(0)
    first = fitted(400, 50)
    torch.manual_seed(1)
    assert torch.equal(first.residuals, fitted(400, 50).residuals)


def test_there_is_nothing_to_train() -> None:
    assert list(fitted().parameters()) == []


def test_residuals_beat_a_constant_spread_where_they_are_skewed() -> None:
    model, (x, y) = fitted(), table(400, seed=1)
    members = model.sample(x, 100, torch.Generator().manual_seed(0))
    mean, spread = members.mean(1, keepdim=True), members.std((0, 1), correction=0)
    gaussian = mean + spread * torch.randn(members.shape, generator=torch.Generator().manual_seed(0))
    assert energy_score(members, y).mean() < 0.95 * energy_score(gaussian, y).mean()


@pytest.mark.parametrize("name", ["features", "outcomes", "residuals"])
def test_bad_sizes_are_named(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} must be a whole number of at least 1"):
        LinearModel(**({"features": 1, "outcomes": 1} | {name: 0}))
    with pytest.raises(SettingError, match="gap must be a whole number of at least 0"):
        LinearModel(1, 1, gap=-1)


def test_without_features_it_is_climatology() -> None:
    features, outcome = torch.rand(60, 3), torch.rand(60, 2)
    model = LinearModel(3, 2, residuals=60, constant=True)
    model.fit_scaling(features, outcome)
    members = model.sample(torch.rand(4, 3), 60, torch.Generator().manual_seed(0), share_noise=True)
    for case in members:  # whole vectors of outcomes, each once
        torch.testing.assert_close(case[case[:, 0].argsort()], outcome[outcome[:, 0].argsort()])
