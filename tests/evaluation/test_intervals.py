from typing import Any

import numpy as np
import pytest
import torch

from stakes.errors import SettingError, ShapeError
from stakes.evaluation import intervals as significance
from stakes.evaluation.intervals import Resampling, Sampled, defined_deviation, defined_mean, paired_difference


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for trial in range(200):
        values = torch.randn(1, 300, generator=generator)
        low, high = paired_difference(values, torch.zeros_like(values), resamples=400, seed=trial)[1:]
        covered += low <= 0 <= high
    assert 182 <= covered <= 199


def test_blocks_widen_the_interval_of_dependent_cases() -> None:
    steps = torch.randn(1, 2000, generator=torch.Generator().manual_seed(1)).cumsum(1)
    smooth = steps - steps.mean()
    alone, blocks = (paired_difference(smooth, torch.zeros_like(smooth), block) for block in (1, 100))
    assert blocks.high - blocks.low > 5 * (alone.high - alone.low)


def test_mean_and_significance() -> None:
    baseline = torch.randn(2, 500, generator=torch.Generator().manual_seed(2))
    difference = paired_difference(baseline - 0.5, baseline)
    assert difference.mean == pytest.approx(-0.5)
    assert difference.significant
    assert not paired_difference(baseline, baseline).significant


def test_bad_input_is_named() -> None:
    with pytest.raises(ShapeError, match="one shape"):
        paired_difference(torch.rand(1, 5), torch.rand(2, 5))
    with pytest.raises(SettingError, match="block"):
        paired_difference(torch.rand(1, 5), torch.rand(1, 5), block=6)


def by_brute_force(resampling: Resampling, values: Any, kept: Any) -> Any:
    """The mean of every resample, drawn case by case and seed by seed as often as the counts say."""
    found = []
    for cases, seeds in zip(resampling._counts, resampling._seed_counts, strict=True):
        drawn = []
        for place, times in enumerate(seeds):
            group, seed = divmod(place, resampling.seeds)
            chosen = np.repeat(np.arange(resampling.cases), cases.astype(int))
            chosen = chosen[kept[group, seed, chosen]]
            drawn += int(times) * [values[group, seed, chosen]]
        joined = np.concatenate(drawn)
        found.append(joined.mean() if len(joined) else np.nan)
    return np.array(found)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("seeds", "groups", "block"), [(1, 1, 1), (3, 1, 4), (2, 3, 5)])
def test_mean_equals_brute_force(seeds: int, groups: int, block: int, masked: bool) -> None:
    generator = np.random.default_rng(0)
    resampling = Resampling(23, seeds, groups, block, resamples=40)
    values = generator.normal(size=(groups, seeds, 23))
    values[:, :, 4] = np.nan
    mask = generator.random((groups, 1, 23)) < 0.5 if masked else None
    kept = np.isfinite(values) & (True if mask is None else mask)
    found = resampling.mean(values, mask)
    assert found.estimate == pytest.approx(values[kept].mean())
    np.testing.assert_allclose(found.replicates, by_brute_force(resampling, values, kept), rtol=1e-12)


@pytest.mark.parametrize("block", [1, 4, 23])
def test_every_resample_has_whole_blocks_groups_and_seeds(block: int) -> None:
    resampling = Resampling(23, seeds=3, groups=2, block=block, resamples=50)
    assert (resampling._counts.sum(1) == block * -(-23 // block)).all()
    assert (resampling._seed_counts.sum(1) == 6).all()
    by_group = resampling._seed_counts.reshape(50, 2, 3).sum(-1)
    assert set(np.unique(by_group)) == {0.0, 3.0, 6.0}  # a group is drawn with all its seeds, or not at all
    if block == 23:
        assert (resampling._counts == 1).all()
    if block == 4:  # neighbours of a drawn case are drawn with it
        counts = resampling._counts[0]
        inside = counts > 0
        assert all(inside[place - 1] or inside[(place + 1) % 23] for place in np.flatnonzero(inside))


def test_groups_widen_the_interval_where_they_differ() -> None:
    values = np.random.default_rng(0).normal(size=(3, 2, 100)) + np.array([-1.0, 0.0, 1.0])[:, None, None]
    apart = Resampling(100, 2, 3).mean(values).interval()
    together = Resampling(100, 6, 1).mean(values.reshape(1, 6, 100)).interval()
    assert apart.mean == pytest.approx(together.mean)
    assert apart.high - apart.low > 1.2 * (together.high - together.low)


def test_the_same_object_draws_the_same() -> None:
    values = np.random.default_rng(0).normal(size=(1, 2, 50))
    first, again = (Resampling(50, 2, block=5).mean(values) for _ in range(2))
    other = Resampling(50, 2, block=5, seed=1).mean(values)
    assert np.array_equal(first.replicates, again.replicates)
    assert not np.array_equal(first.replicates, other.replicates)


def test_paired_interval_is_narrower_than_an_unpaired_one() -> None:
    generator = np.random.default_rng(0)
    shared = generator.normal(size=(1, 1, 400))
    better = shared - 0.1 + 0.1 * generator.normal(size=shared.shape)
    one, another = Resampling(400), Resampling(400, seed=1)
    paired = (one.mean(better) - one.mean(shared)).interval()
    unpaired = (one.mean(better) - another.mean(shared)).interval()
    assert paired.mean == pytest.approx(unpaired.mean)
    assert 5 * (paired.high - paired.low) < unpaired.high - unpaired.low
    assert paired.significant
    assert not unpaired.significant


def test_interval_of_a_ratio_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        below = 2 + generator.normal(size=(1, 1, 200))
        above = 1.5 * below + generator.normal(size=below.shape)
        resampling = Resampling(200, resamples=400, seed=trial)
        interval = (resampling.mean(above) / resampling.mean(below)).interval()
        covered += interval.low <= 1.5 <= interval.high
    assert 180 <= covered <= 199


def test_arithmetic_acts_on_estimate_and_replicates() -> None:
    first, second = Sampled(3.0, np.array([2.0, 4.0])), Sampled(-2.0, np.array([-1.0, 0.0]))
    for found, estimate, replicates in (
        (first + second, 1.0, [1.0, 4.0]),
        (first - 1.0, 2.0, [1.0, 3.0]),
        (first * second, -6.0, [-2.0, 0.0]),
        (-first, -3.0, [-2.0, -4.0]),
        (abs(second), 2.0, [1.0, 0.0]),
        (first.relative_to(second), 250.0, [300.0, np.inf]),
    ):
        assert found.estimate == estimate
        assert found.replicates.tolist() == replicates


def test_resamples_without_a_case_are_left_out_of_the_interval() -> None:
    mask = np.zeros((1, 1, 20), bool)
    mask[..., 0] = True
    found = Resampling(20).mean(np.full((1, 1, 20), 7.0), mask)
    assert np.isnan(found.replicates).any()
    assert found.interval() == (7.0, 7.0, 7.0)
    nothing = Resampling(20).mean(np.ones((1, 1, 20)), np.zeros((1, 1, 20), bool)).interval()
    assert np.isnan(nothing).all()
    assert not nothing.significant


def test_bad_resamplings_are_named() -> None:
    with pytest.raises(ShapeError, match="groups, seeds, cases"):
        Resampling(5).mean(np.ones(5))
    with pytest.raises(SettingError, match="resamples be positive"):
        Resampling(5, resamples=0)


def test_resamplings_of_one_shape_share_their_counts() -> None:
    first, second = Resampling(50, 2, block=5), Resampling(50, 3, 2, block=5)
    assert first._counts is second._counts
    assert not first._counts.flags.writeable
    for other in (Resampling(50, block=4), Resampling(50, block=5, seed=1), Resampling(50, block=5, resamples=10)):
        assert other._counts is not first._counts


def test_pairs_leave_out_what_is_missing_on_either_side() -> None:
    values, baseline = np.random.default_rng(0).normal(size=(2, 1, 2, 30))
    values[0, 0, :4], baseline[0, 1, 3:9] = np.nan, np.nan
    mask = np.arange(30) < 20
    resampling = Resampling(30, 2)
    kept = np.isfinite(values - baseline) & mask
    for found, given in zip(resampling.pair(values, baseline, mask), (values, baseline), strict=True):
        assert found.estimate == pytest.approx(given[kept].mean())
        np.testing.assert_allclose(found.replicates, resampling.mean(given, kept).replicates, rtol=1e-12)
    with pytest.raises(ShapeError, match=r"\(groups, seeds, cases\) = \(1, 2, 30\), got \(1, 1, 30\)"):
        resampling.pair(values, baseline[:, :1])


def test_means_and_deviations_of_what_is_finite() -> None:
    values = np.array([[1.0, np.nan, 3.0], [np.nan] * 3, [2.0, np.inf, -np.inf]])
    np.testing.assert_array_equal(defined_mean(values, 1), [2.0, np.nan, 2.0])
    np.testing.assert_array_equal(defined_deviation(values, 1), [1.0, np.nan, 0.0])
    assert defined_mean(values) == 2.0
    whole = np.random.default_rng(0).normal(size=(4, 5))
    np.testing.assert_allclose(defined_mean(whole, 0), whole.mean(0))
    np.testing.assert_allclose(defined_deviation(whole, 0), whole.std(0))


@pytest.mark.parametrize("block", [1, 4, 60, 97])  # counted for the first two, gathered for the last two
@pytest.mark.parametrize("at_once", [1, 97 * 7, 97 * 1000])
def test_too_many_counts_to_keep_give_the_same(monkeypatch: pytest.MonkeyPatch, block: int, at_once: int) -> None:
    resampling = Resampling(97, 3, 2, block=block, resamples=50)
    values = np.random.default_rng(0).normal(size=(3, 2, 3, 97))
    values[1, 0, 1, :5] = np.nan
    kept = resampling.means(values)
    monkeypatch.setattr(significance, "_KEPT", 0)
    monkeypatch.setattr(significance, "_AT_ONCE", at_once)
    for found, wanted in zip(resampling.means(values), kept, strict=True):
        assert found.estimate == wanted.estimate
        np.testing.assert_allclose(found.replicates, wanted.replicates, rtol=1e-10, atol=1e-12)


def test_many_cases_need_no_counts_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cases, most = 60_000, 0

    def counted(chosen: Any, size: int) -> Any:
        nonlocal most
        most = max(most, len(chosen) * size)
        return original(chosen, size)

    original = significance._counted
    monkeypatch.setattr(significance, "_counted", counted)
    found = Resampling(cases, resamples=400).mean(np.random.default_rng(0).normal(size=(1, 1, cases)))
    assert 0 < most <= 1 << 22
    assert found.replicates.std() == pytest.approx(cases**-0.5, rel=0.15)


def test_means_of_many_are_those_of_each() -> None:
    resampling = Resampling(30, 2, 2, block=3, resamples=200)
    values = np.random.default_rng(0).normal(size=(4, 2, 2, 30))
    values[1, 0, 1] = np.nan  # a run that failed
    values[2, :, :, 5:9] = np.nan  # cases outside a region
    for found, each in zip(resampling.means(values), values, strict=True):
        wanted = resampling.mean(each)
        assert found.estimate == pytest.approx(wanted.estimate, abs=1e-12)
        np.testing.assert_allclose(found.replicates, wanted.replicates, atol=1e-12)
