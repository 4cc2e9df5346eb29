"""Sums and means over processes: two of them have the gradient of one."""

from functools import partial
from pathlib import Path

import pytest
import torch
from distributed_children import CASES, WAYS, be_one_of_two, gradients
from forked_processes import forked

import stakes
from stakes.scores.objective import loss_scales, process_count, sum_over_processes


def test_two_processes_have_the_gradient_of_one(tmp_path: Path) -> None:
    import torch._dynamo

    both = [forked(partial(be_one_of_two, rank, tmp_path)) for rank in range(2)]
    for rank, process in enumerate(both):
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        shared = torch.load(tmp_path / f"process {rank}")
        assert list(shared) == list(WAYS)
        for way in WAYS:
            torch.testing.assert_close(shared[way], gradients(way, slice(0, CASES)), rtol=1e-10, atol=1e-12)


def test_one_process_is_the_whole() -> None:
    values = torch.rand(3, 4)
    assert process_count() == 1
    assert torch.equal(sum_over_processes(values), values)
    for dim, mean in ((None, values.mean()), (-1, values.mean(-1, keepdim=True))):
        (scale,) = loss_scales([(values,)], dim, across_processes=True)
        torch.testing.assert_close(scale, mean)


@pytest.mark.parametrize("weight", [None, torch.rand(8)])
def test_the_share_of_one_process_is_the_mean(weight: torch.Tensor | None) -> None:
    decision = stakes.DecisionScore(stakes.ShortfallCost(5.0))
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), decision, decision_weight=0.4)
    for each in (objective, stakes.DecisionAwareObjective(stakes.EnergyScore(), decision, decision_weight=0)):
        terms = each.from_samples(torch.rand(8, 5, 1), torch.rand(8, 1), case_weight=weight)
        share, mean = terms.share_of_mean(), terms.mean()
        torch.testing.assert_close((share.total, share.score), (mean.total, mean.score))
        assert (share.decision is None) == (mean.decision is None)
        if mean.decision is not None:
            torch.testing.assert_close(share.decision, mean.decision)


def test_loss_scales_of_parts_and_of_counted_cases() -> None:
    values = torch.rand(3, 10, dtype=torch.float64)
    (of_parts,) = loss_scales([(values[:, :4],), (values[:, 4:],)], -1)
    torch.testing.assert_close(of_parts, values.mean(-1, keepdim=True))
    counts = torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64)
    (counted,) = loss_scales([(values[:, 0],)], counts=counts)
    torch.testing.assert_close(counted, (values[0, 0] + 3 * values[2, 0]) / 4)
