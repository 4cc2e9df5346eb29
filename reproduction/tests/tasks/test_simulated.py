import torch

from reproduction.tasks.portfolio import SimulatedPortfolio
from reproduction.tasks.synthetic import SyntheticTask
from stakes import optimal_action


def test_synthetic_mode_weight_is_the_share_of_the_second_mode() -> None:
    task = SyntheticTask()
    features, outcome = task.draw(200_000, torch.Generator().manual_seed(0))
    second = (outcome[:, 0] > 1).float()
    assert abs(second.mean() - 0.4) < 0.005
    peak = (task.mode_weight(features) > 0.7).float()
    assert abs((second * peak).sum() / peak.sum() - (task.mode_weight(features) * peak).sum() / peak.sum()) < 0.01


def test_synthetic_true_action_is_the_best_for_many_draws() -> None:
    task = SyntheticTask()
    for x in (0.02, 0.08, 0.25):
        features = torch.full((200_000, 1), x)
        second = torch.rand(200_000, generator=torch.Generator().manual_seed(1)) < task.mode_weight(features)
        noise = torch.randn(200_000, generator=torch.Generator().manual_seed(2))
        outcome = torch.where(second, 2.5 + 0.4 * noise, 0.2 * noise)
        found = optimal_action(task.cost, outcome[:, None])
        torch.testing.assert_close(task.true_action(features[:1])[0], found, atol=0.01, rtol=0)


def test_synthetic_density_is_that_of_the_draws() -> None:
    task = SyntheticTask()
    features = torch.tensor([[0.03], [0.08], [0.25]])
    grid = torch.linspace(-2, 5, 1401)[:, None, None]  # (G, 1, 1)
    density = task.log_density(features, grid).exp()  # (G, 3)
    torch.testing.assert_close(density.sum(0) * 0.005, torch.ones(3), atol=1e-4, rtol=0)
    drawn = task.draw_outcomes(features, 100_000, torch.Generator().manual_seed(0))
    assert drawn.shape == (3, 100_000, 1)
    for lower, upper in ((-2, 0), (0, 1), (1, 2.5), (2.5, 5)):
        inside = (grid[:, 0, 0] > lower) & (grid[:, 0, 0] <= upper)
        share = ((drawn[..., 0] > lower) & (drawn[..., 0] <= upper)).float().mean(-1)
        torch.testing.assert_close(density[inside].sum(0) * 0.005, share, atol=0.01, rtol=0)


def test_portfolio_sites_seed_draws_the_sites_and_data_seed_the_cases() -> None:
    usual, other_sites = (SimulatedPortfolio(sites=4, sites_seed=seed).data() for seed in (0, 1))
    assert torch.equal(usual.train.features, other_sites.train.features)
    assert not torch.equal(usual.train.outcome, other_sites.train.outcome)


def test_portfolio_truth_of_a_case_does_not_depend_on_its_neighbours() -> None:
    task = SimulatedPortfolio(sites=4)
    features = torch.randn(250, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(task.true_power(features)[120:130], task.true_power(features[120:130]))
    assert task.true_power(features, members=7).shape == (250, 7)


def test_portfolio_true_action_is_close_with_few_members() -> None:
    task = SimulatedPortfolio()
    features = torch.randn(10, 5, generator=torch.Generator().manual_seed(0))
    few, many = task.truth(features), task.truth(features, members=5_000)
    torch.testing.assert_close(few.action, many.action, atol=0.005, rtol=0)
    assert many.regret(few.action).max() < 1e-3


def test_portfolio_sites_share_the_stated_correlation() -> None:
    task = SimulatedPortfolio(sites=6)
    members = task.draw_outcomes(torch.zeros(1, 5), 100_000, torch.Generator().manual_seed(0))[0]
    correlation = torch.corrcoef(members.T)
    off_diagonal = correlation[~torch.eye(6, dtype=torch.bool)]
    assert (off_diagonal - 0.3).abs().max() < 0.02
    assert abs(members.std(0).mean() - 1.6 * (1.2 + 0.8 * 0.5)) < 0.02
