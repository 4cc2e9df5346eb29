import math
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses
from scipy.signal import lfilter
from scipy.stats import norm, sem
from scipy.stats import t as student

from stakes.errors import SettingError, ShapeError
from stakes.evaluation.intervals import Resampling, Sampled, paired_difference


def missed(resampling: Resampling, values: Any) -> float:
    """The share of intervals that leave out zero, the true mean of each of K values, (K, N) or (K, G, S, N)."""
    values = values.reshape(len(values), resampling.groups, resampling.seeds, resampling.cases)
    return float(np.mean([mean.interval().significant for mean in resampling.means(values)]))


def normal(*size: int) -> Any:
    return np.random.default_rng(0).normal(size=size)


def replicates(found: Sampled) -> Any:
    return np.concatenate(found.replicates)


@pytest.mark.parametrize("kept", [2, 9, 50])
def test_independent_cases_have_the_interval_of_student(kept: int) -> None:
    """Of all cases, or of those of a region."""
    values, inside = normal(50), np.arange(50) % (50 // kept) == 0
    inside &= np.cumsum(inside) <= kept
    values[inside] = np.random.default_rng(1).permutation(norm.ppf((np.arange(kept) + 0.5) / kept))  # not skewed
    found = Resampling(50).mean(values[None, None], inside)
    chosen = values[inside]
    assert found.error == pytest.approx(sem(chosen), rel=1e-9)
    assert found.degrees_of_freedom == pytest.approx(kept - 1)
    wanted = student.interval(0.95, kept - 1, chosen.mean(), sem(chosen))
    assert found.interval()[1:] == pytest.approx(wanted, rel=1e-9)
    assert found.interval(0.8)[1:] == pytest.approx(student.interval(0.8, kept - 1, chosen.mean(), sem(chosen)))


@pytest.mark.parametrize("block", [1, 3, 10])
def test_the_variance_is_the_mean_square_of_cosine_sums(block: int) -> None:
    """By the formula of Lazarus et al.: the mean of B squared sums with sqrt(2 / N) cos, over N."""
    values, cases = normal(101), 101
    waves = 100 // (2 * block - 1)
    angles = np.pi * np.outer(np.arange(1, waves + 1), np.arange(cases) + 0.5) / cases
    sums = math.sqrt(2 / cases) * np.cos(angles) @ values
    found = Resampling(cases, block=block).mean(values[None, None])
    assert found.error**2 == pytest.approx((sums**2).mean() / cases)
    assert found.degrees_of_freedom == pytest.approx(waves)
    reach = student.ppf(0.975, waves) * found.error
    mean, low, high = found.interval()
    assert mean == pytest.approx(values.mean())
    assert max(mean - low, high - mean) >= reach == pytest.approx(min(mean - low, high - mean))  # skewed to one side


@pytest.mark.parametrize(("days", "hours", "most"), [(60, 24, 0.09), (60, 48, 0.12), (180, 24, 0.08), (180, 48, 0.08)])
def test_intervals_of_errors_that_last_hold(days: int, hours: int, most: float) -> None:
    """500 paths of an AR(1); block and so many days as `block_length` has them, an hour a case."""
    kept, cases = math.exp(-1 / hours), 24 * days
    noise = normal(500, cases)
    noise[:, 1:] *= math.sqrt(1 - kept**2)
    paths = lfilter([1.0], [1.0, -kept], noise, axis=1)
    assert 0.02 < missed(Resampling(cases, block=72 if days == 60 else 168), paths) <= most
    assert missed(Resampling(cases), paths) <= 1.5 * most  # the memory is measured where no block tells of it


@pytest.mark.parametrize(
    ("cases", "block", "deviation", "most"),
    [(20, 1, 1.5, 0.1), (50, 1, 1.5, 0.08), (100, 7, 1.5, 0.09), (20, 1, 0.7, 0.06), (500, 1, 1.5, 0.07)],
)
def test_intervals_of_skewed_costs_hold(cases: int, block: int, deviation: float, most: float) -> None:
    """1,000 samples of a lognormal cost; of 20 with sigma 1.5 Student's interval misses the mean in a quarter."""
    values = np.exp(deviation * normal(1000, cases)) - math.exp(deviation**2 / 2)
    assert missed(Resampling(cases, block=block), values) <= most


@pytest.mark.parametrize(
    ("cases", "kept", "most"), [(200, 0.5, 0.06), (200, 0.8, 0.1), (200, 0.95, 0.14), (1000, 0.95, 0.11)]
)
def test_a_memory_longer_than_the_block_is_measured(cases: int, kept: float, most: float) -> None:
    noise = normal(1000, cases)
    noise[:, 1:] *= math.sqrt(1 - kept**2)
    assert missed(Resampling(cases, block=7), lfilter([1.0], [1.0, -kept], noise, axis=1)) <= most


def test_the_side_of_rare_large_values_is_the_longer_one() -> None:
    values = np.exp(normal(1, 1, 60))
    mean, low, high = Resampling(60).mean(values).interval()
    assert high - mean > 1.3 * (mean - low)
    assert (Resampling(60).mean(-values)).interval() == pytest.approx((-mean, -high, -low))


@pytest.mark.parametrize(("seeds", "most"), [(2, 0.14), (3, 0.09), (6, 0.07)])
@pytest.mark.parametrize("groups", [False, True])
def test_intervals_cover_the_seed(seeds: int, most: float, groups: bool) -> None:
    """Seeds, or data sets, that differ more than the mean over time is sure; single seeds would miss nearly always."""
    generator = np.random.default_rng(0)
    runs = generator.normal(size=(1000, seeds, 1)) + generator.normal(size=(1000, seeds, 40))
    values = runs + generator.normal(size=(1000, 1, 40))
    several = Resampling(40, groups=seeds) if groups else Resampling(40, seeds)
    assert 0.02 < missed(several, values) <= most
    assert missed(Resampling(40), values[:, 0]) > 0.5


def test_a_seed_that_is_left_leaves_the_others() -> None:
    values = normal(1, 3, 40) + np.array([[0.0], [1.0], [5.0]])
    values[:, 2] = np.nan
    found, wanted = Resampling(40, 3).mean(values), Resampling(40, 2).mean(values[:, :2])
    assert found.interval() == pytest.approx(wanted.interval())
    values[:, 1] = np.nan  # a single one varies by time alone
    assert Resampling(40, 3).mean(values).interval() == pytest.approx(Resampling(40).mean(values[:, :1]).interval())


def test_a_daily_rhythm_is_not_taken_for_noise() -> None:
    rhythm = normal(1, 2400) + 5 * np.sin(2 * np.pi * np.arange(2400) / 24)
    alone, blocks = (Resampling(2400, block=block).mean(rhythm[None]) for block in (1, 72))
    for found in (alone, blocks):
        assert 0.6 / math.sqrt(2400) < found.error < 1.6 / math.sqrt(2400)


def test_mean_and_significance() -> None:
    baseline = torch.randn(2, 500, generator=torch.Generator().manual_seed(2))
    difference = paired_difference(baseline - 0.5, baseline)
    assert difference.mean == pytest.approx(-0.5)
    assert difference.significant
    assert not paired_difference(baseline, baseline).significant


def test_bad_input_is_named() -> None:
    refuses(ShapeError, "one shape", paired_difference, torch.rand(1, 5), torch.rand(2, 5))
    refuses(SettingError, "block", paired_difference, torch.rand(1, 5), torch.rand(1, 5), block=6)
    refuses(ShapeError, "groups, seeds, cases", Resampling(5).mean, np.ones(5))


def test_constants_single_cases_and_single_blocks() -> None:
    assert Resampling(20, 2, block=3).mean(np.full((1, 2, 20), 7.0)).interval() == (7.0, 7.0, 7.0)
    single = paired_difference([[3.0]], [[1.0]])
    assert single.mean == 2.0
    assert np.isnan(single[1:]).all()
    assert not single.significant
    one_block = Resampling(20, block=20).mean(normal(1, 1, 20))
    assert one_block.degrees_of_freedom == pytest.approx(1)
    assert one_block.interval().high - one_block.interval().low > 20 * one_block.error


def test_a_region_that_a_single_stretch_of_time_knows_has_no_interval() -> None:
    mask, values = np.arange(20) < 3, normal(1, 1, 20)
    assert np.isnan(Resampling(20, block=2).mean(values, mask).interval()[1:]).all()
    assert np.isfinite(Resampling(20, block=2).mean(values, np.arange(20) < 4).interval()).all()
    nothing = Resampling(20).mean(np.ones((1, 1, 20)), np.zeros((1, 1, 20), bool)).interval()
    assert np.isnan(nothing).all()
    assert not nothing.significant


def test_interval_of_a_ratio_covers_the_truth_about_as_often_as_it_says() -> None:
    below = 2 + normal(400, 200)
    above = 1.5 * below + np.random.default_rng(1).normal(size=below.shape)
    resampling = Resampling(200)
    pairs = zip(*(resampling.means(values[:, None, None]) for values in (above, below)), strict=True)
    ratios = [(first / second).interval() for first, second in pairs]
    assert 0.92 <= np.mean([ratio.low <= 1.5 <= ratio.high for ratio in ratios]) <= 0.98


def test_functions_of_means_have_the_error_of_their_slope() -> None:
    first, second = Resampling(80).means(3 + normal(2, 1, 1, 80))
    assert first.applied(np.sqrt).error == pytest.approx(first.error / (2 * math.sqrt(first.estimate)), rel=1e-3)
    product = first * second
    linear = first * second.estimate + second * first.estimate
    assert product.estimate == pytest.approx(first.estimate * second.estimate)
    assert product.error == pytest.approx(linear.error, rel=1e-3)
    assert (-abs(-first)).error == pytest.approx(first.error)
    assert first.relative_to(second).estimate == pytest.approx(100 * (first.estimate / second.estimate - 1))
    with_nothing = first / (second - second)
    assert np.isnan(with_nothing.interval()[1:]).all()


def test_pairs_leave_out_what_is_missing_on_either_side() -> None:
    values, baseline = normal(2, 1, 2, 30)
    values[0, 0, :4], baseline[0, 1, 3:9] = np.nan, np.nan
    mask = np.arange(30) < 20
    resampling = Resampling(30, 2)
    kept = np.isfinite(values - baseline) & mask
    for found, given in zip(resampling.pair(values, baseline, mask), (values, baseline), strict=True):
        assert found.estimate == pytest.approx(given[kept].mean())
        np.testing.assert_allclose(replicates(found), replicates(resampling.mean(given, kept)), rtol=1e-12)
    refuses(ShapeError, r"\(groups, seeds, cases\) = \(1, 2, 30\), got", resampling.pair, values, baseline[:, :1])


def test_weights_count_cases_so_often() -> None:
    values, often = normal(1, 1, 12), np.arange(12) % 3
    found = Resampling(12, block=2).mean(values, often)
    assert found.estimate == pytest.approx(np.repeat(values[0, 0], often).mean())
    assert found.interval() == pytest.approx(Resampling(12, block=2).mean(values, 5.0 * often).interval())


def test_means_of_many_are_those_of_each() -> None:
    resampling = Resampling(30, 2, 2, block=3)
    values = normal(4, 2, 2, 30)
    values[1, 0, 1] = np.nan  # a run that failed
    values[2, :, :, 5:9] = np.nan  # cases outside a region
    for found, each in zip(resampling.means(values), values, strict=True):
        wanted = resampling.mean(each)
        assert found.estimate == pytest.approx(wanted.estimate, abs=1e-12)
        np.testing.assert_allclose(replicates(found), replicates(wanted), atol=1e-12)
