"""The objective as a loss module, in plain loops and in those of other libraries."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import stakes


@pytest.fixture
def objective() -> stakes.DecisionAwareObjective:
    return stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(stakes.ShortfallCost(5.0)), 0.3)


def draw() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(32, 10, 1, generator=generator), torch.rand(32, 1, generator=generator)


def test_loss_is_the_mean_of_the_objective(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = draw()
    loss = stakes.DecisionAwareLoss(objective)
    expected = objective.from_samples(samples, outcome).mean()
    torch.testing.assert_close(loss(samples, outcome), expected.total)
    assert loss.terms is not None
    torch.testing.assert_close(loss.terms.decision, expected.decision)
    assert not loss.terms.score.requires_grad


def test_scales_make_both_terms_one_and_are_saved(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = draw()
    loss = stakes.DecisionAwareLoss(objective)
    loss.estimate_scales(samples, outcome)
    expected = objective.estimate_scales(stakes.TrainingDraw.from_samples(samples, outcome))
    torch.testing.assert_close(loss(samples, outcome), expected.from_samples(samples, outcome).mean().total)
    other = stakes.DecisionAwareLoss(objective)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(samples, outcome), loss(samples, outcome))


def test_other_layouts_masks_and_weights_reach_the_objective(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = draw()
    mask = torch.arange(32) % 2 == 0
    outcome[~mask] = torch.nan
    loss = stakes.DecisionAwareLoss(objective, member_dim=0)
    expected = objective.from_samples(samples[mask], outcome[mask]).mean().total
    torch.testing.assert_close(loss(samples.movedim(-2, 0), outcome, mask=mask), expected)


def test_moves_to_another_type(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = (values.double() for values in draw())
    loss = stakes.DecisionAwareLoss(objective).double()
    loss.estimate_scales(samples, outcome)
    assert loss(samples, outcome).dtype == torch.float64


def test_gradient_is_that_of_the_objective(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = draw()
    samples.requires_grad_()
    loss = stakes.DecisionAwareLoss(objective)
    loss.estimate_scales(samples, outcome)
    scaled = objective.estimate_scales(stakes.TrainingDraw.from_samples(samples.detach(), outcome))
    (gradient,) = torch.autograd.grad(loss(samples, outcome), samples)
    expected = torch.autograd.grad(scaled.from_samples(samples, outcome).mean().total, samples)
    torch.testing.assert_close((gradient,), expected)


def test_loss_is_one_where_its_scales_were_estimated(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = draw()
    score_only = stakes.DecisionAwareLoss(replace(objective, decision_weight=0.0))
    score_only.estimate_scales(samples, outcome)
    assert score_only(samples, outcome).item() == pytest.approx(1.0)
    assert score_only.terms is not None
    assert score_only.terms.decision is None


def test_case_weights_count_cases(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = draw()
    weight = torch.zeros(32)
    weight[3], weight[7] = 1.0, 3.0
    loss = stakes.DecisionAwareLoss(objective)
    apart = [loss(samples[row : row + 1], outcome[row : row + 1]) for row in (3, 7)]
    torch.testing.assert_close(loss(samples, outcome, case_weight=weight), (apart[0] + 3 * apart[1]) / 4)


def test_without_a_process_group_the_parts_are_the_whole(objective: stakes.DecisionAwareObjective) -> None:
    samples, outcome = draw()
    alone, shared = (stakes.DecisionAwareLoss(objective, across_processes=each) for each in (False, True))
    for loss in (alone, shared):
        loss.estimate_scales(samples, outcome)
    torch.testing.assert_close(shared(samples, outcome), alone(samples, outcome))


@pytest.mark.filterwarnings("ignore")  # Lightning's own advice on workers and loggers
def test_serves_in_a_lightning_module(objective: stakes.DecisionAwareObjective, tmp_path: Path) -> None:
    import pytorch_lightning as lightning

    class Forecaster(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.Linear(4, 1)
            self.loss = stakes.DecisionAwareLoss(objective)
            self.seen: list[float] = []

        def members(self, features: Tensor) -> Tensor:
            noise = torch.randn(len(features), 10, 1)
            return self.network(torch.cat([features[:, None].expand(-1, 10, -1), noise], -1))

        def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
            features, outcome = batch
            if self.global_step == 0:
                self.loss.estimate_scales(self.members(features), outcome)
            loss = self.loss(self.members(features), outcome)
            self.seen.append(float(self.loss.terms.score))
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    torch.manual_seed(0)
    features = torch.rand(256, 3)
    data = DataLoader(TensorDataset(features, features.mean(1, keepdim=True)), batch_size=32, shuffle=True)
    forecaster = Forecaster()
    trainer = lightning.Trainer(
        max_epochs=12,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(forecaster, data)
    assert sum(forecaster.seen[-8:]) < 0.7 * sum(forecaster.seen[:8])


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    yield
    torch.set_num_threads(1)
