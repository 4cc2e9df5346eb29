"""One large model over several processes: torchrun --nproc-per-node 2 examples/distributed.py

Any nn.Module under DistributedDataParallel; each process computes its part of every batch.
"""

import torch
from torch import Tensor, nn
from torch import distributed as processes
from torch.nn.parallel import DistributedDataParallel

import stakes


class Forecaster(nn.Module):
    """Ten members of tomorrow's demand from today's."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, today: Tensor) -> Tensor:
        noise = torch.randn(len(today), 10, 1)
        return self.network(torch.cat([today[:, None].expand(-1, 10, -1), noise], -1))  # (cases, members, 1)


def train() -> None:
    rank, count = processes.get_rank(), processes.get_world_size()

    shuffles = torch.Generator().manual_seed(0)  # the same for all processes
    today = torch.rand(1990, 1, generator=shuffles)
    tomorrow = (today + 0.2 * torch.randn(1990, 1, generator=shuffles)).clamp(0, 2)
    model = DistributedDataParallel(Forecaster())  # the weights of process 0 for all
    torch.manual_seed(rank)  # noise that is another for each

    cost = stakes.ImbalanceCost(short=5.0, long=1.0, lower=0.0, upper=2.0)
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(cost), decision_weight=0.3)
    loss = stakes.DecisionAwareLoss(objective, across_processes=True)
    loss.estimate_scales(model(today[rank::count]), tomorrow[rank::count])  # the same for all
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(5):
        for rows in torch.randperm(len(today), generator=shuffles).split(199):
            own = rows[rank::count]  # parts may differ in size
            value = loss(model(today[own]), tomorrow[own])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
        mean = value.detach().clone()
        processes.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch}: loss {mean.item() / count:.3f} over {count} processes", flush=True)


if processes.is_torchelastic_launched():
    processes.init_process_group("gloo")  # or "nccl", with a GPU a process
else:  # python examples/distributed.py: one process
    processes.init_process_group("gloo", store=processes.HashStore(), rank=0, world_size=1)
train()  # whose model is gone before the group is
processes.barrier()
processes.destroy_process_group()
