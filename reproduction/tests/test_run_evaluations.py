"""What is kept of a run; that runs are evaluated as they should be stands in test_assess.py."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from reproduction import studies as run_evaluations
from reproduction.runs import settings as run_settings
from reproduction.runs.sweep import read_sweep
from reproduction.studies import Assessment
from reproduction.tasks import portfolio


class ApartModel(torch.nn.Module):
    """Members that scatter around the right mean, every site by itself."""

    def sample(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        return 8 + 3 * torch.randn(len(features), members, 5, generator=generator)


class FakeRun:
    def model(self) -> torch.nn.Module:
        return ApartModel()


def test_shuffled_members_keep_every_site_and_vary_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "_SPLITS", (150, 20, 30))
    run_settings._load.cache_clear()
    sweep = read_sweep({"task": {"name": "simulated_portfolio", "sites": 5}, "decision_weight": 0.0, "seed": 0})
    settings = Assessment(50, "penalty", validation=True)
    drawn, shuffled = (
        next(iter(run_evaluations._evaluate(cast(Any, FakeRun()), sweep.points, each)))
        for each in (settings, replace(settings, shuffled=True))
    )
    run_settings._load.cache_clear()
    np.testing.assert_allclose(shuffled["crps_of_sites"], drawn["crps_of_sites"], rtol=1e-5)
    assert (shuffled["spread"] > 1.2 * drawn["spread"]).mean() > 0.9, "the sites of the simulation err together"
    assert shuffled["validation_cost"] != drawn["validation_cost"]
    task = sweep.points[0].run.task
    assert settings.key(task) != replace(settings, shuffled=True).key(task)
