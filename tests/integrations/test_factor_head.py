"""The head that forecasters share: joint members of one distribution, of which any number can be drawn."""

import torch
from refusals import refuses
from torch import Tensor

from stakes.errors import SettingError, ShapeError
from stakes.integrations.forecast_objective import FactorForecast, FactorHead
from stakes.scores.scoring_rules import energy_score


def output(forecasts: int = 2, hours: int = 3, series: int = 2, factors: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(forecasts, hours, series, 2 + factors, dtype=torch.float64, generator=generator)


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_shapes_and_names() -> None:
    forecast = FactorHead(2).forecast(output())
    assert forecast.draw(5).shape == (2, 5, 3, 2)
    assert forecast.spread().shape == (2, 3, 2)
    assert forecast.covariance().shape == (2, 6, 6)
    assert (FactorHead(2).outputs, FactorHead(2).names) == (4, ["location", "scale", "loading_1", "loading_2"])


def test_moments_of_the_members_are_the_closed_form() -> None:
    """Within five standard errors of 50,000 members, everywhere."""
    forecast, members = FactorHead(2).forecast(output()), 50_000
    drawn = forecast.draw(members, noise()).flatten(2)  # (B, M, H N)
    covariance = forecast.covariance()
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    assert ((drawn.mean(1) - forecast.location.flatten(1)) / (variance / members).sqrt()).abs().max() < 5
    deviations = drawn - drawn.mean(1, keepdim=True)
    sampled = deviations.mT @ deviations / (members - 1)
    error = torch.sqrt((variance[:, :, None] * variance[:, None] + covariance**2) / members)  # of Gaussian covariances
    assert ((sampled - covariance) / error).abs().max() < 5
    torch.testing.assert_close(forecast.spread().flatten(1) ** 2, variance)


def test_hours_and_series_move_together_by_the_loadings_alone() -> None:
    forecast = FactorHead(2).forecast(output())
    loadings = forecast.loadings.flatten(1, 2)
    apart = forecast.covariance() - loadings @ loadings.mT
    torch.testing.assert_close(apart, torch.diag_embed(forecast.scale.flatten(1) ** 2))
    independent = FactorHead(0).forecast(output(factors=0))
    torch.testing.assert_close(independent.covariance(), torch.diag_embed(independent.scale.flatten(1) ** 2))
    assert independent.draw(3).shape == (2, 3, 3, 2)


def test_members_are_exchangeable_and_any_number_is_of_one_distribution() -> None:
    """The fair score of few members estimates what that of many does; with own outputs for each member it would not."""
    forecast = FactorHead(2).forecast(output(forecasts=1))
    many = FactorForecast(*(part.expand(40_000, *part.shape[1:]) for part in forecast))
    outcome = many.draw(1, noise(7)).flatten(2).squeeze(1)
    scores = {count: energy_score(many.draw(count, noise(count)).flatten(2), outcome) for count in (2, 5)}
    for score in scores.values():
        assert score.std() / 200 < 0.02
    difference = scores[2] - scores[5]
    assert difference.mean().abs() < 4 * difference.std() / 200
    drawn = many.draw(3, noise(3)).flatten(2)
    assert ((drawn.mean(0) - drawn.mean((0, 1))) / (drawn.std((0, 1)) / 200)).abs().max() < 5  # each member alike


def test_draws_are_differentiable_as_finite_differences_say() -> None:
    raw = output(1, 2, 1, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda raw: FactorHead(1).forecast(raw).draw(3, noise()), (raw,))


def test_bad_use() -> None:
    refuses(SettingError, "factors", FactorHead, -1)
    refuses(ShapeError, r"must be \(batch, hours, series, 3\) for a head of 1", FactorHead(1).forecast, output())
