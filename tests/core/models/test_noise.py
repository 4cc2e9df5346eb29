"""Noise of generative models: normal by itself, well spread together, the same for the same seed."""

import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from stakes.models.implicit import ImplicitModel
from stakes.models.noise import _radii, draw_normal, draw_shared, draw_structured
from stakes.scores.scoring_rules import energy_score

DOUBLE = torch.zeros(1, dtype=torch.float64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def structured(steps: int, members: int, width: int) -> Tensor:
    """The noise of so many steps of 20 cases, (cases, M, K)."""
    generator = seeded()
    return torch.cat([draw_structured(DOUBLE, 20, members, width, generator) for _ in range(steps)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("draw", [draw_normal, draw_structured], ids=["normal", "structured"])
def test_noise_has_the_type_and_the_shape_and_depends_on_the_seed(draw: object, dtype: torch.dtype) -> None:
    like = torch.zeros(1, dtype=dtype)
    first, again, other = (draw(like, 3, 5, 4, generator=seeded(seed)) for seed in (0, 0, 1))  # type: ignore[operator]
    assert (first.shape, first.dtype) == ((3, 5, 4), dtype)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("members", "width"), [(10, 1), (10, 2), (7, 5), (10, 8), (10, 29), (40, 9), (3, 4)])
def test_structured_members_are_standard_normal_by_themselves(members: int, width: int) -> None:
    """Mean, covariance, kurtosis and distribution of projections; the same for every place."""
    noise = structured(100, members, width)
    flat = noise.flatten(0, 1)
    error = 6 / math.sqrt(len(flat))
    torch.testing.assert_close(flat.mean(0), torch.zeros(width, dtype=torch.float64), rtol=0.0, atol=error)
    covariance = flat.T @ flat / len(flat)
    torch.testing.assert_close(covariance, torch.eye(width, dtype=torch.float64), rtol=0.0, atol=2 * error)
    direction = torch.nn.functional.normalize(torch.randn(width, generator=seeded(5), dtype=torch.float64), dim=0)
    for place in (0, 1, members - 1):
        projected = noise[:, place] @ direction
        assert stats.kstest(projected.numpy(), "norm").pvalue > 1e-3
        assert stats.kurtosis(projected.numpy()) == pytest.approx(0.0, abs=0.5)


@pytest.mark.parametrize("width", [2, 9, 139])
def test_lengths_are_quantiles_of_the_chi_distribution(width: int) -> None:
    levels = torch.tensor([1e-6, 0.01, 0.5, 0.99, 1 - 1e-6], dtype=torch.float64)
    torch.testing.assert_close(_radii(levels, width), torch.from_numpy(stats.chi.ppf(levels.numpy(), width)))


@pytest.mark.parametrize("width", [2, 5, 20])
def test_members_of_a_set_sum_to_zero_and_lie_far_apart(width: int) -> None:
    noise = structured(20, 10, width)
    independent = torch.randn(noise.shape, generator=seeded(), dtype=torch.float64)
    for start in (0, 1):
        own, theirs = noise[:, start::2], independent[:, start::2]
        torch.testing.assert_close(own.sum(1), torch.zeros_like(own[:, 0]), rtol=0.0, atol=1e-2)
        apart = [torch.stack([torch.pdist(case) for case in each]).mean() for each in (own, theirs)]
        assert apart[0] > 1.02 * apart[1]


@pytest.mark.parametrize(
    "generator", [torch.square, torch.sigmoid, lambda noise: noise], ids=["square", "curve", "line"]
)
def test_the_score_across_the_sets_is_unbiased_for_any_generator(generator: object) -> None:
    """Its mean is that of the fair score of independent members; that of the fair score of structured ones is not."""
    width, outcome = 3, torch.tensor([0.7], dtype=torch.float64)

    def means(noise: Tensor, estimator: str) -> tuple[float, float]:
        members = generator(noise).sum(-1, keepdim=True)  # type: ignore[operator]
        scores = energy_score(members, outcome.expand(len(members), 1), estimator)  # type: ignore[arg-type]
        return float(scores.mean()), float(scores.std()) / math.sqrt(len(scores))

    noise = structured(1500, 10, width)
    ours, deviation = means(noise, "across")
    theirs, other = means(torch.randn(noise.shape, generator=seeded(1), dtype=torch.float64), "fair")
    assert abs(ours - theirs) < 4 * math.hypot(deviation, other)
    assert abs(means(noise, "fair")[0] - theirs) > 4 * math.hypot(deviation, other)


@pytest.mark.parametrize(("members", "width"), [(8, 2), (40, 8), (501, 3)])
def test_shared_noise_of_enough_members_has_mean_zero_and_covariance_one(members: int, width: int) -> None:
    noise = draw_shared(DOUBLE, members, width, seeded())
    assert noise.shape == (1, members, width)
    torch.testing.assert_close(noise.mean(1), torch.zeros(1, width, dtype=torch.float64), rtol=0.0, atol=1e-12)
    covariance = noise[0].T @ noise[0] / members
    torch.testing.assert_close(covariance, torch.eye(width, dtype=torch.float64), rtol=0.0, atol=1e-10)


@pytest.mark.parametrize(("members", "width"), [(20, 6), (100, 1), (100, 6)])
def test_shared_noise_stands_for_the_distribution_whatever_the_seed(members: int, width: int) -> None:
    def mean_beyond_one(draw: Callable[..., Tensor]) -> Tensor:
        noise = torch.cat([draw(DOUBLE, members, width, seeded(seed)) for seed in range(200)])
        return (noise.sum(-1) / math.sqrt(width) - 1).relu().mean(1)

    known = stats.norm.pdf(1) - stats.norm.sf(1)
    independent = mean_beyond_one(lambda like, *shape: draw_normal(like, 1, *shape[:-1], generator=shape[-1]))
    shared = mean_beyond_one(draw_shared)
    assert shared.std() < 0.6 * independent.std()
    assert abs(shared.mean() - known) < 4 * independent.std() / math.sqrt(200)


def test_a_model_draws_structured_members_in_training_alone() -> None:
    model = ImplicitModel(2, 1, structured=True)
    noise = model.draw_noise(6, 10)["members"]
    torch.testing.assert_close(noise[:, 0::2].sum(1), torch.zeros(6, 8), rtol=0.0, atol=1e-2)
    independent = ImplicitModel(2, 1)
    independent.load_state_dict(model.state_dict())
    features = torch.rand(4, 2)
    assert torch.equal(model.sample(features, 10, seeded()), independent.sample(features, 10, seeded()))
