from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from scipy.stats import gaussian_kde

from reproduction.diagnostics import (
    binned_mass,
    conditional_density,
    kernel_density,
    quantile_shift,
    window_centres,
    window_mask,
)
from reproduction.study import Study
from stakes import ImbalanceCost
from stakes.errors import SettingError
from stakes.evaluation.metrics import LEVELS, Assessor

MakeStudy = Callable[..., Study]


def forecasts_at(outcome: np.ndarray, seeds: int = 2) -> np.ndarray:
    """Quantiles (seeds, cases, levels) that scatter around the outcome."""
    generator = np.random.default_rng(0)
    centre = outcome + generator.normal(size=(seeds, len(outcome)))
    return np.asarray(centre[..., None] + 2 * (np.array(LEVELS) - 0.5))


def test_a_constant_shift_is_found_without_doubt(make_study: MakeStudy) -> None:
    outcome = np.linspace(0, 10, 80)
    quantile = forecasts_at(outcome)
    study = make_study({"quantile": np.stack([quantile, quantile + 0.25])}, {"outcome": outcome}, weights=(0.0, 0.5))
    found = quantile_shift(study, 0.9, 0.5, half_width=1.0)
    assert len(found.centres) == 40
    for values in (found.mean, found.low, found.high):
        np.testing.assert_allclose(values, 0.25)
    np.testing.assert_allclose(found.deviation, 0.0, atol=1e-12)


def test_a_shift_in_windows_by_hand(make_study: MakeStudy) -> None:
    outcome = np.array([0.0, 1.0, 2.0, 5.0])
    quantile = np.zeros((2, 2, 4, 25))  # weights, seeds, cases, levels
    quantile[1, :, :, LEVELS.index(0.3)] = [[1.0, 2.0, 3.0, 9.0], [3.0, 4.0, 5.0, 9.0]]
    study = make_study({"quantile": quantile}, {"outcome": outcome}, weights=(0.0, 0.5))
    found = quantile_shift(study, 0.3, 0.5, half_width=1.0, centres=np.array([0.0, 1.0, 5.0, 20.0]))
    np.testing.assert_allclose(found.mean, [2.5, 3.0, 9.0, np.nan])
    np.testing.assert_allclose(found.deviation, [1.0, 1.0, 0.0, np.nan])
    assert (found.low[:2] < found.mean[:2]).all()
    assert (found.high[:2] > found.mean[:2]).all()
    assert np.isnan([found.low[3], found.high[3]]).all()


def test_windows() -> None:
    outcome = [0.0, 0.1, 0.2, 0.3, 0.4, 9.0]
    assert window_mask(outcome, 0.2, 0.15).tolist() == [False, True, True, True, False, False]
    centres = window_centres(outcome, 0.5, count=10)
    assert centres.tolist() == [0.0]  # nine has no neighbours, one has only itself
    for half_width, values in ((0.0, outcome), (1.0, [])):
        with pytest.raises(SettingError, match="half_width"):
            window_centres(values, half_width)


@pytest.mark.parametrize("bandwidth", [None, 0.1, 0.5])
def test_density_equals_scipy_and_integrates_to_one(bandwidth: float | None) -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.normal(0, 1, 600), generator.normal(4, 0.5, 300)])
    grid = np.linspace(-8, 12, 801)
    found = kernel_density(values, grid, bandwidth)
    quarters = np.quantile(values, [0.25, 0.75])
    width = bandwidth or 0.9 * min(values.std(), (quarters[1] - quarters[0]) / 1.349) * 900**-0.2
    reference = gaussian_kde(values, bw_method=width / values.std(ddof=1))(grid)
    assert np.abs(found - reference).max() < 1e-2 * reference.max()
    assert trapezoid(found, grid) == pytest.approx(1.0, abs=1e-3)


def test_conditional_density_is_that_of_each_window(make_study: MakeStudy) -> None:
    outcome = np.repeat([0.0, 10.0], 30)
    quantile = forecasts_at(outcome)
    study = make_study({"quantile": quantile}, {"outcome": outcome})
    grid = np.linspace(-10, 20, 301)
    centres, rows = conditional_density(study, 0.0, 1.0, grid, centres=np.array([0.0, 10.0]), bandwidth=0.4)
    assert centres.tolist() == [0.0, 10.0]
    for place, row in enumerate(rows):
        inside = quantile[:, outcome == centres[place]]
        np.testing.assert_allclose(row, kernel_density(inside, grid, 0.4))
        assert trapezoid(row, grid) == pytest.approx(1.0, abs=1e-3)
        assert trapezoid(row * grid, grid) == pytest.approx(inside.mean(), abs=0.05)


def test_mass_in_bins_by_hand(make_study: MakeStudy) -> None:
    mass = [[0.0, 1.0, 0.5, 0.25, 1.0], [0.2, 0.4, 0.6, 0.8, 0.0]]  # two seeds
    study = make_study({"mass_high": mass}, {"feature": [0.0, 0.1, 0.5, 0.9, 1.0]})
    centres, means = binned_mass(study, "high", 0.0, bins=2)
    np.testing.assert_allclose(centres, [0.25, 0.75])
    np.testing.assert_allclose(means, [[0.5, 1.75 / 3], [0.3, 1.4 / 3]])
    empty = binned_mass(study, "high", 0.0, bins=4)[1]
    assert np.isnan(empty[:, 1]).all()


def test_no_gradient_where_actions_are_at_the_bound(make_study: MakeStudy) -> None:
    """A need beyond the upper bound is met as well as it can be, whatever the members say."""
    generator = torch.Generator().manual_seed(0)
    outcome = torch.linspace(0, 10, 60)[:, None]
    members = outcome[:, None] + 0.2 * torch.randn(60, 15, 1, generator=generator)
    metrics = Assessor(ImbalanceCost(2.0, 1.0, lower=-5.0, upper=5.0))(members, outcome)
    beyond, within = outcome[:, 0] > 7, outcome[:, 0] < 4
    study = make_study(
        {name: metrics[name][None] for name in ("gradient", "interior")},
        {"observed_beyond": beyond.numpy(), "observed_within": within.numpy()},
    )
    for metric in ("gradient", "interior"):
        assert study.mean(metric, 0.0, region="beyond").estimate == 0.0
    inside = study.mean("gradient", 0.0, region="within")
    assert inside.estimate == pytest.approx(float(metrics["gradient"][within].mean()))
    assert inside.interval().low > 0
    assert study.mean("interior", 0.0, region="within").estimate == 1.0
