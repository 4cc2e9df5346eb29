import torch

from stakes import optimal_action
from stakes.tasks.portfolio import SimulatedPortfolio
from stakes.tasks.synthetic import SyntheticTask


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


def test_portfolio_sites_share_the_stated_correlation() -> None:
    task = SimulatedPortfolio(sites=6)
    members = task.draw_outcomes(torch.zeros(1, 5), 100_000, torch.Generator().manual_seed(0))[0]
    correlation = torch.corrcoef(members.T)
    off_diagonal = correlation[~torch.eye(6, dtype=torch.bool)]
    assert (off_diagonal - 0.3).abs().max() < 0.02
    assert abs(members.std(0).mean() - 1.6 * (1.2 + 0.8 * 0.5)) < 0.02


def test_portfolio_is_one_problem_whatever_the_draws() -> None:
    task = SimulatedPortfolio(sites=4)
    features = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    first, second = (task.draw_outcomes(features, 50_000, torch.Generator().manual_seed(seed)) for seed in (1, 2))
    torch.testing.assert_close(first.mean(1), second.mean(1), atol=0.1, rtol=0)
