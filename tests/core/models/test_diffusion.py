import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from refusals import refuses
from scipy.stats import ks_2samp
from torch import Tensor

from stakes import DecisionAwareObjective, DecisionScore, DiffusionModel, EnergyScore, ImbalanceCost
from stakes.errors import SettingError
from stakes.models.diffusion import NoiseSchedule, _quantity, _target_from, reverse_chain

CHAINS = 20_000
WEIGHTS, MEANS, DEVIATIONS = (0.6, 0.4), (-0.8, 1.2), (0.2, 0.4)


def test_schedule_equals_its_formula() -> None:
    signal = 1.0
    for step in range(50):
        signal *= 1 - (1e-4 + (0.02 - 1e-4) * step / 49) * 20
    found = NoiseSchedule(50).signal
    assert found[-1].item() == pytest.approx(signal, rel=1e-5)
    assert found[0] == 1
    assert (found.diff() < 0).all()
    assert 0 < NoiseSchedule(100).signal[-1] < 1e-4


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"prediction": "noise"}, "prediction"),
        ({"decision_weighting": "none"}, "decision_weighting"),
        ({"endpoints": "linear"}, "endpoints"),
        ({"steps": 3}, "steps"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], field: str) -> None:
    refuses(SettingError, field, DiffusionModel, 2, 1, **settings)


@pytest.mark.parametrize("steps", [0, -1, 101])
def test_bad_chain_lengths_are_named(steps: int) -> None:
    refuses(SettingError, "steps", DiffusionModel(2, 1).sample, torch.zeros(1, 2), 1, steps=steps)


@pytest.mark.parametrize("prediction", ["epsilon", "target", "v"])
@pytest.mark.parametrize("step", [1, 50, 100])
def test_predictions_convert_back_to_the_target(prediction: Any, step: int) -> None:
    signal = NoiseSchedule(100).double().signal[step]
    target, epsilon = torch.randn(2, 50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noisy = signal.sqrt() * target + (1 - signal).sqrt() * epsilon
    predicted = _quantity(target, epsilon, signal, prediction)
    torch.testing.assert_close(_target_from(predicted, noisy, signal, prediction), target, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("prediction", ["epsilon", "target", "v"])
def test_training_draw_offers_the_predicted_quantity(prediction: Any) -> None:
    model = DiffusionModel(2, 1, prediction=prediction).double()
    features, outcome = torch.randn(2, 40, 2, dtype=torch.float64)[:, :, :2]
    outcome = outcome[:, :1]
    noise = model.draw_noise(40, 3)
    draw = model.training_draw(features, outcome, noise)
    step = 1 + (noise["time"] * 100).long()
    signal = model.schedule.signal[step][:, None]
    assert torch.equal(draw.score_outcome, _quantity(outcome, noise["target"], signal, prediction))
    noisy = signal.sqrt() * outcome + (1 - signal).sqrt() * noise["target"]
    exact = _target_from(draw.score_members, noisy[:, None], signal[:, None], prediction)
    torch.testing.assert_close(draw.decision_members, exact)


@pytest.mark.parametrize(
    ("weighting", "formula"),
    [
        ("paper", lambda signal: torch.ones_like(signal)),
        ("signal", lambda signal: signal),
        ("snr", lambda signal: torch.minimum(signal / (1 - signal), torch.tensor(1.0))),
    ],
)
def test_decision_term_weight(weighting: Any, formula: Callable[[Tensor], Tensor]) -> None:
    model = DiffusionModel(2, 1, decision_weighting=weighting)
    noise = model.draw_noise(100, 3)
    draw = model.training_draw(torch.zeros(100, 2), torch.zeros(100, 1), noise)
    signal = model.schedule.signal[1 + (noise["time"] * 100).long()]
    torch.testing.assert_close(draw.decision_term_weight, formula(signal))


def test_every_noise_level_is_drawn() -> None:
    model = DiffusionModel(1, 1, steps=50, hidden=2, layers=1, decision_weighting="signal")
    noise = dict(model.draw_noise(5000, 1, torch.Generator().manual_seed(0)))
    noise["time"][:2] = torch.tensor([0.0, 1.0])
    weight = model.training_draw(torch.zeros(5000, 1), torch.zeros(5000, 1), noise).decision_term_weight
    assert torch.equal(weight.unique(), model.schedule.signal[1:].sort().values)


def mixture(generator: torch.Generator, count: int) -> Tensor:
    noise = torch.randn(count, 1, dtype=torch.float64, generator=generator)
    second = torch.rand(count, 1, dtype=torch.float64, generator=generator) < WEIGHTS[1]
    return torch.where(second, MEANS[1] + DEVIATIONS[1] * noise, MEANS[0] + DEVIATIONS[0] * noise)


def exact_posterior(
    schedule: NoiseSchedule, generator: torch.Generator, weights: tuple[float, float] = WEIGHTS
) -> Callable[[Tensor, int], Tensor]:
    """Draws from p(y_0 | y_t) of the Gaussian mixture: again a mixture, with new weights, means and variances."""

    def denoise(noisy: Tensor, step: int) -> Tensor:
        signal = schedule.signal[step]
        log_weights, means, deviations = [], [], []
        for weight, mean, deviation in zip(weights, MEANS, DEVIATIONS, strict=True):
            variance = signal * deviation**2 + 1 - signal
            log_weights.append(
                math.log(weight) - variance.log() / 2 - (noisy - signal.sqrt() * mean) ** 2 / (2 * variance)
            )
            means.append(mean + signal.sqrt() * deviation**2 / variance * (noisy - signal.sqrt() * mean))
            deviations.append((deviation**2 * (1 - signal) / variance).sqrt())
        second = torch.sigmoid(log_weights[1] - log_weights[0])
        chosen = torch.rand(noisy.shape, dtype=noisy.dtype, generator=generator) < second
        noise = torch.randn(noisy.shape, dtype=noisy.dtype, generator=generator)
        return torch.where(chosen, means[1] + deviations[1] * noise, means[0] + deviations[0] * noise)

    return denoise


def significance(make: Callable[..., Any], steps: int, stochastic: bool, seed: int) -> float:
    """p-value of the chain's end against fresh draws of the target."""
    generator = torch.Generator().manual_seed(seed)
    schedule = NoiseSchedule(100).double()

    def normal() -> Tensor:
        return torch.randn(CHAINS, 1, dtype=torch.float64, generator=generator)

    ends = reverse_chain(make(schedule, generator), schedule, normal, steps, stochastic)
    return float(ks_2samp(ends[:, 0].numpy(), mixture(generator, CHAINS)[:, 0].numpy()).pvalue)


@pytest.mark.parametrize("steps", [100, 20, 5])
@pytest.mark.parametrize("stochastic", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_exact_denoiser_recovers_the_target(steps: int, stochastic: bool, seed: int) -> None:
    assert significance(exact_posterior, steps, stochastic, seed) > 0.01


def test_chain_is_deterministic_given_its_noise() -> None:
    model = DiffusionModel(2, 1, hidden=8, layers=2)
    features = torch.zeros(3, 2)
    for options in ({}, {"steps": 5}, {"steps": 5, "stochastic": False}):
        first, again = (
            model.sample(features, 4, torch.Generator().manual_seed(1), **options)  # type: ignore[arg-type]
            for _ in range(2)
        )
        assert torch.equal(first, again)


@pytest.mark.parametrize("steps", [1, 2, 7, 99, None])
def test_chain_visits_falling_levels_from_the_noisiest(steps: int | None) -> None:
    seen: list[int] = []

    def denoise(noisy: Tensor, step: int) -> Tensor:
        seen.append(step)
        return noisy

    reverse_chain(denoise, NoiseSchedule(100), lambda: torch.zeros(3, 1), steps)
    assert len(seen) == len(set(seen)) == (steps or 100)
    assert seen[0] == 100
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] >= 1


def test_validation_noise_of_diffusion_spreads_the_levels_evenly() -> None:
    model = DiffusionModel(1, 1)
    first, second = (model.validation_noise(50, 3, torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(first["time"], second["time"])
    torch.testing.assert_close(first["time"].sort().values, (torch.arange(50) + 0.5) / 50)
    assert not torch.equal(first["time"], first["time"].sort().values)


def test_every_case_is_validated_at_as_many_levels_as_it_is_drawn() -> None:
    time = DiffusionModel(1, 1).validation_noise(50, 3, torch.Generator().manual_seed(0), draws=16)["time"]
    torch.testing.assert_close(time.sort().values, (torch.arange(800) + 0.5) / 800)
    parts = (time.reshape(50, 16) * 16).floor()
    assert torch.equal(parts, torch.arange(16.0).expand(50, 16)), "one in each part of the levels"


@pytest.mark.parametrize("prediction", ["epsilon", "v"])
def test_members_of_the_chain_are_what_the_model_samples(prediction: Any) -> None:
    torch.manual_seed(0)
    model = DiffusionModel(1, 1, hidden=8, layers=1, prediction=prediction, chain_steps=10)
    features, outcome = torch.rand(3, 1), torch.rand(3, 1)
    noise = model.draw_noise(3, 4000, torch.Generator().manual_seed(1))
    drawn = model.training_draw(features, outcome, noise).decision_members.detach()
    sampled = model.sample(features, 4000, torch.Generator().manual_seed(2), steps=10)
    torch.testing.assert_close(drawn.mean(1), sampled.mean(1), atol=0.1 * float(sampled.std()), rtol=0)
    torch.testing.assert_close(drawn.std(1), sampled.std(1), atol=0.0, rtol=0.1)


def test_the_score_function_finds_the_gradient_of_the_chain() -> None:
    """Both gradients of the mean cost are those of one chain: through its steps, and by its likelihood."""
    cost, cases, members, draws = ImbalanceCost(4.0, 1.0, -9.0, 9.0), 60, 300, 24
    features, outcome = torch.zeros(cases, 1), torch.full((cases, 1), 0.3)
    gradients = {}
    for through in (4, 0):
        torch.manual_seed(0)
        model = DiffusionModel(
            1, 1, noise=2, hidden=6, layers=1, endpoints="raw", chain_steps=4, chain_gradient=through
        )
        objective = DecisionAwareObjective(EnergyScore(), DecisionScore(cost), decision_weight=0.999999)
        found = []
        for seed in range(draws):
            draw = model.training_draw(
                features, outcome, model.draw_noise(cases, members, torch.Generator().manual_seed(seed))
            )
            decision = objective(draw).decision
            assert decision is not None
            parts = torch.autograd.grad(decision.mean(), list(model.network.parameters()))
            found.append(torch.cat([part.reshape(-1) for part in parts]))
        stacked = torch.stack(found)
        gradients[through] = stacked.mean(0), stacked.std(0) / draws**0.5
    (exact, error), (estimate, noise) = gradients[4], gradients[0]
    allowed = (error**2 + noise**2).sqrt()
    apart = (estimate - exact).abs() / (allowed + 1e-4 * exact.abs().max())
    assert torch.cosine_similarity(estimate, exact, 0) > 0.95
    assert float(apart.quantile(0.9)) < 2.5
