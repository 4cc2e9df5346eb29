"""One template for every model: shapes, gradients, sampling, units, saving, stacking, training."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor, nn

from stakes import (
    DecisionAwareObjective,
    DecisionScore,
    DiffusionModel,
    EnergyScore,
    ImbalanceCost,
    ImplicitModel,
    LinearModel,
    SampleModel,
    TrainingDraw,
)
from stakes.errors import SettingError, StakesError

MODELS: dict[str, Callable[..., Any]] = {
    "implicit": ImplicitModel,
    "implicit_linear": lambda features, outcomes, **settings: ImplicitModel(
        features, outcomes, **settings, linear=True, gap=2
    ),
    **{
        f"diffusion_{prediction}_{weighting}": lambda features, outcomes, p=prediction, w=weighting, **settings: (
            DiffusionModel(features, outcomes, prediction=p, decision_weighting=w, **{"steps": 30} | settings)
        )
        for prediction in ("epsilon", "target", "v")
        for weighting in ("paper", "signal", "snr")
    },
}
SMALL = ("implicit", "implicit_linear", "diffusion_epsilon_signal", "diffusion_v_snr")
MODELS_WITHOUT_TRAINING: dict[str, Callable[..., Any]] = {
    "linear": lambda features, outcomes, hidden, layers: LinearModel(features, outcomes)
}
every_trained_model = pytest.mark.parametrize("name", MODELS)
every_model = pytest.mark.parametrize("name", [*MODELS, *MODELS_WITHOUT_TRAINING])
few_trained_models = pytest.mark.parametrize("name", SMALL)
few_models = pytest.mark.parametrize("name", [*SMALL, *MODELS_WITHOUT_TRAINING])
every_width = pytest.mark.parametrize("outcomes", [1, 3])
FEATURES = 4


def build(name: str, outcomes: int = 1, seed: int = 0, **settings: Any) -> Any:
    torch.manual_seed(seed)
    settings = {"hidden": 16, "layers": 2} | settings
    model = (MODELS | MODELS_WITHOUT_TRAINING)[name](FEATURES, outcomes, **settings)
    if name in ("linear", "implicit_linear"):  # of which there is little before they are fitted
        model.fit_scaling(*table(100 + seed, outcomes))
    if name == "implicit_linear":  # whose network does nothing before it is trained, and gets no gradient behind that
        nn.init.normal_(model.network.layers[-1].weight, std=0.1)
    return model


def table(rows: int, outcomes: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    features = 5 + 2 * torch.randn(rows, FEATURES, generator=generator)
    noise = torch.randn(rows, outcomes, generator=generator)
    return features.to(dtype), (100 + 10 * features[:, :1] + 5 * noise).to(dtype)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def objective(outcomes: int, weight: float = 0.5) -> DecisionAwareObjective:
    cost = ImbalanceCost(3.0, 1.0, -1e4, 1e4)
    return DecisionAwareObjective(EnergyScore(), DecisionScore(cost), weight, decision_scale=1000.0 * outcomes)


@every_model
@every_width
def test_shapes(name: str, outcomes: int) -> None:
    model = build(name, outcomes)
    assert isinstance(model, SampleModel)
    features, outcome = table(7, outcomes)
    model.fit_scaling(features, outcome)
    noise = model.draw_noise(7, 5, seeded())
    assert all(isinstance(each, Tensor) and each.shape[0] == 7 for each in noise.values())
    draw = model.training_draw(features, outcome, noise)
    assert isinstance(draw, TrainingDraw)
    assert draw.score_members.shape == draw.decision_members.shape == (7, 5, outcomes)
    assert draw.score_outcome.shape == draw.decision_outcome.shape == (7, outcomes)
    assert torch.equal(draw.decision_outcome, outcome)
    assert draw.decision_term_weight is not None
    assert draw.decision_term_weight.shape == (7,)
    assert model.sample(features, 6).shape == (7, 6, outcomes)


@every_trained_model
@every_width
def test_both_gradients_reach_every_parameter(name: str, outcomes: int) -> None:
    model = build(name, outcomes)
    features, outcome = table(64, outcomes)
    model.fit_scaling(features, outcome)
    draw = model.training_draw(features, outcome, model.draw_noise(64, 8, seeded()))
    terms = objective(outcomes).estimate_scales(draw)(draw)
    assert terms.decision is not None
    names, parameters = zip(*model.named_parameters(), strict=True)
    for term in (terms.total, terms.decision):
        gradients = torch.autograd.grad(term.mean(), parameters, retain_graph=True)
        for parameter_name, gradient in zip(names, gradients, strict=True):
            assert gradient.isfinite().all(), parameter_name
            assert gradient.abs().sum() > 0, parameter_name


@every_model
def test_training_draw_is_a_pure_function_of_its_noise(name: str) -> None:
    model = build(name)
    features, outcome = table(7, 1)
    draws = [model.training_draw(features, outcome, model.draw_noise(7, 5, seeded(seed))) for seed in (1, 1, 2)]
    assert torch.equal(draws[0].score_members, draws[1].score_members)
    assert not torch.equal(draws[0].score_members, draws[2].score_members)


@few_models
@every_width
@pytest.mark.parametrize("share_noise", [False, True])
def test_same_seed_same_samples(name: str, outcomes: int, share_noise: bool) -> None:
    model = build(name, outcomes)
    features, _ = table(5, outcomes)
    first, again, other = (model.sample(features, 4, seeded(seed), share_noise=share_noise) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (name == "linear" and share_noise)  # which are chosen, not drawn
    assert not first.requires_grad


@few_models
def test_fresh_noise_differs_between_equal_rows(name: str) -> None:
    model = build(name)
    features = table(1, 1)[0].expand(3, -1)
    samples, shared = model.sample(features, 4, seeded()), model.sample(features, 4, share_noise=True)
    assert not torch.allclose(samples[0], samples[1])
    torch.testing.assert_close(shared[0], shared[2])


@few_models
@every_width
def test_shared_noise_makes_a_row_independent_of_its_neighbours(name: str, outcomes: int) -> None:
    model = build(name, outcomes)
    features, _ = table(6, outcomes)
    features[3] = features[0]
    together = model.sample(features, 4, seeded(), share_noise=True)
    torch.testing.assert_close(together[3], together[0])
    assert not torch.allclose(together[1], together[0])
    for row in range(6):
        alone = model.sample(features[row : row + 1], 4, seeded(), share_noise=True)
        torch.testing.assert_close(alone[0], together[row], rtol=1e-4, atol=1e-5)


@few_trained_models
@pytest.mark.parametrize("share_noise", [False, True])
def test_shared_noise_does_not_depend_on_chunks(name: str, share_noise: bool) -> None:
    model = build(name)
    features, _ = table(6, 1)
    whole = model.sample(features, 4, seeded(), share_noise=share_noise)
    chunked = model.sample(features, 4, seeded(), share_noise=share_noise, memory_budget=1)
    assert chunked.shape == whole.shape
    if share_noise:
        torch.testing.assert_close(chunked, whole, rtol=1e-4, atol=1e-5)
    assert len(chunked.flatten().unique()) == chunked.numel()


@every_model
@every_width
def test_state_dict_round_trip(name: str, outcomes: int) -> None:
    model, other = build(name, outcomes, seed=0), build(name, outcomes, seed=1)
    features, outcome = table(50, outcomes)
    model.fit_scaling(features, outcome)
    assert not torch.equal(model.sample(features[:3], 2, seeded()), other.sample(features[:3], 2, seeded()))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model.sample(features[:3], 2, seeded()), other.sample(features[:3], 2, seeded()))


@few_models
@every_width
def test_members_scale_and_shift_with_the_outcomes(name: str, outcomes: int) -> None:
    features, outcome = table(200, outcomes)
    model, moved = build(name, outcomes), build(name, outcomes)
    model.fit_scaling(features, outcome)
    moved.fit_scaling(3 * features - 7, 1000 + 20 * outcome)
    samples = model.sample(features[:5], 3, seeded())
    samples_moved = moved.sample(3 * features[:5] - 7, 3, seeded())
    torch.testing.assert_close(samples_moved, 1000 + 20 * samples, rtol=1e-3, atol=1.0)
    draws = (
        each.training_draw(x, y, each.draw_noise(5, 3, seeded()))
        for each, x, y in ((model, features[:5], outcome[:5]), (moved, 3 * features[:5] - 7, 1000 + 20 * outcome[:5]))
    )
    first, second = draws
    torch.testing.assert_close(first.score_members, second.score_members, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(first.score_outcome, second.score_outcome, rtol=1e-3, atol=1e-3)


@few_models
@pytest.mark.parametrize("constant", [0.0, 0.1, 3.3, 1e-3, 101.325, 12345.678])
def test_constant_feature_column(name: str, constant: float) -> None:
    model = build(name)
    features, outcome = table(1000, 1)
    features[:, 1] = constant
    model.fit_scaling(features, outcome)
    assert model.feature_scaling.scale[1] == 1
    moved = features + torch.tensor([0.0, 0.5, 0.0, 0.0])
    assert (model.feature_scaling.standardise(moved).abs() < 6).all()
    assert model.sample(moved[:5], 3, seeded()).isfinite().all()


@few_models
def test_stack_under_vmap_equals_single_models(name: str) -> None:
    models = [build(name, seed=seed) for seed in range(3)]
    features, outcome = table(8, 1)
    for model in models:
        model.fit_scaling(features, outcome)
    parameters, buffers = torch.func.stack_module_state(models)
    skeleton = copy.deepcopy(models[0]).to("meta")
    noise = models[0].draw_noise(8, 5, seeded())

    class Drawing(nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor, y: Tensor, z: Any) -> Any:
            return self.model.training_draw(x, y, z)

    def loss(state: dict[str, Tensor]) -> Tensor:
        named = {f"model.{key}": value for key, value in state.items()}
        draw = torch.func.functional_call(Drawing(skeleton), named, (features, outcome, noise))
        return objective(1)(draw).mean().total

    state = {**parameters, **buffers}
    together = torch.func.vmap(loss)(state)
    gradients = torch.func.vmap(torch.func.grad(lambda p, b: loss({**p, **b})))(parameters, buffers)
    for row, model in enumerate(models):
        single = objective(1)(model.training_draw(features, outcome, noise)).mean().total
        torch.testing.assert_close(together[row], single, rtol=1e-4, atol=1e-5)
        if parameters:
            single.backward()
        for key, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[key][row], parameter.grad, rtol=1e-3, atol=1e-4)


@few_models
@every_width
def test_runs_in_float64(name: str, outcomes: int) -> None:
    model = build(name, outcomes).double()
    features, outcome = table(9, outcomes, torch.float64)
    model.fit_scaling(features, outcome)
    draw = model.training_draw(features, outcome, model.draw_noise(9, 4, seeded()))
    assert all(each.dtype == torch.float64 for each in draw if each is not None)
    assert model.sample(features, 3).dtype == torch.float64


@few_trained_models
@pytest.mark.parametrize(
    "settings",
    [{"noise": 0}, {"hidden": 0}, {"layers": 0}, {"noise": -1}, {"features": -1}, {"outcomes": 0}, {"outcomes": -2}],
)
def test_bad_settings_are_named(name: str, settings: dict[str, int]) -> None:
    refuses(SettingError, next(iter(settings)), MODELS[name], **{"features": 2, "outcomes": 1} | settings)


@pytest.mark.parametrize("name", sorted({*SMALL} - {"implicit_linear"}))  # which starts at the best, here
@every_width
def test_training_lowers_the_loss(name: str, outcomes: int) -> None:
    model = build(name, outcomes)
    features, outcome = table(256, outcomes)
    model.fit_scaling(features, outcome)
    fixed = model.draw_noise(256, 16, seeded(99))
    with torch.no_grad():
        mixture = objective(outcomes).estimate_scales(model.training_draw(features, outcome, fixed))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    before = loss_of(model, mixture, features, outcome, fixed)
    for step in range(60):
        noise = model.draw_noise(256, 8, seeded(step))
        loss = mixture(model.training_draw(features, outcome, noise)).mean().total
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss_of(model, mixture, features, outcome, fixed) < 0.8 * before


@torch.no_grad()
def loss_of(model: Any, mixture: DecisionAwareObjective, features: Tensor, outcome: Tensor, noise: Any) -> float:
    return mixture(model.training_draw(features, outcome, noise)).mean().total.item()


@few_models
def test_wrong_widths_and_member_counts_are_named(name: str) -> None:
    model = build(name)
    features, _ = table(6, 1)
    refuses(StakesError, "columns", model.sample, features[:, :1], 4)
    refuses(StakesError, "columns", model.training_draw, features, torch.rand(6, 2), model.draw_noise(6, 4))
    refuses(StakesError, "members", model.sample, features, 0)
