"""Gradients of one batch by one process, or by two that share it; `test_distributed` compares them."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as processes
from torch.nn.parallel import DistributedDataParallel

import stakes

CASES = 20
PARTS = (slice(0, 13), slice(13, CASES))  # of unequal size and weight
NOTHING = slice(CASES, CASES)  # for the second process, as in a last batch of one case
WAYS = ("loss", "loss with mask and weights", "objective", "objective with mask and weights", "objective of one part")
WAYS += ("loss with mask, weights and a mixed score",)


class Forecaster(nn.Module):
    """Members of two sites from features and noise."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        return self.network(torch.cat([features[:, None].expand(-1, noise.shape[1], -1), noise], -1))


def gradients(way: str, rows: slice, wrap: Callable[[nn.Module], nn.Module] = lambda model: model) -> dict[str, Any]:
    """Gradients and scales from these rows of the batch; the objective estimates its scales on them, too."""
    torch.manual_seed(0)
    model = wrap(Forecaster().double())
    features, outcome = torch.rand(CASES, 3).double(), torch.rand(CASES, 2).double()
    noise, weight, mask = torch.rand(CASES, 6, 2).double(), torch.rand(CASES).double(), torch.rand(CASES) > 0.3
    options: dict[str, Any] = {}
    if "mask" in way:
        options = {"mask": mask[rows], "case_weight": weight[rows]}
    cost = stakes.ImbalanceCost(short=4.0, long=1.0, lower=0.0, upper=2.0)
    score: stakes.ScoringRule = stakes.EnergyScore()
    if "mixed" in way:
        score = stakes.ScoreMixture((score, stakes.TotalCRPS(cost)), (1.0, 0.5)).standardised(outcome)
    objective = stakes.DecisionAwareObjective(score, stakes.DecisionScore(cost), decision_weight=0.4)
    samples = model(features[rows], noise[rows])
    if "loss" in way:
        loss = stakes.DecisionAwareLoss(objective, across_processes=True).double()
        loss.estimate_scales(samples, outcome[rows])
        value, scaled = loss(samples, outcome[rows], **options), loss
    else:
        draw = stakes.TrainingDraw.from_samples(samples, outcome[rows])
        scaled = objective.estimate_scales(draw, across_processes=True)
        value = scaled.from_samples(samples, outcome[rows], **options).share_of_mean().total
    value.backward()
    found = {name.removeprefix("module."): parameter.grad for name, parameter in model.named_parameters()}
    return found | {"scales": torch.tensor([float(scaled.score_scale), float(scaled.decision_scale)]).double()}


def be_one_of_two(rank: int, folder: Path) -> None:
    """Write the gradients that this process has after those of both were averaged."""
    torch.set_num_threads(1)
    if "lo" in {name for _, name in socket.if_nameindex()}:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    processes.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    found = {}
    for way in WAYS:
        parts = (slice(0, CASES), NOTHING) if "one part" in way else PARTS
        found[way] = gradients(way, parts[rank], DistributedDataParallel)
    torch.save(found, folder / f"process {rank}")
    processes.destroy_process_group()
