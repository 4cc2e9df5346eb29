"""What a sample model is, and how it is sampled."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stakes import (
    DecisionAwareObjective,
    DecisionScore,
    EnergyScore,
    SampleModel,
    ShortfallCost,
    TrainingDraw,
)
from stakes.models.sample_model import cases_at_once


class Bootstrap(nn.Module):
    """Members are past outcomes: the least that a model can be."""

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        self.past = outcome

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        return {"place": torch.rand(cases, members, generator=generator)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: Any) -> TrainingDraw:
        return TrainingDraw.from_samples(self.past[(noise["place"] * len(self.past)).long()], outcome)

    def sample(
        self, features: Tensor, members: int, generator: torch.Generator | None = None, *, share_noise: bool = False
    ) -> Tensor:
        cases = 1 if share_noise else len(features)
        place = self.draw_noise(cases, members, generator)["place"].expand(len(features), members)
        return self.past[(place * len(self.past)).long()]


@pytest.mark.parametrize("missing", ["fit_scaling", "draw_noise", "training_draw", "sample"])
def test_a_model_without_one_of_the_methods_is_none(missing: str) -> None:
    methods = {name: getattr(Bootstrap, name) for name in ("fit_scaling", "draw_noise", "training_draw", "sample")}
    del methods[missing]
    assert not isinstance(type("Incomplete", (), methods)(), SampleModel)
    assert not isinstance(nn.Linear(2, 1), SampleModel)


def test_a_model_of_four_methods_can_be_judged_by_the_objective() -> None:
    features, outcome = torch.rand(30, 2), torch.rand(30, 1)
    model = Bootstrap()
    model.fit_scaling(features, outcome)
    objective = DecisionAwareObjective(EnergyScore(), DecisionScore(ShortfallCost(5.0)), 0.3)
    draw = model.training_draw(features, outcome, model.draw_noise(30, 8))
    assert torch.equal(objective(draw).total, objective.from_samples(draw.score_members, outcome).total)
    assert model.sample(features, 8, share_noise=True).shape == (30, 8, 1)


def test_a_draw_passes_through_vmap() -> None:
    samples, outcome, weight = torch.rand(3, 4, 5, 2), torch.rand(3, 4, 2), torch.rand(3, 4)

    def halved(draw: TrainingDraw) -> TrainingDraw:
        assert isinstance(draw, TrainingDraw)
        return TrainingDraw(*(each / 2 for each in draw))

    draw = torch.func.vmap(halved)(TrainingDraw(samples, outcome, 2 * samples, 2 * outcome, weight, samples[..., 0]))
    assert isinstance(draw, TrainingDraw)
    torch.testing.assert_close(draw.decision_members, samples)
    torch.testing.assert_close(draw.decision_term_weight, weight / 2)


@pytest.mark.parametrize(("device", "budget"), [("cpu", 8 << 20), ("meta", 1 << 30)])
def test_chunks_fit_the_caches_of_a_cpu_and_fill_other_devices(device: str, budget: int) -> None:
    like = torch.zeros(1, device=device)
    by_default = cases_at_once(100, 500, like, None)
    assert by_default == cases_at_once(100, 500, like, budget)
    assert by_default * 3 * 100 * 500 * 4 <= budget < (by_default + 1) * 3 * 100 * 500 * 4


def test_chunk_holds_at_least_one_case() -> None:
    assert cases_at_once(100, 500, torch.zeros(1), 1) == 1
